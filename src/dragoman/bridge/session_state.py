"""`SessionState` and `SessionItem` of a session: its row in the journal together with what the hub knows of it."""

from __future__ import annotations

import time

import msgspec

from dragoman.errors import AgentCrashed, AuthenticationRequired, CommandNotFound, DragomanError, StartError
from dragoman.hub.commands import describe
from dragoman.hub.owned_session import OwnedSession
from dragoman.journal.rows import Session as SessionRow
from dragoman.protocol.models import (
    AgentCapabilities,
    ConnectionStatus,
    QueuedPrompt,
    SessionFailure,
    SessionItem,
    SessionState,
    SessionStatus,
)
from dragoman.translate.ingest.report import is_at_work


def session_state(row: SessionRow, owned: OwnedSession | None, *, elsewhere: bool, pending: int) -> SessionState:
    """The state of a session. `owned`: the session, if this process has it; `elsewhere`: another process has it."""
    if owned is None:
        connection, status = _not_here(row, pending, elsewhere=elsewhere)
        return SessionState(
            connection=connection,
            status=status,
            reason="The last run was interrupted." if row.status == "interrupted" and not elsewhere else "",
            can_resume=row.handle is not None and not elsewhere,
        )
    session = owned.session
    return SessionState(
        connection=owned.connection,
        status=_status(row, owned, pending),
        reason=_reason(owned),
        failure=failure_details(owned.error, owned),
        capabilities=_capabilities(owned),
        queue=tuple(
            QueuedPrompt(
                id=queued.id,
                text=queued.prompt.text,
                attachments=tuple(map(describe, queued.prompt.attachments)),
                time=queued.time,
            )
            for queued in owned.queue
        ),
        can_resume=row.handle is not None,
        policy_notice=session.policy_notice if session is not None else None,
    )


def session_item(
    row: SessionRow, owned: OwnedSession | None, *, pending: int, is_sub_agent: bool = False
) -> SessionItem:
    """A session as lists show it. A running session that this process does not have is running elsewhere."""
    if owned is not None:
        connection: ConnectionStatus = owned.connection
        status = _status(row, owned, pending)
    else:
        connection, status = _not_here(row, pending, elsewhere=row.status == "running" and not row.imported)
    return SessionItem(
        id=row.id,
        agent=row.agent,
        title=row.title,
        prompt=row.prompt,
        cwd=row.cwd,
        created=row.created,
        updated=row.updated,
        runs=row.runs,
        frames=row.frames,
        run_status=row.status,
        connection=connection,
        status=status,
        pending=pending,
        imported=row.imported,
        agent_session_id=row.agent_session_id,
        parent=row.parent,
        is_sub_agent=is_sub_agent,
    )


def _status(row: SessionRow, owned: OwnedSession, pending: int) -> SessionStatus:
    """By the committed row: clients never see a status ahead of its cause."""
    if owned.connection == "starting":
        return "running"
    if owned.session is None or owned.connection != "connected":
        return "error" if owned.error is not None else "idle"
    return _run_status(row, pending)


def _not_here(row: SessionRow, pending: int, *, elsewhere: bool) -> tuple[ConnectionStatus, SessionStatus]:
    """Connection and status of a session that this process does not have open."""
    status = _run_status(row, pending)
    if elsewhere:
        return "elsewhere", status
    if is_at_work(row, time.time()):
        return "watched", status
    # A transcript that ends in the middle of a run may never get the end of that run.
    return "none", "idle" if row.imported else status


def _run_status(row: SessionRow, pending: int) -> SessionStatus:
    if row.status != "running":
        return "idle"
    return "waiting" if pending else "running"


def _reason(owned: OwnedSession) -> str:
    failure = str(owned.error) if owned.error is not None else ""
    match owned.connection:
        case "starting":
            return ""
        case "disconnected":
            return failure or "The session was closed."
        case "error":
            return failure
        case "connected":
            return (
                f"{len(owned.queue)} queued, waiting for you to continue"
                if owned.queue.paused and owned.queue
                else failure
            )


def failure_details(error: DragomanError | None, owned: OwnedSession | None = None) -> SessionFailure | None:
    if error is None:
        return None
    actions: list[str] = []
    match error:
        case AuthenticationRequired():
            actions.append("login")
        case CommandNotFound():
            actions += ["install", "settings"]
        case StartError():
            actions += ["restart", "settings"]
        case AgentCrashed():
            actions.append("restart")
        case _:
            pass
    if owned is not None and owned.connection in ("disconnected", "error") and "restart" not in actions:
        actions.append("restart")
    if "restart" in actions:
        actions.append("restart_and_reload")
    stderr = getattr(error, "stderr", "")
    if not stderr and owned is not None and owned.session is not None:
        stderr = owned.session.stderr_tail()
    return SessionFailure(
        kind=type(error).__name__,
        category=error.category,
        message=str(error),
        guidance=error.guidance,
        stderr=stderr,
        actions=tuple(actions),
        install=error.install if isinstance(error, CommandNotFound) else None,
    )


def _capabilities(owned: OwnedSession) -> AgentCapabilities:
    if owned.session is None or owned.connection != "connected":
        return AgentCapabilities()
    return msgspec.convert(owned.session.capabilities(), AgentCapabilities, from_attributes=True)
