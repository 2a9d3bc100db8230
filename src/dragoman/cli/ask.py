"""`PermissionPrompt`: asks a person at the terminal for permission, with the agent's own options as a numbered list.

Promised: nothing typed before the question is taken as its answer; only a listed number answers; the end of input
rejects. A long request is shown whole on demand. A question that is cancelled (the run ended, Ctrl-C) stops listening
at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec

from dragoman.cli.output import chosen_index, forget_typed, read_line
from dragoman.cli.screen import Floor, Screen, Span, Style
from dragoman.cli.text import columns, exact, one_line
from dragoman.host.permission import Option, PermissionAnswer, PermissionRequest
from dragoman.host.policy.remembered import DerivedRules
from dragoman.host.policy.tool_input import command_environment, mentioned_paths, working_folder
from dragoman.record.diffs import changed_lines, describe_changes

# Lines of each diff, command and input that are shown at first. The rest is counted, never left out in silence.
MAX_LINES = 16
# Characters of one of them: less than a screen, so that blanks cannot push its beginning out of sight.
MAX_CHARACTERS = 1_200
MAX_INPUT_CHARACTERS = 600
# The answer that shows the rest.
SHOW_ALL = "a"
# Before the continuation of a line.
_CONTINUATION = "      "

ALWAYS = "always"
NEVER = "never"
FILE = "file"

_MARKS: dict[str, Style] = {"+": "good", "-": "bad"}

# The kind of an option says what it does; its name is the agent's, and could say the contrary.
_EFFECTS = {
    "allow_once": "allows it once",
    "allow_always": "allows it always",
    "reject_once": "refuses it once",
    "reject_always": "refuses it always",
}
# In this order, whatever the agent's: 1 must not mean "once" with one agent and "always" with the next.
_ORDER = (*_EFFECTS,)
# In place of a name that is no more than the kind.
_NAMES = {
    "allow_once": "Allow once",
    "allow_always": "Always allow",
    "reject_once": "Reject once",
    "reject_always": "Always reject",
}
# Names that say what the option does.
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


# Returns the rules of an "always" (True) or a "never"; for the files of the request alone, where the last is True.
RulePreview: TypeAlias = Callable[[PermissionRequest, bool, bool], DerivedRules]


class TerminalAsker:
    """Asks a person at a terminal. `floor` is entered for each question: one at a time."""

    answers_as = "person"

    def __init__(self, screen: Screen, floor: Floor, *, fd: int, width: int) -> None:
        self._screen = screen
        self._floor = floor
        self._fd = fd
        self.width = width

    def _say(self, *spans: Span) -> None:
        self._screen.line(spans, block="question")

    async def _read(self, prompt: str) -> str | None:
        """Read a line that is typed behind the prompt; None at the end of input."""
        await self._screen.ask((Span(prompt, "question"),))
        line = await read_line(self._fd)
        if line is not None:
            self._screen.answered()
        return line


class PermissionPrompt(TerminalAsker):
    """An `on_permission` for a person at a terminal; `cwd` is the workspace."""

    def __init__(
        self,
        screen: Screen,
        floor: Floor,
        *,
        fd: int,
        cwd: Path,
        width: int,
        preview: RulePreview | None = None,
    ) -> None:
        """`preview` returns the rules that a lasting answer would become; they are shown with the answer."""
        super().__init__(screen, floor, fd=fd, width=width)
        self._cwd = cwd
        self._preview = preview

    async def __call__(self, request: PermissionRequest) -> PermissionAnswer:
        async with self._floor():
            return await self._ask(request)

    async def _ask(self, request: PermissionRequest) -> PermissionAnswer:
        short, whole = (list(details(request, self._cwd, limited=limited)) for limited in (True, False))
        is_truncated = short != whole
        self._put(request, short, is_truncated=is_truncated)
        if not request.options:
            self._say(Span("  The agent offers no answers to choose from: rejected.", "bad"))
            return request.reject()
        forget_typed(self._fd)
        numbers = f"1-{len(request.options)}"
        lasting = [*lasting_answers(request), *file_answer(request, self._preview)]
        while True:
            ways = f"{numbers}, {SHOW_ALL}" if is_truncated else numbers
            line = await self._read(f"Your answer ({ways}): ")
            if line is None:
                self._say(Span("  No answer: rejected.", "bad"))
                return request.reject()
            if (number := chosen_index(line, len(request.options))) is not None:
                return answer_with(request, sorted_options(request)[number])
            if (word := line.strip().lower()) in lasting:
                if word == NEVER:
                    return request.reject(always=True)
                return request.allow(always=True, only_files=word == FILE)
            if is_truncated and line.strip().lower() == SHOW_ALL:
                is_truncated = False
                self._put(request, whole, is_truncated=is_truncated)
            else:
                words = [f"a number from 1 to {len(request.options)}", *lasting]
                also = f", or {SHOW_ALL} to show everything" if is_truncated else ""
                self._say(Span(f"  Please type {' or '.join(words)}{also}.", "dim"))

    def _put(self, request: PermissionRequest, lines: Iterable[tuple[Span, ...]], *, is_truncated: bool) -> None:
        self._screen.part()
        self._say(*headline(request, self.width))
        for spans in (*lines, *choices(request, self.width, is_truncated=is_truncated, preview=self._preview)):
            for line in fold_lines(spans, self.width):
                self._say(*line)


def answer_with(request: PermissionRequest, option: Option) -> PermissionAnswer:
    """Answer with the chosen option; cancel where its id is also that of an option that allows: a no would be a yes."""
    if not option.allows and any(other.allows and other.id == option.id for other in request.options):
        return request.cancel()
    return request.select(option.id)


def sorted_options(request: PermissionRequest) -> list[Option]:
    """Return the agent's options as they are numbered: by what they do, those of an unknown kind last."""
    return sorted(
        request.options, key=lambda option: _ORDER.index(option.kind) if option.kind in _ORDER else len(_ORDER)
    )


def lasting_answers(request: PermissionRequest) -> list[str]:
    """Return our own lasting answers, where the agent offers none.

    They are whole words: a habit of typing `y` must not become a rule.
    """
    kinds = {option.kind for option in request.options}
    always = [ALWAYS] if "allow_once" in kinds and "allow_always" not in kinds else []
    never = [NEVER] if "reject_once" in kinds and "reject_always" not in kinds else []
    return always + never


def file_answer(request: PermissionRequest, preview: RulePreview | None) -> list[str]:
    """Return our answer for the files of the request alone, where "always" would cover a whole folder."""
    # The agent has to be told "once": it would itself remember more.
    if preview is None or not any(option.kind == "allow_once" for option in request.options):
        return []
    narrow = preview(request, True, True)
    return [FILE] if narrow.rules and narrow.rules != preview(request, True, False).rules else []


def fold_lines(spans: tuple[Span, ...], width: int) -> Iterable[tuple[Span, ...]]:
    """Break into lines that fit, the later ones indented: only our own text begins at the margin."""
    line: list[Span] = []
    room = width - 1
    for span in spans:
        text = span.text
        while columns(text) > room:
            fits = _fitting(text, room)
            line.append(Span(text[:fits], span.style))
            yield tuple(line)
            line, text, room = [Span(_CONTINUATION)], text[fits:], width - 1 - len(_CONTINUATION)
        line.append(Span(text, span.style))
        room -= columns(text)
    yield tuple(line)


def _fitting(text: str, room: int) -> int:
    """Count the characters that fit; at least one."""
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
    """Show the action, line by line; with `limited`, lines that do not fit are only counted."""
    lines = MAX_LINES if limited else None
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
        yield from _block("", _compact(request.raw_input, MAX_INPUT_CHARACTERS if limited else None), lines)
    if request.reason:
        yield (Span(f"  ! {one_line(request.reason, MAX_CHARACTERS)}", "bad"),)


def choices(
    request: PermissionRequest, width: int, *, is_truncated: bool, preview: RulePreview | None = None
) -> Iterable[tuple[Span, ...]]:
    """Show the agent's options by number, our own lasting answers by words, and the way to see the rest by a letter.

    Below a lasting answer is the rule that it becomes: nobody has to find out afterwards how far it goes.
    """
    for number, option in enumerate(sorted_options(request), start=1):
        effect = _effect(option)
        name = one_line(_NAMES[option.kind] if _is_kind(option) else option.name, max(8, width - 6 - len(effect)))
        yield (Span(f"  {number}", "question"), Span(f"  {name}"), Span(effect, "dim"))
        if preview is not None and option.kind.endswith("_always"):
            yield _rule_line(preview(request, option.allows, False))
    if words := lasting_answers(request):
        names = ", ".join(words)
        effect = one_line("Remember the answer for this workspace", max(8, width - 4 - len(names)))
        yield (Span(f"  {names}", "question"), Span(f"  {effect}", "dim"))
        if preview is not None:
            yield from (_rule_line(preview(request, word == ALWAYS, False)) for word in words)
    if preview is not None and file_answer(request, preview):
        files = "this file" if len(request.paths) < 2 else "these files"
        yield (Span(f"  {FILE}", "question"), Span(f"  Always allow, for {files} only"))
        yield _rule_line(preview(request, True, True))
    if is_truncated and request.options:
        yield (Span(f"  {SHOW_ALL}", "question"), Span("  Show everything first", "dim"))


def _rule_line(derived: DerivedRules) -> tuple[Span, ...]:
    text = f"for all agents here: {'; '.join(map(str, derived.rules))}" if derived.rules else f"once: {derived.error}"
    home = os.path.expanduser("~")
    return (Span(f"     {_on_one_line(text.replace(f' {home}/', ' ~/'))}", "dim"),)


def _is_kind(option: Option) -> bool:
    return option.kind in _NAMES and option.name.lower().replace("-", "_") == option.kind


def _effect(option: Option) -> str:
    if _is_kind(option) or _PLAIN_NAMES.get(option.name.lower()) == option.kind:
        return ""
    return f"  ({_EFFECTS.get(option.kind, 'unknown effect')})"


def _surroundings(raw_input: object, cwd: Path, limit: int | None) -> Iterable[tuple[Span, ...]]:
    """Show the folder of a command and its variables: with either, the same command does something else."""
    fields = raw_input if isinstance(raw_input, dict) else {}
    where = working_folder(fields, cwd)
    if where is None:
        yield (Span("  in a folder that the request does not make clear", "bad"),)
    elif where != str(cwd):
        yield (Span(f"  in {_shown(where, cwd)}"),)
    if variables := command_environment(fields):
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
    """Return the lines that are shown, and a description of the rest."""
    room = MAX_CHARACTERS
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
    """Escape line ends: a line that was broken in two could look like an option, or like a question of ours."""
    return exact(text).replace("\n", "\\n")


def _tells_more(request: PermissionRequest) -> bool:
    """Test whether the input holds anything but the paths that are shown already."""
    fields = request.raw_input
    return fields not in (None, {}, []) and not (
        isinstance(fields, dict) and set(map(str, fields.values())) <= {*request.paths}
    )


def _compact(raw_input: object, limit: int | None) -> str:
    text = msgspec.json.encode(raw_input).decode()
    return text if limit is None or len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"
