"""Routing: which API a request means, and the answer of that API. Pure: pauses are part of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from dragoman.testing.model import anthropic, gemini, openai_chat, openai_responses
from dragoman.testing.model.conversation import Conversation
from dragoman.testing.model.reply import Call, Pause, Reply, Text, Thought, merge_parts, reply_to
from dragoman.testing.model.script import Drop

MODELS: Final = ("scripted-1", "scripted-2")
_GEMINI: Final = re.compile(r"/models/([^/:]+):(streamGenerateContent|generateContent|countTokens)$")

Stream: TypeAlias = Iterator[bytes | Pause | Drop]


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """A status and a body; or, with `events`, a stream. `wait` seconds come before anything is sent."""

    status: int = 200
    body: bytes = b""
    events: Stream | None = None
    wait_s: float = 0.0
    drop: bool = False  # close the connection instead of sending the body
    note: str = ""  # what the script decided, for logs


class _Api(Protocol):
    """The interface of an API module."""

    def stream(self, conversation: Conversation, reply: Reply) -> Stream: ...
    def whole(self, conversation: Conversation, reply: Reply) -> bytes: ...
    def error(self, status: int, message: str) -> bytes: ...


def answer_request(method: str, path: str, query: str, body: bytes, *, auxiliary_reply: str | None) -> ModelAnswer:
    """Answer a request. Any prefix may precede the part of the path that names the API."""
    if method in ("GET", "HEAD"):
        return _get(path)
    if match := _GEMINI.search(path):
        return _gemini(match[1], match[2], query, body, auxiliary_reply)
    if path.endswith("/chat/completions"):
        return _scripted_answer(openai_chat, lambda: openai_chat.read(body), auxiliary_reply)
    if path.endswith("/responses"):
        return _scripted_answer(openai_responses, lambda: openai_responses.read(body), auxiliary_reply)
    if path.endswith("/messages"):
        return _scripted_answer(anthropic, lambda: anthropic.read(body), auxiliary_reply)
    if path.endswith("/messages/count_tokens"):
        return ModelAnswer(body=anthropic.count(body), note="tokens counted")
    return _unknown(path)


def _gemini(model: str, action: str, query: str, body: bytes, auxiliary_reply: str | None) -> ModelAnswer:
    if action == "countTokens":
        return ModelAnswer(body=gemini.count(body), note="tokens counted")
    events = action == "streamGenerateContent" and parse_qs(query).get("alt") == ["sse"]
    reply = _scripted_answer(gemini, lambda: gemini.read(body, model, stream=events), auxiliary_reply)
    if action == "streamGenerateContent" and not events and reply.status == 200:
        return msgspec.structs.replace(reply, body=b"[" + reply.body + b"]")
    return reply


def _scripted_answer(api: _Api, read: Callable[[], Conversation], auxiliary_reply: str | None) -> ModelAnswer:
    try:
        conversation = read()
    except msgspec.MsgspecError as error:
        message = f"the scripted model cannot read this request: {error}"
        return ModelAnswer(status=400, body=api.error(400, message), note=message)
    reply = reply_to(conversation, auxiliary_reply=auxiliary_reply)
    pauses = sum(part.seconds for part in reply.parts if isinstance(part, Pause))
    if reply.status >= 400:
        return ModelAnswer(
            status=reply.status,
            body=api.error(reply.status, f"the script asked for the status {reply.status}"),
            wait_s=pauses,
            note=f"status {reply.status}",
        )
    note = _note(conversation, reply)
    if not conversation.stream:
        drop = any(isinstance(part, Drop) for part in reply.parts)
        return ModelAnswer(body=api.whole(conversation, reply), wait_s=pauses, drop=drop, note=note)
    # A hang at the beginning comes before the first byte: not even the head is sent then.
    wait, parts = 0.0, list(reply.parts)
    while parts and isinstance(first := parts[0], Pause):
        wait += first.seconds
        del parts[0]
    reply = msgspec.structs.replace(reply, parts=tuple(parts))
    return ModelAnswer(events=api.stream(conversation, reply), wait_s=wait, note=note)


def _note(conversation: Conversation, reply: Reply) -> str:
    """Describe the reply in one line, with the number of tools."""
    parts = []
    for part in merge_parts(reply.parts):
        match part:
            case Text(text):
                parts.append(f"says {text[:60]!r}")
            case Thought(text):
                parts.append(f"thinks {text[:60]!r}")
            case Call(tool=tool):
                parts.append(f"calls {tool.name}")
    return f"{conversation.model}, {len(conversation.tools)} tools: {', '.join(parts) or 'says nothing'}"


def _get(path: str) -> ModelAnswer:
    if path.endswith("/v1beta/models"):
        methods = ["generateContent", "countTokens"]
        listed = [{"name": f"models/{name}", "supportedGenerationMethods": methods} for name in MODELS]
        return ModelAnswer(body=msgspec.json.encode({"models": listed}), note="models")
    if path.endswith("/models"):
        # One list for clients of OpenAI and of Anthropic: each reads its own fields.
        data = [_model(name) for name in MODELS]
        page = {"object": "list", "data": data, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
        return ModelAnswer(body=msgspec.json.encode(page), note="models")
    if match := re.search(r"/models/([^/:]+)$", path):
        return ModelAnswer(body=msgspec.json.encode(_model(match[1])), note="model")
    if path in ("", "/"):
        return ModelAnswer(body=msgspec.json.encode({"service": "scripted model server"}), note="here")
    return _unknown(path)


def _model(name: str) -> dict[str, object]:
    openai = {"id": name, "object": "model", "created": 0, "owned_by": "scripted"}
    return {**openai, "type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


def _unknown(path: str) -> ModelAnswer:
    message = (
        f"there is nothing at {path}; the scripted model answers /v1/chat/completions, /v1/responses, /v1/messages, "
        "/v1beta/models/NAME:generateContent and lists of models"
    )
    return ModelAnswer(status=404, body=openai_chat.error(404, message), note="unknown path")
