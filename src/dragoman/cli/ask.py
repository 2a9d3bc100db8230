"""The numbered question: what the agent wants to do, its own options, and a line from the terminal.

Promised: nothing typed before the question is taken as its answer; only a number that stands there answers; the end of
input refuses. What is too long for a question is shown whole when asked for. A question that is cancelled (the run
ended, Ctrl-C) stops listening at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dragoman.cli.follow import Floor
from dragoman.cli.pieces import Span, Style
from dragoman.cli.screen import Screen
from dragoman.cli.stdin import chosen, forget_typed, read_line
from dragoman.cli.text import columns, exact, one_line
from dragoman.host.permission import Answer, Option, PermissionRequest
from dragoman.host.policy.effects import command_environment, mentioned_paths, working_folder
from dragoman.record.diffs import changed_lines, describe_changes

# What is shown at first of each diff, command and input. The rest is counted, never left out in silence.
LINES = 16
# Of one of them: less than a screen, so that blanks cannot push what was said first out of sight.
CHARACTERS = 1_200
INPUT_CHARACTERS = 600
# What to type to see the rest.
SHOW_ALL = "a"
# Before what did not fit on the line above it.
_SET_IN = "      "

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
# In this order, whatever the agent's: who has got used to 1 for once must not find "always" there with the next agent.
_ORDER = (*_EFFECTS,)
# In place of a name that is no more than the kind.
_NAMES = {
    "allow_once": "Allow once",
    "allow_always": "Always allow",
    "reject_once": "Reject once",
    "reject_always": "Always reject",
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
    "always allow in this workspace": "allow_always",
    "never allow it in this workspace": "reject_always",
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
                return answer_with(request, offered(request)[number])
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
        self._screen.part()
        self._say(*headline(request, self.width))
        for spans in (*told, *choices(request, self.width, cut=cut)):
            for line in folded(spans, self.width):
                self._say(*line)

    def _say(self, *spans: Span) -> None:
        self._screen.line(spans, block="question")


def answer_with(request: PermissionRequest, option: Option) -> Answer:
    """The option that was chosen; where its id also stands for one that allows, a no would be a yes: cancelled."""
    if not option.allows and any(other.allows and other.id == option.id for other in request.options):
        return request.cancel()
    return request.select(option.id)


def offered(request: PermissionRequest) -> list[Option]:
    """The agent's options as they are numbered: by what they do, those that it calls its own way last."""
    return sorted(
        request.options, key=lambda option: _ORDER.index(option.kind) if option.kind in _ORDER else len(_ORDER)
    )


def for_good(request: PermissionRequest) -> list[str]:
    """What can be said where the agent offers no such answer itself. Whole words: a habit of typing `y` must not become
    a rule."""
    kinds = {option.kind for option in request.options}
    always = [ALWAYS] if "allow_once" in kinds and "allow_always" not in kinds else []
    never = [NEVER] if "reject_once" in kinds and "reject_always" not in kinds else []
    return always + never


def folded(spans: tuple[Span, ...], width: int) -> Iterable[tuple[Span, ...]]:
    """The same in lines that fit, the later ones set in: at the margin of a terminal stands only what we say."""
    line: list[Span] = []
    room = width - 1
    for span in spans:
        text = span.text
        while columns(text) > room:
            fits = _fitting(text, room)
            line.append(Span(text[:fits], span.style))
            yield tuple(line)
            line, text, room = [Span(_SET_IN)], text[fits:], width - 1 - len(_SET_IN)
        line.append(Span(text, span.style))
        room -= columns(text)
    yield tuple(line)


def _fitting(text: str, room: int) -> int:
    """How many characters of it fit; at least one."""
    used = 0
    for count, character in enumerate(text):
        used += columns(character)
        if used > room:
            return max(count, 1)
    return len(text)


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
        yield (Span(f"  {_shown(diff.path, cwd)}"), Span(f"  {describe_changes([diff])}", "dim"))
        yield from _diff_lines(changed_lines(diff, context=1), lines)
    # Beside a diff also those that only the tool's input names: without one it is shown itself.
    named = mentioned_paths(request.raw_input, cwd, nested=True) if request.diffs else ()
    others = [path for path in dict.fromkeys((*request.paths, *named)) if path not in seen]
    others = [path for path in others if os.path.realpath(path) not in seen]
    for path in others[:lines]:
        yield (Span(f"  {_shown(path, cwd)}"),)
    if lines is not None and len(others) > lines:
        yield (Span(f"  … {len(others) - lines:,} more files", "bad"),)
    if request.command is None and not request.diffs and _tells_more(request):
        yield from _block("", _compact(request.raw_input, INPUT_CHARACTERS if limited else None), lines)


def choices(request: PermissionRequest, width: int, *, cut: bool) -> Iterable[tuple[Span, ...]]:
    """The agent's options, by number; and our own answers for good, and our own way to see what was left out, by words
    and a letter, as none of them."""
    for number, option in enumerate(offered(request), start=1):
        effect = _effect(option)
        name = one_line(_NAMES[option.kind] if _is_kind(option) else option.name, max(8, width - 6 - len(effect)))
        yield (Span(f"  {number}", "question"), Span(f"  {name}"), Span(effect, "dim"))
    if words := for_good(request):
        said = ", ".join(words)
        effect = one_line("Answer for this workspace from now on", max(8, width - 4 - len(said)))
        yield (Span(f"  {said}", "question"), Span(f"  {effect}", "dim"))
    if cut and request.options:
        yield (Span(f"  {SHOW_ALL}", "question"), Span("  Show all of it first", "dim"))


def _is_kind(option: Option) -> bool:
    return option.kind in _NAMES and option.name.lower().replace("-", "_") == option.kind


def _effect(option: Option) -> str:
    if _is_kind(option) or _PLAIN_NAMES.get(option.name.lower()) == option.kind:
        return ""
    return f"  ({_EFFECTS.get(option.kind, 'what it does is not known')})"


def _surroundings(raw_input: object, cwd: Path, limit: int | None) -> Iterable[tuple[Span, ...]]:
    """Where a command runs, and the variables set for it: with either, the same words do something else."""
    said = raw_input if isinstance(raw_input, dict) else {}
    where = working_folder(said, cwd)
    if where is None:
        yield (Span("  in a folder that is not clear from what it says", "bad"),)
    elif where != str(cwd):
        yield (Span(f"  in {_shown(where, cwd)}"),)
    if variables := command_environment(said):
        yield from _block("with ", "\n".join(map(_on_one_line, variables)), limit)


def _block(mark: str, text: str, limit: int | None) -> Iterable[tuple[Span, ...]]:
    lines, rest = _within(exact(text).split("\n"), limit)
    for position, line in enumerate(lines):
        yield (Span(f"  {mark if position == 0 else ' ' * len(mark)}{line}"),)
    if rest:
        yield (Span(f"  … {rest}", "bad"),)


def _diff_lines(lines: list[tuple[str, str]], limit: int | None) -> Iterable[tuple[Span, ...]]:
    texts, rest = _within([exact(line) for _, line in lines], limit)
    for (mark, _), line in zip(lines, texts, strict=False):
        yield (Span(f"    {mark} {line}", _MARKS.get(mark, "dim")),)
    if rest:
        yield (Span(f"    … {rest}", "dim"),)


def _within(lines: list[str], limit: int | None) -> tuple[list[str], str]:
    """As many of the lines as are shown, and what is to be said of the rest."""
    room = CHARACTERS
    for index, line in enumerate(lines[:limit] if limit is not None else ()):
        if len(line) > room:
            left, more = len(line) - room, len(lines) - index - 1
            also = f" and {_more(more)}" if more else ""
            return [*lines[:index], line[:room]], f"{left:,} more character{'s' * (left != 1)}{also}"
        room -= len(line)
    more = len(lines) - limit if limit is not None else 0
    return lines[:limit], _more(more) if more > 0 else ""


def _more(count: int) -> str:
    return "1 more line" if count == 1 else f"{count:,} more lines"


def _shown(path: str, cwd: Path) -> str:
    return _on_one_line(os.path.relpath(path, cwd) if Path(path).is_relative_to(cwd) else path)


def _on_one_line(text: str) -> str:
    """A line that was broken in two could look like an option, or like a question of ours."""
    return exact(text).replace("\n", "\\n")


def _tells_more(request: PermissionRequest) -> bool:
    """Whether the input has anything in it but the paths that stand there already."""
    said = request.raw_input
    return said not in (None, {}, []) and not (
        isinstance(said, dict) and set(map(str, said.values())) <= {*request.paths}
    )


def _compact(raw_input: object, limit: int | None) -> str:
    text = msgspec.json.encode(raw_input).decode()
    return text if limit is None or len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"
