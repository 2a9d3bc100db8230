"""The runs of a Codex thread: which prompt began each, how it ended, and what it cost.

Since about 0.100 a transcript tells where turns begin and end. Before, a run ends with the next prompt: well where the
model had the last word, else it was cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dragoman.errors import INTERNAL_ERROR
from dragoman.translate import frames
from dragoman.translate.codex import records
from dragoman.translate.codex.records import RecordRef, TokenInfo, Tokens
from dragoman.translate.translator import Frame
from dragoman.wire.messages import RpcError
from dragoman.wire.vocabulary import (
    ConfigOptionUpdate,
    ContentBlock,
    PromptRequest,
    PromptResponse,
    SessionConfigSelect,
    SessionConfigSelectItem,
    SessionInfoUpdate,
    StopReason,
    TextContent,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)


class TokenCounts:
    def __init__(self) -> None:
        self._start = Tokens()  # when the last run had ended
        self._latest = Tokens()
        self._sum = Tokens()  # of single requests since then, for a count that went back
        self._has_decreased = False
        self._has_count = False
        self._context: tuple[int, int] | None = None

    def settle(self) -> None:
        """Start counting from here: what came before was reported, or belongs to the parent."""
        self._start = self._latest
        self._sum = Tokens()
        self._has_decreased = self._has_count = False

    def count(self, info: TokenInfo) -> None:
        total, last = info.total_token_usage, info.last_token_usage
        if total is None or total == self._latest:
            return
        if total.total_tokens < self._latest.total_tokens:
            self._has_decreased = True
        self._sum = _combine(self._sum, last or Tokens(), 1)
        self._latest = total
        self._has_count = True

    def context(self, info: TokenInfo) -> UsageUpdate | None:
        """The fill of the context window, if it has changed."""
        last, size = info.last_token_usage, info.model_context_window
        if last is None or size is None or self._context == (last.total_tokens, size):
            return None
        self._context = (last.total_tokens, size)
        return UsageUpdate(used=last.total_tokens, size=size)

    def take_spent(self) -> Usage | None:
        """The tokens since the last run ended; None if none were counted."""
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


def _combine(one: Tokens, other: Tokens, sign: int) -> Tokens:
    """The sum or the difference, field by field. What neither tells stays untold."""
    fields: dict[str, int | None] = {}
    for name in Tokens.__struct_fields__:
        a, b = getattr(one, name), getattr(other, name)
        fields[name] = None if a is None and b is None else (a or 0) + sign * (b or 0)
    return msgspec.convert(fields, Tokens)


# As long as `codex-acp` lets a title be.
_MAX_TITLE_CHARS: Final = 256


class Runs:
    """One run at a time; frames go to `out`."""

    def __init__(self, session_id: str, out: list[Frame], name: str | None) -> None:
        self._session_id = session_id
        self._out = out
        self._request_id: str | None = None  # of the run that is going on
        self._is_text_last = False  # the model had it
        self._error: RpcError | None = None
        self._first = ""  # the first prompt of all that has words
        self._name = name  # that someone gave the thread
        self._has_title = False
        self._tokens = TokenCounts()
        self.in_turn = False
        self.has_turn_events = False  # this file says where turns begin and end

    @property
    def is_running(self) -> bool:
        return self._request_id is not None

    @property
    def has_error(self) -> bool:
        """An error was told that the run will end with."""
        return self._error is not None

    # -- turns

    def start_turn(self, ref: RecordRef) -> None:
        if self.in_turn:
            self.settle(ref)
        self.in_turn = self.has_turn_events = True

    def end_turn(self, ref: RecordRef, model: str | None) -> None:
        self.in_turn = False
        if self._error is not None:
            self._fail(ref, self._error)
        else:
            self.end(ref, "end_turn", model)

    # -- runs

    def prompt(self, ref: RecordRef, prompt: Sequence[ContentBlock], meta: dict[str, Any], *, history: bool) -> None:
        """The user's words: they begin a run, join the one that is going on, or are of a time before."""
        if history or (self.in_turn and self.is_running):
            message_id = f"{self._session_id}:{ref.position}"
            for block in prompt:
                chunk = UserMessageChunk(content=block, message_id=message_id, meta=meta)
                self._out.append(frames.update(self._session_id, ref.at, chunk))
            return
        self.settle(ref)
        self._begin(ref, prompt, meta)

    def progress(self, ref: RecordRef, *, words: bool) -> None:
        """The model brought something. Where nobody asked for it, the run is one without a prompt."""
        if self.in_turn and not self.is_running:
            self._begin(ref, (), ref.meta(origin="codex"))
        self._is_text_last = words

    def _begin(self, ref: RecordRef, prompt: Sequence[ContentBlock], meta: dict[str, Any]) -> None:
        self._request_id = f"{self._session_id}:{ref.position}"
        self._is_text_last = False
        self._error = None
        if not self._first:
            self._first = " ".join(block.text for block in prompt if isinstance(block, TextContent))
        request = PromptRequest(session_id=self._session_id, prompt=tuple(prompt), meta=meta)
        self._out.append(frames.prompt(self._session_id, ref.at, self._request_id, request))

    def settle(self, ref: RecordRef) -> None:
        """Nothing more can come of the run: it ends as it stands, or was cut."""
        if self._error is not None:
            self._fail(ref, self._error)
        elif self._is_text_last and not self.has_turn_events:
            self.end(ref, "end_turn", None)
        else:
            self._fail(ref, frames.INTERRUPTED)

    def set_error(self, message: str, info: Any) -> None:
        """An error that the run will end with."""
        self._error = RpcError(INTERNAL_ERROR, message, {"codexErrorInfo": info})

    def end(self, ref: RecordRef, reason: StopReason, model: str | None) -> None:
        if self._request_id is None:
            return
        self._emit_first_title(ref)
        answer = PromptResponse(stop_reason=reason, usage=self._tokens.take_spent(), meta=ref.meta(model=model))
        self._out.append(frames.answer(self._session_id, ref.at, self._request_id, "session/prompt", answer))
        self._request_id = None

    def _fail(self, ref: RecordRef, error: RpcError) -> None:
        if self._request_id is None:
            return
        self._emit_first_title(ref)
        if (usage := self._tokens.take_spent()) is not None:
            error = RpcError(error.code, error.message, {**error.data, "usage": usage})
        self._out.append(frames.failure(self._session_id, ref.at, self._request_id, "session/prompt", error))
        self._request_id = None
        self._error = None

    # -- tokens and titles

    def count_tokens(self, ref: RecordRef, info: TokenInfo) -> None:
        self._tokens.count(info)
        context = self._tokens.context(info)
        if context is not None:
            self._out.append(frames.update(self._session_id, ref.at, context))

    def skip_copied_tokens(self, info: TokenInfo) -> None:
        """A count of the parent's, from which this thread goes on."""
        self._tokens.count(info)
        self._tokens.settle()

    def keep_title(self) -> None:
        """Another file tells what the thread is called."""
        self._has_title = True

    def rename(self, ref: RecordRef, name: str) -> None:
        self._has_title = True
        self._emit_title(ref, name)

    def _emit_first_title(self, ref: RecordRef) -> None:
        """Before the first run ends, a thread that nobody named is called by its first prompt, as the adapter does."""
        if self._has_title or not (title := _collapse(self._name or self._first)):
            return
        self._has_title = True
        self._emit_title(ref, title)

    def _emit_title(self, ref: RecordRef, title: str) -> None:
        update = SessionInfoUpdate(title=title, updated_at=ref.stamp) if ref.stamp else SessionInfoUpdate(title=title)
        self._out.append(frames.update(self._session_id, ref.at, update))


def _collapse(title: str) -> str:
    title = re.sub(r"\s+", " ", title).strip()
    return title if len(title) <= _MAX_TITLE_CHARS else title[: _MAX_TITLE_CHARS - 1].rstrip() + "…"


# (sandbox, who approves) to the mode's id and name, where it asks on request.
_ASKING: Final = {
    ("read-only", "user"): ("read-only", "Read-only"),
    ("workspace-write", "user"): ("workspace-write", "Workspace access"),
    ("workspace-write", "auto_review"): ("agent", "Auto review"),
}
_FULL_ACCESS: Final = ("agent-full-access", "Full access")


class _Policy(msgspec.Struct, frozen=True, gc=False):
    """A sandbox: called by its mode in older versions, by its type in newer ones."""

    mode: str = ""
    type: str = ""


class _Collaboration(msgspec.Struct, frozen=True, gc=False):
    mode: str = ""


class _AppliedSettings(msgspec.Struct, frozen=True, gc=False):
    """Of `thread_settings_applied`."""

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
        """Of a `turn_context`; the update where it changes anything."""
        before = self._now()
        self.model = context.model or self.model
        self._effort = context.effort or self._effort
        sandbox = records.read(context.sandbox_policy, _Policy, _Policy())
        approval = records.string(context.approval_policy)
        if sandbox.mode or sandbox.type:
            self._mode = _mode(sandbox.mode or sandbox.type, approval, context.approvals_reviewer or "user")
        self._collaborates(records.read(context.collaboration_mode, _Collaboration, None))
        return self._update() if self._now() != before else None

    def applied(self, raw: msgspec.Raw) -> ConfigOptionUpdate | None:
        """Of the settings of a thread, which the user changed."""
        before = self._now()
        settings = records.read(raw, _AppliedSettings, _AppliedSettings())
        self.model = settings.model or self.model
        self._effort = settings.reasoning_effort or self._effort
        self._collaborates(settings.collaboration_mode)
        return self._update() if self._now() != before else None

    def _collaborates(self, collaboration: _Collaboration | None) -> None:
        if collaboration is not None and collaboration.mode:
            self._collaboration = collaboration.mode

    def _now(self) -> tuple[object, ...]:
        return self.model, self._effort, self._mode, self._collaboration

    def _update(self) -> ConfigOptionUpdate:
        """All that is known."""
        options: list[SessionConfigSelect] = []
        mode, name = self._mode or (None, "")
        for id_, title, category, value, value_name in (
            ("mode", "Mode", "mode", mode, name),
            ("collaboration_mode", "Collaboration mode", "collaboration_mode", self._collaboration, None),
            ("model", "Model", "model", self.model, None),
            ("reasoning_effort", "Reasoning effort", "thought_level", self._effort, None),
        ):
            if value:
                choice = SessionConfigSelectItem(value=value, name=value_name or _display_name(id_, value))
                options.append(
                    SessionConfigSelect(id=id_, name=title, category=category, current_value=value, options=(choice,))
                )
        return ConfigOptionUpdate(config_options=tuple(options))


def _mode(sandbox: str, approval: str, reviewer: str) -> tuple[str, str]:
    if sandbox == "danger-full-access" and approval == "never":
        return _FULL_ACCESS
    if approval == "on-request" and (sandbox, reviewer) in _ASKING:
        return _ASKING[sandbox, reviewer]
    # No mode of the adapter's: told by what it is.
    return f"{sandbox}:{approval or 'granular'}", f"{sandbox}, {approval or 'granular'}"


def _display_name(id_: str, value: str) -> str:
    return value if id_ == "model" else value.capitalize()
