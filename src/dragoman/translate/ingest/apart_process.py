"""The process that `apart` begins: it is asked for files on stdin, and tells what came of each on stdout.

It ends when nobody asks any more, which is also when whoever began it has ended.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import msgspec

from dragoman.journal.entry import Cursor, Page
from dragoman.journal.protocols import PAGE_ENTRIES, Journal, Owner
from dragoman.translate.ingest.apart_messages import LENGTH, UP, Answer, Asked, Done, Failed
from dragoman.translate.ingest.commit import Commit
from dragoman.translate.ingest.file_import import Intake
from dragoman.translate.ingest.import_policy import Admission
from dragoman.translate.transcript_file import has_long_line

# Objects that are made before cycles among them are looked for: to do that at each thousandth, as Python does, takes a
# twentieth of the time. There are none: what a line makes goes with the next, what is known of a file with the file.
_GARBAGE: Final = 50_000

_read = msgspec.msgpack.Decoder(Asked).decode


class _Sender:
    """What is added is sent."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def say_up(self) -> None:
        self._out.write(UP)
        self._out.flush()

    def send(self, answer: Answer) -> None:
        data = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
        self._out.write(LENGTH.pack(len(data)))
        self._out.write(data)
        self._out.flush()

    async def add(self, commit: Commit, then: Callable[[Cursor], None]) -> None:
        self.send(commit)


class _Nothing:
    """What an intake asks of a journal, where there is nothing in it."""

    async def owner(self, session_id: str) -> Owner | None:
        return None

    async def read(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        return Page((), "", "", ())


def _answer(asked: Asked, admission: Admission, sender: _Sender) -> None:
    intake = Intake(cast(Journal, _Nothing()), admission, asked.position, asked.end, sender)
    path = Path(os.fsdecode(asked.path))
    try:
        if has_long_line(path, asked.end.size):
            # To be read where it is committed: on the way there it would be copied several times, in both processes.
            sender.send(Failed())
            return
        _run(intake.read(path, lambda _: None))
    except BrokenPipeError:
        raise
    except Exception:  # whatever it is, the file is read once more where it can be told
        sender.send(Failed())
    else:
        sender.send(Done(intake.report(), intake.position, intake.refusal))


def _run(reading: Coroutine[Any, Any, None]) -> None:
    """To its end: it waits for nobody here. A loop to run it in would take longer to load than all that is needed."""
    try:
        while True:
            reading.send(None)
    except StopIteration:
        pass


def _serve(asking: BinaryIO, sender: _Sender) -> None:
    sender.say_up()
    admission = Admission({}, frozenset())
    while len(head := asking.read(LENGTH.size)) == LENGTH.size:
        asked = _read(asking.read(LENGTH.unpack(head)[0]))
        admission = asked.admission or admission
        _answer(asked, admission, sender)


def main() -> None:
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    try:
        _serve(sys.stdin.buffer, _Sender(sys.stdout.buffer))
    except BrokenPipeError:
        pass  # nobody listens any more
    # All that was sent is out. To take down what was built would only keep waiting who waits for the end.
    os._exit(0)


if __name__ == "__main__":
    main()
