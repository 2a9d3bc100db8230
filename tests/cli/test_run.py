"""`dragoman run` from outside: its stdout, stderr and exit codes."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from .conftest import Cli


def test_the_agents_text_goes_to_stdout_and_everything_else_to_stderr(cli: Cli) -> None:
    done = cli("run", "--access", "edit-inside", "edit", "notes.md")
    assert (done.code, done.out) == (0, "I created notes.md.\n")
    assert "● Create notes.md\n✓ Create notes.md  +3\n" in done.err
    assert "done in" in done.err
    assert (cli.workspace / "notes.md").exists()


def test_stdout_is_the_results_text_and_a_newline(cli: Cli) -> None:
    events = cli("run", "--json", "plan").events()
    assert cli("run", "plan").out == events[-1]["text"] + "\n"


def test_in_a_pipe_there_are_no_escape_codes(cli: Cli) -> None:
    done = cli("run", "--thoughts", "think")
    assert "\x1b" not in done.out + done.err
    assert "would like to see me think" in done.err
    assert "would like to see me think" not in done.out


def test_quiet_is_the_text_alone(cli: Cli) -> None:
    done = cli("run", "-q", "tools")
    assert done.out.startswith("One tool call of each kind.")
    assert done.err == ""


def test_verbose_shows_the_agents_other_output(cli: Cli) -> None:
    assert "stderr: demo agent: line 2 of 3 on stderr" in cli("run", "-v", "stderr 3").err
    assert "noise: " in cli("run", "-v", "noise").err


def test_json_is_one_event_a_line_and_the_last_is_the_end(cli: Cli) -> None:
    done = cli("run", "--json", "--access", "full", "tour")
    events = done.events()
    kinds = [event["type"] for event in events]
    assert done.code == 0
    assert kinds[-1] == "run.completed"
    wanted = {"run.started", "assistant.delta", "tool.call", "tool.result", "plan.updated", "permission.resolved"}
    assert wanted <= set(kinds)
    assert done.err == ""


def test_json_of_a_flood_loses_nothing(cli: Cli) -> None:
    events = cli("run", "--json", "flood 20000").events()
    texts = [event["text"] for event in events if event["type"] == "assistant.delta"]
    assert [text for text in texts if text.startswith("drop ")] == [f"drop {number}\n" for number in range(1, 20001)]


# -- the prompt


def test_without_words_stdin_is_the_prompt(cli: Cli) -> None:
    assert "You said “say this back”" in cli("run", stdin=b"say this back\n").out
    assert "You said “say this back”" in cli("run", "-", stdin=b"say this back\n").out


def test_beside_words_stdin_is_an_attachment(cli: Cli) -> None:
    done = cli("run", "look", "at", "this", stdin=b"some notes")
    assert "You attached the file attachment:stdin (10 characters)." in done.out
    assert "You said “look at this”" in done.out


def test_empty_stdin_is_no_attachment(cli: Cli) -> None:
    assert "attached" not in cli("run", "hello", stdin=b"").out


def test_files_and_images_go_with_the_prompt(cli: Cli) -> None:
    (cli.workspace / "a.txt").write_text("text")
    (cli.workspace / "b.png").write_bytes(b"not really a picture")
    done = cli("run", "--file", "a.txt", "--image", "b.png", "look")
    assert "a.txt (4 characters)" in done.out
    assert "an image (image/png, " in done.out


# -- exit codes


def test_1_an_agent_that_fails(cli: Cli) -> None:
    for prompt, message in (
        ("error", "the demo agent was asked to fail"),
        ("refuse", "the agent refused to go on"),
        ("max tokens", "token limit"),
        ("silent", "without any output"),
        ("crash", "exit code 3"),
    ):
        done = cli("run", prompt)
        assert done.code == 1, prompt
        assert f"dragoman: {message}" in done.err or message in done.err
        assert "Traceback" not in done.err


def test_a_failed_run_keeps_the_text_that_came_before(cli: Cli) -> None:
    done = cli("run", "crash")
    assert done.out == "My process ends in the middle of this\n"
    assert "crashing as asked" in done.err
    assert done.err.count("crashing as asked") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-a", "claud", "x"], 'did you mean "claude"?'),
        (["--access", "everything", "x"], "--access"),
        (["--deadline", "soon", "x"], "--deadline"),
        (["--cwd", "missing", "x"], "missing does not exist"),
        (["--env", "KEY", "x"], "--env must be NAME=VALUE"),
        (["--option", "=x", "x"], "--option must be ID=VALUE"),
        (["--agent-command", "'open", "x"], "--agent-command"),
        (["-a", "demo", "--agent-command", "demo", "x"], "cannot be combined"),
        (["--file", "missing.txt", "x"], "missing.txt"),
        (["--resume", "missing.json", "x"], "--resume: missing.json: there are no sessions"),
        (["--save", "no/such/folder", "x"], "no/such does not exist"),
        (["--no-such-option"], "--no-such-option"),
        ([], "the prompt is empty"),
    ],
)
def test_2_bad_input_names_what_is_wrong(cli: Cli, arguments: list[str], message: str) -> None:
    done = cli("run", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.out == ""


def test_2_input_that_only_the_agent_can_check(cli: Cli) -> None:
    for option, value, named in (
        ("--model", "gpt-0", "gpt-0"),
        ("--mode", "wild", "wild"),
        ("--option", "colour=red", "colour"),
    ):
        done = cli("run", option, value, "hello")
        assert done.code == 2, option
        assert named in done.err


def test_2_stdin_that_cannot_be_sent(cli: Cli) -> None:
    assert "not UTF-8" in (done := cli("run", "look", stdin=b"\xff\xfe\x00")).err
    assert done.code == 2
    assert "longer than 8.0 MB" in (done := cli("run", "look", stdin=b"x" * 8_000_001)).err
    assert done.code == 2


def test_errors_before_a_session_are_an_event_and_a_message(cli: Cli) -> None:
    for arguments, kind, code in (
        (["-a", "claud"], "InputError", 2),
        (["--agent-command", "nope"], "CommandNotFound", 3),
    ):
        done = cli("run", "--json", *arguments, "x")
        assert done.code == code
        (event,) = done.events()
        assert (event["type"], event["kind"], event["run_id"]) == ("error", kind, None)
        assert done.err.startswith(f"dragoman: {event['message']}")


def test_3_an_agent_that_cannot_be_started(cli: Cli) -> None:
    done = cli("run", "--agent-command", "no-such-program --acp", "x")
    assert (done.code, done.out) == (3, "")
    assert "no-such-program" in done.err
    script = cli.workspace / "agent.sh"
    script.write_text("echo its last words >&2; exit 7")
    done = cli("run", "--agent-command", f"sh {script}", "x")
    assert done.code == 3
    assert done.err.count("its last words") == 1


def test_3_an_agent_of_another_protocol(cli: Cli, tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import json, sys\n"
        "request = json.loads(sys.stdin.readline())\n"
        "print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': {'protocolVersion': 99}}), flush=True)\n"
        "sys.stdin.read()\n"
    )
    done = cli("run", "--agent-command", f"{sys.executable} {agent}", "x")
    assert done.code == 3
    assert "99" in done.err


def test_4_an_agent_that_needs_a_login_has_its_methods_listed(cli: Cli) -> None:
    done = cli("run", "login")
    assert done.code == 4
    assert "  Log in: dragoman login demo. It offers: Demo login (Needs no password" in done.err
    assert cli("run", "--env", "DRAGOMAN_DEMO_AUTH=required", "hello").code == 4


def test_5_denied_by_access(cli: Cli) -> None:
    done = cli("run", "--access", "read-only", "run touch x")
    assert done.code == 5
    assert "✗ not allowed: Run `touch x` (access is read-only: it runs a command)" in done.err
    assert "nobody to ask" not in done.err
    assert not (cli.workspace / "x").exists()


def test_5_denied_without_a_person_to_ask_names_the_option(cli: Cli) -> None:
    done = cli("run", "edit README")
    assert done.code == 5
    assert done.err.count("nobody to ask.") == 1
    assert "--access edit-inside" in done.err
    assert not (cli.workspace / "README.md").exists()


def test_124_a_deadline_and_an_idle_limit(cli: Cli) -> None:
    done = cli("run", "--deadline", "300ms", "sleep 1000")
    assert done.code == 124
    assert "deadline" in done.err
    done = cli("run", "--idle-limit", "300ms", "sleep 1000")
    assert done.code == 124
    assert "the agent sent nothing" in done.err


# -- sessions


def test_a_saved_handle_is_readable_by_its_owner_only(cli: Cli) -> None:
    # It contains the command line of the agent, which may hold a key.
    assert cli("run", "--save", "talk.json", "hello").code == 0
    assert stat.S_IMODE((cli.workspace / "talk.json").stat().st_mode) == 0o600
    assert [path.name for path in cli.workspace.iterdir() if "talk" in path.name] == ["talk.json"]


def test_a_handle_replaces_no_device(cli: Cli) -> None:
    os.mkfifo(cli.workspace / "pipe")
    done = cli("run", "--save", "pipe", "hello")
    assert done.code == 2
    assert "--save: pipe is not a regular file" in done.err
    assert (cli.workspace / "pipe").is_fifo()


def test_a_saved_session_is_resumed_in_another_process(cli: Cli) -> None:
    assert cli("run", "--save", "talk.json", "hello").code == 0
    handle = json.loads((cli.workspace / "talk.json").read_text())
    assert handle["agent"] == "demo"
    done = cli("run", "--resume", "talk.json", "--cwd", ".", "usage")
    assert done.code == 2
    assert "--cwd cannot be combined with --resume" in done.err
    done = cli("run", "--resume", "talk.json", "usage")
    assert done.code == 0
    assert done.out.startswith("Before this answer, this session had used ")  # the history is not shown again
    assert "had used 0 " not in done.out


def test_a_file_that_is_no_handle_is_bad_input(cli: Cli) -> None:
    (cli.workspace / "x.json").write_text('{"a": 1}')
    done = cli("run", "--resume", "x.json", "hello")
    assert done.code == 2
    assert "x.json: this is no session handle" in done.err


def test_the_agents_own_options_take_words_and_switches(cli: Cli) -> None:
    done = cli("run", "--model", "demo-large", "--effort", "high", "--mode", "plan", "--json", "edit README")
    text = done.events()[-1]["text"]
    assert "I am in plan mode" in text
    thoughts = [event["text"] for event in done.events() if event["type"] == "assistant.reasoning.message"]
    assert "no model need be asked" in "".join(thoughts)
