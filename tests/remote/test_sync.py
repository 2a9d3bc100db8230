"""A session on a server, from a program that is not async."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman import PermissionRequest, SyncClient
from dragoman.record.events import Event
from remote.real_server import RealServer


async def test_a_blocking_program_drives_a_session_on_a_server(server: RealServer, folder: Path) -> None:
    def allow(request: PermissionRequest) -> bool:
        return True

    def program() -> tuple[list[Event], str, int]:
        with SyncClient(server.url, server.token()) as client:
            with client.open_session("demo", cwd=folder, on_permission=allow) as session:
                received = list(session.run("permission"))
                session.set_mode("plan")
                handle = session.snapshot()
            with client.resume(handle) as session:
                assert session.snapshot().mode == "plan"
                text = session.run("hello").result().text
            return received, text, len(client.sessions())

    async with asyncio.timeout(30):
        received, text, sessions = await asyncio.to_thread(program)
    assert [event.type for event in received if event.type.startswith("permission")] == [
        "permission.requested",
        "permission.resolved",
    ]
    assert text
    assert sessions == 1
