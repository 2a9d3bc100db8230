"""A form that an agent asks a person to fill in, and the validation of answers.

It is read from the JSON Schema of `elicitation/create`, a flat object. Promised: content that `Form.validate` accepts
fits the schema and contains nothing that nobody entered: a default counts only when it was accepted. A property of an
unknown kind is never shown as one of a known kind.
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
    InvalidValue,
    NumberField,
    TextField,
    Value,
)
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp

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
