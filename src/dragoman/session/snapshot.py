"""From a living session to its handle: what is kept, and what is left out because it is secret."""

from __future__ import annotations

from dragoman.record.fold import SessionFold
from dragoman.session.handle import SessionHandle
from dragoman.session.spec import AgentSpec, SessionConfig
from dragoman.wire.vocabulary import McpServer


def handle_of(
    spec: AgentSpec, config: SessionConfig, session_id: str, agent_session_id: str, fold: SessionFold
) -> SessionHandle:
    open_servers = tuple(server for server in config.mcp_servers if not _secret(server))
    secrets = [f"env {name}" for name, value in spec.env.items() if value is not None and spec.preset is None]
    secrets += [f"mcp server {server.name}" for server in config.mcp_servers if _secret(server)]
    return SessionHandle(
        session_id=session_id,
        agent_session_id=agent_session_id,
        agent=spec.preset,
        command=() if spec.preset else tuple(spec.command),
        cwd=str(config.workspace.cwd),
        additional=tuple(str(folder) for folder in config.workspace.additional),
        access=config.access,
        network=config.network,
        web_search=config.web_search,
        model=_current(fold, "model"),
        mode=_current(fold, "mode"),
        title=fold.title,
        mcp_servers=open_servers,
        secrets=tuple(secrets),
    )


def _secret(server: McpServer) -> bool:
    """Environment values, headers, and what stands in a URL behind `?` or before `@` may be credentials."""
    return bool(server.env or server.headers) or any(mark in (server.url or "") for mark in "?@")


def _current(fold: SessionFold, category: str) -> str | None:
    setting = fold.setting(category)
    return setting.current if setting is not None and isinstance(setting.current, str) else None
