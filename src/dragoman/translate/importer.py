"""`Importer`: transcripts into the journal, each record once, whatever ends it and however often it is run.

A file is translated from its beginning, and what the journal has of its sessions is left out, frame by frame. So a file
that grew, was moved, replaced or copied, or whose import was killed, brings what is new and nothing else. How far it
was read is committed with what came of it: a file that has not changed since is not opened.

What a transcript leaves open is ended when nobody has written to it for a while. Should it go on after all, its next
runs come in as any others.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from dragoman.errors import InputError
from dragoman.journal.errors import NotTheOwner, OutOfOrder, SessionDeleted
from dragoman.journal.store import Journal, Position
from dragoman.translate.admission import DELETED, Admission, look
from dragoman.translate.discover import Transcript, whose
from dragoman.translate.imported import ImportedFile
from dragoman.translate.intake import Intake, Seen
from dragoman.translate.translator import PROVIDERS

# Seconds without a word after which a transcript is taken to be over. A tool may well run for minutes, and seldom for
# an hour.
REST: Final = 3600.0

_LARGEST: Final = 2**63 - 1  # that a journal can keep; some file systems number their files beyond it


class Importer:
    """`take` files one after the other. `clock` tells whether a file is at rest; nothing else depends on it."""

    def __init__(self, journal: Journal, *, clock: Callable[[], float] = time.time) -> None:
        self._journal = journal
        self._clock = clock
        self._positions: dict[tuple[str, str], Position] | None = None
        self._admissions: dict[str, tuple[float, Admission]] = {}
        self._taking = asyncio.Lock()  # one file at a time: another one may tell of the same session

    async def take(self, transcript: Transcript, told: Callable[[int], None] = lambda _: None) -> ImportedFile:
        """What is new of a file, committed. `told` hears how many bytes of it are done. Never raises for a file."""
        nothing = ImportedFile(provider=transcript.provider, path=str(transcript.path))
        try:
            async with self._taking:
                name = transcript.provider or await self._known_as(transcript.path) or whose(transcript.path)
                if name is None:
                    return msgspec.structs.replace(nothing, skipped="it is no transcript that is known here")
                intake = await self._read(name, transcript.path, told)
            if intake is None:
                return msgspec.structs.replace(nothing, provider=name)
            return msgspec.structs.replace(intake.report(), path=str(transcript.path))
        except OSError as problem:
            reason = f"it cannot be read: {problem.strerror or problem}"
        except InputError as problem:
            reason = problem.message
        except NotTheOwner:
            reason = "a process has its session open"
        except SessionDeleted:
            reason = DELETED
        except OutOfOrder:
            reason = "another import is reading it"
        self._positions = None  # what was to be committed was not
        return msgspec.structs.replace(nothing, skipped=reason)

    async def _read(self, name: str, path: Path, told: Callable[[int], None]) -> Intake | None:
        """None where nothing can be new."""
        positions = await self._all_positions()
        key, stat = _looked_at(path)
        at_rest = self._clock() - stat.st_mtime > REST
        known = positions.get((name, key))
        state = (stat.st_ino & _LARGEST, stat.st_size, stat.st_mtime)
        if known is not None and (known.inode, known.size, known.modified) == state and known.finished >= at_rest:
            return None
        start = known or Position(
            connection_id=f"import-{sha256(f'{name}:{key}'.encode()).hexdigest()[:16]}",
            provider=name,
            path=key,
            session_id="",
            frames=0,
            offset=0,
        )
        inode, size, modified = state
        end = Seen(inode=inode, size=size, modified=modified, finished=at_rest)
        intake = Intake(self._journal, await self._admission(name, stat.st_mtime), start, end)
        await intake.read(path, told)
        if intake.refusal is None:
            positions[name, key] = intake.position
        return intake

    async def _all_positions(self) -> dict[tuple[str, str], Position]:
        if self._positions is None:
            self._positions = {(one.provider, one.path): one for one in await self._journal.positions()}
        return self._positions

    async def _known_as(self, path: Path) -> str | None:
        """Whose the file was when it was read before."""
        positions = await self._all_positions()
        key, _ = _looked_at(path)
        return next((name for name in PROVIDERS if (name, key) in positions), None)

    async def _admission(self, name: str, modified: float) -> Admission:
        """A session that began after we looked has written to its transcript since."""
        looked, admission = self._admissions.get(name, (0.0, None))
        if admission is None or modified >= looked:
            looked = self._clock()
            admission = await look(self._journal, name)
            self._admissions[name] = (looked, admission)
        return admission


def _looked_at(path: Path) -> tuple[str, os.stat_result]:
    """The file's own name, as text that can be kept whatever bytes are in it, and how it is now."""
    return os.fsencode(os.path.realpath(path)).decode("utf-8", "backslashreplace"), path.stat()
