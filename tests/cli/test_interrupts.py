"""Ctrl-C, SIGTERM and readers that go away: each ends the run, and leaves no process.

The agent, and a child of it that would outlive it, hold a named pipe open: its end of file is the moment at which the
last of them is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from .conftest import TIMEOUT_S, Cli, read_until

Start: TypeAlias = Callable[..., "RunningCommand"]


class RunningCommand:
    """A running command line, whose agent holds the lifeline."""

    def __init__(self, cli: Cli, lifeline: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.out, self.err = process.stdout.fileno(), process.stderr.fileno()
        self._cli = cli
        self._lifeline = lifeline

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> tuple[int, str]:
        """Return the exit code and the rest of stderr, once no process of the run is left."""
        assert self.process.stderr is not None
        stderr = self.process.stderr.read().decode()
        code = self.process.wait(TIMEOUT_S)
        self._cli.wait_until_all_are_gone(self._lifeline)
        return code, stderr


@pytest.fixture
def start(cli: Cli) -> Iterator[Start]:
    opened: list[int] = []

    def start(*arguments: str, before: str = "") -> RunningCommand:
        command = cli.holding(before)
        opened.append(os.open(cli.lifeline, os.O_RDONLY | os.O_NONBLOCK))
        return RunningCommand(cli, opened[0], cli.start("run", "--agent-command", command, *arguments))

    yield start
    for fd in opened:
        os.close(fd)


def test_one_ctrl_c_cancels_politely(start: Start) -> None:
    run = start("sleep 1000")
    read_until(run.out, b"I sleep for 1000 s.")
    run.signal(signal.SIGINT)
    code, stderr = run.ended()
    assert code == 130
    assert "dragoman: cancelling… press Ctrl-C again to kill the agent" in stderr
    assert "cancelled after" in stderr
    assert "Traceback" not in stderr


def test_a_cancelled_run_is_cancelled_in_json(start: Start) -> None:
    run = start("--json", "sleep 1000")
    read_until(run.out, b'"text":"s."')
    run.signal(signal.SIGINT)
    read_until(run.out, b'"type":"run.completed"')
    assert b'"status":"cancelled"' in read_until(run.out, b"\n")
    assert run.ended()[0] == 130


def test_a_second_ctrl_c_stops_an_agent_that_does_not_listen(start: Start) -> None:
    run = start("hang")
    read_until(run.out, b"Only ending my process helps.")
    run.signal(signal.SIGINT)
    read_until(run.err, b"kill the agent")
    run.signal(signal.SIGINT)
    code, stderr = run.ended()
    assert code == 130
    assert "Traceback" not in stderr


def test_sigterm_stops_at_once(start: Start) -> None:
    run = start("hang")
    read_until(run.out, b"Only ending my process helps.")
    run.signal(signal.SIGTERM)
    code, stderr = run.ended()
    assert code == 143
    assert "dragoman:" not in stderr


def test_ctrl_c_while_the_agent_starts_ends_it(start: Start) -> None:
    run = start("-v", "hello", before="echo about to hang >&2; sleep 1000; exit")
    read_until(run.err, b"about to hang\n")
    run.signal(signal.SIGINT)
    assert run.ended() == (130, "")


def test_a_reader_that_goes_away_ends_the_run_quietly(start: Start) -> None:
    run = start("--json", "flood 10000000")
    read_until(run.out, b"\n")
    assert run.process.stdout is not None
    run.process.stdout.close()
    assert run.ended() == (141, "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it without a write")
def test_a_reader_that_goes_away_is_noticed_in_silence_too(start: Start) -> None:
    run = start("--json", "sleep 1000")
    read_until(run.out, b'"text":"s."')
    assert run.process.stdout is not None
    run.process.stdout.close()
    assert run.ended() == (141, "")


def test_a_reader_that_does_not_read_cannot_block_the_end(start: Start) -> None:
    run = start("flood 10000000")
    read_until(run.out, b"drop 1\n")  # nothing more is read: the pipe fills up
    run.signal(signal.SIGINT)
    read_until(run.err, b"kill the agent")
    run.signal(signal.SIGINT)
    assert run.ended()[0] == 130


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_reported(cli: Cli) -> None:
    with open("/dev/full", "wb") as full:
        process = cli.start("run", "hello", stdout=full)
        assert process.stderr is not None
        stderr = process.stderr.read().decode()
    assert process.wait(TIMEOUT_S) == 1
    assert "dragoman: the output cannot be written: No space left on device" in stderr
    assert "Traceback" not in stderr
