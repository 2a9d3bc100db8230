"""Prompts that are answered wrongly or not at all, and reactions to `session/cancel`."""

from __future__ import annotations

from dragoman.testing.rogue.agent import Agent, Json
from dragoman.testing.rogue.asking import ALLOW, REJECT, outcome_of, permission
from dragoman.testing.rogue.registry import behaviour, register

FAILS = "fails the run, with the words so far; the session goes on"


def _result(name: str, does: str, good: str, result: Json) -> None:
    """A behaviour that says "before" and answers the prompt with this."""

    def play(agent: Agent) -> None:
        request = agent.until("session/prompt")
        agent.say("before")
        agent.answer(request, result)

    register(name, does, good, play)


_result("unknown_stop_reason", "a stop reason that no protocol knows", FAILS, {"stopReason": "bored"})
_result("no_stop_reason", "a prompt answered without a stop reason", FAILS, {})
_result("stop_reason_number", "a stop reason that is a number", FAILS, {"stopReason": 3})
_result("prompt_null", "a prompt answered `null`", FAILS, None)
_result("prompt_list", "a prompt answered with an array", FAILS, [{"stopReason": "end_turn"}])
_result(
    "usage_of_wrong_types",
    "a good answer to the prompt, with a usage of wrong types",
    "takes the answer, and no figure",
    {"stopReason": "end_turn", "usage": {"inputTokens": "many", "outputTokens": [], "totalTokens": -1}, "_meta": 3},
)


@behaviour("`end_turn` without a word", "says that the agent brought nothing")
def silent_end_turn(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.end_turn()


@behaviour("a prompt answered with an error", FAILS)
def prompt_refused(agent: Agent) -> None:
    request = agent.until("session/prompt")
    agent.say("before")
    agent.refuse(request, -32603, "overloaded")


@behaviour("never answers a prompt, but obeys a cancel", "waits, or cancels when its limit has passed")
def never_answers_prompt(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")


@behaviour("never answers a prompt, nor a cancel", "ends the process when the grace has passed")
def ignores_cancel(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    while agent.hear() is not None:
        pass


@behaviour("answers a cancelled prompt with an error", "takes the run as cancelled; the session goes on")
def cancel_answered_with_error(agent: Agent) -> None:
    request = agent.until("session/prompt")
    agent.say("before")
    agent.until("session/cancel")
    agent.refuse(request, -32603, "aborted")


@behaviour("answers a cancelled prompt with `end_turn`", "takes the run as cancelled: it was asked to stop")
def cancel_answered_with_end_turn(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    agent.until("session/cancel")
    agent.end_turn("end_turn")


@behaviour("answers a cancelled prompt twice", "takes the first")
def cancel_answered_twice(agent: Agent) -> None:
    request = agent.until("session/prompt")
    agent.say("before")
    agent.until("session/cancel")
    agent.end_turn()
    agent.answer(request, {"stopReason": "end_turn"})


@behaviour("answers `session/cancel` itself, as if it were a request", "ignores it")
def cancel_answered_as_request(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    agent.until("session/cancel")
    agent.send({"id": None, "result": {}}, {"id": None, "error": {"code": -32601, "message": "no such method"}})
    agent.end_turn()


@behaviour("goes on talking after a cancel, then answers", "keeps every word")
def talks_after_cancel(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    agent.until("session/cancel")
    agent.send(*(agent.chunk(f" {number}") for number in range(5)))
    agent.end_turn()


@behaviour("asks for permission after a cancel", "answers `cancelled`, and asks nobody")
def asks_after_cancel(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    agent.until("session/cancel")
    request = permission(agent, [ALLOW, REJECT])
    agent.send(request)
    agent.say(f" {outcome_of(agent.answer_to(request['id']))}")
    agent.end_turn()


@behaviour("is cancelled while a permission waits; answers when that is answered", "answers it `cancelled`")
def cancelled_while_asking(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    request = permission(agent, [ALLOW, REJECT])
    agent.send(request)
    agent.say(f" {outcome_of(agent.answer_to(request['id']))}")
    agent.end_turn()
