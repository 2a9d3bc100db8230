"""`dragoman watch`: ask before watching, show every new line, and end at Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
import pytest

from dragoman.cli.watch import ErrorReports, watch
from dragoman.translate.translator import PROVIDERS
from translate.claude_talk import SESSION, Transcript
from translate.watched import append, lines, transcript_in

from .conftest import TIMEOUT_S, Cli, On, read_until, without_looks


@pytest.fixture
def owner(cli: Cli, tmp_path: Path) -> Cli:
    """A command line whose user has a home folder of their own."""
    cli.env["HOME"] = str(tmp_path / "user")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        cli.env.pop(name, None)
    return cli


def path_of(cli: Cli, session: str = SESSION) -> Path:
    return transcript_in(Path(cli.env["HOME"]), session)


def said_now(prompt: str = "What is this?", session: str = SESSION) -> list[bytes]:
    """Return the lines of a session that is going on now."""
    transcript = Transcript(sessionId=session, timestamp=datetime.now(UTC).isoformat())
    transcript.user(prompt)
    transcript.call("Bash", {"command": "make"})
    transcript.result("no rule", None, error=True)
    transcript.text("A test.\n\nWith more.", id="msg_2")
    return transcript.lines


def stopped(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    return out.decode(), err.decode()


def test_the_help_teaches_by_example(cli: Cli) -> None:
    done = cli("watch", "--help")
    assert (done.code, done.err) == (0, "")
    assert "Examples:\n    dragoman watch " in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_every_provider_can_be_chosen() -> None:
    (option,) = [option for option in watch.params if option.name == "provider"]
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == PROVIDERS


def test_entries_are_shown_while_they_are_written(owner: Cli) -> None:
    path = path_of(owner)
    process = owner.start("watch", "--yes", "--provider", "claude")
    assert process.stdout is not None
    assert process.stderr is not None
    output = read_until(process.stderr.fileno(), b"Press Ctrl-C to stop.\n").decode()
    assert output.startswith("Watching claude: ~/.claude/projects\n")
    some = said_now()
    append(path, lines(some[:1]))
    shown = read_until(process.stdout.fileno(), b"> What is this?\n").decode()
    assert shown.splitlines()[0].endswith(" claude /home/ada/proj: What is this?")
    append(path, lines(some[1:]))
    shown = read_until(process.stdout.fileno(), b" tokens out\n").decode()
    assert [line.split(" ", 3)[-1] for line in shown.splitlines()] == [
        "· make",
        "✗ make",
        "A test. With more.",
        "✓ done, 10 tokens out",
    ]
    out, err = stopped(process)
    assert out == ""
    assert "Stopped." in err
    assert "A test." in owner("sessions", "show").out
    assert owner("journal", "verify").code == 0


def test_earlier_entries_are_counted_and_not_shown(owner: Cli) -> None:
    transcript = Transcript()
    transcript.user("Long ago")
    transcript.text("Yes.")
    path_of(owner).write_bytes(lines(transcript.lines))
    process = owner.start("watch", "--yes")
    assert process.stderr is not None
    read_until(process.stderr.fileno(), b"1 session imported from before.\n")
    out, _ = stopped(process)
    assert out == ""
    assert "Long ago" in owner("sessions", "list").out


def test_json_lines_hold_the_whole_frame(owner: Cli) -> None:
    path = path_of(owner)
    path.write_bytes(lines(said_now()))
    process = owner.start("watch", str(path), "--json")
    assert process.stdout is not None
    output = read_until(process.stdout.fileno(), b'"stopReason":"end_turn"')
    out, _ = stopped(process)
    entries = [json.loads(line) for line in (output.decode() + out).splitlines()]
    assert {entry["type"] for entry in entries} == {"entry"}
    assert [entry["kind"] for entry in entries][:3] == ["session/new", "session/new", "session/prompt"]
    assert entries[2]["frame"]["params"]["prompt"] == [{"type": "text", "text": "What is this?"}]


def test_an_unreadable_folder_is_reported_once(owner: Cli) -> None:
    folder = path_of(owner).parent.parent
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("")
    process = owner.start("watch", "--yes")
    assert process.stdout is not None
    assert process.stderr is not None
    output = read_until(process.stderr.fileno(), b": Not a directory\n").decode()
    assert output.splitlines()[-1] == f"claude: {folder} cannot be read: Not a directory"
    folder.unlink()
    folder.with_name("elsewhere").rename(folder)
    append(path_of(owner), lines(said_now()))
    read_until(process.stdout.fileno(), b" tokens out\n")
    _, err = stopped(process)
    assert "cannot be read" not in err


def test_an_error_that_persists_is_reported_once_until_it_is_gone() -> None:
    problems = ErrorReports()
    looks = ["passes", "stays", "stays", "stays", None, "stays", "stays", "passes", "stays"]
    texts = [problems.news(problem) for problem in looks]
    assert texts == [None, None, "stays", None, None, None, "stays", None, None]


def test_without_a_terminal_it_says_how_to_agree_and_reads_nothing(owner: Cli) -> None:
    path_of(owner).write_bytes(lines(said_now()))
    done = owner("watch")
    assert (done.code, done.out) == (2, "")
    assert "there is no terminal to ask" in done.err
    assert "--yes" in done.err
    assert '[watch] claude = "on"' in done.err
    assert not (owner.home / "journal.db").exists()
    assert not (owner.home / "watch.json").exists()


def test_ctrl_c_at_the_question_ends_it(owner: Cli, on_terminal: On) -> None:
    path_of(owner).write_bytes(lines(said_now()))
    terminal = on_terminal("watch")
    terminal.until(b"[y/N]: ")
    terminal.process.send_signal(signal.SIGINT)
    terminal.rest()
    assert terminal.code() == 130
    assert not (owner.home / "watch.json").exists()


def test_on_a_terminal_it_asks_and_does_not_ask_again(owner: Cli, on_terminal: On) -> None:
    path_of(owner).write_bytes(lines(said_now()))
    terminal = on_terminal("watch")
    question = without_looks(terminal.until(b"[y/N]: ").decode())
    assert "Everything that claude writes to ~/.claude/projects" in question
    assert question.endswith("Watch claude? [y/N]: ")
    terminal.type(b"y\n")
    assert b"codex" in terminal.until(b"[y/N]: ")
    terminal.type(b"n\n")
    terminal.until(b"A test.")
    terminal.process.send_signal(signal.SIGINT)
    assert "Stopped." in without_looks(terminal.rest())
    assert terminal.code() == 0
    assert msgspec.json.decode((owner.home / "watch.json").read_bytes()) == {"agreed": ["claude"]}
    process = owner.start("watch")
    assert process.stderr is not None
    output = read_until(process.stderr.fileno(), b"Press Ctrl-C to stop.\n").decode()
    assert "Not watching codex" in output
    assert "Watching claude" in output
    stopped(process)


def test_without_consent_nothing_is_watched(owner: Cli, on_terminal: On) -> None:
    path_of(owner).write_bytes(lines(said_now()))
    terminal = on_terminal("watch", "--provider", "claude")
    terminal.until(b"[y/N]: ")
    terminal.type(b"n\n")
    assert "Nothing to watch." in without_looks(terminal.rest())
    assert terminal.code() == 1
    assert not (owner.home / "journal.db").exists()


def test_an_agent_turned_off_in_the_settings_is_not_watched(owner: Cli) -> None:
    owner.configure('[watch]\nclaude = "off"\ncodex = "off"\n')
    path_of(owner).write_bytes(lines(said_now()))
    done = owner("watch", "--yes")
    assert done.code == 1
    assert "claude: turned off in config.toml." in done.err
    assert not (owner.home / "journal.db").exists()


def test_it_ends_when_the_reader_of_its_output_is_gone(owner: Cli) -> None:
    process = owner.start("watch", "--yes", "--provider", "claude")
    assert process.stdout is not None
    assert process.stderr is not None
    read_until(process.stderr.fileno(), b"Press Ctrl-C to stop.\n")
    process.stdout.close()
    assert process.wait(TIMEOUT_S) in (0, 141)


def test_a_missing_path_is_refused(owner: Cli) -> None:
    done = owner("watch", "nowhere.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "there is no file nowhere.jsonl" in done.err
