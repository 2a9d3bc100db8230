"""`dragoman import`: find transcripts of other programs, ask, import them and report."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dragoman.cli.import_ import import_
from dragoman.translate.ingest.importer import NOT_A_TRANSCRIPT
from dragoman.translate.translator import PROVIDERS
from translate import codex_talk
from translate.claude_talk import SESSION, Transcript

from .conftest import TIMEOUT_S, Cli, On, read_until, without_looks


def write(cli: Cli, name: str = f"{SESSION}.jsonl", prompt: str = "What is this?", more: bytes = b"") -> Path:
    """Write a transcript of Claude Code to its usual folder."""
    transcript = Transcript(sessionId=name.partition(".")[0])
    transcript.user(prompt)
    transcript.call("Bash", {"command": "ls"})
    transcript.result("a")
    transcript.text("A test.", id="msg_2")
    path = Path(cli.env["HOME"], ".claude", "projects", "-home-ada-proj", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(transcript.lines) + b"\n" + more)
    os.utime(path, (1.7e9, 1.7e9))
    return path


def write_codex(cli: Cli) -> Path:
    transcript = codex_talk.Transcript()
    transcript.run("Do it")
    path = Path(cli.env["HOME"], ".codex", "sessions", "2026", "04", "11", codex_talk.NAME)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(transcript.lines) + b"\n")
    os.utime(path, (1.7e9, 1.7e9))
    return path


@pytest.fixture
def owner(cli: Cli, tmp_path: Path) -> Cli:
    """A command line whose user has a home folder of their own."""
    cli.env["HOME"] = str(tmp_path / "user")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        cli.env.pop(name, None)
    return cli


def test_the_help_teaches_by_example(cli: Cli) -> None:
    done = cli("import", "--help")
    assert (done.code, done.err) == (0, "")
    assert "Examples:\n    dragoman import " in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_every_provider_can_be_chosen() -> None:
    (option,) = [option for option in import_.params if option.name == "provider"]
    assert tuple(getattr(option.type, "choices", ())) == PROVIDERS


def test_nothing_is_read_without_a_terminal_to_ask_for_consent(owner: Cli) -> None:
    path = write(owner)
    write_codex(owner)
    path.chmod(0)
    done = owner("import")
    assert (done.code, done.out) == (2, "")
    size = path.stat().st_size / 1000
    assert f"claude: 1 file, {size:.1f} kB in ~/.claude/projects/-home-ada-proj" in done.err
    assert "codex: 1 file" in done.err
    assert "--yes" in done.err
    assert not (owner.home / "journal.db").exists()


def test_missing_transcripts_are_reported(owner: Cli) -> None:
    done = owner("import", "--yes")
    assert (done.code, done.out) == (0, "")
    message = done.err.replace("\n", " ")
    assert "No claude or codex transcripts found in ~/.claude/projects, ~/.codex/sessions, " in message


def test_on_a_terminal_it_asks_and_no_means_no(owner: Cli, on_terminal: On) -> None:
    write(owner)
    terminal = on_terminal("import")
    assert b"claude: 1 file" in terminal.until(b"[y/N]: ")
    terminal.type(b"n\n")
    assert "Nothing was read." in terminal.rest()
    assert terminal.code() == 1
    assert not (owner.home / "journal.db").exists()


def test_on_a_terminal_it_asks_and_yes_imports(owner: Cli, on_terminal: On) -> None:
    write(owner)
    terminal = on_terminal("import")
    terminal.until(b"[y/N]: ")
    terminal.type(b"y\n")
    shown = without_looks(terminal.rest())
    assert "1 of 1 files" in shown
    assert "Imported 1 session.\n  2 messages, 1 tool call, 1 run\n" in shown
    assert terminal.code() == 0


def test_the_bar_leaves_room_for_the_terminals_own_ctrl_c_mark(owner: Cli, on_terminal: On) -> None:
    for number in range(100):
        write(owner, f"{number:08}-2222-3333-4444-555555555555.jsonl")
    shown = without_looks(on_terminal("import", "--yes").rest())
    bars = [line[line.index("━") :] for line in shown.replace("\r", "\n").split("\n") if "━" in line]
    assert any("100 of 100 files" in bar for bar in bars)
    assert max(map(len, bars)) <= 80 - len("^C")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_an_unreadable_folder_is_not_counted_as_a_file(owner: Cli) -> None:
    closed = write(owner).parent
    write_codex(owner)
    closed.chmod(0)
    try:
        done = owner("import", "--yes")
    finally:
        closed.chmod(0o700)
    assert "claude: 0 files, 0 bytes in ~/.claude/projects; 1 folder there cannot be looked into\n" in done.err
    assert "Skipped 1 folder: cannot be read: Permission denied.\n  ~/.claude/projects/-home-ada-proj\n" in done.out


def test_imported_sessions_are_reported_and_are_sessions_like_any_other(owner: Cli) -> None:
    write(owner, more=b'{"type":"weather"}\n{"type":"half')
    write_codex(owner)
    done = owner("import", "--yes")
    assert done.code == 0
    assert done.out.splitlines() == [
        "Imported 2 sessions.",
        "  4 messages, 1 tool call, 2 runs",
        "  20 tokens in, 200 from caches, 10 out",
        "Kept, but of an unknown kind:",
        "  1 x claude: weather",
        "The last line of 1 file is incomplete and was left for the next import.",
    ]
    listed = {session["agent"]: session for session in json.loads(owner("sessions", "list", "--json").out)}
    assert (listed["claude"]["agent_session_id"], listed["claude"]["prompt"]) == (SESSION, "What is this?")
    assert listed["codex"]["prompt"] == "Do it"
    assert "A test." in owner("sessions", "show", listed["claude"]["id"]).out
    assert listed["claude"]["id"] in owner("sessions", "search", "test", "--json").out
    assert owner("journal", "verify").code == 0


def test_a_second_import_takes_only_new_entries(owner: Cli) -> None:
    write(owner)
    owner("import", "--yes")
    assert owner("import", "--yes").out == "Nothing new.\n"
    write(owner, "22222222-2222-3333-4444-555555555555.jsonl")
    write(owner, more=b'{"type":"ai-title","aiTitle":"Named"}\n')
    out = owner("import", "--yes").out
    assert out.startswith("Imported 1 session, updated 1.\n")
    assert "Named" in owner("sessions", "list").out


def test_a_session_that_only_grew_is_reported_as_updated(owner: Cli) -> None:
    write(owner)
    owner("import", "--yes")
    write(owner, more=b'{"type":"ai-title","aiTitle":"Named"}\n')
    done = owner("import", "--yes")
    assert done.out == "Updated 1 session.\n"
    assert "of 1 files" not in done.err


def test_a_session_in_which_an_agent_is_at_work_reads_as_running(owner: Cli) -> None:
    for prompt, minutes in (("Just now", 1), ("Long ago", 70)):
        at = datetime.now(UTC) - timedelta(minutes=minutes)
        transcript = Transcript(sessionId=prompt, timestamp=at.isoformat())
        transcript.user(prompt)
        transcript.call("Bash", {"command": "make"})
        path = write(owner, f"{prompt}.jsonl")
        path.write_bytes(b"\n".join(transcript.lines) + b"\n")
    owner("import", "--yes")
    states = {session["prompt"]: session["state"] for session in json.loads(owner("sessions", "list", "--json").out)}
    assert states == {"Just now": "running", "Long ago": "idle"}


def test_one_provider_alone_can_be_chosen(owner: Cli) -> None:
    write(owner)
    write_codex(owner)
    done = owner("import", "--yes", "--provider", "codex")
    assert "claude" not in done.err
    assert done.out.startswith("Imported 1 session.")


def test_a_named_path_is_read_without_asking(owner: Cli) -> None:
    path = write(owner)
    odd = owner.workspace / "odd.jsonl"
    odd.write_text('{"a": 1}\n')
    done = owner("import", str(path), str(odd), "--json")
    assert done.code == 2  # a file that was named was left out
    summary = json.loads(done.out)
    assert (summary["files"], summary["new"], summary["amounts"]["messages"]) == (2, 1, 2)
    assert summary["skipped"] == {NOT_A_TRANSCRIPT: [str(odd)]}


def test_a_folder_may_hold_other_files_than_transcripts(owner: Cli) -> None:
    write(owner).with_name("odd.jsonl").write_text('{"a": 1}\n')
    done = owner("import", str(write(owner).parent))
    assert done.code == 0
    assert "Skipped 1 file: not a transcript of a known agent (supported: claude, codex;" in done.out


def test_a_named_file_that_was_imported_before_is_not_left_out(owner: Cli) -> None:
    path = write(owner)
    assert [owner("import", str(path)).code for _ in range(2)] == [0, 0]


def test_a_missing_path_is_refused_before_anything_is_read(owner: Cli) -> None:
    done = owner("import", str(write(owner)), "nowhere.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "there is no file nowhere.jsonl" in done.err
    assert not (owner.home / "journal.db").exists()


def test_a_pipe_among_the_files_is_not_waited_for(owner: Cli) -> None:
    path = write(owner)
    os.mkfifo(path.with_name("pipe.jsonl"))
    assert owner("import", "--yes").out.startswith("Imported 1 session.")


def test_a_deleted_session_does_not_come_back(owner: Cli) -> None:
    path = write(owner)
    owner("import", "--yes")
    (session,) = json.loads(owner("sessions", "list", "--json").out)
    owner("sessions", "delete", "--yes", session["id"])
    done = owner("import", "--yes")
    assert "Skipped 1 file: the session was deleted here.\n" in done.out
    assert path.name in done.out
    assert json.loads(owner("sessions", "list", "--json").out) == []


def test_an_interrupted_import_continues_the_next_time(owner: Cli) -> None:
    names = [f"{number:08}-2222-3333-4444-555555555555.jsonl" for number in range(200)]
    for name in names:
        write(owner, name)
    process = owner.start("import", "--yes")
    assert process.stderr is not None
    read_until(process.stderr.fileno(), b" of 200 files")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert b"Stopped." in err
    some = len(json.loads(owner("sessions", "list", "--json", "-n", "0").out))
    assert 0 < some < 200
    owner("import", "--yes")
    assert len(json.loads(owner("sessions", "list", "--json", "-n", "0").out)) == 200
    assert owner("journal", "verify").code == 0


def test_a_sub_agent_is_listed_on_request_and_deleted_with_its_session(owner: Cli) -> None:
    side = Transcript(isSidechain=True, agentId="a1")
    side.user("Look!")
    side.text("Nothing there.")
    path = write(owner).with_name("agent-a1.jsonl")
    path.write_bytes(b"\n".join(side.lines) + b"\n")
    assert owner("import", "--yes").code == 0
    done = owner("sessions", "list", "--json")
    (session,) = json.loads(done.out)
    done = owner("sessions", "list")
    assert "1 sub-agent is not shown: --sub-agents lists them too." in done.err
    both = json.loads(owner("sessions", "list", "--sub-agents", "--json").out)
    assert {row["parent"] for row in both} == {None, session["id"]}
    assert owner("sessions", "delete", "--yes", session["id"]).out == "Deleted 2 sessions.\n"


def test_a_file_with_a_newline_in_its_name_is_reported_on_one_line(owner: Cli) -> None:
    path = write(owner)
    odd = path.rename(path.with_name("odd\nname.jsonl"))
    odd.write_text("no transcript\n")
    done = owner("import", "--yes")
    assert "odd\\nname.jsonl" in done.out
