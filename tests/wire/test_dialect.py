"""The end of a run, and its usage."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.wire.dialect import LATEST_VERSION, dialect_for
from dragoman.wire.messages import Reply, RpcError

NOTHING = msgspec.Raw(b"null")


def ended(data: object) -> Reply:
    return Reply(1, "session/prompt", NOTHING, RpcError(-32603, "it broke", data), b"")


def test_the_usage_of_a_failed_run_comes_from_its_error() -> None:
    data = {"usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}}
    end = dialect_for(LATEST_VERSION).run_end(ended(data))
    assert end is not None
    assert end.usage is not None
    assert (end.usage.input_tokens, end.usage.total_tokens, end.stop_reason) == (3, 7, None)


@pytest.mark.parametrize("data", [None, "text", [], {}, {"usage": 3}, {"usage": {"inputTokens": "many"}}])
def test_an_error_without_usage_ends_the_run_too(data: object) -> None:
    end = dialect_for(LATEST_VERSION).run_end(ended(data))
    assert end is not None
    assert end.usage is None
    assert end.error is not None
