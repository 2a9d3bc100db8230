"""`dragoman diff` and `dragoman rewind`: what the demo agent changed, and how it is taken back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import Cli, On, without_looks

pytestmark = pytest.mark.slow  # many processes of the command line and of git


@pytest.fixture
def edited(cli: Cli) -> Cli:
    """A workspace in which the demo agent created a file in its first run, and said hello in the second."""
    cli.env["DRAGOMAN_CHECKPOINTS"] = "on"
    (cli.workspace / "mine").write_text("mine\n")
    done = cli("run", "--access", "full", "edit")
    assert done.code == 0, done.err
    assert (cli.workspace / "README.md").exists()
    assert cli("run", "--resume", "-", "hello").code == 0
    return cli


def test_the_difference_of_a_run_is_a_patch_that_git_applies(edited: Cli, tmp_path: Path) -> None:
    done = edited("diff", "--run", "1")
    assert done.code == 0, done.err
    assert "+# README" in done.out
    assert "Run 1: 1 file, +3 −0." in done.err
    copy = tmp_path / "copy"
    copy.mkdir()
    subprocess.run(["git", "apply", "-"], cwd=copy, input=done.raw_out, check=True)
    assert (copy / "README.md").read_bytes() == (edited.workspace / "README.md").read_bytes()


def test_the_last_run_is_compared_unless_another_is_named(edited: Cli) -> None:
    done = edited("diff")
    assert (done.code, done.out) == (0, "")
    assert "Run 2: 0 files" in done.err
    assert edited("diff", "--since-start", "--stat").out == "A  README.md  +3 −0\n"
    assert edited("diff", "-", "--run", "3").code == 2
    assert "the session has no run 3" in edited("diff", "--run", "3").err
    assert edited("diff", "--run", "1", "--since-start").code == 2


def test_files_that_the_agent_did_not_report_are_marked(edited: Cli) -> None:
    (edited.workspace / "by-hand").write_text("1\n")
    assert edited("run", "--resume", "-", "hello").code == 0
    done = edited("diff", "--since-start", "--stat")
    assert done.out.splitlines() == ["A  README.md  +3 −0", "A  by-hand  +1 −0  (not reported by the agent)"]


def test_json_has_the_hunks(edited: Cli) -> None:
    diff = json.loads(edited("diff", "--run", "1", "--json").out)
    assert diff["files"][0]["hunks"][0]["lines"][0] == "+# README"
    assert diff["files"][0]["is_claimed"]


def test_json_is_one_object_with_all_files_and_lines(edited: Cli) -> None:
    (edited.workspace / "long").write_text("".join(f"{number}\n" for number in range(6000)))
    for number in range(250):
        (edited.workspace / f"file-{number}").write_text("1\n")
    assert edited("run", "--resume", "-", "hello").code == 0
    diff = json.loads(edited("diff", "--since-start", "--json").out)
    assert (diff["count"], len(diff["files"]), diff.get("next_offset")) == (252, 252, None)
    assert sum(len(hunk["lines"]) for file in diff["files"] for hunk in file["hunks"]) == 6000 + 250 + 3
    assert len(edited("diff", "--since-start", "--stat").out.splitlines()) == 252


def test_a_folder_without_a_session_is_an_error(edited: Cli, tmp_path: Path) -> None:
    process = edited.start("diff", cwd=tmp_path)
    _, err = process.communicate(timeout=40)
    assert process.returncode == 2
    assert b"no session in this folder" in err


def test_a_rewind_shows_what_it_changes_and_asks(edited: Cli, on_terminal: On) -> None:
    terminal = on_terminal("rewind", "-", "--to-run", "1", "--before")
    shown = without_looks(terminal.until(b"[y/N]: ").decode())
    assert "delete     README.md" in shown
    assert "Bring back the files as they were before run 1?" in shown
    assert (edited.workspace / "README.md").exists()
    terminal.type(b"y\r")
    terminal.until(b"dragoman rewind --undo")
    assert terminal.code() == 0
    assert not (edited.workspace / "README.md").exists()
    undone = edited("rewind", "--undo", "-", "--yes")
    assert undone.code == 0, undone.err
    assert (edited.workspace / "README.md").exists()
    assert edited("rewind", "--undo", "-", "--yes").code == 2
    shown = edited("sessions", "show", "-").out
    assert "The files were brought back to what they were before run 1: 1 file changed." in shown


def test_a_rewind_that_is_not_confirmed_changes_nothing(edited: Cli, on_terminal: On) -> None:
    terminal = on_terminal("rewind", "-", "--to-run", "1", "--before")
    terminal.until(b"[y/N]: ")
    terminal.type(b"n\r")
    assert terminal.code() == 1
    assert (edited.workspace / "README.md").exists()
    done = edited("rewind", "-", "--to-run", "1", "--before")
    assert done.code == 2
    assert "--yes" in done.err


def test_a_rewind_without_a_difference_says_so(edited: Cli) -> None:
    done = edited("rewind", "-", "--to-run", "2", "--yes")
    assert done.code == 0
    assert "nothing to do" in done.err
    assert done.out == ""
    done = edited("rewind", "-", "--to-run", "2", "--yes", "--json")
    assert (json.loads(done.out)["changes"], json.loads(done.out)["is_done"]) == ([], False)


def test_a_failed_checkpoint_is_shown_once_and_in_full(cli: Cli) -> None:
    cli.env |= {"DRAGOMAN_CHECKPOINTS": "on", "HOME": str(cli.workspace)}
    done = cli("run", "hello")
    message = " ".join(done.err.split())
    assert message.count("no checkpoint") == 1
    assert "would be too large. Open the session in the folder of a project." in message


def test_names_and_contents_do_not_act_on_the_terminal(edited: Cli, on_terminal: On) -> None:
    (edited.workspace / "a\x1b]0;title\x07\nb").write_text("\x1b[2Jcleared\n")
    assert edited("run", "--resume", "-", "hello").code == 0
    for options, name in (("diff",), b"\\033]0;title\\a\\nb"), (("diff", "--stat"), b'"a\\x1b]0;title\\x07\\nb"'):
        terminal = on_terminal(*options, "--since-start", env={"PAGER": "cat"})
        shown = terminal.until(b"Since the session was opened")
        assert b"\x1b[2J" not in shown
        assert b"\x1b]0;" not in shown
        assert name in shown
        assert b"cleared" in shown or "--stat" in options
    planned = edited("rewind", "-", "--to-run", "1", "--before", "--yes")
    assert '  delete     "a\\x1b]0;title\\x07\\nb"\n' in planned.err


def test_a_terminal_gets_colours_and_the_pager_of_the_user(edited: Cli, on_terminal: On) -> None:
    (edited.workspace / "README.md").write_text("# Other\n++ two\n")
    (edited.workspace / "picture").write_bytes(b"\0\xff" * 100)
    assert edited("run", "--resume", "-", "hello").code == 0
    shown = on_terminal("diff", "--since-start", env={"PAGER": "sed s/^/paged:/"}).rest()
    lines = [line.removeprefix("paged:") for line in shown.splitlines() if line.startswith("paged:")]
    assert "\x1b[1mdiff --git a/README.md b/README.md\x1b[0m" in lines
    assert "\x1b[32m+# Other\x1b[0m" in lines
    assert "\x1b[32m+++ two\x1b[0m" in lines  # a line of the file, not of the head
    assert "\x1b[1mBinary files /dev/null and b/picture differ\x1b[0m" in lines
    assert "paged:" not in edited("diff", "--since-start").out
    assert "GIT binary patch" in edited("diff", "--since-start").out
    for pager in ("no-such-pager", "'", "true"):
        terminal = on_terminal("diff", "--since-start", env={"PAGER": pager})
        shown = terminal.rest()
        assert "Since the session was opened: 2 files" in shown
        assert ("# Other" in shown) == (pager != "true")  # one that is left at once is no error
        assert terminal.code() == 0


def test_the_session_of_the_nearest_folder_is_compared(edited: Cli) -> None:
    above, below = edited.workspace.parent, edited.workspace / "below" / "deep"
    below.mkdir(parents=True)
    newer = edited.start("run", "--no-checkpoints", "hello", cwd=above)
    assert newer.communicate(timeout=40)
    assert newer.returncode == 0
    compared = edited.start("diff", "--since-start", "--stat", cwd=below)
    out, err = compared.communicate(timeout=40)
    assert (compared.returncode, out.decode()) == (0, "A  README.md  +3 −0\n"), err


def test_without_checkpoints_there_is_nothing_to_compare(cli: Cli) -> None:
    cli.env["DRAGOMAN_CHECKPOINTS"] = "on"
    assert cli("run", "--no-checkpoints", "hello").code == 0
    done = cli("diff")
    assert done.code == 2
    assert "no checkpoint" in done.err
    assert "checkpoints" not in os.listdir(cli.home) or not os.listdir(cli.home / "checkpoints")


def test_a_long_first_checkpoint_is_named_while_the_prompt_waits(cli: Cli, on_terminal: On, tmp_path: Path) -> None:
    cli.env["DRAGOMAN_CHECKPOINTS"] = "on"
    programs, go, gate = tmp_path / "programs", tmp_path / "go", tmp_path / "gate"
    programs.mkdir()
    os.mkfifo(gate)
    slow_git = programs / "git"
    slow_git.write_text(f'#!/bin/sh\n[ -e {go} ] || read line < {gate}\nexec {shutil.which("git")} "$@"\n')
    slow_git.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    with open(os.open(gate, os.O_RDWR | os.O_NONBLOCK), "wb", buffering=0) as opened:
        terminal = on_terminal("run", "hello", env={"PATH": path, "DRAGOMAN_CHECKPOINTS": "on"})
        terminal.until(b"recording the files, so that the run can be undone (")
        go.touch()
        opened.write(b"go\n" * 10)
        assert "Hello!" in terminal.rest()
