"""Which transcripts there are: in the folders where a provider keeps them, or where someone says they are.

Looking for them reads names and sizes alone. Only where nobody says whose a file is, its beginning is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import Final

import msgspec

from dragoman.errors import InputError
from dragoman.translate.frames import is_json
from dragoman.translate.transcript_file import opened, whole_lines
from dragoman.translate.translator import PROVIDERS, provider

# Lines that tell whose a file is. Some begin with many that tell nothing, such as summaries of other conversations.
_TELLING: Final = 40

# Lines after which, with a session among them, there is no doubt.
_SURE: Final = 5


class Transcript(msgspec.Struct, frozen=True):
    """A file that its provider may read; `provider` is empty where nobody knows whose it is."""

    provider: str
    path: Path
    size: int
    modified: float


def kept(name: str, environment: Mapping[str, str], home: Path) -> list[Transcript]:
    """What a provider's agent keeps on this machine, the oldest first."""
    its = provider(name)
    return _sorted(one for folder in its.folders(environment, home) for one in _below(folder, name, its.reads))


def given(paths: Sequence[Path], name: str | None = None) -> list[Transcript]:
    """Files that someone names, and all transcripts in folders that someone names, the oldest first. With the name of a
    provider, a file is taken to be that one's, and of a folder those that are."""
    found: list[Transcript | None] = []
    for path in paths:
        if path.is_dir():
            inside = _below(path, name or "", may_be_transcript)
            found += [one for one in inside if one is not None and (name is None or _is_of(name, one.path))]
        elif (one := _looked_at(name or "", Path(os.path.realpath(path)))) is not None:  # it may be a link
            if name is not None and (other := _another(name, one.path)) is not None:
                raise InputError(f"{path} is a transcript of {other}, not of {name}", guidance=f"Name {other} instead.")
            found.append(one)
        else:
            raise InputError(f"there is no file {path}", guidance="Name a transcript, or a folder that has some.")
    return _sorted(found)


def whose(path: Path) -> str | None:
    """The provider that knows every record in the beginning of this file, and a session among them."""
    return next((name for name in PROVIDERS if _knows(name, path)), None)


def _knows(name: str, path: Path) -> bool:
    translator = provider(name).translator(path)
    has_session = False
    with opened(path) as file:
        for number, line in enumerate(islice(whole_lines(file), _TELLING), 1):
            if not is_json(line.text):
                continue  # what is damaged tells nothing
            told = translator.feed(line.text, line.position)
            has_session = has_session or any(frame.kind == "session/new" for frame in told)
            if translator.unknown:
                return False
            if has_session and number >= _SURE:
                return True
    return has_session


def may_be_transcript(path: Path) -> bool:
    """A folder that someone names need not be laid out as the agent's own: any lines of JSON may be a transcript."""
    return path.suffix == ".jsonl" or any(provider(name).reads(path) for name in PROVIDERS)


def _is_of(name: str, path: Path) -> bool:
    try:
        return whose(path) == name
    except (OSError, InputError):
        return path.is_dir() or provider(name).reads(path)  # who takes it in will say what is wrong with it


def _another(name: str, path: Path) -> str | None:
    """Whose it is in truth. Where nobody can tell, whoever named the provider knows."""
    try:
        found = whose(path)
    except (OSError, InputError):
        return None
    return found if found != name else None


def _below(folder: Path, name: str, wanted: Callable[[Path], bool]) -> Iterator[Transcript | None]:
    """By their names. A folder that may not be looked into is among them: who takes it in will say so."""
    closed: list[OSError] = []
    for place, _, names in os.walk(folder, onerror=closed.append):
        for one in names:
            if wanted(path := Path(place, one)):
                yield _looked_at(name, path)
    for problem in closed:
        if not isinstance(problem, FileNotFoundError):
            yield Transcript(name, Path(problem.filename), 0, 0.0)


def _looked_at(name: str, path: Path) -> Transcript | None:
    try:
        stat = path.stat()
    except OSError:
        return None  # gone meanwhile
    if not S_ISREG(stat.st_mode):
        return None  # a pipe or the like: whoever opens it may wait for ever
    return Transcript(name, path, stat.st_size, stat.st_mtime)


def _sorted(found: Iterable[Transcript | None]) -> list[Transcript]:
    once = {one.path: one for one in found if one is not None}
    return sorted(once.values(), key=lambda one: (one.modified, one.path))
