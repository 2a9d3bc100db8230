"""OpenAI's chat completions: `POST /v1/chat/completions`."""

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


class _Message(Struct, frozen=True):
    role: str = ""
    content: Raw = ABSENT
    tool_calls: list[Raw] | None = None


class _Function(Struct, frozen=True):
    name: str = ""


class _Tool(Struct, frozen=True):
    type: str = "function"
    function: _Function = _Function()


class _StreamOptions(Struct, frozen=True):
    include_usage: bool = False


class _JsonSchema(Struct, frozen=True):
    schema: Raw = ABSENT


class _Format(Struct, frozen=True):
    type: str = "text"
    json_schema: _JsonSchema = _JsonSchema()


class _Request(Struct, frozen=True):
    messages: list[_Message]
    model: str = ""
    tools: list[_Tool] | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    response_format: _Format | None = None


def read(body: bytes) -> Conversation:
    request = msgspec.json.decode(body, type=_Request)
    options = request.stream_options
    return Conversation(
        key=key_of_body(body),
        model=request.model,
        entries=merge_answers(_entries(request.messages)),
        tools=tuple(Tool(tool.function.name) for tool in request.tools or ()),
        stream=bool(request.stream),
        schema=request.response_format.json_schema.schema if request.response_format else ABSENT,
        usage_in_stream=options is not None and options.include_usage,
        size=len(body),
    )


def _entries(messages: list[_Message]) -> Iterator[Entry]:
    for message in messages:
        match message.role:
            case "user":
                yield from (User(text) for text in text_of(message.content))
            case "assistant":
                yield Assistant(len(message.tool_calls or ()))
            case "tool" | "function":
                yield Result("\n".join(text_of(message.content)))
            case _:
                pass  # the system's and the developer's words


def stream(conversation: Conversation, reply: Reply) -> Iterator[bytes | Pause | Drop]:
    def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
        return sse_event({**_head(conversation, "chat.completion.chunk"), "choices": [_choice("delta", delta, finish)]})

    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for part in reply.parts:
        match part:
            case Text(text):
                yield chunk({"content": text})
            case Thought(text):
                yield chunk({"reasoning_content": text})
            case Call():
                yield chunk({"tool_calls": [{"index": calls, **_call(part)}]})
                calls += 1
            case Pause() | Drop():
                yield part
    yield chunk({}, _finish(reply))
    if conversation.usage_in_stream:
        yield sse_event({**_head(conversation, "chat.completion.chunk"), "choices": [], "usage": _usage(reply)})
    yield b"data: [DONE]\n\n"


def whole(conversation: Conversation, reply: Reply) -> bytes:
    parts = merge_parts(reply.parts)
    message: dict[str, object] = {
        "role": "assistant",
        "content": "".join(part.text for part in parts if isinstance(part, Text)) or None,
    }
    if thoughts := "".join(part.text for part in parts if isinstance(part, Thought)):
        message["reasoning_content"] = thoughts
    if calls := [_call(part) for part in parts if isinstance(part, Call)]:
        message["tool_calls"] = calls
    choice = _choice("message", message, _finish(reply))
    return msgspec.json.encode({**_head(conversation, "chat.completion"), "choices": [choice], "usage": _usage(reply)})


def error(status: int, message: str) -> bytes:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": None}})


def _head(conversation: Conversation, kind: str) -> dict[str, object]:
    # A clock would make two answers to one request differ.
    return {"id": f"chatcmpl-{conversation.key}", "object": kind, "created": 0, "model": conversation.model}


def _choice(key: str, value: object, finish: str | None) -> dict[str, object]:
    return {"index": 0, key: value, "finish_reason": finish, "logprobs": None}


def _call(call: Call) -> dict[str, object]:
    return {"id": call.id, "type": "function", "function": {"name": call.tool.name, "arguments": call.arguments}}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _usage(reply: Reply) -> dict[str, object]:
    total = reply.input_tokens + reply.output_tokens
    return {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens, "total_tokens": total}
