"""Progress on a terminal's stderr: `Progress` of work in steps, `Spinner` while an agent starts or thinks.

Both appear after a second, so that quick work shows nothing, and leave nothing behind. Nothing is drawn in a log.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from dragoman.cli.output import STDERR, USUAL_WIDTH, Outbox, terminal_width
from dragoman.cli.screen import CLEAR_LINE
from dragoman.cli.text import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

T = TypeVar("T")

# Seconds before anything is shown: most work is done by then. A first `npx` takes half a minute.
PATIENCE_S: Final = 1.0
# Seconds between two pictures of a progress bar.
PAUSE_S: Final = 0.1
# Seconds between two pictures of a spinner.
FRAME_S: Final = 0.125

# Columns that stay free at the right: a terminal writes ^C there, and without room for it would begin another line, on
# which a bar can no longer be erased.
_MARGIN_COLUMNS: Final = 3


def is_drawable() -> bool:
    """Test whether stderr is a terminal on which a line can be drawn again."""
    return os.isatty(STDERR) and os.environ.get("TERM") != "dumb"


def stderr_console() -> Console:
    """Create a console for progress bars, somewhat narrower than the terminal."""
    from rich.console import Console

    width = max((terminal_width() or USUAL_WIDTH) - _MARGIN_COLUMNS, 1)
    return Console(stderr=True, force_terminal=True, width=width, highlight=False)


class Progress:
    """Work of `total` steps, 0 where the number is not known: `with Progress("checking", n) as progress: …`."""

    def __init__(
        self, action: str, total: int = 0, *, unit: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._action = action
        self._total = total
        self._unit = f" {unit}" if unit else ""
        self._clock = clock
        self._is_shown = is_drawable()
        self._next_draw = clock() + PATIENCE_S
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def each(self, items: Sequence[T]) -> Iterator[T]:
        """Iterate over the items, each of them a step."""
        for done, item in enumerate(items):
            self.at(done)
            yield item

    def at(self, done: int) -> None:
        """Draw that so many steps are done, unless it was drawn a moment ago."""
        if not self._is_shown or self._clock() < self._next_draw:
            return
        self._next_draw = self._clock() + PAUSE_S
        count = f"{done:,} of {self._total:,}{self._unit}" if self._total else f"{done:,}{self._unit}"
        if self._bar is None:
            self._bar = self._new_bar()
            self._bar.add_task("", total=self._total or None, completed=done, count=count)
            self._bar.start()
        else:
            self._bar.update(self._bar.task_ids[0], completed=done, count=count)
            self._bar.refresh()

    def _new_bar(self) -> Bar:
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bar

        action = TextColumn(f"{one_line(self._action, 30)}:", markup=False)
        count = TextColumn("{task.fields[count]}", markup=False)
        extent = (BarColumn(20), TaskProgressColumn()) if self._total else ()
        return Bar(
            action, count, *extent, console=stderr_console(), transient=True, auto_refresh=False, get_time=self._clock
        )


class Spinner:
    """A moving line on stderr, from a second after the block is entered until it is left. Only for terminals.

    `action` is what takes so long ("starting opencode"), or returns it; `last_line` is the agent's last line of output.
    """

    def __init__(self, outbox: Outbox, action: str | Callable[[], str], *, width: int, shown: bool) -> None:
        self._outbox = outbox
        self._action = action
        self._width = width
        self._is_shown = shown
        self._is_drawn = False
        self._is_paused = False
        self._task: asyncio.Task[None] | None = None
        self.last_line = ""

    async def __aenter__(self) -> Spinner:
        if self._is_shown:
            self._task = asyncio.get_running_loop().create_task(self._spin(), name="dragoman spinner")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it: there is something else to see now."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._erase()

    def pause(self) -> None:
        """Draw nothing more: a question has the terminal."""
        self._is_paused = True
        self._erase()

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._outbox.put(STDERR, CLEAR_LINE)
            self._outbox.flush_notes_soon()

    async def _spin(self) -> None:
        await asyncio.sleep(PATIENCE_S)
        loop = asyncio.get_running_loop()
        started = loop.time() - PATIENCE_S
        while True:
            elapsed = loop.time() - started
            detail = f": {self.last_line}" if self.last_line else ""
            action = self._action if isinstance(self._action, str) else self._action()
            line = one_line(f"{spinner_frame(elapsed)} {action} ({elapsed:.0f}s){detail}", self._width - 1)
            if not self._is_paused:
                self._is_drawn = True
                self._outbox.put(STDERR, CLEAR_LINE + line)
                await self._outbox.flush_notes()
            await asyncio.sleep(FRAME_S)


def spinner_frame(elapsed: float) -> str:
    """Return the spinner's character after `elapsed` seconds."""
    from rich.spinner import Spinner as RichSpinner

    spinner = RichSpinner("dots")
    return spinner.frames[int(elapsed / FRAME_S) % len(spinner.frames)]
