"""Several clients on one session: all see the same, and the first answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman import PermissionRequest, Question, events
from dragoman.errors import SessionBusy
from dragoman.host.question.question import QuestionAnswer
from dragoman.journal.protocols import Journal
from dragoman.journal.sqlite import SqliteJournal
from dragoman.protocol.messages import FramesUpdate
from dragoman.protocol.models import Frame
from dragoman.record import rows
from dragoman.record.events import Event
from dragoman.remote.client import Client
from dragoman.translate.discover import Transcript as TranscriptFile
from dragoman.translate.ingest.dedup import imported_session_id
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.report import AT_REST_S
from remote.real_server import RealServer
from translate.claude_talk import SESSION, Transcript

TIMEOUT_S = 30.0


class Heard:
    """The events of a session, to wait for."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._more = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._more.set()

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        seen = 0
        while True:
            for event in self.events[seen:]:
                if wanted(event):
                    return event
            seen = len(self.events)
            self._more.clear()
            await self._more.wait()

    async def completed(self, run_id: str) -> None:
        await self.until(lambda event: isinstance(event, events.RunCompleted) and event.run_id == run_id)


def received(heard: Heard, run_id: str) -> list[Event]:
    return [event for event in heard.events if event.run_id == run_id]


async def test_a_client_that_attaches_gets_the_same_events_as_the_one_that_opened(
    server: RealServer, client: Client, folder: Path
) -> None:
    heard = Heard()
    async with asyncio.timeout(TIMEOUT_S), server.client() as other, client.open_session("demo", cwd=folder) as session:
        await session.run("hello")
        async with other.session(session.id, on_event=heard) as attached:
            assert [message.text for message in attached.fold.messages] == [
                message.text for message in session.fold.messages
            ]
            assert not heard.events  # what was said before is known, and not told
            run = session.run("plan")
            own = [event async for event in run]
            await heard.completed(run.id)
            assert received(heard, run.id) == own
            assert list(attached.fold.runs.values()) == list(session.fold.runs.values())
        # It was left, not ended.
        assert (await session.run("hello")).status == "success"


async def test_a_client_that_attaches_during_a_run_gets_its_end(
    server: RealServer, client: Client, folder: Path
) -> None:
    heard = Heard()
    async with asyncio.timeout(TIMEOUT_S), server.client() as other, client.open_session("demo", cwd=folder) as session:
        run = session.run("slow 1000")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        async with other.session(session.id, on_event=heard) as attached:
            assert attached.status() == "running"
            with pytest.raises(SessionBusy):
                attached.run("hello", when_busy="raise")
            await attached.cancel()
            await heard.completed(run.id)
            assert attached.status() == "idle"
        assert (await run).status == "cancelled"


async def test_prompts_of_two_clients_wait_for_each_other(server: RealServer, client: Client, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), server.client() as other, client.open_session("demo", cwd=folder) as session:
        attached = await other.session(session.id)
        first = session.run("slow 1000")
        async for event in first:
            if isinstance(event, events.AssistantDelta):
                break
        second, third = attached.run("hello"), attached.run("plan")
        prompted = await attached._run_queue._sending[second.id]
        assert prompted is not None
        assert prompted.how == "queued"
        await third.cancel()
        await second.cancel()  # it waits on the server, behind the other's
        assert [(await run).status for run in (second, third)] == ["cancelled", "cancelled"]
        fourth = attached.run("hello")
        await first.cancel()
        assert (await first).status == "cancelled"
        # A cancel stops the queue for a person to look at; whoever says something goes on.
        assert (await session.run("plan")).status == "success"
        assert (await fourth).status == "success"


async def test_the_first_answer_counts_and_the_other_is_asked_no_further(
    server: RealServer, client: Client, folder: Path
) -> None:
    asked_request, given_up = asyncio.Event(), asyncio.Event()

    async def think(request: PermissionRequest) -> bool:
        asked_request.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.set()
            raise
        return True

    heard = Heard()
    async with asyncio.timeout(TIMEOUT_S), server.client() as other:
        session = await client.open_session("demo", cwd=folder, on_permission=think)
        attached = await other.session(session.id, on_event=heard)
        run = session.run("permission")
        await asked_request.wait()
        request = await heard.until(lambda event: isinstance(event, events.PermissionRequested))
        assert isinstance(request, events.PermissionRequested)
        assert session.status() == attached.status() == "waiting"
        assert await attached.answer_permission(request.permission_id, True)
        assert not await session.answer_permission(request.permission_id, False)
        await given_up.wait()
        await run
        row = session.fold.permissions[request.permission_id]
        assert (row.option_kind, row.decided_by) == ("allow_once", "person")


async def test_a_question_is_answered_by_the_program(client: Client, folder: Path) -> None:
    questions: list[Question] = []

    def answer(question: Question) -> QuestionAnswer:
        questions.append(question)
        return question.accept({**question.defaults, "colour": "green", "name": "Ada"})

    async with asyncio.timeout(TIMEOUT_S), client.open_session("demo", cwd=folder, on_question=answer) as session:
        result = await session.run("ask me")
        assert result.status == "success"
        assert [(question.agent, question.session_id) for question in questions] == [("demo", session.id)]
        (row,) = session.fold.questions.values()
        assert row.action == "accept"


async def test_a_pending_question_is_passed_to_a_client_that_attaches_later(
    server: RealServer, client: Client, folder: Path
) -> None:
    heard = Heard()

    async def allow(request: PermissionRequest) -> bool:
        assert request.session_id == session.id
        return True

    async with asyncio.timeout(TIMEOUT_S), client.open_session("demo", cwd=folder, on_event=heard) as session:
        run = session.run("permission")
        await heard.until(lambda event: isinstance(event, events.PermissionRequested))
        async with server.client() as other, other.session(session.id, on_permission=allow):
            assert (await run).status == "success"
        (row,) = session.fold.permissions.values()
        assert (row.option_kind, row.decided_by) == ("allow_once", "callback")


async def test_a_permission_request_is_the_same_as_here(client: Client, folder: Path) -> None:
    import dragoman

    (folder / "notes.txt").write_text("one\n")
    asked_request: list[PermissionRequest] = []

    async def refuse(request: PermissionRequest) -> bool:
        asked_request.append(request)
        return False

    for prompt in ("edit notes.txt", "run echo hi", "permission"):
        asked_request.clear()
        async with asyncio.timeout(TIMEOUT_S):
            async with dragoman.open_session("demo", cwd=folder, on_permission=refuse) as session:
                await session.run(prompt)
            async with client.open_session("demo", cwd=folder, on_permission=refuse) as remote:
                await remote.run(prompt)
        here, there = asked_request
        for name in PermissionRequest.__struct_fields__:
            if name not in ("session_id", "tool_call_id", "request_id", "raw_input"):
                assert getattr(there, name) == getattr(here, name), (prompt, name)


async def test_a_session_that_was_left_goes_on(server: RealServer, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with server.client() as client:
            session = await client.open_session("demo", cwd=folder)
            await session.run("hello")
            await session.leave()
        async with server.client() as client, client.session(session.id) as again:
            assert again.status() == "idle"
            assert len(again.fold.runs) == 1
            assert (await again.run("hello")).status == "success"


async def test_a_slow_program_delays_no_other_and_misses_nothing(
    server: RealServer, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.session import run as runs

    monkeypatch.setattr(runs, "MAX_WAITING_EVENTS", 200)
    monkeypatch.setattr(runs, "RESUME_READING_EVENTS", 50)
    async with asyncio.timeout(TIMEOUT_S), client.open_session("demo", cwd=folder) as session:
        run = session.run("stream 20000")
        seen: list[str] = []
        most = 0
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                seen.append(event.text)
            if len(seen) == 1:
                async with client.open_session("demo", cwd=folder) as another:
                    assert (await another.run("hello")).status == "success"
            most = max(most, len(run._queue))
        assert "".join(seen) == "".join(f"chunk {number}\n" for number in range(1, 20001))
        assert most < 5000


async def test_settings_are_seen_when_they_are_set(client: Client, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), client.open_session("demo", cwd=folder) as session:
        for category, switch in (("model", session.set_model), ("thought_level", session.set_reasoning_effort)):
            setting = session.fold.setting(category)
            assert isinstance(setting, rows.Setting)
            other = next(choice.value for choice in setting.choices if choice.value != setting.current)
            await switch(other)
            now = session.fold.setting(category)
            assert now is not None
            assert now.current == other
        await session.restart(reload=True)
        assert (await session.run("hello")).status == "success"


# -- transcripts that another process imports


def written(path: Path, transcript: Transcript) -> float:
    """Write the transcript; return the time of the file."""
    path.write_bytes(b"\n".join(transcript.lines) + b"\n")
    return path.stat().st_mtime


async def import_transcript(journal: Journal, path: Path, transcript: Transcript, *, at_rest: bool) -> None:
    now = written(path, transcript) + (2 * AT_REST_S if at_rest else 0.0)
    report = await Importer(journal, clock=lambda: now).import_file(TranscriptFile("claude", path, 1, 1.0))
    assert report.frames


async def test_a_run_that_was_taken_to_be_over_goes_on_for_a_client(
    server: RealServer, client: Client, tmp_path: Path
) -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "make"})
    path = tmp_path / f"{SESSION}.jsonl"
    heard = Heard()
    session_id = imported_session_id("claude", SESSION)
    async with asyncio.timeout(TIMEOUT_S), await SqliteJournal.open(server.home / "journal.db") as journal:
        await import_transcript(journal, path, transcript, at_rest=False)
        async with client.session(session_id, on_event=heard) as session:
            (run,) = session.fold.runs.values()
            assert run.status == "running"
            for number in range(2):
                await import_transcript(journal, path, transcript, at_rest=True)
                await heard.completed(run.id)
                assert [one.status for one in session.fold.runs.values()] == ["interrupted"]
                heard.events.clear()
                transcript.result("done")
                transcript.call("Bash", {"command": "make test"}, f"toolu_{number}", id=f"msg_{number}")
                await import_transcript(journal, path, transcript, at_rest=False)
                await heard.until(lambda event: isinstance(event, events.ToolCall))
                assert [one.status for one in session.fold.runs.values()] == ["running"]
                assert not any(isinstance(event, events.RunCompleted) for event in heard.events)
            transcript.text("Built.", id="msg_end")
            await import_transcript(journal, path, transcript, at_rest=False)
            await heard.completed(run.id)
            (run,) = session.fold.runs.values()
            assert [run] == list((await journal.rows(session_id)).runs)
            assert run.status == "success"
            titles = [event.title for event in heard.events if isinstance(event, events.ToolCall)]
            assert titles == ["make test"]  # of what came since; nothing is reported twice
            async with server.client() as other, other.session(session_id) as attached:
                assert list(attached.fold.runs.values()) == [run]
                assert [message.text for message in attached.fold.messages] == [
                    message.text for message in session.fold.messages
                ]


async def test_an_update_of_an_earlier_subscription_is_left_out(client: Client, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), client.open_session("demo", cwd=folder) as session:
        await session.run("hello")
        cursor, count = session.cursor, session.frames
        stray = Frame(cursor="x", connection_id="c", n=9, at=1.0, origin="agent", kind="hidden", frame="")
        session.on_frames(FramesUpdate(id=session.id, after="before", cursor="x", frames=(stray,)))
        assert (session.cursor, session.frames) == (cursor, count)
