"""A conversation that is put into a journal, frame by frame, in as many commits as the test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from dragoman.journal import maintenance
from dragoman.journal import notes as journal_notes
from dragoman.journal.entry import Cursor, Entry, Origin, entry_kind, stored_frame
from dragoman.journal.protocols import Connection, Journal, Process
from dragoman.journal.recorder import ConnectionRecorder
from dragoman.journal.session_record import SessionRecord
from dragoman.record import notes
from dragoman.record.facts import Fact
from dragoman.record.routing import ConnectionReader
from dragoman.wire.messages import Message, Noise
from dragoman.wire.vocabulary import TextContent

ALLOW = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]


class Talk:
    """One connection with one session. The frame's number is its time."""

    def __init__(
        self,
        journal: Journal,
        session: str = "s1",
        connection: str = "c1",
        *,
        epoch: int | None = None,
        secrets: Mapping[str, str] = {},
    ) -> None:
        self.journal = journal
        self.session = session
        self.connection = connection
        self.record = SessionRecord(session)
        self.recorder = ConnectionRecorder(journal, Connection(id=connection, agent="demo", at=0.0), secrets=secrets)
        self.recorder.add_session(self.record, epoch)
        self.time = 0.0
        self._conversation = ConnectionReader()
        self._next_id = 0

    @classmethod
    async def begin(
        cls,
        journal: Journal,
        session: str = "s1",
        connection: str | None = None,
        *,
        agent: str = "demo",
        cwd: str = "/home/me/project",
        time: float = 0.0,
        epoch: int | None = None,
        secrets: Mapping[str, str] = {},
    ) -> Talk:
        connection = connection or f"connection of {session}"
        await journal.register_connection(Connection(id=connection, agent=agent, at=time))
        talk = cls(journal, session, connection, epoch=epoch, secrets=secrets)
        talk.time = time
        talk.note(journal_notes.SessionOpened(agent=agent, cwd=cwd, agent_session_id=f"agent's {session}"))
        return talk

    @classmethod
    async def resume(cls, journal: Journal, session: str = "s1", *, connection: str) -> Talk:
        """Go on with a session that the journal has, on another connection."""
        await register_c1(journal, connection)
        talk = cls(journal, session, connection)
        talk.record = await maintenance.load_record(journal, session)
        talk.recorder.add_session(talk.record)
        return talk

    # -- frames

    def update(self, kind: str, /, origin: Origin = "agent", **fields: Any) -> Sequence[Fact]:
        params = {"sessionId": "a", "update": {"sessionUpdate": kind, **fields}}
        return self.frame("in", {"method": "session/update", "params": params}, origin)

    def say(self, text: str, origin: Origin = "agent", **fields: Any) -> Sequence[Fact]:
        return self.update("agent_message_chunk", origin, content={"type": "text", "text": text}, **fields)

    def tool(self, tool_call_id: str, **fields: Any) -> Sequence[Fact]:
        return self.update("tool_call", toolCallId=tool_call_id, **{"title": "a tool", **fields})

    def prompt(self, text: str) -> int:
        self._next_id += 1
        self.note(notes.Prompt(f"run-of-{self._next_id}", (TextContent(text=text),)))
        params = {"sessionId": "a", "prompt": [{"type": "text", "text": text}]}
        self.frame("out", {"id": self._next_id, "method": "session/prompt", "params": params}, "client")
        return self._next_id

    def end(self, request_id: int, **result: Any) -> Sequence[Fact]:
        return self.frame("in", {"id": request_id, "result": {"stopReason": "end_turn", **result}}, "agent")

    def turn(self, prompt: str, *answer: str) -> None:
        request_id = self.prompt(prompt)
        for text in answer:
            self.say(text)
        self.end(request_id)

    def note(self, note: journal_notes.Note | notes.Note) -> None:
        message = journal_notes.write(note) if isinstance(note, journal_notes.Note) else notes.write(note)
        self.message(message, "host")

    def noise(self, line: bytes) -> None:
        self.message(Noise("no message", line), "agent")

    def frame(self, direction: Literal["in", "out"], frame: dict[str, Any], origin: Origin) -> Sequence[Fact]:
        line = msgspec.json.encode({"jsonrpc": "2.0", **frame})
        facts: list[Fact] = []
        for heard in self._conversation.read(direction, line):
            facts.extend(self.message(heard.message, origin))
        return facts

    def message(self, message: Message, origin: Origin) -> Sequence[Fact]:
        self.time += 1
        return self.recorder.add(origin, message, self.time, self.session)

    async def commit(self) -> Cursor:
        cursor = await self.recorder.flush()
        assert cursor is not None
        return cursor


def entry(n: int, text: str = "x", session: str | None = "s1", connection: str = "c1", at: float = 1.0) -> Entry:
    """A chunk, without anything around it."""
    frame = (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"a","update":'
        b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":' + msgspec.json.encode(text) + b"}}}}"
    )
    return Entry(connection, session, n, at, "agent", "agent_message_chunk", frame)


def entry_of(message: Message, n: int, origin: Origin, session: str | None = "s1", connection: str = "c1") -> Entry:
    return Entry(connection, session, n, float(n), origin, entry_kind(message), stored_frame(message))


async def register_c1(journal: Journal, connection: str = "c1") -> Journal:
    await journal.register_connection(Connection(id=connection, agent="demo", at=0.0))
    return journal


async def all_entries(journal: Journal, session: str | None = None, limit: int = 7) -> list[Entry]:
    entries: list[Entry] = []
    cursor: Cursor | None = None
    while (page := await journal.read(session, after=cursor, limit=limit)).entries:
        entries.extend(page.entries)
        cursor = page.cursor
    return entries


def process(name: str, heartbeat: float = 0.0) -> Process:
    return Process(id=name, host="here", pid=4711, started="then", heartbeat=heartbeat)
