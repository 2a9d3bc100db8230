"""Command lines as the policy sees them: all simple commands that a line would run, wherever they stand in it.

`read_script` is pure and never raises; what it does not understand, it says so (`unclear`), and that is to be asked.
Two readers must agree on a line: a strict one (`grammar`), and the grammar that editors use (`tree`). A command that
runs another one (`sudo rm x`) is given with its own words and, beside it, with those of the inner one.

A rule may allow a line only where it is clear, and each part of it is clear, not dynamic, and allowed by its words.
Against a line all parts count, the unclear ones too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from dragoman.host.shell import tree
from dragoman.host.shell.grammar import MAX_COMMANDS, SimpleCommand, commands_in
from dragoman.host.shell.indirect_execution import git_inside, suspicion
from dragoman.host.shell.words import MAX_DEPTH, TooLarge, Unreadable, deceptive
from dragoman.host.shell.wrappers import Inner, opened, program

MAX_LENGTH: Final = 65_536
"""Characters of a line: files are written by here-documents, and these are seldom larger."""

_GUESS_DEPTH: Final = MAX_DEPTH // 3
_DECLARING: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})


class ShellCommand(msgspec.Struct, frozen=True):
    """One simple command: what would be executed.

    `words`: without their quotes; one that the shell makes something else of stands as it is written, and the part is
    `dynamic`: with `rm $X`, `cat *` or `xargs rm` nobody knows what it is done to. No words where a line only
    redirects or sets variables. `assignments`: `X=1` set for it. `reads`, `writes`: files it is redirected from and to.
    `via`: the commands it was found inside of, the outermost first. `unclear`: why its words do not say what it does.
    """

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    unclear: str | None = None
    dynamic: bool = False


class Script(msgspec.Struct, frozen=True):
    """`unclear`: why the line as a whole was not understood; its parts are then what it seems to run."""

    commands: tuple[ShellCommand, ...]
    unclear: str | None = None


def read_script(line: str) -> Script:
    """A line as it is given to a shell."""
    return _script(line, depth=0)


def _script(line: str, depth: int) -> Script:
    if len(line) > MAX_LENGTH:
        return Script((), "it is too long to be understood")
    if problem := deceptive(line):
        return Script(tuple(_guessed(line, depth)), problem)
    commands: list[SimpleCommand] = []
    unclear = None
    try:
        commands_in(line, commands, depth=depth)
    except TooLarge as problem:
        return Script((), str(problem))
    except Unreadable as problem:
        unclear = str(problem)
    else:
        if not commands:
            unclear = "there is no command in it"
        elif not tree.agrees(line, commands):
            unclear = "it can be read in two ways"
    parts = [part for command in commands for part in _parts(command, depth=depth)]
    if unclear is not None:
        parts = list(dict.fromkeys((*parts, *_guessed(line, depth))))
    return _limited(parts, unclear)


def _guessed(line: str, depth: int) -> Iterator[ShellCommand]:
    if line.isascii() or not any(0xD800 <= ord(char) <= 0xDFFF for char in line):
        for command in tree.guess(line):
            if command.words:
                yield from _parts(command, depth=depth)


def _limited(parts: list[ShellCommand], unclear: str | None) -> Script:
    if len(parts) > MAX_COMMANDS:
        return Script(tuple(parts[:MAX_COMMANDS]), unclear or f"it has more than {MAX_COMMANDS} commands")
    return Script(tuple(parts), unclear)


def _parts(
    command: SimpleCommand, *, depth: int, via: tuple[str, ...] = (), fed: bool = False
) -> Iterator[ShellCommand]:
    """The command's own part, then those of what it runs."""
    words = command.words
    part = ShellCommand(
        tuple(word.text for word in words),
        command.assignments,
        command.reads,
        command.writes,
        via,
        command.unclear,
        fed or command.dynamic or any(word.dynamic for word in words),
    )
    if not words:
        yield part
        return
    unclear = command.unclear or suspicion(words)
    if words[0].dynamic:
        yield msgspec.structs.replace(part, unclear=unclear)
        return
    name = program(words[0].text)
    found = git_inside(words) if name == "git" else opened(words)
    inner: list[ShellCommand] = []
    unclear = unclear or found.unclear
    for each in found.inner:
        # Guesses branch: few of them may stand inside of each other.
        within = depth + (_GUESS_DEPTH if each.guessed else 1)
        if within > MAX_DEPTH:
            unclear = unclear or "it is nested too deeply to be understood"
            break
        problem = _inside(each, within, (*via, each.via), fed or each.fed, inner)
        unclear = unclear or problem
    if name in _DECLARING:
        sets = tuple(word.text for word in words[1:] if "=" in word.text)
        part = msgspec.structs.replace(part, assignments=(*part.assignments, *sets))
    yield msgspec.structs.replace(part, unclear=unclear, writes=(*part.writes, *found.writes))
    yield from inner


def _inside(inner: Inner, depth: int, via: tuple[str, ...], fed: bool, into: list[ShellCommand]) -> str | None:
    """Add the parts of what a wrapper runs; says why they are not all of it."""
    if inner.line is None:
        command = SimpleCommand(inner.words, inner.assignments)
        into += _parts(command, depth=depth, via=via, fed=fed)
        return None
    script = _script(inner.line, depth)
    into += (
        msgspec.structs.replace(part, via=(*via, *part.via), dynamic=part.dynamic or fed) for part in script.commands
    )
    return script.unclear
