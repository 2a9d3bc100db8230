"""A form's fields as a terminal shows them: their choices, what is wanted, and what was answered."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.cli.pieces import Span
from dragoman.cli.text import columns, cut, exact, one_line
from dragoman.host.question.fields import (
    FORMATS,
    BooleanField,
    ChoiceField,
    ChoicesField,
    Field,
    NumberField,
    TextField,
    Value,
    marks,
)

# More choices are counted: they can still be typed by name.
CHOICES = 50


def choice_rows(field: Field, width: int) -> Iterable[tuple[Span, ...]]:
    """The choices, one a line, each with what to type for it."""
    if not isinstance(field, ChoiceField | ChoicesField):
        return
    names = marks(field.choices)
    wide = len(names[min(len(names), CHOICES) - 1])
    for mark, choice in zip(names[:CHOICES], field.choices, strict=False):
        title = one_line(choice.title, width - wide - 10)
        room = width - wide - columns(title) - 12
        told = one_line(choice.description, room) if choice.description and room > 8 else ""
        yield (Span(f"    {mark:>{wide}}", "question"), Span(f"  {title}"), Span(f"  {told}" if told else "", "dim"))
    if len(field.choices) > CHOICES:
        yield (Span(f"    … {len(field.choices) - CHOICES:,} more, to be typed by name", "dim"),)


def wanted(field: Field) -> str:
    """What an answer has to be like; empty where anything goes."""
    match field:
        case TextField(min_length=least, max_length=most):
            length = _between(least or None, most, "characters")
            shape = FORMATS[field.format] if field.format is not None else ""
            pattern = f"matching {exact(field.pattern)}" if field.pattern is not None else ""
            return ", ".join(filter(None, (shape, length, pattern)))
        case NumberField(minimum=least, maximum=most):
            return _between(least, most, "", "a whole number" if field.whole else "a number")
        case BooleanField():
            return "y/n"
        case ChoiceField():
            return _range(marks(field.choices))
        case ChoicesField(min_items=least, max_items=most):
            names = marks(field.choices)
            count = _between(least or None, most, "of them")
            return ", ".join(filter(None, (f"some of {_range(names)}, as {names[0]},{names[-1]}", count)))


def shown(field: Field, value: Value) -> str:
    """An answer, as the person chose it."""
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
    """The same, in brackets before it is taken by Enter."""
    match field, value:
        case ChoiceField(choices=choices), str():
            return next(
                (mark for mark, choice in zip(marks(choices), choices, strict=True) if choice.value == value), value
            )
        case ChoicesField(choices=choices), tuple():
            taken = (mark for mark, choice in zip(marks(choices), choices, strict=True) if choice.value in value)
            return ",".join(taken) or "none"
        case BooleanField(), bool():
            return "y" if value else "n"
        case _:
            return cut(exact(str(value)).replace("\n", "\\n"), 40)


def _range(names: tuple[str, ...]) -> str:
    return f"{names[0]}-{names[-1]}" if len(names) > 1 else names[0]


def _between(least: float | None, most: float | None, unit: str, what: str = "") -> str:
    if least is not None and most is not None:
        bounds = f"{least} to {most}"
    elif least is not None:
        bounds = f"at least {least}"
    elif most is not None:
        bounds = f"at most {most}"
    else:
        return what
    return " ".join(filter(None, (f"{what}," if what else "", bounds, unit)))
