"""The numbered question: what the agent wants to do, its own options, and a line from the terminal.

Promised: nothing typed before the question is taken as its answer; only a number that stands there answers; the end of
input refuses. What is too long for a question is shown whole when asked for. A question that is cancelled (the run
ended, Ctrl-C) stops listening at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dragoman.cli.diffs import lines_of, stat
from dragoman.cli.follow import Floor
from dragoman.cli.pieces import Span, Style
from dragoman.cli.screen import Screen
from dragoman.cli.text import exact, one_line
from dragoman.host.permission import Answer, Option, PermissionRequest

# What is shown at first of each diff, command and input. The rest is counted, never left out in silence.
LINES = 16
INPUT_CHARACTERS = 600
# What to type to see the rest.
SHOW_ALL = "a"
ALWAYS = "always"
NEVER = "never"

_MARKS: dict[str, Style] = {"+": "good", "-": "bad"}

# What an option does is its kind; its name is the agent's word, and could say the contrary.
_EFFECTS = {
    "allow_once": "allows it once",
    "allow_always": "allows it always",
    "reject_once": "refuses it once",
    "reject_always": "refuses it always",
}
# Names that say it themselves.
_PLAIN_NAMES = {
    "allow": "allow_once",
    "allow once": "allow_once",
    "allow always": "allow_always",
    "always allow": "allow_always",
    "reject": "reject_once",
    "reject once": "reject_once",
    "reject always": "reject_always",
    "always reject": "reject_always",
}


class Asker:
    """An `on_permission` for a person at a terminal. `floor` is entered for each question: one at a time."""

    def __init__(self, screen: Screen, floor: Floor, *, fd: int, cwd: Path, width: int) -> None:
        self.answers_as = "person"
        self._screen = screen
        self._floor = floor
        self._fd = fd
        self._cwd = cwd
        self.width = width

    async def __call__(self, request: PermissionRequest) -> Answer:
        async with self._floor():
            return await self._ask(request)

    async def _ask(self, request: PermissionRequest) -> Answer:
        short, whole = (list(details(request, self._cwd, limited=limited)) for limited in (True, False))
        cut = short != whole
        self._put(request, short, cut=cut)
        if not request.options:
            self._say(Span("  The agent offers no answers to choose from: refused.", "bad"))
            return request.reject()
        forget_typed(self._fd)
        numbers = f"1-{len(request.options)}"
        while True:
            await self._screen.ask((Span(f"Your answer ({numbers}{f', {SHOW_ALL}' if cut else ''}): ", "question"),))
            line = await read_line(self._fd)
            if line is None:
                self._say(Span("  No answer: refused.", "bad"))
                return request.reject()
            self._screen.answered()
            if (number := chosen(line, len(request.options))) is not None:
                return answer_with(request, request.options[number])
            if (word := line.strip().lower()) in for_good(request):
                return request.allow(always=True) if word == ALWAYS else request.reject(always=True)
            if cut and line.strip().lower() == SHOW_ALL:
                cut = False
                self._put(request, whole, cut=cut)
            else:
                words = [f"a number from 1 to {len(request.options)}", *for_good(request)]
                also = f", or {SHOW_ALL} to see all of it" if cut else ""
                self._say(Span(f"  Please type {' or '.join(words)}{also}.", "dim"))

    def _put(self, request: PermissionRequest, told: Iterable[tuple[Span, ...]], *, cut: bool) -> None:
        for spans in (headline(request, self.width), *told, *choices(request, self.width, cut=cut)):
            self._say(*spans)

    def _say(self, *spans: Span) -> None:
        self._screen.line(spans, block="question")


def chosen(line: str, count: int) -> int | None:
    """The index that a typed line names; None where it names none."""
    text = line.strip().rstrip(".)")
    return int(text) - 1 if text.isascii() and text.isdecimal() and 1 <= int(text) <= count else None


def answer_with(request: PermissionRequest, option: Option) -> Answer:
    """The option that was chosen; where its id also stands for one that allows, a no would be a yes: cancelled."""
    if not option.allows and any(other.allows and other.id == option.id for other in request.options):
        return request.cancel()
    return request.select(option.id)


def for_good(request: PermissionRequest) -> list[str]:
    """What can be said where the agent offers no such answer itself. Whole words: a habit of typing `y` must not become
    a rule."""
    kinds = {option.kind for option in request.options}
    always = [ALWAYS] if "allow_once" in kinds and "allow_always" not in kinds else []
    never = [NEVER] if "reject_once" in kinds and "reject_always" not in kinds else []
    return always + never


def headline(request: PermissionRequest, width: int) -> tuple[Span, ...]:
    kind = one_line(request.kind, 20)
    return Span("? ", "question"), Span(one_line(request.title, width - 2), "bold"), Span(f" ({kind})", "dim")


def details(request: PermissionRequest, cwd: Path, *, limited: bool) -> Iterable[tuple[Span, ...]]:
    """What would be done, line by line; limited, the rest of what is long is counted."""
    lines = LINES if limited else None
    if request.command is not None:
        yield from _block("$ ", request.command, lines)
        yield from _surroundings(request.raw_input, cwd, lines)
    seen = set()
    for diff in request.diffs:
        seen.add(diff.path)
        yield (Span(f"  {_shown(diff.path, cwd)}"), Span(f"  {stat([diff])}", "dim"))
        yield from _diff_lines(lines_of(diff, context=1), lines)
    for path in dict.fromkeys(request.paths):
        if path not in seen and os.path.realpath(path) not in seen:
            yield (Span(f"  {_shown(path, cwd)}"),)
    if request.command is None and not request.diffs and request.raw_input not in (None, {}, []):
        yield from _block("", _compact(request.raw_input, INPUT_CHARACTERS if limited else None), lines)


def choices(request: PermissionRequest, width: int, *, cut: bool) -> Iterable[tuple[Span, ...]]:
    """The agent's options, by number; and our own answers for good, and our own way to see what was left out, by words
    and a letter, as none of them."""
    for number, option in enumerate(request.options, start=1):
        effect = _effect(option)
        name = one_line(option.name, max(8, width - 6 - len(effect)))
        yield (Span(f"  {number}", "question"), Span(f"  {name}"), Span(effect, "dim"))
    if words := for_good(request):
        said = ", ".join(words)
        effect = one_line("Answer for this workspace from now on", max(8, width - 4 - len(said)))
        yield (Span(f"  {said}", "question"), Span(f"  {effect}", "dim"))
    if cut and request.options:
        yield (Span(f"  {SHOW_ALL}", "question"), Span("  Show all of it first", "dim"))


def _effect(option: Option) -> str:
    if _PLAIN_NAMES.get(option.name.lower()) == option.kind:
        return ""
    return f"  ({_EFFECTS.get(option.kind, 'what it does is not known')})"


def _surroundings(raw_input: object, cwd: Path, limit: int | None) -> Iterable[tuple[Span, ...]]:
    """Where a command runs, and the variables set for it: with either, the same words do something else."""
    said = raw_input if isinstance(raw_input, dict) else {}
    where, variables = said.get("cwd"), said.get("env")
    if isinstance(where, str) and (place := os.path.join(cwd, where)) != str(cwd):
        yield (Span(f"  in {_shown(place, cwd)}"),)
    if isinstance(variables, dict) and variables:
        given = "\n".join(_on_one_line(f"{name}={value}") for name, value in variables.items())
        yield from _block("with ", given, limit)


def _block(mark: str, text: str, limit: int | None) -> Iterable[tuple[Span, ...]]:
    lines = exact(text).split("\n")
    for position, line in enumerate(lines[:limit]):
        yield (Span(f"  {mark if position == 0 else ' ' * len(mark)}{line}"),)
    if limit is not None and len(lines) > limit:
        yield (Span(f"  … {_more(len(lines) - limit)}", "bad"),)


def _diff_lines(lines: list[tuple[str, str]], limit: int | None) -> Iterable[tuple[Span, ...]]:
    for mark, line in lines[:limit]:
        yield (Span(f"    {mark} {exact(line)}", _MARKS.get(mark, "dim")),)
    if limit is not None and len(lines) > limit:
        yield (Span(f"    … {_more(len(lines) - limit)}", "dim"),)


def _more(count: int) -> str:
    return "1 more line" if count == 1 else f"{count:,} more lines"


def _shown(path: str, cwd: Path) -> str:
    return _on_one_line(os.path.relpath(path, cwd) if Path(path).is_relative_to(cwd) else path)


def _on_one_line(text: str) -> str:
    """A line that was broken in two could look like an option, or like a question of ours."""
    return exact(text).replace("\n", "\\n")


def _compact(raw_input: object, limit: int | None) -> str:
    text = msgspec.json.encode(raw_input).decode()
    return text if limit is None or len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


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


def forget_typed(fd: int) -> None:
    """What was typed before the question was seen must not answer it."""
    import termios

    try:
        termios.tcflush(fd, termios.TCIFLUSH)
    except termios.error:  # no terminal after all
        pass
