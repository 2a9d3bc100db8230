"""`flood`: what a session and `/v1/health` notice of another session whose agent floods the server.

`--flood KIND COUNT`: a prompt of `bench/flooding_agent.py`. The session beside it gets an update every millisecond,
with the time at which its agent wrote it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import httpx
from websockets.asyncio.client import ClientConnection

from bench.clients.bridge import Server, ask, follow, hear, serving
from bench.clients.report import arguments, report

TICKS_PER_RUN: Final = 200
FOLLOWERS_OF_A_MESSAGE: Final = 4
FLOODING_AGENT: Final = Path(__file__).resolve().parents[1] / "flooding_agent.py"


async def main(kind: str, count: str) -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.cwd) as folder:
        flooding = (sys.executable, str(FLOODING_AGENT))
        async with serving(Path(folder) / "home", options.agent, flooding=flooding) as server:
            steering = await server.connect()
            beside = (await ask(steering, "session.open", agent="bench", cwd=options.cwd))["session_id"]
            flooded = (await ask(steering, "session.open", agent="flooding", cwd=options.cwd))["session_id"]
            follower = await server.connect()
            await follow(follower, beside)
            is_over = asyncio.Event()
            health = asyncio.create_task(_ask_for_health(server, is_over))
            ticks = asyncio.create_task(_tick(await server.connect(), follower, beside, is_over))
            began = time.perf_counter()
            await _flood(server, flooded, f"{kind} {count}")
            if kind == "message":
                await asyncio.gather(*(_open(server, flooded) for _ in range(FOLLOWERS_OF_A_MESSAGE)))
            seconds = time.perf_counter() - began
            is_over.set()
            ages, waits = sorted(await ticks), sorted(await health)
            report(
                seconds=seconds,
                p50=_at(ages, 50),
                p99=_at(ages, 99),
                worst=ages[-1],
                health_p99=_at(waits, 99),
                health_worst=waits[-1],
            )


async def _tick(
    steering: ClientConnection, follower: ClientConnection, session_id: str, over: asyncio.Event
) -> list[float]:
    """Return the age of each update when it arrived, in seconds."""
    ages: list[float] = []
    while not (ages and over.is_set()):
        heard = asyncio.ensure_future(hear(follower, session_id))
        await ask(steering, "session.prompt", session_id=session_id, text=f"tick {TICKS_PER_RUN} 1")
        ages += (await heard)[2]
    return ages


async def _ask_for_health(server: Server, over: asyncio.Event) -> list[float]:
    """Return the duration of each request, in seconds."""
    waits: list[float] = []
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
        while not (waits and over.is_set()):
            began = time.perf_counter()
            (await client.get("/v1/health")).raise_for_status()
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(0.005)
    return waits


async def _flood(server: Server, session_id: str, text: str) -> None:
    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, timeout=None, headers={"authorization": f"Bearer {server.token}"}
    ) as client:
        # The response has all the text of the run. Reading it as JSON would stop this process, which measures.
        url, headers = f"/v1/sessions/{session_id}/runs", {"prefer": "wait=200"}
        async with client.stream("POST", url, json={"text": text}, headers=headers) as response:
            beginning = b""
            async for chunk in response.aiter_raw():
                beginning = beginning or chunk
        assert b'"status":"success"' in beginning, beginning[:500]


async def _open(server: Server, session_id: str) -> None:
    connection = await server.connect()
    await connection.send(json.dumps({"type": "subscribe", "stream": "session", "id": session_id}))
    while json.loads(await connection.recv())["type"] != "snapshot":
        pass
    await connection.close()


def _at(values: list[float], percent: int) -> float:
    return values[len(values) * percent // 100]


if __name__ == "__main__":
    place = sys.argv.index("--flood")
    _, flood_kind, flood_count = sys.argv[place : place + 3]
    del sys.argv[place : place + 3]
    asyncio.run(main(flood_kind, flood_count))
