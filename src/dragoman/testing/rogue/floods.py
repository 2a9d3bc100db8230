"""More than anybody can take. The usual count is a million; `--count` sets another."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dragoman.testing.rogue.agent import Agent, Frame, line, write_all
from dragoman.testing.rogue.registry import behaviour

MILLION = 1_000_000
BATCH = 1000

KEEPS_UP = "takes all of it, in bounded memory"


def _pour(agent: Agent, frame: Frame, count: int) -> None:
    """The same frame again and again, as fast as the pipe takes it."""
    one = line(frame)
    many = one * BATCH
    for _ in range(count // BATCH):
        agent.write(many)
    agent.write(one * (count % BATCH))


@behaviour("a million chunks in one turn", KEEPS_UP + ", every word")
def flood_of_updates(agent: Agent) -> None:
    agent.until("session/prompt")
    _pour(agent, agent.chunk("flood "), agent.many(MILLION))
    agent.end_turn()


@behaviour("a million notifications that no protocol knows", KEEPS_UP)
def flood_of_notifications(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before ")
    _pour(agent, {"method": "rogue/news", "params": {"sessionId": agent.session}}, agent.many(MILLION) // 2)
    _pour(agent, {"method": "rogue/news", "params": {}}, agent.many(MILLION) // 2)
    agent.send(agent.chunk("after"), agent.turn_ended())


@behaviour("a million updates of sessions that are not open", KEEPS_UP)
def flood_of_strays(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before ")
    session, agent.session = agent.session, "elsewhere"
    _pour(agent, agent.chunk("stray"), agent.many(MILLION))
    agent.session = session
    agent.send(agent.chunk("after"), agent.turn_ended())


@behaviour("a million updates before `session/new` is answered", "keeps so many, reports the rest, opens the session")
def flood_before_the_session(agent: Agent) -> None:
    request = agent.until("session/new")
    agent.session = "elsewhere"
    _pour(agent, agent.chunk("early"), agent.many(MILLION))
    agent.answer(request, {"sessionId": agent.new_session()})


@behaviour("a million lines of garbage", KEEPS_UP)
def flood_of_garbage(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before ")
    for _ in range(agent.many(MILLION) // BATCH):
        agent.write(b"INFO nothing to see here\n" * BATCH)
    agent.send(agent.chunk("after"), agent.turn_ended())


@behaviour("a million updates that have to be repaired", KEEPS_UP)
def flood_of_bad_updates(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before ")
    _pour(agent, agent.update({"sessionUpdate": "usage_update", "used": "x", "size": []}), agent.many(MILLION))
    agent.send(agent.chunk("after"), agent.turn_ended())


@behaviour("a million requests, while it reads the answers", "answers each")
def flood_of_requests(agent: Agent) -> None:
    agent.until("session/prompt")
    answered = 0
    for batch in _batches(agent.many(MILLION)):
        requests = [agent.request("rogue/question", {"sessionId": agent.session}) for _ in range(batch)]
        agent.send(*requests)
        answered += sum("error" in agent.answer_to(request["id"]) for request in requests)
        agent.answers.clear()
    agent.say(f"{answered} answered")
    agent.end_turn()


@behaviour("a million requests, and it reads no answer", "reads no more than it can answer; ends it at its limit")
def flood_of_requests_unread(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    for batch in _batches(agent.many(MILLION)):
        agent.send(*(agent.request("rogue/question", {"sessionId": agent.session}) for _ in range(batch)))
    agent.end_turn()


@behaviour("a million requests that it cancels at once, and it reads no answer", "the same")
def flood_of_cancelled_requests(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    for batch in _batches(agent.many(MILLION)):
        for _ in range(batch):
            request = agent.request("rogue/question", {"sessionId": agent.session})
            agent.send(request, {"method": "$/cancel_request", "params": {"requestId": request["id"]}})
    agent.end_turn()


def _batches(count: int) -> Iterator[int]:
    # Small ones: what is asked in one, and what is answered to it, fit into the pipes.
    for _ in range(count // 200):
        yield 200
    if count % 200:
        yield count % 200


@behaviour("chunks without end, whatever it is told", "ends it when the grace of the cancel has passed")
def endless_updates(agent: Agent) -> None:
    agent.until("session/prompt")
    while True:
        agent.write(line(agent.chunk("flood ")) * BATCH)


@behaviour("large chunks without end (1 MB each), whatever it is told", "the same, in bounded memory")
def endless_large_updates(agent: Agent) -> None:
    agent.until("session/prompt")
    while True:
        agent.say("x" * MILLION)


@behaviour("stderr without end, beside a good turn", "drains it, and keeps the end of it")
def endless_stderr(agent: Agent) -> None:
    agent.until("session/prompt")
    if os.fork() == 0:
        while True:
            write_all(2, b"still here\n" * BATCH)
    agent.say("fine")
    agent.end_turn()
