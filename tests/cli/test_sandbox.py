"""`dragoman sandbox`, and `--sandbox` of commands that run an agent."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from workspace.sandbox_support import find_bwrap, machine_with

from .conftest import Cli

pytestmark = [
    pytest.mark.slow,  # many processes of the command line
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has these mechanisms"),
]


@pytest.fixture
def key(cli: Cli) -> Path:
    """A key in the user's home folder."""
    home = cli.workspace.parent / "user"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id").write_text("the secret\n")
    cli.env["HOME"] = str(home)
    return home / ".ssh/id"


@pytest.fixture
def landlock(cli: Cli) -> None:
    machine_with("landlock without namespaces")
    cli.env["DRAGOMAN_SANDBOX"] = "landlock"


@pytest.mark.usefixtures("landlock")
def test_an_agent_runs_in_a_sandbox_and_the_command_says_what_is_not_confined(cli: Cli, key: Path) -> None:
    line = f"run cat {key} > stolen.txt; echo made > made.txt"
    done = cli("run", "--sandbox", "--network", "off", "--access", "full", line)
    assert done.code == 0, done.err
    assert "dragoman: sandbox: landlock" in done.err
    assert "network off" in done.err
    assert "Not confined: " in done.err
    assert (cli.workspace / "stolen.txt").read_text() == ""
    assert (cli.workspace / "made.txt").read_text() == "made\n"


@pytest.mark.usefixtures("landlock", "key")
def test_no_sandbox_turns_a_configured_one_off(cli: Cli) -> None:
    assert "sandbox" not in cli("run", "--no-sandbox", "hello").err


@pytest.mark.usefixtures("landlock", "key")
def test_quiet_does_not_speak_of_the_sandbox(cli: Cli) -> None:
    assert cli("run", "-q", "hello").err == ""


def test_a_network_that_nothing_turns_off_is_said_to_be_on(cli: Cli) -> None:
    assert "--network off is not enforced without --sandbox" in cli("run", "--network", "off", "hello").err
    assert "--network" not in cli("run", "--network", "on", "hello").err
    assert "--network" not in cli("run", "--network", "off", "-q", "hello").err


def test_a_sandbox_that_cannot_be_had_starts_nothing(cli: Cli) -> None:
    done = cli("run", "--sandbox", "hello", env={"DRAGOMAN_SANDBOX": "seatbelt"})
    assert done.code == 3
    assert "a sandbox by seatbelt was asked for, and cannot be had: only macOS has sandbox-exec" in done.err
    assert done.out == ""


@pytest.mark.usefixtures("landlock", "key")
@pytest.mark.usefixtures("landlock")
def test_agents_of_an_evaluation_run_in_a_sandbox(cli: Cli, key: Path) -> None:
    task = {"prompt": f"run cat {key} > stolen.txt; echo made > made.txt"}
    (cli.workspace / "tasks.jsonl").write_text(json.dumps(task))
    done = cli("eval", "-a", "demo", "--sandbox", "--network", "off", "--access", "full", "tasks.jsonl")
    assert done.code == 0, done.err
    assert "dragoman: sandbox: landlock" in done.err
    assert "network off. Not confined: " in done.err
    assert (cli.workspace / "stolen.txt").read_text() == ""
    assert (cli.workspace / "made.txt").read_text() == "made\n"


def test_an_evaluation_whose_sandbox_cannot_be_had_begins_no_task(cli: Cli) -> None:
    (cli.workspace / "tasks.jsonl").write_text('{"prompt": "hello"}')
    done = cli("eval", "-a", "demo", "--sandbox", "tasks.jsonl", env={"DRAGOMAN_SANDBOX": "seatbelt"})
    assert done.code == 3
    assert "a sandbox by seatbelt was asked for" in done.err
    assert not (cli.workspace / "tasks.results.jsonl").exists()


def test_a_workspace_with_secrets_is_refused(cli: Cli) -> None:
    done = cli("run", "--sandbox", "--cwd", cli.env["HOME"], "hello")
    assert done.code == 2
    assert "cannot be the workspace of a sandbox" in done.err


def test_the_report_lists_each_mechanism_and_what_it_leaves_open(cli: Cli) -> None:
    machine = machine_with("landlock without namespaces")
    done = cli("sandbox")
    assert done.code == 0
    assert "landlock" in done.out
    assert "It is not kept from:" in done.out
    record = json.loads(cli("sandbox", "--json").out)
    assert [each["name"] for each in record["mechanisms"]] == ["bubblewrap", "landlock", "seatbelt"]
    assert record["chosen"] == ("bubblewrap" if not machine.bwrap_problem else "landlock")
    assert "Sandbox" in cli("agents").out


@pytest.mark.parametrize("mechanism", ["bubblewrap", "landlock"])
def test_any_command_can_be_tried_in_a_sandbox(cli: Cli, key: Path, mechanism: str) -> None:
    machine_with("bubblewrap" if mechanism == "bubblewrap" else "landlock without namespaces")
    if mechanism == "bubblewrap":
        cli.env["PATH"] = f"{Path(find_bwrap() or '').parent}{os.pathsep}{cli.env['PATH']}"
    cli.env["DRAGOMAN_SANDBOX"] = mechanism
    assert cli("sandbox", "--", "cat", str(key)).code == 1
    done = cli("sandbox", "--", "sh", "-c", "echo made > made.txt; exit 5")
    assert done.code == 5
    assert (cli.workspace / "made.txt").read_text() == "made\n"
    assert "no-such-program" in cli("sandbox", "--", "no-such-program").err
