"""Events come out of bytes whole, however the bytes are split."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.http import EventReader, EventTooLong

MAX_EVENT_BYTES = 10_000


def events_of(*chunks: bytes) -> list[bytes]:
    reader = EventReader(MAX_EVENT_BYTES)
    return [event for chunk in chunks for event in reader.feed(chunk)]


@given(
    st.lists(st.dictionaries(st.text(), st.text() | st.integers())), st.sampled_from(["\n", "\r\n", "\r"]), st.data()
)
def test_any_split_of_the_bytes_gives_the_same_messages(
    values: list[dict[str, str | int]], end: str, data: st.DataObject
) -> None:
    lines = [f"data: {msgspec.json.encode(message).decode()}{end}{end}" for message in values]
    stream = f": hello{end}{end}".join(["", *lines]).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [msgspec.json.decode(event) for event in events_of(*pieces)] == values


def test_data_over_several_lines_is_one_message_on_one_line() -> None:
    assert events_of(b'data: {"a":\ndata: 1}\n\n') == [b'{"a": 1}']


def test_comments_other_fields_and_empty_events_are_skipped() -> None:
    assert events_of(b":\n\nevent: message\nid: 7\nretry: 10\n\ndata:{}\nid: 8\n\n\n\n") == [b"{}"]


def test_an_unfinished_event_is_not_given_out() -> None:
    assert events_of(b"data: {}\n") == []


def test_a_message_over_the_limit_is_an_error_before_it_fills_the_memory() -> None:
    reader = EventReader(100)
    assert reader.feed(b"data: 1\n\ndata: " + b"x" * 80) == [b"1"]
    with pytest.raises(EventTooLong, match="100 bytes"):
        reader.feed(b"x" * 80)


def test_skipped_parts_do_not_count_towards_the_limit() -> None:
    reader = EventReader(100)
    for _ in range(100):
        assert reader.feed(b": still here\n\nid: 1\n") == []
