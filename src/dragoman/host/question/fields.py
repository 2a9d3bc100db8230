"""The fields of a form: a text, a number, yes or no, one of several, some of several.

Each says by `check` whether a value is one that it takes, and by `read` what someone typed for it; both raise `Problem`
otherwise. A `default` is what the agent suggests.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from dragoman.host.question import pattern
from dragoman.wire import vocabulary as acp

Value: TypeAlias = str | int | float | bool | tuple[str, ...]

# What the protocol's own libraries read as an integer.
_INT64: Final = range(-(2**63), 2**63)

# Of surrogate pairs: no JSON can be made of them.
_HALVES: Final = re.compile("[\ud800-\udfff]")

_YES: Final = frozenset({"y", "yes", "true", "on", "1"})
_NO: Final = frozenset({"n", "no", "false", "off", "0"})

_SECRET: Final = re.compile(
    r"pass(word|wd|phrase|code)|secret|credential|(?<![a-z])pin(?![a-z])"
    r"|(api|access|private|auth)[ _-]?(key|token)|(?<![a-z])token(?![a-z])",
    re.IGNORECASE,
)


class Problem(ValueError):
    """What is wrong with a value, in words that follow the field's name."""


class Choice(msgspec.Struct, frozen=True):
    value: str
    title: str
    description: str = ""


class _Field(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    name: str  # the key of its value
    title: str = ""
    description: str = ""
    required: bool = False

    @property
    def label(self) -> str:
        return self.title or self.name

    @property
    def asks_secret(self) -> bool:
        """It looks as if a password or key were wanted, for which agents must not use forms."""
        return bool(_SECRET.search(self.name) or _SECRET.search(self.title))


class TextField(_Field, frozen=True, kw_only=True, tag="text"):
    default: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: acp.StringFormat | None = None

    def check(self, value: object) -> str:
        """May block for as long as `pattern.LIMIT`, where the agent gave a pattern."""
        text = self.check_but_pattern(value)
        if self.pattern is not None:
            verdict = pattern.judge(self.pattern, text)
            # One that cannot be read here is the agent's to hold, who can.
            if verdict == "differs":
                raise Problem(f"is {text!r}, which does not match the pattern {self.pattern}")
            if verdict == "unknown":
                raise Problem(f"cannot be checked: the agent's pattern {self.pattern} takes too long")
        return text

    def check_but_pattern(self, value: object) -> str:
        if not isinstance(value, str):
            raise Problem(f"is {value!r}; expected text")
        if _HALVES.search(value):
            raise Problem("has half a character in it, which cannot be sent")
        if self.min_length is not None and len(value) < self.min_length:
            raise Problem(f"has {len(value)} characters; at least {self.min_length} are wanted")
        if self.max_length is not None and len(value) > self.max_length:
            raise Problem(f"has {len(value)} characters; at most {self.max_length} are wanted")
        if self.format is not None and not _has_format(value, self.format):
            raise Problem(f"is {value!r}; expected {FORMATS[self.format]}")
        return value

    def read(self, typed: str) -> str:
        return self.check(typed.strip())


class NumberField(_Field, frozen=True, kw_only=True, tag="number"):
    whole: bool = False
    default: int | float | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None

    def check(self, value: object) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._no_number(repr(value))
        if isinstance(value, float) and (not math.isfinite(value) or (self.whole and not value.is_integer())):
            raise self._no_number(repr(value))
        if self.whole:
            value = int(value)
        if isinstance(value, int) and value not in _INT64:
            raise Problem("has more digits than the protocol carries")
        if self.minimum is not None and value < self.minimum:
            raise Problem(f"is {value}; at least {self.minimum} is wanted")
        if self.maximum is not None and value > self.maximum:
            raise Problem(f"is {value}; at most {self.maximum} is wanted")
        return value

    def read(self, typed: str) -> int | float:
        try:
            # As JSON, which is how it will be written: float() would also read "nan", "1_000" and Arabic digits.
            value = msgspec.json.decode(typed.strip().removeprefix("+"), type=int | float)
        except msgspec.MsgspecError:
            raise self._no_number(repr(typed.strip())) from None
        return self.check(value)

    def _no_number(self, told: str) -> Problem:
        return Problem(f"is {told}; expected a {'whole ' if self.whole else ''}number")


class BooleanField(_Field, frozen=True, kw_only=True, tag="boolean"):
    default: bool | None = None

    def check(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise Problem(f"is {value!r}; expected True or False")
        return value

    def read(self, typed: str) -> bool:
        word = typed.strip().lower()
        if word not in _YES | _NO:
            raise Problem(f"is {typed.strip()!r}; expected y or n")
        return word in _YES


class ChoiceField(_Field, frozen=True, kw_only=True, tag="choice"):
    choices: tuple[Choice, ...]
    default: str | None = None

    def check(self, value: object) -> str:
        if not isinstance(value, str) or value not in [choice.value for choice in self.choices]:
            raise Problem(f"is {value!r}; expected one of {_listed(self.choices)}")
        return value

    def read(self, typed: str) -> str:
        return _chosen(typed, self.choices)


class ChoicesField(_Field, frozen=True, kw_only=True, tag="choices"):
    choices: tuple[Choice, ...]
    default: tuple[str, ...] | None = None
    min_items: int | None = None
    max_items: int | None = None

    def check(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple | set | frozenset):
            raise Problem(f"is {value!r}; expected a list of {_listed(self.choices)}")
        known = [choice.value for choice in self.choices]
        offered = frozenset(known)
        if unknown := [item for item in value if not isinstance(item, str) or item not in offered]:
            raise Problem(f"has {unknown[0]!r}; expected some of {_listed(self.choices)}")
        # In the order of the form, each once: that is what a person ticks.
        ticked = frozenset(value)
        taken = tuple(item for item in known if item in ticked)
        if self.min_items is not None and len(taken) < self.min_items:
            raise Problem(f"has {len(taken)}; at least {self.min_items} are wanted")
        if self.max_items is not None and len(taken) > self.max_items:
            raise Problem(f"has {len(taken)}; at most {self.max_items} are wanted")
        return taken

    def read(self, typed: str) -> tuple[str, ...]:
        """Marks or names with commas between them; marks also with spaces."""
        taken: list[str] = []
        for part in filter(None, (part.strip() for part in typed.split(","))):
            try:
                taken.append(_chosen(part, self.choices))
            except Problem:
                taken += (_chosen(word, self.choices) for word in part.split())
        return self.check(taken)


Field: TypeAlias = TextField | NumberField | BooleanField | ChoiceField | ChoicesField


# How each format is asked for.
FORMATS: Final[dict[acp.StringFormat, str]] = {
    "email": "an e-mail address, such as name@example.org",
    "uri": "an address with its scheme, such as https://example.org/",
    "date": "a date, such as 2026-11-15",
    "date-time": "a date and time with its zone, such as 2026-11-15T10:30:00Z",
}

_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _has_format(text: str, format: acp.StringFormat) -> bool:
    try:
        match format:
            case "email":
                return _EMAIL.fullmatch(text) is not None
            case "uri":
                parts = urlsplit(text)
                named = parts.netloc or parts.path or parts.query
                return bool(parts.scheme and named) and not re.search(r"[\s<>\"{}|\\^`\x00-\x1f]", text)
            case "date":
                return date.fromisoformat(text).isoformat() == text
            case "date-time":
                datetime.fromisoformat(text.upper())
                return _DATE_TIME.fullmatch(text) is not None
    except ValueError:
        return False


# -- choosing by typing


def marks(choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """What stands before each choice and names it: its number, or a letter where the choices are numbers themselves."""
    numbers = tuple(str(number) for number in range(1, len(choices) + 1))
    names = {name.lower() for choice in choices for name in (choice.value, choice.title)}
    letters = tuple("abcdefghijklmnopqrstuvwxyz"[: len(choices)])
    usable = len(letters) == len(choices) and names.isdisjoint(letters)
    return letters if usable and not names.isdisjoint(numbers) else numbers


def _chosen(typed: str, choices: tuple[Choice, ...]) -> str:
    text = typed.strip()
    for mark, choice in zip(marks(choices), choices, strict=True):
        if text.rstrip(".)").lower() == mark:
            return choice.value
    for choice in choices:
        if text in (choice.value, choice.title):
            return choice.value
    near = [choice.value for choice in choices if text.lower() in (choice.value.lower(), choice.title.lower())]
    if len(near) == 1:
        return near[0]
    raise Problem(f"is {text!r}; expected {_range(marks(choices))}")


def _range(names: tuple[str, ...]) -> str:
    return f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]


# Of a long list of choices a message tells the first ones.
_TOLD: Final = 10


def _listed(choices: tuple[Choice, ...]) -> str:
    told = ", ".join(repr(choice.value) for choice in choices[:_TOLD])
    return told if len(choices) <= _TOLD else f"{told} and {len(choices) - _TOLD} more"
