"""The table of accesses, and what may not slip through it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import Access
from dragoman.errors import InputError
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.access import parse_access
from dragoman.host.policy.policy import build_policy
from dragoman.host.policy.rules import PolicyRule
from dragoman.wire.vocabulary import Diff, ToolKind
from dragoman.workspace import Workspace

ACCESSES: tuple[Access, ...] = get_args(Access)


def wants(kind: str, *paths: Path | str, **more: Any) -> PermissionRequest:
    return PermissionRequest(
        session_id="s", tool_call_id="t", title="t", kind=kind, options=(), paths=tuple(map(str, paths)), **more
    )


@pytest.fixture
def inside(workspace: Workspace) -> Path:
    return workspace.cwd / "file.txt"


def verdicts(
    request: PermissionRequest, workspace: Workspace, *, network: bool | None = None, web_search: bool | None = None
) -> list[str]:
    """By read-only, ask, edit-inside, full."""
    policies = [build_policy(access, network=network, web_search=web_search) for access in ACCESSES]
    return [policy.judge(request, workspace).decision for policy in policies]


def test_thinking_is_free(workspace: Workspace) -> None:
    assert verdicts(wants("think"), workspace) == ["allow", "ask", "allow", "allow"]


@pytest.mark.parametrize("kind", ["read", "search"])
def test_reads_are_judged_by_place(workspace: Workspace, inside: Path, kind: str) -> None:
    assert verdicts(wants(kind, inside), workspace) == ["allow", "ask", "allow", "allow"]
    assert verdicts(wants(kind, "/etc/passwd"), workspace) == ["deny", "ask", "ask", "allow"]
    assert verdicts(wants(kind, inside, "/etc/passwd"), workspace) == ["deny", "ask", "ask", "allow"]
    assert verdicts(wants(kind), workspace) == ["ask", "ask", "ask", "allow"]


def test_a_write_through_us_that_names_no_file_is_decided_with_the_file(workspace: Workspace, inside: Path) -> None:
    """Kimi Code 2.1.0 asks without a path, and then has us write the file."""
    assert verdicts(wants("edit", files_through_us=True), workspace) == ["deny", "ask", "allow", "allow"]
    assert verdicts(wants("edit", "/etc/passwd", files_through_us=True), workspace) == ["deny", "ask", "ask", "allow"]
    assert verdicts(wants("edit", inside, files_through_us=True), workspace) == ["deny", "ask", "allow", "allow"]
    for other in ({"kind": "delete"}, {"kind": "execute"}, {"kind": "edit", "command": "rm x"}, {"kind": "other"}):
        assert verdicts(wants(files_through_us=True, **other), workspace)[2] == "ask", other


def test_a_rule_about_files_decides_when_the_file_is_known(workspace: Workspace, inside: Path) -> None:
    policy = build_policy("edit-inside", user=(PolicyRule("deny", path="**/.env"),))
    assert policy.judge(wants("edit", files_through_us=True), workspace).decision == "allow"
    assert policy.judge(wants("edit", workspace.cwd / ".env", files_through_us=True), workspace).decision == "deny"
    assert policy.judge(wants("edit"), workspace).decision == "ask"


@pytest.mark.parametrize("kind", ["edit", "delete", "move"])
def test_writes_are_judged_by_place(workspace: Workspace, inside: Path, kind: str) -> None:
    assert verdicts(wants(kind, inside), workspace) == ["deny", "ask", "allow", "allow"]
    assert verdicts(wants(kind, "/etc/passwd"), workspace) == ["deny", "ask", "ask", "allow"]
    assert verdicts(wants(kind, inside, "/etc/passwd"), workspace) == ["deny", "ask", "ask", "allow"]
    assert verdicts(wants(kind), workspace) == ["deny", "ask", "ask", "allow"]


@pytest.mark.parametrize("folder", [".git", ".dragoman", ".GIT", "vendor/lib/.git"])
def test_writes_into_repositories_and_our_own_folder_are_asked(workspace: Workspace, folder: str) -> None:
    path = workspace.cwd / folder / "hooks" / "pre-commit"
    assert verdicts(wants("edit", path), workspace) == ["deny", "ask", "ask", "allow"]
    assert verdicts(wants("edit", path.parent.parent), workspace) == ["deny", "ask", "ask", "allow"]
    assert verdicts(wants("read", path), workspace) == ["allow", "ask", "allow", "allow"]


def test_a_file_that_only_looks_like_a_repository_is_a_file(workspace: Workspace) -> None:
    assert build_policy("edit-inside").judge(wants("edit", workspace.cwd / ".gitignore"), workspace).decision == "allow"


def test_a_link_into_the_repository_is_the_repository(workspace: Workspace) -> None:
    (workspace.cwd / ".git").mkdir()
    (workspace.cwd / "innocent").symlink_to(".git")
    assert (
        build_policy("edit-inside").judge(wants("edit", workspace.cwd / "innocent/config"), workspace).decision == "ask"
    )


def test_commands_are_asked_or_denied(workspace: Workspace, inside: Path) -> None:
    expected = ["deny", "ask", "ask", "allow"]
    assert verdicts(wants("execute"), workspace) == expected
    assert verdicts(wants("execute", inside, command="ls"), workspace) == expected


@pytest.mark.parametrize("kind", [*get_args(ToolKind), "unheard_of", ""])
def test_whatever_carries_a_command_is_a_command(workspace: Workspace, inside: Path, kind: str) -> None:
    assert verdicts(wants(kind, inside, command="ls"), workspace)[:3] == ["deny", "ask", "ask"]


@pytest.mark.parametrize("kind", ["read", "search", "think", "other"])
def test_whatever_carries_a_diff_is_a_write(workspace: Workspace, inside: Path, kind: str) -> None:
    diff = Diff(path="/etc/passwd", new_text="")
    request = wants(kind, inside, "/etc/passwd", diffs=(diff,))
    assert verdicts(request, workspace)[:3] == ["deny", "ask", "ask"]


@pytest.mark.parametrize(
    "raw_input",
    [
        {"file_path": "/etc/passwd"},
        {"filePath": "/etc/passwd"},
        {"destination": "/etc/passwd"},
        {"paths": ["a.txt", "/etc/passwd"]},
        {"path": "../other/file"},
        {"path": "~/.bashrc"},
        {"new_path": ".git/config"},
    ],
)
def test_a_path_in_the_input_counts_against_the_places_named(
    workspace: Workspace, inside: Path, raw_input: dict[str, Any]
) -> None:
    assert build_policy("edit-inside").judge(wants("edit", inside, raw_input=raw_input), workspace).decision == "ask"


def test_a_path_in_the_input_decides_where_the_agent_declares_none(workspace: Workspace, inside: Path) -> None:
    policy = build_policy("edit-inside")
    assert policy.judge(wants("edit", raw_input={"file_path": str(inside)}), workspace).decision == "allow"
    assert policy.judge(wants("edit", raw_input={"file_path": "/etc/passwd"}), workspace).decision == "ask"
    both = {"file_path": str(inside), "edits": [{"path": "/etc/passwd"}]}
    assert policy.judge(wants("edit", raw_input=both), workspace).decision == "ask"
    assert policy.judge(wants("other", raw_input={"file_path": str(inside)}), workspace).decision == "ask"


def test_text_in_the_input_is_no_path(workspace: Workspace, inside: Path) -> None:
    raw_input = {"file_path": "file.txt", "content": "/etc/passwd", "new_source": "/etc/passwd", "file": "/* a\n */"}
    assert build_policy("edit-inside").judge(wants("edit", inside, raw_input=raw_input), workspace).decision == "allow"


@pytest.mark.parametrize("kind", ["other", "switch_mode", "unheard_of", ""])
def test_the_unknown_is_asked_or_denied(workspace: Workspace, inside: Path, kind: str) -> None:
    assert verdicts(wants(kind, inside), workspace) == ["deny", "ask", "ask", "allow"]


def test_the_network_switch_decides_on_fetching(workspace: Workspace) -> None:
    assert verdicts(wants("fetch"), workspace) == ["deny", "ask", "ask", "allow"]
    assert verdicts(wants("fetch"), workspace, network=False) == ["deny"] * 4
    assert verdicts(wants("fetch"), workspace, network=True) == ["allow"] * 4
    assert verdicts(wants("read", raw_input={"url": "http://example.org"}), workspace, network=False) == ["deny"] * 4


def test_the_network_switch_allows_nothing_but_fetching(workspace: Workspace, inside: Path) -> None:
    assert verdicts(wants("fetch", inside, command="curl"), workspace, network=True) == ["deny", "ask", "ask", "allow"]


def test_the_web_search_switch_decides_on_searches_without_a_local_path(workspace: Workspace, inside: Path) -> None:
    assert verdicts(wants("search"), workspace, web_search=False) == ["deny"] * 4
    assert verdicts(wants("search"), workspace, web_search=True) == ["allow"] * 4
    assert verdicts(wants("search", inside), workspace, web_search=False) == ["allow", "ask", "allow", "allow"]


def test_the_reason_says_which_access_and_what_it_does(workspace: Workspace) -> None:
    assert (
        build_policy("read-only").judge(wants("execute"), workspace).reason == "access is read-only: it runs a command"
    )
    reason = build_policy("edit-inside").judge(wants("edit", "/etc/passwd"), workspace).reason
    assert reason.startswith("access is edit-inside: it writes, but /etc/passwd is outside the workspace")


@settings(deadline=None)
@given(
    kind=st.sampled_from([*get_args(ToolKind), ""]),
    command=st.none() | st.just("ls"),
    diff=st.booleans(),
    place=st.sampled_from(["", "file.txt", ".git/config", "/etc/passwd", "../x"]),
    network=st.none() | st.booleans(),
    web_search=st.none() | st.booleans(),
)
def test_more_access_never_allows_less_and_less_never_writes_or_runs(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    command: str | None,
    diff: bool,
    place: str,
    network: bool | None,
    web_search: bool | None,
) -> None:
    workspace = Workspace(tmp_path_factory.getbasetemp())
    paths = [str(workspace.cwd / place)] if place else []
    diffs = (Diff(path=paths[0], new_text=""),) if diff and paths else ()
    request = wants(kind, *paths, command=command, diffs=diffs)
    strict, ask, medium, full = verdicts(request, workspace, network=network, web_search=web_search)
    order = ["deny", "ask", "allow"]
    assert order.index(strict) <= order.index(medium) <= order.index(full)
    assert order.index(ask) <= order.index(full)
    if command or diffs or kind in ("edit", "delete", "move", "execute"):
        assert strict == "deny"
        assert ask in ("ask", "deny")


@pytest.mark.parametrize(
    ("text", "access"),
    [("ask", "ask"), ("low", "read-only"), ("medium", "edit-inside"), ("high", "full"), (" Full ", "full")],
)
def test_accesses_have_names_and_aliases(text: str, access: str) -> None:
    assert parse_access(text) == access


@pytest.mark.parametrize("text", ["", "yolo", "none", None, 3])
def test_another_word_is_answered_with_the_choices(text: Any) -> None:
    with pytest.raises(InputError, match=r"read-only \(or low\), ask, edit-inside \(or medium\), full \(or high\)"):
        parse_access(text)
