"""Remembered answers: the rules that they become, and how they are stored."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError, InputError
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.globs import command_pattern
from dragoman.host.policy.policy import build_policy
from dragoman.host.policy.remembered import Remembered, derive
from dragoman.host.policy.rules import PolicyRule
from dragoman.workspace import Workspace


def wants(kind: str = "other", *paths: Path | str, **more: Any) -> PermissionRequest:
    return PermissionRequest(
        session_id="s",
        tool_call_id="t",
        **{"title": "t", "kind": kind, "options": (), "paths": tuple(map(str, paths)), **more},
    )


def runs(line: str, **more: Any) -> PermissionRequest:
    return wants("execute", command=line, **more)


def always(request: PermissionRequest, workspace: Workspace) -> list[str]:
    return [str(rule) for rule in derive(request, workspace, "allow").rules]


def never(request: PermissionRequest, workspace: Workspace) -> list[str]:
    return [str(rule) for rule in derive(request, workspace, "deny").rules]


# What is meant


def test_always_to_a_file_inside_is_about_this_folder_of_the_workspace(workspace: Workspace, tmp_path: Path) -> None:
    here, folder = workspace.cwd / "src/a.py", f"{workspace.cwd}/**"
    assert always(wants("edit", here), workspace) == [f"allow kind edit, path {folder}"]
    assert always(wants("read", here), workspace) == [f"allow kind read, path {folder}"]
    assert always(wants("edit", here, workspace.cwd / "b"), workspace) == [f"allow kind edit, path {folder}"]
    (tmp_path / "more").mkdir()
    wider = Workspace(workspace.cwd, [tmp_path / "more"])
    policy = build_policy("ask", remembered=derive(wants("edit", here), workspace, "allow").rules)
    assert policy.judge(wants("edit", workspace.cwd / "other/b.py"), wider).decision == "allow"
    assert policy.judge(wants("edit", tmp_path / "more/b.py"), wider).decision == "ask"


def test_always_can_be_narrowed_to_the_files_of_the_request(workspace: Workspace) -> None:
    here = str(workspace.cwd / "a.py")
    rules = derive(wants("edit", here), workspace, "allow", only_files=True).rules
    assert [str(rule) for rule in rules] == [f"allow kind edit, path {here}"]
    policy = build_policy("ask", remembered=rules)
    assert policy.judge(wants("edit", here), workspace).decision == "allow"
    assert policy.judge(wants("edit", str(workspace.cwd / "b.py")), workspace).decision == "ask"


def test_always_to_an_edit_is_no_yes_to_deletions(workspace: Workspace) -> None:
    here, other = workspace.cwd / "src/a.py", workspace.cwd / "src/b.py"
    policy = build_policy("ask", remembered=derive(wants("edit", here), workspace, "allow").rules)
    assert policy.judge(wants("edit", other), workspace).decision == "allow"
    assert policy.judge(wants("delete", here), workspace).decision == "ask"
    assert policy.judge(wants("move", here, other), workspace).decision == "ask"


def test_always_to_a_deletion_is_about_this_file(workspace: Workspace) -> None:
    here, other = workspace.cwd / "src/a.py", workspace.cwd / "src/b.py"
    assert always(wants("delete", here), workspace) == [f"allow kind delete, path {here}"]
    policy = build_policy("ask", remembered=derive(wants("delete", here), workspace, "allow").rules)
    assert policy.judge(wants("delete", other), workspace).decision == "ask"
    assert policy.judge(wants("edit", here), workspace).decision == "ask"


def test_a_line_that_is_handed_to_a_shell_is_known_again_without_it(workspace: Workspace) -> None:
    line = "npm test | tail -5"
    handed = f"sh -c '{line}'"
    assert always(runs(handed), workspace) == [f"allow line {line}"]
    policy = build_policy("ask", remembered=derive(runs(line), workspace, "allow").rules)
    assert policy.judge(runs(handed), workspace).decision == "allow"
    for another in (f"./sh -c '{line}'", f"sh -c '{line}' x", f"sh -x -c '{line}'", f'sh -c "{line}"', f"X=1 {handed}"):
        assert policy.judge(runs(another), workspace).decision == "ask", another
    refused = build_policy("full", remembered=derive(runs(line), workspace, "deny").rules)
    assert refused.judge(runs(handed), workspace).decision == "deny"


def test_always_to_a_file_outside_is_about_this_file(workspace: Workspace) -> None:
    assert always(wants("read", "/etc/host*"), workspace) == ["allow kind read, path /etc/host[*]"]


def test_never_to_a_file_is_about_this_file(workspace: Workspace) -> None:
    here = workspace.cwd / "src/a.py"
    assert never(wants("edit", here), workspace) == [f"deny kind write, path {here}"]
    assert never(wants("read", "/etc/hosts"), workspace) == ["deny kind read, path /etc/hosts"]


def test_always_to_a_command_is_about_this_command(workspace: Workspace) -> None:
    assert always(runs("npm test"), workspace) == ["allow command npm test"]
    assert always(runs("git commit -m 'a * b'"), workspace) == ["allow command git commit -m 'a [*] b'"]
    for line in ("npm test | tail -5", "cd sub && make", "npm test > out.txt", "cat $X", "X=1 make", "git -c a=b log"):
        assert always(runs(line), workspace) == [f"allow line {line}"]


def test_always_to_a_command_in_a_subfolder_is_about_that_folder(workspace: Workspace) -> None:
    (workspace.cwd / "web[1]").mkdir()
    request = runs("npm test", raw_input={"cwd": "web[1]"})
    assert always(request, workspace) == [f"allow command npm test, folder {workspace.cwd}/web[[]1]"]
    policy = build_policy("ask", remembered=derive(request, workspace, "allow").rules)
    assert policy.judge(request, workspace).decision == "allow"
    for folder in (".", "other", "web[1]/deep"):
        assert policy.judge(runs("npm test", raw_input={"cwd": folder}), workspace).decision == "ask"


def test_always_to_a_command_with_a_file_outside_is_about_this_line(workspace: Workspace) -> None:
    assert always(runs("cat /etc/hosts"), workspace) == ["allow line cat /etc/hosts"]


@pytest.mark.parametrize("word", ["*", "a*", "'*'", "?", "'[ab]'", "\\*", "x=*", "'a *'", "-*"])
@pytest.mark.parametrize("program", ["git log", "frobnicate", "npm run", "sudo make"])
def test_always_to_a_command_never_becomes_a_wildcard(workspace: Workspace, program: str, word: str) -> None:
    for line in (f"{program} {word}", f"{program} {word} b", f"{program} a {word}"):
        rules = derive(runs(line), workspace, "allow").rules
        assert all(command_pattern(each).literal is not None for rule in rules for each in rule.command)
        policy = build_policy("ask", remembered=rules)
        assert policy.judge(runs(f"{program} a b --other"), workspace).decision == "ask"


def test_never_to_a_command_is_found_also_inside_of_others(workspace: Workspace) -> None:
    assert never(runs("npm publish"), workspace) == ["deny command npm publish"]
    rules = derive(runs("npm publish"), workspace, "deny").rules
    verdict = build_policy("full", remembered=rules).judge(runs("sudo /usr/bin/npm publish && ls"), workspace)
    assert verdict.decision == "deny"


def test_other_things_are_known_again_by_what_names_them(workspace: Workspace) -> None:
    assert always(wants(name="mcp__note__echo"), workspace) == ["allow mcp note/echo"]
    assert always(wants("fetch", raw_input={"url": "https://a.org/x"}), workspace) == ["allow host a.org"]
    assert always(wants(name="Task"), workspace) == ["allow kind other, tool Task"]
    assert always(wants("search"), workspace) == ["allow kind search"]
    assert never(wants(name="mcp__note__echo", raw_input={"url": "https://a.org"}), workspace) == ["deny mcp note/echo"]


@pytest.mark.parametrize(
    "request_",
    [
        wants("fetch"),
        wants("other"),
        wants("execute"),
        wants("edit"),
        runs("ls", raw_input={"env": {"A": "b"}}),
        runs("ls", raw_input={"cwd": "/"}),
        runs("ls \u202e x"),
        wants("read", "/a/../b"),
    ],
)
def test_what_cannot_be_named_is_not_remembered(workspace: Workspace, request_: PermissionRequest) -> None:
    derived = derive(request_, workspace, "allow")
    assert derived.rules == ()
    assert derived.error.startswith("cannot be remembered: ")


def test_what_is_guarded_is_not_remembered(workspace: Workspace, tmp_path: Path) -> None:
    for request in (wants("edit", workspace.cwd / ".git/config"), runs("echo x > .git/config")):
        assert "always needs your approval" in derive(request, workspace, "allow").error
    request = wants("edit", tmp_path / "home/x")
    assert "always needs your approval" in derive(request, workspace, "allow", home=tmp_path / "home").error


@pytest.mark.parametrize(
    "request_",
    [
        runs("npm test"),
        runs("npm test | tail > x.txt"),
        runs("cat $X"),
        runs("for f in a b; do echo $f; done"),
        runs("[ -f x ] && echo '*?['"),
        wants("edit", "{cwd}/a b.txt"),
        wants("delete", "/elsewhere/[x]*.txt"),
        wants("read", "/elsewhere/x"),
        wants(name="mcp__note__echo", raw_input={"url": "https://a.org/"}),
        wants(name="Task[1]"),
        wants("search"),
        wants("think"),
    ],
)
def test_what_is_remembered_answers_the_same_request_next_time(
    workspace: Workspace, request_: PermissionRequest
) -> None:
    paths = tuple(path.replace("{cwd}", str(workspace.cwd)) for path in request_.paths)
    request = wants(request_.kind, *paths, command=request_.command, name=request_.name, raw_input=request_.raw_input)
    for answer in ("allow", "deny"):
        derived = derive(request, workspace, answer)
        assert derived.rules, derived.error
        assert build_policy("ask", remembered=derived.rules).judge(request, workspace).decision == answer


def test_a_remembered_command_allows_no_other(workspace: Workspace) -> None:
    rules = derive(runs("npm test"), workspace, "allow").rules
    rules += derive(runs("for x in a b; do rm $x; done"), workspace, "allow").rules
    policy = build_policy("ask", remembered=rules)
    for line in (
        "npm test --x",
        "npm test; rm x",
        "/tmp/npm test",
        "X=1 npm test",
        "for x in /*; do rm $x; done",
        "rm $x",
    ):
        assert policy.judge(runs(line), workspace).decision == "ask"


# That it is kept


@pytest.fixture
def memory(tmp_path: Path) -> Remembered:
    return Remembered(tmp_path / "home", now=lambda: 1000.0)


def test_nothing_is_remembered_at_first_and_no_folder_is_made(memory: Remembered, workspace: Workspace) -> None:
    assert memory.rules(workspace) == ()
    assert memory.list() == ()
    assert not memory.path.parent.exists()


def test_what_is_remembered_is_known_per_workspace_and_to_the_next_process(
    memory: Remembered, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (entry,) = memory.add(workspace, [PolicyRule("allow", command="npm test")])
    assert Remembered(tmp_path / "home").rules(workspace) == (
        PolicyRule("allow", command="npm test", source=f"remembered as {entry.id}"),
    )
    assert memory.rules(Workspace(tmp_path / "other")) == ()
    assert (entry.workspace, entry.at, len(entry.id)) == (str(workspace.cwd), 1000.0, 6)
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600


def test_the_last_answer_about_the_same_holds(memory: Remembered, workspace: Workspace) -> None:
    memory.add(workspace, [PolicyRule("allow", command="npm test"), PolicyRule("allow", kind="search")])
    memory.add(workspace, [PolicyRule("deny", command="npm test")])
    memory.add(workspace, [PolicyRule("deny", command="npm test")])
    assert [str(entry.rule) for entry in memory.list()] == ["allow kind search", "deny command npm test"]


def test_what_is_revoked_is_forgotten(memory: Remembered, workspace: Workspace) -> None:
    first, second = memory.add(workspace, [PolicyRule("allow", command="a"), PolicyRule("allow", command="b")])
    with pytest.raises(InputError, match="nothing is remembered as nope"):
        memory.revoke(first.id, "nope")
    assert len(memory.list()) == 2
    assert memory.revoke(first.id) == (first,)
    assert memory.list() == (second,)


def test_the_file_can_be_read_by_people(memory: Remembered, workspace: Workspace) -> None:
    (entry,) = memory.add(workspace, [PolicyRule("allow", command="npm test")])
    assert json.loads(memory.path.read_text()) == {
        "answers": [
            {
                "id": entry.id,
                "workspace": str(workspace.cwd),
                "rule": {"answer": "allow", "command": ["npm test"]},
                "at": 1000.0,
            }
        ]
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"answers": [{"id": "a", "workspace": "/w", "rule": {"answer": "yes"}}]}',
        '{"answers": [{"id": "a", "workspace": "/w", "rule": {"answer": "allow", "comand": ["ls"]}}]}',
        '{"answers": [{"id": "a", "workspace": "/w", "rule": {"answer": "allow", "path": ["../x"]}}]}',
        '{"answers": [{"id": "a", "workspace": "/w"}]}',
    ],
)
def test_a_broken_file_is_reported_and_allows_nothing(memory: Remembered, workspace: Workspace, text: str) -> None:
    memory.path.parent.mkdir()
    memory.path.write_text(text)
    with pytest.raises(ConfigError, match=r"remembered\.json: this is not what Dragoman writes there"):
        memory.rules(workspace)
    with pytest.raises(ConfigError):
        memory.add(workspace, [PolicyRule("deny")])
    assert memory.path.read_text() == text


def test_two_processes_that_remember_at_the_same_time_both_do(memory: Remembered, workspace: Workspace) -> None:
    program = (
        "import sys; from pathlib import Path; from dragoman.host.policy.remembered import Remembered\n"
        "from dragoman.host.policy.rules import PolicyRule; from dragoman.workspace import Workspace\n"
        "for number in range(20):\n"
        "    rule = PolicyRule('allow', line=f'{sys.argv[3]} {number}')\n"
        "    Remembered(Path(sys.argv[1])).add(Workspace(sys.argv[2]), [rule])"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(memory.path.parent), str(workspace.cwd), name])
        for name in ("a", "b")
    ]
    assert [process.wait(40) for process in running] == [0, 0]
    assert len(memory.list()) == 40
