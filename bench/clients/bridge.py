"""`bridge`: the view of a client on the socket, with `dragoman serve` as a process between it and the agent.

`--tool-every N` (the argument that says how many of something): N clients follow the same session.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from bench.clients.report import WARM_UP_CHUNKS, arguments, check_order, report

# `word 00000042 `: the length of a chunk's text.
WORD = 14

IDLE_SESSIONS = 20
TICKS, TICK_PACE = 2000, 1  # a thousand updates a second


class Server:
    def __init__(self, process: asyncio.subprocess.Process, url: str, token: str) -> None:
        self.process, self.url, self.token = process, url, token

    async def connect(self) -> ClientConnection:
        socket = f"{self.url.replace('http', 'ws', 1)}/v1/socket"
        headers = {"Authorization": f"Bearer {self.token}"}
        return await connect(socket, additional_headers=headers, max_size=None, compression=None, proxy=None)

    def memory(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def _configure(home: Path, agents: dict[str, tuple[str, ...]]) -> None:
    home.mkdir()
    tables = []
    for name, agent in agents.items():
        command, *args = map(json.dumps, agent)
        tables.append(f"[agents.{name}]\ncommand = {command}\nargs = [{', '.join(args)}]\n")
    (home / "config.toml").write_text("".join(tables))


@asynccontextmanager
async def serving(home: Path, agent: tuple[str, ...], **others: tuple[str, ...]) -> AsyncIterator[Server]:
    """Run `dragoman serve` with the agent `bench`, and others by name."""
    _configure(home, {"bench": agent, **others})
    environ = {**os.environ, "DRAGOMAN_HOME": str(home)}
    dragoman = (sys.executable, "-m", "dragoman")
    process = await asyncio.create_subprocess_exec(
        *dragoman, "serve", "--no-open", "--port", "0", stdout=asyncio.subprocess.PIPE, env=environ
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().split()[-1]
        made = await asyncio.create_subprocess_exec(
            *dragoman, "token", "create", "bench", "--scope", "admin", stdout=asyncio.subprocess.PIPE, env=environ
        )
        token = (await made.communicate())[0].decode().strip()
        yield Server(process, url, token)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def ask(connection: ClientConnection, type_: str, **fields: Any) -> Any:
    await connection.send(json.dumps({"type": type_, "id": type_, **fields}))
    while True:
        message = json.loads(await connection.recv())
        if message.get("id") == type_ and message["type"] in ("result", "error"):
            if message["type"] == "error":
                raise SystemExit(f"{type_}: {message['error']['message']}")
            return message["result"]


async def follow(connection: ClientConnection, session_id: str) -> None:
    await connection.send(json.dumps({"type": "subscribe", "stream": "session", "id": session_id}))
    while json.loads(await connection.recv())["type"] != "snapshot":
        pass


async def hear(connection: ClientConnection, session_id: str) -> tuple[float, str, list[float]]:
    """Return when all was received, the texts, and the age of each time stamp when it arrived.

    Of a message that is long when it is first sent, the rest is asked for.
    """
    texts: dict[str, list[str]] = {}
    shortened: set[str] = set()
    ages: list[float] = []
    over = False
    while not over:
        message = json.loads(await connection.recv())
        now = time.monotonic_ns()
        for change in message.get("changes", ()):
            row = change.get("row", {"table": ""})
            if change["op"] == "append":
                texts[change["message_id"]].append(change["text"])
                if change["text"][:1].isdigit():
                    ages += [(now - int(stamp)) / 1e9 for stamp in change["text"].split()]
            elif row["table"] == "messages" and row["kind"] == "assistant":
                texts[row["id"]] = [row["text"]]
                (shortened.add if row["shortened"] else shortened.discard)(row["id"])
            elif row["table"] == "runs":
                over = row["status"] != "running"
            if change.get("shortened"):
                shortened.add(change["message_id"])
    for row_id in shortened:
        is_cut = True
        while is_cut:
            place = {"table": "messages", "row_id": row_id, "offset": sum(map(len, texts[row_id]))}
            row = (await ask(connection, "session.row", session_id=session_id, **place))["row"]
            texts[row_id].append(row["text"])
            is_cut = row["shortened"]
    return time.perf_counter(), "".join(part for parts in texts.values() for part in parts), ages


async def prompted(steering: ClientConnection, followers: list[ClientConnection], session_id: str, text: str) -> Any:
    started = time.perf_counter()
    heard = asyncio.gather(*(hear(follower, session_id) for follower in followers))
    await ask(steering, "session.prompt", session_id=session_id, text=text)
    return started, await heard


async def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.cwd) as folder:
        async with serving(Path(folder) / "home", options.agent) as server:
            steering = await server.connect()
            opened = await ask(steering, "session.open", agent="bench", cwd=options.cwd)
            session_id = opened["session_id"]
            followers = [await server.connect() for _ in range(options.tool_every or 1)]
            for follower in followers:
                await follow(follower, session_id)
            await prompted(steering, followers, session_id, str(WARM_UP_CHUNKS))
            started, heard = await prompted(steering, followers, session_id, str(options.count))
            texts = heard[0][1]
            report(
                seconds=max(ended for ended, _, _ in heard) - started,
                late=check_order([texts[at : at + WORD] for at in range(0, len(texts), WORD)], options.count),
            )


async def ticks() -> None:
    """Measure the delay added to each update at a thousand per second, and the cost of an idle session."""
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.cwd) as folder:
        async with serving(Path(folder) / "home", options.agent) as server:
            steering, follower = await server.connect(), await server.connect()
            opened = await ask(steering, "session.open", agent="bench", cwd=options.cwd)
            await follow(follower, opened["session_id"])
            await prompted(steering, [follower], opened["session_id"], "tick 50 1")
            _, ((_, _, ages),) = await prompted(steering, [follower], opened["session_id"], f"tick {TICKS} {TICK_PACE}")
            ages.sort()
            before = server.memory()
            for _ in range(IDLE_SESSIONS):
                await ask(steering, "session.open", agent="bench", cwd=options.cwd)
            report(
                p50=ages[len(ages) // 2],
                p99=ages[len(ages) * 99 // 100],
                idle_session=(server.memory() - before) / IDLE_SESSIONS,
            )


if __name__ == "__main__":
    measured = ticks if "--ticks" in sys.argv else main
    sys.argv = [word for word in sys.argv if word != "--ticks"]
    asyncio.run(measured())
