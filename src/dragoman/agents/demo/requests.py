"""What a person can ask of the demo agent, and which of it a prompt means.

`CATALOGUE` is the one table: the parser, the help text and the slash commands are all read from it. `parse` is pure
and never fails: what it does not recognise is a `chat`.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

Group: TypeAlias = Literal["Look", "Act", "Set", "Pour", "Break"]
Takes: TypeAlias = Literal["nothing", "only", "count", "seconds", "path", "command", "text"]

# More would only fill a disk: at full speed this already streams for a minute.
MOST_CHUNKS = 10_000_000
LONGEST_SLEEP = 86_400.0


class Ask(msgspec.Struct, frozen=True):
    """One thing that can be asked: `words` are what a prompt may begin with, the first being the usual one.

    `takes` says what may follow: "nothing" ignores the rest of the sentence, "only" wants the words to stand alone
    (nobody who writes "crash reports are missing" wants a crash). `default` stands in for what was left out; without
    one, the words alone are no request.
    """

    name: str
    words: tuple[str, ...]
    says: str
    group: Group
    takes: Takes = "nothing"
    hint: str = ""
    default: str | None = ""


class Intent(msgspec.Struct, frozen=True):
    """What a prompt means: the name of a scene, and what was said about it."""

    name: str
    text: str = ""  # a path, a command, a title, or the whole prompt
    number: float = 0.0  # how many, or how long
    line: str = ""  # what `edit FILE: LINE` shall append


CATALOGUE: tuple[Ask, ...] = (
    Ask("help", ("help", "what can you do", "what do you do", "?"), "this list", "Look"),
    Ask("tour", ("tour", "everything", "demo"), "a bit of everything", "Look"),
    Ask("plan", ("plan",), "a plan whose steps advance", "Look"),
    Ask("think", ("think", "thoughts"), "thoughts before the answer", "Look"),
    Ask("tools", ("tools", "tool calls", "tool call"), "a pretended tool call of each kind", "Look"),
    Ask("image", ("image", "picture", "draw"), "a small picture", "Look"),
    Ask("audio", ("audio", "sound", "beep"), "a short sound", "Look"),
    Ask("link", ("link", "resource"), "a link to a file, and a file inside the message", "Look"),
    Ask("usage", ("usage", "tokens"), "what this session has used", "Look"),
    Ask("mcp", ("mcp", "mcp servers"), "the MCP servers that the client named", "Look"),
    Ask("notice", ("notice",), "a notice, if the client shows them", "Look"),
    Ask("compact", ("compact", "compaction"), "a compaction, if the client shows them", "Look"),
    Ask("read", ("read",), "reads a file", "Act", "path", "FILE", "README"),
    Ask("edit", ("edit",), "appends a line to a file, if allowed", "Act", "path", "FILE", "README"),
    Ask("delete", ("delete", "remove"), "deletes a file, if allowed", "Act", "path", "FILE", None),
    Ask("run", ("run", "execute", "exec"), "runs a command, if allowed", "Act", "command", "COMMAND", "ls"),
    Ask("permission", ("permission", "ask permission", "ask for permission"), "asks permission, does nothing", "Act"),
    Ask("ask", ("ask me", "ask"), "asks you a question", "Act"),
    Ask("page", ("open page", "page"), "asks you to open a web page", "Act"),
    Ask("title", ("title", "rename"), "renames this session", "Set", "text", "TITLE", None),
    Ask(
        "mode", ("mode", "switch mode to", "switch to mode"), "switches between ask, code, plan", "Set", "text", "MODE"
    ),
    Ask("model", ("model", "use model", "switch model to"), "switches the model", "Set", "text", "NAME"),
    Ask("stream", ("stream",), "that many chunks, quickly", "Pour", "count", "N", "200"),
    Ask("slow", ("slow",), "that many words, one every half second", "Pour", "count", "N", "20"),
    Ask("sleep", ("sleep",), "is silent for that long", "Pour", "seconds", "SECONDS", "3"),
    Ask("flood", ("flood",), "chunks as fast as the pipe takes them", "Pour", "count", "N", "100000"),
    Ask("error", ("error", "fail"), "answers with an error", "Break", "only"),
    Ask("refuse", ("refuse", "refusal"), "stops with `refusal`", "Break", "only"),
    Ask("max tokens", ("max tokens", "max_tokens"), "stops with `max_tokens`", "Break", "only"),
    Ask("max turns", ("max turns", "max_turn_requests"), "stops with `max_turn_requests`", "Break", "only"),
    Ask("silent", ("silent", "silence", "say nothing"), "ends without a word", "Break", "only"),
    Ask("login", ("login", "log in"), "wants a login first", "Break", "only"),
    Ask("noise", ("noise", "garbage"), "writes lines that are no JSON to its stdout", "Break", "only"),
    Ask("stderr", ("stderr",), "writes that many lines to its stderr", "Break", "count", "N", "10"),
    Ask("crash", ("crash", "die"), "its process ends, with exit code 3", "Break", "only"),
    Ask("hang", ("hang", "freeze"), "never answers, and ignores cancel", "Break", "only"),
)

BY_NAME = {ask.name: ask for ask in CATALOGUE}

_WORDS: list[tuple[str, Ask]] = sorted(
    ((word, ask) for ask in CATALOGUE for word in ask.words), key=lambda pair: len(pair[0]), reverse=True
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
# "run the tests" names no command, and asking leave to run a program called `the` would help nobody.
_NO_COMMAND = re.compile(r"(?:the|a|an|my|your|all|some|it|this|that)\b", re.IGNORECASE)


def parse(prompt: str) -> Intent:
    """What the prompt asks for: by its first words, with or without a slash, courtesies skipped."""
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
    for word, ask in _WORDS:
        if lowered.startswith(word) and not lowered[len(word) : len(word) + 1].isalnum():
            return _intent(ask, text[len(word) :].strip())
    return None


def _intent(ask: Ask, rest: str) -> Intent | None:
    given = rest.strip(" \t\r\n:=") or ask.default
    match ask.takes:
        case "nothing":
            return Intent(ask.name, rest)
        case "only":
            return Intent(ask.name) if not rest.strip(" .!?,") or rest.strip(" .!?,").lower() == "please" else None
        case "count" | "seconds":
            return Intent(ask.name, number=_number(given or "", ask))
        case _ if given is None:
            return None
        case "path":
            path, line = _path(given)
            return Intent(ask.name, path, line=line) if path else None
        case "command":
            command = given.strip("`")
            return None if _NO_COMMAND.match(command) else Intent(ask.name, command)
        case "text":
            return Intent(ask.name, given.strip("\"'`"))


def _number(text: str, ask: Ask) -> float:
    found = _NUMBER.search(text) or _NUMBER.search(ask.default or "")
    assert found is not None, f"{ask.name} takes a number, and its default is one"
    digits, unit = found.groups()
    scale = {"k": 1_000, "m": 1_000_000}.get((unit or "").lower(), 1)
    value = float(digits.replace(",", "").replace("_", "")) * scale
    return min(value, LONGEST_SLEEP) if ask.takes == "seconds" else float(int(min(value, MOST_CHUNKS)))


def _path(text: str) -> tuple[str, str]:
    """The path that a sentence names, and the line after its colon: `"my notes.txt": buy milk`."""
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
    """Everything that can be asked, as Markdown."""
    heads: dict[Group, str] = {
        "Look": "To look at",
        "Act": "To do (it asks before it changes or runs anything)",
        "Set": "To set",
        "Pour": "To pour out",
        "Break": "To break, on purpose",
    }
    parts = ["Ask in plain words, or with a slash (`/plan`).\n"]
    for group, head in heads.items():
        lines = [f"- `{usage(ask)}`: {ask.says}" for ask in CATALOGUE if ask.group == group]
        parts.append("\n".join([f"**{head}**", *lines]) + "\n")
    return "\n".join(parts)


def usage(ask: Ask) -> str:
    return f"{ask.words[0]} {ask.hint}".strip()
