"""Streams of sessions: a follower ends up with the rows of the journal, in whatever order things happen."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.socket_client import JsonObject, View
from dragoman.bridge import broadcast as broadcast_module
from dragoman.bridge import broadcaster as broadcaster_module
from dragoman.bridge.broadcast import StreamMessage
from dragoman.bridge.broadcaster import Broadcaster
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.rows import newest_rows
from dragoman.bridge.telemetry import Metrics
from dragoman.config import Config
from dragoman.hub.hub import Hub
from dragoman.hub.owned_session import OwnedSession
from dragoman.journal.entry import Cursor, Entry, Page
from dragoman.journal.maintenance import load_record
from dragoman.journal.protocols import PAGE_ENTRIES, CommitListener, Connection, Journal, TranscriptPosition
from dragoman.journal.rows import RowChanges, SessionRows
from dragoman.journal.sqlite import MemoryJournal, SqliteJournal
from dragoman.translate.discover import Transcript as Transcripts
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.report import AT_REST_S
from journal.talk import Talk
from translate.claude_talk import SESSION, Transcript

T = TypeVar("T")

TIMEOUT_S = 30.0

# Seconds for what is on its way to be there.
SOON = 5.0


class LateJournal(MemoryJournal):
    """A journal in which a commit is there for readers before this process is told of it, as it is when a thread
    commits; and in which others commit too, of which it is not told at all."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign = False
        self.turns = 0  # of the loop, that a read takes
        self._untold: deque[Callable[[], None]] = deque()

    def on_commit(self, listener: CommitListener) -> Callable[[], None]:
        def later(cursor: Cursor, entries: Sequence[Entry], changes: Sequence[RowChanges]) -> None:
            if not self.foreign:
                self._untold.append(lambda: listener(cursor, entries, changes))

        return super().on_commit(later)

    def tell(self) -> None:
        while self._untold:
            self._untold.popleft()()

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        transcript_position: TranscriptPosition | None = None,
    ) -> Cursor:
        await asyncio.sleep(0)  # as one that waits for a disk
        return await super().append(entries, changes, epochs=epochs, transcript_position=transcript_position)

    async def read(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        return await self._slowly(await super().read(session_id, after=after, limit=limit))

    async def rows(self, session_id: str, *, max_characters: int | None = None) -> SessionRows:
        return await self._slowly(await super().rows(session_id, max_characters=max_characters))

    async def _slowly(self, found: T) -> T:
        """Return a value late, when it may be outdated."""
        for _ in range(self.turns):
            await asyncio.sleep(0)
        return found


class Session:
    """The part of a session that is read while its agent starts."""

    policy_notice = None

    async def close(self) -> None:
        pass


def owned(hub: Hub, session_id: str) -> OwnedSession:
    made = OwnedSession(session_id, hub.journal_client, lambda: None, stays=True, home=Path("/nowhere"))
    made.session = Session()  # type: ignore[assignment]  # see there
    return made


class Writing:
    """Someone who writes to a session: each time from what the journal has of it, as a process that takes it over."""

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self._name = name
        self._times = 0

    async def write(self, session_id: str, chance: random.Random) -> None:
        self._times += 1
        connection = f"{self._name}-{self._times}"
        await self._journal.register_connection(Connection(id=connection, agent="demo", at=0.0))
        talk = Talk(self._journal, session_id, connection)
        talk.record = await load_record(self._journal, session_id)
        talk.recorder.add_session(talk.record)
        talk.time = float(talk.record.position)
        for _ in range(chance.randrange(1, 6)):
            self._say(talk, chance)
        await talk.commit()

    def _say(self, talk: Talk, chance: random.Random) -> None:
        match chance.randrange(12):
            case 0:
                talk.turn(f"prompt {chance.random()}", "an ", "answer")
            case 1:
                talk.tool(f"t{chance.randrange(4)}", rawInput={"someKey": chance.random()})
            case 2:
                talk.update("tool_call_update", toolCallId=f"t{chance.randrange(4)}", status="completed")
            case 3:
                entries = [{"content": f"step {chance.random()}", "priority": "low", "status": "pending"}]
                talk.update("plan", entries=entries)
            case 4:
                talk.say(f"a new message {chance.random()}", messageId=f"m{chance.randrange(10**6)}")
            case _:
                talk.say("x" * chance.randrange(1, 400))


class Following:
    """One who follows: their view, and what is on its way to them."""

    def __init__(self, broadcaster: Broadcaster, session_id: str) -> None:
        self._broadcasts = broadcaster
        self.view = View(session_id)
        self._messages: AsyncGenerator[StreamMessage, None] | None = None
        self._next: asyncio.Task[StreamMessage | None] | None = None

    @property
    def follows(self) -> bool:
        return self._messages is not None

    async def come(self) -> None:
        """Anew, or back with the cursor."""
        if self._messages is None:
            self._messages = self._broadcasts.follow(self.view.session_id, self.view.cursor, 10**6)

    async def leave(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait([self._next])
            self._next = None
        if self._messages is not None:
            await self._messages.aclose()
            self._messages = None

    async def hear(self) -> bool:
        """A message, if there is one by now."""
        if (coming := self._coming()) is None:
            return False
        for _ in range(5):
            await asyncio.sleep(0)
        return coming.done() and self._heard(coming)

    async def hear_more(self) -> None:
        """The next message, when it comes."""
        if (coming := self._coming()) is not None:
            await asyncio.wait([coming])
            self._heard(coming)

    def _coming(self) -> asyncio.Task[StreamMessage | None] | None:
        if self._next is None and self._messages is not None:
            self._next = asyncio.get_running_loop().create_task(self._anext(self._messages))
        return self._next

    def _heard(self, task: asyncio.Task[StreamMessage | None]) -> bool:
        self._next = None
        if (message := task.result()) is None:
            self.view.ended = True
            self._messages = None
            return False
        self.view.apply_message(msgspec.json.decode(message.data))
        return True

    async def _anext(self, messages: AsyncGenerator[StreamMessage, None]) -> StreamMessage | None:
        try:
            return await anext(messages, None)
        except Refusal:
            return None  # it was deleted

    async def catch_up(self, position: int) -> None:
        await self.come()
        while not self.view.ended and int((self.view.cursor or "0.0").rpartition(".")[2]) < position:
            await self.hear_more()


async def rows_of(journal: Journal, session_id: str) -> dict[str, dict[str, JsonObject]]:
    rows, _, _ = newest_rows(await journal.rows(session_id), 10**6)
    made: dict[str, list[JsonObject]] = msgspec.json.decode(msgspec.json.encode(rows))
    return {table: {row["id"]: row for row in found} for table, found in made.items() if found}


def owned_session(view: View) -> dict[str, dict[str, JsonObject]]:
    return {table: rows for table, rows in view.tables.items() if rows}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is kept, and others are looked at after a pause that is now too long, now too short."""
    monkeypatch.setattr(broadcast_module, "MAX_KEPT_BYTES", 3000)
    monkeypatch.setattr(broadcaster_module, "MAX_KEPT_BYTES", 2500)
    monkeypatch.setattr(broadcast_module, "MAX_MESSAGE_BYTES", 800)
    monkeypatch.setattr(broadcaster_module, "FOREIGN_READ_PAUSE_S", 0.003)


async def compared(journal: Journal, following: Sequence[Following], session_id: str) -> None:
    row = await journal.session(session_id)
    assert row is not None
    for each in following:
        await each.catch_up(row.frames)
        rows = await rows_of(journal, session_id)
        try:
            async with asyncio.timeout(SOON):
                while await each.hear() or owned_session(each.view) != rows:
                    if owned_session(each.view) != rows:
                        await each.hear_more()  # a snapshot with what another process wrote is still to come
        except TimeoutError:
            assert owned_session(each.view) == rows


OPS = ("ours", "ours", "foreign", "tell", "tell", "come", "leave", "hear", "hear", "hear", "turns")


@pytest.mark.usefixtures("hurried")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    ops=st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 2)), min_size=20, max_size=60),
    seed=st.integers(0, 2**32),
    deleted=st.booleans(),
)
def test_a_view_equals_the_rows_after_any_sequence_of_events(
    ops: list[tuple[str, int]], seed: int, deleted: bool
) -> None:
    async def check() -> None:
        chance = random.Random(seed)
        journal = LateJournal()
        hub = Hub(config=Config(home=Path("/nowhere")), journal=journal)
        async with asyncio.timeout(TIMEOUT_S), journal, hub:
            writing = {"ours": Writing(journal, "ours"), "foreign": Writing(journal, "foreign")}
            await writing["ours"].write("s1", chance)
            broadcaster = Broadcaster(hub, Metrics())
            await broadcaster.start()
            following = [Following(broadcaster, "s1") for _ in range(3)]
            for op, which in ops:
                journal.turns = chance.choice((0, 1, 4, 12))
                match op:
                    case "ours" | "foreign":
                        journal.foreign = op == "foreign"
                        if journal.foreign:
                            journal.tell()  # all our commits are reported before another process can claim the session
                            hub.owned_sessions.clear()
                        else:
                            hub.owned_sessions["s1"] = owned(hub, "s1")
                        await writing[op].write("s1", chance)
                        journal.foreign = False
                    case "tell":
                        journal.tell()
                        # Now: what comes later may hide what is wrong.
                        await compared(journal, [each for each in following if each.follows], "s1")
                    case "come":
                        await following[which].come()
                    case "leave":
                        await following[which].leave()
                    case "hear":
                        await following[which].hear()
                    case _:
                        for _ in range(10):
                            await asyncio.sleep(0)
            journal.tell()
            await compared(journal, following, "s1")
            hub.owned_sessions.clear()
            if deleted:
                await journal.delete("s1", at=0.0)
                journal.tell()
                for each in following:
                    while not each.view.ended:
                        await each.hear()
            for each in following:
                await each.leave()
            await broadcaster.close()

    asyncio.run(check())


async def test_a_commit_that_is_read_before_it_is_reported_is_sent_once(tmp_path: Path) -> None:
    journal = LateJournal()
    async with asyncio.timeout(TIMEOUT_S), Hub(config=Config(home=tmp_path), journal=journal) as hub:
        talk = await Talk.begin(journal)
        talk.say("JsonObject ")
        await talk.commit()
        broadcaster = Broadcaster(hub, Metrics())
        await broadcaster.start()
        hub.owned_sessions["s1"] = owned(hub, "s1")
        talk.say("once")
        await talk.commit()
        following = Following(broadcaster, "s1")
        await following.come()
        await following.hear_more()  # the snapshot has it
        journal.tell()
        talk.say(", and more")
        await talk.commit()
        journal.tell()
        await compared(journal, [following], "s1")
        assert following.view.texts() == ["JsonObject once, and more"]
        await following.leave()
        hub.owned_sessions.clear()
        await broadcaster.close()


async def test_the_changes_kept_of_all_sessions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster_module, "MAX_KEPT_BYTES", 20_000)
    async with (
        asyncio.timeout(TIMEOUT_S),
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Hub(config=Config(home=tmp_path), journal=journal) as hub,
    ):
        talks = [await Talk.begin(journal, f"s{number}") for number in range(8)]
        for talk in talks:
            await talk.commit()
        broadcaster = Broadcaster(hub, Metrics())
        await broadcaster.start()
        following = [Following(broadcaster, talk.session) for talk in talks]
        for each in following:
            await each.come()
            await each.hear_more()
        stored = []
        for number in range(40):
            for talk in talks:
                talk.say("x" * 100 * (number % 9))
                await talk.commit()
            stored.append(sum(feed.droppable_bytes for feed in broadcaster._broadcasts.values()))
        assert 10_000 < max(stored) <= 20_000
        for each in following:  # none of whom has read anything meanwhile
            await compared(journal, [each], each.view.session_id)
            assert each.view.snapshots == 2
            await each.leave()
        await broadcaster.close()


async def test_streams_that_share_a_turn_make_one_message_at_a_time(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(TIMEOUT_S),
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Hub(config=Config(home=tmp_path), journal=journal) as hub,
    ):
        talks = [await Talk.begin(journal, f"s{number}") for number in range(2)]
        for talk in talks:
            await talk.commit()
        broadcaster = Broadcaster(hub, Metrics())
        await broadcaster.start()
        turn = asyncio.Lock()
        one, other = (broadcaster.follow(talk.session, lock=turn) for talk in talks)
        assert (await anext(one)).type == "snapshot"
        waiting = asyncio.create_task(anext(other))
        talks[0].say("hello")
        await talks[0].commit()
        assert not waiting.done()  # the reader of the first message has not asked for more
        more = asyncio.create_task(anext(one))
        assert (await waiting).type == "snapshot"
        assert not more.done()
        await other.aclose()  # a reader that leaves lets the others go on
        assert b"hello" in (await more).data
        await one.aclose()
        assert not turn.locked()
        await broadcaster.close()


async def test_a_change_that_cannot_be_sent_does_not_harm_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        asyncio.timeout(TIMEOUT_S),
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Hub(config=Config(home=tmp_path), journal=journal) as hub,
    ):
        talk = await Talk.begin(journal)
        await talk.commit()
        broadcaster = Broadcaster(hub, Metrics())
        await broadcaster.start()
        following = Following(broadcaster, "s1")
        await following.come()
        with monkeypatch.context() as broken:
            broken.setattr(broadcaster_module, "changes_of", lambda change: 1 / 0)
            await following.hear_more()
            talk.say("hello")
            await talk.commit()
        assert "could not be sent" in caplog.text
        talk.say(" again")
        await talk.commit()
        await compared(journal, [following], "s1")
        await following.leave()
        await broadcaster.close()


@pytest.mark.parametrize("is_foreign", [False, True])
async def test_a_run_that_was_taken_to_be_over_goes_on_in_every_view(
    hurried: None, tmp_path: Path, is_foreign: bool
) -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("Going. ", stop="tool_use")
    transcript.call("Bash", {"command": "make"})
    path = tmp_path / f"{SESSION}.jsonl"

    async def import_lines(journal: Journal, *, at_rest: bool) -> None:
        path.write_bytes(b"\n".join(transcript.lines) + b"\n")
        now = time.time() + (2 * AT_REST_S if at_rest else 0.0)
        report = await Importer(journal, clock=lambda: now).import_file(Transcripts("claude", path, 1, 1.0))
        assert report.frames

    async with (
        asyncio.timeout(TIMEOUT_S),
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        await SqliteJournal.open(tmp_path / "journal.db") as other,
        Hub(config=Config(home=tmp_path), journal=journal) as hub,
    ):
        writer = other if is_foreign else journal
        await import_lines(writer, at_rest=True)
        (session,) = await journal.sessions()
        assert session.status == "interrupted"
        broadcaster = Broadcaster(hub, Metrics())
        await broadcaster.start()
        following = Following(broadcaster, session.id)
        await following.come()
        await following.hear_more()
        for text, at_rest in (("More.", True), ("And more.", False)):
            transcript.text(text, id="msg_2", stop="tool_use")
            await import_lines(writer, at_rest=at_rest)
            await compared(journal, [following], session.id)
        item = broadcaster.listing.item(session.id)
        assert item is not None
        assert item.run_status == "running"
        await following.leave()
        await broadcaster.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_two_processes_write_in_turn_and_a_view_is_the_rows(hurried: None, tmp_path: Path, seed: int) -> None:
    """With real files and threads; the other process is another journal on the same file."""
    chance = random.Random(seed)
    async with (
        asyncio.timeout(4 * TIMEOUT_S),
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        await SqliteJournal.open(tmp_path / "journal.db") as other,
        Hub(config=Config(home=tmp_path), journal=journal) as hub,
    ):
        ours, theirs = Writing(journal, "ours"), Writing(other, "theirs")
        await ours.write("s1", chance)
        broadcaster = Broadcaster(hub, Metrics())
        await broadcaster.start()
        following = [Following(broadcaster, "s1") for _ in range(4)]
        over = asyncio.Event()

        async def write() -> None:
            for _ in range(60):
                for _ in range(chance.randrange(1, 8)):
                    await ours.write("s1", chance)
                if chance.random() < 0.4:
                    await theirs.write("s1", chance)
            over.set()

        async def follow(each: Following) -> None:
            while not over.is_set():
                await each.come()
                for _ in range(chance.randrange(1, 30)):
                    await each.hear()
                if chance.random() < 0.3:
                    await each.leave()

        await asyncio.gather(write(), *map(follow, following))
        await compared(journal, following, "s1")
        assert sum(each.view.resumed for each in following) > 0
        for each in following:
            await each.leave()
        await broadcaster.close()
