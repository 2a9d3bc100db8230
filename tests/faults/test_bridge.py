"""Broken sockets, a restarted bridge, and sockets that nobody reads: no change is lost, and none arrives twice."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from attempts import Attempts
from bridge.serve_process import Server
from bridge.serve_process import served as started
from bridge.socket_client import JsonObject, RealServer, SocketClient, View, real_server
from dragoman.bridge.rows import newest_rows
from dragoman.bridge.socket import MAX_SUBSCRIPTIONS
from dragoman.config import make_home

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# `make torture` has more of each.
DROPS = int(os.environ.get("DRAGOMAN_DROPS", "40"))
RESTARTS = int(os.environ.get("DRAGOMAN_RESTARTS", "3"))
SESSIONS = int(os.environ.get("DRAGOMAN_SESSIONS", "10"))
SOCKETS = int(os.environ.get("DRAGOMAN_SOCKETS", "40"))

STREAMING = 10
CHUNKS = 3000

IDLE_SOCKETS = SOCKETS // 2
FOLDERS = 4
ROUNDS = 2

# Chunks of one run in each session: in a round together far more than a socket may have waiting.
CHUNKS_PER_RUN = 500_000 // SESSIONS

# Bytes by which the server may grow after the first round: less than a hundred sessions say in a round. The journal
# grows, and with it, up to their limits, the caches of its readers (three of 16 MB); the allocator does not give back
# all that is free.
MAX_GROWTH_PER_ROUND_BYTES = 48 * 1024 * 1024

# Bytes by which the server may ever exceed its idle size: the changes it keeps (64 MB), the caches (56 MB), what is on
# its way to the disk and to the sockets, and the text of each session's run until the run has ended.
MAX_GROWTH_BYTES = (160 + 2 * SESSIONS) * 1024 * 1024


async def rows_of(server: RealServer, session_id: str) -> dict[str, dict[str, JsonObject]]:
    """Return all rows of a session, as a client gets them: page by page, since the newest ones may be long."""
    stored = await server.bridge.hub.journal.rows(session_id)
    tables: dict[str, dict[str, JsonObject]] = {}
    before: int | None = None
    has_more = True
    while has_more:
        page, has_more, before = newest_rows(stored, 10**6, before)
        rows_by_table: dict[str, list[JsonObject]] = msgspec.json.decode(msgspec.json.encode(page))
        for table, rows in rows_by_table.items():
            if table != "type" and rows:
                tables.setdefault(table, {}).update({row["id"]: row for row in rows})
    return tables


def check_view(view: View, stored: dict[str, dict[str, JsonObject]]) -> None:
    """Fail where a row of a client differs from the stored one, or where one is missing after the client's first."""
    first = min(message["position"] for message in view.rows("messages"))
    for table, rows in view.tables.items():
        assert rows == {row_id: stored.get(table, {}).get(row_id) for row_id in rows}
    for table, rows in stored.items():
        missing = [
            row_id for row_id, row in rows.items() if row["position"] >= first and row_id not in view.tables[table]
        ]
        assert missing == []


class Frames:
    """The frames of a session as a client collects them, by cursor."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cursor: str | None = None
        self.seen: list[tuple[str, int]] = []

    def add(self, message: JsonObject) -> None:
        if message.get("stream") == "session" and message.get("id") == self.session_id and "frames" in message:
            self.cursor = message["cursor"]
            self.seen.extend((frame["connection_id"], frame["n"]) for frame in message["frames"])


async def follow_and_drop(
    server: RealServer, views: Sequence[View], frames: Sequence[Frames], chance: random.Random
) -> None:
    """Open a socket, resume every subscription, receive some messages, and break the connection."""
    async with server.client() as talk:
        for view in views:
            await talk.resume(view)
        for each in frames:
            await talk.send(type="subscribe", stream="session", id=each.session_id, after=each.cursor, frames=True)
        for _ in range(chance.randrange(1, 40)):
            await talk.send(type="ping")  # so that there is a message to receive even when the sessions are silent
            message = await talk.receive()
            for each in frames:
                each.add(message)
        talk.connection.transport.abort()


async def follow_to_the_end(server: RealServer, views: Sequence[View], frames: Sequence[Frames]) -> None:
    """Receive all that the journal has of the sessions."""
    async with server.client() as talk:
        for view in views:
            await talk.resume(view)
        for view in views:
            frame_count = (await server.bridge.hub.journal.session(view.session_id)).frames  # type: ignore[union-attr]
            await talk.wait_for(view, lambda view, count=frame_count: _position(view) >= count)  # type: ignore[misc]
    async with server.client() as talk:
        for each in frames:
            await talk.send(type="subscribe", stream="session", id=each.session_id, after=each.cursor, frames=True)
            end = (await server.bridge.hub.journal.read(each.session_id, limit=10**6)).entries
            while len(each.seen) < len(end):
                each.add(await talk.receive())


def _position(view: View) -> int:
    return int((view.cursor or "0").rpartition(".")[2])


async def send_prompts(server: RealServer, sessions: Sequence[str], text: str) -> None:
    async with server.client() as talk:
        for session_id in sessions:
            await talk.call("session.prompt", session_id=session_id, text=text)


async def wait_until_settled(server: RealServer, sessions: Sequence[str]) -> None:
    async with server.client() as talk:
        for session_id in sessions:
            view = await talk.follow(session_id)
            await talk.wait_for(view, lambda view: view.settled)


@pytest.mark.attempts("cut sockets")
async def test_sockets_are_cut_and_the_bridge_restarted_and_each_change_is_seen_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: Attempts
) -> None:
    monkeypatch.setenv("DRAGOMAN_DEMO_PACE", "0")
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    home, port = tmp_path / "home", 0
    sessions: list[str] = []
    views: list[View] = []
    rows_seen: list[Frames] = []
    for life in range(RESTARTS + 1):
        async with real_server(home, port) as server:
            port = server.port
            if not sessions:
                async with server.client() as talk:
                    for _ in range(STREAMING):
                        opened = await talk.call("session.open", agent="demo", cwd=str(tmp_path))
                        sessions.append(opened["session_id"])
                views = [View(session_id) for session_id in sessions]
                rows_seen = [Frames(session_id) for session_id in sessions[:3]]
            else:
                async with server.client() as talk:
                    for session_id in sessions:
                        await talk.call("session.resume", session_id=session_id)
            for drop in range(max(1, DROPS // (RESTARTS + 1))):
                if drop % 5 == 0:
                    await send_prompts(server, sessions, f"stream {CHUNKS}")
                # Views and frames are streams of the same name: each has a socket of its own.
                if chance.random() < 0.5:
                    await follow_and_drop(server, views, (), chance)
                else:
                    await follow_and_drop(server, (), rows_seen, chance)
                attempts.add()
                attempts.detail("sockets cut", 1)
            if life == RESTARTS:
                await wait_until_settled(server, sessions)
                await follow_to_the_end(server, views, rows_seen)
                for view in views:
                    check_view(view, await rows_of(server, view.session_id))
                for each in rows_seen:
                    page = await server.bridge.hub.journal.read(each.session_id, limit=10**6)
                    assert each.seen == [(entry.connection_id, entry.n) for entry in page.entries]
    assert sum(view.resumed for view in views) > 0  # some went on from where they were
    attempts.add(RESTARTS)
    attempts.detail("restarts", RESTARTS)
    attempts.detail("frames compared", sum(len(each.seen) for each in rows_seen))


def memory(server: Server) -> int:
    """Return the resident bytes of the server's process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


async def open_idle_socket(url: str, token: str, sessions: Sequence[str]) -> SocketClient:
    """Subscribe to all sessions and stop reading. No compression and a tiny buffer, so that the server has to wait."""
    port = socket.socket()
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    talk = await SocketClient.connected(url, token, sock=port, compression=None)
    for session_id in sessions[:MAX_SUBSCRIPTIONS]:
        await talk.send(type="subscribe", stream="session", id=session_id, limit=1)
    talk.connection.transport.pause_reading()
    return talk


async def flood_sessions(readers: Sequence[tuple[SocketClient, View]], runs: int) -> None:
    """Start one more run in each session, from one of its readers, and return when all readers have seen its end."""

    def is_over(view: View) -> bool:
        return len(view.rows("runs")) == runs and view.settled

    for talk, view in readers[:SESSIONS]:
        await talk.send(type="session.prompt", id="flood", session_id=view.session_id, text=f"flood {CHUNKS_PER_RUN}")
    await asyncio.gather(*(talk.wait_for(view, is_over) for talk, view in readers))
    for talk, _ in readers:
        talk.received.clear()


async def whole_texts(talk: SocketClient, view: View) -> list[str]:
    """Return the agent's messages. One that fell behind got a snapshot, in which long messages are cut."""
    texts: list[str] = []
    for row in [row for row in view.rows("messages") if row["kind"] == "assistant"]:
        text = row["text"]
        while row["shortened"]:
            fields = {"session_id": view.session_id, "table": "messages", "row_id": row["id"], "offset": len(text)}
            row = (await talk.call("session.row", **fields))["row"]
            text += row["text"]
        texts.append(text)
    return texts


@pytest.mark.attempts("cut sockets")
async def test_sockets_that_nobody_reads_harm_nobody_and_memory_stays_flat(tmp_path: Path, attempts: Attempts) -> None:
    # One agent for the sessions of each folder.
    home = make_home(tmp_path / "home")
    (home / "config.toml").write_text("[agents.demo]\nshared = true\n")
    folders = [tmp_path / f"folder {number}" for number in range(FOLDERS)]
    for folder in folders:
        folder.mkdir()
    async with started(home) as server:
        url = await server.url()
        token = server.token()
        steering = await SocketClient.connected(url, token)
        sessions = []
        for number in range(SESSIONS):
            folder = folders[number % FOLDERS]
            opened = await steering.call("session.open", agent="demo", cwd=str(folder))
            sessions.append(opened["session_id"])
        readers: list[tuple[SocketClient, View]] = []
        for session_id in (sessions * SOCKETS)[: SOCKETS - IDLE_SOCKETS]:
            talk = await SocketClient.connected(url, token)
            readers.append((talk, await talk.follow(session_id)))
        sizes = [memory(server)]
        for number in range(1 + ROUNDS):
            # New ones for each round: the server closes a socket that answers no ping for a while.
            idle_sockets = [await open_idle_socket(url, token, sessions) for _ in range(IDLE_SOCKETS)]
            await flood_sessions(readers, number + 1)
            sizes.append(memory(server))
            for talk in idle_sockets:
                talk.connection.transport.abort()
            attempts.add(len(idle_sockets))
            attempts.detail("sockets that nobody reads", len(idle_sockets))
        print(f"megabytes before, and after each round: {[size >> 20 for size in sizes]}")
        expected_text = "".join(f"drop {number}\n" for number in range(1, CHUNKS_PER_RUN + 1))
        for talk, view in readers:
            assert await whole_texts(talk, view) == [expected_text] * (1 + ROUNDS)
        before, _, first, *later = sizes  # the round before the first fills the buffers that there are
        assert max(later) - first < MAX_GROWTH_PER_ROUND_BYTES
        assert max(sizes) - before < MAX_GROWTH_BYTES
        for talk in (steering, *(talk for talk, _ in readers)):
            await talk.connection.close()
