"""A program on our own terminal: its exit code, and its end when we give up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from dragoman.session.login import run_in_foreground

TIMEOUT_S = 20.0
"""Seconds until a test gives up waiting: far more than anything here takes."""


async def run(program: str, **env: str) -> int:
    async with asyncio.timeout(TIMEOUT_S):
        return await run_in_foreground([sys.executable, "-I", "-c", program], env={**os.environ, **env}, cwd=None)


async def test_the_exit_code_or_the_signal_is_reported() -> None:
    assert await run("raise SystemExit(3)") == 3
    assert await run("import os; raise SystemExit(os.environ['CODE'] == 'x')", CODE="x") == 1
    assert await run("import os, signal; os.kill(os.getpid(), signal.SIGTERM)") == -signal.SIGTERM


async def test_it_is_in_our_process_group_so_that_the_terminals_keys_reach_it() -> None:
    assert await run(f"import os; raise SystemExit(os.getpgrp() != {os.getpgrp()})") == 0


async def test_ctrl_c_means_nothing_to_us_meanwhile_and_all_to_the_program() -> None:
    before = signal.getsignal(signal.SIGINT)
    program = (
        "import os, signal\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"  # it is not ignored
        "os.kill(os.getppid(), signal.SIGINT)\n"
    )
    assert await run(program) == 0
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("deaf", [False, True])
async def test_a_caller_that_gives_up_leaves_no_program(deaf: bool, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    ready = asyncio.Event()
    asyncio.get_running_loop().add_reader(reading, ready.set)
    program = (
        f"import os, signal, time\n"
        f"{'signal.signal(signal.SIGTERM, signal.SIG_IGN)' if deaf else ''}\n"
        f"fd = os.open({str(pipe)!r}, os.O_WRONLY); os.write(fd, b'x'); time.sleep(1000)"
    )
    try:
        running = asyncio.create_task(run(program))
        async with asyncio.timeout(TIMEOUT_S):
            await ready.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert os.read(reading, 10) == b"x"
        assert os.read(reading, 10) == b""  # nobody holds the other end any more
    finally:
        asyncio.get_running_loop().remove_reader(reading)
        os.close(reading)


async def test_a_program_that_is_not_there_is_an_error_of_the_system() -> None:
    with pytest.raises(FileNotFoundError):
        await run_in_foreground(["/nowhere/at-all"], env={}, cwd=None)
