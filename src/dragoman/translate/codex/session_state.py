"""The runs of a Codex thread (`Runs`), with their tokens and titles, and its `Settings`.

Since about 0.100 a transcript says where turns begin and end. Before that, and where the end of a turn is missing, a
run ends with its last record: successfully if that was the model's final answer, else it was interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dragoman.errors import INTERNAL_ERROR
from dragoman.translate.codex import records
from dragoman.translate.codex.records import RecordRef, TokenInfo, Tokens
from dragoman.translate.frames import INTERRUPTED, RunFrames, SessionFrames, config_options
from dragoman.wire.messages import RpcError
from dragoman.wire.vocabulary import (
    ConfigOptionUpdate,
    ContentBlock,
    PromptResponse,
    SessionInfoUpdate,
    StopReason,
    TextContent,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)


class TokenCounts:
    """The tokens of a thread, which its records count from the beginning, split into those of each run."""

    def __init__(self) -> None:
        self._start = Tokens()  # the count when the last run ended
        self._latest = Tokens()
        self._sum = Tokens()  # of single requests since then, for a count that decreased
        self._has_decreased = False
        self._has_count = False
        self._has_base = False  # the first count includes tokens of another file
        self._context: tuple[int, int] | None = None

    def skip_base(self) -> None:
        """Leave out what is counted before the first request of this file: another file has it."""
        self._has_base = True

    def settle(self) -> None:
        """Start counting from here: earlier tokens were reported, or belong to the parent thread."""
        self._start = self._latest
        self._sum = Tokens()
        self._has_decreased = self._has_count = False

    def count(self, info: TokenInfo) -> None:
        total, last = info.total_token_usage, info.last_token_usage
        if total is None or total == self._latest:
            return
        if self._has_base:
            self._has_base = False
            self._start = self._latest = _combine(total, last or Tokens(), -1)
        if total.total_tokens < self._latest.total_tokens:
            self._has_decreased = True
        self._sum = _combine(self._sum, last or Tokens(), 1)
        self._latest = total
        self._has_count = True

    def context(self, info: TokenInfo) -> UsageUpdate | None:
        """Return the fill of the context window, if it has changed."""
        last, size = info.last_token_usage, info.model_context_window
        if last is None or size is None or self._context == (last.total_tokens, size):
            return None
        self._context = (last.total_tokens, size)
        return UsageUpdate(used=last.total_tokens, size=size)

    def take_spent(self) -> Usage | None:
        """Return the tokens since the last run ended; None if none were counted."""
        if not self._has_count:
            return None
        grown = self._sum if self._has_decreased else _combine(self._latest, self._start, -1)
        self.settle()
        return Usage(
            total_tokens=grown.total_tokens,
            input_tokens=max(0, grown.input_tokens - grown.cached_input_tokens - (grown.cache_write_input_tokens or 0)),
            output_tokens=grown.output_tokens,
            thought_tokens=grown.reasoning_output_tokens,
            cached_read_tokens=grown.cached_input_tokens,
            cached_write_tokens=grown.cache_write_input_tokens,
        )


def _combine(left: Tokens, right: Tokens, sign: int) -> Tokens:
    """Return the sum or the difference, field by field; None for a field that neither side reports."""
    fields: dict[str, int | None] = {}
    for name in Tokens.__struct_fields__:
        a, b = getattr(left, name), getattr(right, name)
        fields[name] = None if a is None and b is None else (a or 0) + sign * (b or 0)
    return msgspec.convert(fields, Tokens)


# The limit of `codex-acp`.
_MAX_TITLE_CHARS: Final = 256


class Runs(RunFrames):
    def __init__(self, frames: SessionFrames, name: str | None) -> None:
        """`name`: the one that a person gave the thread."""
        super().__init__(frames)
        self._last_ref = RecordRef(0.0, None, 0)  # the run's last record
        self._is_text_last = False  # the model's last record was text
        self._is_final_answer_last = False  # and a text that the model marked as its final answer
        self._error: RpcError | None = None  # that the run will end with
        self._first_prompt = ""  # the first one with text
        self._name = name
        self._has_title = False
        self._tokens = TokenCounts()
        self.in_turn = False
        self.has_turn_events = False  # this file says where turns begin and end

    @property
    def has_error(self) -> bool:
        """True if the run will end with an error that was reported."""
        return self._error is not None

    # -- turns

    def start_turn(self, ref: RecordRef) -> None:
        if self.in_turn:
            self.settle()
        self.in_turn = self.has_turn_events = True

    def end_turn(self, ref: RecordRef, model: str | None) -> None:
        self.in_turn = False
        if self._error is not None:
            self._fail(ref, self._error)
        else:
            self.end(ref, "end_turn", model)

    # -- runs

    def prompt(self, ref: RecordRef, prompt: Sequence[ContentBlock], meta: dict[str, Any], *, history: bool) -> None:
        """Add a prompt: it begins a run, joins the active one, or is `history` from before this thread."""
        if history or (self.in_turn and self.is_running):
            message_id = f"{self._frames.session_id}:{ref.offset}"
            for block in prompt:
                self._frames.update(ref.at, UserMessageChunk(content=block, message_id=message_id, meta=meta))
            return
        self.settle()
        self._start_run(ref, prompt, meta)

    def progress(self, ref: RecordRef, *, is_text: bool, is_final_answer: bool = False) -> None:
        """Take note that the model produced something. Without a prompt, begin a run that has none."""
        if self.in_turn and not self.is_running:
            self._start_run(ref, (), ref.meta(origin="codex"))
        self._is_text_last = is_text
        self._is_final_answer_last = is_final_answer
        self.touch(ref)

    def touch(self, ref: RecordRef) -> None:
        """Take note of a record of the run that says nothing about its end."""
        if ref.at >= self._last_ref.at:
            self._last_ref = ref

    def _start_run(self, ref: RecordRef, prompt: Sequence[ContentBlock], meta: dict[str, Any]) -> None:
        self._last_ref = ref
        self._is_text_last = self._is_final_answer_last = False
        self._error = None
        if not self._first_prompt:
            self._first_prompt = " ".join(block.text for block in prompt if isinstance(block, TextContent))
        self._begin(ref.at, ref.offset, prompt, meta)

    def settle(self) -> None:
        """End the run with its last record, because no more can come: as an error, a success or an interruption."""
        if self._error is not None:
            self._fail(self._last_ref, self._error)
        elif self._is_final_answer_last or (self._is_text_last and not self.has_turn_events):
            self.end(self._last_ref, "end_turn", None)
        else:
            self._fail(self._last_ref, INTERRUPTED)

    def set_error(self, message: str, info: Any) -> None:
        """Remember the error that the run will end with."""
        self._error = RpcError(INTERNAL_ERROR, message, {"codexErrorInfo": info})

    def end(self, ref: RecordRef, reason: StopReason, model: str | None) -> None:
        if self.is_running:
            self._emit_first_title(ref)
            answer = PromptResponse(stop_reason=reason, meta=ref.meta(model=model))
            self._answer(ref.at, answer, self._tokens.take_spent(), is_timed=ref.stamp is not None)

    def _fail(self, ref: RecordRef, error: RpcError) -> None:
        if self.is_running:
            self._emit_first_title(ref)
            self._answer(ref.at, error, self._tokens.take_spent(), is_timed=ref.stamp is not None)
            self._error = None

    # -- tokens and titles

    def count_tokens(self, ref: RecordRef, info: TokenInfo) -> None:
        self._tokens.count(info)
        context = self._tokens.context(info)
        if context is not None:
            self._frames.update(ref.at, context)

    def skip_copied_tokens(self, info: TokenInfo) -> None:
        """Start from a count of the parent thread, which this thread continues."""
        self._tokens.count(info)
        self._tokens.settle()

    def skip_base_tokens(self) -> None:
        """Count from the first request on: the file continues the history of another one."""
        self._tokens.skip_base()

    def keep_title(self) -> None:
        """Emit no title by default: another file of the thread has it."""
        self._has_title = True

    def rename(self, ref: RecordRef, name: str) -> None:
        self._has_title = True
        self._emit_title(ref, name)

    def _emit_first_title(self, ref: RecordRef) -> None:
        """Before the first run ends, name the thread by the given name or by its first prompt, as `codex-acp` does."""
        if self._has_title or not (title := _collapse(self._name or self._first_prompt)):
            return
        self._has_title = True
        self._emit_title(ref, title)

    def _emit_title(self, ref: RecordRef, title: str) -> None:
        update = SessionInfoUpdate(title=title, updated_at=ref.stamp) if ref.stamp else SessionInfoUpdate(title=title)
        self._frames.update(ref.at, update)


def _collapse(title: str) -> str:
    title = re.sub(r"\s+", " ", title).strip()
    return title if len(title) <= _MAX_TITLE_CHARS else title[: _MAX_TITLE_CHARS - 1].rstrip() + "…"


# Sandbox and approver to the id and name of the mode, for the approval policy `on-request`.
_ON_REQUEST_MODES: Final = {
    ("read-only", "user"): ("read-only", "Read-only"),
    ("workspace-write", "user"): ("workspace-write", "Workspace access"),
    ("workspace-write", "auto_review"): ("agent", "Auto review"),
}
_FULL_ACCESS: Final = ("agent-full-access", "Full access")


class _Policy(msgspec.Struct, frozen=True, gc=False):
    """A sandbox: `mode` in older versions, `type` in newer ones."""

    mode: str = ""
    type: str = ""


class _Collaboration(msgspec.Struct, frozen=True, gc=False):
    mode: str = ""


class _AppliedSettings(msgspec.Struct, frozen=True, gc=False):
    """The settings in `thread_settings_applied`."""

    model: str | None = None
    reasoning_effort: str | None = None
    collaboration_mode: _Collaboration | None = None


class Settings:
    def __init__(self) -> None:
        self.model: str | None = None
        self._effort: str | None = None
        self._mode: tuple[str, str] | None = None
        self._collaboration: str | None = None

    def turn(self, context: records.Payload) -> ConfigOptionUpdate | None:
        """Apply a `turn_context`; return the update if it changes anything."""
        before = self._values()
        self.model = context.model or self.model
        self._effort = context.effort or self._effort
        sandbox = records.read(context.sandbox_policy, _Policy, _Policy())
        approval = records.string(context.approval_policy)
        if sandbox.mode or sandbox.type:
            self._mode = _mode(sandbox.mode or sandbox.type, approval, context.approvals_reviewer or "user")
        self._set_collaboration(records.read(context.collaboration_mode, _Collaboration, None))
        return self._update() if self._values() != before else None

    def applied(self, raw: msgspec.Raw) -> ConfigOptionUpdate | None:
        """Apply settings that the user changed; return the update if it changes anything."""
        before = self._values()
        settings = records.read(raw, _AppliedSettings, _AppliedSettings())
        self.model = settings.model or self.model
        self._effort = settings.reasoning_effort or self._effort
        self._set_collaboration(settings.collaboration_mode)
        return self._update() if self._values() != before else None

    def _set_collaboration(self, collaboration: _Collaboration | None) -> None:
        if collaboration is not None and collaboration.mode:
            self._collaboration = collaboration.mode

    def _values(self) -> tuple[object, ...]:
        return self.model, self._effort, self._mode, self._collaboration

    def _update(self) -> ConfigOptionUpdate:
        mode, mode_name = self._mode or (None, "")
        collaboration, effort = self._collaboration or "", self._effort or ""
        return config_options(
            (
                ("mode", "Mode", "mode", mode, mode_name),
                (
                    "collaboration_mode",
                    "Collaboration mode",
                    "collaboration_mode",
                    self._collaboration,
                    collaboration.capitalize(),
                ),
                ("model", "Model", "model", self.model, self.model or ""),
                ("reasoning_effort", "Reasoning effort", "thought_level", self._effort, effort.capitalize()),
            )
        )


def _mode(sandbox: str, approval: str, reviewer: str) -> tuple[str, str]:
    if sandbox == "danger-full-access" and approval == "never":
        return _FULL_ACCESS
    if approval == "on-request" and (sandbox, reviewer) in _ON_REQUEST_MODES:
        return _ON_REQUEST_MODES[sandbox, reviewer]
    # Not a mode of `codex-acp`: named by sandbox and policy.
    return f"{sandbox}:{approval or 'granular'}", f"{sandbox}, {approval or 'granular'}"
