"""`session/request_permission`, from the agent's request to the answer that it gets."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.host.permission import PermissionAnswer, PermissionRequest
from dragoman.host.permission_service import nobody_to_ask
from dragoman.host.requests import AgentTools
from dragoman.record import rows
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace

from .conftest import ALWAYS, NO, ONCE, TIMEOUT_S, Agent, Build

YES_ONCE = {"outcome": "selected", "optionId": "yes"}
NO_ONCE = {"outcome": "selected", "optionId": "no"}
CANCELLED = {"outcome": "cancelled"}


class Person:
    """A callback that answers when told to."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[PermissionRequest] = asyncio.Queue()
        self.answers: dict[str, asyncio.Future[Any]] = {}
        self.ended: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, request: PermissionRequest) -> Any:
        answer = self.answers[request.title] = asyncio.get_running_loop().create_future()
        self.requests.put_nowait(request)
        try:
            return await answer
        finally:
            self.ended.put_nowait(request.title)


# -- who answers


async def test_access_answers_by_the_options_kind(agent_with: Build, workspace: Workspace) -> None:
    agent = agent_with(access="edit-inside")
    where = [{"path": str(workspace.cwd / "a.txt")}]
    assert await agent.permission(kind="edit", locations=where) == YES_ONCE
    assert agent.decisions == [(1, "rule", "access is edit-inside: it writes inside the workspace")]


async def test_a_refusal_is_a_selected_option(agent_with: Build) -> None:
    agent = agent_with(access="read-only")
    assert await agent.permission(kind="execute") == NO_ONCE
    assert agent.decisions == [(1, "rule", "access is read-only: it runs a command")]


async def test_a_refusal_without_an_option_for_it_is_cancelled(agent_with: Build) -> None:
    assert await agent_with(access="read-only").permission(ONCE, ALWAYS, kind="execute") == CANCELLED


async def test_full_access_takes_always_only_where_nothing_else_is_offered(agent_with: Build) -> None:
    agent = agent_with(access="full")
    assert await agent.permission(NO, ALWAYS, kind="execute") == {"outcome": "selected", "optionId": "yes-always"}


async def test_an_allowance_without_an_option_for_it_is_cancelled_and_says_why(agent_with: Build) -> None:
    agent = agent_with(access="full")
    assert await agent.permission(NO, kind="execute") == CANCELLED
    assert "access is full, but the agent offers no option that allows" in agent.decisions[0][2]


async def test_without_anyone_to_ask_it_is_denied_and_the_reason_names_the_option(agent_with: Build) -> None:
    agent = agent_with()
    assert await agent.permission(kind="edit") == NO_ONCE
    assert agent.decisions == [(1, "default", nobody_to_ask("ask"))]
    assert "on_permission=" in nobody_to_ask("ask")
    assert "access='edit-inside'|'full' (command line: --access)" in nobody_to_ask("ask")


async def test_a_reason_never_advises_the_access_that_is_set(agent_with: Build) -> None:
    agent = agent_with(access="edit-inside")
    await agent.permission(kind="execute", rawInput={"command": "make"})
    [(_, by, reason)] = agent.decisions
    assert (by, "'full'" in reason, "edit-inside" in reason) == ("default", True, False)
    assert "--access" not in nobody_to_ask("full")


async def test_the_kind_of_a_known_tool_counts_where_the_agent_tells_none(agent_with: Build) -> None:
    """goose 1.34.0 asks about its own tools with the kind `other`."""
    tools = AgentTools(kinds={"write": "edit"})
    agent = agent_with(access="edit-inside", tools=tools)
    path = str(agent.workspace.cwd / "a.txt")
    outside = {"path": "/etc/passwd", "content": "x"}
    assert await agent.permission(title="write", kind="other", rawInput={"path": path, "content": "x"}) == YES_ONCE
    assert await agent.permission(title="write", kind="other", rawInput=outside) == NO_ONCE
    assert await agent.permission(title="notes: write", kind="other", rawInput={"path": path}) == NO_ONCE
    assert await agent.permission(title="write", kind="execute", rawInput={"path": path}) == NO_ONCE


async def test_a_tool_may_be_named_in_meta(agent_with: Build) -> None:
    """Qwen Code 0.24.4 names the tool in `_meta.toolName`."""
    requests: list[PermissionRequest] = []

    async def ask(request: PermissionRequest) -> bool:
        requests.append(request)
        return True

    tools = AgentTools(name_fields=("_meta.toolName", "_meta.goose.toolCall.toolName"))
    agent = agent_with(on_permission=ask, tools=tools)
    await agent.permission(_meta={"toolName": "mcp__notes__add"})
    await agent.permission(_meta={"goose": {"toolCall": {"toolName": "notes__add"}}})
    await agent.permission(name="Bash", _meta={"toolName": "mcp__notes__add"})
    for meta in ({"toolName": 7}, {"toolName": ""}, {"goose": "x"}, {}):
        await agent.permission(_meta=meta)
    assert [request.name for request in requests] == ["mcp__notes__add", "notes__add", "Bash", *[None] * 4]


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (True, YES_ONCE),
        (False, NO_ONCE),
        ("yes-always", {"outcome": "selected", "optionId": "yes-always"}),
        (None, CANCELLED),
    ],
)
async def test_a_plain_function_answers(agent_with: Build, reply: Any, outcome: dict[str, str]) -> None:
    agent = agent_with(on_permission=lambda _: reply)
    assert await agent.permission() == outcome
    assert agent.decisions[0][1] == "callback"


async def test_a_coroutine_function_answers(agent_with: Build) -> None:
    async def answer(request: PermissionRequest) -> PermissionAnswer:
        return request.allow(always=True)

    outcome = await agent_with(on_permission=answer).permission()
    assert outcome == {"outcome": "selected", "optionId": "yes-always"}


async def test_callbacks_of_every_shape_answer(agent_with: Build) -> None:
    async def coroutine(answer: bool, request: PermissionRequest) -> bool:
        return answer

    class Object:
        async def __call__(self, request: PermissionRequest) -> bool:
            asyncio.get_running_loop()  # not in a thread
            return True

    for callback in (functools.partial(coroutine, True), lambda request: coroutine(True, request), Object()):
        assert await agent_with(on_permission=callback).permission() == YES_ONCE


@pytest.mark.parametrize(
    "reply", ["no-such-option", 1, {"outcome": "allow"}, PermissionAnswer("selected", "nope", allowed=True)]
)
async def test_nonsense_denies_and_the_reason_says_so(agent_with: Build, reply: Any) -> None:
    agent = agent_with(on_permission=lambda _: reply)
    assert await agent.permission() == NO_ONCE
    assert agent.decisions[0][1] == "callback"
    assert agent.decisions[0][2].startswith("denied: on_permission failed: InputError: ")


@pytest.mark.parametrize("problem", [ValueError("oh"), StopIteration("oh"), SystemExit("oh")])
async def test_a_callback_that_raises_denies_and_the_reason_says_so(agent_with: Build, problem: BaseException) -> None:
    def fail(request: PermissionRequest) -> bool:
        raise problem

    agent = agent_with(on_permission=fail)
    assert await agent.permission() == NO_ONCE
    assert "denied: on_permission failed" in agent.decisions[0][2]
    assert "oh" in agent.decisions[0][2]


async def test_a_callback_that_is_cancelled_by_others_denies(agent_with: Build) -> None:
    async def fail(request: PermissionRequest) -> bool:
        raise asyncio.CancelledError

    agent = agent_with(on_permission=fail)
    assert await agent.permission() == NO_ONCE
    assert agent.decisions[0][1:] == ("callback", "denied: on_permission was itself cancelled")


async def test_a_plain_function_that_waits_stops_nothing_else(agent_with: Build) -> None:
    released = threading.Event()
    agent = agent_with(on_permission=lambda request: released.wait(TIMEOUT_S) if request.title == "slow" else True)
    slow = asyncio.create_task(agent.permission(title="slow"))
    assert await agent.permission(title="quick") == YES_ONCE
    assert not slow.done()
    released.set()
    assert await slow == YES_ONCE


async def test_the_decision_is_noted_before_the_answer_and_without_a_note_there_is_no_answer(agent_with: Build) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    agent = agent_with(access="full", note=fail)
    with pytest.raises(OSError, match="disk full"):
        await agent.permission()


# -- many, and cancelled


async def test_two_requests_at_once_get_each_its_own_answer(agent_with: Build) -> None:
    person = Person()
    agent = agent_with(on_permission=person)
    first = asyncio.create_task(agent.permission(title="first"))
    second = asyncio.create_task(agent.permission(title="second"))
    async with asyncio.timeout(TIMEOUT_S):
        assert {(await person.requests.get()).title, (await person.requests.get()).title} == {"first", "second"}
        assert agent.host.pending == 2
        person.answers["second"].set_result(False)
        assert await second == NO_ONCE
        assert not first.done()
        person.answers["first"].set_result(True)
        assert await first == YES_ONCE
    assert agent.host.pending == 0


async def test_cancel_pending_answers_all_that_wait_at_once(agent_with: Build) -> None:
    person = Person()
    agent = agent_with(on_permission=person)
    tasks = [asyncio.create_task(agent.permission(title=f"request {number}")) for number in range(5)]
    async with asyncio.timeout(TIMEOUT_S):
        for _ in tasks:
            await person.requests.get()
        agent.host.cancel_pending()
        assert await asyncio.gather(*tasks) == [CANCELLED] * 5
        for _ in tasks:
            await person.ended.get()  # nobody is shown a question that no longer counts
    assert {by for _, by, _ in agent.decisions} == {"cancel"}
    assert agent.host.pending == 0


async def test_a_late_answer_gains_nothing(agent_with: Build) -> None:
    was_asked, released, answered = threading.Event(), threading.Event(), threading.Event()

    def slow(request: PermissionRequest) -> bool:
        was_asked.set()
        released.wait(TIMEOUT_S)
        answered.set()
        return True

    agent = agent_with(on_permission=slow)
    async with asyncio.timeout(TIMEOUT_S):
        asking = asyncio.create_task(agent.permission())
        await asyncio.to_thread(was_asked.wait, TIMEOUT_S)
        agent.host.cancel_pending()
        assert await asking == CANCELLED
        released.set()
        await asyncio.to_thread(answered.wait, TIMEOUT_S)
    assert [by for _, by, _ in agent.decisions] == ["cancel"]


async def test_an_answer_that_comes_with_the_cancel_loses(agent_with: Build) -> None:
    person = Person()
    agent = agent_with(on_permission=person)
    asking = asyncio.create_task(agent.permission(title="x"))
    async with asyncio.timeout(TIMEOUT_S):
        await person.requests.get()
        person.answers["x"].set_result(True)
        agent.host.cancel_pending()
        assert await asking == CANCELLED


async def test_a_late_coroutine_is_never_awaited_and_nobody_complains(agent_with: Build) -> None:
    was_asked, released, answered = threading.Event(), threading.Event(), threading.Event()

    async def late() -> bool:
        return True

    def slow(request: PermissionRequest) -> Any:
        was_asked.set()
        released.wait(TIMEOUT_S)
        answered.set()
        return late()

    agent = agent_with(on_permission=slow)
    async with asyncio.timeout(TIMEOUT_S):
        asking = asyncio.create_task(agent.permission())
        await asyncio.to_thread(was_asked.wait, TIMEOUT_S)
        agent.host.cancel_pending()
        await asking
        released.set()
        await asyncio.to_thread(answered.wait, TIMEOUT_S)
    gc.collect()


async def test_the_next_request_after_a_cancel_is_asked_again(agent_with: Build) -> None:
    agent = agent_with(on_permission=lambda _: True)
    agent.host.cancel_pending()
    assert await agent.permission() == YES_ONCE


async def test_a_run_that_is_being_cancelled_gets_nothing_more_even_by_access(agent_with: Build) -> None:
    agent = agent_with(access="full")
    agent.host.cancel_pending(rest_of_run=True)
    assert await agent.permission() == CANCELLED
    agent.host.run_ended()
    assert await agent.permission() == YES_ONCE


async def test_a_request_that_the_agent_withdraws_is_no_longer_asked(agent_with: Build) -> None:
    person = Person()
    agent = agent_with(on_permission=person)
    asking = asyncio.create_task(agent.permission(title="x"))
    async with asyncio.timeout(TIMEOUT_S):
        await person.requests.get()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await person.ended.get()
    assert agent.host.pending == 0
    assert agent.decisions[0][1] == "cancel"


async def test_a_closed_host_cancels_what_waits_and_serves_no_more(agent_with: Build) -> None:
    person = Person()
    agent = agent_with(on_permission=person)
    asking = asyncio.create_task(agent.permission())
    async with asyncio.timeout(TIMEOUT_S):
        await person.requests.get()
        await agent.host.close()
        assert await asking == CANCELLED
    error = await agent.refused("session/request_permission")
    assert "closed" in error.message


# -- what the callback is shown


async def shown(agent_with: Build, known: rows.ToolCall | None = None, **tool_call: Any) -> PermissionRequest:
    seen: list[PermissionRequest] = []
    agent = agent_with(on_permission=seen.append, known=lambda _: known)
    await agent.permission(**tool_call)
    return seen[0]


async def test_the_request_is_shown_whole(agent_with: Build, workspace: Workspace) -> None:
    request = await shown(
        agent_with,
        title="Write a.txt",
        name="Write",
        kind="edit",
        locations=[{"path": "/x/a.txt", "line": 3}],
        content=[
            {"type": "content", "content": {"type": "text", "text": "why"}},
            {"type": "diff", "path": "/x/b.txt", "oldText": "old", "newText": "new"},
            {"type": "diff", "path": "/x/a.txt", "newText": "new"},
        ],
        rawInput={"file_path": "/x/a.txt"},
    )
    assert (request.session_id, request.tool_call_id, request.origin) == ("s1", "t1", "agent")
    assert (request.title, request.name, request.kind) == ("Write a.txt", "Write", "edit")
    assert request.paths == ("/x/a.txt", "/x/b.txt")
    assert [(diff.path, diff.old_text, diff.new_text) for diff in request.diffs] == [
        ("/x/b.txt", "old", "new"),
        ("/x/a.txt", None, "new"),
    ]
    assert request.raw_input == {"file_path": "/x/a.txt"}
    assert [(option.id, option.name, option.kind) for option in request.options] == [
        ("yes-always", "Yes, always", "allow_always"),
        ("no", "No", "reject_once"),
        ("yes", "Yes", "allow_once"),
    ]


async def test_a_relative_location_is_taken_from_the_workspace(agent_with: Build, workspace: Workspace) -> None:
    request = await shown(agent_with, locations=[{"path": "a.txt"}])
    assert request.paths == (str(workspace.cwd / "a.txt"),)


@pytest.mark.parametrize(
    ("raw_input", "command"),
    [
        ({"command": "ls -l"}, "ls -l"),
        ({"cmd": "ls -l"}, "ls -l"),
        ({"command": ["bash", "-lc", "ls -l"]}, "bash -lc 'ls -l'"),
        ({"command": "", "cmd": "ls"}, "ls"),
        ({"command": {"program": "ls"}}, '{"program":"ls"}'),
        ({"command": []}, None),
        ({"description": "ls"}, None),
        ("ls", None),
        (None, None),
    ],
)
async def test_the_command_is_found_in_the_input(agent_with: Build, raw_input: Any, command: str | None) -> None:
    assert (await shown(agent_with, rawInput=raw_input)).command == command


async def test_what_a_request_leaves_out_is_taken_from_the_tool_call(agent_with: Build) -> None:
    known = rows.ToolCall(
        id="tool_call-1",
        tool_call_id="t1",
        run_id=None,
        time=0,
        replayed=False,
        title="Bash",
        kind="execute",
        raw_input={"command": "make"},
        locations=(acp.ToolCallLocation(path="/x"),),
        content=(acp.Diff(path="/y", new_text=""),),
    )
    request = await shown(agent_with, known, title="", rawInput={})
    assert (request.title, request.kind, request.command) == ("Bash", "execute", "make")
    assert request.paths == ("/x", "/y")


async def test_a_request_cannot_hide_the_command_that_its_tool_call_had(agent_with: Build) -> None:
    known = rows.ToolCall(
        id="tool_call-1", tool_call_id="t1", run_id=None, time=0, replayed=False, raw_input={"command": "make"}
    )
    request = await shown(agent_with, known, kind="read", rawInput={"path": "/x"})
    assert request.command == "make"


# -- malformed


@pytest.mark.parametrize(
    ("params", "named"),
    [
        (None, "toolCall"),
        ({}, "toolCall"),
        ({"toolCall": {"toolCallId": "t"}}, "options"),
        ({"toolCall": {}, "options": []}, "toolCallId"),
        ({"toolCall": {"toolCallId": 5}, "options": []}, "toolCallId"),
        ({"toolCall": {"toolCallId": "t"}, "options": [{"name": "x", "kind": "allow_once"}]}, "optionId"),
        ({"toolCall": {"toolCallId": "t"}, "options": [{"optionId": "x", "kind": 7}]}, "kind"),
        ({"toolCall": {"toolCallId": "t"}, "options": "yes"}, "options"),
    ],
)
async def test_malformed_params_are_refused_by_the_fields_name(agent_with: Build, params: Any, named: str) -> None:
    agent = agent_with(access="full")
    with pytest.raises(RpcRefusal) as caught:
        await agent.host.serve(agent.request("session/request_permission", params))
    assert caught.value.error.code == -32602
    assert "session/request_permission" in caught.value.error.message
    assert named in caught.value.error.message
    assert agent.decisions == []


async def test_one_bad_field_or_an_unknown_kind_does_not_cost_the_request(agent_with: Build) -> None:
    agent = agent_with(on_permission=lambda _: True)
    strange = {"optionId": "odd", "name": "Odd", "kind": "allow_until_monday"}
    assert await agent.permission(strange, ONCE, kind="teleport", status=7, locations="here") == YES_ONCE


async def test_half_a_character_in_the_title_does_not_cost_the_request(agent_with: Build) -> None:
    agent = agent_with(on_permission=lambda _: True)
    request = agent.request("session/request_permission", {"toolCall": {"toolCallId": "t"}, "options": [ONCE]})
    raw = msgspec.Raw(bytes(request.params).replace(b'"toolCallId"', b'"title":"\\ud83d","toolCallId"'))
    result = await agent.host.serve(msgspec.structs.replace(request, params=raw))
    assert isinstance(result, acp.RequestPermissionResponse)
    assert isinstance(result.outcome, acp.SelectedPermissionOutcome)


@pytest.mark.parametrize(
    "method", ["session/nonsense", "elicitation/create", "_vendor/thing", "craft/drainMidTurnQueue"]
)
async def test_an_unknown_method_is_refused_by_name(agent_with: Build, method: str) -> None:
    error = await agent_with().refused(method)
    assert error.code == -32601
    assert method in error.message


# -- as recorded


RECORDINGS = sorted(
    Path(os.environ.get("DRAGOMAN_RECORDINGS", Path(__file__).parents[3] / "shared/recordings")).glob("*/*.jsonl")
)


@pytest.mark.skipif(not RECORDINGS, reason="needs recordings: DRAGOMAN_RECORDINGS=folder")
async def test_every_recorded_permission_request_is_understood(agent_with: Build) -> None:
    count = 0
    for file in RECORDINGS:
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            frame = entry["frame"]
            if entry["dir"] == "in" and isinstance(frame, dict) and frame.get("method") == "session/request_permission":
                for access, kind in (("full", "allow_once"), ("read-only", "reject_once")):
                    agent: Agent = agent_with(access=access)
                    result = await agent.host.serve(agent.request(frame["method"], frame["params"]))
                    assert isinstance(result, acp.RequestPermissionResponse)
                    assert isinstance(result.outcome, acp.SelectedPermissionOutcome)
                    chosen = {option["optionId"]: option["kind"] for option in frame["params"]["options"]}
                    assert chosen[result.outcome.option_id] == kind
                count += 1
    assert count
