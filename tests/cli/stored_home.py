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


def keep(cli: Cli, work: Callable[[SqliteJournal], Awaitable[None]]) -> None:
    """Run a coroutine function on the journal of the command line's home."""

    async def run() -> None:
        async with await open_journal(cli.home) as journal:
            await work(journal)

    asyncio.run(run())


async def talked(
    journal: SqliteJournal,
    name: str,
    prompt: str = "hello",
    *answer: str,
    agent: str = "demo",
    cwd: str = "/home/me/project",
    at: float = NOON,
) -> Talk:
    """A session of one run, committed."""
    talk = await Talk.begin(journal, name, agent=agent, cwd=cwd, time=at)
    talk.turn(prompt, *(answer or ("hi there",)))
    await talk.commit()
    return talk


def shown(cli: Cli, width: int, *arguments: str, typed: bytes = b"") -> str:
    """All that a terminal of this width gets; it ends with the command."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, width))
    process = cli.start(*arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    heard = b""
    try:
        if typed:
            os.write(master, typed)
        while True:
            ready, _, _ = select.select([master], [], [], TIMEOUT_S)
            assert ready, f"it does not end; heard {heard!r}"
            try:
                data = os.read(master, 4096)
            except OSError:  # how Linux says that nobody has the terminal any more
                data = b""
            if not data:
                break
            heard += data
    finally:
        os.close(master)
    process.wait(TIMEOUT_S)
    return heard.decode().replace("\r\n", "\n")
