"""Sockets that are cut, a bridge that is restarted, sockets that nobody reads: nothing is lost, nothing doubled."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from bridge.serve_process import Server, dragoman
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

NEVER_READING = 10
FOLDERS = 4
ROUNDS = 2

# Chunks of one run in each session: what is told of it is more than is kept of a session for those who follow.
FLOOD = 50_000

# Bytes by which the server may be larger after a later round than after the first: less than is said in a round by a
# hundred sessions. The file grows, and with it, up to their limits, the caches of its readers (16 MB each, of three);
# an allocator does not give back all that is free.
MORE = 48 * 1024 * 1024

# Bytes by which it may ever be larger than idle: the changes that are kept (64 MB), the caches (56 MB), what is on its
# way to the disk and to the sockets; and of each session its run's words, until the run has ended.
MOST = (160 + 2 * SESSIONS) * 1024 * 1024


async def rows_of(server: RealServer, session_id: str) -> dict[str, dict[str, JsonObject]]:
    rows, _, _ = newest_rows(await server.bridge.hub.journal.rows(session_id), 10**6)
    made: dict[str, list[JsonObject]] = msgspec.json.decode(msgspec.json.encode(rows))
    return {table: {row["id"]: row for row in found} for table, found in made.items() if found}


def held(view: View) -> dict[str, dict[str, JsonObject]]:
    return {table: rows for table, rows in view.tables.items() if rows}


class Frames:
    """The frames of a session as a client gathers them, by cursor."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cursor: str | None = None
        self.seen: list[tuple[str, int]] = []

    def hear(self, said: JsonObject) -> None:
        if said.get("stream") == "session" and said.get("id") == self.session_id and "frames" in said:
            self.cursor = said["cursor"]
            self.seen.extend((frame["connection_id"], frame["n"]) for frame in said["frames"])


async def dropping(server: RealServer, views: Sequence[View], frames: Sequence[Frames], chance: random.Random) -> None:
    """One life of a socket: subscribes to all from where they were left, hears for a while, and is cut."""
    async with server.client() as talk:
        for view in views:
            await talk.resume(view)
        for each in frames:
            await talk.send(type="subscribe", stream="session", id=each.session_id, after=each.cursor, frames=True)
        for _ in range(chance.randrange(1, 40)):
            await talk.send(type="ping")  # so that there is something to hear, also when nobody says anything
            said = await talk.receive()
            for each in frames:
                each.hear(said)
        talk.connection.transport.abort()


async def caught_up(server: RealServer, views: Sequence[View], frames: Sequence[Frames]) -> None:
    """Follows all to their end."""
    async with server.client() as talk:
        for view in views:
            await talk.resume(view)
        for view in views:
            wanted = (await server.bridge.hub.journal.session(view.session_id)).frames  # type: ignore[union-attr]
            await talk.wait_for(view, lambda view, wanted=wanted: _position(view) >= wanted)  # type: ignore[misc]
    async with server.client() as talk:
        for each in frames:
            await talk.send(type="subscribe", stream="session", id=each.session_id, after=each.cursor, frames=True)
            end = (await server.bridge.hub.journal.read(each.session_id, limit=10**6)).entries
            while len(each.seen) < len(end):
                each.hear(await talk.receive())


def _position(view: View) -> int:
    return int((view.cursor or "0").rpartition(".")[2])


async def prompted(server: RealServer, sessions: Sequence[str], text: str) -> None:
    async with server.client() as talk:
        for session_id in sessions:
            await talk.call("session.prompt", session_id=session_id, text=text)


async def settled(server: RealServer, sessions: Sequence[str]) -> None:
    async with server.client() as talk:
        for session_id in sessions:
            view = await talk.follow(session_id)
            await talk.wait_for(view, lambda view: view.settled)


async def test_sockets_are_cut_and_the_bridge_restarted_and_each_change_is_seen_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
                    await prompted(server, sessions, f"stream {CHUNKS}")
                # Views and frames are streams of the same name: each has a socket of its own.
                if chance.random() < 0.5:
                    await dropping(server, views, (), chance)
                else:
                    await dropping(server, (), rows_seen, chance)
            if life == RESTARTS:
                await settled(server, sessions)
                await caught_up(server, views, rows_seen)
                for view in views:
                    assert held(view) == await rows_of(server, view.session_id)
                for each in rows_seen:
                    page = await server.bridge.hub.journal.read(each.session_id, limit=10**6)
                    assert each.seen == [(entry.connection_id, entry.n) for entry in page.entries]
    assert sum(view.resumed for view in views) > 0  # some went on from where they were


def memory(server: Server) -> int:
    """Bytes that its process has."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


async def never_reading(url: str, token: str, sessions: Sequence[str]) -> SocketClient:
    """Follows all of them, and takes nothing of what it is told. Uncompressed, and with next to no buffer of its own,
    so that it is the server that has to wait."""
    port = socket.socket()
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    talk = await SocketClient.connected(url, token, sock=port, compression=None)
    for session_id in sessions[:MAX_SUBSCRIPTIONS]:
        await talk.send(type="subscribe", stream="session", id=session_id, limit=1)
    talk.connection.transport.pause_reading()
    return talk


async def flooded(readers: Sequence[tuple[SocketClient, View]], runs: int) -> None:
    """One more run in each session, asked for by one of those who read it, and seen to its end by all of them."""

    def is_over(view: View) -> bool:
        return len(view.rows("runs")) == runs and view.settled

    for talk, view in readers[:SESSIONS]:
        await talk.send(type="session.prompt", id="flood", session_id=view.session_id, text=f"flood {FLOOD}")
    await asyncio.gather(*(talk.wait_for(view, is_over) for talk, view in readers))
    for talk, _ in readers:
        talk.received.clear()


async def test_sockets_that_nobody_reads_harm_nobody_and_memory_stays_flat(tmp_path: Path) -> None:
    # One agent for the sessions of each folder.
    home = make_home(tmp_path / "home")
    (home / "config.toml").write_text("[agents.demo]\nshared = true\n")
    folders = [tmp_path / f"folder {number}" for number in range(FOLDERS)]
    for folder in folders:
        folder.mkdir()
    async with started(home) as server:
        url = await server.url()
        token = (await dragoman(server.home, "token", "create", "a test", "--scope", "admin"))[1].strip()
        steering = await SocketClient.connected(url, token)
        sessions = []
        for number in range(SESSIONS):
            folder = folders[number % FOLDERS]
            opened = await steering.call("session.open", agent="demo", cwd=str(folder))
            sessions.append(opened["session_id"])
        readers: list[tuple[SocketClient, View]] = []
        for session_id in (sessions * SOCKETS)[: SOCKETS - NEVER_READING]:
            talk = await SocketClient.connected(url, token)
            readers.append((talk, await talk.follow(session_id)))
        sizes = [memory(server)]
        for number in range(1 + ROUNDS):
            # Anew for each round: one that answers no ping is cut off after a while.
            lazy = [await never_reading(url, token, sessions) for _ in range(NEVER_READING)]
            await flooded(readers, number + 1)
            sizes.append(memory(server))
            for talk in lazy:
                talk.connection.transport.abort()
        print(f"megabytes before, and after each round: {[size >> 20 for size in sizes]}")
        said = "".join(f"drop {number}\n" for number in range(1, FLOOD + 1))
        for _, view in readers:
            assert view.texts() == [said] * (1 + ROUNDS)
        before, _, first, *later = sizes  # the round before the first fills the buffers that there are
        assert max(later) - first < MORE
        assert max(sizes) - before < MOST
        for talk in (steering, *(talk for talk, _ in readers)):
            await talk.connection.close()
