"""`Progress`: how far a long work has come, on one moving line of a terminal; elsewhere nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, TypeVar

from dragoman.cli.output import STDERR, USUAL_WIDTH, terminal_width
from dragoman.cli.screen import CLEAR_LINE
from dragoman.cli.text import one_line

T = TypeVar("T")

# Seconds before anything is shown: most work is done by then.
PATIENCE: Final = 1.0
# Seconds between two drawings: it moves, and costs nothing.
PAUSE: Final = 0.1


class Progress:
    """`total` is how many steps there will be; 0 where nobody knows."""

    def __init__(
        self, doing: str, total: int = 0, *, unit: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._doing = doing
        self._total = total
        self._unit = unit
        self._clock = clock
        self._shown = os.isatty(STDERR) and os.environ.get("TERM") != "dumb"
        self._next = clock() + PATIENCE
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()

    def each(self, items: Sequence[T]) -> Iterator[T]:
        """Each of them is a step."""
        for done, item in enumerate(items):
            self.at(done)
            yield item

    def at(self, done: int) -> None:
        """So many steps are done."""
        if not self._shown or self._clock() < self._next:
            return
        self._next = self._clock() + PAUSE
        self._drawn = True
        line = one_line(f"{self._doing}: {self._far(done)}", (terminal_width() or USUAL_WIDTH) - 1)
        sys.stderr.write(CLEAR_LINE + line)
        sys.stderr.flush()

    def _far(self, done: int) -> str:
        unit = f" {self._unit}" if self._unit else ""
        if not self._total:
            return f"{done:,}{unit}"
        return f"{done:,} of {self._total:,}{unit} ({done * 100 // self._total} %)"
