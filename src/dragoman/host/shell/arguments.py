"""Arguments by which a program runs something unseen, or changes the meaning of the commands after it.

Such commands are recognized by their name, or by an option or argument (`programs.toml`). Plain arguments are left to
the rules: `python x.py` is as clear as `make`. `wrappers.py` finds the commands that are written out in the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from dragoman.host.shell.programs import builtin_reasons, options_by_program, program_name, tables
from dragoman.host.shell.words import Word

_MAKE_SWITCH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=[0-9]*")
# In a subscript the value of a name is computed as well.
_SUBSTITUTION: Final = re.compile(r"`|\$\(|\[[^\[\]]*[$A-Za-z_]")


def indirect_execution(words: tuple[Word, ...]) -> str | None:
    """Return the reason why the words do not tell what the command does; None where they do."""
    first = words[0]
    if first.dynamic:
        return "which program runs is known only at run time"
    if reason := _unusual_name(first.text):
        return reason
    name = program_name(first.text)
    arguments = [word.text for word in words[1:]]
    for key in (name, " ".join((name, *arguments[:1]))):
        if key in builtin_reasons():
            return f"{key}: {builtin_reasons()[key]}"
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
    options = options_by_program().get(name)
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
