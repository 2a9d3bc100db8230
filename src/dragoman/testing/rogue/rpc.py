"""JSON-RPC bent: ids, answers, requests. What the client answered is said aloud, for the test to see."""

from __future__ import annotations

from dragoman.testing.rogue.agent import Agent, Frame, Json
from dragoman.testing.rogue.registry import behaviour


def _outcome_of(answer: Frame) -> str:
    return f"answered {answer['error']['code']}" if "error" in answer else "answered"


@behaviour("`initialize` answered with another id", "does not accept it as the answer; gives up after its start limit")
def wrong_id(agent: Agent) -> None:
    agent.send({"id": agent.until("initialize")["id"] + 1000, "result": agent.handshake()})


@behaviour("`initialize` answered with its id as a string", "the same")
def text_id(agent: Agent) -> None:
    agent.send({"id": str(agent.until("initialize")["id"]), "result": agent.handshake()})


@behaviour("answers with ids that are null, fractions, objects; then the right one", "takes the right one")
def odd_ids(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("fine")
    ids: tuple[Json, ...] = (None, 0.5, {}, [], True)
    for odd in ids:
        agent.send({"id": odd, "result": {"stopReason": "refusal"}})
    agent.end_turn()


@behaviour("each of its answers twice, the second time another one", "takes the first")
def duplicate_answers(agent: Agent) -> None:
    agent.answer(agent.until("initialize"), agent.handshake())
    agent.send({"id": 0, "result": {"protocolVersion": 7}})
    request = agent.until("session/new")
    agent.answer(request, {"sessionId": agent.new_session()})
    agent.answer(request, {"sessionId": "another"})
    request = agent.until("session/prompt")
    agent.send(agent.chunk("fine"), agent.turn_ended())
    agent.refuse(request, -32603, "not fine")


@behaviour("answers to requests that were never made", "ignores them")
def answers_to_nothing(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.send(
        {"id": 4711, "result": {}}, {"id": "x", "error": {"code": 1, "message": "no"}}, {"id": -1, "result": None}
    )
    agent.send(agent.chunk("fine"), agent.turn_ended())


@behaviour("a prompt answered with both a result and an error", "takes the error")
def result_and_error(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    agent.send({**agent.turn_ended(), "error": {"code": -32603, "message": "both"}})


@behaviour("a prompt answered with neither result nor error, then properly", "takes the proper one")
def neither_result_nor_error(agent: Agent) -> None:
    request = agent.until("session/prompt")
    agent.say("fine")
    agent.send({"id": request["id"]})
    agent.end_turn()


@behaviour("a prompt answered with an error that has no code", "fails the run and shows what the error says")
def error_without_code(agent: Agent) -> None:
    request = agent.until("session/prompt")
    agent.say("before")
    agent.send({"id": request["id"], "error": {"message": "no code"}})


@behaviour("a prompt answered with an error that is a text", "the same")
def error_as_text(agent: Agent) -> None:
    request = agent.until("session/prompt")
    agent.say("before")
    agent.send({"id": request["id"], "error": "just words"})


@behaviour("`error: null` beside the result", "takes the result")
def error_null(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("fine")
    agent.send({**agent.turn_ended(), "error": None})


@behaviour("notifications that no protocol knows, with and without a session", "passes them on or reports them")
def unknown_notifications(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.send({"method": "rogue/news", "params": {"sessionId": agent.session}}, {"method": "rogue/news"})
    agent.send({"method": "", "params": 3}, {"method": "session/update/", "params": []})
    agent.send(agent.chunk("fine"), agent.turn_ended())


@behaviour("a request that no protocol knows", "answers -32601")
def unknown_request(agent: Agent) -> None:
    agent.until("session/prompt")
    request_id = agent.ask("rogue/question", {"sessionId": agent.session})
    agent.say(_outcome_of(agent.answer_to(request_id)))
    agent.end_turn()


@behaviour("a request for a session that is not open", "answers with an error")
def request_for_unknown_session(agent: Agent) -> None:
    agent.until("session/prompt")
    request_id = agent.ask("session/request_permission", {"sessionId": "elsewhere", "toolCall": {}, "options": []})
    agent.say(_outcome_of(agent.answer_to(request_id)))
    agent.end_turn()


@behaviour("requests without params, and with params that are no object", "answers each with an error")
def request_without_params(agent: Agent) -> None:
    agent.until("session/prompt")
    given: tuple[Json, ...] = (None, 3, [], "x", {})
    requests = [agent.request("session/request_permission", params) for params in given]
    del requests[0]["params"]
    agent.send(*requests)
    for request in requests:
        agent.say(_outcome_of(agent.answer_to(request["id"])) + " ")
    agent.end_turn()


@behaviour("a second request with the id of one that has no answer yet", "answers one of the two")
def request_id_in_use(agent: Agent) -> None:
    agent.until("session/prompt")
    request = agent.request("rogue/question", {"sessionId": agent.session})
    agent.send(request, {**request, "method": "rogue/other"})
    agent.say(_outcome_of(agent.answer_to(request["id"])))
    agent.end_turn()


@behaviour("a request that it cancels at once, and cancels of requests that do not exist", "answers it once")
def cancels_its_request(agent: Agent) -> None:
    agent.until("session/prompt")
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": agent.session, "toolCall": {"toolCallId": "t", "title": "t"}, "options": options}
    request = agent.request("session/request_permission", params)
    agent.send({"method": "$/cancel_request", "params": {"requestId": "none"}}, {"method": "$/cancel_request"})
    agent.send(request, {"method": "$/cancel_request", "params": {"requestId": request["id"]}})
    agent.answer_to(request["id"])
    agent.say("answered")
    agent.end_turn()


@behaviour("its words as requests: `session/update` with an id", "answers -32601, and goes on")
def update_as_request(agent: Agent) -> None:
    agent.until("session/prompt")
    frame = agent.chunk("lost")
    request_id = agent.ask(frame["method"], frame["params"])
    agent.say(_outcome_of(agent.answer_to(request_id)))
    agent.end_turn()
