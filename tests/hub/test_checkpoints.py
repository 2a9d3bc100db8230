"""Checkpoints of a session: before and after each run, exact differences, rewind and undo, warnings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import CheckpointError, InputError, SessionBusy
from dragoman.hub.hub import Hub
from dragoman.hub.workspace_history import WorkspaceHistory
from dragoman.protocol import requests
from dragoman.protocol.checkpoints import RunRef
from dragoman.record.events import CheckpointFailed, RunCompleted, WorkspaceRewound
from dragoman.session.options import SessionConfig
from dragoman.session.run_checkpoints import RunCheckpoints
from dragoman.session.session import Session
from dragoman.testing.clock import ManualClock
from dragoman.testing.memory import TIMEOUT_S, config, runtime_of, session_of
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.workspace import Workspace, git, shadow
from dragoman.workspace.checkpoint_store import CheckpointStore
from dragoman.workspace.checkpoints import CheckpointSettings
from dragoman.workspace.git import GitError
from hub.journaled import journal_client_of
from workspace.folder_state import run_git

NewHub = Callable[[], Hub]
Script = Callable[[Turn], Awaitable[object]]


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CHECKPOINTS", "on")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@asynccontextmanager
async def opened(hub: Hub, script: Script | ScriptedAgent, folder: Path, **settings: Any) -> AsyncIterator[Session]:
    agent = script if isinstance(script, ScriptedAgent) else ScriptedAgent(script)
    runtime = {"journal_client": hub.journal_client}
    async with session_of(agent, runtime=runtime, workspace=Workspace(folder), **settings) as session:
        yield session


def writing(folder: Path) -> Script:
    """A script that writes a file in the moment in which the prompt arrives: `name=content`, or removes `-name`."""

    async def script(turn: Turn) -> None:
        for change in turn.text.split():
            name, _, content = change.partition("=")
            if name.startswith("-"):
                (folder / name[1:]).unlink()
            else:
                (folder / name).write_text(content + "\n")
        await turn.say("done")

    return script


async def test_each_run_has_its_exact_difference(new_hub: NewHub, folder: Path) -> None:
    (folder / "a").write_text("1\n")
    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        first = session.run("a=2 b=1")
        await first
        (folder / "by-hand").write_text("between the runs\n")
        await session.run("-b")
        diff = await session.diff(first)
        assert [(file.path, file.status) for file in diff.files] == [("a", "modified"), ("b", "added")]
        assert (diff.count, diff.added, diff.removed) == (2, 2, 1)
        assert [(file.path, file.status) for file in (await session.diff()).files] == [("b", "deleted")]
        since_start = await session.diff(since_start=True)
        assert [file.path for file in since_start.files] == ["a", "by-hand"]
        assert [(each.moment, each.run_id == first.id) for each in await session.checkpoints()][:4] == [
            ("opened", False),
            ("before", True),
            ("after", True),
            ("before", False),
        ]


async def test_what_a_program_changes_after_a_run_is_not_in_it(new_hub: NewHub, folder: Path) -> None:
    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        async for event in session.run("a=1"):
            if isinstance(event, RunCompleted):
                (folder / "mine").write_text("mine\n")
        assert [file.path for file in (await session.diff()).files] == ["a"]


async def test_a_client_that_knows_the_end_of_a_run_is_not_refused_for_its_checkpoint(
    new_hub: NewHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, go_on, end_run = asyncio.Event(), asyncio.Event(), RunCheckpoints.end_run

    async def slow_end(checkpoints: RunCheckpoints, run_id: str) -> bool:
        taken.set()
        await go_on.wait()
        return await end_run(checkpoints, run_id)

    monkeypatch.setattr(RunCheckpoints, "end_run", slow_end)
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", SessionConfig(workspace=Workspace(folder)))
        prompt = requests.SessionPrompt(session_id=owned.id, text="hello", when="refuse")
        first = await hub.command(prompt)
        await taken.wait()
        assert [run.status for run in (await hub.journal.rows(owned.id)).runs if run.id == first.run_id] == ["success"]
        second = asyncio.create_task(hub.command(prompt))
        go_on.set()
        assert (await second).how == "started"


async def test_a_run_can_be_rewound_and_the_rewind_undone(new_hub: NewHub, folder: Path) -> None:
    (folder / "a").write_bytes(b"1\r\n")
    events: list[object] = []
    async with new_hub() as hub, opened(hub, writing(folder), folder, on_event=events.append) as session:
        await session.run("a=2 new=1")
        await session.run("a=3")
        plan = await session.plan_rewind(1, before=True)
        assert (folder / "a").read_text() == "3\n", "a plan changes nothing"
        assert [(change.path, change.action) for change in plan.changes] == [("a", "overwrite"), ("new", "delete")]
        assert plan.target == "before run 1"
        done = await session.rewind(plan)
        assert done.is_done
        assert (folder / "a").read_bytes() == b"1\r\n"
        assert not (folder / "new").exists()
        await session.rewind(await session.plan_rewind(undo=True))
        assert ((folder / "a").read_text(), (folder / "new").read_text()) == ("3\n", "1\n")
        with pytest.raises(InputError, match="no rewind to undo"):
            await session.plan_rewind(undo=True)
        await session.rewind(await session.plan_rewind(1))
        assert (folder / "a").read_text() == "2\n"
        notices = [row.title for row in (await hub.journal.rows(session.id)).notices]
    assert notices == [
        "The files were brought back to what they were before run 1.",
        "The files were brought back to what they were before the last rewind.",
        "The files were brought back to what they were after run 1.",
    ]
    rewound = [event for event in events if isinstance(event, WorkspaceRewound)]
    assert next((event.target, event.changed, event.paths) for event in rewound) == ("before run 1", 2, ("a", "new"))


async def test_undo_goes_back_rewind_by_rewind_and_loses_no_change_in_between(new_hub: NewHub, folder: Path) -> None:
    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        a = folder / "a"

        async def undo() -> str:
            await session.rewind(await session.plan_rewind(undo=True))
            return a.read_text()

        await session.run("a=1")
        await session.run("a=2")
        a.write_text("by hand\n")
        await session.rewind(await session.plan_rewind(2))
        await session.rewind(await session.plan_rewind(1))
        assert [await undo(), await undo()] == ["2\n", "by hand\n"]
        await session.rewind(await session.plan_rewind(1))
        a.write_text("after the rewind\n")
        assert await undo() == "by hand\n"
        assert await undo() == "after the rewind\n"  # that undo had overwritten it


async def test_a_rewind_needs_the_files_as_they_were_when_it_was_planned(new_hub: NewHub, folder: Path) -> None:
    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        await session.run("a=1")
        plan = await session.plan_rewind(1, before=True)
        (folder / "a").write_text("edited since\n")
        with pytest.raises(CheckpointError, match="changed since"):
            await session.rewind(plan)
        assert (folder / "a").read_text() == "edited since\n"


async def test_a_rewind_is_refused_while_a_run_is_active(new_hub: NewHub, folder: Path) -> None:
    working = asyncio.Event()

    async def script(turn: Turn) -> object:
        if turn.text == "wait":
            working.set()
            return await turn.wait_cancelled()
        (folder / "a").write_text(turn.text)
        await turn.say("done")
        return None

    async with new_hub() as hub, opened(hub, script, folder) as session, opened(hub, script, folder) as other:
        await session.run("1")
        plan = await session.plan_rewind(1, before=True)
        run = other.run("wait")
        await working.wait()
        with pytest.raises(CheckpointError, match=f"at work in this folder .session {other.id}"):
            await session.rewind(plan)
        await run.cancel()
        working.clear()
        run = session.run("wait")
        await working.wait()
        with pytest.raises(SessionBusy):
            await session.rewind(plan)
        await run.cancel()
        assert (folder / "a").read_text() == "1"


async def test_the_difference_of_a_run_that_goes_on_is_that_so_far(new_hub: NewHub, folder: Path) -> None:
    written = asyncio.Event()

    async def script(turn: Turn) -> object:
        (folder / "a").write_text("so far\n")
        written.set()
        return await turn.wait_cancelled()

    async with new_hub() as hub, opened(hub, script, folder) as session:
        run = session.run("go")
        await written.wait()
        diff = await session.diff(run)
        assert [file.path for file in diff.files] == ["a"]
        assert diff.after is None
        await run.cancel()
        assert (await session.diff(run)).after is not None, "a cancelled run has its checkpoint, too"


async def test_the_difference_names_other_sessions_that_worked_there_meanwhile(new_hub: NewHub, folder: Path) -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    async def slow(turn: Turn) -> None:
        (folder / "slow").write_text("1")
        started.set()
        await finish.wait()
        await turn.say("done")

    async with (
        new_hub() as hub,
        opened(hub, slow, folder) as session,
        opened(hub, writing(folder), folder) as inside,
    ):
        run = session.run("go")
        await started.wait()
        quick = inside.run("quick=1")
        await quick
        finish.set()
        await run
        outer = await session.diff(run)
        assert outer.other_runs == (RunRef(session_id=inside.id, run_id=quick.id),)
        assert {file.path for file in outer.files} == {"slow", "quick"}
        assert (await inside.diff(quick)).other_runs == (RunRef(session_id=session.id, run_id=run.id),)
        await inside.run("alone=1")
        assert (await inside.diff()).other_runs == ()


async def test_the_difference_is_beside_what_the_agent_reported(new_hub: NewHub, folder: Path) -> None:
    async def script(turn: Turn) -> None:
        (folder / "reported").write_text("new\n")
        (folder / "silent").write_text("by a shell command\n")
        path = str(folder / "reported")
        content = [{"type": "diff", "path": path, "oldText": None, "newText": "new\n"}]
        await turn.tool("1", kind="edit", status="completed", content=content)
        await turn.tool("2", kind="edit", status="completed", locations=[{"path": str(folder / "never")}])

    async with new_hub() as hub, opened(hub, script, folder) as session:
        await session.run("go")
        diff = await session.diff()
        assert [file.path for file in diff.files] == ["reported", "silent"]
        assert [file.is_claimed for file in diff.files] == [True, False]
        assert diff.only_claimed_paths == ("never",)


async def test_all_folders_of_the_workspace_are_recorded(new_hub: NewHub, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (folder / "inner").mkdir()

    async def script(turn: Turn) -> None:
        for each in (folder, folder / "inner", other):
            (each / "a").write_text("1\n")
        await turn.say("done")

    workspace = Workspace(folder, [other, folder / "inner"])
    agent = ScriptedAgent(script, capabilities={"sessionCapabilities": {"additionalDirectories": {}}})
    async with new_hub() as hub, runtime_of(agent, journal_client=hub.journal_client) as runtime:
        session = await runtime.open_session(config(workspace=workspace))
        await session.run("go")
        assert [file.path for file in (await session.diff()).files] == ["a", "inner/a", f"{other}/a"]
        page = await session.diff(path=str(other / "a"))
        assert [file.hunks[0].lines for file in page.files] == [("+1",)]
        await session.rewind(await session.plan_rewind(1, before=True))
        assert not any((each / "a").exists() for each in (folder, folder / "inner", other))


async def test_names_are_relative_to_a_folder_inside_a_repository(new_hub: NewHub, folder: Path) -> None:
    run_git(folder, "init", "--quiet")
    inner = folder / "inner"
    inner.mkdir()
    (inner / "old").write_text("".join(f"{number}\n" for number in range(20)))
    (folder / "outside").write_text("1\n")

    async def script(turn: Turn) -> None:
        (inner / "old").rename(inner / "new")
        (inner / "a").write_text("a\n")
        (folder / "outside").write_text("2\n")
        await turn.say("done")

    async with new_hub() as hub, opened(hub, script, inner) as session:
        await session.run("go")
        diff = await session.diff()
        assert [(file.path, file.old_path) for file in diff.files] == [("a", None), ("new", "old")]
        assert [file.path for file in (await session.diff(path="a")).files] == ["a"]
        plan = await session.plan_rewind(1, before=True)
        assert [(change.path, change.action) for change in plan.changes] == [
            ("a", "delete"),
            ("new", "delete"),
            ("old", "create"),
        ]
        await session.rewind(plan)
        assert sorted(path.name for path in inner.iterdir()) == ["old"]
        assert (folder / "outside").read_text() == "2\n"
        history = await WorkspaceHistory.of(hub.journal, hub._config, session.id)
        assert b"diff --git a/a b/a\n" in await history.patch(1)


async def test_a_long_difference_comes_in_pages(new_hub: NewHub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.workspace.checkpoints.MAX_FILES", 2)
    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        await session.run("a=1 b=1 c=1 d=1 e=1")
        paths, offset = [], 0
        while True:
            page = await session.diff(offset=offset)
            assert page.count == 5
            paths += [file.path for file in page.files]
            if page.next_offset is None:
                break
            offset = page.next_offset
        assert paths == ["a", "b", "c", "d", "e"]


# -- the run comes first


async def test_a_checkpoint_that_fails_leaves_a_warning_and_the_run_goes_on(
    new_hub: NewHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise CheckpointError("no room", guidance="Make some.")

    monkeypatch.setattr(CheckpointStore, "take", fail)
    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        events = [event async for event in session.run("a=1")]
        failed = [event for event in events if isinstance(event, CheckpointFailed)]
        assert [(event.moment, event.reason) for event in failed] == [
            ("before", "no room. Make some."),
            ("after", "no room. Make some."),
        ]
        assert isinstance(events[-1], RunCompleted)
        assert events[-1].status == "success"
        assert (folder / "a").read_text() == "1\n"
        notices = (await hub.journal.rows(session.id)).notices
        assert [notice.severity for notice in notices] == ["warning", "warning"]
        with pytest.raises(InputError, match="no checkpoints"):
            await session.diff()


async def test_the_prompt_waits_for_its_checkpoint_and_not_for_ever(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, new_hub: NewHub
) -> None:
    clock = ManualClock()
    agent = ScriptedAgent(writing(folder))
    entered, leave = asyncio.Event(), asyncio.Event()

    async def take(*args: object) -> None:
        entered.set()
        await leave.wait()

    monkeypatch.setattr("dragoman.workspace.checkpoints.SessionCheckpoints.take", take)
    async with new_hub() as hub:
        runtime = {"journal_client": hub.journal_client, "clock": clock}
        async with session_of(agent, runtime=runtime, workspace=Workspace(folder)) as session:
            run = session.run("a=1")
            await entered.wait()
            assert not (folder / "a").exists()
            assert session.is_recording_files
            for _ in ("before", "after"):
                await clock.wait_for_timers()
                clock.advance(CheckpointSettings(home=home).timeout_s)
            await run
            assert (folder / "a").exists()
        rows = await hub.journal.rows(session.id)
        assert "longer than 30 s" in (rows.notices[0].text or "")


async def test_a_cancelled_run_does_not_wait_for_its_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, new_hub: NewHub
) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def take(self: object, run_id: str | None, moment: str, at: float) -> None:
        if moment == "before":
            entered.set()
            await leave.wait()

    async def script(turn: Turn) -> object:
        leave.set()
        return await turn.wait_cancelled()

    monkeypatch.setattr("dragoman.workspace.checkpoints.SessionCheckpoints.take", take)
    async with new_hub() as hub, opened(hub, script, folder) as session:
        run = session.run("go")
        await entered.wait()
        await run.cancel()
        assert (await run).status == "cancelled"


async def test_checkpoints_can_be_switched_off(
    new_hub: NewHub, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_hub() as hub, opened(hub, writing(folder), folder, checkpoints=False) as session:
        await session.run("a=1")
        with pytest.raises(InputError, match="takes no checkpoints"):
            await session.diff()
    monkeypatch.setenv("DRAGOMAN_CHECKPOINTS", "off")
    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        await session.run("a=2")
    assert not (home / shadow.FOLDER_NAME).exists()
    async with new_hub() as hub, opened(hub, writing(folder), folder, checkpoints=True) as session:
        await session.run("a=3")
        assert (await session.diff()).count == 1


async def test_without_git_sessions_work_with_a_warning(
    new_hub: NewHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise GitError("git is not installed", guidance="Install git.")

    monkeypatch.setattr(git, "git_program", missing)
    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        events = [event async for event in session.run("a=1")]
        failed = [event for event in events if isinstance(event, CheckpointFailed)]
        assert "git is not installed. Install git." in failed[0].reason


async def test_sessions_that_wait_for_the_same_folder_share_a_checkpoint(
    new_hub: NewHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[int] = []
    take = CheckpointStore.take

    def counted(repository: CheckpointStore, requests: Any, **options: Any) -> Any:
        scans.append(len(requests))
        return take(repository, requests, **options)

    monkeypatch.setattr(CheckpointStore, "take", counted)
    async with new_hub() as hub, runtime_of(writing(folder), journal_client=hub.journal_client) as runtime:
        sessions = [await runtime.open_session(config(workspace=Workspace(folder))) for _ in range(8)]
        await asyncio.gather(*(session.run("a=1") for session in sessions))
    assert sum(scans) == 24, "each session: opened, before and after"
    assert len(scans) < 20


# -- sessions that are not open


async def test_a_closed_session_is_compared_and_rewound_and_its_journal_says_so(
    new_hub: NewHub, folder: Path, home: Path
) -> None:
    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        await session.run("a=1")
    async with new_hub() as hub:
        history = await WorkspaceHistory.of(hub.journal, hub._config, session.id)
        assert [file.path for file in (await history.diff(1)).files] == ["a"]
        plan = await history.plan_rewind(1, before=True)
        await history.rewind(hub, plan)
        assert not (folder / "a").exists()
        rows = await hub.journal.rows(session.id)
        assert rows.notices[-1].title.endswith("before run 1.")
        await history.rewind(hub, await history.plan_rewind(None, undo=True))
        assert (folder / "a").exists()


async def test_the_owner_of_an_open_session_carries_out_its_rewind(new_hub: NewHub, folder: Path) -> None:
    async with new_hub() as owner, opened(owner, writing(folder), folder) as session, new_hub() as other:
        await session.run("a=1")
        for hub in (owner, other):
            history = await WorkspaceHistory.of(hub.journal, hub._config, session.id)
            await history.rewind(hub, await history.plan_rewind(1, before=True))
            assert not (folder / "a").exists()
            await history.rewind(hub, await history.plan_rewind(None, undo=True))
            assert (folder / "a").exists()
        assert len(session.fold.notices) == 4


async def test_a_deleted_session_leaves_no_checkpoint(new_hub: NewHub, folder: Path, home: Path) -> None:
    async with new_hub() as hub:
        async with opened(hub, writing(folder), folder) as session:
            await session.run("a=1")
        await hub.delete_session(session.id)
    repository = CheckpointStore(home, folder, max_file_bytes=1000)
    assert repository.read_log() == []


async def test_a_rewind_whose_process_died_before_its_note_is_recorded_when_the_session_is_resumed(
    new_hub: NewHub, folder: Path
) -> None:
    async with new_hub() as hub:
        async with opened(hub, writing(folder), folder) as session:
            await session.run("a=1")
            handle = session.snapshot()
        # As far as a process comes that is killed before the note: the files are rewound.
        history = await WorkspaceHistory.of(hub.journal, hub._config, session.id)
        plan = await history.plan_rewind(1, before=True)
        await history._checkpoints.rewind(plan, at=time.time())
        for _ in range(2):
            agent = ScriptedAgent(writing(folder), capabilities={"loadSession": True}, answers={"session/load": {}})
            async with runtime_of(agent, journal_client=hub.journal_client) as runtime:
                resumed = await runtime.resume_session(handle, config(workspace=Workspace(folder)))
                await resumed.run("b=1")
                await resumed.close()
        titles = [notice.title for notice in (await hub.journal.rows(session.id)).notices]
        assert titles.count("The files were brought back to what they were before run 1.") == 1


async def test_a_run_whose_process_died_is_compared_with_what_came_next(
    new_hub: NewHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.session.run_checkpoints import RunCheckpoints

    async def never(*args: object) -> bool:
        return True

    async with new_hub() as hub, opened(hub, writing(folder), folder) as session:
        with monkeypatch.context() as patch:
            patch.setattr(RunCheckpoints, "end_run", never)
            await session.run("a=1")
        assert (await session.diff(1)).after is None
        await session.run("b=1")
        diff = await session.diff(1)
        assert [file.path for file in diff.files] == ["a"]
        assert diff.after is not None
        assert diff.after.moment == "before"


async def test_the_journal_client_of_a_program_without_settings_takes_no_checkpoints(folder: Path) -> None:
    from dragoman.journal.sqlite import MemoryJournal

    async with MemoryJournal() as journal:
        client = await journal_client_of(journal)
        runtime = {"journal_client": client}
        async with session_of(writing(folder), runtime=runtime, workspace=Workspace(folder)) as session:
            await session.run("a=1")
            with pytest.raises(InputError, match="takes no checkpoints"):
                await session.checkpoints()
