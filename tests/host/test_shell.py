"""Reading command lines: every command, or the statement that it is unclear."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.host.shell import reader
from dragoman.host.shell.grammar import MAX_COMMANDS, SimpleCommand, commands_in
from dragoman.host.shell.reader import MAX_LENGTH, Script, ShellCommand, read_script, tree_agrees
from dragoman.host.shell.words import Unreadable


def allowed_by(rule: str, script: Script) -> bool:
    """Tell whether a rule that allows `rule` with any arguments would allow the script."""
    return script.unclear is None and all(
        part.words[:1] == (rule,)
        and part.unclear is None
        and not (part.dynamic or part.assignments or part.writes or part.reads)
        for part in script.commands
    )


def programs(script: Script) -> list[str]:
    return [part.words[0] for part in script.commands if part.words]


def words(line: str) -> list[str]:
    """Of each part, and that all of them are clear."""
    script = read_script(line)
    assert script.unclear is None
    assert all(part.unclear is None for part in script.commands)
    return [" ".join(part.words) for part in script.commands]


def is_clear(script: Script) -> bool:
    return script.unclear is None and all(part.unclear is None for part in script.commands)


# What people and agents write every day


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git status", ["git status"]),
        ("git log --oneline | head -5", ["git log --oneline", "head -5"]),
        ("npm run build && npm test", ["npm run build", "npm test"]),
        ("pytest -q tests/x.py::test_y", ["pytest -q tests/x.py::test_y"]),
        ("cd sub && make", ["cd sub", "make"]),
        ('grep -rn "a b" src 2>/dev/null', ["grep -rn a b src"]),
        ("ls -la; pwd", ["ls -la", "pwd"]),
        ("make -j8 || echo failed", ["make -j8", "echo failed"]),
        ("# the tests\npytest -q  # all of them\n", ["pytest -q"]),
        ("docker build . \\\n  --tag x \\\n  --pull", ["docker build . --tag x --pull"]),
        ("(cd web && npm ci) 2>&1 | tail -20", ["cd web", "npm ci", "tail -20"]),
        ("{ a; b; }", ["a", "b"]),
        ("! grep x y", ["grep x y"]),
        ("if [ -f x ]; then cat x; else echo none; fi", ["[ -f x ]", "cat x", "echo none"]),
        ("[[ a == b ]] && c", ["[[ a == b ]]", "c"]),
        ("while true; do sleep 1; done", ["true", "sleep 1"]),
        ("case x in a|b) ls;; *) pwd;; esac", ["ls", "pwd"]),
        ("sleep 5 & wait", ["sleep 5", "wait"]),
        ("echo 'it'\\''s' \"a $ b\" \\$HOME", ["echo it's a $ b $HOME"]),
        ("curl -d '{\"a\": [1, 2]}' localhost", ['curl -d {"a": [1, 2]} localhost']),
        ("git show HEAD@{1}", ["git show HEAD@{1}"]),
        ("git stash show stash@{0} --stat", ["git stash show stash@{0} --stat"]),
        ("git config --get user.name", ["git config --get user.name"]),
        ("tar -czf x.tar.gz -C out .", ["tar -czf x.tar.gz -C out ."]),
        ("make V=1 test", ["make V=1 test"]),
        ("python -c 'print(1)'", ["python -c print(1)"]),
        ("command -v node", ["command -v node"]),
        ("cat <<< word", ["cat"]),
        ("python - <<'EOF'\nimport os  # $(not run) `nor this`\nEOF\nls", ["python -", "ls"]),
        ("grep café menu.txt", ["grep café menu.txt"]),
        ("git commit -m 'naïve — ok'", ["git commit -m naïve — ok"]),
    ],
)
def test_everyday_lines_are_clear_and_taken_apart(line: str, expected: list[str]) -> None:
    assert words(line) == expected
    assert not any(part.dynamic for part in read_script(line).commands)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sudo -u root -n rm -rf x", [(), ("sudo",)]),
        ("env A=1 B=2 rm x", [(), ("env",)]),
        ("timeout -k 5 10 rm x", [(), ("timeout",)]),
        ("nohup nice -n 5 rm x", [(), ("nohup",), ("nohup", "nice")]),
        ("stdbuf -oL rm x", [(), ("stdbuf",)]),
        ("time rm x", [(), ("time",)]),
        ("command rm x", [(), ("command",)]),
        ("exec rm x", [(), ("exec",)]),
        ("setsid -w rm x", [(), ("setsid",)]),
        ("ionice -c 3 rm x", [(), ("ionice",)]),
        ("busybox rm x", [(), ("busybox",)]),
        ("xargs -0 -n1 rm", [(), ("xargs",)]),
        ("xargs -I{} rm {}", [(), ("xargs",)]),
        ("find . -name '*.o' -exec rm {} \\;", [(), ("find -exec",)]),
        ("find . -execdir rm {} +", [(), ("find -execdir",)]),
        ("watch -n 2 rm x", [(), ("watch",)]),
        ("bash -lc 'rm x'", [(), ("bash -c",)]),
        ("/bin/sh -euo pipefail -c 'rm x'", [(), ("sh -c",)]),
        ("eval 'rm x'", [(), ("eval",)]),
        ("env -S 'rm x'", [(), ("env",)]),
        ("sudo sh -c 'rm x'", [(), ("sudo",), ("sudo", "sh -c")]),
        ("SUDO rm x", [(), ("sudo",)]),
        ("chronic rm x", [(), ("chronic",)]),
        ("ifne -n rm x", [(), ("ifne",)]),
        ("eatmydata rm x", [(), ("eatmydata",)]),
        ("faketime '2 days ago' rm x", [(), ("faketime",)]),
        ("jobs -x rm x", [(), ("jobs",)]),
        ("npx -y rm x", [(), ("npx",)]),
        ("npm exec -- rm x", [(), ("npm exec",)]),
        ("npm x rm x", [(), ("npm x",)]),
        ("pnpm exec rm x", [(), ("pnpm exec",)]),
        ("yarn exec rm x", [(), ("yarn exec",)]),
        ("uv run --frozen rm x", [(), ("uv run",)]),
        ("uv tool run rm x", [(), ("uv tool run",)]),
        ("poetry run rm x", [(), ("poetry run",)]),
        ("pipenv run rm x", [(), ("pipenv run",)]),
        ("bundle exec rm x", [(), ("bundle exec",)]),
        ("conda run -n base rm x", [(), ("conda run",)]),
        ("direnv exec . rm x", [(), ("direnv exec",)]),
        ("asdf exec rm x", [(), ("asdf exec",)]),
    ],
)
def test_a_wrapper_is_given_with_what_it_runs(line: str, expected: list[tuple[str, ...]]) -> None:
    script = read_script(line)
    assert is_clear(script)
    assert [part.via for part in script.commands] == expected
    assert script.commands[-1].words[0] == "rm"
    assert script.commands[0].words[0] == shlex.split(line)[0]


def test_parts_stand_in_the_order_in_which_they_begin() -> None:
    assert programs(read_script('a "$(b | c)" && (d; e `f`) | g <(h)')) == ["a", "b", "c", "d", "e", "f", "g", "h"]


def test_redirections_are_files_read_and_written() -> None:
    script = read_script("a <in >out 2>>err && b &>both; c 2>&1 >/dev/null <&- >|over; { d; e; } >group")
    assert script == Script(
        (
            ShellCommand(("a",), reads=("in",), writes=("out", "err")),
            ShellCommand(("b",), writes=("both",)),
            ShellCommand(("c",), writes=("over",)),
            ShellCommand(("d",), writes=("group",)),
            ShellCommand(("e",), writes=("group",)),
        )
    )
    assert read_script("> out rm x").commands == (ShellCommand(("rm", "x"), writes=("out",)),)
    assert read_script("echo a > out b").commands == (ShellCommand(("echo", "a", "b"), writes=("out",)),)
    assert read_script("> out").commands == (ShellCommand((), writes=("out",)),)
    assert read_script("find . -fprint out").commands[0].writes == ("out",)
    assert read_script("echo x >&out").commands[0].writes == ("out",)


def test_assignments_are_kept_beside_the_words() -> None:
    assert read_script("PATH=/x:y LD_PRELOAD='a b' git log").commands == (
        ShellCommand(("git", "log"), assignments=("PATH=/x:y", "LD_PRELOAD=a b")),
    )
    assert read_script("env GIT_SSH_COMMAND=x git log").commands[1].assignments == ("GIT_SSH_COMMAND=x",)
    assert read_script("export A=1").commands[0].assignments == ("A=1",)


@pytest.mark.parametrize(
    "word",
    shlex.split(r"""'$X' '"$X"' '${X}' '${X:-a}' '$(b)' '`b`' '*.py' 'a?' '[ab]' '~/x' 'a=~' '{a,b}' '{1..3}' '<(b)'
    '$((1 + 2))' "$'a'" '$1' '$@' '=ls' '"a${X%.c}b"' 'x"y"$z' """),
)
def test_a_word_that_the_shell_fills_in_stands_as_written_and_is_dynamic(word: str) -> None:
    script = read_script(f"rm {word}")
    assert script.unclear is None
    assert script.commands[0] == ShellCommand(("rm", word), dynamic=True)


def test_a_loop_gives_its_commands_words_that_are_not_known() -> None:
    script = read_script('for f in *.py; do wc -l "$f"; done')
    assert script == Script((ShellCommand(("wc", "-l", '"$f"'), dynamic=True),), sets_variables=True)


@pytest.mark.parametrize(
    "line",
    [
        "for x in a b; do ls; done; pwd",
        "pwd; for x in 'a[$(rm x)]'; do ls; done",
        "for x; do ls; done",
        "case $X in a) ls;; esac; pwd",
        "case a in $X) ls;; esac",
        "case a in ~) ls;; esac",
        "x=1; ls",
        "ls; export X=1",
        "read x; ls",
        "printf -v x y; ls",
        "wait -p x; ls",
        "command read x; ls",
        "eval 'x=1'; ls",
        "eval 'for x in a; do ls; done'; pwd",
        "ls $(for x in a; do ls; done); pwd",
        "ls `for x in a; do ls; done`; pwd",
    ],
)
def test_a_value_that_another_part_of_the_line_sets_makes_the_whole_line_dynamic(line: str) -> None:
    script = read_script(line)
    assert script.unclear is None
    assert all(part.dynamic for part in script.commands)


@pytest.mark.parametrize("sum_", ["x", "x + 1", "1 + x", "x[1]", "x ? y : z", "++x", "x = 1", "$x", "0x1f", "16#ff"])
def test_only_numbers_are_computed_since_the_value_of_a_name_is_computed_again(sum_: str) -> None:
    assert read_script(f"ls $(({sum_}))").unclear
    assert read_script(f'ls "$(({sum_}))"').unclear
    assert read_script(f"for y in $(({sum_})); do ls; done").unclear
    assert read_script(f"case $(({sum_})) in a) ls;; esac").unclear
    assert read_script(f"case a in $(({sum_}))) ls;; esac").unclear


def test_a_here_document_with_expansions_makes_its_command_dynamic_and_is_looked_into() -> None:
    script = read_script("cat <<EOF\n$(rm x)\nEOF\n")
    assert {"cat", "rm"} <= set(programs(script))
    assert all(part.dynamic for part in script.commands if part.words == ("cat",))
    assert read_script("cat <<EOF\nplain\nEOF\n") == Script((ShellCommand(("cat",)),))


def test_a_commit_message_from_a_here_document_is_understood() -> None:
    script = read_script("git commit -m \"$(cat <<'EOF'\nIt's done (see `x`)\n\nEOF\n)\" && git push")
    assert is_clear(script)
    assert [part.words[:2] for part in script.commands] == [("git", "commit"), ("cat",), ("git", "push")]


# What must not slip through a rule that is meant for the first word

BAD = [
    "ls; rm x",
    "ls && rm x",
    "ls || rm x",
    "ls | rm x",
    "ls |& rm x",
    "ls & rm x",
    "ls\nrm x",
    "ls \\\n; rm x",
    "ls $(rm x)",
    'ls "$(rm x)"',
    "ls `rm x`",
    'ls "`rm x`"',
    "ls `echo \\`rm x\\``",
    "ls <(rm x)",
    "ls >(rm x)",
    "ls ${X:-$(rm x)}",
    "ls $((1 + $(rm x)))",
    "ls $[$(rm x)]",
    "ls ${X@P}",
    "ls ${!X}",
    "ls $((a[$(rm x)]))",
    "ls <<EOF\n$(rm x)\nEOF\n",
    "ls <<EOF\n`rm x`\nEOF\n",
    "ls <<'EOF'\nEOF\nrm x",
    "ls <<EOF\nEOF\nrm x\nEOF\n",
    "ls <<\\\n-E\n-E\n\tE\nrm x\n",
    'ls <<< "$(rm x)"',
    "ls > x",
    "ls >> x",
    "ls >| x",
    "ls &> x",
    "ls >& x",
    "ls <> x",
    "ls < x",
    "ls 2> $X",
    "ls > /dev/tcp/localhost/1",
    "X=1 ls",
    "PATH=/x ls",
    "PATH=/x; ls",
    "LD_PRELOAD=x ls",
    "PATH+=:/x ls",
    "a[$(rm x)]=1 ls",
    "ls=(rm); ls",
    "for PATH in /x; do ls; done",
    "for http_proxy in x; do ls; done",
    "ls $X",
    "ls *",
    "ls ~",
    "ls {a,b}",
    "ls @(a|b)",
    "ls *(e:rm:)",
    "ls $'a\\'; rm x; #'",
    "ls $'\\x2d'",
    'ls $"a"',
    "ls $x[1]",
    "ls \r rm x",
    "ls\u2028rm x",
    "ls\u00a0-la",
    "ls a\u3000b",
    "ls \u202ex",
    "ls '\u202ex'",
    "ls \u200bx",
    "ls a\uff1brm",
    "ls \x00x",
    "ls \x1b[2K",
    "ls \udcff",
    "l\u0455",
    "\u217cs",
    "(rm x)",
    "((ls))",
    "{ ls; rm x; }",
    "if ls; then rm x; fi",
    "if ls; then ls; else rm x; fi",
    "while ls; do rm x; done",
    "until ls; do rm x; done",
    "case x in x) rm x;; esac",
    "case $(rm x) in x) ls;; esac",
    "for x in $(rm x); do ls; done",
    "ls() { rm x; }; ls",
    "function ls { rm x; }; ls",
    "alias ls=rm; ls",
    "ls 'a",
    'ls "a',
    "ls )",
    "ls }; }",
    "ls ;; rm",
    "ls \\",
    "",
    "  \n",
    "# ls",
]

# The shell computes the value of `x`, and runs the command in its subscript: nobody can find that in the line.
COMPUTED = [
    "for x in 'a[$(rm x)]'; do for y in $((x)); do ls; done; done",
    "for x in 'a[$(rm x)]'; do case $((x)) in 1) ls;; esac; done",
    "for x in 'a[$(rm x)]'; do case 1 in $((x))) ls;; esac; done",
    "for x in 'a[$(rm x)]'; do ls; done",
    "for x in 'a[$(rm x)]'; do [ -v 'a[x]' ]; done",
    "for x in 'a[$(rm x)]'; do test -v 'a[x]'; done",
]

# With the word that a careless rule would look at.
BAD_WRAPPED = {
    "env": [
        "env -C /x ls",
        "env -i ls",
        "env -u X ls",
        "env - ls",
        "env X=1 rm x",
        "env rm x",
        "env -S 'rm x'",
        "env -u A rm x",
        "env !a=b rm x",
        "env --split-string='rm x'",
    ],
    "xargs": ["xargs rm", "xargs -I {} rm {}", "xargs sh -c 'rm x'", "xargs --odd rm", "xargs -0I{} rm {}"],
    "find": ["find . -exec rm {} ;", "find . -ok rm {} \\;", "find . -delete", "find . -fprint x", "find . -fls $X"],
    "sudo": [
        "sudo rm x",
        "sudo -u me rm x",
        "sudo -s",
        "sudo -i rm",
        "sudo X=1 rm x",
        "sudo --odd rm x",
        "sudo -umerm x",
    ],
    "doas": ["doas rm x", "doas -s"],
    "git": [
        "git -c alias.x='!rm x' x",
        "git -c core.pager=rm log",
        "git --config-env=a=b log",
        "git --exec-path=/x log",
        "git config alias.x '!rm x'",
        "git rebase --exec 'rm x' main",
        "git rebase -x 'rm x' main",
        "git bisect run rm x",
        "git submodule foreach rm x",
        "git grep -Orm x",
        "git clone -c a=b x",
        "git clone ext::rm x",
        "git fetch --upload-pack=rm x",
        "git fetch --upload-p=rm x",
        "git log --output=x",
        "git difftool -x rm",
        "git config core.fsmonitor 'rm x' --list",
        "git config core.fsmonitor 'rm x' --get",
        "git config core.fsmonitor 'rm x' -l",
        "git config --get core.fsmonitor 'rm x'",
        "git config --list core.fsmonitor 'rm x'",
        "git config --get --add core.fsmonitor",
        "git submodule -q foreach 'rm x'",
        "git submodule --quiet foreach 'rm x'",
        "git remote-ext x 'rm x'",
        "git made-up-by-an-alias x",
        "git -C /x status",
        "git -Cx status",
        "git --git-dir=x status",
        "git --git-dir x status",
        "git --work-tree=x status",
        "git --bare status",
        "git log --ext-diff",
        "git show --textconv",
        "git diff --ext",
        "git init --template=x",
    ],
    "sh": ["sh -c 'rm x'", "sh", "sh -s", "sh -", 'sh -c "$X"', "sh -c 'ls; rm x'", "sh <<E\nrm x\nE\n", "sh --odd x"],
    "bash": [
        "bash -c 'rm x'",
        "bash --rcfile x",
        'bash -c "ls \'a"',
        "bash -ic 'rm x'",
        "bash <<< 'rm x'",
        "bash -s x",
    ],
    "fish": ["fish -c 'rm x'"],
    "eval": ["eval rm x", "eval $X", 'eval "ls; rm x"'],
    "exec": ["exec rm x", "exec > x", "exec -a ls rm x"],
    "command": ["command rm x", "command -p rm x", "command eval rm x"],
    "builtin": ["builtin eval rm x"],
    "nohup": ["nohup rm x"],
    "nice": ["nice rm x", "nice -n 5 rm x", "nice -5 rm x"],
    "ionice": ["ionice -c 3 rm x"],
    "time": ["time rm x", "time -p rm x", "time X=1 rm x", "time ! rm x", "time -o x ls"],
    "timeout": ["timeout 5 rm x", "timeout -k 1 5 rm x", "timeout $X rm x", "timeout --odd 5 rm x"],
    "stdbuf": ["stdbuf -oL rm x", "stdbuf -o L rm x"],
    "setsid": ["setsid rm x"],
    "coproc": ["coproc rm x"],
    "watch": ["watch rm x", "watch 'ls; rm x'", "watch -x rm x", "watch -n1 rm x"],
    "parallel": ["parallel rm ::: x", "parallel"],
    "ssh": ["ssh host rm x", "ssh host"],
    "busybox": ["busybox rm x", "busybox sh -c 'rm x'"],
    "flock": ["flock x rm x"],
    "noglob": ["noglob rm x"],
    "-": ["- rm x"],
    "fd": ["fd x -x rm", "fd --exec rm"],
    "tar": [
        "tar xf x --to-command=rm",
        "tar cf x --checkpoint-act=exec=rm y",
        "tar xIf rm x",
        "tar -I rm -xf x",
        "tar cTf x y",
    ],
    "rsync": ["rsync -e rm a b", "rsync -ave rm a b", "rsync --rsh=rm a b"],
    "make": [
        *("make SHELL=/x", "make CC='rm x'", "make --eval=x", "make -E '$(shell rm x)'", "make -sE x"),
        *("make 'a := $(shell rm x)'", "make 'a=$(shell rm x)'", "make -- 'a:=$(shell rm x)'", "make a!=rm"),
        *("make -C x", "make -Cx", "make --directory=x", "make -f x", "make --file x", "make -I x"),
    ],
    "npm": [
        *("npm run x --prefix /x", "npm --prefix=/x test", "npm -C x test", "npm test --script-shell=rm"),
        *("npm exec rm x", "npm exec -c 'rm x'", "npm --odd exec rm x", "npm test --userconfig x"),
    ],
    "uv": ["uv run rm x", "uv run --odd rm x", "uv --directory x run rm x", "uv run --project x rm x"],
    "poetry": ["poetry run rm x", "poetry -C x run rm x"],
    "docker": ["docker run -it image rm x", "docker exec it rm x", "docker compose run it rm x"],
    "nix": ["nix run x -- rm x", "nix shell x -c rm x", "nix develop -c rm x"],
    "mise": ["mise exec node -- rm x", "mise x -- rm x"],
    "run0": ["run0 rm x", "run0 --user=me rm x"],
    "machinectl": ["machinectl shell me@ rm x"],
    "socat": ["socat EXEC:'rm x' -", "socat - system:'rm x'"],
    "cargo": ["cargo -C x build", "cargo build --manifest-path x", "cargo test --config x"],
    "pytest": ["pytest -c x", "pytest --rootdir=x", "pytest -p x", "pytest -xp x"],
    "sed": [
        "sed '1e rm x' f",
        "sed 's/a/b/e' f",
        "sed 'w x' f",
        "sed -f x f",
        "sed -n -e p -e '1w x' f",
        "sed e f",
        "sed 's/[/]/;s/w f/x/'",
    ],
    "awk": ["awk 'BEGIN { system(\"rm x\") }'", "awk '{ print > \"x\" }' f", "awk '{ print | \"rm x\" }' f"],
    "go": ["go test -exec rm", "go build -toolexec=rm"],
    "npx": ["npx -c 'rm x'"],
    "rg": ["rg --pre rm x"],
    ".": [". ./x"],
    "source": ["source x"],
    "trap": ["trap 'rm x' EXIT"],
    "alias": ["alias a=b"],
    "export": ["export PATH=/x"],
    "declare": ["declare -x A=1"],
    "set": ["set -k"],
    "hash": ["hash -p /bin/rm ls"],
    "enable": ["enable -f x ls"],
    "bind": ["bind -x 'a: rm'"],
    "read": ["read PATH"],
    "unset": ["unset PATH", "unset 'a[$(rm x)]'"],
    "printf": ["printf -v PATH x", "printf %d 'a[$(rm x)]'"],
    "test": ["test -v 'a[$(rm x)]'", "test -v 'a[x]'"],
    "[": ["[ -v 'a[$(rm x)]' ]", "[ -v 'a[x]' ]"],
    "[[": ["[[ -v a ]]", "[[ 'a[$(rm x)]' -eq 1 ]]", "[[ $X -eq 1 ]]"],
    "let": ["let 'a[$(rm x)]=1'"],
    "mapfile": ["mapfile -C 'rm x' a"],
    "$X": ["$X x"],
    "!!": ["!!", "!ls x"],
    "%1": ["%1"],
    "l*": ["l* x"],
}


@pytest.mark.parametrize("line", [*BAD, *COMPUTED])
def test_a_rule_for_the_first_word_never_allows_more_than_it(line: str) -> None:
    assert not read_script(line).commands or not allowed_by("ls", read_script(line))
    assert read_script(line).commands or read_script(line).unclear
    assert not is_clear(read_script(line)) or not allowed_by(line.split()[0], read_script(line))


@pytest.mark.parametrize(("rule", "line"), [(rule, line) for rule, lines in BAD_WRAPPED.items() for line in lines])
def test_a_rule_for_a_wrapper_never_allows_what_it_wraps(rule: str, line: str) -> None:
    script = read_script(line)
    assert script.commands or script.unclear
    assert not (script.commands and allowed_by(rule, script))


# Of those with one of these, shells differ on whether there is a command at all.
DEBATABLE = re.compile(r"\$'|\\`|\u2028|\r|-E")


@pytest.mark.parametrize("line", [line for line in BAD if "rm x" in line and not DEBATABLE.search(line)])
def test_what_is_hidden_in_a_bad_line_is_found_all_the_same(line: str) -> None:
    assert "rm" in programs(read_script(line))


@pytest.mark.parametrize(
    "line",
    [
        line
        for wrapper, lines in BAD_WRAPPED.items()
        for line in lines
        if " rm x" in line and "'" not in line and wrapper not in ("git", "tar", "rg")  # these are only unclear
    ],
)
def test_what_is_wrapped_is_found(line: str) -> None:
    assert "rm" in programs(read_script(line))


def test_a_git_command_behind_options_is_still_that_command() -> None:
    script = read_script("git -C /x --no-pager push origin")
    assert [part.words for part in script.commands] == [
        ("git", "-C", "/x", "--no-pager", "push", "origin"),
        ("git", "push", "origin"),
    ]
    assert script.commands[0].unclear == "git works in another folder with -C"
    assert is_clear(read_script("git --no-pager push origin"))
    assert ("git", "push") in [part.words for part in read_script("git -c a=b push").commands]


@pytest.mark.parametrize(
    "line",
    [
        "git config --get user.name",
        "git config --global --list",
        "git submodule status",
        "git bisect start",
        "git log -p -- a/b",
        "make -j8 -k all",
        "npm run build -- --prefix x",
        "npm test",
        "cargo test --release",
        "pytest -q -k x tests",
        "go test ./...",
        "docker build . -t x",
        "uv sync",
        "nix build",
        "sed -n 1,5p f",
        "sed -i 's/a/b/g; s|c|d|' f",
        "sed '/x/d' f",
        "sed 's/[0-9]*x/y/' f",
        "awk '{ print $1 }' f",
        "socat - TCP:localhost:80",
        "jobs -l",
    ],
)
def test_options_that_name_no_program_folder_or_settings_are_clear(line: str) -> None:
    assert is_clear(read_script(line))


def test_the_words_of_a_wrapper_are_known_to_what_it_runs() -> None:
    assert [part.outer for part in read_script("sudo -n uv run make all").commands] == [
        (),
        ("sudo", "-n", "uv", "run", "make", "all"),
        ("sudo", "-n", "uv", "run", "make", "all"),
    ]
    assert [part.outer for part in read_script("find . -exec rm {} +; sh -c 'rm x'").commands] == [()] * 4


def test_a_line_inside_a_wrapper_that_is_not_understood_makes_the_wrapper_unclear() -> None:
    script = read_script("sh -c 'ls() { rm x; }; ls'")
    assert script.unclear is None
    assert script.commands[0].unclear
    assert "rm" in programs(script)


def test_arguments_that_were_given_apart_are_taken_as_they_are() -> None:
    words = ["ls", "$(rm x)", "*", "; rm x", "a b"]
    assert read_script(shlex.join(words)) == Script((ShellCommand(tuple(words)),))
    assert programs(read_script(shlex.join(["sudo", "bash", "-c", "rm x && ls"]))) == ["sudo", "bash", "rm", "ls"]
    assert read_script(shlex.join(["git log"])).commands[0].unclear
    assert read_script(shlex.join(["g\u0456t", "log"])).commands[0].unclear
    assert read_script(shlex.join(["", "x"])).commands[0].unclear


@pytest.mark.parametrize(
    "line",
    [
        "a 12>&1",  # a plain shell takes one digit
        "a &>f c",  # a plain shell ends the command at `&`
        "a >&'f'",
        "a >&'1'x",
        "a <<\\\n-E\n-E\n\tE\nb\n",
        "a $\\\n(b)",
        'a "$\\\n(b)"',
        "a\\\nb",
        "a <<E\nx\\\nE\nE\n",
        "a $(b <<E\nE)\nE\n)",
        "a $(b <<E\n)\nE\n)",
        "a <<E $(b\n)\nE\n",
        "a <<E 'x\nE\n'\nE\n",
        "a {fd}>f",
        "a (b)",
        "! (a) b",
        "((a))",
        "a `b \\`c\\``",
        'a "`b "c"`"',
        "a ${(e)x}",
        "a $'\\''",
        "for x { a }",
        "select x in a; do b; done",
        "a;& b",
    ],
)
def test_what_shells_read_differently_is_not_read(line: str) -> None:
    with pytest.raises(Unreadable):
        commands_in(line, [])


@pytest.mark.parametrize("line", ["xargs rm", "xargs sudo rm", "find . -exec rm {} +", "ssh host rm"])
def test_what_is_fed_by_others_is_dynamic(line: str) -> None:
    parts = read_script(line).commands
    assert all(part.dynamic for part in parts if part.via)
    assert parts[-1].words[0] == "rm"


def test_two_readers_must_find_the_same_commands() -> None:
    commands: list[SimpleCommand] = []
    commands_in("é a; b | c", commands)
    assert tree_agrees("é a; b | c", commands)
    assert not tree_agrees("é a; b | c", commands[:2])
    assert not tree_agrees("é a; b", commands)
    assert not tree_agrees("é 'a; b | c", commands)


def test_a_line_that_the_readers_see_differently_is_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "tree_agrees", lambda line, commands: False)
    assert read_script("ls").unclear


# Limits

PIECES = ["$(", "(", "{ ", '"$(', "`", "<<A ", "<<A\n", "if ", "case x in (", "((", "${a:-", "'", '"', "\\", "a;", "a|"]
PIECES += [
    "a=(",
    "[[ ",
    "f(){ ",
    "a>b ",
    "for x in ",
    "<(",
    "[[ a =~ ",
    ")",
    "$[",
    "{",
    "a[ ",
    "é",
    "\0",
    "<",
    "#",
    "\n",
]
PIECES += ["sudo ", "ssh ", "watch ", "xargs ", "find -exec ", "sh -c ", "eval ", "git -C x ", "parallel ssh ", "$x"]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("size", [4_000, MAX_LENGTH, 1_000_000])
def test_floods_end(piece: str, size: int) -> None:
    script = read_script(piece * (size // len(piece)))
    assert len(script.commands) <= MAX_COMMANDS
    assert script.unclear or script.commands
    assert script.unclear or size <= MAX_LENGTH


@pytest.mark.parametrize(("opening", "closing"), [("a $(", ")"), ("( ", ")"), ("{ ", ";}"), ("if a; then ", "; fi")])
def test_deep_nesting_ends_and_is_unclear(opening: str, closing: str) -> None:
    assert is_clear(read_script(opening + "ls" + closing))
    assert read_script(opening * 10_000 + "ls" + closing * 10_000).unclear
    assert read_script(opening * 100 + "ls" + closing * 100).unclear


def test_more_commands_than_anyone_reads_are_unclear() -> None:
    assert read_script("ls; " * 300).unclear
    assert is_clear(read_script("ls; " * 200))


def test_deep_wrappers_end_in_something_unclear() -> None:
    assert not is_clear(read_script("sudo " * 1_000 + "ls"))


def test_the_grammar_loads_only_with_the_first_command() -> None:
    code = "import sys, dragoman, dragoman.host.shell.reader; sys.exit('tree_sitter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Properties

KNOWN = ["alpha -a", "beta 'x y'", "gamma", "delta --long=1 z"]
JOINTS = ["; ", " && ", " || ", " | ", " & ", "\n", " |& ", " && \\\n  "]
FRAMES = ["{}", "( {})", "{{ {}; }}", "if {}; then true; fi", "echo $( {})", 'echo "$( {})"', "echo <({})", "! {}"]
FRAMES += ["for x in 1 2; do {}; done", "while {}; do break; done", "case a in a) {};; esac", "echo ${{X:-$( {})}}"]


@st.composite
def made_of(draw: st.DrawFn, depth: int = 3) -> tuple[str, list[str]]:
    """Make a line; return it and the programs in it."""
    if depth == 0 or draw(st.booleans()):
        command = draw(st.sampled_from(KNOWN))
        return command, [command.split()[0]]
    form = draw(st.sampled_from(["join", "frame", "line", "wrap"]))
    line, inside = draw(made_of(depth - 1))
    if form == "join":
        other, more = draw(made_of(depth - 1))
        return f"{line}{draw(st.sampled_from(JOINTS))}{other}", inside + more
    if form == "frame":
        return draw(st.sampled_from(FRAMES)).format(line), inside
    if form == "line":
        return f"{draw(st.sampled_from(['sh -c', 'eval', 'bash -lc', 'sudo sh -c']))} {shlex.quote(line)}", inside
    wrapper = draw(st.sampled_from(["sudo -n", "env X=1", "nohup", "xargs -0", "timeout 5", "nice -n 3", "time"]))
    return f"{wrapper} {draw(st.sampled_from(KNOWN))}; {line}", inside


@settings(max_examples=300)
@given(made_of())
def test_every_command_of_a_line_is_found(made: tuple[str, list[str]]) -> None:
    line, inside = made
    script = read_script(line)
    assert script.unclear or set(inside) <= set(programs(script))


SOUP = [*"abc;&|()<>{}[]$`'\"\\#!*~= \n\t-", "$(", "<<E\n", "\nE\n", "if ", "; then ", "; fi", "for x in ", "; do "]
SOUP += [
    "; done",
    "case a in a) ",
    ";; esac",
    "x=1 ",
    "$x",
    "${x",
    "&&",
    "2>&1",
    "[[ ",
    " ]]",
    "env ",
    "sh -c ",
    "eval ",
]
SOUP += ["xargs ", "find . -exec ", " \\; ", "$((", "))", "<(", "é", "\u202e", "\0", "$'", "\\\n", "time ", "git -c "]


@settings(max_examples=300)
@given(st.one_of(st.text(), st.lists(st.sampled_from(SOUP)).map("".join)), st.lists(st.text(), max_size=5))
def test_nothing_makes_it_fail(line: str, argv: list[str]) -> None:
    for text in (line, shlex.join(argv)):
        script = read_script(text)
        assert script.commands or script.unclear


# The real shells

STUB = """#!/bin/sh
printf '%s' "$(printf '%s\\036' "{name}" "$@"; printf '\\035')" >> "$LOG"
"""
REAL = ["env", "xargs", "find", "nohup", "timeout", "nice", "cat", "sh"]

ATOMS = ["a", "b", "c", " ", "\n", ";", "&&", "|", "$(", ")", "(", "`", "'", '"', "\\", "\\\n", "#", "<<E\n", "\nE\n"]
ATOMS += [
    "<<'E'\n",
    "if ",
    "; then ",
    "; fi",
    "case a in a) ",
    ";; esac",
    "{ ",
    "; }",
    "$x",
    "x=1 ",
    "> f",
    "2>&1",
    "&>f",
]
ATOMS += ["! ", "<(", "[ ", " ]", "env ", "xargs ", "sh -c ", "eval ", "timeout 1 ", "time ", "command ", "$'", "12>&1"]

simple = st.lists(st.sampled_from(["x", "'q r'", '"s"', "$x", "a\\ b", "-y"]), max_size=2).flatmap(
    lambda given: st.sampled_from("abc").map(lambda name: " ".join([name, *given]))
)
SHAPES = [
    "({})",
    "{{ {}; }}",
    "! {}",
    "a $({})",
    'b "`{}`"',
    "if {}; then c; fi",
    "for x in 1 2; do {}; done",
    "env y=1 {}",
]
SHAPES += [
    "a <<E\n$({})\nE\n",
    "b <<'E'\n{}\nE\nc",
    "case a in a) {};; esac",
    "nice {}",
    "xargs {}",
    "time {}",
    "{} > f",
]
scripts = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(SHAPES), inner).map(lambda pair: pair[0].format(pair[1])),
        st.tuples(inner, st.sampled_from(JOINTS), inner).map("".join),
        inner.map(lambda line: f"sh -c {shlex.quote(line)}"),
        inner.map(lambda line: f"eval {shlex.quote(line)}"),
    ),
    max_leaves=6,
)
broken = st.tuples(scripts, st.integers(0, 80), st.sampled_from(ATOMS), st.integers(0, 2)).map(
    lambda made: made[0][: made[1]] + made[2] + made[0][made[1] + made[3] :]
)


class Stubs:
    """A folder of programs that only write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.runs = 0
        for name in "abc":
            (self.bin / name).write_text(STUB.format(name=name))
            (self.bin / name).chmod(0o755)
        for name in REAL:
            if where := shutil.which(name):
                (self.bin / name).symlink_to(where)

    def run(self, shell: str, line: str) -> tuple[list[tuple[str, ...]], set[str]]:
        """Run the line; return the executed commands and the created files."""
        self.runs += 1
        cwd, log = self.folder / f"cwd{self.runs}", self.folder / f"log{self.runs}"
        cwd.mkdir()
        log.touch()
        # What it leaves in the background keeps its output open: reading to the end waits for that too.
        process = subprocess.Popen(
            [shell, "-c", line],
            env={"PATH": str(self.bin), "LOG": str(log)},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.communicate(timeout=20)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        calls = log.read_text(errors="replace").split("\035")[:-1]
        return [tuple(call.split("\036")[:-1]) for call in calls], set(os.listdir(cwd))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(tmp_path_factory.mktemp("stubs"))


@pytest.mark.parametrize("shell", ["bash", "dash"])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.one_of(scripts, broken, st.lists(st.sampled_from(ATOMS), min_size=2, max_size=10).map("".join)))
def test_a_real_shell_runs_nothing_that_was_not_found(stubs: Stubs, shell: str, line: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = read_script(line)
    if not is_clear(script):
        return
    executed, files = stubs.run(program, line)
    for call in executed:
        assert any(part.words[:1] == call[:1] and (part.dynamic or part.words == call) for part in script.commands)
    assert files <= {target for part in script.commands for target in part.writes}


@pytest.mark.parametrize(
    "text", ["{\U0010d136", "{\u3042", "$\U0010ffff", "<<\U000e0001\nx", "${\u4e2d}", "[[ \U0001f600"]
)
def test_no_character_can_end_the_process(text: str) -> None:
    program = (
        "import sys; from dragoman.host.shell.reader import read_script\nfor _ in range(50): read_script(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", program, text], check=True, timeout=60)
