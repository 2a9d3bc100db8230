"""Which part of the script answers a request: pure, and without a memory.

The script is the last piece of the user's text that has directives. Each result of a tool that came after it moves the
script past a call; the answer is what stands from there to the next call. A request that offers no tools is an agent's
errand (a title, a summary) and gets a fixed text, or the smallest JSON of the schema that it asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.testing.model.conversation import Assistant, Conversation, Result, Tool, User, given
from dragoman.testing.model.script import (
    Drop,
    Hang,
    Http,
    Say,
    ScriptError,
    Slow,
    Tell,
    Think,
    Tools,
    ToolUse,
    Turn,
    Usage,
    has_directives,
    parse,
    turns,
)

ERRAND: Final = "Scripted session"
AFTER_THE_END: Final = "Done."
# Enough to recognise a prompt by.
ECHOED_WORDS: Final = 12
# Few enough that a short sentence comes in several deltas, as from a real model.
WORDS_A_DELTA: Final = 3


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
    """What to send, in order. With a `status` of 400 or more the parts are what to wait for before it is sent."""

    parts: tuple[Part, ...] = ()
    status: int = 200
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def calls(self) -> bool:
        return any(isinstance(part, Call) for part in self.parts)


def reply_to(conversation: Conversation, *, errand: str | None = ERRAND) -> Reply:
    """The answer. With `errand` None, requests without tools are scripted like the others."""
    if errand is not None and not conversation.tools:
        text = _sample_text(conversation.schema, errand) if given(conversation.schema) else errand
        return _reply(conversation, (Text(text),), None, 200)
    try:
        turn = current_turn(conversation)
    except ScriptError as problem:
        return _reply(conversation, (Text(f"The script cannot be read: {problem}"),), None, 200)
    if turn is None:
        return _reply(conversation, tuple(_deltas(_echo(conversation))), None, 200)
    parts = tuple(_parts(turn, conversation)) or tuple(_deltas(AFTER_THE_END))
    usage = next((step for step in turn if isinstance(step, Usage)), None)
    status = next((step.status for step in turn if isinstance(step, Http)), 200)
    return _reply(conversation, parts, usage, status)


def current_turn(conversation: Conversation) -> Turn | None:
    """What comes next in the script; None where there is none for this prompt. Empty after its end."""
    entries = conversation.entries
    scripted = (at for at, entry in enumerate(entries) if isinstance(entry, User) and has_directives(entry.text))
    begin = max(scripted, default=None)
    if begin is None or _superseded(conversation, begin):
        return None
    script = entries[begin]
    assert isinstance(script, User)
    results = sum(isinstance(entry, Result) for entry in entries[begin:])
    for turn in turns(parse(script.text)):
        calls = sum(len(step.uses) for step in turn if isinstance(step, Tools))
        if not results or not calls:
            return turn
        results = max(0, results - calls)
    return ()


def _superseded(conversation: Conversation, begin: int) -> bool:
    """A prompt without directives came after the script had been answered to its end.

    Only then: agents add text in the user's name beside a prompt and beside results, too.
    """
    *before, last = conversation.entries[begin:]
    answered = next((entry for entry in reversed(before) if not isinstance(entry, User)), None)
    return isinstance(last, User) and isinstance(answered, Assistant) and not answered.calls


def _parts(turn: Turn, conversation: Conversation) -> Iterator[Part]:
    for step in turn:
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
            case Tell(what):
                yield from _deltas(_told(what, conversation))
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
    """The tool that a script means. A plain name that nobody offers is called all the same: models do that."""
    choices = wanted.split("|")
    for choice in choices:
        for tool in offered:
            if tool.name.endswith(choice[1:]) if choice.startswith("~") else tool.name == choice:
                return tool
    plain = [choice for choice in choices if not choice.startswith("~")]
    return Tool(plain[0]) if plain else None


def _told(what: str, conversation: Conversation) -> str:
    entries = conversation.entries
    match what:
        case "tools":
            return ", ".join(tool.name for tool in conversation.tools)
        case "result":
            return next((entry.text for entry in reversed(entries) if isinstance(entry, Result)), "no result")
        case _:
            asked = [entry.text for entry in entries if isinstance(entry, User) and has_directives(entry.text)]
            said = [step.text.strip() for text in asked[:-1] for step in _readable(text) if isinstance(step, Say)]
            return "I said before: " + " | ".join(said) if said else "I said nothing before."


def _readable(text: str) -> Turn:
    try:
        return parse(text)
    except ScriptError:
        return ()


def _echo(conversation: Conversation) -> str:
    said = [entry.text for entry in conversation.entries if isinstance(entry, User)]
    words = said[-1].split() if said else []
    return f"There is no script in this prompt. It begins: {' '.join(words[:ECHOED_WORDS])}"


def _deltas(text: str) -> Iterator[Text]:
    """The text in pieces of a few words; no piece goes beyond the end of a sentence."""
    piece = ""
    count = 0
    for word in re.findall(r"\s*\S+\s*|\s+", text):
        piece += word
        count += 1
        if count == WORDS_A_DELTA or word.rstrip().endswith((".", "!", "?", ":")):
            yield Text(piece)
            piece, count = "", 0
    if piece:
        yield Text(piece)


def merged(parts: Iterable[Part]) -> list[Text | Thought | Call]:
    """The parts as an answer that is sent whole has them: no pauses, and text in one piece."""
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
        said = sum(len(part.text) for part in parts if isinstance(part, Text | Thought))
        usage = Usage(_tokens(conversation.size), _tokens(said))
    return Reply(parts=parts, status=status, input_tokens=usage.input, output_tokens=usage.output)


def _tokens(characters: int) -> int:
    """An estimate: four characters a token is the usual rule of thumb for English."""
    return characters // 4 + 1


def _sample_text(schema: msgspec.Raw, text: str) -> str:
    return msgspec.json.encode(sample(msgspec.json.decode(schema), text)).decode()


def sample(schema: Any, text: str) -> Any:
    """The smallest value that fits the common parts of JSON Schema."""
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
