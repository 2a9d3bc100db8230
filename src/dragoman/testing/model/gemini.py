"""Gemini's generateContent: `POST /v1beta/models/{model}:streamGenerateContent` (as events with `alt=sse`, else as one
array), `:generateContent` and `:countTokens`."""

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
    is_present,
    key_of_body,
    merge_answers,
    merge_parts,
    sse_event,
)
from dragoman.testing.model.script import Drop

# Clients keep it and send it back; nobody here checks it.
SIGNATURE = "c2NyaXB0ZWQ="


class _FunctionResponse(Struct, frozen=True):
    response: Raw = ABSENT


class _Part(Struct, frozen=True, rename="camel"):
    text: str | None = None
    function_call: Raw = ABSENT
    function_response: _FunctionResponse | None = None


class _Content(Struct, frozen=True):
    role: str = "user"
    parts: list[_Part] = []


class _Function(Struct, frozen=True):
    name: str = ""


class _Tools(Struct, frozen=True, rename="camel"):
    function_declarations: list[_Function] | None = None


class _Generation(Struct, frozen=True, rename="camel"):
    response_schema: Raw = ABSENT
    response_json_schema: Raw = ABSENT


class _Request(Struct, frozen=True, rename="camel"):
    contents: list[_Content]
    tools: list[_Tools] | None = None
    generation_config: _Generation | None = None


def read(body: bytes, model: str, *, stream: bool) -> Conversation:
    request = msgspec.json.decode(body, type=_Request)
    wanted = request.generation_config or _Generation()
    functions = (function for tools in request.tools or () for function in tools.function_declarations or ())
    return Conversation(
        key=key_of_body(body),
        model=model,
        entries=merge_answers(entry for content in request.contents for entry in _entries(content)),
        tools=tuple(Tool(function.name) for function in functions),
        stream=stream,
        schema=max(wanted.response_json_schema, wanted.response_schema, key=len),
        size=len(body),
    )


def _entries(content: _Content) -> Iterator[Entry]:
    if content.role == "model":
        yield Assistant(sum(is_present(part.function_call) for part in content.parts))
        return
    for part in content.parts:
        if part.function_response is not None:
            yield Result(bytes(part.function_response.response).decode())
        elif part.text is not None:
            yield User(part.text)


def stream(conversation: Conversation, reply: Reply) -> Iterator[bytes | Pause | Drop]:
    for part in reply.parts:
        if isinstance(part, Pause | Drop):
            yield part
        else:
            yield sse_event(_response(conversation, reply, [_part(part)], None))
    yield sse_event(_response(conversation, reply, [{"text": ""}], "STOP"))


def whole(conversation: Conversation, reply: Reply) -> bytes:
    parts = [_part(part) for part in merge_parts(reply.parts)]
    return msgspec.json.encode(_response(conversation, reply, parts, "STOP"))


def count(body: bytes) -> bytes:
    return msgspec.json.encode({"totalTokens": len(body) // 4 + 1})


def error(status: int, message: str) -> bytes:
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
    names |= {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
    name = names.get(status, "UNKNOWN")
    return msgspec.json.encode({"error": {"code": status, "message": message, "status": name}})


def _response(conversation: Conversation, reply: Reply, parts: list[object], finish: str | None) -> dict[str, object]:
    candidate: dict[str, object] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish is not None:
        candidate["finishReason"] = finish
    total = reply.input_tokens + reply.output_tokens
    usage = {"promptTokenCount": reply.input_tokens, "candidatesTokenCount": reply.output_tokens}
    return {
        "responseId": conversation.key,
        "modelVersion": conversation.model,
        "candidates": [candidate],
        "usageMetadata": {**usage, "totalTokenCount": total},
    }


def _part(part: Text | Thought | Call) -> object:
    match part:
        case Text(text):
            return {"text": text}
        case Thought(text):
            return {"text": text, "thought": True}
        case Call(id, tool, arguments):
            call = {"id": id, "name": tool.name, "args": Raw(arguments.encode())}
            return {"functionCall": call, "thoughtSignature": SIGNATURE}
