"""Which session a frame belongs to."""

import msgspec

from dragoman.record.routing import MAX_PENDING_VISITS, ConnectionReader
from dragoman.wire.framing import DEFAULT_LINE_LIMIT_BYTES
from dragoman.wire.messages import Request


def test_an_outgoing_line_is_never_too_long_to_be_recorded() -> None:
    """The limit is for lines of the agent. A longer prompt must still be recorded, or its run would have no end."""
    text = b"x" * DEFAULT_LINE_LIMIT_BYTES
    line = (
        b'{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"%b"}]}}' % text
    )
    [routed] = ConnectionReader().read("out", line)
    assert isinstance(routed.message, Request)
    assert routed.session_id == "s"


def session_of_question(reader: ConnectionReader, request_id: int, **params: object) -> str | None:
    frame = {"id": request_id, "method": "elicitation/create", "params": {"mode": "url", **params}}
    [routed] = reader.read("in", msgspec.json.encode(frame))
    return routed.session_id


def completed(reader: ConnectionReader, elicitation_id: str) -> str | None:
    frame = {"method": "elicitation/complete", "params": {"elicitationId": elicitation_id}}
    [routed] = reader.read("in", msgspec.json.encode(frame))
    return routed.session_id


def test_the_end_of_a_visit_belongs_to_the_session_that_asked_for_it() -> None:
    reader = ConnectionReader()
    assert session_of_question(reader, 1, sessionId="a", elicitationId="x") == "a"
    assert session_of_question(reader, 2, sessionId="b", elicitationId="y") == "b"
    assert (completed(reader, "y"), completed(reader, "x")) == ("b", "a")
    assert (completed(reader, "x"), completed(reader, "z")) == (None, None)


def test_a_question_about_a_request_to_the_agent_belongs_to_its_session() -> None:
    reader = ConnectionReader()
    reader.read("out", b'{"id":7,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}')
    reader.read("out", b'{"id":8,"method":"authenticate","params":{"methodId":"m"}}')
    assert session_of_question(reader, 1, requestId=7) == "s"
    assert (session_of_question(reader, 2, requestId=8), session_of_question(reader, 3)) == (None, None)


def test_visits_that_are_never_completed_are_forgotten_in_time() -> None:
    reader = ConnectionReader()
    for number in range(MAX_PENDING_VISITS + 1):
        session_of_question(reader, number, sessionId="s", elicitationId=str(number))
    assert (completed(reader, "0"), completed(reader, "1")) == (None, "s")
