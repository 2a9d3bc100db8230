"""The command line as users start it: a real process, a home and a workspace of its own, the demo agent."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

# Seconds until a test gives up waiting: far more than any step takes.
TIMEOUT_S = 40.0


class Done:
    """Exit code and output of a command that has ended."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.raw_out = out
        self.out = out.decode()
        self.err = err.decode()

    def events(self) -> list[dict[str, Any]]:
        """Decode stdout as `--json` writes it; every line must be an object."""
        assert self.raw_out.endswith(b"\n")
        events = [json.loads(line) for line in self.raw_out.splitlines()]
        assert all(isinstance(event, dict) and event["type"] for event in events)
        return events


class Cli:
    demo = f"{sys.executable} -P -m dragoman.agents.demo"

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.home.mkdir()
        self.workspace.mkdir()
        self.lifeline = folder / "lifeline"
        self.started: list[subprocess.Popen[bytes]] = []
        demo = {"DRAGOMAN_DEMO_PACE": "0", "DRAGOMAN_DEMO_HOME": str(folder / "demo")}
        lines = [f"{name} = {json.dumps(value)}" for name, value in demo.items()]
        self.configure("\n".join(["[agents.demo.env]", *lines]))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
        self.env |= {"DRAGOMAN_HOME": str(self.home), "TERM": "xterm-256color", "DRAGOMAN_CHECKPOINTS": "off"}
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
            self.env.pop(name, None)

    def configure(self, text: str) -> None:
        (self.home / "config.toml").write_text(text)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        settings = {"cwd": self.workspace, "env": self.env, **pipes, **options}
        process = subprocess.Popen([sys.executable, "-m", "dragoman", *arguments], **settings)
        self.started.append(process)
        return process

    def __call__(self, *arguments: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Done:
        options: dict[str, Any] = {"env": {**self.env, **(env or {})}}
        if stdin is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **options)
        out, err = process.communicate(stdin, timeout=TIMEOUT_S)
        return Done(process.returncode, out, err)

    def holding(self, before: str = "") -> str:
        """Return an `--agent-command`: the demo agent and a child that would outlive it; both hold the lifeline."""
        os.mkfifo(self.lifeline)
        script = self.workspace.parent / "agent.sh"
        script.write_text(
            f"exec 9>{self.lifeline}\nexport DRAGOMAN_DEMO_PACE=0\n{before}\n"
            f"sleep 1000 <&- >&- 2>&- &\nexec {self.demo}\n"
        )
        return f"sh {script}"

    def wait_until_all_are_gone(self, reading: int) -> None:
        """Wait until no process holds the lifeline any more."""
        while True:
            ready, _, _ = select.select([reading], [], [], TIMEOUT_S)
            assert ready, "a process still holds the lifeline"
            if not os.read(reading, 4096):
                return


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    runner = Cli(tmp_path)
    yield runner
    for process in runner.started:
        if process.poll() is None:  # the test failed: the reaper ends the rest
            process.send_signal(signal.SIGKILL)
            process.wait(TIMEOUT_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def read_until(fd: int, expected: bytes) -> bytes:
    """Read a descriptor byte by byte, up to and including the expected bytes."""
    output = b""
    while not output.endswith(expected):
        ready, _, _ = select.select([fd], [], [], TIMEOUT_S)
        assert ready, f"{expected!r} did not come; got {output!r}"
        data = os.read(fd, 1)
        assert data, f"it ended without {expected!r}; got {output!r}"
        output += data
    return output


class Terminal:
    """A command line on a terminal of its own."""

    def __init__(self, cli: Cli, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.master, slave = pty.openpty()
        self.process = cli.start(
            *arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env={**cli.env, **(env or {})}
        )
        os.close(slave)

    def until(self, expected: bytes) -> bytes:
        return read_until(self.master, expected)

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def rest(self) -> str:
        output = b""
        while True:
            ready, _, _ = select.select([self.master], [], [], TIMEOUT_S)
            assert ready, f"it does not end; got {output!r}"
            try:
                data = os.read(self.master, 4096)
            except OSError:  # Linux reports so that no process has the terminal any more
                data = b""
            if not data:
                return output.decode().replace("\r\n", "\n")
            output += data

    def code(self) -> int:
        return self.process.wait(TIMEOUT_S)


On: TypeAlias = Callable[..., Terminal]


@pytest.fixture
def on_terminal(cli: Cli) -> Iterator[On]:
    opened: list[Terminal] = []

    def start(*arguments: str, env: dict[str, str] | None = None) -> Terminal:
        opened.append(Terminal(cli, *arguments, env=env))
        return opened[-1]

    yield start
    for terminal in opened:
        os.close(terminal.master)


def without_looks(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
