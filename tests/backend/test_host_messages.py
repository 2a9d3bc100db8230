"""Actions of the host for the agent, as unified messages."""

from __future__ import annotations

import msgspec

from dragoman.backend.messages import Fields, UnifiedMessage
from dragoman.backend.view import MessageView
from dragoman.record import notes
from dragoman.record.events import Event, event_from_fact
from support.tape import Tape


def events_of(tape: Tape) -> list[Event]:
    events = [event_from_fact(fact, 7.0, "s", "r", None) for fact in tape.facts]
    return [event for event in events if event is not None]


def host_messages(tape: Tape) -> list[UnifiedMessage]:
    view = MessageView()
    messages = [message for event in events_of(tape) if (message := view.host_message(event)) is not None]
    msgspec.json.encode(messages)
    return messages


def fields(message: UnifiedMessage, *keys: str) -> Fields:
    return {key: message.metadata.get(key) for key in keys}


def test_a_write_is_a_tool_summary_with_its_diff() -> None:
    tape = Tape()
    tape.request("w", "fs/write_text_file", path="/ws/a.txt", content="new")
    tape.note(notes.file_note("w", "/ws/a.txt", "old"))
    tape.note(notes.Decision("w", "rule", "yours", "allow", rule="allow write"))
    tape.reply("w")
    [message] = host_messages(tape)
    assert (message.type, message.role) == ("tool_use_summary", "tool")
    assert message.content == ({"type": "diff", "path": "/ws/a.txt", "oldText": "old", "newText": "new"},)
    assert fields(message, "origin", "title", "kind", "status", "rule") == {
        "origin": "files",
        "title": "Write a.txt",
        "kind": "edit",
        "status": "completed",
        "rule": "allow write",
    }
    assert message.metadata["locations"] == [{"path": "/ws/a.txt"}]
    assert "is_error" not in message.metadata


def test_a_refusal_is_an_error_that_says_who_decided() -> None:
    tape = Tape()
    tape.request("r", "fs/read_text_file", path="/ws/.env", line=3)
    tape.note(notes.Decision("r", "rule", "secrets", "deny"))
    tape.deny("r", message="not allowed: secrets")
    tape.request("c", "terminal/create", command="rm", args=["-rf", "a b"])
    tape.note(notes.Decision("c", "person", "said no", "deny"))
    tape.deny("c", message="not allowed")
    read, command = host_messages(tape)
    assert fields(read, "status", "is_error", "error", "decision", "decided_by") == {
        "status": "failed",
        "is_error": True,
        "error": "not allowed: secrets",
        "decision": "deny",
        "decided_by": "rule",
    }
    assert read.metadata["locations"] == [{"path": "/ws/.env", "line": 3}]
    assert fields(command, "title", "is_error", "decided_by") == {
        "title": "rm -rf 'a b'",
        "is_error": True,
        "decided_by": "person",
    }


def test_a_command_is_tool_progress_and_then_a_summary() -> None:
    tape = Tape()
    tape.request("c", "terminal/create", command="make", env=[{"name": "TOKEN", "value": "secret"}])
    tape.reply("c", {"terminalId": "t"})
    tape.note(notes.TerminalExited("t", 1, None, "failed", 6))
    started, ended = host_messages(tape)
    assert (started.type, ended.type) == ("tool_progress", "tool_use_summary")
    assert started.metadata["toolCallId"] == ended.metadata["toolCallId"] == "t"
    assert started.metadata["rawInput"] == {"command": "make", "args": [], "cwd": None, "env": ["TOKEN"]}
    assert ended.metadata["rawOutput"]["exitCode"] == 1
    assert ended.content == ({"type": "text", "text": "failed"},)


def test_an_answered_question_is_reported_without_its_content() -> None:
    tape = Tape()
    tape.request("q", "elicitation/create", mode="form", message="Who?", requestedSchema={})
    tape.note(notes.Decision("q", "person", "at the terminal"))
    tape.reply("q", {"action": "accept", "content": {"name": "a name"}})
    [message] = host_messages(tape)
    assert (message.type, message.role) == ("status_change", "system")
    assert fields(message, "origin", "action", "decided_by") == {
        "origin": "questions",
        "action": "accept",
        "decided_by": "person",
    }
    assert "a name" not in repr(message)


def test_a_fact_that_a_frame_of_the_agent_shows_is_not_repeated() -> None:
    tape = Tape()
    tape.prompt()
    tape.say("hi")
    tape.tool("t", status="completed")
    tape.permission("p")
    tape.decide("p", "allow")
    assert host_messages(tape) == []


def test_actions_during_a_tool_call_are_left_to_its_own_updates() -> None:
    tape = Tape()
    tape.request("r", "fs/read_text_file", path="/ws/a")
    tape.reply("r", {"content": ""})
    tape.request("w", "fs/write_text_file", path="/ws/a", content="new")
    tape.reply("w")
    tape.request("c", "terminal/create", command="make")
    tape.reply("c", {"terminalId": "t"})
    tape.note(notes.TerminalExited("t", 0))
    tape.request("d", "fs/write_text_file", path="/ws/a", content="new")
    tape.deny("d")
    events = events_of(tape)
    alone, covered = MessageView(), MessageView()
    by_itself = [alone.on_event(event, is_tool_running=False) for event in events]
    by_a_tool = [covered.on_event(event, is_tool_running=True) for event in events]
    assert [message and message.type for message in by_itself] == [
        None,
        "tool_use_summary",
        "tool_progress",
        "tool_use_summary",
        "tool_use_summary",
    ]
    assert [message is not None for message in by_a_tool] == [False, False, False, False, True]
