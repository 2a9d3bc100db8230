"""`LongLine`: a line of megabytes, read in bounded steps.

A JSON decoder reads a line at once, and nothing else of the process runs meanwhile, in no thread. What makes a line
long is nearly always a few strings: a file, an image, an output. So these are taken out of it and decoded in pieces, a
piece a step; the short line that remains is read as any other, and the strings are put back into the message.

Pure. Not promised: bounded steps for a line that is long because it has a great many values.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import Any, Final

import msgspec

from dragoman.wire.messages import DECODE_ERRORS

# Bytes that are read in one step: less than a millisecond. A string that is longer is taken out of its line.
STEP_BYTES: Final = 256 * 1024

# The most that may remain of a line. Putting the strings back looks at every value.
MAX_SHORT_LINE_BYTES: Final = 128 * 1024

# What stands between strings, and whole strings.
_STRUCTURE: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
# The inside of a string. It ends before an escape, or a pair of escapes that is one character, that is cut off.
_INSIDE: Final = re.compile(
    rb"""(?: [^"\\]++
    | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
    | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}
    | \\u[dD][89abAB][0-9a-fA-F]{2}(?=[^\\]|\\[^u]|\\u(?![dD][c-fC-F])..)  # half a pair
    | \\[^u]
    )*+""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE: Final = re.compile(rb"\\u[0-9a-fA-F]{4}")
_HALF_SURROGATES: Final = re.compile("[\ud800-\udfff]")

# No agent can guess what stands in the place of a string.
_MARK: Final = f"long-string-{secrets.token_hex(8)}-"
_MARK_BYTES: Final = _MARK.encode()
_LITERAL: Final = re.compile(rb'"' + _MARK_BYTES + rb'\d+-["\x01]')


class LongLine:
    """Call `step` until it returns False; then `short` is the line without its long strings, and `restore` puts them
    back into what was read of it."""

    def __init__(self, line: bytes, step_bytes: int = STEP_BYTES) -> None:
        self._line = line
        self._step_bytes = step_bytes
        self.position = 0  # bytes that were read
        self._short: list[bytes] = []
        self._string: str | None = None  # the beginning of the string that is being read
        self._string_begin = 0
        self._literals: dict[bytes, slice] = {}  # where the long strings stand in the line, by what replaces them
        self._strings: dict[str, str] = {}  # the same, decoded, by their marks
        self._is_broken = False  # the rest of the line cannot be JSON

    def step(self) -> bool:
        """Read up to `step_bytes` more. Return whether there is more to read."""
        if self._string is None:
            self._read_structure()
        else:
            self._read_string()
        return self.position < len(self._line) and not self._is_broken

    @property
    def short(self) -> bytes | None:
        """The line without its long strings; None where it has none, or is long without them."""
        short = b"".join(self._short)
        return short if self._literals and len(short) <= MAX_SHORT_LINE_BYTES else None

    def _read_structure(self) -> None:
        begin = self.position
        match = _STRUCTURE.match(self._line, begin, begin + self._step_bytes)
        assert match is not None
        self.position = match.end()
        if self.position > begin:
            self._short.append(match[0])
        else:  # the string that begins here is longer than a step
            self._string, self._string_begin = "", begin
            self.position = begin + 1
            if self.position == len(self._line):
                self._end_string(is_broken=True)

    def _read_string(self) -> None:
        line, begin = self._line, self.position
        match = _INSIDE.match(line, begin, begin + self._step_bytes)
        assert match is not None
        end = _character_begin(line, begin, match.end())
        if end == begin and (escape := _ESCAPE.match(line, begin)):
            end = escape.end()  # half a pair of surrogates, at the very end
        piece = _decode(line[begin:end])
        if piece is None or end == len(line) or (end == begin and line[end : end + 1] != b'"'):
            self._end_string(is_broken=True)
            return
        # A string that only this variable has grows in place: there is no moment at which all of it is copied.
        string, self._string = self._string or "", None
        string += piece
        self._string = string
        self.position = end
        if line[end : end + 1] == b'"':
            self.position = end + 1
            self._end_string(is_broken=False)

    def _end_string(self, *, is_broken: bool) -> None:
        end = len(self._line) if is_broken else self.position
        mark = f"{_MARK}{len(self._literals)}-"
        # A control character is allowed in no string: the short line is as little JSON as the long one.
        literal = f'"{mark}\x01'.encode() if is_broken else f'"{mark}"'.encode()
        self._literals[literal] = slice(self._string_begin, end)
        if not is_broken:
            self._strings[mark] = self._string or ""
        self._short.append(literal)
        self.position, self._string, self._is_broken = end, None, is_broken

    # -- putting the strings back

    def restore(self, value: Any) -> Any:
        """Return a value that was read of the short line, as it would have been read of the whole."""
        match value:
            case str():
                return self._strings.get(value, value) if value.startswith(_MARK) else value
            case bytes() | msgspec.Raw():
                return self._restore_bytes(value)
            case list():
                return [self.restore(item) for item in value]
            case tuple():
                return tuple([self.restore(item) for item in value])
            case dict():
                return {self.restore(key): self.restore(item) for key, item in value.items()}
            case msgspec.Struct():
                fields = {name: getattr(value, name) for name in value.__struct_fields__}
                changed = {name: new for name, old in fields.items() if (new := self.restore(old)) is not old}
                return msgspec.structs.replace(value, **changed) if changed else value
            case _:
                return value

    def _restore_bytes(self, value: bytes | msgspec.Raw) -> bytes | msgspec.Raw:
        data = bytes(value)
        if _MARK_BYTES not in data:
            return value
        if data == self.short:
            return self._line
        return type(value)(_LITERAL.sub(lambda literal: self._line[self._literals[literal[0]]], data))


def is_mark(value: object) -> bool:
    """Return whether a value that was read of a short line stands for a long string."""
    return isinstance(value, str) and value.startswith(_MARK)


def _character_begin(line: bytes, begin: int, end: int) -> int:
    """Return the beginning of the character that `end` cuts, or `end` where it cuts none."""
    for back in range(end, max(begin, end - 3) - 1, -1):
        if back == len(line) or line[back] < 0x80:
            return end  # bytes that are no character may be cut anywhere
        if line[back] >= 0xC0:
            return back
    return end


def _decode(piece: bytes) -> str | None:
    """Decode a piece of a string's inside; None where no decoder accepts it."""
    literal = b'"' + piece + b'"'
    try:
        return msgspec.json.decode(literal, type=str)
    except DECODE_ERRORS:
        pass
    try:
        return _HALF_SURROGATES.sub("\ufffd", json.loads(literal.decode("utf-8", "replace")))
    except ValueError:
        return None
