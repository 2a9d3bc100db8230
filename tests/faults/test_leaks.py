"""A server that opens and closes sessions all day: none of them leaves a process, a descriptor or memory behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from attempts import Attempts
from bridge.serve_process import served
from bridge.socket_client import JsonObject, SocketClient
from dragoman.config import make_home
from dragoman.journal import FILE_NAME

# Sessions that are opened and closed; `make torture` has 300.
OPENED = int(os.environ.get("DRAGOMAN_OPENED", "8"))
AT_ONCE = 4

# Bytes by which the server may grow: the pages of its journal that it keeps, and its list of sessions.
MAX_GROWTH_BYTES = 24 * 1024 * 1024


class Holdings(NamedTuple):
    """The processes, descriptors and resident bytes of a server.

    Without the descriptors of the journal: its readers are opened when they are needed, up to a fixed number.
    """

    processes: int
    descriptors: int
    memory_bytes: int


def holdings(pid: int) -> Holdings:
    status = Path(f"/proc/{pid}/status").read_text()
    memory_bytes = int(status.partition("VmRSS:")[2].split()[0]) * 1024
    return Holdings(len(descendants(pid)), len(descriptors(pid)), memory_bytes)


def descriptors(pid: int) -> list[str]:
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            found.append(os.readlink(descriptor))
    return [name for name in found if FILE_NAME not in name]


def descendants(pid: int) -> set[int]:
    """Return the children of a process and theirs, including ended ones that nobody has waited for."""
    found: set[int] = set()
    unvisited = [pid]
    while unvisited:
        for task in Path(f"/proc/{unvisited.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it has ended
                children = set(map(int, task.read_text().split()))
                found |= children
                unvisited += children
    return found


async def use_sessions(talk: SocketClient, folder: Path, count: int) -> None:
    """Open sessions at once, have a run in each, and close them."""
    opened = await call_at_once(talk, "session.open", [{"agent": "demo", "cwd": str(folder)}] * count)
    fields = [{"session_id": result["session_id"]} for result in opened]
    views = [await talk.follow(each["session_id"]) for each in fields]
    await call_at_once(talk, "session.prompt", [{**each, "text": "stream 5"} for each in fields])
    for view in views:
        await talk.wait_for(view, lambda view: bool(view.rows("runs")) and view.settled)
    for each in fields:
        await talk.send(type="unsubscribe", stream="session", id=each["session_id"])
    await call_at_once(talk, "session.close", fields)
    talk.views.clear()
    talk.received.clear()


async def call_at_once(talk: SocketClient, type_: str, requests: Sequence[JsonObject]) -> list[JsonObject]:
    """Send requests that are to succeed, and return their results when all have come."""
    for number, fields in enumerate(requests):
        await talk.send(type=type_, id=str(number), **fields)
    results: dict[str, JsonObject] = {}
    while len(results) < len(requests):
        answer = await talk.until(lambda message: message["type"] in ("result", "error"))
        assert answer["type"] == "result", answer
        results[answer["id"]] = answer["result"]
    return [results[str(number)] for number in range(len(requests))]


@pytest.mark.attempts("leaks")
@pytest.mark.timeout(900)
async def test_sessions_that_were_closed_leave_nothing_in_the_server(tmp_path: Path, attempts: Attempts) -> None:
    async with served(make_home(tmp_path / "home")) as server:
        token = server.token()
        talk = await SocketClient.connected(await server.url(), token)
        await use_sessions(talk, tmp_path, AT_ONCE)  # the first ones load modules, start threads and fill caches
        before = holdings(server.process.pid)
        for _ in range(0, OPENED, AT_ONCE):
            await use_sessions(talk, tmp_path, AT_ONCE)
        after = holdings(server.process.pid)
        print(f"before: {before}, after: {after}")
        assert (after.processes, after.descriptors) == (before.processes, before.descriptors)
        assert after.memory_bytes - before.memory_bytes < MAX_GROWTH_BYTES
        await talk.connection.close()
    attempts.add(OPENED)
