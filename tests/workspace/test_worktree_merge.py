"""Bringing the work of a worktree to the user: apply and its undo, merge, conflicts; what stays untouched."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import InputError, WorktreeError
from dragoman.protocol.worktrees import WorktreeChoice
from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry
from workspace.folder_state import digest, folder_state, run_git
from workspace.test_worktrees import odd_files, tracked_state
from workspace.worktree_stage import Stage, commit_all, make_repository


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def change_line(path: Path, number: int, text: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    lines[number - 1] = f"{text}\n"
    path.write_text("".join(lines))


# -- applying


async def test_changes_of_both_sides_are_kept_and_git_notices_nothing(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    change_line(made.folder / "file.txt", 3, "theirs")
    (made.folder / "committed.txt").write_text("committed\n")
    commit_all(made.folder, "a commit")
    (made.folder / "untracked.txt").write_text("untracked\n")
    change_line(stage.repository / "file.txt", 18, "ours")
    (stage.repository / "mine.txt").write_text("mine\n")
    before = digest(stage.repository / ".git")
    plan = await made.apply()
    assert [(change.path, change.action) for change in plan.changes] == [
        ("committed.txt", "create"),
        ("file.txt", "overwrite"),
        ("untracked.txt", "create"),
    ]
    assert not (stage.repository / "committed.txt").exists(), "a plan changes nothing"
    done = await made.apply(plan)
    assert done.is_done
    assert done.worktree.state == "applied"
    text = (stage.repository / "file.txt").read_text()
    assert "theirs\n" in text
    assert "ours\n" in text
    assert (stage.repository / "mine.txt").read_text() == "mine\n"
    assert digest(stage.repository / ".git") == before


async def test_every_kind_of_file_arrives_byte_for_byte_and_undo_takes_it_back(stage: Stage) -> None:
    before = folder_state(stage.repository)
    made = await stage.worktrees.create(stage.repository)
    odd_files(made.folder)
    await made.apply(await made.apply())
    assert folder_state(stage.repository) == tracked_state(made.folder)
    done = await made.apply(await made.apply(undo=True))
    assert folder_state(stage.repository) == before
    assert done.worktree.state == "ready"


async def test_line_ends_that_git_converts_arrive_as_git_writes_them(stage: Stage) -> None:
    (stage.repository / ".gitattributes").write_text("*.crlf text eol=crlf\n")
    (stage.repository / "dos.crlf").write_bytes(b"a\r\nb\r\n")
    commit_all(stage.repository, "attributes")
    run_git(stage.repository, "rm", "--quiet", "--cached", "dos.crlf")
    run_git(stage.repository, "reset", "--quiet", "--hard")
    made = await stage.worktrees.create(stage.repository)
    assert (made.folder / "dos.crlf").read_bytes() == b"a\r\nb\r\n"
    (made.folder / "dos.crlf").write_bytes(b"a\r\nb\r\nc\r\n")
    await made.apply(await made.apply())
    assert (stage.repository / "dos.crlf").read_bytes() == b"a\r\nb\r\nc\r\n"
    run_git(stage.repository, "checkout", "--quiet", "dos.crlf")
    await made.merge(commit="c")
    assert (stage.repository / "dos.crlf").read_bytes() == b"a\r\nb\r\nc\r\n"
    assert run_git(stage.repository, "status", "--porcelain") == ""


async def test_conflicts_are_listed_and_nothing_is_changed(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    change_line(made.folder / "file.txt", 3, "theirs")
    (made.folder / "new.txt").write_text("new\n")
    change_line(stage.repository / "file.txt", 3, "ours")
    before = folder_state(stage.repository)
    plan = await made.apply()
    assert plan.conflicts == ("file.txt",)
    assert plan.changes == ()
    with pytest.raises(WorktreeError, match="changed the same lines"):
        await made.apply(plan)
    assert folder_state(stage.repository) == before


async def test_a_plan_is_refused_when_either_side_has_changed_since(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    plan = await made.apply()
    (stage.repository / "other.txt").write_text("mine\n")
    with pytest.raises(WorktreeError, match="changed since it was shown"):
        await made.apply(plan)
    plan = await made.apply()
    (made.folder / "new.txt").write_text("newer\n")
    with pytest.raises(WorktreeError, match="changed since it was shown"):
        await made.apply(plan)
    assert not (stage.repository / "new.txt").exists()


async def test_applying_again_brings_only_what_is_new(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    change_line(made.folder / "file.txt", 3, "first")
    await made.apply(await made.apply())
    plan = await made.apply()
    assert plan.changes == ()
    change_line(made.folder / "file.txt", 3, "second")
    change_line(stage.repository / "file.txt", 18, "ours")
    plan = await made.apply()
    assert plan.conflicts == ()
    await made.apply(plan)
    text = (stage.repository / "file.txt").read_text()
    assert "second\n" in text
    assert "ours\n" in text


async def test_undo_keeps_what_was_changed_since(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    change_line(made.folder / "file.txt", 3, "theirs")
    (made.folder / "new.txt").write_text("new\n")
    await made.apply(await made.apply())
    change_line(stage.repository / "file.txt", 18, "later")
    (stage.repository / "mine.txt").write_text("mine\n")
    await made.apply(await made.apply(undo=True))
    text = (stage.repository / "file.txt").read_text()
    assert "theirs\n" not in text
    assert "later\n" in text
    assert (stage.repository / "mine.txt").exists()
    assert not (stage.repository / "new.txt").exists()
    with pytest.raises(InputError, match="nothing of the worktree"):
        await made.apply(undo=True)


async def test_an_ignored_file_of_the_checkout_is_never_overwritten(stage: Stage) -> None:
    (stage.repository / "out.log").write_text("precious\n")
    (stage.repository / "same.log").write_text("same\n")
    made = await stage.worktrees.create(stage.repository)
    (made.folder / ".gitignore").write_text(".env\n")
    (made.folder / "out.log").write_text("theirs\n")
    (made.folder / "same.log").write_text("same\n")
    for _ in range(2):
        plan = await made.apply()
        assert plan.conflicts == ("out.log",)
    (stage.repository / "out.log").unlink()
    await made.apply(await made.apply())
    assert (stage.repository / "out.log").read_text() == "theirs\n"
    undo = await made.apply(undo=True)
    assert undo.left_paths == ("out.log",), "before, git ignored it: nobody knows that it was not there"
    await made.apply(undo)
    assert (stage.repository / "same.log").read_text() == "same\n"


async def test_a_file_that_no_checkpoint_can_hold_is_left_and_not_deleted(stage: Stage) -> None:
    worktrees = stage.reopened(max_file_bytes=1000)
    made = await worktrees.create(stage.repository)
    (made.folder / "file.txt").write_bytes(b"x" * 2000)
    (made.folder / "new.txt").write_text("new\n")
    plan = await made.apply()
    assert [change.path for change in plan.changes] == ["new.txt"]
    assert plan.left_paths == ("file.txt",)
    await made.apply(plan)
    assert (stage.repository / "file.txt").exists()


async def test_nothing_is_applied_or_merged_while_a_run_is_active_in_either_folder(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    for folder in (made.folder, stage.repository, stage.repository / "sub"):
        store = CheckpointStore(stage.home, folder, max_file_bytes=10**6)
        store.take([LogEntry(at=1.0, session_id="busy", run_id="r", moment="before", tree="")])
        plan = await made.apply()
        assert [run.session_id for run in plan.active_runs] == ["busy"]
        with pytest.raises(WorktreeError, match="an agent is at work"):
            await made.apply(plan)
        with pytest.raises(WorktreeError, match="an agent is at work"):
            await made.merge(commit="new")
        store.take([LogEntry(at=2.0, session_id="busy", run_id="r", moment="after", tree="")])
    assert not (stage.repository / "new.txt").exists()


async def test_a_link_that_an_agent_left_is_not_followed(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "inner.txt").write_text("outside\n")
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "sub" / "inner.txt").write_text("theirs\n")
    (made.folder / "sub" / "more.txt").write_text("more\n")
    plan = await made.apply()
    (stage.repository / "sub" / "inner.txt").unlink()
    (stage.repository / "sub").rmdir()
    (stage.repository / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(WorktreeError):
        await made.apply(plan)
    assert os.listdir(tmp_path / "outside") == ["inner.txt"]
    assert (tmp_path / "outside" / "inner.txt").read_text() == "outside\n"


async def test_two_worktrees_are_applied_one_after_the_other(stage: Stage) -> None:
    first = await stage.worktrees.create(stage.repository)
    second = await stage.worktrees.create(stage.repository)
    change_line(first.folder / "file.txt", 3, "first")
    change_line(second.folder / "file.txt", 18, "second")
    await first.apply(await first.apply())
    await second.apply(await second.apply())
    text = (stage.repository / "file.txt").read_text()
    assert "first\n" in text
    assert "second\n" in text
    await first.apply(await first.apply(undo=True))
    text = (stage.repository / "file.txt").read_text()
    assert "first\n" not in text
    assert "second\n" in text


# -- merging


async def test_a_fast_forward_moves_branch_files_and_index(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    odd_files(made.folder)
    (stage.repository / "untracked.txt").write_text("mine\n")
    change_line(stage.repository / "file.txt", 3, "dirty, but elsewhere")
    merged = await made.merge(commit="All of it")
    assert (merged.kind, merged.target, merged.commits, merged.is_done) == ("fast-forward", "main", 1, True)
    assert merged.checked_out_at == str(stage.repository)
    assert run_git(stage.repository, "rev-parse", "HEAD").strip() == merged.commit
    assert run_git(stage.repository, "log", "-1", "--format=%an %s").strip() == "Ada All of it"
    status = run_git(stage.repository, "status", "--porcelain").splitlines()
    assert status == [" M file.txt", "?? untracked.txt"]
    assert not list((stage.repository / ".git").glob("index.*"))
    assert made.info.state == "merged"


async def test_uncommitted_changes_of_the_worktree_need_a_message(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    head = run_git(stage.repository, "rev-parse", "main").strip()
    with pytest.raises(WorktreeError, match="uncommitted changes in 1 file"):
        await made.merge()
    assert run_git(stage.repository, "rev-parse", "main", "dragoman/work").split() == [head, head]


async def test_a_merge_commit_has_both_parents_and_the_users_name(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    change_line(made.folder / "file.txt", 3, "theirs")
    tip = commit_all(made.folder, "theirs")
    change_line(stage.repository / "file.txt", 18, "ours")
    old = commit_all(stage.repository, "ours")
    merged = await made.merge(message="Bring it")
    assert merged.kind == "merge commit"
    assert run_git(stage.repository, "log", "-1", "--format=%P|%an|%cn|%s").strip() == f"{old} {tip}|Ada|Ada|Bring it"
    text = (stage.repository / "file.txt").read_text()
    assert "theirs\n" in text
    assert "ours\n" in text
    assert run_git(stage.repository, "status", "--porcelain") == ""
    assert (await made.merge()).kind == "nothing to merge"


async def test_a_merge_commit_can_be_had_where_a_fast_forward_is_possible(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    merged = await made.merge(commit="new", no_ff=True)
    assert merged.kind == "merge commit"
    assert run_git(stage.repository, "log", "-1", "--format=%s").strip() == f"Merge branch '{made.info.branch}'"


async def test_a_branch_that_is_checked_out_nowhere_only_moves(stage: Stage) -> None:
    run_git(stage.repository, "branch", "release")
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    before = folder_state(stage.repository)
    merged = await made.merge(commit="new", into="release")
    assert merged.checked_out_at is None
    assert run_git(stage.repository, "rev-parse", "release").strip() == merged.commit
    assert folder_state(stage.repository) == before
    assert run_git(stage.repository, "status", "--porcelain") == ""


async def test_a_branch_that_another_work_tree_has_is_updated_there(stage: Stage, tmp_path: Path) -> None:
    run_git(stage.repository, "worktree", "add", "--quiet", "-b", "release", str(tmp_path / "linked"))
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    merged = await made.merge(commit="new", into="release")
    assert merged.checked_out_at == str((tmp_path / "linked").resolve())
    assert (tmp_path / "linked" / "new.txt").read_text() == "new\n"
    assert run_git(tmp_path / "linked", "status", "--porcelain") == ""


async def test_conflicts_of_a_merge_are_listed_and_nothing_is_changed(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    change_line(made.folder / "file.txt", 3, "theirs")
    tip = commit_all(made.folder, "theirs")
    change_line(stage.repository / "file.txt", 3, "ours")
    old = commit_all(stage.repository, "ours")
    before = folder_state(stage.repository)
    merged = await made.merge()
    assert merged.conflicts == ("file.txt",)
    assert not merged.is_done
    assert run_git(stage.repository, "rev-parse", "main", made.info.branch).split() == [old, tip]
    assert folder_state(stage.repository) == before
    in_worktree = await made.merge(conflicts=True)
    assert in_worktree.is_in_worktree
    assert in_worktree.conflicts == ("file.txt",)
    assert "<<<<<<<" in (made.folder / "file.txt").read_text()
    assert folder_state(stage.repository) == before
    assert await made.merge(conflicts=True) == msgspec.structs.replace(in_worktree, commits=0)  # they still wait
    with pytest.raises(WorktreeError, match="a merge or rebase is not finished"):
        await made.merge()
    change = "".join(f"line {number}\n" if number != 3 else "solved\n" for number in range(1, 21))
    (made.folder / "file.txt").write_text(change)
    commit_all(made.folder, "solved")
    assert (await made.merge()).kind == "fast-forward"
    assert (stage.repository / "file.txt").read_text() == change


@pytest.mark.parametrize("how", ["modified", "staged", "untracked", "ignored", "deleted"])
async def test_uncommitted_changes_in_the_same_files_stop_a_merge(stage: Stage, how: str) -> None:
    made = await stage.worktrees.create(stage.repository)
    change_line(made.folder / "file.txt", 3, "theirs")
    (made.folder / "new.txt").write_text("theirs\n")
    (made.folder / "forced.log").write_text("theirs\n")
    run_git(made.folder, "add", "--force", "forced.log")
    tip = commit_all(made.folder, "theirs")
    match how:
        case "modified":
            change_line(stage.repository / "file.txt", 18, "dirty")
        case "staged":
            change_line(stage.repository / "file.txt", 18, "dirty")
            run_git(stage.repository, "add", "file.txt")
        case "untracked":
            (stage.repository / "new.txt").write_text("precious\n")
        case "ignored":
            (stage.repository / "forced.log").write_text("precious\n")
        case _:
            (stage.repository / "file.txt").unlink()
    before, git_before = folder_state(stage.repository), digest(stage.repository / ".git" / "refs")
    with pytest.raises(WorktreeError, match="has uncommitted changes in the same files"):
        await made.merge()
    assert folder_state(stage.repository) == before
    assert digest(stage.repository / ".git" / "refs") == git_before
    assert run_git(stage.repository, "rev-parse", made.info.branch).strip() == tip


async def test_staged_changes_of_other_files_stay_staged(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    change_line(made.folder / "file.txt", 3, "theirs")
    (stage.repository / "other.txt").write_text("staged\n")
    run_git(stage.repository, "add", "other.txt")
    await made.merge(commit="theirs")
    assert run_git(stage.repository, "status", "--porcelain").splitlines() == ["M  other.txt"]


async def test_a_lock_of_another_git_stops_a_merge_and_is_left(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    lock = stage.repository / ".git" / "index.lock"
    lock.write_text("")
    head = run_git(stage.repository, "rev-parse", "main")
    with pytest.raises(WorktreeError, match="another command of git is at work"):
        await made.merge(commit="new")
    assert lock.exists()
    assert not (stage.repository / "new.txt").exists()
    assert run_git(stage.repository, "rev-parse", "main") == head
    lock.unlink()
    assert (await made.merge()).is_done


async def test_a_merge_in_progress_in_the_checkout_stops_it(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    (stage.repository / ".git" / "MERGE_HEAD").write_text(run_git(stage.repository, "rev-parse", "HEAD"))
    with pytest.raises(WorktreeError, match="a merge or rebase is not finished in"):
        await made.merge(commit="new")


async def test_targets_that_do_not_exist_are_refused(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository, WorktreeChoice(base="HEAD~0"))
    assert made.info.base_ref is None
    with pytest.raises(InputError, match="was made from a commit"):
        await made.merge()
    for wrong in ("-x", "nothing", "../main", made.info.branch):
        with pytest.raises(InputError):
            await made.merge(into=wrong)


async def test_an_agent_that_left_its_branch_is_not_merged_by_guess(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    run_git(made.folder, "checkout", "--quiet", "-b", "somewhere")
    with pytest.raises(WorktreeError, match="is on somewhere, not on its own branch"):
        await made.merge()


def plant_hook(stage: Stage, name: str, script: str) -> None:
    hook = stage.repository / ".git" / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)


async def test_a_commit_that_a_hook_refuses_stops_the_merge(stage: Stage) -> None:
    plant_hook(stage, "pre-commit", "echo tests fail >&2; exit 1")
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    with pytest.raises(WorktreeError, match="tests fail"):
        await made.merge(commit="new")
    assert run_git(stage.repository, "log", "--format=%s").split() == ["first"]


async def test_hooks_and_filters_that_an_agent_planted_do_not_run_without_a_persons_word(
    stage: Stage, tmp_path: Path
) -> None:
    made = await stage.worktrees.create(stage.repository)
    ran = tmp_path / "ran"
    for hook in ("pre-commit", "post-checkout", "reference-transaction"):
        plant_hook(stage, hook, f"touch {ran}")
    run_git(stage.repository, "config", "filter.evil.clean", f"touch {ran}; cat")
    run_git(stage.repository, "config", "filter.evil.smudge", f"touch {ran}; cat")
    ran.unlink(missing_ok=True)
    (stage.repository / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    (made.folder / "new.txt").write_text("new\n")
    await made.changes()
    await made.apply(await made.apply())
    with pytest.raises(WorktreeError, match="hook pre-commit") as caught:
        await made.merge(commit="new")
    assert "--trust-repository" in (caught.value.guidance or "")
    lines: list[str] = []
    other = await stage.worktrees.create(stage.repository, on_progress=lines.append)
    assert any("hooks and filters do not run" in line for line in lines)
    assert (other.folder / "file.txt").exists()
    assert not ran.exists()
    (stage.repository / "new.txt").unlink()
    assert (await made.merge(commit="new", trust_repository=True)).is_done
    assert ran.exists()


def plant_program(tmp_path: Path) -> tuple[str, Path]:
    """Make a program that leaves a file when it runs, and return its path and that of the file."""
    program, ran = tmp_path / "planted", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    return str(program), ran


def sign_falsely(folder: Path) -> None:
    """Replace the last commit by one with a signature, which git would have a program verify."""
    commit = run_git(folder, "cat-file", "commit", "HEAD")
    header, _, message = commit.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    file = folder.parent / "signed"
    file.write_text(f"{header}\n{signature}\n\n{message}")
    signed = run_git(folder, "hash-object", "-t", "commit", "-w", str(file)).strip()
    run_git(folder, "update-ref", "HEAD", signed)


async def test_looking_at_commits_verifies_no_signature_with_a_planted_program(stage: Stage, tmp_path: Path) -> None:
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    commit_all(made.folder, "signed")
    sign_falsely(made.folder)
    program, ran = plant_program(tmp_path)
    run_git(stage.repository, "config", "log.showSignature", "true")
    run_git(stage.repository, "config", "gpg.program", program)
    changes = await made.changes()
    assert [line.split()[1] for line in changes.commits] == ["signed"]
    assert not ran.exists()


@pytest.mark.parametrize("place", ["worktree", "target"])
async def test_settings_of_one_work_tree_alone_do_not_run_programs_unseen(
    stage: Stage, tmp_path: Path, place: str
) -> None:
    made = await stage.worktrees.create(stage.repository, WorktreeChoice(name="mine"))
    (made.folder / "file.txt").write_text("new\n")
    run_git(stage.repository, "branch", "release")
    target = tmp_path / "release"
    run_git(stage.repository, "worktree", "add", "--quiet", str(target), "release")
    run_git(stage.repository, "config", "extensions.worktreeConfig", "true")
    program, ran = plant_program(tmp_path)
    folder = made.folder if place == "worktree" else target
    run_git(folder, "config", "--worktree", "filter.evil.clean", f"{program}; cat")
    run_git(folder, "config", "--worktree", "filter.evil.smudge", f"{program}; cat")
    run_git(folder, "config", "--worktree", "core.attributesFile", str(tmp_path / "attributes"))
    (tmp_path / "attributes").write_text("* filter=evil\n")
    ran.unlink(missing_ok=True)
    with pytest.raises(WorktreeError, match=r"setting filter\.evil\.clean \(new\)"):
        await made.merge(commit="new", into="release")
    assert not ran.exists()
    assert (await made.merge(commit="new", into="release", trust_repository=True)).is_done
    assert (target / "file.txt").read_text() == "new\n"
    assert ran.exists(), "the test would notice"


async def test_a_hook_that_the_agent_changed_in_the_worktree_needs_a_persons_word(stage: Stage) -> None:
    (stage.repository / "hooks").mkdir()
    (stage.repository / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    (stage.repository / "hooks" / "pre-commit").chmod(0o755)
    commit_all(stage.repository, "hooks")
    run_git(stage.repository, "config", "core.hooksPath", "hooks")
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    (made.folder / "hooks" / "pre-commit").write_text("#!/bin/sh\ntouch planted\n")
    with pytest.raises(WorktreeError, match="hook pre-commit"):
        await made.merge(commit="new")
    assert not (made.folder / "planted").exists()


async def test_a_work_tree_that_became_one_of_another_repository_is_not_merged_into(
    stage: Stage, tmp_path: Path
) -> None:
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "new.txt").write_text("new\n")
    run_git(stage.repository, "branch", "release")
    target = tmp_path / "release"
    run_git(stage.repository, "worktree", "add", "--quiet", str(target), "release")
    victim = make_repository(tmp_path / "victim")
    (target / ".git").write_text(f"gitdir: {victim / '.git'}\n")
    with pytest.raises(WorktreeError, match="is no work tree of"):
        await made.merge(commit="new", into="release")
    assert run_git(victim, "status", "--porcelain") == ""


async def test_a_repository_inside_the_worktree_runs_no_filter_of_its_own(stage: Stage, tmp_path: Path) -> None:
    made = await stage.worktrees.create(stage.repository)
    inner = make_repository(made.folder / "inner")
    (inner / ".gitattributes").write_text("* filter=evil\n")
    commit_all(inner, "attributes")
    run_git(made.folder, "add", "inner")
    (made.folder / ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\tignore = none\n')
    program, ran = plant_program(tmp_path)
    run_git(inner, "config", "filter.evil.clean", f"{program}; cat")
    (inner / "file.txt").write_text("changed\n")
    await made.changes()
    with pytest.raises(WorktreeError, match="uncommitted"):
        await made.merge()
    assert (await made.merge(commit="inner")).is_done
    assert not ran.exists()


async def test_everything_that_differs_is_committed_also_a_folder_that_became_a_link(stage: Stage) -> None:
    made = await stage.worktrees.create(stage.repository)
    (made.folder / "sub" / "inner.txt").rename(made.folder / "moved.txt")
    (made.folder / "sub").rmdir()
    (made.folder / "sub").symlink_to("elsewhere")
    (made.folder / "other.txt").unlink()
    (made.folder / "other.txt").mkdir()
    (made.folder / "other.txt" / "now a folder").write_text("new\n")
    (made.folder / "file.txt").write_text("changed\n")
    run_git(made.folder, "add", "file.txt")
    assert (await made.merge(commit="all")).is_done
    assert run_git(made.folder, "status", "--porcelain") == ""
    assert run_git(stage.repository, "status", "--porcelain") == ""
    assert tracked_state(stage.repository) == tracked_state(made.folder)


# -- any edits of both sides


_names = st.sampled_from(["file.txt", "other.txt", "sub/inner.txt", "new.txt", "dir/deep.txt"])
_contents = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([b"one\ntwo\n", b"one\r\ntwo\r\n", b"\0\xff"]))
_edits = st.lists(st.tuples(_names, _contents), max_size=4)


def edit(folder: Path, edits: list[tuple[str, bytes | None]]) -> None:
    for name, content in edits:
        path = folder / name
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=_edits, theirs=_edits)
async def test_apply_merges_as_git_does_or_changes_nothing_and_undo_brings_all_back(
    tmp_path_factory: pytest.TempPathFactory,
    ours: list[tuple[str, bytes | None]],
    theirs: list[tuple[str, bytes | None]],
) -> None:
    stage = Stage(tmp_path_factory.mktemp("apply"))
    run_git(stage.repository, "config", "core.autocrlf", "false")
    made = await stage.worktrees.create(stage.repository)
    edit(made.folder, theirs)
    edit(stage.repository, ours)
    before, git_before = folder_state(stage.repository), digest(stage.repository / ".git")
    plan = await made.apply()
    expected = merge_by_git(stage, made.folder)
    if plan.conflicts:
        assert expected is None
        assert folder_state(stage.repository) == before
        return
    assert expected is not None
    if plan.changes:
        await made.apply(plan)
    assert folder_state(stage.repository) == expected
    if plan.changes:
        await made.apply(await made.apply(undo=True))
    assert folder_state(stage.repository) == before
    assert digest(stage.repository / ".git") == git_before


def merge_by_git(stage: Stage, folder: Path) -> dict[bytes, tuple[str, bytes]] | None:
    """Return the files that plain git makes of both sides, in a clone; None where it finds conflicts."""
    clone = stage.home.parent / "clone"
    run_git(stage.repository, "clone", "--quiet", "--no-local", str(stage.repository), str(clone))
    for name, source in (("ours", stage.repository), ("theirs", folder)):
        run_git(clone, "checkout", "--quiet", "-b", name, "origin/main")
        for path in folder_state(clone):
            (clone / os.fsdecode(path)).unlink()
        for path, (_, content) in tracked_state(source).items():
            target = clone / os.fsdecode(path)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)
        run_git(clone, "add", "--all", "--force")
        run_git(clone, "commit", "--quiet", "--allow-empty", "-m", name)
    run_git(clone, "checkout", "--quiet", "ours")
    try:
        run_git(clone, "merge", "--quiet", "--no-edit", "theirs")
    except Exception:
        return None
    return folder_state(clone)
