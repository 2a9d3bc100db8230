"""Words of a command line: without quotes where they are literal, as written where the shell would expand them.

Strict on purpose. Shells differ (old and new bash, dash, zsh), and one of them will run the line: a form that they read
differently, or that runs something unseen, raises `Unreadable` instead of being guessed.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from typing import Final

import msgspec

MAX_DEPTH: Final = 24
"""Nesting of substitutions, groups and wrappers. People write three levels; each costs several stack frames."""

MAX_STEPS: Final = 2_000
"""Words, expansions and operators of one line. The second reader takes quadratic time on some of them."""

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:,@%+\-^=!\]}#]+")
_QUOTED: Final = re.compile(r'[^"$`\\]+')
_BODY: Final = re.compile(r"[^$`\\]+")
_VARIABLE: Final = re.compile(rf"\$(?:{_NAME}|[0-9@*#?$!-])")
# Only forms that neither assign, nor compute, nor expand their value again (`${x:=…}`, `${x:…}`, `${x@P}`, `${!x}`).
_BRACED: Final = re.compile(
    rf"\$\{{(?:#?(?:{_NAME}|[0-9]+|[@*#?$!-])|{_NAME}(?::?[-+?]|##?|%%?|//?)[A-Za-z0-9_./:,@+*? -]*)\}}"
)
# Of numbers alone: the value of a name is itself computed, and commands in its subscripts are run.
_ARITHMETIC: Final = re.compile(r"\$\(\((?!.{0,999}?(?:--|\+\+))[0-9 +*/%-]{0,999}\)\)")
_ANSI: Final = re.compile(r"\$'(?:[^'\\]|\\[nt\\])*'")
_DOLLAR_MEANS_MORE: Final = frozenset("+~^=:%[&'\"")
_BRACES: Final = re.compile(r"\{.*(?:,|\.\.)")
_ZSH_PATH: Final = re.compile(r"=[^=]")
_OPERATORS: Final = frozenset({"[", "[[", "=~"})
_ASSIGNMENT: Final = re.compile(rf"{_NAME}(\[|\+?=)")

RESERVED_WORDS: Final = frozenset(
    {
        *("if", "then", "elif", "else", "fi", "case", "in", "esac"),
        *("while", "until", "for", "select", "do", "done", "function", "[[", "{", "}", "!"),
    }
)

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SPECIAL: Final = frozenset(";&|`$<>()\\\"'#*?[]{}~ \n")


class Unreadable(Exception):
    """The rest of the line is not understood; the message says why."""


class TooLarge(Unreadable):
    """The line is too large: do not try the second reader either."""


class Word(msgspec.Struct, frozen=True):
    """One word: `text` without quotes, or as written where it is `dynamic` (the shell expands a variable, glob, …).

    `bare`: written without quotes, so it may be a reserved word. `sets`: it has the form of an assignment. `start` is
    its position in the line.
    """

    text: str
    dynamic: bool = False
    bare: bool = True
    sets: bool = False
    start: int = 0


def deceptive(text: str) -> str | None:
    """Return why a person may see another text: control characters, or characters that hide or reorder others."""
    if _CONTROL.search(text):
        return "it has control characters in it"
    if not text.isascii():
        for char in set(text):
            if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and char not in "\t\n":
                return f"it has an invisible or unknown character in it (U+{ord(char):04X})"
    return None


class WordReader(ABC):
    """Reads the words of `text` one by one; `commands_until` reads the commands in substitutions."""

    def __init__(self, text: str, *, base: int = 0, depth: int = 0) -> None:
        self.text = text
        self.pos = 0
        self.depth = depth
        self.steps = 0
        self._base = base

    @abstractmethod
    def commands_until(self, closing: str) -> None:
        """Read commands from `pos` on, up to and including the closing sign."""

    @abstractmethod
    def commands_of(self, text: str, base: int) -> None:
        """Read the commands of a separate text that begins at `base` of the whole line."""

    @abstractmethod
    def passing_newline(self) -> None:
        """Take note of a newline inside a word."""

    def peek(self, ahead: int = 0) -> str:
        at = self.pos + ahead
        return self.text[at] if at < len(self.text) else ""

    def step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooLarge("it is too large to be understood")

    def word(self) -> Word:
        """Read the word at `pos`."""
        self.step()
        start = self.pos
        found = _ASSIGNMENT.match(self.text, start)
        if (
            found
            and found[1] == "["
            and (end := self.text.find("]", start)) >= 0
            and self.text[end + 1 : end + 2] in ("+", "=")
        ):
            raise Unreadable("it sets an element of a list")
        text: list[str] = []
        unquoted: list[str] = []  # braces have a meaning only here
        dynamic = quoted = False
        while char := self.peek():
            if plain := _PLAIN.match(self.text, self.pos):
                text.append(plain[0])
                unquoted.append(plain[0])
                self.pos = plain.end()
                continue
            match char:
                case " " | "\t" | "\n" | ";" | "&" | "|" | ")":
                    break
                case "(":
                    raise Unreadable("it has a function, a list or a pattern with parentheses")
                case "<" | ">":
                    if self.peek(1) != "(":
                        break
                    if self.pos != start:
                        raise Unreadable(f"`{char}(` is inside a word")
                    self.pos += 2
                    self.commands_until(")")
                    dynamic = True
                case "'":
                    text.append(self._single())
                    quoted = True
                case '"':
                    literal = self._double()
                    text.append(literal or "")
                    dynamic |= literal is None
                    quoted = True
                case "\\":
                    if self.peek(1) in ("", "\n"):
                        raise Unreadable("a word ends in a backslash")
                    text.append(self.peek(1))
                    quoted = True
                    self.pos += 2
                case "$":
                    literal = self._dollar(quoted=False)
                    text.append(literal or "")
                    dynamic |= literal is None
                case "`":
                    self._backticks(quoted=False)
                    dynamic = True
                case _:
                    dynamic |= self._unusual(char, start)
                    text.append(char)
                    unquoted.append(char)
                    self.pos += 1
        source = self.text[start : self.pos]
        if source in _OPERATORS:
            dynamic = False
        elif _ZSH_PATH.match(source) or _BRACES.search("".join(unquoted)):
            dynamic = True  # zsh replaces `=name` with a path
        shown = source if dynamic else "".join(text)
        return Word(shown, dynamic, not quoted and not dynamic, bool(found), self._base + start)

    def _unusual(self, char: str, start: int) -> bool:
        """Tell whether the shell expands this unquoted character."""
        self.step()
        if char == "~":
            return self.pos == start or self.text[self.pos - 1] in "=:"
        if not char.isascii():
            if char.isspace() or not _SPECIAL.isdisjoint(unicodedata.normalize("NFKC", char)):
                raise Unreadable(f"it has a character that looks like another one (U+{ord(char):04X})")
            return False
        return char in "*?["

    def _single(self) -> str:
        self.step()
        end = self.text.find("'", self.pos + 1)
        if end < 0:
            raise Unreadable("a quote is not closed")
        text = self.text[self.pos + 1 : end]
        if "\n" in text:
            self.passing_newline()
        self.pos = end + 1
        return text

    def _double(self) -> str | None:
        self.step()
        self.pos += 1
        text = self.expansions(_QUOTED, '"')
        if self.peek() != '"':
            raise Unreadable("a quote is not closed")
        self.pos += 1
        return text

    def expansions(self, plain: re.Pattern[str], closing: str) -> str | None:
        """Read text as in double quotes, up to the closing sign or the end; None where the shell expands something."""
        text: list[str] = []
        dynamic = False
        while (char := self.peek()) and char != closing:
            if found := plain.match(self.text, self.pos):
                text.append(found[0])
                if "\n" in found[0]:
                    self.passing_newline()
                self.pos = found.end()
            elif char == "\\":
                self.step()
                after = self.peek(1)
                if after == "\n":
                    self.passing_newline()
                elif after in ("$", "`", "\\") or (after == closing and after):
                    text.append(after)
                else:
                    text.append(char + after)
                self.pos += 2
            elif char == "`":
                self._backticks(quoted=True)
                dynamic = True
            else:
                literal = self._dollar(quoted=True)
                text.append(literal or "")
                dynamic |= literal is None
        return None if dynamic else "".join(text)

    def here_document(self) -> bool:
        """Read a here-document with an unquoted delimiter; tell whether the shell expands something in it."""
        if "\\\n" in self.text:
            raise Unreadable("a line of a here-document is continued")
        return self.expansions(_BODY, "") is None

    def _dollar(self, *, quoted: bool) -> str | None:
        """Read what begins with `$`: its literal text, or None where the shell expands it."""
        self.step()
        match after := self.peek(1):
            case "(" if self.peek(2) == "(":
                self._expansion(
                    _ARITHMETIC, "it computes something else than numbers, and may run what a variable holds"
                )
                return None
            case "(":
                self.pos += 2
                self.commands_until(")")
                return None
            case "{":
                self._expansion(_BRACED, "`${…}` is used in an unusual way")
                return None
            case "'" if not quoted:
                # A plain shell takes `$` and the escapes literally: all agree where it ends, not on its value.
                self._expansion(_ANSI, "`$'…'` has escapes that shells read differently")
                return None
            case "'" | '"' if quoted:
                self.pos += 1
                return "$"
        if found := _VARIABLE.match(self.text, self.pos):
            self.pos = found.end()
            if self.peek() == "[":
                raise Unreadable("`$name[` is an element of a list for some shells")
            return None
        if after in _DOLLAR_MEANS_MORE or (after == "\\" and self.peek(2) == "\n"):
            raise Unreadable(f"shells read `${after}` differently")
        self.pos += 1
        return "$"

    def _expansion(self, form: re.Pattern[str], otherwise: str) -> None:
        found = form.match(self.text, self.pos)
        if found is None:
            raise Unreadable(otherwise)
        if "\n" in found[0]:
            self.passing_newline()
        self.pos = found.end()

    def _backticks(self, *, quoted: bool) -> None:
        start = self.pos + 1
        end = self.text.find("`", start)
        if end < 0:
            raise Unreadable("a backtick is not closed")
        inner = self.text[start:end]
        if "\\" in inner or (quoted and '"' in inner):
            raise Unreadable("there are quotes inside backticks")
        if "\n" in inner:
            self.passing_newline()
        self.commands_of(inner, self._base + start)
        self.pos = end + 1
