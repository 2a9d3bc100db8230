"""A state that can be put back: what a failing tool call changed is undone.

`Snapshot(state)` remembers, `restore()` puts back, in place: every container that was there is still the same object
with its old contents, so whoever holds a part of the state holds the right one. What is remembered is the content of
containers (dicts, lists, sets, dataclasses, Pydantic models, msgspec structs, and what they hold of these), one
shallow copy each; the values in them are not copied. An object with `snapshot()` and `restore(snapshot)` is asked
instead. Anything else inside a state (a connection, a lock, an array) is kept as it is: it cannot be taken back.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final, Protocol, TypeGuard

import msgspec

from dragoman.errors import InputError

# What cannot change, and is most of what a state holds.
_LEAVES: Final = frozenset({str, bytes, int, float, complex, bool, type(None), type})


class Restorable(Protocol):
    """A state that knows itself how to go back."""

    def snapshot(self) -> object: ...
    def restore(self, snapshot: Any, /) -> object: ...


def _is_restorable(value: object) -> TypeGuard[Restorable]:
    """Not by `isinstance`: with a protocol that takes ten times as long, and every container of a state is asked."""
    return (
        not isinstance(value, type)
        and callable(getattr(value, "snapshot", None))
        and callable(getattr(value, "restore", None))
    )


class Snapshot:
    """A state as it is now."""

    def __init__(self, state: object) -> None:
        self._undo: list[Callable[[], object]] = []
        self._kept: list[object] = []  # an id means an object only while that lives
        self._seen: set[int] = set()
        self._walk(state)

    def restore(self) -> None:
        """Everything is as it was. May be called once."""
        for undo in reversed(self._undo):
            undo()

    def _walk(self, state: object) -> None:
        waiting: deque[object] = deque([state])
        while waiting:
            value = waiting.popleft()
            if type(value) not in _LEAVES and id(value) not in self._seen:
                self._seen.add(id(value))
                waiting.extend(self._remember(value))

    def _remember(self, value: object) -> Iterator[object]:
        """Notes how to put one container back; yields what it holds."""
        match value:
            case _ if _is_restorable(value):
                self._on_restore(value, _asked(value))
                return
            case dict():
                mapping = dict(value)
                self._on_restore(value, lambda: _refill(value, mapping))
                yield from mapping.keys()
                yield from mapping.values()
            case list() | deque() | bytearray():
                items = list(value)
                self._on_restore(value, lambda: _extend(value, items))
                yield from () if isinstance(value, bytearray) else items
            case set():
                members = set(value)
                self._on_restore(value, lambda: _refill_set(value, members))
            case tuple() | frozenset():
                self._kept.append(value)
                yield from value
            case _ if _is_record(value):
                yield from self._remember_fields(value)
            case _:
                return
        yield from self._remember_attributes(value)

    def _remember_fields(self, value: object) -> Iterator[object]:
        """Fields in slots; those in `__dict__` are attributes."""
        fields = {name: getattr(value, name) for name in _slots(value) if hasattr(value, name)}
        slots = _slots(value)
        self._on_restore(value, lambda: _put_slots(value, slots, fields))
        yield from fields.values()

    def _remember_attributes(self, value: object) -> Iterator[object]:
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            before = dict(attributes)
            self._on_restore(value, lambda: _refill(attributes, before))
            yield from before.values()

    def _on_restore(self, value: object, undo: Callable[[], object]) -> None:
        self._kept.append(value)
        self._undo.append(undo)


def check_state(state: object) -> None:
    """InputError where a state cannot be put back."""
    container = isinstance(state, dict | list | set | deque | bytearray)
    if not (container or _is_restorable(state) or _is_record(state)):
        raise InputError(
            f"the state of tools is of the type {type(state).__name__}, which cannot be put back when a call fails",
            guidance="Use a dataclass, a Pydantic model, a msgspec struct or a dict, or give the class "
            "snapshot() and restore(snapshot).",
        )


def _is_record(value: object) -> bool:
    if isinstance(value, type):
        return False
    return dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct) or _is_pydantic(value)


def _is_pydantic(value: object) -> bool:
    """Without loading it: there is no model of a library that nobody has loaded."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def _slots(value: object) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    named: list[str] = []
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        named += [_mangled(kind, name) for name in ([slots] if isinstance(slots, str) else slots)]
    return tuple(name for name in named if name not in ("__dict__", "__weakref__"))


def _mangled(kind: type, name: str) -> str:
    private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if private else name


def _put_slots(value: object, slots: tuple[str, ...], fields: dict[str, object]) -> None:
    # A frozen record refuses to be set; its slots are the same as before, but what set them may have gone around it.
    put = msgspec.structs.force_setattr if isinstance(value, msgspec.Struct) else object.__setattr__
    for name in slots:
        if name in fields:
            put(value, name, fields[name])  # type: ignore[arg-type]  # each takes its own kind of value
        elif hasattr(value, name):
            object.__delattr__(value, name)


def _refill(mapping: MutableMapping[Any, Any], before: dict[Any, Any]) -> None:
    mapping.clear()
    mapping.update(before)


def _extend(value: list[Any] | deque[Any] | bytearray, items: list[Any]) -> None:
    value.clear()
    value.extend(items)


def _refill_set(value: set[Any], members: set[Any]) -> None:
    value.clear()
    value.update(members)


def _asked(value: Restorable) -> Callable[[], object]:
    snapshot = value.snapshot()
    return lambda: value.restore(snapshot)
