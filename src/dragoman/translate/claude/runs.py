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
from dragoman.wire.vocabulary import ContentBlock, PromptRequest, PromptResponse, StopReason, Usage

# How the model stopped, where that ends the run, in the protocol's words. `tool_use` and `pause_turn` go on.
STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


class Runs:
    """One at a time. What is to be told goes to `out`."""

    def __init__(self, session_id: str, out: list[Frame]) -> None:
        self._session_id = session_id
        self._out = out
        self._request_id: str | None = None  # of the run that is going on
        self._stopped: StopReason | None = None  # how it would end now
        self._spent: dict[str, tuple[str, Tokens]] = {}  # of each message: its model and tokens
        self._paid: dict[str, tuple[str, Tokens]] = {}  # the same, of the run before

    @property
    def going_on(self) -> bool:
        return self._request_id is not None

    @property
    def would_end(self) -> bool:
        """The model's last words may have been its last."""
        return self._request_id is not None and self._stopped is not None

    def begin(self, at: float, uuid: str, prompt: Sequence[ContentBlock], meta: dict[str, Any]) -> None:
        """A prompt; without words for a run that nobody asked for, as when a background task has news."""
        self._request_id = f"{self._session_id}:{uuid}"
        self._stopped = None
        self._paid, self._spent = self._spent, {}
        asked = PromptRequest(session_id=self._session_id, prompt=tuple(prompt), meta=meta)
        self._out.append(frames.prompt(self._session_id, at, self._request_id, asked))

    def heard(self, stopped: StopReason | None) -> None:
        """The model or a tool brought something; `stopped` where the run might end with it."""
        self._stopped = stopped

    def spent(self, message_id: str, model: str, tokens: Tokens) -> None:
        """Each line of a message repeats its tokens. Where they differ, the last line has the most.

        A prompt may come between the lines of a message, which is then paid with the run that it began in.
        """
        if message_id in self._paid:
            return
        known = self._spent.get(message_id)
        if known is None or tokens.total >= known[1].total:
            self._spent[message_id] = (model, tokens)

    def settle(self, at: float) -> None:
        """Nothing more can come of the run: it ends as it stands, or was cut."""
        if self._request_id is not None and self._stopped is not None:
            self.end(at, self._stopped)
        else:
            self.fail(at, frames.CUT)

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
        every = [tokens for _, tokens in self._spent.values()]
        return _sum(every) if every else None

    def _meta(self) -> dict[str, Any] | None:
        """The tokens of each model, where there were several."""
        by_model: dict[str, list[Tokens]] = {}
        for model, tokens in self._spent.values():
            by_model.setdefault(model, []).append(tokens)
        if len(by_model) < 2:
            return None
        return {"native": {"usage": {model: _sum(tokens) for model, tokens in by_model.items()}}}


def api_error(words: str, detail: Any) -> RpcError:
    """What a run ends with that the model's provider refused, as `claude-agent-acp` words it."""
    return RpcError(INTERNAL_ERROR, f"Internal error: {words}", {"errorKind": detail or "unknown"})


def _sum(every: Sequence[Tokens]) -> Usage:
    return Usage(
        total_tokens=sum(tokens.total for tokens in every),
        input_tokens=sum(tokens.input_tokens or 0 for tokens in every),
        output_tokens=sum(tokens.output_tokens or 0 for tokens in every),
        cached_read_tokens=_known_sum([tokens.cache_read_input_tokens for tokens in every]),
        cached_write_tokens=_known_sum([tokens.cache_creation_input_tokens for tokens in every]),
    )


def _known_sum(figures: Sequence[int | None]) -> int | None:
    """None where nobody reported it."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None
