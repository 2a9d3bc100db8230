"""`dragoman open`: the address of the page, with a server that runs and without one."""

from __future__ import annotations

import re

from dragoman.journal.sqlite import SqliteJournal

from .conftest import Cli, On
from .stored_home import edit_journal, write_session


def test_the_address_of_the_page_or_of_a_session_is_opened(cli: Cli, on_terminal: On) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "feed01abcdef")

    edit_journal(cli, work)
    terminal = on_terminal("serve", "--port", "0", "--no-open")
    started = terminal.until(b"Ctrl-C to stop.\r\n").decode()
    [url] = re.findall(r"running at (\S+)", started)
    opened = cli.workspace.parent / "opened"
    browser = cli.workspace.parent / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    done = cli("open", "feed01", env={"BROWSER": f"{browser} %s"})
    assert (done.code, done.out) == (0, f"{url}/s/feed01abcdef\n")
    assert opened.read_text() == f"{url}/s/feed01abcdef\n"  # and no code that would let others in
    assert cli("open", "--print").out == f"{url}/\n"
    assert cli("open", "nothing").code == 2


def test_without_a_server_the_command_that_starts_one_is_named(cli: Cli) -> None:
    done = cli("open")
    assert (done.code, done.out) == (2, "")
    assert "Start one: dragoman serve" in done.err
