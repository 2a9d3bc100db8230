"""Which session a frame belongs to."""

import msgspec

from dragoman.record.routing import MAX_PENDING_VISITS, ConnectionReader
from dragoman.wire.framing import DEFAULT_LINE_LIMIT_BYTES
from dragoman.wire.messages import Request


def test_what_we_said_is_never_too_long_to_be_recorded() -> None:
    """The limit is on what an agent says. A prompt over it that nobody recorded would be a run without an end."""
    text = b"x" * DEFAULT_LINE_LIMIT_BYTES
    line = (
        b'{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"%b"}]}}' % text
    )
    [heard] = ConnectionReader().read("out", line)
    assert isinstance(heard.message, Request)
    assert heard.session_id == "s"


def asked(conversation: ConnectionReader, request_id: int, **params: object) -> str | None:
    frame = {"id": request_id, "method": "elicitation/create", "params": {"mode": "url", **params}}
    [heard] = conversation.read("in", msgspec.json.encode(frame))
    return heard.session_id


def completed(conversation: ConnectionReader, elicitation_id: str) -> str | None:
    frame = {"method": "elicitation/complete", "params": {"elicitationId": elicitation_id}}
    [heard] = conversation.read("in", msgspec.json.encode(frame))
    return heard.session_id


def test_the_end_of_a_visit_belongs_to_the_session_that_asked_for_it() -> None:
    conversation = ConnectionReader()
    assert asked(conversation, 1, sessionId="a", elicitationId="x") == "a"
    assert asked(conversation, 2, sessionId="b", elicitationId="y") == "b"
    assert (completed(conversation, "y"), completed(conversation, "x")) == ("b", "a")
    assert (completed(conversation, "x"), completed(conversation, "z")) == (None, None)


def test_a_question_about_a_request_of_ours_belongs_to_its_session() -> None:
    conversation = ConnectionReader()
    conversation.read("out", b'{"id":7,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}')
    conversation.read("out", b'{"id":8,"method":"authenticate","params":{"methodId":"m"}}')
    assert asked(conversation, 1, requestId=7) == "s"
    assert (asked(conversation, 2, requestId=8), asked(conversation, 3)) == (None, None)


def test_visits_that_are_never_completed_are_forgotten_in_time() -> None:
    conversation = ConnectionReader()
    for number in range(MAX_PENDING_VISITS + 1):
        asked(conversation, number, sessionId="s", elicitationId=str(number))
    assert (completed(conversation, "0"), completed(conversation, "1")) == (None, "s")
