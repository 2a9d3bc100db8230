"""A form: what an agent wants to know, field by field, and whether an answer to it is one.

Read from the JSON Schema of `elicitation/create`, a flat object. Promised: what `Form.validate` lets through fits the
schema, and nothing is in it that nobody said: a default is an offer, and counts only when it was taken. A property of
a kind that we do not know is never shown as one that we do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from dragoman.errors import InputError
from dragoman.host.question.fields import (
    BooleanField,
    Choice,
    ChoiceField,
    ChoicesField,
    Field,
    NumberField,
    Problem,
    TextField,
    Value,
)
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp

SCHEMA_LIMIT: Final = 256 * 1024
"""Bytes. Nobody fills in a form of a thousand fields, and to read one of a million would hold up other sessions."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """`left_out` are properties that cannot be asked for; `problem` says why no answer could be complete."""

    title: str = ""
    description: str = ""
    fields: tuple[Field, ...] = ()
    left_out: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def defaults(self) -> dict[str, Value]:
        """What the agent suggests."""
        return {field.name: field.default for field in self.fields if field.default is not None}

    def validate(self, content: Mapping[str, object]) -> dict[str, Value]:
        """The content as it can be sent; a value of None is one that was not given. `InputError` names each field."""
        if self.problem is not None:
            raise InputError(self.problem, guidance="Decline or cancel the question.")
        known = {field.name: field for field in self.fields}
        wrong = [f"{name} is no field of this form" for name in content if name not in known]
        taken: dict[str, Value] = {}
        for name, field in known.items():
            value = content.get(name)
            try:
                if value is not None:
                    taken[name] = field.check(value)
                elif field.required:
                    wrong.append(f"{name} is needed")
            except Problem as problem:
                wrong.append(f"{name} {problem}")
        if wrong:
            fields = ", ".join(f"{field.name}{' (needed)' if field.required else ''}" for field in self.fields)
            raise InputError(
                f"the answer does not fit the form: {'; '.join(wrong)}",
                guidance=f"The form has the fields {fields}." if fields else "The form has no fields: accept({}).",
            )
        return taken


# -- reading the schema


class _Schema(msgspec.Struct, frozen=True):
    type: str = "object"
    title: object = None
    description: object = None
    properties: dict[str, msgspec.Raw] = {}
    required: tuple[str, ...] | None = None


class _Property(msgspec.Struct, frozen=True):
    type: str
    enumNames: tuple[str, ...] = ()  # noqa: N815 (the titles of an `enum`, as older servers write them)


def read_form(raw: bytes | msgspec.Raw) -> Form:
    """The form that `requestedSchema` describes. Raises `msgspec.MsgspecError` where it is no schema of an object."""
    size = memoryview(raw).nbytes
    if size > SCHEMA_LIMIT:
        raise msgspec.ValidationError(f"requestedSchema has {size} bytes; at most {SCHEMA_LIMIT} are read")
    schema = msgspec.json.decode(raw, type=_Schema)
    if schema.type != "object":
        raise msgspec.ValidationError(f"requestedSchema is of the type {schema.type!r}; expected 'object'")
    required = frozenset(schema.required or ())
    read = {name: _read_field(name, said, name in required) for name, said in schema.properties.items()}
    fields = tuple(field for field in read.values() if field is not None)
    missing = sorted(required - {field.name for field in fields})
    return Form(
        title=schema.title if isinstance(schema.title, str) else "",
        description=schema.description if isinstance(schema.description, str) else "",
        fields=fields,
        left_out=tuple(name for name, field in read.items() if field is None),
        problem=f"the form needs what cannot be asked for here: {', '.join(missing)}" if missing else None,
    )


def _read_field(name: str, raw: msgspec.Raw, required: bool) -> Field | None:
    """None where the property is of a kind that we do not know, or cannot be read."""
    try:
        said = msgspec.json.decode(raw, type=_Property)
        field = _field(said, raw)
    except msgspec.MsgspecError:
        return None
    if field is None:
        return None
    field = msgspec.structs.replace(field, name=name, required=required)
    return field if field.default is None else _with_default(field, field.default)


def _with_default(field: Field, default: Value) -> Field:
    """What the agent suggests must be what it would take: else Enter would answer what cannot be sent."""
    # Its pattern is left for later: a question is read while others wait, and a pattern may take its time.
    check = field.check_but_pattern if isinstance(field, TextField) else field.check
    try:
        return msgspec.structs.replace(field, default=check(default))
    except Problem:
        return msgspec.structs.replace(field, default=None)


def _field(said: _Property, raw: msgspec.Raw) -> Field | None:
    match said.type:
        case "string":
            return _text_or_choice(lenient.decode(raw, acp.StringPropertySchema), said.enumNames)
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
            return _choices_field(lenient.decode(raw, acp.MultiSelectPropertySchema), said.enumNames)
        case _:
            return None


def _number_field(said: acp.NumberPropertySchema | acp.IntegerPropertySchema, *, whole: bool) -> NumberField:
    return NumberField(
        name="",
        title=said.title or "",
        description=said.description or "",
        whole=whole,
        default=said.default,
        minimum=said.minimum,
        maximum=said.maximum,
    )


def _text_or_choice(said: acp.StringPropertySchema, names: tuple[str, ...]) -> Field | None:
    title, description = said.title or "", said.description or ""
    if said.one_of is not None or said.enum is not None:
        choices = _choices(said.one_of or (), said.enum or (), names)
        if not choices:
            return None
        return ChoiceField(name="", title=title, description=description, default=said.default, choices=choices)
    return TextField(
        name="",
        title=title,
        description=description,
        default=said.default,
        min_length=said.min_length,
        max_length=said.max_length,
        pattern=said.pattern,
        format=said.format,
    )


def _choices_field(said: acp.MultiSelectPropertySchema, names: tuple[str, ...]) -> Field | None:
    # Items of another type are of a kind that we do not know; those with titles have none.
    if said.items.type not in (None, "string"):
        return None
    choices = _choices(said.items.any_of, said.items.enum, names)
    if not choices:
        return None
    return ChoicesField(
        name="",
        title=said.title or "",
        description=said.description or "",
        default=said.default,
        choices=choices,
        min_items=said.min_items,
        max_items=said.max_items,
    )


def _choices(titled: tuple[acp.EnumOption, ...], plain: tuple[str, ...], names: tuple[str, ...]) -> tuple[Choice, ...]:
    """Each value once; of `enum` with the titles that came beside it, where there is one for each."""
    if titled:
        found = [Choice(option.const, option.title or option.const, option.description or "") for option in titled]
    else:
        found = [Choice(*pair) for pair in zip(plain, names if len(names) == len(plain) else plain, strict=True)]
    return tuple({choice.value: choice for choice in reversed(found)}.values())[::-1]
