"""A state is put back in place: the same objects, with what was in them."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, PrivateAttr

from dragoman.errors import InputError
from dragoman.evaluation.transaction import Snapshot, check_state


@dataclass
class Item:
    name: str
    tags: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    items: dict[str, Item]
    count: int = 0


@dataclass(frozen=True)
class Frozen:
    items: list[int]


class Struct(msgspec.Struct):
    items: list[Item]
    count: int = 0


class Model(BaseModel):
    items: dict[str, list[int]]
    note: str = ""
    _seen: list[int] = PrivateAttr(default_factory=list)


class Log:
    """An object with its own snapshot method."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def snapshot(self) -> int:
        return len(self.lines)

    def restore(self, length: int) -> None:
        del self.lines[length:]


def test_a_dataclass_is_put_back_and_its_parts_stay_the_same_objects() -> None:
    item = Item("a", ["x"])
    state = {"items": [item]}
    items, tags = state["items"], item.tags
    before = Snapshot(state)
    item.name = "changed"
    tags.append("y")
    state["items"] = []
    item.tags = ["other"]
    before.restore()
    assert state == {"items": [Item("a", ["x"])]}
    assert state["items"] is items
    assert state["items"][0] is item
    assert item.tags is tags


def test_slots_are_put_back_also_where_one_was_deleted() -> None:
    state = Slotted({"a": Item("a")})
    before = Snapshot(state)
    state.items["b"] = Item("b")
    state.items["a"].tags.append("x")
    del state.count
    before.restore()
    assert state == Slotted({"a": Item("a")})


def test_the_content_of_a_frozen_dataclass_is_restored() -> None:
    state = Frozen([1, 2])
    before = Snapshot(state)
    state.items.clear()
    before.restore()
    assert state.items == [1, 2]


def test_a_msgspec_struct_is_put_back() -> None:
    state = Struct([Item("a")])
    before = Snapshot(state)
    state.count = 5
    state.items[0].tags.append("x")
    state.items = []
    before.restore()
    assert state == Struct([Item("a")])


def test_a_pydantic_model_is_restored_with_its_private_attributes_and_set_fields() -> None:
    state = Model(items={"a": [1]})
    before = Snapshot(state)
    state.items["a"].append(2)
    state.note = "changed"
    state._seen.append(1)
    before.restore()
    assert state == Model(items={"a": [1]})
    assert state.model_fields_set == {"items"}
    assert state._seen == []


def test_an_object_that_knows_how_is_asked_also_inside_another() -> None:
    log = Log()
    log.lines.append("one")
    before = Snapshot({"log": log})
    log.lines.append("two")
    before.restore()
    assert log.lines == ["one"]


def test_kinds_of_dicts_and_sequences_keep_their_kind_and_order() -> None:
    state: dict[str, Any] = {
        "default": defaultdict(list, {"a": [1]}),
        "ordered": OrderedDict(b=1, a=2),
        "counter": Counter("aab"),
        "deque": deque([1, 2], maxlen=2),
        "set": {1, 2},
        "bytes": bytearray(b"ab"),
        "tuple": ([1],),
    }
    before = Snapshot(state)
    state["default"]["b"].append(1)
    state["default"]["a"].append(2)
    state["ordered"].move_to_end("b")
    state["counter"]["a"] += 1
    state["deque"].append(3)
    state["set"].add(3)
    state["bytes"].extend(b"c")
    state["tuple"][0].append(2)
    before.restore()
    assert state["default"] == {"a": [1]}
    assert state["default"].default_factory is list
    assert list(state["ordered"]) == ["b", "a"]
    assert state["counter"] == Counter("aab")
    assert state["deque"] == deque([1, 2])
    assert state["set"] == {1, 2}
    assert state["bytes"] == b"ab"
    assert state["tuple"] == ([1],)


def test_a_state_that_holds_itself_is_no_endless_walk() -> None:
    state: dict[str, Any] = {"a": 1}
    state["self"] = state
    before = Snapshot(state)
    state["a"] = 2
    before.restore()
    assert state["a"] == 1
    assert state["self"] is state


def test_a_value_that_cannot_be_restored_stays_as_it_is() -> None:
    lock = threading.Lock()
    state = {"lock": lock, "count": 1}
    before = Snapshot(state)
    state["count"] = 2
    before.restore()
    assert state == {"lock": lock, "count": 1}


@pytest.mark.parametrize("state", [object(), 5, "text", (1,), Item])
def test_a_state_that_cannot_be_put_back_is_refused_with_what_would_do(state: object) -> None:
    with pytest.raises(InputError, match="cannot be restored") as refused:
        check_state(state)
    assert "dataclass" in refused.value.guidance


@pytest.mark.parametrize("state", [{}, [], Item("a"), Struct([]), Model(items={}), Log(), Slotted({})])
def test_every_kind_that_the_docs_name_is_taken(state: object) -> None:
    check_state(state)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)  # the machine may be busy
@given(state=st.dictionaries(st.text(max_size=2), _JSON, max_size=4), data=st.data())
def test_a_state_is_restored_whatever_was_done_to_it(state: dict[str, Any], data: st.DataObject) -> None:
    expected = msgspec.json.encode(state)
    before = Snapshot(state)
    for _ in range(data.draw(st.integers(1, 5))):
        _spoil(data.draw(st.sampled_from(list(_containers(state)))), data.draw)
    before.restore()
    assert msgspec.json.encode(state) == expected


def _containers(value: Any) -> list[Any]:
    if not isinstance(value, dict | list):
        return []
    inner = list(value.values()) if isinstance(value, dict) else list(value)
    return [value, *(each for one in inner for each in _containers(one))]


def _spoil(container: Any, draw: Callable[..., Any]) -> None:
    match draw(st.sampled_from(["clear", "add", "drop"])):
        case "clear":
            container.clear()
        case "add" if isinstance(container, dict):
            container[draw(st.text(max_size=2))] = [draw(st.integers())]
        case "add":
            container.insert(0, draw(st.integers()))
        case _ if container and isinstance(container, dict):
            container.popitem()
        case _ if container:
            container.pop()
        case _:
            pass
