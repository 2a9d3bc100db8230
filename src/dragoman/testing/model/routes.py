"""From a request to what is sent: which API it is, and that API's answer. Pure: where to wait is part of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from dragoman.testing.model import anthropic, gemini, openai_chat, openai_responses
from dragoman.testing.model.conversation import Conversation
from dragoman.testing.model.reply import Call, Pause, Reply, Text, Thought, merged, reply_to
from dragoman.testing.model.script import Drop

MODELS: Final = ("scripted-1", "scripted-2")
_GEMINI: Final = re.compile(r"/models/([^/:]+):(streamGenerateContent|generateContent|countTokens)$")

Stream: TypeAlias = Iterator[bytes | Pause | Drop]


class Answer(Struct, frozen=True, kw_only=True):
    """A status and a body; or, with `events`, a stream. `wait` seconds come before anything is sent."""

    status: int = 200
    body: bytes = b""
    events: Stream | None = None
    wait: float = 0.0
    drop: bool = False  # the connection is closed in place of the body
    note: str = ""  # what was decided, for people who watch


class _Api(Protocol):
    """What the module of an API offers."""

    def stream(self, conversation: Conversation, reply: Reply) -> Stream: ...
    def whole(self, conversation: Conversation, reply: Reply) -> bytes: ...
    def error(self, status: int, message: str) -> bytes: ...


def answer(method: str, path: str, query: str, body: bytes, *, errand: str | None) -> Answer:
    """The answer to a request. Anything may stand before the part of the path that names the API."""
    if method in ("GET", "HEAD"):
        return _looked_up(path)
    if found := _GEMINI.search(path):
        return _gemini(found[1], found[2], query, body, errand)
    if path.endswith("/chat/completions"):
        return _said(openai_chat, lambda: openai_chat.read(body), errand)
    if path.endswith("/responses"):
        return _said(openai_responses, lambda: openai_responses.read(body), errand)
    if path.endswith("/messages"):
        return _said(anthropic, lambda: anthropic.read(body), errand)
    if path.endswith("/messages/count_tokens"):
        return Answer(body=anthropic.count(body), note="tokens counted")
    return _unknown(path)


def _gemini(model: str, action: str, query: str, body: bytes, errand: str | None) -> Answer:
    if action == "countTokens":
        return Answer(body=gemini.count(body), note="tokens counted")
    events = action == "streamGenerateContent" and parse_qs(query).get("alt") == ["sse"]
    said = _said(gemini, lambda: gemini.read(body, model, stream=events), errand)
    if action == "streamGenerateContent" and not events and said.status == 200:
        return msgspec.structs.replace(said, body=b"[" + said.body + b"]")
    return said


def _said(api: _Api, read: Callable[[], Conversation], errand: str | None) -> Answer:
    try:
        conversation = read()
    except msgspec.MsgspecError as problem:
        message = f"the scripted model cannot read this request: {problem}"
        return Answer(status=400, body=api.error(400, message), note=message)
    reply = reply_to(conversation, errand=errand)
    pauses = sum(part.seconds for part in reply.parts if isinstance(part, Pause))
    if reply.status >= 400:
        return Answer(
            status=reply.status,
            body=api.error(reply.status, f"the script asked for the status {reply.status}"),
            wait=pauses,
            note=f"status {reply.status}",
        )
    note = _note(conversation, reply)
    if not conversation.stream:
        drop = any(isinstance(part, Drop) for part in reply.parts)
        return Answer(body=api.whole(conversation, reply), wait=pauses, drop=drop, note=note)
    # A hang at the beginning comes before the first byte: not even the head is sent then.
    wait, parts = 0.0, list(reply.parts)
    while parts and isinstance(first := parts[0], Pause):
        wait += first.seconds
        del parts[0]
    reply = msgspec.structs.replace(reply, parts=tuple(parts))
    return Answer(events=api.stream(conversation, reply), wait=wait, note=note)


def _note(conversation: Conversation, reply: Reply) -> str:
    """One line: the offered tools' number, and what is said."""
    said = []
    for part in merged(reply.parts):
        match part:
            case Text(text):
                said.append(f"says {text[:60]!r}")
            case Thought(text):
                said.append(f"thinks {text[:60]!r}")
            case Call(tool=tool):
                said.append(f"calls {tool.name}")
    return f"{conversation.model}, {len(conversation.tools)} tools: {', '.join(said) or 'says nothing'}"


def _looked_up(path: str) -> Answer:
    if path.endswith("/v1beta/models"):
        methods = ["generateContent", "countTokens"]
        listed = [{"name": f"models/{name}", "supportedGenerationMethods": methods} for name in MODELS]
        return Answer(body=msgspec.json.encode({"models": listed}), note="models")
    if path.endswith("/models"):
        # One list for clients of OpenAI and of Anthropic: each reads its own fields.
        data = [_model(name) for name in MODELS]
        page = {"object": "list", "data": data, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
        return Answer(body=msgspec.json.encode(page), note="models")
    if found := re.search(r"/models/([^/:]+)$", path):
        return Answer(body=msgspec.json.encode(_model(found[1])), note="model")
    if path in ("", "/"):
        return Answer(body=msgspec.json.encode({"service": "scripted model server"}), note="here")
    return _unknown(path)


def _model(name: str) -> dict[str, object]:
    openai = {"id": name, "object": "model", "created": 0, "owned_by": "scripted"}
    return {**openai, "type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


def _unknown(path: str) -> Answer:
    message = (
        f"there is nothing at {path}; the scripted model answers /v1/chat/completions, /v1/responses, /v1/messages, "
        "/v1beta/models/NAME:generateContent and lists of models"
    )
    return Answer(status=404, body=openai_chat.error(404, message), note="unknown path")
