"""The replay agent to a client that does as it did then, and to one that does not."""

from __future__ import annotations

import pytest

from agents_unit.replay_script import CWD, Client, Tape, ends, error_in, talk, texts
from dragoman.agents.replay.playback import INTERRUPT_TIMEOUT_S
from dragoman.errors import InputError

YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}
NO = {"outcome": {"outcome": "selected", "optionId": "no"}}
BOTH = pytest.mark.parametrize("strict", [True, False])


def with_permission() -> Tape:
    tape = Tape()
    tape.greet()
    tape.open()
    prompt = tape.prompt("write it")
    tape.want(7, "session/request_permission", toolCall={"toolCallId": "t"}, options=[])
    tape.say("meanwhile")
    tape.give(7, YES)
    tape.say("done")
    tape.answer(prompt, {"stopReason": "end_turn"})
    return tape


def with_cancel() -> Tape:
    tape = Tape()
    tape.greet()
    tape.open()
    prompt = tape.prompt("go on for ever")
    tape.say("one ")
    tape.cancel()
    tape.say("two ")
    tape.answer(prompt, {"stopReason": "cancelled"})
    tape.run("still there?", "Yes.")
    return tape


def with_two_prompts() -> Tape:
    tape = Tape()
    tape.greet()
    tape.open()
    first = tape.prompt("first")
    tape.say("one ")
    second = tape.prompt("second")
    tape.refuse(second, -32600, "busy")
    tape.say("two")
    tape.answer(first, {"stopReason": "end_turn"})
    return tape


# -- what is played


@BOTH
def test_the_handshake_and_the_session_are_the_recorded_ones(strict: bool) -> None:
    client = Client(talk(), strict=strict)
    [hello] = client.ask("initialize", protocolVersion=1)
    assert hello["result"]["agentInfo"] == {"name": "someone", "version": "1"}
    [opened] = client.ask("session/new", cwd=CWD, mcpServers=[])
    assert (opened["id"], opened["result"]) == (102, {"sessionId": "s1"})


@BOTH
def test_turns_are_played_one_after_another(strict: bool) -> None:
    client = Client(talk(), strict=strict).open()
    first = client.prompt("hello")
    assert (texts(first), ends(first)) == (["Hi."], ["end_turn"])
    assert texts(client.prompt("and now?")) == ["Bye."]


def test_a_different_prompt_is_an_error_that_shows_the_difference_and_plays_nothing() -> None:
    client = Client(talk()).open()
    frames = client.prompt("hallo")
    assert ends(frames) == [-32602]
    assert "(1 of 2)" in error_in(frames)
    assert "\n-hello\n+hallo\n" in error_in(frames)
    assert texts(client.prompt("hello")) == ["Hi."]


def test_what_dragoman_added_to_a_prompt_then_or_now_is_no_difference() -> None:
    added = {"type": "text", "text": "skills", "_meta": {"dragoman.context": True}}
    tape = Tape()
    tape.greet()
    tape.open()
    first = tape.ask("session/prompt", sessionId="s1", prompt=[added, {"type": "text", "text": "hello"}])
    tape.say("Hi.")
    tape.answer(first, {"stopReason": "end_turn"})
    tape.run("and now?", "Bye.")
    client = Client(tape).open()
    assert texts(client.prompt("hello")) == ["Hi."]
    now = [{"type": "text", "text": "and now?"}, added]
    assert ends(client.ask("session/prompt", sessionId="s1", prompt=[*now, {"type": "text", "text": "x"}])) == [-32602]
    assert texts(client.ask("session/prompt", sessionId="s1", prompt=now)) == ["Bye."]


def test_by_order_the_next_turn_answers_whatever_is_asked() -> None:
    client = Client(talk(), strict=False).open()
    assert texts(client.prompt("x")) == ["Hi."]
    assert texts(client.prompt("y")) == ["Bye."]


@BOTH
def test_a_prompt_beyond_the_recording_is_a_clear_error(strict: bool) -> None:
    client = Client(talk(), strict=strict).open()
    client.prompt("hello")
    client.prompt("and now?")
    frames = client.prompt("and then?")
    assert ends(frames) == [-32600]
    assert "has 2 prompts, and all were played" in error_in(frames)


def test_a_recording_that_was_cut_says_so_in_place_of_an_answer() -> None:
    tape = Tape()
    tape.greet()
    tape.open()
    tape.prompt("hello")
    tape.say("Hi")
    frames = Client(tape).open().prompt("hello")
    assert texts(frames) == ["Hi"]
    assert "ends here" in error_in(frames)


@BOTH
def test_what_was_said_after_the_answer_is_said_after_it(strict: bool) -> None:
    tape = Tape()
    tape.greet()
    tape.open()
    tape.run("hello", "Hi.")
    tape.say("late")
    tape.run("more", "More.")
    client = Client(tape, strict=strict).open()
    frames = client.prompt("hello")
    assert texts(frames) == ["Hi.", "late"]
    assert "result" in frames[1]
    assert texts(client.prompt("more")) == ["More."]


def test_updates_before_the_answer_to_session_new_come_before_it() -> None:
    tape = Tape()
    tape.greet()
    new = tape.ask("session/new", cwd=CWD)
    tape.say("early")
    tape.put("in", {"method": "_auth/status", "params": {}})
    tape.answer(new, {"sessionId": "s1"})
    client = Client(tape)
    client.ask("initialize")
    frames = client.ask("session/new", cwd=CWD)
    assert [frame.get("method") for frame in frames] == ["session/update", "_auth/status", None]


@BOTH
def test_an_unknown_method_is_refused(strict: bool) -> None:
    client = Client(talk(), strict=strict).open()
    assert ends(client.ask("_example/unknown")) == [-32601]
    assert ends(client.ask("session/set_mode", sessionId="s1", modeId="x")) == [-32601]
    assert ends(client.ask("session/prompt", sessionId="s2", prompt=[])) == [-32002]


def test_what_is_no_message_is_answered_as_such_and_harms_nothing() -> None:
    client = Client(talk()).open()
    client.player.receive(b"not JSON")
    assert ends(client.later(0)) == [-32700]
    assert texts(client.prompt("hello")) == ["Hi."]


# -- settings


def with_settings() -> Tape:
    tape = Tape()
    tape.greet()
    tape.open()
    for mode in ("plan", "code"):
        request_id = tape.ask("session/set_mode", sessionId="s1", modeId=mode)
        tape.say(f"mode {mode}")
        tape.answer(request_id, {"mode": mode})
    tape.run("hello", "Hi.")
    return tape


def test_settings_are_answered_as_they_were_and_may_be_left_out() -> None:
    client = Client(with_settings()).open()
    frames = client.ask("session/set_mode", sessionId="s1", modeId="code")
    assert (texts(frames), frames[-1]["result"]) == (["mode code"], {"mode": "code"})
    assert texts(client.prompt("hello")) == ["Hi."]


def test_a_setting_that_was_not_recorded_is_an_error_where_it_is_strict() -> None:
    params = {"sessionId": "s1", "modeId": "wild"}
    strict = Client(with_settings()).open().ask("session/set_mode", **params)
    assert ends(strict) == [-32602]
    assert '-{"modeId":"plan"}\n+{"modeId":"wild"}' in error_in(strict)
    [*_, by_order] = Client(with_settings(), strict=False).open().ask("session/set_mode", **params)
    assert by_order["result"] == {"mode": "plan"}


@BOTH
def test_a_setting_during_a_turn_is_answered_during_it(strict: bool) -> None:
    tape = with_settings()
    prompt = tape.prompt("ask me")
    tape.want(7, "session/request_permission")
    tape.give(7, YES)
    tape.answer(prompt, {"stopReason": "end_turn"})
    client = Client(tape, strict=strict).open()
    client.prompt("hello")
    client.prompt("ask me")
    [answer] = client.ask("session/set_mode", sessionId="s1", modeId="plan")
    assert answer["result"] == {"mode": "plan"}
    assert ends(client.give(7, YES)) == ["end_turn"]


# -- the agent's requests


@BOTH
def test_the_turn_goes_on_when_the_client_has_answered(strict: bool) -> None:
    client = Client(with_permission(), strict=strict).open()
    frames = client.prompt("write it")
    assert [frame["method"] for frame in frames] == ["session/request_permission", "session/update"]
    assert client.later(3600.0) == [], "an answer may take its time"
    assert texts(client.give(frames[0]["id"], YES)) == ["done"]


def test_another_decision_is_an_error_where_it_is_strict() -> None:
    client = Client(with_permission()).open()
    client.prompt("write it")
    frames = client.give(7, NO)
    assert ends(frames) == [-32600]
    assert "-selected yes\n+selected no" in error_in(frames)
    assert texts(frames) == []


def test_by_order_it_goes_on_as_recorded_whatever_is_decided() -> None:
    client = Client(with_permission(), strict=False).open()
    client.prompt("write it")
    frames = client.give(7, NO)
    assert (texts(frames), ends(frames)) == (["done"], ["end_turn"])


def test_what_a_file_holds_may_differ_but_not_whether_it_was_there() -> None:
    tape = Tape()
    tape.greet()
    tape.open()
    prompt = tape.prompt("read it")
    tape.want("r", "fs/read_text_file", path=f"{CWD}/a")
    tape.give("r", {"content": "then"})
    tape.answer(prompt, {"stopReason": "end_turn"})
    client = Client(tape).open()
    client.prompt("read it")
    assert ends(client.give("r", {"content": "now"})) == ["end_turn"]
    client = Client(tape).open()
    client.prompt("read it")
    assert "-served\n+an error" in error_in(client.send({"id": "r", "error": {"code": -32002, "message": "gone"}}))


def test_a_request_whose_id_is_in_use_gets_another_and_its_withdrawal_too() -> None:
    tape = Tape()
    tape.greet()
    for name in ("s1", "s2"):
        tape.open(name)
    for name in ("s1", "s2"):
        prompt = tape.prompt("go", name)
        tape.want(7, "session/request_permission", name)
        tape.give(7, YES)
        tape.put("in", {"method": "$/cancel_request", "params": {"requestId": 8}})
        tape.answer(prompt, {"stopReason": "end_turn"})
    client = Client(tape).open()
    client.ask("session/new", cwd=CWD)
    [one] = client.prompt("go", "s1")
    [two] = client.prompt("go", "s2")
    assert one["id"] == 7
    assert two["id"] not in (7, 8)
    assert ends(client.give(two["id"], YES)) == ["end_turn"]
    assert ends(client.give(7, YES)) == ["end_turn"]


def test_a_request_that_the_agent_takes_back_is_named_by_the_id_it_has_now() -> None:
    tape = Tape()
    tape.greet()
    for name in ("s1", "s2"):
        tape.open(name)
    for name in ("s1", "s2"):
        prompt = tape.prompt("go", name)
        tape.want(7, "session/request_permission", name)
        if name == "s2":
            tape.put("in", {"method": "$/cancel_request", "params": {"requestId": 7}})
        tape.give(7, YES)
        tape.answer(prompt, {"stopReason": "end_turn"})
    client = Client(tape).open()
    client.ask("session/new", cwd=CWD)
    client.prompt("go", "s1")
    request, withdrawn = client.prompt("go", "s2")
    assert withdrawn["params"] == {"requestId": request["id"]}


# -- cancel, and prompts on top of each other


@BOTH
def test_a_cancel_that_was_not_recorded_ends_the_turn(strict: bool) -> None:
    client = Client(with_permission(), strict=strict).open()
    client.prompt("write it")
    assert ends(client.cancel()) == ["cancelled"]
    assert client.give(7, NO) == []
    assert "all were played" in error_in(client.prompt("write it"))


@BOTH
def test_a_cancel_between_turns_is_nothing(strict: bool) -> None:
    client = Client(talk(), strict=strict).open()
    assert client.cancel() == []
    assert texts(client.prompt("hello")) == ["Hi."]


def test_a_recorded_cancel_is_waited_for() -> None:
    client = Client(with_cancel()).open()
    assert texts(client.prompt("go on for ever")) == ["one "]
    frames = client.cancel()
    assert (texts(frames), ends(frames)) == (["two "], ["cancelled"])
    assert texts(client.prompt("still there?")) == ["Yes."]


def test_a_recorded_cancel_that_never_comes_is_an_error_in_the_end() -> None:
    client = Client(with_cancel()).open()
    client.prompt("go on for ever")
    assert client.later(INTERRUPT_TIMEOUT_S / 2) == []
    assert client.player.wake is not None
    frames = client.later(INTERRUPT_TIMEOUT_S)
    assert ends(frames) == [-32600]
    assert "session/cancel" in error_in(frames)


def test_by_order_a_recorded_cancel_is_not_waited_for() -> None:
    frames = Client(with_cancel(), strict=False).open().prompt("x")
    assert (texts(frames), ends(frames)) == (["one ", "two "], ["cancelled"])


def test_a_second_prompt_within_a_turn_is_played_as_it_was() -> None:
    client = Client(with_two_prompts()).open()
    assert texts(client.prompt("first")) == ["one "]
    frames = client.prompt("second")
    assert (texts(frames), ends(frames)) == (["two"], [-32600, "end_turn"])


def test_by_order_a_second_prompt_may_come_later_and_gets_its_answer() -> None:
    client = Client(with_two_prompts(), strict=False).open()
    frames = client.prompt("first")
    assert (texts(frames), ends(frames)) == (["one ", "two"], ["end_turn"])
    assert error_in(client.prompt("second")) == "busy"


def test_a_prompt_during_a_turn_that_had_none_waits_for_its_end() -> None:
    tape = with_permission()
    tape.run("next", "Next.")
    client = Client(tape).open()
    client.prompt("write it")
    assert client.prompt("next") == []
    frames = client.give(7, YES)
    assert (texts(frames), ends(frames)) == (["done", "Next."], ["end_turn", "end_turn"])


def test_a_waiting_prompt_is_cancelled_with_the_turn() -> None:
    client = Client(with_permission()).open()
    client.prompt("write it")
    client.prompt("next")
    assert ends(client.cancel()) == ["cancelled", "cancelled"]


def test_a_prompt_that_is_taken_back_is_answered_so_and_the_next_is_played() -> None:
    tape = with_permission()
    tape.run("next", "Next.")
    client = Client(tape).open()
    client.prompt("write it")
    frames = client.send({"method": "$/cancel_request", "params": {"requestId": client._ids}})
    assert -32800 in ends(frames)
    assert texts(client.prompt("next"))[-1] == "Next."


def test_one_of_two_prompts_that_is_taken_back_leaves_the_other() -> None:
    tape = Tape()
    tape.greet()
    tape.open()
    first = tape.prompt("first")
    second = tape.prompt("second")
    tape.want(7, "session/request_permission")
    tape.give(7, YES)
    tape.answer(second, {"stopReason": "end_turn"})
    tape.answer(first, {"stopReason": "max_tokens"})
    tape.run("next", "Next.")
    client = Client(tape).open()
    client.prompt("first")
    client.prompt("second")
    assert ends(client.send({"method": "$/cancel_request", "params": {"requestId": client._ids}})) == [-32800]
    assert ends(client.give(7, YES)) == ["max_tokens"]
    assert texts(client.prompt("next")) == ["Next."]


# -- time


def test_in_real_time_the_pauses_are_the_recorded_ones() -> None:
    client = Client(talk(), real=True)
    assert client.ask("initialize") == []
    assert client.player.wake == client.now + 1.0
    assert client.later(0.9) == []
    assert len(client.later(0.2)) == 1
    client.ask("session/new", cwd=CWD)
    client.later(1.0)
    assert client.prompt("hello") == []
    assert texts(client.later(1.0)) == ["Hi."]
    assert ends(client.later(1.0)) == ["end_turn"]
    assert client.player.wake is None


def test_in_real_time_nothing_late_holds_up_the_next_prompt() -> None:
    tape = Tape()
    tape.greet()
    tape.open()
    tape.run("hello", "Hi.")
    tape.say("late")
    tape.run("more", "More.")
    client = Client(tape, real=True).open()
    client.later(9.0)
    client.later(9.0)
    client.prompt("hello")
    client.later(1.0)
    client.later(1.0)
    assert texts(client.prompt("more")) == ["late"]
    assert texts(client.later(1.0)) == ["More."]


def test_sessions_are_played_side_by_side() -> None:
    tape = Tape()
    tape.greet()
    for name in ("s1", "s2"):
        tape.open(name)
    tape.run("one", "One.", "s1")
    tape.run("two", "Two.", "s2")
    client = Client(tape, real=True)
    for _ in range(2):
        client.ask("session/new", cwd=CWD)
        client.later(1.0)
    client.prompt("two", "s2")
    client.prompt("one", "s1")
    assert sorted(texts(client.later(1.0))) == ["One.", "Two."]


def test_a_connection_that_was_not_recorded_is_an_error() -> None:
    with pytest.raises(InputError, match="1 connection, not 2"):
        Client(talk(), connection=2)
