"""Recordings of real conversations: both directions of a connection, a line of JSON for each frame.

    {"dir": "out", "ts": 1794724271.8, "frame": {…}}     we sent it
    {"dir": "in", "ts": 1794724271.9, "frame": {…}}      the agent sent it
    {"dir": "noise", "ts": 1794724272.0, "line": "…"}    a line that is no JSON object

Frames are as they were sent, byte by byte; each is recorded before it is passed on. A line over the limit of the
wire is noise with its beginning, `length` and `sha256`. `record.conversation.fold_recording` reads a recording. A
recording has everything that was sent, also keys in the `env` and `headers` of MCP servers.

Between any client and any agent, as a program:

    python -m dragoman.testing.tee RECORDING.jsonl -- opencode acp

In a test, around the link of a runtime:

    lines: list[bytes] = []
    async with AgentRuntime(spec, launch=recorded(lines.append)) as runtime: …
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from dragoman.proc.link import END_GRACE_S, AgentLink, StderrTail
from dragoman.session.link import launch as launch_process
from dragoman.session.spec import AgentSpec, Launch, Limits
from dragoman.wire.framing import LineFramer
from dragoman.wire.messages import Oversized

USAGE = "usage: python -m dragoman.testing.tee RECORDING.jsonl -- COMMAND…"

# As much as a pipe holds.
_CHUNK_BYTES = 64 * 1024
# The exit codes of a shell for a program that could not be started, or that a signal ended.
_EXIT_NOT_FOUND = 127
_SIGNAL_EXIT_BASE = 128
# For the last output of an agent that has ended: it is in the pipe, and the client has to read it.
_LAST_OUTPUT_TIMEOUT_S = 5.0


class Tee:
    """Bytes of both directions in, lines of a recording out, each with its newline. For one thread a direction."""

    def __init__(self, write: Callable[[bytes], object], clock: Callable[[], float] = time.time) -> None:
        self._write = write
        self._clock = clock
        self._framers = {"in": LineFramer(), "out": LineFramer()}
        self._lock = threading.Lock()

    def passed(self, direction: Literal["in", "out"], data: bytes) -> None:
        """Record bytes before they are passed on; empty bytes are the end of this direction."""
        framer = self._framers[direction]
        for line in framer.feed(data) if data else framer.finish():
            record = self._record(direction, line)
            if record is not None:
                with self._lock:
                    self._write(record)

    def _record(self, direction: Literal["in", "out"], line: bytes | Oversized) -> bytes | None:
        head: dict[str, object] = {"dir": "noise", "ts": self._clock()}
        if isinstance(line, Oversized):
            outline = {"line": _readable(line.head), "length": line.length, "sha256": line.sha256}
            return msgspec.json.encode({**head, **outline}) + b"\n"
        line = line.strip()
        if not line:
            return None
        if is_frame(line):
            return msgspec.json.encode({**head, "dir": direction, "frame": msgspec.Raw(line)}) + b"\n"
        return msgspec.json.encode({**head, "line": _readable(line)}) + b"\n"


def is_frame(line: bytes) -> bool:
    """Return whether the line is a JSON object, without a carriage return, at which some readers end lines."""
    try:
        line.decode("utf-8")
        msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return line.startswith(b"{") and b"\r" not in line


def _readable(line: bytes) -> str:
    return line.decode("utf-8", errors="backslashreplace")


class RecordedLink:
    """An `AgentLink` that is another one, with a tee in its bytes."""

    def __init__(self, link: AgentLink, tee: Tee) -> None:
        self.link = link
        self._tee = tee

    @property
    def name(self) -> str:
        return self.link.name

    @property
    def exit_code(self) -> int | None:
        return self.link.exit_code

    @property
    def stderr(self) -> StderrTail:
        return self.link.stderr

    async def read(self) -> bytes:
        data = await self.link.read()
        self._tee.passed("in", data)
        return data

    def write(self, data: bytes) -> None:
        self._tee.passed("out", data)
        self.link.write(data)

    async def drain(self) -> None:
        await self.link.drain()

    def close(self) -> None:
        self.link.close()

    async def wait(self) -> int:
        return await self.link.wait()

    async def end(self, grace: float = END_GRACE_S) -> int:
        return await self.link.end(grace)

    def interrupt(self) -> None:
        self.link.interrupt()

    def kill(self) -> None:
        self.link.kill()


def recorded(write: Callable[[bytes], object], launch: Launch = launch_process) -> Launch:
    """Return a `launch` for `AgentRuntime` whose link is recorded: `write` gets the lines, one per call."""

    async def recording_launch(spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        return RecordedLink(await launch(spec, limits, on_stderr), Tee(write))

    return recording_launch


# The program ----------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Run the command with our stdin, stdout and stderr; return its exit code."""
    if len(arguments) < 3 or arguments[1] != "--":
        print(USAGE, file=sys.stderr)
        return 2
    path, _, *command = arguments
    try:
        with Path(path).open("wb", buffering=0) as file:
            return _stand_between(command, Tee(file.write))
    except OSError as error:
        print(f"dragoman.testing.tee: {error}", file=sys.stderr)
        return _EXIT_NOT_FOUND if error.filename == command[0] else 2


def _stand_between(command: Sequence[str], tee: Tee) -> int:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: process.send_signal(number))
    # Daemons: neither a silent client nor a child that holds the agent's stdout may keep us when the agent has ended.
    there = threading.Thread(target=_carry, args=(sys.stdin, process.stdin, tee, "out"), daemon=True)
    back = threading.Thread(target=_carry, args=(process.stdout, sys.stdout, tee, "in"), daemon=True)
    there.start()
    back.start()
    code = process.wait()
    back.join(_LAST_OUTPUT_TIMEOUT_S)
    return code if code >= 0 else _SIGNAL_EXIT_BASE - code


def _carry(source: IO[Any], target: IO[Any], tee: Tee, direction: Literal["in", "out"]) -> None:
    """Copy the source to the target and record it, until the source ends; also when the target is closed."""
    open_end = True
    while data := os.read(source.fileno(), _CHUNK_BYTES):
        tee.passed(direction, data)
        try:
            rest = memoryview(data)
            while open_end and rest:
                rest = rest[os.write(target.fileno(), rest) :]
        except OSError:
            open_end = False
    tee.passed(direction, b"")
    if direction == "out":
        try:
            target.close()  # the agent sees the end of its stdin
        except OSError:
            pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
