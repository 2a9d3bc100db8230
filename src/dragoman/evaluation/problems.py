"""Problems of a value that does not fit a JSON Schema, in words that a model can act on.

Each problem has its path (`items[3].price`). Nothing is ever downloaded, whatever a schema refers to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from dragoman.errors import InputError

Schema: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]

# Enough to correct a value in one go, and no wall of text where everything is wrong.
MAX_PROBLEMS: Final = 20
# Of a value that is shown in a message.
MAX_SHOWN_CHARS: Final = 80

_FORMATS: Final[dict[str, type]] = {
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
}


class Problem(msgspec.Struct, frozen=True):
    """One violation of a schema, with its path; an empty path is the whole value."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.message}" if self.path else self.message


class Invalid(ValueError):
    """A value that is not of the type; `problems` has the reasons."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def format_path(path: Path) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{msgspec.json.encode(step).decode()}]"
    return text


def problems_in(schema: Schema, value: object) -> list[Problem]:
    """Return all problems of a value; an empty list if it fits."""
    problems: list[Problem] = []
    for error in _errors(schema, value):
        problems.append(_problem(error))
        if len(problems) > MAX_PROBLEMS:
            return [*problems[:MAX_PROBLEMS], Problem((), "and more")]
    return problems


def drop_unknown_fields(schema: Schema, value: Any) -> Any:
    """Return the value without fields that a closed object (`additionalProperties: false`) does not have."""
    extras = [extra for error in _errors(schema, value) for extra in _extras(error)]
    if not extras:
        return value
    copied = msgspec.to_builtins(value)
    for path, names in extras:
        part = copied
        for step in path:
            part = part[step]
        for name in names:
            part.pop(name, None)
    return copied


def _errors(schema: Schema, value: object) -> list[Any]:
    relevance = library().exceptions.relevance
    from referencing import Registry

    validator = validator_class(schema)(schema, registry=Registry(), format_checker=_format_checker())
    try:
        return sorted(validator.iter_errors(value), key=lambda error: (list(map(str, error.path)), relevance(error)))
    except RecursionError:
        raise Invalid([Problem((), "it is nested too deeply to be read")]) from None


def _extras(error: Any) -> Iterator[tuple[Path, list[str]]]:
    if error.validator == "additionalProperties" and error.validator_value is False:
        properties = error.schema.get("properties", {})
        yield tuple(error.absolute_path), [name for name in error.instance if name not in properties]
    branches: dict[object, list[Any]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    for inners in branches.values():
        # A member of a union that would fit without its unknown fields.
        if all(inner.validator == "additionalProperties" for inner in inners):
            for inner in inners:
                yield from _extras(inner)
            return


def validator_class(schema: Schema) -> Any:
    jsonschema = library()
    base = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    # 1.0 is an integer to JSON Schema, but not to Python's types.
    whole = base.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    return jsonschema.validators.extend(base, type_checker=whole)


def library() -> Any:
    """Return jsonschema, which is loaded when a schema is checked or a value does not fit."""
    try:
        import jsonschema  # type: ignore[import-untyped]  # it ships no types
    except ImportError as error:
        raise InputError(
            f"to check values the package jsonschema is needed, and it cannot be loaded: {error}",
            guidance="Install it: pip install 'dragoman[mcp]'",
        ) from error
    return jsonschema


def _format_checker() -> Any:
    checker = library().FormatChecker(formats=())
    for name, kind in _FORMATS.items():

        def fits(value: object, kind: type = kind) -> bool:
            if isinstance(value, str):
                msgspec.convert(value, kind)
            return True

        checker.checks(name, raises=msgspec.ValidationError)(fits)
    return checker


# -- texts


def _problem(error: Any) -> Problem:
    if error.validator in ("anyOf", "oneOf") and (closest := _closest(error)) is not None:
        return _problem(closest)
    return Problem(tuple(error.absolute_path), _words(error))


def _closest(error: Any) -> Any:
    """Return the one problem of a union, where it is clear which member was meant."""
    branches: dict[object, list[Any]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    # A member of another kind (a text instead of an object) was not meant.
    near = [inners for inners in branches.values() if not any(_is_kind(inner, error) for inner in inners)]
    return near[0][0] if len(near) == 1 else None


def _is_kind(inner: Any, error: Any) -> bool:
    return inner.validator in ("type", "const", "enum") and inner.absolute_path == error.absolute_path


def _words(error: Any) -> str:
    expected, value = error.validator_value, error.instance
    match error.validator:
        case "type":
            kinds = expected if isinstance(expected, list) else [expected]
            return f"expected {_either(kinds)}, got {_show(value)}"
        case "required":
            missing = [name for name in expected if name not in value]
            # The validator reports one error per missing field; its message names the field.
            name = next((each for each in missing if error.message.startswith(repr(each))), missing[0])
            return f"the field {name!r} is missing"
        case "enum":
            return f"expected one of {shorten(', '.join(map(_show, expected)))}, got {_show(value)}"
        case "const":
            return f"expected {_show(expected)}, got {_show(value)}"
        case "anyOf" | "oneOf":
            kinds = [_kind_of(member) for member in expected]
            return f"expected {_either(kinds)}, got {_show(value)}"
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            bound = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
            return f"expected {bound.get(error.validator, 'less than')} {expected}, got {_show(value)}"
        case "format":
            return f"expected a {expected}, got {_show(value)}"
        case _:
            return shorten(error.message, 3 * MAX_SHOWN_CHARS)


def _kind_of(schema: object) -> str:
    if not isinstance(schema, dict):
        return "something else"
    if isinstance(reference := schema.get("$ref"), str):
        return reference.rpartition("/")[2]
    if "const" in schema:
        return _show(schema["const"])
    return str(schema.get("title") or schema.get("type") or "another shape")


def _either(kinds: Iterable[object]) -> str:
    return " or ".join(map(str, kinds))


def _show(value: object) -> str:
    """Return a value as JSON, shortened."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return shorten(msgspec.json.encode(value).decode())


def non_finite_number(value: object) -> float | None:
    """Return a number in the value that JSON cannot express (NaN, an infinity); some readers accept one."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case float() as number if not math.isfinite(number):
                return number
            case dict() as fields:
                waiting.extend(fields.values())
            case list() as items:
                waiting.extend(items)
            case _:
                pass
    return None


def shorten(text: str, max_chars: int = MAX_SHOWN_CHARS) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
