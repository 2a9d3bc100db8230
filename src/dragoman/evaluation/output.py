"""The output of a prompt: requested, accepted by the tool `structured_output` or from the text, and requested again.

One value is accepted in each round. An invalid one is answered with all its problems, and does not count; a second call
after a valid one is an error, and the first value stays. If the agent did not call the tool, the last JSON in its text
counts, if it is of the type: it is never repaired, and no earlier JSON is tried.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from dragoman.evaluation.tool import Tool, ToolError
from dragoman.evaluation.types import Invalid, Shape

OUTPUT_TOOL: Final = "structured_output"

# How much text is searched for an object or a list that is neither the whole text nor in a block.
MAX_SEARCHED_CHARS: Final = 1024 * 1024
# A `[` begins JSON or a footnote; in a text full of brackets the search ends after so many.
MAX_STARTS: Final = 10_000
# Problems that the next prompt repeats.
MAX_LISTED_PROBLEMS: Final = 20

_FENCE: Final = re.compile(r"(`{3,}|~{3,})([^`]*)")


class Output:
    """The output of one prompt, round by round."""

    def __init__(self, shape: Shape, *, has_tool: bool = True) -> None:
        self.shape = shape
        self.has_tool = has_tool  # the agent has the tool
        self.value: Any = None
        self.accepted = False
        self.problems: tuple[str, ...] = ()  # of the last value that was not accepted
        self._called = False

    @property
    def tool(self) -> Tool:
        """The tool by which the agent hands over the value; to be made once for each evaluation."""
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
        """Forget the value of the previous round: it was not accepted, or a guard objected."""
        self.value, self.accepted, self.problems, self._called = None, False, (), False

    async def offer(self, value: Any) -> str:
        """Accept a value, or refuse it by a `ToolError` for the agent. As a coroutine it handles one call at a time."""
        self._called = True
        if self.accepted:
            raise ToolError("A result was already accepted in this round; it stands. Do not call this tool again.")
        try:
            self._accept(self.shape.decode_object(value))
        except Invalid as error:
            self.problems = tuple(map(str, error.problems))
            wrong = "\n".join(f"- {each}" for each in self.problems)
            raise ToolError(
                f"This result does not fit, and was not accepted:\n{wrong}\nCorrect it and call again."
            ) from error
        return "Accepted. The task is done; say no more."

    def read(self, text: str) -> None:
        """Take the value from the text of a round that ended without an accepted value."""
        parsed = last_json(text)
        if isinstance(parsed, NoJson):
            if not self._called:
                called = f"{OUTPUT_TOOL} was not called, and " if self.has_tool else ""
                self.problems = (f"{called}{parsed.reason}",)
            return
        try:
            self._accept(self._from_text(parsed.value))
        except Invalid as error:
            self.problems = tuple(map(str, error.problems))

    def _from_text(self, value: Any) -> Any:
        """Return the value, which may be wrapped as for the tool."""
        try:
            return self.shape.decode(value)
        except Invalid:
            if not (self.shape.wrapped and isinstance(value, dict) and value.keys() == {"value"}):
                raise
            return self.shape.decode_object(value)

    def _accept(self, value: Any) -> None:
        self.value, self.accepted, self.problems = value, True, ()


# -- prompts


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


class ParsedJson(msgspec.Struct, frozen=True):
    value: Any


class NoJson(msgspec.Struct, frozen=True):
    reason: str


def last_json(text: str) -> ParsedJson | NoJson:
    """Return the last JSON in a text: the whole text, a fenced block, or an object or list between the words.

    Each character is looked at once, whatever an agent writes. Parts of broken JSON are not tried, nor, if the last
    block was meant as JSON and is invalid, an earlier one.
    """
    text = text.strip()
    whole = _parsed(text)
    if whole is not None:
        return whole
    end, block = _last_block(text)
    if len(text) - end > MAX_SEARCHED_CHARS:
        return NoJson("the answer is too long to look for JSON among its words")
    try:
        start, stop, broken = _last_among_words(text, end)
    except _TooMuchToSearch:
        return NoJson("too much in the answer looks like JSON and is not")
    meant = text[start:stop] if stop else block if end else text[broken:] if broken is not None else None
    if meant is None:
        return NoJson("there is no JSON in the answer")
    return _parsed(meant) or NoJson(f"the last JSON in the answer cannot be read: {_json_error(meant)}")


def _last_block(text: str) -> tuple[int, str]:
    """Return the end and the content of the last fenced JSON block; 0 if there is none."""
    last = (0, "")
    position, start = 0, 0
    fence, language = "", ""
    for line in text.split("\n"):
        before, position = position, position + len(line) + 1
        stripped = line.strip()
        if not fence:
            if match := _FENCE.fullmatch(stripped):
                fence, language, start = match[1], match[2].strip().lower(), position
        elif stripped.startswith(fence) and not stripped.strip(fence[0]):
            inside = text[start:before].strip()
            is_json = language.startswith("json") or (not language and inside.startswith(("{", "[")))
            if is_json or _parsed(inside) is not None:
                last = (position, inside)
            fence = ""
    return last


class _TooMuchToSearch(Exception):
    """The search stopped; the JSON so far need not be the last."""


def _last_among_words(text: str, position: int) -> tuple[int, int, int | None]:
    """Return start and end of the last object or list after a position, or 0, 0.

    The third value is the start of the last one that was meant as JSON and is broken.
    """
    last = (0, 0)
    broken = None
    for _ in range(MAX_STARTS):
        start = _START.search(text, position)
        if start is None:
            return *last, broken
        try:
            _, position = _DECODER.raw_decode(text, start.start())
            last = (start.start(), position)
        except json.JSONDecodeError as error:
            position = max(start.end(), error.pos)  # not a part of it, which could be taken for the whole
            broken = start.start() if _MEANT.match(text, start.start()) else broken
        except (ValueError, RecursionError):
            raise _TooMuchToSearch from None
    raise _TooMuchToSearch


def _parsed(text: str) -> ParsedJson | None:
    # msgspec's reader: Python's accepts NaN, half of a character and 1e999, none of which is JSON.
    try:
        return ParsedJson(msgspec.json.decode(text.encode()))
    except (ValueError, RecursionError):
        return None


def _json_error(text: str) -> str:
    """Return why a text is not JSON."""
    try:
        json.loads(text)  # its error has the line
        msgspec.json.decode(text.encode())
    except json.JSONDecodeError as error:
        return f"{error.msg} (its line {error.lineno}, column {error.colno})"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return str(error)
    raise AssertionError("it was no JSON a moment ago")


_START: Final = re.compile(r"[\[{]")
_DECODER: Final = json.JSONDecoder()
# Not a link in Markdown, a footnote, or a pair of braces in a program.
_MEANT: Final = re.compile(r'\{\s*"|\[\s*["{\[]')
