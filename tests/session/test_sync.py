"""The same for programs that are not async: scripts, notebooks, threads."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.errors import InputError
from dragoman.host.permission import PermissionRequest
from dragoman.record import events
from dragoman.testing.demo import demo_spec
from dragoman.testing.memory import TIMEOUT_S


@pytest.fixture(autouse=True)
async def leaves_nothing() -> None:
    """The background loop is kept for the life of the process, so the usual count does not apply."""


def open_demo(tmp_path: Path, **options: Any) -> dragoman.SyncSession:
    return dragoman.open_session_sync(demo_spec(tmp_path / "demo"), cwd=tmp_path, **options)


def test_a_run_in_one_line(tmp_path: Path) -> None:
    result = dragoman.run_sync(demo_spec(tmp_path / "demo"), "hello", cwd=tmp_path)
    assert result.status == "success"
    assert result.text


def test_a_session_with_its_runs_and_settings(tmp_path: Path) -> None:
    with open_demo(tmp_path) as session:
        run = session.run("stream 300")
        output = [event.text for event in run if isinstance(event, events.AssistantDelta)]
        assert len(output) == 300
        assert run.done
        assert run.result().text.count("chunk") == 300
        assert session.status() == "idle"
        session.set_mode("plan")
        assert session.snapshot().mode == "plan"
        assert session.capabilities().load
        with session.run("slow 1000") as slow:
            pass
        assert slow.result().status == "cancelled"
        handle = session.snapshot()
    env = {"DRAGOMAN_DEMO_HOME": str(tmp_path / "demo"), "DRAGOMAN_DEMO_PACE": "0.0"}
    with dragoman.resume_session_sync(handle, env=env) as session:
        assert session.run("hello").result().status == "success"


def test_a_runtime_with_two_sessions(tmp_path: Path) -> None:
    config = dragoman.SessionConfig(workspace=dragoman.Workspace(tmp_path))
    with dragoman.SyncAgentRuntime(demo_spec(tmp_path / "demo")) as runtime:
        first, second = runtime.open_session(config), runtime.open_session(config)
        runs = [first.run("stream 20"), second.run("stream 30")]
        assert [run.result().text.count("chunk") for run in runs] == [20, 30]


def test_errors_are_raised_here(tmp_path: Path) -> None:
    with open_demo(tmp_path) as session:
        with pytest.raises(dragoman.errors.StoppedEarly):
            session.run("refuse").result()
        with pytest.raises(InputError):
            session.run("")


async def test_it_works_inside_a_running_loop(tmp_path: Path) -> None:
    """The cells of a notebook run inside a loop."""
    assert dragoman.run_sync(demo_spec(tmp_path / "demo"), "hello", cwd=tmp_path).status == "success"
    await asyncio.sleep(0)


def test_a_plain_callback_may_block_and_may_use_the_session(tmp_path: Path) -> None:
    seen: list[str] = []

    def ask(request: PermissionRequest) -> bool:
        seen.append(session.status())
        seen.append(threading.current_thread().name)
        return True

    with open_demo(tmp_path, on_permission=ask) as session:
        resolved = [event for event in session.run("permission") if isinstance(event, events.PermissionResolved)]
        assert [event.option_kind for event in resolved] == ["allow_once"]
    assert seen[0] == "waiting"
    assert seen[1] != "dragoman"


def test_a_blocking_call_from_the_loops_own_thread_is_refused(tmp_path: Path) -> None:
    refused: list[str] = []

    def hear(event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            with pytest.raises(InputError, match="wait for ever") as failed:
                session.set_mode("plan")
            refused.append(str(failed.value))

    with open_demo(tmp_path, on_event=hear) as session:
        session.run("hello").result()
    assert len(refused) == 1


def test_threads_may_share_it(tmp_path: Path) -> None:
    results: list[str] = []

    def work() -> None:
        results.append(dragoman.run_sync(demo_spec(tmp_path / "demo"), "hello", cwd=tmp_path).status)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert results == ["success"] * 3


INTERRUPTED = """
import os, sys, dragoman
from pathlib import Path
from dragoman.testing.demo import demo_spec

def children():
    "Ours that still run, but for the reaper."
    found = []
    for entry in Path("/proc").iterdir():
        try:
            stat, command = (entry / "stat").read_text(), (entry / "cmdline").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == os.getpid() and "reaper" not in command:
            found.append(command)
    return found

def hear(event):
    if event.type == "assistant.delta":
        print("speaking", flush=True)

try:
    dragoman.run_sync(demo_spec(Path(sys.argv[1])), "slow 1000", cwd=sys.argv[1], on_event=hear)
except KeyboardInterrupt:
    print("interrupted", len(children()), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_cancels_politely_and_leaves_no_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "DRAGOMAN_TEST_MARK": str(tmp_path)},
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "speaking\n"
        assert _marked(tmp_path) > 1
        os.kill(program.pid, signal.SIGINT)
        output = program.stdout.read()
        assert program.wait(TIMEOUT_S) == 0
    assert output.endswith("interrupted 0\n")


def _marked(tmp_path: Path) -> int:
    """Return the number of processes that carry the mark of this test."""
    mark = f"DRAGOMAN_TEST_MARK={tmp_path}".encode()
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            count += mark in environ.split(b"\0")
    return count


def test_a_caller_that_stops_iterating_early_still_gets_the_result(tmp_path: Path) -> None:
    with open_demo(tmp_path) as session:
        run = session.run("stream 30000")
        for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        assert run.result().text.count("chunk") == 30000
