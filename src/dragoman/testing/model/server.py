"""The scripted model on a socket: a starlette application, which answers a request by the API that its path means.

`answer_request` is pure: pauses are part of the answer. The server listens on loopback alone and keeps no state: the
answer depends on nothing but the request. A client that closes its connection ends its answer at once, however slow the
script is.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import parse_qs

import msgspec
import uvicorn
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dragoman.errors import InputError
from dragoman.testing.model import anthropic, gemini, openai_chat, openai_responses
from dragoman.testing.model.conversation import (
    AUXILIARY_REPLY,
    Call,
    Conversation,
    Pause,
    Reply,
    Text,
    Thought,
    merge_parts,
    reply_to,
)
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
    note: str = ""  # the decision of the script, for logs


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
    tools = len(conversation.tools)
    label = "tool" if tools == 1 else "tools"
    return f"{conversation.model}, {tools} {label}: {', '.join(parts) or 'says nothing'}"


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


# A long session with images in it, many times over.
MAX_BODY_BYTES: Final = 256 * 1024 * 1024


class SeenRequest(Struct, frozen=True):
    """One request, when its answer begins; `note` describes the decision of the script, `body` is the request's."""

    method: str
    path: str
    status: int
    note: str
    body: bytes = b""


OnRequest = Callable[[SeenRequest], None]


class BadRequest(ValueError):
    """A request that is answered with an error, after which the connection is closed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server:
    """A server that listens. `url` is the base: APIs of OpenAI's shape need `url + "/v1"`, the others `url` itself."""

    def __init__(self, host: str, listener: asyncio.Server, connections: ServerState) -> None:
        self.host = host
        self.port: int = listener.sockets[0].getsockname()[1]
        self._listener = listener
        self._connections = connections

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def answers(self) -> frozenset[asyncio.Task[Any]]:
        """The answers that are being sent, as tasks."""
        return frozenset(self._connections.tasks)

    async def close(self) -> None:
        """Stop listening, and end the answers that are being sent."""
        self._listener.close()
        for connection in list(self._connections.connections):
            connection.transport.abort()
        if answers := self.answers:
            await asyncio.wait(answers)
        await self._listener.wait_closed()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    auxiliary_reply: str | None = AUXILIARY_REPLY,
    on_request: OnRequest | None = None,
) -> Server:
    """Start to listen; port 0 is any free one.

    Requests without tools are answered with `auxiliary_reply`: agents ask for titles and summaries that way. With
    None, the script answers these too.
    """
    if host != "localhost" and not _is_loopback(host):
        raise InputError(
            f"the model server listens on loopback only, not on {host}",
            guidance="Anyone who reaches it could make an agent run commands. Use 127.0.0.1, ::1 or localhost.",
        )
    host = "127.0.0.1" if host == "localhost" else host
    transports: dict[Any, asyncio.Transport] = {}
    config = uvicorn.Config(
        _Application(auxiliary_reply, on_request, transports),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_keep_alive=3600,
    )
    connections = ServerState()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: _Protocol(config, connections, transports), host, port)
    return Server(host, listener, connections)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Protocol(H11Protocol):
    """uvicorn's HTTP/1.1, which lets the application drop a connection: ASGI has no word for that."""

    def __init__(
        self, config: uvicorn.Config, connections: ServerState, transports: dict[Any, asyncio.Transport]
    ) -> None:
        super().__init__(config, connections, app_state={})
        self._transports = transports
        self._peer: Any = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._peer = self.client
        self._transports[self._peer] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transports.pop(self._peer, None)
        super().connection_lost(exc)


class _Application:
    def __init__(
        self, auxiliary_reply: str | None, on_request: OnRequest | None, transports: dict[Any, asyncio.Transport]
    ) -> None:
        self._auxiliary_reply = auxiliary_reply
        self._on_request = on_request
        self._transports = transports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = _decompress(await _read_body(request), request.headers.get("content-encoding", "identity").lower())
        except BadRequest as error:
            self._report(request, error.status, str(error))
            message = openai_chat.error(error.status, str(error))
            response = Response(message, error.status, {"Connection": "close"}, "application/json")
            await response(scope, receive, send)
            return
        answer = answer_request(
            request.method, request.url.path, request.url.query, body, auxiliary_reply=self._auxiliary_reply
        )
        self._report(request, answer.status, answer.note, body)
        await _until_disconnect(self._answer(answer, scope, receive, send), receive)

    async def _answer(self, answer: ModelAnswer, scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(answer.wait_s)
        transport = self._transports[scope["client"]]
        if answer.drop:
            transport.abort()
        elif answer.events is None:
            await Response(answer.body, answer.status, media_type="application/json")(scope, receive, send)
        else:
            stream = _paced(answer.events, transport)
            headers = {"Cache-Control": "no-cache"}
            await StreamingResponse(stream, headers=headers, media_type="text/event-stream")(scope, receive, send)

    def _report(self, request: Request, status: int, note: str, body: bytes = b"") -> None:
        if self._on_request is not None:
            self._on_request(SeenRequest(request.method, request.url.path, status, note, body))


async def _paced(events: Stream, transport: asyncio.Transport) -> AsyncIterator[bytes]:
    for part in events:
        if isinstance(part, bytes):
            yield part
        elif isinstance(part, Drop):
            # Not aborted: the bytes before must arrive. Without the last chunk the client notices the end.
            transport.close()
            return
        else:
            await asyncio.sleep(part.seconds)


async def _until_disconnect(answering: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run `answering`, and cancel it when the client leaves."""
    answer = asyncio.ensure_future(answering)
    left = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait([answer, left], return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            answer.result()
    finally:
        for task in (answer, left):
            task.cancel()
        await asyncio.wait([answer, left])


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(request: Request) -> bytes:
    if int(request.headers.get("content-length", "0")) > MAX_BODY_BYTES:
        raise BadRequest(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise BadRequest(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
    return bytes(body)


def _decompress(body: bytes, coding: str) -> bytes:
    if coding in ("identity", ""):
        return body
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise BadRequest(415, f"the body is compressed by {coding}; send it plain, or by gzip")
    decompressor = zlib.decompressobj(wbits=47)  # recognises gzip and zlib
    try:
        plain = decompressor.decompress(body, MAX_BODY_BYTES)
    except zlib.error as error:
        raise BadRequest(400, f"the body is not {coding}: {error}") from None
    if decompressor.unconsumed_tail:
        raise BadRequest(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
    if not decompressor.eof:
        raise BadRequest(400, f"the {coding} data of the body is incomplete")
    return plain


def run_until_interrupted(host: str, port: int, *, script_all: bool = False, quiet: bool = False) -> int:
    """Serve until interrupted; return the exit code. Print the base URL on stdout, and each request on stderr."""
    auxiliary_reply = None if script_all else AUXILIARY_REPLY
    try:
        asyncio.run(_serve_until_interrupted(host, port, auxiliary_reply, None if quiet else _print))
    except KeyboardInterrupt:
        return 0
    except (InputError, OSError, OverflowError) as error:
        print(f"dragoman model-server: {error}", file=sys.stderr)
        return 2
    return 0


async def _serve_until_interrupted(
    host: str, port: int, auxiliary_reply: str | None, on_request: OnRequest | None
) -> None:
    async with await serve(host, port, auxiliary_reply=auxiliary_reply, on_request=on_request) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


def _print(seen: SeenRequest) -> None:
    print(f"{seen.status} {seen.method} {seen.path}  {seen.note}", file=sys.stderr, flush=True)
