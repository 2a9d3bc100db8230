"""Prompts that are answered wrongly or not at all, reactions to `session/cancel`, and wrong permission requests.

The agent says the client's answer to a request aloud, for the test to see.
"""

from __future__ import annotations

import sys

from dragoman.testing.rogue.agent import Agent, Frame, Json, behaviour, register

ALLOW = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
REJECT = {"optionId": "no", "name": "No", "kind": "reject_once"}


def permission(agent: Agent, options: Json, tool_call: Json = None) -> Frame:
    """Return the frame of a permission request for this session."""
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
    agent.wait_for("session/prompt")
    request = permission(agent, options, tool_call)
    agent.send(request)
    agent.say(outcome_of(agent.answer_to(request["id"])))
    agent.end_run()


@behaviour("a permission request without options", "cancels it: there is no option to choose")
def permission_without_options(agent: Agent) -> None:
    _asks(agent, [])


@behaviour("a permission request that can only be refused", "refuses it, even if the user would allow it")
def permission_only_reject(agent: Agent) -> None:
    _asks(agent, [REJECT])


@behaviour("options of kinds that the protocol does not have, before one that refuses", "never chooses an unknown one")
def permission_unknown_kinds(agent: Agent) -> None:
    unknown = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow", "allow_forever", "")]
    _asks(agent, [*unknown, REJECT])


@behaviour("only options of kinds that the protocol does not have", "cancels it")
def permission_only_unknown_kinds(agent: Agent) -> None:
    _asks(agent, [{"optionId": "y", "name": "Yes", "kind": "always"}, {"optionId": "n", "name": "No", "kind": "never"}])


@behaviour("the same id for an option that allows and for one that refuses", "does not choose an id that also allows")
def permission_same_ids(agent: Agent) -> None:
    _asks(agent, [{**ALLOW, "optionId": "x"}, {**REJECT, "optionId": "x"}])


@behaviour("permission requests whose tool call or options cannot be read", "allows none of them")
def permission_unreadable(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    calls: tuple[Json, ...] = (3, [], "t", {"toolCallId": 3}, {})
    requests = [permission(agent, [ALLOW, REJECT], call) for call in calls]
    offers: tuple[Json, ...] = (3, "yes", {"yes": ALLOW}, [None, 3, "yes", {}])
    requests += [permission(agent, options) for options in offers]
    agent.send(*requests)
    for request in requests:
        agent.say(outcome_of(agent.answer_to(request["id"])) + " ")
    agent.end_run()


@behaviour("300 permission requests at once", "answers each by its own id")
def permission_flood(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    requests = [permission(agent, [ALLOW, REJECT], {"toolCallId": f"t{n}", "title": f"t{n}"}) for n in range(300)]
    agent.send(*requests)
    answers = [outcome_of(agent.answer_to(request["id"])) for request in requests]
    agent.say(f"{answers.count('yes')} yes, {answers.count('no')} no")
    agent.end_run()


@behaviour("300 permission requests at once, and then it exits", "notices the exit, with all of them open")
def permission_flood_then_exit(agent: Agent) -> None:
    agent.begin_run("before")
    # So long that the last ones are not read with the first, and so short that they fit into the pipe when it goes.
    calls = [{"toolCallId": f"t{number}", "title": "x" * 500} for number in range(300)]
    agent.send(*(permission(agent, [ALLOW, REJECT], call) for call in calls))
    sys.exit(3)


@behaviour("a permission request after the end of its run", "answers it; it belongs to no run")
def permission_after_the_run(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    request = permission(agent, [ALLOW, REJECT])
    agent.send(agent.chunk("fine"), agent.run_ended(), request)
    answer = outcome_of(agent.answer_to(request["id"]))
    agent.wait_for("session/prompt")
    agent.say(answer)
    agent.end_run()


@behaviour("reads and writes files of others through the client", "refuses each")
def files_of_others(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    paths = ("/etc/passwd", "../../etc/passwd", "/proc/self/environ", "", "\0", "/" + "x" * 5000)
    requests = [agent.request("fs/read_text_file", {"sessionId": agent.session, "path": path}) for path in paths]
    written = {"sessionId": agent.session, "path": "/etc/rogue", "content": "x"}
    requests.append(agent.request("fs/write_text_file", written))
    agent.send(*requests)
    refused = ["error" in agent.answer_to(request["id"]) for request in requests]
    agent.say(f"{sum(refused)} of {len(refused)} refused")
    agent.end_run()


@behaviour("sends requests that the client does not offer", "answers -32601")
def not_offered(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    methods = ("elicitation/create", "mcp/message", "session/craft", "fs/delete_file", "_vendor/anything")
    requests = [agent.request(method, {"sessionId": agent.session}) for method in methods]
    agent.send(*requests)
    codes = {agent.answer_to(request["id"])["error"]["code"] for request in requests}
    agent.say(f"answered {codes}")
    agent.end_run()


FAILS = "fails the run, with the text so far; the session continues"


def _result(name: str, does: str, good: str, result: Json) -> None:
    """Register a behaviour that says "before" and answers the prompt with this."""

    def play(agent: Agent) -> None:
        request = agent.wait_for("session/prompt")
        agent.say("before")
        agent.answer(request, result)

    register(name, does, good, play)


_result("unknown_stop_reason", "a stop reason that the protocol does not have", FAILS, {"stopReason": "bored"})
_result("no_stop_reason", "a prompt answered without a stop reason", FAILS, {})
_result("stop_reason_number", "a stop reason that is a number", FAILS, {"stopReason": 3})
_result("prompt_null", "a prompt answered `null`", FAILS, None)
_result("prompt_list", "a prompt answered with an array", FAILS, [{"stopReason": "end_turn"}])
_result(
    "usage_of_wrong_types",
    "a good answer to the prompt, with a usage of wrong types",
    "accepts the answer without the usage",
    {"stopReason": "end_turn", "usage": {"inputTokens": "many", "outputTokens": [], "totalTokens": -1}, "_meta": 3},
)


@behaviour("`end_turn` without any text", "reports that the agent said nothing")
def silent_end_turn(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.end_run()


@behaviour("a prompt answered with an error", FAILS)
def prompt_refused(agent: Agent) -> None:
    request = agent.begin_run("before")
    agent.refuse(request, -32603, "overloaded")


@behaviour("never answers a prompt, but obeys a cancel", "waits, or cancels after its time limit")
def never_answers_prompt(agent: Agent) -> None:
    agent.begin_run("before")


@behaviour("answers neither a prompt nor a cancel", "ends the process after the grace")
def ignores_cancel(agent: Agent) -> None:
    agent.begin_run("before")
    while agent.read_frame() is not None:
        pass


@behaviour("answers a cancelled prompt with an error", "treats the run as cancelled; the session continues")
def cancel_answered_with_error(agent: Agent) -> None:
    request = agent.begin_run("before")
    agent.wait_for("session/cancel")
    agent.refuse(request, -32603, "aborted")


@behaviour("answers a cancelled prompt with `end_turn`", "treats the run as cancelled")
def cancel_answered_with_end_turn(agent: Agent) -> None:
    agent.begin_run("before")
    agent.wait_for("session/cancel")
    agent.end_run("end_turn")


@behaviour("answers a cancelled prompt twice", "accepts the first")
def cancel_answered_twice(agent: Agent) -> None:
    request = agent.begin_run("before")
    agent.wait_for("session/cancel")
    agent.end_run()
    agent.answer(request, {"stopReason": "end_turn"})


@behaviour("answers `session/cancel` itself, as if it were a request", "ignores it")
def cancel_answered_as_request(agent: Agent) -> None:
    agent.begin_run("before")
    agent.wait_for("session/cancel")
    agent.send({"id": None, "result": {}}, {"id": None, "error": {"code": -32601, "message": "no such method"}})
    agent.end_run()


@behaviour("continues to talk after a cancel, then answers", "loses no text")
def talks_after_cancel(agent: Agent) -> None:
    agent.begin_run("before")
    agent.wait_for("session/cancel")
    agent.send(*(agent.chunk(f" {number}") for number in range(5)))
    agent.end_run()


@behaviour("asks for permission after a cancel", "answers `cancelled`, and asks nobody")
def asks_after_cancel(agent: Agent) -> None:
    agent.begin_run("before")
    agent.wait_for("session/cancel")
    request = permission(agent, [ALLOW, REJECT])
    agent.send(request)
    agent.say(f" {outcome_of(agent.answer_to(request['id']))}")
    agent.end_run()


@behaviour("waits for a permission when it is cancelled, then answers", "answers it `cancelled`")
def cancelled_while_asking(agent: Agent) -> None:
    agent.begin_run("before")
    request = permission(agent, [ALLOW, REJECT])
    agent.send(request)
    agent.say(f" {outcome_of(agent.answer_to(request['id']))}")
    agent.end_run()
