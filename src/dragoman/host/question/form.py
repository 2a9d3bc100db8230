"""A form that an agent asks a person to fill in, its fields, and the validation of answers.

It is read from the JSON Schema of `elicitation/create`, a flat object. Promised: content that `Form.validate` accepts
fits the schema and contains nothing that nobody entered: a default counts only when it was accepted. A property of an
unknown kind is never shown as one of a known kind.

This is the only validator of forms: the command line and the server ask it. A field's `validate` checks a value,
`parse` reads what a person typed; both return the value to send, and raise `InvalidValue` otherwise. `requirement`
describes a valid answer in words. A `default` is the agent's suggestion.

A pattern comes from the agent, so it may be hostile. RE2 matches without backtracking, in bounded memory, and a check
that could still take long is refused beforehand. RE2 has neither lookarounds nor backreferences: a pattern with those
is not checked here, and the agent, which can read it, checks the answer itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from dragoman.errors import InputError
from dragoman.wire import lenient
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


MAX_SCHEMA_BYTES: Final = 256 * 1024
"""Nobody fills in a form of a thousand fields, and reading one of a million would delay other sessions."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """The fields to fill in. `left_out` are properties of unknown kinds; `error` says why no answer can be complete."""

    title: str = ""
    description: str = ""
    fields: tuple[Field, ...] = ()
    left_out: tuple[str, ...] = ()
    error: str | None = None

    @property
    def defaults(self) -> dict[str, Value]:
        """The agent's suggestions, by field name."""
        return {field.name: field.default for field in self.fields if field.default is not None}

    def validate(self, content: Mapping[str, object]) -> dict[str, Value]:
        """Return the content to send; None means that a field is left out. `InputError` lists every invalid field."""
        if self.error is not None:
            raise InputError(self.error, guidance="Decline or cancel the question.")
        valid, errors = self._check(content)
        if errors:
            fields = ", ".join(f"{field.name}{' (required)' if field.required else ''}" for field in self.fields)
            wrong = "; ".join(f"{name} {error}" for name, error in errors.items())
            raise InputError(
                f"the answer does not fit the form: {wrong}",
                guidance=f"The form has the fields {fields}." if fields else "The form has no fields: accept({}).",
            )
        return valid

    def errors(self, content: Mapping[str, object]) -> dict[str, str]:
        """Return a message for each invalid field, as the rest of a sentence that begins with the field's name."""
        return self._check(content)[1]

    def _check(self, content: Mapping[str, object]) -> tuple[dict[str, Value], dict[str, str]]:
        fields = {field.name: field for field in self.fields}
        errors = {name: "is not a field of this form" for name in content if name not in fields}
        valid: dict[str, Value] = {}
        for name, field in fields.items():
            value = content.get(name)
            try:
                if value is not None:
                    valid[name] = field.validate(value)
                elif field.required:
                    errors[name] = "is required"
            except InvalidValue as error:
                errors[name] = str(error)
        return valid, errors


# Reading the schema


class _Schema(msgspec.Struct, frozen=True):
    type: str = "object"
    title: object = None
    description: object = None
    properties: dict[str, msgspec.Raw] = {}
    required: tuple[str, ...] | None = None


class _Property(msgspec.Struct, frozen=True):
    type: str
    enumNames: tuple[str, ...] = ()  # noqa: N815 (titles of an `enum`, in the form of older servers)


def read_form(raw: bytes | msgspec.Raw) -> Form:
    """Read `requestedSchema`. Raises `msgspec.MsgspecError` where it is not the schema of an object."""
    size = memoryview(raw).nbytes
    if size > MAX_SCHEMA_BYTES:
        raise msgspec.ValidationError(f"requestedSchema has {size} bytes; at most {MAX_SCHEMA_BYTES} are allowed")
    schema = msgspec.json.decode(raw, type=_Schema)
    if schema.type != "object":
        raise msgspec.ValidationError(f"requestedSchema has the type {schema.type!r}; expected 'object'")
    required = frozenset(schema.required or ())
    parsed = {name: _read_field(name, raw, name in required) for name, raw in schema.properties.items()}
    fields = tuple(field for field in parsed.values() if field is not None)
    missing = sorted(required - {field.name for field in fields})
    return Form(
        title=schema.title if isinstance(schema.title, str) else "",
        description=schema.description if isinstance(schema.description, str) else "",
        fields=fields,
        left_out=tuple(name for name, field in parsed.items() if field is None),
        error=f"the form requires fields of an unknown kind: {', '.join(missing)}" if missing else None,
    )


def _read_field(name: str, raw: msgspec.Raw, required: bool) -> Field | None:
    """Read one property; None where it is of an unknown kind, or cannot be read."""
    try:
        field = _field(msgspec.json.decode(raw, type=_Property), raw)
    except msgspec.MsgspecError:
        return None
    if field is None:
        return None
    field = msgspec.structs.replace(field, name=name, required=required)
    return field if field.default is None else _with_default(field, field.default)


def _with_default(field: Field, default: Value) -> Field:
    """Drop a default that does not fit the field: accepting it with Enter would be refused."""
    # The pattern is not tried: other sessions wait while a question is read.
    validate = field.validate_without_pattern if isinstance(field, TextField) else field.validate
    try:
        return msgspec.structs.replace(field, default=validate(default))
    except InvalidValue:
        return msgspec.structs.replace(field, default=None)


def _field(prop: _Property, raw: msgspec.Raw) -> Field | None:
    match prop.type:
        case "string":
            return _text_or_choice(lenient.decode(raw, acp.StringPropertySchema), prop.enumNames)
        case "number":
            return _number_field(lenient.decode(raw, acp.NumberPropertySchema), whole=False)
        case "integer":
            return _number_field(lenient.decode(raw, acp.IntegerPropertySchema), whole=True)
        case "boolean":
            switch = lenient.decode(raw, acp.BooleanPropertySchema)
            return BooleanField(
                name="", title=switch.title or "", description=switch.description or "", default=switch.default
            )
        case "array":
            return _choices_field(lenient.decode(raw, acp.MultiSelectPropertySchema), prop.enumNames)
        case _:
            return None


def _number_field(schema: acp.NumberPropertySchema | acp.IntegerPropertySchema, *, whole: bool) -> NumberField:
    return NumberField(
        name="",
        title=schema.title or "",
        description=schema.description or "",
        whole=whole,
        default=schema.default,
        minimum=schema.minimum,
        maximum=schema.maximum,
    )


def _text_or_choice(schema: acp.StringPropertySchema, names: tuple[str, ...]) -> Field | None:
    title, description = schema.title or "", schema.description or ""
    if schema.one_of is not None or schema.enum is not None:
        choices = _choices(schema.one_of or (), schema.enum or (), names)
        if not choices:
            return None
        return ChoiceField(name="", title=title, description=description, default=schema.default, choices=choices)
    return TextField(
        name="",
        title=title,
        description=description,
        default=schema.default,
        min_length=schema.min_length,
        max_length=schema.max_length,
        pattern=schema.pattern,
        format=schema.format,
    )


def _choices_field(schema: acp.MultiSelectPropertySchema, names: tuple[str, ...]) -> Field | None:
    # Items with titles have no type; items of another type than string are of an unknown kind.
    if schema.items.type not in (None, "string"):
        return None
    choices = _choices(schema.items.any_of, schema.items.enum, names)
    if not choices:
        return None
    return ChoicesField(
        name="",
        title=schema.title or "",
        description=schema.description or "",
        default=schema.default,
        choices=choices,
        min_items=schema.min_items,
        max_items=schema.max_items,
    )


def _choices(titled: tuple[acp.EnumOption, ...], plain: tuple[str, ...], names: tuple[str, ...]) -> tuple[Choice, ...]:
    """List each value once; the values of an `enum` get the titles beside it, where there is one for each."""
    if titled:
        choices = [Choice(option.const, option.title or option.const, option.description or "") for option in titled]
    else:
        choices = [Choice(*pair) for pair in zip(plain, names if len(names) == len(plain) else plain, strict=True)]
    return tuple({choice.value: choice for choice in reversed(choices)}.values())[::-1]
