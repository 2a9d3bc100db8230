"""`Hub`: the journal of a home folder, and the sessions of this process that are kept in it.

Promised: each session has one owner; another process that wants it is told who has it. What a dead process left
running reads as interrupted from the moment a hub is opened (G9), and nothing of a living one is touched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from dragoman.config import Config, load, make_home
from dragoman.errors import InputError
from dragoman.hub.identity import HEARTBEAT, alive, living, this_process
from dragoman.journal.entry import Entry, frame_of, kind_of
from dragoman.journal.errors import JournalError, NotTheOwner
from dragoman.journal.place import journal_path
from dragoman.journal.rows import Session as SessionRow
from dragoman.journal.sqlite import SqliteJournal
from dragoman.journal.store import Connection, Journal
from dragoman.journal.upkeep import load as load_record
from dragoman.journal.words import Hit, Query
from dragoman.record import notes
from dragoman.session.client import Agent, Opening, open_session, resume_session
from dragoman.session.keeping import Keeper

CUT = "the process that ran it ended before it did"


class Hub:
    """`async with Hub() as hub:`. `home` is the folder of the journal, by default the user's; or give a `journal`."""

    def __init__(
        self, home: str | Path | None = None, *, config: Config | None = None, journal: Journal | None = None
    ) -> None:
        self._config = config or load(Path(home) if home is not None else None)
        self._given = journal
        self._journal: Journal | None = None
        self._keeper: Keeper | None = None
        self._beating: asyncio.Task[None] | None = None

    async def start(self) -> Hub:
        if self._journal is not None:
            raise InputError("this hub was started before", guidance="Make a new Hub.")
        self._journal = self._given or await SqliteJournal.open(journal_path(make_home(self._config.home)))
        try:
            process = this_process()
            await self._journal.heartbeat(process)
            self._keeper = Keeper(self._journal, process, alive)
            await self._interrupt_what_the_dead_left()
        except BaseException:
            await self.close()
            raise
        self._beating = asyncio.get_running_loop().create_task(self._beat(), name="dragoman heartbeat")
        return self

    async def close(self) -> None:
        """Sessions that are open are to be closed first. Closing twice is fine."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
            self._beating = None
        if self._journal is not None and self._given is None:
            await self._journal.close()

    async def __aenter__(self) -> Hub:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for programs

    @property
    def journal(self) -> Journal:
        if self._journal is None:
            raise InputError("the hub is not started", guidance="Use `async with Hub() as hub:`.")
        return self._journal

    @property
    def keeper(self) -> Keeper:
        """For an `AgentRuntime` of one's own."""
        if self._keeper is None:
            raise InputError("the hub is not started", guidance="Use `async with Hub() as hub:`.")
        return self._keeper

    def open_session(self, agent: Agent | None = None, **settings: Any) -> Opening:
        """As `dragoman.open_session`, and kept."""
        return open_session(agent, keeper=self.keeper, **settings)

    def resume_session(self, session_id: str, **settings: Any) -> Opening:
        """A session of the journal, continued by the agent that it was with."""

        async def open_it() -> Any:
            row = await self.find(session_id)
            if row.handle is None:
                raise InputError(
                    f"session {row.id} cannot be continued: what its agent needs for it was not kept",
                    guidance="Open a new session; what was said is still there to read.",
                )
            return await resume_session(row.handle, keeper=self.keeper, **settings)

        return Opening(open_it)

    async def sessions(self) -> Sequence[SessionRow]:
        """The one with the latest frame first."""
        return await self.journal.sessions()

    async def find(self, session_id: str) -> SessionRow:
        """A session by its id, or by the beginning of it where that is enough."""
        found = [row for row in await self.journal.sessions() if row.id.startswith(session_id)] if session_id else []
        exact = [row for row in found if row.id == session_id]
        if len(exact or found) != 1:
            several = f"{len(found)} sessions begin with {session_id!r}: {', '.join(row.id for row in found[:5])}"
            raise InputError(
                several if found else f"there is no session {session_id!r}",
                guidance="`dragoman sessions list` shows them.",
            )
        return (exact or found)[0]

    async def search(self, words: str, **filters: Any) -> Sequence[Hit]:
        return await self.journal.search(Query(text=words, **filters))

    # -- in the background

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            try:
                await self.journal.heartbeat(living(self.keeper.process))
            except JournalError:
                pass  # the next one may come through; who appends hears of it

    async def _interrupt_what_the_dead_left(self) -> None:
        # Transcripts that their agent still writes to are nobody's here, and go on.
        written = {one.session_id for one in await self.journal.positions() if not one.finished}
        running = [row for row in await self.journal.sessions() if row.status == "running" and row.id not in written]
        if not running:
            return
        process = self.keeper.process
        connection = Connection(id=f"cut-{process.id}", agent="", at=time.time())
        await self.journal.connect(connection)
        number = 0
        for row in running:
            try:
                epoch = await self.journal.claim(row.id, process.id, alive=alive)
            except NotTheOwner:
                continue
            record = await load_record(self.journal, row.id)
            entries = []
            for run in record.fold.runs.values():
                if run.status == "running":
                    number += 1
                    note = notes.write(notes.RunCut(run.id, "interrupted", CUT))
                    entry = Entry(connection.id, row.id, number, time.time(), "host", kind_of(note), frame_of(note))
                    record.add(entry, note)
                    entries.append(entry)
            if entries:
                await self.journal.append(entries, [record.take()], epochs={row.id: epoch})
            await self.journal.release(row.id, process.id)
