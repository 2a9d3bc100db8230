"""What a file has told, in a few bytes for each record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.translate import hashed
from dragoman.translate.hashed import HashMap, Texts


class Same:
    """All of these have one hash, and are taken for one."""

    def __hash__(self) -> int:
        return 0


@pytest.fixture(scope="module", autouse=True, params=[20_000, 5])
def _few(request: pytest.FixtureRequest) -> Iterator[None]:
    """As they are, and as if few were many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashed, "_FEW", request.param)
        patch.setattr(hashed, "_SLOTS", 16)
        yield


@given(st.lists(st.text(max_size=3), max_size=2000))
def test_a_set_knows_what_was_added_and_nothing_else(texts: list[str]) -> None:
    known, told = set[str](), HashMap()
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
    told = HashMap()
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


def test_texts_are_found_by_their_numbers() -> None:
    texts = Texts()
    given = ["a", "a", "", "b", "ä\n\0", "\ud800", "a"]
    numbers = [texts.add(text) for text in given]
    assert [texts[number] for number in numbers] == given
    assert numbers[0] == numbers[1]  # it is there once
