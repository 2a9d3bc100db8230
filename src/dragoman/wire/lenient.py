"""Lenient decoding, so that one bad field never costs the whole frame.

Good input is decoded strictly, in one pass. Only where that fails is the value repaired field by field, as the schema's
own marks say (`vocabulary.REPAIRS`), innermost first:

* a bad value takes its default, or, where it may be absent, counts as absent;
* bad items are left out of an array;
* a null that stands for "nothing" takes the default;
* an unknown kind in an open union becomes that union's `Other…`, with its kind and its bytes.

A value that cannot be repaired raises `msgspec.ValidationError`, whose text names the field. An update never raises:
`decode_update` returns `Unknown`, in which nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin

import msgspec

from dragoman.wire.messages import DECODE_ERRORS, Unknown
from dragoman.wire.vocabulary import REPAIRS, SessionUpdate, Verbatim, WireStruct

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # known to type checkers without being installed

T = TypeVar("T")

# Half surrogate pairs. The standard library reads them; no strict reader does.
_HALF_SURROGATES = re.compile("[\ud800-\udfff]")


def decode(raw: bytes | msgspec.Raw, type_: TypeForm[T]) -> T:
    """Decode JSON as `type_`, repaired where necessary.

    `null` is read as the empty object where all fields are optional: some agents answer `session/load` with it.
    """
    target: Any = type_
    try:
        return cast(T, _decoder(target).decode(raw))
    except DECODE_ERRORS:
        pass
    shape = _shape(target)
    value = _loads(raw)
    if value is None and not shape.nullable and len(shape.structs) == 1:
        value = {}
    return cast(T, _convert(_repair(value, shape), shape))


def decode_or_none(raw: bytes | msgspec.Raw, type_: TypeForm[T]) -> T | None:
    """Decode JSON as `type_`, repaired where necessary; return None where it cannot be read."""
    try:
        return decode(raw, type_)
    except msgspec.MsgspecError:
        return None


def decode_update(raw: bytes | msgspec.Raw) -> SessionUpdate | Unknown:
    """Decode the `update` of a `session/update`. Never raises: an unreadable one is `Unknown`, with its bytes."""
    try:
        return _update_decoder().decode(raw)
    except DECODE_ERRORS:
        pass
    kind = ""
    try:
        value = _loads(raw)
        if isinstance(value, dict) and isinstance(value.get("sessionUpdate"), str):
            kind = value["sessionUpdate"]
        shape = _shape(SessionUpdate)
        return cast(SessionUpdate, _convert(_repair(value, shape), shape))
    except DECODE_ERRORS:
        return Unknown(kind, raw if isinstance(raw, msgspec.Raw) else msgspec.Raw(raw))


_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Encode a value as JSON on one line. Unset fields are left out."""
    return _encoder.encode(value)


def build_decoders(*types: Any) -> None:
    """Build the decoders of these types now, while nothing waits for them."""
    for type_ in types:
        _decoder(type_)


def encode_repaired(value: Any) -> bytes:
    """Encode plain values as valid JSON, with U+FFFD in place of half surrogate pairs.

    Agents split streams in the middle of a character, and then no strict reader accepts the frame.
    """
    import json  # few frames need it

    return _HALF_SURROGATES.sub("\ufffd", json.dumps(value, ensure_ascii=False)).encode()


# -- repair


class _Shape(msgspec.Struct, frozen=True):
    """The structure of a type, as far as repair needs it."""

    type: Any
    nullable: bool
    tag_field: str | None
    structs: Mapping[str, type[msgspec.Struct]]  # by tag; a struct without one is under ""
    other: type[msgspec.Struct] | None  # of an open union
    items: _Shape | None  # of an array
    values: _Shape | None  # of a map


class _Field(msgspec.Struct, frozen=True):
    shape: _Shape
    marks: str
    required: bool


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


@cache
def _update_decoder() -> msgspec.json.Decoder[SessionUpdate]:
    return msgspec.json.Decoder(SessionUpdate)


@cache
def _shape(type_: Any) -> _Shape:
    members = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    structs: dict[str, type[msgspec.Struct]] = {}
    tag_field = other = items = values = None
    for member in members:
        if isinstance(member, type) and issubclass(member, msgspec.Struct):
            config = member.__struct_config__
            if config.tag == "":
                other = member
            else:
                structs[str(config.tag or "")] = member
            tag_field = config.tag_field
        elif get_origin(member) is tuple:
            items = _shape(get_args(member)[0])
        elif get_origin(member) is dict:
            values = _shape(get_args(member)[1])
    if len(structs) == 1 and other is None:
        tag_field = None  # where only one struct is possible the tag may be missing
    return _Shape(type_, type(None) in members, tag_field, structs, other, items, values)


@cache
def _fields(struct: type[msgspec.Struct]) -> Mapping[str, _Field]:
    """Return the fields that may need repair, by their name on the wire."""
    marks = {"_meta": "e"}
    for base in reversed(struct.__mro__):
        if base.__module__ == WireStruct.__module__:
            marks |= REPAIRS.get(base.__name__, {})
    return {
        field.encode_name: _Field(_shape(field.type), marks.get(field.encode_name, ""), field.required)
        for field in msgspec.structs.fields(struct)
    }


def _struct_for(value: dict[str, Any], shape: _Shape) -> type[msgspec.Struct] | None:
    if shape.tag_field is None:
        return next(iter(shape.structs.values()), None)
    tag = value.get(shape.tag_field)
    return shape.structs.get(tag) if isinstance(tag, str) else None


def _repair(value: Any, shape: _Shape) -> Any:
    if isinstance(value, list) and shape.items is not None:
        return [_repair(item, shape.items) for item in value]
    if not isinstance(value, dict):
        return value
    if (struct := _struct_for(value, shape)) is not None:
        return _repair_struct(value, struct)
    if shape.other is not None and isinstance(tag := value.get(str(shape.tag_field)), str):
        return {shape.tag_field: "", "kind": tag, "raw": Verbatim(encode(value))}
    if shape.values is not None:
        return {key: _repair(item, shape.values) for key, item in value.items()}
    return value


def _repair_struct(value: dict[str, Any], struct: type[msgspec.Struct]) -> dict[str, Any]:
    if _is_a(value, struct):
        return value
    repaired = dict(value)
    for name, field in _fields(struct).items():
        if name not in value:
            continue
        part = _repair(value[name], field.shape)
        if "s" in field.marks and isinstance(part, list) and field.shape.items is not None:
            part = [item for item in part if _fits(item, field.shape.items)]
        bad = ("n" in field.marks and part is None) or ("e" in field.marks and not _fits(part, field.shape))
        if not bad:
            repaired[name] = part
        elif field.required:
            repaired[name] = []  # every field that is both marked and required is an array
        else:
            del repaired[name]
    return repaired


def _fits(value: Any, shape: _Shape) -> bool:
    # Descends by hand where it can, because msgspec analyses a type on each call that converts to anything but a
    # struct.
    if isinstance(value, list) and shape.items is not None:
        return all(_fits(item, shape.items) for item in value)
    if isinstance(value, dict):
        if (struct := _struct_for(value, shape)) is not None:
            return _is_a(value, struct)
        if shape.values is not None:
            return all(_fits(item, shape.values) for item in value.values())
    return _is_a(value, shape.type)


def _is_a(value: Any, type_: Any) -> bool:
    try:
        msgspec.convert(value, type_)
    except DECODE_ERRORS:
        return False
    return True


def _convert(value: Any, shape: _Shape) -> Any:
    struct = _struct_for(value, shape) if isinstance(value, dict) else None
    try:
        return msgspec.convert(value, struct or shape.type)
    except RecursionError:
        raise msgspec.ValidationError("nested too deeply to be read") from None


def _loads(raw: bytes | msgspec.Raw) -> Any:
    """Decode JSON to plain values, also where its text is slightly broken."""
    try:
        return msgspec.json.decode(raw)
    except DECODE_ERRORS:
        import json  # slower, but reads numbers out of range and NaN

        try:
            value = json.loads(bytes(raw).decode("utf-8", "replace"), parse_constant=lambda _: None)
            return json.loads(encode_repaired(value)) if b"\\ud" in bytes(raw).lower() else value
        except (ValueError, RecursionError) as error:
            raise msgspec.ValidationError(f"cannot be read as JSON: {error}") from None
