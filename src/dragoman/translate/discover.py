"""Finding transcripts: in the folders where an agent keeps them, or in files and folders that the user names.

Finding them reads names and sizes only. A file whose provider is not known is read at its beginning.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

import msgspec

from dragoman.errors import InputError
from dragoman.translate.transcript_file import open_transcript, whole_lines
from dragoman.translate.translator import PROVIDERS, get_provider
from dragoman.wire.messages import DECODE_ERRORS

# Lines and bytes that are read to detect a provider. Some files begin with many lines that say nothing.
_MAX_DETECTION_LINES: Final = 1000
_MAX_DETECTION_BYTES: Final = 8 * 1024 * 1024

# A file that is one document on many lines is read as a whole up to this size, only to name its format.
_MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024


class Transcript(msgspec.Struct, frozen=True):
    """A file that may be a transcript; `provider` is empty if it is not known."""

    provider: str
    path: Path
    size: int
    modified: float


def find_transcripts(provider: str, environment: Mapping[str, str], home: Path) -> list[Transcript]:
    """The transcripts that an agent keeps on this machine, the oldest first."""
    format_ = get_provider(provider)
    return _sorted(
        transcript
        for folder in format_.folders(environment, home)
        for transcript in _walk(folder, provider, format_.reads)
    )


def transcripts_at(paths: Sequence[Path], provider: str | None = None) -> list[Transcript]:
    """The files that the user names, and all transcripts in the folders that the user names, the oldest first.

    With a provider, a file is taken to be its transcript unless it is another's, and of a folder only its own count.
    """
    transcripts: list[Transcript] = []
    for path in paths:
        if path.is_dir():
            inside = _walk(path, provider or "", may_be_transcript)
            transcripts += [file for file in inside if provider is None or _is_of(provider, file.path)]
        elif (file := _stat(provider or "", Path(os.path.realpath(path)))) is not None:  # may be a symlink
            if provider is not None and (other := _other_provider(provider, file.path)) is not None:
                guidance = f"Use --provider {other}." if other in PROVIDERS else f"Supported: {', '.join(PROVIDERS)}."
                raise InputError(f"{path} is a transcript of {other}, not of {provider}", guidance=guidance)
            transcripts.append(file)
        else:
            raise InputError(f"there is no file {path}", guidance="Name a transcript, or a folder that has some.")
    return _sorted(transcripts)


def detect_provider(path: Path) -> str | None:
    """The provider that wrote the file: one of its first lines is a record that only this agent writes."""
    for line in _first_lines(path):
        for provider in PROVIDERS:
            if get_provider(provider).owns(line):
                return provider
    return None


def name_format(path: Path) -> str | None:
    """The agent, or the program, whose format the file has, if it is one that is known and cannot be read yet."""
    formats = msgspec.convert(
        tomllib.loads(resources.files("dragoman.translate").joinpath("other_formats.toml").read_text())["format"],
        list[_OtherFormat],
    )
    for record in map(_decode_object, (*_first_lines(path), _document(path))):
        for other in formats:
            if record and other.matches(record):
                return other.agent
    return None


class _OtherFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of other_formats.toml."""

    agent: str
    fields: tuple[str, ...]
    types: tuple[str, ...] = ()

    def matches(self, record: Mapping[str, Any]) -> bool:
        if self.types and record.get("type") not in self.types:
            return False
        return all(_has_field(record, field) for field in self.fields)


def _has_field(record: Mapping[str, Any], field: str) -> bool:
    name, _, rest = field.partition(".")
    value = record.get(name)
    if not rest:
        return name in record
    return isinstance(value, dict) and _has_field(value, rest)


def _decode_object(text: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except DECODE_ERRORS:
        return {}


def _first_lines(path: Path) -> Iterator[bytes]:
    with open_transcript(path) as file:
        for line in islice(whole_lines(file), _MAX_DETECTION_LINES):
            yield line.text
            if line.end > _MAX_DETECTION_BYTES:
                return


def _document(path: Path) -> bytes:
    with open_transcript(path) as file:
        text = file.read(_MAX_DOCUMENT_BYTES)
    return text if text.lstrip().startswith(b"{") else b""


def may_be_transcript(path: Path) -> bool:
    """Decide by its name. A folder that the user names need not be laid out like the agent's own, so any file with
    lines of JSON may be a transcript."""
    return path.suffix == ".jsonl" or any(get_provider(provider).reads(path) for provider in PROVIDERS)


def _is_of(provider: str, path: Path) -> bool:
    try:
        return detect_provider(path) == provider
    except (OSError, InputError):
        return path.is_dir() or get_provider(provider).reads(path)  # the import will say what is wrong with it


def _other_provider(provider: str, path: Path) -> str | None:
    """The agent that wrote the file if it is another one. If none is detected, the user knows better."""
    try:
        detected = detect_provider(path) or name_format(path)
    except (OSError, InputError):
        return None
    return detected if detected != provider else None


def _walk(folder: Path, provider: str, is_match: Callable[[Path], bool]) -> Iterator[Transcript]:
    """Yield the files that match by name, and the folders that cannot be read: the import will say so."""
    errors: list[OSError] = []
    for parent, _, names in os.walk(folder, onerror=errors.append):
        for name in names:
            if is_match(path := Path(parent, name)) and (transcript := _stat(provider, path)) is not None:
                yield transcript
    for error in errors:
        if not isinstance(error, FileNotFoundError):
            yield Transcript(provider, Path(error.filename), 0, 0.0)


def _stat(provider: str, path: Path) -> Transcript | None:
    try:
        stat = path.stat()
    except OSError:
        return None  # gone meanwhile
    if not S_ISREG(stat.st_mode):
        return None  # opening a pipe may block for ever
    return Transcript(provider, path, stat.st_size, stat.st_mtime)


def _sorted(transcripts: Iterable[Transcript]) -> list[Transcript]:
    by_path = {transcript.path: transcript for transcript in transcripts}
    return sorted(by_path.values(), key=lambda transcript: (transcript.modified, transcript.path))
