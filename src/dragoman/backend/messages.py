"""Unified messages: the form in which front ends for coding agents talk to a backend. Pure: no I/O.

`user_message`, `permission_response`, `interrupt` and `configuration_change` make the messages that a front end sends;
`parse_actions` tells what each of them asks for:

    message                                 action             effect
    user_message                            SendPrompt         session/prompt with these blocks
    permission_response (allow, deny)       AnswerPermission   `selected` with an allow or a reject option, by kind
    interrupt                               Interrupt          session/cancel
    configuration_change (model, modeId)    ChangeSetting      by config option, else by set_model or set_mode

The messages that come from the agent are made by `view`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.host.permission import PermissionAnswer, PermissionRequest
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import DECODE_ERRORS

MessageType: TypeAlias = Literal[
    "session_init",
    "stream_event",
    "tool_progress",
    "tool_use_summary",
    "status_change",
    "configuration_change",
    "permission_request",
    "result",
    "unknown",
    "error",
    "user_message",
    "permission_response",
    "interrupt",
]
Role: TypeAlias = Literal["system", "assistant", "tool", "user"]

# JSON as it is on the wire: front ends know more of an agent's own fields than Dragoman does.
Fields: TypeAlias = dict[str, Any]


class UnifiedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """`timestamp` is in seconds since 1970. The `id` of a message from a front end is the front end's own."""

    id: str
    timestamp: float
    type: MessageType
    role: Role
    content: tuple[Fields, ...] = ()
    metadata: Fields = {}


def read_message(data: bytes | str) -> UnifiedMessage:
    """Read a message from JSON, as a front end in another process writes it."""
    try:
        return msgspec.json.decode(data, type=UnifiedMessage)
    except DECODE_ERRORS as error:
        raise InputError(f"this is no message: {error}", guidance="A message is one JSON object.") from None


# -- making the messages of a front end


def user_message(*content: str | Fields) -> UnifiedMessage:
    """Make a prompt of texts and ACP content blocks. A slash command is a text that begins with its name."""
    blocks = (part if isinstance(part, dict) else {"type": "text", "text": part} for part in content)
    return _message("user_message", tuple(blocks))


def permission_response(
    request: UnifiedMessage | str, behavior: Literal["allow", "deny"], *, option_id: str | None = None
) -> UnifiedMessage:
    """Make the answer to a permission_request, or to its `request_id`; `option_id` is one of the agent's options."""
    request_id = request if isinstance(request, str) else request.metadata["request_id"]
    return _message("permission_response", request_id=request_id, behavior=behavior, optionId=option_id)


def interrupt() -> UnifiedMessage:
    """Make the message that cancels the run and the prompts behind it."""
    return _message("interrupt")


def configuration_change(*, model: str | None = None, mode: str | None = None) -> UnifiedMessage:
    """Make the message that changes the agent's model, its mode, or both."""
    return _message("configuration_change", model=model, modeId=mode)


def _message(type_: MessageType, content: tuple[Fields, ...] = (), **metadata: str | None) -> UnifiedMessage:
    return UnifiedMessage(
        id=uuid.uuid4().hex,
        timestamp=time.time(),
        type=type_,
        role="user",
        content=content,
        metadata={key: value for key, value in metadata.items() if value is not None},
    )


# -- reading the messages of a front end


class SendPrompt(msgspec.Struct, frozen=True):
    blocks: tuple[acp.ContentBlock, ...]


class AnswerPermission(msgspec.Struct, frozen=True):
    """`request_id` is that of the permission_request. The option, if one is named, must agree with the behavior."""

    request_id: str
    behavior: Literal["allow", "deny"]
    option_id: str | None = None


class Interrupt(msgspec.Struct, frozen=True):
    pass


class ChangeSetting(msgspec.Struct, frozen=True):
    setting: Literal["model", "mode"]
    value: str


Action: TypeAlias = SendPrompt | AnswerPermission | Interrupt | ChangeSetting


def parse_actions(message: UnifiedMessage) -> tuple[Action, ...]:
    """Return the actions that a front end asks for by a message. Raises `InputError`, which names the wrong field."""
    match message.type:
        case "user_message":
            return (SendPrompt(_prompt_blocks(message.content)),)
        case "permission_response":
            return (_permission_answer(message.metadata),)
        case "interrupt":
            return (Interrupt(),)
        case "configuration_change":
            return _setting_changes(message.metadata)
        case _:
            raise InputError(
                f"type is {message.type!r}, which is not for the agent",
                guidance="Send user_message, permission_response, interrupt or configuration_change.",
            )


def choose_answer(request: PermissionRequest, action: AnswerPermission) -> PermissionAnswer:
    """Choose the agent's option that the action means: by its kind, once before always. Raises `InputError`."""
    if action.option_id is None:
        return request.allow() if action.behavior == "allow" else request.reject()
    answer = request.select(action.option_id)
    options = [option for option in request.options if option.id == action.option_id]
    if not all(option.allows if action.behavior == "allow" else option.rejects for option in options):
        kinds = ", ".join(option.kind for option in options)
        raise InputError(f"behavior is {action.behavior!r}, but the option {action.option_id!r} is {kinds}")
    return answer


def _prompt_blocks(content: tuple[Fields, ...]) -> tuple[acp.ContentBlock, ...]:
    blocks = []
    for index, item in enumerate(content):
        try:
            blocks.append(msgspec.convert(item, acp.ContentBlock))
        except msgspec.ValidationError as error:
            raise InputError(f"content[{index}] is no content block: {error}") from None
    if all(isinstance(block, acp.TextContent) and not block.text.strip() for block in blocks):
        raise InputError("content: the prompt is empty", guidance="Write what the agent should do.")
    return tuple(blocks)


def _permission_answer(metadata: Mapping[str, Any]) -> AnswerPermission:
    request_id, behavior = _text_field(metadata, "request_id"), _text_field(metadata, "behavior")
    if request_id is None:
        raise InputError("metadata.request_id is missing: it is that of the permission_request")
    match behavior:
        case "allow" | "deny":
            return AnswerPermission(request_id, behavior, _text_field(metadata, "optionId"))
        case _:
            raise InputError(f"metadata.behavior is {behavior!r}; expected 'allow' or 'deny'")


def _setting_changes(metadata: Mapping[str, Any]) -> tuple[Action, ...]:
    changes: list[Action] = []
    if (model := _text_field(metadata, "model") or _text_field(metadata, "modelId")) is not None:
        changes.append(ChangeSetting("model", model))
    if (mode := _text_field(metadata, "modeId") or _text_field(metadata, "mode")) is not None:
        changes.append(ChangeSetting("mode", mode))
    if not changes:
        raise InputError("metadata names neither a model nor a modeId: nothing to change")
    return tuple(changes)


def _text_field(metadata: Mapping[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    if value is None or (isinstance(value, str) and value):
        return value
    raise InputError(f"metadata.{key} is {value!r}; expected text")
