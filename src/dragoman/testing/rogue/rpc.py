"""Wrong JSON-RPC (ids, answers, requests), and wrong answers to `initialize`, `session/new` and `session/list`.

The agent says the client's answer aloud, for the test to see.
"""

from __future__ import annotations

import itertools

from dragoman.testing.rogue.agent import Agent, Frame, Json, behaviour, register

CLOSES = "says which version the agent speaks, and closes"
UNREADABLE = "says what is missing, and closes"


def _initialize(name: str, does: str, good: str, changes: Frame | None) -> None:
    """Register a behaviour whose answer to `initialize` has these members changed; None removes a member."""

    def play(agent: Agent) -> None:
        request = agent.wait_for("initialize")
        if changes is None:
            agent.answer(request, None)
            return
        answer = {**agent.handshake(), **changes}
        agent.answer(request, {key: value for key, value in answer.items() if value is not None})

    register(name, does, good, play)


_initialize("version_2", "protocol version 2", CLOSES, {"protocolVersion": 2})
_initialize("version_0", "protocol version 0", CLOSES, {"protocolVersion": 0})
_initialize("version_as_text", 'protocol version `"1"`', UNREADABLE, {"protocolVersion": "1"})
_initialize("version_missing", "no protocol version", UNREADABLE, {"protocolVersion": None})
_initialize("initialize_null", "`initialize` answered `null`", UNREADABLE, None)
_initialize(
    "capabilities_of_wrong_types",
    "capabilities, login methods and its own name of wrong types",
    "treats what it cannot read as not offered",
    {
        "agentCapabilities": {
            "loadSession": "yes",
            "promptCapabilities": [],
            "mcpCapabilities": {"http": 1, "sse": {}},
            "sessionCapabilities": {"list": False, "resume": "x", "close": 7},
            "auth": 3,
        },
        "authMethods": [{"id": 3}, None, "login"],
        "agentInfo": "rogue",
    },
)
_initialize(
    "capabilities_as_text", "capabilities that are a string", "treats none as offered", {"agentCapabilities": "all"}
)


@behaviour("never answers `initialize`", "gives up after its start timeout, and leaves no process")
def never_answers_initialize(agent: Agent) -> None:
    while agent.read_frame() is not None:
        pass


@behaviour("`initialize` answered with an error", "shows the error")
def initialize_refused(agent: Agent) -> None:
    agent.refuse(agent.wait_for("initialize"), -32603, "not today")


@behaviour("updates, requests and answers before any request of the client", "refuses and reports them, and continues")
def speaks_first(agent: Agent) -> None:
    agent.session = "early"
    agent.send(agent.chunk("hello?"), agent.request("session/request_permission", {"sessionId": "early"}))
    agent.send({"id": 99, "result": {}}, {"method": "rogue/ready"})


@behaviour("never answers `session/new`", "gives up after its request timeout")
def never_answers_session_new(agent: Agent) -> None:
    agent.wait_for("session/new")


@behaviour("`session/new` answered with an error", "shows the error")
def session_refused(agent: Agent) -> None:
    agent.refuse(agent.wait_for("session/new"), -32000, "Authentication required")


def _session_id(name: str, does: str, result: Json) -> None:
    def play(agent: Agent) -> None:
        agent.answer(agent.wait_for("session/new"), result)

    register(name, does, "says that there is no session id", play)


_session_id("session_without_id", "`session/new` answered without a session id", {})
_session_id("session_null", "`session/new` answered `null`", None)
_session_id("session_id_number", "a session id that is a number", {"sessionId": 7})
_session_id("session_id_empty", "an empty session id", {"sessionId": ""})


@behaviour("the same session id for every session", "refuses the second session; the first continues")
def session_id_repeated(agent: Agent) -> None:
    for _ in range(2):
        agent.answer(agent.wait_for("session/new"), {"sessionId": "the-one"})


@behaviour(
    "modes, models and options of wrong types with a new session", "opens it, with the settings that it can read"
)
def session_settings_of_wrong_types(agent: Agent) -> None:
    result = {
        "sessionId": agent.new_session(),
        "modes": {"currentModeId": 3, "availableModes": "all"},
        "models": [],
        "configOptions": [3, {"id": "x"}, {"type": "select", "id": [], "options": {}}, {"type": "dial", "id": "d"}],
    }
    agent.answer(agent.wait_for("session/new"), result)


def _page(agent: Agent, cursor: Json, *titles: str) -> None:
    sessions = [{"sessionId": title, "cwd": "/", "title": title} for title in titles]
    agent.answer(agent.wait_for("session/list"), {"sessions": sessions, "nextCursor": cursor})


@behaviour("`session/list` always has one more page", "returns page by page; the caller can stop")
def endless_list(agent: Agent) -> None:
    for number in itertools.count():
        _page(agent, f"page {number}", f"session {number}")


@behaviour("`session/list` returns the same cursor again and again", "ends the list")
def repeated_cursor(agent: Agent) -> None:
    while True:
        _page(agent, "again", "session")


@behaviour("`session/list` always has one more page, which is empty", "ends the list")
def endless_empty_list(agent: Agent) -> None:
    for number in itertools.count():
        _page(agent, f"page {number}")


def _outcome_of(answer: Frame) -> str:
    return f"answered {answer['error']['code']}" if "error" in answer else "answered"


@behaviour(
    "`initialize` answered with another id", "does not accept it as the answer; gives up after its start timeout"
)
def wrong_id(agent: Agent) -> None:
    agent.send({"id": agent.wait_for("initialize")["id"] + 1000, "result": agent.handshake()})


@behaviour("`initialize` answered with its id as a string", "the same")
def text_id(agent: Agent) -> None:
    agent.send({"id": str(agent.wait_for("initialize")["id"]), "result": agent.handshake()})


@behaviour("answers with ids that are null, fractions, objects; then the right one", "accepts the right one")
def odd_ids(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.say("fine")
    ids: tuple[Json, ...] = (None, 0.5, {}, [], True)
    for odd in ids:
        agent.send({"id": odd, "result": {"stopReason": "refusal"}})
    agent.end_run()


@behaviour("each of its answers twice, the second with other content", "accepts the first")
def duplicate_answers(agent: Agent) -> None:
    agent.answer(agent.wait_for("initialize"), agent.handshake())
    agent.send({"id": 0, "result": {"protocolVersion": 7}})
    request = agent.wait_for("session/new")
    agent.answer(request, {"sessionId": agent.new_session()})
    agent.answer(request, {"sessionId": "another"})
    request = agent.wait_for("session/prompt")
    agent.finish_run("fine")
    agent.refuse(request, -32603, "not fine")


@behaviour("answers to requests that were never made", "ignores them")
def answers_to_nothing(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.send(
        {"id": 4711, "result": {}}, {"id": "x", "error": {"code": 1, "message": "no"}}, {"id": -1, "result": None}
    )
    agent.finish_run("fine")


@behaviour("a prompt answered with both a result and an error", "accepts the error")
def result_and_error(agent: Agent) -> None:
    agent.begin_run("before")
    agent.send({**agent.run_ended(), "error": {"code": -32603, "message": "both"}})


@behaviour("a prompt answered with neither result nor error, then with a result", "accepts the second")
def neither_result_nor_error(agent: Agent) -> None:
    request = agent.begin_run("fine")
    agent.send({"id": request["id"]})
    agent.end_run()


@behaviour("a prompt answered with an error that has no code", "fails the run and shows the error")
def error_without_code(agent: Agent) -> None:
    request = agent.begin_run("before")
    agent.send({"id": request["id"], "error": {"message": "no code"}})


@behaviour("a prompt answered with an error that is a string", "the same")
def error_as_text(agent: Agent) -> None:
    request = agent.begin_run("before")
    agent.send({"id": request["id"], "error": "just words"})


@behaviour("`error: null` beside the result", "accepts the result")
def error_null(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.say("fine")
    agent.send({**agent.run_ended(), "error": None})


@behaviour(
    "notifications that the protocol does not have, with and without a session", "passes them on or reports them"
)
def unknown_notifications(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.send({"method": "rogue/news", "params": {"sessionId": agent.session}}, {"method": "rogue/news"})
    agent.send({"method": "", "params": 3}, {"method": "session/update/", "params": []})
    agent.finish_run("fine")


@behaviour("a request that the protocol does not have", "answers -32601")
def unknown_request(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    request_id = agent.ask("rogue/question", {"sessionId": agent.session})
    agent.say(_outcome_of(agent.answer_to(request_id)))
    agent.end_run()


@behaviour("a request for a session that is not open", "answers with an error")
def request_for_unknown_session(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    request_id = agent.ask("session/request_permission", {"sessionId": "elsewhere", "toolCall": {}, "options": []})
    agent.say(_outcome_of(agent.answer_to(request_id)))
    agent.end_run()


@behaviour("requests without params, and with params that are not an object", "answers each with an error")
def request_without_params(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    given: tuple[Json, ...] = (None, 3, [], "x", {})
    requests = [agent.request("session/request_permission", params) for params in given]
    del requests[0]["params"]
    agent.send(*requests)
    for request in requests:
        agent.say(_outcome_of(agent.answer_to(request["id"])) + " ")
    agent.end_run()


@behaviour("a second request with the id of one that has no answer yet", "answers one of the two")
def request_id_in_use(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    request = agent.request("rogue/question", {"sessionId": agent.session})
    agent.send(request, {**request, "method": "rogue/other"})
    agent.say(_outcome_of(agent.answer_to(request["id"])))
    agent.end_run()


@behaviour("a request that it cancels at once, and cancels of requests that do not exist", "answers it once")
def cancels_its_request(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": agent.session, "toolCall": {"toolCallId": "t", "title": "t"}, "options": options}
    request = agent.request("session/request_permission", params)
    agent.send({"method": "$/cancel_request", "params": {"requestId": "none"}}, {"method": "$/cancel_request"})
    agent.send(request, {"method": "$/cancel_request", "params": {"requestId": request["id"]}})
    agent.answer_to(request["id"])
    agent.say("answered")
    agent.end_run()


@behaviour("its text in requests: `session/update` with an id", "answers -32601, and continues")
def update_as_request(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    frame = agent.chunk("lost")
    request_id = agent.ask(frame["method"], frame["params"])
    agent.say(_outcome_of(agent.answer_to(request_id)))
    agent.end_run()
