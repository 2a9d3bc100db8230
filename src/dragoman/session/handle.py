"""A session's snapshot: JSON that is enough to resume it in another process, with no secret in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.session.servers import exact
from dragoman.wire.vocabulary import McpServer

# How an entry of `secrets` begins; the name of the variable or server follows.
VARIABLE = "env "
SERVER = "mcp server "
HEADER = "header "
QUERY = "the url's query"

Offer: TypeAlias = Literal["read_files", "write_files", "terminals"]


class SessionHandle(msgspec.Struct, frozen=True, kw_only=True):
    """What `Session.snapshot()` gives. Values of environment variables and headers are never in it:
    `secrets` names what has to be passed again when the session is resumed. The command is in it as it was
    given: a key belongs into the environment, not there."""

    version: int = 1
    session_id: str
    agent_session_id: str
    agent: str | None = None  # the preset's id
    command: tuple[str, ...] = ()  # of an agent without preset, with what belongs to it
    url: str | None = None  # in place of a command
    name: str | None = None
    offers: tuple[Offer, ...] = ()
    auth_method: str | None = None
    cwd: str
    additional: tuple[str, ...] = ()
    access: str = "ask"
    network: bool | None = None
    web_search: bool | None = None
    model: str | None = None
    mode: str | None = None
    options: dict[str, str | bool] = {}  # all settings as they stood, mode and model among them
    system_prompt: str | None = None
    system_prompt_told: bool = False
    title: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    secrets: tuple[str, ...] = ()

    def secret_servers(self) -> list[str]:
        """The MCP servers that have to be passed again, by name."""
        return [secret.removeprefix(SERVER) for secret in self.secrets if secret.startswith(SERVER)]

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
    return msgspec.structs.replace(handle, mcp_servers=tuple(exact(server) for server in handle.mcp_servers))


def with_servers(handle: SessionHandle, servers: Sequence[McpServer] | None) -> SessionHandle:
    """The handle with servers that its snapshot had to leave out; one of a name that it has replaces that one."""
    if not servers:
        return handle
    given = {server.name for server in servers}
    kept = tuple(server for server in handle.mcp_servers if server.name not in given)
    still = tuple(secret for secret in handle.secrets if secret.removeprefix(SERVER) not in given)
    return msgspec.structs.replace(handle, mcp_servers=(*kept, *servers), secrets=still)
