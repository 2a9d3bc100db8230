"""The numbered question: what the agent wants to do, its own options, and a line from the terminal.

Promised: nothing typed before the question is taken as its answer; only a number that stands there answers; the end of
input refuses. A question that is cancelled (the run ended, Ctrl-C) stops listening at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec

from dragoman.cli.diffs import lines_of, stat
from dragoman.cli.pieces import Span, Style
from dragoman.cli.screen import Screen
from dragoman.cli.text import one_line, plain
from dragoman.host.permission import Answer, PermissionRequest

# What is shown of each diff, command and input. The rest is counted, never left out in silence.
LINES = 16
INPUT_CHARACTERS = 600

_MARKS: dict[str, Style] = {"+": "good", "-": "bad"}


class Asker:
    """An `on_permission` for a person at a terminal: one question at a time, in the order they came.

    `caught_up` returns when all that the agent said before is on the screen; `free` is not set while a question stands
    there, and what comes meanwhile has to wait.
    """

    def __init__(
        self, screen: Screen, *, fd: int, cwd: Path, width: int, caught_up: Callable[[], Awaitable[None]]
    ) -> None:
        self._screen = screen
        self._fd = fd
        self._cwd = cwd
        self._width = width
        self._caught_up = caught_up
        self._turn = asyncio.Lock()
        self.free = asyncio.Event()
        self.free.set()

    async def __call__(self, request: PermissionRequest) -> Answer:
        async with self._turn:
            await self._caught_up()
            self.free.clear()
            try:
                return await self._ask(request)
            finally:
                self.free.set()

    async def _ask(self, request: PermissionRequest) -> Answer:
        for spans in question(request, self._cwd, self._width):
            self._say(*spans)
        if not request.options:
            self._say(Span("  The agent offers no answers to choose from: refused.", "bad"))
            return request.reject()
        _forget_typed(self._fd)
        while True:
            await self._screen.ask((Span(f"Your answer (1-{len(request.options)}): ", "question"),))
            line = await read_line(self._fd)
            if line is None:
                self._say(Span("  No answer: refused.", "bad"))
                return request.reject()
            self._screen.answered()
            if (number := chosen(line, len(request.options))) is not None:
                return request.select(request.options[number].id)
            self._say(Span(f"  Please type a number from 1 to {len(request.options)}.", "dim"))

    def _say(self, *spans: Span) -> None:
        self._screen.line(spans, block="question")


def chosen(line: str, count: int) -> int | None:
    """The index that a typed line names; None where it names none."""
    text = line.strip().rstrip(".)")
    return int(text) - 1 if text.isascii() and text.isdecimal() and 1 <= int(text) <= count else None


def question(request: PermissionRequest, cwd: Path, width: int) -> Iterable[tuple[Span, ...]]:
    """The question, line by line."""
    title = one_line(request.title, width - 2)
    yield (Span("? ", "question"), Span(title, "bold"), *((Span(f" ({plain(request.kind)})", "dim"),)))
    if request.command is not None:
        yield from _block("$ ", request.command)
    seen = set()
    for diff in request.diffs:
        seen.add(diff.path)
        yield (Span(f"  {_shown(diff.path, cwd)}"), Span(f"  {stat([diff])}", "dim"))
        yield from _diff_lines(lines_of(diff, context=1))
    for path in dict.fromkeys(request.paths):
        if path not in seen and os.path.realpath(path) not in seen:
            yield (Span(f"  {_shown(path, cwd)}"),)
    if request.command is None and not request.diffs and request.raw_input not in (None, {}, []):
        yield from _block("", _compact(request.raw_input))
    for number, option in enumerate(request.options, start=1):
        yield (Span(f"  {number}", "question"), Span(f"  {one_line(option.name, width - 6)}"))


def _block(mark: str, text: str) -> Iterable[tuple[Span, ...]]:
    lines = plain(text).splitlines()
    for position, line in enumerate(lines[:LINES]):
        yield (Span(f"  {mark if position == 0 else ' ' * len(mark)}{line}"),)
    if len(lines) > LINES:
        yield (Span(f"  … {len(lines) - LINES} more lines", "bad"),)


def _diff_lines(lines: list[tuple[str, str]]) -> Iterable[tuple[Span, ...]]:
    for mark, line in lines[:LINES]:
        yield (Span(f"    {mark} {plain(line)}", _MARKS.get(mark, "dim")),)
    if len(lines) > LINES:
        yield (Span(f"    … {len(lines) - LINES} more lines", "dim"),)


def _shown(path: str, cwd: Path) -> str:
    return plain(os.path.relpath(path, cwd) if Path(path).is_relative_to(cwd) else path)


def _compact(raw_input: object) -> str:
    text = msgspec.json.encode(raw_input).decode()
    return text if len(text) <= INPUT_CHARACTERS else f"{text[:INPUT_CHARACTERS]}… ({len(text):,} characters)"


async def read_line(fd: int) -> str | None:
    """A line from a terminal, without holding up the loop; None at the end of input."""
    loop = asyncio.get_running_loop()
    typed = bytearray()
    line: asyncio.Future[str | None] = loop.create_future()

    def readable() -> None:
        try:
            data = os.read(fd, 4096)
        except OSError:  # the terminal is gone
            data = b""
        typed.extend(data)
        if not line.done() and (not data or b"\n" in data):
            line.set_result(bytes(typed).partition(b"\n")[0].decode("utf-8", "replace") if typed else None)

    loop.add_reader(fd, readable)
    try:
        return await line
    finally:
        loop.remove_reader(fd)


def _forget_typed(fd: int) -> None:
    """What was typed before the question was seen must not answer it."""
    import termios

    try:
        termios.tcflush(fd, termios.TCIFLUSH)
    except termios.error:  # no terminal after all
        pass
