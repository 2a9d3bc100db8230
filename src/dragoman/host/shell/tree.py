"""A second reader of command lines: the grammar that editors use (tree-sitter-bash).

Its part is twofold. Where the strict reader understood a line, this one must have found commands at the very same
places, or the line counts as not understood. Where it did not, this one, which never gives up, says what commands
there seem to be: good enough to refuse by, never to allow by.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from dragoman.host.shell.grammar import MAX_COMMANDS, SimpleCommand, only_word
from dragoman.host.shell.words import Word

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_GUESSED: Final = 4_096
"""Characters. On lines that are no shell at all the parser's time grows with their square: here to some 0.1 s."""

_NAMED: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_NO_WORDS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect", "variable_assignment"})

_PLAIN: Final = bytes(byte if byte < 128 else ord("x") for byte in range(256))
"""The grammar's own scanner asks C's `isalpha` about whole characters, which reads beyond its table and may end the
process. For the shell every such byte is a part of a word, like any letter."""


def agrees(line: str, commands: list[SimpleCommand]) -> bool:
    """Whether this reader finds no fault in the line, and commands just where the other one did."""
    data = line.encode()
    starts = sorted(command.words[0].start for command in commands if command.words)
    found = []
    for node in _nodes(data):
        if node.is_error or node.is_missing:
            return False
        if node.type in _NAMED:
            found.append(_name(node).start_byte)
    if line.isascii():
        return sorted(found) == starts
    return sorted(found) == list(_bytes_at(line, starts))


def guess(line: str) -> list[SimpleCommand]:
    """The commands that seem to be in a line which the other reader does not understand."""
    if len(line) > MAX_GUESSED:
        return []
    data = line.encode()
    commands = []
    for node in _nodes(data):
        if node.type in _NAMED:
            name = _name(node)
            words = (
                node for node in node.children if node.type not in _NO_WORDS and node.start_byte >= name.start_byte
            )
            texts = (data[word.start_byte : word.end_byte].decode(errors="replace") for word in words)
            commands.append(
                SimpleCommand(tuple(only_word(text) or Word(text, dynamic=True, bare=False) for text in texts))
            )
        elif node.type == "file_redirect" and (told := _redirected(node, data)):
            commands.append(told)
        if len(commands) >= MAX_COMMANDS:
            break
    return commands


def _redirected(node: Node, data: bytes) -> SimpleCommand | None:
    """What follows a redirection's target is taken for further targets there: it may be the command."""
    targets = [data[child.start_byte : child.end_byte].decode(errors="replace") for child in node.named_children]
    words = tuple(_word(text) for text in targets[1:])
    return SimpleCommand(words) if words else None


def _word(text: str) -> Word:
    return only_word(text) or Word(text, dynamic=True, bare=False)


def _name(node: Node) -> Node:
    return node.child_by_field_name("name") or node if node.type == "command" else node


def _bytes_at(line: str, starts: list[int]) -> Iterator[int]:
    before = count = 0
    for start in starts:
        count += len(line[before:start].encode())
        before = start
        yield count


def _nodes(data: bytes) -> Iterator[Node]:
    """All nodes in the order of the text; without recursion, as lines may be nested as deeply as they like."""
    # Loaded when the first command is judged: many sessions never see one.
    from tree_sitter import Parser

    # One for each line: a parser has a state, and there may be threads.
    cursor = Parser(_language()).parse(data.translate(_PLAIN)).walk()
    while True:
        if cursor.node is not None:
            yield cursor.node
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


@lru_cache(maxsize=1)
def _language() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())
