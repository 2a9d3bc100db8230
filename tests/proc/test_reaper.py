"""G6: however dragoman ends, nothing that it started is left. Here `parent` is a small program in dragoman's place."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.proc import _reaper_main
from dragoman.proc._reaper_main import MARKER, end_all, group_alive, marked_processes, start_time
from dragoman.proc.reaper import PROGRAM, WAIT_SCRIPT, Reaper, reaper
from dragoman.proc.spawn import spawn

from .conftest import TIMEOUT_S, Agents, Lifeline, needs_proc

pytestmark = needs_proc

# Two agents: one with a child in its group, one that ignores all signals, with a child that ignores them in a session
# of its own.
PLAIN = """
child('live("plain child"); rest()')
live("plain")
rest()
"""
STUBBORN = """
child('stubborn(); live("stubborn child"); rest()', start_new_session=True)
stubborn()
live("stubborn")
rest()
"""
PARENT = """
import asyncio, json, os, signal, sys
from dragoman.proc.reaper import reaper
from dragoman.proc.spawn import spawn

async def start(command):
    return await spawn(command, cwd=None, env=dict(os.environ), name="test")

def say(**words):
    print(json.dumps(words), flush=True)

async def main(commands, how):
    links = [await start(commands[0])]
    if how == "its reaper was killed once":
        os.kill(reaper().pid, signal.SIGKILL)
        os.waitid(os.P_PID, reaper().pid, os.WEXITED | os.WNOWAIT)
    links.append(await start(commands[1]))
    if how == "a fork of it lives on" and not os.fork():
        sys.stdin.read()
        os._exit(0)
    say(reaper=reaper().pid, prefix=reaper().prefix)
    told = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, told.set)
    await told.wait()
    if how == "a fork of it forgets the links":
        fork = os.fork()
        if not fork:
            for link in links:
                link.__del__()
            os._exit(0)
        os.waitpid(fork, 0)
        for link in links:
            print("alive" if os.waitid(os.P_PID, link.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None else "dead")
            await link.end(grace=0)
    if how == "it ends them":
        for link in links:
            await link.end(grace=0.1)
    if how == "it raises":
        raise RuntimeError("not handled")
    if how == "it exits at once":
        os._exit(3)

asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2]))
"""


class Parent:
    def __init__(self, agents: Agents, how: str) -> None:
        commands = [agents.command(PLAIN), agents.command(STUBBORN)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, json.dumps(commands), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        words = json.loads(self.process.stdout.readline())
        self.reaper: int = words["reaper"]
        self.prefix: str = words["prefix"]

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def parents() -> Iterator[list[Parent]]:
    started: list[Parent] = []
    yield started
    for parent in started:
        parent.close()


def wait_for_end(pid: int) -> None:
    """Wait, bounded, for the end of a process that is not our child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], TIMEOUT_S)[0], f"process {pid} has not ended"
    finally:
        os.close(fd)


@pytest.mark.attempts("orphans")
@pytest.mark.parametrize(
    ("how", "number"),
    [
        ("it is killed", signal.SIGKILL),
        ("it is terminated", signal.SIGTERM),
        ("it is interrupted", signal.SIGINT),
        ("a fork of it lives on", signal.SIGKILL),
        ("its reaper was killed once", signal.SIGKILL),
        ("it returns", None),
        ("it raises", None),
        ("it exits at once", None),
        ("it ends them", None),
    ],
)
def test_nothing_is_left_however_dragoman_ends(
    tmp_path: Path, lifeline: Lifeline, parents: list[Parent], how: str, number: int | None
) -> None:
    parent = Parent(Agents(tmp_path, lifeline), how)
    parents.append(parent)
    assert lifeline.hear(4) == ["child", "child", "plain", "plain", "stubborn", "stubborn"]
    if number is None:
        parent.go_on()
    else:
        parent.process.send_signal(number)
    lifeline.silence()
    wait_for_end(parent.reaper)
    assert marked_processes(f"{parent.prefix}.", prefix=True) == []


def test_the_parent_does_not_wait_for_its_reaper(tmp_path: Path, lifeline: Lifeline, parents: list[Parent]) -> None:
    parent = Parent(Agents(tmp_path, lifeline), "it exits at once")
    parents.append(parent)
    lifeline.hear(4)
    os.kill(parent.reaper, signal.SIGSTOP)
    try:
        parent.go_on()
        assert parent.process.wait(TIMEOUT_S) == 3
    finally:
        os.kill(parent.reaper, signal.SIGCONT)
    lifeline.silence()


def test_a_program_that_ends_its_agents_ends_without_a_word(
    tmp_path: Path, lifeline: Lifeline, parents: list[Parent]
) -> None:
    parent = Parent(Agents(tmp_path, lifeline), "it ends them")
    parents.append(parent)
    lifeline.hear(4)
    out, err = parent.process.communicate("\n", timeout=TIMEOUT_S)
    assert (parent.process.returncode, out, err) == (0, "", "")


def test_a_fork_that_forgets_its_copy_of_a_link_does_not_end_the_agent(
    tmp_path: Path, lifeline: Lifeline, parents: list[Parent]
) -> None:
    parent = Parent(Agents(tmp_path, lifeline), "a fork of it forgets the links")
    parents.append(parent)
    lifeline.hear(4)
    out, err = parent.process.communicate("\n", timeout=TIMEOUT_S)
    assert (out, err) == ("alive\nalive\n", "")


def test_a_reaper_survives_the_sweep_of_a_dragoman_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARKER, "outer.1")
    inner = Reaper()
    inner.ensure()
    pid = inner.pid
    assert pid is not None
    assert MARKER.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    inner.detach()
    os.waitpid(pid, 0)


async def test_the_reaper_inherits_no_descriptor(agents: Agents) -> None:
    await agents.start("until_stdin_ends()")
    pid = reaper().pid
    assert pid is not None
    # Its stdin is the one pipe; files it may have open while Python starts.
    assert [name.partition(":")[0] for name in open_files(pid) if not name.startswith("/")] == ["pipe"]


def open_files(pid: int) -> list[str]:
    names = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            names.append(os.readlink(f"/proc/{pid}/fd/{number}"))
        except FileNotFoundError:
            continue
    return names


async def test_a_reaper_that_cannot_start_does_not_hinder_a_spawn(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.proc.reaper._reaper", Reaper())
    monkeypatch.setattr("dragoman.proc.reaper.SHELL", "/no/such/shell")
    link = await spawn(["/bin/cat"], cwd=None, env={}, name="test")
    assert reaper().pid is None
    assert await link.end(grace=TIMEOUT_S) == 0


async def test_a_dead_reaper_is_started_again_at_the_next_spawn(agents: Agents) -> None:
    await agents.start("until_stdin_ends()")
    first = reaper().pid
    assert first is not None
    kill_child(first)
    await agents.start("until_stdin_ends()")
    assert reaper().pid not in (None, first)


@pytest.mark.attempts("orphans")
def test_a_reaper_that_is_started_again_knows_what_the_first_one_knew(tmp_path: Path, lifeline: Lifeline) -> None:
    # No marker on this one: only the list can save it from being left.
    victim = subprocess.Popen(Agents(tmp_path, lifeline).command("live('victim'); rest()"), start_new_session=True)
    lifeline.hear(1)
    ours = Reaper()
    ours.ensure()
    ours.add(victim.pid)
    assert ours.pid is not None
    kill_child(ours.pid)
    ours.ensure()
    again = ours.pid
    ours.detach()
    assert victim.wait(TIMEOUT_S) == -signal.SIGTERM
    assert again is not None
    os.waitpid(again, 0)


def kill_child(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def run_reaper(prefix: str, python: str = sys.executable, program: str = str(PROGRAM)) -> subprocess.Popen[bytes]:
    command = ["/bin/sh", "-c", WAIT_SCRIPT, "reaper", python, program, prefix]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


@pytest.mark.attempts("orphans")
def test_signals_do_not_stop_the_reaper_from_its_work(tmp_path: Path, lifeline: Lifeline) -> None:
    victim = subprocess.Popen(
        Agents(tmp_path, lifeline).command("stubborn(); live('victim'); rest()"), start_new_session=True
    )
    lifeline.hear(1)
    helper = run_reaper("none")
    assert helper.stdin is not None
    # More than the pipe holds: when this returns, the reaper reads, and has set its signals.
    helper.stdin.write(b"noise\n" * 50_000 + f"add {victim.pid} {start_time(victim.pid)}\n".encode())
    helper.stdin.flush()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        helper.send_signal(number)
    helper.communicate(timeout=TIMEOUT_S)
    assert victim.wait(TIMEOUT_S) == -signal.SIGKILL
    assert helper.returncode == 0


def test_a_group_whose_number_was_given_to_another_process_is_spared(tmp_path: Path, lifeline: Lifeline) -> None:
    other = subprocess.Popen(Agents(tmp_path, lifeline).command("live('other'); rest()"), start_new_session=True)
    lifeline.hear(1)
    end_all({other.pid: start_time(other.pid) + 1}, "none.")
    assert other.poll() is None
    end_all({other.pid: start_time(other.pid)}, "none.")
    assert other.wait(TIMEOUT_S) == -signal.SIGTERM


@pytest.mark.attempts("orphans")
def test_a_group_is_swept_when_only_its_leader_is_gone(tmp_path: Path, lifeline: Lifeline) -> None:
    leader = subprocess.Popen(
        Agents(tmp_path, lifeline).command("child('live(\"orphan\"); rest()')"), start_new_session=True
    )
    start = start_time(leader.pid)
    lifeline.hear(1)
    leader.wait(TIMEOUT_S)
    end_all({leader.pid: start}, "none.")
    lifeline.silence()


def test_zombies_are_not_alive() -> None:
    process = subprocess.Popen(["/bin/true"], start_new_session=True)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not group_alive(process.pid)
    process.wait()
    assert not group_alive(process.pid)
    assert start_time(process.pid) == 0


def test_markers_are_distinguished(tmp_path: Path, lifeline: Lifeline) -> None:
    agents = Agents(tmp_path, lifeline)
    processes = {
        number: subprocess.Popen(agents.command("live('x'); rest()"), env={MARKER: f"test{os.getpid()}.{number}"})
        for number in (1, 10)
    }
    lifeline.hear(2)
    try:
        assert marked_processes(f"test{os.getpid()}.1") == [processes[1].pid]
        both = sorted(process.pid for process in processes.values())
        assert sorted(marked_processes(f"test{os.getpid()}.", prefix=True)) == both
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def test_the_reaper_keeps_the_groups_that_were_not_removed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print(*sys.argv[1:])")
    input_lines = b"add 5 77\nadd 55 1\nadd 6 0\nnoise\n\nremove 6\nremove 9\nremove\nadd 5 78\nadd 9"
    assert run_reaper("mine", program=str(program)).communicate(input_lines, TIMEOUT_S)[0] == b"mine 55:1 5:78\n"


@pytest.mark.attempts("orphans")
def test_groups_end_even_when_our_interpreter_is_not_there_any_more(tmp_path: Path, lifeline: Lifeline) -> None:
    victim = subprocess.Popen(Agents(tmp_path, lifeline).command("live('victim'); rest()"), start_new_session=True)
    lifeline.hear(1)
    helper = run_reaper("none", python=str(tmp_path / "gone"))
    helper.communicate(f"add {victim.pid} {start_time(victim.pid)}\n".encode(), TIMEOUT_S)
    assert victim.wait(TIMEOUT_S) == -signal.SIGKILL


def test_the_reapers_program_imports_only_the_standard_library() -> None:
    code = textwrap.dedent(f"""
        import runpy, sys
        runpy.run_path({str(PROGRAM)!r}, run_name="not main")
        print(sorted(name for name in sys.modules if name.startswith(("dragoman", "asyncio", "subprocess"))))
    """)
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
    assert _reaper_main.__file__ == str(PROGRAM)
