"""The state of a session, and its entry in lists."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bridge.socket_client import real_server
from dragoman.bridge.listing import failure_details, session_item, session_state
from dragoman.errors import CommandNotFound, ExitedAtStart
from dragoman.journal.rows import Session


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
