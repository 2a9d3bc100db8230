"""A value held against a JSON Schema: all that is wrong with it, in words that a model can act on.

Each problem has the place where it is (`items[3].price`). Nothing is ever fetched, whatever a schema refers to.
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

# What is told at once of a bad value: enough to mend it in one go, and no wall of text where everything is wrong.
MOST_PROBLEMS: Final = 20
# Of a value that is shown in a message.
MOST_SHOWN: Final = 80

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
        return f"{shown_path(self.path)}: {self.message}" if self.path else self.message


class Invalid(ValueError):
    """A value that is not of the type; `problems` has each thing that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def shown_path(path: Path) -> str:
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
    """All that is wrong with a value; empty where nothing is."""
    found: list[Problem] = []
    for error in _errors(schema, value):
        found.append(_problem(error))
        if len(found) > MOST_PROBLEMS:
            return [*found[:MOST_PROBLEMS], Problem((), "and more")]
    return found


def without_unknown(schema: Schema, value: Any) -> Any:
    """The value without the fields that a closed object (`additionalProperties: false`) does not have."""
    extras = [found for error in _errors(schema, value) for found in _extras(error)]
    if not extras:
        return value
    copied = msgspec.to_builtins(value)
    for path, names in extras:
        place = copied
        for step in path:
            place = place[step]
        for name in names:
            place.pop(name, None)
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
        known = error.schema.get("properties", {})
        yield tuple(error.absolute_path), [name for name in error.instance if name not in known]
    branches: dict[object, list[Any]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    for inners in branches.values():
        # A member of a union that would do, were it not for what it does not know.
        if all(inner.validator == "additionalProperties" for inner in inners):
            for inner in inners:
                yield from _extras(inner)
            return


def validator_class(schema: Schema) -> Any:
    known = library()
    base = known.validators.validator_for(schema, default=known.Draft202012Validator)
    # 1.0 is a whole number to JSON Schema, and not to Python's types.
    whole = base.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    return known.validators.extend(base, type_checker=whole)


def library() -> Any:
    """Loaded when there is a schema to read, or something wrong with a value."""
    try:
        import jsonschema  # type: ignore[import-untyped]  # it ships no types
    except ImportError as problem:
        raise InputError(
            f"what is wrong with a value is found by the package jsonschema, which cannot be loaded: {problem}",
            guidance="Install it: pip install 'dragoman[mcp]'",
        ) from problem
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


# -- words


def _problem(error: Any) -> Problem:
    if error.validator in ("anyOf", "oneOf") and (closest := _closest(error)) is not None:
        return _problem(closest)
    return Problem(tuple(error.absolute_path), _words(error))


def _closest(error: Any) -> Any:
    """Of a union, the one thing that is wrong, where it is clear which member was meant."""
    branches: dict[object, list[Any]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    # A member of another kind altogether (a text where an object was given) was not meant.
    near = [inners for inners in branches.values() if not any(_is_kind(inner, error) for inner in inners)]
    return near[0][0] if len(near) == 1 else None


def _is_kind(inner: Any, error: Any) -> bool:
    return inner.validator in ("type", "const", "enum") and inner.absolute_path == error.absolute_path


def _words(error: Any) -> str:
    wanted, given = error.validator_value, error.instance
    match error.validator:
        case "type":
            kinds = wanted if isinstance(wanted, list) else [wanted]
            return f"expected {_either(kinds)}, got {_show(given)}"
        case "required":
            missing = [name for name in wanted if name not in given]
            # One error a missing field comes from the validator: its message names which.
            name = next((each for each in missing if error.message.startswith(repr(each))), missing[0])
            return f"the field {name!r} is missing"
        case "enum":
            return f"expected one of {cut(', '.join(map(_show, wanted)))}, got {_show(given)}"
        case "const":
            return f"expected {_show(wanted)}, got {_show(given)}"
        case "anyOf" | "oneOf":
            kinds = [_kind_of(member) for member in wanted]
            return f"expected {_either(kinds)}, got {_show(given)}"
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            bound = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
            return f"expected {bound.get(error.validator, 'less than')} {wanted}, got {_show(given)}"
        case "format":
            return f"expected a {wanted}, got {_show(given)}"
        case _:
            return cut(error.message, 3 * MOST_SHOWN)


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
    """A value as it stands in JSON, in short."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return cut(msgspec.json.encode(value).decode())


def without_a_word(value: object) -> float | None:
    """A number in it that JSON has no word for (NaN, an infinity). Readers of JSON let some through, writers do not."""
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


def cut(text: str, most: int = MOST_SHOWN) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
