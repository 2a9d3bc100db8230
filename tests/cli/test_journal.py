"""`dragoman journal`: verify, rebuild, compress, export and import."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.progress import PATIENCE_S, PAUSE_S, Progress
from dragoman.journal.sqlite import SqliteJournal

from .conftest import Cli, without_looks
from .stored_home import NOON, edit_journal, write_session

COMMANDS = ((), ("path",), ("verify",), ("rebuild",), ("export",), ("import",), ("vacuum",), ("compress",))


@pytest.fixture
def stored(cli: Cli) -> Cli:
    async def work(journal: SqliteJournal) -> None:
        for number, name in enumerate(("s1", "s2", "s3")):
            await write_session(
                journal, name, f"prompt of {name}", f"answer of {name}", "!" * 3000, at=NOON + 100 * number
            )

    edit_journal(cli, work)
    return cli


def ids(cli: Cli) -> set[str]:
    return {session["id"] for session in json.loads(cli("sessions", "list", "--json").out)}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_teaches_by_example(cli: Cli, command: tuple[str, ...]) -> None:
    done = cli("journal", *command, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Examples:\n    dragoman journal " in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_the_path_is_printed_also_before_there_is_a_journal(cli: Cli) -> None:
    assert cli("journal", "path").out == f"{cli.home / 'journal.db'}\n"
    assert not (cli.home / "journal.db").exists()


@pytest.mark.parametrize("command", ["verify", "rebuild", "export", "vacuum", "compress"])
def test_a_missing_journal_is_not_created(cli: Cli, command: str) -> None:
    done = cli("journal", command)
    assert (done.code, done.out) == (2, "")
    assert f"there is no journal yet: {cli.home / 'journal.db'}" in done.err
    assert not (cli.home / "journal.db").exists()


def test_rows_that_do_not_follow_from_the_frames_are_found_and_rebuilt(stored: Cli) -> None:
    done = stored("journal", "verify")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("The journal is consistent: 3 sessions, ")
    with sqlite3.connect(stored.home / "journal.db") as connection:
        connection.execute("UPDATE messages SET text = 'forged' WHERE text LIKE '%answer of s2%'")
    connection.close()
    done = stored("journal", "verify")
    assert done.code == 1
    assert done.out == "session s2: the rows in messages differ from its frames\n"
    assert "dragoman journal rebuild" in done.err
    assert stored("journal", "rebuild", "s2").out == "Rebuilt the rows of 1 session.\n"
    assert stored("journal", "verify").code == 0
    assert stored("journal", "rebuild").out == "Rebuilt the rows of 3 sessions.\n"
    assert stored("journal", "verify").code == 0


def test_sessions_that_were_compressed_read_as_before(stored: Cli) -> None:
    before = stored("journal", "export").raw_out
    assert stored("journal", "compress", "s1").out == "Compressed 1 session.\n"
    done = stored("journal", "compress")
    assert done.out == "Compressed 3 sessions.\n"
    assert "dragoman journal vacuum" in done.err
    assert stored("journal", "vacuum").out.startswith("The journal takes ")
    assert stored("journal", "export").raw_out == before
    assert stored("journal", "verify").code == 0


def test_a_journal_can_be_moved_to_another_home(stored: Cli, tmp_path: Path) -> None:
    done = stored("journal", "export", "-o", "all.jsonl")
    assert (done.code, done.out) == (0, "")
    home = {"DRAGOMAN_HOME": str(tmp_path / "new" / "home")}
    done = stored("journal", "import", "--trust", "all.jsonl", env=home)
    assert done.code == 0
    assert done.out.startswith("Imported 3 sessions, ")
    for command in (("sessions", "list", "--json"), ("sessions", "show", "s2"), ("sessions", "show", "s2", "--json")):
        assert stored(*command, env=home).out == stored(*command).out
    done = stored("journal", "import", "--trust", "all.jsonl", env=home)
    assert done.out == "Nothing new was imported.\n"
    assert done.err.count("Skipped s") == 3


def test_a_deleted_session_is_not_imported_again(stored: Cli) -> None:
    exported = stored("journal", "export").raw_out
    assert stored("sessions", "delete", "--yes", "s2").code == 0
    done = stored("journal", "import", "-", stdin=exported)
    assert done.out == "Nothing new was imported.\n"
    assert ids(stored) == {"s1", "s3"}


def test_a_recording_is_imported_under_its_agents_name(cli: Cli) -> None:
    recording = cli.workspace / "talk.jsonl"
    frames: list[tuple[str, dict[str, Any]]] = [
        ("out", {"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}),
        ("in", {"id": 1, "result": {"sessionId": "a"}}),
        ("out", {"id": 2, "method": "session/prompt", "params": {"sessionId": "a", "prompt": [_text("hello")]}}),
        ("in", {"method": "session/update", "params": {"sessionId": "a", "update": _chunk("hi there")}}),
        ("in", {"id": 2, "result": {"stopReason": "end_turn"}}),
    ]
    recording.write_text(
        "".join(
            json.dumps({"dir": way, "ts": float(n), "frame": {"jsonrpc": "2.0", **frame}}) + "\n"
            for n, (way, frame) in enumerate(frames)
        )
    )
    done = cli("journal", "import", "--agent", "claude", "talk.jsonl")
    assert (done.code, done.err) == (0, "")
    [session] = json.loads(cli("sessions", "list", "--json").out)
    assert (session["agent"], session["prompt"], session["agent_session_id"]) == ("claude", "hello", "a")
    assert "hi there" in cli("sessions", "show").out


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _chunk(text: str) -> dict[str, object]:
    return {"sessionUpdate": "agent_message_chunk", "content": _text(text)}


def test_files_that_cannot_be_imported_are_named_before_anything_is_imported(cli: Cli) -> None:
    (cli.workspace / "bad.jsonl").write_text('{"dir":"journal","format":1}\nnonsense\n')
    done = cli("journal", "import", "bad.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "bad.jsonl: line 2 cannot be imported" in done.err
    (cli.home / "journal.db").unlink()
    done = cli("journal", "import", "bad.jsonl", "absent.jsonl")
    assert (done.code, "absent.jsonl cannot be read" in done.err) == (2, True)
    assert not (cli.home / "journal.db").exists()


@pytest.mark.parametrize("command", [("sessions", "list"), ("sessions", "show"), ("usage",), ("journal", "verify")])
def test_a_file_that_is_no_journal_is_a_clear_error_and_stays_as_it_is(cli: Cli, command: tuple[str, ...]) -> None:
    file = cli.home / "journal.db"
    file.write_bytes(b"something else altogether " * 100)
    done = cli(*command)
    assert (done.code, done.out) == (1, "")
    assert str(file) in done.err
    assert "Traceback" not in done.err
    assert file.read_bytes() == b"something else altogether " * 100


def test_a_journal_of_a_newer_dragoman_is_left_alone(stored: Cli) -> None:
    with sqlite3.connect(stored.home / "journal.db") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    done = stored("sessions", "list")
    assert (done.code, done.out) == (1, "")
    assert "newer version of Dragoman" in done.err


def test_rows_of_an_older_dragoman_are_rebuilt_automatically(stored: Cli) -> None:
    before = stored("sessions", "list").out
    with sqlite3.connect(stored.home / "journal.db") as connection:
        connection.execute("UPDATE session_keys SET rows_version = 'old', folded_count = 0")
    connection.close()
    assert stored("sessions", "list").out == before
    assert stored("journal", "verify").code == 0


# -- how far it has come


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_long_work_shows_its_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("os.isatty", lambda fd: True)
    monkeypatch.setenv("TERM", "xterm")
    clock = Clock()
    with Progress("rebuilding", 4, unit="sessions", clock=clock) as shown:
        steps = shown.each("abcd")
        assert next(steps) == "a"
        assert capsys.readouterr().err == ""  # nothing is shown for quick work
        clock.now += PATIENCE_S
        assert next(steps) == "b"
        assert (
            without_looks(capsys.readouterr().err).removeprefix("\x1b[?25l").startswith("rebuilding: 1 of 4 sessions ")
        )
        clock.now += PAUSE_S / 2
        assert next(steps) == "c"
        assert capsys.readouterr().err == ""
        clock.now += PAUSE_S
        assert next(steps) == "d"
        assert without_looks(capsys.readouterr().err).strip().endswith(" 75%")
    assert capsys.readouterr().err.endswith("\r\x1b[1A\x1b[2K")  # the bar is erased


def test_in_a_log_no_progress_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("os.isatty", lambda fd: False)
    clock = Clock()
    with Progress("rebuilding", 2, clock=clock) as shown:
        for _ in shown.each([1, 2]):
            clock.now += 10
    assert capsys.readouterr().err == ""
