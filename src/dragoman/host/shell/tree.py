"""A second reader of command lines: the grammar that editors use (tree-sitter-bash).

Where the strict reader understood a line, this one must find commands at the same positions, or the line counts as not
understood. Where it did not, this one, which never gives up, guesses the commands: good enough for rules that deny,
never for rules that allow.
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
"""Characters. On lines that are not shell the parser takes quadratic time: about 0.1 s at this length."""

_COMMAND_NODES: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_NOT_WORDS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect", "variable_assignment"})

_PLAIN: Final = bytes(byte if byte < 128 else ord("x") for byte in range(256))
"""Replaces bytes beyond ASCII: the grammar's scanner passes them to C's `isalpha`, which reads beyond its table and may
crash the process. For the shell every such byte is part of a word, like a letter."""


def agrees(line: str, commands: list[SimpleCommand]) -> bool:
    """Tell whether this reader finds no error, and commands at the same positions as the other one."""
    data = line.encode()
    starts = sorted(command.words[0].start for command in commands if command.words)
    positions = []
    for node in _nodes(data):
        if node.is_error or node.is_missing:
            return False
        if node.type in _COMMAND_NODES:
            positions.append(_name(node).start_byte)
    if line.isascii():
        return sorted(positions) == starts
    return sorted(positions) == list(_byte_offsets(line, starts))


def guess(line: str) -> list[SimpleCommand]:
    """Guess the commands of a line that the other reader does not understand."""
    if len(line) > MAX_GUESSED:
        return []
    data = line.encode()
    commands = []
    for node in _nodes(data):
        if node.type in _COMMAND_NODES:
            name = _name(node)
            words = (
                node for node in node.children if node.type not in _NOT_WORDS and node.start_byte >= name.start_byte
            )
            texts = (data[word.start_byte : word.end_byte].decode(errors="replace") for word in words)
            commands.append(
                SimpleCommand(tuple(only_word(text) or Word(text, dynamic=True, bare=False) for text in texts))
            )
        elif node.type == "file_redirect" and (command := _after_redirection(node, data)):
            commands.append(command)
        if len(commands) >= MAX_COMMANDS:
            break
    return commands


def _after_redirection(node: Node, data: bytes) -> SimpleCommand | None:
    """Return the words after a redirection's target, which the grammar takes for targets: they may be a command."""
    targets = [data[child.start_byte : child.end_byte].decode(errors="replace") for child in node.named_children]
    words = tuple(_word(text) for text in targets[1:])
    return SimpleCommand(words) if words else None


def _word(text: str) -> Word:
    return only_word(text) or Word(text, dynamic=True, bare=False)


def _name(node: Node) -> Node:
    return node.child_by_field_name("name") or node if node.type == "command" else node


def _byte_offsets(line: str, starts: list[int]) -> Iterator[int]:
    before = count = 0
    for start in starts:
        count += len(line[before:start].encode())
        before = start
        yield count


def _nodes(data: bytes) -> Iterator[Node]:
    """Yield all nodes in the order of the text; without recursion, since the nesting of a line is not limited."""
    # Loaded with the first command: many sessions never run one.
    from tree_sitter import Parser

    # A new parser for each line: parsers have state, and there may be threads.
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
