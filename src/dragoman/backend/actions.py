"""Actions: what a front end wants by the messages that it sends. Pure.

message                                 action             what becomes of it
user_message                            Prompt             session/prompt with these blocks
permission_response (allow, deny)       PermissionAnswer   `selected` with an allow or a reject option, by kind
interrupt                               Interrupt          session/cancel
configuration_change (model, modeId)    Switch             by config option, else by set_model or set_mode
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.backend.messages import Fields, UnifiedMessage
from dragoman.errors import InputError
from dragoman.host.permission import Answer, PermissionRequest
from dragoman.wire import vocabulary as acp


class Prompt(msgspec.Struct, frozen=True):
    blocks: tuple[acp.ContentBlock, ...]


class PermissionAnswer(msgspec.Struct, frozen=True):
    """`request_id` is that of the permission_request; an option, where one is named, must agree with the behavior."""

    request_id: str
    behavior: Literal["allow", "deny"]
    option_id: str | None = None


class Interrupt(msgspec.Struct, frozen=True):
    pass


class Switch(msgspec.Struct, frozen=True):
    setting: Literal["model", "mode"]
    value: str


Action: TypeAlias = Prompt | PermissionAnswer | Interrupt | Switch


def actions_of(message: UnifiedMessage) -> tuple[Action, ...]:
    """What a front end wants by a message. Raises `InputError`, which names the field that is wrong."""
    match message.type:
        case "user_message":
            return (Prompt(_prompt(message.content)),)
        case "permission_response":
            return (_answer(message.metadata),)
        case "interrupt":
            return (Interrupt(),)
        case "configuration_change":
            return _switches(message.metadata)
        case _:
            raise InputError(
                f"type is {message.type!r}, which is not for the agent",
                guidance="Send user_message, permission_response, interrupt or configuration_change.",
            )


def answer_to(request: PermissionRequest, given: PermissionAnswer) -> Answer:
    """The agent's option that the answer means: by its kind, once before always. Raises `InputError`."""
    if given.option_id is None:
        return request.allow() if given.behavior == "allow" else request.reject()
    answer = request.select(given.option_id)
    options = [option for option in request.options if option.id == given.option_id]
    if not all(option.allows if given.behavior == "allow" else option.rejects for option in options):
        kinds = ", ".join(option.kind for option in options)
        raise InputError(f"behavior is {given.behavior!r}, but the option {given.option_id!r} is {kinds}")
    return answer


def _prompt(content: tuple[Fields, ...]) -> tuple[acp.ContentBlock, ...]:
    blocks = []
    for index, item in enumerate(content):
        try:
            blocks.append(msgspec.convert(item, acp.ContentBlock))
        except msgspec.ValidationError as problem:
            raise InputError(f"content[{index}] is no content block: {problem}") from None
    if all(isinstance(block, acp.TextContent) and not block.text.strip() for block in blocks):
        raise InputError("content: the prompt is empty", guidance="Say what the agent shall do.")
    return tuple(blocks)


def _answer(metadata: Mapping[str, Any]) -> PermissionAnswer:
    request_id, behavior = _string(metadata, "request_id"), _string(metadata, "behavior")
    if request_id is None:
        raise InputError("metadata.request_id is missing: it is that of the permission_request")
    match behavior:
        case "allow" | "deny":
            return PermissionAnswer(request_id, behavior, _string(metadata, "optionId"))
        case _:
            raise InputError(f"metadata.behavior is {behavior!r}; expected 'allow' or 'deny'")


def _switches(metadata: Mapping[str, Any]) -> tuple[Action, ...]:
    switches: list[Action] = []
    if (model := _string(metadata, "model") or _string(metadata, "modelId")) is not None:
        switches.append(Switch("model", model))
    if (mode := _string(metadata, "modeId") or _string(metadata, "mode")) is not None:
        switches.append(Switch("mode", mode))
    if not switches:
        raise InputError("metadata names neither a model nor a modeId: nothing to change")
    return tuple(switches)


def _string(metadata: Mapping[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    if value is None or (isinstance(value, str) and value):
        return value
    raise InputError(f"metadata.{key} is {value!r}; expected text")
