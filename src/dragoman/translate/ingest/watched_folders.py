"""`Place`: a folder in which transcripts are watched, and what is in it now.

Looking reads names, sizes and times alone; whose a file is, and what it says, is for those to read who take it in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from shlex import quote
from stat import S_ISREG
from typing import Final, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.translate.discover import may_be_transcript
from dragoman.translate.lines import named
from dragoman.translate.translator import provider

# File systems whose changes by other machines no notification tells. Those in user space say no more than `fuse`, and
# may be anything.
_REMOTE: Final = (
    *("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre"),
    *("fuse", "drvfs", "vboxsf", "virtiofs"),
)

_MOUNTS: Final = Path("/proc/self/mountinfo")  # of Linux alone

State: TypeAlias = tuple[int, int, float]
"""Of a file: inode, size, and when it was last written to. One that was written to, cut or replaced has another."""


class Place(msgspec.Struct, frozen=True):
    """A folder with all that is below it; or, with a `name`, this one file in it."""

    provider: str  # empty where each file tells
    folder: str
    name: str = ""

    def wants(self, path: str) -> bool:
        """Whether a file below the folder may be a transcript, by its name."""
        if self.name:
            return path == os.path.join(self.folder, self.name)
        return provider(self.provider).reads(Path(path)) if self.provider else may_be_transcript(Path(path))

    def find(self, below: str | None = None, closed: Callable[[OSError], object] | None = None) -> dict[str, State]:
        """The transcripts that are there now; of a folder in it, when it is named. `closed` is told of each folder that
        cannot be looked into."""
        if self.name:
            path = os.path.join(self.folder, self.name)
            state = state_of(path)
            return {} if state is None else {path: state}
        found: dict[str, State] = {}
        for folder, _, names in os.walk(below or self.folder, onerror=closed):
            for name in names:
                path = os.path.join(folder, name)
                if self.wants(path) and (state := state_of(path)) is not None:
                    found[path] = state
        return found


def places_of(name: str, environment: Mapping[str, str], home: Path) -> list[Place]:
    """Where a provider's agent keeps its transcripts on this machine. They need not be there yet."""
    return [Place(name, str(folder)) for folder in provider(name).folders(environment, home)]


def places_at(paths: Sequence[Path], name: str | None = None) -> list[Place]:
    """Files and folders that someone names. With the name of a provider, its transcripts alone."""
    places = []
    for path in paths:
        whole = path.absolute()
        if whole.is_dir():
            places.append(Place(name or "", str(whole)))
        elif whole.exists():
            whole = Path(os.path.realpath(whole))  # it may be a link
            places.append(Place(name or "", str(whole.parent), whole.name))
        else:
            raise InputError(f"there is no file {path}", guidance="Name a transcript, or a folder that has some.")
    return places


def state_of(path: str) -> State | None:
    """None for what is gone, and for what is no file: who opens a pipe may wait for ever."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return (stat.st_ino, stat.st_size, stat.st_mtime) if S_ISREG(stat.st_mode) else None


def barred(folder: str) -> Sequence[OSError]:
    """Why it cannot be told whether the folder is there: one on the way to it may not be looked into."""
    for outer, inner in pairwise([*map(str, reversed(Path(folder).parents)), folder]):
        try:
            os.stat(inner)
        except PermissionError as problem:
            return [PermissionError(problem.errno, problem.strerror, outer)]
        except OSError:
            break
    return []


def unread(closed: Sequence[OSError]) -> str | None:
    """What is not read of a place, and what helps: in a line."""
    lasting = [one for one in closed if not isinstance(one, FileNotFoundError)]  # else it went away just now
    if not lasting:
        return None
    first, others = lasting[0], len(lasting) - 1
    folder = str(named(first.filename))
    said = f"{folder}{f' and {others:,} more' if others else ''} cannot be read: {first.strerror or first}"
    if isinstance(first, PermissionError):
        said += f". If it is yours, this helps: chmod u+rx {quote(folder)}"
    return said


def is_remote(folder: str, mounts: Callable[[], str] = lambda: _MOUNTS.read_text("utf-8", "replace")) -> bool:
    """Whether the folder may be written to by another machine. False where nobody tells."""
    try:
        lines = mounts().splitlines()
    except OSError:
        return False
    path = os.path.realpath(folder)
    nearest, kind = -1, ""
    for line in lines:
        # "36 35 98:0 /root /mount/point options - ext4 /dev/sda1 options", with spaces in names written as \040
        before, _, after = line.partition(" - ")
        if len(fields := before.split(" ")) < 5 or not after:
            continue
        point = fields[4].replace("\\040", " ").rstrip("/")
        if (path == point or path.startswith(f"{point}/")) and len(point) >= nearest:
            nearest, kind = len(point), after.split(" ")[0]
    return kind.startswith(_REMOTE)
