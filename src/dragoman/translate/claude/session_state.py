"""The runs of a Claude session (`Runs`), with their tokens, and its `Settings`.

A transcript does not always say that a run has ended. Its end is the last text of a message that stopped by itself,
the summary of stop hooks, the duration of a turn, an interruption, an error, or else its last record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dragoman.errors import INTERNAL_ERROR
from dragoman.translate.claude.records import Tokens
from dragoman.translate.frames import INTERRUPTED, RunFrames, SessionFrames, config_options
from dragoman.wire.dialect import MessageTokens
from dragoman.wire.messages import RpcError
from dragoman.wire.vocabulary import (
    ContentBlock,
    Cost,
    CurrentModeUpdate,
    PromptResponse,
    SessionInfoUpdate,
    StopReason,
    Usage,
    UsageUpdate,
)

# The model's stop reasons that end a run, and the protocol's. After `tool_use` and `pause_turn` the run continues.
STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


class _Spent(msgspec.Struct, frozen=True, gc=False):
    """The tokens of a message, with its model and the id of its first record."""

    model: str
    record_id: str
    tokens: Tokens


class Runs(RunFrames):
    def __init__(self, frames: SessionFrames) -> None:
        super().__init__(frames)
        self._stop_reason: StopReason | None = None  # of the run, if nothing more comes of it
        self._last_at = 0.0  # time of the run's last record
        self._spent: dict[str, _Spent] = {}  # by message
        self._previously_spent: dict[str, _Spent] = {}  # the same, of the run before

    @property
    def would_end(self) -> bool:
        """True if the run would have a normal end now: the model's last text may have been its last."""
        return self.is_running and self._stop_reason is not None

    def begin(self, at: float, uuid: str, prompt: Sequence[ContentBlock], meta: dict[str, Any]) -> None:
        """Begin a run. The prompt is empty if nobody asked, as when a background task has ended."""
        self._stop_reason = None
        self._last_at = at
        self._previously_spent, self._spent = self._spent, {}
        self._begin(at, uuid, prompt, meta)

    def progress(self, at: float, stop_reason: StopReason | None) -> None:
        """Take note of a record of the model or a tool; `stop_reason` if the run may end with it."""
        self._stop_reason = stop_reason
        self.touch(at)

    def touch(self, at: float) -> None:
        """Take note of a record of the run that says nothing about its end."""
        self._last_at = max(self._last_at, at)

    def add_tokens(self, message_id: str, record_id: str, model: str, tokens: Tokens) -> None:
        """Add the tokens of a message. Each of its lines repeats them; if they differ, the last line has the most.

        A prompt may come between the lines of a message: the tokens belong to the run in which the message began.
        """
        if message_id in self._previously_spent:
            return
        previous = self._spent.get(message_id)
        if previous is None:
            self._spent[message_id] = _Spent(model, record_id, tokens)
        elif tokens.total >= previous.tokens.total:
            self._spent[message_id] = _Spent(model, previous.record_id, tokens)

    def settle(self) -> None:
        """End the run with its last record, because no more of them can come: normally, or as interrupted."""
        if self._stop_reason is not None:
            self.end(self._last_at, self._stop_reason)
        else:
            self.fail(self._last_at, INTERRUPTED)

    def give_up(self) -> None:
        """End the run with its last record, as cancelled."""
        self.end(self._last_at, "cancelled")

    def end_turn(self, at: float) -> None:
        """End the run, because the file says that the turn has ended."""
        self.end(at, self._stop_reason or "end_turn")

    def end(self, at: float, reason: StopReason) -> None:
        self._end(at, PromptResponse(stop_reason=reason, meta=self._meta()))

    def fail(self, at: float, error: RpcError) -> None:
        self._end(at, error)

    def _end(self, at: float, answer: PromptResponse | RpcError) -> None:
        messages = [
            MessageTokens(
                spent.record_id,
                spent.tokens.input_tokens or 0,
                spent.tokens.output_tokens or 0,
                spent.tokens.cache_read_input_tokens,
                spent.tokens.cache_creation_input_tokens,
            )
            for spent in self._spent.values()
        ]
        self._answer(at, answer, self._usage(), messages, is_timed=at > 0)

    def _usage(self) -> Usage | None:
        all_tokens = [spent.tokens for spent in self._spent.values()]
        return _sum(all_tokens) if all_tokens else None

    def _meta(self) -> dict[str, Any] | None:
        """Return the tokens of each model, if there were several."""
        by_model: dict[str, list[Tokens]] = {}
        for spent in self._spent.values():
            by_model.setdefault(spent.model, []).append(spent.tokens)
        if len(by_model) < 2:
            return None
        return {"native": {"usage": {model: _sum(tokens) for model, tokens in by_model.items()}}}


def api_error(text: str, detail: Any) -> RpcError:
    """Return the error of a run that the model's provider refused, as `claude-agent-acp` reports it."""
    return RpcError(INTERNAL_ERROR, f"Internal error: {text}", {"errorKind": detail or "unknown"})


def _sum(all_tokens: Sequence[Tokens]) -> Usage:
    return Usage(
        total_tokens=sum(tokens.total for tokens in all_tokens),
        input_tokens=sum(tokens.input_tokens or 0 for tokens in all_tokens),
        output_tokens=sum(tokens.output_tokens or 0 for tokens in all_tokens),
        cached_read_tokens=_sum_reported([tokens.cache_read_input_tokens for tokens in all_tokens]),
        cached_write_tokens=_sum_reported([tokens.cache_creation_input_tokens for tokens in all_tokens]),
    )


def _sum_reported(figures: Sequence[int | None]) -> int | None:
    """Return the sum; None if no figure was reported."""
    reported = [figure for figure in figures if figure is not None]
    return sum(reported) if reported else None


# The names in `claude-agent-acp` 0.99.0.
_MODE_NAMES: Final = {
    "default": "Manual",
    "acceptEdits": "Accept edits",
    "plan": "Plan",
    "auto": "Auto",
    "bypassPermissions": "Bypass permissions",
}

# Tokens of a model's context window. Transcripts do not say which one a model has, so this is a guess: the large one if
# its name says so, or once it has used more than the small one.
_WINDOW_TOKENS: Final = 200_000
_LARGE_WINDOW_TOKENS: Final = 1_000_000

# The sources of titles, the preferred one first.
_TITLE_RANKS: Final = ("custom", "ai", "summary")


class Settings:
    """The mode, model, title, cost and context size of one session; reports each change."""

    def __init__(self, frames: SessionFrames) -> None:
        self._frames = frames
        self._mode: str | None = None
        self._model: str | None = None
        self._titles: dict[str, str] = {}
        self._title: str | None = None
        self._used: tuple[str, int] | None = None  # the model, and the tokens of its context
        self._cost: float | None = None
        self._large_models: set[str] = set()  # models that have used more than the small window

    def mode(self, at: float, mode: str) -> None:
        if mode == self._mode:
            return
        is_first, self._mode = self._mode is None, mode
        self._emit_options(at)
        if not is_first:
            self._frames.update(at, CurrentModeUpdate(current_mode_id=mode))

    def model(self, at: float, model: str) -> None:
        if model and model != self._model:
            self._model = model
            self._emit_options(at)

    def title(self, at: float, rank: str, title: str) -> None:
        """Set the title of one of the ranks `custom`, `ai`, `summary`."""
        self._titles[rank] = title
        best = next((self._titles[rank] for rank in _TITLE_RANKS if self._titles.get(rank)), None)
        if best is not None and best != self._title:
            self._title = best
            self._frames.update(at, SessionInfoUpdate(title=best))

    def usage(self, at: float, model: str, tokens: Tokens, meta: dict[str, Any]) -> None:
        """Set the context size after a message. Each line of the message repeats it."""
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
            return  # the cost is reported with the first context size
        model, used = self._used
        if "1m" in model or used > _WINDOW_TOKENS:
            self._large_models.add(model)
        size = _LARGE_WINDOW_TOKENS if model in self._large_models else _WINDOW_TOKENS
        cost = Cost(amount=self._cost, currency="USD") if self._cost is not None else None
        native = {**meta.get("native", {}), "isSizeGuessed": True}
        meta = {**meta, "native": native, "_claude/model": model}
        self._frames.update(at, UsageUpdate(used=used, size=size, cost=cost, meta=meta))

    def _emit_options(self, at: float) -> None:
        mode_name = _MODE_NAMES.get(self._mode or "", self._mode or "")
        options = (
            ("mode", "Mode", "mode", self._mode, mode_name),
            ("model", "Model", "model", self._model, self._model or ""),
        )
        self._frames.update(at, config_options(options))
