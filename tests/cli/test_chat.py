"""`dragoman chat` as a person uses it: the real program on a real pseudo-terminal, with the demo agent."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from dragoman.cli.chat import chat
from dragoman.cli.plan import RunOptions, prepare

from .conftest import TIMEOUT_S, Cli, On, Terminal, without_looks

ENTER, NEWLINE, CTRL_C, CTRL_D, CTRL_R, TAB, UP = b"\r", b"\x1b\r", b"\x03", b"\x04", b"\x12", b"\t", b"\x1b[A"
READY = b"access ask"  # the end of the status line, which is drawn last
DONE = b"done in "


def started(on_terminal: On, *arguments: str, env: dict[str, str] | None = None) -> Terminal:
    terminal = on_terminal("chat", *arguments, env=env)
    terminal.until(b"access")
    return terminal


def leave(terminal: Terminal) -> str:
    """Leave the chat with Ctrl-D, check that it exits with 0, and return the output left to read."""
    terminal.type(CTRL_D)
    output = terminal.rest()
    assert terminal.code() == 0, output
    assert "Traceback" not in output
    return output


def gate(cli: Cli) -> bytes:
    """Return a prompt whose run ends when `open_gate` is called; it needs full access."""
    os.mkfifo(cli.workspace / "gate")
    return b"run cat gate" + ENTER


def open_gate(cli: Cli) -> None:
    (cli.workspace / "gate").write_text("the gate is open\n")


# -- prompts


def test_one_session_takes_many_prompts(cli: Cli, on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"title The talk" + ENTER)
    terminal.until(DONE)
    terminal.type(b"/save talk.json" + ENTER)
    terminal.until(b"Saved")
    terminal.type(b"say it again" + ENTER)
    terminal.until(DONE)
    leave(terminal)
    assert json.loads((cli.workspace / "talk.json").read_text())["title"] == "The talk"


def test_the_terminals_settings_are_restored(on_terminal: On) -> None:
    terminal = on_terminal("chat")
    before = termios.tcgetattr(terminal.master)
    terminal.until(READY)
    assert termios.tcgetattr(terminal.master) != before
    terminal.type(b"hello" + ENTER)
    terminal.until(DONE)
    terminal.type(CTRL_D)
    terminal.rest()
    after = termios.tcgetattr(terminal.master)
    assert after == before
    assert terminal.code() == 0


def test_a_prompt_may_have_many_lines(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"one" + NEWLINE + b"two\\" + ENTER + b"three" + ENTER)
    assert "You said “one two three” (3 words)" in without_looks(terminal.until(DONE).decode())
    leave(terminal)


def test_pasted_text_is_not_sent_before_enter(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"\x1b[200~one\rtwo\r\x1b[201~" + b"three" + ENTER)
    assert "You said “one two three” (3 words)" in without_looks(terminal.until(DONE).decode())
    leave(terminal)


def test_a_prompt_typed_during_a_run_is_queued_and_sent_afterwards(cli: Cli, on_terminal: On) -> None:
    terminal = started(on_terminal, "--access", "full")
    terminal.type(gate(cli))
    terminal.until(b"cat gate")
    terminal.type(b"hello" + ENTER)
    assert b"Hello!" not in terminal.until(b"queued: hello")
    open_gate(cli)
    first = terminal.until(DONE)
    assert b"Hello!" not in first
    assert b"Hello!" in terminal.until(DONE)
    leave(terminal)


def test_a_template_is_called_and_skills_are_listed(cli: Cli, on_terminal: On, tmp_path: Path) -> None:
    # Its name is nearly that of a command of ours, and no mistake.
    for path, text in (("prompts/modes.md", "Say $1 twice."), ("skills/style.md", "# House style")):
        (cli.workspace / path).parent.mkdir()
        (cli.workspace / path).write_text(text)
    terminal = started(on_terminal, env={"HOME": str(tmp_path)})
    terminal.type(b"/modes hi" + ENTER)
    output = without_looks(terminal.until(DONE).decode())
    assert "› /modes hi" in output
    assert "You said “Say hi twice.” (3 words)" in output
    terminal.type(b"/skills" + ENTER)
    output = without_looks(terminal.until(b"/modes ").decode())
    assert re.search(r"style +listed: House style", output)
    leave(terminal)


def test_a_mentioned_file_is_attached(cli: Cli, on_terminal: On) -> None:
    (cli.workspace / "notes.md").write_text("four\n")
    terminal = started(on_terminal)
    terminal.type(b"look at @notes.md" + ENTER)
    output = without_looks(terminal.until(DONE).decode())
    assert "  with notes.md" in output
    assert "(5 characters)." in " ".join(output.split())  # wherever the line was broken
    leave(terminal)


def test_an_agent_cannot_act_on_the_terminal(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"\x1b[200~say \x1b[2Jthis\x1b]0;owned\x07 \xc2\x9b31mback\x1b[201~" + ENTER)
    shown = terminal.until(DONE)
    assert b"\x1b[2J" not in shown
    assert b"\x1b]0;" not in shown
    assert b"\x07" not in shown
    assert b"\xc2\x9b" not in shown
    assert "You said “say this" in without_looks(shown.decode())
    leave(terminal)


# -- commands and completion


def test_the_agents_commands_are_completed(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"hello" + ENTER)  # by then the agent has listed its commands
    terminal.until(DONE)
    terminal.type(b"/pla" + TAB + ENTER)
    assert b"Check the result" in terminal.until(DONE)
    leave(terminal)


def test_model_and_mode_are_switched_and_their_values_completed(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"/model demo-l" + TAB + ENTER)
    terminal.until(b"model: demo-large")
    terminal.type(b"/mode Plan" + ENTER)  # by its name too
    terminal.until(b"mode: plan")
    terminal.type(b"/model" + ENTER)
    shown = without_looks(terminal.until(b"Explains itself").decode())
    assert "* demo-large" in shown
    terminal.type(b"/option word_by_word off" + ENTER)
    terminal.until(b"word_by_word: off")
    leave(terminal)


def test_an_error_in_a_command_is_shown_and_the_chat_goes_on(on_terminal: On) -> None:
    terminal = started(on_terminal)
    for typed, output in (
        (b"/modell x", b"Did you mean /model or /mode?"),
        (b"/model none", b"Demo has no model 'none'; it has: demo-small, demo-large"),
        (b"/cancel", b"there is no run to cancel"),
        (b"/save", b"/save needs a file"),
        (b"/save nowhere/x", b"the folder nowhere does not exist"),
        (b"/option nothing on", b"has no option 'nothing'"),
    ):
        terminal.type(typed + ENTER)
        terminal.until(output)
    terminal.type(b"/help" + ENTER)
    terminal.until(b"earlier prompts")
    terminal.type(b"/quit" + ENTER)
    terminal.rest()
    assert terminal.code() == 0


def test_text_that_only_looks_like_a_command_is_sent_to_the_agent(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"/tmp is full" + ENTER)
    assert "There is no command /tmp." in without_looks(terminal.until(DONE).decode())  # says the agent
    terminal.type(b" /quit" + ENTER)
    assert "There is no command /quit." in without_looks(terminal.until(DONE).decode())
    leave(terminal)


def test_a_session_is_saved_and_resumed(cli: Cli, on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"hello" + ENTER)
    terminal.until(DONE)
    terminal.type(b"/save talk.json" + ENTER)
    terminal.until(b"Saved")
    assert "To resume: dragoman chat --resume" in leave(terminal)
    handle = json.loads((cli.workspace / "talk.json").read_text())
    again = on_terminal("chat", "--resume", "talk.json", "--save", "again.json")
    again.until(b"Session resumed.")
    again.until(b"access")
    leave(again)
    assert json.loads((cli.workspace / "again.json").read_text())["session_id"] == handle["session_id"]


def test_access_is_changed_for_the_next_request(cli: Cli, on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"/access edit-i" + TAB + ENTER)
    terminal.until(b"access: edit-inside")
    terminal.until(b"access edit-inside")
    terminal.type(b"edit README" + ENTER)
    assert b"1-4): " not in terminal.until(DONE)
    assert (cli.workspace / "README.md").exists()
    terminal.type(b"/access" + ENTER)
    assert "* edit-inside" in without_looks(terminal.until(b"do everything").decode())
    terminal.type(b"/access everything" + ENTER)
    terminal.until(b"dragoman: ")
    leave(terminal)
    [session] = json.loads(cli("sessions", "list", "--json").out)
    handle = json.loads(cli("sessions", "export", session["id"], "--format", "json").out)["sessions"][0]["handle"]
    assert json.loads(handle)["access"] == "edit-inside"


def test_usage_title_export_and_the_list_of_sessions(cli: Cli, on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"hello" + ENTER)
    terminal.until(DONE)
    terminal.type(b"/usage" + ENTER)
    shown = without_looks(terminal.until(b"thought tokens").decode())
    assert re.search(r"runs +1\b", shown)
    assert re.search(r"output tokens +45\b", shown)
    terminal.type(b"/rename My own title" + ENTER)
    terminal.until(b"title: My own title")
    terminal.type(b"/sessions" + ENTER)
    assert "My own title" in without_looks(terminal.until(b"To resume one").decode())
    terminal.type(b"/export talk.md" + ENTER)
    terminal.until(b"Exported to ")
    terminal.type(b"/copy" + ENTER)
    terminal.until(b"\x1b]52;c;")
    leave(terminal)
    assert (cli.workspace / "talk.md").read_text().startswith("# My own title\n")


def test_a_new_session_begins_and_the_old_one_stays(cli: Cli, on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"/model demo-large" + ENTER)
    terminal.until(b"model: demo-large")
    terminal.type(b"hello" + ENTER)
    terminal.until(DONE)
    terminal.type(b"/new" + ENTER)
    terminal.until(b"A new session.")
    assert b"model demo-large" in terminal.until(b"access ask")
    terminal.type(b"plan" + ENTER)
    terminal.until(DONE)
    leave(terminal)
    titles = [session["title"] for session in json.loads(cli("sessions", "list", "--json").out)]
    assert titles == ["plan", "hello"]


def test_a_chat_without_a_prompt_leaves_no_session_behind(cli: Cli, on_terminal: On) -> None:
    assert "To resume" not in leave(started(on_terminal))
    assert json.loads(cli("sessions", "list", "--json").out) == []


def test_the_output_of_a_command_is_shown_while_it_runs(cli: Cli, on_terminal: On) -> None:
    os.mkfifo(cli.workspace / "gate")
    terminal = started(on_terminal, "--access", "full")
    terminal.type(b"run echo first; cat gate; exit 3" + ENTER)
    assert DONE not in terminal.until(b"    first")
    open_gate(cli)
    shown = without_looks(terminal.until(DONE).decode())
    assert "    the gate is open" in shown
    assert re.search("✗ .*exit 3", shown)
    leave(terminal)


# -- earlier prompts


def test_earlier_prompts_come_back_in_a_later_chat(cli: Cli, on_terminal: On) -> None:
    first = started(on_terminal)
    first.type(b"say one" + ENTER)
    first.until(DONE)
    first.type(b" say nothing of this" + ENTER)
    first.until(DONE)
    leave(first)
    history = cli.home / "chat-history.jsonl"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "nothing of this" not in history.read_text()
    second = started(on_terminal)
    second.type(UP + ENTER)
    assert "You said “say one”" in without_looks(second.until(DONE).decode())
    second.type(CTRL_R + b"one" + ENTER + ENTER)
    assert "You said “say one”" in without_looks(second.until(DONE).decode())
    leave(second)


# -- permission questions


def test_a_question_is_asked_in_place_and_typed_text_is_kept(cli: Cli, on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"edit README" + ENTER + b"hel")
    shown = without_looks(terminal.until(b"1-4): ").decode())
    assert "+ # README" in shown
    terminal.type(b"1\n")
    assert b"I created README.md." in terminal.until(DONE)
    assert (cli.workspace / "README.md").exists()
    terminal.type(b"lo" + ENTER)
    assert b"Hello!" in terminal.until(DONE)
    leave(terminal)


def test_ctrl_c_at_a_question_cancels_the_run(cli: Cli, on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"edit README" + ENTER)
    terminal.until(b"1-4): ")
    terminal.process.send_signal(signal.SIGINT)  # as a terminal with its usual settings does
    terminal.until(b"cancelled after ")
    terminal.type(b"hello" + ENTER)
    assert b"Hello!" in terminal.until(DONE)
    leave(terminal)
    assert not (cli.workspace / "README.md").exists()


def test_the_agents_own_questions_are_asked_in_place(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"ask me" + ENTER + b"hel")
    assert b"Which colour do you like best?" in terminal.until(b"Your answer (1-3): ")
    terminal.type(b"/decline\n")
    assert b"You would rather not answer." in terminal.until(DONE)
    terminal.type(b"lo" + ENTER)
    assert b"Hello!" in terminal.until(DONE)
    leave(terminal)


# -- being stopped


def test_ctrl_c_cancels_the_run_and_the_queued_prompts_and_the_chat_goes_on(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"sleep 1000" + ENTER)
    terminal.until(b"working")
    terminal.type(b"edit notes" + ENTER)
    terminal.until(b"queued: edit notes")
    terminal.type(CTRL_C)
    terminal.until(b"The queued prompt was dropped")
    terminal.until(b"cancelled after ")
    terminal.type(b"hello" + ENTER)
    assert b"edit notes" not in terminal.until(DONE)
    leave(terminal)


def test_keep_terminals_is_a_setting_of_the_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    started_with: list[RunOptions] = []
    monkeypatch.setattr(chat, "start_chat", started_with.append)
    for arguments in (["--keep-terminals"], []):
        chat.chat.main(arguments, standalone_mode=False)
    plans = [prepare(options, prompt=False) for options in started_with]
    assert [plan.session_config(None, print).keep_terminals for plan in plans] == [True, None]


def test_a_second_ctrl_c_ends_the_agent_and_the_next_prompt_starts_it_again(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"hang" + ENTER)
    terminal.until(b"I hang from now on")
    terminal.type(CTRL_C)
    terminal.until(b"press Ctrl-C again to kill the agent")
    terminal.type(CTRL_C)
    terminal.until(b"The agent has stopped.")
    terminal.type(b"hello" + ENTER)
    terminal.until(b"Restarted; the session is resumed.")
    assert b"Hello!" in terminal.until(DONE)
    leave(terminal)


def test_a_crash_is_reported_and_the_session_goes_on(cli: Cli, on_terminal: On) -> None:
    terminal = started(on_terminal, "--save", "talk.json", "--mode", "ask")
    before = json.loads((cli.workspace / "talk.json").read_text())
    terminal.type(b"/mode plan" + ENTER)
    terminal.until(b"mode: plan")
    terminal.type(b"crash" + ENTER)
    output = without_looks(terminal.until(b"The agent has stopped.").decode())
    assert "ended with exit code 3" in output
    assert "crashing as asked" in output
    terminal.type(b"/restart" + ENTER)
    terminal.until(b"Restarted; the session is resumed.")
    terminal.type(b"hello" + ENTER)
    assert b"Hello!" in terminal.until(DONE)
    leave(terminal)
    after = json.loads((cli.workspace / "talk.json").read_text())
    assert after["agent_session_id"] == before["agent_session_id"]
    assert after["mode"] == "plan"


def test_a_prompt_is_not_sent_to_a_session_that_forgot_everything(cli: Cli, on_terminal: On) -> None:
    agent = f"{sys.executable} -P -m dragoman.agents.demo"
    command = (
        f"env DRAGOMAN_DEMO_PACE=0 DRAGOMAN_DEMO_HOME={cli.home}/demo sh -c 'rm -rf {cli.home}/demo; exec {agent}'"
    )
    terminal = started(on_terminal, "--agent-command", command)
    terminal.type(b"crash" + ENTER)
    terminal.until(b"The agent has stopped.")
    terminal.type(b"hello" + ENTER)
    terminal.until(b"Press Enter to send it to the new session.")
    terminal.type(ENTER)
    assert b"Hello!" in terminal.until(DONE)
    leave(terminal)


def test_ctrl_c_without_a_run_clears_the_input_then_shows_how_to_leave(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"edit README" + CTRL_C + CTRL_C)
    terminal.until(b"To leave: Ctrl-D")
    terminal.type(b"hello" + ENTER)
    assert b"Hello!" in terminal.until(DONE)
    leave(terminal)


def test_ctrl_d_during_a_run_leaves_only_the_second_time(on_terminal: On) -> None:
    terminal = started(on_terminal)
    terminal.type(b"sleep 1000" + ENTER)
    terminal.until(b"working")
    terminal.type(CTRL_D)
    terminal.until(b"Ctrl-D again leaves.")
    leave(terminal)


@pytest.mark.parametrize("prompt", [b"hang", b"edit README", b""], ids=["running", "asking", "idle"])
def test_sigterm_ends_all_and_restores_the_terminal(cli: Cli, on_terminal: On, prompt: bytes) -> None:
    command = cli.holding()
    lifeline = os.open(cli.lifeline, os.O_RDONLY | os.O_NONBLOCK)
    terminal = on_terminal("chat", "--agent-command", command)
    before = termios.tcgetattr(terminal.master)
    terminal.until(READY)
    if prompt:
        terminal.type(prompt + ENTER)
        terminal.until(b"I hang" if prompt == b"hang" else b"1-4): ")
    terminal.process.send_signal(signal.SIGTERM)
    output = terminal.rest()
    assert terminal.code() == 143
    assert "Traceback" not in output
    assert termios.tcgetattr(terminal.master) == before
    cli.wait_until_all_are_gone(lifeline)
    os.close(lifeline)


def test_ctrl_c_while_the_agent_starts_ends_it(cli: Cli, on_terminal: On) -> None:
    command = cli.holding("echo about to hang >&2; sleep 1000; exit")
    lifeline = os.open(cli.lifeline, os.O_RDONLY | os.O_NONBLOCK)
    terminal = on_terminal("chat", "-v", "--agent-command", command)
    terminal.until(b"about to hang")
    terminal.process.send_signal(signal.SIGINT)
    terminal.rest()
    assert terminal.code() == 130
    cli.wait_until_all_are_gone(lifeline)
    os.close(lifeline)


def test_an_agent_that_cannot_be_started_is_reported(on_terminal: On) -> None:
    terminal = on_terminal("chat", "--agent-command", "no-such-program-anywhere")
    assert "dragoman: " in terminal.rest()
    assert terminal.code() == 3


# -- other terminals


def test_without_a_terminal_run_is_suggested(cli: Cli) -> None:
    done = cli("chat", stdin=b"hello\n")
    assert done.code == 2
    assert "a chat needs a terminal" in done.err
    assert "dragoman run" in done.err


def test_a_dumb_terminal_gets_plain_lines(on_terminal: On) -> None:
    terminal = on_terminal("chat", env={"TERM": "dumb"})
    heard = terminal.until(b"> ")
    terminal.type(b"hello\n")
    heard += terminal.until(DONE) + terminal.until(b"> ")
    terminal.type(b"edit README\n")
    heard += terminal.until(b"1-4): ")
    terminal.type(b"3\n")
    heard += terminal.until(DONE) + terminal.until(b"> ")
    terminal.type(CTRL_D)
    assert b"\x1b" not in heard + terminal.rest().encode()
    assert terminal.code() == 0


def test_without_colours_none_are_shown(on_terminal: On) -> None:
    terminal = started(on_terminal, env={"NO_COLOR": "1"})
    terminal.type(b"tools" + ENTER)
    shown = terminal.until(DONE) + leave(terminal).encode()
    assert not re.search(rb"\x1b\[(?:[0-9]+;)*3[0-7]m", shown)


def test_only_a_chat_loads_prompt_toolkit() -> None:
    code = "import sys, dragoman.cli.main, dragoman.cli.run; sys.exit('prompt_toolkit' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=TIMEOUT_S).returncode == 0
