"""The process that `apart` begins: it is asked for files on stdin, and tells what came of each on stdout.

It ends when nobody asks any more, which is also when whoever began it has ended.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from dragoman.journal.entry import Cursor, Entry, Page
from dragoman.journal.rows import RowChanges
from dragoman.journal.store import PAGE, Connection, Journal, Owner, Position
from dragoman.translate.admission import Admission
from dragoman.translate.apart import LENGTH, UP, Answer, Asked, Done, Failed
from dragoman.translate.commits import Commit
from dragoman.translate.intake import Intake

_read = msgspec.msgpack.Decoder(Asked).decode


class _Sender:
    """What an intake needs of a journal: empty, and what is appended is sent."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._connection: Connection | None = None

    def say_up(self) -> None:
        self._out.write(UP)
        self._out.flush()

    def send(self, answer: Answer) -> None:
        data = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
        self._out.write(LENGTH.pack(len(data)))
        self._out.write(data)
        self._out.flush()

    async def connect(self, connection: Connection) -> None:
        self._connection = connection

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        position: Position | None = None,
    ) -> Cursor:
        assert position is not None
        connection, self._connection = self._connection, None
        self.send(Commit(entries, changes, position, connection))
        return ""

    async def owner(self, session_id: str) -> Owner | None:
        return None

    async def read(self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE) -> Page:
        return Page((), "", "", ())


async def _answer(asked: Asked, admission: Admission, sender: _Sender) -> None:
    # Of a journal's many methods an intake calls these four.
    intake = Intake(cast(Journal, sender), admission, asked.position, asked.end)
    try:
        await intake.read(Path(os.fsdecode(asked.path)), lambda _: None)
        await intake.commits.settled()
    except BrokenPipeError:
        raise
    except Exception:  # whatever it is, the file is read once more where it can be told
        sender.send(Failed())
    else:
        sender.send(Done(intake.report(), intake.position, intake.refusal))


async def _serve(asking: BinaryIO, sender: _Sender) -> None:
    sender.say_up()
    admission = Admission({}, frozenset())
    while len(head := asking.read(LENGTH.size)) == LENGTH.size:
        asked = _read(asking.read(LENGTH.unpack(head)[0]))
        admission = asked.admission or admission
        await _answer(asked, admission, sender)


def main() -> None:
    try:
        asyncio.run(_serve(sys.stdin.buffer, _Sender(sys.stdout.buffer)))
    except BrokenPipeError:
        pass  # nobody listens any more
    # All that was sent is out. To take down what was built would only keep waiting who waits for the end.
    os._exit(0)


if __name__ == "__main__":
    main()
