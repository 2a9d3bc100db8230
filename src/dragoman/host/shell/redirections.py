"""Redirections and here-documents of a line of shell: what stands between words, and beside them."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Final

import msgspec

from dragoman.host.shell.words import TooLarge, Unreadable, Word, WordReader

# In one command, and in one line. People write two or three.
_MAX_REDIRECTIONS: Final = 32
_MAX_HERE_DOCUMENTS: Final = 16

_BLANK: Final = re.compile(r"(?:[ \t]|\\\n)*")
_COMMENT: Final = re.compile(r"#[^\n]*")
_REDIRECTION: Final = re.compile(r"([0-9]*)(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||>(?!\()|<(?!\())")
_DUPLICATE: Final = re.compile(r"[0-9]+-?|-")
_NO_FILE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


class _Here(msgspec.Struct, frozen=True):
    limit: str
    literal: bool
    tabs: bool


class Redirections:
    """What is gathered while the redirections of one command are read."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.dynamic = False
        self.unclear: str | None = None
        self.count = 0
        self.both = False  # `&>`: for a plain shell a `&`, after which another command begins


class RedirectionReader(WordReader):
    """Reads redirections beside words, and the texts of here-documents where their lines end."""

    def __init__(self, text: str, *, base: int = 0, depth: int = 0) -> None:
        super().__init__(text, base=base, depth=depth)
        self.inside = 0  # of how many substitutions
        self.pending: list[_Here] = []  # announced, and their text is still to come
        self._here_documents = 0

    @abstractmethod
    def here_text(self, text: str, base: int) -> None:
        """The text of a here-document in which the shell puts something in; it begins at `base` of the whole line."""

    def passing_newline(self) -> None:
        if self.pending:
            raise Unreadable("a word goes on past the line after which a here-document begins")

    def value(self) -> Word:
        """The word that must stand at `pos`."""
        start = self.pos
        word = self.word()
        if self.pos == start:
            raise Unreadable("a word is missing")
        return word

    def redirect(self, into: Redirections) -> bool:
        """Reads the redirection at `pos`; False where there is none."""
        found = _REDIRECTION.match(self.text, self.pos)
        if found is None:
            return False
        into.count += 1
        if into.count > _MAX_REDIRECTIONS:
            raise TooLarge("it has too many redirections")
        if len(found[1]) > 1:
            raise Unreadable(f"shells read `{found[0]}` differently")
        self.pos = found.end()
        if self.peek() == "\\" and self.peek(1) == "\n":
            raise Unreadable("a redirection is continued on the next line")
        self.skip()
        start = self.pos
        target = self.value()
        match operator := found[2]:
            case "<<" | "<<-":
                self._announce(target, self.text[start : self.pos], tabs=operator == "<<-")
                return True
            case "<<<":
                into.dynamic |= target.dynamic
                return True
            case "<&" | ">&" if _DUPLICATE.fullmatch(target.text):
                return True
            case ">&" if not target.bare:
                raise Unreadable("shells read quotes after `>&` differently")
            case "<&":
                into.unclear = "it takes its input from something unknown"
            case _:
                pass
        into.both |= operator.startswith("&")
        if target.dynamic or target.text.startswith("!"):
            into.unclear = f"it is redirected to a place that is known only when it runs: {target.text}"
        if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            into.unclear = "it is redirected to the network"
        if target.text not in _NO_FILE:
            if "<" in operator:
                into.reads.append(target.text)
            if ">" in operator:
                into.writes.append(target.text)
        return True

    def _announce(self, limit: Word, source: str, *, tabs: bool) -> None:
        if limit.dynamic or "\n" in limit.text or not limit.text or "$" in source or "`" in source:
            raise Unreadable("a here-document has an unusual limit")
        self._here_documents += 1
        if self._here_documents > _MAX_HERE_DOCUMENTS:
            raise TooLarge("it has too many here-documents")
        self.pending.append(_Here(limit.text, not limit.bare, tabs))

    def _here_texts(self) -> None:
        """The texts of the here-documents that were announced in the line that ends at `pos`."""
        pending, self.pending = self.pending, []
        for here in pending:
            start = self.pos
            while True:
                if self.pos >= len(self.text):
                    raise Unreadable("a here-document does not end")
                end = self.text.find("\n", self.pos)
                end = len(self.text) if end < 0 else end
                line = self.text[self.pos : end]
                line = line.lstrip("\t") if here.tabs else line
                last, self.pos = self.pos, min(end + 1, len(self.text))
                if line == here.limit:
                    break
                if self.inside and line.lstrip().startswith(here.limit):
                    raise Unreadable("shells differ on where a here-document ends")
            if self.text[self.pos - 1] == "\n" and self.pos > last:
                self.pos -= 1  # the newline ends the command too
            body = self.text[start:last]
            if self.inside:
                _check_balance(body)
            if not here.literal:
                self.here_text(body, self._base + start)

    def skip(self) -> None:
        """Blanks, continued lines, and a comment."""
        found = _BLANK.match(self.text, self.pos)
        assert found is not None
        if "\n" in found[0]:
            self.passing_newline()
        self.pos = found.end()
        if self.peek() == "#":
            comment = _COMMENT.match(self.text, self.pos)
            assert comment is not None
            self.pos = comment.end()

    def skip_lines(self) -> None:
        self.skip()
        while self.peek() == "\n":
            self.pos += 1
            if self.pending:
                self._here_texts()
            self.skip()


def _check_balance(body: str) -> None:
    # Old shells look for the end of `$(…)` by counting, and count in here-documents too.
    level = 0
    for char in re.findall(r"[()]", body):
        level += 1 if char == "(" else -1
        if level < 0:
            raise Unreadable("shells differ on where `$(…)` ends: a here-document in it has parentheses")
