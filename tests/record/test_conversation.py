"""Which session a frame belongs to."""

from dragoman.record.conversation import Conversation
from dragoman.wire.framing import DEFAULT_LINE_LIMIT
from dragoman.wire.messages import Request


def test_what_we_said_is_never_too_long_to_be_recorded() -> None:
    """The limit is on what an agent says. A prompt over it that nobody recorded would be a run without an end."""
    text = b"x" * DEFAULT_LINE_LIMIT
    line = (
        b'{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"%b"}]}}' % text
    )
    [heard] = Conversation().read("out", line)
    assert isinstance(heard.message, Request)
    assert heard.session_id == "s"
