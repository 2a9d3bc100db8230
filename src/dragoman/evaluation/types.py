"""Types of values: as a JSON Schema for the agent, and from JSON back to Python.

A type is a JSON Schema (a dict), or any of: scalars, None, lists, tuples, sets, dicts, Literal, Enum, unions,
TypedDict, NamedTuple, dataclass, attrs, msgspec Struct, Pydantic model, in any nesting; dates, UUID, Decimal, Path,
bytes. msgspec reads the types that it knows; Pydantic, if installed, its own models and unions of several classes.

Nothing is guessed: "5" is not a number. Unknown fields are ignored, even if the class forbids them. MCP wants objects
(the arguments of a tool, a structured result): a list or a number is wrapped as {"value": …}.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

import msgspec

from dragoman.errors import InputError
from dragoman.evaluation.problems import (
    Invalid,
    Problem,
    Schema,
    drop_unknown_fields,
    format_path,
    library,
    non_finite_number,
    problems_in,
    shorten,
    validator_class,
)


def check_schema(schema: Mapping[str, Any]) -> Schema:
    """Return a copy of a caller's schema. `InputError` where it is invalid, or refers to something outside itself."""
    copied: Schema = msgspec.to_builtins(dict(schema))
    for reference in _references(copied):
        if not reference.startswith("#"):
            raise InputError(
                f"the JSON Schema refers to {reference!r}, which is outside of it",
                guidance="Put the target under $defs, and refer to it as #/$defs/NAME.",
            )
    try:
        validator_class(copied).check_schema(copied)
    except library().SchemaError as error:
        path = format_path(tuple(error.absolute_path)) or "the top"
        raise InputError(f"this is not a JSON Schema: at {path}: {shorten(error.message)}") from error
    return copied


def root(schema: Schema) -> Schema:
    """Return the schema with a `$ref` at its top replaced by its target: readers look for `type` there."""
    reference = schema.get("$ref")
    for section in ("$defs", "definitions"):
        prefix = f"#/{section}/"
        if isinstance(reference, str) and reference.startswith(prefix):
            name = reference.removeprefix(prefix).replace("~1", "/").replace("~0", "~")
            target = schema.get(section, {}).get(name)
            if isinstance(target, dict):
                inlined = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
                if not any(each.startswith(prefix) for each in _references({**inlined, section: {}})):
                    inlined.pop(section)
                return root(inlined) if "$ref" in target else inlined
    return schema


def is_object(schema: Schema) -> bool:
    return root(schema).get("type") == "object"


def object_of(fields: Mapping[str, Schema], required: Iterable[str]) -> Schema:
    """Return the schema of an object with these fields; their `$defs` are collected at its top."""
    definitions: Schema = {}
    properties = {name: _embed(name, schema, definitions) for name, schema in fields.items()}
    combined: Schema = {"type": "object", "properties": properties, "required": list(required)}
    if definitions:
        combined["$defs"] = definitions
    return combined


def _embed(field: str, schema: Schema, definitions: Schema) -> Schema:
    """Return the schema as a part of another one, with its references adapted."""
    own = schema.get("$defs", {})
    names = {name: _free(name, part, definitions) for name, part in own.items()}

    def follow(reference: str) -> str:
        for old, new in names.items():
            if reference == f"#/$defs/{old}" or reference.startswith(f"#/$defs/{old}/"):
                return f"#/$defs/{new}" + reference.removeprefix(f"#/$defs/{old}")
        if reference == "#" or reference.startswith("#/"):
            return f"#/properties/{_escaped(field)}{reference[1:]}"
        return reference

    for name, part in own.items():
        definitions[names[name]] = _map_references(part, follow)
    moved: Schema = _map_references({key: value for key, value in schema.items() if key != "$defs"}, follow)
    return moved


def _free(name: str, part: object, definitions: Schema) -> str:
    if name not in definitions or definitions[name] == part:
        return name
    number = 2
    while f"{name}_{number}" in definitions:
        number += 1
    return f"{name}_{number}"


def _map_references(part: Any, follow: Callable[[str], str]) -> Any:
    if isinstance(part, list):
        return [_map_references(each, follow) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        key: follow(value) if key == "$ref" and isinstance(value, str) else _map_references(value, follow)
        for key, value in part.items()
    }


def _references(part: object) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from _references(each)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            else:
                yield from _references(value)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


__all__ = ["Invalid", "Problem", "Schema", "Shape", "decode", "encode", "object_schema", "schema_of", "shape_of"]

# A type hint, or a JSON Schema; no type accepts every hint (`int | None`, `list[int]`).
Type: TypeAlias = Any

# The field of an object that wraps another value.
FIELD: Final = "value"


class Shape:
    """A type with its schema, and the function that reads a value from JSON."""

    def __init__(self, name: str, schema: Schema, read: Callable[[Any], Any]) -> None:
        self.name = name
        self.schema = root(schema)
        self.wrapped = not is_object(schema)
        self._read = read

    @property
    def object_schema(self) -> Schema:
        """The schema of the value as an object, wrapped if it is none."""
        return object_of({FIELD: self.schema}, [FIELD]) if self.wrapped else self.schema

    def decode(self, value: Any) -> Any:
        """Return the value of this type; `Invalid` lists all problems."""
        return self._decode(self.schema, value, self._read)

    def decode_object(self, value: Any) -> Any:
        """Return the value of this type from an object that may wrap it."""
        if not self.wrapped:
            return self.decode(value)
        if not isinstance(value, dict) or FIELD not in value:
            raise Invalid(problems_in(self.object_schema, value))
        return self._decode(self.object_schema, {FIELD: value[FIELD]}, lambda wrapper: self._read(wrapper[FIELD]))

    def encode_object(self, value: Any) -> dict[str, Any]:
        encoded = encode(value)
        return {FIELD: encoded} if self.wrapped else encoded

    def _decode(self, schema: Schema, value: Any, read: Callable[[Any], Any]) -> Any:
        if (number := non_finite_number(value)) is not None:
            raise Invalid([Problem((), f"{number} is not a number in JSON")])
        try:
            return read(value)
        except RecursionError:
            raise Invalid([Problem((), "it is nested too deeply to be read")]) from None
        except Invalid as error:
            # The reader often reports only the first problem, and in its own words. The schema finds all.
            known_part = drop_unknown_fields(schema, value)
            if known_part != value:
                return self._decode(schema, known_part, read)
            raise Invalid(problems_in(schema, value) or error.problems) from None


def shape_of(type_: Type) -> Shape:
    """Return the shape of a type or schema. `InputError` where it cannot be written as a JSON Schema."""
    if isinstance(type_, Shape):
        return type_
    if isinstance(type_, dict):
        return _shape_of_schema(type_)
    if isinstance(type_, str) or inspect.isroutine(type_):
        raise InputError(f"the type is {type_!r}; expected a type, or a JSON Schema as a dict")
    try:
        return _shape_of_hint(type_)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _make_shape(type_)


def schema_of(type_: Type) -> Schema:
    return shape_of(type_).schema


def decode(type_: Type, value: Any) -> Any:
    """Return a value of the type from JSON. `Invalid` lists all problems with their paths."""
    return shape_of(type_).decode(value)


def object_schema(fields: Mapping[str, Type], required: Iterable[str]) -> Schema:
    """Return the schema of an object whose fields have these types: the arguments of a tool."""
    return object_of({name: schema_of(type_) for name, type_ in fields.items()}, required)


def encode(value: Any) -> Any:
    """Return a value as JSON types: dicts with text keys, lists, texts, numbers, booleans, None."""
    try:
        plain = msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise InputError(f"a value of the type {type(value).__name__} cannot be written as JSON: {error}") from error
    if (number := non_finite_number(plain)) is not None:
        raise InputError(f"a value of the type {type(value).__name__} cannot be written as JSON: it has {number} in it")
    return plain


# -- a schema that the caller wrote


def _shape_of_schema(schema: Schema) -> Shape:
    own_schema = check_schema(schema)

    def read(value: Any) -> Any:
        if problems := problems_in(own_schema, value):
            raise Invalid(problems)
        return value

    return Shape(str(own_schema.get("title") or "JSON"), own_schema, read)


# -- types


@lru_cache(maxsize=512)
def _shape_of_hint(hint: Type) -> Shape:
    return _make_shape(hint)


def _make_shape(hint: Type) -> Shape:
    makers = [_by_msgspec, _by_pydantic]
    if _mentions_pydantic(hint):
        makers.reverse()
    refusals: list[str] = []
    for make in makers:
        try:
            return make(hint)
        except _Unfit as error:
            refusals.append(str(error))
    name = _name(hint)
    raise InputError(
        f"the type {name} cannot be written as a JSON Schema: {refusals[0]}",
        guidance="Use a dataclass, a Pydantic model, a msgspec Struct, a TypedDict, lists and scalars of these, "
        "or write the JSON Schema as a dict.",
    )


class _Unfit(Exception):
    """The library cannot handle the type."""


def _by_msgspec(hint: Type) -> Shape:
    try:
        schema = msgspec.json.schema(hint, schema_hook=_schema_of_other)
    except (TypeError, NotImplementedError, NameError, AttributeError, ValueError) as error:
        raise _Unfit(str(error)) from error

    def read(value: Any) -> Any:
        try:
            return msgspec.convert(value, hint, dec_hook=_other, str_keys=True)
        except msgspec.ValidationError as error:
            raise Invalid([Problem((), str(error))]) from error

    return Shape(_name(hint), schema, read)


def _by_pydantic(hint: Type) -> Shape:
    try:
        from pydantic import PydanticUserError, TypeAdapter, ValidationError
        from pydantic.errors import PydanticSchemaGenerationError
    except ImportError:
        raise _Unfit("pydantic, which may know it, is not installed") from None
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        schema = adapter.json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, NameError) as error:
        raise _Unfit(str(error).splitlines()[0]) from error

    def read(value: Any) -> Any:
        try:
            # As JSON, where a date is a text and a tuple is a list, even for a strict model; and "5" is not a number.
            return adapter.validate_json(msgspec.json.encode(value), strict=True)
        except ValidationError as error:
            raise Invalid(Problem(tuple(each["loc"]), each["msg"]) for each in error.errors()) from error

    return Shape(_name(hint), schema, read)


def _mentions_pydantic(hint: Type) -> bool:
    """Return whether a hint is or contains a Pydantic model. Only programs that loaded Pydantic can have one."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return False
    if isinstance(hint, type) and issubclass(hint, pydantic.BaseModel):
        return True
    return any(_mentions_pydantic(each) for each in get_args(hint))


def _name(hint: Type) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


# -- types that msgspec does not know


def _is_model(kind: Type) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_validate_json") and hasattr(kind, "model_json_schema")


def _schema_of_other(kind: Type) -> Schema:
    if isinstance(kind, type) and issubclass(kind, Path):
        return {"type": "string", "format": "path"}
    if _is_model(kind):
        schema: Schema = kind.model_json_schema()
        if "$defs" not in schema:
            return schema
    raise NotImplementedError(f"{_name(kind)} is not supported")


def _other(kind: Type, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Path):
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{type(value).__name__}`")  # noqa: TRY004 - what msgspec adds a path to
        return kind(value)
    return kind.model_validate_json(msgspec.json.encode(value), strict=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if _is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    raise NotImplementedError(f"{type(value).__name__} is not supported")
