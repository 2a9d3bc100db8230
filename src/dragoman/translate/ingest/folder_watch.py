"""`PlaceWatch`: one folder, watched. Finds the files that have something new, and says so; it opens none of them.

The folder may appear later, go away, and come back as another one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from dragoman.translate.ingest.notifications import Notices, Unnoticed
from dragoman.translate.ingest.report import REST
from dragoman.translate.ingest.watched_folders import Place, State, barred, is_remote, state_of, unread

Way: TypeAlias = Literal["native", "polling", "absent"]
"""How changes are learnt of; `absent` where the folder is not there yet."""

# Where looking through a folder takes long, it is done less often: no more than this part of the time goes into it.
_SHARE: Final = 0.02


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often is looked, in seconds; and whether the system's notifications are used at all."""

    # Between two looks through a folder whose changes the system tells: for what it did not tell. Files that have come
    # to rest are found by it too.
    look: float = 60.0
    # The same where it tells nothing. Who follows an agent's work hardly notices.
    poll: float = 1.0
    # Between two looks for a folder that is not there.
    absent: float = 2.0
    # From when a file was first seen until it is read. An agent that Dragoman starts may write the beginning of its
    # transcript before it tells us the session's name: by then we know that the session is our own.
    settle: float = 1.0
    # After the journal could not be written.
    retry: float = 5.0
    notified: bool = True


USUAL: Final = Pace()


class Found(Protocol):
    def __call__(self, watch: PlaceWatch, path: str, *, just_now: bool) -> None:
        """This file may have something new."""


class PlaceWatch:
    """`run` it. `files`: how each was when it was read last, and whether it was at rest; None when it is to be tried
    again. Whoever reads them keeps it."""

    def __init__(self, place: Place, pace: Pace, clock: Callable[[], float], found: Found) -> None:
        self.place = place
        self.files: dict[str, tuple[State, bool] | None] = {}
        self.way: Way = "absent"
        self._unread: str | None = None  # what may not be looked into, as far as it was seen
        self._unnoticed: str | None = None  # why changes are not told, once that was tried
        self.looked = asyncio.Event()  # once at least, and what was found has been told
        self._pace = pace
        self._clock = clock
        self._found = found
        self.none_settles = asyncio.Event()
        self.none_settles.set()
        self.settling: set[str] = set()  # files that are new, and are not read yet
        self._first_look = True

    @property
    def problem(self) -> str | None:
        """What is not as it should be, as long as it is so."""
        return self._unread or self._unnoticed

    async def run(self) -> None:
        while True:
            folder = _identity(self.place.folder)
            if folder is None:
                self.way = "absent"
                self._unread = unread(barred(self.place.folder))
                self.files.clear()
                self._first_look = False
                self.looked.set()
                await asyncio.sleep(self._pace.absent)
                continue
            notices = await self._notices()
            self.way = "polling" if notices is None else "native"
            try:
                await self._follow(notices, folder)
            except Unnoticed as problem:
                self._unnoticed = f"{self.place.folder} is looked through instead of watched: {problem}"
            finally:
                if notices is not None:
                    await notices.close()

    async def _notices(self) -> Notices | None:
        """None where the folder is to be looked through instead."""
        if not self._pace.notified or self._unnoticed is not None or is_remote(self.place.folder):
            return None
        try:
            return await Notices.open(self.place.folder, deep=not self.place.name)
        except Unnoticed as problem:
            if _identity(self.place.folder) is not None:  # else it went away just now
                self._unnoticed = f"{self.place.folder} is looked through instead of watched: {problem}"
            return None

    async def _follow(self, notices: Notices | None, folder: tuple[int, int]) -> None:
        """Until something happens to the folder itself: it may be gone, or be another one; or all of it can be read at
        last, and then it may be watched, too."""
        while _identity(self.place.folder) == folder:
            before, took = self._unread, await self._look()
            if before is not None and self._unread is None:
                self._unnoticed = None
                return
            pause = max(self._pace.look if notices and self._unread is None else self._pace.poll, took / _SHARE)
            if notices is None:
                await self._poll(pause)
                continue
            try:
                async with asyncio.timeout(pause):
                    while await self._heard(notices):
                        pass
                    return
            except TimeoutError:
                pass  # what was being heard of is seen by looking

    async def _poll(self, seconds: float) -> None:
        """Until the next look through the folder: files that are not at rest are looked at more often than that."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(self._pace.poll, left))
            now = self._clock()
            awake = {path: known[0] for path, known in self.files.items() if known and now - known[0][2] <= REST}
            for path, state in (await asyncio.to_thread(_states, awake)).items():
                if state != awake[path]:
                    self._tell(path, just_now=True)

    async def _heard(self, notices: Notices) -> bool:
        """False where it is the folder itself that something happened to."""
        paths = await notices.read()
        for path in paths:
            if self.place.wants(path):
                self._tell(path, just_now=True)
            elif not self.place.name and await asyncio.to_thread(os.path.isdir, path):
                # Files may have been made in it before it was watched, or it is not watched at all.
                for inside in await asyncio.to_thread(self.place.find, path):
                    self._tell(inside, just_now=True)
                await notices.check(path)
        return self.place.folder not in paths

    async def _look(self) -> float:
        """Tells of all files that have something new; how long it took to look."""
        began = time.perf_counter()
        closed: list[OSError] = []
        found = await asyncio.to_thread(self.place.find, None, closed.append)
        took = time.perf_counter() - began
        self._unread = unread(closed)
        for gone in self.files.keys() - found.keys():
            del self.files[gone]
        now = self._clock()
        for path, state in sorted(found.items(), key=lambda one: one[1][2]):
            if self.files.get(path) != (state, now - state[2] > REST):
                self._tell(path, just_now=not self._first_look or now - state[2] < self._pace.settle)
        self._first_look = False
        self.looked.set()
        return took

    def _tell(self, path: str, *, just_now: bool) -> None:
        if path in self.settling:
            return
        if path in self.files or not just_now or not self._pace.settle:
            self._found(self, path, just_now=just_now)
        else:
            self.settling.add(path)
            self.none_settles.clear()
            asyncio.get_running_loop().call_later(self._pace.settle, self._settled, path)

    def _settled(self, path: str) -> None:
        self.settling.discard(path)
        self._found(self, path, just_now=True)
        if not self.settling:
            self.none_settles.set()


def _states(paths: Iterable[str]) -> dict[str, State | None]:
    return {path: state_of(path) for path in paths}


def _identity(folder: str) -> tuple[int, int] | None:
    """Tells a folder from another one that has come in its place; None where there is none."""
    try:
        stat = os.stat(folder)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
