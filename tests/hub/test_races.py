"""Several people act on one session at the same time: one after the other, and nothing is left half done."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.errors import SessionBusy, SessionClosed
from dragoman.host.question.question import Question, QuestionAnswer
from dragoman.hub import commands
from dragoman.hub.hub import Hub
from dragoman.journal import maintenance, notes
from dragoman.journal.entry import Entry, read_message
from dragoman.journal.errors import NotTheOwner
from dragoman.journal.protocols import Connection
from dragoman.journal.session_record import SessionRecord
from dragoman.protocol import requests
from dragoman.record.events import AssistantDelta, RunCompleted
from dragoman.testing.leaks import nothing_left
from dragoman.testing.memory import TIMEOUT_S
from dragoman.wire.messages import Notification
from hub.test_commands import OWNER, NewHub, config, idle, texts, until
from journal.talk import Talk

# An agent that never answers.
SILENT = (sys.executable, "-c", "import sys; sys.stdin.read()")


def named(title: str) -> Callable[[SessionRecord], Sequence[Notification]]:
    return lambda record: [notes.write(notes.SessionRenamed(title=title))]


async def being_opened(hub: Hub, session_id: str) -> None:
    changed = asyncio.Event()
    hub.on_change = lambda session_id: changed.set()
    while session_id not in hub.owned_sessions or hub.owned_sessions[session_id].opening is None:
        await changed.wait()
        changed.clear()


@pytest.mark.attempts("shared home")
async def test_two_restarts_of_a_session_at_once_leave_one_agent(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await asyncio.gather(
            hub.continue_session(owned.id),
            hub.continue_session(owned.id, "new"),
            hub.continue_session(owned.id, anyway=False),
        )
        (again,) = hub.owned_sessions.values()
        assert again.connection == "connected"
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello"))
        await until(hub, again, idle)
        assert await texts(hub, owned.id) == ["hello"]


async def test_an_open_session_is_not_opened_again_to_resume_it(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        assert await hub.continue_session(owned.id, anyway=False) is owned


async def test_closing_gives_up_an_agent_that_does_not_start(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        opening = asyncio.create_task(hub.start_session(SILENT, config(tmp_path), "s1"))
        await being_opened(hub, "s1")
        await hub.close_session("s1")
        with pytest.raises(SessionClosed, match="before its agent had started"):
            await opening
        assert not hub.owned_sessions


async def test_a_hub_that_ends_gives_up_what_it_is_opening(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left():
        async with new_hub() as hub:
            opening = asyncio.create_task(hub.start_session(SILENT, config(tmp_path), "s1"))
            await being_opened(hub, "s1")
        with pytest.raises(SessionClosed):
            await opening


async def test_a_prompt_waits_for_an_agent_that_is_being_started(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        opening = asyncio.create_task(hub.continue_session(owned.id))
        await being_opened(hub, owned.id)
        starting = hub.owned_sessions[owned.id]
        for text in ("stream 1", "stream 2", "stream 3"):
            outcome = await hub.command(requests.SessionPrompt(session_id=owned.id, text=text, command_id=text))
            assert (outcome.how, outcome.queued_id) == ("queued", text)
        assert [queued.id for queued in starting.queue] == ["stream 1", "stream 2", "stream 3"]
        again = await opening
        assert again is starting
        await until(
            hub, again, lambda owned: idle(owned) and owned.session is not None and len(owned.session.fold.runs) == 3
        )
        assert await texts(hub, owned.id) == ["stream 1", "stream 2", "stream 3"]


async def test_a_prompt_for_an_agent_that_does_not_start_waits_for_a_person(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        opening = asyncio.create_task(hub.continue_session(owned.id))
        await being_opened(hub, owned.id)
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello", command_id="early"))
        await hub.close_session(owned.id)
        with pytest.raises(SessionClosed):
            await opening
        again = await hub.continue_session(owned.id)
        await until(hub, again, lambda owned: bool(owned.queue))
        assert [queued.id for queued in again.queue] == ["early"]
        assert again.queue.paused


async def test_other_commands_to_a_session_that_is_being_opened_are_refused_permanently(
    new_hub: NewHub, tmp_path: Path
) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        opening = asyncio.create_task(hub.continue_session(owned.id))
        await being_opened(hub, owned.id)
        for command in (
            requests.SessionPrompt(session_id=owned.id, text="hello", when="refuse"),
            requests.SessionSetMode(session_id=owned.id, mode="code"),
        ):
            with pytest.raises(SessionClosed):
                await hub.command(replace(command, command_id="early"))
        again = await opening
        assert await hub.journal.command_state("early") is None  # told that it was not done, and not done later
        assert not again.queue


async def test_a_rename_while_a_session_is_opened_does_not_disturb_the_opening(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.note(owned.id, named("kept without a prompt"))
        await hub.close_session(owned.id)
        await asyncio.gather(
            hub.continue_session(owned.id), *(hub.note(owned.id, named(f"title {n}")) for n in range(4))
        )
        await hub.note(owned.id, named("the last"))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello"))
        await until(hub, hub.owned_sessions[owned.id], idle)
        assert await texts(hub, owned.id) == ["hello"]
        assert (await hub.find(owned.id)).title == "the last"


async def test_a_session_is_deleted_in_the_middle_of_a_run(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="slow 50"))
        results = await asyncio.gather(
            hub.delete_session(owned.id),
            hub.command(requests.SessionPrompt(session_id=owned.id, text="hello", command_id="late")),
            hub.continue_session(owned.id),
            return_exceptions=True,
        )
        assert results[0] is True
        assert all(isinstance(problem, Exception) for problem in results[1:])
        assert not hub.owned_sessions
        assert await hub.sessions() == []


async def test_a_run_that_was_left_open_ends_where_the_session_is_continued(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.note(owned.id, named("kept without a prompt"))
        await hub.close_session(owned.id)
        record = await maintenance.load_record(hub.journal, owned.id)
        await hub.journal.register_connection(Connection(id="import-1", agent="demo", at=0.0))
        line = b'{"jsonrpc":"2.0","id":"p1","method":"session/prompt","params":{"sessionId":"x","prompt":[]}}'
        entry = Entry("import-1", owned.id, 1, 1.0, "import", "session/prompt", line)
        record.add(entry, read_message(entry))
        await hub.journal.append([entry], [record.take()])
        assert (await hub.find(owned.id)).status == "running"
        owned = await hub.continue_session(owned.id)
        (run,) = (await hub.journal.rows(owned.id)).runs
        assert (run.status, run.reason) == ("interrupted", "the session was continued before this run had ended")
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello"))
        await until(hub, owned, idle)
        assert [run.status for run in (await hub.journal.rows(owned.id)).runs] == ["interrupted", "success"]


async def test_a_session_is_deleted_with_its_sub_agents(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        for name, parent in (("a1", owned.id), ("b1", "a1"), ("other", None)):
            talk = await Talk.begin(hub.journal, name)
            talk.note(notes.SessionOpened(agent="demo", cwd=str(tmp_path), parent=parent))
            await talk.commit()
        assert await hub.delete_session(owned.id)
        assert [one.id for one in await hub.sessions()] == ["other"]


@pytest.mark.attempts("shared home")
async def test_a_session_of_another_process_is_neither_taken_nor_deleted(
    new_hub: NewHub, home: Path, tmp_path: Path
) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owner = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OWNER, str(tmp_path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert owner.stdout is not None
        assert owner.stdin is not None
        try:
            session_id = (await owner.stdout.readline()).decode().strip()
            with pytest.raises(NotTheOwner):
                await hub.continue_session(session_id)
            assert session_id not in hub.owned_sessions  # it stands no worse with it than before
            with pytest.raises(SessionBusy):
                await hub.delete_session(session_id)
            with pytest.raises(NotTheOwner):
                await hub.note(session_id, named("mine"))
            outcome = await hub.command(requests.SessionPrompt(session_id=session_id, text="stream 2"))
            assert outcome.how == "started"
        finally:
            owner.stdin.close()
            await owner.wait()


async def test_a_prompt_waits_for_a_run_that_a_program_began(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub, hub.open_session("demo", cwd=tmp_path) as session:
        run = session.run("slow 3")
        outcome = await hub.command(requests.SessionPrompt(session_id=session.id, text="stream 2"))
        assert outcome.how == "queued"
        events = [event async for event in run]  # they are the program's: nobody has taken any of them
        assert any(isinstance(event, AssistantDelta) for event in events)
        assert isinstance(events[-1], RunCompleted)
        owned = hub.owned_sessions[session.id]
        await until(hub, owned, idle)
        assert await texts(hub, session.id) == ["slow 3", "stream 2"]


async def test_a_defect_in_carrying_out_a_command_is_reported_and_stops_nothing(
    new_hub: NewHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        with monkeypatch.context() as broken:
            broken.setattr("dragoman.hub.owned_session.reply_to", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await hub.command(requests.PermissionAnswer(session_id=owned.id, permission_id="p", command_id="c1"))
        state = await hub.journal.command_state("c1")
        assert state is not None
        assert (state.outcome, state.detail) == ("refused", "something went wrong inside Dragoman")
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello"))


async def test_an_answer_is_checked_beside_the_loop_and_the_first_one_counts(
    new_hub: NewHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept = Question.accept
    both = threading.Barrier(2, timeout=TIMEOUT_S)  # on the loop, nobody would come to it twice
    calls = itertools.count()

    def slowly(question: Question, content: Mapping[str, object] | None = None) -> QuestionAnswer:
        if next(calls) < 2:
            both.wait()
        return accept(question, content)

    monkeypatch.setattr(Question, "accept", slowly)
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="ask me"))
        await until(hub, owned, lambda owned: owned.session is not None and bool(owned.session.fold.questions))
        assert owned.session is not None
        (question,) = owned.session.fold.questions.values()
        accepted = requests.QuestionAnswer(
            session_id=owned.id, question_id=question.id, action="accept", content={"colour": "red"}
        )
        outcomes = await asyncio.gather(
            hub.command(replace(accepted, command_id="one")), hub.command(replace(accepted, command_id="two"))
        )
        assert sorted(outcome.accepted for outcome in outcomes) == [False, True]
        await until(hub, owned, idle)


async def test_a_place_in_the_queue_may_be_any_number(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="slow 50"))
        for name in ("one", "two", "three"):
            await hub.command(requests.SessionPrompt(session_id=owned.id, text=name, command_id=name))
        await hub.command(requests.QueueMove(session_id=owned.id, queued_id="one", to=10**30))
        await hub.command(requests.QueueMove(session_id=owned.id, queued_id="three", to=-(10**30)))
        assert [queued.id for queued in owned.queue] == ["three", "two", "one"]


async def test_a_caller_that_waits_for_a_command_learns_that_the_session_was_closed(
    new_hub: NewHub, tmp_path: Path
) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        waiting = owned._expect("one that is on its way")
        await hub.command(requests.SessionClose(session_id=owned.id))  # one of its own tasks closes it
        with pytest.raises(SessionClosed):
            await waiting


@pytest.mark.attempts("shared home")
async def test_an_id_that_two_commands_use_at_once_means_the_first_one(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        texts_sent = ["stream 1", "stream 2"]
        came = await asyncio.gather(
            *(
                hub.command(requests.SessionPrompt(session_id=owned.id, text=text, command_id="c1"))
                for text in texts_sent
            ),
            return_exceptions=True,
        )
        (first,) = [text for text, one in zip(texts_sent, came, strict=True) if isinstance(one, commands.Outcome)]
        (refused,) = [one for one in came if isinstance(one, Exception)]
        assert "was used for something else" in str(refused)
        await until(hub, owned, idle)
        assert await texts(hub, owned.id) == [first]


async def test_a_session_that_is_being_closed_here_is_not_reported_as_open_elsewhere(
    new_hub: NewHub, tmp_path: Path
) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        answers: list[bool] = []

        async def close() -> None:
            answers.append(await hub.owned_elsewhere(owned.id))
            await closed()

        closed, owned.close = owned.close, close  # type: ignore[method-assign]  # looked at while it closes
        await hub.close_session(owned.id)
        assert answers == [False]
