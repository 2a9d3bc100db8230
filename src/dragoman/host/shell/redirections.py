"""Redirections and here-documents of a line of shell."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Final

import msgspec

from dragoman.host.shell.words import TooLarge, Unreadable, Word, WordReader

# Redirections of one command, and here-documents of one line. People write two or three.
_MAX_REDIRECTIONS: Final = 32
_MAX_HERE_DOCUMENTS: Final = 16

_BLANK: Final = re.compile(r"(?:[ \t]|\\\n)*")
_COMMENT: Final = re.compile(r"#[^\n]*")
_REDIRECTION: Final = re.compile(r"([0-9]*)(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||>(?!\()|<(?!\())")
_DUPLICATE: Final = re.compile(r"[0-9]+-?|-")
_NO_FILE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


class _HereDocument(msgspec.Struct, frozen=True):
    delimiter: str
    is_literal: bool
    strips_tabs: bool


class Redirections:
    """The redirections of one command, collected while they are read."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.dynamic = False
        self.unclear: str | None = None
        self.count = 0
        self.both = False  # `&>`, which a plain shell reads as `&` and the beginning of another command


class RedirectionReader(WordReader):
    """Reads redirections, and the texts of here-documents at the end of their lines."""

    def __init__(self, text: str, *, base: int = 0, depth: int = 0) -> None:
        super().__init__(text, base=base, depth=depth)
        self.substitution_depth = 0
        self.pending: list[_HereDocument] = []  # here-documents whose text comes after this line
        self._here_documents = 0

    @abstractmethod
    def here_text(self, text: str, base: int) -> None:
        """Read the text of a here-document that the shell expands; it begins at `base` of the whole line."""

    def passing_newline(self) -> None:
        if self.pending:
            raise Unreadable("a word continues past the line after which a here-document begins")

    def value(self) -> Word:
        """Read the word that must be at `pos`."""
        start = self.pos
        word = self.word()
        if self.pos == start:
            raise Unreadable("a word is missing")
        return word

    def redirect(self, into: Redirections) -> bool:
        """Read the redirection at `pos`; False where there is none."""
        token = _REDIRECTION.match(self.text, self.pos)
        if token is None:
            return False
        into.count += 1
        if into.count > _MAX_REDIRECTIONS:
            raise TooLarge("it has too many redirections")
        if len(token[1]) > 1:
            raise Unreadable(f"shells read `{token[0]}` differently")
        self.pos = token.end()
        if self.peek() == "\\" and self.peek(1) == "\n":
            raise Unreadable("a redirection is continued on the next line")
        self.skip()
        start = self.pos
        target = self.value()
        match operator := token[2]:
            case "<<" | "<<-":
                self._add_here_document(target, self.text[start : self.pos], strips_tabs=operator == "<<-")
                return True
            case "<<<":
                into.dynamic |= target.dynamic
                return True
            case "<&" | ">&" if _DUPLICATE.fullmatch(target.text):
                return True
            case ">&" if not target.bare:
                raise Unreadable("shells read quotes after `>&` differently")
            case "<&":
                into.unclear = "its input is unknown"
            case _:
                pass
        into.both |= operator.startswith("&")
        if target.dynamic or target.text.startswith("!"):
            into.unclear = f"it is redirected to a file that is known only at run time: {target.text}"
        if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            into.unclear = "it is redirected to the network"
        if target.text not in _NO_FILE:
            if "<" in operator:
                into.reads.append(target.text)
            if ">" in operator:
                into.writes.append(target.text)
        return True

    def _add_here_document(self, delimiter: Word, source: str, *, strips_tabs: bool) -> None:
        if delimiter.dynamic or "\n" in delimiter.text or not delimiter.text or "$" in source or "`" in source:
            raise Unreadable("a here-document has an unusual delimiter")
        self._here_documents += 1
        if self._here_documents > _MAX_HERE_DOCUMENTS:
            raise TooLarge("it has too many here-documents")
        self.pending.append(_HereDocument(delimiter.text, not delimiter.bare, strips_tabs))

    def _here_texts(self) -> None:
        """Read the texts of the here-documents of the line that ends at `pos`."""
        pending, self.pending = self.pending, []
        for here in pending:
            start = self.pos
            while True:
                if self.pos >= len(self.text):
                    raise Unreadable("a here-document does not end")
                end = self.text.find("\n", self.pos)
                end = len(self.text) if end < 0 else end
                line = self.text[self.pos : end]
                line = line.lstrip("\t") if here.strips_tabs else line
                last, self.pos = self.pos, min(end + 1, len(self.text))
                if line == here.delimiter:
                    break
                if self.substitution_depth and line.lstrip().startswith(here.delimiter):
                    raise Unreadable("shells differ on where a here-document ends")
            if self.text[self.pos - 1] == "\n" and self.pos > last:
                self.pos -= 1  # the newline also ends the command
            body = self.text[start:last]
            if self.substitution_depth:
                _check_balance(body)
            if not here.is_literal:
                self.here_text(body, self._base + start)

    def skip(self) -> None:
        """Skip blanks, continued lines and a comment."""
        blank = _BLANK.match(self.text, self.pos)
        assert blank is not None
        if "\n" in blank[0]:
            self.passing_newline()
        self.pos = blank.end()
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
    # Old shells find the end of `$(…)` by counting parentheses, in here-documents too.
    level = 0
    for char in re.findall(r"[()]", body):
        level += 1 if char == "(" else -1
        if level < 0:
            raise Unreadable("shells differ on where `$(…)` ends: a here-document in it has parentheses")
