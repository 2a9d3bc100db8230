"""As much of HTTP/1.1 as clients of model APIs use: requests read whole, answers whole or in chunks.

Bodies may come with a length, in chunks, and compressed; connections are kept alive. Nothing else is here: it listens
on loopback, to programs under test.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

# A long session with images in it, many times over.
MOST_BYTES: Final = 256 * 1024 * 1024
# The longest line of a head that asyncio's reader takes by default.
MOST_HEAD: Final = 64 * 1024

END: Final = b"0\r\n\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class BadRequest(ValueError):
    """What came is not HTTP as we know it: answered, and the connection closed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Head(Struct, frozen=True):
    method: str
    path: str
    query: str
    headers: Mapping[str, str]  # names in small letters
    keep_alive: bool


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next request's head; None where the client has left."""
    try:
        block = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise BadRequest(431, f"the head of the request is longer than {MOST_HEAD} bytes") from None
    return parse_head(block)


def parse_head(block: bytes) -> Head:
    first, *lines = block.decode("latin-1").strip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(400, f"this is no HTTP/1.1 request: {first[:80]!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest(400, f"this is no header: {line[:80]!r}")
        headers[name.strip().lower()] = value.strip()
    method, target, version = words
    parts = urlsplit(target)
    wish = headers.get("connection", "").lower()
    keep_alive = wish == "keep-alive" if version == "HTTP/1.0" else wish != "close"
    return Head(method, unquote(parts.path), parts.query, headers, keep_alive)


async def read_body(head: Head, reader: asyncio.StreamReader) -> bytes:
    if "chunked" in head.headers.get("transfer-encoding", "").lower():
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(_size(head.headers.get("content-length", "0"), 10))
    return _unpacked(body, head.headers.get("content-encoding", "identity").lower())


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := _size((await reader.readline()).split(b";")[0].strip().decode("latin-1"), 16):
        if len(body) + size > MOST_BYTES:
            raise BadRequest(413, f"the body is longer than {MOST_BYTES} bytes")
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    while (await reader.readline()).strip():
        pass  # trailers
    return bytes(body)


def _size(text: str, base: int) -> int:
    try:
        size = int(text, base)
    except ValueError:
        raise BadRequest(400, f"this is no length of a body: {text[:40]!r}") from None
    if not 0 <= size <= MOST_BYTES:
        raise BadRequest(413, f"the body's length is not between 0 and {MOST_BYTES} bytes: {text[:40]}")
    return size


def _unpacked(body: bytes, coding: str) -> bytes:
    if coding in ("identity", ""):
        return body
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise BadRequest(415, f"bodies in {coding} are not read here; send gzip or plain ones")
    unpacker = zlib.decompressobj(wbits=47)  # finds out by itself whether it is gzip or zlib
    try:
        plain = unpacker.decompress(body, MOST_BYTES)
    except zlib.error as problem:
        raise BadRequest(400, f"the body is not {coding}: {problem}") from None
    if unpacker.unconsumed_tail:
        raise BadRequest(413, f"the body is longer than {MOST_BYTES} bytes")
    if not unpacker.eof:
        raise BadRequest(400, f"the body's {coding} data ends in the middle")
    return plain


def whole(status: int, body: bytes, *, keep_alive: bool, head_only: bool = False) -> bytes:
    """An answer with its length."""
    head = _head(status, "application/json", f"Content-Length: {len(body)}", keep_alive)
    return head if head_only else head + body


def begin(kind: str, *, keep_alive: bool) -> bytes:
    """The head of an answer in chunks, which `chunk` and `END` follow."""
    return _head(200, kind, "Cache-Control: no-cache\r\nTransfer-Encoding: chunked", keep_alive)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _head(status: int, kind: str, more: str, keep_alive: bool) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Scripted"
    connection = "keep-alive" if keep_alive else "close"
    return (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {kind}\r\n{more}\r\nConnection: {connection}\r\n\r\n"
    ).encode()
