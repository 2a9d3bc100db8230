"""Properties of a journal: any frames in any batches, with readers that leave and return, keep its promises."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from dragoman.journal import maintenance
from dragoman.journal.entry import Cursor, Entry, Origin, Page, read_message
from dragoman.journal.errors import OutOfOrder, SessionDeleted
from dragoman.journal.notes import is_tombstone
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sqlite import MemoryJournal, SqliteJournal
from journal.talk import entry, entry_of, register_c1
from record.test_fold_properties import Step, _steps
from support.tape import Tape

T = TypeVar("T")

ORIGINS: dict[str, Origin] = {"in": "agent", "out": "client", "host": "host"}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(_steps(), max_size=40), cuts=st.sets(st.integers(0, 80), max_size=8))
def test_rows_are_the_same_however_the_frames_were_batched(store: str, steps: list[Step], cuts: set[int]) -> None:
    tape = Tape()
    for step in steps:
        step(tape)

    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            opened = MemoryJournal() if store == "memory" else await SqliteJournal.open(Path(folder, "j.db"))
            async with opened as journal:
                await register_c1(journal)
                record = SessionRecord("s1")
                batch: list[Entry] = []
                for n, (direction, message) in enumerate(tape.frames, start=1):
                    batch.append(entry_of(message, n, ORIGINS[direction]))
                    record.add(batch[-1], message)
                    if n in cuts or n == len(tape.frames):
                        await journal.append(batch, [record.take()])
                        batch = []
                assert await maintenance.verify(journal) == []
                rows = await journal.stored_rows("s1")
                assert [one.row().text for one in rows.messages] == [one.text for one in tape.fold.messages]
                assert [one.id for one in rows.tool_calls] == [one.id for one in tape.fold.tool_calls]
                assert {one.id: one.status for one in rows.runs} == {
                    key: run.status for key, run in tape.fold.runs.items()
                }
                assert [one.plan_id for one in rows.plans] == list(tape.fold.plans)

    asyncio.run(check())


class _Reader:
    """A reader that may leave and return with its cursor."""

    def __init__(self, session: str | None, cursor: Cursor | None, seen: list[Entry], limit: int) -> None:
        self.session = session
        self.cursor = cursor
        self.seen = seen
        self.limit = limit
        self.pages: AsyncGenerator[Page, None] | None = None
        self.waiting: asyncio.Task[Page] | None = None


class Readers(RuleBasedStateMachine):
    """The journal beside a plain list of what was appended."""

    store = "memory"
    readers = Bundle("readers")

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.journal: MemoryJournal | SqliteJournal = self.run(self.opened())
        self.run(register_c1(self.journal))
        self.log: list[Entry] = []
        self.n = 0
        self.cursors: list[Cursor] = [self.run(self.journal.cursor())]  # after each entry of the log
        self.gone: set[str] = set()
        self.all: list[_Reader] = []

    def run(self, act: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(30):
                return await act

        return self.runner.run(bounded())

    async def opened(self) -> MemoryJournal | SqliteJournal:
        if self.store == "memory":
            return MemoryJournal()
        return await SqliteJournal.open(Path(self.folder.name, "journal.db"))

    # -- what may happen

    @rule(session=st.sampled_from(["s1", "s2", "s3", None]), count=st.integers(1, 5), with_rows=st.booleans())
    def append(self, session: str | None, count: int, with_rows: bool) -> None:
        entries = [entry(self.n + more, f"{self.n + more}", session) for more in range(1, count + 1)]
        if session in self.gone:
            with pytest.raises(SessionDeleted):
                self.run(self.journal.append(entries))
            return
        changes = []
        if with_rows and session is not None:
            record = self.run(maintenance.load_record(self.journal, session))
            for one in entries:
                record.add(one, read_message(one))
            changes = [record.take()]
        cursor = self.run(self.journal.append(entries, changes))
        self.n += count
        self.log.extend(entries)
        self.cursors.extend([cursor] * count)

    @rule()
    def append_what_is_not_next(self) -> None:
        with pytest.raises(OutOfOrder):
            self.run(self.journal.append([entry(self.n + 1), entry(self.n + 3)]))

    @rule(target=readers, session=st.sampled_from(["s1", "s2", None]), limit=st.integers(1, 4), late=st.booleans())
    def subscribe(self, session: str | None, limit: int, late: bool) -> _Reader:
        begin = len(self.log) if late else 0
        reader = _Reader(session, self.cursors[begin] if late else None, self.log[:begin], limit)
        self.all.append(reader)
        return reader

    @rule(reader=readers, pages=st.integers(1, 3))
    def read(self, reader: _Reader, pages: int) -> None:
        for _ in range(pages):
            self.run(self.step(reader))

    @rule(reader=readers)
    def disconnect(self, reader: _Reader) -> None:
        self.run(self.left(reader))

    @rule(session=st.sampled_from(["s1", "s2", "s3"]))
    def delete(self, session: str) -> None:
        there = session not in self.gone and any(one.session_id == session for one in self.log)
        assert self.run(self.journal.delete(session, at=1.0)) == there
        if there:
            self.gone.add(session)
            page = self.run(self.journal.read(session))
            self.log.extend(page.entries)
            self.cursors.append(page.cursor)

    @rule()
    def restart(self) -> None:
        if self.store == "memory":
            return
        for reader in self.all:
            self.run(self.left(reader))
        self.run(self.journal.close())
        self.journal = self.run(self.opened())

    # -- how a reader reads

    async def step(self, reader: _Reader) -> bool:
        """The next page, if there is one; a reader that finds none goes on waiting for it."""
        if reader.pages is None:
            pages = self.journal.subscribe(reader.session, after=reader.cursor, limit=reader.limit)
            reader.pages = cast("AsyncGenerator[Page, None]", pages)
        if reader.waiting is None:
            reader.waiting = asyncio.ensure_future(anext(reader.pages))
        if not self.missing(reader) and not reader.waiting.done():
            await asyncio.sleep(0)
            return False
        try:
            page = await reader.waiting
        except StopAsyncIteration:
            reader.waiting = reader.pages = None
            return False
        reader.waiting = None
        reader.seen.extend(page.entries)
        reader.cursor = page.cursor
        return True

    async def left(self, reader: _Reader) -> None:
        waiting, reader.waiting = reader.waiting, None
        pages, reader.pages = reader.pages, None
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait([waiting])  # a page that was on its way is lost, and the cursor does not know of it
        if pages is not None:
            await pages.aclose()

    def missing(self, reader: _Reader) -> list[Entry]:
        """Return the entries that the reader has yet to see: all that are not deleted."""
        seen = {(one.connection_id, one.n) for one in reader.seen}
        return [
            one
            for one in self.log
            if (one.connection_id, one.n) not in seen
            and (reader.session is None or one.session_id == reader.session)
            and (one.session_id not in self.gone or is_tombstone(one))
        ]

    @invariant()
    def each_reader_has_seen_each_entry_once_and_in_order(self) -> None:
        places = {(one.connection_id, one.n): place for place, one in enumerate(getattr(self, "log", []))}
        for reader in getattr(self, "all", []):
            seen = [places[one.connection_id, one.n] for one in reader.seen]
            assert seen == sorted(set(seen))

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        try:
            for reader in self.all:
                while self.missing(reader):
                    assert self.run(self.step(reader)), "a reader waits, and there is something to read"
                self.run(self.left(reader))
            self.each_reader_has_seen_each_entry_once_and_in_order()
            assert self.run(maintenance.verify(self.journal)) == []
            assert {one.id for one in self.run(self.journal.tombstones())} == self.gone
        finally:
            self.run(self.journal.close())
            self.runner.close()
            self.folder.cleanup()


class SqliteReaders(Readers):
    store = "sqlite"


_BOUNDED = settings(max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))

TestReadersInMemory = Readers.TestCase
TestReadersInMemory.settings = _BOUNDED
TestReadersOfAFile = SqliteReaders.TestCase
TestReadersOfAFile.settings = _BOUNDED
