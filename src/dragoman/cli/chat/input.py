"""`Line`: where prompts are typed, in a form that suits this terminal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol

from dragoman.cli.output import STDIN, STDOUT, Outbox
from dragoman.cli.pieces import Span
from dragoman.cli.stdin import read_line
from dragoman.record.fold import SessionFold


class Line(Protocol):
    """Entered once the agent is there; until then, and after, its outbox writes to a plain terminal.

    `mark` is what stands before a prompt when it is shown again; empty where that is not needed.
    """

    mark: str

    @property
    def outbox(self) -> Outbox: ...

    @property
    def typed(self) -> str:
        """The text that is typed and not entered."""
        ...

    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def next(self) -> str | None:
        """Wait for an entered text; None when the user wants to leave."""
        ...

    def put_back(self, text: str) -> None:
        """Put a text back, to be edited and entered again, before what is typed already."""
        ...

    def clear(self) -> None: ...

    def refresh(self) -> None:
        """Draw again: something that is drawn with the line has changed."""
        ...

    def handed_over(self) -> AbstractAsyncContextManager[None]:
        """Inside, the input line is gone and the terminal has its usual settings."""
        ...


def is_dumb() -> bool:
    """Test whether the terminal can only write one line after the other."""
    return os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")


def plain_line(idle: asyncio.Event) -> Line:
    from dragoman.cli.chat.input import PlainLine

    return PlainLine(idle)


def input_line(
    *,
    home: Path,
    cwd: Path,
    session_fold: Callable[[], SessionFold | None],
    queued: Callable[[], Sequence[str]],
    status: Callable[[int], Iterable[Span]],
    interrupt: Callable[[], None],
) -> Line:
    # Loaded here: prompt_toolkit takes longer than all the rest, and only a chat on a real terminal needs it.
    from dragoman.cli.chat.completion import ChatCompleter, ChatHistory
    from dragoman.cli.chat.line import InputLine

    return InputLine(
        completer=ChatCompleter(session_fold, cwd),
        history=ChatHistory(home, cwd),
        queued=queued,
        status=status,
        interrupt=interrupt,
    )


MARK = "> "


class PlainLine:
    """`idle` is set while no run is shown."""

    mark = ""  # what was typed stands there already

    def __init__(self, idle: asyncio.Event) -> None:
        self.outbox = Outbox()
        self.typed = ""  # only the terminal knows
        self._idle = idle
        self._reading = False

    async def __aenter__(self) -> PlainLine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def next(self) -> str | None:
        while True:
            await self._idle.wait()
            self._reading = True
            self.refresh()
            line = await read_line(STDIN)
            self._reading = False
            if line is None:
                self.outbox.put(STDOUT, "\n")
            if line is None or line.strip():
                return line

    def put_back(self, text: str) -> None:
        return  # it is still on the screen, to be copied

    def clear(self) -> None:
        return  # Ctrl-C has made the terminal forget what was typed

    def refresh(self) -> None:
        """Write the mark again where something was written while a line is awaited."""
        if self._reading:
            self.outbox.put(STDOUT, MARK)
            self.outbox.flush_notes_soon()

    @asynccontextmanager
    async def handed_over(self) -> AsyncIterator[None]:
        yield
