"""`dragoman login`: real programs, on a terminal and without one."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from .conftest import Cli, On, without_looks

AGENT = """
import asyncio, json, os, signal, sys, termios
from pathlib import Path
from dragoman.testing.__main__ import serve
from dragoman.testing.scripted import ScriptedAgent
from dragoman.wire.connection import RpcRefusal

proof = Path(__file__).with_name("logged-in")
ways = json.loads(os.environ["WAYS"])

def in_a_terminal():
    raw = termios.tcgetattr(0)
    raw[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(0, termios.TCSANOW, raw)  # never restored, as after a crash
    def interrupted(number, frame):
        os.write(1, b"the program heard Ctrl-C\\n")  # print may be at work on "press y" at this moment
        os._exit(9)
    signal.signal(signal.SIGINT, interrupted)
    print("press y", flush=True)
    if os.read(0, 1) == b"y":
        proof.write_text("yes")
        sys.exit(0)
    sys.exit(3)

if "--login" in sys.argv:
    in_a_terminal()

async def new(asked):
    if not proof.exists():
        raise RpcRefusal(-32000, "Authentication required", {"authMethods": []})
    return {"sessionId": "s1"}

async def authenticate(asked):
    way = asked.params["methodId"]
    if way == "bad":
        raise RpcRefusal(-32603, "the password is wrong")
    asked.agent.complain("open https://example.org/ and type \\x1b[31m1234")
    if way == "slow":
        await asyncio.Event().wait()
    if way == "asks":
        schema = {"type": "object", "properties": {"account": {"type": "string", "title": "Which account?"}}}
        about = {"requestId": asked.id, "mode": "form", "message": "Two are known.", "requestedSchema": schema}
        answer = await asked.agent.request("elicitation/create", about)
        if answer.get("content") != {"account": "ada"}:
            raise RpcRefusal(-32000, "nobody chose an account")
    if way != "forgets":
        proof.write_text("yes")
    return {}

async def logout(asked):
    proof.unlink()
    return {}

asyncio.run(serve(ScriptedAgent(
    initialize={"authMethods": ways},
    capabilities={"auth": {"logout": {}}},
    answers={"session/new": new, "authenticate": authenticate, "logout": logout},
)))
"""

BROWSER = '{"id": "browser", "name": "In the browser", "description": "opens a page"}'
TERMINAL = '{"id": "tty", "name": "Here", "type": "terminal", "args": ["--login"]}'
KEY = '{"id": "key", "name": "an API key", "type": "env_var", "vars": [{"name": "PROOF_KEY"}]}'


class Agent:
    def __init__(self, folder: Path) -> None:
        long = folder / ("a" * 60)  # wider than a terminal: commands are to be copied, and stay on one line
        long.mkdir()
        self.file = long / "agent.py"
        self.file.write_text(AGENT)
        self.proof = long / "logged-in"

    def command(self, *ways: str, more: tuple[str, ...] = ()) -> list[str]:
        line = f"{sys.executable} {self.file}"
        return ["login", "--agent-command", line, "--env", f"WAYS=[{','.join(ways)}]", *more]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def way(id: str) -> str:
    return f'{{"id": "{id}", "name": "The {id} one"}}'


def test_the_only_method_is_used_and_the_agents_output_is_shown(cli: Cli, agent: Agent) -> None:
    done = cli(*agent.command(BROWSER))
    assert done.code == 0
    assert "  | open https://example.org/ and type 1234\n" in done.err
    assert "Logged in: a session with" in done.err
    assert done.out == ""
    assert agent.proof.exists()


def test_several_methods_are_listed_without_a_terminal(cli: Cli, agent: Agent) -> None:
    done = cli(*agent.command(BROWSER, TERMINAL))
    assert done.code == 2
    assert "offers 2 ways to log in: browser, tty" in done.err
    assert "tty: Here (on a terminal)" in done.err
    assert "--method ID" in done.err
    assert cli(*agent.command(BROWSER, TERMINAL, more=("--method", "browser"))).code == 0


def test_a_method_is_chosen_by_number(agent: Agent, on_terminal: On) -> None:
    terminal = on_terminal(*agent.command(TERMINAL, BROWSER))
    shown = without_looks(terminal.until(b"Your choice (1-2): ").decode()).replace("\r\n", "\n")
    program = Path(sys.executable).name
    assert f"Login methods of {program}:\n  1  Here\n  2  In the browser  opens a page\n" in shown
    terminal.type(b"3\n")
    terminal.until(b"Please type a number from 1 to 2.")
    terminal.type(b"2\n")
    assert "Logged in" in terminal.rest()
    assert terminal.code() == 0


def test_without_a_choice_nothing_changes(agent: Agent, on_terminal: On) -> None:
    terminal = on_terminal(*agent.command(TERMINAL, BROWSER))
    terminal.until(b"Your choice (1-2): ")
    terminal.type(b"\x04")
    assert "No choice made." in terminal.rest()
    assert terminal.code() == 4
    assert not agent.proof.exists()


def test_the_agents_program_gets_the_terminal_and_its_settings_are_restored(agent: Agent, on_terminal: On) -> None:
    import termios

    terminal = on_terminal(*agent.command(TERMINAL))
    before = termios.tcgetattr(terminal.master)
    assert "--login" in terminal.until(b"press y").decode()
    assert termios.tcgetattr(terminal.master) != before
    terminal.type(b"y")
    terminal.until(b"could be opened.")
    assert termios.tcgetattr(terminal.master) == before
    assert terminal.code() == 0


def test_while_a_program_has_the_terminal_ctrl_c_is_its_own(agent: Agent, on_terminal: On) -> None:
    terminal = on_terminal(*agent.command(TERMINAL))
    terminal.until(b"press y")
    os.killpg(terminal.process.pid, signal.SIGINT)  # as the terminal does
    shown = without_looks(terminal.rest())
    assert "the program heard Ctrl-C" in shown
    assert "Not logged in: the login of" in shown
    assert "exit code 9" in " ".join(shown.split())
    assert terminal.code() == 4


def test_without_a_terminal_the_command_is_printed(cli: Cli, agent: Agent) -> None:
    done = cli(*agent.command(TERMINAL))
    assert done.code == 4
    assert f"{agent.file} --login\n" in done.err
    assert not agent.proof.exists()


def test_questions_of_the_agent_during_its_login_are_asked(agent: Agent, on_terminal: On) -> None:
    terminal = on_terminal(*agent.command(way("asks")))
    assert "Two are known." in terminal.until(b"Your answer: ").decode()
    terminal.type(b"ada\n")
    assert "Logged in" in terminal.rest()
    assert terminal.code() == 0


def test_a_login_that_does_not_last_is_reported(cli: Cli, agent: Agent) -> None:
    done = cli(*agent.command(way("forgets")))
    assert done.code == 4
    assert "accepted the login, but asks for it again after a restart" in " ".join(done.err.split())
    assert "Not logged in: session/new: Authentication required (code -32000)\n" in done.err


def test_a_failed_login_shows_the_agents_reason(cli: Cli, agent: Agent) -> None:
    done = cli(*agent.command(way("bad")))
    assert done.code == 4
    assert "Not logged in: authenticate: the password is wrong (code -32603)" in done.err


def test_the_variable_of_a_key_is_named_and_the_key_never_asked_for(cli: Cli, agent: Agent) -> None:
    done = cli(*agent.command(KEY))
    assert done.code == 4
    assert "  export PROOF_KEY=…  (is not set)\n" in done.err
    agent.proof.write_text("yes")
    done = cli(*agent.command(KEY), env={"PROOF_KEY": "planted-secret"})
    assert done.code == 0
    assert "(is set)" in done.err
    assert "planted-secret" not in done.err + done.out
    found = [path for path in cli.home.rglob("*") if path.is_file() and b"planted-secret" in path.read_bytes()]
    assert found == []


def test_ctrl_c_cancels_a_slow_login(agent: Agent, on_terminal: On) -> None:
    terminal = on_terminal(*agent.command(way("slow")))
    terminal.until(b"open https://example.org/")
    os.killpg(terminal.process.pid, signal.SIGINT)
    assert "Traceback" not in terminal.rest()
    assert terminal.code() == 130


def test_an_agent_without_login_methods_is_only_checked(cli: Cli, agent: Agent) -> None:
    refused = cli(*agent.command())
    assert refused.code == 4
    assert "Not logged in: session/new: Authentication required" in refused.err
    agent.proof.write_text("yes")
    assert cli(*agent.command()).code == 0


def test_the_methods_are_listed_for_programs_too(cli: Cli, agent: Agent) -> None:
    done = cli(*agent.command(BROWSER, TERMINAL, KEY, more=("--list",)))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "browser  In the browser: opens a page",
        "tty      Here (on a terminal)",
        "key      an API key (from the environment)",
    ]


def test_logging_out(cli: Cli, agent: Agent) -> None:
    agent.proof.write_text("yes")
    done = cli(*agent.command(BROWSER, more=("--logout",)))
    assert done.code == 0
    assert "Logged out of" in done.err
    assert not agent.proof.exists()


def test_the_demo_agent_is_logged_in_to(cli: Cli) -> None:
    done = cli("login", "demo")
    assert done.code == 0
    assert "Logged in: a session with Demo could be opened." in done.err


def test_an_agent_that_cannot_be_started_is_reported(cli: Cli) -> None:
    done = cli("login", "--agent-command", "/nowhere/agent")
    assert done.code == 3
    assert "/nowhere/agent" in done.err
    assert cli("login", "no-such-agent").code == 2


def test_without_an_agent_none_is_assumed(cli: Cli) -> None:
    done = cli("login")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("dragoman: name the agent to log in to\n")
    assert "dragoman agents" in done.err
    cli.configure('agent = "demo"\n')
    assert cli("login").code == 0  # it is the user's own choice
