"""The events of what the agent asks of us: files, terminals, questions, and what was decided on them."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from dragoman.record import events, notes
from dragoman.record.events import Event, event_from_fact, to_json
from dragoman.wire.vocabulary import Diff, PermissionOption
from support.tape import Tape

E = TypeVar("E", bound=events.EventBase)

ALLOW = PermissionOption(option_id="yes", name="Allow", kind="allow_once")
RULE = notes.Decision("w", "rule", "yours", "allow", rule="allow write src/**", layer="user", remembered=("r1",))


def events_of(tape: Tape) -> list[Event]:
    """The events of the whole tape; each of them can be written as JSON."""
    matches = []
    for fact in tape.facts:
        event = event_from_fact(fact, 7.0, "s", "r", b'{"params":{"a":1}}')
        if event is not None:
            plain = msgspec.json.decode(to_json(event))
            assert (plain["type"], plain["raw"]) == (event.type, event.raw)
            matches.append(event)
    return matches


def only(tape: Tape, kind: type[E]) -> E:
    [matches] = [event for event in events_of(tape) if isinstance(event, kind)]
    return matches


def test_file_written_has_the_diff_and_the_decision() -> None:
    tape = Tape()
    tape.request("w", "fs/write_text_file", path="/ws/a", content="new")
    tape.note(notes.file_note("w", "/ws/real", "old"))
    tape.note(RULE)
    tape.reply("w")
    assert [event.type for event in events_of(tape)] == ["file.written"]
    event = only(tape, events.FileWritten)
    assert (event.path, event.status, event.size, event.old_size) == ("/ws/real", "done", 3, 3)
    assert event.diff == Diff(path="/ws/real", old_text="old", new_text="new")
    assert (event.decision, event.decided_by, event.reason) == ("allow", "rule", "yours")
    assert (event.rule, event.layer, event.remembered) == ("allow write src/**", "user", ("r1",))
    assert event.time == 7.0


def test_file_read_does_not_carry_the_file() -> None:
    tape = Tape()
    tape.request("r", "fs/read_text_file", path="/ws/a", line=2, limit=5)
    tape.reply("r", {"content": "the whole file"})
    event = only(tape, events.FileRead)
    assert (event.type, event.path, event.status) == ("file.read", "/ws/a", "done")
    assert (event.from_line, event.limit, event.size) == (2, 5, 14)
    assert event.raw is None
    assert b"the whole file" not in to_json(event)


def test_a_question_about_a_write_is_a_permission_request_with_its_origin() -> None:
    tape = Tape()
    tape.request("w", "fs/write_text_file", path="/ws/a", content="new")
    tape.note(notes.file_note("w", "/ws/a"))
    tape.note(notes.PermissionRequested("w", "files", "Write a", "edit", (ALLOW,)))
    tape.note(notes.Decision("w", "person", "said yes", "allow", "yes"))
    tape.reply("w")
    assert [event.type for event in events_of(tape)] == ["permission.requested", "permission.resolved", "file.written"]
    requested, resolved = only(tape, events.PermissionRequested), only(tape, events.PermissionResolved)
    assert (requested.origin, requested.tool_call_id, requested.options) == ("files", None, (ALLOW,))
    assert requested.content == (Diff(path="/ws/a", new_text="new"),)
    assert (resolved.permission_id, resolved.origin, resolved.decision) == (requested.permission_id, "files", "allow")
    assert (resolved.option_kind, resolved.decided_by) == ("allow_once", "person")
    assert only(tape, events.FileWritten).decided_by == "person"


def test_a_terminal_has_an_event_for_its_start_and_its_end() -> None:
    tape = Tape()
    tape.request("c", "terminal/create", command="make", args=["all"], env=[{"name": "TOKEN", "value": "secret"}])
    tape.note(notes.Decision("c", "rule", "full", "allow"))
    tape.reply("c", {"terminalId": "t"})
    tape.note(notes.TerminalExited("t", 2, None, "failed", 600, True))
    assert [event.type for event in events_of(tape)] == ["terminal.started", "terminal.exited"]
    started, exited = only(tape, events.TerminalStarted), only(tape, events.TerminalExited)
    assert (started.terminal_id, started.command, started.args, started.env) == ("t", "make", ("all",), ("TOKEN",))
    assert (started.decision, started.decided_by) == ("allow", "rule")
    assert (exited.terminal_id, exited.status, exited.exit_code, exited.signal) == ("t", "exited", 2, None)
    assert (exited.output, exited.output_bytes, exited.truncated) == ("failed", 600, True)
    assert all(b"secret" not in to_json(event) for event in events_of(tape))


def test_a_refused_command_has_an_event_with_the_reason() -> None:
    tape = Tape()
    tape.request("c", "terminal/create", command="rm -rf x")
    tape.note(notes.Decision("c", "rule", "never", "deny", rule="deny rm *"))
    tape.deny("c", message="was not allowed")
    event = only(tape, events.TerminalRefused)
    assert (event.type, event.status, event.error) == ("terminal.refused", "denied", "was not allowed")
    assert (event.decision, event.decided_by, event.rule) == ("deny", "rule", "deny rm *")
    assert event.terminal_id == next(iter(tape.fold.terminals))


def test_a_question_has_events_when_it_is_asked_answered_and_completed() -> None:
    tape = Tape()
    url = "https://example.org"
    tape.request("q", "elicitation/create", mode="url", message="Log in", url=url, elicitationId="e")
    tape.note(notes.Decision("q", "person", "at the terminal"))
    tape.reply("q", {"action": "accept"})
    tape.notify("elicitation/complete", elicitationId="e")
    assert [event.type for event in events_of(tape)] == ["question.asked", "question.answered", "question.completed"]
    requested, answered = only(tape, events.QuestionAsked), only(tape, events.QuestionAnswered)
    assert (requested.mode, requested.message, requested.url, requested.schema) == ("url", "Log in", url, None)
    assert (answered.question_id, answered.action, answered.decided_by) == (requested.question_id, "accept", "person")
    assert only(tape, events.QuestionCompleted).question_id == requested.question_id


def test_a_checkpoint_that_failed_is_a_warning_with_its_reason() -> None:
    tape = Tape()
    tape.note(notes.CheckpointFailed("run-1", "before", "the disk is full"))
    event = only(tape, events.CheckpointFailed)
    assert (event.run_id, event.moment, event.reason) == ("run-1", "before", "the disk is full")
    [notice] = tape.fold.notices.values()
    assert (notice.run_id, notice.severity, notice.text) == ("run-1", "warning", "the disk is full")
    assert "before this run" in notice.title


def test_a_git_action_is_an_event_and_a_notice() -> None:
    tape = Tape()
    tape.note(notes.GitAction("commit", "main", "0123456789abcdef", "Add retries", file_count=2))
    event = only(tape, events.GitAction)
    assert (event.action, event.branch, event.commit) == ("commit", "main", "0123456789abcdef")
    tape.note(notes.GitAction("push", None, "0123456789abcdef", remote="origin", url="https://example.org/x"))
    tape.note(notes.GitAction("pull_request", "main", subject="Add retries", url="https://example.org/1"))
    assert [(notice.title, notice.text) for notice in tape.fold.notices.values()] == [
        ("Committed 0123456789 on main: Add retries", None),
        ("Pushed no branch (0123456789) to origin", "https://example.org/x"),
        ("Opened a pull request: Add retries", "https://example.org/1"),
    ]


def test_a_rewind_is_told_with_the_files_that_it_changed() -> None:
    tape = Tape()
    tape.note(notes.Rewound("op", "before run 3", "run-3", True, 3, ("a", "b")))
    event = only(tape, events.WorkspaceRewound)
    assert (event.target, event.to_run_id, event.before, event.changed) == ("before run 3", "run-3", True, 3)
    [notice] = tape.fold.notices.values()
    assert notice.title == "The files were brought back to what they were before run 3."
    assert notice.text == "3 changed: a, b, and 1 more"
