"""The data of the demo agent (demo.toml), and which of its requests a prompt means.

`parse_prompt` is pure and never fails: a prompt that it does not recognise is a `chat`.
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec

from dragoman.wire import vocabulary as acp

Group: TypeAlias = Literal["Look", "Act", "Set", "Pour", "Break"]
Takes: TypeAlias = Literal["nothing", "only", "count", "seconds", "path", "command", "text"]

# More would only fill a disk: at full speed this already streams for a minute.
MAX_CHUNKS = 10_000_000
MAX_SLEEP_S = 86_400.0


class PretendedTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call that does nothing. `fails`: the reason that it fails with."""

    kind: acp.ToolKind
    title: str
    fails: str | None = None


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of a scene; one of the fields is set."""

    say: str | None = None
    think: str | None = None
    plan: tuple[str, ...] | None = None
    tool: PretendedTool | None = None
    show: Literal["image", "audio", "folder_link", "embedded_file"] | None = None
    stop: acp.StopReason | None = None
    error: str | None = None


class DemoRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that can be asked. demo.toml describes the fields."""

    name: str
    words: tuple[str, ...]
    description: str
    group: Group
    takes: Takes = "nothing"
    hint: str = ""
    default: str = ""
    required: bool = False
    steps: tuple[Step, ...] | None = None

    @property
    def usage(self) -> str:
        return f"{self.words[0]} {self.hint}".strip()


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A config option with named values; the first is the default."""

    id: str
    name: str
    category: str
    description: str
    options: tuple[acp.SessionConfigSelectOption, ...]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    welcome: str
    suggestions: str
    large_model_addition: str
    default_mode: str
    groups: dict[Group, str]
    mode: tuple[acp.SessionMode, ...]
    choice: tuple[Choice, ...]
    context_size: dict[str, int]
    form: acp.ElicitationSchema
    request: tuple[DemoRequest, ...]


class Intent(msgspec.Struct, frozen=True):
    """The meaning of a prompt: the name of a scene, and its arguments."""

    name: str
    text: str = ""  # a path, a command, a title, or the whole prompt
    number: float = 0.0  # a count, or seconds
    line: str = ""  # the line that `edit FILE: LINE` appends


DOCUMENT = msgspec.convert(
    tomllib.loads(files("dragoman.agents.demo").joinpath("demo.toml").read_text("utf-8")), _Document
)
REQUESTS = DOCUMENT.request
REQUESTS_BY_NAME = {request.name: request for request in REQUESTS}

_WORDS: list[tuple[str, DemoRequest]] = sorted(
    ((word, request) for request in REQUESTS for word in request.words), key=lambda pair: len(pair[0]), reverse=True
)

_COURTESY = re.compile(
    r"(?:(?:please|pls|kindly|hey|hi|hello|ok|okay|now|then|just|can you|could you|would you|will you|"
    r"i want you to|i would like you to|i'd like you to|let's|show me|show|give me|make|do|take|another|an|a|the|some)"
    r"\b[\s,.!:]*)+",
    re.IGNORECASE,
)
_GREETING = re.compile(r"(?:hello|hi|hey|good (?:morning|day|evening)|greetings)\b[\s\w,.!]{0,20}$", re.IGNORECASE)
_NUMBER = re.compile(r"(\d[\d_,]*(?:\.\d+)?)\s*([km]\b)?", re.IGNORECASE)
_BEFORE_A_PATH = re.compile(r"(?:(?:the|my|a|this|file|named|called)\s+)+", re.IGNORECASE)
# "run the tests" names no command: there is no program called `the`.
_NO_COMMAND = re.compile(r"(?:the|a|an|my|your|all|some|it|this|that)\b", re.IGNORECASE)


def parse_prompt(prompt: str) -> Intent:
    """Recognise a request by the first words of the prompt, with or without a slash, skipping courtesies."""
    text = prompt.strip()
    if text.startswith("/"):
        return _recognise(text[1:]) or Intent("unknown", text.split()[0])
    if intent := _recognise(text):
        return intent
    if _GREETING.match(text):
        return Intent("hello", text)
    courtesy = _COURTESY.match(text)
    if courtesy and (intent := _recognise(text[courtesy.end() :])):
        return intent
    return Intent("chat", text)


def _recognise(text: str) -> Intent | None:
    lowered = text.lower()
    for word, request in _WORDS:
        if lowered.startswith(word) and not lowered[len(word) : len(word) + 1].isalnum():
            return _intent(request, text[len(word) :].strip())
    return None


def _intent(request: DemoRequest, rest: str) -> Intent | None:
    argument = rest.strip(" \t\r\n:=") or request.default
    match request.takes:
        case "nothing":
            return Intent(request.name, rest)
        case "only":
            return Intent(request.name) if not rest.strip(" .!?,") or rest.strip(" .!?,").lower() == "please" else None
        case "count" | "seconds":
            return Intent(request.name, number=_number(argument, request))
        case _ if request.required and not argument:
            return None
        case "path":
            path, line = _split_path(argument)
            return Intent(request.name, path, line=line) if path else None
        case "command":
            command = argument.strip("`")
            return None if _NO_COMMAND.match(command) else Intent(request.name, command)
        case "text":
            return Intent(request.name, argument.strip("\"'`"))


def _number(text: str, request: DemoRequest) -> float:
    match = _NUMBER.search(text) or _NUMBER.search(request.default)
    assert match is not None, f"the default of {request.name} is a number"
    digits, unit = match.groups()
    scale = {"k": 1_000, "m": 1_000_000}.get((unit or "").lower(), 1)
    value = float(digits.replace(",", "").replace("_", "")) * scale
    return min(value, MAX_SLEEP_S) if request.takes == "seconds" else float(int(min(value, MAX_CHUNKS)))


def _split_path(text: str) -> tuple[str, str]:
    """Split a sentence into the path that it names and the line after its colon: `"my notes.txt": buy milk`."""
    before = _BEFORE_A_PATH.match(text)
    if before and before.end() < len(text):
        text = text[before.end() :]
    if text[0] in "\"'`" and (end := text.find(text[0], 1)) > 0:
        path, rest = text[1:end], text[end + 1 :]
    else:
        path, _, rest = text.partition(" ")
        if path.endswith(":"):
            path, rest = path[:-1], ":" + rest
        path = path.rstrip(",;!?").removesuffix(".") if path.strip(".") else path
    return path, rest[1:].strip() if rest.startswith(":") else ""


def help_text() -> str:
    """Describe all requests, as Markdown."""
    parts = ["Ask in plain words, or with a slash (`/plan`).\n"]
    for group, heading in DOCUMENT.groups.items():
        lines = [f"- `{request.usage}`: {request.description}" for request in REQUESTS if request.group == group]
        parts.append("\n".join([f"**{heading}**", *lines]) + "\n")
    return "\n".join(parts)
