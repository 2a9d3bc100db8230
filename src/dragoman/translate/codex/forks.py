"""Forks: a thread that was made of another begins with a copy of it, with new times. Which records are the copy.

The translation of one file does not see the other. What tells a copy is older than the thread: its turns have ids with
the time in them (UUIDv7) that lie before the thread's own. Newer files say outright where their own history begins.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from dragoman.translate.codex import records
from dragoman.translate.records import parse_time

# How the copy ends where a sub-agent is told what it is.
_NEWLY_SPAWNED: Final = b"You are the newly spawned agent"
# Seconds in which a copy is written at most, for files whose turns have no ids, or none with a time in them.
# Measured: 15 ms for 1,000 records.
_WRITING: Final = 2.0
_VERSION_7: Final = 7


class Fork:
    """Told of each record after the first, in order."""

    def __init__(self, meta: records.Payload, at: float) -> None:
        source = records.plain(meta.source)
        self.is_sub_agent = isinstance(source, dict) and "subagent" in source
        self._id = meta.id or ""
        self._began = at
        self._own_from = meta.subagent_history_start_ordinal
        self._born = _time_in(self._id) or (parse_time(meta.timestamp) if meta.timestamp else None) or at
        # A thread that refers to another's history has no copy of it.
        refers = records.plain(meta.history_base) is not None
        self._copying = self._own_from is not None or (meta.forked_from_id is not None and not refers)
        self._turn_seen = False

    def copies(self, line: records.Line, at: float) -> bool:
        """Whether the record is the parent's."""
        payload = line.payload or records.Payload()
        if line.type == "session_meta":
            if payload.id != self._id and 0 <= at - self._began < _WRITING and self._own_from is None:
                self._copying = True  # the parent's own beginning
            return True
        if not self._copying:
            return False
        if self._ends(line, payload, at):
            self._copying = False
            return False
        if payload.type == "function_call_output" and _NEWLY_SPAWNED in bytes(memoryview(payload.output)[:200]):
            self._copying = False  # the last record of the copy
        return True

    def _ends(self, line: records.Line, payload: records.Payload, at: float) -> bool:
        """Whether the thread's own history begins with this record."""
        if self._own_from is not None and line.ordinal is not None:
            return line.ordinal >= self._own_from
        if payload.type == "task_started" and payload.turn_id is not None:
            self._turn_seen = True
            began = _time_in(payload.turn_id)
            return began >= self._born if began is not None else self._is_written(at)
        return not self._turn_seen and self._is_written(at)

    def _is_written(self, at: float) -> bool:
        return at - self._began > _WRITING


def _time_in(uuid: str) -> float | None:
    """Seconds since 1970 in an id of version 7; None in any other."""
    try:
        value = UUID(uuid)
    except ValueError:
        return None
    return (value.int >> 80) / 1000 if value.version == _VERSION_7 else None


def parent_of(meta: records.Payload) -> str | None:
    """The thread whose sub-agent this is."""
    if meta.parent_thread_id is not None:
        return meta.parent_thread_id
    return records.read(meta.source, _Source, _Source()).subagent.thread_spawn.parent_thread_id


class _Spawn(msgspec.Struct, frozen=True, gc=False):
    parent_thread_id: str | None = None


class _SubAgent(msgspec.Struct, frozen=True, gc=False):
    thread_spawn: _Spawn = _Spawn()


class _Source(msgspec.Struct, frozen=True, gc=False):
    subagent: _SubAgent = _SubAgent()
