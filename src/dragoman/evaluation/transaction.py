"""A tool call as a transaction: it is done completely, or not at all.

Calls that share a state run one after another, in the order in which they came, even across servers, event loops and
threads. A call that fails or is cancelled leaves the state as it was.

A plain function runs in a thread, so that it delays nothing else, and a thread cannot be stopped. When its call is
cancelled, the call returns at once, but the function keeps the state, and its changes are undone when it returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

import msgspec

from dragoman.errors import InputError

# Values that cannot change; most of a state consists of them.
_LEAVES: Final = frozenset({str, bytes, int, float, complex, bool, type(None), type})


class Restorable(Protocol):
    """A state that can restore itself."""

    def snapshot(self) -> object: ...
    def restore(self, snapshot: Any, /) -> object: ...


def _is_restorable(value: object) -> TypeGuard[Restorable]:
    """Check by attributes: `isinstance` with a protocol takes ten times as long, and every container is checked."""
    return (
        not isinstance(value, type)
        and callable(getattr(value, "snapshot", None))
        and callable(getattr(value, "restore", None))
    )


class Snapshot:
    """A copy of a state as it is now, to restore it."""

    def __init__(self, state: object) -> None:
        self._undo: list[Callable[[], object]] = []
        self._referenced: list[object] = []  # keeps the objects alive, so that their ids stay theirs
        self._seen: set[int] = set()
        self._walk(state)

    def restore(self) -> None:
        """Restore everything. May be called once."""
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
        """Remember how to restore one container; yield its contents."""
        match value:
            case _ if _is_restorable(value):
                self._on_restore(value, _own_snapshot(value))
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
                self._referenced.append(value)
                yield from value
            case _ if _is_record(value):
                yield from self._remember_fields(value)
            case _:
                return
        yield from self._remember_attributes(value)

    def _remember_fields(self, value: object) -> Iterator[object]:
        """Remember fields in slots; those in `__dict__` are attributes."""
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
        self._referenced.append(value)
        self._undo.append(undo)


def check_state(state: object) -> None:
    """Raise `InputError` if a state cannot be restored."""
    container = isinstance(state, dict | list | set | deque | bytearray)
    if not (container or _is_restorable(state) or _is_record(state)):
        raise InputError(
            f"the state of tools is of the type {type(state).__name__}, which cannot be restored when a call fails",
            guidance="Use a dataclass, a Pydantic model, a msgspec struct or a dict, or give the class "
            "snapshot() and restore(snapshot).",
        )


def _is_record(value: object) -> bool:
    if isinstance(value, type):
        return False
    return dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct) or _is_pydantic(value)


def _is_pydantic(value: object) -> bool:
    """Check without loading Pydantic: if it is not loaded, there is no model of it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def _slots(value: object) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    names: list[str] = []
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [_mangled(kind, name) for name in ([slots] if isinstance(slots, str) else slots)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _mangled(kind: type, name: str) -> str:
    private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if private else name


def _put_slots(value: object, slots: tuple[str, ...], fields: dict[str, object]) -> None:
    # A frozen record refuses assignments, but its slots may have been changed in the same way.
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


def _own_snapshot(value: Restorable) -> Callable[[], object]:
    snapshot = value.snapshot()
    return lambda: value.restore(snapshot)


Work: TypeAlias = "asyncio.Future[Any]"


async def perform(
    function: Callable[[], Any], *, plain: bool, state: object | None = None, at_work: set[Work] | None = None
) -> Any:
    """Call the function and return its result; on an exception or cancellation, restore the state.

    `at_work` holds the functions that still run, even after their call was cancelled.
    """
    release = _nothing if state is None else await STATE_LOCKS.acquire(state)
    try:
        snapshot = Snapshot(state)
    except BaseException:
        release()
        raise

    def undo() -> None:
        try:
            snapshot.restore()
        finally:
            release()

    work = _in_thread(function, undo) if plain else asyncio.ensure_future(_coroutine(function))
    if at_work is not None:
        at_work.add(work)
        work.add_done_callback(at_work.discard)
    try:
        # Not awaited directly: a cancellation would reach it before the function has ended.
        await asyncio.wait({work})
    except asyncio.CancelledError:
        work.add_done_callback(_retrieve_error)
        work.add_done_callback(lambda _: undo())
        if not plain:
            work.cancel()
        raise
    try:
        result = work.result()
    except BaseException:
        undo()
        raise
    release()
    return result


def _nothing() -> None:
    pass


def _retrieve_error(done: Work) -> None:
    """Retrieve the exception of a cancelled call, so that the loop does not report it."""
    if not done.cancelled():
        done.exception()


async def _coroutine(function: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await function()
    except (SystemExit, KeyboardInterrupt) as error:
        raise _as_runtime_error(error) from error  # it would end the event loop


def _in_thread(function: Callable[[], Any], on_loop_closed: Callable[[], None]) -> Work:
    """Run each call in a thread of its own: the end of the process would wait for the threads of a pool."""
    loop = asyncio.get_running_loop()
    work: Work = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function)
        except (SystemExit, KeyboardInterrupt, StopIteration) as exit_error:
            error = _as_runtime_error(exit_error)
        except BaseException as raised_error:
            error = raised_error
        try:
            loop.call_soon_threadsafe(_settle, work, result, error)
        except RuntimeError:  # the loop is closed: no caller waits any more
            on_loop_closed()

    threading.Thread(target=run, name="dragoman tool", daemon=True).start()
    return work


def _as_runtime_error(error: BaseException) -> RuntimeError:
    runtime_error = RuntimeError(f"the tool raised {type(error).__name__}")
    runtime_error.__cause__ = error
    return runtime_error


def _settle(work: Work, result: Any, error: BaseException | None) -> None:
    if work.done():
        return
    if error is None:
        work.set_result(result)
    else:
        work.set_exception(error)


class StateLocks:
    """One lock for each state, across all threads and event loops of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]]] = {}

    @property
    def in_use(self) -> bool:
        """Return whether a state is in use."""
        return bool(self._waiting)

    async def acquire(self, state: object) -> Callable[[], None]:
        """Wait for the state; return the function that releases it, which may be called from any thread."""
        loop = asyncio.get_running_loop()
        key = id(state)

        def release() -> None:
            # It references the state, so that the state lives, and its id stays its own, until it is released.
            self._next(id(state))

        with self._lock:
            if key not in self._waiting:
                self._waiting[key] = deque()
                return release
            mine: asyncio.Future[None] = loop.create_future()
            self._waiting[key].append((loop, mine))
        try:
            await mine
        except asyncio.CancelledError:
            self._leave(key, loop, mine)
            raise
        return release

    def _leave(self, key: int, loop: asyncio.AbstractEventLoop, mine: asyncio.Future[None]) -> None:
        with self._lock:
            waiting = (loop, mine) in self._waiting.get(key, ())
            if waiting:
                self._waiting[key].remove((loop, mine))
        if not waiting:  # the lock was ours already
            self._next(key)

    def _next(self, key: int) -> None:
        while True:
            with self._lock:
                queue = self._waiting[key]
                if not queue:
                    del self._waiting[key]
                    return
                loop, future = queue.popleft()
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:  # its loop is closed: no call waits there any more
                continue
            return


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


STATE_LOCKS = StateLocks()
