"""The script in a prompt: directives between double brackets, read into steps.

    [[say:TEXT]]             says TEXT, in several deltas
    [[think:TEXT]]           thinks it
    [[slow:N:S]]             says N words, S seconds between them
    [[tool:NAME {json}]]     calls a tool; the rest waits for its result
    [[tool:A {…} + B {…}]]   calls several at once
    [[result]]               says what the last tool returned
    [[recall]]               says what earlier prompts of this conversation had it say
    [[tools]]                says which tools it was offered
    [[hang:S]]               is silent for S seconds
    [[http:CODE]]            answers the request with this HTTP status
    [[drop]]                 closes the connection in the middle of the answer
    [[usage:IN:OUT]]         reports these numbers of tokens
    [[begin]]                forgets all that stands before it

Text outside of directives is ignored: agents put much around a prompt. Nothing here knows an API or a request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct


class Say(Struct, frozen=True):
    text: str


class Think(Struct, frozen=True):
    text: str


class Slow(Struct, frozen=True):
    count: int
    seconds: float


class ToolUse(Struct, frozen=True):
    """`name` is as the script has it: a name, `~` and a name's end, or several of these with `|` between."""

    name: str
    arguments: str  # JSON


class Tools(Struct, frozen=True):
    """Tool calls, with which an answer ends: the rest of the script answers the request that brings their results."""

    uses: tuple[ToolUse, ...]


class SayFromRequest(Struct, frozen=True):
    """Says something that only the request knows."""

    what: Literal["result", "recall", "tools"]


class Hang(Struct, frozen=True):
    seconds: float


class Http(Struct, frozen=True):
    status: int


class Drop(Struct, frozen=True):
    pass


class Usage(Struct, frozen=True):
    input: int
    output: int


Step: TypeAlias = Say | Think | Slow | Tools | SayFromRequest | Hang | Http | Drop | Usage
Steps: TypeAlias = tuple[Step, ...]

# Only our own words: shell tests and wiki links have double brackets too.
_DIRECTIVE: Final = re.compile(
    r"\[\[(say|think|slow|tools|tool|result|recall|hang|http|drop|usage|begin)(?::|(?=\]\]))", re.DOTALL
)
_NAME: Final = re.compile(r"\s*([^\s{}\[\]+]+)\s*")
_NEXT: Final = re.compile(r"\s*(\+|\]\])")
# Some agents join a prompt that came to nothing with the next one, into one text.
BEGIN: Final = "[[begin]]"
# A model that hangs for longer is a mistake in the script, and would outlive the test that has it.
MAX_PAUSE_S: Final = 3600.0
MAX_WORDS: Final = 1_000_000


class ScriptError(ValueError):
    """A directive that cannot be read. The server says it in place of the answer, so that the author sees it."""


def has_directives(text: str) -> bool:
    return _DIRECTIVE.search(text) is not None


def parse(text: str) -> tuple[Step, ...]:
    """Return the steps of all directives in a text after its last `[[begin]]`, in order. Raise `ScriptError`."""
    return tuple(_steps(text.rpartition(BEGIN)[2]))


def split_at_calls(steps: tuple[Step, ...]) -> tuple[Steps, ...]:
    """Split the steps by model request: each part but the last ends with tool calls."""
    found: list[Steps] = []
    begin = 0
    for index, step in enumerate(steps):
        if isinstance(step, Tools):
            found.append(steps[begin : index + 1])
            begin = index + 1
    return (*found, steps[begin:])


def _steps(text: str) -> Iterator[Step]:
    position = 0
    while found := _DIRECTIVE.search(text, position):
        name = found[1]
        if name == "tool":
            uses, position = _uses(text, found.end())
            yield Tools(uses)
            continue
        end = text.find("]]", found.end())
        if end < 0:
            raise ScriptError(f"[[{name} has no end; expected ]] after {text[found.end() :][:40]!r}")
        yield _step(name, text[found.end() : end])
        position = end + 2


def _step(name: str, value: str) -> Step:
    match name:
        case "say":
            return Say(value)
        case "think":
            return Think(value)
        case "slow":
            count, seconds = _fields(name, value, "N:S, a number of words and the seconds between them", 2)
            return Slow(int(_number(name, count, MAX_WORDS, whole=True)), _number(name, seconds, MAX_PAUSE_S))
        case "hang":
            return Hang(_number(name, value, MAX_PAUSE_S))
        case "http":
            status = int(_number(name, value, 599, whole=True))
            if status < 400:
                raise ScriptError(f"[[http:{value}]]: expected a status of 400 to 599")
            return Http(status)
        case "usage":
            tokens = _fields(name, value, "IN:OUT, two numbers of tokens", 2)
            return Usage(*(int(_number(name, count, 2**53, whole=True)) for count in tokens))
        case "drop":
            return Drop()
        case "result" | "recall" | "tools":
            return SayFromRequest(name)
        case _:
            raise AssertionError(name)


def _uses(text: str, position: int) -> tuple[tuple[ToolUse, ...], int]:
    uses = []
    while True:
        name = _NAME.match(text, position)
        if name is None:
            raise ScriptError(f"[[tool: needs a tool's name; got {text[position:][:40]!r}")
        position = name.end()
        arguments = "{}"
        if text[position : position + 1] in ("{", '"'):
            # The decoder finds the end: brackets inside of strings are not ours.
            try:
                _, end = _json.raw_decode(text, position)
            except ValueError as error:
                raise ScriptError(f"[[tool:{name[1]}: the arguments are not JSON: {error}") from None
            arguments, position = text[position:end], end
        uses.append(ToolUse(name[1], msgspec.json.format(arguments, indent=-1)))
        after = _NEXT.match(text, position)
        if after is None:
            raise ScriptError(f"[[tool:{name[1]}: expected ]] or + after it; got {text[position:][:40]!r}")
        position = after.end()
        if after[1] == "]]":
            return tuple(uses), position


_json: Final = json.JSONDecoder()


def _fields(name: str, value: str, expected: str, count: int) -> list[str]:
    fields = value.split(":")
    if len(fields) != count:
        raise ScriptError(f"[[{name}:{value}]]: expected {expected}")
    return fields


def _number(name: str, value: str, most: float, *, whole: bool = False) -> float:
    try:
        number = int(value) if whole else float(value)
    except ValueError:
        raise ScriptError(f"[[{name}:…]]: {value!r} is no {'whole ' if whole else ''}number") from None
    if not 0 <= number <= most:
        raise ScriptError(f"[[{name}:…]]: {value} is not between 0 and {most:g}")
    return number
