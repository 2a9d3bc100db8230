"""The quirks of the presets that show on the wire: the scene that brings each out, and what its recording shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from .recording import Recording
from .scenes import (
    Scene,
    always_for_two_files,
    always_in_two_processes,
    creates_where_reading_is_offered,
    gets_a_server,
    gets_two_prompts,
    goes_on_after_a_cancelled_question,
    is_allowed,
    is_cancelled_while_it_asks,
    is_cancelled_while_it_speaks,
    is_cancelled_while_its_terminal_runs,
    is_loaded_at_once,
    is_loaded_in_the_next_minute,
    is_loaded_twice,
    is_refused,
    is_started_elsewhere,
    is_told_a_model,
    model_fails,
    speaks,
    speaks_until,
    writes,
    writes_and_runs,
)

NOT_ON_THE_WIRE = {
    "leaves-children",
    "child-survives-cancel",
    "slow-exit",
    "asks-npm",
    "embedded-file-by-path",  # what the model is told is not on this wire
    "login-before-session",  # its agent needs an account, and is not run here
}
"""What a recording cannot show."""

Check: TypeAlias = Callable[[Recording], Any]


def _updates_after(kind: str) -> Check:
    return lambda seen: seen.updates_after_prompt(kind)


def _updates_before_session(seen: Recording) -> bool:
    [(_, at, _)] = seen.requests("session/new")
    return any(frame.update for frame in seen.frames[:at])


def _stopped(reason: str) -> Check:
    """Check that the prompt was answered with this stop reason, with nothing after it."""

    def check(seen: Recording) -> bool:
        [(_, _, reply)] = seen.requests("session/prompt")
        return reply.result["stopReason"] == reason and "It went on." not in seen.text

    return check


def _refused_and_stopped(reason: str) -> Check:
    def check(seen: Recording) -> bool:
        [permission] = seen.fold.permissions.values()
        assert not [frame for frame in seen.frames if frame.method == "session/cancel"]
        return permission.option_kind == "reject_once" and bool(_stopped(reason)(seen))

    return check


def _asks_again(seen: Recording) -> bool:
    first, *more = seen.fold.permissions.values()
    return first.option_kind == "allow_always" and bool(more)


def _outlives(seen: Recording) -> bool:
    first, second = (fold.permissions for fold in seen.folds.values() if fold.runs)
    return len(first) == 1 and not second


def _ends_a_turn_that_was_cancelled(seen: Recording) -> bool:
    assert [frame for frame in seen.frames if frame.method == "session/cancel"]
    return bool(_stopped("end_turn")(seen))


def _tells(*methods: str) -> Check:
    return lambda seen: all(seen.called(method) for method in methods)


def _no_such_tool(seen: Recording) -> bool:
    [request] = [frame for frame in seen.frames if frame.method == "session/new"]
    assert request.params["mcpServers"][0]["name"] == "notes"
    return bool(seen.text) and "echo_note" not in seen.text


def _two_prompts(first: str, second: str) -> Check:
    def check(seen: Recording) -> bool:
        answers = [reply for _, _, reply in seen.requests("session/prompt")]
        how = ["error" if reply.error else reply.result["stopReason"] for reply in answers]
        return how == [first, second]

    return check


def _next_prompt_fails(seen: Recording) -> bool:
    [(_, _, first), (_, _, second)] = seen.requests("session/prompt")
    return bool(first.result) and bool(second.error)


def _no_tool_call_before(seen: Recording) -> bool:
    at = next(at for at, frame in enumerate(seen.frames) if frame.method == "session/request_permission")
    return not any(frame.update == "tool_call" for frame in seen.frames[:at])


def _read_error_breaks(seen: Recording) -> bool:
    assert seen.called("fs/read_text_file")
    refused = [frame for frame in seen.frames if frame.dir == "out" and frame.error]
    return bool(refused) and [call.status for call in seen.fold.tool_calls] == ["failed"]


def _replays_late(seen: Recording) -> bool:
    [(_, at, _)] = seen.requests("session/load")
    return any(frame.update == "agent_message_chunk" for frame in seen.frames[at:])


def _loses_it(seen: Recording) -> bool:
    [(sent, _, reply)] = seen.requests("session/load")
    return bool(reply.error) or not any(frame.update == "agent_message_chunk" for frame in seen.frames[sent:])


def _loads_once(seen: Recording) -> bool:
    [(_, _, first), (_, _, second)] = seen.requests("session/load")
    return not first.error and bool(second.error)


def _terminal_is_left(seen: Recording) -> bool:
    [(_, at, _)] = seen.requests("session/prompt")
    cancelled = next(at for at, frame in enumerate(seen.frames) if frame.method == "session/cancel")
    assert seen.called("terminal/create")
    return not any(frame.method == "terminal/kill" for frame in seen.frames[cancelled : at + 1])


def _writes_unadvertised(seen: Recording) -> bool:
    offered = seen.frames[0].params["clientCapabilities"].get("fs", {}).get("writeTextFile", False)
    return not offered and bool(seen.called("fs/write_text_file"))


def _error_as_text(seen: Recording) -> bool:
    return bool(_stopped("end_turn")(seen)) and bool(seen.text)


def _error_as_silence(seen: Recording) -> bool:
    return bool(_stopped("end_turn")(seen)) and not seen.text


def _asks_for_shell_only(seen: Recording) -> bool:
    [permission] = seen.fold.permissions.values()
    return permission.kind == "execute" and len(list(seen.fold.tool_calls)) == 2


def _never_asks(seen: Recording) -> bool:
    return [call.status for call in seen.fold.tool_calls] == ["completed"] and not seen.fold.permissions


def _modes_are_urls(seen: Recording) -> bool:
    setting = seen.fold.setting("mode")
    return setting is not None and all(choice.value.startswith("https://") for choice in setting.choices)


def _rejected(seen: Recording) -> bool:
    [(_, _, reply)] = seen.requests("session/set_model")
    [(_, _, made)] = seen.requests("session/new")
    return bool(made.result["models"]) and reply.error is not None


def _stays_where_it_was_started(seen: Recording) -> bool:
    [request] = [frame for frame in seen.frames if frame.method == "session/new"]
    assert request.params["cwd"] == "/workspace/elsewhere"
    return "/workspace" in seen.text and "elsewhere" not in seen.text


def _one_piece(seen: Recording) -> bool:
    pieces = [frame for frame in seen.frames if frame.update == "agent_message_chunk"]
    return len(pieces) == 1 and seen.text == "One. Two. Three."


class Pin(Struct, frozen=True):
    """The scene that provokes a quirk, and the check that recognises it."""

    scene: Scene
    check: Check
    errands: bool = True  # the model can make titles


def _late(kind: str, **more: bool) -> Pin:
    return Pin(speaks_until(kind), _updates_after(kind), **more)


PINS: dict[tuple[str, str], Pin] = {
    ("claude", "updates-after-response"): _late("session_info_update", errands=False),
    ("claude", "cancels-permission-request"): Pin(is_cancelled_while_it_asks, _tells("$/cancel_request")),
    ("claude", "off-spec-methods"): Pin(speaks, _tells("_auth/status_update")),
    ("claude", "mcp-tools-deferred"): Pin(gets_a_server, _no_such_tool),
    ("codex", "refusal-cancels-turn"): Pin(is_refused, _refused_and_stopped("cancelled")),
    ("codex", "always-asks-again"): Pin(always_for_two_files, _asks_again),
    ("codex", "cancels-permission-request"): Pin(is_cancelled_while_it_asks, _tells("$/cancel_request")),
    ("codex", "off-spec-methods"): Pin(speaks, _tells("_auth/status_update")),
    ("codex", "model-error-as-text"): Pin(model_fails, _error_as_text),
    ("codex", "mcp-tools-deferred"): Pin(gets_a_server, _no_such_tool),
    ("copilot", "mcp-stdio-dropped"): Pin(gets_a_server, _no_such_tool),
    ("copilot", "mode-ids-are-urls"): Pin(speaks, _modes_are_urls),
    ("copilot", "updates-before-session"): Pin(speaks, _updates_before_session),
    ("copilot", "refusal-ends-turn"): Pin(is_refused, _refused_and_stopped("end_turn")),
    ("copilot", "model-error-as-text"): Pin(model_fails, _error_as_text),
    ("copilot", "second-prompt-cancels-first"): Pin(gets_two_prompts, _two_prompts("cancelled", "end_turn")),
    ("gemini", "read-error-breaks-create"): Pin(creates_where_reading_is_offered, _read_error_breaks),
    ("gemini", "permission-without-tool-call"): Pin(is_allowed, _no_tool_call_before),
    ("gemini", "replay-after-load"): Pin(is_loaded_in_the_next_minute, _replays_late),
    ("gemini", "load-within-minute"): Pin(is_loaded_at_once, _loses_it),
    ("gemini", "loads-once"): Pin(is_loaded_twice, _loads_once),
    ("gemini", "second-prompt-cancels-first"): Pin(gets_two_prompts, _two_prompts("cancelled", "end_turn")),
    ("goose", "cancel-as-end-turn"): Pin(is_cancelled_while_it_speaks, _ends_a_turn_that_was_cancelled),
    ("goose", "updates-before-session"): Pin(speaks, _updates_before_session),
    ("goose", "string-request-ids"): Pin(
        is_allowed, lambda seen: isinstance(seen.called("session/request_permission")[0].id, str)
    ),
    ("goose", "always-outlives-process"): Pin(always_in_two_processes, _outlives),
    ("goose", "model-error-as-text"): Pin(model_fails, _error_as_text),
    ("goose", "terminal-survives-cancel"): Pin(is_cancelled_while_its_terminal_runs, _terminal_is_left),
    ("kimi", "updates-after-response"): _late("usage_update"),
    ("kimi", "always-asks-again"): Pin(always_for_two_files, _asks_again),
    ("kimi", "model-error-as-silence"): Pin(model_fails, _error_as_silence),
    ("kimi", "second-prompt-refused"): Pin(gets_two_prompts, _two_prompts("end_turn", "error")),
    ("nanocoder", "asks-for-shell-only"): Pin(writes_and_runs, _asks_for_shell_only),
    ("nanocoder", "mcp-stdio-dropped"): Pin(gets_a_server, _no_such_tool),
    ("nanocoder", "cancelled-question-breaks-session"): Pin(goes_on_after_a_cancelled_question, _next_prompt_fails),
    ("nanocoder", "messages-whole"): Pin(speaks, _one_piece),
    ("nanocoder", "stays-where-started"): Pin(is_started_elsewhere, _stays_where_it_was_started),
    ("nanocoder", "updates-before-session"): Pin(speaks, _updates_before_session),
    ("opencode", "writes-unadvertised"): Pin(writes, _writes_unadvertised),
    ("opencode", "refusal-ends-turn"): Pin(is_refused, _refused_and_stopped("end_turn")),
    ("pi", "never-asks"): Pin(is_allowed, _never_asks),
    ("pi", "mcp-stdio-dropped"): Pin(gets_a_server, _no_such_tool),
    ("pi", "set-model-rejected"): Pin(is_told_a_model, _rejected),
    ("qwen", "updates-after-response"): _late("available_commands_update"),
    ("qwen", "mcp-tools-deferred"): Pin(gets_a_server, _no_such_tool),
    ("qwen", "off-spec-methods"): Pin(is_allowed, _tells("craft/drainMidTurnQueue")),
    ("qwen", "refusal-ends-turn"): Pin(is_refused, _refused_and_stopped("end_turn")),
    ("qwen", "second-prompt-fails-first"): Pin(gets_two_prompts, _two_prompts("error", "end_turn")),
}
