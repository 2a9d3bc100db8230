"""From a living session to its handle: what is kept, and what is left out because it is secret."""

from __future__ import annotations

import re
from typing import Final

from dragoman.record.fold import SessionFold
from dragoman.session.handle import HEADER, QUERY, SERVER, VARIABLE, Offer, SessionHandle
from dragoman.session.spec import AgentSpec, SessionConfig
from dragoman.wire.vocabulary import McpServer

_OFFERS: Final[tuple[Offer, ...]] = ("read_files", "write_files", "terminals")

# Better to ask for a server again than to keep its key.
_TELLING = re.compile(r"key|token|secret|passw|credential|auth|bearer|@", re.IGNORECASE)


def handle_of(
    spec: AgentSpec,
    config: SessionConfig,
    session_id: str,
    agent_session_id: str,
    fold: SessionFold,
    *,
    system_prompt_told: bool,
) -> SessionHandle:
    open_servers = tuple(server for server in config.mcp_servers if not _secret(server))
    own = [name for name, value in spec.env.items() if value is not None]
    secrets = [f"{VARIABLE}{name}" for name in (own if spec.preset is None else spec.given)]
    secrets += [QUERY] if "?" in (spec.url or "") else []
    secrets += [f"{HEADER}{name}" for name in spec.headers]
    secrets += [f"{SERVER}{server.name}" for server in config.mcp_servers if _secret(server)]
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
        access=config.access,
        network=config.network,
        web_search=config.web_search,
        model=_current(fold, "model"),
        mode=_current(fold, "mode"),
        options={key: setting.current for key, setting in fold.settings.items() if setting.current is not None},
        system_prompt=config.system_prompt,
        system_prompt_told=system_prompt_told,
        title=fold.title,
        mcp_servers=open_servers,
        secrets=tuple(secrets),
    )


def _secret(server: McpServer) -> bool:
    """Environment values, headers, what stands in a URL behind `?` and `#` or before `@`, and arguments that
    speak of such things may be credentials."""
    return (
        bool(server.env or server.headers or server.meta)
        or any(mark in (server.url or "") for mark in "?#@")
        or any(_TELLING.search(argument) for argument in server.args)
    )


def _current(fold: SessionFold, category: str) -> str | None:
    setting = fold.setting(category)
    return setting.current if setting is not None and isinstance(setting.current, str) else None
