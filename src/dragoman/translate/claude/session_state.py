"""The runs of a Claude session: which prompt began each, how it ended, and what it cost.

A transcript tells of prompts and of what followed them, and seldom that a run is over. Its end is the last word of a
message that stopped by itself, an interruption, an error, or else the next prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dragoman.errors import INTERNAL_ERROR
from dragoman.translate import frames
from dragoman.translate.claude.records import Tokens
from dragoman.translate.translator import Frame
from dragoman.wire.messages import RpcError
from dragoman.wire.vocabulary import (
    ConfigOptionUpdate,
    ContentBlock,
    Cost,
    CurrentModeUpdate,
    PromptRequest,
    PromptResponse,
    SessionConfigSelect,
    SessionConfigSelectItem,
    SessionInfoUpdate,
    SessionUpdate,
    StopReason,
    Usage,
    UsageUpdate,
)

# How the model stopped, where that ends the run, in the protocol's words. `tool_use` and `pause_turn` go on.
STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


class Runs:
    """One run at a time; frames go to `out`."""

    def __init__(self, session_id: str, out: list[Frame]) -> None:
        self._session_id = session_id
        self._out = out
        self._request_id: str | None = None  # of the run that is going on
        self._stop_reason: StopReason | None = None  # how it would end now
        self._tokens: dict[str, tuple[str, Tokens]] = {}  # of each message: its model and tokens
        self._previous_tokens: dict[str, tuple[str, Tokens]] = {}  # the same, of the run before

    @property
    def is_running(self) -> bool:
        return self._request_id is not None

    @property
    def would_end(self) -> bool:
        """The model's last words may have been its last."""
        return self._request_id is not None and self._stop_reason is not None

    def begin(self, at: float, uuid: str, prompt: Sequence[ContentBlock], meta: dict[str, Any]) -> None:
        """A prompt; without words for a run that nobody asked for, as when a background task has news."""
        self._request_id = f"{self._session_id}:{uuid}"
        self._stop_reason = None
        self._previous_tokens, self._tokens = self._tokens, {}
        request = PromptRequest(session_id=self._session_id, prompt=tuple(prompt), meta=meta)
        self._out.append(frames.prompt(self._session_id, at, self._request_id, request))

    def progress(self, stop_reason: StopReason | None) -> None:
        """The model or a tool brought something; `stopped` where the run might end with it."""
        self._stop_reason = stop_reason

    def add_tokens(self, message_id: str, model: str, tokens: Tokens) -> None:
        """Each line of a message repeats its tokens. Where they differ, the last line has the most.

        A prompt may come between the lines of a message, which is then paid with the run that it began in.
        """
        if message_id in self._previous_tokens:
            return
        previous = self._tokens.get(message_id)
        if previous is None or tokens.total >= previous[1].total:
            self._tokens[message_id] = (model, tokens)

    def settle(self, at: float) -> None:
        """Nothing more can come of the run: it ends as it stands, or was cut."""
        if self._request_id is not None and self._stop_reason is not None:
            self.end(at, self._stop_reason)
        else:
            self.fail(at, frames.INTERRUPTED)

    def end(self, at: float, reason: StopReason) -> None:
        if self._request_id is None:
            return
        answer = PromptResponse(stop_reason=reason, usage=self._usage(), meta=self._meta())
        self._out.append(frames.answer(self._session_id, at, self._request_id, "session/prompt", answer))
        self._request_id = None

    def fail(self, at: float, error: RpcError) -> None:
        if self._request_id is None:
            return
        if (usage := self._usage()) is not None:
            # An error has no field for it, and what the run had cost by then is not to be lost.
            error = msgspec.structs.replace(error, data={**error.data, "usage": usage})
        self._out.append(frames.failure(self._session_id, at, self._request_id, "session/prompt", error))
        self._request_id = None

    def _usage(self) -> Usage | None:
        all_tokens = [tokens for _, tokens in self._tokens.values()]
        return _sum(all_tokens) if all_tokens else None

    def _meta(self) -> dict[str, Any] | None:
        """The tokens of each model, where there were several."""
        by_model: dict[str, list[Tokens]] = {}
        for model, tokens in self._tokens.values():
            by_model.setdefault(model, []).append(tokens)
        if len(by_model) < 2:
            return None
        return {"native": {"usage": {model: _sum(tokens) for model, tokens in by_model.items()}}}


def api_error(words: str, detail: Any) -> RpcError:
    """The error of a run that the model's provider refused, in the words of `claude-agent-acp`."""
    return RpcError(INTERNAL_ERROR, f"Internal error: {words}", {"errorKind": detail or "unknown"})


def _sum(all_tokens: Sequence[Tokens]) -> Usage:
    return Usage(
        total_tokens=sum(tokens.total for tokens in all_tokens),
        input_tokens=sum(tokens.input_tokens or 0 for tokens in all_tokens),
        output_tokens=sum(tokens.output_tokens or 0 for tokens in all_tokens),
        cached_read_tokens=_sum_reported([tokens.cache_read_input_tokens for tokens in all_tokens]),
        cached_write_tokens=_sum_reported([tokens.cache_creation_input_tokens for tokens in all_tokens]),
    )


def _sum_reported(figures: Sequence[int | None]) -> int | None:
    """None where nobody reported it."""
    previous = [figure for figure in figures if figure is not None]
    return sum(previous) if previous else None


# As `claude-agent-acp` 0.99.0 names them.
_MODES: Final = {
    "default": "Manual",
    "acceptEdits": "Accept edits",
    "plan": "Plan",
    "auto": "Auto",
    "bypassPermissions": "Bypass permissions",
}

# Tokens that a model's context has room for. Transcripts do not tell: a model with the large one has it in its name,
# or shows it by using more than the small one.
_WINDOW: Final = 200_000
_LARGE_WINDOW: Final = 1_000_000

# Which title is taken where there are several.
_RANKS: Final = ("custom", "ai", "summary")


class Settings:
    def __init__(self, session_id: str, out: list[Frame]) -> None:
        self._session_id = session_id
        self._out = out
        self._mode: str | None = None
        self._model: str | None = None
        self._titles: dict[str, str] = {}
        self._title: str | None = None
        self._used: tuple[str, int] | None = None  # the model, and the tokens of its context
        self._cost: float | None = None

    def mode(self, at: float, mode: str) -> None:
        if mode == self._mode:
            return
        first, self._mode = self._mode is None, mode
        self._emit(at, self._options())
        if not first:
            self._emit(at, CurrentModeUpdate(current_mode_id=mode))

    def model(self, at: float, model: str) -> None:
        if model and model != self._model:
            self._model = model
            self._emit(at, self._options())

    def title(self, at: float, rank: str, title: str) -> None:
        """A title of one of the ranks `custom`, `ai`, `summary`."""
        self._titles[rank] = title
        best = next((self._titles[rank] for rank in _RANKS if self._titles.get(rank)), None)
        if best is not None and best != self._title:
            self._title = best
            self._emit(at, SessionInfoUpdate(title=best))

    def usage(self, at: float, model: str, tokens: Tokens, meta: dict[str, Any]) -> None:
        """Of a line of a message; the lines repeat it."""
        used = (model, tokens.total)
        if used != self._used and tokens.total:
            self._used = used
            self._emit_usage(at, meta)

    def cost(self, at: float, cost: float) -> None:
        if cost != self._cost:
            self._cost = cost
            self._emit_usage(at, {})

    def _emit_usage(self, at: float, meta: dict[str, Any]) -> None:
        if self._used is None:
            return  # the cost is told with the first use
        model, used = self._used
        size = _LARGE_WINDOW if "1m" in model or used > _WINDOW else _WINDOW
        cost = Cost(amount=self._cost, currency="USD") if self._cost is not None else None
        self._emit(at, UsageUpdate(used=used, size=size, cost=cost, meta={**meta, "_claude/model": model}))

    def _options(self) -> ConfigOptionUpdate:
        """All that is known; the choices there were are not."""
        options: list[SessionConfigSelect] = []
        for id_, name, value in (("mode", "Mode", self._mode), ("model", "Model", self._model)):
            if value is not None:
                choice = SessionConfigSelectItem(value=value, name=_MODES.get(value, value))
                options.append(
                    SessionConfigSelect(id=id_, name=name, category=id_, current_value=value, options=(choice,))
                )
        return ConfigOptionUpdate(config_options=tuple(options))

    def _emit(self, at: float, update: SessionUpdate) -> None:
        self._out.append(frames.update(self._session_id, at, update))
