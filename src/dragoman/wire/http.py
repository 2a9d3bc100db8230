"""The HTTP transport, client side: an agent behind `http://` or `https://`, as in ACP's streamable-HTTP draft.

Messages to the agent are posted, one per request and one after the other, so that none overtakes another. Messages
from the agent come by long-lived event streams: one for the connection, and one for each session, which is opened
before any message about that session is sent. `read` returns all of them as one stream of bytes.

Promised: messages of one stream keep their order; the answer to a prompt is on the same stream as the updates before
it. Not promised, because the draft does not: an order between streams. When a stream is lost, the connection ends,
because the lost messages cannot be fetched again. The reason is in `end_reason`.

Where the server refuses a request by its HTTP status, the transport answers it with a JSON-RPC error, so that no caller
waits for ever.

Event streams are split by `EventReader`, without I/O: an event that is too long is an error, not a memory problem.

Needs the `httpx` package (`dragoman[http]`), which is loaded when the first connection is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import AUTHENTICATION_REQUIRED, INTERNAL_ERROR, INVALID_REQUEST, NOT_FOUND, InputError, StartError
from dragoman.wire.framing import DEFAULT_LINE_LIMIT_BYTES
from dragoman.wire.messages import DECODE_ERRORS, Envelope, RequestId, RpcError, peek
from dragoman.wire.network import (
    KEEP_ALIVE,
    Address,
    IncomingLines,
    OutgoingLines,
    check_headers,
    parse_address,
)

if TYPE_CHECKING:
    import httpx


class EventTooLong(Exception):
    """An event over the limit. The events before it were returned; none after it can be."""


class EventReader:
    """Splits a stream into events. However the bytes are split, the events are the same."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._parts: list[bytes] = []  # of the unfinished line
        self._data: list[bytes] = []  # of the unfinished event
        self._length = 0  # of both
        self._after_return = False

    def feed(self, data: bytes) -> list[bytes]:
        events: list[bytes] = []
        *lines, unfinished = self._normalize(data).split(b"\n")
        for line in lines:
            self._append(line)
            self._end_line(events)
        self._append(unfinished)
        return events

    def _normalize(self, data: bytes) -> bytes:
        """Turn all line ends into newlines; a CRLF that was split in two is one line end, not two."""
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
            self._after_return = False
        if data:
            self._after_return = data.endswith(b"\r")
        if b"\r" not in data:
            return data
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _append(self, part: bytes) -> None:
        if not part:
            return
        self._length += len(part)
        if self._length > self._limit:
            raise EventTooLong(f"a message over the limit of {self._limit} bytes")
        self._parts.append(part)

    def _end_line(self, events: list[bytes]) -> None:
        line = b"".join(self._parts)
        self._parts.clear()
        if not line:
            if self._data:
                # A newline between parts of JSON is white space; as a space, the message stays on one line.
                events.append(b" ".join(self._data))
            self._data.clear()
            self._length = 0
            return
        field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        else:
            self._length -= len(line)


SCHEMES = ("http", "https")

CONNECTION_ID = "Acp-Connection-Id"
SESSION_ID = "Acp-Session-Id"

# Methods that may name a session that the server does not know yet. Some servers want its id in the header all the
# same, others refuse it there; a refusal changes nothing, so that the request can be sent again without the header.
_OPENING_METHODS = frozenset({"session/load", "session/resume", "session/fork", "session/delete"})

# Seconds without a message after which the other streams are closed, once one of them is lost.
FINAL_DRAIN_S = 1.0

# Seconds for which an idle connection is used again. Common servers close theirs after 5, and a message that is posted
# into that moment is lost.
IDLE_REUSE_S = 2.0

# Characters of a refusal's body that are shown.
_MAX_SHOWN_CHARACTERS = 300


class HttpTransport:
    """A `Transport`, made by `connect_http`. The owner must call `end`.

    `on_diagnostic` gets failures that are the answer to no request, such as a notification that the server refused.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        address: Address,
        *,
        on_diagnostic: Callable[[str], None],
        message_limit: int = DEFAULT_LINE_LIMIT_BYTES,
    ) -> None:
        self._client = client
        self._address = address
        self._on_diagnostic = on_diagnostic
        self._limit = message_limit
        self._incoming = IncomingLines()
        self._outgoing = OutgoingLines()
        self._connection_id: str | None = None
        self._streams: dict[str | None, _Stream] = {}  # by session; the connection's own is under None
        self._request_sessions: dict[RequestId, str] = {}  # of the agent's requests without an answer
        self._closed_sessions: set[str] = set()  # closed or deleted from here: their streams may end
        self._end_reason: str | None = None
        self._ended = asyncio.Event()
        self._sender = asyncio.get_running_loop().create_task(self._send(), name="dragoman http")
        self._draining: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        return await self._incoming.take()

    def write(self, data: bytes) -> None:
        self._outgoing.put(data)

    async def drain(self) -> None:
        await self._outgoing.drain()

    def close(self) -> None:
        self._outgoing.close()

    # -- sending

    async def _send(self) -> None:
        try:
            while (line := await self._outgoing.next_line()) is not None:
                await self._post(line)
                self._outgoing.mark_sent()
            await self._delete_connection()
        except Exception as error:  # of any kind: pending calls must fail, not wait
            self._begin_end(f"a message could not be sent: {_describe(error)}")

    async def _post(self, line: bytes) -> None:
        envelope = peek(line)
        if envelope.is_request and envelope.method == "initialize" and self._connection_id is None:
            await self._initialize(line, envelope)
            return
        session = envelope.session_id
        if session is None and envelope.is_answer and envelope.id is not None:
            session = self._request_sessions.pop(envelope.id, None)
        if session is not None:
            if envelope.method in _OPENING_METHODS:
                self._closed_sessions.discard(session)
            status = await self._stream(session).wait_opened()
            # A server that does not know the session yet uses the connection's own stream for it.
            if status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
                await self._on_refused(envelope, status, "the session's event stream cannot be opened")
                return
        response = await self._send_post(line, session)
        if response.status_code == HTTPStatus.NOT_FOUND and session is not None and envelope.method in _OPENING_METHODS:
            response = await self._send_post(line, None)
        if not response.is_success:
            await self._on_refused(envelope, response.status_code, _reason_in(response))
            return
        if envelope.method in ("session/close", "session/delete") and session is not None:
            self._closed_sessions.add(session)
        await self._receive_body(response)

    async def _send_post(self, line: bytes, session: str | None) -> httpx.Response:
        headers = {"Content-Type": "application/json", **self._ids(session)}
        return await self._client.post(self._address.url, content=line, headers=headers)

    async def _initialize(self, line: bytes, envelope: Envelope) -> None:
        """Post `initialize`, the one request whose answer is in the response, together with the connection's id."""
        response = await self._send_post(line, None)
        if not response.is_success:
            await self._on_refused(envelope, response.status_code, _reason_in(response))
            return
        self._connection_id = response.headers.get(CONNECTION_ID)
        if self._connection_id is None:
            self._begin_end(f"the server's answer to initialize has no {CONNECTION_ID} header: it is no ACP endpoint")
            return
        status = await self._stream(None).wait_opened()
        if status == HTTPStatus.OK:
            await self._receive_body(response)

    async def _receive_body(self, response: httpx.Response) -> None:
        if response.content.strip():
            await self._receive(b" ".join(response.content.split(b"\n")))

    async def _on_refused(self, envelope: Envelope, status: int, detail: str) -> None:
        reason = f"{self._address.shown} refused the message: HTTP {status}{f', {detail}' if detail else ''}"
        if not envelope.is_request:
            self._on_diagnostic(f"{envelope.method or 'an answer'}: {reason}")
            return
        if status == HTTPStatus.UNAUTHORIZED:
            reason += ". Pass the server's token: headers={'Authorization': 'Bearer …'}"
        error = {"code": _code_of(status), "message": reason, "data": {"status": status}}
        await self._incoming.put(msgspec.json.encode({"jsonrpc": "2.0", "id": envelope.id, "error": error}))

    async def _delete_connection(self) -> None:
        if self._connection_id is not None and self._end_reason is None:
            await self._client.delete(self._address.url, headers=self._ids(None))
        else:
            self._begin_end("closed")

    def _ids(self, session: str | None) -> dict[str, str]:
        ids = {} if self._connection_id is None else {CONNECTION_ID: self._connection_id}
        return ids if session is None else {**ids, SESSION_ID: session}

    # -- receiving

    def _stream(self, session: str | None) -> _Stream:
        """Return the stream of a session, or of the connection; open it if it is not open."""
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
                    del self._streams[session]  # the next message for the session opens it again
                    stream.set_status(response.status_code)
                    if session is None:
                        self._begin_end(f"the server refused the event stream: HTTP {response.status_code}")
                    return
                stream.set_status(HTTPStatus.OK)
                events = EventReader(self._limit)
                async for data in response.aiter_bytes():
                    for event in events.feed(data):
                        await self._receive(event)
        except EventTooLong as error:
            reason = f"the agent sent {error}"
        except Exception as error:  # of any kind, as above
            reason = f"the event stream was lost: {_describe(error)}"
        finally:
            stream.set_status(HTTPStatus.SERVICE_UNAVAILABLE)  # for a message that still waits for the stream to open
        self._streams.pop(session, None)
        if session is None or session not in self._closed_sessions:
            self._begin_end(reason)

    async def _receive(self, line: bytes) -> None:
        envelope = peek(line)
        if envelope.is_request and envelope.session_id is not None and envelope.id is not None:
            self._request_sessions[envelope.id] = envelope.session_id
        if envelope.new_session_id is not None:
            # Open before the session is known: its messages come by its own stream from now on.
            await self._stream(envelope.new_session_id).wait_opened()
        await self._incoming.put(line)

    # -- the end

    def _begin_end(self, reason: str) -> None:
        """End the connection: send nothing more, and read what the other streams still have for a moment."""
        if self._end_reason is None:
            self._end_reason = reason
            self._outgoing.abandon()
            self._draining = asyncio.get_running_loop().create_task(self._drain_streams(), name="dragoman http end")

    async def _drain_streams(self) -> None:
        open_streams = {stream.task for stream in self._streams.values()}
        while open_streams:
            done, open_streams = await asyncio.wait(open_streams, timeout=FINAL_DRAIN_S)
            if not done and not self._incoming.is_full:  # a stream that waits for our own reader is not late
                break
        await self._release()

    async def _release(self) -> None:
        tasks = [self._sender, *(stream.task for stream in self._streams.values())]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._client.aclose()
        self._incoming.end()
        self._ended.set()

    async def wait_ended(self) -> None:
        """Return when the connection is over; `read` may still return messages that came before."""
        await self._ended.wait()

    @property
    def end_reason(self) -> str | None:
        """The reason for the end of the connection; None while it lasts."""
        return self._end_reason

    async def end(self, grace: float) -> None:
        """Send the queued messages and close the connection, after `grace` seconds whatever the server does."""
        self.close()
        try:
            async with asyncio.timeout(grace):
                await self._ended.wait()
        except TimeoutError:
            self.abort()
            await self._ended.wait()

    def abort(self) -> None:
        """Close the connection at once."""
        self._begin_end("the connection was aborted")
        for stream in self._streams.values():
            stream.task.cancel()


class _Stream:
    """An event stream, and the HTTP status with which the server answered."""

    task: asyncio.Task[None]

    def __init__(self) -> None:
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def set_status(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)

    async def wait_opened(self) -> int:
        """Return the HTTP status."""
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


class _ErrorBody(msgspec.Struct, frozen=True):
    error: str | RpcError


def _reason_in(response: httpx.Response) -> str:
    """Return the server's reason, in the shapes in which servers give one."""
    try:
        error = msgspec.json.decode(response.content, type=_ErrorBody).error
        text = error if isinstance(error, str) else error.message
    except DECODE_ERRORS:
        text = response.content[:_MAX_SHOWN_CHARACTERS].decode("utf-8", "replace")
    return " ".join(text.split())[:_MAX_SHOWN_CHARACTERS]


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__


async def connect_http(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    on_diagnostic: Callable[[str], None],
    message_limit: int = DEFAULT_LINE_LIMIT_BYTES,
) -> HttpTransport:
    """Return a transport to an agent's server; `headers` go with every request.

    Raises `StartError` where no server listens. A server that speaks no ACP fails at the first message.
    """
    address, headers = parse_address(url, SCHEMES), check_headers(headers)
    try:
        import httpx
    except ImportError as error:
        raise InputError(
            f"connecting to an agent at {address.shown} needs the package `httpx`, which is not installed",
            guidance="Install it: pip install 'dragoman[http]'",
        ) from error
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=IDLE_REUSE_S)
    client = httpx.AsyncClient(
        headers=headers,
        # An event stream may be silent for hours, and callers have timeouts of their own.
        timeout=httpx.Timeout(None),
        limits=limits,
        transport=httpx.AsyncHTTPTransport(limits=limits, socket_options=list(KEEP_ALIVE)),
        # A proxy of the environment is meant for other hosts; few users except 127.0.0.1 from it.
        trust_env=not address.is_loopback,
    )
    try:
        # Any answer will do: this tells an address without a server from an agent that fails.
        await client.request("OPTIONS", address.url)
    except httpx.TransportError as error:
        await client.aclose()
        raise StartError(
            f"cannot connect to {address.shown}: {_describe(error)}",
            guidance="Check that the agent's server is running there.",
        ) from None
    except BaseException:
        await client.aclose()
        raise
    return HttpTransport(client, address, on_diagnostic=on_diagnostic, message_limit=message_limit)
