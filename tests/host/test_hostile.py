"""Hostile agents and repositories: an answer or rule about one thing must not allow another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import INVALID_REQUEST
from dragoman.host.permission import PermissionRequest, answer_later
from dragoman.host.permission_service import MAX_ANNOUNCED
from dragoman.host.policy.policy import build_policy
from dragoman.host.policy.remembered import derive
from dragoman.host.policy.rulebook import RuleSources
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.policy.tool_input import MAX_PATHS
from dragoman.host.question.form import MAX_SCHEMA_BYTES, read_form
from dragoman.host.requests import Requests
from dragoman.host.terminal import terminal, terminals
from dragoman.record import notes, rows
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.messages import Request
from dragoman.wire.vocabulary import Diff
from dragoman.workspace import Workspace

from .conftest import ALWAYS, NO, ONCE, TIMEOUT_S, Agent, Build
from .running import create, ran


def wants(workspace: Workspace, known: rows.ToolCall | None = None, **call: Any) -> PermissionRequest:
    params = msgspec.json.encode({"toolCall": {"toolCallId": "t", **call}, "options": [ONCE, NO]})
    return Requests("s", "claude", workspace).of_tool_call(msgspec.Raw(params), lambda _: known)


def known_call(**fields: Any) -> rows.ToolCall:
    return rows.ToolCall(id="t", tool_call_id="t", run_id=None, time=0.0, replayed=False, **fields)


def answer(workspace: Workspace, request: PermissionRequest, **rules: Any) -> str:
    return build_policy("edit-inside", **rules).judge(request, workspace).decision


def permission(request_id: int, title: str, path: Path, text: str) -> Request:
    diff = {"type": "diff", "path": str(path), "newText": text}
    call = {"toolCallId": title, "title": title, "kind": "edit", "content": [diff]}
    params = msgspec.json.encode({"sessionId": "a1", "toolCall": call, "options": [ONCE, NO, ALWAYS]})
    return Request(request_id, "session/request_permission", msgspec.Raw(params), b"")


# -- commands


def put_program(workspace: Workspace) -> None:
    """Create an executable file whose path reads like `ls` with an argument."""
    (workspace.cwd / "ls a").mkdir()
    program = workspace.cwd / "ls a" / "b"
    program.write_text("#!/bin/sh\necho taken in\n")
    program.chmod(0o755)


@pytest.mark.attempts("false requests")
async def test_a_file_whose_name_reads_like_a_command_is_not_allowed_by_that_commands_rule(
    agent_with: Build, workspace: Workspace
) -> None:
    put_program(workspace)
    agent = agent_with(session=(PolicyRule("allow", command="ls *"),))
    error = await agent.refused("terminal/create", command="ls a/b")
    assert error.message.startswith("terminal/create ('ls a/b') was not allowed: nobody to ask")


@pytest.mark.attempts("false requests")
async def test_a_program_that_comes_while_its_line_is_asked_about_is_not_run(
    agent_with: Build, workspace: Workspace
) -> None:
    def allows(request: PermissionRequest) -> bool:
        put_program(workspace)
        return True

    agent = agent_with(on_permission=allows)
    error = await agent.refused("terminal/create", command="ls a/b")
    assert error.message == "command: 'ls a/b' is now another command than the one that was approved"


@pytest.mark.attempts("false requests")
async def test_a_folder_that_is_exchanged_while_it_is_asked_about_is_not_run_in(
    agent_with: Build, workspace: Workspace, tmp_path: Path
) -> None:
    folder = workspace.cwd / "sub"
    folder.mkdir()
    (workspace.cwd / "other").mkdir()

    def allows(request: PermissionRequest) -> bool:
        folder.rmdir()
        folder.symlink_to(workspace.cwd / "other")
        return True

    agent = agent_with(on_permission=allows)
    error = await agent.refused("terminal/create", command="ls", cwd=str(folder))
    assert error.message == f"cwd: {folder} now leads to another folder than the one that was approved"


@pytest.mark.attempts("false requests")
async def test_a_command_that_starts_while_the_session_closes_is_ended_with_it(
    agent_with: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_with(access="full")
    starting, go_on, started = asyncio.Event(), asyncio.Event(), []
    start = terminal.start

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        starting.set()
        await go_on.wait()
        started.append(await start(*args, **kwargs))
        return started[0]

    monkeypatch.setattr(terminals, "start", slowly)
    async with asyncio.timeout(TIMEOUT_S):
        creating = asyncio.create_task(create(agent, "sleep", "1000"))
        await starting.wait()
        await agent.host.close()
        go_on.set()
        with pytest.raises(RpcRefusal, match="the session is closed"):
            await creating
    assert started[0].ended


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize("rows_", [2**70, 10**9, -1, 0])
async def test_a_terminal_of_any_size_is_one_that_a_terminal_can_have(agent_with: Build, rows_: int) -> None:
    answer = await ran(agent_with(access="full"), "echo", "hi", _meta={"dragoman": {"rows": rows_}})
    assert answer["output"] == "hi\n"


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize(
    "given",
    [
        {"command": "git status", "cmd": "rm -rf /"},
        {"command": "git status", "cmd": "rm", "args": ["-rf", "/"]},
        {"command": "git", "args": ["push"]},
        {"command": "git status", "args": {"x": 1}},
        {"cmd": "git status", "workdir": "/elsewhere"},
        {"command": "git status", "ENV": [{"name": "GIT_DIR", "value": "x"}]},
    ],
)
def test_a_command_is_all_that_the_input_says_of_it(workspace: Workspace, given: dict[str, Any]) -> None:
    request = wants(workspace, kind="execute", rawInput=given)
    assert answer(workspace, request, user=[PolicyRule("allow", command="git status")]) == "ask"


def test_a_question_shows_a_command_with_its_arguments(workspace: Workspace) -> None:
    assert wants(workspace, rawInput={"command": "npm", "args": ["publish", "a b"]}).command == "npm publish 'a b'"
    assert wants(workspace, rawInput={"command": "a", "cmd": "b"}).command == '{"command":"a","cmd":"b"}'


@pytest.mark.attempts("false requests")
def test_what_was_said_of_a_command_before_counts_though_the_question_has_an_input_of_its_own(
    workspace: Workspace,
) -> None:
    before = {"command": "make", "env": {"SHELL": "./x"}, "cwd": "/elsewhere"}
    request = wants(workspace, known_call(raw_input=before), kind="execute", rawInput={"description": "build it"})
    assert request.command == "make"
    assert answer(workspace, request, user=[PolicyRule("allow", command="make")]) == "ask"


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize(
    ("line", "answer_"),
    [
        ("cd sub && make", "ask"),
        ("cd {cwd}/sub && make", "ask"),
        ("cd . && make", "allow"),
        ("cd /tmp && make", "ask"),
        ("cd .. && make", "ask"),
        ("cd && make", "ask"),
        ("cd - && make", "ask"),
        ("cd sub/../.. && make", "ask"),
        ("cd out && make", "ask"),
        ("cd sub && cd out && make", "ask"),
    ],
)
def test_a_command_that_goes_elsewhere_first_is_not_the_one_that_was_allowed(
    workspace: Workspace, line: str, answer_: str
) -> None:
    (workspace.cwd / "sub").mkdir()
    (workspace.cwd / "out").symlink_to("/")
    rules = [PolicyRule("allow", command=["cd *", "cd", "make"])]
    request = wants(workspace, kind="execute", rawInput={"command": line.format(cwd=workspace.cwd)})
    assert answer(workspace, request, user=rules) == answer_


@pytest.mark.parametrize("line", ["cd sub && make", "cd {cwd}/sub && make", "cd sub; make", "(cd sub && make)"])
def test_a_rule_that_names_the_folder_allows_a_command_there(workspace: Workspace, line: str) -> None:
    (workspace.cwd / "sub").mkdir()
    request = wants(workspace, kind="execute", rawInput={"command": line.format(cwd=workspace.cwd)})
    for folder, expected in (([".", "sub"], "allow"), (["**"], "allow"), (["sub"], "ask"), ([".", "su"], "ask")):
        rules = [PolicyRule("allow", command="cd *"), PolicyRule("allow", command="make", folder=folder)]
        assert answer(workspace, request, user=rules) == expected


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize("line", ["git --git-dir=made status", "git --git-dir made status"])
def test_a_repository_elsewhere_is_not_the_one_that_git_is_allowed_in(workspace: Workspace, line: str) -> None:
    request = wants(workspace, kind="execute", rawInput={"command": line})
    assert answer(workspace, request, user=[PolicyRule("allow", command="git *")]) == "ask"
    assert answer(workspace, request, user=[PolicyRule("deny", command="git status")]) == "deny"


# -- kinds that are not what they say


@pytest.mark.attempts("false requests")
def test_a_search_in_files_is_no_search_of_the_web(workspace: Workspace) -> None:
    request = wants(workspace, kind="search", rawInput={"path": "/etc/shadow", "pattern": "."})
    assert answer(workspace, request, web_search=True) == "ask"
    assert build_policy("read-only", web_search=True).judge(request, workspace).decision == "deny"


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize(
    "url",
    ["file:///etc/shadow", "FILE:/etc/shadow", " file://localhost/etc/%73hadow", "file://else/etc/shadow", "file:x"],
)
@pytest.mark.parametrize("key", ["url", "URL", "uri"])
def test_a_file_is_read_also_where_it_is_fetched(workspace: Workspace, url: str, key: str) -> None:
    request = wants(workspace, kind="fetch", rawInput={key: url})
    assert answer(workspace, request, network=True) == "ask"
    assert answer(workspace, request, network=True, user=[PolicyRule("allow", kind="read", where="inside")]) == "ask"


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize("kind", ["think", "fetch"])
def test_what_names_a_file_does_more_than_think_or_fetch(workspace: Workspace, kind: str) -> None:
    raw_input = (
        {"url": "https://example.org/x", "output_path": "/outside"} if kind == "fetch" else {"file_path": "/outside"}
    )
    assert answer(workspace, wants(workspace, kind=kind, rawInput=raw_input), network=True) == "ask"


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize(
    "raw_input",
    [
        {"edits": [{"file_path": "/outside"}]},
        {"options": {"deep": [[{"target": "/outside"}]]}},
        {"file_name": "/outside"},
        {"directories": ["/outside"]},
        {"path": "/outside\n"},
    ],
)
def test_a_file_deep_in_the_input_counts_too(workspace: Workspace, raw_input: dict[str, Any]) -> None:
    where = [{"path": str(workspace.cwd / "a")}]
    assert answer(workspace, wants(workspace, kind="edit", locations=where, rawInput=raw_input)) == "ask"


@pytest.mark.attempts("false requests")
def test_more_files_than_anyone_reads_are_asked_about_and_not_looked_up(workspace: Workspace) -> None:
    many = [{"path": str(workspace.cwd / f"{number}")} for number in range(MAX_PATHS + 1)]
    assert answer(workspace, wants(workspace, kind="edit", locations=many[:-1])) == "allow"
    assert answer(workspace, wants(workspace, kind="edit", locations=many)) == "ask"
    raw_input = {"files": [*[str(workspace.cwd / "a")] * MAX_PATHS, "/outside"]}
    assert answer(workspace, wants(workspace, kind="edit", locations=many[:1], rawInput=raw_input)) == "ask"
    full = build_policy("full", user=[PolicyRule("deny", path=str(MAX_PATHS))])
    assert full.judge(wants(workspace, kind="edit", locations=many), workspace).decision == "ask"


# -- guards


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize(
    "name",
    [".g\u200cit", ".git.", ".git ", ".git::$INDEX_ALLOCATION", "GIT~1", "git~12", ".dragoman. .", "DRAGOM~1", ".GiT"],
)
def test_protected_folders_are_so_by_every_name_that_a_file_system_knows_them_by(
    workspace: Workspace, name: str
) -> None:
    request = wants(workspace, kind="edit", locations=[{"path": str(workspace.cwd / "sub" / name / "config")}])
    assert answer(workspace, request) == "ask"


@pytest.mark.parametrize("name", [".github/x", "git~", "x.git", ".gitignore", "digit~1"])
def test_names_that_are_only_like_those_are_free(workspace: Workspace, name: str) -> None:
    assert answer(workspace, wants(workspace, kind="edit", locations=[{"path": str(workspace.cwd / name)}])) == "allow"


@pytest.mark.attempts("false requests")
def test_the_workspace_itself_is_not_deleted_unasked(workspace: Workspace) -> None:
    assert answer(workspace, wants(workspace, kind="delete", locations=[{"path": str(workspace.cwd)}])) == "ask"


@pytest.mark.attempts("false requests")
def test_one_folder_in_our_home_does_not_open_the_rest_of_it(tmp_path: Path) -> None:
    (tmp_path / "home" / "tree").mkdir(parents=True)
    workspace = Workspace(tmp_path, [tmp_path / "home" / "tree"])
    policy = build_policy("edit-inside", home=tmp_path / "home")
    for name, decision in (("tree/a", "allow"), ("remembered.json", "ask")):
        request = wants(workspace, kind="edit", locations=[{"path": str(tmp_path / "home" / name)}])
        assert policy.judge(request, workspace).decision == decision


@pytest.mark.attempts("false requests")
async def test_rules_that_cannot_be_read_let_nothing_be_read(
    agent_with: Build, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (workspace.cwd / ".env").write_text("KEY=1")
    agent = agent_with(sources=RuleSources(tmp_path / "home", (PolicyRule("deny", path=".env"),)))
    (workspace.cwd / ".dragoman" / "policy.toml").mkdir(parents=True)
    error = await agent.refused("fs/read_text_file", path=str(workspace.cwd / ".env"))
    assert "nobody to ask" in error.message


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize("access", ["ask", "edit-inside", "read-only"])
async def test_the_keys_in_our_home_are_not_read_unasked_though_they_are_in_the_workspace(
    tmp_path: Path, access: Any
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secrets").write_text("KEY=1")
    (tmp_path / "free").write_text("text")
    agent = Agent(Workspace(tmp_path), access=access, sources=RuleSources(tmp_path / "home"))
    error = await agent.refused("fs/read_text_file", path=str(tmp_path / "home" / "secrets"))
    assert "nobody to ask" in error.message
    assert await agent.ask("fs/read_text_file", path=str(tmp_path / "free")) == {"content": "text"}
    await agent.host.close()


# -- answers that are meant for something else


@pytest.mark.attempts("false requests")
async def test_of_two_requests_with_one_id_no_answer_counts_for_the_other(
    agent_with: Build, workspace: Workspace
) -> None:
    shown: list[str] = []

    def allows(request: PermissionRequest) -> bool:
        shown.append(request.title)
        return True

    agent = agent_with(on_permission=allows)
    bad, good = (permission(7, name, workspace.cwd / "x", name) for name in ("bad", "good"))
    agent.host.announce(bad)
    agent.host.announce(good)
    answers = await asyncio.gather(agent.host.serve(bad), agent.host.serve(good), return_exceptions=True)
    assert shown == ["bad"]
    assert agent.host.pending == 0
    assert isinstance(answers[1], RpcRefusal)
    assert answers[1].error.code == INVALID_REQUEST


@pytest.mark.attempts("false requests")
async def test_a_question_that_was_taken_back_is_not_shown_in_place_of_the_next_with_its_id(
    agent_with: Build, workspace: Workspace
) -> None:
    shown: list[str] = []

    def allows(request: PermissionRequest) -> bool:
        shown.append(request.title)
        return request.title == "good"

    agent = agent_with(on_permission=allows)
    good, bad = (permission(7, name, workspace.cwd / "x", name) for name in ("good", "bad"))
    agent.host.announce(good)  # taken back before it is served
    agent.host.announce(bad)
    assert agent.host.pending == 1
    result = await agent.host.serve(bad)
    assert shown == ["bad"]
    assert msgspec.to_builtins(result)["outcome"]["optionId"] == "no"


@pytest.mark.attempts("false requests")
async def test_questions_that_are_taken_back_again_and_again_are_not_kept(
    agent_with: Build, workspace: Workspace
) -> None:
    agent = agent_with(on_permission=answer_later)
    for number in range(MAX_ANNOUNCED + 10):
        agent.host.announce(permission(number, "x", workspace.cwd / "x", "x"))
    assert agent.host.pending == MAX_ANNOUNCED


@pytest.mark.attempts("false requests")
async def test_a_late_answer_by_id_does_not_reach_a_second_request_with_it(
    agent_with: Build, workspace: Workspace
) -> None:
    agent = agent_with(on_permission=answer_later)
    first, second = (permission(7, name, workspace.cwd / "x", name) for name in ("first", "second"))
    async with asyncio.timeout(TIMEOUT_S):
        agent.host.announce(first)
        serving = asyncio.create_task(agent.host.serve(first))
        await asyncio.sleep(0)
        agent.host.announce(second)
        with pytest.raises(RpcRefusal):
            await agent.host.serve(second)
        assert agent.host.pending == 1
        assert agent.host.permissions.answer(7, True)
        await serving
        assert not agent.host.permissions.answer(7, True)


@pytest.mark.attempts("false requests")
async def test_what_a_person_approved_is_what_was_announced_to_them(agent_with: Build, workspace: Workspace) -> None:
    path = str(workspace.cwd / "x")
    known: dict[str, rows.ToolCall] = {}
    shown: list[str] = []

    def tells(text: str) -> None:
        known["t"] = known_call(kind="edit", content=(Diff(path=path, new_text=text),))

    def allows(request: PermissionRequest) -> bool:
        shown.append(request.diffs[0].new_text)
        return request.origin == "agent"

    agent = agent_with(on_permission=allows, known=known.get)
    params = msgspec.json.encode({"sessionId": "a1", "toolCall": {"toolCallId": "t"}, "options": [ONCE, NO]})
    request = Request(99, "session/request_permission", msgspec.Raw(params), b"")
    tells("good")
    agent.host.announce(request)
    tells("bad")
    await agent.host.serve(request)
    await agent.refused("fs/write_text_file", path=path, content="bad")
    assert shown == ["good", "bad"]


@pytest.mark.attempts("false requests")
async def test_an_approval_is_for_the_folder_that_was_shown_by_whatever_key(
    agent_with: Build, workspace: Workspace
) -> None:
    (workspace.cwd / "sub").mkdir()
    agent = agent_with(on_permission=lambda request: request.origin == "agent")
    raw_input = {"command": "rm -rf *", "workdir": str(workspace.cwd / "sub")}
    await agent.permission(ONCE, NO, kind="execute", rawInput=raw_input)
    error = await agent.refused("terminal/create", command="rm -rf *")
    assert "was not allowed" in error.message


@pytest.mark.attempts("false requests")
def test_always_to_one_tools_search_is_no_yes_to_anothers(workspace: Workspace) -> None:
    made = derive(wants(workspace, kind="search", name="Grep", rawInput={"pattern": "x"}), workspace, "allow").rules
    assert answer(workspace, wants(workspace, kind="search", name="Grep"), remembered=made) == "allow"
    assert answer(workspace, wants(workspace, kind="search", name="WebSearch"), remembered=made) == "ask"


@pytest.mark.attempts("false requests")
def test_always_to_a_command_in_one_folder_is_no_yes_to_it_in_all(workspace: Workspace) -> None:
    (workspace.cwd / "build").mkdir()
    line = {"command": "rm -rf *"}
    below = wants(workspace, kind="execute", rawInput={**line, "cwd": "build"})
    there = derive(below, workspace, "allow")
    assert answer(workspace, below, remembered=there.rules) == "allow"
    assert answer(workspace, wants(workspace, kind="execute", rawInput=line), remembered=there.rules) == "ask"
    made = derive(wants(workspace, kind="execute", rawInput={**line, "cwd": f"{workspace.cwd}/"}), workspace, "allow")
    assert answer(workspace, wants(workspace, kind="execute", rawInput=line), remembered=made.rules) == "allow"
    assert answer(workspace, below, remembered=made.rules) == "ask"


@pytest.mark.attempts("false requests")
async def test_values_of_the_environment_are_not_noted_with_a_decision(
    agent_with: Build, workspace: Workspace, tmp_path: Path
) -> None:
    def always(request: PermissionRequest) -> Any:
        return request.allow(always=True)

    agent = agent_with(on_permission=always, sources=RuleSources(tmp_path / "home"))
    await ran(agent, "echo", "hi", env=[{"name": "KEY", "value": "hunter2"}])
    (decision,) = (note for note in agent.notes if isinstance(note, notes.Decision))
    assert "KEY=…" in decision.reason
    assert not any("hunter2" in repr(note) for note in agent.notes)


# -- what takes too long


@pytest.mark.attempts("false requests")
@pytest.mark.parametrize(
    "rule",
    [
        PolicyRule("deny", tool="*a*a*a*a*a*a*b"),
        PolicyRule("deny", mcp="*a*a*a*a/*a*a*b"),
        PolicyRule("deny", path="*a*a*a*a*a*a*b"),
    ],
)
def test_no_text_of_the_agents_makes_a_pattern_take_for_ever(workspace: Workspace, rule: PolicyRule) -> None:
    long = "a" * 200_000
    request = wants(workspace, name=f"mcp__{long}__{long}", title=long, kind="other", rawInput={"path": f"/{long}"})
    assert answer(workspace, request, user=[rule]) == "ask"


@pytest.mark.attempts("false requests")
def test_a_form_that_nobody_could_fill_in_is_not_read() -> None:
    fields = {f"field {number}": {"type": "string"} for number in range(MAX_SCHEMA_BYTES // 20)}
    with pytest.raises(msgspec.ValidationError, match="at most"):
        read_form(msgspec.json.encode({"type": "object", "properties": fields}))
