"""The queue of prompts: order, edits, removal, pause, and a report of each change."""

from __future__ import annotations

import pytest

from dragoman.errors import InputError, SessionBusy
from dragoman.session.run_queue import PromptQueue


def queue_of(*texts: str) -> PromptQueue[str]:
    queue: PromptQueue[str] = PromptQueue()
    for text in texts:
        queue.add(text, text)
    return queue


def test_prompts_leave_in_the_order_in_which_they_came() -> None:
    queue = queue_of("a", "b")
    assert (queue.pop_next(), queue.pop_next(), queue.pop_next()) == ("a", "b", None)


def test_a_prompt_can_be_added_before_the_others() -> None:
    queue = queue_of("a", "b")
    queue.add("c", "c", first=True)
    assert list(queue) == ["c", "a", "b"]
    assert queue.first == "c"


def test_an_edited_prompt_keeps_its_position() -> None:
    queue = queue_of("a", "b", "c")
    queue.edit("b", "B")
    assert list(queue) == ["a", "B", "c"]
    assert queue["b"] == "B"


@pytest.mark.parametrize(
    ("position", "order"), [(0, "cab"), (1, "acb"), (2, "abc"), (10**30, "abc"), (-5, "cab")], ids=str
)
def test_a_prompt_moves_to_a_position_or_the_nearest_end(position: int, order: str) -> None:
    queue = queue_of("a", "b", "c")
    queue.move("c", position)
    assert list(queue) == list(order)


def test_a_removed_prompt_is_returned_and_gone() -> None:
    queue = queue_of("a", "b")
    assert queue.remove("a") == "a"
    assert "a" not in queue
    assert (len(queue), list(queue)) == (1, ["b"])


def test_nothing_leaves_a_paused_queue_but_what_is_removed() -> None:
    queue = queue_of("a", "b")
    queue.paused = True
    assert queue.pop_next() is None
    assert queue.first == "a"
    assert queue.remove("a") == "a"
    queue.paused = False
    assert queue.pop_next() == "b"


def test_a_prompt_that_does_not_wait_is_an_input_error() -> None:
    queue = queue_of("a")
    queue.pop_next()
    for action in (lambda: queue.edit("a", "A"), lambda: queue.move("a", 0), lambda: queue.remove("a")):
        with pytest.raises(InputError, match="nothing is queued as 'a'"):
            action()


def test_an_id_is_queued_once() -> None:
    queue = queue_of("a")
    with pytest.raises(InputError, match="already"):
        queue.add("a", "again")
    assert list(queue) == ["a"]


def test_a_full_queue_has_no_room_until_a_prompt_leaves() -> None:
    queue: PromptQueue[str] = PromptQueue(max_prompts=1)
    queue.check_room()
    queue.add("a", "a")
    with pytest.raises(SessionBusy, match="1 prompts"):
        queue.check_room()
    queue.pop_next()
    queue.check_room()


def test_clearing_returns_what_waited() -> None:
    queue = queue_of("a", "b")
    assert queue.clear() == ["a", "b"]
    assert not queue


def test_every_change_is_reported_after_it_was_made_and_nothing_else() -> None:
    states: list[tuple[list[str], bool]] = []
    queue: PromptQueue[str] = PromptQueue(on_change=lambda: states.append((list(queue), queue.paused)))
    queue.add("a", "a")
    queue.add("b", "b")
    queue.edit("b", "B")
    queue.move("b", 0)
    queue.paused = True
    queue.paused = True  # it was
    assert queue.pop_next() is None
    queue.paused = False
    queue.pop_next()
    queue.remove("a")
    queue.clear()  # nothing was there
    assert states == [
        (["a"], False),
        (["a", "b"], False),
        (["a", "B"], False),
        (["B", "a"], False),
        (["B", "a"], True),
        (["B", "a"], False),
        (["a"], False),
        ([], False),
    ]
