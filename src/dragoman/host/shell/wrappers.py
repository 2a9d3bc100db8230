"""Commands that run other commands: `sudo rm`, `xargs rm`, `find -exec rm`, `sh -c "rm"`.

`opened` says what such a command would run, as far as its words tell, and why that cannot be known where they do not.
Options are read by a table for each program; one that is not in it makes the command unclear, as it may take the word
after it, and what is run would be mistaken for another thing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from dragoman.host.shell.words import Word


class Inner(msgspec.Struct, frozen=True):
    """What is run inside: `words`, or a `line` for a shell.

    `fed`: with further arguments that are not known. `guessed`: it may be this, or something else.
    """

    via: str
    words: tuple[Word, ...] = ()
    line: str | None = None
    assignments: tuple[str, ...] = ()
    fed: bool = False
    guessed: bool = False


class Opened(msgspec.Struct, frozen=True):
    inner: tuple[Inner, ...] = ()
    unclear: str | None = None
    writes: tuple[str, ...] = ()


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


NOTHING: Final = Opened()

_Opener: TypeAlias = Callable[[str, tuple[Word, ...]], Opened]


class _Options(msgspec.Struct, frozen=True):
    """How a wrapper is called. `flags` and `values` are names of options, those with values take the next word.

    `asks` are those with which it runs nothing. What is in none of them makes it unclear: `sudo -s` is another thing.
    """

    flags: str = ""
    values: str = ""
    asks: str = ""
    before: int = 0  # words between the options and the command
    sets: str = ""  # what of the words before the command sets a variable
    attached: str = ""  # options whose value, if any, is a part of the word
    numbers: bool = False  # `-5`


_SHELL_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*\+?="
_ANY_NAME: Final = r"[^=]*="  # programs care less for names than shells do

_WRAPPERS: Final[dict[str, _Options]] = {
    "sudo": _Options(
        flags="-A -b -E -H -n -P -S -k -K -B -N --askpass --background --preserve-env --set-home --non-interactive"
        " --preserve-groups --stdin --reset-timestamp --remove-timestamp --bell",
        values="-u -g -p -C -r -t -T -U --user --group --prompt --close-from --role --type --command-timeout",
        asks="-l -v -V --list --validate --version",
        attached="--preserve-env",
        sets=_ANY_NAME,
    ),
    "doas": _Options(flags="-n -L", values="-u -C"),
    "env": _Options(
        flags="-i - -0 -v --ignore-environment --null --debug",
        values="-u -C --unset --chdir",
        sets=_ANY_NAME,
    ),
    "command": _Options(flags="-p", asks="-v -V -pv -pV"),
    "builtin": _Options(),
    "exec": _Options(flags="-c -l -cl -lc", values="-a"),
    "nohup": _Options(),
    "nice": _Options(values="-n --adjustment", attached="-n", numbers=True),
    "ionice": _Options(flags="-t --ignore", values="-c -n --class --classdata", asks="-p -P -u"),
    "time": _Options(flags="-p -v -l -h --portability --verbose", values="-f --format", sets=_SHELL_NAME),
    "coproc": _Options(sets=_SHELL_NAME),
    "timeout": _Options(
        flags="-v -f -p --verbose --foreground --preserve-status",
        values="-s -k --signal --kill-after",
        attached="-s -k",
        before=1,
    ),
    "stdbuf": _Options(values="-i -o -e --input --output --error", attached="-i -o -e"),
    "setsid": _Options(flags="-c -f -w --ctty --fork --wait"),
    "xargs": _Options(
        flags="-0 -r -t -p -x -o --null --no-run-if-empty --verbose --interactive --exit --open-tty",
        values="-a -d -E -I -J -L -n -P -R -S -s --arg-file --delimiter --max-args --max-procs --max-chars",
        attached="-i -l -e -d -E -I -L -n -P -s --replace --max-lines --eof",
    ),
    "noglob": _Options(),
    "nocorrect": _Options(),
    "-": _Options(),
    "busybox": _Options(asks="--list --list-full --help"),
    "toybox": _Options(asks="--long --help"),
    "caffeinate": _Options(flags="-d -i -m -s -u", values="-t -w"),
}

# These run a command out of their arguments in ways not written down here; what seems to be it is looked at anyway.
_RUNNERS: Final = names(
    "parallel ssh mosh su runuser pkexec chroot unshare nsenter setpriv capsh flock script strace ltrace gdb perf"
    " valgrind taskset chrt prlimit numactl systemd-run systemd-inhibit dbus-run-session dbus-launch unbuffer rlwrap"
    " entr hyperfine fakeroot firejail bwrap proot tmux screen at batch start-stop-daemon daemonize sg newgrp"
    " run-parts ts-node-dev nodemon watchexec expect ld.so ld-linux-x86-64.so.2 setarch arch linux32 linux64"
    " cpulimit trickle proxychains proxychains4 torsocks torify chpst softlimit s6-setuidgid gosu su-exec tini"
    " dumb-init catchsegv xvfb-run repeat"
)

_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "yash"})
_OTHER_SHELLS: Final = frozenset({"fish", "csh", "tcsh", "nu", "elvish", "xonsh", "pwsh", "powershell", "cmd", "rc"})
_SHELL_FLAGS: Final = re.compile(r"[-+][abefhiklmnprtuvxBCEHPTc]*o?")
_SHELL_LONG: Final = frozenset({"--login", "--norc", "--noprofile", "--posix", "--restricted", "--verbose"})

_SPLIT_SAFE: Final = re.compile(r"[A-Za-z0-9_./:=,@%+ -]+")
_NOT_A_PROGRAM: Final = re.compile(
    r"if|then|elif|else|fi|while|until|for|select|do|done|case|in|esac|function|\[\[|\{|\}|!"
)

_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})


def program(word: str) -> str:
    """The name that a program is known by; without case, as some file systems have none."""
    return word.rpartition("/")[2].lower()


def opened(words: tuple[Word, ...]) -> Opened:
    """What the command with these words runs besides itself."""
    name, rest = program(words[0].text), words[1:]
    if name in _OPENERS:
        return _OPENERS[name](name, rest)
    if name in _SHELLS:
        return _shell(name, rest)
    if name in _OTHER_SHELLS:
        return Opened(unclear=f"what {name} runs is written in another language")
    if name in _WRAPPERS:
        return _wrapped(name, _WRAPPERS[name], rest)
    if name in _RUNNERS:
        return Opened(_seems(name, rest), f"{name} runs a command that is not read here")
    return NOTHING


def _wrapped(name: str, options: _Options, words: tuple[Word, ...]) -> Opened:
    index, problem = _past_options(name, options, words)
    if problem is not None:
        return Opened(_seems(name, words), problem)
    if index is None:
        return NOTHING
    assignments = []
    while index < len(words) and options.sets and re.match(options.sets, words[index].text):
        assignments.append(words[index].text)
        index += 1
    if any(word.dynamic for word in words[index : index + options.before]):
        return Opened(_seems(name, words), f"what {name} runs is known only when it runs")
    index += options.before
    inner = words[index:]
    if not inner:
        return (
            NOTHING
            if name in ("env", "xargs", "nice", "sudo", "busybox")
            else Opened(unclear=f"{name} is given no command")
        )
    if inner[0].bare and _NOT_A_PROGRAM.fullmatch(inner[0].text):
        return Opened(_seems(name, inner[1:]), f"{name} is given more than a simple command")
    return Opened((Inner(name, inner, assignments=tuple(assignments), fed=name == "xargs"),))


def _past_options(name: str, options: _Options, words: Sequence[Word]) -> tuple[int | None, str | None]:
    """Where the options end (None: it only asks for something), or why that cannot be said."""
    flags, values = options.flags.split(), options.values.split()
    index = 0
    while index < len(words) and (text := words[index].text).startswith("-"):
        if words[index].dynamic:
            return 0, f"the options of {name} are known only when it runs"
        if text == "--":
            return index + 1, None
        if text in options.asks.split():
            return None, None
        if text in flags or (options.numbers and text[1:].isdigit()):
            index += 1
        elif text in values:
            if index + 1 < len(words) and words[index + 1].dynamic:
                return 0, f"the options of {name} are known only when it runs"
            index += 2
        elif _has_value(options, text) or (len(text) > 2 and all(f"-{letter}" in flags for letter in text[1:])):
            index += 1
        else:
            return 0, f"{name} has an option that is not known here: {text}"
    return index, None


def _has_value(options: _Options, text: str) -> bool:
    """Whether it is an option with its value in the same word."""
    attached = options.attached.split()
    if not text.startswith("--"):
        return text[:2] in attached
    head, equals, _ = text.partition("=")
    return bool(equals) and head in (*options.values.split(), *attached)


def _seems(name: str, words: Sequence[Word]) -> tuple[Inner, ...]:
    """Where options cannot be told from the command, each word may be it: enough to refuse by."""
    likely = [at for at, word in enumerate(words) if word.text and not word.text.startswith("-")][:4]
    return tuple(Inner(name, tuple(words[at:]), fed=True, guessed=True) for at in likely)


def _env(name: str, words: tuple[Word, ...]) -> Opened:
    for index, word in enumerate(words):
        text = word.text
        if not text.startswith("-") or text == "--":
            break
        if text.startswith(("-S", "--split-string", "-vS", "-iS")):
            given = text.removeprefix("--split-string").removeprefix("=") if text[1] == "-" else text.partition("S")[2]
            rest = words[index + 1 :]
            if not given and rest:
                given, rest = rest[0].text, rest[1:]
            if word.dynamic or not _SPLIT_SAFE.fullmatch(given):
                return Opened(_seems(name, words), "what env splits into words is not plain")
            return _wrapped(name, _WRAPPERS["env"], (*(Word(part) for part in given.split()), *rest))
    return _wrapped(name, _WRAPPERS["env"], words)


def _shell(name: str, words: tuple[Word, ...]) -> Opened:
    runs_line = False
    index = 0
    while index < len(words) and words[index].text[:1] in ("-", "+") and len(words[index].text) > 1:
        text = words[index].text
        if words[index].dynamic:
            return Opened(unclear=f"the options of {name} are known only when it runs")
        index += 1
        if text == "--":
            break
        if text in _SHELL_LONG:
            continue
        if _SHELL_FLAGS.fullmatch(text) or text in ("-O", "+O"):
            runs_line |= "c" in text
            index += text[-1] in "oO"
        elif text in ("--version", "--help"):
            return NOTHING
        else:
            return Opened(_seems(name, words[index:]), f"{name} has an option that is not known here: {text}")
    if index >= len(words) or words[index].text == "-":
        return Opened(unclear=f"{name} runs what it is given on its input")
    if not runs_line:
        return NOTHING
    if words[index].dynamic:
        return Opened(unclear=f"what {name} runs is known only when it runs")
    return Opened((Inner(f"{name} -c", line=words[index].text),))


def _eval(name: str, words: tuple[Word, ...]) -> Opened:
    if any(word.dynamic for word in words):
        return Opened(unclear="what eval runs is known only when it runs")
    rest = words[1:] if words and words[0].text == "--" else words
    return Opened((Inner(name, line=" ".join(word.text for word in rest)),)) if rest else NOTHING


def _watch(name: str, words: tuple[Word, ...]) -> Opened:
    options = _Options(
        flags="-b -c -d -e -g -t -p -x -w --beep --color --differences --errexit --chgexit --no-title --precise --exec",
        values="-n -q --interval --equexit",
        attached="-n -d -q --interval --differences",
        asks="-v -h --version --help",
    )
    index, problem = _past_options(name, options, words)
    if problem is not None or index is None:
        return Opened(_seems(name, words) if problem else (), problem)
    rest = words[index:]
    if any(word.dynamic for word in rest):
        return Opened(_seems(name, rest), "what watch runs is known only when it runs")
    if not rest:
        return NOTHING
    if any(word.text in ("-x", "--exec") for word in words[:index]):
        return Opened((Inner(name, rest),))
    return Opened((Inner(name, line=" ".join(word.text for word in rest)),))


def _find(name: str, words: tuple[Word, ...]) -> Opened:
    inner: list[Inner] = []
    writes: list[str] = []
    unclear = None
    index = 0
    while index < len(words):
        text = words[index].text
        index += 1
        if text in _FIND_RUNS:
            end = index
            while end < len(words) and words[end].text != ";" and not _plus(words, end):
                end += 1
            if end > index:
                inner.append(Inner(f"{name} {text}", words[index:end], fed=True))
            index = end
        elif text in _FIND_WRITES:
            target = words[index] if index < len(words) else None
            if target is None or target.dynamic:
                unclear = "find writes to a place that is known only when it runs"
            else:
                writes.append(target.text)
            index += 1
        elif text == "-delete":
            unclear = "find deletes what it finds"
    return Opened(tuple(inner), unclear, tuple(writes))


def _plus(words: Sequence[Word], at: int) -> bool:
    return words[at].text == "+" and words[at - 1].text == "{}"


def _fd(name: str, words: tuple[Word, ...]) -> Opened:
    for index, word in enumerate(words):
        if re.match(r"-[A-Za-wyz0-9]*[xX]|--exec", word.text):
            return Opened(_seems(name, words[index + 1 :]), f"{name} runs a command on what it finds")
    return NOTHING


_OPENERS: Final[dict[str, _Opener]] = {
    "env": _env,
    "eval": _eval,
    "watch": _watch,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
}


# By the names that lead to the system's own: `./sh` or `/tmp/bash` is another program.
_SYSTEM_SHELLS: Final = frozenset(f"{folder}{name}" for folder in ("", "/bin/", "/usr/bin/") for name in ("sh", "bash"))


def unwrap_shell(line: str) -> str:
    """The line that a shell is given, where that is all it is given; otherwise the line as it stands."""
    try:
        words = shlex.split(line)
    except ValueError:  # no shell would read it
        return line
    match words:
        # Quoted in the one way that leaves nothing for an outer shell to do: in "…" it would expand what is inside.
        case [shell, "-c" | "-lc", inner] if inner.strip() and shell in _SYSTEM_SHELLS and shlex.join(words) == line:
            return inner
        case _:
            return line
