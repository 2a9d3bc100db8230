"""The output of a prompt: asked for, taken by the tool `structured_output` or from the text, and asked for again.

One value is accepted a round. A bad one is answered with all that is wrong with it, and does not count; a second call
after a good one is an error, and the first is kept. Where the agent did not call the tool, the last JSON in its text
counts, if it is of the type: it is never mended, and none before it is tried.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from dragoman.evaluation.tool import Tool, ToolError
from dragoman.evaluation.types import Invalid, Shape

OUTPUT_TOOL: Final = "structured_output"

# Characters among which an object or a list is looked for, where it is not the whole text and in no block.
MOST_TEXT: Final = 1024 * 1024
# A `[` begins JSON or a footnote; a text of nothing but brackets is given up on after so many.
MOST_STARTS: Final = 10_000
# Problems that the next prompt lists.
MAX_LISTED_PROBLEMS: Final = 20

_FENCE: Final = re.compile(r"(`{3,}|~{3,})([^`]*)")


class Output:
    """The output of one prompt, round by round."""

    def __init__(self, shape: Shape, *, has_tool: bool = True) -> None:
        self.shape = shape
        self._has_tool = has_tool  # the agent was given it
        self.value: Any = None
        self.accepted = False
        self.problems: tuple[str, ...] = ()  # of the last value that was not accepted
        self._called = False

    @property
    def tool(self) -> Tool:
        """Made once for each evaluation: it is the way in."""
        return Tool(
            self.offer,
            name=OUTPUT_TOOL,
            description=(
                "Hand over the final result of the task, once, when the work is done. "
                "A result that does not fit the schema is answered with what is wrong: correct it and call again."
            ),
            read_only=True,
            input_schema=self.shape.object_schema,
        )

    def begin_round(self) -> None:
        """The value of the round before was not good enough, whoever stripped so."""
        self.value, self.accepted, self.problems, self._called = None, False, (), False

    async def offer(self, value: Any) -> str:
        """The tool itself, on the loop: of two calls at once one is the first. `ToolError` has words for the agent."""
        self._called = True
        if self.accepted:
            raise ToolError("A result was already accepted in this round; it stands. Do not call this tool again.")
        try:
            self._accept(self.shape.decode_object(value))
        except Invalid as problem:
            self.problems = tuple(map(str, problem.problems))
            wrong = "\n".join(f"- {each}" for each in self.problems)
            raise ToolError(
                f"This result does not fit, and was not accepted:\n{wrong}\nCorrect it and call again."
            ) from problem
        return "Accepted. The task is done; say no more."

    def read(self, text: str) -> None:
        """The text of a round that ended without an accepted value."""
        found = last_json(text)
        if isinstance(found, NoJson):
            if not self._called:
                called = f"{OUTPUT_TOOL} was not called, and " if self._has_tool else ""
                self.problems = (f"{called}{found.why}",)
            return
        try:
            self._accept(self._from_text(found.value))
        except Invalid as problem:
            self.problems = tuple(map(str, problem.problems))

    def _from_text(self, value: Any) -> Any:
        """In a text the value may stand as it is, or wrapped as the tool wants it."""
        try:
            return self.shape.decode(value)
        except Invalid:
            if not (self.shape.wrapped and isinstance(value, dict) and value.keys() == {"value"}):
                raise
            return self.shape.decode_object(value)

    def _accept(self, value: Any) -> None:
        self.value, self.accepted, self.problems = value, True, ()


# -- words


def instructions(shape: Shape, *, has_tool: bool) -> str:
    """Return the instructions that are added to the prompt."""
    schema = msgspec.json.encode(shape.object_schema if has_tool else shape.schema).decode()
    if has_tool:
        return (
            f"When the work is done, hand over the result by calling the tool `{OUTPUT_TOOL}` once, with arguments "
            "that fit its schema. Nothing else counts as the result. Should you not have that tool, end your answer "
            f"with the result as JSON in a ```json block, and nothing after it. The schema:\n{schema}"
        )
    return (
        "When the work is done, end your answer with the result as JSON in a ```json block, and nothing after it. "
        f"It must fit this JSON Schema:\n{schema}"
    )


def follow_up(problems: tuple[str, ...], *, has_tool: bool) -> str:
    """Return the prompt that follows a round without a valid value."""
    listed = "\n".join(f"- {each}" for each in problems[:MAX_LISTED_PROBLEMS])
    how = (
        f"Call the tool `{OUTPUT_TOOL}` now, once" if has_tool else "Answer now with the JSON in a ```json block alone"
    )
    also = ", or, should you not have it, answer with the JSON in a ```json block alone" if has_tool else ""
    return f"There is no valid result yet:\n{listed}\nThe work need not be done again. {how}{also}."


# -- JSON in a text


class Found(msgspec.Struct, frozen=True):
    value: Any


class NoJson(msgspec.Struct, frozen=True):
    why: str


def last_json(text: str) -> Found | NoJson:
    """The JSON that ends last in a text: the whole of it, a fenced block, or an object or list among the words.

    One look at each character, whatever an agent writes. A piece of broken JSON is not tried, nor, where the last
    block was meant as JSON and is none, one before it.
    """
    text = text.strip()
    whole = _parsed(text)
    if whole is not None:
        return whole
    end, block = _last_block(text)
    if len(text) - end > MOST_TEXT:
        return NoJson("the answer is too long to look for JSON among its words")
    try:
        start, stop, broken = _last_among_words(text, end)
    except _GivenUp:
        return NoJson("too much in the answer looks like JSON and is none")
    meant = text[start:stop] if stop else block if end else text[broken:] if broken is not None else None
    if meant is None:
        return NoJson("there is no JSON in the answer")
    return _parsed(meant) or NoJson(f"the last JSON in the answer cannot be read: {_wrong_with(meant)}")


def _last_block(text: str) -> tuple[int, str]:
    """Return the end and the content of the last fenced JSON block; 0 if there is none."""
    last = (0, "")
    position, began = 0, 0
    fence, named = "", ""
    for line in text.split("\n"):
        before, position = position, position + len(line) + 1
        stripped = line.strip()
        if not fence:
            if opened := _FENCE.fullmatch(stripped):
                fence, named, began = opened[1], opened[2].strip().lower(), position
        elif stripped.startswith(fence) and not stripped.strip(fence[0]):
            inside = text[began:before].strip()
            meant = named.startswith("json") or (not named and inside.startswith(("{", "[")))
            if meant or _parsed(inside) is not None:
                last = (position, inside)
            fence = ""
    return last


class _GivenUp(Exception):
    """Too much to look through; what was found so far need not be the last."""


def _last_among_words(text: str, position: int) -> tuple[int, int, int | None]:
    """From where to where the last object or list after a position goes; 0, 0 where there is none.

    Then also where the last began that was meant as one, and is broken.
    """
    last = (0, 0)
    broken = None
    for _ in range(MOST_STARTS):
        start = _START.search(text, position)
        if start is None:
            return *last, broken
        try:
            _, position = _DECODER.raw_decode(text, start.start())
            last = (start.start(), position)
        except json.JSONDecodeError as problem:
            position = max(start.end(), problem.pos)  # not a piece of it, which would pass for the whole
            broken = start.start() if _MEANT.match(text, start.start()) else broken
        except (ValueError, RecursionError):
            raise _GivenUp from None
    raise _GivenUp


def _parsed(text: str) -> Found | None:
    # msgspec's reader, for Python's takes what is no JSON (NaN), no text (half of a character) and no number (1e999).
    try:
        return Found(msgspec.json.decode(text.encode()))
    except (ValueError, RecursionError):
        return None


def _wrong_with(text: str) -> str:
    """Of a text that is no JSON."""
    try:
        json.loads(text)  # it tells the line, where it finds something
        msgspec.json.decode(text.encode())
    except json.JSONDecodeError as problem:
        return f"{problem.msg} (its line {problem.lineno}, column {problem.colno})"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as problem:
        return str(problem)
    raise AssertionError("it was no JSON a moment ago")


_START: Final = re.compile(r"[\[{]")
_DECODER: Final = json.JSONDecoder()
# No link in Markdown, no footnote, no pair of braces in a program.
_MEANT: Final = re.compile(r'\{\s*"|\[\s*["{\[]')
