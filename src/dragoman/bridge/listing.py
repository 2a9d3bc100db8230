"""Sessions as lists show them: the item and the state of each, and `SessionListing`, the list, for any number of
followers.

An item is made of a session's row in the journal and of what the hub knows about the session. The list also has all
pending permissions and questions. Each change has a number; a follower asks for what came after the last number it
knows. Important changes (a run began, an answer is needed, a title) wake followers at once; mere progress of a running
session does so twice a second.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from dragoman.bridge.broadcast import Waiters
from dragoman.bridge.rows import row_model
from dragoman.errors import AgentCrashed, AuthenticationRequired, CommandNotFound, DragomanError, StartError
from dragoman.hub.commands import describe
from dragoman.hub.owned_session import OwnedSession
from dragoman.journal.rows import RowChanges, SessionRows, Tombstone
from dragoman.journal.rows import Session as SessionRow
from dragoman.journal.sessions import descendants, is_sub_agent, worktree_of
from dragoman.protocol import models
from dragoman.protocol.models import (
    AgentCapabilities,
    ConnectionStatus,
    PendingItem,
    QueuedPrompt,
    SessionFailure,
    SessionItem,
    SessionState,
    SessionStatus,
)
from dragoman.record import rows
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
            worktree=worktree_of(row),
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
        worktree=worktree_of(row),
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
        forked_from=row.forked_from,
        worktree=worktree_of(row),
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


# Pause between two reports of a session's progress.
PROGRESS_PAUSE_S: Final = 0.5

_PendingRow: TypeAlias = rows.Permission | rows.Question


class _Entry:
    def __init__(self, row: SessionRow, item: SessionItem, number: int) -> None:
        self.row, self.item, self.number = row, item, number


class SessionListing:
    """The list of sessions. `make_item` builds the item of a session from its row, and from what this list knows."""

    def __init__(self, make_item: Callable[[SessionRow], SessionItem]) -> None:
        self._make_item = make_item
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # by number, the last changed last
        self._sub_agents: dict[str, set[str]] = {}  # ids of a session's sub-agents; it need not be listed
        self._removed: OrderedDict[str, int] = OrderedDict()
        self._pending: dict[str, dict[str, _PendingRow]] = {}
        self._number = 0
        self._woken_number = 0  # the number when followers were last woken
        self._pending_number = 0
        self._waiters = Waiters()
        self._timer: asyncio.TimerHandle | None = None

    # -- for followers

    @property
    def number(self) -> int:
        return self._number

    @property
    def pending_number(self) -> int:
        return self._pending_number

    def all_items(self) -> list[SessionItem]:
        return [entry.item for entry in self._entries.values()]

    def latest(
        self, limit: int, matches: Callable[[SessionItem], bool] = lambda _: True
    ) -> tuple[list[SessionItem], bool]:
        """The sessions with the newest frames, with their sub-agents; and whether there are more."""
        items = self.all_items()
        top_level = (item for item in items if not item.is_sub_agent and matches(item))
        matching = sorted(top_level, key=lambda item: -item.updated)
        chosen = matching[:limit]
        return [*chosen, *descendants(items, [item.id for item in chosen])], len(matching) > limit

    def since(self, number: int) -> tuple[list[SessionItem], list[str]]:
        """The sessions that changed after this number, and the ids of those that were removed."""
        changed = []
        for entry in reversed(self._entries.values()):
            if entry.number <= number:
                break
            changed.append(entry.item)
        changed.reverse()
        removed = []
        for session_id, removed_at in reversed(self._removed.items()):
            if removed_at <= number:
                break
            removed.append(session_id)
        return changed, removed

    def pending(self) -> list[PendingItem]:
        """All pending permissions and questions, oldest first."""
        items: list[tuple[float, PendingItem]] = []
        for session_id, pending_rows in self._pending.items():
            entry = self._entries.get(session_id)
            if entry is None:
                continue
            for row in pending_rows.values():
                match row_model(row):
                    case models.Permission() as permission:
                        items.append((row.time, PendingItem(session=entry.item, permission=permission)))
                    case models.Question() as question:
                        items.append((row.time, PendingItem(session=entry.item, question=question)))
                    case _:
                        pass
        return [item for _, item in sorted(items, key=lambda item: item[0])]

    async def wait(self, number: int) -> None:
        """Return when sessions changed after this number and the change is due to be sent."""
        await self._waiters.wait(lambda: self._woken_number > number)

    async def wait_for_pending(self, number: int) -> None:
        """Return when the pending permissions and questions changed after this number."""
        await self._waiters.wait(lambda: self._pending_number > number)

    # -- lookups

    def row(self, session_id: str) -> SessionRow | None:
        entry = self._entries.get(session_id)
        return entry.row if entry is not None else None

    def item(self, session_id: str) -> SessionItem | None:
        entry = self._entries.get(session_id)
        return entry.item if entry is not None else None

    def is_sub_agent(self, row: SessionRow) -> bool:
        return is_sub_agent(row, lambda session_id: row if session_id == row.id else self.row(session_id))

    def pending_question(self, session_id: str, question_id: str) -> rows.Question | None:
        row = self._pending.get(session_id, {}).get(question_id)
        return row if isinstance(row, rows.Question) else None

    def pending_in(self, session_id: str) -> int:
        return len(self._pending.get(session_id, ()))

    @property
    def running(self) -> int:
        return sum(entry.row.status == "running" for entry in self._entries.values())

    # -- changes

    def begin(self, sessions: Iterable[SessionRow]) -> None:
        for row in sessions:
            self._entries[row.id] = _Entry(row, self._make_item(row), 0)
            self._index(row)
        for entry in self._entries.values():
            if entry.row.parent is not None:
                entry.item = self._make_item(entry.row)  # now that its parent is listed

    def apply(self, change: RowChanges) -> None:
        """Apply the changes of a commit."""
        session: SessionRow | None = None
        pending = self._pending.get(change.session_id, {})
        before = set(pending)
        for row in change.puts:
            match row:
                case SessionRow():
                    session = row
                case rows.Permission() | rows.Question():
                    if _is_pending(row):
                        pending[row.id] = row
                    else:
                        pending.pop(row.id, None)
                case Tombstone():
                    self.remove(change.session_id)
                    return
                case _:
                    pass
        self._set_pending(change.session_id, pending, changed=set(pending) != before)
        if session is not None:
            self.put(session)

    def set_pending(self, session_id: str, session_rows: SessionRows) -> None:
        """Take the pending permissions and questions of a session from its rows."""
        candidates: list[_PendingRow] = [*session_rows.permissions, *session_rows.questions]
        pending = {row.id: row for row in candidates if _is_pending(row)}
        self._set_pending(session_id, pending, changed=set(pending) != set(self._pending.get(session_id, ())))

    def put(self, row: SessionRow) -> None:
        item = self._make_item(row)
        before = self._entries.get(row.id)
        self._number += 1
        self._entries[row.id] = _Entry(row, item, self._number)
        self._entries.move_to_end(row.id)
        self._index(row)
        self._removed.pop(row.id, None)
        if before is None:
            self._refresh_sub_agents(row.id)
        if before is not None and same_but_progress(before.item, item):
            self._wake_later()
        else:
            self._wake()

    def refresh(self, session_id: str) -> None:
        """Rebuild the item of a session: state outside its row changed."""
        entry = self._entries.get(session_id)
        if entry is not None and self._make_item(entry.row) != entry.item:
            self.put(entry.row)

    def remove(self, session_id: str) -> None:
        self._set_pending(session_id, {}, changed=session_id in self._pending)
        if self._entries.pop(session_id, None) is not None:
            self._number += 1
            self._removed[session_id] = self._number
            self._refresh_sub_agents(session_id)
            self._wake()

    def _index(self, row: SessionRow) -> None:
        if row.parent is not None:
            self._sub_agents.setdefault(row.parent, set()).add(row.id)

    def _refresh_sub_agents(self, session_id: str) -> None:
        """Rebuild the items of the sessions below one that was added or removed."""
        below = [session_id]
        for parent in below:
            below += self._sub_agents.get(parent, set()).difference(below)
        for sub_agent in below[1:]:
            self.refresh(sub_agent)

    def _set_pending(self, session_id: str, pending: dict[str, _PendingRow], *, changed: bool) -> None:
        if pending:
            self._pending[session_id] = pending
        else:
            self._pending.pop(session_id, None)
        if changed:
            self._pending_number += 1
            self._wake()

    def _wake_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PROGRESS_PAUSE_S, self._wake)

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._woken_number = self._number
        self._waiters.wake()


def _is_pending(row: _PendingRow) -> bool:
    return (row.outcome if isinstance(row, rows.Permission) else row.action) == "pending"


def same_but_progress(item: SessionItem, other: SessionItem) -> bool:
    """Return whether two items differ at most in the session's progress: its last frame and their number."""
    return item == msgspec.structs.replace(other, updated=item.updated, frames=item.frames)
