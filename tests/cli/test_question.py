"""Permission questions and other output that only a terminal gets, on a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
from pathlib import Path

import msgspec
import pytest

from dragoman.cli.ask import PermissionPrompt, answer_with, choices, details, fold_lines, headline, lasting_answers
from dragoman.cli.output import Outbox, chosen_index
from dragoman.cli.screen import CLEAR_LINE, Follower, Screen, Span, without_colours
from dragoman.cli.text import columns
from dragoman.host.permission import Option, PermissionRequest
from dragoman.wire.vocabulary import Diff

from .conftest import TIMEOUT_S, Cli, On, without_looks

OPTIONS = (Option("yes", "Allow", "allow_once"), Option("no", "Reject", "reject_once"))


def test_a_person_is_asked_and_the_answer_counts(cli: Cli, on_terminal: On) -> None:
    terminal = on_terminal("run", "edit README")
    shown = without_looks(terminal.until(b"1-4): ").decode().replace("\r\n", "\n"))
    assert "● Create README.md\n\n? Create README.md (edit)\n  README.md  +3\n    + # README\n" in shown
    assert "  1  Allow\n  2  Always allow\n     for all agents here: allow kind edit, path " in shown
    assert "  3  Reject\n  4  Always reject\n     for all agents here: deny kind write, path " in shown
    terminal.type(b"1\n")
    assert "I created README.md." in terminal.rest()
    assert terminal.code() == 0
    assert (cli.workspace / "README.md").exists()


def test_an_invalid_answer_is_asked_for_again(cli: Cli, on_terminal: On) -> None:
    terminal = on_terminal("run", "edit README")
    for typed in (b"\n", b"5\n", b"yes\n"):
        terminal.until(b"1-4): ")
        terminal.type(typed)
        terminal.until(b"Please type a number from 1 to 4 or file.")
    terminal.until(b"1-4): ")
    terminal.type(b"3\n")
    assert "You said no, so I leave it." in terminal.rest()
    assert terminal.code() == 0  # a denial by a person is no failure
    assert not (cli.workspace / "README.md").exists()


def test_always_can_be_narrowed_to_the_file(cli: Cli, on_terminal: On) -> None:
    terminal = on_terminal("run", "edit README")
    shown = without_looks(terminal.until(b"1-4): ").decode().replace("\r\n", "\n"))
    path = (cli.workspace / "README.md").resolve()
    assert "  file  Always allow, for this file only\n     for all agents here: allow kind edit, path " in shown
    terminal.type(b"file\n")
    assert "remembered for this workspace" in terminal.rest()
    remembered = msgspec.json.decode((cli.home / "remembered.json").read_bytes())["answers"]
    assert [answer["rule"]["path"] for answer in remembered] == [[str(path)]]
    # The agent was told "once": it asks again about another file, and we ask about that one.
    terminal = on_terminal("run", "edit NOTES")
    terminal.until(b"1-4): ")
    terminal.type(b"3\n")
    terminal.rest()
    assert "I added a line to README.md." in on_terminal("run", "edit README").rest()


def test_the_rule_that_is_shown_knows_the_users_own_guards(cli: Cli, on_terminal: On) -> None:
    cli.configure((cli.home / "config.toml").read_text() + '\n[guards]\nwrite = ["README.md"]\n')
    terminal = on_terminal("run", "edit README")
    shown = without_looks(terminal.until(b"1-4): ").decode().replace("\r\n", " "))
    assert "2  Always allow      once: cannot be remembered: " in shown
    assert "file  Always" not in shown
    terminal.type(b"3\n")
    terminal.rest()


def test_a_command_has_no_such_answer(on_terminal: On) -> None:
    terminal = on_terminal("run", "run true")
    assert b"file" not in terminal.until(b"1-4): ")
    terminal.type(b"3\n")
    terminal.rest()


def test_the_end_of_input_refuses(cli: Cli, on_terminal: On) -> None:
    terminal = on_terminal("run", "edit README")
    terminal.until(b"1-4): ")
    terminal.type(b"\x04")
    assert "No answer: rejected." in terminal.rest()
    assert not (cli.workspace / "README.md").exists()


def test_text_typed_before_the_question_does_not_answer_it(cli: Cli, on_terminal: On) -> None:
    terminal = on_terminal("run", "edit README")
    terminal.type(b"1\n")
    terminal.until(b"1-4): ")
    terminal.type(b"3\n")
    terminal.rest()
    assert terminal.code() == 0
    assert not (cli.workspace / "README.md").exists()


def test_a_deadline_ends_a_question_that_nobody_answers(on_terminal: On) -> None:
    terminal = on_terminal("run", "--deadline", "500ms", "edit README")
    assert "the run's deadline of 0.5 s has passed" in terminal.rest()
    assert terminal.code() == 124


def test_questions_are_asked_beside_json_too(on_terminal: On, cli: Cli) -> None:
    terminal = on_terminal("run", "--json", "edit README")
    terminal.until(b"1-4): ")
    terminal.type(b"1\n")
    assert '"type":"run.completed"' in terminal.rest()
    assert (cli.workspace / "README.md").exists()


def test_without_a_prompt_an_example_is_shown(on_terminal: On) -> None:
    terminal = on_terminal("run")
    assert 'For example: dragoman run "' in terminal.rest()
    assert terminal.code() == 2


def test_an_agent_cannot_act_on_the_terminal(on_terminal: On) -> None:
    terminal = on_terminal("run", "say \x1b[2Jthis\x1b]0;owned\x07 \x9b31mback\r\b\u202e", env={"NO_COLOR": "1"})
    shown = terminal.rest().replace(CLEAR_LINE, "")  # ours, to draw the open line again
    assert "You said “say this" in shown
    assert "back" in shown
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)


def test_in_a_pipe_the_agents_text_is_unchanged(cli: Cli) -> None:
    assert "“say \x1b[2Jthis" in cli("run", "say \x1b[2Jthis").out


def test_colours_are_for_terminals_that_want_them(on_terminal: On) -> None:
    assert "\x1b[2m" in on_terminal("run", "hello").rest()
    assert not re.search(r"\x1b\[[0-9;]*m", on_terminal("run", "tools", env={"NO_COLOR": "1"}).rest())
    assert "\x1b" not in on_terminal("run", "tools", env={"TERM": "dumb"}).rest()


def test_a_slow_start_is_shown_and_then_erased(cli: Cli, on_terminal: On) -> None:
    go = cli.workspace / "go"
    os.mkfifo(go)
    script = cli.workspace / "agent.sh"
    script.write_text(f"echo fetching it >&2\nread x < {go}\nexec {cli.demo}\n")
    terminal = on_terminal("run", "--agent-command", f"sh {script}", "hello")
    terminal.until(b"starting sh (1s): fetching it")
    go.write_text("go\n")
    assert "\r\x1b[2KHello!" in terminal.rest()


# -- without a process


def make_request(**changes: object) -> PermissionRequest:
    fields: dict[str, object] = {
        "session_id": "s",
        "tool_call_id": "t",
        "title": "Do it",
        "kind": "other",
        "options": OPTIONS,
    }
    return PermissionRequest(**{**fields, **changes})  # type: ignore[arg-type]  # fields by name, as the tests say


def shown(request: PermissionRequest, width: int = 80) -> str:
    lines = details(request, Path("/project"), limited=True)
    return "\n".join(
        map(without_colours, (headline(request, width), *lines, *choices(request, width, is_truncated=False)))
    )


def test_a_question_about_a_guarded_file_says_why_it_is_asked() -> None:
    text = shown(make_request(paths=("/project/.env",), reason="it reads .env\x1b[2K, which needs your approval"))
    assert text.splitlines()[1:3] == ["  .env", "  ! it reads .env, which needs your approval"]


def test_a_question_shows_command_paths_and_changes() -> None:
    text = shown(
        make_request(
            title="Change\nthings",
            command="rm -rf build\necho done",
            paths=("/project/a.txt", "/etc/passwd"),
            diffs=(Diff(path="/project/a.txt", old_text="one\ntwo\nthree\n", new_text="one\n2\nthree\n"),),
        )
    )
    assert text.splitlines() == [
        "? Change things (other)",
        "  $ rm -rf build",
        "    echo done",
        "  a.txt  +1 −1",
        "      one",
        "    - two",
        "    + 2",
        "      three",
        "  /etc/passwd",
        "  1  Allow",
        "  2  Reject",
        "  always, never  Remember the answer for this workspace",
    ]


async def test_once_comes_before_always_whatever_the_agents_order(capfd: pytest.CaptureFixture[str]) -> None:
    # goose 1.34.0 lists them in this order, and names them by their kinds.
    kinds = ("allow_always", "allow_once", "mine", "reject_once", "reject_always")
    request = make_request(options=tuple(Option(f"id-{kind}", kind, kind) for kind in kinds))
    assert shown(request).splitlines()[1:] == [
        "  1  Allow once",
        "  2  Always allow",
        "  3  Reject once",
        "  4  Always reject",
        "  5  mine  (unknown effect)",
    ]
    master, slave = pty.openpty()
    screen = AskedScreen()
    asker = PermissionPrompt(screen, screen.follower.floor, fd=slave, cwd=Path("/project"), width=80)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            answer = asyncio.create_task(asker(request))
            await screen.prompts.get()
            os.write(master, b"1\n")
            assert (await answer).option_id == "id-allow_once"
    finally:
        os.close(master)
        os.close(slave)


def test_a_question_counts_the_lines_it_leaves_out() -> None:
    assert "… 84 more lines" in shown(make_request(command="\n".join(f"echo {number}" for number in range(100))))
    many = Diff(path="/project/a", old_text=None, new_text="line\n" * 50)
    assert "… 34 more lines" in shown(make_request(diffs=(many,)))


def test_a_question_about_something_unknown_shows_its_input() -> None:
    assert '  {"url":"https://example.com"}' in shown(make_request(raw_input={"url": "https://example.com"}))
    once = shown(make_request(paths=("/project/a",), raw_input={"path": "/project/a"}))
    assert "  a\n  1  Allow" in once
    assert "{" not in once
    assert '{"path":"/project/a","force":true}' in shown(
        make_request(paths=("/project/a",), raw_input={"path": "/project/a", "force": True})
    )


def test_nothing_in_a_question_acts_on_the_terminal() -> None:
    text = shown(make_request(title="a\x1b[1Ab\u202ec", command="x\r\x1b[2Ky", paths=("/project/\x1b]0;t\x07p",)))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "? abc (other)\n  $ x\\r\\x1b[2Ky\n  \\x1b]0;t\\x07p" in text


def test_no_part_of_a_command_hides_in_an_escape_sequence() -> None:
    # A shell runs all three of these.
    assert "$ ls \\x1b]; rm -r build; : \\x07" in shown(make_request(command="ls \x1b]; rm -r build; : \x07"))
    diff = Diff(path="/project/a", old_text=None, new_text="echo \x1b]$(id)\x07\u202e\n")
    assert "+ echo \\x1b]$(id)\\x07\\u202e" in shown(make_request(diffs=(diff,)))


def test_a_path_cannot_look_like_an_option() -> None:
    text = shown(make_request(kind="read)\n  1  Reject", paths=("/project/a\n  1  Reject",)))
    assert text.splitlines()[1:][:-1] == ["  a\\n  1  Reject", "  1  Allow", "  2  Reject"]


def test_the_folder_and_variables_of_a_command_are_shown() -> None:
    given = {"command": "ls", "cwd": "/project/sub", "env": {"PATH": "/project/evil", "A": "1\n2"}}
    text = shown(make_request(command="ls", raw_input=given))
    assert "  $ ls\n  in sub\n  with PATH=/project/evil\n       A=1\\n2\n" in text
    assert "  $ ls\n  1  Allow" in shown(
        make_request(command="ls", raw_input={"command": "ls", "cwd": "/project", "env": {}})
    )


def test_an_option_with_a_misleading_name_is_shown_with_its_effect() -> None:
    options = (
        Option("a", "Reject", "allow_always"),
        Option("b", "Yes, and never ask again " + "x" * 80, "allow_always"),
        Option("c", "Always reject", "reject_always"),
        Option("d", "Later", "postpone"),
    )
    lines = shown(make_request(options=options)).splitlines()
    assert lines[1] == "  1  Reject  (allows it always)"
    assert lines[2].endswith("…  (allows it always)")
    assert len(lines[2]) <= 80
    assert lines[3:] == ["  3  Always reject", "  4  Later  (unknown effect)"]


def test_a_no_whose_id_is_also_a_yes_cancels() -> None:
    request = make_request(options=(Option("x", "Reject", "reject_once"), Option("x", "Allow", "allow_once")))
    assert answer_with(request, request.options[0]).outcome == "cancelled"
    assert answer_with(request, request.options[1]).allowed


@pytest.mark.parametrize(
    ("line", "index"),
    [("1", 0), (" 2. ", 1), ("2)", 1), ("0", None), ("3", None), ("", None), ("y", None), ("²", None)],
)
def test_only_a_listed_number_answers(line: str, index: int | None) -> None:
    assert chosen_index(line, 2) == index


class AskedScreen(Screen):
    """An outbox that sets an event when a question is on the screen."""

    def __init__(self) -> None:
        super().__init__(Outbox(), text_tty=False, notes_tty=False, shared=True, width=None, paint=without_colours)
        self.prompts: asyncio.Queue[None] = asyncio.Queue()
        self.follower = Follower(self.shown)

    async def shown(self, batch: object) -> None:
        return None

    async def ask(self, spans: object) -> None:
        await super().ask((Span("> "),))
        self.prompts.put_nowait(None)


async def test_two_questions_are_asked_one_after_the_other(capfd: pytest.CaptureFixture[str]) -> None:
    master, slave = pty.openpty()
    screen = AskedScreen()
    asker = PermissionPrompt(screen, screen.follower.floor, fd=slave, cwd=Path("/project"), width=80)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            first = asyncio.create_task(asker(make_request(title="First")))
            second = asyncio.create_task(asker(make_request(title="Second")))
            await screen.prompts.get()
            assert not screen.follower.is_free
            assert "Second" not in capfd.readouterr().err
            os.write(master, b"1\n")
            assert (await first).option_id == "yes"
            await screen.prompts.get()
            assert capfd.readouterr().err.startswith("\n? Second")
            os.write(master, b"2\n")
            assert (await second).option_id == "no"
            assert screen.follower.is_free
    finally:
        os.close(master)
        os.close(slave)


async def test_a_long_request_is_shown_whole_on_demand(capfd: pytest.CaptureFixture[str]) -> None:
    master, slave = pty.openpty()
    screen = AskedScreen()
    asker = PermissionPrompt(screen, screen.follower.floor, fd=slave, cwd=Path("/project"), width=80)
    long = make_request(command="\n".join(f"echo {number}" for number in range(50)), raw_input={"text": "x" * 5000})
    try:
        async with asyncio.timeout(TIMEOUT_S):
            answer = asyncio.create_task(asker(long))
            await screen.prompts.get()
            short = capfd.readouterr().err
            assert "  … 34 more lines\n  1  Allow\n  2  Reject\n  always, never  Remember the answer" in short
            assert short.endswith("for this workspace\n  a  Show everything first\n> ")
            os.write(master, b"a\n")
            await screen.prompts.get()
            whole = capfd.readouterr().err
            assert (
                "    echo 49\n  1  Allow\n  2  Reject\n  always, never  Remember the answer for this workspace\n> "
                in whole
            )
            os.write(master, b"a\n")  # there is nothing more to show
            await screen.prompts.get()
            assert "Please type a number from 1 to 2 or always or never.\n" in capfd.readouterr().err
            os.write(master, b"2\n")
            assert (await answer).option_id == "no"
    finally:
        os.close(master)
        os.close(slave)


async def test_a_cancelled_question_stops_listening_and_lets_the_next_come() -> None:
    master, slave = pty.openpty()
    screen = AskedScreen()
    asker = PermissionPrompt(screen, screen.follower.floor, fd=slave, cwd=Path("/project"), width=80)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            first = asyncio.create_task(asker(make_request()))
            await screen.prompts.get()
            first.cancel()
            await asyncio.wait([first])
            assert screen.follower.is_free
            assert not asyncio.get_running_loop().remove_reader(slave)
            second = asyncio.create_task(asker(make_request()))
            await screen.prompts.get()
            os.write(master, b"1\n")
            assert (await second).allowed
    finally:
        os.close(master)
        os.close(slave)


async def test_a_question_without_answers_is_refused() -> None:
    screen = AskedScreen()
    asker = PermissionPrompt(screen, screen.follower.floor, fd=0, cwd=Path("/project"), width=80)
    assert (await asker(make_request(options=()))).outcome == "cancelled"


def test_lasting_answers_of_the_agent_are_not_offered_twice() -> None:
    assert lasting_answers(make_request()) == ["always", "never"]
    offered = (Option("a", "Allow", "allow_once"), Option("A", "Always", "allow_always"))
    assert lasting_answers(msgspec.structs.replace(make_request(), options=offered)) == []


@pytest.mark.parametrize(("typed", "allowed"), [(b"always\n", True), (b" Never \n", False)])
async def test_a_word_gives_a_lasting_answer(typed: bytes, allowed: bool) -> None:
    master, slave = pty.openpty()
    screen = AskedScreen()
    asker = PermissionPrompt(screen, screen.follower.floor, fd=slave, cwd=Path("/project"), width=80)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            asking = asyncio.create_task(asker(make_request()))
            await screen.prompts.get()
            os.write(master, typed)
            answer = await asking
    finally:
        os.close(master)
        os.close(slave)
    assert (answer.allowed, answer.always) == (allowed, True)


def test_the_folder_and_variables_of_a_command_are_found_under_any_key() -> None:
    raw_input = {"command": "make", "workdir": "/elsewhere", "environment": [{"name": "CC", "value": "./x"}]}
    text = shown(make_request(command="make", raw_input=raw_input))
    assert "  in /elsewhere\n  with environment=[{'name': 'CC', 'value': './x'}]\n" in text
    unclear = shown(make_request(command="make", raw_input={"cwd": "/a", "dir": "/b"}))
    assert "  in a folder that the request does not make clear\n" in unclear


def test_files_named_only_in_the_input_are_shown_beside_a_diff() -> None:
    diff = Diff(path="/project/a", old_text="x", new_text="y")
    text = shown(make_request(diffs=(diff,), raw_input={"path": "a", "edits": [{"file_path": "/etc/passwd"}]}))
    assert "    + y\n  /etc/passwd\n" in text
    assert text.count("\n  a") == 2  # of the diff, and of our own word "always"


def test_files_beyond_the_limit_are_counted() -> None:
    text = shown(make_request(paths=tuple(f"/project/{number}" for number in range(1000))))
    assert "  … 984 more files\n" in text


def test_blanks_do_not_push_the_beginning_of_a_command_out_of_sight() -> None:
    text = shown(make_request(command=f"rm -rf ~;{' ' * 9_000}npm test\nls"))
    assert "  $ rm -rf ~;" in text
    assert "  … 7,817 more characters and 1 more line\n" in text
    assert "npm test" not in text
    assert len(text) < 2_000
    assert "npm test" in "".join(
        without_colours(spans)
        for spans in details(make_request(command=f"a{' ' * 9_000}npm test"), Path("/"), limited=False)
    )
    wide = Diff(path="/project/a", old_text=None, new_text=f"bad(){' ' * 9_000}good()\n")
    assert "    … 7,811 more characters\n" in shown(make_request(diffs=(wide,)))


def test_a_line_that_is_too_long_goes_on_indented() -> None:
    lines = [*fold_lines((Span("  $ " + "x" * 30), Span(" (dim)", "dim")), 20)]
    shown = ["".join(span.text for span in line) for line in lines]
    assert shown == ["  $ " + "x" * 15, "      " + "x" * 13, "      xx (dim)"]
    assert [*fold_lines((Span("  short"),), 20)] == [(Span("  short"),)]
    assert all(columns("".join(span.text for span in line)) < 20 for line in fold_lines((Span("漢" * 50),), 20))
