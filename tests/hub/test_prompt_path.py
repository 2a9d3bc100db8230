"""The path of a prompt from a client to the agent's stdin: how often it is committed, encoded and decoded.

A client's prompt is stored in the inbox (the first commit); the note with the user's words, the frame for the agent and
the command's receipt share the second one. Nothing that this process encodes is decoded by it again.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dragoman.hub.hub import Hub
from dragoman.journal.entry import Cursor, Entry
from dragoman.journal.protocols import InboxCommand, TranscriptPosition
from dragoman.journal.rows import RowChanges
from dragoman.journal.sqlite import MemoryJournal
from dragoman.protocol import requests
from dragoman.testing.memory import TIMEOUT_S, config, runtime_of
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.wire.peer import Peer
from dragoman.workspace import Workspace

# Packages whose encodings and decodings belong to the way; the agent under test reads and writes JSON of its own.
MEASURED_PACKAGES = ("hub", "session", "host", "journal", "record", "wire")


class CountingJournal(MemoryJournal):
    """Names each commit by what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[list[str]] = []
        self.reads: list[str] = []

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        transcript_position: TranscriptPosition | None = None,
    ) -> Cursor:
        self.commits.append([entry.kind for entry in entries if entry.origin != "agent"])
        return await super().append(entries, changes, epochs=epochs, transcript_position=transcript_position)

    async def send_command(self, command: InboxCommand, *, taken_epoch: int | None = None) -> bool:
        self.commits.append(["inbox"])
        return await super().send_command(command, taken_epoch=taken_epoch)

    async def take_commands(self, session_id: str, epoch: int) -> Sequence[InboxCommand]:
        self.commits.append(["take"])
        return await super().take_commands(session_id, epoch)

    async def command_state(self, command_id: str) -> Any:
        self.reads.append("command_state")
        return await super().command_state(command_id)


class JsonCounter:
    """Counts the calls of msgspec's encoders and decoders, by the module that makes them, in this thread and in those
    that the test starts, such as the journal's writer."""

    def __init__(self) -> None:
        self._peer: Peer | None = None
        self.encodings: Counter[str] = Counter()
        self.decodings: Counter[str] = Counter()

    @contextmanager
    def counting(self, peer: Peer) -> Iterator[None]:
        """Count from here on; `peer` is our side's."""
        self._peer = peer
        sys.setprofile(self.on_call)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._peer = None

    def on_call(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._peer is None or event != "c_call":
            return
        if not getattr(argument, "__name__", "").endswith(("encode", "decode")):
            return
        owner = getattr(argument, "__self__", None)
        if "msgspec" not in f"{getattr(owner, '__name__', '')} {type(owner).__module__}":
            return  # `str.encode`, `bytes.decode`
        module = str(frame.f_globals.get("__name__", ""))
        package = module.removeprefix("dragoman.").partition(".")[0]
        function = frame.f_code.co_name
        if module == "dragoman.wire.peer" and (
            argument.__name__.endswith("decode") or _peer_of(frame) is not self._peer
        ):
            return  # what the agent wrote; or the agent in memory, which reads and writes by the same class
        if module.startswith("dragoman.") and package in MEASURED_PACKAGES:
            counter = self.encodings if argument.__name__.endswith("encode") else self.decodings
            counter[f"{module}.{function}"] += 1


def _peer_of(frame: FrameType | None) -> Peer | None:
    while frame is not None:
        if isinstance(peer := frame.f_locals.get("self"), Peer):
            return peer
        frame = frame.f_back
    return None


@pytest.fixture
def counter() -> Iterator[JsonCounter]:
    counter = JsonCounter()
    threading.setprofile(counter.on_call)
    try:
        yield counter
    finally:
        threading.setprofile(None)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def test_a_prompt_reaches_the_agent_with_two_commits_and_is_never_read_back(
    home: Path, tmp_path: Path, counter: JsonCounter
) -> None:
    journal = CountingJournal()
    commits_when_heard: list[list[str]] = []

    async def script(turn: Turn) -> None:
        commits_when_heard.extend(journal.commits)
        await turn.say("done")

    agent = ScriptedAgent(script)
    settings = config(workspace=Workspace(tmp_path))
    async with (
        asyncio.timeout(TIMEOUT_S),
        Hub(home, journal=journal) as hub,
        runtime_of(agent, journal_client=hub.journal_client) as runtime,
    ):
        session = await runtime.open_session(settings)
        await runtime_is_quiet(hub, session.id)
        journal.commits.clear()
        journal.reads.clear()
        assert runtime._connection is not None
        with counter.counting(runtime._connection._peer):
            outcome = await hub.command(requests.SessionPrompt(session_id=session.id, text="go", command_id="c1"))
        assert outcome.how == "started"
        run = session.active
        if run is not None:
            await run.ended_within(None)
    frames = ["_dragoman/prompt", "session/prompt", "_dragoman/receipt"]
    assert commits_when_heard == [["inbox"], frames]
    assert journal.reads == []
    assert counter.decodings == Counter()
    assert counter.encodings == Counter(
        {
            "dragoman.hub.commands.encode": 1,  # the inbox
            "dragoman.record.notes.write_as": 4,  # the prompt's note and the receipt: value and frame of each
            "dragoman.hub.owned_session._receipt_detail": 1,  # the outcome, which a client that asks again gets
            "dragoman.wire.peer._raw": 1,  # the params of the frame for the agent
            "dragoman.wire.peer.request": 1,  # and the frame itself
            "dragoman.journal.sqlite.schema.encode": 1,  # a column of the rows, in the thread of the journal
        }
    )


async def test_a_queued_prompt_that_was_edited_has_all_receipts_in_the_commit_that_sends_it(
    home: Path, tmp_path: Path
) -> None:
    journal = CountingJournal()
    release = asyncio.Event()

    async def script(turn: Turn) -> None:
        await release.wait()
        await turn.say("done")

    async with (
        asyncio.timeout(TIMEOUT_S),
        Hub(home, journal=journal) as hub,
        runtime_of(ScriptedAgent(script), journal_client=hub.journal_client) as runtime,
    ):
        session = await runtime.open_session(config(workspace=Workspace(tmp_path)))
        await hub.command(requests.SessionPrompt(session_id=session.id, text="first", command_id="c1"))
        first = session.active
        assert first is not None
        await hub.command(requests.SessionPrompt(session_id=session.id, text="second", command_id="c2"))
        for number in (3, 4):
            edit = requests.QueueEdit(
                session_id=session.id, queued_id="c2", text=f"edit {number}", command_id=f"c{number}"
            )
            await hub.command(edit)
        journal.commits.clear()
        release.set()
        await first.ended_within(None)
        await runtime_is_quiet(hub, session.id)
    sent = [kinds for kinds in journal.commits if "session/prompt" in kinds]
    assert sent == [["_dragoman/prompt", "session/prompt", *["_dragoman/receipt"] * 3]]
    assert sum(kinds.count("_dragoman/receipt") for kinds in journal.commits) == 3


async def runtime_is_quiet(hub: Hub, session_id: str) -> None:
    """Wait until the session has taken over the inbox, as it does once it is opened."""
    owned = hub.owned_sessions[session_id]
    while owned._tasks:
        await asyncio.wait(owned._tasks)


async def test_the_same_command_again_is_answered_without_another_commit(home: Path, tmp_path: Path) -> None:
    journal = CountingJournal()
    async with (
        asyncio.timeout(TIMEOUT_S),
        Hub(home, journal=journal) as hub,
        runtime_of(ScriptedAgent(), journal_client=hub.journal_client) as runtime,
    ):
        session = await runtime.open_session(config(workspace=Workspace(tmp_path)))
        first = await hub.command(requests.SessionPrompt(session_id=session.id, text="go", command_id="c1"))
        assert await hub.command(requests.SessionPrompt(session_id=session.id, text="go", command_id="c1")) == first
        prompts = [kind for kinds in journal.commits for kind in kinds if kind == "session/prompt"]
        assert len(prompts) == 1


async def test_commits_of_frames_do_not_wake_the_inbox(home: Path, tmp_path: Path) -> None:
    looks = 0

    class WatchedJournal(MemoryJournal):
        async def sessions_with_commands(self) -> frozenset[str]:
            nonlocal looks
            looks += 1
            return await super().sessions_with_commands()

    async def script(turn: Turn) -> None:
        for number in range(200):
            await turn.say(f"{number} ")

    async with (
        asyncio.timeout(TIMEOUT_S),
        Hub(home, journal=WatchedJournal()) as hub,
        runtime_of(ScriptedAgent(script), journal_client=hub.journal_client) as runtime,
    ):
        session = await runtime.open_session(config(workspace=Workspace(tmp_path)))
        before = looks
        await session.run("go")
        assert looks - before <= 1  # the first look of the hub itself may come late
