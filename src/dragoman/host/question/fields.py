"""The fields of a form: text, number, yes or no, one choice, several choices.

This is the only validator of forms: the command line and the server ask it. `validate` checks a value, `parse` reads
what a person typed; both return the value to send, and raise `InvalidValue` otherwise. `requirement` describes a valid
answer in words. A `default` is the agent's suggestion.

A pattern comes from the agent, so it may be hostile. RE2 matches without backtracking, in bounded memory, and a check
that could still take long is refused beforehand. RE2 has neither lookarounds nor backreferences: a pattern with those
is not checked here, and the agent, which can read it, checks the answer itself.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from dragoman.wire import vocabulary as acp

if TYPE_CHECKING:
    import re2

Value: TypeAlias = str | int | float | bool | tuple[str, ...]

# The range of integers that the protocol's own libraries read.
_INT64: Final = range(-(2**63), 2**63)

# Halves of surrogate pairs cannot be written as JSON.
_SURROGATES: Final = re.compile("[\ud800-\udfff]")

_YES: Final = frozenset({"y", "yes", "true", "on", "1"})
_NO: Final = frozenset({"n", "no", "false", "off", "0"})

_SECRET: Final = re.compile(
    r"pass(word|wd|phrase|code)|secret|credential|(?<![a-z])pin(?![a-z])"
    r"|(api|access|private|auth)[ _-]?(key|token)|(?<![a-z])token(?![a-z])",
    re.IGNORECASE,
)


class InvalidValue(ValueError):
    """A value that does not fit; the message continues a sentence that begins with the field's name."""


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
        """True where the field seems to ask for a password or key, for which agents must not use forms."""
        return bool(_SECRET.search(self.name) or _SECRET.search(self.title))


class TextField(_Field, frozen=True, kw_only=True, tag="text"):
    default: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: acp.StringFormat | None = None

    def validate(self, value: object) -> str:
        text = self.validate_without_pattern(value)
        if self.pattern is not None:
            verdict = match_pattern(self.pattern, text)
            if verdict == "differs":
                raise InvalidValue(f"is {text!r}, which does not match the pattern {self.pattern}")
            if verdict == "unknown":
                raise InvalidValue(f"cannot be checked: the agent's pattern {self.pattern} takes too long")
        return text

    def validate_without_pattern(self, value: object) -> str:
        if not isinstance(value, str):
            raise InvalidValue(f"is {value!r}; expected text")
        if _SURROGATES.search(value):
            raise InvalidValue("contains half a character (of a surrogate pair), which cannot be sent")
        if self.min_length is not None and len(value) < self.min_length:
            raise InvalidValue(f"has {len(value)} characters; at least {self.min_length} are needed")
        if self.max_length is not None and len(value) > self.max_length:
            raise InvalidValue(f"has {len(value)} characters; at most {self.max_length} are allowed")
        if self.format is not None and not _has_format(value, self.format):
            raise InvalidValue(f"is {value!r}; expected {FORMATS[self.format]}")
        return value

    def parse(self, text: str) -> str:
        return self.validate(text.strip())

    @property
    def requirement(self) -> str:
        shape = FORMATS[self.format] if self.format is not None else ""
        length = _bounds(self.min_length or None, self.max_length, "characters")
        pattern = f"matching {self.pattern}" if self.pattern is not None else ""
        return ", ".join(filter(None, (shape, length, pattern)))


class NumberField(_Field, frozen=True, kw_only=True, tag="number"):
    whole: bool = False
    default: int | float | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None

    def validate(self, value: object) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._not_a_number(repr(value))
        if isinstance(value, float) and (not math.isfinite(value) or (self.whole and not value.is_integer())):
            raise self._not_a_number(repr(value))
        if self.whole:
            value = int(value)
        if isinstance(value, int) and value not in _INT64:
            raise InvalidValue("has more digits than the protocol allows")
        if self.minimum is not None and value < self.minimum:
            raise InvalidValue(f"is {value}; it must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise InvalidValue(f"is {value}; it must be at most {self.maximum}")
        return value

    def parse(self, text: str) -> int | float:
        try:
            # As JSON, which is how it will be sent: float() would also read "nan", "1_000" and Arabic digits.
            value = msgspec.json.decode(text.strip().removeprefix("+"), type=int | float)
        except msgspec.MsgspecError:
            raise self._not_a_number(repr(text.strip())) from None
        return self.validate(value)

    @property
    def requirement(self) -> str:
        bounds = _bounds(self.minimum, self.maximum)
        return ", ".join(filter(None, ("a whole number" if self.whole else "a number", bounds)))

    def _not_a_number(self, value: str) -> InvalidValue:
        return InvalidValue(f"is {value}; expected a {'whole ' if self.whole else ''}number")


class BooleanField(_Field, frozen=True, kw_only=True, tag="boolean"):
    default: bool | None = None

    def validate(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise InvalidValue(f"is {value!r}; expected True or False")
        return value

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in _YES | _NO:
            raise InvalidValue(f"is {text.strip()!r}; expected y or n")
        return word in _YES

    @property
    def requirement(self) -> str:
        return "y/n"


class ChoiceField(_Field, frozen=True, kw_only=True, tag="choice"):
    choices: tuple[Choice, ...]
    default: str | None = None

    def validate(self, value: object) -> str:
        if not isinstance(value, str) or value not in [choice.value for choice in self.choices]:
            raise InvalidValue(f"is {value!r}; expected one of {_listed(self.choices)}")
        return value

    def parse(self, text: str) -> str:
        return _parse_choice(text, self.choices)

    @property
    def requirement(self) -> str:
        labels = choice_labels(self.choices)
        return f"{labels[0]}-{labels[-1]}" if len(labels) > 1 else labels[0]


class ChoicesField(_Field, frozen=True, kw_only=True, tag="choices"):
    choices: tuple[Choice, ...]
    default: tuple[str, ...] | None = None
    min_items: int | None = None
    max_items: int | None = None

    def validate(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple | set | frozenset):
            raise InvalidValue(f"is {value!r}; expected a list of {_listed(self.choices)}")
        values = [choice.value for choice in self.choices]
        offered = frozenset(values)
        if unknown := [item for item in value if not isinstance(item, str) or item not in offered]:
            raise InvalidValue(f"has {unknown[0]!r}; expected some of {_listed(self.choices)}")
        # In the order of the form, each once, as if a person had ticked them.
        ticked = frozenset(value)
        selected = tuple(item for item in values if item in ticked)
        if self.min_items is not None and len(selected) < self.min_items:
            raise InvalidValue(f"has {len(selected)}; at least {self.min_items} are needed")
        if self.max_items is not None and len(selected) > self.max_items:
            raise InvalidValue(f"has {len(selected)}; at most {self.max_items} are allowed")
        return selected

    def parse(self, text: str) -> tuple[str, ...]:
        """Read labels or names separated by commas; labels may also be separated by spaces."""
        selected: list[str] = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            try:
                selected.append(_parse_choice(part, self.choices))
            except InvalidValue:
                selected += (_parse_choice(word, self.choices) for word in part.split())
        return self.validate(selected)

    @property
    def requirement(self) -> str:
        labels = choice_labels(self.choices)
        span = f"{labels[0]}-{labels[-1]}" if len(labels) > 1 else labels[0]
        count = _bounds(self.min_items or None, self.max_items, "of them")
        return ", ".join(filter(None, (f"some of {span}, as {labels[0]},{labels[-1]}", count)))


Field: TypeAlias = TextField | NumberField | BooleanField | ChoiceField | ChoicesField


# A description of each format, with an example.
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


# Choosing by typing


def choice_labels(choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Return a short label for each choice: its number, or a letter where the choices themselves are numbers."""
    numbers = tuple(str(number) for number in range(1, len(choices) + 1))
    names = {name.lower() for choice in choices for name in (choice.value, choice.title)}
    letters = tuple("abcdefghijklmnopqrstuvwxyz"[: len(choices)])
    usable = len(letters) == len(choices) and names.isdisjoint(letters)
    return letters if usable and not names.isdisjoint(numbers) else numbers


def _parse_choice(text: str, choices: tuple[Choice, ...]) -> str:
    text = text.strip()
    labels = choice_labels(choices)
    for label, choice in zip(labels, choices, strict=True):
        if text.rstrip(".)").lower() == label:
            return choice.value
    for choice in choices:
        if text in (choice.value, choice.title):
            return choice.value
    near = [choice.value for choice in choices if text.lower() in (choice.value.lower(), choice.title.lower())]
    if len(near) == 1:
        return near[0]
    expected = f"{labels[0]} to {labels[-1]}" if len(labels) > 1 else labels[0]
    raise InvalidValue(f"is {text!r}; expected {expected}")


# Choices that a message lists; the rest are counted.
_MAX_LISTED: Final = 10


def _listed(choices: tuple[Choice, ...]) -> str:
    values = ", ".join(repr(choice.value) for choice in choices[:_MAX_LISTED])
    return values if len(choices) <= _MAX_LISTED else f"{values} and {len(choices) - _MAX_LISTED} more"


def _bounds(least: float | None, most: float | None, unit: str = "") -> str:
    match least, most:
        case None, None:
            return ""
        case _, None:
            bounds = f"at least {least}"
        case None, _:
            bounds = f"at most {most}"
        case _:
            bounds = f"{least} to {most}"
    return f"{bounds} {unit}".strip()


# Patterns

PatternVerdict: TypeAlias = Literal["matches", "differs", "unreadable", "unknown"]

# Memory for one compiled pattern, and the longest pattern that is compiled: compiling then takes a few milliseconds.
_PATTERN_MEMORY_BYTES: Final = 256 * 1024
_MAX_PATTERN_CHARS: Final = 4096

# Instructions of the compiled pattern times bytes of the text: RE2 needs at most about 40 ns for each of them. It
# releases Python's lock meanwhile, so that no other session waits.
MAX_PATTERN_WORK: Final = 2_000_000


def match_pattern(pattern: str, text: str) -> PatternVerdict:
    """Search the pattern in the text. `unreadable`: RE2 cannot compile it. `unknown`: it could take too long."""
    compiled = _compile_pattern(pattern)
    if compiled is None:
        return "unreadable"
    data = text.encode("utf-8", "surrogatepass")
    if compiled.programsize * len(data) > MAX_PATTERN_WORK:
        return "unknown"
    return "matches" if compiled.search(data) is not None else "differs"


@lru_cache(maxsize=64)
def _compile_pattern(pattern: str) -> re2._Regexp | None:
    import re2  # few agents ask with a pattern

    options = re2.Options()
    options.max_mem = _PATTERN_MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False
    if len(pattern) > _MAX_PATTERN_CHARS:
        return None
    try:
        return re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError):
        return None
