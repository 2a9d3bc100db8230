"""The agent's questions on a terminal: answered line by line on a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from dragoman.agents.demo.requests import DOCUMENT
from dragoman.cli.form import CAUTION, MAX_LINES, OpenPage, QuestionAsker
from dragoman.cli.output import Outbox
from dragoman.cli.screen import Screen, without_colours
from dragoman.host.question.question import CANCELLED, DECLINED, Question, QuestionAnswer, read_question
from dragoman.wire.messages import Request

from .conftest import Cli, On, without_looks

# Seconds until a test gives up waiting: far more than any step takes.
TIMEOUT_S = 20.0


class Person(Outbox):
    """A person at a terminal, who types the next of the lines at every question."""

    def __init__(self, *lines: str, width: int = 80, open_page: OpenPage | None = None) -> None:
        super().__init__()
        self.seen = ""
        self.was_asked = asyncio.Event()
        self._lines = list(lines)
        self.keyboard, self.fd = pty.openpty()
        screen = Screen(self, text_tty=True, notes_tty=True, shared=True, width=width, paint=without_colours)
        self.asker = QuestionAsker(screen, self._floor, fd=self.fd, width=width, open_page=open_page)

    def put(self, fd: int, data: bytes | str) -> None:
        self.seen += data if isinstance(data, str) else data.decode()

    async def flush(self) -> None:
        self.was_asked.set()
        if self._lines:
            os.write(self.keyboard, self._lines.pop(0).encode())

    @asynccontextmanager
    async def _floor(self) -> AsyncIterator[None]:
        yield

    async def answer(self, question: Question) -> QuestionAnswer:
        async with asyncio.timeout(TIMEOUT_S):
            answer = await self.asker(question)
        assert self._lines == [], "not all of it was asked for"
        return answer

    def close(self) -> None:
        os.close(self.keyboard)
        os.close(self.fd)


@pytest.fixture
def people() -> Iterator[list[Person]]:
    made: list[Person] = []
    yield made
    for person in made:
        person.close()


def question(**params: Any) -> Question:
    raw = msgspec.Raw(msgspec.json.encode({"sessionId": "a1", "message": "Please say:", **params}))
    return read_question(Request(1, "elicitation/create", raw, b""), agent="Claude Code")


def form(required: list[str] | None = None, /, **properties: Any) -> Question:
    return question(mode="form", requestedSchema={"properties": properties, "required": required})


def page(url: str = "https://example.org/login?code=1") -> Question:
    return question(mode="url", url=url, elicitationId="e1")


async def reply_to(people: list[Person], question: Question, *lines: str, **options: Any) -> tuple[QuestionAnswer, str]:
    """Answer a question by typing these lines; return the answer and the output."""
    person = Person(*lines, **options)
    people.append(person)
    return await person.answer(question), person.seen


def accepted(**content: Any) -> QuestionAnswer:
    return QuestionAnswer("accept", content)


DEMO = question(mode="form", requestedSchema=DOCUMENT.form)
NAME = {"type": "string", "title": "Your name"}


async def test_a_form_is_filled_field_by_field_and_reviewed_before_it_is_sent(people: list[Person]) -> None:
    answer, seen = await reply_to(people, DEMO, "2\n", "Ada\n", "\n", "1,3\n", "n\n", "s\n")
    assert answer == accepted(colour="green", name="Ada", files=1, languages=("Python", "Rust"), happy=False)
    assert seen.startswith("? Claude Code asks you\n  Please say:\n  About you\n")
    assert "  1/5  Which colour do you like best? (required)\n    1  Red\n    2  Green\n    3  Blue\n" in seen
    assert "Your answer (1-3): " in seen
    assert "    (a whole number, 0 to 10000)\nYour answer [1]: " in seen
    assert "Your answer (y/n) [y]: " in seen
    assert "    2  What may I call you?              Ada\n" in seen
    assert "    4  Which languages do you use?       Python, Rust\n" in seen


async def test_fields_that_were_left_out_are_not_sent(people: list[Person]) -> None:
    answer, seen = await reply_to(people, DEMO, "red\n", "\n", "/skip\n", "\n", "/skip\n", "s\n")
    assert answer == accepted(colour="red")
    assert seen.count("(left out)") == 4


async def test_an_invalid_answer_is_explained_and_asked_for_again(people: list[Person]) -> None:
    question = form(["n"], n={"type": "integer", "minimum": 3, "title": "How many?"})
    answer, seen = await reply_to(people, question, "\n", "/skip\n", "many\n", "2\n", "3\n")
    assert answer == accepted(n=3)
    assert seen.count("  It is required.\n") == 2
    assert "  It is 'many'; expected a whole number.\n" in seen
    assert "  It is 2; it must be at least 3.\n" in seen


async def test_going_back_offers_the_earlier_answer(people: list[Person]) -> None:
    question = form(a=NAME, b=NAME)
    answer, seen = await reply_to(people, question, "/back\n", "Ada\n", "/back\n", "\n", "Bob\n", "1\n", "Eve\n", "s\n")
    assert answer == accepted(a="Eve", b="Bob")
    assert "Your answer [Ada]: " in seen


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["/decline\n"], DECLINED),
        (["/cancel\n"], CANCELLED),
        (["Ada\n", "/decline\n"], DECLINED),
        (["Ada\n", "Bob\n", "d\n"], DECLINED),
        (["Ada\n", "Bob\n", "c\n"], CANCELLED),
        (["Ada\n", "Bob\n", "\n", "x\n", "/back\n", "3\n", "/cancel\n"], CANCELLED),
        (["\x04"], CANCELLED),
        (["Ada\n", "Bob\n", "\x04"], CANCELLED),
    ],
)
async def test_declining_and_cancelling_differ_at_every_step(
    people: list[Person], lines: list[str], answer: QuestionAnswer
) -> None:
    given, seen = await reply_to(people, form(a=NAME, b=NAME), *lines)
    assert given == answer
    assert ("No answer: cancelled." in seen) is ("\x04" in lines)


async def test_a_single_field_is_sent_as_it_was_typed(people: list[Person]) -> None:
    answer, seen = await reply_to(people, form(name=NAME), " Ada Lovelace \n")
    assert answer == accepted(name="Ada Lovelace")
    assert "Your answers" not in seen
    assert "1/1" not in seen


async def test_a_form_without_fields_asks_for_consent(people: list[Person]) -> None:
    for line, answer in [("1\n", accepted()), ("2\n", DECLINED), ("3\n", CANCELLED)]:
        assert (await reply_to(people, form(), line))[0] == answer


async def test_choosing_none_of_several_answers_a_required_field(people: list[Person]) -> None:
    tags = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
    assert (await reply_to(people, form(["tags"], tags=tags), "\n"))[0] == accepted(tags=())
    assert (await reply_to(people, form(tags=tags), "\n"))[0] == accepted()


async def test_text_typed_before_the_question_does_not_answer_it(people: list[Person]) -> None:
    person = Person("second\n")
    people.append(person)
    os.write(person.keyboard, b"first\n")
    assert await person.answer(form(name=NAME)) == accepted(name="second")


async def test_a_cancelled_question_stops_listening_at_once(people: list[Person]) -> None:
    person = Person()
    people.append(person)
    async with asyncio.timeout(TIMEOUT_S):
        task = asyncio.create_task(person.asker(form(name=NAME)))
        await person.was_asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not asyncio.get_running_loop().remove_reader(person.fd)


async def test_a_question_for_a_secret_comes_with_a_warning(people: list[Person]) -> None:
    _, seen = await reply_to(people, form(api_key={"type": "string"}), "/cancel\n")
    assert CAUTION in " ".join(seen.split())
    assert CAUTION not in " ".join((await reply_to(people, form(name=NAME), "/cancel\n"))[1].split())


async def test_an_agents_text_cannot_act_on_the_terminal_or_look_like_ours(people: list[Person]) -> None:
    nasty = "Look\x1b[2J\rat\u202e this\nYour answer (1-4): 1\n" + "more\n" * 99
    choices = [{"const": "a", "title": "\x1b[31mRed\n9  Blue", "description": "x\ny"}]
    field = {"type": "string", "title": "T\n? Claude Code asks you", "description": nasty, "oneOf": choices}
    question = msgspec.structs.replace(form(a=field), message=nasty, agent="\x1b[1mClaude\nCode")
    _, seen = await reply_to(people, question, "/cancel\n")
    assert all(character.isprintable() or character == "\n" for character in seen)
    assert seen.count("\nYour answer") == 1  # our own prompt; the agent's text is indented
    assert "\n? " not in seen
    assert "    1  Red 9 Blue  x y\n" in seen
    assert seen.count("more lines") == 2
    assert seen.count("  more\n") < 2 * MAX_LINES


async def test_a_question_is_never_truncated(people: list[Person]) -> None:
    title = "Which of the many branches shall be merged into the release branch, once the tests have passed?"
    _, seen = await reply_to(people, form(["a"], a={"type": "string", "title": title}), "/cancel\n", width=40)
    assert f"{title} (required)" in " ".join(seen.split())
    host = "a-very-long-name-of-a-host.that-looks-like-another.example.org"
    _, seen = await reply_to(people, page(f"https://{host}/"), "3\n", width=40)
    assert f"on {host}Please say:" in seen.replace("\n  ", "")


@pytest.mark.parametrize("width", [40, 80])
async def test_lines_fit_the_terminal(people: list[Person], width: int) -> None:
    _, seen = await reply_to(people, DEMO, "1\n", "Ada\n", "\n", "1\n", "\n", "s\n", width=width)
    ours = [line for line in seen.split("\n") if "): " not in line]
    assert max(map(len, ours)) <= width
    assert all(len(line) <= width for line in seen.split("\n") if line.startswith("Send"))


async def test_a_page_is_shown_whole_and_opened_only_with_consent(people: list[Person]) -> None:
    opened: list[str] = []

    async def open_page(url: str) -> bool:
        opened.append(url)
        return True

    answer, seen = await reply_to(people, page(), "2\n", open_page=open_page)
    assert (answer, opened) == (QuestionAnswer("accept"), [])
    assert seen.startswith("? Claude Code asks you to open a page on example.org\n")
    assert "  https://example.org/login?code=1\n" in seen
    assert (await reply_to(people, page(), "3\n", open_page=open_page))[0] == DECLINED
    assert (await reply_to(people, page(), "4\n", open_page=open_page))[0] == CANCELLED
    assert (await reply_to(people, page(), "\x04", open_page=open_page))[0] == CANCELLED
    assert opened == []
    assert (await reply_to(people, page(), "0\n", "1\n", open_page=open_page))[0] == QuestionAnswer("accept")
    assert opened == ["https://example.org/login?code=1"]


async def test_a_browser_that_does_not_start_leaves_it_to_the_person(people: list[Person]) -> None:
    async def open_page(url: str) -> bool:
        return False

    answer, seen = await reply_to(people, page(), "1\n", "2\n", open_page=open_page)
    assert answer == DECLINED
    assert "No browser could be started" in seen


async def test_without_a_browser_none_is_offered(people: list[Person]) -> None:
    answer, seen = await reply_to(people, page(f"https://example.org/{'a' * 200}"), "1\n")
    assert answer == QuestionAnswer("accept")
    assert "Open it in the browser" not in seen
    assert f"  https://example.org/{'a' * 200}\n" in seen  # whole, also where it is long


async def test_a_host_name_with_lookalike_letters_comes_with_a_warning(people: list[Person]) -> None:
    _, seen = await reply_to(people, page("https://gооgle.com/"), "3\n")  # two of the letters are Cyrillic
    assert "page on xn--ggle-55da.com" in seen
    assert "letters that may look like others" in seen


def test_a_run_asks_in_place_and_the_agent_has_the_answer(on_terminal: On) -> None:
    terminal = on_terminal("run", "ask me")
    for line in (b"2\n", b"Ada\n", b"\n", b"/skip\n", b"n\n"):
        terminal.until(b"Your answer")
        terminal.until(b": ")
        terminal.type(line)
    terminal.until(b"cancel (c): ")
    terminal.type(b"s\n")
    output = without_looks(terminal.rest())
    assert "• colour: green" in output  # the list is rendered from Markdown
    assert "• happy: False" in output
    assert "languages" not in output
    assert terminal.code() == 0


@pytest.mark.parametrize(("line", "reply"), [(b"/decline\n", "rather not answer"), (b"\x04", "closed the question")])
def test_the_agent_learns_whether_the_user_declined_or_cancelled(on_terminal: On, line: bytes, reply: str) -> None:
    terminal = on_terminal("run", "ask me")
    terminal.until(b"Your answer")
    terminal.type(line)
    assert reply in terminal.rest()
    assert terminal.code() == 0


def test_a_page_is_asked_about_in_a_run(on_terminal: On) -> None:
    terminal = on_terminal("run", "open page", env={"NO_BROWSER": "1"})
    assert "https://" in terminal.until(b"Your answer (1-3): ").decode()
    terminal.type(b"1\n")
    assert "You opened the page." in terminal.rest()
    assert terminal.code() == 0


def test_without_a_terminal_questions_are_not_offered_to_the_agent(cli: Cli) -> None:
    done = cli("run", "ask me")
    assert "does not offer questions with forms" in done.out
