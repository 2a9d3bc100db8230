"""A JSON-RPC 2.0 peer without I/O: bytes in, messages out; calls in, lines out.

It owns the ids: which requests sent from here still wait for an answer, and which requests of the other side are still
to be answered. It never raises for anything that the other side sends. A line that is no message, or a message that
fits nothing (an answer without a request, a second answer, an id in use), becomes `Noise` with that line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import msgspec

from dragoman.errors import INTERNAL_ERROR
from dragoman.wire import lenient
from dragoman.wire.dialect import LATEST_VERSION, Dialect, dialect_for
from dragoman.wire.framing import DEFAULT_LINE_LIMIT_BYTES, LineFramer
from dragoman.wire.long_lines import STEP_BYTES, LongLine, is_mark
from dragoman.wire.messages import (
    DECODE_ERRORS,
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

# Messages that are read from one line. Two were seen, from agents whose threads write at the same time; a line of
# nothing but `{}` would be twenty million.
MAX_MESSAGES_PER_LINE = 100

# Lines other than well-formed updates that are read in one step of the event loop: a millisecond or two. What one read
# brings may be thirty thousand of them, and each may be a request, too.
MAX_SLOW_LINES_PER_PART = 64

_NOT_AN_UPDATE = (*DECODE_ERRORS, TypeError)


class _Envelope(msgspec.Struct, frozen=True):
    """Any JSON-RPC message, its contents undecoded. `jsonrpc` is not required: some agents leave it out."""

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
_lenient_json = json.JSONDecoder(parse_constant=lambda _: None)  # reads NaN as null, and half surrogate pairs


class Peer:
    """One side of one connection. Not safe for use from several threads."""

    def __init__(
        self,
        *,
        line_limit: int = DEFAULT_LINE_LIMIT_BYTES,
        dialect: Dialect | None = None,
        step_bytes: int = STEP_BYTES,
    ) -> None:
        """`step_bytes`: a line of more is read in several parts."""
        self._framer = LineFramer(line_limit)
        self._step_bytes = step_bytes
        self._dialect = dialect or dialect_for(LATEST_VERSION)
        self._next_id = 0
        self._sent: dict[RequestId, str] = {}  # requests sent from here without an answer yet: their methods
        self._owed: dict[RequestId, str] = {}  # requests of the other side that are not answered yet: their methods

    # -- reading

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that these bytes complete, in the order of the wire."""
        return [message for part in self.feed_in_parts(data) for message in part]

    def feed_in_parts(self, data: bytes) -> Iterator[list[Message]]:
        """Return the same in parts, each read when it is asked for: a flood can be handled in bounded steps.

        Of a long line the first parts are empty.
        """
        return self._read(self._framer.feed(data))

    def finish(self) -> list[Message]:
        """Return the messages of a last line without a newline, at the end of the stream."""
        return [message for part in self._read(self._framer.finish()) for message in part]

    def _read(self, lines: Iterable[bytes | Oversized]) -> Iterator[list[Message]]:
        read_update, step_bytes = self._dialect.read_update, self._step_bytes
        messages: list[Message] = []
        slow_lines = 0
        for line in lines:
            if len(line) > step_bytes and type(line) is bytes:
                yield messages
                long_line = LongLine(line, step_bytes)
                while long_line.step():
                    yield []
                yield self._read_long(long_line, line)
                messages, slow_lines = [], 0
                continue
            try:
                params = read_update(line).params  # type: ignore[arg-type]  # the odd Oversized is a TypeError
                messages.append(Update(params.session_id, params.update, line))  # type: ignore[arg-type]
            except _NOT_AN_UPDATE:
                messages.extend(self._read_carefully(line))
                slow_lines += 1
                if slow_lines == MAX_SLOW_LINES_PER_PART:
                    yield messages
                    messages, slow_lines = [], 0
        if messages:
            yield messages

    def _read_long(self, long_line: LongLine, line: bytes) -> list[Message]:
        short = long_line.short
        if short is None or _has_long_id(short):
            return self._read_line(line)
        messages = self._read_line(short)
        try:
            return [long_line.restore(message) for message in messages]
        except RecursionError:  # it was just not too deep to be decoded
            if all(type(message) is Update for message in messages):
                return self._read_line(line)
            # The data of an error. An answer is not read twice, and its caller has to get it.
            return [msgspec.structs.replace(message, line=line) for message in messages]

    def _read_line(self, line: bytes) -> list[Message]:
        try:
            params = self._dialect.read_update(line).params
            return [Update(params.session_id, params.update, line)]
        except DECODE_ERRORS:
            return self._read_carefully(line)

    def _read_carefully(self, line: bytes | Oversized) -> list[Message]:
        """Read any other line than a well-formed update; a microsecond more does not matter here."""
        if isinstance(line, Oversized):
            return [line]
        try:
            return [self._message(_envelope.decode(line), line)]
        except DECODE_ERRORS:
            return self._repaired(line)

    def _repaired(self, line: bytes) -> list[Message]:
        """Read a line with a byte-order mark, half a character, NaN, or several objects on it."""
        text = line.decode("utf-8", "replace").lstrip("\ufeff").strip()
        if not text:
            return [Noise("blank line", line)]
        messages: list[Message] = []
        position = 0
        reason = ""
        try:
            while position < len(text):
                if len(messages) == MAX_MESSAGES_PER_LINE:
                    reason = f"after {MAX_MESSAGES_PER_LINE} objects on one line"
                    break
                value, end = _lenient_json.raw_decode(text, position)
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
        except (*DECODE_ERRORS, ValueError) as error:  # ValueError: a number of more digits than Python reads
            reason = f"no message: {error}"
        if reason:
            # The messages before the broken part still count.
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
        method = self._sent.pop(envelope.id, None)
        if method is None:
            return Noise(f"an answer to an unknown request (id {envelope.id!r})", line)
        error = _read_error(envelope.error) if isinstance(envelope.error, msgspec.Raw) else None
        result = _NULL if envelope.result is msgspec.UNSET else envelope.result
        return Reply(envelope.id, method, result, error, line)

    def _notification(self, method: str, params: msgspec.Raw, line: bytes) -> Message:
        if method != "session/update":
            return Notification(method, params, line)
        try:
            decoded = _update_params.decode(params)
        except DECODE_ERRORS as error:
            return Noise(f"a session/update that cannot be read: {error}", line)
        return Update(decoded.session_id, self._dialect.decode_update(decoded.update), line)

    # -- writing

    def request(self, method: str, params: object) -> Request:
        """Return a request to send, with the next free id. Its answer is expected from now on."""
        request_id = self._next_id
        self._next_id += 1
        self._sent[request_id] = method
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

    # -- for readers that only listen to a connection

    def expect(self, request_id: RequestId, method: str) -> None:
        """Expect the answer to a request that another peer sent."""
        self._sent[request_id] = method

    def mark_answered(self, request_id: RequestId) -> None:
        """Take note that another peer answered a request of the other side."""
        self._owed.pop(request_id, None)

    def forget(self, request_id: RequestId) -> None:
        """Stop expecting an answer; should it come, it is noise."""
        self._sent.pop(request_id, None)


def _has_long_id(short: bytes) -> bool:
    """Return whether the id or the method of a message is a string of its own megabytes: an answer has to repeat it."""
    try:
        envelope = _envelope.decode(short)
    except DECODE_ERRORS:
        return False
    return is_mark(envelope.id) or is_mark(envelope.method)


def _envelope_of(text: str, value: object) -> _Envelope:
    try:
        return _envelope.decode(text)
    except DECODE_ERRORS:
        return _envelope.decode(lenient.encode_repaired(value))


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))


def _read_error(raw: msgspec.Raw) -> RpcError | None:
    """Read an error object of any shape: a malformed one must not hide its message. Return None for null."""
    if bytes(raw) == b"null":
        return None
    try:
        return lenient.decode(raw, RpcError)
    except msgspec.MsgspecError:
        return RpcError(code=INTERNAL_ERROR, message=bytes(raw).decode("utf-8", errors="replace"))
