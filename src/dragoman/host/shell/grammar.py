"""A strict reader of the shell: all simple commands of a line, in lists, pipes, groups, loops and substitutions.

`commands_in` reads the part of the language that all common shells read alike, with redirections and here-documents,
and raises `Unreadable` beyond it. The commands read until then stay in the list, for rules that deny.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Final

import msgspec

from dragoman.host.shell.words import MAX_DEPTH, TooLarge, Unreadable, Word, WordReader

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


def commands_in(line: str, commands: list[SimpleCommand], *, depth: int = 0) -> bool:
    """Add all commands of the line to `commands`, in the order in which they begin.

    Returns True where a word beside the commands makes them depend on a value that is known only at run time: a loop
    sets a variable, or a `case` expands one.
    """
    reader = _Reader(line, commands, depth=depth)
    reader.read_all()
    return reader.has_unknown_values


class _Reader(RedirectionReader):
    def __init__(self, text: str, commands: list[SimpleCommand], *, base: int = 0, depth: int = 0) -> None:
        super().__init__(text, base=base, depth=depth)
        self._commands = commands
        self.has_unknown_values = False
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
        self.has_unknown_values |= inner.has_unknown_values

    def here_text(self, text: str, base: int) -> None:
        inner = _Reader(text, self._commands, base=base, depth=self.depth + 1)
        inner.steps, inner.substitution_depth = self.steps, self.substitution_depth
        if inner.here_document():
            # Which command it belongs to is no longer known here: any command of the line may read it.
            self._commands[:] = [msgspec.structs.replace(command, dynamic=True) for command in self._commands]
        self.steps = inner.steps
        self.has_unknown_values |= inner.has_unknown_values

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
        self.has_unknown_values = True
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
        self._case_word()
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
                self._case_word()
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

    def _case_word(self) -> None:
        word = self.value()
        # The signs of a pattern (`*`, `[a-z]`) expand nothing here.
        self.has_unknown_values |= word.dynamic and not {"$", "`", "~", "<", ">"}.isdisjoint(word.text)

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
        if any(not word.start and word.text in ("&&", "||", "<", ">") for word in words):
            unclear = "a plain shell runs or redirects what follows `&&`, `||`, `<` and `>` in `[[ … ]]`"
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
