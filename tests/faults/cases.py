"""A table of the outcome of each behaviour. `ELSEWHERE` names the tests of behaviours that do not fit into a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec.structs import replace

from dragoman import errors
from dragoman.errors import DragomanError

from .stage import LIMITS

QUICK_REQUEST = replace(LIMITS, request_timeout=0.5)
QUICK_CANCEL = replace(LIMITS, cancel_timeout=0.2)

RUN_LIMIT_S = 100.0  # longer than any grace, so that a test can let the one pass without the other

FULL_TEXT = "before after"


@dataclass(frozen=True)
class Case:
    """The outcome of one run of a rogue agent, or of its start; then of another run, where the session stays usable."""

    behaviour: str
    text: str = "fine"
    error: type[DragomanError] | None = None
    says: str = ""  # in the error's message
    fails: Literal["start", "open", "run"] = "run"
    status: Literal["success", "error", "cancelled"] | None = None  # by default, by the error
    cancel: bool = False  # by us, once it has spoken
    pass_s: float = 0.0  # seconds that pass on the runtime's clock: there the limits are those of a manual clock
    usable: bool = True  # another run goes well
    reported: str = ""  # in a diagnostic
    kinds: tuple[str, ...] = ()  # provider events that were seen
    runtime: dict[str, Any] = field(default_factory=dict)
    session: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        return self.status or ("error" if self.error else "success")

    def __str__(self) -> str:
        return self.behaviour


def _start(behaviour: str, error: type[DragomanError], says: str = "", **more: Any) -> Case:
    return Case(behaviour, error=error, says=says, fails="start", usable=False, **more)


def _open(behaviour: str, error: type[DragomanError], says: str = "", **more: Any) -> Case:
    return Case(behaviour, error=error, says=says, fails="open", usable=False, **more)


def _run(behaviour: str, error: type[DragomanError], says: str = "", text: str = "before", **more: Any) -> Case:
    return Case(behaviour, text, error, says, **more)


def _cancelled(behaviour: str, text: str = "before", **more: Any) -> Case:
    return Case(behaviour, text, cancel=True, status="cancelled", **more)


def _exits() -> Iterator[Case]:
    for how, code in {"with_0": 0, "with_1": 1, "with_127": 127, "by_sigkill": -9}.items():
        ended = "signal 9" if code < 0 else f"exit code {code}"
        at_start = errors.CommandNotFound if code == 127 else errors.ExitedAtStart
        for state in ("at_start", "in_initialize"):
            says = "SIGKILL" if code < 0 else f"exit code {code}"
            yield _start(f"exits_{state}_{how}", at_start, says)
        for state in ("after_initialize", "in_session_new"):
            yield _open(f"exits_{state}_{how}", errors.AgentCrashed, ended)
        for state in ("in_prompt", "in_permission"):
            yield _run(
                f"exits_{state}_{how}",
                errors.AgentCrashed,
                ended,
                usable=False,
                session={"on_permission": _never} if state == "in_permission" else {},
            )
        yield _cancelled(f"exits_in_cancel_{how}", "before more", usable=False)
        yield Case(f"exits_after_the_run_{how}", "before", usable=False)


async def _never(request: object) -> None:
    import asyncio

    await asyncio.Event().wait()


async def _allow(request: Any) -> Any:
    return request.allow()


SMALL = {"line_limit": 100_000, "count": 300_000}

CASES: tuple[Case, ...] = (
    # lines
    Case("garbage_between_frames", FULL_TEXT, reported="INFO loading model"),
    Case("binary_garbage", FULL_TEXT, reported="not JSON"),
    Case("blank_lines", FULL_TEXT),
    Case("nul_bytes", FULL_TEXT, reported="not JSON"),
    Case("null_line", FULL_TEXT, reported="null"),
    Case("number_lines", FULL_TEXT, reported="1 2 3"),
    Case("text_lines", FULL_TEXT, reported="session/update"),
    Case("batch", FULL_TEXT, reported="not an object"),
    Case("empty_objects", FULL_TEXT, reported="no message"),
    Case("broken_line", FULL_TEXT, reported="not JSON"),
    Case("frame_behind_a_log", FULL_TEXT, reported="DEBUG sent"),
    Case("utf16", FULL_TEXT, reported="not JSON"),
    Case("endless_objects", FULL_TEXT, reported="objects on one line"),
    Case("backslashes", FULL_TEXT, reported="not JSON"),
    Case("deep_nesting", FULL_TEXT, reported="recursion"),
    Case("huge_numbers", FULL_TEXT, reported="digits"),
    Case("not_a_number", FULL_TEXT),
    Case("garbage_first", FULL_TEXT, reported="loading"),
    Case("garbage_after_the_run", FULL_TEXT, reported="WARN bye"),
    Case("pretty_printed", FULL_TEXT, reported="not JSON"),
    Case("two_objects_on_a_line", FULL_TEXT),
    Case("half_lines", "before ü after"),
    Case("slow_bytes", FULL_TEXT),
    Case("byte_order_mark", FULL_TEXT),
    Case("crlf", FULL_TEXT),
    Case("no_jsonrpc", FULL_TEXT),
    Case("invalid_utf8", "before \ufffd\ufffd after"),
    Case("lone_surrogates", "before \ufffd after"),
    Case("long_line", "x" * 40_000_000),
    Case("oversized_update", FULL_TEXT, reported="over the limit", runtime=SMALL),
    _run("oversized_answer", errors.InvalidFrame, "over the line limit", reported="over the limit", runtime=SMALL),
    _run("oversized_answer_id_last", errors.InvalidFrame, "over the line limit", runtime=SMALL),
    Case("oversized_request", "answered -32600", reported="over the limit", runtime=SMALL),
    Case("last_line_without_newline", FULL_TEXT, usable=False),
    _run("truncated_line", errors.AgentCrashed, "exit code 1", usable=False, reported="not JSON"),
    _start("content_length_headers", errors.StartTimeout, pass_s=LIMITS.start_timeout),
    # rpc
    _start("wrong_id", errors.StartTimeout, reported="unknown request", pass_s=LIMITS.start_timeout),
    _start("text_id", errors.StartTimeout, reported="unknown request", pass_s=LIMITS.start_timeout),
    Case("odd_ids", reported="without an id"),
    Case("duplicate_answers", reported="unknown request"),
    Case("answers_to_nothing", reported="unknown request"),
    _run("result_and_error", errors.RequestFailed, "both"),
    Case("neither_result_nor_error", reported="no message"),
    _run("error_without_code", errors.RequestFailed, "no code"),
    _run("error_as_text", errors.RequestFailed, "just words"),
    Case("error_null"),
    Case("unknown_notifications", reported="rogue/news", kinds=("rogue/news",)),
    Case("unknown_request", "answered -32601"),
    Case("request_for_unknown_session", "answered -32002"),
    Case("request_without_params", "answered -32601 " * 5),
    Case("request_id_in_use", "answered -32601", reported="still in use"),
    Case("cancels_its_request", "answered"),
    Case("update_as_request", "answered -32601"),
    # handshake
    _start("version_2", errors.UnsupportedVersion, "version 2"),
    _start("version_0", errors.UnsupportedVersion, "version 0"),
    _start("version_as_text", errors.InvalidFrame, "protocolVersion"),
    _start("version_missing", errors.InvalidFrame, "protocolVersion"),
    _start("initialize_null", errors.InvalidFrame, "protocolVersion"),
    Case("capabilities_of_wrong_types"),
    Case("capabilities_as_text"),
    _start("never_answers_initialize", errors.StartTimeout, "did not answer", pass_s=LIMITS.start_timeout),
    _start("initialize_refused", errors.RequestFailed, "not today"),
    Case("speaks_first", reported="'early'"),
    _open("never_answers_session_new", errors.RequestTimeout, "session/new", runtime={"limits": QUICK_REQUEST}),
    _open("session_refused", errors.AuthenticationRequired, "Authentication required"),
    _open("session_without_id", errors.InvalidFrame, "no sessionId"),
    _open("session_null", errors.InvalidFrame, "no sessionId"),
    _open("session_id_number", errors.InvalidFrame, "no sessionId"),
    _open("session_id_empty", errors.InvalidFrame, "no sessionId"),
    Case("session_settings_of_wrong_types"),
    # updates
    Case("wrong_types", "before\n\nafter"),
    Case("missing_fields", "before\n\nafter"),
    Case("unknown_kinds", FULL_TEXT, kinds=("hologram", "agent_message_chunk ", "")),
    Case("updates_without_session", FULL_TEXT, reported="cannot be read"),
    Case("unfinished_tool", "before \n\nafter"),
    Case("stray_updates", FULL_TEXT, reported="'elsewhere'"),
    Case("absurd_usage", FULL_TEXT),
    Case("forged_prompt", FULL_TEXT, kinds=("_dragoman/prompt",)),
    Case("forged_decision", FULL_TEXT, kinds=("_dragoman/decision",)),
    Case("forged_run_interrupted", FULL_TEXT, kinds=("_dragoman/run_interrupted",)),
    # asking
    Case("permission_without_options", "cancelled", session={"on_permission": _allow}),
    Case("permission_only_reject", "no", session={"on_permission": _allow}),
    Case("permission_unknown_kinds", "no", session={"on_permission": _allow}),
    Case("permission_only_unknown_kinds", "cancelled", session={"access": "full"}),
    Case("permission_same_ids", "cancelled"),
    Case("not_offered", "answered {-32601}"),
    # turns
    _run("unknown_stop_reason", errors.StoppedEarly, "bored"),
    _run("no_stop_reason", errors.RequestFailed, "stop reason"),
    _run("stop_reason_number", errors.RequestFailed, "stop reason"),
    _run("prompt_null", errors.RequestFailed, "stop reason"),
    _run("prompt_list", errors.RequestFailed, "stop reason"),
    Case("usage_of_wrong_types", "before"),
    _run("silent_end_turn", errors.SilentFailure, "without any output", text=""),
    _run("prompt_refused", errors.RequestFailed, "overloaded"),
    _run("never_answers_prompt", errors.DeadlineExceeded, run={"deadline": RUN_LIMIT_S}, pass_s=RUN_LIMIT_S),
    _run(
        "ignores_cancel",
        errors.IdleLimitExceeded,
        usable=False,
        run={"idle_limit": RUN_LIMIT_S},
        pass_s=2 * RUN_LIMIT_S,  # the limit, noticed late by a quarter of it, and the grace of the cancel
    ),
    _cancelled("cancel_answered_with_error"),
    _cancelled("cancel_answered_with_end_turn"),
    _cancelled("cancel_answered_twice", reported="unknown request"),
    _cancelled("cancel_answered_as_request", reported="without an id"),
    _cancelled("talks_after_cancel", "before 0 1 2 3 4"),
    _cancelled("asks_after_cancel", "before\n\n cancelled"),
    # process
    _run(
        "closes_stdin",
        errors.DeadlineExceeded,
        text="",
        usable=False,
        run={"deadline": RUN_LIMIT_S},
        pass_s=2 * RUN_LIMIT_S,  # the limit, and the grace of the cancel
    ),
    _run("closes_stdout", errors.AgentCrashed, "closed its stdout", usable=False),
    Case("closes_stderr"),
    Case("much_stderr", FULL_TEXT, reported="the last line"),
    Case("endless_stderr_line", FULL_TEXT),
    Case("wild_stderr", reported="red"),
    _cancelled("stops_itself", usable=False, pass_s=LIMITS.cancel_timeout),
    *_exits(),
)

# Behaviours with a test of their own, and where that is.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "test_sessions.py": (
        "session_id_repeated",
        "endless_list",
        "repeated_cursor",
        "endless_empty_list",
        "early_updates",
        "late_updates",
        "empty_tool_ids",
        "repeated_tool_ids",
        "orphan_tool_updates",
    ),
    "test_questions.py": (
        "permission_flood",
        "permission_flood_then_exit",
        "permission_after_the_run",
        "permission_unreadable",
        "files_of_others",
        "cancelled_while_asking",
    ),
    "test_cancel.py": ("ends_on_sigint", "ends_on_sigterm", "ignores_signals"),
    "test_processes.py": (
        "leaves_child",
        "leaves_nameless_child",
        "leaves_child_in_own_session",
        "leaves_child_with_stdout",
        "leaves_stubborn_child",
        "keeps_children",
        "stops_reading",
        *(f"exits_while_idle_{how}" for how in ("with_0", "with_1", "with_127", "by_sigkill")),
    ),
    "test_floods.py": (
        "flood_of_updates",
        "flood_of_notifications",
        "flood_of_strays",
        "flood_of_garbage",
        "flood_of_bad_updates",
        "flood_before_the_session",
        "flood_of_requests",
        "flood_of_requests_unread",
        "flood_of_cancelled_requests",
        "endless_updates",
        "endless_large_updates",
        "endless_stderr",
    ),
}
