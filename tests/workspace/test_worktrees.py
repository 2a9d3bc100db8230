"""Worktrees of sessions: making them, what they begin with, dropping, recovering, keeping and pruning them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from dragoman.config import Config
from dragoman.document import Table
from dragoman.errors import ConfigError, InputError, WorktreeError
from dragoman.protocol.worktrees import WorktreeChoice
from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry
from dragoman.workspace.worktree_store import (
    WorktreeRecord,
    WorktreeStore,
    check_name,
    name_from_prompt,
    worktree_settings,
)
from workspace.folder_state import digest, folder_state, run_git
from workspace.worktree_stage import Stage, commit_all, make_repository


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def tracked_state(folder: Path) -> dict[bytes, tuple[str, bytes]]:
    return {path: content for path, content in folder_state(folder).items() if path != b".git"}


# -- making


async def test_a_worktree_has_a_folder_and_a_branch_of_its_own_and_the_checkout_stays(stage: Stage) -> None:
    (stage.repository / "file.txt").write_text("dirty\n")
    before = folder_state(stage.repository)
    made = await stage.worktrees.create(stage.repository, prompt="Add retries: now!\nand more")
    assert made.info.name == "add-retries-now"
    assert made.info.branch == "dragoman/add-retries-now"
    assert made.info.base_ref == "main"
    assert made.info.state == "ready"
    assert run_git(made.folder, "branch", "--show-current").strip() == "dragoman/add-retries-now"
    assert (made.folder / "file.txt").read_text().startswith("line 1\n")
    assert folder_state(stage.repository) == before
    assert run_git(stage.repository, "branch", "--show-current").strip() == "main"


async def test_a_session_in_a_subfolder_works_in_the_same_subfolder(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository / "sub")
    assert made.cwd == made.folder / "sub"
    (stage.repository / "untracked").mkdir()
    with pytest.raises(WorktreeError, match="untracked is not in the worktree"):
        await stage.worktrees.create(stage.repository / "untracked")
    assert [info.id for info in await stage.worktrees.list_worktrees()] == [made.info.id]


async def test_two_worktrees_with_the_same_words_get_two_names(stage: Stage) -> None:
    first = await stage.worktrees.create(stage.repository, prompt="Fix it")
    second, third = await asyncio.gather(
        stage.worktrees.create(stage.repository, prompt="Fix it"),
        stage.worktrees.create(stage.repository, prompt="Fix it"),
    )
    assert sorted([first.name, second.name, third.name]) == ["fix-it", "fix-it-2", "fix-it-3"]
    (first.folder / "file.txt").write_text("first\n")
    assert (second.folder / "file.txt").read_text().startswith("line 1\n")


async def test_a_name_that_exists_is_that_worktree_again(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine"), session_id="one")
    (made.folder / "new.txt").write_text("new")
    again = await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine"), session_id="two")
    assert again.folder == made.folder
    assert again.info.session_ids == ("one", "two")
    with pytest.raises(InputError, match="its base and setup cannot be chosen again"):
        await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine", base="main"))


async def test_the_base_is_any_branch_or_commit(stage: Stage) -> None:
    first = run_git(stage.repository, "rev-parse", "HEAD").strip()
    run_git(stage.repository, "checkout", "--quiet", "-b", "feature")
    (stage.repository / "feature.txt").write_text("feature\n")
    feature = commit_all(stage.repository, "feature")
    run_git(stage.repository, "checkout", "--quiet", "main")
    of_branch = await stage.worktrees.create(stage.repository, WorktreeChoice(base="feature"))
    assert (of_branch.info.base_ref, of_branch.info.base_commit) == ("feature", feature)
    assert (of_branch.folder / "feature.txt").exists()
    of_commit = await stage.worktrees.create(stage.repository, WorktreeChoice(base=first))
    assert (of_commit.info.base_ref, of_commit.info.base_commit) == (None, first)


@pytest.mark.parametrize("base", ["-x", "--upload-pack=touch x", "nothing", "main..feature", "", "main:file.txt"])
async def test_a_base_that_is_no_commit_is_refused(stage: Stage, base: str) -> None:
    with pytest.raises(InputError, match="is no branch or commit"):
        await stage.worktrees.create(stage.repository, WorktreeChoice(base=base))
    assert await stage.worktrees.list_worktrees() == ()


@pytest.mark.parametrize(
    "name", ["", "-x", "../x", "a/b", "a..b", "x.lock", "a b", "ä", ".git", "x" * 49, "a\nb", "a\x1b[31m", "HEAD~1"]
)
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name of a worktree"):
        check_name(name)


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("Add retries", "add-retries"),
        ("\n\n  Überprüfe die Größe!", "uberprufe-die-groe"),
        ("../../etc/passwd; rm -rf /", "etc-passwd-rm-rf"),
        ("修复", "work"),
        ("", "work"),
        ("a" * 500, "a" * 32),
    ],
)
def test_names_are_made_from_the_first_words_of_a_prompt(prompt: str, name: str) -> None:
    assert name_from_prompt(prompt) == name
    check_name(name)


async def test_folders_that_cannot_have_worktrees_are_refused_with_the_reason(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(InputError, match="is in no git repository"):
        await stage.worktrees.create(tmp_path / "plain")
    (tmp_path / "empty").mkdir()
    run_git(tmp_path / "empty", "init", "--quiet")
    with pytest.raises(InputError, match="has no commit yet"):
        await stage.worktrees.create(tmp_path / "empty")
    run_git(tmp_path, "clone", "--quiet", "--bare", str(stage.repository), "bare.git")
    with pytest.raises(InputError, match="bare repository"):
        await stage.worktrees.create(tmp_path / "bare.git")
    with pytest.raises(InputError, match="bare repository, or in the folder of git's own files"):
        await stage.worktrees.create(stage.repository / ".git")


async def test_a_worktree_can_be_made_from_a_worktree(stage: Stage) -> None:
    first = await stage.worktrees.create(stage.repository, prompt="first")
    (first.folder / "more.txt").write_text("more\n")
    commit_all(first.folder, "more")
    second = await stage.worktrees.create(first.folder, prompt="second")
    assert second.info.base_ref == "dragoman/first"
    assert second.info.checkout == str(first.folder)
    assert (second.folder / "more.txt").exists()


async def test_a_repository_with_submodules_is_refused_unless_a_setup_command_fills_them(
    stage: Stage, tmp_path: Path
) -> None:
    other = make_repository(tmp_path / "library")
    run_git(stage.repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "lib")
    commit_all(stage.repository, "submodule")
    with pytest.raises(WorktreeError, match=r"submodules \(lib\)") as caught:
        await stage.worktrees.create(stage.repository)
    assert "git submodule update --init" in (caught.value.guidance or "")
    setup = "git -c protocol.file.allow=always submodule --quiet update --init"
    made = await stage.worktrees.create(stage.repository, WorktreeChoice(setup=setup))
    assert (made.folder / "lib" / "file.txt").exists()
    await made.drop(recoverable=False)
    assert not made.folder.exists()


async def test_pointers_of_git_lfs_are_reported(stage: Stage) -> None:
    (stage.repository / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (stage.repository / "data.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    commit_all(stage.repository, "lfs")
    lines: list[str] = []
    await stage.worktrees.create(stage.repository, on_progress=lines.append)
    assert any("pointers" in line for line in lines)


# -- ignored files, setup


async def test_ignored_files_are_copied_only_where_the_list_names_them(stage: Stage, tmp_path: Path) -> None:
    repository = stage.repository
    (repository / ".worktreeinclude").write_text(".env\n*.log\nfile.txt\nuntracked.txt\nlink.log\nsub/*.log\n")
    (repository / ".env").write_text("KEY=1\n")
    (repository / "build.log").write_text("log\n")
    (repository / "sub" / "deep.log").write_text("deep\n")
    (repository / "sub" / "deep.log").chmod(0o755)
    (repository / "untracked.txt").write_text("not ignored\n")
    (tmp_path / "secret").write_text("secret")
    (repository / "link.log").symlink_to(tmp_path / "secret")
    (repository / "file.txt").write_text("changed\n")
    lines: list[str] = []
    made = await stage.worktrees.create(repository, on_progress=lines.append)
    assert (made.folder / ".env").read_text() == "KEY=1\n"
    assert (made.folder / "build.log").read_text() == "log\n"
    assert os.access(made.folder / "sub" / "deep.log", os.X_OK)
    assert not (made.folder / "untracked.txt").exists()
    assert "link.log" not in os.listdir(made.folder)
    assert (made.folder / "file.txt").read_text().startswith("line 1\n")
    assert "copied 3 ignored files (.worktreeinclude)" in lines
    assert "not copied: link.log (no regular file)" in lines


async def test_copies_lead_through_no_link_and_stay_within_their_limit(stage: Stage, tmp_path: Path) -> None:
    repository = stage.repository
    (tmp_path / "outside").mkdir()
    (repository / "conf").symlink_to(tmp_path / "outside")
    base = commit_all(repository, "conf is a link")
    (repository / "conf").unlink()
    (repository / "conf").mkdir()
    (repository / "conf" / "a.log").write_text("a" * 10)
    (repository / "big.log").write_text("b" * 2000)
    (repository / ".worktreeinclude").write_text("*.log\n")
    lines: list[str] = []
    worktrees = stage.reopened(copied_bytes=1000)
    made = await worktrees.create(repository, WorktreeChoice(base=base), on_progress=lines.append)
    assert list((tmp_path / "outside").iterdir()) == []
    assert not (made.folder / "big.log").exists()
    assert any(line.startswith("not copied: big.log (2,000 bytes") for line in lines)
    assert any(line.startswith("not copied: conf/a.log") for line in lines)


async def test_a_list_of_files_that_is_a_link_is_not_read(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "patterns").write_text(".env\n")
    (stage.repository / ".env").write_text("KEY=1\n")
    (stage.repository / ".worktreeinclude").symlink_to(tmp_path / "patterns")
    made = await stage.worktrees.create(stage.repository)
    assert not (made.folder / ".env").exists()


async def test_the_setup_command_runs_in_the_worktree_with_its_output_as_progress(stage: Stage) -> None:
    lines: list[str] = []
    setup = 'echo "in $PWD"; echo from "$DRAGOMAN_CHECKOUT" >&2; echo made > made.txt'
    made = await stage.worktrees.create(stage.repository, WorktreeChoice(setup=setup), on_progress=lines.append)
    assert f"in {made.folder}" in lines
    assert f"from {stage.repository}" in lines
    assert (await made.changes()).count == 0, "what the setup makes is no change of the agent's"


async def test_the_configured_setup_may_be_that_of_the_repository_alone(stage: Stage) -> None:
    worktrees = stage.reopened(setup="touch general", setups={stage.repository: "touch special"})
    made = await worktrees.create(stage.repository)
    assert (made.folder / "special").exists()
    assert not (made.folder / "general").exists()
    without = await worktrees.create(stage.repository, WorktreeChoice(setup=""))
    assert not (without.folder / "special").exists()


async def test_a_setup_command_that_fails_says_what_it_printed_and_leaves_nothing(stage: Stage) -> None:
    choice = WorktreeChoice(name="broken", setup="echo no such thing; exit 3")
    with pytest.raises(WorktreeError, match="failed with exit code 3") as caught:
        await stage.worktrees.create(stage.repository, choice)
    assert "no such thing" in str(caught.value)
    assert await stage.worktrees.list_worktrees() == ()
    assert run_git(stage.repository, "worktree", "list").count("\n") == 1
    assert "dragoman" not in run_git(stage.repository, "branch")
    assert not any(stage.settings.folder.rglob("*"))


async def test_a_worktree_whose_setup_failed_is_kept_on_request(stage: Stage) -> None:
    choice = WorktreeChoice(name="broken", setup="touch half; exit 3", keep_failed=True)
    with pytest.raises(WorktreeError, match="exit code 3") as caught:
        await stage.worktrees.create(stage.repository, choice)
    assert "The worktree is kept" in (caught.value.guidance or "")
    assert ((await stage.worktrees.find("broken")).folder / "half").exists()


async def test_a_setup_command_over_its_time_is_ended(stage: Stage) -> None:
    worktrees = stage.reopened(setup_timeout_s=0.2)
    with pytest.raises(WorktreeError, match=r"took longer than 0\.2 seconds"):
        await worktrees.create(stage.repository, WorktreeChoice(setup="sleep 1000"))


async def test_nothing_of_the_repository_runs_at_setup(stage: Stage, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for name in (".worktreesetup", "setup.sh", ".dragoman/setup", "Makefile"):
        path = stage.repository / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {ran}\n")
        path.chmod(0o755)
    commit_all(stage.repository, "planted")
    await stage.worktrees.create(stage.repository)
    assert not ran.exists()


async def test_a_slow_setup_does_not_keep_others_from_making_worktrees(stage: Stage) -> None:
    started, fifo = asyncio.Event(), stage.home.parent / "go"
    os.mkfifo(fifo)

    def on_progress(line: str) -> None:
        if line == "ready":
            started.set()

    choice = WorktreeChoice(name="slow", setup=f"echo ready; cat {fifo}")
    slow = asyncio.create_task(stage.worktrees.create(stage.repository, choice, on_progress=on_progress))
    await started.wait()
    quick = await stage.worktrees.create(stage.repository, prompt="quick")
    assert quick.info.state == "ready"
    assert await stage.worktrees.prune() == (), "what is being made is no leftover"
    with pytest.raises(WorktreeError, match="is being made by another process"):
        await stage.worktrees.create(stage.repository, WorktreeChoice(name="slow"))
    await asyncio.to_thread(fifo.write_text, "")
    assert (await slow).info.state == "ready"


async def test_a_worktree_without_its_folder_is_not_dropped_with_its_commits(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, prompt="x")
    (made.folder / "new.txt").write_text("new\n")
    tip = commit_all(made.folder, "new")
    made.folder.rename(stage.home.parent / "moved")
    with pytest.raises(WorktreeError, match="is gone"):
        await made.drop()
    assert run_git(stage.repository, "rev-parse", "dragoman/x").strip() == tip


async def test_a_cancelled_creation_leaves_nothing(stage: Stage) -> None:
    started = asyncio.Event()
    fifo = stage.home.parent / "go"
    os.mkfifo(fifo)

    def on_progress(line: str) -> None:
        if line == "ready":
            started.set()

    setup = f"echo ready; cat {fifo}"
    task = asyncio.create_task(
        stage.worktrees.create(stage.repository, WorktreeChoice(setup=setup), on_progress=on_progress)
    )
    await started.wait()
    task.cancel()
    await asyncio.sleep(0)
    await asyncio.to_thread(fifo.write_text, "")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await stage.worktrees.list_worktrees() == ()
    assert "dragoman" not in run_git(stage.repository, "branch")


# -- settings


def test_settings_are_read_from_the_table_and_checked(tmp_path: Path) -> None:
    home = tmp_path / ".dragoman"
    settings = worktree_settings(Config(home=home))
    assert settings.folder == tmp_path / ".dragoman-worktrees"
    table: Table = {"folder": str(tmp_path / "x"), "branch_prefix": "agents/", "setup": "make"}
    table["setups"] = {"/repo": "npm ci"}
    settings = worktree_settings(Config(home=home, worktrees=table))
    assert (settings.folder, settings.branch_prefix, settings.setup) == (tmp_path / "x", "agents/", "make")
    assert settings.setups == {Path("/repo"): "npm ci"}
    wrong_tables: tuple[Table, ...] = (
        {"folder": "relative"},
        {"branch_prefix": "-x"},
        {"branch_prefix": "a..b/"},
        {"stup": "x"},
    )
    for wrong in wrong_tables:
        with pytest.raises(ConfigError, match="worktrees"):
            worktree_settings(Config(home=home, worktrees=wrong))


# -- dropping and recovering


def odd_files(folder: Path) -> None:
    """Change and add files of all kinds."""
    (folder / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    (folder / "binary").write_bytes(bytes(range(256)) * 10)
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o755)
    (folder / "link").symlink_to("nowhere/else")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9\n\x1b[31m")).write_text("odd name")
    (folder / "other.txt").rename(folder / "renamed.txt")
    (folder / "sub" / "inner.txt").unlink()
    (folder / "empty").write_text("")


async def test_a_dropped_worktree_is_gone_and_comes_back_with_files_and_commits(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, prompt="Drop me", session_id="s")
    (made.folder / "committed.txt").write_text("committed\n")
    tip = commit_all(made.folder, "a commit")
    odd_files(made.folder)
    before = tracked_state(made.folder)
    info = await made.drop()
    assert info.state == "dropped"
    assert info.expires_at == stage.now + 30 * 86_400
    assert not made.folder.exists()
    assert "dragoman" not in run_git(stage.repository, "branch")
    assert run_git(stage.repository, "worktree", "list").count("\n") == 1
    run_git(stage.repository, "reflog", "expire", "--expire=now", "--all")
    run_git(stage.repository, "gc", "--quiet", "--prune=now")
    with pytest.raises(InputError, match="was dropped") as caught:
        await stage.worktrees.find("drop-me")
    assert "recover drop-me" in (caught.value.guidance or "")
    back = await stage.worktrees.recover("drop-me")
    assert tracked_state(back.folder) == before
    assert run_git(back.folder, "rev-parse", "HEAD").strip() == tip
    assert run_git(back.folder, "branch", "--show-current").strip() == "dragoman/drop-me"
    assert back.info.session_ids == ("s",)
    assert await stage.worktrees.list_worktrees(dropped=True) == ()
    plan = await back.apply()
    assert "committed.txt" in [change.path for change in plan.changes]


async def test_a_dropped_worktree_expires(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, prompt="Drop me")
    (made.folder / "new.txt").write_text("new\n")
    commit_all(made.folder, "new")
    await made.drop()
    stage.now += 31 * 86_400
    assert await stage.worktrees.list_worktrees(dropped=True) == ()
    (leftover,) = await stage.worktrees.prune(remove=True)
    assert leftover.kind == "expired drop"
    assert list((stage.home / "worktrees").rglob("*.bundle")) == []
    with pytest.raises(InputError, match="no dropped worktree"):
        await stage.worktrees.recover("drop-me")


async def test_what_could_not_be_recovered_is_not_dropped(stage: Stage) -> None:
    worktrees = stage.reopened(max_file_bytes=1000)
    made = await worktrees.create(stage.repository)
    (made.folder / "large").write_bytes(b"x" * 2000)
    with pytest.raises(WorktreeError, match="could not be recovered") as caught:
        await made.drop()
    assert "large" in str(caught.value)
    assert made.folder.exists()
    await made.drop(force=True)
    assert not made.folder.exists()


async def test_nothing_is_dropped_while_a_run_is_active_there(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    store = CheckpointStore(stage.home, made.folder / "sub", max_file_bytes=10**6)
    store.take([LogEntry(at=1.0, session_id="busy", run_id="r", moment="before", tree="")])
    with pytest.raises(WorktreeError, match="an agent is at work there"):
        await made.drop()
    store.take([LogEntry(at=2.0, session_id="busy", run_id="r", moment="after", tree="")])
    await made.drop()


async def test_a_planted_git_file_is_not_followed(stage: Stage, tmp_path: Path) -> None:
    victim = make_repository(tmp_path / "victim")
    before = digest(victim)
    made = await stage.worktrees.create(stage.repository, prompt="x")
    (made.folder / "mine.txt").write_text("mine\n")
    (made.folder / ".git").write_text(f"gitdir: {victim / '.git'}\n")
    changes = await made.changes()
    assert [file.path for file in changes.files] == ["mine.txt"]
    assert (await made.merge(commit="mine")).is_done
    await made.drop()
    assert digest(victim) == before
    assert run_git(stage.repository, "log", "-1", "--format=%s").strip() == "mine"


async def test_a_planted_repository_runs_no_hook(stage: Stage, tmp_path: Path) -> None:
    made = await stage.worktrees.create(stage.repository, prompt="x")
    (made.folder / "mine.txt").write_text("mine\n")
    planted = make_repository(tmp_path / "planted") / ".git"
    (planted / "hooks").mkdir(exist_ok=True)
    for hook in ("pre-commit", "post-commit", "post-checkout", "reference-transaction"):
        (planted / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
        (planted / "hooks" / hook).chmod(0o755)
    (stage.repository / ".git" / "worktrees" / "x" / "commondir").write_text(f"{planted}\n")
    assert (await made.merge(commit="mine")).is_done
    await made.drop()
    assert not (tmp_path / "ran").exists()


async def test_a_folder_swapped_for_a_link_is_not_removed_through_it(stage: Stage, tmp_path: Path) -> None:
    made = await stage.worktrees.create(stage.repository, prompt="x")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("precious")
    made.folder.rename(tmp_path / "moved")
    made.folder.symlink_to(tmp_path / "precious")
    await made.drop(recoverable=False)
    assert (tmp_path / "precious" / "file").read_text() == "precious"
    assert not made.folder.is_symlink()


async def test_a_worktree_whose_folder_became_a_link_is_pruned_without_following_it(
    stage: Stage, tmp_path: Path
) -> None:
    made = await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine"))
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("precious")
    made.folder.rename(tmp_path / "moved")
    made.folder.symlink_to(tmp_path / "precious")
    assert made.info.is_missing
    with pytest.raises(WorktreeError, match="is gone"):
        await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine"))
    assert [left.kind for left in await stage.worktrees.prune(remove=True)] == ["record without a folder"]
    assert await stage.worktrees.prune() == ()
    assert (tmp_path / "precious" / "file").read_text() == "precious"


async def test_a_record_that_names_another_folder_removes_nothing(stage: Stage, tmp_path: Path) -> None:
    made = await stage.worktrees.create(stage.repository, prompt="x")
    (tmp_path / "precious").mkdir()
    store = WorktreeStore(stage.settings)
    store.write(msgspec.structs.replace(store.find("x"), folder=str(tmp_path / "precious")))
    with pytest.raises(WorktreeError, match="is left as it is"):
        await (await stage.worktrees.find("x")).drop(recoverable=False)
    assert (tmp_path / "precious").exists()
    assert made.folder.exists()


async def test_a_kept_worktree_is_the_users(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, prompt="Keep me")
    await made.keep()
    assert await stage.worktrees.list_worktrees() == ()
    assert made.folder.exists()
    assert "dragoman/keep-me" in run_git(stage.repository, "branch")


async def test_a_kept_worktree_is_no_leftover_until_another_one_has_its_name(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine"))
    (made.folder / "new.txt").write_text("new\n")
    await made.keep()
    assert await stage.worktrees.prune(remove=True) == ()
    assert (made.folder / "new.txt").exists()
    run_git(stage.repository, "worktree", "remove", "--force", str(made.folder))
    run_git(stage.repository, "branch", "-D", "dragoman/mine")
    await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine"))
    store = WorktreeStore(stage.settings)
    store.remove(store.find("mine"))
    assert [(left.kind, left.name) for left in await stage.worktrees.prune()] == [("folder without a record", "mine")]


async def test_nothing_is_recovered_over_a_folder_that_is_there_again(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine"))
    (made.folder / "new.txt").write_text("new\n")
    await made.drop()
    made.folder.mkdir(parents=True)
    (made.folder / "precious").write_text("precious")
    with pytest.raises(WorktreeError, match="exists already"):
        await stage.worktrees.recover("mine")
    assert (made.folder / "precious").read_text() == "precious"
    (made.folder / "precious").unlink()
    made.folder.rmdir()
    assert ((await stage.worktrees.recover("mine")).folder / "new.txt").exists()


async def test_nothing_is_removed_through_a_link_in_the_place_of_gits_folder(stage: Stage, tmp_path: Path) -> None:
    made = await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine"))
    (tmp_path / "precious" / "mine").mkdir(parents=True)
    (stage.repository / ".git" / "worktrees").rename(tmp_path / "moved")
    (stage.repository / ".git" / "worktrees").symlink_to(tmp_path / "precious")
    await made.drop(recoverable=False)
    assert (tmp_path / "precious" / "mine").exists()


# -- leftovers


async def test_there_is_nothing_to_prune_beside_worktrees_in_use(stage: Stage) -> None:
    await stage.worktrees.create(stage.repository)
    assert await stage.worktrees.prune() == ()


async def test_leftovers_are_found_and_removed(stage: Stage) -> None:
    store = WorktreeStore(stage.settings)
    gone = await stage.worktrees.create(stage.repository, prompt="gone")
    with_commits = await stage.worktrees.create(stage.repository, prompt="with commits")
    (with_commits.folder / "new.txt").write_text("new\n")
    commit_all(with_commits.folder, "new")
    lost_record = await stage.worktrees.create(stage.repository, prompt="lost record")
    (lost_record.folder / "unsaved.txt").write_text("unsaved\n")
    unfinished = await stage.worktrees.create(stage.repository, prompt="unfinished")
    for folder in (gone.folder, with_commits.folder):
        folder.rename(stage.home.parent / f"moved-{folder.name}")
    store.remove(store.find("lost-record"))
    store.write(msgspec.structs.replace(store.find("unfinished"), state="creating", pid=os.getpid(), pid_started=1))
    run_git(stage.repository, "branch", "dragoman/lost-branch")
    found = {leftover.name: leftover.kind for leftover in await stage.worktrees.prune()}
    assert found == {
        "gone": "record without a folder",
        "with-commits": "record without a folder",
        "lost-record": "folder without a record",
        "unfinished": "unfinished worktree",
        "dragoman/lost-branch": "branch without a worktree",
    }
    await stage.worktrees.prune(remove=True)
    branches = run_git(stage.repository, "branch", "--format=%(refname:short)").split()
    assert branches == ["dragoman/with-commits", "main"], "commits that nobody else has are not deleted"
    assert not unfinished.folder.exists()
    assert await stage.worktrees.list_worktrees() == ()
    back = await stage.worktrees.recover("lost-record")
    assert (back.folder / "unsaved.txt").read_text() == "unsaved\n"
    (left,) = await stage.worktrees.prune()
    assert left.note == "it has commits that no other branch has: delete it yourself"


async def test_commits_of_a_folder_without_a_record_are_saved_too(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, prompt="lost")
    (made.folder / "new.txt").write_text("new\n")
    tip = commit_all(made.folder, "new")
    store = WorktreeStore(stage.settings)
    store.remove(store.find("lost"))
    await stage.worktrees.prune(remove=True)
    assert "dragoman" not in run_git(stage.repository, "branch")
    run_git(stage.repository, "reflog", "expire", "--expire=now", "--all")
    run_git(stage.repository, "gc", "--quiet", "--prune=now")
    back = await stage.worktrees.recover("lost")
    assert run_git(back.folder, "rev-parse", "HEAD").strip() == tip


async def test_a_folder_that_is_no_work_tree_is_left_to_the_user(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, prompt="x")
    stranger = made.folder.parent / "notes"
    stranger.mkdir()
    (stranger / "todo").write_text("todo")
    (left,) = await stage.worktrees.prune(remove=True)
    assert (left.name, left.is_removed) == ("notes", False)
    assert (stranger / "todo").exists()


def test_a_record_survives_reading_and_writing(stage: Stage) -> None:
    record = WorktreeRecord(
        key="k",
        name="n",
        state="ready",
        git_dir="/g",
        checkout="/c",
        folder="/f",
        branch="b",
        base_ref=None,
        base_commit="0" * 40,
        created_at=1.0,
        changed_at=2.0,
    )
    store = WorktreeStore(stage.settings)
    store.write(record)
    assert store.read("k", "n") == record
    assert store.find("k:n") == record
