"""Small programs in place of agents, and a pipe that shows when they have ended.

`Lifeline` is a named pipe that the programs hold open for writing: they write their name to it, and its end of
file is the moment at which the last of them has ended. No test has to sleep or to read the process table for that.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from dragoman.proc._reaper_main import start_time
from dragoman.proc.process import ProcessLink
from dragoman.proc.spawn import spawn

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

TIMEOUT_S = 20.0
"""Seconds until a test gives up waiting: far more than anything here takes."""

PRELUDE = """
import os, signal, subprocess, sys

def live(name):
    "Write our name, and keep the lifeline open until we end."
    global lifeline
    pid = os.getpid()
    if os.path.exists("/proc/self/stat"):
        started = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
        open(os.path.join(os.path.dirname(LIFELINE), "pid-%d" % pid), "w").write(started)
    lifeline = open(LIFELINE, "w", buffering=1)
    lifeline.write(name + "\\n")

def child(body, **options):
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", START + body], **options)

def rest():
    while True:
        signal.pause()

def until_stdin_ends():
    while os.read(0, 65536):
        pass

def stubborn():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
"""


class Lifeline:
    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._heard = b""

    def fileno(self) -> int:
        return self._fd

    def hear(self, count: int) -> list[str]:
        """Block until `count` programs have said their names; the names, sorted."""
        while self._heard.count(b"\n") < count:
            if not self._more():
                raise AssertionError(f"all programs ended after {self._heard!r}")
        return sorted(self._heard.decode().split())

    def silence(self) -> None:
        """Block until all programs have ended."""
        while self._more():
            pass

    def close(self) -> None:
        """Kill the programs that a failed test has left: each writes its pid beside the line."""
        for note in self.path.parent.glob("pid-*"):
            started = int(note.read_text() or 0)
            if started and start_time(pid := int(note.name.removeprefix("pid-"))) == started:
                os.kill(pid, signal.SIGKILL)
        os.close(self._fd)

    def _more(self) -> bytes:
        ready, _, _ = select.select([self._fd], [], [], TIMEOUT_S)
        if not ready:
            raise AssertionError(f"nothing more on the lifeline, and it has not ended; heard {self._heard!r}")
        data = os.read(self._fd, 4096)
        self._heard += data
        return data


class Agents:
    """Starts programs as agents; ends those that a test has left."""

    def __init__(self, folder: Path, lifeline: Lifeline) -> None:
        self.folder = folder
        self.lifeline = lifeline
        self.links: list[ProcessLink] = []
        prelude = folder / "prelude.py"
        self._start = f"exec(open({str(prelude)!r}).read())\n"
        prelude.write_text(f"START = {self._start!r}\nLIFELINE = {str(lifeline.path)!r}\n{PRELUDE}")

    def command(self, body: str) -> list[str]:
        """Return a command that runs `body`, with the functions of the prelude."""
        return [sys.executable, "-I", "-S", "-c", self._start + body]

    async def start(
        self, body: str, *, cwd: Path | None = None, on_stderr: Callable[[str], None] | None = None
    ) -> ProcessLink:
        link = await spawn(self.command(body), cwd=cwd, env=dict(os.environ), name="test", on_stderr=on_stderr)
        self.links.append(link)
        return link

    async def hear(self, count: int) -> list[str]:
        return await asyncio.to_thread(self.lifeline.hear, count)

    async def silence(self) -> None:
        await asyncio.to_thread(self.lifeline.silence)


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    line = Lifeline(tmp_path / "lifeline")
    yield line
    line.close()


@pytest.fixture
async def agents(tmp_path: Path, lifeline: Lifeline) -> AsyncIterator[Agents]:
    agents = Agents(tmp_path, lifeline)
    yield agents
    for link in agents.links:
        await link.end(grace=0)
