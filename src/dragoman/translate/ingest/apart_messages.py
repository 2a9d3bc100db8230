"""What is said between an import and the process that reads beside it: `Asked`, and the answers to each."""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import msgspec

from dragoman.journal.protocols import Position
from dragoman.translate.ingest.commit import Commit
from dragoman.translate.ingest.file_import import Seen
from dragoman.translate.ingest.import_policy import Admission
from dragoman.translate.ingest.report import ImportedFile

# Before each message stands its length; before the first one that comes, one that says that the process is up.
LENGTH: Final = struct.Struct("<Q")
UP: Final = LENGTH.pack(0)


class Asked(msgspec.Struct, frozen=True):
    path: bytes
    position: Position
    end: Seen
    admission: Admission | None  # None: as the last time


class Done(msgspec.Struct, frozen=True):
    report: ImportedFile
    position: Position
    refusal: str | None


class Failed(msgspec.Struct, frozen=True):
    """Nothing more comes of this file."""


Answer: TypeAlias = Commit | Done | Failed
