"""OpenAI's responses: `POST /v1/responses`. `previous_response_id` is not followed: the server has no memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

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


class _Tool(Struct, frozen=True):
    type: str = "function"
    name: str = ""
    tools: list[_Tool] | None = None


class _Item(Struct, frozen=True):
    type: str = "message"
    role: str = ""
    content: Raw = ABSENT
    output: Raw = ABSENT
    tools: list[_Tool] | None = None


class _Format(Struct, frozen=True):
    schema: Raw = ABSENT


class _Text(Struct, frozen=True):
    format: _Format | None = None


class _Request(Struct, frozen=True):
    input: str | list[_Item]
    model: str = ""
    tools: list[_Tool] | None = None
    stream: bool | None = False
    text: _Text | None = None


def read(body: bytes) -> Conversation:
    request = msgspec.json.decode(body, type=_Request)
    entries = [User(request.input)] if isinstance(request.input, str) else _entries(request.input)
    wanted = request.text.format if request.text else None
    # Clients may offer tools in the conversation, as an item `additional_tools`.
    added = () if isinstance(request.input, str) else (tool for item in request.input for tool in item.tools or ())
    return Conversation(
        key=key_of_body(body),
        model=request.model,
        entries=merge_answers(entries),
        tools=tuple(_tools([*(request.tools or ()), *added])),
        stream=bool(request.stream),
        schema=wanted.schema if wanted else ABSENT,
        size=len(body),
    )


def _entries(items: list[_Item]) -> Iterator[Entry]:
    for item in items:
        if item.type.endswith("_call_output"):
            yield Result("\n".join(text_of(item.output)))
        elif item.type.endswith("_call"):
            yield Assistant(1)
        elif item.role == "user":
            yield from (User(text) for text in text_of(item.content))
        elif item.role == "assistant":
            yield Assistant()


def _tools(tools: list[_Tool], namespace: str | None = None) -> Iterator[Tool]:
    for tool in tools:
        if tool.type == "namespace":
            yield from _tools(tool.tools or [], tool.name)
        elif tool.type == "custom":
            yield Tool(tool.name, "custom", namespace)
        else:
            # Built-in ones (a search in the web) have a type and no name.
            yield Tool(tool.name or tool.type, "function", namespace)


def stream(conversation: Conversation, reply: Reply) -> Iterator[bytes | Pause | Drop]:
    numbers = count()

    def send(kind: str, **fields: object) -> bytes:
        return sse_event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    begun = _response(conversation, reply, "in_progress", [])
    yield send("response.created", response=begun)
    yield send("response.in_progress", response=begun)
    output: list[object] = []
    run: list[Text | Thought] = []  # pieces of the item that is open, all of one type
    for part in (*reply.parts, None):
        if isinstance(part, Pause | Drop):
            yield part
            continue
        if run and type(part) is not type(run[0]):
            item = _item(conversation, len(output), merge_parts(run)[0])
            for kind, fields in _closing(len(output), merge_parts(run)[0], item):
                yield send(kind, **fields)
            output.append(item)
            run = []
        if isinstance(part, Call):
            item = _item(conversation, len(output), part)
            for kind, fields in _calling(len(output), part, item):
                yield send(kind, **fields)
            output.append(item)
        elif part is not None:
            place = {"item_id": _item_id(conversation, len(output), part), "output_index": len(output)}
            if not run:
                for kind, fields in _opening(conversation, len(output), part):
                    yield send(kind, **fields)
            run = [*run, part]
            if isinstance(part, Text):
                yield send("response.output_text.delta", **place, content_index=0, delta=part.text, logprobs=[])
            else:
                yield send("response.reasoning_summary_text.delta", **place, summary_index=0, delta=part.text)
    yield send("response.completed", response=_response(conversation, reply, "completed", output))


def whole(conversation: Conversation, reply: Reply) -> bytes:
    output = [_item(conversation, index, part) for index, part in enumerate(merge_parts(reply.parts))]
    return msgspec.json.encode(_response(conversation, reply, "completed", output))


def error(status: int, message: str) -> bytes:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": None}})


_Event = tuple[str, dict[str, object]]


def _opening(conversation: Conversation, index: int, part: Text | Thought) -> Iterator[_Event]:
    id = _item_id(conversation, index, part)
    if isinstance(part, Text):
        item = {"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        yield "response.output_item.added", {"output_index": index, "item": item}
        place: dict[str, object] = {"item_id": id, "output_index": index, "content_index": 0}
        yield "response.content_part.added", {**place, "part": _content("")}
    else:
        yield (
            "response.output_item.added",
            {"output_index": index, "item": {"id": id, "type": "reasoning", "summary": []}},
        )
        place = {"item_id": id, "output_index": index, "summary_index": 0}
        yield "response.reasoning_summary_part.added", {**place, "part": _summary("")}


def _closing(index: int, part: Text | Thought | Call, item: dict[str, object]) -> Iterator[_Event]:
    if isinstance(part, Text):
        place: dict[str, object] = {"item_id": item["id"], "output_index": index, "content_index": 0}
        yield "response.output_text.done", {**place, "text": part.text, "logprobs": []}
        yield "response.content_part.done", {**place, "part": _content(part.text)}
    elif isinstance(part, Thought):
        place = {"item_id": item["id"], "output_index": index, "summary_index": 0}
        yield "response.reasoning_summary_text.done", {**place, "text": part.text}
        yield "response.reasoning_summary_part.done", {**place, "part": _summary(part.text)}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _calling(index: int, call: Call, item: dict[str, object]) -> Iterator[_Event]:
    custom = call.tool.kind == "custom"
    key, name = ("input", "custom_tool_call_input") if custom else ("arguments", "function_call_arguments")
    place: dict[str, object] = {"item_id": item["id"], "output_index": index}
    yield "response.output_item.added", {"output_index": index, "item": {**item, "status": "in_progress", key: ""}}
    yield f"response.{name}.delta", {**place, "delta": item[key]}
    yield f"response.{name}.done", {**place, key: item[key]}
    yield from _closing(index, call, item)


def _response(conversation: Conversation, reply: Reply, status: str, output: Sequence[object]) -> dict[str, object]:
    done = status == "completed"
    return {
        "id": f"resp_{conversation.key}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": conversation.model,
        "output": output,
        "parallel_tool_calls": True,
        "error": None,
        "incomplete_details": None,
        "usage": _usage(reply) if done else None,
    }


def _item_id(conversation: Conversation, index: int, part: Text | Thought | Call) -> str:
    kind = {Text: "msg", Thought: "rs", Call: "fc"}[type(part)]
    return f"{kind}_{conversation.key}_{index}"


def _item(conversation: Conversation, index: int, part: Text | Thought | Call) -> dict[str, object]:
    id = _item_id(conversation, index, part)
    match part:
        case Text(text):
            content = [_content(text)]
            return {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": content}
        case Thought(text):
            return {"id": id, "type": "reasoning", "summary": [_summary(text)], "encrypted_content": None}
        case Call(call_id, tool, arguments):
            custom = tool.kind == "custom"
            item: dict[str, object] = {"id": id, "type": "custom_tool_call" if custom else "function_call"}
            item |= {"status": "completed", "call_id": call_id, "name": tool.name}
            item |= {"input": _input(arguments)} if custom else {"arguments": arguments}
            return item | ({"namespace": tool.namespace} if tool.namespace else {})


def _input(arguments: str) -> str:
    """Return the text for a custom tool: a JSON string, or the `input` of an object."""
    given = msgspec.json.decode(arguments)
    text = given.get("input", arguments) if isinstance(given, dict) else given
    return text if isinstance(text, str) else arguments


def _content(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary(text: str) -> dict[str, object]:
    return {"type": "summary_text", "text": text}


def _usage(reply: Reply) -> dict[str, object]:
    return {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
