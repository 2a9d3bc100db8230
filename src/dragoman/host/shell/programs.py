"""Programs: the commands that a command runs, the files that it writes, and why its words may not tell all of it.

`inspect_command` answers for one simple command. A wrapper (`sudo rm`, `xargs rm`, `find -exec rm`, `sh -c "rm"`) runs
another command. Some commands run something unseen, or change the meaning of the commands after them: they are
recognized by their name, or by an option or argument. Plain arguments are left to the rules: `python x.py` is as clear
as `make`.

The names and options of programs are data (`programs.toml`, which describes its own format). An option of a wrapper
that is not listed there makes the command unclear: it might take the next word, and we would mistake another word for
the command.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Final, Literal, TypeAlias

import msgspec

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


# The tables


class _Wrapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of one program; `programs.toml` explains each field."""

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    attached: frozenset[str] = frozenset()
    queries: frozenset[str] = frozenset()
    arguments: int = 0
    assignments: Literal["shell", "any"] | None = None
    numbers: bool = False
    command_optional: bool = False
    adds_arguments: bool = False
    changes: frozenset[str] = frozenset()


class _Programs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    runners: frozenset[str]
    shells: frozenset[str]
    other_shells: frozenset[str]
    shell_options: frozenset[str]


class _Builtins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: str
    names: tuple[str, ...]


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    programs: tuple[str, ...]
    runs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    stops: bool = False


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reads: frozenset[str]
    texts: frozenset[str]


class _Computed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: frozenset[str]


class _Git(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    flags: frozenset[str]
    folders: frozenset[str]
    queries: frozenset[str]
    subcommands: frozenset[str]
    patches: frozenset[str]
    transports: frozenset[str]
    reads: dict[str, int]
    scopes: frozenset[str]
    words: dict[str, frozenset[str]]
    sources: dict[str, frozenset[str]]
    short: dict[str, str]


class Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wrappers: dict[str, _Wrapper]
    programs: _Programs
    reasons: dict[str, str]
    builtins: tuple[_Builtins, ...]
    options: tuple[_Options, ...]
    computed: _Computed
    arguments: _Arguments
    git: _Git


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Return the tables, which are read at the first call."""
    text = (resources.files("dragoman.host.shell") / "programs.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Tables)


@lru_cache(maxsize=1)
def _builtin_reasons() -> dict[str, str]:
    table = tables()
    return {name: table.reasons[builtins.reason] for builtins in table.builtins for name in builtins.names}


@lru_cache(maxsize=1)
def _options() -> dict[str, _Options]:
    return {name: options for options in tables().options for name in options.programs}


@lru_cache(maxsize=1)
def _subcommands() -> dict[str, tuple[str, ...]]:
    """Return the wrappers and runners with a subcommand, by the name of their program; the longest first."""
    keys: dict[str, list[str]] = {}
    for key in sorted((*tables().wrappers, *tables().programs.runners), key=len, reverse=True):
        if " " in key:
            keys.setdefault(key.partition(" ")[0], []).append(key)
    return {name: tuple(each) for name, each in keys.items()}


# One command


def use_of_files(words: Sequence[str]) -> Literal["none", "read", "any"]:
    """Tell what the command does with files that its arguments name: nothing, read them, or perhaps write them too."""
    name = program_name(words[0])
    arguments = tables().arguments
    if name in arguments.texts:
        return "none"
    return "read" if not {name, " ".join((name, *words[1:2]))}.isdisjoint(arguments.reads) else "any"


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


def program_name(word: str) -> str:
    """Return the name of a program without its folder, in lower case, as some file systems ignore case."""
    return word.rpartition("/")[2].lower()


def inspect_command(words: tuple[Word, ...]) -> ProgramUse:
    """Tell what the command with these words runs, writes and sets."""
    unclear = _indirect_execution(words)
    if words[0].dynamic:
        return ProgramUse(unclear=unclear)
    name = program_name(words[0].text)
    use = _git_without_options(words) if name == "git" else _unwrap(words)
    if name in _DECLARATIONS:
        use = msgspec.structs.replace(use, assignments=tuple(word.text for word in words[1:] if "=" in word.text))
    sets_variables = unclear is not None and unclear.endswith(tables().reasons["sets"])
    return msgspec.structs.replace(use, unclear=unclear or use.unclear, sets_variables=sets_variables)


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
    return _unwrap_subcommand(name, rest) if name in _subcommands() else NOTHING


def _unwrap_subcommand(name: str, words: tuple[Word, ...]) -> ProgramUse:
    texts = [word.text for word in words]
    for key in _subcommands()[name]:
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


def _skip_options(name: str, wrapper: _Wrapper, words: Sequence[Word]) -> tuple[int | None, str | None]:
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


def _is_flag_group(wrapper: _Wrapper, text: str) -> bool:
    return len(text) > 2 and all(f"-{letter}" in wrapper.flags for letter in text[1:])


def _has_value(wrapper: _Wrapper, text: str) -> bool:
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


# Indirect execution

_MAKE_SWITCH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=[0-9]*")
# In a subscript the value of a name is computed as well.
_SUBSTITUTION: Final = re.compile(r"`|\$\(|\[[^\[\]]*[$A-Za-z_]")


def _indirect_execution(words: tuple[Word, ...]) -> str | None:
    """Return the reason why the words do not tell what the command does; None where they do."""
    first = words[0]
    if first.dynamic:
        return "which program runs is known only at run time"
    if reason := _unusual_name(first.text):
        return reason
    name = program_name(first.text)
    arguments = [word.text for word in words[1:]]
    for key in (name, " ".join((name, *arguments[:1]))):
        if key in _builtin_reasons():
            return f"{key}: {_builtin_reasons()[key]}"
    if check := _CHECKS.get(name):
        return check(arguments)
    if name in tables().computed.names:
        return _substitution(arguments)
    return _telling_option(name, arguments)


def _unusual_name(name: str) -> str | None:
    if not name or name.startswith(("-", "%", "=", "+", "!", "^")) or any(char.isspace() for char in name):
        return "its name is not that of a program"
    if not name.isascii():
        return "the name of the program has letters that look like others"
    return None


_OPTION_REASONS: Final = (
    ("runs", "{name} may run another program with {option}"),
    ("folders", "{name} works in another folder with {option}"),
    ("configs", "{name} uses other settings with {option}"),
    ("lists", "{name} takes more arguments from a file with {option}"),
    ("links", "{name} may follow a link out of the workspace with {option}"),
    ("writes", "{name} writes files that only its input names with {option}"),
)
_TAR: Final = frozenset({"tar", "bsdtar", "gtar"})


def _telling_option(name: str, arguments: Sequence[str]) -> str | None:
    """Return the reason why one of the options makes the program do more than its other words say."""
    options = _options().get(name)
    if options is None:
        return None
    for index, text in enumerate(arguments):
        # The `--` may be the value of the option before it: `tar -f -- --to-command=x` writes a file of that name.
        if text == "--" and options.stops and not (index and arguments[index - 1].startswith("-")):
            break
        is_bundle = name in _TAR and index == 0  # the first word of tar needs no dash
        word = f"-{text}" if is_bundle and not text.startswith("-") else text
        for kind, reason in _OPTION_REASONS:
            if any(_is_option(option, word) for option in getattr(options, kind)):
                return reason.format(name=name, option=text.partition("=")[0])
    return None


def _is_option(option: str, text: str) -> bool:
    """Tell whether the argument is, or begins with, or contains this option of the table."""
    head = text.partition("=")[0]
    if option == "+":
        return text.startswith("+")
    if option.startswith("--"):
        return text.startswith("--") and len(head) > 2 and option.startswith(head)
    if len(option) > 2:
        return head == option
    return text.startswith("-") and not text.startswith("--") and option[1] in text


_OTHER_REPOSITORY: Final = "takes files from another repository, or runs what its settings name"
_REMOTE_NAME: Final = re.compile(r"\w[\w-]*")


def _git(arguments: Sequence[str]) -> str | None:
    git = tables().git
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        option = arguments[index]
        if option in git.queries:
            is_plain = len(arguments) <= index + 2 and not any(text.startswith("-") for text in arguments[index + 1 :])
            return None if is_plain else f"git {option} may open a page"
        if option not in git.flags:
            head = option.partition("=")[0]
            is_folder = head in git.folders or option.startswith("-C")
            return f"git works in another folder with {head}" if is_folder else f"git may run a program with {head}"
        index += 1
    rest = arguments[index:]
    if not rest:
        return None
    command = rest[0]
    if command == "config":
        return None if _only_reads_config(rest[1:]) else "git config may name a program that git runs later"
    if command == "help":
        return None if len(rest) <= 2 and not any(text.startswith("-") for text in rest) else "git help may open a page"
    if command in git.patches:
        return f"git {command} writes files that only the patch names"
    if command not in git.subcommands:
        return f"git {command} may run any program: it is not one of the subcommands that are known to be plain"
    if not git.words.get(command, frozenset()).isdisjoint(rest):
        return f"git {command} may run another program"
    if any("ext::" in text or "fd::" in text for text in rest):
        return "git may run another program for this address"
    if not git.sources.get(command, frozenset()).isdisjoint(rest):
        return f"git {command} names another repository, whose files git takes as they are"
    if command in git.transports and any(text.startswith(("./", "../", "/", "~")) for text in rest[1:]):
        return f"git {command} {_OTHER_REPOSITORY}"
    if command in ("fetch", "pull") and any(":" in text for text in rest) and not _fetches_from_remote(rest[1:]):
        return f"git {command} {_OTHER_REPOSITORY}"
    short = set(git.short.get(command, ""))
    for text in rest[1:]:
        if text.startswith("-") and not text.startswith("--") and not short.isdisjoint(text):
            return f"git {command} may run another program with {text}"
    return _telling_option("git", rest[1:])


def _fetches_from_remote(arguments: Sequence[str]) -> bool:
    """Tell whether the first argument is the name of a remote, so that `a:b` after it names branches and no host."""
    return bool(_REMOTE_NAME.fullmatch(arguments[0])) and not any(text.startswith("--mul") for text in arguments)


def names_other_repositories(words: Sequence[str]) -> bool:
    """Tell whether a word of this command may name another repository: a folder, where no remote has that name."""
    return program_name(words[0]) == "git" and not tables().git.transports.isdisjoint(words[1:])


def _only_reads_config(arguments: Sequence[str]) -> bool:
    """Tell whether `git config` with these arguments reads; the option has to come first, before any name."""
    git = tables().git
    rest = [text for text in arguments if text not in git.scopes]
    if not rest or rest[0] not in git.reads:
        return False
    names = rest[1:]
    return len(names) == git.reads[rest[0]] and not any(name.startswith("-") for name in names)


def _git_without_options(words: tuple[Word, ...]) -> ProgramUse:
    """Return `git push` for `git -C dir push`, so that rules about `git push` find it."""
    index = 1
    while index < len(words) and words[index].text.startswith("-"):
        has_value = words[index].text in tables().git.folders or words[index].text in ("-c", "--config-env")
        index += 2 if has_value else 1
    if index == 1 or index >= len(words):
        return ProgramUse()
    return ProgramUse((InnerCommand(f"git {words[1].text}", (words[0], *words[index:])),))


def _make(arguments: Sequence[str]) -> str | None:
    # Whatever has a `=` in it is an assignment: `make 'a := $(shell rm x)'` runs something at once. After `--` that
    # holds for words with a dash, too.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for index, text in enumerate(arguments):
        is_option = text.startswith("-") and index < end
        if "=" in text and not is_option and not _MAKE_SWITCH.fullmatch(text):
            return "make may run the value of a variable"
    return _telling_option("make", arguments)


def _tar(arguments: Sequence[str]) -> str | None:
    if any(":" in text for text in arguments):
        return "tar may run a program to reach a file on another machine"
    return _telling_option("tar", arguments)


# Scripts of sed that only print, delete or replace: others may run commands (`e`) or write files (`w`).
_SED_ADDRESS: Final = r"(?:(?:[0-9]+|\$|/[^/\\\n\[]*/)(?:,(?:[0-9]+|\$|/[^/\\\n\[]*/))?)?!?"
_SED_REPLACE: Final = "|".join(
    # Some implementations skip brackets when they look for the end: no bracket may have the mark in it.
    rf"s\{mark}(?:[^{mark}\\\n\[]|\\.|\[[^\]{mark}\n]+\])*+\{mark}(?:[^{mark}\\\n]|\\.)*+\{mark}[gpiI0-9]*+"
    for mark in "/|,#@:"
)
_SED_STEP: Final = rf" *+{_SED_ADDRESS} *+(?:[pdqDPN=]|{_SED_REPLACE}) *+"
_SED_SCRIPT: Final = re.compile(rf"{_SED_STEP}(?:;{_SED_STEP})*;?")
# ARGV names further files to read.
_AWK_RUNS: Final = re.compile(r"system|getline|ARG[CV]|[|>@]|-f|-i|-l|-D|-E|-W|--")
_JQ_IMPORTS: Final = re.compile(r"\b(?:import|include|modulemeta)\b")
_YQ_LOADS: Final = re.compile(r"load|eval")
_SQL_LEAVES: Final = re.compile(
    r"^\s*\.|[\n;]\s*\.|\\|\||^--?(?:cmd|init|pager|tee|A)|"
    r"readfile|writefile|fsdir|edit\s*\(|load_extension|attach|vacuum|program|system|source|infile|outfile|dumpfile",
    re.IGNORECASE,
)


def _sed(arguments: Sequence[str]) -> str | None:
    expressions: list[str] = []
    index = 0
    while index < len(arguments):
        text = arguments[index]
        index += 1
        if text in ("-e", "--expression"):
            expressions += arguments[index : index + 1]
            index += 1
        elif text.startswith("-") and not re.fullmatch(r"-[nErsuz]+|-i|--quiet|--silent|--in-place", text):
            return f"sed may run or write something else with {text}"
    if not expressions:
        expressions = [text for text in arguments if not text.startswith("-")][:1]
    if all(_SED_SCRIPT.fullmatch(expression) for expression in expressions):
        return None
    return "sed may run a command or write a file that its script names"


def _awk(arguments: Sequence[str]) -> str | None:
    return "awk may run a command that its program names" if any(map(_AWK_RUNS.search, arguments)) else None


def _curl(arguments: Sequence[str]) -> str | None:
    # It makes several addresses of one, and names of files out of their parts: `curl -o '#1' 'http://x/{.envrc}'`.
    if any("#" in text or ("://" in text and not {"{", "["}.isdisjoint(text)) for text in arguments):
        return "curl makes up the addresses or the names of files"
    return _telling_option("curl", arguments)


def _jq(arguments: Sequence[str]) -> str | None:
    # A program, given or in a file, may name folders from which it reads modules and data.
    for text in arguments:
        head = text.partition("=")[0]
        is_short = text.startswith("-") and not text.startswith("--") and not {"L", "f"}.isdisjoint(text)
        is_long = len(head) > 2 and any(option.startswith(head) for option in ("--library-path", "--from-file"))
        if is_short or is_long or _JQ_IMPORTS.search(text):
            return "jq may read files that its program names"
    return None


def _yq(arguments: Sequence[str]) -> str | None:
    return "yq may read files that its expression names" if any(map(_YQ_LOADS.search, arguments)) else None


def _sql(arguments: Sequence[str]) -> str | None:
    if any(map(_SQL_LEAVES.search, arguments)):
        return "the statements may run a command, or read or write files that only they name"
    return None


def _substitution(arguments: Sequence[str]) -> str | None:
    # Shells compute arguments that should be numbers or names, and run the substitutions in them, quoted or not.
    if any(_SUBSTITUTION.search(text) for text in arguments):
        return "the shell may run a substitution in an argument, even a quoted one"
    return None


def _printf(arguments: Sequence[str]) -> str | None:
    if any(text.startswith("-v") for text in arguments[:1]):
        return f"printf: {tables().reasons['sets']}"
    return _substitution(arguments)


def _print(arguments: Sequence[str]) -> str | None:
    if any(text.startswith("-") for text in arguments):
        return f"print: {tables().reasons['later']}"
    return _substitution(arguments)


def _wait(arguments: Sequence[str]) -> str | None:
    if any(text.startswith("-") and "p" in text for text in arguments):
        return f"wait: {tables().reasons['sets']}"
    return _substitution(arguments)


def _npx(arguments: Sequence[str]) -> str | None:
    return _telling_option("npm", arguments)


_CHECKS: Final[dict[str, Callable[[Sequence[str]], str | None]]] = {
    "git": _git,
    "make": _make,
    "gmake": _make,
    "npx": _npx,
    "tar": _tar,
    "bsdtar": _tar,
    "gtar": _tar,
    "curl": _curl,
    "jq": _jq,
    "gojq": _jq,
    "jaq": _jq,
    "yq": _yq,
    "sqlite3": _sql,
    "psql": _sql,
    "mysql": _sql,
    "mariadb": _sql,
    "sed": _sed,
    "gsed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
    "printf": _printf,
    "print": _print,
    "wait": _wait,
}
