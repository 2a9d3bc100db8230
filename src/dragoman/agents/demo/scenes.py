"""Which scene plays for which request, and what every turn has before it: title, attachments, thoughts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from dragoman.agents.demo import act, hands, show, trouble
from dragoman.agents.demo.hands import CannotDo
from dragoman.agents.demo.media import base64_size
from dragoman.agents.demo.requests import BY_NAME, Intent, parse
from dragoman.agents.demo.session import timestamp, title_of
from dragoman.agents.demo.turn import Turn
from dragoman.wire.vocabulary import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    SessionInfoUpdate,
    StopReason,
    TextContent,
)

Scene: TypeAlias = Callable[[Turn, Intent], Awaitable[StopReason | None]]

TOUR_FILE = "dragoman-tour.md"


async def perform(turn: Turn, blocks: tuple[ContentBlock, ...]) -> StopReason | None:
    """Plays the scene that a prompt asks for."""
    text = "\n".join(block.text for block in blocks if isinstance(block, TextContent))
    intent = parse(text)
    turn.input_words = len(text.split())
    if intent.name == "silent":
        return None  # not even a title
    if turn.session.title is None:
        turn.session.title = title_of(text)
        turn.update(SessionInfoUpdate(title=turn.session.title, updated_at=timestamp(turn.world.now())))
    if attached := [described(block) for block in blocks if not isinstance(block, TextContent)]:
        await turn.say(f"You attached {', '.join(attached)}.")
    if intent.name not in BY_NAME or BY_NAME[intent.name].group != "Break":
        await _think_aloud(turn, intent)
    try:
        return await SCENES[intent.name](turn, intent)
    except CannotDo as problem:
        await turn.say(f"I cannot do that. {problem}")
        return None


async def _think_aloud(turn: Turn, intent: Intent) -> None:
    level = turn.session.values["thought_level"]
    if level != "off":
        await turn.think(f"This is a request for “{intent.name}”.")
    if level == "high":
        await turn.think("I know what to do then, and no model need be asked.")


def described(block: ContentBlock) -> str:
    """An attachment's kind and size."""
    match block:
        case ImageContent() | AudioContent():
            kind = "an image" if isinstance(block, ImageContent) else "a sound"
            # Base64 has four characters for three bytes.
            return f"{kind} ({block.mime_type}, {base64_size(block.data):,} bytes)"
        case ResourceLink():
            return f"a link to {block.uri}"
        case EmbeddedResource(resource=resource):
            if resource.text is not None:
                return f"the file {resource.uri} ({len(resource.text):,} characters)"
            return f"the file {resource.uri} ({base64_size(resource.blob or ''):,} bytes)"
        case TextContent():
            return "text"


async def tour(turn: Turn, intent: Intent) -> StopReason | None:
    """A bit of everything. A "no" skips a stop; the tour goes on."""
    stops: tuple[tuple[str, tuple[tuple[Scene, Intent], ...]], ...] = (
        ("Think", ((show.think, Intent("think")),)),
        ("Change a file", ((_change, Intent("edit", TOUR_FILE)),)),
        ("Run a command", ((act.run, Intent("run", "ls")),)),
        ("Ask you something", ((act.ask, Intent("ask")),)),
        ("Show pictures and links", ((show.image, Intent("image")), (show.link, Intent("link")))),
        ("Look at the surroundings", ((show.mcp, Intent("mcp")), *_offered(turn), (_modes, Intent("mode")))),
        ("Count what it cost", ((show.usage, Intent("usage")),)),
    )
    names = tuple(name for name, _ in stops)
    await turn.say("A tour of all that an agent can show. I ask before I change or run anything; a no is fine.")
    for done, (name, scenes) in enumerate(stops):
        turn.plan(*show.advanced(names, done))
        await turn.say(f"**{done + 1}. {name}**")
        for scene, what in scenes:
            try:
                await scene(turn, what)
            except CannotDo as problem:
                await turn.say(f"I cannot do that. {problem}")
    turn.plan(*show.advanced(names, len(names)))
    await turn.say("That was the tour. `help` lists everything, also the ways in which I can misbehave.")
    return None


def _offered(turn: Turn) -> list[tuple[Scene, Intent]]:
    """Notices and compactions, where the client shows them: elsewhere they would only be excuses."""
    offers = turn.client.session
    shown: list[tuple[Scene, Intent]] = []
    if offers is not None and offers.notices is not None:
        shown.append((show.notice, Intent("notice")))
    if offers is not None and offers.compaction is not None:
        shown.append((show.compact, Intent("compact")))
    return shown


async def _change(turn: Turn, intent: Intent) -> StopReason | None:
    """Changes a file and reads it again, if it was allowed."""
    await act.edit(turn, intent)
    if hands.exists(turn, hands.absolute(turn, intent.text)):
        await act.read(turn, intent)
    return None


async def _modes(turn: Turn, intent: Intent) -> StopReason | None:
    """To plan mode and back."""
    before = turn.session.mode
    show.switch_mode(turn, "plan")
    await turn.say("I switched to plan mode, in which I change nothing, and back.")
    show.switch_mode(turn, before)
    return None


SCENES: dict[str, Scene] = {
    "hello": show.hello,
    "chat": show.chat,
    "unknown": show.unknown,
    "help": show.help_,
    "tour": tour,
    "plan": show.plan,
    "think": show.think,
    "tools": show.tools,
    "image": show.image,
    "audio": show.audio,
    "link": show.link,
    "usage": show.usage,
    "mcp": show.mcp,
    "notice": show.notice,
    "compact": show.compact,
    "title": show.title,
    "mode": show.mode,
    "model": show.model,
    "read": act.read,
    "edit": act.edit,
    "delete": act.delete,
    "run": act.run,
    "permission": act.permission,
    "ask": act.ask,
    "page": act.page,
    "stream": trouble.stream,
    "slow": trouble.slow,
    "sleep": trouble.sleep,
    "flood": trouble.flood,
    "error": trouble.error,
    "refuse": trouble.refuse,
    "max tokens": trouble.max_tokens,
    "max turns": trouble.max_turns,
    "silent": trouble.silent,
    "login": trouble.login,
    "noise": trouble.noise,
    "stderr": trouble.stderr,
    "crash": trouble.crash,
    "hang": trouble.hang,
}
