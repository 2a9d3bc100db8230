"""Sockets that are cut, a bridge that is restarted, sockets that nobody reads: nothing is lost, nothing doubled."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from websockets.exceptions import WebSocketException

from bridge.serving import Server, dragoman
from bridge.serving import served as started
from bridge.talking import Said, Served, Talk, View, served
from dragoman.bridge.rows import newest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# `make torture` has more of each.
DROPS = int(os.environ.get("DRAGOMAN_DROPS", "40"))
RESTARTS = int(os.environ.get("DRAGOMAN_RESTARTS", "3"))
SESSIONS = int(os.environ.get("DRAGOMAN_SESSIONS", "10"))
SOCKETS = int(os.environ.get("DRAGOMAN_SOCKETS", "40"))

STREAMING = 10
CHUNKS = 3000


async def rows_of(server: Served, session_id: str) -> dict[str, dict[str, Said]]:
    rows, _, _ = newest(await server.bridge.hub.journal.rows(session_id), 10**6)
    made: dict[str, list[Said]] = msgspec.json.decode(msgspec.json.encode(rows))
    return {table: {row["id"]: row for row in found} for table, found in made.items() if found}


def held(view: View) -> dict[str, dict[str, Said]]:
    return {table: rows for table, rows in view.tables.items() if rows}


class Frames:
    """The frames of a session as a client gathers them, by cursor."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cursor: str | None = None
        self.seen: list[tuple[str, int]] = []

    def hear(self, said: Said) -> None:
        if said.get("stream") == "session" and said.get("id") == self.session_id and "frames" in said:
            self.cursor = said["cursor"]
            self.seen.extend((frame["connection_id"], frame["n"]) for frame in said["frames"])


async def dropping(server: Served, views: Sequence[View], frames: Sequence[Frames], chance: random.Random) -> None:
    """One life of a socket: subscribes to all from where they were left, hears for a while, and is cut."""
    async with server.client() as talk:
        for view in views:
            await talk.go_on(view)
        for each in frames:
            await talk.say(type="subscribe", stream="session", id=each.session_id, after=each.cursor, frames=True)
        for _ in range(chance.randrange(1, 40)):
            await talk.say(type="ping")  # so that there is something to hear, also when nobody says anything
            said = await talk.hear()
            for each in frames:
                each.hear(said)
        talk.connection.transport.abort()


async def caught_up(server: Served, views: Sequence[View], frames: Sequence[Frames]) -> None:
    """Follows all to their end."""
    async with server.client() as talk:
        for view in views:
            await talk.go_on(view)
        for view in views:
            wanted = (await server.bridge.hub.journal.session(view.session_id)).frames  # type: ignore[union-attr]
            await talk.see(view, lambda view, wanted=wanted: _position(view) >= wanted)  # type: ignore[misc]
    async with server.client() as talk:
        for each in frames:
            await talk.say(type="subscribe", stream="session", id=each.session_id, after=each.cursor, frames=True)
            end = (await server.bridge.hub.journal.read(each.session_id, limit=10**6)).entries
            while len(each.seen) < len(end):
                each.hear(await talk.hear())


def _position(view: View) -> int:
    return int((view.cursor or "0").rpartition(".")[2])


async def prompted(server: Served, sessions: Sequence[str], text: str) -> None:
    async with server.client() as talk:
        for session_id in sessions:
            await talk.done("session.prompt", session_id=session_id, text=text)


async def settled(server: Served, sessions: Sequence[str]) -> None:
    async with server.client() as talk:
        for session_id in sessions:
            view = await talk.follow(session_id)
            await talk.see(view, lambda view: view.settled)


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
        async with served(home, port) as server:
            port = server.port
            if not sessions:
                async with server.client() as talk:
                    for _ in range(STREAMING):
                        opened = await talk.done("session.open", agent="demo", cwd=str(tmp_path))
                        sessions.append(opened["session_id"])
                views = [View(session_id) for session_id in sessions]
                rows_seen = [Frames(session_id) for session_id in sessions[:3]]
            else:
                async with server.client() as talk:
                    for session_id in sessions:
                        await talk.done("session.resume", session_id=session_id)
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


async def test_sockets_that_nobody_reads_harm_nobody(tmp_path: Path) -> None:
    never_reading = max(10, SOCKETS // 20)
    async with started(tmp_path / "home") as server:
        url = await server.url()
        token = (await dragoman(server.home, "token", "create", "a test", "--scope", "admin"))[1].strip()
        lazy = [await Talk.connected(url, token) for _ in range(never_reading)]
        steering = await Talk.connected(url, token)
        sessions = []
        for _ in range(SESSIONS):
            opened = await steering.done("session.open", agent="demo", cwd=str(tmp_path))
            sessions.append(opened["session_id"])
        readers = [await Talk.connected(url, token) for _ in range(SOCKETS - never_reading)]
        for talk in lazy:
            for session_id in sessions:
                await talk.say(type="subscribe", stream="session", id=session_id)
        views = [await talk.follow(chosen) for talk, chosen in zip(readers, sessions * SOCKETS, strict=False)]
        before = memory(server)
        for session_id in sessions:
            await steering.done("session.prompt", session_id=session_id, text=f"flood {20 * CHUNKS}")
        await asyncio.gather(
            *(talk.see(view, lambda view: view.settled) for talk, view in zip(readers, views, strict=True))
        )
        grown = memory(server) - before
        texts = {len("".join(view.texts())) for view in views}
        assert len(texts) == 1  # each saw all of what its session said
        # A session keeps what was said in it, and its last changes for those who follow: a few megabytes. What was said
        # to those who did not read is several times all of this.
        assert grown < (100 + 5 * SESSIONS) * 1024 * 1024
        for talk in (*lazy, *readers, steering):
            try:
                await talk.connection.close()
            except (WebSocketException, OSError):
                pass
