"""`Watcher`: what agents write in other terminals, in the journal while they write it.

Folders are watched by the system's notifications, and looked through from time to time all the same: notifications are
lost when a queue overflows, and when folders are made faster than they can be watched. Where there are none, as on a
network's file system or when the system has no more to give, they are looked through often. What is new of a file is
the `Importer`'s to take in, each record once: a watcher that is killed and started again goes on where it was.

A provider is watched when the user has agreed (`Modes`); until then not even the names of its files are looked at. What
comes in is told by the journal's own subscriptions.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from dragoman.errors import InputError
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import Journal
from dragoman.translate.discover import Transcript
from dragoman.translate.ingest.folder_watch import USUAL, Pace, PlaceWatch, Way
from dragoman.translate.ingest.import_policy import OPEN
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.report import REST
from dragoman.translate.ingest.watch_consent import Mode, Modes
from dragoman.translate.ingest.watched_folders import Place, places_of, state_of
from dragoman.translate.translator import PROVIDERS

# Bytes of files that are kept at hand while they are written: several times this in memory, and more than agents write
# to at once, but for someone's longest session.
_AT_HAND: Final = 32 * 1024 * 1024
# Files that were found by looking and are taken in together: their commits are then one.
_TOGETHER: Final = 16
# Seconds after which a file that nobody writes to is read anew when someone does.
_AT_HAND_FOR: Final = 600.0


class WatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Of a provider, or of the files that someone named (`provider` is empty)."""

    provider: str
    mode: Mode
    folders: Sequence[str] = ()
    way: Way | None = None  # None where nothing is watched
    files: int = 0
    waiting: int = 0  # files that have something new, as far as it is known
    problem: str | None = None  # that there is now; the last one, where there are several


class Watcher:
    """`start` it, or enter it. `places`: files and folders that someone named, watched whatever the modes say.

    Nothing that happens to a file, or to the journal, ends it: `status` tells the problem, and it tries again.
    """

    def __init__(
        self,
        journal: Journal,
        modes: Modes | None = None,
        *,
        places: Sequence[Place] = (),
        providers: Sequence[str] = PROVIDERS,
        environment: Mapping[str, str] = os.environ,
        home: Path | None = None,
        clock: Callable[[], float] = time.time,
        pace: Pace = USUAL,
    ) -> None:
        """`home`: the user's, where agents keep their files. `providers`: those that may be watched at all; without
        `modes` none may, and only `places` are."""
        self._modes = modes
        self._providers = providers if modes is not None else ()
        self._environment = environment
        self._home = home or Path.home()
        self._clock = clock
        self._pace = pace
        self._importer = Importer(journal, clock=clock, at_hand=_AT_HAND)
        self._named = places
        self._watches: list[PlaceWatch] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._problems: dict[str, tuple[str, str]] = {}  # the last of each provider: the file, and what is wrong
        self._first: dict[str, PlaceWatch] = {}  # files that were written to just now
        self._then: dict[str, PlaceWatch] = {}  # files that were found by looking
        self._now: dict[str, PlaceWatch] = {}  # files that are being taken in
        self._some = asyncio.Event()
        self._idle = asyncio.Event()

    async def __aenter__(self) -> Watcher:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Returns at once; what is there already comes in from now on, the oldest files first."""
        self._tasks.append(asyncio.create_task(self._take_all(), name="dragoman watch: files"))
        self._watch(self._named)
        for name in self._providers:
            if self._mode(name) == "on":
                self._watch(places_of(name, self._environment, self._home))

    async def close(self) -> None:
        """What was taken in is committed. Closing twice is fine."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for watch in self._watches:
            watch.looked.set()  # nobody will look any more; who waits for it need not

    async def allow(self, provider: str) -> None:
        """The user agrees that this provider's files are read, now and from now on; it is kept. Returns when it is
        known which files there are."""
        if self._modes is None:
            raise InputError("only named files are watched here", guidance="Make the watcher with the modes.")
        self._modes.agree(provider)
        if self._tasks and not self._of(provider):
            self._watch(places_of(provider, self._environment, self._home))
            for watch in self._of(provider):
                await watch.looked.wait()

    def status(self) -> list[WatchStatus]:
        return [self._status(name) for name in [*([""] if self._named else []), *self._providers]]

    async def settled(self) -> None:
        """Returns when every place was looked through and all that was found is in the journal."""
        for watch in self._watches:
            await watch.looked.wait()
            await watch.none_settles.wait()
        await self._idle.wait()

    def _mode(self, name: str) -> Mode:
        return self._modes.mode(name) if self._modes is not None else "off"

    def _watch(self, places: Sequence[Place]) -> None:
        for place in places:
            watch = PlaceWatch(place, self._pace, self._clock, self._found)
            self._watches.append(watch)
            self._tasks.append(asyncio.create_task(watch.run(), name=f"dragoman watch: {place.folder}"))

    def _status(self, name: str) -> WatchStatus:
        mine = self._of(name)
        ways = [one.way for one in mine]
        return WatchStatus(
            provider=name,
            mode=self._mode(name) if name else "on",
            folders=[one.place.folder for one in mine],
            way=min(ways, key=("polling", "native", "absent").index, default=None),
            files=sum(len(one.files) for one in mine),
            waiting=sum(watch in mine for some in (self._now, self._first, self._then) for watch in some.values())
            + sum(len(one.settling) for one in mine),
            problem=next((one.problem for one in mine if one.problem), self._problems.get(name, ("", None))[1]),
        )

    def _of(self, name: str) -> list[PlaceWatch]:
        return [one for one in self._watches if self._name(one) == name]

    def _name(self, watch: PlaceWatch) -> str:
        return "" if watch.place in self._named else watch.place.provider

    # -- taking files in

    def _found(self, watch: PlaceWatch, path: str, *, just_now: bool) -> None:
        self._idle.clear()
        if just_now:
            self._then.pop(path, None)
            self._first[path] = watch
        elif path not in self._first:
            self._then[path] = watch
        self._some.set()

    async def _take_all(self) -> None:
        while True:
            waiting = self._first or self._then
            if not waiting:
                self._importer.let_go(self._clock() - _AT_HAND_FOR)
                self._some.clear()
                self._idle.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_AT_HAND_FOR):
                        await self._some.wait()
                continue
            some = list(islice(waiting, 1 if waiting is self._first else _TOGETHER))
            self._now = {path: waiting.pop(path) for path in some}
            taken = await asyncio.gather(*(self._take(watch, path) for path, watch in self._now.items()))
            self._now = {}
            if not all(taken):
                await asyncio.sleep(self._pace.retry)

    async def _take(self, watch: PlaceWatch, path: str) -> bool:
        """False where the journal could not be written: the file comes in when that is over."""
        state = state_of(path)
        if state is None:
            watch.files.pop(path, None)
            self._is_over(watch, path)
            return True
        watch.files[path] = (state, self._clock() - state[2] > REST)
        try:
            done = await self._importer.take(Transcript(watch.place.provider, Path(path), state[1], state[2]))
        except JournalError as problem:
            self._note(watch, path, str(problem))
            self._then[path] = watch
            return False
        if done.passing:
            watch.files[path] = None
        if done.skipped not in (None, OPEN) and (done.passing or done.failed or path.endswith(".zst")):
            self._note(watch, path, f"{done.path}: {done.skipped}")
        else:
            self._is_over(watch, path)
        return True

    def _note(self, watch: PlaceWatch, path: str, problem: str) -> None:
        self._problems[self._name(watch)] = path, problem

    def _is_over(self, watch: PlaceWatch, path: str) -> None:
        """Nothing is wrong with this file any more."""
        name = self._name(watch)
        if name in self._problems and self._problems[name][0] == path:
            del self._problems[name]
