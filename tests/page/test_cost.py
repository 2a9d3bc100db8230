"""The size of the page and of its document, which do not depend on the machine."""

from __future__ import annotations

import pytest

from page import cost
from page.person import Person

FIRST_LOAD = 300 * 1024
NODES = 2_000


def test_the_first_load_is_small(person: Person) -> None:
    assert cost.first_load(person) < FIRST_LOAD


@pytest.mark.timeout(180)
def test_a_long_stream_leaves_little_in_the_page(person: Person) -> None:
    session = person.start_session()
    assert cost.stream(person, "stream 20000").nodes < NODES
    cost.opened(person, f"/s/{session}")
    assert cost.nodes(person) < NODES
