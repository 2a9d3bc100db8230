"""The runs of a Codex thread: which prompt began each, how it ended, and what it cost.

Since about 0.100 a transcript tells where turns begin and end. Before, a run ends with the next prompt: well where the
model had the last word, else it was cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from dragoman.errors import INTERNAL_ERROR
from dragoman.translate import frames
from dragoman.translate.codex.records import TokenInfo
from dragoman.translate.codex.usage import Counts
from dragoman.translate.codex.where import Where
from dragoman.translate.translator import Frame
from dragoman.wire.messages import RpcError
from dragoman.wire.vocabulary import (
    ContentBlock,
    PromptRequest,
    PromptResponse,
    SessionInfoUpdate,
    StopReason,
    TextContent,
    UserMessageChunk,
)

# As long as `codex-acp` lets a title be.
_LONGEST_TITLE: Final = 256


class Runs:
    """One at a time. What is to be told goes to `out`."""

    def __init__(self, session_id: str, out: list[Frame], name: str | None) -> None:
        self._session_id = session_id
        self._out = out
        self._request_id: str | None = None  # of the run that is going on
        self._last_word = False  # the model had it
        self._error: RpcError | None = None
        self._first = ""  # the first prompt of all that has words
        self._name = name  # that someone gave the thread
        self._titled = False
        self._counts = Counts()
        self.in_turn = False
        self.tells_turns = False  # this file says where turns begin and end

    @property
    def going_on(self) -> bool:
        return self._request_id is not None

    @property
    def broken(self) -> bool:
        """An error was told that the run will end with."""
        return self._error is not None

    # -- turns

    def turn_started(self, where: Where) -> None:
        if self.in_turn:
            self.settle(where)
        self.in_turn = self.tells_turns = True

    def turn_ended(self, where: Where, model: str | None) -> None:
        self.in_turn = False
        if self._error is not None:
            self._fail(where, self._error)
        else:
            self.end(where, "end_turn", model)

    # -- runs

    def prompted(self, where: Where, prompt: Sequence[ContentBlock], meta: dict[str, Any], *, history: bool) -> None:
        """The user's words: they begin a run, join the one that is going on, or are of a time before."""
        if history or (self.in_turn and self.going_on):
            message_id = f"{self._session_id}:{where.position}"
            for block in prompt:
                chunk = UserMessageChunk(content=block, message_id=message_id, meta=meta)
                self._out.append(frames.update(self._session_id, where.at, chunk))
            return
        self.settle(where)
        self._begin(where, prompt, meta)

    def heard(self, where: Where, *, words: bool) -> None:
        """The model brought something. Where nobody asked for it, the run is one without a prompt."""
        if self.in_turn and not self.going_on:
            self._begin(where, (), where.meta(origin="codex"))
        self._last_word = words

    def _begin(self, where: Where, prompt: Sequence[ContentBlock], meta: dict[str, Any]) -> None:
        self._request_id = f"{self._session_id}:{where.position}"
        self._last_word = False
        self._error = None
        if not self._first:
            self._first = " ".join(block.text for block in prompt if isinstance(block, TextContent))
        asked = PromptRequest(session_id=self._session_id, prompt=tuple(prompt), meta=meta)
        self._out.append(frames.prompt(self._session_id, where.at, self._request_id, asked))

    def settle(self, where: Where) -> None:
        """Nothing more can come of the run: it ends as it stands, or was cut."""
        if self._error is not None:
            self._fail(where, self._error)
        elif self._last_word and not self.tells_turns:
            self.end(where, "end_turn", None)
        else:
            self._fail(where, frames.CUT)

    def broke(self, message: str, info: Any) -> None:
        """An error that the run will end with."""
        self._error = RpcError(INTERNAL_ERROR, message, {"codexErrorInfo": info})

    def end(self, where: Where, reason: StopReason, model: str | None) -> None:
        if self._request_id is None:
            return
        self._title(where)
        answer = PromptResponse(stop_reason=reason, usage=self._counts.spent(), meta=where.meta(model=model))
        self._out.append(frames.answer(self._session_id, where.at, self._request_id, "session/prompt", answer))
        self._request_id = None

    def _fail(self, where: Where, error: RpcError) -> None:
        if self._request_id is None:
            return
        self._title(where)
        if (usage := self._counts.spent()) is not None:
            error = RpcError(error.code, error.message, {**error.data, "usage": usage})
        self._out.append(frames.failure(self._session_id, where.at, self._request_id, "session/prompt", error))
        self._request_id = None
        self._error = None

    # -- tokens and titles

    def counted(self, where: Where, info: TokenInfo) -> None:
        self._counts.count(info)
        context = self._counts.context(info)
        if context is not None:
            self._out.append(frames.update(self._session_id, where.at, context))

    def copied_count(self, info: TokenInfo) -> None:
        """A count of the parent's, from which this thread goes on."""
        self._counts.count(info)
        self._counts.settle()

    def keep_title(self) -> None:
        """Another file tells what the thread is called."""
        self._titled = True

    def text_path(self, where: Where, name: str) -> None:
        self._titled = True
        self._tell_title(where, name)

    def _title(self, where: Where) -> None:
        """Before the first run ends, a thread that nobody named is called by its first prompt, as the adapter does."""
        if self._titled or not (title := _collapsed(self._name or self._first)):
            return
        self._titled = True
        self._tell_title(where, title)

    def _tell_title(self, where: Where, title: str) -> None:
        update = (
            SessionInfoUpdate(title=title, updated_at=where.stamp) if where.stamp else SessionInfoUpdate(title=title)
        )
        self._out.append(frames.update(self._session_id, where.at, update))


def _collapsed(title: str) -> str:
    title = re.sub(r"\s+", " ", title).strip()
    return title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1].rstrip() + "…"
