from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from dragoman._version import __version__

from .conftest import Cli

DEMO = "dragoman.agents.demo"
MINE = """
[agents.mine]
command = "no-such-program"
install = "get mine --now"
note = "It needs a key."
"""

NOT_FOR_VERSION = ("asyncio", "click", "rich", "msgspec")


def test_version_loads_nothing_heavy(cli: Cli) -> None:
    script = (
        "import sys; from dragoman.__main__ import main; sys.argv[1:] = ['--version']; code = main()\n"
        f"sys.exit(code or [name for name in {NOT_FOR_VERSION!r} if name in sys.modules] or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=cli.env, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dragoman {__version__}\n", "")


ANY_COMMAND = ("asyncio", "rich", "msgspec")
OTHER_COMMANDS = ("prompt_toolkit", "starlette", "watchfiles", "mcp")


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], ANY_COMMAND),
        (["agents", "--help"], ANY_COMMAND),
        (["sessions", "--help"], ANY_COMMAND),
        ([], ANY_COMMAND),
        (["run", "--help"], OTHER_COMMANDS),
    ],
)
def test_help_teaches_by_example_and_loads_no_more_than_it_needs(
    cli: Cli, arguments: list[str], heavy: tuple[str, ...]
) -> None:
    script = (
        f"import sys; from dragoman.__main__ import main; sys.argv[1:] = {arguments!r}; code = main()\n"
        f"sys.exit(code or [name for name in {heavy!r} if name in sys.modules] or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=cli.env, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Examples:\n    dragoman " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("arguments", [[], ["sessions"], ["token", "create"], ["run"]])
def test_help_fits_a_narrow_terminal(cli: Cli, arguments: list[str]) -> None:
    text = cli(*arguments, "--help", env={"COLUMNS": "40"}).out
    written_by_click, _, _ = text.partition("  Examples:")  # lines to paste are not broken
    assert "Options:\n" in written_by_click
    assert max(map(len, written_by_click.splitlines())) <= 40


def test_without_arguments_a_first_step_is_shown(cli: Cli) -> None:
    done = cli()
    assert done.code == 0
    assert done.out.endswith('New here? Try: dragoman run "hello"\n')


def test_the_exit_codes_are_in_the_help(cli: Cli) -> None:
    text = cli("run", "--help").out
    for code in ("0", "1", "2", "3", "4", "5", "124", "130"):
        assert f"\n    {code:<3}  " in text


def test_an_unknown_command_is_bad_input(cli: Cli) -> None:
    done = cli("rum", "hello")
    assert done.code == 2
    assert done.err.startswith("dragoman: no such command 'rum'")
    assert done.err.endswith("  Run `dragoman --help` for its options and examples.\n")


def test_a_usage_error_has_the_style_of_our_own_errors(cli: Cli) -> None:
    done = cli("usage", "--by", "colour")
    assert (done.code, done.out) == (2, "")
    first, *more = done.err.splitlines()
    assert first.startswith("dragoman: invalid value for '--by': 'colour' is not one of ")
    assert more == ["  Usage: dragoman usage [OPTIONS]", "  Run `dragoman usage --help` for its options and examples."]


@pytest.mark.parametrize(
    ("arguments", "meant"), [(["sesions"], "sessions"), (["sessions", "lsit"], "list"), (["config", "gte"], "get")]
)
def test_a_misspelt_command_suggests_the_right_one(cli: Cli, arguments: list[str], meant: str) -> None:
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"dragoman: no such command '{arguments[-1]}'. Did you mean '{meant}'?\n")


@pytest.mark.parametrize("group", ["sessions", "policy", "token", "journal"])
def test_a_group_without_a_command_shows_its_help(cli: Cli, group: str) -> None:
    done = cli(group)
    assert (done.code, done.out) == (2, "")
    assert done.err == cli(group, "--help").out


def complete(cli: Cli, *words: str) -> list[str]:
    """Return what bash offers for the last of the words."""
    line = {"COMP_WORDS": " ".join(["dragoman", *words]), "COMP_CWORD": str(len(words))}
    done = cli(env={**line, "_DRAGOMAN_COMPLETE": "bash_complete"})
    return [offered.partition(",")[2] for offered in done.out.split()]


def test_values_are_completed(cli: Cli) -> None:
    cli.configure('access = "everything"\n[agents.mine]\ncommand = "x"\n')  # whatever is wrong with a setting
    assert complete(cli, "run", "-a", "mi") == ["mine"]
    assert complete(cli, "login", "dem") == ["demo"]
    assert complete(cli, "config", "get", "acc") == ["access"]
    assert complete(cli, "config", "set", "access", "re") == ["read-only"]
    assert complete(cli, "config", "set", "agent", "cod") == ["codex"]
    assert complete(cli, "config", "set", "deadline", "") == []
    assert complete(cli, "sessions", "show", "") == []
    assert not (cli.home / "journal.db").exists()


def test_the_ids_of_sessions_are_completed(cli: Cli) -> None:
    assert cli("run", "hello").code == 0
    (session,) = json.loads(cli("sessions", "list", "--json").out)
    assert complete(cli, "sessions", "show", "") == [session["id"][:6]]
    assert complete(cli, "open", session["id"][:3]) == [session["id"][:6]]
    assert complete(cli, "chat", "--resume", session["id"][:8]) == [session["id"]]


def test_completion_of_commands_loads_none_of_them(cli: Cli) -> None:
    script = (
        "import sys; from dragoman.__main__ import main; sys.argv[1:] = []; code = main()\n"
        "sys.exit(code or [name for name in ('asyncio', 'rich') if name in sys.modules] or 0)"
    )
    env = {**cli.env, "_DRAGOMAN_COMPLETE": "bash_complete", "COMP_WORDS": "dragoman se", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["plain,serve", "plain,sessions"]


def test_agents_lists_installed_agents_and_how_to_install_the_others(cli: Cli) -> None:
    cli.configure(MINE)
    done = cli("agents")
    assert done.code == 0
    here, missing = done.out.split("Not installed; to install them:\n")
    assert here.startswith("Ready to use\n")
    assert "\n* demo " in here
    assert f"-m {DEMO}\n" in here
    assert "\n  mine " in missing
    assert " get mine --now\n" in missing
    assert " It needs a key.\n" in missing


def test_agents_as_json(cli: Cli) -> None:
    cli.configure(MINE)
    listed = {agent["id"]: agent for agent in json.loads(cli("agents", "--json").out)}
    assert {"claude", "codex", "gemini", "opencode"} <= set(listed)
    assert [agent["id"] for agent in listed.values() if agent["default"]] == ["demo"]
    assert listed["demo"]["state"] == "installed"
    assert listed["mine"]["state"] == "missing"
    assert listed["mine"]["install"] == "get mine --now"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ('acces = "ask"\n', "config.toml:1"),
        ('access = "everything"\n', "config.toml:1"),
        ("this is no TOML", "config.toml:1"),
        ('[agents.mine]\nargs = ["x"]\n', "config.toml:1"),
    ],
)
def test_agents_are_listed_whatever_is_wrong_with_the_settings(cli: Cli, config: str, named: str) -> None:
    cli.configure(config)
    done = cli("agents")
    assert done.code == 0
    assert "  claude" in done.out
    assert done.err.startswith("dragoman: ")
    assert named in done.err


def test_an_unknown_default_agent_is_reported_and_the_others_are_listed(cli: Cli) -> None:
    done = cli("agents", env={"DRAGOMAN_AGENT": "bogus"})
    assert done.code == 0
    assert "  demo " in done.out
    assert 'DRAGOMAN_AGENT: there is no agent "bogus"' in done.err
    (cli.home / "settings.json").write_text('{"settings": {"agent": "bogus"}}')
    done = cli("agents")
    assert (done.code, "  demo " in done.out) == (0, True)
    assert 'settings.json: there is no agent "bogus"' in done.err
    assert "dragoman config set agent NAME" in done.err
    done = cli("run", "hello")
    assert done.code == 2
    assert 'settings.json: there is no agent "bogus"' in done.err
    assert cli("run", "-a", "demo", "hello").code == 0


@pytest.mark.parametrize("command", [("sessions", "list"), ("usage",), ("token", "list"), ("journal", "path")])
def test_a_bad_setting_hides_nothing_that_does_not_need_it(cli: Cli, command: tuple[str, ...]) -> None:
    cli.configure('access = "everything"\n')
    assert cli(*command).code == 0


def test_a_closed_pipe_ends_the_listing_quietly(cli: Cli) -> None:
    process = cli.start("agents", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(40) == 141


def test_agents_in_a_narrow_terminal_have_their_command_below_them(cli: Cli) -> None:
    with (cli.home / "config.toml").open("a") as config:
        config.write(MINE.replace("It needs a key.", "It needs a key, which you get from the people who made it."))
    lines = cli("agents", env={"COLUMNS": "40"}).out.splitlines()
    assert [line for line in lines if len(line) > 40 and " " in line.strip()] == []  # no word is broken
    start = lines.index("  mine  mine")
    assert lines[start + 1] == "    get mine --now"
    assert lines[start + 2 : start + 4] == ["    It needs a key, which you get from", "    the people who made it."]


def test_a_command_that_is_broken_into_lines_can_still_be_pasted(cli: Cli) -> None:
    with (cli.home / "config.toml").open("a") as config:
        config.write(MINE.replace("get mine --now", "get mine --from a/rather/long/address --now --and all of it"))
    lines = cli("agents", env={"COLUMNS": "40"}).out.splitlines()
    start = lines.index("  mine  mine")
    pasted = "\n".join(lines[start + 1 : start + 4]).replace("\\\n", " ")
    assert " ".join(pasted.split("\n")[0].split()) == "get mine --from a/rather/long/address --now --and all of it"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_standard_stream_that_is_closed_harms_nothing(cli: Cli, closed: str) -> None:
    for arguments in ("run hello", "agents", "--help"):
        line = f"{sys.executable} -m dragoman {arguments} {closed}"
        done = subprocess.run(["sh", "-c", line], cwd=cli.workspace, env=cli.env, capture_output=True, check=False)
        assert done.returncode == 0
        assert b"Traceback" not in done.stderr
        assert (b"ello" in done.stdout or b"demo" in done.stdout) == (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["agents"]])
def test_a_full_disk_is_no_traceback(cli: Cli, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        process = cli.start(*arguments, stdout=full)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert process.wait(40) == 1
