"""Which session a message is about, without reading all of it."""

from __future__ import annotations

import pytest

from dragoman.wire.messages import Envelope, peek


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"id":0,"method":"session/prompt","params":{"sessionId":"s"}}', Envelope(0, "session/prompt", "s")),
        (b'{"method":"session/cancel","params":{"sessionId":"s"}}', Envelope(None, "session/cancel", "s")),
        (b'{"id":"a","result":{"sessionId":"s"}}', Envelope("a", new_session_id="s")),
        (b'{"id":1,"error":{"code":1}}', Envelope(1)),
        (b'{"id":1,"method":"initialize"}', Envelope(1, "initialize")),
        (b'{"id":1,"method":"x","params":[1]}', Envelope(1, "x")),
        (b'{"id":1,"method":"x","params":{"sessionId":5}}', Envelope(1, "x")),
        (b"no message", Envelope()),
        (b"\xff", Envelope()),
    ],
)
def test_a_message_shows_what_it_takes_to_send_it(line: bytes, expected: Envelope) -> None:
    assert peek(line) == expected


def test_requests_answers_and_notifications_are_distinguished() -> None:
    assert peek(b'{"id":0,"method":"x"}').is_request
    assert not peek(b'{"method":"x"}').is_request
    assert not peek(b'{"method":"x"}').is_answer
    assert peek(b'{"id":0,"result":null}').is_answer
