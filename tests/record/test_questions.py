"""The questions of the agent to the user, in the record."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.record import facts, notes, rows
from support.tape import Tape

FORM = {
    "mode": "form",
    "message": "Which one?",
    "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
}
VISIT = {"mode": "url", "message": "Please log in", "url": "https://example.org/login", "elicitationId": "e-1"}


def only_question(tape: Tape) -> rows.Question:
    [row] = tape.fold.questions.values()
    return row


def test_a_form_is_recorded_with_its_answer_and_who_gave_it() -> None:
    tape = Tape()
    tape.prompt()
    [fact] = tape.request("q", "elicitation/create", toolCallId="t", **FORM)
    row = only_question(tape)
    assert fact == facts.QuestionAsked(row)
    assert (row.mode, row.message, row.tool_call_id, row.action) == ("form", "Which one?", "t", "pending")
    assert row.schema is not None
    assert list(row.schema["properties"]) == ["colour"]
    tape.note(notes.Decision("q", "person", "at the terminal"))
    [answered] = tape.reply("q", {"action": "accept", "content": {"colour": "red"}})
    row = only_question(tape)
    assert answered == facts.QuestionAnswered(row)
    assert (row.action, row.content, row.decided_by, row.answered_time) == ("accept", {"colour": "red"}, "person", 4.0)


@pytest.mark.parametrize("action", ["decline", "cancel", "something new"])
def test_decline_cancel_and_failure_are_distinguished(action: str) -> None:
    tape = Tape()
    tape.request("q", "elicitation/create", **FORM)
    tape.reply("q", {"action": action})
    assert (only_question(tape).action, only_question(tape).content) == (action, None)


@pytest.mark.parametrize(("code", "action"), [(-32800, "cancel"), (-32601, "failed")])
def test_a_question_that_was_answered_by_an_error_says_so(code: int, action: str) -> None:
    tape = Tape()
    tape.request("q", "elicitation/create", **FORM)
    tape.deny("q", code)
    assert only_question(tape).action == action


def test_an_address_is_complete_when_the_agent_says_so() -> None:
    tape = Tape()
    tape.request("q", "elicitation/create", **VISIT)
    tape.reply("q", {"action": "accept"})
    assert (only_question(tape).url, only_question(tape).completed_time) == ("https://example.org/login", None)
    [completed] = tape.notify("elicitation/complete", elicitationId="e-1")
    assert completed == facts.QuestionCompleted(only_question(tape))
    assert only_question(tape).completed_time == 3.0
    assert list(tape.notify("elicitation/complete", elicitationId="e-1")) == [facts.OtherUpdate("elicitation/complete")]


def test_an_unknown_kind_of_question_is_recorded_by_its_name() -> None:
    tape = Tape()
    tape.request("q", "elicitation/create", mode="hologram", message="?")
    assert only_question(tape).mode == "hologram"


def test_a_property_of_an_unknown_kind_is_recorded_as_the_agent_wrote_it() -> None:
    schema = {"type": "object", "properties": {"shape": {"type": "object", "x": [1]}}}
    tape = Tape()
    tape.request("q", "elicitation/create", mode="form", message="?", requestedSchema=schema)
    row = only_question(tape)
    assert row.schema == schema
    assert msgspec.json.decode(msgspec.json.encode(row), type=rows.Question) == row
