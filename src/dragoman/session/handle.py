"""`SessionHandle`: a session's snapshot, JSON that is enough to resume it in another process, with no secret in it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.protocol.messages import Scope
from dragoman.protocol.worktrees import SessionWorktree
from dragoman.record.fold import SessionFold
from dragoman.session.options import (
    AGENT_CATEGORIES,
    AGENT_SETTINGS,
    ResumeOptions,
    SessionConfig,
    StoredSettings,
    callbacks_in,
    check_rules,
    exact_server,
    read_agent_value,
    settings_in,
)
from dragoman.session.spec import AgentSpec
from dragoman.wire.vocabulary import McpServer
from dragoman.workspace import Workspace

# How an entry of `secrets` begins; the name of the variable or server follows.
VARIABLE = "env "
SERVER = "mcp server "
HEADER = "header "
QUERY = "the url's query"

Offer: TypeAlias = Literal["read_files", "write_files", "terminals"]
_OFFERS: Final[tuple[Offer, ...]] = ("read_files", "write_files", "terminals")

# Words of an argument that may be a credential: better to ask for a server again than to store its key.
_SUSPICIOUS_WORDS = re.compile(r"key|token|secret|passw|credential|auth|bearer|@", re.IGNORECASE)


class SessionHandle(StoredSettings, frozen=True, kw_only=True):
    """The handle that `Session.snapshot()` returns.

    Values of environment variables and headers are never in it: `secrets` names what has to be passed again when the
    session is resumed. The command is in it as it was given: a key belongs into the environment, not there.
    """

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
    system_prompt_sent: bool = False
    title: str | None = None
    secrets: tuple[str, ...] = ()
    opened_by: Scope = "admin"
    worktree: SessionWorktree | None = None
    isolated_home: str | None = None  # the name of the HOME in which its agent remembers it

    def secret_servers(self) -> list[str]:
        """Return the names of the MCP servers that have to be passed again."""
        return [secret.removeprefix(SERVER) for secret in self.secrets if secret.startswith(SERVER)]

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    def to_dict(self) -> dict[str, Any]:
        """Return the handle as plain JSON values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def read_handle(source: SessionHandle | str | bytes | Mapping[str, object]) -> SessionHandle:
    """Read a handle from wherever it was stored."""
    if isinstance(source, SessionHandle):
        return source
    try:
        if isinstance(source, Mapping):
            handle = msgspec.convert(source, SessionHandle)
        else:
            handle = msgspec.json.decode(source, type=SessionHandle)
    except msgspec.MsgspecError as error:
        raise InputError(f"this is no session handle: {error}") from error
    if handle.version != 1:
        raise InputError(
            f"this session handle has version {handle.version}; this Dragoman reads version 1",
            guidance="Install a newer Dragoman.",
        )
    return msgspec.structs.replace(handle, mcp_servers=tuple(exact_server(server) for server in handle.mcp_servers))


def with_servers(handle: SessionHandle, servers: Sequence[McpServer] | None) -> SessionHandle:
    """Return the handle with servers that its snapshot had to leave out; one of the same name is replaced."""
    if not servers:
        return handle
    names = {server.name for server in servers}
    others = tuple(server for server in handle.mcp_servers if server.name not in names)
    secrets = tuple(secret for secret in handle.secrets if secret.removeprefix(SERVER) not in names)
    return msgspec.structs.replace(handle, mcp_servers=(*others, *servers), secrets=secrets)


def workspace_of(handle: SessionHandle) -> Workspace:
    """Return the workspace of a stored session. Raises `InputError`; for a worktree that is gone, with the way back."""
    if handle.worktree is not None and not os.path.isdir(handle.cwd):
        name = handle.worktree.name
        raise InputError(
            f"the worktree {name} of this session is gone: {handle.cwd}",
            guidance=f"If it was dropped, it can be recovered: dragoman worktree recover {name}",
        )
    origin = Path(handle.worktree.cwd) if handle.worktree is not None else None
    return Workspace(handle.cwd, handle.additional, origin)


def config_of_handle(handle: SessionHandle) -> SessionConfig:
    """Return the config that the session had before, as far as a handle stores it."""
    if secret := handle.secret_servers():
        raise InputError(
            f"this session was opened with MCP servers that a snapshot does not store: {', '.join(secret)}",
            guidance="Pass them again, in the config.",
        )
    return SessionConfig(
        workspace=workspace_of(handle),
        opened_by=handle.opened_by,
        worktree=handle.worktree,
        **settings_in(handle, without=AGENT_SETTINGS),
    )


def handle_of(
    spec: AgentSpec,
    config: SessionConfig,
    session_id: str,
    agent_session_id: str,
    fold: SessionFold,
    *,
    system_prompt_sent: bool,
) -> SessionHandle:
    """Take the snapshot of a living session, without what is secret."""
    open_servers = tuple(server for server in config.mcp_servers if not _may_hold_secret(server))
    own = [name for name, value in spec.env.items() if value is not None]
    secrets = [f"{VARIABLE}{name}" for name in (own if spec.preset is None else spec.given)]
    secrets += [QUERY] if "?" in (spec.url or "") else []
    secrets += [f"{HEADER}{name}" for name in spec.headers]
    secrets += [f"{SERVER}{server.name}" for server in config.mcp_servers if _may_hold_secret(server)]
    return SessionHandle(
        session_id=session_id,
        agent_session_id=agent_session_id,
        agent=spec.preset,
        command=() if spec.preset else tuple(spec.command),
        url=spec.url.partition("?")[0] if spec.url else None,
        name=None if spec.preset else spec.name,
        offers=() if spec.preset else tuple(offer for offer in _OFFERS if getattr(spec, offer)),
        auth_method=None if spec.preset else spec.auth_method,
        cwd=str(config.workspace.cwd),
        additional=tuple(str(folder) for folder in config.workspace.additional),
        system_prompt_sent=system_prompt_sent,
        title=fold.title,
        secrets=tuple(secrets),
        opened_by=config.opened_by,
        worktree=config.worktree if isinstance(config.worktree, SessionWorktree) else None,
        isolated_home=spec.isolation.name if spec.isolation is not None else None,
        **{**settings_in(config), **agent_settings(fold), "mcp_servers": open_servers},
    )


def agent_settings(fold: SessionFold) -> dict[str, Any]:
    """Return the settings that the agent has now, under their names in a snapshot."""
    current = {name: fold.setting(category) for name, category in AGENT_CATEGORIES.items()}
    return {
        **{
            name: None if setting is None else read_agent_value(name, setting.current)
            for name, setting in current.items()
        },
        "options": {key: setting.current for key, setting in fold.settings.items() if setting.current is not None},
    }


def _may_hold_secret(server: McpServer) -> bool:
    """Return whether a server may hold credentials: environment values, headers, the parts of a URL behind `?` and `#`
    or before `@`, and arguments that speak of such things."""
    return (
        bool(server.env or server.headers or server.meta)
        or any(mark in (server.url or "") for mark in "?#@")
        or any(_SUSPICIOUS_WORDS.search(argument) for argument in server.args)
    )


def resumed_config(handle: SessionHandle, options: ResumeOptions) -> SessionConfig:
    """Return the configuration of a resumed session: that of its snapshot, with new callbacks and rules."""
    return msgspec.structs.replace(
        config_of_handle(handle),
        rules=check_rules(options.get("rules", ())),
        **callbacks_in(options),
    )
