"""JSON Schemas: read, and put together. Nothing is ever fetched: one that refers to another address is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dragoman.errors import InputError
from dragoman.evaluation.problems import Schema, cut, library, shown_path, validator_class


def checked(schema: Mapping[str, Any]) -> Schema:
    """A schema that a caller wrote. `InputError` where it is none, or refers to something outside itself."""
    copied: Schema = msgspec.to_builtins(dict(schema))
    for reference in _references(copied):
        if not reference.startswith("#"):
            raise InputError(
                f"the JSON Schema refers to {reference!r}, and nothing outside of it is read",
                guidance="Put what it refers to under $defs, and refer to it as #/$defs/NAME.",
            )
    try:
        validator_class(copied).check_schema(copied)
    except library().SchemaError as problem:
        place = shown_path(tuple(problem.absolute_path)) or "its top"
        raise InputError(f"this is no JSON Schema: at {place}: {cut(problem.message)}") from problem
    return copied


def root(schema: Schema) -> Schema:
    """The same schema with what stands behind a `$ref` at its top written out: readers look for `type` there."""
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
    """The schema of an object with these fields; their `$defs` are gathered at its top."""
    definitions: Schema = {}
    properties = {name: _moved(name, schema, definitions) for name, schema in fields.items()}
    combined: Schema = {"type": "object", "properties": properties, "required": list(required)}
    if definitions:
        combined["$defs"] = definitions
    return combined


def _moved(field: str, schema: Schema, definitions: Schema) -> Schema:
    """The schema as a part of another one: its references lead to where things are now."""
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
        definitions[names[name]] = _followed(part, follow)
    moved: Schema = _followed({key: value for key, value in schema.items() if key != "$defs"}, follow)
    return moved


def _free(name: str, part: object, definitions: Schema) -> str:
    if name not in definitions or definitions[name] == part:
        return name
    number = 2
    while f"{name}_{number}" in definitions:
        number += 1
    return f"{name}_{number}"


def _followed(part: Any, follow: Callable[[str], str]) -> Any:
    if isinstance(part, list):
        return [_followed(each, follow) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        key: follow(value) if key == "$ref" and isinstance(value, str) else _followed(value, follow)
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
