"""A request for an answer, independent of its API; and the reply to it: the next part of the script. Pure, no state.

The script is the last piece of the user's text that has directives. Each tool result after it moves the script past a
call; the reply goes from there to the next call. A request that offers no tools is an auxiliary one of the agent (a
title, a summary) and gets a fixed text, or the smallest JSON of the requested schema.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.testing.model.script import (
    Drop,
    Hang,
    Http,
    Say,
    SayFromRequest,
    ScriptError,
    Slow,
    Steps,
    Think,
    Tools,
    ToolUse,
    Usage,
    has_directives,
    parse,
    split_at_calls,
)

ABSENT: Final = msgspec.Raw(b"")
"""A part of a request that is absent; one that is present may have any shape."""


class User(Struct, frozen=True):
    """One piece of text in the user role. Agents add pieces of their own to those of the person."""

    text: str


class Assistant(Struct, frozen=True):
    """An earlier answer of the model; only the number of its tool calls matters."""

    calls: int = 0


class Result(Struct, frozen=True):
    """The result of one tool call."""

    text: str


Entry: TypeAlias = User | Assistant | Result


class Tool(Struct, frozen=True):
    """`custom` tools take text instead of JSON; `namespace` is a group that a call must name with the tool."""

    name: str
    kind: Literal["function", "custom"] = "function"
    namespace: str | None = None


class Conversation(Struct, frozen=True, kw_only=True):
    """A decoded request. `key` identifies its bytes: ids are made of it."""

    key: str
    model: str
    entries: tuple[Entry, ...]
    tools: tuple[Tool, ...] = ()
    stream: bool = False
    schema: msgspec.Raw = ABSENT  # the answer must be JSON of this schema
    usage_in_stream: bool = True
    size: int = 0  # bytes of the request, from which tokens are estimated


def is_present(part: msgspec.Raw) -> bool:
    return bytes(part) not in (b"", b"null")


def key_of_body(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def merge_answers(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Merge consecutive answers of the model into one."""
    out: list[Entry] = []
    for entry in entries:
        last = out[-1] if out else None
        if isinstance(entry, Assistant) and isinstance(last, Assistant):
            out[-1] = Assistant(last.calls + entry.calls)
        else:
            out.append(entry)
    return tuple(out)


class _Block(Struct, frozen=True):
    text: str | None = None


def text_of(content: msgspec.Raw) -> tuple[str, ...]:
    """Return the texts of a string or of a list of blocks, one per block; content of another shape as its JSON."""
    if not is_present(content):
        return ()
    try:
        blocks = _content_decoder.decode(content)
    except msgspec.ValidationError:
        return (bytes(content).decode(),)
    if isinstance(blocks, str):
        return (blocks,)
    return tuple(block.text for block in blocks if block.text is not None)


_content_decoder = msgspec.json.Decoder(str | list[_Block])


def sse_event(data: object, name: str | None = None) -> bytes:
    """Encode one server-sent event; `data` is JSON on one line."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"


AUXILIARY_REPLY: Final = "Scripted session"
TEXT_AFTER_END: Final = "Done."
# Enough to recognise a prompt by.
ECHOED_WORDS: Final = 12
# Few enough that a short sentence comes in several deltas, as from a real model.
WORDS_PER_DELTA: Final = 3


class Text(Struct, frozen=True):
    text: str


class Thought(Struct, frozen=True):
    text: str


class Call(Struct, frozen=True):
    id: str
    tool: Tool
    arguments: str  # JSON


class Pause(Struct, frozen=True):
    seconds: float


Part: TypeAlias = Text | Thought | Call | Pause | Drop


class Reply(Struct, frozen=True, kw_only=True):
    """The parts to send, in order. With a `status` of 400 or more, only the pauses count: the status follows them."""

    parts: tuple[Part, ...] = ()
    status: int = 200
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def calls(self) -> bool:
        return any(isinstance(part, Call) for part in self.parts)


def reply_to(conversation: Conversation, *, auxiliary_reply: str | None = AUXILIARY_REPLY) -> Reply:
    """Reply to a request. With `auxiliary_reply` None, requests without tools are scripted like the others."""
    if auxiliary_reply is not None and not conversation.tools:
        text = (
            _sample_text(conversation.schema, auxiliary_reply) if is_present(conversation.schema) else auxiliary_reply
        )
        return _reply(conversation, (Text(text),), None, 200)
    try:
        steps = current_steps(conversation)
    except ScriptError as error:
        return _reply(conversation, (Text(f"The script cannot be read: {error}"),), None, 200)
    if steps is None:
        return _reply(conversation, tuple(_deltas(_echo(conversation))), None, 200)
    parts = tuple(_parts(steps, conversation)) or tuple(_deltas(TEXT_AFTER_END))
    usage = next((step for step in steps if isinstance(step, Usage)), None)
    status = next((step.status for step in steps if isinstance(step, Http)), 200)
    return _reply(conversation, parts, usage, status)


def current_steps(conversation: Conversation) -> Steps | None:
    """Return the next steps of the script: None if the prompt has no script, empty after its end."""
    entries = conversation.entries
    scripted = (at for at, entry in enumerate(entries) if isinstance(entry, User) and has_directives(entry.text))
    begin = max(scripted, default=None)
    if begin is None or _superseded(conversation, begin):
        return None
    script = entries[begin]
    assert isinstance(script, User)
    results = sum(isinstance(entry, Result) for entry in entries[begin:])
    for steps in split_at_calls(parse(script.text)):
        calls = sum(len(step.uses) for step in steps if isinstance(step, Tools))
        if not results or not calls:
            return steps
        results = max(0, results - calls)
    return ()


def _superseded(conversation: Conversation, begin: int) -> bool:
    """Return whether a prompt without directives came after the script had been answered to its end.

    Only then: agents add text in the user's name beside a prompt and beside results, too.
    """
    *before, last = conversation.entries[begin:]
    answered = next((entry for entry in reversed(before) if not isinstance(entry, User)), None)
    return isinstance(last, User) and isinstance(answered, Assistant) and not answered.calls


def _parts(steps: Steps, conversation: Conversation) -> Iterator[Part]:
    for step in steps:
        match step:
            case Say(text):
                yield from _deltas(text)
            case Think(text):
                yield from (Thought(delta.text) for delta in _deltas(text))
            case Slow(count, seconds):
                for number in range(1, count + 1):
                    if number > 1:
                        yield Pause(seconds)
                    yield Text(f"word{number} ")
            case SayFromRequest(what):
                yield from _deltas(_request_text(what, conversation))
            case Hang(seconds):
                yield Pause(seconds)
            case Drop():
                yield step
            case Tools(uses):
                yield from _calls(uses, conversation)
            case Http() | Usage():
                pass


def _calls(uses: tuple[ToolUse, ...], conversation: Conversation) -> Iterator[Part]:
    for number, use in enumerate(uses):
        tool = choose(use.name, conversation.tools)
        if tool is None:
            offered = ", ".join(tool.name for tool in conversation.tools)
            yield Text(f"No tool {use.name} is offered; there are: {offered}.")
        else:
            yield Call(f"call_{conversation.key}_{number}", tool, use.arguments)


def choose(wanted: str, offered: tuple[Tool, ...]) -> Tool | None:
    """Return the tool that a script names. A plain name that is not offered is called all the same: models do that."""
    choices = wanted.split("|")
    for choice in choices:
        for tool in offered:
            if tool.name.endswith(choice[1:]) if choice.startswith("~") else tool.name == choice:
                return tool
    plain = [choice for choice in choices if not choice.startswith("~")]
    return Tool(plain[0]) if plain else None


def _request_text(what: str, conversation: Conversation) -> str:
    entries = conversation.entries
    match what:
        case "tools":
            return ", ".join(tool.name for tool in conversation.tools)
        case "result":
            return next((entry.text for entry in reversed(entries) if isinstance(entry, Result)), "no result")
        case _:
            scripts = [entry.text for entry in entries if isinstance(entry, User) and has_directives(entry.text)]
            texts = [step.text.strip() for text in scripts[:-1] for step in _readable(text) if isinstance(step, Say)]
            return "I said before: " + " | ".join(texts) if texts else "I said nothing before."


def _readable(text: str) -> Steps:
    try:
        return parse(text)
    except ScriptError:
        return ()


def _echo(conversation: Conversation) -> str:
    texts = [entry.text for entry in conversation.entries if isinstance(entry, User)]
    words = texts[-1].split() if texts else []
    return f"There is no script in this prompt. It begins: {' '.join(words[:ECHOED_WORDS])}"


def _deltas(text: str) -> Iterator[Text]:
    """Split the text into pieces of a few words; no piece goes beyond the end of a sentence."""
    piece = ""
    count = 0
    for word in re.findall(r"\s*\S+\s*|\s+", text):
        piece += word
        count += 1
        if count == WORDS_PER_DELTA or word.rstrip().endswith((".", "!", "?", ":")):
            yield Text(piece)
            piece, count = "", 0
    if piece:
        yield Text(piece)


def merge_parts(parts: Iterable[Part]) -> list[Text | Thought | Call]:
    """Merge the parts for an answer that is sent at once: no pauses, and text in one piece."""
    out: list[Text | Thought | Call] = []
    for part in parts:
        if isinstance(part, Pause | Drop):
            continue
        last = out[-1] if out else None
        if isinstance(part, Text) and isinstance(last, Text):
            out[-1] = Text(last.text + part.text)
        elif isinstance(part, Thought) and isinstance(last, Thought):
            out[-1] = Thought(last.text + part.text)
        else:
            out.append(part)
    return out


def _reply(conversation: Conversation, parts: tuple[Part, ...], usage: Usage | None, status: int) -> Reply:
    if usage is None:
        characters = sum(len(part.text) for part in parts if isinstance(part, Text | Thought))
        usage = Usage(_tokens(conversation.size), _tokens(characters))
    return Reply(parts=parts, status=status, input_tokens=usage.input, output_tokens=usage.output)


def _tokens(characters: int) -> int:
    """Estimate the tokens: four characters each is the usual rule of thumb for English."""
    return characters // 4 + 1


def _sample_text(schema: msgspec.Raw, text: str) -> str:
    return msgspec.json.encode(sample(msgspec.json.decode(schema), text)).decode()


def sample(schema: Any, text: str) -> Any:
    """Return the smallest value that fits the common parts of JSON Schema."""
    if not isinstance(schema, dict):
        return text
    if choices := schema.get("enum"):
        return choices[0]
    for union in ("anyOf", "oneOf"):
        if choices := schema.get(union):
            return sample(choices[0], text)
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = str(kinds[0] if isinstance(kinds, list) else kinds).lower()  # Gemini writes them in capitals
    match kind:
        case "object":
            properties = schema.get("properties", {})
            return {name: sample(properties.get(name), text) for name in schema.get("required") or properties}
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return 0
        case "null":
            return None
        case _:
            return text
