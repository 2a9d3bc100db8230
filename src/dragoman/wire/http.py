"""The HTTP shell, client side: an agent behind `http://` or `https://`, as the protocol's streamable-HTTP draft has it.

What we say is posted, one message a request and one after the other, so that nothing overtakes. What the agent says
comes by long-lived event streams: one for the connection, and one for each session, which is opened before anything
is said about that session. All of them together are the one stream of bytes that `read` gives.

Promised: messages of one stream keep their order; the answer to a prompt is on the same stream as the updates before
it. Not promised, because the draft does not: an order between streams. Where a stream is lost, so is the connection:
what it would have said cannot be had again. The reason is in `end_reason`.

A request that the server refuses by its HTTP status is answered in the server's place with a JSON-RPC error that says
so: whoever waits for the answer must not wait for ever.

Needs the `httpx` package (`dragoman[http]`), which is loaded when the first connection is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import AUTHENTICATION_REQUIRED, INTERNAL_ERROR, INVALID_REQUEST, NOT_FOUND, InputError, StartError
from dragoman.wire.address import KEEP_ALIVE, Address, check_headers, read_address
from dragoman.wire.envelope import Envelope, peek
from dragoman.wire.framing import DEFAULT_LINE_LIMIT
from dragoman.wire.inbox import Inbox
from dragoman.wire.messages import UNREADABLE, RequestId, RpcError
from dragoman.wire.outgoing import Outgoing
from dragoman.wire.sse import EventReader, EventTooLong

if TYPE_CHECKING:
    import httpx

SCHEMES = ("http", "https")

CONNECTION_ID = "Acp-Connection-Id"
SESSION_ID = "Acp-Session-Id"

# These may name a session that the server does not know yet. Some servers want its id in the header all the same,
# others refuse it there; neither has done anything when it refuses, so we may ask again without.
_OPENING = frozenset({"session/load", "session/resume", "session/fork", "session/delete"})

# Seconds that the other streams have to say what they still have once one of them is lost.
LAST_WORDS = 1.0

# Seconds that an idle connection is used again. Common servers close theirs after 5, and a message that is posted
# into that moment is lost.
IDLE_REUSE = 2.0

# Of what a server says when it refuses: enough to see why.
_SHOWN_BODY = 300


class HttpTransport:
    """A `Transport`; made by `connect_http`. `end` must be called when it is done with.

    `complain` hears what went wrong and is nobody's answer: a notification that was refused.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        address: Address,
        *,
        complain: Callable[[str], None],
        message_limit: int = DEFAULT_LINE_LIMIT,
    ) -> None:
        self._client = client
        self._address = address
        self._complain = complain
        self._limit = message_limit
        self._inbox = Inbox()
        self._outgoing = Outgoing()
        self._connection_id: str | None = None
        self._streams: dict[str | None, _Stream] = {}  # by session; the connection's own is under None
        self._asked: dict[RequestId, str] = {}  # requests of the agent that we owe an answer: their session
        self._left: set[str] = set()  # sessions that we closed or deleted: their streams may end
        self._end_reason: str | None = None
        self._ended = asyncio.Event()
        self._sender = asyncio.get_running_loop().create_task(self._send(), name="dragoman http")
        self._winding_up: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        return await self._inbox.take()

    def write(self, data: bytes) -> None:
        self._outgoing.put(data)

    async def drain(self) -> None:
        await self._outgoing.drain()

    def close(self) -> None:
        self._outgoing.close()

    # -- saying

    async def _send(self) -> None:
        try:
            while (line := await self._outgoing.take()) is not None:
                await self._post(line)
                self._outgoing.sent()
            await self._leave()
        except Exception as problem:  # of whatever kind: those who wait for an answer must learn of it
            self._lost(f"what we said could not be sent: {_described(problem)}")

    async def _post(self, line: bytes) -> None:
        said = peek(line)
        if said.is_request and said.method == "initialize" and self._connection_id is None:
            await self._initialize(line, said)
            return
        session = said.session
        if session is None and said.is_answer and said.id is not None:
            session = self._asked.pop(said.id, None)
        if session is not None:
            if said.method in _OPENING:
                self._left.discard(session)
            status = await self._stream(session).opened()
            # A server that does not know the session yet sends what concerns it over the connection's own stream.
            if status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
                await self._refused(said, status, "the session's event stream cannot be opened")
                return
        response = await self._posted(line, session)
        if response.status_code == HTTPStatus.NOT_FOUND and session is not None and said.method in _OPENING:
            response = await self._posted(line, None)
        if not response.is_success:
            await self._refused(said, response.status_code, _said(response))
            return
        if said.method in ("session/close", "session/delete") and session is not None:
            self._left.add(session)
        await self._answered_at_once(response)

    async def _posted(self, line: bytes, session: str | None) -> httpx.Response:
        headers = {"Content-Type": "application/json", **self._ids(session)}
        return await self._client.post(self._address.url, content=line, headers=headers)

    async def _initialize(self, line: bytes, said: Envelope) -> None:
        """The one request that is answered in the response to it, together with the connection's id."""
        response = await self._posted(line, None)
        if not response.is_success:
            await self._refused(said, response.status_code, _said(response))
            return
        self._connection_id = response.headers.get(CONNECTION_ID)
        if self._connection_id is None:
            self._lost(f"the server's answer to initialize has no {CONNECTION_ID} header: it is no ACP endpoint")
            return
        status = await self._stream(None).opened()
        if status == HTTPStatus.OK:
            await self._answered_at_once(response)

    async def _answered_at_once(self, response: httpx.Response) -> None:
        if response.content.strip():
            await self._hear(b" ".join(response.content.split(b"\n")))

    async def _refused(self, said: Envelope, status: int, why: str) -> None:
        reason = f"{self._address.shown} refused it: HTTP {status}{f', {why}' if why else ''}"
        if not said.is_request:
            self._complain(f"{said.method or 'an answer of ours'}: {reason}")
            return
        if status == HTTPStatus.UNAUTHORIZED:
            reason += ". Pass the server's token: headers={'Authorization': 'Bearer …'}"
        error = {"code": _code_of(status), "message": reason, "data": {"status": status}}
        await self._inbox.put(msgspec.json.encode({"jsonrpc": "2.0", "id": said.id, "error": error}))

    async def _leave(self) -> None:
        if self._connection_id is not None and self._end_reason is None:
            await self._client.delete(self._address.url, headers=self._ids(None))
        else:
            self._lost("closed")

    def _ids(self, session: str | None) -> dict[str, str]:
        ids = {} if self._connection_id is None else {CONNECTION_ID: self._connection_id}
        return ids if session is None else {**ids, SESSION_ID: session}

    # -- hearing

    def _stream(self, session: str | None) -> _Stream:
        """The stream of a session, or of the connection; opened if it is not open."""
        stream = self._streams.get(session)
        if stream is None:
            stream = self._streams[session] = _Stream()
            stream.task = asyncio.get_running_loop().create_task(self._follow(session, stream), name="dragoman events")
        return stream

    async def _follow(self, session: str | None, stream: _Stream) -> None:
        reason = "the server ended the event stream"
        headers = {"Accept": "text/event-stream", **self._ids(session)}
        try:
            async with self._client.stream("GET", self._address.url, headers=headers) as response:
                if response.status_code != HTTPStatus.OK:
                    del self._streams[session]  # the next message for it asks again
                    stream.answer(response.status_code)
                    if session is None:
                        self._lost(f"the server refused the event stream: HTTP {response.status_code}")
                    return
                stream.answer(HTTPStatus.OK)
                events = EventReader(self._limit)
                async for data in response.aiter_bytes():
                    for event in events.feed(data):
                        await self._hear(event)
        except EventTooLong as problem:
            reason = f"the agent sent {problem}"
        except Exception as problem:  # as above
            reason = f"the event stream was lost: {_described(problem)}"
        finally:
            stream.answer(HTTPStatus.SERVICE_UNAVAILABLE)  # to whoever still waits for it to open
        self._streams.pop(session, None)
        if session is None or session not in self._left:
            self._lost(reason)

    async def _hear(self, line: bytes) -> None:
        said = peek(line)
        if said.is_request and said.session is not None and said.id is not None:
            self._asked[said.id] = said.session
        if said.new_session is not None:
            # Open before anyone learns of the session: what is said of it from here on comes by its own stream.
            await self._stream(said.new_session).opened()
        await self._inbox.put(line)

    # -- the end

    def _lost(self, reason: str) -> None:
        """From here on nothing more can be said; what the other streams still have is heard for a moment."""
        if self._end_reason is None:
            self._end_reason = reason
            self._outgoing.abandon()
            self._winding_up = asyncio.get_running_loop().create_task(self._wind_up(), name="dragoman http end")

    async def _wind_up(self) -> None:
        open_streams = {stream.task for stream in self._streams.values()}
        while open_streams:
            done, open_streams = await asyncio.wait(open_streams, timeout=LAST_WORDS)
            if not done and not self._inbox.full:  # what waits for our own reader is not late
                break
        await self._let_go()

    async def _let_go(self) -> None:
        tasks = [self._sender, *(stream.task for stream in self._streams.values())]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._client.aclose()
        self._inbox.end()
        self._ended.set()

    async def wait_ended(self) -> None:
        """Returns when the connection is over; `read` may still have messages that came before."""
        await self._ended.wait()

    @property
    def end_reason(self) -> str | None:
        """Why the connection ended; None while it stands."""
        return self._end_reason

    async def end(self, grace: float) -> None:
        """Sends what waits, takes leave, and lets go after `grace` seconds whatever the server does."""
        self.close()
        try:
            async with asyncio.timeout(grace):
                await self._ended.wait()
        except TimeoutError:
            self.abort()
            await self._ended.wait()

    def abort(self) -> None:
        """Lets go at once."""
        self._lost("the connection was given up")
        for stream in self._streams.values():
            stream.task.cancel()


class _Stream:
    """An event stream, and whether the server has let us have it."""

    task: asyncio.Task[None]

    def __init__(self) -> None:
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def answer(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)

    async def opened(self) -> int:
        """The HTTP status with which the server answered."""
        return await asyncio.shield(self._status)


def _code_of(status: int) -> int:
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return AUTHENTICATION_REQUIRED
        case HTTPStatus.NOT_FOUND | HTTPStatus.GONE:
            return NOT_FOUND
        case _ if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return INVALID_REQUEST
        case _:
            return INTERNAL_ERROR


class _Problem(msgspec.Struct, frozen=True):
    error: str | RpcError


def _said(response: httpx.Response) -> str:
    """The server's reason, in the shapes in which servers give one."""
    try:
        error = msgspec.json.decode(response.content, type=_Problem).error
        text = error if isinstance(error, str) else error.message
    except UNREADABLE:
        text = response.content[:_SHOWN_BODY].decode("utf-8", "replace")
    return " ".join(text.split())[:_SHOWN_BODY]


def _described(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


async def connect_http(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    complain: Callable[[str], None],
    message_limit: int = DEFAULT_LINE_LIMIT,
) -> HttpTransport:
    """Makes ready to speak to an agent's server; `headers` go with every request.

    Raises `StartError` where nothing listens; whether it is an agent's server, the first message shows.
    """
    address, headers = read_address(url, SCHEMES), check_headers(headers)
    try:
        import httpx
    except ImportError as missing:
        raise InputError(
            f"to reach an agent at {address.shown} the package `httpx` is needed, and it is not installed",
            guidance="Install it: pip install 'dragoman[http]'",
        ) from missing
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=IDLE_REUSE)
    client = httpx.AsyncClient(
        headers=headers,
        # An event stream may be silent for hours, and whoever asks has a limit of their own.
        timeout=httpx.Timeout(None),
        limits=limits,
        transport=httpx.AsyncHTTPTransport(limits=limits, socket_options=list(KEEP_ALIVE)),
        # A proxy from the environment is for the world outside; few who set one except 127.0.0.1 from it.
        trust_env=not address.loopback,
    )
    try:
        # Any answer will do: this is to tell an address where nobody listens from an agent that fails.
        await client.request("OPTIONS", address.url)
    except httpx.TransportError as problem:
        await client.aclose()
        raise StartError(
            f"cannot connect to {address.shown}: {_described(problem)}",
            guidance="Check that the agent's server runs there.",
        ) from None
    except BaseException:
        await client.aclose()
        raise
    return HttpTransport(client, address, complain=complain, message_limit=message_limit)
