"""Which recorded session a client gets, by which id, and in which folder."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agents_unit.replay_script import CWD, Client, Tape, ends, error_in, talk, texts
from dragoman.agents.replay.recording import read_recording
from dragoman.errors import InputError


def with_load() -> Tape:
    """Opened and asked something on one connection, loaded on the next."""
    tape = talk()
    tape.greet()
    load = tape.ask("session/load", sessionId="s1", cwd=CWD)
    tape.say("again: Hi.")
    tape.answer(load, {"modes": None})
    tape.run("after load", "After.")
    return tape


def test_sessions_are_given_out_in_the_order_of_the_recording() -> None:
    tape = Tape()
    tape.greet()
    for name in ("s1", "s2"):
        tape.open(name)
    client = Client(tape)
    opened = [client.ask("session/new", cwd=CWD)[0] for _ in range(3)]
    assert [answer["result"]["sessionId"] for answer in opened[:2]] == ["s1", "s2"]
    assert "has 2, all of them open already," in opened[2]["error"]["message"]


def test_a_session_that_was_refused_at_first_is_refused_at_first() -> None:
    tape = Tape()
    tape.greet()
    tape.refuse(tape.ask("session/new", cwd=CWD), -32000, "log in")
    tape.answer(tape.ask("authenticate", methodId="key"), {})
    tape.open()
    tape.run("hello", "Hi.")
    client = Client(tape)
    assert ends(client.ask("session/new", cwd=CWD)) == [-32000]
    assert ends(client.ask("authenticate", methodId="key")) == [None]
    assert ends(client.ask("session/new", cwd=CWD)) == [None]
    assert texts(client.prompt("hello")) == ["Hi."]


def test_a_recorded_load_replays_its_history_and_continues_from_there() -> None:
    client = Client(with_load(), connection=2)
    assert texts(client.ask("session/load", sessionId="s1", cwd=CWD)) == ["again: Hi."]
    assert texts(client.prompt("after load")) == ["After."]


def test_each_connection_has_its_own_load_of_a_session() -> None:
    tape = with_load()
    tape.greet()
    tape.refuse(tape.ask("session/load", sessionId="s1", cwd=CWD), -32603, "it was loaded before")
    assert texts(Client(tape, connection=2).ask("session/load", sessionId="s1", cwd=CWD)) == ["again: Hi."]
    assert ends(Client(tape, connection=3).ask("session/load", sessionId="s1", cwd=CWD)) == [-32603]


def test_a_session_is_loaded_by_an_id_that_the_client_knows_it_by() -> None:
    client = Client(with_load(), connection=2)
    received = client.ask("session/load", sessionId="mine", cwd=CWD)
    assert {frame["params"]["sessionId"] for frame in received if "params" in frame} == {"mine"}
    received = client.prompt("after load", "mine")
    assert received[0]["params"]["sessionId"] == "mine"
    assert texts(received) == ["After."]


def test_a_load_that_was_not_recorded_tells_the_whole_session() -> None:
    client = Client(talk())
    received = client.ask("session/load", sessionId="s1", cwd=CWD)
    kinds = [frame["params"]["update"]["sessionUpdate"] for frame in received[:-1]]
    assert kinds == ["user_message_chunk", "agent_message_chunk"] * 2
    assert texts(received) == ["hello", "Hi.", "and now?", "Bye."]
    assert received[-1]["result"] == {}
    assert "all were played" in error_in(client.prompt("hello"))


def test_a_resume_that_was_not_recorded_begins_with_the_first_run() -> None:
    client = Client(talk())
    assert client.ask("session/resume", sessionId="s1", cwd=CWD)[0]["result"] == {}
    assert texts(client.prompt("hello")) == ["Hi."]


def test_a_new_session_is_the_recorded_one_where_that_was_only_resumed() -> None:
    tape = Tape()
    tape.greet()
    tape.answer(tape.ask("session/resume", sessionId="s1", cwd=CWD), {"modes": None})
    tape.run("hello", "Hi.")
    client = Client(tape)
    assert client.ask("session/new", cwd=CWD)[0]["result"] == {"sessionId": "s1", "modes": None}
    assert texts(client.prompt("hello")) == ["Hi."]
    assert ends(client.ask("session/new", cwd=CWD)) == [-32600]


def test_a_new_session_is_the_recorded_one_where_nobody_knows_how_that_was_opened() -> None:
    tape = Tape()
    tape.run("hello", "Hi.")
    client = Client(tape)
    assert client.ask("initialize")[0]["result"] == {"protocolVersion": 1}
    assert client.ask("session/new", cwd=CWD)[0]["result"] == {"sessionId": "s1"}
    assert texts(client.prompt("hello")) == ["Hi."]


def test_an_unknown_session_is_not_found_and_those_that_there_are_are_named() -> None:
    received = Client(talk()).ask("session/load", sessionId="other", cwd=CWD)
    assert ends(received) == [-32002]
    assert "recorded sessions: s1" in error_in(received)


def test_a_session_whose_id_changed_when_it_was_resumed_is_one_session() -> None:
    tape = Tape()
    tape.greet()
    tape.answer(tape.ask("session/resume", sessionId="old", cwd=CWD), {"sessionId": "new"})
    tape.run("hello", "Hi.", "new")
    client = Client(tape)
    assert client.ask("session/resume", sessionId="old", cwd=CWD)[0]["result"] == {"sessionId": "new"}
    assert texts(client.prompt("hello", "new")) == ["Hi."]
    client = Client(tape)
    assert client.ask("session/resume", sessionId="mine", cwd=CWD)[0]["result"] == {"sessionId": "mine"}
    assert texts(client.prompt("hello", "mine")) == ["Hi."]


def test_what_came_before_the_session_was_asked_for_comes_when_it_is() -> None:
    tape = Tape()
    tape.greet()
    tape.say("early")
    tape.answer(tape.ask("session/load", sessionId="s1", cwd=CWD), {})
    assert texts(Client(tape).ask("session/load", sessionId="s1", cwd=CWD)) == ["early"]


def test_sessions_are_listed_where_no_list_was_recorded() -> None:
    [answer] = Client(talk()).ask("session/list")
    assert answer["result"] == {"sessions": [{"sessionId": "s1", "cwd": CWD}]}


def test_what_does_no_harm_is_answered_though_it_was_not_recorded() -> None:
    client = Client(talk()).open()
    for method in ("authenticate", "logout"):
        assert client.ask(method)[0]["result"] == {}
    for method in ("session/close", "session/delete"):
        assert client.ask(method, sessionId="s1")[0]["result"] == {}


def test_each_connection_of_a_file_opens_its_own_sessions() -> None:
    tape = talk()
    tape.greet(agentInfo={"name": "second"})
    tape.open("t1")
    tape.run("there?", "Here.", "t1")
    client = Client(tape, connection=2)
    assert client.ask("initialize")[0]["result"]["agentInfo"] == {"name": "second"}
    assert client.ask("session/new", cwd=CWD)[0]["result"]["sessionId"] == "t1"
    assert texts(client.prompt("there?", "t1")) == ["Here."]


# -- folders and terminals


def in_a_folder() -> Tape:
    tape = Tape()
    tape.greet()
    tape.open()
    prompt = tape.prompt(f"read {CWD}/a.txt")
    tape.say(f"cd\n{CWD} and {CWD}/a.txt, not {CWD}2/b or /mnt{CWD}")
    tape.want("t", "terminal/create", command="ls", cwd=CWD)
    tape.give("t", {"terminalId": "term-then"})
    tape.want("w", "terminal/wait_for_exit", terminalId="term-then")
    tape.give("w", {"exitCode": 0})
    tape.say("term-then")
    tape.answer(prompt, {"stopReason": "end_turn"})
    return tape


def test_the_folder_is_the_clients_in_all_that_is_said_and_compared() -> None:
    client = Client(in_a_folder()).open(cwd="/tmp/here")
    received = client.prompt("read /tmp/here/a.txt")
    assert texts(received) == [f"cd\n/tmp/here and /tmp/here/a.txt, not {CWD}2/b or /mnt{CWD}"]
    assert received[-1]["params"]["cwd"] == "/tmp/here"


def test_terminals_have_the_ids_that_the_client_gave_them() -> None:
    client = Client(in_a_folder()).open()
    client.prompt(f"read {CWD}/a.txt")
    [wait] = client.give("t", {"terminalId": "term-now"})
    assert wait["params"]["terminalId"] == "term-now"
    assert texts(client.give("w", {"exitCode": 0})) == ["term-then"], "its name inside a text stays"


def test_what_needs_no_exchange_is_said_byte_by_byte() -> None:
    odd = b'{"jsonrpc":"2.0",  "method":"session/update","params":{"sessionId":"s1","\\u0061":1.0}}'
    tape = Tape()
    tape.greet()
    tape.open()
    prompt = tape.prompt("hello")
    tape.lines.append(b'{"dir":"in","ts":9,"frame":' + odd + b"}")
    tape.answer(prompt, {"stopReason": "end_turn"})
    client = Client(tape).open()
    request = {"id": 3, "method": "session/prompt", "params": {"sessionId": "s1", "prompt": [_text("hello")]}}
    client.player.receive(msgspec.json.encode(request))
    assert client.player.step(0.0)[0] == odd + b"\n"


# -- what differs


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def prompted(*blocks: dict[str, Any]) -> Tape:
    tape = Tape()
    tape.greet()
    tape.open()
    tape.answer(tape.ask("session/prompt", sessionId="s1", prompt=list(blocks)), {"stopReason": "end_turn"})
    return tape


@pytest.mark.parametrize(
    ("recorded", "given", "same"),
    [
        ([_text("a"), _text("b")], [_text("a"), _text("b")], True),
        ([_text("a"), _text("b")], [_text("a")], False),
        ([_text("a")], [{**_text("a"), "_meta": {"x": 1}}], True),
        ([{"type": "image", "data": "AAAA"}], [{"type": "image", "data": "AAAB"}], False),
        ([_text("use [secret] now")], [_text("use sk-1234 now")], True),
        ([_text("use [secret] now")], [_text("use sk-1234 later")], False),
        ([_text("use (a) now")], [_text("use a now")], False),
    ],
)
def test_prompts_are_the_same_where_all_their_blocks_are(
    recorded: list[dict[str, Any]], given: list[dict[str, Any]], same: bool
) -> None:
    received = Client(prompted(*recorded)).open().ask("session/prompt", sessionId="s1", prompt=given)
    assert ends(received) == (["end_turn"] if same else [-32602])


def test_long_attachments_are_cut_in_the_difference_and_still_told_apart() -> None:
    recorded, given = ({"type": "image", "data": "A" * 5000 + end} for end in "BC")
    received = Client(prompted(recorded)).open().ask("session/prompt", sessionId="s1", prompt=[given])
    shown = error_in(received)
    assert len(shown) < 1000
    assert len({line[1:] for line in shown.splitlines() if line[:2] in ("-{", "+{")}) == 2


# -- reading


def test_a_line_that_is_no_recording_is_named() -> None:
    with pytest.raises(InputError, match=r"talk\.jsonl, line 2"):
        read_recording([b'{"dir":"end","ts":1}', b"nonsense"], name="talk.jsonl")


@pytest.mark.parametrize("lines", [[], [b'{"dir":"end","ts":1}'], [b'{"dir":"noise","ts":1,"line":"x"}']])
def test_a_recording_with_nothing_to_play_is_an_error(lines: list[bytes]) -> None:
    with pytest.raises(InputError, match="nothing to play"):
        read_recording(lines)


def test_noise_and_what_the_host_noted_are_passed_over() -> None:
    tape = talk()
    tape.lines.insert(2, b'{"dir":"noise","ts":1,"line":"x"}')
    tape.put("host", {"method": "_dragoman/prompt", "params": {"sessionId": "s1"}})
    assert texts(Client(tape).open().prompt("hello")) == ["Hi."]


def test_a_session_of_a_journal_whose_handshake_is_not_in_it_is_played() -> None:
    """An export of one session has no frames of the connection as such, and may lack the request for the session."""
    capabilities = {"loadSession": True}
    tape = Tape()
    tape.lines.append(b'{"dir":"journal","format":1}')
    known = {"dir": "connection", "id": "c", "protocol_version": 1, "capabilities": capabilities}
    tape.lines.append(msgspec.json.encode(known))
    tape.lines.append(msgspec.json.encode({"dir": "session", "id": "ours", "cwd": CWD, "agent_session_id": "s1"}))
    mark = {"connection": "c", "session": "ours"}
    tape.put("in", {"id": 1, "result": {"sessionId": "s1", "modes": None}}, kind="session/new", **mark)
    prompt = {"sessionId": "s1", "prompt": [_text(f"in {CWD}")]}
    tape.put("out", {"id": 2, "method": "session/prompt", "params": prompt}, **mark)
    tape.put("in", {"id": 2, "result": {"stopReason": "end_turn"}}, kind="session/prompt", **mark)
    client = Client(tape)
    assert client.ask("initialize")[0]["result"] == {"protocolVersion": 1, "agentCapabilities": capabilities}
    assert client.ask("session/new", cwd="/tmp/x")[0]["result"] == {"sessionId": "s1", "modes": None}
    assert ends(client.prompt("in /tmp/x")) == ["end_turn"]
