"""Commands: what anyone wants of a session reaches its owner, and is done once (G10)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.errors import DragomanError, InputError, SessionBusy, SessionClosed
from dragoman.hub import commands
from dragoman.hub.hub import Hub
from dragoman.hub.owned_session import OwnedSession
from dragoman.journal.protocols import InboxCommand
from dragoman.protocol import requests
from dragoman.session.options import SessionConfig
from dragoman.testing.memory import TIMEOUT_S
from dragoman.workspace import Workspace

NewHub = Callable[[], Hub]

# A process that has a session open until its stdin ends, and says its id.
OWNER = """
import asyncio, sys
from dragoman.hub.hub import Hub

async def main():
    async with Hub() as hub, hub.open_session("demo", cwd=sys.argv[1]) as session:
        print(session.id, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def config(folder: Path) -> SessionConfig:
    return SessionConfig(workspace=Workspace(folder))


async def texts(hub: Hub, session_id: str, kind: str = "user") -> list[str]:
    return [row.text for row in (await hub.journal.rows(session_id)).messages if row.kind == kind]


async def until(hub: Hub, owned: OwnedSession, is_so: Callable[[OwnedSession], bool]) -> None:
    """Wait until the condition holds for the session; it is checked after every change that the hub reports."""
    changed = asyncio.Event()
    hub.on_change = lambda session_id: changed.set()
    stop = hub.journal.on_commit(lambda cursor, entries, changes: changed.set())
    try:
        while not is_so(owned):
            changed.clear()
            await changed.wait()
    finally:
        stop()


def idle(owned: OwnedSession) -> bool:
    return owned.session is not None and owned.session.active is None and not owned.queue


async def test_a_prompt_is_sent_once_however_often_it_is_requested(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        prompt = requests.SessionPrompt(session_id=owned.id, text="hello")
        first = await hub.command(replace(prompt, command_id="c1"))
        assert first.how == "started"
        await until(hub, owned, idle)
        assert await hub.command(replace(prompt, command_id="c1")) == first
        assert await texts(hub, owned.id) == ["hello"]


async def test_the_receipt_is_in_the_journal_and_holds_for_the_next_process(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with new_hub() as hub:
            owned = await hub.start_session("demo", config(tmp_path))
            first = await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello", command_id="c1"))
            await until(hub, owned, idle)
        async with new_hub() as hub:
            assert (
                await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello", command_id="c1")) == first
            )
            assert await texts(hub, owned.id) == ["hello"]


async def test_a_command_id_means_one_command(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello", command_id="c1"))
        with pytest.raises(InputError, match="used for something else"):
            await hub.command(requests.SessionPrompt(session_id=owned.id, text="goodbye", command_id="c1"))


async def test_a_session_that_no_process_has_open_takes_no_commands(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.close_session(owned.id)
        with pytest.raises(SessionClosed):
            await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello", command_id="c1"))
        assert await hub.journal.command_state("c1") is None  # nothing is done later by surprise


async def test_prompts_wait_for_their_turn_in_their_order(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="slow 2"))
        outcomes = [
            await hub.command(requests.SessionPrompt(session_id=owned.id, text=f"stream {n}", command_id=f"q{n}"))
            for n in (1, 2, 3)
        ]
        assert [(one.how, one.queued_id) for one in outcomes] == [("queued", f"q{n}") for n in (1, 2, 3)]
        await hub.command(requests.QueueMove(session_id=owned.id, queued_id="q3", to=0))
        await hub.command(requests.QueueRemove(session_id=owned.id, queued_id="q1"))
        await hub.command(requests.QueueEdit(session_id=owned.id, queued_id="q2", text="stream 4"))
        await until(hub, owned, idle)
        assert await texts(hub, owned.id) == ["slow 2", "stream 3", "stream 4"]


async def test_one_may_rather_be_refused_than_wait(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="slow 50"))
        with pytest.raises(SessionBusy):
            await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello", when="refuse"))
        await hub.command(requests.SessionCancel(session_id=owned.id))


async def test_now_cancels_what_runs_and_says_so(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="slow 50"))
        outcome = await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello", when="now"))
        assert outcome.how == "cancelled_first"
        await until(hub, owned, idle)
        runs = (await hub.journal.rows(owned.id)).runs
        assert [run.status for run in runs] == ["cancelled", "success"]


@pytest.mark.parametrize("prompt", ["slow 50", "stream 1"])
async def test_a_queued_prompt_can_be_sent_before_the_others(new_hub: NewHub, tmp_path: Path, prompt: str) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="slow 50"))
        for text in ("stream 2", "stream 3"):
            await hub.command(requests.SessionPrompt(session_id=owned.id, text=text, command_id=text))
        if prompt == "stream 1":  # nothing runs: the queue waits for a person
            await hub.command(requests.SessionCancel(session_id=owned.id))
        sent = await hub.command(requests.QueueSend(session_id=owned.id, queued_id="stream 3"))
        assert sent.how == ("cancelled_first" if prompt == "slow 50" else "started")
        await until(hub, owned, idle)
        assert await texts(hub, owned.id) == ["slow 50", "stream 3", "stream 2"]


async def test_after_a_cancel_the_queue_waits_for_a_person(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="slow 50"))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="stream 2", command_id="q"))
        await hub.command(requests.SessionCancel(session_id=owned.id))
        assert owned.queue.paused
        assert [queued.id for queued in owned.queue] == ["q"]
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="stream 1"))
        await until(hub, owned, idle)
        assert await texts(hub, owned.id) == ["slow 50", "stream 1", "stream 2"]


async def test_prompts_that_were_queued_when_the_process_died_are_found_again(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with new_hub() as hub:
            owned = await hub.start_session("demo", config(tmp_path))
            await hub.command(requests.SessionPrompt(session_id=owned.id, text="slow 50"))
            await hub.command(requests.SessionPrompt(session_id=owned.id, text="stream 2", command_id="q"))
        async with new_hub() as hub:
            owned = await hub.continue_session(owned.id)
            await until(hub, owned, lambda owned: bool(owned.queue))
            assert [queued.prompt.text for queued in owned.queue] == ["stream 2"]
            assert owned.queue.paused  # nobody wants it to run unasked, a day later
            await hub.command(requests.QueueRemove(session_id=owned.id, queued_id="q"))
            assert (await hub.journal.command_state("q")).outcome == "refused"  # type: ignore[union-attr]  # it is there


async def test_queued_prompts_are_found_again_as_they_were_edited_and_moved(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with new_hub() as hub:
            owned = await hub.start_session("demo", config(tmp_path))
            await hub.command(requests.SessionPrompt(session_id=owned.id, text="slow 50"))
            for name in ("one", "two", "three"):
                await hub.command(requests.SessionPrompt(session_id=owned.id, text=name, command_id=name))
            edited = requests.QueueEdit(session_id=owned.id, queued_id="two", text="stream 2")
            assert await hub.command(replace(edited, command_id="edit")) == commands.Outcome()
            assert await hub.command(replace(edited, command_id="edit")) == commands.Outcome()  # the same again
            await hub.command(requests.QueueMove(session_id=owned.id, queued_id="two", to=0, command_id="move"))
            await hub.command(requests.QueueRemove(session_id=owned.id, queued_id="one"))
        async with new_hub() as hub:
            owned = await hub.continue_session(owned.id)
            await until(hub, owned, lambda owned: len(owned.queue) == 2)
            assert [queued.prompt.text for queued in owned.queue] == ["stream 2", "three"]
            await hub.command(requests.QueueRemove(session_id=owned.id, queued_id="three"))
            await hub.command(requests.QueueSend(session_id=owned.id, queued_id="two"))
            await until(hub, owned, idle)
            assert await texts(hub, owned.id) == ["slow 50", "stream 2"]
            for command_id in ("two", "edit", "move"):
                state = await hub.journal.command_state(command_id)
                assert state is not None
                assert state.outcome == "done"
            assert await hub.journal.pending_commands(owned.id) == []


async def test_the_text_of_a_run_is_in_the_journal_and_no_longer_in_memory(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        for text in ("stream 3", "stream 4"):
            await hub.command(requests.SessionPrompt(session_id=owned.id, text=text))
            await until(hub, owned, idle)
        assert owned.session is not None
        await until(hub, owned, lambda owned: not any(message.text for message in owned.session.fold.messages))  # type: ignore[union-attr]
        assert len(owned.session.fold.messages) == 4
        texts_sent = ["".join(f"chunk {number}\n" for number in range(1, count + 1)) for count in (3, 4)]
        assert await texts(hub, owned.id, "assistant") == texts_sent
        await hub.continue_session(owned.id, "load")  # and what the agent tells again is compared with all of it
        assert await texts(hub, owned.id, "assistant") == texts_sent


async def test_the_first_answer_to_a_permission_counts(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="permission"))
        await until(hub, owned, lambda owned: owned.session is not None and bool(owned.session.fold.permissions))
        assert owned.session is not None
        (permission,) = owned.session.fold.permissions.values()
        allow = requests.PermissionAnswer(session_id=owned.id, permission_id=permission.id, answer="allow")
        answers = await asyncio.gather(
            hub.command(replace(allow, command_id="a1")), hub.command(replace(allow, command_id="a2"))
        )
        assert sorted(answer.accepted for answer in answers) == [False, True]
        await until(hub, owned, idle)
        (row,) = (await hub.journal.rows(owned.id)).permissions
        assert (row.outcome, row.decided_by) == ("selected", "person")


async def test_a_question_is_answered_by_what_fits(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="ask me"))
        await until(hub, owned, lambda owned: owned.session is not None and bool(owned.session.fold.questions))
        assert owned.session is not None
        (question,) = owned.session.fold.questions.values()
        wrong = requests.QuestionAnswer(
            session_id=owned.id, question_id=question.id, action="accept", content={"nothing": "of it"}
        )
        with pytest.raises(InputError):
            await hub.command(wrong)
        await hub.command(requests.QuestionAnswer(session_id=owned.id, question_id=question.id, action="decline"))
        await until(hub, owned, idle)
        assert (await hub.journal.rows(owned.id)).questions[0].action == "decline"


async def test_a_file_of_the_workspace_goes_with_the_prompt_and_no_other(new_hub: NewHub, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "notes.txt").write_text("kept in mind")
    (tmp_path / "secret.txt").write_text("not for you")
    (folder / "way_out").symlink_to(tmp_path / "secret.txt")
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(folder))

        def with_file(path: str) -> requests.SessionPrompt:
            return requests.SessionPrompt(
                session_id=owned.id, text="stream 1", attachments=(requests.AttachedFile(path=path),)
            )

        for path in ("../secret.txt", str(tmp_path / "secret.txt"), "way_out", "absent.txt", "a\0b"):
            with pytest.raises(InputError):
                await hub.command(with_file(path))
        await hub.command(with_file("notes.txt"))
        await until(hub, owned, idle)
        rows = await hub.journal.rows(owned.id)
        assert b"kept in mind" in msgspec.json.encode(rows.messages)
        assert b"not for you" not in msgspec.json.encode(rows)


async def test_an_agent_that_is_gone_leaves_a_session_that_can_be_restarted(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        before = owned.session.agent_session_id if owned.session else ""
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="crash"))
        await until(hub, owned, lambda owned: owned.connection == "disconnected")
        assert owned.error is not None
        with pytest.raises(DragomanError):
            await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello"))
        again = await hub.continue_session(owned.id, "new")
        assert again.session is not None
        assert again.id == owned.id
        assert again.session.agent_session_id != before
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="hello"))
        await until(hub, again, idle)
        assert await texts(hub, owned.id) == ["crash", "hello"]


async def test_restart_and_reload_goes_on_with_the_conversation(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        before = owned.session.agent_session_id if owned.session else ""
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="stream 2"))
        await until(hub, owned, idle)
        again = await hub.continue_session(owned.id, "load")
        assert again.session is not None
        assert again.session.agent_session_id == before
        assert await texts(hub, owned.id) == ["stream 2"]  # told again, and not twice


async def test_an_agent_that_cannot_start_says_why(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        with pytest.raises(DragomanError, match="no-such-program"):
            await hub.start_session(["no-such-program"], config(tmp_path))
        assert not hub.owned_sessions


async def test_a_session_of_another_process_is_steered_through_its_inbox(
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
            outcome = await hub.command(requests.SessionPrompt(session_id=session_id, text="stream 2", command_id="c1"))
            assert outcome.how == "started"
            again = await hub.command(requests.SessionPrompt(session_id=session_id, text="stream 2", command_id="c1"))
            assert again == outcome
            async for page in hub.journal.subscribe(session_id):
                if any(entry.kind == "session/prompt" and entry.origin == "agent" for entry in page.entries):
                    break
            assert await texts(hub, session_id) == ["stream 2"]
        finally:
            owner.stdin.close()
            await owner.wait()


async def test_a_command_of_a_newer_dragoman_is_refused_and_stops_nothing(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        sent = InboxCommand(id="new", session_id=owned.id, at=0.0, body=b'{"type": "dance"}')
        await hub.journal.send_command(sent)
        await owned.drain()
        await hub.command(requests.SessionPrompt(session_id=owned.id, text="stream 1"))
        await until(hub, owned, idle)
        state = await hub.journal.command_state("new")
        assert state is not None
        assert state.outcome == "refused"
