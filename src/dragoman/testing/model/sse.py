"""Server-sent events, as the model APIs write them."""

from __future__ import annotations

import msgspec


def event(data: object, name: str | None = None) -> bytes:
    """One event; `data` is sent as JSON, on one line."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"
