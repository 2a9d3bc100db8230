"""Commands whose words do not say what they do, or what the commands after them do.

Known by name, or by an option or argument with which a usual program runs something else. What a program does with
plain arguments is for the rules: `python x.py` is as clear as `make`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from dragoman.host.shell.words import Word
from dragoman.host.shell.wrappers import Inner, Opened, names, program

_SETS: Final = "it changes what the commands after it see"
_CHANGES: Final = "it changes what the commands after it mean"
_RUNS_LATER: Final = "it has something run later"
_RUNS_FILE: Final = "it runs a file inside of the shell"

_BY_NAME: Final[dict[str, str]] = {
    **dict.fromkeys(
        names("export declare typeset local readonly integer float unset read mapfile readarray let getopts vared"),
        _SETS,
    ),
    **dict.fromkeys(
        names(
            "alias unalias set shopt setopt unsetopt emulate hash rehash enable disable autoload functions unfunction"
            " unhash zmodload zstyle function umask"
        ),
        _CHANGES,
    ),
    **dict.fromkeys(
        names("trap bind bindkey complete compgen compctl compdef compopt zle sched fc history crontab fg bg"),
        _RUNS_LATER,
    ),
    ".": _RUNS_FILE,
    "source": _RUNS_FILE,
}

# Long options with which a program runs another one, by any beginning of them that it may take for the whole.
_LONG: Final[dict[str, str]] = {
    "tar": "--to-command --checkpoint-action --use-compress-program --info-script --new-volume-script --rsh-command"
    " --rmt-command",
    "rsync": "--rsh --rsync-path --daemon",
    "sort": "--compress-program",
    "rg": "--pre --hostname-bin",
    "man": "--pager --html",
    "wget": "--use-askpass --execute",
    "curl": "--config",
    "make": "--eval",
    "gmake": "--eval",
    "npm": "--script-shell --node-options --git --shell",
    "cargo": "--config",
    "zip": "--unzip-command",
    "git": "--exec --extcmd --open-files-in-pager --upload-pack --receive-pack --config --config-env --exec-path"
    " --template --output",
    "go": "--exec --toolexec --vettool",
}
# The same for short ones, anywhere in a word of letters; the first word of tar needs no dash.
_SHORT: Final[dict[str, str]] = {
    "tar": "IF",
    "rsync": "e",
    "man": "PH",
    "scp": "oSFD",
    "sftp": "oSFDb",
    "wget": "e",
    "curl": "K",
    "zip": "T",
}
_GO: Final = re.compile(r"-(?:exec|toolexec|vettool)(?:=|\Z)")
_MAKE_SETS: Final = re.compile(r"[^\s=]+=(?![0-9]*\Z)")
_COMPUTED: Final = re.compile(r"`|\$\(|\[[^\]]*\$")

_GIT_FLAGS: Final = names(
    "-p -P --paginate --no-pager --no-replace-objects --literal-pathspecs --glob-pathspecs --noglob-pathspecs"
    " --icase-pathspecs --no-optional-locks --no-lazy-fetch --no-advice --bare"
)
# Not `--git-dir`: a repository's own settings name programs that git runs, and it may be a folder that the agent made.
_GIT_VALUES: Final = frozenset({"-C", "--work-tree", "--namespace", "--super-prefix", "--attr-source"})
_GIT_ASKS: Final = frozenset({"--version", "-v", "--help", "-h", "--html-path", "--man-path", "--info-path"})
_GIT_RUNS: Final = frozenset({"config", "filter-branch", "difftool", "mergetool", "daemon", "instaweb", "send-email"})
_GIT_READS: Final = frozenset({"--get", "--get-all", "--list", "-l"})
_GIT_SHORT: Final[dict[str, str]] = {
    "rebase": "x",
    "grep": "O",
    "clone": "cu",
    "difftool": "x",
    "fetch": "",
    "pull": "",
}


def suspicion(words: tuple[Word, ...]) -> str | None:
    """Why it cannot be told from the words what the command does."""
    first = words[0]
    if first.dynamic:
        return "which program it is is known only when it runs"
    if problem := _odd_name(first.text):
        return problem
    name = program(first.text)
    if name in _BY_NAME:
        return f"{name}: {_BY_NAME[name]}"
    texts = [word.text for word in words[1:]]
    if check := _CHECKS.get(name):
        return check(texts)
    return _option(name, texts)


def _odd_name(name: str) -> str | None:
    if not name or name.startswith(("-", "%", "=", "+", "!", "^")) or any(char.isspace() for char in name):
        return "its name is not that of a program"
    if not name.isascii():
        return "the name of the program has letters that may be taken for others"
    return None


def _option(name: str, texts: Sequence[str]) -> str | None:
    long, short = _LONG.get(name, "").split(), _SHORT.get(name, "")
    for index, text in enumerate(texts):
        head = text.partition("=")[0]
        if text.startswith("--"):
            if len(head) > 3 and any(option.startswith(head) for option in long):
                return f"{name} runs another program with {head}"
        elif (text.startswith("-") or (name == "tar" and index == 0)) and not set(short).isdisjoint(text.lstrip("-")):
            return f"{name} runs another program with {text}"
    return None


def _git(texts: Sequence[str]) -> str | None:
    index = 0
    while index < len(texts) and texts[index].startswith("-"):
        head = texts[index].partition("=")[0]
        if texts[index] in _GIT_ASKS:
            return None
        if texts[index] not in _GIT_FLAGS and head not in _GIT_VALUES:
            return f"git may run another program with {head}"
        index += 2 if texts[index] in _GIT_VALUES else 1
    rest = texts[index:]
    if not rest:
        return None
    command = rest[0]
    if command == "config" and not _GIT_READS.isdisjoint(rest):
        return None
    if command in _GIT_RUNS or [*rest[:2]] in (["bisect", "run"], ["submodule", "foreach"]):
        return f"git {command} may run another program, or have it run later"
    if any("ext::" in text or "fd::" in text for text in rest):
        return "git may run another program for this address"
    short = set(_GIT_SHORT.get(command, ""))
    for text in rest[1:]:
        if text.startswith("-") and not text.startswith("--") and not short.isdisjoint(text):
            return f"git {command} may run another program with {text}"
    return _option("git", rest[1:])


def git_inside(words: tuple[Word, ...]) -> Opened:
    """`git -C dir push` is `git push` too, for those who look for that."""
    index = 1
    while index < len(words) and words[index].text.startswith("-"):
        taking = words[index].text in _GIT_VALUES or words[index].text in ("-c", "--config-env", "--git-dir")
        index += 2 if taking else 1
    if index == 1 or index >= len(words):
        return Opened()
    return Opened((Inner(f"git {words[1].text}", (words[0], *words[index:])),))


def _make(texts: Sequence[str]) -> str | None:
    if any(_MAKE_SETS.match(text) and not text.startswith("-") for text in texts):
        return "make may run what its variables are set to"
    return _option("make", texts)


def _go(texts: Sequence[str]) -> str | None:
    return "go runs another program" if any(_GO.match(text.replace("--", "-", 1)) for text in texts) else None


def _builtin(texts: Sequence[str]) -> str | None:
    # Shells compute arguments that should be numbers or names, and run the substitutions in them, quoted or not.
    return "the shell may run what is quoted here" if any(_COMPUTED.search(text) for text in texts) else None


def _printf(texts: Sequence[str]) -> str | None:
    return f"printf: {_SETS}" if any(text.startswith("-v") for text in texts[:1]) else _builtin(texts)


def _print(texts: Sequence[str]) -> str | None:
    return f"print: {_RUNS_LATER}" if any(text.startswith("-") for text in texts) else _builtin(texts)


def _wait(texts: Sequence[str]) -> str | None:
    return f"wait: {_SETS}" if any(text.startswith("-") and "p" in text for text in texts) else _builtin(texts)


def _npx(texts: Sequence[str]) -> str | None:
    runs = any(text.startswith(("-c", "--call", "--shell", "--node-")) for text in texts)
    return "npx runs a line for a shell" if runs else None


_CHECKS: Final[dict[str, Callable[[Sequence[str]], str | None]]] = {
    "git": _git,
    "make": _make,
    "gmake": _make,
    "go": _go,
    **dict.fromkeys(names("test [ exit return shift break continue kill ulimit cd pushd popd"), _builtin),
    "npx": _npx,
    "printf": _printf,
    "print": _print,
    "wait": _wait,
}
