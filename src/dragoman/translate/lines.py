"""Lines of a transcript, read: the records that stand in one, whatever happened to the line.

Nearly every line is one JSON object. Some are two, where another writer lost the race for the newline; some have half
a character in a string, where a program cut it; the last may be cut itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import PurePath
from typing import Any, Final, TypeVar

import msgspec

from dragoman.wire import lenient
from dragoman.wire.messages import DECODE_ERRORS

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

_LAST_DAY: Final = 253402214400.0  # 9999-12-31 in UTC; elsewhere it may be over

_scan = json.JSONDecoder(strict=False).raw_decode


def records(
    line: bytes, decode: Callable[[bytes], T], build: Callable[[bytes], T | None]
) -> Iterator[tuple[T | None, bytes]]:
    """What a line holds, each with its own text; None for what is no record.

    `decode` is the quick way for a line that is as expected. Where it raises, `build` is asked, with one object in JSON
    that any reader takes; it gives None for an object that is no record of any kind.
    """
    try:
        yield decode(line), line
    except DECODE_ERRORS:
        yield from _carefully(line, decode, build)


def _carefully(
    line: bytes, decode: Callable[[bytes], T], build: Callable[[bytes], T | None]
) -> Iterator[tuple[T | None, bytes]]:
    text = line.decode("utf-8", "surrogateescape")
    start = 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        try:
            value, end = _scan(text, start)
        except (ValueError, RecursionError):
            yield None, text[start:].encode("utf-8", "surrogateescape")
            return
        if isinstance(value, dict):
            yield _built(text[start:end].encode("utf-8", "surrogateescape"), value, decode, build)
        else:
            yield None, text[start:end].encode("utf-8", "surrogateescape")
        start = end


def _built(
    raw: bytes, value: dict[str, Any], decode: Callable[[bytes], T], build: Callable[[bytes], T | None]
) -> tuple[T | None, bytes]:
    """An object that has others beside it is read as if it stood alone: it may have been, before they came."""
    try:
        return decode(raw), raw
    except DECODE_ERRORS:
        clean = lenient.encode_repaired(value)
        return build(clean), clean


def strict(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """The same for lines that are UTF-8 from end to end: a decoder does not look into what it leaves as it stands."""

    def decoded(line: bytes) -> T:
        if not line.isascii():
            line.decode()
        return decode(line)

    return decoded


def named(path: str | PurePath) -> PurePath:
    """A path as text that can be kept, whatever bytes are in it."""
    return PurePath(os.fsencode(path).decode("utf-8", "backslashreplace"))


def mended(raw: bytes | msgspec.Raw, type_: type[S], blank: S) -> S:
    """A value of a struct's type of which some fields may be of another: these are as in `blank`."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except DECODE_ERRORS:
        pass
    try:
        value = msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return blank
    if not isinstance(value, dict):
        return blank
    return msgspec.structs.replace(blank, **dict(_fitting(value, type_)))


def _fitting(value: dict[str, Any], type_: type[Any]) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(type_):
        if field.encode_name not in value:
            continue
        try:
            yield field.name, msgspec.json.decode(msgspec.json.encode(value[field.encode_name]), type=field.type)
        except DECODE_ERRORS:
            continue


def seconds(stamp: str) -> float | None:
    """An ISO time as seconds since 1970; None for what is none."""
    try:
        return in_calendar(datetime.fromisoformat(stamp).timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def in_calendar(at: float) -> float | None:
    """None for a time that no calendar has, wherever one is, or that is before 1970."""
    return at if 0.0 <= at < _LAST_DAY else None
