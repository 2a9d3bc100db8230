"""`Translator` and `Provider`: the interface between a native transcript and the journal, for one format each.

A transcript is a file of lines that an agent appends to. A translator is made for one file and given its lines in
order; it returns whole ACP frames, as if a client had held the conversation: `session/new` and its answer, each
`session/prompt` with its answer and stop reason, and the updates in between. Runs fold from them as live ones do.

Promised:

* No clock, nothing random, no network, and of the file system at most scratch space. The same lines give the same
  frames, byte by byte, however they arrive. So a watcher that was killed feeds a file again from its beginning, and
  what the journal has is left out frame by frame.
* The frames of the first lines are a prefix of the frames of all lines: no frame is withdrawn.
* `feed` never raises for the content of a line. A line or record that cannot be read, or is of an unknown kind,
  becomes a `_native/<provider>` notification and is counted in `unknown`.
* A record that comes twice in a file is translated once.
* Memory is bounded: it does not grow with the length of the file.

Not promised: that records which another file repeats (a fork, a session resumed under another id) are left out. The
importer does that where they belong to one session.

A new format is a package `dragoman.translate.<name>` with a module `translator` that has a `PROVIDER`, and its name in
`PROVIDERS`. Nothing else changes: importing, watching, the command line and the page go through this interface.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path, PurePath
from typing import Final, Literal, Protocol

import msgspec

from dragoman.errors import InputError


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame, to be stored with the origin `import`."""

    at: float  # seconds since 1970, as the transcript says
    direction: Literal["in", "out"]  # as if we had been the client: prompts went out
    session_id: str  # the agent's own
    kind: str  # as in a journal entry: of an update its kind, of an answer the method that it answers
    line: bytes  # without a newline


class Translator(Protocol):
    """The translation of one transcript. It may hold several sessions: its own, and those of sub-agents."""

    unknown: Counter[str]
    """The number of records of each unknown kind; `unreadable` counts lines that are no record at all."""

    def feed(self, line: bytes, offset: int) -> Sequence[Frame]:
        """Return the frames that one more line gives. `offset` is that of its first byte in the file: records
        without an id of their own get one from it."""

    def finish(self) -> Iterable[Frame]:
        """Return the frames that waited for further lines, and end a run that the transcript leaves unfinished: as an
        error, unless its last record may have been its last.

        The last call on a translator, and not for a file that is being written. These frames are provisional: a file
        that grows after all is translated again from its beginning, `feed` then gives the same frames as before, and
        more, and the importer withdraws those of `finish`.
        """


class Provider(Protocol):
    """A format of transcripts: where its files are, and who translates them."""

    name: str

    def folders(self, environment: Mapping[str, str], home: Path) -> Sequence[Path]:
        """Return the folders of its transcripts on a machine with this environment. They need not exist."""

    def reads(self, path: PurePath) -> bool:
        """Return True if a file below such a folder is a transcript, by its path alone."""

    def sidecar(self, path: PurePath) -> PurePath | None:
        """Return the path of a file that says more about this transcript, if the format has such files."""

    def earlier_parts(self, path: Path) -> Sequence[Path]:
        """Return the files with earlier parts of the same session, the first one first; nearly always none."""

    def owns(self, line: bytes) -> bool:
        """Return True if the line is a record that only this agent writes. Never raises.

        A file with such a record among its first lines is detected as this provider's (`discover.detect_provider`).
        """

    def translator(self, path: PurePath, sidecar: bytes = b"") -> Translator:
        """Make a translator for the file with this path, of which only the names count, and the sidecar's content."""


PROVIDERS: Final = ("claude", "codex")


def get_provider(name: str) -> Provider:
    """Load a provider. Raises `InputError` if there is none of this name."""
    if name not in PROVIDERS:
        raise InputError(
            f"transcripts of {name!r} cannot be read", guidance=f"Use one of these: {', '.join(PROVIDERS)}."
        )
    provider: Provider = import_module(f"dragoman.translate.{name}.translator").PROVIDER
    return provider
