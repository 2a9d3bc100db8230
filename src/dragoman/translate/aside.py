"""What is not needed now, in a file without a name, so that a transcript of any size fits in memory.

`Aside` keeps bytes, `Shelf` whole objects: those in use are at hand, the others come back as they were when one asks.
"""

from __future__ import annotations

import io
import pickle
import struct
import weakref
from array import array
from collections.abc import Container, Iterator
from contextlib import suppress
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any, Final, Generic, TypeVar

from dragoman.translate.hashed import HashMap

T = TypeVar("T")

_LENGTH: Final = struct.Struct("<Q")

# Objects that a shelf has at hand: a session takes some 15 kB, and few are under way at once.
_FEW: Final = 256

_AT_HAND: Final = -1


class Aside:
    """There is no file before there is something in it; it goes with us."""

    def __init__(self) -> None:
        self.end = 0  # the place of what is put next: later ones are greater
        self._file: IO[bytes] | None = None

    def put(self, data: bytes) -> int:
        """Its place."""
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115 (it goes with us)
            weakref.finalize(self, _close, self._file)
        place = self.end
        try:
            self._file.seek(place)
            self.end += self._file.write(_LENGTH.pack(len(data))) + self._file.write(data)
            self._file.flush()  # where there is no room, it is told now
        except OSError as problem:  # of a file without a name: where it is says more
            raise OSError(problem.errno, f"{problem.strerror} in {gettempdir()}") from problem
        return place

    def get(self, place: int) -> bytes:
        assert self._file is not None
        self._file.seek(place)
        (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
        return self._file.read(length)


class Shelf(Generic[T]):
    """Objects by name, in the order in which they came. `rest` from time to time.

    `shared`: what they all refer to, and is not put aside with them.
    """

    def __init__(self, aside: Aside, shared: object) -> None:
        self.at_hand: dict[str, T] = {}
        self._aside = aside
        self._shared = shared
        self._numbers = HashMap()  # of each name: the how manieth it is
        self._places = array("q")  # of each number, in the file

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def add(self, name: str, one: T) -> None:
        """One that is not here yet."""
        self._numbers.put(name, len(self._places))
        self._places.append(_AT_HAND)
        self.at_hand[name] = one

    def get(self, name: str) -> T | None:
        """It is at hand then. None where there is no such one."""
        if name in self.at_hand or (number := self._numbers.get(name)) is None:
            return self.at_hand.get(name)
        one = self.at_hand[name] = self._brought(self._places[number])
        self._places[number] = _AT_HAND
        return one

    def values(self) -> Iterator[T]:
        """As they are when the first is asked for. To look at: changes of one that is aside are lost."""
        at_hand = {self._numbers.get(name): one for name, one in self.at_hand.items()}
        for number, place in enumerate(self._places[:]):
            yield at_hand[number] if place == _AT_HAND else self._brought(place)

    @property
    def is_at_hand(self) -> bool:
        """All of it."""
        return len(self.at_hand) == len(self._places)

    def rest(self, busy: Container[str] = ()) -> None:
        """Where there are many at hand, those are put aside that have been for longest, and are not `busy`."""
        if len(self.at_hand) <= _FEW:
            return
        idle = [name for name in self.at_hand if name not in busy]
        for name in idle[: len(self.at_hand) - _FEW // 2]:
            number = self._numbers.get(name)
            assert number is not None
            out = io.BytesIO()
            try:
                _Pickler(out, self._shared).dump(self.at_hand[name])
            except RecursionError:
                continue  # it holds what is nested too deeply, as files may be that someone made: it stays
            self._places[number] = self._aside.put(out.getvalue())
            del self.at_hand[name]

    def _brought(self, place: int) -> T:
        one: T = _Unpickler(io.BytesIO(self._aside.get(place)), self._shared).load()
        return one


class _Pickler(pickle.Pickler):
    def __init__(self, out: IO[bytes], shared: object) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self._shared = shared

    def persistent_id(self, value: Any) -> Any:
        return True if value is self._shared else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, said: IO[bytes], shared: object) -> None:
        super().__init__(said)
        self._shared = shared

    def persistent_load(self, _: Any) -> Any:
        return self._shared


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what is not written yet finds no room: nobody will ask for it
        file.close()
