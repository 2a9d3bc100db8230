"""`initialize`, `session/new` and `session/list`, answered wrongly or not at all."""

from __future__ import annotations

import itertools

from dragoman.testing.rogue.agent import Agent, Frame, Json
from dragoman.testing.rogue.registry import behaviour, register

CLOSES = "says which version the agent speaks, and closes"
UNREADABLE = "says what is missing, and closes"


def _initialize(name: str, does: str, good: str, changes: Frame | None) -> None:
    """A behaviour whose answer to `initialize` has these members changed; a change to None takes one out."""

    def play(agent: Agent) -> None:
        request = agent.until("initialize")
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
    "takes what it cannot read as not offered",
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
    "capabilities_as_text", "capabilities that are a text", "takes none as offered", {"agentCapabilities": "all"}
)


@behaviour("never answers `initialize`", "gives up when its start limit has passed, and leaves no process")
def never_answers_initialize(agent: Agent) -> None:
    while agent.hear() is not None:
        pass


@behaviour("`initialize` answered with an error", "shows the error")
def initialize_refused(agent: Agent) -> None:
    agent.refuse(agent.until("initialize"), -32603, "not today")


@behaviour("updates, requests and answers before it was asked anything", "refuses and reports them, and goes on")
def speaks_first(agent: Agent) -> None:
    agent.session = "early"
    agent.send(agent.chunk("hello?"), agent.request("session/request_permission", {"sessionId": "early"}))
    agent.send({"id": 99, "result": {}}, {"method": "rogue/ready"})


@behaviour("never answers `session/new`", "gives up when its request limit has passed")
def never_answers_session_new(agent: Agent) -> None:
    agent.until("session/new")


@behaviour("`session/new` answered with an error", "shows the error")
def session_refused(agent: Agent) -> None:
    agent.refuse(agent.until("session/new"), -32000, "Authentication required")


def _session_id(name: str, does: str, result: Json) -> None:
    def play(agent: Agent) -> None:
        agent.answer(agent.until("session/new"), result)

    register(name, does, "says that there is no session id", play)


_session_id("session_without_id", "`session/new` answered without a session id", {})
_session_id("session_null", "`session/new` answered `null`", None)
_session_id("session_id_number", "a session id that is a number", {"sessionId": 7})
_session_id("session_id_empty", "an empty session id", {"sessionId": ""})


@behaviour("the same session id for every session", "refuses the second session; the first goes on")
def session_id_repeated(agent: Agent) -> None:
    for _ in range(2):
        agent.answer(agent.until("session/new"), {"sessionId": "the-one"})


@behaviour("modes, models and options of wrong types with a new session", "opens it, and takes what it can read")
def session_settings_of_wrong_types(agent: Agent) -> None:
    result = {
        "sessionId": agent.new_session(),
        "modes": {"currentModeId": 3, "availableModes": "all"},
        "models": [],
        "configOptions": [3, {"id": "x"}, {"type": "select", "id": [], "options": {}}, {"type": "dial", "id": "d"}],
    }
    agent.answer(agent.until("session/new"), result)


def _page(agent: Agent, cursor: Json, *titles: str) -> None:
    sessions = [{"sessionId": title, "cwd": "/", "title": title} for title in titles]
    agent.answer(agent.until("session/list"), {"sessions": sessions, "nextCursor": cursor})


@behaviour("`session/list` has always one more page", "hands out page by page; who asks can stop")
def endless_list(agent: Agent) -> None:
    for number in itertools.count():
        _page(agent, f"page {number}", f"session {number}")


@behaviour("`session/list` gives the same cursor again and again", "ends the list")
def repeated_cursor(agent: Agent) -> None:
    while True:
        _page(agent, "again", "session")


@behaviour("`session/list` has always one more page, and nothing on it", "ends the list")
def endless_empty_list(agent: Agent) -> None:
    for number in itertools.count():
        _page(agent, f"page {number}")
