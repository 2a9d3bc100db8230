"""The files that the agent reads and writes through the host, in the record."""

from __future__ import annotations

import pytest

from dragoman.record import facts, notes, rows
from dragoman.wire.vocabulary import Diff
from support.tape import Tape


def write(tape: Tape, content: str, *, request_id: str = "w") -> None:
    tape.request(request_id, "fs/write_text_file", path="/ws/a.txt", content=content)


def only_file(tape: Tape) -> rows.FileCall:
    [row] = tape.fold.files.values()
    return row


def test_a_read_is_recorded_with_its_range_and_size() -> None:
    tape = Tape()
    tape.prompt()
    tape.request("r", "fs/read_text_file", path="/ws/a.txt", line=3, limit=2)
    assert only_file(tape).status == "pending"
    [ended] = tape.reply("r", {"content": "é\n"})
    assert isinstance(ended, facts.FileCallEnded)
    row = only_file(tape)
    assert ended.file_call == row
    assert (row.operation, row.path, row.line, row.limit, row.status, row.size) == (
        "read",
        "/ws/a.txt",
        3,
        2,
        "done",
        3,
    )
    assert row.run_id == next(iter(tape.fold.runs))


def test_a_write_is_recorded_with_its_decision_and_diff_at_its_resolved_path() -> None:
    tape = Tape()
    write(tape, "new\n")
    tape.note(notes.file_note("w", "/ws/real.txt", "old\n"))
    tape.note(notes.Decision("w", "rule", "your rule", "allow", rule="allow write src/**", layer="user"))
    [ended] = tape.reply("w")
    row = only_file(tape)
    assert ended == facts.FileCallEnded(row)
    assert row.status == "done"
    assert row.diff == Diff(path="/ws/real.txt", old_text="old\n", new_text="new\n")
    assert (row.path, row.size, row.old_size) == ("/ws/real.txt", 4, 4)
    assert (row.decision, row.decided_by, row.reason) == ("allow", "rule", "your rule")
    assert (row.rule, row.layer) == ("allow write src/**", "user")


def test_a_new_file_has_a_diff_without_an_old_text() -> None:
    tape = Tape()
    write(tape, "new\n")
    tape.note(notes.file_note("w", "/ws/a.txt"))
    tape.reply("w")
    assert only_file(tape).diff == Diff(path="/ws/a.txt", new_text="new\n")
    assert only_file(tape).old_size is None


def test_without_the_old_text_there_is_no_diff() -> None:
    unnoted, no_text = Tape(), Tape()
    write(unnoted, "new\n")
    unnoted.reply("w")
    write(no_text, "new\n")
    no_text.note(notes.file_note("w", "/ws/a.txt", old_size=9))
    no_text.reply("w")
    assert (only_file(unnoted).diff, only_file(no_text).diff, only_file(no_text).old_size) == (None, None, 9)


def test_texts_that_are_too_large_are_recorded_by_size_and_digest() -> None:
    large = "é" * notes.MAX_DIFF_TEXT_BYTES
    note = notes.file_note("w", "/ws/a.txt", large)
    assert (note.old_text, note.old_size) == (None, 2 * notes.MAX_DIFF_TEXT_BYTES)
    old_large, new_large = Tape(), Tape()
    write(old_large, "small")
    old_large.note(note)
    old_large.reply("w")
    row = only_file(old_large)
    assert (row.diff, row.old_size, row.old_sha256) == (None, 2 * notes.MAX_DIFF_TEXT_BYTES, note.old_sha256)
    write(new_large, large)
    new_large.note(notes.file_note("w", "/ws/a.txt", "small"))
    new_large.reply("w")
    row = only_file(new_large)
    assert (row.diff, row.size, row.old_size) == (None, 2 * notes.MAX_DIFF_TEXT_BYTES, 5)


@pytest.mark.parametrize(
    ("decision", "code", "status"),
    [
        ("deny", -32001, "denied"),
        ("cancelled", -32800, "cancelled"),
        (None, -32800, "cancelled"),
        ("allow", -32603, "failed"),
        (None, -32602, "failed"),
    ],
)
def test_a_write_that_did_not_happen_says_whether_it_was_refused_or_failed(
    decision: str | None, code: int, status: str
) -> None:
    tape = Tape()
    write(tape, "new")
    if decision is not None:
        tape.note(notes.Decision("w", "person", "why", decision))  # type: ignore[arg-type]  # from the list above
    [ended] = tape.deny("w", code, "told so")
    assert isinstance(ended, facts.FileCallEnded)
    assert (ended.file_call.status, ended.file_call.error) == (status, "told so")


def test_a_file_whose_name_is_no_utf8_is_recorded() -> None:
    tape = Tape()
    write(tape, "new")
    tape.note(notes.file_note("w", "/ws/caf\udce9", "old"))
    assert only_file(tape).path == "/ws/caf\ufffd"


def test_an_unreadable_request_is_reported_and_makes_no_row() -> None:
    tape = Tape()
    changes = tape.request("w", "fs/write_text_file", path=7)
    assert list(changes) == [facts.OtherUpdate("fs/write_text_file")]
    assert list(tape.deny("w", -32602)) == []
    assert not tape.fold.files


def test_an_id_that_is_used_again_begins_another_call() -> None:
    tape = Tape()
    write(tape, "one")
    tape.note(notes.Decision("w", "person", "no", "deny"))
    tape.deny("w")
    write(tape, "two")
    tape.reply("w")
    first, second = tape.fold.files.values()
    assert (first.status, first.decided_by) == ("denied", "person")
    assert (second.status, second.decided_by) == ("done", None)


def test_open_requests_of_a_lost_connection_are_not_the_next_ones() -> None:
    tape = Tape()
    write(tape, "one")
    tape.note(notes.PermissionRequested("w", "files", "Write", "edit", ()))
    tape.note(notes.Decision("w", "person", "no", "deny"))
    tape.request("x", "fs/write_text_file", path="/ws/b", content="two")
    tape.note(notes.PermissionRequested("x", "files", "Write", "edit", ()))
    tape.reconnect()
    for request_id in ("w", "x"):
        tape.request(request_id, "fs/read_text_file", path="/ws/a.txt")
        tape.note(notes.file_note(request_id, "/ws/a.txt"))
        tape.reply(request_id, {"content": ""})
    files = [(row.status, row.decided_by, row.diff) for row in tape.fold.files.values()]
    assert files == [("pending", None, None)] * 2 + [("done", None, None)] * 2
    assert [row.outcome for row in tape.fold.permissions.values()] == ["selected", "pending"]


def test_only_pending_requests_are_in_memory() -> None:
    tape = Tape()
    for turn in range(50):
        write(tape, "text", request_id=f"w{turn}")
        tape.note(notes.Decision(f"w{turn}", "rule", "full", "allow"))
        tape.reply(f"w{turn}")
        tape.note(notes.Decision(f"w{turn}", "cancel", "late", "cancelled"))
    requests = tape.fold._requests
    assert not requests._pending
    assert not requests._decisions
    assert not tape.fold.files._pending
    assert not tape.fold.files._texts
