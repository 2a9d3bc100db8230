"""`HashSet`, `HashMap` and `Texts`: what a file has told, in a few bytes for each record, since it may have millions.

A set of Python's takes some hundred bytes for a text. These keep hashes of 64 bits, by Python's own keyed function:
among a million texts, the chance that any two share one is one in thirty million. Nothing is ever taken out.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Final

# Slots to begin with. Of these, and of as many as there are later, no more than two thirds are used, so that a hash is
# found within a few steps.
_FIRST: Final = 256

_EMPTY: Final = 0

# Bits for the length of a text, which is an id, and what is kept of one that is none.
_LENGTH: Final = 12
_LONGEST: Final = 2**_LENGTH - 1


class HashSet:
    def __init__(self) -> None:
        self._count = 0
        self._keys = array("q", bytes(8 * _FIRST))

    def __contains__(self, text: Hashable) -> bool:
        return self._keys[self._slot(_hashed(text))] != _EMPTY

    def add(self, text: Hashable) -> bool:
        """False where it was there."""
        keys, hashed = self._keys, hash(text) or 1  # as below, and for every record of a file: without a call
        slot = hashed & (last := len(keys) - 1)
        while (found := keys[slot]) != _EMPTY:
            if found == hashed:
                return False
            slot = (slot + 1) & last
        keys[slot] = hashed
        self._count += 1
        if self._count * 3 > len(self._keys) * 2:
            self._grow()
        return True

    def _slot(self, hashed: int) -> int:
        """Where it is, or would be."""
        keys = self._keys
        last = len(keys) - 1
        slot = hashed & last
        while keys[slot] != hashed and keys[slot] != _EMPTY:
            slot = (slot + 1) & last
        return slot

    def _grow(self) -> None:
        before, self._keys = self._keys, array("q", bytes(16 * len(self._keys)))
        for hashed in before:
            if hashed != _EMPTY:
                self._keys[self._slot(hashed)] = hashed


class HashMap(HashSet):
    """The same with a number for each."""

    def __init__(self) -> None:
        super().__init__()
        self._values = array("q", bytes(8 * _FIRST))

    def get(self, text: Hashable) -> int | None:
        slot = self._slot(_hashed(text))
        return self._values[slot] if self._keys[slot] != _EMPTY else None

    def put(self, text: Hashable, value: int) -> None:
        self.add(text)
        self._values[self._slot(_hashed(text))] = value

    def _grow(self) -> None:
        before, values = self._keys, self._values
        self._values = array("q", bytes(16 * len(before)))
        super()._grow()
        for hashed, value in zip(before, values, strict=True):
            if hashed != _EMPTY:
                self._values[self._slot(hashed)] = value


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


def _hashed(text: Hashable) -> int:
    return hash(text) or 1  # 0 stands for none
