"""HTTP `/v1/…` for scripts: the same controls, the same types and the same refusals as on the socket.

A run is awaited by default, streamed where the client wants events, and only begun with `Prefer: respond-async`. A
client that goes away leaves its run going: it is found again by its id, and ended by a cancel alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, Literal, cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from dragoman._version import __version__
from dragoman.bridge import asked
from dragoman.bridge.answers import Done, Exported, Prompted, WholeRow
from dragoman.bridge.auth import Auth
from dragoman.bridge.caller import Caller
from dragoman.bridge.metrics import TEXT, Metrics
from dragoman.bridge.operations import (
    OPERATIONS,
    SESSION,
    Operation,
    read_any_control,
    read_control,
    read_object,
)
from dragoman.bridge.payload import Out
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.reply import refused, reply
from dragoman.bridge.runs import RunTold, RunWatch
from dragoman.bridge.seam import Steered
from dragoman.bridge.streams import COMMENT, PAUSE, event, event_of, event_of_refusal, watched

# A prompt with a photograph of 20 MB in it; the socket takes no more, either.
MOST_BODY: Final = 32 * 1024 * 1024

# Seconds that `Prefer: wait=` may ask for: a day.
MOST_WAIT: Final = 86_400.0

# Who waits for an answer wants to hear at once that there will be none for a while.
RUN: Final = Operation(
    "POST", f"{SESSION}/runs", asked.SessionPrompt, "Prompt, and wait for the run", defaults={"when": "refuse"}
)
EXPORT: Final = Operation("GET", f"{SESSION}/export", asked.SessionExport, "A session as one text")

_Handler = Callable[[Request], Awaitable[Response]]


class Health(Out, frozen=True, kw_only=True):
    """For who asks without a token: that it is Dragoman, and that it answers."""

    name: Literal["dragoman"] = "dragoman"
    status: Literal["ok"] = "ok"
    version: str = __version__


class Signed(Out, frozen=True, kw_only=True):
    """`new`: the code was good, and the browser has a new cookie. Otherwise it had a good one already."""

    new: bool


class Api:
    def __init__(self, bridge: Steered, auth: Auth, metrics: Metrics, ending: asyncio.Event) -> None:
        self._bridge = bridge
        self._auth = auth
        self._metrics = metrics
        self._ending = ending

    def routes(self) -> list[Route]:
        own: list[tuple[str, str, _Handler]] = [
            ("GET", "/v1/health", self._health),
            ("GET", "/v1/metrics", self._told_metrics),
            ("POST", "/v1/pair", self._pair),
            ("POST", "/v1/sign_out", self._sign_out),
            ("POST", "/v1/controls", self._any_control),
            ("GET", "/v1/permissions", self._waiting),
            ("GET", SESSION, self._session),
            ("GET", f"{SESSION}/events", self._events),
            (RUN.method, RUN.path, self._run),
            (EXPORT.method, EXPORT.path, self._export),
        ]
        own += [(operation.method, operation.path, self._control(operation)) for operation in OPERATIONS]
        # One route a path, so that another method than the path has is told which it has.
        paths: dict[str, dict[str, _Handler]] = {}
        for method, path, handler in own:
            paths.setdefault(path, {})[method] = handler
        return [Route(path, _by_method(handlers), methods=list(handlers)) for path, handlers in paths.items()]

    # -- controls

    def _control(self, operation: Operation) -> _Handler:
        async def handle(request: Request) -> Response:
            return reply(await self._done(operation, request), operation.status)

        return handle

    async def _done(self, operation: Operation, request: Request) -> Out:
        caller = await self._auth.caller(request)
        return await self._bridge.do(await self._asked(operation, request), caller)

    async def _asked(self, operation: Operation, request: Request) -> asked.Control:
        body = await _body(request) if operation.has_body else b""
        key = request.headers.get("idempotency-key")
        return read_control(operation, request.path_params, request.query_params, body, key)

    async def _any_control(self, request: Request) -> Response:
        caller = await self._auth.caller(request)
        control = read_any_control(await _body(request), request.headers.get("idempotency-key"))
        return reply(await self._bridge.do(control, caller))

    async def _export(self, request: Request) -> Response:
        exported = cast("Exported", await self._done(EXPORT, request))
        name = re.sub(r"[^A-Za-z0-9._-]", "_", exported.file_name)
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return Response(exported.text, headers=headers, media_type=exported.mime_type)

    # -- what is read

    async def _session(self, request: Request) -> Response:
        caller = await self._auth.caller(request)
        async with aclosing(self._follow(request, caller)) as stream:
            return reply(await anext(stream))

    async def _waiting(self, request: Request) -> Response:
        return reply(await self._bridge.waiting(await self._auth.caller(request)))

    async def _health(self, _: Request) -> Response:
        return reply(Health())

    async def _told_metrics(self, request: Request) -> Response:
        await self._auth.caller(request)
        return Response(self._metrics.text(), headers={"cache-control": "no-store", "content-type": TEXT})

    # -- runs and streams

    async def _run(self, request: Request) -> Response:
        caller = await self._auth.caller(request)
        prompt = cast("asked.SessionPrompt", await self._asked(RUN, request))
        preferred = _preferred(request)
        if preferred == 0:
            return reply(await self._bridge.do(prompt, caller), 202)
        # First the stream, then the prompt: nothing of the run can be missed in between.
        stream = self._follow(request, caller)
        try:
            first = await anext(stream)
            prompted = cast("Prompted", await self._bridge.do(prompt, caller))
            if prompted.run_id is None:
                await stream.aclose()
                return reply(prompted, 202)
        except BaseException:
            await stream.aclose()
            raise
        watch = RunWatch(prompt.session_id, prompted.run_id)
        watch.hear(first)
        if prompt.command_id is not None:
            await self._look_up(watch, prompt.session_id, prompted.run_id, caller)
        if _wants_events(request):
            return self._streamed(first, stream, caller, watch)
        async with aclosing(stream):
            told = await self._awaited(stream, watch, request, preferred)
        return reply(told, 202 if told.status == "running" else 200)

    async def _look_up(self, watch: RunWatch, session_id: str, run_id: str, caller: Caller) -> None:
        """A prompt that was sent before may have ended so long ago that its run is not in the snapshot."""
        row = asked.SessionRow(id="", session_id=session_id, table="runs", row_id=run_id)
        try:
            watch.put(cast("WholeRow", await self._bridge.do(row, caller)).row)
        except Refusal:
            pass  # it has only just begun

    async def _awaited(
        self, stream: AsyncGenerator[Out, None], watch: RunWatch, request: Request, seconds: float | None
    ) -> RunTold:
        try:
            async with (
                asyncio.timeout(seconds),
                aclosing(watched(stream, ending=self._ending, gone=lambda: _gone(request))) as messages,
            ):
                while not watch.ended and (message := await anext(messages, None)) is not None:
                    watch.hear(message)
        except TimeoutError:
            pass
        if self._ending.is_set() and not watch.ended:
            raise Refusal("unavailable", "the server is ending, and the run with it")
        return watch.told()

    async def _events(self, request: Request) -> Response:
        """The session's stream, until the client goes."""
        caller = await self._auth.caller(request)
        frames = request.query_params.get("frames") in ("1", "true")
        stream = self._follow(request, caller, after=request.headers.get("last-event-id"), frames=frames)
        try:
            first = await anext(stream)
        except BaseException:
            await stream.aclose()
            raise
        if request.method == "HEAD":  # has nothing that could end it
            await stream.aclose()
            return Response(media_type="text/event-stream")
        return self._streamed(first, stream, caller)

    def _streamed(
        self, first: Out, stream: AsyncGenerator[Out, None], caller: Caller, watch: RunWatch | None = None
    ) -> Response:
        """With a `watch`, until its run has ended, which is the last event."""

        async def events() -> AsyncIterator[bytes]:
            async with aclosing(stream), aclosing(watched(stream, ending=self._ending, pause=PAUSE)) as messages:
                yield event_of(first)
                try:
                    while watch is None or not watch.ended:
                        message = await anext(messages)
                        if not self._auth.is_still_good(caller):
                            raise Refusal("unauthorized", "the token of this stream was revoked")  # noqa: TRY301
                        if message is None:
                            yield COMMENT
                            continue
                        if watch is not None:
                            watch.hear(message)
                        yield event_of(message)
                except StopAsyncIteration:
                    return
                except Refusal as refusal:
                    yield event_of_refusal(refusal)
                    return
                if watch is not None:
                    yield event("run", watch.told())

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(events(), headers=headers, media_type="text/event-stream")

    def _follow(
        self, request: Request, caller: Caller, *, after: str | None = None, frames: bool = False
    ) -> AsyncGenerator[Out, None]:
        session_id = request.path_params["session_id"]
        return self._bridge.follow(session_id, after=after, frames=frames, caller=caller)

    # -- browsers

    async def _pair(self, request: Request) -> Response:
        code = read_object(await _body(request)).get("code")
        if not isinstance(code, str):
            raise Refusal("invalid", "code: expected a text", field="code")
        secret = await self._auth.pair(request, code, _browser(request))
        response = reply(Signed(new=secret is not None))
        if secret is not None:
            self._auth.set_cookie(response, secret, request)
        return response

    async def _sign_out(self, request: Request) -> Response:
        await self._auth.sign_out(request)
        response = reply(Done())
        self._auth.clear_cookie(response)
        return response


def _by_method(handlers: dict[str, _Handler]) -> _Handler:
    async def handle(request: Request) -> Response:
        handler = handlers["GET" if request.method == "HEAD" else request.method]
        try:
            return await handler(request)
        except Refusal as refusal:
            return refused(refusal)

    return handle


async def _body(request: Request) -> bytes:
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > MOST_BODY:
        raise _too_large()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY:
            raise _too_large()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise Refusal(
            "invalid", "the body of the request is not said to be JSON", guidance="Content-Type: application/json"
        )
    return bytes(body)


def _too_large() -> Refusal:
    return Refusal("too_large", f"the body of a request is up to {MOST_BODY // 1024 // 1024} MiB")


async def _gone(request: Request) -> None:
    """Returns when the client has gone; its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _preferred(request: Request) -> float | None:
    """Seconds that the client wants to wait: 0 is `respond-async`, None until the run has ended (RFC 7240)."""
    wanted = [part.strip().lower() for value in request.headers.getlist("prefer") for part in value.split(",")]
    if "respond-async" in wanted:
        return 0
    for part in wanted:
        if found := re.fullmatch(r"wait=(\d{1,9})", part):
            return min(float(found[1]), MOST_WAIT)
    return None


def _wants_events(request: Request) -> bool:
    return (
        request.query_params.get("stream") in ("1", "true")
        or "text/event-stream" in request.headers.get("accept", "").lower()
    )


# What a browser calls itself holds the names of others: the first that fits is the right one.
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


def _browser(request: Request) -> str:
    """A name for a browser's token, so that people know which it is."""
    agent = request.headers.get("user-agent", "")
    browser = next((name for mark, name in _BROWSERS if mark in agent), "Browser")
    system = next((name for mark, name in _SYSTEMS if mark in agent), None)
    return f"{browser} on {system}" if system else browser
