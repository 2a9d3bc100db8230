"""HTTP `/v1/…` for scripts: the same requests, types and errors as on the socket.

A field of a request comes from the path where the route names it, else from the query (GET, DELETE) or from the JSON
body. A run is awaited by default, streamed if the client asks for events, and only started with `Prefer:
respond-async`. It goes on when its client disconnects: it is found again by its id, and only a cancel ends it.
"""

from __future__ import annotations

import asyncio
import math
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, cast, get_origin, get_type_hints

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from dragoman.bridge.auth import Auth, Caller
from dragoman.bridge.bridge import Bridge, ResultT
from dragoman.bridge.broadcast import StreamMessage
from dragoman.bridge.refusal import Refusal, refusal_of_field
from dragoman.bridge.responses import (
    KEEP_ALIVE,
    KEEP_ALIVE_S,
    encode_in_parts,
    json_response,
    refusal_event,
    refusal_response,
    run_response,
    stream_event,
    until_gone,
)
from dragoman.bridge.rows import usage_model
from dragoman.bridge.telemetry import CONTENT_TYPE
from dragoman.journal.errors import FILE_ERROR_NAMES
from dragoman.protocol.requests import (
    REQUESTS,
    SESSION,
    AnyRequest,
    Declaration,
    Request,
    SessionExport,
    SessionPrompt,
    TokenRevoke,
)
from dragoman.protocol.results import Done, Health, Paired, RunResult

# A prompt with a photograph of 20 MB in base64; the socket accepts no more, either.
MAX_BODY_BYTES: Final = 32 * 1024 * 1024

# The body with a pairing code, which comes from someone without a token.
MAX_PAIR_BYTES: Final = 4 * 1024

# Time that `Prefer: wait=` may ask for: a day.
MAX_WAIT_S: Final = 86_400.0

MAX_KEY_CHARS: Final = 200

# Fields that HTTP expresses in its own way.
ENVELOPE_FIELDS: Final = frozenset({"id", "command_id", "type"})


def read_request(
    declaration: Declaration, path: dict[str, str], query: QueryParams, body: bytes, key: str | None
) -> Request[Any]:
    """The request that an HTTP request stands for; a `Refusal` names what is wrong with it."""
    request_type, route = declaration.request, declaration.route
    assert route is not None
    if route.has_body:
        fields = read_object(body)
        allowed = {field.name for field in msgspec.structs.fields(request_type)} - ENVELOPE_FIELDS - route.path_fields
        if unknown := sorted(fields.keys() - allowed):
            raise Refusal("invalid", f"there is no field {unknown[0]!r} here", field=unknown[0])
    else:
        fields = _query_fields(request_type, query, ENVELOPE_FIELDS | route.path_fields)
    fields = {
        **route.defaults,
        **fields,
        **path,
        "type": declaration.name,
        "id": uuid.uuid4().hex,
        "command_id": _checked_key(key),
    }
    try:
        request: Request[Any] = msgspec.convert(fields, request_type, strict=route.has_body)
    except msgspec.ValidationError as error:
        raise refusal_of_field(error) from None
    for name in request_type.__struct_fields__:
        value = getattr(request, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal("invalid", f"{name}: expected a finite number", field=name)
    return request


def read_any_request(body: bytes, key: str | None) -> Request[Any]:
    """A request in the form of the socket."""
    fields = read_object(body)
    if key is not None:
        fields["command_id"] = _checked_key(key)
    try:
        request: Request[Any] = msgspec.convert(fields, AnyRequest)
    except msgspec.ValidationError as error:
        raise refusal_of_field(error) from None
    return request


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; an empty body is an empty object."""
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except msgspec.ValidationError:
        raise Refusal("invalid", "the body of the request is not a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal("invalid", f"the body of the request is not JSON: {error}") from None


async def read_body(request: HttpRequest, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and media_type != "application/json":
        raise Refusal(
            "invalid",
            "the content type of the request is not JSON",
            guidance="Send the header Content-Type: application/json.",
        )
    return bytes(body)


def preferred_wait(request: HttpRequest) -> float | None:
    """Seconds that the client wants to wait: 0 is `respond-async`, None until the run has ended (RFC 7240)."""
    preferences = [part.strip().lower() for value in request.headers.getlist("prefer") for part in value.split(",")]
    if "respond-async" in preferences:
        return 0
    for preference in preferences:
        if match := re.fullmatch(r"wait=(\d{1,9})", preference):
            return min(float(match[1]), MAX_WAIT_S)
    return None


def wants_events(request: HttpRequest) -> bool:
    return is_set(request, "stream") or "text/event-stream" in request.headers.get("accept", "").lower()


def is_set(request: HttpRequest, parameter: str) -> bool:
    return request.query_params.get(parameter) in ("1", "true")


def _too_large(max_bytes: int) -> Refusal:
    limit = f"{max_bytes // 1024**2} MiB" if max_bytes >= 1024**2 else f"{max_bytes // 1024} KiB"
    return Refusal("too_large", f"the body of this request is limited to {limit}")


def _query_fields(request_type: type[Request[Any]], query: QueryParams, hidden: frozenset[str]) -> dict[str, Any]:
    hints = get_type_hints(request_type)
    fields: dict[str, Any] = {}
    for name in query:
        if name in hidden or name not in hints:
            raise Refusal("invalid", f"there is no parameter {name!r} here", field=name)
        values = query.getlist(name)
        if get_origin(hints[name]) is tuple:
            fields[name] = values
        elif len(values) == 1:
            fields[name] = values[0]
        else:
            raise Refusal("invalid", f"the parameter {name} appears {len(values)} times", field=name)
    return fields


def _checked_key(key: str | None) -> str | None:
    if key is not None and not (0 < len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()):
        raise Refusal("invalid", f"an Idempotency-Key has up to {MAX_KEY_CHARS} printable ASCII characters")
    return key


# A user agent contains the names of other browsers: the first that matches is the right one.
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS: Final = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Mac OS X", "Mac"), ("Windows", "Windows"),
    ("Linux", "Linux"),
)  # fmt: skip


def browser_name(request: HttpRequest) -> str:
    """A name for a browser's token, such as "Firefox on Linux"."""
    user_agent = request.headers.get("user-agent", "")
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "Browser")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), None)
    return f"{browser} on {system}" if system else browser


_Endpoint = Callable[[HttpRequest], Awaitable[Response]]

_RUN: Final = REQUESTS[SessionPrompt]
_EXPORT: Final = REQUESTS[SessionExport]


class Api:
    """The endpoints. `stopping` is set when the server is about to stop."""

    def __init__(self, bridge: Bridge, auth: Auth, stopping: asyncio.Event) -> None:
        self._bridge = bridge
        self._auth = auth
        self._stopping = stopping

    def routes(self) -> list[Route]:
        endpoints: list[tuple[str, str, _Endpoint]] = [
            ("GET", "/v1/health", self._health),
            ("GET", "/v1/metrics", self._figures),
            ("POST", "/v1/pair", self._pair),
            ("POST", "/v1/sign_out", self._sign_out),
            ("POST", "/v1/requests", self._any_request),
            ("GET", "/v1/permissions", self._permissions),
            ("GET", SESSION, self._session),
            ("GET", f"{SESSION}/events", self._events),
        ]
        special = {SessionPrompt: self._run, SessionExport: self._export}
        for declaration in REQUESTS.values():
            if (route := declaration.route) is not None:
                endpoint = special.get(declaration.request) or self._endpoint(declaration)
                endpoints.append((route.method, route.path, endpoint))
        # One route per path, so that a wrong method is answered with the right ones.
        paths: dict[str, dict[str, _Endpoint]] = {}
        for method, path, endpoint in endpoints:
            paths.setdefault(path, {})[method] = endpoint
        return [Route(path, _by_method(methods), methods=list(methods)) for path, methods in paths.items()]

    # -- requests

    def _endpoint(self, declaration: Declaration) -> _Endpoint:
        status = declaration.route.status if declaration.route is not None else 200

        async def handle(http_request: HttpRequest) -> Response:
            caller = await self._auth.caller(http_request)
            request = await self._read(declaration, http_request)
            return json_response(await self._execute(request, caller), status)

        return handle

    async def _execute(self, request: Request[ResultT], caller: Caller) -> ResultT:
        """Carry out a request. Its result is not for a client whose token another one revoked meanwhile."""
        result = await self._bridge.execute(request, caller)
        if not (isinstance(request, TokenRevoke) and request.token_id == caller.token_id):
            self._auth.check(caller)
        return result

    async def _read(self, declaration: Declaration, http_request: HttpRequest) -> Request[Any]:
        body = await read_body(http_request) if declaration.route is not None and declaration.route.has_body else b""
        key = http_request.headers.get("idempotency-key")
        return read_request(declaration, http_request.path_params, http_request.query_params, body, key)

    async def _any_request(self, http_request: HttpRequest) -> Response:
        caller = await self._auth.caller(http_request)
        request = read_any_request(await read_body(http_request), http_request.headers.get("idempotency-key"))
        return json_response(await self._execute(request, caller))

    async def _export(self, http_request: HttpRequest) -> Response:
        caller = await self._auth.caller(http_request)
        request = cast("SessionExport", await self._read(_EXPORT, http_request))
        exported = await self._execute(request, caller)
        name = re.sub(r"[^A-Za-z0-9._-]", "_", exported.file_name)
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return Response(exported.text, headers=headers, media_type=exported.mime_type)

    # -- reading

    async def _session(self, http_request: HttpRequest) -> Response:
        caller = await self._auth.caller(http_request)
        async with aclosing(self._follow(http_request, caller)) as stream:
            snapshot = await anext(stream)
        self._auth.check(caller)
        return json_response(snapshot.data)

    async def _permissions(self, http_request: HttpRequest) -> Response:
        await self._auth.caller(http_request)
        return json_response(self._bridge.pending())

    async def _health(self, _: HttpRequest) -> Response:
        return json_response(Health())

    async def _figures(self, http_request: HttpRequest) -> Response:
        await self._auth.caller(http_request)
        return Response(
            self._bridge.metrics.text(), headers={"cache-control": "no-store", "content-type": CONTENT_TYPE}
        )

    # -- runs and streams

    async def _run(self, http_request: HttpRequest) -> Response:
        caller = await self._auth.caller(http_request)
        caller.require(_RUN.scope, _RUN.name)  # before the stream tells whether there is such a session
        prompt = cast("SessionPrompt", await self._read(_RUN, http_request))
        wait_s = preferred_wait(http_request)
        if wait_s == 0:
            return json_response(await self._execute(prompt, caller), 202)
        # First the stream, then the prompt: nothing of the run can be missed in between.
        stream = self._follow(http_request, caller)
        try:
            first = await anext(stream)
            accepted = await self._execute(prompt, caller)
            if accepted.run_id is None:
                await stream.aclose()
                return json_response(accepted, 202)
            # A prompt that was sent before may have ended long ago.
            waiting = RunWaiter(self._bridge, prompt.session_id, accepted.run_id, first.cursor)
            if prompt.command_id is not None:
                await waiting.check()
        except BaseException:
            await stream.aclose()
            raise
        if wants_events(http_request):
            return self._streamed(first, stream, caller, waiting)
        async with aclosing(stream):
            result = await self._awaited(stream, waiting, http_request, wait_s)
        self._auth.check(caller)
        return run_response(result, 202 if result.status == "running" else 200)

    async def _awaited(
        self,
        stream: AsyncGenerator[StreamMessage, None],
        waiting: RunWaiter,
        http_request: HttpRequest,
        wait_s: float | None,
    ) -> RunResult:
        try:
            async with (
                asyncio.timeout(wait_s),
                aclosing(
                    until_gone(stream, stopping=self._stopping, disconnected=lambda: _disconnected(http_request))
                ) as messages,
            ):
                while not waiting.ended and (message := await anext(messages, None)) is not None:
                    await waiting.read(message)
        except TimeoutError:
            pass
        if self._stopping.is_set() and not waiting.ended:
            raise Refusal("unavailable", "the server stops, and the run with it")
        return await waiting.result()

    async def _events(self, http_request: HttpRequest) -> Response:
        """The session's stream, until the client disconnects."""
        caller = await self._auth.caller(http_request)
        stream = self._follow(
            http_request,
            caller,
            after=http_request.headers.get("last-event-id"),
            frames=is_set(http_request, "frames"),
        )
        try:
            first = await anext(stream)
        except BaseException:
            await stream.aclose()
            raise
        if http_request.method == "HEAD":  # a stream without a body would never end
            await stream.aclose()
            return Response(media_type="text/event-stream")
        return self._streamed(first, stream, caller)

    def _streamed(
        self,
        first: StreamMessage,
        stream: AsyncGenerator[StreamMessage, None],
        caller: Caller,
        waiting: RunWaiter | None = None,
    ) -> Response:
        """An event stream. With `waiting`, it ends with the run, whose result is the last event."""

        async def events() -> AsyncIterator[bytes]:
            async with (
                aclosing(stream),
                aclosing(until_gone(stream, stopping=self._stopping, pause=KEEP_ALIVE_S)) as messages,
            ):
                try:
                    self._auth.check(caller)
                    yield stream_event(first)
                    while waiting is None or not waiting.ended:
                        message = await anext(messages)
                        self._auth.check(caller)
                        if message is None:
                            yield KEEP_ALIVE
                            continue
                        yield stream_event(message)
                        if waiting is not None:
                            await waiting.read(message)
                    if waiting is not None:
                        result = await waiting.result()
                        self._auth.check(caller)
                        yield b"event: run\ndata: "
                        for part in encode_in_parts(result):
                            yield part
                            await asyncio.sleep(0)
                        yield b"\n\n"
                except StopAsyncIteration:
                    return
                except Refusal as refusal:
                    yield refusal_event(refusal)

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(events(), headers=headers, media_type="text/event-stream")

    def _follow(
        self, http_request: HttpRequest, caller: Caller, *, after: str | None = None, frames: bool = False
    ) -> AsyncGenerator[StreamMessage, None]:
        session_id = http_request.path_params["session_id"]
        return self._bridge.follow(session_id, after=after, frames=frames, caller=caller)

    # -- browsers

    async def _pair(self, http_request: HttpRequest) -> Response:
        code = read_object(await read_body(http_request, MAX_PAIR_BYTES)).get("code")
        if not isinstance(code, str):
            raise Refusal("invalid", "code: expected a string", field="code")
        secret = await self._auth.pair(http_request, code, browser_name(http_request))
        response = json_response(Paired(new=secret is not None))
        if secret is not None:
            self._auth.set_cookie(response, secret, http_request)
        return response

    async def _sign_out(self, http_request: HttpRequest) -> Response:
        await self._auth.sign_out(http_request)
        response = json_response(Done())
        self._auth.clear_cookie(response)
        return response


class RunWaiter:
    """The end of one run, noticed in the stream of its session; its result is read from the journal.

    Where the journal fails in the middle of a run, `read` raises a `Refusal`.
    """

    def __init__(self, bridge: Bridge, session_id: str, run_id: str, cursor: str) -> None:
        self._bridge = bridge
        self._session_id = session_id
        self._run_id = run_id
        self._cursor = cursor
        self.ended = False

    async def read(self, message: StreamMessage) -> None:
        if message.type == "ended":
            return
        self._cursor = message.cursor
        if self._run_id in message.ended_runs:
            self.ended = True
        elif message.failure is not None and message.failure.kind in FILE_ERROR_NAMES:
            await self.check()
            if not self.ended:  # and its end will not be recorded either
                raise Refusal("unavailable", message.failure.message, guidance=message.failure.guidance)
        elif message.type == "snapshot":  # of a client that was too slow: the end may be in the rows
            await self.check()

    async def check(self) -> None:
        """Look into the journal."""
        run = await self._bridge.recorded_run(self._session_id, self._run_id)
        self.ended = run is not None and run.status != "running"

    async def result(self) -> RunResult:
        run, text = await self._bridge.run_text(self._session_id, self._run_id)
        error = run.error.message if run is not None and run.error is not None else ""
        return RunResult(
            session_id=self._session_id,
            run_id=self._run_id,
            status="running" if run is None else run.status,
            stop_reason=run.stop_reason if run is not None else None,
            reason=(error or run.reason) if run is not None else None,
            text=text,
            usage=usage_model(run.usage) if run is not None and run.usage is not None else None,
            cursor=self._cursor,
        )


def _by_method(endpoints: dict[str, _Endpoint]) -> _Endpoint:
    async def handle(http_request: HttpRequest) -> Response:
        endpoint = endpoints["GET" if http_request.method == "HEAD" else http_request.method]
        try:
            return await endpoint(http_request)
        except Refusal as refusal:
            return refusal_response(refusal)

    return handle


async def _disconnected(http_request: HttpRequest) -> None:
    """Return when the client has disconnected; its body was read before."""
    while (await http_request.receive())["type"] != "http.disconnect":
        pass
