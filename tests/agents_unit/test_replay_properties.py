"""Whatever a client says, and whenever: nothing breaks, and each request is answered once."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from agents_unit.replay_script import CWD, Client, Tape
from dragoman.agents.replay.playback import INTERRUPT_TIMEOUT_S


def everything() -> Tape:
    """Record sessions with permissions, terminals, a cancel, and a prompt during another."""
    tape = Tape()
    tape.greet()
    tape.refuse(tape.ask("session/new", cwd=CWD), -32000)
    for name in ("s1", "s2"):
        tape.open(name)
        tape.answer(tape.ask("session/set_mode", sessionId=name, modeId="plan"), {})
        first = tape.prompt("one", name)
        tape.want(7, "session/request_permission", name)
        second = tape.prompt("two", name)
        tape.give(7, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        tape.want("t", "terminal/create", name, command="ls")
        tape.refuse(second, -32600)
        tape.give("t", {"terminalId": "x"})
        tape.cancel(name)
        tape.say("done", name)
        tape.answer(first, {"stopReason": "cancelled"})
        tape.want("w", "terminal/wait_for_exit", name, terminalId="x")
        tape.run("three", "Three.", name)
        tape.give("w", {"exitCode": 0})
        tape.answer(tape.ask("session/load", sessionId=name, cwd=CWD), {})
    tape.prompt("cut", "s2")
    return tape


SESSIONS = st.sampled_from(["s1", "s2", "other"])
REQUESTS = st.one_of(
    st.fixed_dictionaries({"method": st.sampled_from(["initialize", "session/list", "authenticate", "x"])}),
    st.builds(
        lambda method, session, **more: {"method": method, "params": {"sessionId": session, "cwd": "/tmp/a", **more}},
        st.sampled_from(["session/new", "session/load", "session/resume", "session/fork", "session/close"]),
        SESSIONS,
    ),
    st.builds(
        lambda session, text: {
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": [{"type": "text", "text": text}]},
        },
        SESSIONS,
        st.sampled_from(["one", "two", "three", "cut", "other"]),
    ),
    st.builds(
        lambda session, mode: {"method": "session/set_mode", "params": {"sessionId": session, "modeId": mode}},
        SESSIONS,
        st.sampled_from(["plan", "other"]),
    ),
)
OTHERS = st.one_of(
    st.builds(lambda session: {"method": "session/cancel", "params": {"sessionId": session}}, SESSIONS),
    st.builds(lambda n: {"method": "$/cancel_request", "params": {"requestId": n}}, st.integers(0, 30)),
    st.builds(
        lambda n, result: {"id": n, "result": result},
        st.sampled_from([7, "7-2", "t", "t-2", "w", "w-2"]),
        st.sampled_from([None, {"outcome": {"outcome": "cancelled"}}, {"terminalId": "y"}, 3]),
    ),
    st.just({"method": "session/cancel", "params": 3}),
    st.floats(0, 2 * INTERRUPT_TIMEOUT_S),
    st.binary(max_size=8),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(REQUESTS, OTHERS), max_size=30), st.booleans(), st.booleans())
def test_no_client_breaks_it_and_each_request_is_answered_once(frames: list[Any], strict: bool, real: bool) -> None:
    client = Client(everything(), strict=strict, real=real)
    for _ in range(3):  # the first is refused
        client.ask("session/new", cwd=CWD)
        client.later(1.0)
    heard: list[Any] = []
    request_ids = set()
    for number, each in enumerate(frames):
        match each:
            case float():
                heard += client.later(each)
            case bytes():
                client.player.receive(each)
                heard += client.later(0.0)
            case {"method": method} if method not in ("session/cancel", "$/cancel_request"):
                request_ids.add(number)
                heard += client.send({"id": number, **each})
            case _:
                heard += client.send(each)
    for _ in range(20):  # a client that answers every request and waits gets all its answers
        for frame in [frame for frame in heard if "method" in frame and "id" in frame]:
            heard += client.give(frame["id"], {"terminalId": "z"})
        heard += client.later(2 * INTERRUPT_TIMEOUT_S)
    answered = [frame["id"] for frame in heard if "method" not in frame and frame.get("id") is not None]
    assert len(answered) == len(set(answered))
    assert set(answered) == request_ids
    assert all(msgspec.json.encode(frame) for frame in heard)
