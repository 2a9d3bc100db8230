"""Reads a command line for the policy: every simple command that it would run, wherever it stands in the line.

`read_script` is pure and never raises. Where it does not understand a line it says why (`unclear`), and the policy
asks. Two readers must agree on a line: a strict one (`grammar`), and the grammar that editors use (`tree`). A command
that runs another one (`sudo rm x`) is listed with its own words, followed by the inner one.

A rule may allow a line only if the line is clear, and each command in it is clear, not dynamic, and allowed by its
words. Rules that deny look at all commands, the unclear ones too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from dragoman.host.shell import tree
from dragoman.host.shell.grammar import MAX_COMMANDS, SimpleCommand, commands_in
from dragoman.host.shell.indirect_execution import git_without_options, indirect_execution
from dragoman.host.shell.words import MAX_DEPTH, TooLarge, Unreadable, deceptive
from dragoman.host.shell.wrappers import InnerCommand, program_name, unwrap

MAX_LENGTH: Final = 65_536
"""Characters of a line. Agents write files by here-documents, which are rarely larger."""

_GUESS_DEPTH: Final = MAX_DEPTH // 3
_DECLARATIONS: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})


class ShellCommand(msgspec.Struct, frozen=True):
    """One simple command that would be executed.

    `words` have no quotes. A word that the shell expands stands as it is written, and makes the command `dynamic`: with
    `rm $X`, `cat *` or `xargs rm` nobody knows the arguments. There are no words where a line only redirects or sets
    variables. `assignments` are variables set for it (`X=1`). `reads` and `writes` are the files that it is redirected
    from and to. `via` names the commands that it was found in, the outermost first. `unclear` is the reason why its
    words do not say what it does.
    """

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    unclear: str | None = None
    dynamic: bool = False


class Script(msgspec.Struct, frozen=True):
    """The commands of a line. `unclear`: why the line was not understood; `commands` are then what it seems to run."""

    commands: tuple[ShellCommand, ...]
    unclear: str | None = None


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
    try:
        commands_in(line, simple_commands, depth=depth)
    except TooLarge as error:
        return Script((), str(error))
    except Unreadable as error:
        unclear = str(error)
    else:
        if not simple_commands:
            unclear = "there is no command in it"
        elif not tree.agrees(line, simple_commands):
            unclear = "it can be read in two ways"
    commands = [command for simple in simple_commands for command in _expand(simple, depth=depth)]
    if unclear is not None:
        commands = list(dict.fromkeys((*commands, *_guesses(line, depth))))
    if len(commands) > MAX_COMMANDS:
        return Script(tuple(commands[:MAX_COMMANDS]), unclear or f"it has more than {MAX_COMMANDS} commands")
    return Script(tuple(commands), unclear)


def _guesses(line: str, depth: int) -> Iterator[ShellCommand]:
    if line.isascii() or not any(0xD800 <= ord(char) <= 0xDFFF for char in line):
        for simple in tree.guess(line):
            if simple.words:
                yield from _expand(simple, depth=depth)


def _expand(
    simple: SimpleCommand, *, depth: int, via: tuple[str, ...] = (), has_more_arguments: bool = False
) -> Iterator[ShellCommand]:
    """Yield the command itself, then the commands that it runs."""
    words = simple.words
    command = ShellCommand(
        tuple(word.text for word in words),
        simple.assignments,
        simple.reads,
        simple.writes,
        via,
        simple.unclear,
        has_more_arguments or simple.dynamic or any(word.dynamic for word in words),
    )
    if not words:
        yield command
        return
    unclear = simple.unclear or indirect_execution(words)
    if words[0].dynamic:
        yield msgspec.structs.replace(command, unclear=unclear)
        return
    name = program_name(words[0].text)
    unwrapped = git_without_options(words) if name == "git" else unwrap(words)
    inner_commands: list[ShellCommand] = []
    unclear = unclear or unwrapped.unclear
    for inner in unwrapped.inner:
        # Guesses branch, so only a few may be nested.
        inner_depth = depth + (_GUESS_DEPTH if inner.is_guess else 1)
        if inner_depth > MAX_DEPTH:
            unclear = unclear or "it is nested too deeply to be understood"
            break
        more = has_more_arguments or inner.has_more_arguments
        reason = _expand_inner(inner, inner_depth, (*via, inner.via), more, inner_commands)
        unclear = unclear or reason
    if name in _DECLARATIONS:
        assignments = tuple(word.text for word in words[1:] if "=" in word.text)
        command = msgspec.structs.replace(command, assignments=(*command.assignments, *assignments))
    yield msgspec.structs.replace(command, unclear=unclear, writes=(*command.writes, *unwrapped.writes))
    yield from inner_commands


def _expand_inner(
    inner: InnerCommand, depth: int, via: tuple[str, ...], has_more_arguments: bool, into: list[ShellCommand]
) -> str | None:
    """Add the commands of what a wrapper runs; return the reason why they may not be all."""
    if inner.line is None:
        simple = SimpleCommand(inner.words, inner.assignments)
        into += _expand(simple, depth=depth, via=via, has_more_arguments=has_more_arguments)
        return None
    script = _read(inner.line, depth)
    into += (
        msgspec.structs.replace(command, via=(*via, *command.via), dynamic=command.dynamic or has_more_arguments)
        for command in script.commands
    )
    return script.unclear
