"""Reads a command line for the policy: every simple command that it would run, wherever it stands in the line.

`read_script` is pure and never raises. Where it does not understand a line it says why (`unclear`), and the policy
asks. Two readers must agree on a line: a strict one (`grammar`), and the grammar that editors use (tree-sitter-bash).
Where the strict reader understood a line, the other one must find commands at the same positions, or the line counts as
not understood. Where it did not, the other one, which never gives up, guesses the commands: good enough for rules that
deny, never for rules that allow. A command that runs another one (`sudo rm x`, see `programs`) is listed with its own
words, followed by the inner one.

A rule may allow a line only if the line is clear, and each command in it is clear, not dynamic, and allowed by its
words. Rules that deny look at all commands, the unclear ones too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.host.shell.grammar import MAX_COMMANDS, SimpleCommand, commands_in, only_word
from dragoman.host.shell.words import MAX_DEPTH, TooLarge, Unreadable, Word, deceptive
from dragoman.host.shell.wrappers import InnerCommand, inspect_command

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_LENGTH: Final = 65_536
"""Characters of a line. Agents write files by here-documents, which are rarely larger."""

MAX_GUESSED: Final = 4_096
"""Characters. On lines that are not shell the parser takes quadratic time: about 0.1 s at this length."""

_COMMAND_NODES: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_NOT_WORDS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect", "variable_assignment"})

_PLAIN: Final = bytes(byte if byte < 128 else ord("x") for byte in range(256))
"""Replaces bytes beyond ASCII: the grammar's scanner passes them to C's `isalpha`, which reads beyond its table and may
crash the process. For the shell every such byte is part of a word, like a letter."""

_GUESS_DEPTH: Final = MAX_DEPTH // 3


class ShellCommand(msgspec.Struct, frozen=True):
    """One simple command that would be executed.

    `words` have no quotes. A word that the shell expands stands as it is written, and makes the command `dynamic`: with
    `rm $X`, `cat *` or `xargs rm` nobody knows the arguments. There are no words where a line only redirects or sets
    variables. `assignments` are variables set for it (`X=1`). `reads` and `writes` are the files that it is redirected
    from and to. `via` names the commands that it was found in, the outermost first; `outer` are the words of the first
    of them, where these end in its own (`sudo make` for `make`). `unclear` is the reason why its words do not say what
    it does.
    """

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    unclear: str | None = None
    dynamic: bool = False
    outer: tuple[str, ...] = ()


class Script(msgspec.Struct, frozen=True):
    """The commands of a line. `unclear`: why the line was not understood; `commands` are then what it seems to run.

    `sets_variables`: a part of the line sets a variable, so that every command in it is dynamic. Shells compute some
    words (subscripts, numbers) again, and run what the value of a name in them says.
    """

    commands: tuple[ShellCommand, ...]
    unclear: str | None = None
    sets_variables: bool = False


def read_script(line: str) -> Script:
    """Read a line that would be given to a shell."""
    return _read(line, depth=0)


def _read(line: str, depth: int) -> Script:
    if len(line) > MAX_LENGTH:
        return Script((), "it is too long to be understood")
    if reason := deceptive(line):
        return Script(tuple(_guesses(line, depth)), reason)
    simple_commands: list[SimpleCommand] = []
    unclear = None
    sets_variables = False
    try:
        sets_variables = commands_in(line, simple_commands, depth=depth)
    except TooLarge as error:
        return Script((), str(error))
    except Unreadable as error:
        unclear = str(error)
    else:
        if not simple_commands:
            unclear = "there is no command in it"
        elif not tree_agrees(line, simple_commands):
            unclear = "it can be read in two ways"
    commands: list[ShellCommand] = []
    for simple in simple_commands:
        sets_variables |= _expand(simple, commands, depth=depth)
    if sets_variables:
        commands = [msgspec.structs.replace(command, dynamic=True) for command in commands]
    if unclear is not None:
        commands = list(dict.fromkeys((*commands, *_guesses(line, depth))))
    if len(commands) > MAX_COMMANDS:
        unclear = unclear or f"it has more than {MAX_COMMANDS} commands"
    return Script(tuple(commands[:MAX_COMMANDS]), unclear, sets_variables)


def _guesses(line: str, depth: int) -> list[ShellCommand]:
    guessed: list[ShellCommand] = []
    if line.isascii() or not any(0xD800 <= ord(char) <= 0xDFFF for char in line):
        for simple in guess_commands(line):
            if simple.words:
                _expand(simple, guessed, depth=depth)
    return guessed


def _expand(
    simple: SimpleCommand,
    into: list[ShellCommand],
    *,
    depth: int,
    via: tuple[str, ...] = (),
    outer: tuple[str, ...] = (),
    has_more_arguments: bool = False,
) -> bool:
    """Add the command itself, then the commands that it runs. Tell whether one of them sets a variable of the shell."""
    words = simple.words
    command = ShellCommand(
        tuple(word.text for word in words),
        simple.assignments,
        simple.reads,
        simple.writes,
        via,
        simple.unclear,
        has_more_arguments or simple.dynamic or any(word.dynamic for word in words),
        outer,
    )
    if not words:
        into.append(command)
        return bool(simple.assignments)
    use = inspect_command(words)
    unclear = simple.unclear or use.unclear
    sets_variables = use.sets_variables
    inner_commands: list[ShellCommand] = []
    for inner in use.inner:
        # Guesses branch, so only a few may be nested.
        inner_depth = depth + (_GUESS_DEPTH if inner.is_guess else 1)
        if inner_depth > MAX_DEPTH:
            unclear = unclear or "it is nested too deeply to be understood"
            break
        more = has_more_arguments or inner.has_more_arguments
        whole = (outer or command.words) if words[-len(inner.words) :] == inner.words else ()
        reason, inner_sets = _expand_inner(inner, inner_commands, inner_depth, (*via, inner.via), whole, more)
        unclear = unclear or reason
        sets_variables |= inner_sets
    into.append(
        msgspec.structs.replace(
            command,
            assignments=(*command.assignments, *use.assignments),
            unclear=unclear,
            writes=(*command.writes, *use.writes),
        )
    )
    into += inner_commands
    return sets_variables


def _expand_inner(
    inner: InnerCommand,
    into: list[ShellCommand],
    depth: int,
    via: tuple[str, ...],
    outer: tuple[str, ...],
    has_more_arguments: bool,
) -> tuple[str | None, bool]:
    """Add the commands of what a wrapper runs.

    Returns the reason why they may not be all, and whether one of them sets a variable.
    """
    if inner.line is None:
        simple = SimpleCommand(inner.words, inner.assignments)
        return None, _expand(simple, into, depth=depth, via=via, outer=outer, has_more_arguments=has_more_arguments)
    script = _read(inner.line, depth)
    into += (
        msgspec.structs.replace(command, via=(*via, *command.via), dynamic=command.dynamic or has_more_arguments)
        for command in script.commands
    )
    return script.unclear, script.sets_variables


# The second reader


def tree_agrees(line: str, commands: list[SimpleCommand]) -> bool:
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


def guess_commands(line: str) -> list[SimpleCommand]:
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
            commands.append(SimpleCommand(tuple(_word(word, data) for word in words)))
        elif node.type == "file_redirect" and (command := _after_redirection(node, data)):
            commands.append(command)
        if len(commands) >= MAX_COMMANDS:
            break
    return commands


def _after_redirection(node: Node, data: bytes) -> SimpleCommand | None:
    """Return the words after a redirection's target, which the grammar takes for targets: they may be a command."""
    words = tuple(_word(child, data) for child in node.named_children[1:])
    return SimpleCommand(words) if words else None


def _word(node: Node, data: bytes) -> Word:
    text = data[node.start_byte : node.end_byte].decode(errors="replace")
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
