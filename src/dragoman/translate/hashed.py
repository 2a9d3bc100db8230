"""`HashMap` and `Texts`: what a file has told, in a few bytes for each record, since it may have millions.

A dict takes some hundred bytes for a text and a number. What is kept here are hashes of 64 bits, by Python's own keyed
function: among a million texts, the chance that any two share one is one in thirty million. Nothing is ever taken out.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Final

# Hashes up to which a dict is fine: it is faster, and then takes 2 MB.
_FEW: Final = 20_000

# Slots for more than that. No more than two thirds of them are used, so that a hash is found within a few steps.
_SLOTS: Final = 2**16

_EMPTY: Final = 0

# Bits for the length of a text, which is an id, and what is kept of one that is none.
_LENGTH: Final = 12
_LONGEST: Final = 2**_LENGTH - 1


class HashMap:
    """A number for each text."""

    def __init__(self) -> None:
        self._few: dict[int, int] = {}
        self._many: _Slots | None = None

    def __contains__(self, text: Hashable) -> bool:
        return self.get(text) is not None

    def get(self, text: Hashable) -> int | None:
        return self._few.get(hash(text)) if self._many is None else self._many.get(hash(text))

    def put(self, text: Hashable, value: int) -> None:
        self._put(hash(text), value)

    def add(self, text: Hashable) -> bool:
        """As to a set. False where it was there. Done for every record of a file."""
        hashed = hash(text)
        if hashed in self._few or (self._many is not None and self._many.get(hashed) is not None):
            return False
        self._put(hashed, 0)
        return True

    def _put(self, hashed: int, value: int) -> None:
        if self._many is not None:
            self._many.put(hashed, value)
            return
        self._few[hashed] = value
        if len(self._few) > _FEW:
            self._many = _Slots(_SLOTS)
            for one, number in self._few.items():
                self._many.put(one, number)
            self._few = {}


class _Slots:
    """Hashes and numbers in two rows, each hash at the place that its last bits say, or at the next that was free.
    There is no second row while all numbers are nought."""

    def __init__(self, size: int) -> None:
        self._count = 0
        self._keys = _row(size)
        self._values: array[int] | None = None

    def get(self, hashed: int) -> int | None:
        place = self._place(hashed or 1)
        if self._keys[place] == _EMPTY:
            return None
        return self._values[place] if self._values is not None else 0

    def put(self, hashed: int, value: int) -> None:
        place = self._place(hashed or 1)
        if self._keys[place] == _EMPTY:
            self._count += 1
            if self._count * 3 > len(self._keys) * 2:
                self._grow()
                place = self._place(hashed or 1)
            self._keys[place] = hashed or 1
        if value and self._values is None:
            self._values = _row(len(self._keys))
        if self._values is not None:
            self._values[place] = value

    def _place(self, hashed: int) -> int:
        keys = self._keys
        last = len(keys) - 1
        place = hashed & last
        while (found := keys[place]) != hashed and found != _EMPTY:
            place = (place + 1) & last
        return place

    def _grow(self) -> None:
        keys, self._keys = self._keys, _row(2 * len(self._keys))
        for hashed in keys:
            if hashed != _EMPTY:
                self._keys[self._place(hashed)] = hashed
        if self._values is not None:
            values, self._values = self._values, _row(len(self._keys))
            for hashed, value in zip(keys, values, strict=True):
                if hashed != _EMPTY:
                    self._values[self._place(hashed)] = value


def _row(size: int) -> array[int]:
    return array("q", bytes(8 * size))


class Texts:
    """Texts that are asked for by a number. The same one several times in a row is kept once."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._last = ""
        self._number = 0

    def add(self, text: str) -> int:
        if text != self._last:
            data = text.encode("utf-8", "surrogatepass")[:_LONGEST]
            self._last, self._number = text, len(self._bytes) << _LENGTH | len(data)
            self._bytes += data
        return self._number

    def __getitem__(self, number: int) -> str:
        start, length = number >> _LENGTH, number & _LONGEST
        return self._bytes[start : start + length].decode("utf-8", "surrogatepass")
