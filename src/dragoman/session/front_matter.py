"""Front matter: the part between two lines `---` at the beginning of a Markdown file, a small and strict part of YAML.

The files come from repositories that nobody has looked at, and what is needed of them is a few texts. So this is no
YAML parser: it knows no types, tags, anchors, aliases or nested structures, nothing that grows or makes an object.

Read are texts (plain, in quotes, `|` and `>` blocks), lists of texts (`[a, b]`, or lines with `-`) and one level of
`key: text` below a key. Everything else is a `FrontMatterError` with its line. One thing that YAML forbids is allowed,
because many files have it: a colon within a plain text (`description: Use when: …`).

Promised: the time to read is proportional to the length of the text, and nothing but `FrontMatterError` is raised.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec

# Characters and keys of front matter: far more than any description needs.
MAX_FRONT_MATTER_CHARS: Final = 16 * 1024
MAX_KEYS: Final = 100

Value: TypeAlias = str | tuple[str, ...] | dict[str, str]

_KEY: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,63})[ \t]*:(?:[ \t]+(.*))?")
_BLOCK: Final = re.compile(r"[|>][+-]?(?:[ \t]+#.*)?")
_COMMENT: Final = re.compile(r"(?<![ \t])[ \t]+#.*")  # from the first space on: otherwise it would be quadratic
_DOUBLE_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?:[ \t]+#.*)?[ \t]*')
_SINGLE_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'(?:[ \t]+#.*)?[ \t]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPES: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", " ": " "}

# What a plain text cannot begin with, and what YAML means by it.
_RESERVED: Final = {
    "&": "an anchor",
    "*": "an alias",
    "!": "a tag",
    "{": "a mapping in braces",
    "%": "a directive",
    "@": "a reserved character",
    "`": "a reserved character",
}


class FrontMatterError(ValueError):
    """Front matter that cannot be read. `line` counts from 1, in the file."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class MarkdownFile(msgspec.Struct, frozen=True):
    """A Markdown file: the values of its front matter (none where it has none), and the text after it."""

    values: dict[str, Value]
    body: str

    def text(self, key: str) -> str:
        """Return a value as one text; empty where it is missing."""
        match self.values.get(key):
            case str(text):
                return text
            case tuple(items):
                return ", ".join(items)
            case _:
                return ""

    def is_true(self, key: str) -> bool:
        return self.text(key).lower() in ("true", "yes", "on")


def read_markdown(text: str) -> MarkdownFile:
    """Split a file into front matter and body. Raises `FrontMatterError`."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.startswith("---\n") and text.rstrip() != "---":
        return MarkdownFile({}, text)
    end = re.search(r"^---[ \t]*$", text[4 : MAX_FRONT_MATTER_CHARS + 8], re.MULTILINE)
    if end is None:
        if len(text) > MAX_FRONT_MATTER_CHARS:
            raise FrontMatterError(f"the front matter is longer than {MAX_FRONT_MATTER_CHARS} characters", 1)
        raise FrontMatterError("the front matter has no end: a second line `---` is missing", 1)
    lines = text[4 : 4 + end.start()].split("\n")[:-1]
    return MarkdownFile(_Reader(lines).read(), text[4 + end.end() :].removeprefix("\n"))


class _Reader:
    """Reads the lines of front matter from the first to the last. `_index` is the next line."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._index = 0

    def read(self) -> dict[str, Value]:
        values: dict[str, Value] = {}
        while (line := self._next_line()) is not None:
            if line[0] in " \t":
                raise self._error("this line is indented, and belongs to no key")
            key, rest = self._key(line, values)
            self._index += 1
            values[key] = self._value(rest)
        return values

    # -- lines

    def _next_line(self) -> str | None:
        """Return the next line that is neither empty nor a comment, without going beyond it."""
        while self._index < len(self._lines):
            line = self._lines[self._index]
            if line.strip() and not line.lstrip().startswith("#"):
                return line
            self._index += 1
        return None

    def _error(self, message: str, index: int | None = None) -> FrontMatterError:
        return FrontMatterError(message, (self._index if index is None else index) + 2)  # the first line is `---`

    def _key(self, line: str, values: dict[str, Value] | dict[str, str]) -> tuple[str, str]:
        match = _KEY.fullmatch(line.strip())
        if match is None:
            raise self._error("expected `key: value`")
        if match[1] in values:
            raise self._error(f"{match[1]} is there twice")
        if len(values) == MAX_KEYS:
            raise self._error(f"there are more than {MAX_KEYS} keys")
        return match[1], (match[2] or "").strip()

    # -- values

    def _value(self, rest: str) -> Value:
        """Read the value of a key whose line ends with `rest`."""
        if _BLOCK.fullmatch(rest):
            return self._block(rest)
        if rest.startswith("["):
            return self._flow_list(rest)
        if not rest or rest.startswith("#"):
            return self._indented()
        return self._scalar(rest, self._index - 1)

    def _indented(self) -> Value:
        """Read what is below a key without a value: a list, a mapping of texts, or nothing."""
        line = self._next_line()
        if line is not None and line.split()[0] == "-":
            return self._block_list()
        if line is None or line[0] not in " \t":
            return ""
        indent = self._indent(line)
        values: dict[str, str] = {}
        while (line := self._next_line()) is not None and line[0] in " \t":
            if self._indent(line) != indent:
                raise self._error("only one level below a key is read")
            key, rest = self._key(line, values)
            if not rest or rest[0] in "[|>":
                raise self._error("only texts are read at this level")
            self._index += 1
            values[key] = self._scalar(rest, self._index - 1, deeper_than=indent)
        return values

    def _block_list(self) -> tuple[str, ...]:
        items: list[str] = []
        while (line := self._next_line()) is not None and line.strip().startswith("-"):
            item = line.strip()[1:].strip()
            if not item:
                raise self._error("an item of this list is empty")
            self._index += 1
            items.append(self._scalar(item, self._index - 1, deeper_than=self._indent(line)))
        return tuple(items)

    def _flow_list(self, rest: str) -> tuple[str, ...]:
        inner = _COMMENT.sub("", rest).strip()
        if not inner.endswith("]"):
            raise self._error("a list in brackets must end on its line", self._index - 1)
        items = [item.strip() for item in inner[1:-1].split(",")]
        return tuple(self._unquoted(item, self._index - 1) for item in items if item)

    def _block(self, rest: str) -> str:
        """Read a `|` or `>` block: all lines that are indented deeper than the key, which is not indented."""
        lines: list[str] = []
        indent: int | None = None
        while self._index < len(self._lines):
            line = self._lines[self._index]
            if line.strip():
                if line[0] not in " \t":
                    break
                indent = self._indent(line) if indent is None else indent
                if self._indent(line) < indent:
                    raise self._error("this line is indented less than the text that it belongs to")
            lines.append(line[indent or 0 :].rstrip() if line.strip() else "")
            self._index += 1
        if rest[0] == ">":
            return re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(lines).strip())
        return "\n".join(lines).strip("\n")

    def _scalar(self, rest: str, index: int, deeper_than: int = 0) -> str:
        """Read a text that begins on the line `index`; indented lines after it continue a plain text."""
        if rest[0] in "\"'":
            return self._unquoted(rest, index)
        words = [rest]
        while self._index < len(self._lines):
            line = self._lines[self._index]
            if not line.strip() or line[0] not in " \t" or self._indent(line) <= deeper_than:
                break
            words.append(line.strip())
            self._index += 1
        return " ".join([self._unquoted(words[0], index), *map(_plain, words[1:])])

    def _unquoted(self, text: str, index: int) -> str:
        if text.startswith('"'):
            if (double := _DOUBLE_QUOTED.fullmatch(text)) is None:
                raise self._error("a text in quotes must end on its line, with nothing behind it", index)
            return _ESCAPE.sub(lambda escape: self._escaped(escape[1], index), double[1])
        if text.startswith("'"):
            if (single := _SINGLE_QUOTED.fullmatch(text)) is None:
                raise self._error("a text in quotes must end on its line, with nothing behind it", index)
            return single[1].replace("''", "'")
        if text[:1] in _RESERVED:
            raise self._error(f"{_RESERVED[text[0]]} is not read; put the text in quotes", index)
        return _plain(text)

    def _escaped(self, escape: str, index: int) -> str:
        if len(escape) == 5:
            character = chr(int(escape[1:], 16))
            return "\ufffd" if "\ud800" <= character <= "\udfff" else character
        if escape not in _ESCAPES:
            raise self._error(f"\\{escape} is no escape that is read", index)
        return _ESCAPES[escape]

    def _indent(self, line: str) -> int:
        spaces = len(line) - len(line.lstrip(" "))
        if line[spaces : spaces + 1] == "\t":
            raise self._error("a tab cannot indent a line")
        return spaces


def _plain(text: str) -> str:
    """Return a plain text without the comment behind it."""
    return _COMMENT.sub("", text).strip()
