"""`QuestionAsker`: the agent's question on a terminal: a form, field by field, or a page to open.

Promised: nothing typed before the question answers it; an answer that does not fit is explained and asked for again; a
form of several fields is shown whole before it is sent; a page opens only when the person says so. Declining and
cancelling are two different answers; the end of input cancels. A question that is withdrawn (the run ended, Ctrl-C)
stops listening at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal, TypeAlias

from dragoman.cli.ask import TerminalAsker
from dragoman.cli.output import chosen_index, forget_typed
from dragoman.cli.screen import Floor, Screen, Span, Style
from dragoman.cli.text import columns, exact, one_line, plain, truncate
from dragoman.host.question.form import (
    BooleanField,
    ChoiceField,
    ChoicesField,
    Field,
    InvalidValue,
    Value,
    choice_labels,
)
from dragoman.host.question.question import Page, Question, QuestionAnswer


def has_desktop(environ: Mapping[str, str]) -> bool:
    """Test whether a browser would open on the user's own screen: not in the terminal, not on a remote machine."""
    if any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "NO_BROWSER")):
        return False
    return sys.platform == "darwin" or any(environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


async def open_page(url: str) -> bool:
    """Open a page in the browser and return whether one took it. Call it only when the user has agreed."""
    import webbrowser

    try:
        return await asyncio.to_thread(webbrowser.open, url)  # looking for a browser starts programs
    except (webbrowser.Error, OSError):
        return False


# More choices are counted: they can still be typed by name.
MAX_CHOICES = 50


def choice_rows(field: Field, width: int) -> Iterable[tuple[Span, ...]]:
    """Show the choices, one per line, each with what to type for it."""
    if not isinstance(field, ChoiceField | ChoicesField):
        return
    names = choice_labels(field.choices)
    wide = len(names[min(len(names), MAX_CHOICES) - 1])
    for mark, choice in zip(names[:MAX_CHOICES], field.choices, strict=False):
        title = one_line(choice.title, width - wide - 10)
        room = width - wide - columns(title) - 12
        about = one_line(choice.description, room) if choice.description and room > 8 else ""
        yield (Span(f"    {mark:>{wide}}", "question"), Span(f"  {title}"), Span(f"  {about}" if about else "", "dim"))
    if len(field.choices) > MAX_CHOICES:
        yield (Span(f"    … {len(field.choices) - MAX_CHOICES:,} more, to be typed by name", "dim"),)


def requirement(field: Field) -> str:
    """Describe a valid answer; empty where anything goes."""
    return exact(field.requirement)


def shown(field: Field, value: Value) -> str:
    """Format an answer as the person chose it."""
    match field, value:
        case ChoiceField(choices=choices), str():
            return next((choice.title for choice in choices if choice.value == value), value)
        case ChoicesField(choices=choices), tuple():
            return ", ".join(choice.title for choice in choices if choice.value in value) or "(none)"
        case BooleanField(), bool():
            return "yes" if value else "no"
        case _:
            return exact(str(value))


def suggestion(field: Field, value: Value) -> str:
    """Format a suggested answer as the person would type it; Enter accepts it."""
    match field, value:
        case ChoiceField(choices=choices), str():
            return next(
                (mark for mark, choice in zip(choice_labels(choices), choices, strict=True) if choice.value == value),
                value,
            )
        case ChoicesField(choices=choices), tuple():
            taken = (
                mark for mark, choice in zip(choice_labels(choices), choices, strict=True) if choice.value in value
            )
            return ",".join(taken) or "none"
        case BooleanField(), bool():
            return "y" if value else "n"
        case _:
            return truncate(exact(str(value)).replace("\n", "\\n"), 40)


# Lines of the agent's text that are shown. The rest is counted, never left out in silence.
MAX_LINES = 24
HINT = "Enter accepts the value in [brackets]. /skip leaves a field out, /back goes back, /decline and /cancel end it."
CAUTION = (
    "This looks like a secret. Agents must not ask for one in a form: what you type is recorded, "
    "and the agent and its model see it."
)
OpenPage: TypeAlias = Callable[[str], Awaitable[bool]]


class _Ended(Exception):
    """The user answered as a whole, before the end of the form."""

    def __init__(self, answer: QuestionAnswer) -> None:
        self.answer = answer


class QuestionAsker(TerminalAsker):
    """An `on_question` for a person at a terminal.

    `open_page` returns whether a browser took the page; None where there is no browser.
    """

    def __init__(self, screen: Screen, floor: Floor, *, fd: int, width: int, open_page: OpenPage | None = None) -> None:
        super().__init__(screen, floor, fd=fd, width=width)
        self._open_page = open_page

    async def __call__(self, question: Question) -> QuestionAnswer:
        async with self._floor():
            try:
                if question.page is not None:
                    return await self._page(question, question.page)
                return await self._form(question)
            except _Ended as ended:
                return ended.answer

    # -- pages

    async def _page(self, question: Question, page: Page) -> QuestionAnswer:
        self._headline(question, f"asks you to open a page on {page.host}")
        self._text(question.message)
        # Never truncated: the person has to judge the whole address.
        scheme, mark, rest = page.url.partition("://")
        host = len(page.host) + (2 if rest.startswith("[") else 0)
        self._say(Span(f"  {scheme}{mark}"), Span(rest[:host], "bold"), Span(exact(rest[host:])))
        if "xn--" in page.host:
            self._remark("This host's name has letters that may look like others.", "bad")
        can_open = self._open_page is not None
        while True:
            ways = [*(["Open it in the browser"] if can_open else []), "I will open it myself", "Decline", "Cancel"]
            match ways[await self._choice(question, ways)]:
                case "Decline":
                    return question.decline()
                case "Cancel":
                    return question.cancel()
                case "I will open it myself":
                    return question.accept()
                case _:
                    pass
            if self._open_page is not None and await self._open_page(page.url):
                return question.accept()
            can_open = False
            self._remark("No browser could be started. Please open the page yourself.", "bad")

    # -- forms

    async def _form(self, question: Question) -> QuestionAnswer:
        self._headline(question, "asks you")
        for text in (question.message, question.form.title, question.form.description):
            self._text(text)
        if left_out := question.form.left_out:
            self._remark(f"Fields of an unknown kind are not shown: {', '.join(left_out)}")
        if not question.fields:
            choice = await self._choice(question, ["Accept", "Decline", "Cancel"])
            return (question.accept, question.decline, question.cancel)[choice]()
        self._remark(HINT)
        forget_typed(self._fd)
        answers: dict[str, Value] = {}
        position = 0
        while position < len(question.fields):
            direction = await self._fill(question, position, answers)
            position = position + 1 if direction == "on" else max(0, position - 1)
        if len(question.fields) > 1:  # of a single one, the line that was typed is all there is to see
            await self._review(question, answers)
        return question.accept(answers)

    async def _fill(self, question: Question, position: int, answers: dict[str, Value]) -> Literal["on", "back"]:
        """Ask for one field, until the answer is valid or the field is left out."""
        field = question.fields[position]
        self._show(field, f"{position + 1}/{len(question.fields)}  " if len(question.fields) > 1 else "")
        # The user's own earlier answer goes before the agent's suggestion.
        suggested = answers.get(field.name, field.default)
        default = f" [{suggestion(field, suggested)}]" if suggested is not None else ""
        rule = f" ({short})" if (short := requirement(field)) and self._is_short(short) else ""
        while True:
            line = (await self._line(question, f"Your answer{rule}{default}: ")).strip()
            if line == "/back":
                return "back"
            try:
                value = await _value(field, line, suggested)
            except InvalidValue as error:
                self._remark(f"It {error}.", "bad")
                continue
            if value is None:
                answers.pop(field.name, None)
            else:
                answers[field.name] = value
            return "on"

    def _show(self, field: Field, number: str) -> None:
        self._say()
        room = self.width - len(number) - 3
        first, *more = textwrap.wrap(f"{plain(field.label)}{' (required)' if field.required else ''}", room) or [""]
        self._say(Span(f"  {number}", "question"), Span(first, "bold"))
        for line in more:
            self._say(Span(f"  {' ' * len(number)}{line}", "bold"))
        self._text(field.description, "dim", indent="    ")
        if field.asks_secret:
            self._remark(CAUTION, "bad", indent="    ")
        for spans in choice_rows(field, self.width):
            self._say(*spans)
        if not self._is_short(rule := requirement(field)):
            self._remark(f"({rule})", indent="    ")

    def _is_short(self, rule: str) -> bool:
        """Test whether the rule fits beside the input."""
        return len(rule) < self.width // 3

    async def _review(self, question: Question, answers: dict[str, Value]) -> None:
        """Show all answers, and return when they are to be sent."""
        fields = question.fields
        while True:
            self._say()
            self._say(Span("  Your answers:", "bold"))
            labels = [one_line(field.label, self.width // 2) for field in fields]
            wide = max(map(columns, labels))
            for number, (field, label) in enumerate(zip(fields, labels, strict=True), start=1):
                answer = answers.get(field.name)
                text = "(left out)" if answer is None else one_line(shown(field, answer), self.width - wide - 10)
                gap = " " * (wide - columns(label) + 2)
                style: Style = "dim" if answer is None else "bold"
                self._say(Span(f"  {number:>3}", "question"), Span(f"  {label}{gap}"), Span(text, style))
            ways = f"Send (s), change (1-{len(fields)}), decline (d), cancel (c): "
            if len(ways) >= self.width:
                for key, way in (("s", "Send"), (f"1-{len(fields)}", "Change"), ("d", "Decline"), ("c", "Cancel")):
                    self._say(Span(f"  {key:>3}", "question"), Span(f"  {way}"))
                ways = "Your answer: "
            line = await self._line(question, ways)
            match line.strip().lower():
                case "s":
                    return
                case "d":
                    raise _Ended(question.decline())
                case "c":
                    raise _Ended(question.cancel())
                case typed if (index := chosen_index(typed, len(fields))) is not None:
                    await self._fill(question, index, answers)
                case _:
                    self._remark(f"Please type s, d, c or a number from 1 to {len(fields)}.")

    # -- the terminal

    async def _choice(self, question: Question, ways: list[str]) -> int:
        for number, way in enumerate(ways, start=1):
            self._say(Span(f"  {number}", "question"), Span(f"  {way}"))
        forget_typed(self._fd)
        while True:
            line = await self._line(question, f"Your answer (1-{len(ways)}): ")
            if (index := chosen_index(line, len(ways))) is not None:
                return index
            self._remark(f"Please type a number from 1 to {len(ways)}.")

    async def _line(self, question: Question, prompt: str) -> str:
        """Ask for a line; raise `_Ended` where it ends the question."""
        line = await self._read(prompt)
        if line is None:
            self._remark("No answer: cancelled.", "bad")
            raise _Ended(question.cancel())
        match line.strip():
            case "/decline":
                raise _Ended(question.decline())
            case "/cancel":
                raise _Ended(question.cancel())
            case _:
                return line

    def _headline(self, question: Question, what: str) -> None:
        self._screen.part()
        who = one_line(question.agent or "The agent", self.width // 2)
        first, *more = textwrap.wrap(f"{who} {what}", self.width - 3, break_on_hyphens=False)
        self._say(Span("? ", "question"), Span(first, "bold"))
        for line in more:
            self._say(Span(f"  {line}", "bold"))

    def _text(self, text: str, style: Style = "", indent: str = "  ") -> None:
        """Print text of the agent, indented: only our own text begins at the margin."""
        lines = [
            wrapped
            for line in plain(text).expandtabs(4).split("\n")
            for wrapped in textwrap.wrap(line, self.width - len(indent) - 1, break_on_hyphens=False) or [""]
        ]
        lines = lines if text.strip() else []
        for line in lines[:MAX_LINES]:
            self._say(Span(f"{indent}{line}", style))
        if len(lines) > MAX_LINES:
            self._say(Span(f"{indent}… {len(lines) - MAX_LINES:,} more lines", "bad"))

    def _remark(self, text: str, style: Style = "dim", indent: str = "  ") -> None:
        self._text(text, style, indent)


async def _value(field: Field, line: str, suggested: Value | None) -> Value | None:
    """Read a typed line as a value; None leaves the field out. InvalidValue where it is not valid."""
    if line and line != "/skip":
        return await asyncio.to_thread(field.parse, line)  # a pattern of the agent's may take its time
    if not line and suggested is not None:
        return await asyncio.to_thread(field.validate, suggested)
    if not field.required:
        return None
    if isinstance(field, ChoicesField):  # none of them is an answer too
        return field.validate(())
    raise InvalidValue("is required")


def default_browser() -> OpenPage | None:
    """Return the function that opens a page; None on a machine without a desktop."""
    return open_page if has_desktop(os.environ) else None
