"""`dragoman policy`: test, list, revoke, trust and untrust."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.policy.remembered import Remembered
from dragoman.host.policy.rules import PolicyRule
from dragoman.workspace import Workspace

from .conftest import Cli

CONFIG = """\
access = "edit-inside"

[[policy]]
answer = "deny"
path = "**/.env"
reason = "keys stay here"

[[policy]]
answer = "allow"
command = ["git status", "npm run *"]

[[policy]]
answer = "allow"
agent = "codex"
kind = "fetch"
"""


@pytest.fixture
def ruled(cli: Cli) -> Cli:
    cli.configure(CONFIG)
    return cli


def judged(cli: Cli, *arguments: str) -> dict[str, Any]:
    done = cli("policy", "test", "--json", *arguments)
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_the_help_of_each_command_teaches_by_example(cli: Cli) -> None:
    for command in ((), ("test",), ("list",), ("revoke",), ("trust",), ("untrust",)):
        done = cli("policy", *command, "--help")
        assert (done.code, done.err) == (0, "")
        assert "Examples:\n    dragoman policy " in done.out
        assert max(map(len, done.out.splitlines())) <= 80


def test_a_command_is_explained_effect_by_effect(ruled: Cli) -> None:
    done = ruled("policy", "test", "git status && rm -rf build > log.txt")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "ask    git status && rm -rf build > log.txt\n"
        "\n"
        "  allow  run git status\n"
        "         by the rule: allow command git status | npm run * (config.toml:8), layer user\n"
        "\n"
        "  ask    run rm -rf build\n"
        "         because access is edit-inside: it runs a command; no rule is about it\n"
        "\n"
        "  allow  write log.txt\n"
        "         because access is edit-inside: it writes inside the workspace\n"
    )
    assert not list(ruled.workspace.iterdir())


def test_the_reason_of_a_rule_and_the_overruled_rules_are_shown(ruled: Cli) -> None:
    done = ruled("policy", "test", "--path", ".env", env={"COLUMNS": "50"})
    assert done.out == (
        "deny   a request of kind read\n"
        "\n"
        "  deny   read .env\n"
        "         by the rule: deny path **/.env\n"
        "           (config.toml:3), layer user\n"
        "         because: keys stay here\n"
        "         overruled: allow kind read | write,\n"
        "           where inside (access is edit-inside),\n"
        "           layer built in\n"
    )


def test_the_options_describe_the_tested_request(ruled: Cli) -> None:
    assert judged(ruled, "--kind", "edit", "--path", "src/a.py")["decision"] == "allow"
    assert judged(ruled, "--kind", "write", "--path", "src/a.py")["decision"] == "allow"
    assert judged(ruled, "--kind", "edit", "--path", ".git/config")["layer"] == "guard"
    assert judged(ruled, "--access", "read-only", "npm run build")["decision"] == "deny"
    assert judged(ruled, "--url", "https://example.org/")["decision"] == "ask"
    assert judged(ruled, "--url", "https://example.org/", "-a", "codex")["decision"] == "allow"
    assert judged(ruled, "--kind", "edit", "--path", "/etc/hosts", "--add-dir", "/etc")["decision"] == "allow"
    assert judged(ruled, "--cwd", "/", "--path", "/etc/hosts")["decision"] == "allow"
    assert judged(ruled, "--tool", "Task")["effects"][0]["kind"] == "other"


@pytest.mark.parametrize("option", [[], ["--tool-call"]])
def test_a_tool_call_is_read_as_agents_report_it(ruled: Cli, option: list[str]) -> None:
    path = str(ruled.workspace / "a.txt")
    call = {"kind": "read", "title": "Read", "locations": [{"path": path}], "rawInput": {"command": "rm a.txt"}}
    found = judged(ruled, *option, json.dumps(call))
    assert [effect["effect"] for effect in found["effects"]] == ["run rm a.txt", "read a.txt"]
    assert found["decision"] == "ask"


def test_a_tool_call_is_judged_as_one_of_the_named_agent(ruled: Cli) -> None:
    call = json.dumps({"kind": "fetch", "title": "Fetch", "rawInput": {"url": "https://example.org/"}})
    assert judged(ruled, call)["decision"] == "ask"
    assert judged(ruled, call, "-a", "codex")["decision"] == "allow"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to test"),
        (["--tool-call", "{"], "the tool call cannot be read"),
        (["--tool-call", "[]"], "the tool call is not a JSON object"),
        (['{"kind": "read"}', "--path", "x"], "a tool call cannot be combined with"),
        (["--kind", "edt", "--path", "x"], 'there is no kind "edt"; did you mean edit?'),
        (["--access", "yolo", "ls"], 'access is "yolo"'),
        (["--cwd", "/nowhere", "ls"], "does not exist"),
    ],
)
def test_a_request_that_cannot_be_tested_is_bad_input(cli: Cli, arguments: list[str], message: str) -> None:
    done = cli("policy", "test", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_control_characters_in_a_command_are_shown_and_not_obeyed(cli: Cli) -> None:
    done = cli("policy", "test", "ls \x1b[2J \u202e x")
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
    assert "\u202e" not in done.out + done.err
    assert "\\x1b" in done.out


def test_the_rules_in_force_are_listed_with_their_sources(ruled: Cli) -> None:
    Remembered(ruled.home).add(Workspace(ruled.workspace), [PolicyRule("allow", command="npm test")])
    (entry,) = Remembered(ruled.home).list()
    done = ruled("policy", "list")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == f"Rules in {ruled.workspace} with access edit-inside, weakest layer first:"
    assert "  user        deny   path **/.env (config.toml:3: keys stay here)" in lines
    assert f"  remembered  allow  command npm test (remembered as {entry.id})" in lines
    listed = json.loads(ruled("policy", "list", "--json").out)
    assert [rule["layer"] for rule in listed["rules"]] == ["built in"] * 2 + ["user"] * 3 + ["remembered"]
    assert listed["rules"][2] == {
        "layer": "user",
        "source": f"{ruled.home}/config.toml:3",
        "answer": "deny",
        "reason": "keys stay here",
        "path": ["**/.env"],
    }
    assert [each["id"] for each in listed["remembered"]] == [entry.id]


def test_the_files_that_are_always_asked_about_are_listed_on_request(ruled: Cli) -> None:
    assert ".vscode" not in ruled("policy", "list").out
    shown = " ".join(ruled("policy", "list", "--guards").out.split())
    assert "(an editor runs tasks and programs that it names)" in shown
    guards = json.loads(ruled("policy", "list", "--guards", "--json").out)["guards"]
    assert any(".env" in guard["paths"] and guard["reason"] for guard in guards["read"])


def test_answers_of_other_workspaces_are_listed_on_request(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (entry,) = Remembered(cli.home).add(Workspace(tmp_path / "other"), [PolicyRule("deny", command="npm publish")])
    assert entry.id not in cli("policy", "list").out
    done = cli("policy", "list", "--all")
    assert f"  {entry.id}  deny   command npm publish (since " in done.out


def test_a_revoked_answer_no_longer_counts(cli: Cli) -> None:
    (entry,) = Remembered(cli.home).add(Workspace(cli.workspace), [PolicyRule("allow", command="npm test")])
    assert judged(cli, "npm test")["decision"] == "allow"
    done = cli("policy", "revoke", entry.id)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"No longer remembered:\n\n  {entry.id}  allow  command npm test (since ")
    assert judged(cli, "npm test")["decision"] == "ask"
    done = cli("policy", "revoke", entry.id)
    assert (done.code, done.out) == (2, "")
    assert f"nothing is remembered as {entry.id}" in done.err


def test_a_workspaces_rules_count_once_they_are_trusted(cli: Cli) -> None:
    file = cli.workspace / ".dragoman" / "policy.toml"
    file.parent.mkdir()
    file.write_text('[[rules]]\nanswer = "allow"\ncommand = "make *"\n')
    done = cli("policy", "test", "make all")
    assert done.out.startswith("ask ")
    assert f"{file} is ignored: you have not trusted it" in done.err
    done = cli("policy", "trust")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        f"Trusted {file} as it is now: 1 rule.\n\n  workspace   allow  command make * (.dragoman/policy.toml:1)\n"
    )
    assert judged(cli, "make all")["layer"] == "workspace"
    assert json.loads(cli("policy", "untrust", "--json", str(file)).out) == {"path": str(file), "was_trusted": True}
    assert cli("policy", "untrust").out == f"{file} was not trusted.\n"
    assert cli("policy", "test", "make all").out.startswith("ask ")


def test_a_broken_rule_is_reported_with_its_line(cli: Cli) -> None:
    cli.configure('[[policy]]\nanswer = "deny"\npaht = "x"\n')
    for arguments in (("list",), ("test", "ls")):
        done = cli("policy", *arguments)
        assert (done.code, done.out) == (2, "")
        assert 'config.toml:3: there is no setting "paht"; did you mean "path"?' in done.err
