"""The typed values of `wire.vocabulary` as models of the official Python SDK, and back.

    from dragoman.convert import acp

    model = acp.to_sdk(update)          # e.g. acp.schema.AgentMessageChunk
    update = acp.from_sdk(model)

A value survives the way there and back, as far as the SDK has types for it. The SDK's schema is older than Dragoman's:
an unknown kind raises `UnknownToSdk`; `losses` returns the fields that a known kind drops. To lose nothing, use the
frame's own bytes (`event.line`, `message.line`) instead of a model.

Needs the package `agent-client-protocol` (`dragoman[acp]`), which is loaded when first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Union

import msgspec

from dragoman.errors import InputError
from dragoman.wire import lenient, vocabulary
from dragoman.wire.vocabulary import Verbatim, WireStruct

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

# Types that have another name in the SDK, or several. All others have the same name.
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "AudioContent": ("AudioContentBlock",),
    "AuthMethod": ("EnvVarAuthMethod", "TerminalAuthMethod", "AuthMethodAgent"),
    "AuthMethodTerminal": ("TerminalAuthMethod",),
    "BooleanPropertySchema": ("ElicitationBooleanPropertySchema",),
    "CancelledPermissionOutcome": ("DeniedOutcome",),
    "Content": ("ContentToolCallContent",),
    "Diff": ("FileEditToolCallContent",),
    "ElicitationAcceptAction": ("AcceptElicitationResponse",),
    "ElicitationCancelAction": ("CancelElicitationResponse",),
    "ElicitationDeclineAction": ("DeclineElicitationResponse",),
    "ElicitationFormMode": ("CreateFormSessionElicitationRequest", "CreateFormRequestElicitationRequest"),
    "ElicitationUrlMode": ("CreateUrlSessionElicitationRequest", "CreateUrlRequestElicitationRequest"),
    "EmbeddedResource": ("EmbeddedResourceContentBlock",),
    "EmbeddedResourceResource": ("TextResourceContents", "BlobResourceContents"),
    "ImageContent": ("ImageContentBlock",),
    "IntegerPropertySchema": ("ElicitationIntegerPropertySchema",),
    "McpServer": ("HttpMcpServer", "SseMcpServer", "AcpMcpServer", "McpServerStdio"),
    "McpServerAcp": ("AcpMcpServer",),
    "McpServerHttp": ("HttpMcpServer",),
    "McpServerSse": ("SseMcpServer",),
    "MultiSelectItems": ("StringMultiSelectItems", "TitledMultiSelectItems"),
    "MultiSelectPropertySchema": ("ElicitationMultiSelectPropertySchema",),
    "NumberPropertySchema": ("ElicitationNumberPropertySchema",),
    "Plan": ("AgentPlanUpdate",),
    "PlanFile": ("PlanUpdateFile",),
    "PlanItems": ("PlanUpdateItems",),
    "PlanMarkdown": ("PlanUpdateMarkdown",),
    "PlanRemoved": ("AgentPlanRemovedUpdate",),
    "PlanUpdate": ("AgentPlanContentUpdate",),
    "ResourceLink": ("ResourceContentBlock",),
    "SelectedPermissionOutcome": ("AllowedOutcome",),
    "SessionConfigBoolean": ("SessionConfigOptionBoolean",),
    "SessionConfigSelect": ("SessionConfigOptionSelect",),
    "SessionConfigSelectItem": ("SessionConfigSelectOption", "SessionConfigSelectGroup"),
    "SessionToolCallUpdate": ("ToolCallProgress",),
    "SetSessionConfigOptionRequest": ("SetSessionConfigOptionBooleanRequest", "SetSessionConfigOptionSelectRequest"),
    "StringPropertySchema": ("ElicitationStringPropertySchema",),
    "Terminal": ("TerminalToolCallContent",),
    "TextContent": ("TextContentBlock",),
    "ToolCall": ("ToolCallStart",),
}


class UnknownToSdk(InputError):
    """A value for which the SDK has no type, or that its type does not accept."""

    default_guidance = "Use the value itself, or the bytes of its frame."


def to_sdk(value: WireStruct) -> BaseModel:
    """Return the value as a model of the SDK."""
    adapter, plain = _adapter(type(value)), _plain(value)
    from pydantic import ValidationError

    try:
        model: BaseModel = adapter.validate_python(plain)
    except ValidationError as error:
        # Not pydantic's own text, which repeats the values: there may be keys among them.
        reasons = "; ".join(
            f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"
            for detail in error.errors(include_input=False, include_url=False, include_context=False)
        )
        raise UnknownToSdk(f"the SDK's types cannot hold this {type(value).__name__}: {reasons}") from None
    return model


def from_sdk(model: BaseModel) -> WireStruct:
    """Return a model of the SDK as a value of `wire.vocabulary`."""
    # A program's subclass of a model counts as that model.
    names = [kind.__name__ for kind in type(model).__mro__ if kind.__module__ == "acp.schema"]
    wire_type = next((_types_by_sdk_name()[name] for name in names if name in _types_by_sdk_name()), None)
    if wire_type is None:
        raise InputError(f"{type(model).__module__}.{type(model).__name__} has no counterpart among Dragoman's types")
    encoded = model.model_dump_json(by_alias=True, exclude_unset=True).encode()
    try:
        return lenient.decode(encoded, wire_type)
    except msgspec.ValidationError as error:
        raise InputError(f"this {type(model).__name__} cannot be read as {wire_type.__name__}: {error}") from error


def losses(value: WireStruct) -> tuple[str, ...]:
    """Return the fields that the SDK's types drop or change, as paths: `update.name`, `sessions[].archived`."""
    return tuple(dict.fromkeys(_differences(_plain(value), _plain(from_sdk(to_sdk(value))), "")))


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            yield from _differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for before_item, after_item in zip(before, after, strict=True):
            yield from _differences(before_item, after_item, f"{path}[]")
    elif before != after:
        yield path


def _plain(value: Any) -> Any:
    """Return the value as plain JSON values, with empty lists, which the SDK requires and the wire leaves out."""
    if isinstance(value, WireStruct):
        config = value.__struct_config__
        plain = {config.tag_field: config.tag} if config.tag_field is not None else {}
        for field in msgspec.structs.fields(value):
            part = getattr(value, field.name)
            # Null is written only where it differs from an absent field.
            if part is not msgspec.UNSET and not (part is None and field.default is None):
                plain[field.encode_name] = _plain(part)
        return plain
    if isinstance(value, Verbatim):
        raise UnknownToSdk(f"a part of an unknown kind: {bytes(value)[:200]!r}")
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


@cache
def _adapter(wire_type: type[WireStruct]) -> TypeAdapter[Any]:
    """Return the adapter that builds the SDK's model of a type."""
    schema = _schema()
    names = _OTHER_NAMES.get(wire_type.__name__, (wire_type.__name__,))
    models = tuple(getattr(schema, name) for name in names if hasattr(schema, name))
    if not models:
        raise UnknownToSdk(f"the SDK has no type for {wire_type.__name__}")
    from pydantic import TypeAdapter

    union: Any = Union[models]  # noqa: UP007 (a tuple of types cannot be written with |)
    return TypeAdapter(union)


@cache
def _types_by_sdk_name() -> Mapping[str, type[WireStruct]]:
    """Return the types by their SDK name. Where several types have the same SDK name, the plainest wins."""
    own = {
        name: type_
        for name, type_ in vars(vocabulary).items()
        if isinstance(type_, type) and issubclass(type_, WireStruct) and type_ is not WireStruct
    }
    renamed = {other: own[name] for name, others in _OTHER_NAMES.items() if len(others) > 1 for other in others}
    renamed |= {others[0]: own[name] for name, others in _OTHER_NAMES.items() if len(others) == 1}
    return {**renamed, **{name: type_ for name, type_ in own.items() if hasattr(_schema(), name)}}


@cache
def _schema() -> Any:
    try:
        return importlib.import_module("acp.schema")
    except ImportError as error:
        raise InputError(
            "converting to and from the types of the official SDK needs its package, which is not installed",
            guidance="Install it: pip install 'dragoman[acp]'",
        ) from error
