import hashlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.framing import OVERSIZED_HEAD_BYTES, OVERSIZED_TAIL_BYTES, LineFramer
from dragoman.wire.messages import Oversized


def feed_in_pieces(data: bytes, cuts: list[int], limit: int) -> list[bytes | Oversized]:
    framer = LineFramer(limit)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    lines: list[bytes | Oversized] = []
    for start, end in itertools.pairwise(edges):
        lines += framer.feed(data[start:end])
    return lines + framer.finish()


stream = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8).map(b"\n".join)


@given(data=stream, cuts=st.lists(st.integers(0, 1000), max_size=12), limit=st.integers(1, 40))
def test_any_split_of_the_bytes_gives_the_same_lines(data: bytes, cuts: list[int], limit: int) -> None:
    assert feed_in_pieces(data, cuts, limit) == feed_in_pieces(data, [], limit)


@given(data=stream, cuts=st.lists(st.integers(0, 1000), max_size=12))
def test_the_lines_are_the_bytes_between_newlines(data: bytes, cuts: list[int]) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()  # nothing was said after the last newline
    assert feed_in_pieces(data, cuts, limit=1000) == expected


@given(length=st.integers(11, 300), cuts=st.lists(st.integers(0, 1000), max_size=5))
def test_a_line_over_the_limit_is_described_by_length_digest_and_beginning(length: int, cuts: list[int]) -> None:
    line = bytes(i % 9 + 48 for i in range(length))
    first, second = feed_in_pieces(line + b"\nafter\n", cuts, limit=10)
    assert first == Oversized(
        length, hashlib.sha256(line).hexdigest(), line[:OVERSIZED_HEAD_BYTES], line[-OVERSIZED_TAIL_BYTES:]
    )
    assert second == b"after"


def test_only_the_beginning_of_a_long_line_is_stored() -> None:
    framer = LineFramer(limit_bytes=1_000_000)
    piece = b"x" * 100_000
    for _ in range(20):
        assert framer.feed(piece) == []
    (oversized,) = framer.feed(b"\n")
    assert isinstance(oversized, Oversized)
    assert oversized.length == 2_000_000
    assert len(oversized.head) == OVERSIZED_HEAD_BYTES


@pytest.mark.parametrize("size", [262_143, 262_144, 262_145, 999_999, 1_000_000, 1_000_001, 1_500_000])
@pytest.mark.parametrize("piece", [7_001, 65_536, 300_000, 2_000_000])
def test_a_line_of_many_pieces_is_read_whole_up_to_the_limit(size: int, piece: int) -> None:
    line = bytes(48 + number % 10 for number in range(1000)) * (size // 1000 + 1)
    line = line[:size]
    expected: bytes | Oversized = line
    if size > 1_000_000:
        digest = hashlib.sha256(line).hexdigest()
        expected = Oversized(size, digest, line[:OVERSIZED_HEAD_BYTES], line[-OVERSIZED_TAIL_BYTES:])
    data = line + b"\nafter\n"
    cuts = list(range(piece, len(data), piece))
    assert feed_in_pieces(data, cuts, limit=1_000_000) == [expected, b"after"]


def test_a_line_of_exactly_the_limit_is_a_line() -> None:
    assert LineFramer(limit_bytes=5).feed(b"12345\n123456\n")[0] == b"12345"
