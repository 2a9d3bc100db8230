"""A backend session is stored in the journal like any other, and the front end sees the same without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.backend import BackendAdapter, UnifiedMessage, permission_response, user_message
from dragoman.hub.hub import Hub
from dragoman.journal.maintenance import load_record
from dragoman.protocol import requests
from dragoman.record import rows
from dragoman.record.fold import SessionFold
from dragoman.session.spec import AgentSpec
from dragoman.testing.demo import demo_spec
from dragoman.testing.memory import in_memory
from dragoman.testing.scripted import ScriptedAgent, Turn

from .conftest import connected, scripted, text_of, until

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


@pytest.fixture
def journal_home(home: Path) -> Path:
    return home / "dragoman"


async def stored_folds(home: Path) -> dict[str, SessionFold]:
    """Return the sessions in the journal, by id."""
    async with Hub(home) as hub:
        return {row.id: (await load_record(hub.journal, row.id)).fold for row in await hub.sessions()}


async def ask_and_write(turn: Turn) -> None:
    """Send one frame of each kind that has a message of its own."""
    cwd = turn.agent.all_heard("session/new")[0].params["cwd"]
    await turn.think("Hm.")
    await turn.say("one ")
    turn.agent.raw(b"not JSON\n")
    turn.agent.notify("_vendor/status", {"ok": True})
    turn.agent.update("another", "agent_message_chunk", content={"type": "text", "text": "elsewhere"})
    await turn.tool("t", title="Look", kind="read")
    await turn.ask_permission(options=OPTIONS, toolCallId="t")
    await turn.update("tool_call_update", toolCallId="t", status="completed")
    params = {"sessionId": turn.session_id, "path": f"{cwd}/new.txt", "content": "written"}
    await turn.agent.request("fs/write_text_file", params)
    await turn.say("two")


async def play(adapter: BackendAdapter, folder: Path) -> list[UnifiedMessage]:
    """Return the messages of one run in which the front end allows everything."""
    messages: list[UnifiedMessage] = []
    async with connected(adapter, folder) as session:
        await session.send(user_message("go"))
        while not messages or messages[-1].type != "result":
            messages += await until(session, "permission_request", "result")
            if messages[-1].type == "permission_request":
                await session.send(permission_response(messages[-1], "allow"))
    return messages


def comparable(messages: list[UnifiedMessage]) -> list[Any]:
    """Return the messages without their times, and without ids that are new in each run."""
    values = []
    for message in messages:
        fields = msgspec.to_builtins(message)
        del fields["timestamp"]
        fields["metadata"].pop("in_reply_to", None)
        if fields["metadata"].get("origin") == "files":
            fields["metadata"].pop("toolCallId", None)  # of Dragoman's: it counts the frames of the connection
        values.append(fields)
    return values


async def test_a_session_is_stored_with_its_prompt_its_answer_and_the_front_ends_decision(
    journal_home: Path, folder: Path
) -> None:
    async def script(turn: Turn) -> None:
        await turn.say(str(await turn.ask_permission(options=OPTIONS)))

    async with connected(scripted(script), folder) as session:
        await session.send(user_message("may I?"))
        request = (await until(session, "permission_request"))[-1]
        await session.send(permission_response(request, "allow"))
        await until(session, "result")
        session_id = session.id
    folds = await stored_folds(journal_home)
    assert list(folds) == [session_id]
    fold = folds[session_id]
    [run] = fold.runs.values()
    assert (run.status, run.stop_reason) == ("success", "end_turn")
    assert [(message.kind, message.text) for message in fold.messages] == [("user", "may I?"), ("assistant", "yes")]
    [permission] = fold.permissions.values()
    assert isinstance(permission, rows.Permission)
    assert (permission.outcome, permission.option_id, permission.decided_by) == ("selected", "yes", "person")


@pytest.mark.parametrize("turned_off_by", ["keyword", "setting"])
async def test_the_journal_can_be_turned_off(
    journal_home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, turned_off_by: str
) -> None:
    if turned_off_by == "setting":
        monkeypatch.setenv("DRAGOMAN_JOURNAL", "off")
    adapter = scripted(ask_and_write, journal=False if turned_off_by == "keyword" else None)
    await play(adapter, folder)
    assert not (journal_home / "journal.db").exists()


async def test_the_messages_are_the_same_with_and_without_the_journal(tmp_path: Path, folder: Path) -> None:
    spec = AgentSpec(command=["memory"], write_files=True)
    runs = []
    for journal in (True, False):
        (folder / "new.txt").unlink(missing_ok=True)
        adapter = BackendAdapter(spec, launch=in_memory(ScriptedAgent(ask_and_write).main), journal=journal)
        runs.append(comparable(await play(adapter, folder)))
    assert runs[0] == runs[1]
    assert [message["type"] for message in runs[0]] == [
        "session_init",
        "session_init",
        "stream_event",
        "stream_event",
        "unknown",
        "unknown",
        "unknown",
        "tool_progress",
        "permission_request",
        "tool_use_summary",
        "unknown",
        "permission_request",
        "tool_use_summary",
        "stream_event",
        "result",
    ]


async def test_a_resumed_session_continues_in_the_journal(journal_home: Path, folder: Path, tmp_path: Path) -> None:
    adapter = BackendAdapter(demo_spec(tmp_path / "demo"))
    async with connected(adapter, folder) as session:
        await session.send(user_message("hello"))
        await until(session, "result")
        handle = session.snapshot()
    async with connected(adapter, folder, resume=handle) as session:
        assert session.id == handle.session_id
        await session.send(user_message("usage"))
        await until(session, "result")
    folds = await stored_folds(journal_home)
    assert list(folds) == [handle.session_id]
    prompts = [message.text for message in folds[handle.session_id].messages if message.kind == "user"]
    assert prompts == ["hello", "usage"]


async def test_a_session_that_cannot_be_opened_leaves_no_hub_behind(folder: Path) -> None:
    async def refuse(request: object) -> object:
        raise RuntimeError("not today")

    for _ in range(2):
        with pytest.raises(Exception, match="not today"):
            await scripted(ScriptedAgent(answers={"session/new": refuse})).connect(folder)


async def test_a_prompt_from_another_client_is_shown_to_the_front_end_too(journal_home: Path, folder: Path) -> None:
    async def echo(turn: Turn) -> None:
        await turn.say(turn.text)

    async with connected(scripted(echo), folder) as session, Hub(journal_home) as hub:
        await session.send(user_message("from the front end"))
        assert text_of(await until(session, "result")) == "from the front end"
        await hub.command(requests.SessionPrompt(session_id=session.id, text="from the page"))
        messages = await until(session, "result")
        assert text_of(messages) == "from the page"
        assert "in_reply_to" not in messages[-1].metadata
