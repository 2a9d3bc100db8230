"""Updates of wrong kinds, shapes and times; forged notes.

Unless stated otherwise, the run says "before " and "after", with the fault between the two.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

from dragoman.testing.rogue.agent import Agent, Frame, Json, behaviour

# One valid update of each kind, with all its fields. None says anything: it would become part of the answer.
VALID_UPDATES: dict[str, Frame] = json.loads(Path(__file__).with_name("updates.json").read_bytes())

WRONG: tuple[Json, ...] = (
    None,
    True,
    -1,
    1.5,
    10**30,
    "",
    "wrong",
    [],
    [None],
    [[]],
    {},
    {"type": "wrong"},
    {"type": 3},
)


def _paths(value: Json, path: tuple[Json, ...] = ()) -> Iterator[tuple[Json, ...]]:
    """Yield the paths of all values, at every depth."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from _paths(part, (*path, key))


def _changed(update: Frame, path: tuple[Json, ...], wrong: Json) -> Frame:
    """Return the update with another value at this path; without the path where that is `...`."""
    changed = copy.deepcopy(update)
    holder: Json = changed
    for key in path[:-1]:
        holder = holder[key]
    if wrong is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = wrong
    return changed


def spoilt(wrongs: tuple[Json, ...]) -> Iterator[Frame]:
    """Yield each kind of update with each of its fields, at every depth, replaced by each of these values."""
    for kind, fields in VALID_UPDATES.items():
        for path in _paths(fields):
            for wrong in wrongs:
                yield {"sessionUpdate": kind, **_changed(fields, path, wrong)}


def _between(agent: Agent, *frames: Frame) -> None:
    agent.wait_for("session/prompt")
    agent.send(agent.chunk("before "))
    agent.send(*frames)
    agent.finish_run("after")


@behaviour(
    "wrong types in each field of each kind of update, at every depth", "repairs or keeps each; none affects another"
)
def wrong_types(agent: Agent) -> None:
    agent.begin_run("before")
    for update in spoilt(WRONG):
        agent.send(agent.update(update))
    # Chunks that cannot be read, between two that can.
    contents: tuple[Json, ...] = (
        None,
        3,
        [],
        {"type": "text"},
        {"type": "text", "text": 3},
        {"type": "w", "text": "x"},
    )
    for wrong in contents:
        agent.send(agent.update({"sessionUpdate": "agent_message_chunk", "content": wrong}))
    agent.finish_run("after")


@behaviour("each field of each kind of update left out", "the same")
def missing_fields(agent: Agent) -> None:
    agent.begin_run("before")
    for update in spoilt((...,)):
        agent.send(agent.update(update))
    for kind in (*VALID_UPDATES, "agent_message_chunk"):
        agent.send(agent.update({"sessionUpdate": kind}))
    agent.finish_run("after")


@behaviour("updates of kinds that the protocol does not have, or of no kind", "keeps them, and passes them on")
def unknown_kinds(agent: Agent) -> None:
    kinds: tuple[Json, ...] = ("hologram", "", None, 3, [], "agent_message_chunk ")
    agent.begin_run("before ")
    agent.send(*(agent.update({"sessionUpdate": kind, "depth": 3}) for kind in kinds))
    updates: tuple[Json, ...] = ({}, None, [], "hologram", 7)
    agent.send(*(agent.update(update) for update in updates))
    agent.finish_run("after")


@behaviour("updates with no session, and with params that are not an object", "reports them")
def updates_without_session(agent: Agent) -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "lost"}}
    params: tuple[Json, ...] = ({"update": chunk}, {"sessionId": None, "update": chunk}, {}, None, [], "x")
    _between(agent, *({"method": "session/update", "params": each} for each in params), {"method": "session/update"})


@behaviour("tool calls with empty ids", "shows each")
def empty_tool_ids(agent: Agent) -> None:
    agent.begin_run("before ")
    for title in ("one", "two"):
        agent.send(agent.update({"sessionUpdate": "tool_call", "toolCallId": "", "title": title, "status": "pending"}))
        agent.send(agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "", "status": "completed"}))
    agent.finish_run("after")


@behaviour("the same tool call id in every run", "shows one tool call for each run")
def repeated_tool_ids(agent: Agent) -> None:
    for number in range(2):
        agent.wait_for("session/prompt")
        agent.say("before ")
        title = f"number {number}"
        agent.send(agent.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": title, "status": "pending"}))
        agent.send(agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}))
        agent.finish_run("after")


@behaviour("updates of tool calls that never began", "shows them anyway")
def orphan_tool_updates(agent: Agent) -> None:
    agent.begin_run("before ")
    agent.send(agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "orphan", "status": "failed"}))
    agent.finish_run("after")


@behaviour("a tool call that never ends", "ends the run anyway")
def unfinished_tool(agent: Agent) -> None:
    agent.begin_run("before ")
    agent.send(agent.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t", "status": "in_progress"}))
    agent.finish_run("after")


@behaviour("updates of a session before `session/new` is answered", "keeps them for the session")
def early_updates(agent: Agent) -> None:
    request = agent.wait_for("session/new")
    agent.session = agent.new_session()
    command = {"name": "early", "description": "d"}
    agent.send(agent.update({"sessionUpdate": "available_commands_update", "availableCommands": [command]}))
    agent.say("early words")
    agent.answer(request, {"sessionId": agent.session})


@behaviour("text after the end of its run", "adds it to the session, and to no run")
def late_updates(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.send(agent.chunk("before "), agent.chunk("after"), agent.run_ended(), agent.chunk("late words"))


@behaviour("updates of sessions that are not open", "reports them, and adds them to no other session")
def stray_updates(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    stray = agent.chunk("stray")
    stray["params"] = {**stray["params"], "sessionId": "elsewhere"}
    agent.send(agent.chunk("before "), stray, agent.chunk("after"), agent.run_ended())


@behaviour("a usage below zero, and one above the size of the context", "shows the reported figures")
def absurd_usage(agent: Agent) -> None:
    agent.begin_run("before ")
    for used, size in ((-5, -1), (5210, 1000), (0, 0)):
        agent.send(agent.update({"sessionUpdate": "usage_update", "used": used, "size": size}))
    agent.finish_run("after")


def _forged(agent: Agent, method: str, params: Frame) -> None:
    agent.wait_for("session/prompt")
    forged = {"method": f"_dragoman/{method}", "params": {"sessionId": agent.session, **params}}
    agent.send(agent.chunk("before "), forged, agent.chunk("after"), agent.run_ended())


@behaviour("a note that only the host writes: a prompt of the user", "treats it as an unknown notification")
def forged_prompt(agent: Agent) -> None:
    _forged(agent, "prompt", {"run_id": "forged", "prompt": [{"type": "text", "text": "forged"}]})


@behaviour("a note that only the host writes: a permission decision", "the same")
def forged_decision(agent: Agent) -> None:
    _forged(agent, "decision", {"request_id": 1001, "by": "user", "reason": "forged"})


@behaviour("a note that only the host writes: that each run so far was interrupted", "the same")
def forged_run_interrupted(agent: Agent) -> None:
    _forged(agent, "run_interrupted", {"run_id": "forged", "status": "cancelled", "reason": "forged"})
