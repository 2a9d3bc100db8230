"""Questions of ours, about what the agent wants us to do, in the record; the agent's own are in `test_fold`."""

from __future__ import annotations

from dragoman.record import facts, notes, rows
from dragoman.wire.vocabulary import Diff, PermissionOption
from support.tape import Tape

OPTIONS = (
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
)


def asked_about_a_write() -> Tape:
    tape = Tape()
    tape.prompt()
    tape.request("w", "fs/write_text_file", path="/ws/a.txt", content="new")
    tape.note(notes.file_note("w", "/ws/a.txt", "old"))
    tape.note(notes.PermissionRequested("w", "files", "Write a.txt", "edit", OPTIONS))
    return tape


def only_permission(tape: Tape) -> rows.Permission:
    [row] = tape.fold.permissions.values()
    return row


def test_a_question_about_a_write_shows_the_diff_and_the_options() -> None:
    tape = asked_about_a_write()
    row = only_permission(tape)
    assert tape.facts[-1] == facts.PermissionRequested(row)
    assert (row.origin, row.title, row.kind, row.tool_call_id) == ("files", "Write a.txt", "edit", None)
    assert row.content == (Diff(path="/ws/a.txt", old_text="old", new_text="new"),)
    assert [location.path for location in row.locations] == ["/ws/a.txt"]
    assert row.options == OPTIONS


def test_a_question_about_a_command_shows_the_command_and_no_values() -> None:
    tape = Tape()
    env = [{"name": "TOKEN", "value": "secret-value"}]
    tape.request("c", "terminal/create", command="make", args=["all"], cwd="/ws", env=env)
    tape.note(notes.PermissionRequested("c", "terminals", "make all", "execute", OPTIONS))
    row = only_permission(tape)
    assert row.raw_input == {"command": "make", "args": ("all",), "cwd": "/ws", "env": ("TOKEN",)}
    assert "secret-value" not in repr(row)


def test_the_reason_to_ask_whatever_rules_allow_is_part_of_the_row() -> None:
    tape = asked_about_a_write()
    before = only_permission(tape)
    [changed] = tape.note(notes.PermissionGuarded("w", "because"))
    assert changed == facts.PermissionChanged(only_permission(tape))
    assert (before.asked_because, only_permission(tape).asked_because) == ("", "because")
    tape.note(notes.Decision("w", "person", "said yes", "allow", "yes"))
    assert only_permission(tape).asked_because == "because"
    assert tape.note(notes.PermissionGuarded("w", "too late")) == ()
    assert tape.note(notes.PermissionGuarded("never asked", "x")) == ()


def test_the_decision_resolves_it_before_the_work_is_done() -> None:
    tape = asked_about_a_write()
    [resolved] = tape.note(notes.Decision("w", "person", "said yes", "allow", "yes", remembered=("r1",)))
    row = only_permission(tape)
    assert resolved == facts.PermissionResolved(row)
    assert (row.outcome, row.option_id, row.option_kind, row.decision) == ("selected", "yes", "allow_once", "allow")
    assert (row.decided_by, row.remembered, row.resolved_time) == ("person", ("r1",), 5.0)
    [ended] = tape.reply("w")
    assert isinstance(ended, facts.FileCallEnded)
    assert (ended.file_call.decided_by, ended.file_call.remembered) == ("person", ("r1",))


def test_a_question_that_was_withdrawn_is_cancelled() -> None:
    tape = asked_about_a_write()
    tape.note(notes.Decision("w", "cancel", "the run was cancelled", "cancelled"))
    tape.deny("w", -32800)
    assert (only_permission(tape).outcome, only_permission(tape).decision) == ("cancelled", "cancelled")
    assert [row.status for row in tape.fold.files.values()] == ["cancelled"]


def test_a_question_without_a_decision_ends_with_its_request() -> None:
    tape = asked_about_a_write()
    resolved, ended = tape.deny("w", -32603)
    assert isinstance(resolved, facts.PermissionResolved)
    assert isinstance(ended, facts.FileCallEnded)
    assert (only_permission(tape).outcome, only_permission(tape).decision) == ("failed", None)


def test_a_decision_on_the_agents_own_question_waits_for_its_answer() -> None:
    tape = Tape()
    tape.permission("p")
    assert list(tape.note(notes.Decision("p", "rule", "why", "deny", rule="deny *", layer="session"))) == []
    [resolved] = tape.decide("p", "reject")
    assert isinstance(resolved, facts.PermissionResolved)
    row = resolved.permission
    assert (row.decision, row.rule, row.layer) == ("deny", "deny *", "session")


def test_the_decision_is_derived_from_the_answer_without_a_note() -> None:
    for option, decision in (("allow", "allow"), ("reject", "deny"), (None, "cancelled"), ("odd", None)):
        tape = Tape()
        tape.permission("p")
        tape.decide("p", option)
        assert only_permission(tape).decision == decision


def test_a_note_about_a_request_that_is_not_there_changes_nothing() -> None:
    tape = Tape()
    notes_of_nothing = (
        notes.PermissionRequested("x", "files", "Write", "edit", OPTIONS),
        notes.Decision("x", "person", "yes", "allow"),
        notes.file_note("x", "/ws/a", "old"),
        notes.TerminalExited("x", 0),
    )
    assert [list(tape.note(note)) for note in notes_of_nothing] == [[], [], [], []]
    assert not tape.fold.permissions
    assert not tape.fold._requests._decisions
