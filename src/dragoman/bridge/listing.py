"""`Listing`: all sessions as lists show them, and all that waits for a person; for any number who follow.

Each change gets a number; who follows asks for what came after the last number they know. What matters is told at once
(a run began, someone is needed, a title); that a session that runs has got a few more frames, once in a while.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from dragoman.bridge import payload
from dragoman.bridge.payload import SessionItem, Waiting
from dragoman.bridge.rows import row_of
from dragoman.journal.rows import RowChanges, SessionRows, Tombstone
from dragoman.journal.rows import Session as SessionRow
from dragoman.journal.sessions import descendants, top_level
from dragoman.record import rows

# Seconds between two tellings that a session goes on.
SOMETIMES: Final = 0.5

_Asked: TypeAlias = rows.Permission | rows.Question


class _Known:
    def __init__(self, row: SessionRow, item: SessionItem, number: int) -> None:
        self.row, self.item, self.number = row, item, number


class Listing:
    """`item` makes what is shown of a row."""

    def __init__(self, item: Callable[[SessionRow], SessionItem]) -> None:
        self._make = item
        self._known: OrderedDict[str, _Known] = OrderedDict()  # by number, the last changed last
        self._removed: OrderedDict[str, int] = OrderedDict()
        self._waiting: dict[str, dict[str, _Asked]] = {}
        self._number = 0
        self._told = 0  # the number when those who wait were last woken
        self._waiting_number = 0
        self._events: set[asyncio.Event] = set()
        self._timer: asyncio.TimerHandle | None = None

    # -- for those who follow

    @property
    def number(self) -> int:
        return self._number

    @property
    def waiting_number(self) -> int:
        return self._waiting_number

    def every(self) -> list[SessionItem]:
        return [known.item for known in self._known.values()]

    def latest(
        self, limit: int, wanted: Callable[[SessionItem], bool] = lambda _: True
    ) -> tuple[list[SessionItem], bool]:
        """The newest by their last frame, and with them their sub-agents; whether there are more."""
        every = self.every()
        found = sorted((item for item in top_level(every) if wanted(item)), key=lambda item: -item.updated)
        chosen = found[:limit]
        return [*chosen, *descendants(every, [item.id for item in chosen])], len(found) > limit

    def since(self, number: int) -> tuple[list[SessionItem], list[str]]:
        """What changed after this number, and which sessions are gone."""
        changed = []
        for known in reversed(self._known.values()):
            if known.number <= number:
                break
            changed.append(known.item)
        changed.reverse()
        removed = []
        for session_id, gone in reversed(self._removed.items()):
            if gone <= number:
                break
            removed.append(session_id)
        return changed, removed

    def waiting(self) -> list[Waiting]:
        """All that waits for a person, the oldest first."""
        found: list[tuple[float, Waiting]] = []
        for session_id, asked in self._waiting.items():
            known = self._known.get(session_id)
            if known is None:
                continue
            for row in asked.values():
                match row_of(row):
                    case payload.Permission() as permission:
                        found.append((row.time, Waiting(session=known.item, permission=permission)))
                    case payload.Question() as question:
                        found.append((row.time, Waiting(session=known.item, question=question)))
                    case _:
                        pass
        return [one for _, one in sorted(found, key=lambda one: one[0])]

    async def wait(self, number: int, *, waiting: bool = False) -> None:
        """Returns when there is something after this number that is to be told now."""
        event = asyncio.Event()
        self._events.add(event)
        try:
            while (self._waiting_number if waiting else self._told) <= number:
                event.clear()
                await event.wait()
        finally:
            self._events.discard(event)

    # -- what is known

    def row(self, session_id: str) -> SessionRow | None:
        known = self._known.get(session_id)
        return known.row if known is not None else None

    def item(self, session_id: str) -> SessionItem | None:
        known = self._known.get(session_id)
        return known.item if known is not None else None

    def waiting_in(self, session_id: str) -> int:
        return len(self._waiting.get(session_id, ()))

    @property
    def running(self) -> int:
        return sum(known.row.status == "running" for known in self._known.values())

    def begin(self, sessions: Iterable[SessionRow]) -> None:
        for row in sessions:
            self._known[row.id] = _Known(row, self._make(row), 0)

    # -- what changes

    def changed(self, change: RowChanges) -> None:
        session: SessionRow | None = None
        gone = False
        asked = self._waiting.get(change.session_id, {})
        before = set(asked)
        for row in change.puts:
            match row:
                case SessionRow():
                    session = row
                case rows.Permission():
                    _put(asked, row, waits=row.outcome == "pending")
                case rows.Question():
                    _put(asked, row, waits=row.action == "pending")
                case Tombstone():
                    gone = True
                case _:
                    pass
        if gone:
            self.gone(change.session_id)
            return
        self._set_waiting(change.session_id, asked, changed=set(asked) != before)
        if session is not None:
            self.put(session)

    def waits(self, session_id: str, found: SessionRows) -> None:
        """What waits in a session, as its rows tell."""
        asked: dict[str, _Asked] = {}
        asked.update({row.id: row for row in found.permissions if row.outcome == "pending"})
        asked.update({row.id: row for row in found.questions if row.action == "pending"})
        self._set_waiting(session_id, asked, changed=set(asked) != set(self._waiting.get(session_id, ())))

    def put(self, row: SessionRow) -> None:
        item = self._make(row)
        known = self._known.get(row.id)
        self._number += 1
        self._known[row.id] = _Known(row, item, self._number)
        self._known.move_to_end(row.id)
        self._removed.pop(row.id, None)
        if known is not None and alike(known.item, item):
            self._sometime()
        else:
            self._wake()

    def restate(self, session_id: str) -> None:
        """Nothing of the session itself changed, but how it stands with it."""
        known = self._known.get(session_id)
        if known is not None and self._make(known.row) != known.item:
            self.put(known.row)

    def gone(self, session_id: str) -> None:
        self._set_waiting(session_id, {}, changed=session_id in self._waiting)
        if self._known.pop(session_id, None) is not None:
            self._number += 1
            self._removed[session_id] = self._number
            self._wake()

    def _set_waiting(self, session_id: str, asked: dict[str, _Asked], *, changed: bool) -> None:
        if asked:
            self._waiting[session_id] = asked
        else:
            self._waiting.pop(session_id, None)
        if changed:
            self._waiting_number += 1
            self._wake()

    def _sometime(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SOMETIMES, self._wake)

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._told = self._number
        for event in self._events:
            event.set()


def _put(asked: dict[str, _Asked], row: _Asked, *, waits: bool) -> None:
    if waits:
        asked[row.id] = row
    else:
        asked.pop(row.id, None)


def alike(one: SessionItem, other: SessionItem) -> bool:
    """Whether they are the same but for how far the session has come."""
    return one == msgspec.structs.replace(other, updated=one.updated, frames=one.frames)
