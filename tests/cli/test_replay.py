"""`dragoman replay` as the agent of `dragoman run`, and its errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cli.conftest import Cli

REPLAY = f"{sys.executable} -P -m dragoman replay"


@pytest.fixture
def recording(cli: Cli) -> Path:
    """Record a run of the demo agent."""
    path = cli.workspace.parent / "talk.jsonl"
    between = f"{sys.executable} -P -m dragoman.testing.tee {path} -- {cli.demo}"
    done = cli("run", "--env", "DRAGOMAN_DEMO_PACE=0", "--agent-command", between, "hello")
    assert done.code == 0, done.err
    return path


def test_a_recording_is_played_to_a_client(cli: Cli, recording: Path) -> None:
    then = cli("run", "hello")
    now = cli("run", "--agent-command", f"{REPLAY} --speed now {recording}", "hello")
    assert (now.code, now.out) == (0, then.out)


def test_a_prompt_that_differs_is_shown_beside_the_recorded_one(cli: Cli, recording: Path) -> None:
    done = cli("run", "--agent-command", f"{REPLAY} --speed now {recording}", "good morning")
    assert done.code == 1
    assert "-hello" in done.err
    assert "+good morning" in done.err


def test_by_order_any_prompt_is_answered(cli: Cli, recording: Path) -> None:
    then = cli("run", "hello")
    done = cli("run", "--agent-command", f"{REPLAY} --by-order {recording}", "good morning")
    assert (done.code, done.out) == (0, then.out)


def test_a_session_of_the_journal_is_played_by_its_id(cli: Cli) -> None:
    then = cli("run", "--access", "full", "edit notes.txt")
    assert then.code == 0, then.err
    (cli.workspace / "notes.txt").unlink()
    [listed] = json.loads(cli("sessions", "list", "--json").out)
    for name in (listed["id"], listed["id"][:6]):
        command = f"{REPLAY} --speed now {name}"
        home = f"DRAGOMAN_HOME={cli.home}"
        done = cli("run", "--access", "full", "--env", home, "--agent-command", command, "edit notes.txt")
        assert (done.code, done.out) == (0, then.out), done.err
        (cli.workspace / "notes.txt").unlink()


@pytest.mark.parametrize("name", ["none.jsonl", "folder/none", "a1b2c3"])
def test_a_missing_recording_is_reported(cli: Cli, name: str) -> None:
    done = cli("replay", name, stdin=b"")
    assert done.code == 2
    assert f"there is no recording {name}" in done.err
    assert done.out == ""


def test_a_missing_session_is_reported(cli: Cli) -> None:
    cli("run", "hello")
    done = cli("replay", "zzzzzz", stdin=b"")
    assert done.code == 2
    assert "zzzzzz" in done.err


def test_a_file_that_is_no_recording_is_reported_with_its_line(cli: Cli) -> None:
    file = cli.workspace / "notes.txt"
    file.write_text('{"dir": "end", "ts": 1}\nhello\n')
    done = cli("replay", "notes.txt", stdin=b"")
    assert done.code == 2
    assert "notes.txt, line 2" in done.err


def test_a_missing_connection_is_reported(cli: Cli, recording: Path) -> None:
    done = cli("replay", "--connection", "2", str(recording), stdin=b"")
    assert done.code == 2
    assert "1 connection, not 2" in done.err


def test_without_a_client_it_says_how_to_connect_one(cli: Cli, recording: Path) -> None:
    done = cli("replay", str(recording))
    assert done.code == 2
    assert "dragoman run" in done.err


def test_it_ends_when_the_client_does(cli: Cli, recording: Path) -> None:
    done = cli("replay", str(recording), stdin=b'{"jsonrpc":"2.0","id":1,"method":"x"}\n')
    assert done.code == 0
    assert json.loads(done.out)["error"]["code"] == -32601
