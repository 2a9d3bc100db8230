"""`Line`: where prompts are typed, in a shape that suits this terminal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol

from dragoman.cli.output import Outbox
from dragoman.cli.pieces import Span
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
        """What is typed and not entered."""
        ...

    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def next(self) -> str | None:
        """What was entered; None when the person wants to leave."""
        ...

    def put_back(self, text: str) -> None:
        """Something to be edited and entered again. What is typed already stays, behind it."""
        ...

    def clear(self) -> None: ...

    def refresh(self) -> None:
        """Something of what is drawn with it has changed."""
        ...

    def handed_over(self) -> AbstractAsyncContextManager[None]:
        """Inside, the terminal is as any program finds it, and the input line is not there."""
        ...


def is_dumb() -> bool:
    """Whether the terminal can do no more than write one line after the other."""
    return os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")


def plain_line(idle: asyncio.Event) -> Line:
    from dragoman.cli.chat.plain import PlainLine

    return PlainLine(idle)


def input_line(
    *,
    home: Path,
    cwd: Path,
    known: Callable[[], SessionFold | None],
    queued: Callable[[], Sequence[str]],
    status: Callable[[int], Iterable[Span]],
    interrupt: Callable[[], None],
) -> Line:
    # Loaded here: prompt_toolkit takes longer than all the rest, and only a chat on a real terminal needs it.
    from dragoman.cli.chat.completion import ChatCompleter
    from dragoman.cli.chat.history import ChatHistory
    from dragoman.cli.chat.line import InputLine

    return InputLine(
        completer=ChatCompleter(known, cwd),
        history=ChatHistory(home, cwd),
        queued=queued,
        status=status,
        interrupt=interrupt,
    )
