"""A process that writes to a journal until it is killed.

    python -m journal.writer_process JOURNAL TEE CONNECTION COUNT

Every frame is written to the tee file before the journal is given it, as an agent's own log would have it. A line on
stdout says how many frames of the connection are committed. With COUNT 0 it never ends by itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from dragoman.journal.entry import stored_frame
from dragoman.journal.protocols import Connection
from dragoman.journal.recorder import ConnectionRecorder, RecordedFrame
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sqlite import SqliteJournal
from dragoman.wire.messages import Message
from journal.talk import Talk

SESSIONS = 3


async def main(path: str, tee_path: str, connection: str, count: int) -> None:
    tee = os.open(tee_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def on_committed(frame: RecordedFrame) -> None:
        os.write(1, b"%d\n" % frame.entry.n)

    async with await SqliteJournal.open(Path(path)) as journal:
        stored = Connection(id=connection, agent="demo", at=0.0)
        await journal.register_connection(stored)
        recorder = ConnectionRecorder(journal, stored, max_waiting_bytes=2000)
        talks: list[Talk] = []
        for number in range(SESSIONS):
            name = f"{connection}-{number}"
            talk = Talk(journal, name, connection)
            talk.recorder = recorder
            talk.record = SessionRecord(name)
            recorder.add_session(talk.record)
            recorder.listen(name, on_committed)
            talks.append(talk)

        add = recorder.add

        def add_after_tee(origin: object, message: Message, *more: object) -> object:
            os.write(tee, stored_frame(message) + b"\n")
            return add(origin, message, *more)  # type: ignore[arg-type]  # as it was called

        recorder.add = add_after_tee  # type: ignore[method-assign, assignment]
        turn = 0
        while not count or turn < count:
            turn += 1
            for talk in talks:
                request_id = talk.prompt(f"prompt {turn}")
                for word in range(turn % 7):
                    talk.say(f"word {word} ")
                    await recorder.ready()
                talk.tool(f"tool {turn}", status="completed")
                talk.say("after the tool")
                if turn % 3:
                    talk.end(request_id)
            await asyncio.sleep(0)
        await recorder.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
