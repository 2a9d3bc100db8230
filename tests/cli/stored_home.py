"""A home folder with a journal in it, and a terminal of any width to look at it."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import termios
from collections.abc import Awaitable, Callable

from dragoman.journal import open_journal
from dragoman.journal.sqlite import SqliteJournal
from journal.talk import Talk

from .conftest import TIMEOUT_S, Cli

# An afternoon, so that no time zone moves it to another day.
NOON = 1_794_744_000.0


def edit_journal(cli: Cli, work: Callable[[SqliteJournal], Awaitable[None]]) -> None:
    """Run `work` on the journal in the home folder of the command line."""

    async def run() -> None:
        async with await open_journal(cli.home) as journal:
            await work(journal)

    asyncio.run(run())


async def write_session(
    journal: SqliteJournal,
    name: str,
    prompt: str = "hello",
    *answer: str,
    agent: str = "demo",
    cwd: str = "/home/me/project",
    at: float = NOON,
) -> Talk:
    """Commit a session of one run."""
    talk = await Talk.begin(journal, name, agent=agent, cwd=cwd, time=at)
    talk.turn(prompt, *(answer or ("hi there",)))
    await talk.commit()
    return talk


def shown(cli: Cli, width: int, *arguments: str, typed: bytes = b"") -> str:
    """Run a command on a terminal of this width, and return all that it writes there."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, width))
    process = cli.start(*arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    output = b""
    try:
        if typed:
            os.write(master, typed)
        while True:
            ready, _, _ = select.select([master], [], [], TIMEOUT_S)
            assert ready, f"it does not end; heard {output!r}"
            try:
                data = os.read(master, 4096)
            except OSError:  # Linux reports so that no process has the terminal any more
                data = b""
            if not data:
                break
            output += data
    finally:
        os.close(master)
    process.wait(TIMEOUT_S)
    return output.decode().replace("\r\n", "\n")
