"""Decoding the lines of any transcript leniently: records, values, times and paths.

Nearly every line is one JSON object. Some are two, where another writer lost the race for the newline; some have half
a character in a string, where a program truncated it; the last may be truncated itself.
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

_LAST_DAY: Final = 253402214400.0  # 9999-12-31 in UTC; in other time zones the year may be over

_scan = json.JSONDecoder(strict=False).raw_decode


def decode_records(
    line: bytes, decode: Callable[[bytes], T], build: Callable[[bytes], T | None]
) -> Iterator[tuple[T | None, bytes]]:
    """Yield the records of a line, each with its own text; None for text that is no record.

    `decode` is the quick way for a line that is as expected. If it raises, `build` is called with one object in strict
    JSON; it returns None for an object that is no record of any kind.
    """
    try:
        yield decode(line), line
    except DECODE_ERRORS:
        yield from _decode_each(line, decode, build)


def _decode_each(
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
            yield _decode_one(text[start:end].encode("utf-8", "surrogateescape"), value, decode, build)
        else:
            yield None, text[start:end].encode("utf-8", "surrogateescape")
        start = end


def _decode_one(
    raw: bytes, value: dict[str, Any], decode: Callable[[bytes], T], build: Callable[[bytes], T | None]
) -> tuple[T | None, bytes]:
    """Decode an object as if it were alone in its line: it may have been, before the next one was appended."""
    try:
        return decode(raw), raw
    except DECODE_ERRORS:
        clean = lenient.encode_repaired(value)
        return build(clean), clean


def strict_utf8(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Make a decoder raise for a line that is not all UTF-8: by itself it does not check what it leaves as raw JSON."""

    def decode_strictly(line: bytes) -> T:
        if not line.isascii():
            line.decode()
        return decode(line)

    return decode_strictly


def text_path(path: str | PurePath) -> PurePath:
    """Return a path as text that can be stored, whatever bytes are in it."""
    return PurePath(os.fsencode(path).decode("utf-8", "backslashreplace"))


def decode_leniently(raw: bytes | msgspec.Raw, type_: type[S], blank: S) -> S:
    """Decode a struct; fields that have another type, or a value that is no object, are as in `blank`."""
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


def parse_time(stamp: str) -> float | None:
    """Return an ISO time as seconds since 1970; None for text that is none."""
    try:
        return valid_time(datetime.fromisoformat(stamp).timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def valid_time(at: float) -> float | None:
    """Return the time, or None if it is before 1970 or beyond the calendar in some time zone."""
    return at if 0.0 <= at < _LAST_DAY else None
