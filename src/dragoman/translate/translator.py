"""`Translator` and `Provider`: what stands between a native transcript and the journal, and what it promises.

A transcript is a file of lines that its agent appends to. A translator is made for one file and given its lines in
order; it gives whole ACP frames, as if a client had held the conversation: `session/new` and its answer, each
`session/prompt` with its answer and stop reason, and the updates in between. Runs fold from them as live ones do.

* Pure: no I/O, no clock, nothing random. The same lines give the same frames, byte by byte, however they arrive. So a
  watcher that was killed feeds a file again from its beginning and leaves out as many frames as it has.
* The frames of the first lines are a prefix of the frames of all lines: nothing that was given is taken back.
* `feed` never raises for what is in a line. A line or record that cannot be read, or is of a kind that nobody knows,
  becomes a `_native/<provider>` notification, and is counted.
* A record told twice in a file is translated once.
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
    """One frame, to be kept with the origin `import`."""

    at: float  # seconds since 1970, as the transcript tells
    direction: Literal["in", "out"]  # as if we had been the client: prompts went out
    session_id: str  # the agent's own
    kind: str  # as the journal's entries have it: of an update its kind, of an answer the method it answers
    line: bytes  # without a newline


class Translator(Protocol):
    """One transcript's translation. A file may tell of several sessions: its own, and those of sub-agents within it."""

    unknown: Counter[str]
    """How often each kind was seen that nobody knows; `unreadable` for what is no record at all."""

    def feed(self, line: bytes, position: int) -> Sequence[Frame]:
        """The frames that one more line of the file gives. `position` is the offset of its first byte in the file: of
        what has no id of its own, it makes one."""

    def finish(self) -> Iterable[Frame]:
        """What was held back for lines to come, and the end of a run that the transcript leaves open, as an error.

        The last that is asked of a translator, and not for a file that is being written. One that grows after all is
        translated again from its beginning; `feed` then gives the same frames as before, and more.
        """


class Provider(Protocol):
    """A kind of transcript: where its files are, and who translates them."""

    name: str

    def folders(self, environment: Mapping[str, str], home: Path) -> Sequence[Path]:
        """Where this provider's transcripts are, on a machine with this environment. They need not exist."""

    def reads(self, path: PurePath) -> bool:
        """Whether a file below such a folder is a transcript, by its path alone."""

    def sidecar(self, path: PurePath) -> PurePath | None:
        """The file that tells more about this transcript, where there may be one."""

    def translator(self, path: PurePath, sidecar: bytes = b"") -> Translator:
        """For the file with this path, of which names are told, and what its sidecar says."""


PROVIDERS: Final = ("claude", "codex")


def provider(name: str) -> Provider:
    """Loaded when it is asked for."""
    if name not in PROVIDERS:
        raise InputError(
            f"no transcripts of {name!r} can be read", guidance=f"Use one of these: {', '.join(PROVIDERS)}."
        )
    found: Provider = import_module(f"dragoman.translate.{name}.translator").PROVIDER
    return found
