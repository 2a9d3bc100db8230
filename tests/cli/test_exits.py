from __future__ import annotations

import pytest

from dragoman import errors
from dragoman.cli.exits import Denials, access_advice, code_of_error, code_of_result, message_of
from dragoman.record import events

HEAD = (0.0, "s", "r", None)


def resolved(by: str, kind: str | None) -> events.PermissionResolved:
    decision = "allow" if (kind or "").startswith("allow") else "deny"
    return events.PermissionResolved(
        *HEAD, "p", "t", "selected", "o", kind, decision=decision, decided_by=by, reason="why"
    )


def wrote(status: str, by: str) -> events.FileWritten:
    return events.FileWritten(*HEAD, "f", "/a", status, None, 1, None, None, decided_by=by)


def not_run(by: str) -> events.TerminalRefused:
    return events.TerminalRefused(*HEAD, "terminal-1", "ls", (), None, (), "denied", None, decided_by=by)


def ended(status: str) -> events.ToolResult:
    return events.ToolResult(*HEAD, "t", "", None, "other", status, (), (), None, None, None)


def denials(*run_events: events.Event) -> Denials:
    heard = Denials()
    for event in run_events:
        heard.add(event)
    return heard


LOGIN = errors.AuthenticationRequired("log in", method="session/new", methods=[("key", "API key", "Set KEY")])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InputError("x"), 2),
        (errors.ConfigError("x", where="f:1"), 2),
        (errors.CapabilityMissing("x", capability="image"), 2),
        (errors.CommandNotFound("x"), 3),
        (errors.StartTimeout("x"), 3),
        (errors.UnsupportedVersion("x"), 3),
        (LOGIN, 4),
        (errors.DeadlineExceeded("x"), 124),
        (errors.IdleLimitExceeded("x"), 124),
        # Any other error before a session is open.
        (errors.RequestFailed("x", method="session/new", code=-32603), 3),
        (errors.AgentCrashed("x"), 3),
    ],
)
def test_errors_before_a_session(error: errors.DragomanError, code: int) -> None:
    assert code_of_error(error, opened=False) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InputError("x"), 2),
        (LOGIN, 4),
        (errors.DeadlineExceeded("x"), 124),
        (errors.AgentCrashed("x"), 1),
        (errors.StoppedEarly("x", stop_reason="refusal"), 1),
        (errors.SilentFailure("x"), 1),
        (errors.InvalidFrame("x"), 1),
        (errors.RequestTimeout("x", method="m"), 1),
        (errors.RequestFailed("x", method="session/prompt", code=-32603), 1),
    ],
)
def test_errors_of_a_run(error: errors.DragomanError, code: int) -> None:
    assert code_of_error(error, opened=True) == code


def test_every_error_has_a_code() -> None:
    def all_of(kind: type[errors.DragomanError]) -> list[type[errors.DragomanError]]:
        return [kind, *(each for child in kind.__subclasses__() for each in all_of(child))]

    for kind in all_of(errors.DragomanError):
        error = kind.__new__(kind)
        assert code_of_error(error, opened=True) in (1, 2, 3, 4, 124)


def test_a_run_that_failed_after_a_denial_was_denied() -> None:
    refused = denials(resolved("rule", "reject_once"))
    assert code_of_error(errors.StoppedEarly("x", stop_reason="refusal"), opened=True, denials=refused) == 5
    assert code_of_error(errors.AgentCrashed("x"), opened=True, denials=refused) == 1
    assert code_of_result("cancelled", refused) == 5
    assert code_of_result("cancelled", denials()) == 1


def test_a_run_that_did_nothing_after_a_denial_was_denied() -> None:
    assert code_of_result("success", denials()) == 0
    assert code_of_result("success", denials(resolved("rule", "reject_once"))) == 5
    assert code_of_result("success", denials(resolved("default", None), ended("failed"))) == 5
    assert code_of_result("success", denials(ended("completed"), resolved("default", "reject_once"))) == 5


def test_a_denied_file_or_command_counts_as_well() -> None:
    assert code_of_result("success", denials(wrote("denied", "rule"))) == 5
    assert code_of_result("success", denials(not_run("rule"), ended("failed"))) == 5
    assert denials(wrote("denied", "default"), not_run("default")).unanswered == 2
    assert code_of_result("success", denials(wrote("denied", "callback"), wrote("failed", "rule"))) == 0
    assert code_of_result("success", denials(not_run("rule"), wrote("done", "rule"))) == 0


def test_a_run_that_found_another_way_is_done() -> None:
    assert code_of_result("success", denials(resolved("rule", "reject_once"), ended("completed"))) == 0


def test_a_denial_by_a_person_is_no_failure() -> None:
    assert code_of_result("success", denials(resolved("callback", "reject_once"))) == 0
    assert code_of_result("success", denials(resolved("rule", "allow_once"))) == 0


def test_only_a_denial_without_a_person_to_ask_calls_for_advice() -> None:
    assert denials(resolved("rule", "reject_once")).unanswered == 0
    assert denials(resolved("default", "reject_once"), resolved("default", None)).unanswered == 2


@pytest.mark.parametrize(
    ("access", "advised"),
    [("ask", ["edit-inside", "full"]), ("edit-inside", ["full"]), ("full", [])],
)
def test_advice_never_names_the_access_that_is_set(access: str, advised: list[str]) -> None:
    advice = access_advice(access).partition("allow it:")[2]
    assert [level for level in ("edit-inside", "full") if f"--access {level}" in advice] == advised


def test_a_message_says_what_happened_and_what_to_do() -> None:
    error = errors.InputError("no such thing", guidance="Name another.\nOr none.")
    assert message_of(error) == "dragoman: no such thing\n  Name another.\n    Or none.\n"
    assert "(InputError, category: input)" in message_of(error, verbose=True)


def test_a_message_shows_the_agents_last_lines_once() -> None:
    assert message_of(errors.AgentCrashed("it ended", stderr="a\nb", guidance="")) == (
        "dragoman: it ended\n  Its last lines:\n  | a\n  | b\n"
    )
    assert message_of(errors.AgentCrashed("it ended:\na\nb", stderr="a\nb", guidance="")).count("b") == 1


def test_a_message_keeps_words_whole_and_its_indent_on_a_terminal() -> None:
    error = errors.AgentCrashed("it ended", stderr="a long line of the agent's own", guidance="Try it once again now.")
    assert message_of(error, width=20) == (
        "dragoman: it ended\n  Its last lines:\n  | a long line of the agent's own\n  Try it once again\n  now.\n"
    )


def test_a_message_cannot_act_on_the_terminal() -> None:
    assert "\x1b" not in message_of(errors.InputError("x\x1b[2J", guidance="\x1b[1A"))
