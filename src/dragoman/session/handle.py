"""A session's snapshot: JSON that is enough to resume it in another process, with no secret in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.errors import InputError
from dragoman.wire.vocabulary import McpServer


class SessionHandle(msgspec.Struct, frozen=True, kw_only=True):
    """What `Session.snapshot()` gives. Values of environment variables and headers are never in it:
    `secrets` names what has to be passed again when the session is resumed."""

    version: int = 1
    session_id: str
    agent_session_id: str
    agent: str | None = None  # the preset's id
    command: tuple[str, ...] = ()
    cwd: str
    additional: tuple[str, ...] = ()
    access: str = "ask"
    network: bool | None = None
    web_search: bool | None = None
    model: str | None = None
    mode: str | None = None
    title: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    secrets: tuple[str, ...] = ()

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def read_handle(given: SessionHandle | str | bytes | Mapping[str, object]) -> SessionHandle:
    """A handle from wherever it was kept."""
    if isinstance(given, SessionHandle):
        return given
    try:
        if isinstance(given, Mapping):
            handle = msgspec.convert(given, SessionHandle)
        else:
            handle = msgspec.json.decode(given, type=SessionHandle)
    except msgspec.MsgspecError as problem:
        raise InputError(f"this is no session handle: {problem}") from problem
    if handle.version != 1:
        raise InputError(
            f"this session handle has version {handle.version}; this Dragoman reads version 1",
            guidance="Install a newer Dragoman.",
        )
    return handle
