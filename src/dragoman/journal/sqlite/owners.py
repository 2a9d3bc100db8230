"""Owners and the inbox in SQLite. Each function works within the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from dragoman.journal.errors import NotTheOwner
from dragoman.journal.protocols import CommandState, InboxCommand, Owner, Process

# How long a process without a heartbeat and without sessions is remembered.
FORGET_PROCESS_AFTER_S: Final = 24 * 3600.0

_COMMAND_COLUMNS: Final = "command_id, session_id, at, body"


def heartbeat(connection: sqlite3.Connection, process: Process) -> None:
    connection.execute(
        "INSERT INTO processes VALUES(?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET heartbeat = excluded.heartbeat",
        (process.id, process.host, process.pid, process.started, process.heartbeat),
    )
    connection.execute(
        "DELETE FROM processes WHERE heartbeat < ?"
        " AND id NOT IN (SELECT process_id FROM owners WHERE process_id IS NOT NULL)",
        (process.heartbeat - FORGET_PROCESS_AFTER_S,),
    )


def owner(connection: sqlite3.Connection, session_id: str) -> Owner | None:
    record = connection.execute(
        "SELECT o.epoch, p.id, p.host, p.pid, p.started, p.heartbeat FROM owners o"
        " LEFT JOIN processes p ON p.id = o.process_id WHERE o.session_id = ?",
        (session_id,),
    ).fetchone()
    if record is None:
        return None
    epoch, process_id, host, pid, started, beat = record
    process = (
        None if process_id is None else Process(id=process_id, host=host, pid=pid, started=started, heartbeat=beat)
    )
    return Owner(process, epoch)


def claim(connection: sqlite3.Connection, session_id: str, process_id: str, is_alive: Callable[[Process], bool]) -> int:
    current = owner(connection, session_id)
    if current is not None and current.process is not None:
        if current.process.id == process_id:
            return current.epoch
        if is_alive(current.process):
            raise NotTheOwner(
                f"session {session_id} is owned by process {current.process.pid} on {current.process.host}",
                owner=current.process.id,
            )
    epoch = current.epoch + 1 if current is not None else 1
    connection.execute("INSERT OR REPLACE INTO owners VALUES(?, ?, ?)", (session_id, process_id, epoch))
    return epoch


def release(connection: sqlite3.Connection, session_id: str, process_id: str) -> None:
    connection.execute(
        "UPDATE owners SET process_id = NULL WHERE session_id = ? AND process_id = ?", (session_id, process_id)
    )


def send_command(connection: sqlite3.Connection, command: InboxCommand, taken_epoch: int | None) -> bool:
    if taken_epoch is not None:
        _check_epoch(connection, command.session_id, taken_epoch)
    inserted = connection.execute(
        f"INSERT OR IGNORE INTO inbox({_COMMAND_COLUMNS}, taken_epoch) VALUES(?, ?, ?, ?, ?)",
        (command.id, command.session_id, command.at, command.body, taken_epoch),
    )
    return inserted.rowcount > 0


def inbox_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes with every command that is sent."""
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM inbox").fetchone()[0])


def _check_epoch(connection: sqlite3.Connection, session_id: str, epoch: int) -> None:
    current = owner(connection, session_id)
    if current is None or current.process is None or current.epoch != epoch:
        raise NotTheOwner(f"session {session_id} is not owned under epoch {epoch} any more")


def take_commands(connection: sqlite3.Connection, session_id: str, epoch: int) -> Sequence[InboxCommand]:
    _check_epoch(connection, session_id, epoch)
    condition = "session_id = ? AND outcome IS NULL AND (taken_epoch IS NULL OR taken_epoch < ?)"
    records = connection.execute(
        f"SELECT {_COMMAND_COLUMNS} FROM inbox WHERE {condition} ORDER BY seq",  # noqa: S608 (names of our own)
        (session_id, epoch),
    ).fetchall()
    connection.execute(
        f"UPDATE inbox SET taken_epoch = ? WHERE {condition}",  # noqa: S608 (names of our own)
        (epoch, session_id, epoch),
    )
    return _commands(records)


def sessions_with_commands(connection: sqlite3.Connection) -> frozenset[str]:
    records = connection.execute("SELECT DISTINCT session_id FROM inbox WHERE outcome IS NULL AND taken_epoch IS NULL")
    return frozenset(session_id for (session_id,) in records)


def pending_commands(connection: sqlite3.Connection, session_id: str) -> Sequence[InboxCommand]:
    return _commands(
        connection.execute(
            f"SELECT {_COMMAND_COLUMNS} FROM inbox"  # noqa: S608 (names of our own)
            " WHERE session_id = ? AND outcome IS NULL ORDER BY seq",
            (session_id,),
        )
    )


def command_state(connection: sqlite3.Connection, command_id: str) -> CommandState | None:
    record = connection.execute(
        f"SELECT {_COMMAND_COLUMNS}, taken_epoch, outcome, detail, done_at FROM inbox"  # noqa: S608 (names of our own)
        " WHERE command_id = ?",
        (command_id,),
    ).fetchone()
    if record is None:
        return None
    *columns, taken_epoch, outcome, detail, done_at = record
    [command] = _commands([columns])
    return CommandState(command=command, taken=taken_epoch is not None, outcome=outcome, detail=detail, done_at=done_at)


def _commands(records: Iterable[Sequence[object]]) -> list[InboxCommand]:
    return [
        InboxCommand(id=id_, session_id=session_id, at=at, body=body)  # type: ignore[arg-type]
        for id_, session_id, at, body in records
    ]
