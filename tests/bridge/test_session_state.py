"""The state of a session, and its entry in lists."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import httpx
import pytest

from bridge.socket_client import TIMEOUT_S, real_server
from dragoman.bridge.listing import failure_details, session_item, session_state
from dragoman.errors import CommandNotFound, DragomanError, ExitedAtStart
from dragoman.journal.rows import Session
from dragoman.remote.client import Client

STREAMING_AGENT = Path(__file__).parents[1] / "faults/streaming_agent.py"


async def test_a_missing_program_is_reported_with_its_install_command(tmp_path: Path) -> None:
    home = tmp_path / "home"
    program = tmp_path / "agent"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dragoman.agents.demo\n')
    program.chmod(0o755)
    home.mkdir()
    (home / "config.toml").write_text(f'[agents.mine]\ncommand = "{program}"\ninstall = "get mine"\n')
    async with real_server(home) as server, server.client() as talk:
        session_id = (await talk.call("session.open", agent="mine", cwd=str(tmp_path)))["session_id"]
        view = await talk.follow(session_id)
        program.unlink()
        await talk.call_refused("session.restart", session_id=session_id, reload=True)
        await talk.wait_for(view, lambda view: view.state["failure"] is not None)
        problem = view.state["failure"]
        assert (problem["kind"], problem["install"]) == ("CommandNotFound", "get mine")
        assert "install" in problem["actions"]


async def test_a_full_disk_answers_every_client_that_waits_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, str(STREAMING_AGENT), str(tmp_path / "copy")]
    (home / "config.toml").write_text(
        f"[agents.streaming]\ncommand = {command[0]!r}\nargs = {command[1:]!r}\n"  # TOML takes these quotes
    )
    async with asyncio.timeout(TIMEOUT_S), real_server(home) as server, server.client() as talk:
        session_id = (await talk.call("session.open", agent="streaming", cwd=str(tmp_path)))["session_id"]
        view = await talk.follow(session_id)
        url, token = f"http://127.0.0.1:{server.port}", server.token()
        headers = {"authorization": f"Bearer {token}"}
        async with (
            httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=TIMEOUT_S) as program,
            Client(url, token) as client,
        ):
            answer = asyncio.create_task(program.post(f"/v1/sessions/{session_id}/runs", json={"text": "go"}))
            session = await client.open_session("streaming", cwd=str(tmp_path))
            run = asyncio.ensure_future(session.run("go").result())
            other = await talk.follow(session.id)
            await talk.wait_for(view, lambda view: any(view.texts()))
            await talk.wait_for(other, lambda view: any(view.texts()))
            connection = server.bridge.hub.journal._connection  # type: ignore[attr-defined]
            [pages] = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
            error = (await answer).json()["error"]
            assert ((await answer).status_code, error["kind"]) == (503, "unavailable")
            assert "disk is full" in error["message"]
            with pytest.raises(DragomanError, match="disk is full"):
                await run
            connection.execute("PRAGMA max_page_count = 1000000")
    assert any("disk is full" in record.getMessage() for record in caplog.records)


def test_an_error_that_no_install_helps_has_no_install_line() -> None:
    for error in (ExitedAtStart("it ended"), CommandNotFound("its interpreter is gone", guidance="Install that.")):
        problem = failure_details(error)
        assert problem is not None
        assert problem.install is None


def test_a_session_in_which_an_agent_in_a_terminal_is_at_work_is_watched() -> None:
    row = Session(id="one", imported=True, status="running", updated=time.time(), handle="{}")
    live = session_state(row, None, elsewhere=False, pending=0)
    assert (live.connection, live.status, live.can_resume) == ("watched", "running", True)
    item = session_item(row, None, pending=0)
    assert (item.connection, item.status) == ("watched", "running")
    assert session_state(row, None, elsewhere=True, pending=0).connection == "elsewhere"


def test_a_transcript_that_was_left_in_the_middle_of_a_run_does_not_run_for_ever() -> None:
    row = Session(id="one", imported=True, status="running", updated=time.time() - 24 * 3600, handle="{}")
    live = session_state(row, None, elsewhere=False, pending=0)
    assert (live.connection, live.status, live.can_resume) == ("none", "idle", True)
    item = session_item(row, None, pending=0)
    assert (item.connection, item.status) == ("none", "idle")
