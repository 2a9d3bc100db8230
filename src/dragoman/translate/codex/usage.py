"""Tokens: what each run cost, of counts that only ever grow.

Codex counts for the whole thread, tells the count several times, and goes on counting from its parent's where a thread
is forked. A run costs what the count grew by.
"""

from __future__ import annotations

import msgspec

from dragoman.translate.codex.records import TokenInfo, Tokens
from dragoman.wire.vocabulary import Usage, UsageUpdate


class Counts:
    def __init__(self) -> None:
        self._start = Tokens()  # when the last run had ended
        self._latest = Tokens()
        self._summed = Tokens()  # of single requests since then, for a count that went back
        self._went_back = False
        self._counted = False
        self._context: tuple[int, int] | None = None

    def settle(self) -> None:
        """What was counted until now is told, or not this thread's to tell."""
        self._start = self._latest
        self._summed = Tokens()
        self._went_back = self._counted = False

    def count(self, info: TokenInfo) -> None:
        total, last = info.total_token_usage, info.last_token_usage
        if total is None or total == self._latest:
            return
        if total.total_tokens < self._latest.total_tokens:
            self._went_back = True
        self._summed = _combined(self._summed, last or Tokens(), 1)
        self._latest = total
        self._counted = True

    def context(self, info: TokenInfo) -> UsageUpdate | None:
        """How full the context is, where that is news."""
        last, size = info.last_token_usage, info.model_context_window
        if last is None or size is None or self._context == (last.total_tokens, size):
            return None
        self._context = (last.total_tokens, size)
        return UsageUpdate(used=last.total_tokens, size=size)

    def spent(self) -> Usage | None:
        """What a run cost that ends here, with what was counted before its prompt came; None where nothing was."""
        if not self._counted:
            return None
        grown = self._summed if self._went_back else _combined(self._latest, self._start, -1)
        self.settle()
        return Usage(
            total_tokens=grown.total_tokens,
            input_tokens=max(0, grown.input_tokens - grown.cached_input_tokens - (grown.cache_write_input_tokens or 0)),
            output_tokens=grown.output_tokens,
            thought_tokens=grown.reasoning_output_tokens,
            cached_read_tokens=grown.cached_input_tokens,
            cached_write_tokens=grown.cache_write_input_tokens,
        )


def _combined(one: Tokens, other: Tokens, sign: int) -> Tokens:
    """The sum or the difference, field by field. What neither tells stays untold."""
    fields: dict[str, int | None] = {}
    for name in Tokens.__struct_fields__:
        a, b = getattr(one, name), getattr(other, name)
        fields[name] = None if a is None and b is None else (a or 0) + sign * (b or 0)
    return msgspec.convert(fields, Tokens)
