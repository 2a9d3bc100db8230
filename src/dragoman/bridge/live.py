"""How it stands with a session right now, in the words of the socket. Pure but for looking at session and clock."""

from __future__ import annotations

import time

from dragoman.bridge.payload import Abilities, Connection, Live, Problem, Queued, SessionItem, Status
from dragoman.errors import AgentCrashed, AuthenticationRequired, CommandNotFound, DragomanError, StartError
from dragoman.hub.owned_session import OwnedSession
from dragoman.hub.prompting import describe
from dragoman.journal.rows import Session as SessionRow
from dragoman.translate.ingest.report import is_at_work


def live_of(row: SessionRow, held: OwnedSession | None, *, elsewhere: bool, waiting: int) -> Live:
    continuable = row.handle is not None
    if held is None:
        connection, status = _not_here(row, waiting, elsewhere=elsewhere)
        return Live(
            connection=connection,
            status=status,
            reason="" if elsewhere else _last(row),
            continuable=continuable and not elsewhere,
        )
    session = held.session
    problem = problem_of(held.problem, held)
    return Live(
        connection=held.connection,
        status=status_of(row, held, waiting),
        reason=_reason(held, row),
        problem=problem,
        abilities=_abilities(held),
        queue=tuple(
            Queued(
                id=one.id,
                text=one.prompt.text,
                attachments=tuple(map(describe, one.prompt.attachments)),
                time=one.time,
            )
            for one in held.queue
        ),
        continuable=continuable,
        policy_notice=session.policy_notice if session is not None else None,
    )


def status_of(row: SessionRow, held: OwnedSession, waiting: int) -> Status:
    """By what is committed: what nobody was told of yet is not shown."""
    if held.connection == "starting":
        return "running"
    if held.session is None or held.connection != "connected":
        return "error" if held.problem is not None else "idle"
    return _of_run(row, waiting)


def _not_here(row: SessionRow, waiting: int, *, elsewhere: bool) -> tuple[Connection, Status]:
    """Of a session that this process does not have open."""
    status = _of_run(row, waiting)
    if elsewhere:
        return "elsewhere", status
    if is_at_work(row, time.time()):
        return "watched", status
    # Of a transcript that was left in the middle of a run nobody may ever say that it is over.
    return "none", "idle" if row.imported else status


def _of_run(row: SessionRow, waiting: int) -> Status:
    if row.status != "running":
        return "idle"
    return "waiting" if waiting else "running"


def _reason(held: OwnedSession, row: SessionRow) -> str:
    match held.connection:
        case "starting":
            return ""
        case "disconnected":
            return str(held.problem) if held.problem is not None else "it was closed"
        case "error":
            return str(held.problem) if held.problem is not None else ""
        case "connected":
            waits = f"{len(held.queue)} queued, waiting for you to go on" if held.queue.paused and held.queue else ""
            return waits or (str(held.problem) if held.problem is not None else "")


def _last(row: SessionRow) -> str:
    return "The last run was cut." if row.status == "interrupted" else ""


def problem_of(problem: DragomanError | None, held: OwnedSession | None = None) -> Problem | None:
    if problem is None:
        return None
    actions: list[str] = []
    match problem:
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
    if held is not None and held.connection in ("disconnected", "error") and "restart" not in actions:
        actions.append("restart")
    if "restart" in actions:
        actions.append("restart_and_reload")
    stderr = getattr(problem, "stderr", "")
    if not stderr and held is not None and held.session is not None:
        stderr = held.session.stderr_tail()
    return Problem(
        kind=type(problem).__name__,
        category=problem.category,
        message=str(problem),
        guidance=problem.guidance,
        stderr=stderr,
        actions=tuple(actions),
        install=problem.install if isinstance(problem, CommandNotFound) else None,
    )


def _abilities(held: OwnedSession) -> Abilities:
    if held.session is None or held.connection != "connected":
        return Abilities()
    offered = held.session.capabilities()
    return Abilities(
        load=offered.load,
        resume=offered.resume,
        fork=offered.fork,
        close=offered.close,
        image=offered.image,
        audio=offered.audio,
        embedded_context=offered.embedded_context,
        list=offered.list,
        delete=offered.delete,
        additional_directories=offered.additional_directories,
        system_prompt=offered.system_prompt,
        mcp_http=offered.mcp_http,
        mcp_sse=offered.mcp_sse,
        logout=offered.logout,
        protocol_version=offered.protocol_version,
        agent_name=offered.agent_name,
        agent_version=offered.agent_version,
    )


def item_of(row: SessionRow, held: OwnedSession | None, *, waiting: int) -> SessionItem:
    """A session as lists show it. One that runs, and is not here, runs elsewhere."""
    if held is not None:
        connection: Connection = held.connection
        status = status_of(row, held, waiting)
    else:
        connection, status = _not_here(row, waiting, elsewhere=row.status == "running" and not row.imported)
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
        waiting=waiting,
        imported=row.imported,
        agent_session_id=row.agent_session_id,
        parent=row.parent,
    )
