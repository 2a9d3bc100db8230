"""The commands that run for the agent, in the record."""

from __future__ import annotations

from dragoman.record import facts, notes, rows
from support.tape import Tape


def create(tape: Tape, terminal_id: str = "term_1", *, request_id: str = "c") -> None:
    env = [{"name": "TOKEN", "value": "secret-value"}]
    tape.request(request_id, "terminal/create", command="make", args=["test"], cwd="/ws", env=env)
    tape.reply(request_id, {"terminalId": terminal_id})


def about(tape: Tape, method: str, request_id: str = "a", terminal_id: str = "term_1") -> None:
    tape.request(request_id, f"terminal/{method}", terminalId=terminal_id)


def only_terminal(tape: Tape) -> rows.Terminal:
    [row] = tape.fold.terminals.values()
    return row


def exits(tape: Tape) -> int:
    return sum(isinstance(fact, facts.TerminalExited) for fact in tape.facts)


def test_a_terminal_is_recorded_from_its_start_to_the_end_of_its_output() -> None:
    tape = Tape()
    tape.prompt()
    create(tape)
    row = only_terminal(tape)
    assert facts.TerminalStarted(row) in tape.facts
    assert (row.terminal_id, row.status, row.command, row.args, row.cwd) == (
        "term_1",
        "running",
        "make",
        ("test",),
        "/ws",
    )
    about(tape, "wait_for_exit")
    [exited] = tape.note(notes.TerminalExited("term_1", 2, None, "…failed\n", 9000, True))
    assert list(tape.reply("a", {"exitCode": 2})) == []
    row = only_terminal(tape)
    assert exited == facts.TerminalExited(row)
    assert (row.status, row.exit_code, row.signal) == ("exited", 2, None)
    assert (row.output, row.output_bytes, row.truncated) == ("…failed\n", 9000, True)
    assert row.ended_time == 5.0


def test_the_values_of_the_environment_are_not_recorded() -> None:
    tape = Tape()
    create(tape)
    assert only_terminal(tape).env == ("TOKEN",)
    assert "secret-value" not in repr(tape.fold.terminals)


def test_a_refused_command_is_recorded_as_denied() -> None:
    tape = Tape()
    tape.request("c", "terminal/create", command="rm -rf /")
    tape.note(notes.Decision("c", "rule", "never", "deny", rule="deny rm *"))
    [refused] = tape.deny("c", message="not allowed: never")
    row = only_terminal(tape)
    assert refused == facts.TerminalRefused(row)
    assert (row.status, row.decided_by, row.rule, row.terminal_id) == ("denied", "rule", "deny rm *", None)


def test_a_command_that_did_not_start_is_recorded_as_failed() -> None:
    tape = Tape()
    tape.request("c", "terminal/create", command="nonesuch")
    tape.note(notes.Decision("c", "rule", "full", "allow"))
    tape.deny("c", -32602, "no program 'nonesuch'")
    assert (only_terminal(tape).status, only_terminal(tape).error) == ("failed", "no program 'nonesuch'")
    tape.request("d", "terminal/create", command="ls")
    tape.reply("d", {"odd": 1})
    assert [row.status for row in tape.fold.terminals.values()] == ["failed", "failed"]


def test_kill_and_release_are_distinguished_from_an_exit() -> None:
    tape = Tape()
    for terminal_id, method in (("k", "kill"), ("r", "release"), ("e", "wait_for_exit")):
        create(tape, terminal_id, request_id=f"create {terminal_id}")
        about(tape, method, method, terminal_id)
        tape.note(notes.TerminalExited(terminal_id, None, "SIGTERM"))
        tape.reply(method, {})
    assert [row.status for row in tape.fold.terminals.values()] == ["killed", "released", "exited"]
    assert exits(tape) == 3


def test_a_command_that_the_host_ends_is_killed_unless_the_agent_released_it() -> None:
    tape = Tape()
    for terminal_id in ("h", "r"):
        create(tape, terminal_id, request_id=f"create {terminal_id}")
    about(tape, "release", "release", "r")
    for terminal_id in ("h", "r"):
        tape.note(notes.TerminalExited(terminal_id, None, "SIGTERM", killed=True))
    assert [row.status for row in tape.fold.terminals.values()] == ["killed", "released"]


def test_a_kill_that_failed_leaves_it_running() -> None:
    tape = Tape()
    create(tape)
    about(tape, "kill")
    tape.deny("a", -32603)
    assert only_terminal(tape).status == "running"
    tape.note(notes.TerminalExited("term_1", 0))
    assert only_terminal(tape).status == "exited"


def test_without_notes_the_end_comes_from_the_answer_to_the_agent() -> None:
    waited, polled, killed = Tape(), Tape(), Tape()
    create(waited)
    about(waited, "wait_for_exit")
    waited.reply("a", {"exitCode": 0})
    create(polled)
    about(polled, "output", "p1")
    polled.reply("p1", {"output": "so far", "truncated": False})
    assert only_terminal(polled).status == "running"
    about(polled, "output", "p2")
    polled.reply("p2", {"output": "all", "truncated": False, "exitStatus": {"signal": "SIGSEGV"}})
    create(killed)
    about(killed, "kill")
    killed.reply("a", {})
    assert (only_terminal(waited).status, only_terminal(waited).exit_code) == ("exited", 0)
    assert (only_terminal(polled).status, only_terminal(polled).signal) == ("exited", "SIGSEGV")
    assert only_terminal(killed).status == "killed"
    assert [exits(tape) for tape in (waited, polled, killed)] == [1, 1, 1]


def test_outputs_that_the_agent_polls_are_not_recorded() -> None:
    tape = Tape()
    create(tape)
    about(tape, "output")
    tape.reply("a", {"output": "polled words", "truncated": False, "exitStatus": {"exitCode": 0}})
    assert "polled words" not in repr(tape.fold.terminals)


def test_output_noted_after_the_end_is_still_recorded() -> None:
    tape = Tape()
    create(tape)
    about(tape, "wait_for_exit")
    tape.reply("a", {"exitCode": 1})
    changes = tape.note(notes.TerminalExited("term_1", 1, None, "late", 4))
    row = only_terminal(tape)
    assert list(changes) == [facts.TerminalChanged(row)]
    assert (row.output, row.exit_code) == ("late", 1)
    assert exits(tape) == 1


def test_an_exit_status_noted_after_the_kill_is_still_recorded() -> None:
    tape = Tape()
    create(tape)
    about(tape, "kill")
    tape.reply("a", {})
    tape.note(notes.TerminalExited("term_1", None, "SIGKILL"))
    assert (only_terminal(tape).status, only_terminal(tape).signal) == ("killed", "SIGKILL")


def test_a_command_that_ends_before_its_creation_is_answered_has_start_and_end() -> None:
    tape = Tape()
    tape.request("c", "terminal/create", command="true")
    assert list(tape.note(notes.TerminalExited("term_1", 0, None, "done", 4))) == []
    started, exited = tape.reply("c", {"terminalId": "term_1"})
    assert isinstance(started, facts.TerminalStarted)
    assert exited == facts.TerminalExited(only_terminal(tape))
    assert (only_terminal(tape).exit_code, only_terminal(tape).output) == (0, "done")


def test_ends_of_unanswered_terminals_do_not_stay_in_memory() -> None:
    tape = Tape()
    tape.note(notes.TerminalExited("none", 0))
    tape.request("c", "terminal/create", command="true")
    tape.note(notes.TerminalExited("gone", 0))
    tape.deny("c", -32800)
    assert not tape.fold.terminals._early


def test_a_tool_calls_terminal_is_found_by_its_id() -> None:
    tape = Tape()
    create(tape, "same", request_id="one")
    create(tape, "same", request_id="two")
    first, second = tape.fold.terminals.values()
    assert tape.fold.terminals.by_terminal_id("same") == second
    assert tape.fold.terminals.by_terminal_id("none") is None
    assert first.status == "running"
