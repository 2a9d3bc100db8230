"""Wrappers: programs that run another command line (`sudo rm`, `xargs rm`, `find -exec rm`, `sh -c "rm"`).

`inspect_command` answers for one simple command: the commands that it runs, the files that it writes, and why its words
may not tell all of it. An option of a wrapper that is not listed in `programs.toml` makes the command unclear: it might
take the next word, and we would mistake another word for the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from dragoman.host.shell.arguments import indirect_execution
from dragoman.host.shell.programs import Wrapper, program_name, subcommands, tables
from dragoman.host.shell.words import RESERVED_WORDS, Word


class InnerCommand(msgspec.Struct, frozen=True):
    """A command that another one runs: its `words`, or a `line` for a shell.

    `has_more_arguments`: it gets further arguments that are not known. `is_guess`: it may be this, or something else.
    """

    via: str
    words: tuple[Word, ...] = ()
    line: str | None = None
    assignments: tuple[str, ...] = ()
    has_more_arguments: bool = False
    is_guess: bool = False


class ProgramUse(msgspec.Struct, frozen=True):
    """The commands that a command runs, the files that it writes, and the variables that it sets for later commands.

    `unclear` is the reason why its words may not tell all of it. `sets_variables`: it changes variables of the shell,
    also ones that are not in `assignments`.
    """

    inner: tuple[InnerCommand, ...] = ()
    unclear: str | None = None
    writes: tuple[str, ...] = ()
    assignments: tuple[str, ...] = ()
    sets_variables: bool = False


NOTHING: Final = ProgramUse()

_Unwrapper: TypeAlias = Callable[[str, tuple[Word, ...]], ProgramUse]


def inspect_command(words: tuple[Word, ...]) -> ProgramUse:
    """Tell what the command with these words runs, writes and sets."""
    unclear = indirect_execution(words)
    if words[0].dynamic:
        return ProgramUse(unclear=unclear)
    name = program_name(words[0].text)
    use = _git_without_options(words) if name == "git" else _unwrap(words)
    if name in _DECLARATIONS:
        use = msgspec.structs.replace(use, assignments=tuple(word.text for word in words[1:] if "=" in word.text))
    sets_variables = unclear is not None and unclear.endswith(tables().reasons["sets"])
    return msgspec.structs.replace(use, unclear=unclear or use.unclear, sets_variables=sets_variables)


def unwrap_shell(line: str) -> str:
    """Return the line that `sh -c '…'` runs, where the whole line is nothing else; otherwise the line unchanged.

    Agents show a command and then run it through a shell: to the person who answers, the two are the same.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # no shell would read it
        return line
    match words:
        # Quoted in the one way that an outer shell leaves alone: in "…" it would expand what is inside.
        case [shell, "-c" | "-lc", inner] if inner.strip() and shell in _SYSTEM_SHELLS and shlex.join(words) == line:
            return inner
        case _:
            return line


# Wrappers

_ASSIGNMENTS: Final = {
    "shell": re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?="),
    "any": re.compile(r"[^=]*="),  # programs accept more names than shells do
}
_DECLARATIONS: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_SHELL_FLAGS: Final = re.compile(r"[-+][abefhiklmnprtuvxBCEHPTc]*o?")
_SPLIT_SAFE: Final = re.compile(r"[A-Za-z0-9_./:=,@%+ -]+")
_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})

# By the names that lead to the system's own shells: `./sh` or `/tmp/bash` is another program.
_SYSTEM_SHELLS: Final = frozenset(f"{folder}{name}" for folder in ("", "/bin/", "/usr/bin/") for name in ("sh", "bash"))


def _unwrap(words: tuple[Word, ...]) -> ProgramUse:
    """Find the commands that the command with these words runs."""
    name, rest = program_name(words[0].text), words[1:]
    if name in _SPECIAL:
        return _SPECIAL[name](name, rest)
    table = tables()
    if name in table.programs.shells:
        return _unwrap_shell_words(name, rest)
    if name in table.programs.other_shells:
        return ProgramUse(unclear=f"{name} runs another language than the shell's")
    if name in table.wrappers:
        return _unwrap_by_table(name, rest)
    if name in table.programs.runners:
        return ProgramUse(_guesses(name, rest), f"{name} runs a command out of its arguments")
    return _unwrap_subcommand(name, rest) if name in subcommands() else NOTHING


def _unwrap_subcommand(name: str, words: tuple[Word, ...]) -> ProgramUse:
    texts = [word.text for word in words]
    for key in subcommands()[name]:
        subcommand = key.split()[1:]
        if key in tables().wrappers and texts[: len(subcommand)] == subcommand:
            return _unwrap_by_table(key, words[len(subcommand) :])
        # An option before it may take the next word: nobody can tell whether this is the subcommand.
        if subcommand[-1] in texts and (key in tables().programs.runners or texts[0].startswith("-")):
            rest = words[texts.index(subcommand[-1]) + 1 :]
            return ProgramUse(_guesses(key, rest), f"{key} runs a command out of its arguments")
    return NOTHING


def _unwrap_by_table(name: str, words: tuple[Word, ...]) -> ProgramUse:
    wrapper = tables().wrappers[name]
    index, unclear = _skip_options(name, wrapper, words)
    if unclear is not None:
        return ProgramUse(_guesses(name, words), unclear)
    if index is None:
        return NOTHING
    assignments = []
    if wrapper.assignments is not None:
        while index < len(words) and _ASSIGNMENTS[wrapper.assignments].match(words[index].text):
            assignments.append(words[index].text)
            index += 1
    if any(word.dynamic for word in words[index : index + wrapper.arguments]):
        return ProgramUse(_guesses(name, words), f"what {name} runs is known only at run time")
    index += wrapper.arguments
    inner = words[index:]
    if not inner:
        return NOTHING if wrapper.command_optional else ProgramUse(unclear=f"{name} has no command to run")
    if inner[0].bare and inner[0].text in RESERVED_WORDS:
        return ProgramUse(_guesses(name, inner[1:]), f"{name} runs more than a simple command")
    command = InnerCommand(name, inner, assignments=tuple(assignments), has_more_arguments=wrapper.adds_arguments)
    options = (word.text.partition("=")[0] for word in words[: len(words) - len(inner)])
    change = next((option for option in options if option in wrapper.changes), None)
    return ProgramUse((command,), change and f"{name} changes the folder or the variables of a command with {change}")


def _skip_options(name: str, wrapper: Wrapper, words: Sequence[Word]) -> tuple[int | None, str | None]:
    """Return the index after the options (None: it runs nothing), or the reason why that is unclear."""
    index = 0
    while index < len(words) and (text := words[index].text).startswith("-"):
        if words[index].dynamic:
            return 0, f"the options of {name} are known only at run time"
        if text == "--":
            return index + 1, None
        if text in wrapper.queries:
            return None, None
        if text in wrapper.flags or (wrapper.numbers and text[1:].isdigit()):
            index += 1
        elif text in wrapper.values:
            if index + 1 < len(words) and words[index + 1].dynamic:
                return 0, f"the options of {name} are known only at run time"
            index += 2
        elif _has_value(wrapper, text) or _is_flag_group(wrapper, text):
            index += 1
        else:
            return 0, f"{name} has an unknown option: {text}"
    return index, None


def _is_flag_group(wrapper: Wrapper, text: str) -> bool:
    return len(text) > 2 and all(f"-{letter}" in wrapper.flags for letter in text[1:])


def _has_value(wrapper: Wrapper, text: str) -> bool:
    """Tell whether the word is an option together with its value."""
    if not text.startswith("--"):
        return text[:2] in wrapper.attached
    head, equals, _ = text.partition("=")
    return bool(equals) and (head in wrapper.values or head in wrapper.attached)


def _guesses(name: str, words: Sequence[Word]) -> tuple[InnerCommand, ...]:
    """Guess the command where it cannot be told from the options: good enough for a rule that denies."""
    candidates = [at for at, word in enumerate(words) if word.text and not word.text.startswith("-")][:4]
    return tuple(InnerCommand(name, tuple(words[at:]), has_more_arguments=True, is_guess=True) for at in candidates)


def _env(name: str, words: tuple[Word, ...]) -> ProgramUse:
    for index, word in enumerate(words):
        text = word.text
        if not text.startswith("-") or text == "--":
            break
        if text.startswith(("-S", "--split-string", "-vS", "-iS")):
            value = text.removeprefix("--split-string").removeprefix("=") if text[1] == "-" else text.partition("S")[2]
            rest = words[index + 1 :]
            if not value and rest:
                value, rest = rest[0].text, rest[1:]
            if word.dynamic or not _SPLIT_SAFE.fullmatch(value):
                return ProgramUse(_guesses(name, words), "the text that env splits into words is not plain")
            return _unwrap_by_table(name, (*(Word(part) for part in value.split()), *rest))
    return _unwrap_by_table(name, words)


def _unwrap_shell_words(name: str, words: tuple[Word, ...]) -> ProgramUse:
    runs_line = False
    index = 0
    while index < len(words) and words[index].text[:1] in ("-", "+") and len(words[index].text) > 1:
        text = words[index].text
        if words[index].dynamic:
            return ProgramUse(unclear=f"the options of {name} are known only at run time")
        index += 1
        if text == "--":
            break
        if text in tables().programs.shell_options:
            continue
        if _SHELL_FLAGS.fullmatch(text) or text in ("-O", "+O"):
            runs_line |= "c" in text
            index += text[-1] in "oO"
        elif text in ("--version", "--help"):
            return NOTHING
        else:
            return ProgramUse(_guesses(name, words[index:]), f"{name} has an unknown option: {text}")
    if index >= len(words) or words[index].text == "-":
        return ProgramUse(unclear=f"{name} runs its input")
    if not runs_line:
        return NOTHING
    if words[index].dynamic:
        return ProgramUse(unclear=f"what {name} runs is known only at run time")
    return ProgramUse((InnerCommand(f"{name} -c", line=words[index].text),))


def _eval(name: str, words: tuple[Word, ...]) -> ProgramUse:
    if any(word.dynamic for word in words):
        return ProgramUse(unclear="what eval runs is known only at run time")
    rest = words[1:] if words and words[0].text == "--" else words
    return ProgramUse((InnerCommand(name, line=" ".join(word.text for word in rest)),)) if rest else NOTHING


def _watch(name: str, words: tuple[Word, ...]) -> ProgramUse:
    index, unclear = _skip_options(name, tables().wrappers[name], words)
    if unclear is not None or index is None:
        return ProgramUse(_guesses(name, words) if unclear else (), unclear)
    rest = words[index:]
    if any(word.dynamic for word in rest):
        return ProgramUse(_guesses(name, rest), "what watch runs is known only at run time")
    if not rest:
        return NOTHING
    if any(word.text in ("-x", "--exec") for word in words[:index]):
        return ProgramUse((InnerCommand(name, rest),))
    return ProgramUse((InnerCommand(name, line=" ".join(word.text for word in rest)),))


def _find(name: str, words: tuple[Word, ...]) -> ProgramUse:
    inner: list[InnerCommand] = []
    writes: list[str] = []
    unclear = None
    index = 0
    while index < len(words):
        text = words[index].text
        index += 1
        if text in _FIND_RUNS:
            end = index
            while end < len(words) and words[end].text != ";" and not _is_final_plus(words, end):
                end += 1
            if end > index:
                inner.append(InnerCommand(f"{name} {text}", words[index:end], has_more_arguments=True))
            index = end
        elif text in _FIND_WRITES:
            target = words[index] if index < len(words) else None
            if target is None or target.dynamic:
                unclear = "find writes to a file that is known only at run time"
            else:
                writes.append(target.text)
            index += 1
        elif text == "-delete":
            unclear = "find deletes what it finds"
    return ProgramUse(tuple(inner), unclear, tuple(writes))


def _is_final_plus(words: Sequence[Word], at: int) -> bool:
    return words[at].text == "+" and words[at - 1].text == "{}"


def _fd(name: str, words: tuple[Word, ...]) -> ProgramUse:
    for index, word in enumerate(words):
        if re.match(r"-[A-Za-wyz0-9]*[xX]|--exec", word.text):
            return ProgramUse(_guesses(name, words[index + 1 :]), f"{name} runs a command on what it finds")
    return NOTHING


def _socat(name: str, words: tuple[Word, ...]) -> ProgramUse:
    for word in words:
        kind, colon, rest = word.text.partition(":")
        if colon and kind.lower() in ("exec", "system", "shell"):
            line = rest.partition(",")[0]
            inner = (InnerCommand(f"{name} {kind}", line=line, is_guess=True),) if line else ()
            return ProgramUse(inner, f"{name} runs a command with {kind}:")
    return NOTHING


def _git_without_options(words: tuple[Word, ...]) -> ProgramUse:
    """Return `git push` for `git -C dir push`, so that rules about `git push` find it."""
    index = 1
    while index < len(words) and words[index].text.startswith("-"):
        has_value = words[index].text in tables().git.folders or words[index].text in ("-c", "--config-env")
        index += 2 if has_value else 1
    if index == 1 or index >= len(words):
        return ProgramUse()
    return ProgramUse((InnerCommand(f"git {words[1].text}", (words[0], *words[index:])),))


_SPECIAL: Final[dict[str, _Unwrapper]] = {
    "socat": _socat,
    "env": _env,
    "eval": _eval,
    "watch": _watch,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
}
