"""A strict reader of the shell: all simple commands of a line, in lists, pipes, groups, loops and substitutions.

`commands_in` reads the part of the language that all common shells read alike, and raises `Unreadable` beyond it. The
commands read until then stay in the list, for rules that deny.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from dragoman.host.shell.redirections import RedirectionReader, Redirections
from dragoman.host.shell.words import MAX_DEPTH, TooLarge, Unreadable, Word

MAX_COMMANDS: Final = 256
"""Commands in one line. Nobody reads more of them before approving."""

_RESERVED: Final = re.compile(
    r"(?:if|then|elif|else|fi|while|until|for|select|do|done|case|in|esac|function|\[\[|\{|\})(?=[\s;&|()<>]|\Z)|!(?=\s)"
)
_LOOP_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
# Lower-case variables that shells or programs use: a loop over one changes what the following commands do.
_SPECIAL_NAMES: Final = re.compile(
    r"path|fpath|cdpath|manpath|mailpath|module_path|prompt|argv|status|watch|options|aliases|functions|commands"
    r"|builtins|dirstack|histchars|.*_proxy|npm_.*"
)
_COMPARISON: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


class SimpleCommand(msgspec.Struct, frozen=True):
    """A simple command as it stands in the line. `dynamic`: some of its input is known only at run time."""

    words: tuple[Word, ...]
    assignments: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    dynamic: bool = False
    unclear: str | None = None


def commands_in(line: str, commands: list[SimpleCommand], *, depth: int = 0) -> None:
    """Add all commands of the line to `commands`, in the order in which they begin."""
    _Reader(line, commands, depth=depth).read_all()


class _Reader(RedirectionReader):
    def __init__(self, text: str, commands: list[SimpleCommand], *, base: int = 0, depth: int = 0) -> None:
        super().__init__(text, base=base, depth=depth)
        self._commands = commands
        if depth > MAX_DEPTH:
            raise TooLarge("it is nested too deeply to be understood")

    # Commands inside words, and texts of here-documents

    def commands_until(self, closing: str) -> None:
        if self.pending:
            raise Unreadable("there are commands between a here-document and its text")
        self.substitution_depth += 1
        self._nested(closing)
        self.substitution_depth -= 1

    def commands_of(self, text: str, base: int) -> None:
        inner = _Reader(text, self._commands, base=base, depth=self.depth + 1)
        inner.steps, inner.substitution_depth = self.steps, 1
        inner.read_all()
        self.steps = inner.steps

    def here_text(self, text: str, base: int) -> None:
        inner = _Reader(text, self._commands, base=base, depth=self.depth + 1)
        inner.steps, inner.substitution_depth = self.steps, self.substitution_depth
        if inner.here_document():
            # Which command it belongs to is no longer known here: any command of the line may read it.
            self._commands[:] = [msgspec.structs.replace(command, dynamic=True) for command in self._commands]
        self.steps = inner.steps

    # Lists

    def read_all(self) -> None:
        self._list(frozenset())
        if self.pos < len(self.text):
            raise Unreadable(f"`{self.peek()}` is not expected after a command")
        if self.pending:
            raise Unreadable("a here-document has no text")

    def _nested(self, *ends: str) -> str:
        """Read commands up to one of the ends, skip that end and return it."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge("it is nested too deeply to be understood")
        end = self._list(frozenset(ends))
        if end is None:
            raise Unreadable(f"`{ends[0]}` is missing")
        if self.pending and end == ")":
            raise Unreadable("a here-document has no text")
        self.pos += len(end)
        self.depth -= 1
        return end

    def _list(self, ends: frozenset[str]) -> str | None:
        while True:
            self.skip_lines()
            if (end := self._end(ends)) or not self.peek():
                return end
            self._and_or()
            self.skip()
            end = self._end(ends)
            if end or not self.peek():
                return end
            if self.peek() == "\n":
                continue
            if self.peek() in (";", "&") and self.peek(1) not in (";", "&", "|"):
                self.step()
                self.pos += 1
                continue
            if not ends and self.peek() == ")":
                return None
            raise Unreadable(f"`{self.peek()}` is not expected after a command")

    def _end(self, ends: frozenset[str]) -> str | None:
        for end in ends:
            if self.text.startswith(end, self.pos):
                # A reserved word ends the list only as a whole word.
                if end[0] not in ";)" and self._reserved() != end:
                    continue
                return end
        return None

    def _and_or(self) -> None:
        while True:
            self._pipeline()
            self.skip()
            if not self.text.startswith(("&&", "||"), self.pos):
                return
            self.step()
            self.pos += 2
            self.skip_lines()

    def _pipeline(self) -> None:
        while True:
            self.skip()
            while self._reserved() == "!":
                self.pos += 1
                self.skip()
            self._command()
            self.skip()
            if self.peek() != "|" or self.peek(1) == "|":
                return
            self.step()
            self.pos += 2 if self.peek(1) == "&" else 1
            self.skip_lines()

    # Commands

    def _command(self) -> None:
        first = len(self._commands)
        if self.peek() == "(":
            if self.peek(1) == "(":
                raise Unreadable("`((` is arithmetic for some shells, and runs a command in others")
            self.pos += 1
            self._nested(")")
            self._redirect_all(first)
            return
        match reserved := self._reserved():
            case None:
                self._simple()
                return
            case "[[":
                self._condition()
                return
            case "{":
                self.pos += 1
                self._nested("}")
            case "if":
                self.pos += 2
                self._nested("then")
                while (end := self._nested("elif", "else", "fi")) != "fi":
                    if end == "elif":
                        self._nested("then")
                    else:
                        self._nested("fi")
                        break
            case "while" | "until":
                self.pos += 5
                self._nested("do")
                self._nested("done")
            case "for":
                self.pos += 3
                self._for()
            case "case":
                self.pos += 4
                self._case()
            case _:
                raise Unreadable(f"`{reserved}` is in an unusual position")
        self._redirect_all(first)

    def _for(self) -> None:
        self.skip()
        name = self.word()
        if not name.bare or not _LOOP_NAME.fullmatch(name.text) or _SPECIAL_NAMES.fullmatch(name.text):
            raise Unreadable(f"a loop sets {name.text}")
        self.skip_lines()
        if self._reserved() == "in":
            self.pos += 2
            self.skip()
            while self.peek() and self.peek() not in ";\n":
                if self.peek() in "&|()<>":
                    raise Unreadable("the words of a loop cannot be read")
                self.word()
                self.skip()
        if self.peek() == ";":
            self.pos += 1
        self.skip_lines()
        if self._reserved() != "do":
            raise Unreadable("a loop has no `do`")
        self.pos += 2
        self._nested("done")

    def _case(self) -> None:
        self.skip()
        self.value()
        self.skip_lines()
        if self._reserved() != "in":
            raise Unreadable("`case` has no `in`")
        self.pos += 2
        while True:
            self.skip_lines()
            if self._reserved() == "esac":
                self.pos += 4
                return
            if self.peek() == "(":
                self.pos += 1
            while True:
                self.skip()
                self.value()
                self.skip()
                if self.peek() != "|":
                    break
                self.pos += 1
            if self.peek() != ")":
                raise Unreadable("a pattern of `case` does not end")
            self.pos += 1
            self.depth += 1
            if self._list(frozenset({";;", "esac"})) is None:
                raise Unreadable("`esac` is missing")
            self.depth -= 1
            if self.peek() == ";":
                self.pos += 2
                if self.peek() == "&":
                    self.pos += 1

    def _condition(self) -> None:
        """Read `[[ … ]]` as a command of that name."""
        first = len(self._commands)
        words: list[Word] = []
        while not words or not (words[-1].bare and words[-1].text == "]]"):
            self.skip()
            if self.text.startswith(("&&", "||"), self.pos):
                words.append(Word(self.text[self.pos : self.pos + 2]))
                self.pos += 2
            elif self.peek() in ("<", ">"):
                words.append(Word(self.peek()))
                self.pos += 1
            else:
                words.append(self.value())
        texts = [word.text for word in words]
        unclear = None
        for before, operator, after in zip(words, texts[1:], words[2:], strict=False):
            if operator in _COMPARISON and not (_NUMBER.fullmatch(before.text) and _NUMBER.fullmatch(after.text)):
                unclear = "`[[` evaluates its operands"
        if not {"-v", "-R"}.isdisjoint(texts):
            unclear = "`[[ -v` evaluates the name"
        self._add(first, SimpleCommand(tuple(words), unclear=unclear))
        self._redirect_all(first)

    def _simple(self) -> None:
        first = len(self._commands)
        words: list[Word] = []
        assignments: list[str] = []
        redirections = Redirections()
        start = self.pos
        while True:
            self.skip()
            if self.redirect(redirections):
                continue
            char = self.peek()
            if not char or char in "\n;&|)":
                break
            if redirections.both:
                raise Unreadable("words after `&>` are another command for some shells")
            word = self.value()
            if word.text.startswith("{") and self.peek() in ("<", ">") and self.peek():
                raise Unreadable("a redirection sets a variable")
            if word.sets and not words:
                assignments.append(word.text)
                redirections.dynamic |= word.dynamic
            else:
                words.append(word)
        if self.pos == start:
            raise Unreadable(f"`{self.peek()}` is not the beginning of a command")
        unclear = redirections.unclear
        if assignments and not words:
            unclear = "it sets a variable for the commands after it"
        command = SimpleCommand(
            tuple(words),
            tuple(assignments),
            tuple(redirections.reads),
            tuple(redirections.writes),
            redirections.dynamic,
            unclear,
        )
        self._add(first, command)

    def _add(self, index: int, command: SimpleCommand) -> None:
        if len(self._commands) >= MAX_COMMANDS:
            raise TooLarge(f"it has more than {MAX_COMMANDS} commands")
        self._commands.insert(index, command)

    # Redirections

    def _redirect_all(self, first: int) -> None:
        """Read the redirections after a group, which apply to each command in it."""
        redirections = Redirections()
        self.skip()
        while self.redirect(redirections):
            self.skip()
        if not redirections.count:
            return
        for index in range(first, len(self._commands)):
            command = self._commands[index]
            self._commands[index] = msgspec.structs.replace(
                command,
                reads=(*command.reads, *redirections.reads),
                writes=(*command.writes, *redirections.writes),
                dynamic=command.dynamic or redirections.dynamic,
                unclear=command.unclear or redirections.unclear,
            )

    # Between words

    def _reserved(self) -> str | None:
        match = _RESERVED.match(self.text, self.pos)
        return match[0] if match else None


def only_word(text: str) -> Word | None:
    """Return the text as one word, if it is one. Commands substituted in it are not read."""
    reader = _Reader(text, [])
    try:
        word = reader.word()
    except Unreadable:
        return None
    return word if reader.pos == len(text) and text else None
