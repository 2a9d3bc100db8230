"""A JSON-RPC 2.0 peer without I/O: bytes in, messages out; calls in, lines out.

It owns the ids: which of our requests still wait for an answer, and which of theirs we still owe one.
It never raises for anything the other side sends. What is no message, or fits nothing (an answer to
no question, a second answer, an id in use), comes out as `Noise`, with the line it came in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from dragoman.errors import INTERNAL_ERROR
from dragoman.wire import lenient
from dragoman.wire.dialect import LATEST_VERSION, Dialect, dialect_for
from dragoman.wire.framing import DEFAULT_LINE_LIMIT, LineFramer
from dragoman.wire.messages import (
    UNREADABLE,
    Message,
    Noise,
    Notification,
    Oversized,
    Reply,
    Request,
    RequestId,
    RpcError,
    Update,
)

_NULL = msgspec.Raw(b"null")

# Messages that are taken from one line. Two were seen, of agents whose threads write at the same time; a line of
# nothing but `{}` would be twenty million.
MOST_ON_A_LINE = 1000

_NOT_AN_UPDATE = (*UNREADABLE, TypeError)


class _Envelope(msgspec.Struct, frozen=True):
    """Any JSON-RPC message, its contents unread. `jsonrpc` is not asked for: some agents leave it out."""

    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = _NULL
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _UpdateParams(msgspec.Struct, frozen=True):
    session_id: str = msgspec.field(name="sessionId")
    update: msgspec.Raw


class _RequestLine(msgspec.Struct, frozen=True):
    id: RequestId
    method: str
    params: msgspec.Raw
    jsonrpc: str = "2.0"


class _NotificationLine(msgspec.Struct, frozen=True):
    method: str
    params: msgspec.Raw
    jsonrpc: str = "2.0"


class _ResultLine(msgspec.Struct, frozen=True):
    id: RequestId
    result: msgspec.Raw
    jsonrpc: str = "2.0"


class _ErrorLine(msgspec.Struct, frozen=True):
    id: RequestId
    error: RpcError
    jsonrpc: str = "2.0"


_envelope = msgspec.json.Decoder(_Envelope)
_update_params = msgspec.json.Decoder(_UpdateParams)
_encode = msgspec.json.Encoder().encode
_plain = json.JSONDecoder(parse_constant=lambda _: None)  # takes NaN, as null, and halves of surrogate pairs


class Peer:
    """One side of one connection. Not safe for use from several threads."""

    def __init__(self, *, line_limit: int = DEFAULT_LINE_LIMIT, dialect: Dialect | None = None) -> None:
        self._framer = LineFramer(line_limit)
        self._dialect = dialect or dialect_for(LATEST_VERSION)
        self._next_id = 0
        self._asked: dict[RequestId, str] = {}  # our requests without an answer yet, by id: the method
        self._owed: dict[RequestId, str] = {}  # theirs that we have not answered

    # -- what comes in

    def feed(self, data: bytes) -> list[Message]:
        """The messages that these bytes complete, in the order of the wire."""
        return self._read(self._framer.feed(data))

    def finish(self) -> list[Message]:
        """The stream has ended; a last line without newline still counts."""
        return self._read(self._framer.finish())

    def _read(self, lines: Iterable[bytes | Oversized]) -> list[Message]:
        read_update = self._dialect.read_update
        messages: list[Message] = []
        for line in lines:
            try:
                params = read_update(line).params  # type: ignore[arg-type]  # the odd Oversized is a TypeError
                messages.append(Update(params.session_id, params.update, line))  # type: ignore[arg-type]
            except _NOT_AN_UPDATE:
                messages.extend(self._read_carefully(line))
        return messages

    def _read_carefully(self, line: bytes | Oversized) -> list[Message]:
        """Everything but a well-formed update: a microsecond more matters to none of it."""
        if isinstance(line, Oversized):
            return [line]
        try:
            return [self._message(_envelope.decode(line), line)]
        except UNREADABLE:
            return self._repaired(line)

    def _repaired(self, line: bytes) -> list[Message]:
        """A line with a byte-order mark, half a character, NaN, or several objects on it still carries messages."""
        text = line.decode("utf-8", "replace").lstrip("\ufeff").strip()
        if not text:
            return [Noise("blank line", line)]
        messages: list[Message] = []
        position = 0
        reason = ""
        try:
            while position < len(text):
                if len(messages) == MOST_ON_A_LINE:
                    reason = f"after {MOST_ON_A_LINE} objects on one line"
                    break
                value, end = _plain.raw_decode(text, position)
                if not isinstance(value, dict):
                    reason = "JSON, but not an object"
                    break
                piece = line if position == 0 and end == len(text) else text[position:end].encode()
                messages.append(self._message(_envelope_of(text[position:end], value), piece))
                position = end
                while position < len(text) and text[position].isspace():
                    position += 1
        except json.JSONDecodeError:
            reason = "not JSON"
        except (*UNREADABLE, ValueError) as problem:  # ValueError: a number of more digits than Python reads
            reason = f"no message: {problem}"
        if reason:
            # What was read before the broken part still counts.
            messages.append(Noise(reason, text[position:].encode() if messages else line))
        return messages

    def _message(self, envelope: _Envelope, line: bytes) -> Message:
        if envelope.method is not msgspec.UNSET:
            if envelope.id is msgspec.UNSET or envelope.id is None:
                return self._notification(envelope.method, envelope.params, line)
            if envelope.id in self._owed:
                return Noise(f"request id {envelope.id!r} is still in use", line)
            self._owed[envelope.id] = envelope.method
            return Request(envelope.id, envelope.method, envelope.params, line)
        if envelope.result is msgspec.UNSET and envelope.error is msgspec.UNSET:
            return Noise("an object that is no message", line)
        if envelope.id is msgspec.UNSET or envelope.id is None:
            return Noise("an answer without an id", line)
        method = self._asked.pop(envelope.id, None)
        if method is None:
            return Noise(f"an answer to no question of ours (id {envelope.id!r})", line)
        error = _read_error(envelope.error) if isinstance(envelope.error, msgspec.Raw) else None
        result = _NULL if envelope.result is msgspec.UNSET else envelope.result
        return Reply(envelope.id, method, result, error, line)

    def _notification(self, method: str, params: msgspec.Raw, line: bytes) -> Message:
        if method != "session/update":
            return Notification(method, params, line)
        try:
            decoded = _update_params.decode(params)
        except UNREADABLE as problem:
            return Noise(f"a session/update that cannot be read: {problem}", line)
        return Update(decoded.session_id, self._dialect.decode_update(decoded.update), line)

    # -- what goes out

    def request(self, method: str, params: object) -> Request:
        """Return a request to send, with the next free id. Its answer is expected from now on."""
        request_id = self._next_id
        self._next_id += 1
        self._asked[request_id] = method
        raw = _raw(params)
        return Request(request_id, method, raw, _encode(_RequestLine(request_id, method, raw)))

    def notify(self, method: str, params: object) -> Notification:
        """Return a notification to send."""
        raw = _raw(params)
        return Notification(method, raw, _encode(_NotificationLine(method, raw)))

    def answer(self, request_id: RequestId, result: object) -> Reply | None:
        """Return the answer to send; None when none is owed (any more): a late answer is not sent."""
        if (method := self._owed.get(request_id)) is None:
            return None
        raw = _raw(result)  # before the request counts as answered: the result may not be writable as JSON
        del self._owed[request_id]
        return Reply(request_id, method, raw, None, _encode(_ResultLine(request_id, raw)))

    def refuse(self, request_id: RequestId, error: RpcError) -> Reply | None:
        """Return the error to send as the answer; None when none is owed."""
        method = self._owed.pop(request_id, None)
        return None if method is None else self.refuse_unread(request_id, method, error)

    def refuse_unread(self, request_id: RequestId, method: str, error: RpcError) -> Reply:
        """Return the error to send for a request that was too long to be read, and so is not known as owed."""
        return Reply(request_id, method, _NULL, error, _encode(_ErrorLine(request_id, error)))

    def expect(self, request_id: RequestId, method: str) -> None:
        """A request that went out by another way: its answer will come in here. For listeners."""
        self._asked[request_id] = method

    def settled(self, request_id: RequestId) -> None:
        """A request of theirs that was answered by another way. For listeners."""
        self._owed.pop(request_id, None)

    def forget(self, request_id: RequestId) -> None:
        """Nobody waits for this answer any more; should it come, it is noise."""
        self._asked.pop(request_id, None)


def _envelope_of(text: str, value: object) -> _Envelope:
    try:
        return _envelope.decode(text)
    except UNREADABLE:
        return _envelope.decode(lenient.restated(value))


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))


def _read_error(raw: msgspec.Raw) -> RpcError | None:
    """An error object of any shape: what is wrong with it must not hide what it says. Null is none."""
    if bytes(raw) == b"null":
        return None
    try:
        return lenient.decode(raw, RpcError)
    except msgspec.MsgspecError:
        return RpcError(code=INTERNAL_ERROR, message=bytes(raw).decode("utf-8", errors="replace"))
