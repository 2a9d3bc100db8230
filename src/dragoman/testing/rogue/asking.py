"""Permission requests and other questions, asked wrongly. What was answered is said aloud, for the test to see."""

from __future__ import annotations

import sys

from dragoman.testing.rogue.agent import Agent, Frame, Json
from dragoman.testing.rogue.registry import behaviour

ALLOW = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
REJECT = {"optionId": "no", "name": "No", "kind": "reject_once"}


def permission(agent: Agent, options: Json, tool_call: Json = None) -> Frame:
    """The frame of a permission request for this session."""
    call = {"toolCallId": "t", "title": "rm -rf /", "kind": "execute"} if tool_call is None else tool_call
    return agent.request(
        "session/request_permission", {"sessionId": agent.session, "toolCall": call, "options": options}
    )


def outcome_of(answer: Frame) -> str:
    """Describe the answer: an error's code, the option taken, or `cancelled`."""
    if "error" in answer:
        return f"error {answer['error']['code']}"
    outcome = answer["result"]["outcome"]
    return str(outcome.get("optionId", outcome["outcome"]))


def _asks(agent: Agent, options: Json, tool_call: Json = None) -> None:
    agent.until("session/prompt")
    request = permission(agent, options, tool_call)
    agent.send(request)
    agent.say(outcome_of(agent.answer_to(request["id"])))
    agent.end_turn()


@behaviour("a permission request without options", "cancels it: there is nothing to take")
def permission_without_options(agent: Agent) -> None:
    _asks(agent, [])


@behaviour("a permission request that can only be refused", "refuses it, even if the user would allow it")
def permission_only_reject(agent: Agent) -> None:
    _asks(agent, [REJECT])


@behaviour("options of kinds that no protocol knows, before one that refuses", "never takes one it does not know")
def permission_unknown_kinds(agent: Agent) -> None:
    unknown = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow", "allow_forever", "")]
    _asks(agent, [*unknown, REJECT])


@behaviour("nothing but options of kinds that no protocol knows", "cancels it")
def permission_only_unknown_kinds(agent: Agent) -> None:
    _asks(agent, [{"optionId": "y", "name": "Yes", "kind": "always"}, {"optionId": "n", "name": "No", "kind": "never"}])


@behaviour("the same id for an option that allows and for one that refuses", "does not refuse by an id that allows")
def permission_same_ids(agent: Agent) -> None:
    _asks(agent, [{**ALLOW, "optionId": "x"}, {**REJECT, "optionId": "x"}])


@behaviour("permission requests whose tool call or options cannot be read", "allows none of them")
def permission_unreadable(agent: Agent) -> None:
    agent.until("session/prompt")
    calls: tuple[Json, ...] = (3, [], "t", {"toolCallId": 3}, {})
    requests = [permission(agent, [ALLOW, REJECT], call) for call in calls]
    offers: tuple[Json, ...] = (3, "yes", {"yes": ALLOW}, [None, 3, "yes", {}])
    requests += [permission(agent, options) for options in offers]
    agent.send(*requests)
    for request in requests:
        agent.say(outcome_of(agent.answer_to(request["id"])) + " ")
    agent.end_turn()


@behaviour("300 permission requests at once", "answers each by its own id")
def permission_flood(agent: Agent) -> None:
    agent.until("session/prompt")
    requests = [permission(agent, [ALLOW, REJECT], {"toolCallId": f"t{n}", "title": f"t{n}"}) for n in range(300)]
    agent.send(*requests)
    answers = [outcome_of(agent.answer_to(request["id"])) for request in requests]
    agent.say(f"{answers.count('yes')} yes, {answers.count('no')} no")
    agent.end_turn()


@behaviour("300 permission requests at once, and then it ends", "hears of the end, with all of them open")
def permission_flood_then_exit(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    # So long that the last ones are not read with the first, and so short that they fit into the pipe when it goes.
    calls = [{"toolCallId": f"t{number}", "title": "x" * 500} for number in range(300)]
    agent.send(*(permission(agent, [ALLOW, REJECT], call) for call in calls))
    sys.exit(3)


@behaviour("a permission request after the end of its turn", "answers it; it belongs to no run")
def permission_after_the_turn(agent: Agent) -> None:
    agent.until("session/prompt")
    request = permission(agent, [ALLOW, REJECT])
    agent.send(agent.chunk("fine"), agent.turn_ended(), request)
    answer = outcome_of(agent.answer_to(request["id"]))
    agent.until("session/prompt")
    agent.say(answer)
    agent.end_turn()


@behaviour("reads and writes files of others through the client", "refuses each")
def files_of_others(agent: Agent) -> None:
    agent.until("session/prompt")
    paths = ("/etc/passwd", "../../etc/passwd", "/proc/self/environ", "", "\0", "/" + "x" * 5000)
    requests = [agent.request("fs/read_text_file", {"sessionId": agent.session, "path": path}) for path in paths]
    written = {"sessionId": agent.session, "path": "/etc/rogue", "content": "x"}
    requests.append(agent.request("fs/write_text_file", written))
    agent.send(*requests)
    refused = ["error" in agent.answer_to(request["id"]) for request in requests]
    agent.say(f"{sum(refused)} of {len(refused)} refused")
    agent.end_turn()


@behaviour("asks for what the client said it does not offer", "answers -32601")
def not_offered(agent: Agent) -> None:
    agent.until("session/prompt")
    methods = ("elicitation/create", "mcp/message", "session/craft", "fs/delete_file", "_vendor/anything")
    requests = [agent.request(method, {"sessionId": agent.session}) for method in methods]
    agent.send(*requests)
    codes = {agent.answer_to(request["id"])["error"]["code"] for request in requests}
    agent.say(f"answered {codes}")
    agent.end_turn()
