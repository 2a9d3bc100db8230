"""Owners and the inbox in SQLite. Each function works in the transaction that is at hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from dragoman.journal.errors import NotTheOwner
from dragoman.journal.protocols import Command, CommandState, Owner, Process

# Seconds after which a process that gave no sign and owns nothing need not be remembered.
FORGOTTEN_AFTER: Final = 24 * 3600.0


def heartbeat(connection: sqlite3.Connection, process: Process) -> None:
    connection.execute(
        "INSERT INTO processes VALUES(?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET heartbeat = excluded.heartbeat",
        (process.id, process.host, process.pid, process.started, process.heartbeat),
    )
    connection.execute(
        "DELETE FROM processes WHERE heartbeat < ?"
        " AND id NOT IN (SELECT process_id FROM owners WHERE process_id IS NOT NULL)",
        (process.heartbeat - FORGOTTEN_AFTER,),
    )


def owner(connection: sqlite3.Connection, session_id: str) -> Owner | None:
    found = connection.execute(
        "SELECT o.epoch, p.id, p.host, p.pid, p.started, p.heartbeat FROM owners o"
        " LEFT JOIN processes p ON p.id = o.process_id WHERE o.session_id = ?",
        (session_id,),
    ).fetchone()
    if found is None:
        return None
    epoch, process_id, host, pid, started, beat = found
    process = (
        None if process_id is None else Process(id=process_id, host=host, pid=pid, started=started, heartbeat=beat)
    )
    return Owner(process, epoch)


def claim(connection: sqlite3.Connection, session_id: str, process_id: str, is_alive: Callable[[Process], bool]) -> int:
    known = owner(connection, session_id)
    if known is not None and known.process is not None:
        if known.process.id == process_id:
            return known.epoch
        if is_alive(known.process):
            raise NotTheOwner(
                f"session {session_id} is owned by process {known.process.pid} on {known.process.host}",
                owner=known.process.id,
            )
    epoch = known.epoch + 1 if known is not None else 1
    connection.execute("INSERT OR REPLACE INTO owners VALUES(?, ?, ?)", (session_id, process_id, epoch))
    return epoch


def release(connection: sqlite3.Connection, session_id: str, process_id: str) -> None:
    connection.execute(
        "UPDATE owners SET process_id = NULL WHERE session_id = ? AND process_id = ?", (session_id, process_id)
    )


def send(connection: sqlite3.Connection, command: Command) -> bool:
    made = connection.execute(
        "INSERT OR IGNORE INTO inbox(command_id, session_id, at, body) VALUES(?, ?, ?, ?)",
        (command.id, command.session_id, command.at, command.body),
    )
    return made.rowcount > 0


def take(connection: sqlite3.Connection, session_id: str, epoch: int) -> Sequence[Command]:
    known = owner(connection, session_id)
    if known is None or known.process is None or known.epoch != epoch:
        raise NotTheOwner(f"session {session_id} is not owned under epoch {epoch} any more")
    found = connection.execute(
        "SELECT command_id, session_id, at, body FROM inbox"
        " WHERE session_id = ? AND outcome IS NULL AND (taken IS NULL OR taken < ?) ORDER BY place",
        (session_id, epoch),
    ).fetchall()
    connection.execute(
        "UPDATE inbox SET taken = ? WHERE session_id = ? AND outcome IS NULL AND (taken IS NULL OR taken < ?)",
        (epoch, session_id, epoch),
    )
    return [Command(id=id_, session_id=session, at=at, body=body) for id_, session, at, body in found]


def waiting(connection: sqlite3.Connection) -> frozenset[str]:
    found = connection.execute("SELECT DISTINCT session_id FROM inbox WHERE outcome IS NULL AND taken IS NULL")
    return frozenset(session_id for (session_id,) in found)


def unanswered(connection: sqlite3.Connection, session_id: str) -> Sequence[Command]:
    found = connection.execute(
        "SELECT command_id, session_id, at, body FROM inbox WHERE session_id = ? AND outcome IS NULL ORDER BY place",
        (session_id,),
    )
    return [Command(id=id_, session_id=session, at=at, body=body) for id_, session, at, body in found]


def command(connection: sqlite3.Connection, command_id: str) -> CommandState | None:
    found = connection.execute(
        "SELECT command_id, session_id, at, body, taken, outcome, detail, done_at FROM inbox WHERE command_id = ?",
        (command_id,),
    ).fetchone()
    if found is None:
        return None
    id_, session_id, at, body, taken, outcome, detail, done_at = found
    return CommandState(
        command=Command(id=id_, session_id=session_id, at=at, body=body),
        taken=taken is not None,
        outcome=outcome,
        detail=detail,
        done_at=done_at,
    )
