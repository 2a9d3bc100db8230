"""`Pty`: a pseudo-terminal with a real command in it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.errors import InputError
from dragoman.proc.process import ProcessLink
from dragoman.proc.pty import Pty, spawn_in
from dragoman.testing.leaks import nothing_left

from .conftest import TIMEOUT_S, needs_proc

ENV = {"PATH": os.environ["PATH"]}


@asynccontextmanager
async def running(*command: str, has_input: bool = False, **size: int) -> AsyncIterator[tuple[Pty, ProcessLink]]:
    async with asyncio.timeout(TIMEOUT_S):
        pty = Pty(**size)
        link = await spawn_in(pty, command, cwd=None, env=ENV, name=command[0], has_input=has_input)
        assert await link.read() == b""
        pty.close_slave()
        try:
            yield pty, link
        finally:
            link.kill()
            await link.end()
            pty.close()


async def rest(pty: Pty) -> bytes:
    read = b""
    while data := await pty.read():
        read += data
    return read


async def until(pty: Pty, word: bytes) -> bytes:
    read = b""
    while word not in read:
        data = await pty.read()
        assert data, f"ended after {read!r}"
        read += data
    return read


SAY = """
import os, sys
tty = os.open("/dev/tty", os.O_RDWR)
print(os.isatty(0), os.isatty(1), os.isatty(2), os.ttyname(1) == os.ttyname(2))
print(os.getsid(0) == os.getpid(), os.tcgetpgrp(tty) == os.getpgrp(), tuple(os.get_terminal_size()))
"""


async def test_a_command_has_it_as_its_controlling_terminal_and_nothing_to_read() -> None:
    async with running(sys.executable, "-c", SAY, columns=100, rows=30) as (pty, link):
        assert await rest(pty) == b"False True True True\r\nTrue True (100, 30)\r\n"
        assert await link.wait() == 0
        assert link.stderr.text() == ""


async def test_a_command_that_is_typed_to_reads_from_it() -> None:
    async with running("cat", has_input=True) as (pty, link):
        pty.write("grüße\n\x04".encode())
        await pty.drain()
        assert await rest(pty) == "grüße\r\n".encode() * 2  # the echo, and what it wrote
        assert await link.wait() == 0


async def test_a_typed_interrupt_reaches_a_command_that_does_not_read() -> None:
    async with running("sh", "-c", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done") as (
        pty,
        link,
    ):
        await until(pty, b"ready")
        pty.write(b"\x03")
        assert b"caught" in await rest(pty)
        assert await link.wait() == 7


async def test_a_command_is_notified_of_a_new_size() -> None:
    program = (
        "import os, signal\n"
        "tell = lambda *_: os.write(1, b'%d %d\\n' % os.get_terminal_size(1))\n"
        "signal.signal(signal.SIGWINCH, tell)\n"
        "os.write(1, b'ready')\n"
        "while True: signal.pause()"
    )
    async with running(sys.executable, "-c", program) as (pty, _):
        await until(pty, b"ready")
        pty.resize(132, 50)
        assert b"132 50" in await until(pty, b"50\r\n")
        pty.resize(-1, 10**9)
        assert b"1 9999" in await until(pty, b"9999\r\n")


async def test_all_that_was_written_is_read_before_the_end() -> None:
    async with running("sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x") as (pty, _):
        assert await rest(pty) == b"x" * 300_000


async def test_after_the_end_of_the_output_there_is_nothing_to_resize() -> None:
    async with running("true") as (pty, _):
        await rest(pty)
        pty.resize(80, 24)


async def test_a_command_that_is_not_read_waits(tmp_path: Path) -> None:
    program = """
import os, sys
os.set_blocking(1, False)
written = 0
try:
    while written < 1_000_000:
        written += os.write(1, b"x" * 1000)
except BlockingIOError:
    pass
open(sys.argv[1], "w").write(str(written))
"""
    report = tmp_path / "told"
    async with running(sys.executable, "-c", program, str(report)) as (pty, link):
        assert await link.wait() == 0
        written = int(report.read_text())
        assert 0 < written < 1_000_000
        assert not pty.is_empty
        assert len(await rest(pty)) == written


async def test_what_stays_in_the_background_is_not_hung_up_on(tmp_path: Path) -> None:
    report = tmp_path / "told"
    os.mkfifo(report)
    async with running("sh", "-c", f"(read line <'{report}'; echo heard $line) & exit 0") as (pty, link):
        assert await link.wait() == 0
        descriptor = os.open(report, os.O_RDWR)  # to write only would wait for one that may not be there
        os.write(descriptor, b"me\n")
        assert await rest(pty) == b"heard me\r\n"
        os.close(descriptor)


async def test_after_its_close_nothing_happens() -> None:
    pty = Pty()
    pty.close()
    pty.write(b"x")
    pty.resize(1, 1)
    await pty.drain()
    assert await pty.read() == b""
    assert pty.is_empty
    pty.close()


@needs_proc
async def test_no_other_process_has_it() -> None:
    async with running("sleep", "1000") as (pty, _), running("sh", "-c", "readlink /proc/$$/fd/*") as (other, _):
        others = (await rest(other)).decode()
        assert pty.path not in others
        assert "ptmx" not in others


@needs_proc
async def test_its_own_command_has_the_three_descriptors_and_no_more() -> None:
    program = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1])"
    async with running(sys.executable, "-c", program) as (pty, _):
        assert await rest(pty) == b"[0, 1, 2]\r\n"


@needs_proc
async def test_nothing_is_left_of_it() -> None:
    async with nothing_left():
        async with running("sh", "-c", "echo x; sleep 1000") as (pty, _):
            await until(pty, b"x")
        pty = Pty()
        with pytest.raises(InputError):
            await spawn_in(pty, ["true"], cwd=Path("/no/such/folder"), env=ENV, name="true")
        pty.close()


@needs_proc
async def test_an_unclosed_pty_releases_its_descriptors() -> None:
    async with nothing_left():
        pty = Pty()
        del pty


async def test_an_error_of_the_launcher_is_reported() -> None:
    async with asyncio.timeout(TIMEOUT_S):
        pty = Pty()
        pty.path = "/no/such/terminal"
        link = await spawn_in(pty, ["true"], cwd=None, env=ENV, name="true")
        assert await link.wait() != 0
        assert "/no/such/terminal" in link.stderr.text()
        await link.end()
        pty.close()
