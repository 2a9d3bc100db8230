"""The typed values of `wire.vocabulary` as models of the official Python SDK, and back.

    from dragoman.convert import acp

    model = acp.to_sdk(update)          # e.g. acp.schema.AgentMessageChunk
    update = acp.from_sdk(model)

Both ways a value comes back as it went, as far as the SDK has words for it. Its schema is older than ours: a kind that
it does not know at all is an `UnknownToSdk`; what it drops of a kind that it knows, `losses` tells. What must not be
lost is kept as the frame's own bytes (`event.line`, `message.line`), never as a model.

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

# Where the SDK has another name, or several types for what is one of ours. All others have the same name.
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
    """A value that the SDK has no type for, or holds one that its type does not take."""

    default_guidance = "Keep such values as they are, or use their frame's own bytes."


def to_sdk(value: WireStruct) -> BaseModel:
    """The value as a model of the SDK."""
    adapter, plain = _adapter(type(value)), _plain(value)
    from pydantic import ValidationError

    try:
        model: BaseModel = adapter.validate_python(plain)
    except ValidationError as problem:
        # Not its own text, which repeats the values: there may be keys among them.
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in problem.errors(include_input=False, include_url=False, include_context=False)
        )
        raise UnknownToSdk(f"the SDK's types cannot hold this {type(value).__name__}: {wrong}") from None
    return model


def from_sdk(model: BaseModel) -> WireStruct:
    """A model of the SDK as our value."""
    # A program's own subclass of a model is read as that model.
    names = [kind.__name__ for kind in type(model).__mro__ if kind.__module__ == "acp.schema"]
    ours = next((_ours()[name] for name in names if name in _ours()), None)
    if ours is None:
        raise InputError(f"{type(model).__module__}.{type(model).__name__} has no counterpart among our types")
    said = model.model_dump_json(by_alias=True, exclude_unset=True).encode()
    try:
        return lenient.decode(said, ours)
    except msgspec.ValidationError as problem:
        raise InputError(f"this {type(model).__name__} cannot be read as {ours.__name__}: {problem}") from problem


def losses(value: WireStruct) -> tuple[str, ...]:
    """What the SDK's types would drop or change of this value, as paths: `update.name`, `sessions[].archived`."""
    return tuple(dict.fromkeys(_differences(_plain(value), _plain(from_sdk(to_sdk(value))), "")))


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            yield from _differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from _differences(one, other, f"{path}[]")
    elif before != after:
        yield path


def _plain(value: Any) -> Any:
    """The value as JSON has it, with what is empty written out: the SDK asks for lists that ours leave unsaid."""
    if isinstance(value, WireStruct):
        config = value.__struct_config__
        plain = {config.tag_field: config.tag} if config.tag_field is not None else {}
        for field in msgspec.structs.fields(value):
            part = getattr(value, field.name)
            # Null is said only where it says something else than silence.
            if part is not msgspec.UNSET and not (part is None and field.default is None):
                plain[field.encode_name] = _plain(part)
        return plain
    if isinstance(value, Verbatim):
        raise UnknownToSdk(f"a part of a kind that we do not know: {bytes(value)[:200]!r}")
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


@cache
def _adapter(ours: type[WireStruct]) -> TypeAdapter[Any]:
    """What builds the SDK's model of one of our types."""
    schema = _schema()
    names = _OTHER_NAMES.get(ours.__name__, (ours.__name__,))
    models = tuple(getattr(schema, name) for name in names if hasattr(schema, name))
    if not models:
        raise UnknownToSdk(f"the SDK has no type for {ours.__name__}")
    from pydantic import TypeAdapter

    union: Any = Union[models]  # noqa: UP007 (a tuple of types cannot be written with |)
    return TypeAdapter(union)


@cache
def _ours() -> Mapping[str, type[WireStruct]]:
    """Our types by the name of the SDK's. Where several of ours become one of theirs, the plainest name wins."""
    own = {
        name: found
        for name, found in vars(vocabulary).items()
        if isinstance(found, type) and issubclass(found, WireStruct) and found is not WireStruct
    }
    renamed = {other: own[name] for name, others in _OTHER_NAMES.items() if len(others) > 1 for other in others}
    renamed |= {others[0]: own[name] for name, others in _OTHER_NAMES.items() if len(others) == 1}
    return {**renamed, **{name: found for name, found in own.items() if hasattr(_schema(), name)}}


@cache
def _schema() -> Any:
    try:
        return importlib.import_module("acp.schema")
    except ImportError as missing:
        raise InputError(
            "to convert to and from the official SDK's types its package is needed, and it is not installed",
            guidance="Install it: pip install 'dragoman[acp]'",
        ) from missing
