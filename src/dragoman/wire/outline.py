"""What can still be told of a line over the limit: whether it was an answer or a request, and whose.

Pure, and only for lines that were not kept whole: their beginning and their end are looked at, as bytes. An answer
that nobody learns of leaves its asker waiting for ever, and so does a request.
"""

from __future__ import annotations

import re

import msgspec

from dragoman.wire.messages import Oversized, RequestId

# A member of the outermost object whose value is short: what stands before the long one, in any order.
_MEMBER = re.compile(rb'\s*"(jsonrpc|id|method)"\s*:\s*("[^"\\]{0,200}"|-?\d{1,18})\s*,')
_OPENING = re.compile(rb"\s*\{")
_LONG = re.compile(rb'\s*"(params|result|error)"\s*:')
# An id that was written last. One closing brace, so it is the outermost object's.
_LAST = re.compile(rb',\s*"id"\s*:\s*("[^"\\]{0,200}"|-?\d{1,18})\s*\}\s*$')


class Outline(msgspec.Struct, frozen=True):
    """`method` is None for an answer."""

    id: RequestId
    method: str | None


def outline(line: Oversized) -> Outline | None:
    """The outline of a request or an answer; None for anything else, and where it cannot be told."""
    found = _OPENING.match(line.head)
    if found is None:
        return None
    short: dict[bytes, bytes] = {}
    position = found.end()
    while found := _MEMBER.match(line.head, position):
        short[found[1]] = found[2]
        position = found.end()
    long = _LONG.match(line.head, position)
    if b"id" not in short and (last := _LAST.search(line.tail)):
        short[b"id"] = last[1]
    if long is None or b"id" not in short:
        return None
    request_id = _scalar(short[b"id"])
    if long[1] != b"params":
        return Outline(request_id, None) if b"method" not in short else None
    method = _scalar(short.get(b"method", b'""'))
    return Outline(request_id, method) if isinstance(method, str) and method else None


def _scalar(text: bytes) -> int | str:
    """Without escapes, as matched above."""
    return text[1:-1].decode("utf-8", "replace") if text.startswith(b'"') else int(text)
