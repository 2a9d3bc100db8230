"""Anthropic's messages: `POST /v1/messages`, and `/v1/messages/count_tokens`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from dragoman.testing.model.conversation import (
    ABSENT,
    Assistant,
    Call,
    Conversation,
    Entry,
    Pause,
    Reply,
    Result,
    Text,
    Thought,
    Tool,
    User,
    key_of_body,
    merge_answers,
    merge_parts,
    sse_event,
    text_of,
)
from dragoman.testing.model.script import Drop

# Clients keep it and send it back; nobody here checks it.
SIGNATURE = "c2NyaXB0ZWQ="


class _Block(Struct, frozen=True):
    type: str = ""
    text: str | None = None
    content: Raw = ABSENT


class _Message(Struct, frozen=True):
    role: str
    content: str | list[_Block]


class _Tool(Struct, frozen=True):
    name: str = ""


class _Format(Struct, frozen=True):
    schema: Raw = ABSENT


class _OutputConfig(Struct, frozen=True):
    format: _Format | None = None


class _Request(Struct, frozen=True):
    messages: list[_Message]
    model: str = ""
    tools: list[_Tool] | None = None
    stream: bool | None = False
    output_format: _Format | None = None
    output_config: _OutputConfig | None = None


def read(body: bytes) -> Conversation:
    request = msgspec.json.decode(body, type=_Request)
    wanted = request.output_format or (request.output_config.format if request.output_config else None)
    return Conversation(
        key=key_of_body(body),
        model=request.model,
        entries=merge_answers(entry for message in request.messages for entry in _entries(message)),
        tools=tuple(Tool(tool.name) for tool in request.tools or ()),
        stream=bool(request.stream),
        schema=wanted.schema if wanted else ABSENT,
        size=len(body),
    )


def _entries(message: _Message) -> Iterator[Entry]:
    blocks = [_Block("text", message.content)] if isinstance(message.content, str) else message.content
    if message.role == "assistant":
        yield Assistant(sum(block.type == "tool_use" for block in blocks))
        return
    for block in blocks:
        if block.type == "tool_result":
            yield Result("\n".join(text_of(block.content)))
        elif block.text is not None:
            yield User(block.text)


def stream(conversation: Conversation, reply: Reply) -> Iterator[bytes | Pause | Drop]:
    def send(kind: str, **fields: object) -> bytes:
        return sse_event({"type": kind, **fields}, kind)

    def close() -> Iterator[bytes]:
        if open_kind is Thought:
            yield send("content_block_delta", index=index, delta={"type": "signature_delta", "signature": SIGNATURE})
        if open_kind is not None:
            yield send("content_block_stop", index=index)

    index = -1
    open_kind: type | None = None
    yield send("message_start", message={**_head(conversation), **_body([], None, _usage(reply, 1))})
    yield send("ping")
    for part in reply.parts:
        if isinstance(part, Pause | Drop):
            yield part
            continue
        if open_kind is not type(part) or isinstance(part, Call):
            yield from close()
            index, open_kind = index + 1, type(part)
            yield send("content_block_start", index=index, content_block=_empty(part))
        yield send("content_block_delta", index=index, delta=_delta(part))
    yield from close()
    delta = {"stop_reason": _stop(reply), "stop_sequence": None}
    yield send("message_delta", delta=delta, usage=_usage(reply, reply.output_tokens))
    yield send("message_stop")


def whole(conversation: Conversation, reply: Reply) -> bytes:
    content = [_block(part) for part in merge_parts(reply.parts)]
    body = _body(content, _stop(reply), _usage(reply, reply.output_tokens))
    return msgspec.json.encode({**_head(conversation), **body})


def count(body: bytes) -> bytes:
    """Answer `count_tokens` with an estimate, as in all answers without `[[usage:…]]`."""
    return msgspec.json.encode({"input_tokens": len(body) // 4 + 1})


def error(status: int, message: str) -> bytes:
    kinds = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
    kinds |= {413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}
    kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


def _head(conversation: Conversation) -> dict[str, object]:
    return {"id": f"msg_{conversation.key}", "type": "message", "role": "assistant", "model": conversation.model}


def _body(content: list[object], stop: str | None, usage: object) -> dict[str, object]:
    return {"content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _empty(part: Text | Thought | Call) -> object:
    match part:
        case Text():
            return {"type": "text", "text": ""}
        case Thought():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case Call(id, tool):
            return {"type": "tool_use", "id": id, "name": tool.name, "input": {}}


def _delta(part: Text | Thought | Call) -> object:
    match part:
        case Text(text):
            return {"type": "text_delta", "text": text}
        case Thought(text):
            return {"type": "thinking_delta", "thinking": text}
        case Call(arguments=arguments):
            return {"type": "input_json_delta", "partial_json": arguments}


def _block(part: Text | Thought | Call) -> object:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thought(text):
            return {"type": "thinking", "thinking": text, "signature": SIGNATURE}
        case Call(id, tool, arguments):
            return {"type": "tool_use", "id": id, "name": tool.name, "input": Raw(arguments.encode())}


def _stop(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _usage(reply: Reply, output: int) -> dict[str, object]:
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": reply.input_tokens, "output_tokens": output, **cached}
