"""The list of sessions, and the changes that its followers get."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from dragoman.bridge import listing as listing_module
from dragoman.bridge.listing import SessionListing, session_item
from dragoman.journal.rows import Session

ROW = Session(id="s1", agent="demo", cwd="/", title="one")


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> SessionListing:
    monkeypatch.setattr(listing_module, "PROGRESS_PAUSE_S", 3600.0)  # until a test wants it
    made = SessionListing(
        lambda row: session_item(row, None, pending=0, is_sub_agent=made.is_sub_agent(row)),
    )
    made.begin([ROW])
    return made


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_progress_is_sent_after_a_pause_also_to_a_fast_follower(listing: SessionListing) -> None:
    number = listing.number
    for frames in range(1, 4):
        listing.put(msgspec.structs.replace(ROW, frames=frames))
        waiting = asyncio.create_task(listing.wait(number))  # a follower that asks again at once
        await turns()
        assert not waiting.done()
        waiting.cancel()
    listing._wake()  # the while is over
    await listing.wait(number)
    changed, removed = listing.since(number)
    assert ([item.frames for item in changed], removed) == ([3], [])


async def test_an_important_change_is_sent_at_once(listing: SessionListing) -> None:
    number = listing.number
    listing.put(msgspec.structs.replace(ROW, frames=1))
    listing.put(msgspec.structs.replace(ROW, frames=2, title="two"))
    await listing.wait(number)
    assert [item.title for item in listing.since(number)[0]] == ["two"]


async def test_a_removed_session_is_reported_once(listing: SessionListing) -> None:
    first = listing.number
    listing.put(msgspec.structs.replace(ROW, id="s2", title="two"))
    listing.remove("s2")
    second = listing.number
    listing.remove("s1")
    await listing.wait(second)
    assert listing.since(first) == ([], ["s1", "s2"])
    assert listing.since(second) == ([], ["s1"])
    assert listing.since(listing.number) == ([], [])


async def test_sub_agents_are_listed_with_their_session_and_do_not_count(listing: SessionListing) -> None:
    for number, (id_, parent) in enumerate([("old", None), ("a1", "s1"), ("b1", "a1"), ("lost", "absent")], start=1):
        listing.put(msgspec.structs.replace(ROW, id=id_, parent=parent, updated=float(-number)))
    found, more = listing.latest(1)
    assert ([item.id for item in found], more) == (["s1", "a1", "b1"], True)
    found, more = listing.latest(10)
    assert ([item.id for item in found], more) == (["s1", "old", "a1", "b1"], False)


async def test_a_session_with_a_parent_is_a_sub_agent_though_the_parent_is_gone(listing: SessionListing) -> None:
    def sub_agents() -> list[str]:
        return sorted(item.id for item in listing.all_items() if item.is_sub_agent)

    for id_, parent in [("b1", "a1"), ("a1", "s1"), ("lost", "absent"), ("x", "y"), ("y", "x"), ("self", "self")]:
        listing.put(msgspec.structs.replace(ROW, id=id_, parent=parent))
    assert sub_agents() == ["a1", "b1", "lost"]
    listing.remove("a1")
    assert sub_agents() == ["b1", "lost"]
    listing.remove("y")  # no cycle any more
    assert sub_agents() == ["b1", "lost", "x"]
    again = SessionListing(lambda row: session_item(row, None, pending=0, is_sub_agent=again.is_sub_agent(row)))
    again.begin([msgspec.structs.replace(ROW, id="c", parent="s1"), ROW])  # the sub-agent may come first
    assert [item.id for item in again.all_items() if item.is_sub_agent] == ["c"]
