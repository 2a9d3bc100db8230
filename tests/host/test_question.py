"""Questions: read from what the agent says, and their answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.host.question.question import (
    CANCELLED,
    DECLINED,
    Question,
    QuestionAnswer,
    encode_answer,
    parse_answer,
    read_question,
)
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.messages import Request

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def request(**params: Any) -> Request:
    return Request(7, "elicitation/create", msgspec.Raw(msgspec.json.encode(params)), b"")


def form(**more: Any) -> Question:
    return read_question(request(mode="form", sessionId="a1", message="Who?", requestedSchema=NAME, **more))


def page(**more: Any) -> Question:
    params = {"mode": "url", "sessionId": "a1", "url": "https://example.org/", "elicitationId": "e1", **more}
    return read_question(request(message="Look", **params))


def test_a_form_is_read_with_what_it_belongs_to() -> None:
    frame = request(mode="form", sessionId="a1", toolCallId="t1", message="Who?", requestedSchema=NAME, _meta={"x": 1})
    question = read_question(frame, agent="claude", session_id="s1")
    assert (question.message, question.agent, question.session_id) == ("Who?", "claude", "s1")
    assert (question.tool_call_id, question.request_id, question.during) == ("t1", 7, None)
    assert [field.name for field in question.fields] == ["name"]
    assert question.url is None
    assert b'"_meta"' in bytes(question.raw)


def test_a_question_outside_of_sessions_tells_during_which_request_it_is_asked() -> None:
    question = read_question(request(mode="form", requestId=3, message="Which account?", requestedSchema=NAME))
    assert (question.session_id, question.during) == (None, 3)


def test_a_page_is_read() -> None:
    question = page()
    assert question.page is not None
    assert (question.url, question.page.host, question.page.id) == ("https://example.org/", "example.org", "e1")
    assert question.fields == ()


def test_a_bad_tool_call_id_does_not_cost_the_question() -> None:
    assert form(toolCallId=["t1"]).tool_call_id is None


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mode": "url", "message": "x", "elicitationId": "e1"}, "url: is missing"),
        ({"mode": "url", "message": "x", "url": "https://example.org/"}, "elicitationId: is missing"),
        ({"mode": "url", "message": "x", "url": "http://example.org/", "elicitationId": "e"}, "neither https"),
        ({"mode": "_voice", "message": "x"}, "mode: '_voice' is not offered"),
        ({"mode": "form", "message": "x", "requestedSchema": []}, "elicitation/create: "),
        ({"mode": "form", "message": 5}, "elicitation/create: "),
    ],
)
def test_what_is_no_question_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(RpcRefusal) as refused:
        read_question(request(**params))
    assert refused.value.error.code == -32602
    assert message in refused.value.error.message


def test_a_mode_that_is_not_offered_is_refused() -> None:
    with pytest.raises(RpcRefusal, match="mode: 'url' is not offered"):
        read_question(request(mode="url", message="", url="https://a.example/", elicitationId="e"), modes=["form"])


def test_only_what_fits_is_accepted() -> None:
    assert form().accept({"name": "Ada"}) == QuestionAnswer("accept", {"name": "Ada"})
    with pytest.raises(InputError, match="name is required"):
        form().accept()
    assert page().accept() == QuestionAnswer("accept")
    with pytest.raises(InputError, match="name cannot be sent"):
        page().accept({"name": "Ada"})


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (QuestionAnswer("accept", {"name": "Ada"}), QuestionAnswer("accept", {"name": "Ada"})),
        ({"name": "Ada"}, QuestionAnswer("accept", {"name": "Ada"})),
        (DECLINED, DECLINED),
        (False, DECLINED),
        (CANCELLED, CANCELLED),
        (None, CANCELLED),
    ],
)
def test_short_answers_mean_what_they_say(reply: object, answer: QuestionAnswer) -> None:
    assert parse_answer(form(), reply) == answer


@pytest.mark.parametrize("reply", [True, "Ada", 1, {"name": 3}, QuestionAnswer("accept"), ["name"], object()])
def test_what_is_no_answer_is_refused(reply: object) -> None:
    with pytest.raises(InputError):
        parse_answer(form(), reply)


def test_true_accepts_what_needs_nothing() -> None:
    assert parse_answer(page(), True) == QuestionAnswer("accept")
    confirm = read_question(request(mode="form", sessionId="a1", message="Go on?", requestedSchema={"type": "object"}))
    assert parse_answer(confirm, True) == QuestionAnswer("accept", {})


@pytest.mark.parametrize(
    ("answer", "wire"),
    [
        (QuestionAnswer("accept", {"name": "Ada", "many": ("a",)}), {"content": {"name": "Ada", "many": ["a"]}}),
        (QuestionAnswer("accept", {}), {"content": {}}),
        (QuestionAnswer("accept"), {}),
        (DECLINED, {}),
        (CANCELLED, {}),
    ],
)
def test_answers_go_out_in_the_protocols_words(answer: QuestionAnswer, wire: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(encode_answer(answer))) == {"action": answer.action, **wire}
