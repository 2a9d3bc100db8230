"""Effects of a request: all of them, whatever the agent calls it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.effects import analyze
from dragoman.wire.vocabulary import Diff
from dragoman.workspace import Workspace


def wants(kind: str = "other", *paths: Path | str, **more: Any) -> PermissionRequest:
    return PermissionRequest(
        session_id="s",
        tool_call_id="t",
        **{"title": "t", "kind": kind, "options": (), "paths": tuple(map(str, paths)), **more},
    )


def effects(request: PermissionRequest, workspace: Workspace) -> list[str]:
    return [str(effect) for effect in analyze(request, workspace)]


def runs(line: str, workspace: Workspace, **raw_input: Any) -> list[str]:
    return effects(wants("execute", command=line, raw_input={"command": line, **raw_input}), workspace)


def test_each_kind_does_what_it_says(workspace: Workspace) -> None:
    here = workspace.cwd / "a.txt"
    assert effects(wants("read", here), workspace) == ["read a.txt"]
    assert effects(wants("edit", here), workspace) == ["write a.txt"]
    assert effects(wants("delete", here), workspace) == ["write a.txt"]
    assert effects(wants("search", here), workspace) == ["read a.txt"]
    assert effects(wants("search"), workspace) == ["search, without a local path"]
    assert effects(wants("think"), workspace) == ["think"]
    assert effects(wants("fetch"), workspace) == ["fetch from a host that it does not name"]
    assert effects(wants("execute"), workspace) == ["run a command that it does not name"]
    assert effects(wants("switch_mode"), workspace) == ["do something unknown"]
    assert effects(wants(""), workspace) == ["do something unknown"]


@pytest.mark.parametrize(("kind", "does"), [("edit", "write"), ("read", "read"), ("delete", "write")])
def test_a_file_that_only_the_input_names_is_the_file(workspace: Workspace, kind: str, does: str) -> None:
    """goose 1.34.0 asks without locations."""
    named = wants(kind, raw_input={"path": "a.txt", "content": "x"})
    assert effects(named, workspace) == [f"{does} a.txt"]
    both = wants(kind, raw_input={"edits": [{"file_path": "a.txt"}, {"file_path": "/etc/passwd"}]})
    assert sorted(effects(both, workspace)) == [f"{does} /etc/passwd", f"{does} a.txt"]
    copied = wants(kind, raw_input={"path": "a.txt", "to": "/etc/passwd"})
    assert sorted(effects(copied, workspace)) == [f"{does} /etc/passwd", f"{does} a.txt"]


@pytest.mark.parametrize(
    "raw_input",
    [
        {"path": "a.txt", "before": "/etc/passwd", "after": "../b"},
        {"path": "a.txt", "new_string": "/usr/bin/env", "content": "~/b"},
        {"path": "a.txt", "format": "text/plain", "insert": "// about ../b", "lines": [1, 2]},
        {"path": "routes/$id.txt"},
    ],
)
def test_the_text_of_a_file_does_not_make_its_name_doubtful(workspace: Workspace, raw_input: Any) -> None:
    assert effects(wants("edit", raw_input=raw_input), workspace) == [f"write {raw_input['path']}"]


@pytest.mark.parametrize(
    "raw_input",
    [
        {"path": "a.txt", "onto": "/etc/passwd"},
        {"path": "a.txt", "root": "../other"},
        {"path": "a.txt", "options": {"base": "~/other"}},
        {"path": "a.txt", "also": ["b.txt", "/etc/passwd"]},
        {"path": "a.txt", "output": "file:///etc/passwd"},
        {"path": "a.txt", "patch": "*** Update File: /etc/passwd\n+x"},
        {"path": "file:///etc/passwd"},
        {"path": "$HOME/.profile"},
        {"path": "C:\\Windows\\win.ini"},
    ],
)
def test_an_input_that_may_name_another_file_leaves_it_open(workspace: Workspace, raw_input: Any) -> None:
    assert "write a file that it does not name" in effects(wants("edit", raw_input=raw_input), workspace)
    declared = wants("edit", workspace.cwd / "a.txt", raw_input=raw_input)
    assert "write a file that it does not name" not in effects(declared, workspace)


@pytest.mark.parametrize("raw_input", [{"directory": "src"}, {"path": "a.txt", "cwd": "/"}, {"content": "x"}, None])
def test_a_folder_in_the_input_does_not_name_the_file(workspace: Workspace, raw_input: Any) -> None:
    assert "write a file that it does not name" in effects(wants("edit", raw_input=raw_input), workspace)


def test_all_that_it_does_counts(workspace: Workspace) -> None:
    here = str(workspace.cwd / "a.txt")
    request = wants(
        "read", here, command="rm b", diffs=(Diff(path=here, new_text=""),), raw_input={"url": "https://x.y"}
    )
    assert effects(request, workspace) == ["run rm b", "write a.txt", "fetch from x.y", "read a.txt"]


def test_every_command_in_a_line_is_a_deed_and_so_are_its_redirections(workspace: Workspace) -> None:
    found = runs("git log < in.txt > out.txt && sudo rm x | tail", workspace)
    assert found == [
        "run git log",
        "read in.txt",
        "write out.txt",
        "run sudo rm x",
        "run rm x (in sudo)",
        "run tail",
    ]


@pytest.mark.parametrize(
    "line", ["cd sub && echo x > f", "pushd sub; echo x > f", "echo x > $F", "echo x > ~/f", "echo > *"]
)
def test_a_redirection_to_an_unknown_target_names_no_file(workspace: Workspace, line: str) -> None:
    assert "write a file that it does not name" in runs(line, workspace)


def test_a_redirection_starts_from_where_the_command_runs(workspace: Workspace) -> None:
    assert "write sub/f" in runs("echo x > f", workspace, cwd="sub")
    assert "write sub/f" in runs("echo x > f", workspace, cwd=str(workspace.cwd / "sub"))
    assert "write a file that it does not name" in runs("echo x > f", workspace, cwd="a", workdir="b")
    assert "write a file that it does not name" in runs("echo x > f", workspace, cwd=["a"])


def test_a_command_that_runs_outside_says_so(workspace: Workspace) -> None:
    (inside,) = analyze(wants("execute", command="ls", raw_input={"cwd": "sub"}), workspace)
    (outside,) = analyze(wants("execute", command="ls", raw_input={"cwd": "/"}), workspace)
    assert (inside.outside, outside.outside) == (False, True)


def test_arguments_that_are_given_apart_belong_to_the_command(workspace: Workspace) -> None:
    assert runs("git", workspace, args=["push", "--force"]) == ["run git push --force"]
    assert effects(wants(command="git", raw_input={"cmd": "git", "args": ["push"]}), workspace) == ["run git push"]
    assert effects(wants(command="a b", raw_input={"command": ["a", "b"], "argv": ["c d"]}), workspace) == [
        "run a b 'c d'"
    ]
    for odd in (
        {"args": {"0": "push"}},
        {"args": "push"},
        {"args": [1]},
        {"args": False},
        {"args": ["a"], "argv": ["b"]},
    ):
        assert runs("git", workspace, **odd) == ["run a command that it does not name"]


@pytest.mark.parametrize(
    "env", [{"env": {"PATH": "/x"}}, {"env": [{"name": "PATH", "value": "/x"}]}, {"environment": "PATH=/x"}]
)
def test_variables_that_are_given_apart_belong_to_the_command(workspace: Workspace, env: dict[str, Any]) -> None:
    (effect,) = analyze(wants("execute", command="git log", raw_input=env), workspace)
    assert effect.command is not None
    assert "PATH" in "".join(effect.command.assignments)
    assert effect.env


def test_an_mcp_tool_is_known_by_its_name_alone(workspace: Workspace) -> None:
    assert effects(wants(name="mcp__note__echo_note"), workspace) == ["use the MCP tool note/echo_note"]
    assert effects(wants("read", "/x", name="mcp__note__echo"), workspace) == ["use the MCP tool note/echo", "read /x"]
    for name in ("note_echo", "mcp__note", "mcp__a__b__c", "mcp____x", None):
        assert effects(wants(name=name, title="mcp__note__echo"), workspace) == ["do something unknown"]


def as_codex(**more: Any) -> PermissionRequest:
    """Return a request for an MCP tool in the form of codex-acp 2.6.0."""
    given = {"server": "note", "tool": "echo_note", "arguments": {"text": "hi"}}
    return wants(**{"kind": "execute", "title": "mcp.note.echo_note", "raw_input": given, **more})


def test_an_mcp_tool_that_is_called_a_command_is_an_mcp_tool_and_its_arguments_count(workspace: Workspace) -> None:
    assert effects(as_codex(), workspace) == ["use the MCP tool note/echo_note"]
    given = {"server": "no__te", "tool": "e__cho", "arguments": {"command": "rm b", "url": "https://x.y"}}
    found = effects(as_codex(title="mcp.no__te.e__cho", raw_input=given), workspace)
    assert found == ["run rm b", "fetch from x.y", "use the MCP tool no__te/e__cho"]


@pytest.mark.parametrize(
    "more",
    [
        {"title": "mcp.note.erase"},
        {"title": "mcp.note.echo_note; rm -rf ."},
        {"kind": "read"},
        {"raw_input": {"server": "note", "tool": "echo_note"}},
        {"raw_input": {"server": "note", "tool": "echo_note", "arguments": {}, "commands": ["rm b"]}},
        {"raw_input": {"server": "note", "tool": "echo_note", "arguments": [], "cmd": "rm b"}, "command": "rm b"},
        {"diffs": (Diff(path="/x", new_text=""),)},
    ],
    ids=str,
)
def test_what_only_looks_like_an_mcp_tool_that_is_called_a_command_is_none(
    workspace: Workspace, more: dict[str, Any]
) -> None:
    assert "use the MCP tool note/echo_note" not in effects(as_codex(**more), workspace)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.org./x?y#z", "example.org"),
        ("http://localhost:8080", "localhost"),
        ("https://good.org@evil.org/", None),
        ("https://good.org\\@evil.org/", None),
        ("https://good.org\n.evil.org/", None),
        ("https://[::1]/", None),
        ("https://xn--e1afmkfd.org", "xn--e1afmkfd.org"),
        ("https://é.org", None),
        ("file:///etc/passwd", None),
        ("example.org", None),
    ],
)
def test_a_host_is_known_only_where_every_reader_would_agree(workspace: Workspace, url: str, host: str | None) -> None:
    effect = analyze(wants("fetch", raw_input={"url": url}), workspace)[0]
    assert effect.host == host


def test_where_links_lead_is_where_it_reads_and_their_own_names_are_known_too(workspace: Workspace) -> None:
    (workspace.cwd / "link").symlink_to("secret")
    (effect,) = analyze(wants("read", workspace.cwd / "link/key"), workspace)
    assert effect.path is not None
    assert effect.path.inside == "secret/key"
    assert "link/key" in effect.path.spellings


@pytest.mark.parametrize("path", ["/etc/passwd", "/a/../etc", "relative", "/nul\0", "/" + "x" * 5000, "/\udcff"])
def test_every_path_leads_somewhere_or_nowhere_but_never_raises(workspace: Workspace, path: str) -> None:
    (effect,) = analyze(wants("read", path), workspace)
    assert effect.path is not None
    assert effect.path.inside is None
    assert effect.path.error


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["~", "~x\0", "/", "..", "\udcff"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from(
    ["path", "files", "command", "cmd", "args", "argv", "env", "cwd", "dir", "url", "urls", "target"]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(["read", "edit", "execute", "fetch", "search", "other", "x"]),
    paths=st.lists(st.text(max_size=8) | st.sampled_from(["~", "~x\0", "/\0", "/\udcff", "//", "/.."]), max_size=2),
    command=st.none() | st.text(max_size=12),
    raw_input=anything | st.dictionaries(keys, anything, max_size=4),
    name=st.none() | st.text(max_size=8),
)
def test_whatever_an_agent_says_it_does_something(
    workspace: Workspace, kind: str, paths: list[str], command: str | None, raw_input: Any, name: str | None
) -> None:
    found = analyze(wants(kind, *paths, command=command, raw_input=raw_input, name=name), workspace)
    assert found
    assert all(map(str, found))
