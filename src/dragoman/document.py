"""TOML files whose values know their line: `Document` (a file that was read) and `KeyPath` (a value in it).

The standard parser gives no line numbers, and tomlkit gives none for values. `key_lines` finds them in text that the
parser has accepted; a key that it cannot find is reported with the file alone. Errors name a value by its kind where it
may be a secret (`kind`), and as it was written elsewhere (`show`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from dragoman.errors import ConfigError

Keys: TypeAlias = tuple[str | int, ...]
Table: TypeAlias = dict[str, object]


class Document(Struct, frozen=True):
    """A file that was read: its name for messages, its text, and its parsed content.

    An environment variable or an option is a document with a name alone.
    """

    name: str
    text: str = ""
    table: Table = {}


class KeyPath(Struct, frozen=True):
    """The path of a value in a document, for errors about it. `path / "env"` is one step down."""

    document: Document
    keys: Keys = ()

    def __truediv__(self, key: str | int) -> KeyPath:
        return KeyPath(self.document, (*self.keys, key))

    @property
    def where(self) -> str:
        """`file:line` of the value, or of the table that should contain it; otherwise the file."""
        lines = key_lines(self.document.text)
        for end in range(len(self.keys), 0, -1):
            if line := lines.get(self.keys[:end]):
                return f"{self.document.name}:{line}"
        return self.document.name

    def wrong(self, key: str, found: str, expected: str) -> ConfigError:
        return ConfigError(f"{key} is {found}; expected {expected}", where=self.where)

    def unknown(self, key: str, known: tuple[str, ...]) -> ConfigError:
        near = nearest(key, known)
        return ConfigError(
            f'there is no setting "{key}"' + (f'; did you mean "{near}"?' if near else ""),
            where=self.where,
            guidance=f"Known here: {', '.join(sorted(known))}.",
        )


def read_document(path: Path) -> Document | None:
    """Parse a TOML file; None when there is none. Raises `ConfigError` with line and column for invalid TOML."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}", where=str(path)) from None
    return parse_document(str(path), data)


def parse_document(name: str, data: bytes) -> Document:
    try:
        text = data.decode("utf-8-sig")  # some editors put a byte order mark at the beginning
        return Document(name, text, tomllib.loads(text))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("the file is not UTF-8 text", where=f"{name}:{line}") from None
    except tomllib.TOMLDecodeError as error:
        message, _, position = str(error).rpartition(" (at ")
        if match := re.fullmatch(r"line (\d+), column (\d+)\)", position):
            where = f"{name}:{match[1]}:{match[2]}"
        else:  # "(at end of document)"
            lines = data.decode("utf-8-sig").split("\n")
            where = f"{name}:{len(lines)}:{len(lines[-1]) + 1}"
        guidance = 'A setting is `name = value`, with quotes around a text: agent = "claude".'
        raise ConfigError(f"this is not TOML: {message or error}", where=where, guidance=guidance) from None
    except ValueError as error:  # the parser raises it for an integer of thousands of digits
        raise ConfigError(f"a value cannot be used: {error}", where=name) from None
    except RecursionError:
        raise ConfigError("values are nested too deeply", where=name) from None


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the word that was most likely meant."""
    return next(iter(all_near(word, known, likeness)), None)


def all_near(word: str, known: Iterable[str], likeness: float = 0.6) -> list[str]:
    """Return the words that may have been meant, the most likely first."""
    import difflib  # only errors need it

    return difflib.get_close_matches(word.lower(), list(known), cutoff=likeness)


def kind(value: object) -> str:
    """Return the kind of a value without the value, which may be a secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def show(value: object) -> str:
    """Return a value as it was written, for messages."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return f'"{value[:60]}{"…" if len(value) > 60 else ""}"'
        case _:
            return kind(value)


# The line finder needs only the beginnings and ends of keys and values: the parser has accepted the text.

_BLANK: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_HEADER: Final = re.compile(r"\[\[?[ \t]*")
_HEADER_END: Final = re.compile(r"[ \t]*\]\]?")
_KEY: Final = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_DOT: Final = re.compile(r"[ \t]*\.[ \t]*")
_EQUALS: Final = re.compile(r"[ \t]*=[ \t]*")
_ARRAY, _ARRAY_END = re.compile(r"\["), re.compile(r"\]")
_INLINE, _INLINE_END = re.compile(r"\{"), re.compile(r"\}")
_COMMA: Final = re.compile(r",?")
_SCALAR: Final = re.compile(
    r'''"""(?:\\.|(?!""")[^\\])*""""{0,2}'''
    r"""|\'\'\'(?:(?!\'\'\').)*\'\'\'\'{0,2}"""
    r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'"""
    r"""|[^\s,\[\]{}#"'=]+(?:[ ][^\s,\[\]{}#"'=]+)?""",  # a date and its time may be parted by a space
    re.DOTALL,
)


def key_lines(text: str) -> dict[Keys, int]:
    """Return the line, from 1, of each key and each array item. Leaves out what it cannot find, and never raises."""
    finder = _LineFinder(text.replace("\r\n", "\n"))
    try:
        finder.read_document()
    except RecursionError:
        pass  # the lines found so far are right
    return finder.lines


class _LineFinder:
    def __init__(self, text: str) -> None:
        self.text = text
        self._offset = 0
        self.lines: dict[Keys, int] = {}
        self._last_index: dict[Keys, int] = {}  # for each array of tables
        self._counted_to, self._line = 0, 1

    def read_document(self) -> None:
        table: Keys = ()
        while self._take(_BLANK) is not None and self._offset < len(self.text):
            line = self._line_here()
            if opening := self._take(_HEADER):
                table = self._enter(self._keys(), line, is_array_of_tables=opening.startswith("[["))
                if self._take(_HEADER_END) is None:
                    return
            elif not self._pair(table):
                return

    def _enter(self, keys: list[str], line: int, *, is_array_of_tables: bool) -> Keys:
        path: Keys = ()
        for position, key in enumerate(keys, start=1):
            path = (*path, key)
            self.lines.setdefault(path, line)
            if is_array_of_tables and position == len(keys):
                self._last_index[path] = self._last_index.get(path, -1) + 1
            if path in self._last_index:
                path = (*path, self._last_index[path])
                self.lines.setdefault(path, line)
        return path

    def _keys(self) -> list[str]:
        keys = []
        while (raw := self._take(_KEY)) is not None:
            keys.append(_unquoted(raw))
            if self._take(_DOT) is None:
                break
        return keys

    def _pair(self, path: Keys) -> bool:
        line = self._line_here()
        keys = self._keys()
        for key in keys:
            path = (*path, key)
            self.lines.setdefault(path, line)
        return bool(keys) and self._take(_EQUALS) is not None and self._value(path)

    def _value(self, path: Keys) -> bool:
        if self._take(_ARRAY):
            index = 0
            while self._take(_BLANK) is not None and not self._take(_ARRAY_END):
                self.lines.setdefault((*path, index), self._line_here())
                if not self._value((*path, index)):
                    return False
                index += 1
                self._take(_BLANK), self._take(_COMMA)
            return True
        if self._take(_INLINE):
            while self._take(_BLANK) is not None and not self._take(_INLINE_END):
                if not self._pair(path):
                    return False
                self._take(_BLANK), self._take(_COMMA)
            return True
        return self._take(_SCALAR) is not None

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        if match := pattern.match(self.text, self._offset):
            self._offset = match.end()
            return match.group()
        return None

    def _line_here(self) -> int:
        self._line += self.text.count("\n", self._counted_to, self._offset)
        self._counted_to = self._offset
        return self._line


def _unquoted(key: str) -> str:
    if key[0] not in "\"'":
        return key
    try:
        return str(tomllib.loads(f"key = {key}")["key"])
    except tomllib.TOMLDecodeError:
        return key[1:-1]
