"""All simple commands of a line of shell, wherever they stand: in lists, pipes, groups, loops, substitutions.

`commands_in` reads a part of the language that all usual shells read alike, and is `Unreadable` past it. What it found
until then is kept: it can only speak against the line.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from dragoman.host.shell.words import MAX_DEPTH, TooLarge, Unreadable, Word, WordReader

MAX_COMMANDS: Final = 256
"""In one line. Nobody reads more before saying yes."""

_MAX_REDIRECTIONS: Final = 32
_MAX_HERE_DOCUMENTS: Final = 16

_BLANK: Final = re.compile(r"(?:[ \t]|\\\n)*")
_COMMENT: Final = re.compile(r"#[^\n]*")
_REDIRECTION: Final = re.compile(r"([0-9]*)(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||>(?!\()|<(?!\())")
_RESERVED: Final = re.compile(
    r"(?:if|then|elif|else|fi|while|until|for|select|do|done|case|in|esac|function|\[\[|\{|\})(?=[\s;&|()<>]|\Z)|!(?=\s)"
)
_DUPLICATE: Final = re.compile(r"[0-9]+-?|-")
_NO_FILE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_LOOP_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
# Lower-case names that mean something to a shell or to programs: a loop over one changes what is run after it.
_TAKEN_NAMES: Final = re.compile(
    r"path|fpath|cdpath|manpath|mailpath|module_path|prompt|argv|status|watch|options|aliases|functions|commands"
    r"|builtins|dirstack|histchars|.*_proxy|npm_.*"
)
_COMPARISON: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


class Simple(msgspec.Struct, frozen=True):
    """A simple command as it stands in the line. `dynamic`: what it is given besides words is not known yet."""

    words: tuple[Word, ...]
    assignments: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    dynamic: bool = False
    unclear: str | None = None


class _Here(msgspec.Struct, frozen=True):
    limit: str
    literal: bool
    tabs: bool


class _Redirections:
    """What is gathered while the redirections of one command are read."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.dynamic = False
        self.unclear: str | None = None
        self.count = 0
        self.both = False  # `&>`: for a plain shell a `&`, after which another command begins


def commands_in(line: str, found: list[Simple], *, depth: int = 0) -> None:
    """Add all commands to `found`, in the order in which they begin."""
    _Reader(line, found, depth=depth).whole()


class _Reader(WordReader):
    def __init__(self, text: str, found: list[Simple], *, base: int = 0, depth: int = 0) -> None:
        super().__init__(text, base=base, depth=depth)
        self._found = found
        self._pending: list[_Here] = []
        self._here_documents = 0
        self._inside = 0
        if depth > MAX_DEPTH:
            raise TooLarge("it is nested too deeply to be understood")

    # What the words need

    def commands_until(self, closing: str) -> None:
        if self._pending:
            raise Unreadable("commands stand between a here-document and its text")
        self._inside += 1
        self._nested(closing)
        self._inside -= 1

    def commands_of(self, text: str, base: int) -> None:
        inner = _Reader(text, self._found, base=base, depth=self.depth + 1)
        inner.steps, inner._inside = self.steps, 1
        inner.whole()
        self.steps = inner.steps

    def passing_newline(self) -> None:
        if self._pending:
            raise Unreadable("a word goes on past the line after which a here-document begins")

    # Lists

    def whole(self) -> None:
        self._list(frozenset())
        if self.pos < len(self.text):
            raise Unreadable(f"`{self.peek()}` stands where no command ends")
        if self._pending:
            raise Unreadable("a here-document has no text")

    def _nested(self, *ends: str) -> str:
        """Commands up to one of the ends, which is passed and returned."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge("it is nested too deeply to be understood")
        end = self._list(frozenset(ends))
        if end is None:
            raise Unreadable(f"`{ends[0]}` is missing")
        if self._pending and end == ")":
            raise Unreadable("a here-document has no text")
        self.pos += len(end)
        self.depth -= 1
        return end

    def _list(self, ends: frozenset[str]) -> str | None:
        while True:
            self._skip_lines()
            if (end := self._end(ends)) or not self.peek():
                return end
            self._and_or()
            self._skip()
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
            raise Unreadable(f"`{self.peek()}` stands where no command ends")

    def _end(self, ends: frozenset[str]) -> str | None:
        for end in ends:
            if self.text.startswith(end, self.pos):
                # `;;` is tried before `;`, and a word ends where it ends.
                if end[0] not in ";)" and self._reserved() != end:
                    continue
                return end
        return None

    def _and_or(self) -> None:
        while True:
            self._pipeline()
            self._skip()
            if not self.text.startswith(("&&", "||"), self.pos):
                return
            self.step()
            self.pos += 2
            self._skip_lines()

    def _pipeline(self) -> None:
        while True:
            self._skip()
            while self._reserved() == "!":
                self.pos += 1
                self._skip()
            self._command()
            self._skip()
            if self.peek() != "|" or self.peek(1) == "|":
                return
            self.step()
            self.pos += 2 if self.peek(1) == "&" else 1
            self._skip_lines()

    # Commands

    def _command(self) -> None:
        first = len(self._found)
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
                raise Unreadable(f"`{reserved}` stands in an unusual place")
        self._redirect_all(first)

    def _for(self) -> None:
        self._skip()
        name = self.word()
        if not name.bare or not _LOOP_NAME.fullmatch(name.text) or _TAKEN_NAMES.fullmatch(name.text):
            raise Unreadable(f"a loop sets {name.text}")
        self._skip_lines()
        if self._reserved() == "in":
            self.pos += 2
            self._skip()
            while self.peek() and self.peek() not in ";\n":
                if self.peek() in "&|()<>":
                    raise Unreadable("the words of a loop are not words")
                self.word()
                self._skip()
        if self.peek() == ";":
            self.pos += 1
        self._skip_lines()
        if self._reserved() != "do":
            raise Unreadable("a loop has no `do`")
        self.pos += 2
        self._nested("done")

    def _case(self) -> None:
        self._skip()
        self._value()
        self._skip_lines()
        if self._reserved() != "in":
            raise Unreadable("`case` has no `in`")
        self.pos += 2
        while True:
            self._skip_lines()
            if self._reserved() == "esac":
                self.pos += 4
                return
            if self.peek() == "(":
                self.pos += 1
            while True:
                self._skip()
                self._value()
                self._skip()
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

    def _value(self) -> Word:
        start = self.pos
        word = self.word()
        if self.pos == start:
            raise Unreadable("a word is missing")
        return word

    def _condition(self) -> None:
        """`[[ … ]]`, as a command of that name."""
        first = len(self._found)
        words: list[Word] = []
        while not words or not (words[-1].bare and words[-1].text == "]]"):
            self._skip()
            if self.text.startswith(("&&", "||"), self.pos):
                words.append(Word(self.text[self.pos : self.pos + 2]))
                self.pos += 2
            elif self.peek() in ("<", ">"):
                words.append(Word(self.peek()))
                self.pos += 1
            else:
                words.append(self._value())
        texts = [word.text for word in words]
        unclear = None
        for before, operator, after in zip(words, texts[1:], words[2:], strict=False):
            if operator in _COMPARISON and not (_NUMBER.fullmatch(before.text) and _NUMBER.fullmatch(after.text)):
                unclear = "`[[` computes what it compares"
        if not {"-v", "-R"}.isdisjoint(texts):
            unclear = "`[[ -v` computes the name it looks for"
        self._add(first, Simple(tuple(words), unclear=unclear))
        self._redirect_all(first)

    def _simple(self) -> None:
        first = len(self._found)
        words: list[Word] = []
        assignments: list[str] = []
        redirections = _Redirections()
        start = self.pos
        while True:
            self._skip()
            if self._redirect(redirections):
                continue
            char = self.peek()
            if not char or char in "\n;&|)":
                break
            if redirections.both:
                raise Unreadable("words after `&>` are another command for some shells")
            word = self._value()
            if word.text.startswith("{") and self.peek() in ("<", ">") and self.peek():
                raise Unreadable("a redirection sets a variable")
            if word.sets and not words:
                assignments.append(word.text)
                redirections.dynamic |= word.dynamic
            else:
                words.append(word)
        if self.pos == start:
            raise Unreadable(f"`{self.peek()}` stands where a command should")
        unclear = redirections.unclear
        if assignments and not words:
            unclear = "it sets a variable for what follows"
        command = Simple(
            tuple(words),
            tuple(assignments),
            tuple(redirections.reads),
            tuple(redirections.writes),
            redirections.dynamic,
            unclear,
        )
        self._add(first, command)

    def _add(self, index: int, command: Simple) -> None:
        if len(self._found) >= MAX_COMMANDS:
            raise TooLarge(f"it has more than {MAX_COMMANDS} commands")
        self._found.insert(index, command)

    # Redirections

    def _redirect_all(self, first: int) -> None:
        """Those after a group are of each command in it."""
        redirections = _Redirections()
        self._skip()
        while self._redirect(redirections):
            self._skip()
        if not redirections.count:
            return
        for index in range(first, len(self._found)):
            command = self._found[index]
            self._found[index] = msgspec.structs.replace(
                command,
                reads=(*command.reads, *redirections.reads),
                writes=(*command.writes, *redirections.writes),
                dynamic=command.dynamic or redirections.dynamic,
                unclear=command.unclear or redirections.unclear,
            )

    def _redirect(self, into: _Redirections) -> bool:
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
        self._skip()
        start = self.pos
        target = self._value()
        match operator := found[2]:
            case "<<" | "<<-":
                self._here_document(target, self.text[start : self.pos], tabs=operator == "<<-")
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

    def _here_document(self, limit: Word, source: str, *, tabs: bool) -> None:
        if limit.dynamic or "\n" in limit.text or not limit.text or "$" in source or "`" in source:
            raise Unreadable("a here-document has an unusual limit")
        self._here_documents += 1
        if self._here_documents > _MAX_HERE_DOCUMENTS:
            raise TooLarge("it has too many here-documents")
        self._pending.append(_Here(limit.text, not limit.bare, tabs))

    def _here_texts(self) -> None:
        """The texts of the here-documents that were announced in the line that ends at `pos`."""
        pending, self._pending = self._pending, []
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
                if self._inside and line.lstrip().startswith(here.limit):
                    raise Unreadable("shells differ on where a here-document ends")
            if self.text[self.pos - 1] == "\n" and self.pos > last:
                self.pos -= 1  # the newline ends the command too
            body = self.text[start:last]
            if self._inside:
                self._balanced(body)
            if here.literal:
                continue
            inner = _Reader(body, self._found, base=self._base + start, depth=self.depth + 1)
            inner.steps, inner._inside = self.steps, self._inside
            self._dynamic_text(inner.here_document())
            self.steps = inner.steps

    def _dynamic_text(self, dynamic: bool) -> None:
        # Whose it is was forgotten when its line ended: all commands of the line may be given it.
        if dynamic:
            self._found[:] = [msgspec.structs.replace(command, dynamic=True) for command in self._found]

    def _balanced(self, body: str) -> None:
        # Old shells look for the end of `$(…)` by counting, and count in here-documents too.
        level = 0
        for char in re.findall(r"[()]", body):
            level += 1 if char == "(" else -1
            if level < 0:
                raise Unreadable("shells differ on where `$(…)` ends: a here-document in it has parentheses")

    # Between words

    def _skip(self) -> None:
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

    def _skip_lines(self) -> None:
        self._skip()
        while self.peek() == "\n":
            self.pos += 1
            if self._pending:
                self._here_texts()
            self._skip()

    def _reserved(self) -> str | None:
        found = _RESERVED.match(self.text, self.pos)
        return found[0] if found else None


def only_word(text: str) -> Word | None:
    """The text as one word, if it is one; what it substitutes is not looked into."""
    reader = _Reader(text, [])
    try:
        word = reader.word()
    except Unreadable:
        return None
    return word if reader.pos == len(text) and text else None
