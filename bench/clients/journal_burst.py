"""`journal` with Dragoman: the chunks of `chunks`, each shown only when its frame and rows are committed to a file. The
connection and the recorder are joined as a runtime joins them.

With `--tool-every N` (the argument that says how many of something) N sessions are prompted at once, each on an agent
of its own, and all into one journal.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.clients.report import WARM_UP_CHUNKS, Arguments, arguments, check_order, report
from dragoman.errors import DragomanError, SessionClosed
from dragoman.journal import notes
from dragoman.journal.protocols import Connection as Handshake
from dragoman.journal.recorder import ConnectionRecorder, RecordedFrame
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sqlite import SqliteJournal
from dragoman.record import facts
from dragoman.record.routing import ConnectionReader
from dragoman.session.link import launch
from dragoman.session.spec import AgentSpec, Limits
from dragoman.wire.connection import RpcConnection
from dragoman.wire.messages import Message, OutgoingMessage, Request, Update

# Seconds between two looks at how late the loop is.
TICK = 0.001


class Recorded:
    """A connection that stores every frame in the journal, in both directions."""

    def __init__(self, journal: SqliteJournal, name: str) -> None:
        self.name = name
        self.recorder = ConnectionRecorder(journal, Handshake(id=name, agent="raw", at=time.time()))
        self.recorder.add_session(SessionRecord(name))
        self.recorder.listen(name, self._on_committed)
        self.conversation = ConnectionReader()
        self.texts: list[str] = []
        self.frames = 0

    def _on_committed(self, frame: RecordedFrame) -> None:
        self.frames += len(frame.entry.frame)
        self.texts += [fact.text for fact in frame.facts if type(fact) is facts.TextAdded]

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        add, name = self.recorder.add, self.name
        for message in messages:
            if type(message) is not Update:
                self.conversation.session_of("in", message)
            add("agent", message, at, name)

    def on_sending(self, message: OutgoingMessage, at: float) -> None:
        self.conversation.session_of("out", message)
        self.recorder.add("client", message, at, self.name)

    async def serve(self, request: Request) -> object:
        raise NotImplementedError

    async def wait_until_ready(self) -> None:
        pass  # nothing is read before what was read is kept

    async def on_ended(self) -> DragomanError:
        return SessionClosed("the agent has ended")


async def opened(journal: SqliteJournal, options: Arguments, name: str) -> tuple[Recorded, RpcConnection, str]:
    await journal.register_connection(Handshake(id=name, agent="raw", at=time.time()))
    handler = Recorded(journal, name)
    handler.recorder.add("host", notes.write(notes.SessionOpened(agent="raw", cwd=options.cwd)), time.time(), name)
    link = await launch(AgentSpec(command=options.agent), Limits(), lambda _: None)
    connection = RpcConnection(link, handler, flush=handler.recorder.flush)  # as `AgentRuntime` has it
    await connection.request("initialize", {"protocolVersion": 1})
    answer = await connection.request("session/new", {"cwd": options.cwd, "mcpServers": []})
    return handler, connection, msgspec.json.decode(answer)["sessionId"]


def size_of(path: Path) -> int:
    return path.stat().st_size


async def lag(delays: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(TICK)
        delays.append(time.perf_counter() - before - TICK)


async def main() -> None:
    options = arguments()
    sessions = options.tool_every or 1
    with tempfile.TemporaryDirectory(dir=options.cwd) as folder:
        path = Path(folder, "journal.db")
        async with await SqliteJournal.open(path) as journal:
            talks = [await opened(journal, options, f"session {number}") for number in range(sessions)]

            async def prompt(talk: tuple[Recorded, RpcConnection, str], count: int) -> None:
                handler, connection, session_id = talk
                handler.texts.clear()
                words = {"type": "text", "text": str(count)}
                await connection.request("session/prompt", {"sessionId": session_id, "prompt": [words]})
                await handler.recorder.flush()

            for talk in talks:
                await prompt(talk, WARM_UP_CHUNKS)
            delays: list[float] = []
            ticking = asyncio.create_task(lag(delays))
            started = time.perf_counter()
            await asyncio.gather(*(prompt(talk, options.count) for talk in talks))
            seconds = time.perf_counter() - started
            ticking.cancel()
            late = max(check_order(talk[0].texts, options.count) for talk in talks)
            for _, connection, _ in talks:
                await connection.close()
        delays.sort()
        report(
            seconds=seconds,
            late=late,
            lag=delays[len(delays) * 99 // 100] if delays else 0.0,
            file_bytes=size_of(path),
            frame_bytes=sum(talk[0].frames for talk in talks),
        )


if __name__ == "__main__":
    asyncio.run(main())
