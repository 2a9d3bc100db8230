"""Which texts there were, in a few bytes for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.translate.hashed import HashMap, HashSet


class Same:
    """All of these have one hash, and are taken for one."""

    def __hash__(self) -> int:
        return 0


@given(st.lists(st.text(max_size=3), max_size=2000))
def test_a_set_knows_what_was_added_and_nothing_else(texts: list[str]) -> None:
    known, told = set[str](), HashSet()
    for text in texts:
        assert told.add(text) == (text not in known)
        known.add(text)
    assert all(text in told for text in known)
    assert not any(f"{text}, and more" in told for text in known)


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1)), max_size=2000))
def test_a_map_has_the_last_number_of_each(pairs: list[tuple[str, int]]) -> None:
    known, told = dict[str, int](), HashMap()
    for text, number in pairs:
        assert told.get(text) == known.get(text)
        known[text] = number
        told.put(text, number)
    assert {text: told.get(text) for text in known} == known


def test_a_hash_of_nought_is_one_as_any_other() -> None:
    told = HashSet()
    assert Same() not in told
    assert told.add(Same())
    assert not told.add(Same())
    assert Same() in told


def test_it_grows_and_still_knows_all() -> None:
    told = HashMap()
    for number in range(20_000):
        told.put(f"text {number}", number)
    assert [told.get(f"text {number}") for number in range(20_000)] == [*range(20_000)]
    assert told.get("text 20000") is None
