"""Scenes that only show something, or set something about the session. Nothing outside is touched."""

from __future__ import annotations

import os
from pathlib import Path

from dragoman.agents.demo import media, requests, settings
from dragoman.agents.demo.requests import Intent
from dragoman.agents.demo.session import timestamp
from dragoman.agents.demo.turn import Turn, text_content
from dragoman.wire.vocabulary import (
    AudioContent,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    EmbeddedResource,
    ImageContent,
    McpServer,
    Notice,
    PlanEntryStatus,
    ResourceLink,
    SessionInfoUpdate,
    StopReason,
    TextContent,
    TextResourceContents,
    ToolCallLocation,
    ToolKind,
)

WELCOME = (
    "I am Dragoman's demo agent. There is no model behind me: I know a few plain requests, so that you can see all "
    "that an agent does without installing one."
)
TRY = "Try `plan`, `edit README`, `run ls`, `ask me` or `tour`. `help` lists the rest."
MORE = (
    "This is Demo Large speaking, so here is a little more: everything that I do goes over the Agent Client Protocol, "
    "as it does with any other agent. What works with me works with them."
)


async def hello(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say(f"Hello! {WELCOME}")
    return await _closing(turn)


async def chat(turn: Turn, intent: Intent) -> StopReason | None:
    if question := turn.session.question:
        turn.session.question = None
        await turn.say(f"Thank you. To “{question}” you answered: {intent.text or '(nothing)'}")
        return None
    words = len(intent.text.split())
    said = (
        f"You said “{_short(intent.text)}” ({words} {'word' if words == 1 else 'words'})."
        if words
        else "You said nothing."
    )
    await turn.say(f"{said} I would do it if I were a model, but I am only the demo agent.")
    return await _closing(turn)


async def _closing(turn: Turn) -> StopReason | None:
    await turn.say(TRY)
    if turn.session.values["model"] == "demo-large":
        await turn.say(MORE)
    return None


async def unknown(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say(f"There is no command `{intent.text}`. `/help` lists those that there are.")
    return None


async def help_(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say(f"{WELCOME}\n\n{requests.help_text()}")
    return None


async def plan(turn: Turn, intent: Intent) -> StopReason | None:
    steps = ("Look at the folder", "Decide what to change", "Change it", "Check the result")
    await turn.say("Here is a plan. Its steps advance as I pretend to work on them.")
    for done, step in enumerate(steps):
        turn.plan(*advanced(steps, done))
        await turn.say(f"{done + 1}. {step} …")
    turn.plan(*advanced(steps, len(steps)))
    await turn.say("Done. (Nothing was changed: it was only a plan.)")
    return None


def advanced(steps: tuple[str, ...], done: int) -> list[tuple[str, PlanEntryStatus]]:
    """The plan when so many steps are done and the next one is being worked on."""
    return [
        (step, "completed" if number < done else "in_progress" if number == done else "pending")
        for number, step in enumerate(steps)
    ]


async def think(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.think("The user would like to see me think.")
    await turn.think("I have no model, so these thoughts were written beforehand. They stream like real ones, though.")
    await turn.say("I thought about it. My thoughts came as `agent_thought_chunk`, before this answer.")
    return None


_KINDS: tuple[tuple[ToolKind, str], ...] = (
    ("read", "Pretend to read README.md"),
    ("search", "Pretend to search for “TODO”"),
    ("think", "Pretend to ponder"),
    ("fetch", "Pretend to fetch a page"),
    ("edit", "Pretend to edit main.py"),
    ("move", "Pretend to move a file"),
    ("delete", "Pretend to delete a file"),
    ("execute", "Pretend to run the tests"),
    ("switch_mode", "Pretend to switch the mode"),
    ("other", "Pretend to do something else, and fail"),
)


async def tools(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say("One tool call of each kind. I only pretend: nothing is read, changed or run.")
    place = ToolCallLocation(path=os.path.join(turn.session.cwd, "README.md"), line=1)
    for kind, title in _KINDS:
        tool = turn.tool(title, kind, locations=(place,), raw_input={"pretend": True, "kind": kind})
        await turn.breathe()
        tool.progress()
        if kind == "other":
            tool.fail("This one fails, so that you see how it looks")
        else:
            tool.complete(text_content(f"{title}: done"), raw_output={"ok": True})
    return None


async def image(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say("A small picture, computed just now:")
    turn.chunk(ImageContent(data=media.picture(), mime_type=media.PNG))
    return None


async def audio(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say("A short sound:")
    turn.chunk(AudioContent(data=media.sound(), mime_type=media.WAV))
    return None


async def link(turn: Turn, intent: Intent) -> StopReason | None:
    folder = Path(turn.session.cwd)
    await turn.say("A link to this session's folder, and a small file that lies in the message itself:")
    turn.chunk(
        ResourceLink(uri=folder.as_uri(), name=folder.name or "/", title="The workspace", description=str(folder))
    )
    note = TextResourceContents(
        uri="demo:///note.md", mime_type="text/markdown", text="# A note\n\nFrom the demo agent.\n"
    )
    turn.chunk(EmbeddedResource(resource=note))
    return None


async def usage(turn: Turn, intent: Intent) -> StopReason | None:
    turn.tell_usage()
    used, size = turn.session.words, turn.session.context_size
    await turn.say(
        f"Before this answer, this session had used {used:,} of {size:,} words. Without a model there are no tokens: "
        "I count words and report them in their place. It costs nothing."
    )
    return None


async def mcp(turn: Turn, intent: Intent) -> StopReason | None:
    servers = turn.session.mcp_servers
    if not servers:
        await turn.say("The client named no MCP servers for this session.")
        return None
    listed = "\n".join(f"- {_described(server)}" for server in servers)
    await turn.say(
        f"The client named these MCP servers. I do not connect to them: the demo agent needs no tools.\n\n{listed}"
    )
    return None


def _described(server: McpServer) -> str:
    """Without arguments, environment, headers and query: these may hold secrets."""
    where = server.url.partition("?")[0] if server.url else server.command or server.server_id
    return f"`{server.name}`: {server.type or 'stdio'}, {where}"


async def notice(turn: Turn, intent: Intent) -> StopReason | None:
    if turn.client.session is None or turn.client.session.notices is None:
        await turn.say("This client does not show notices, so I send none: “The demo agent says hello.”")
        return None
    turn.update(Notice(severity="info", title="The demo agent says hello", description="Notices are not history."))
    await turn.say("I sent you a notice.")
    return None


async def compact(turn: Turn, intent: Intent) -> StopReason | None:
    if turn.client.session is None or turn.client.session.compaction is None:
        await turn.say("This client does not show compactions, so I do not tell of one.")
        return None
    compaction = turn.session.next_id("compaction")
    turn.update(CompactionUpdate(compaction_id=compaction, status="in_progress"))
    summary = "So far you and the demo agent have talked, and nothing important was said."
    for word in summary.split():
        turn.update(CompactionSummaryChunk(compaction_id=compaction, content=TextContent(text=f"{word} ")))
    turn.update(CompactionUpdate(compaction_id=compaction, status="completed"))
    turn.session.words = len(summary.split())
    await turn.say("I have compacted what was said.")
    return None


async def title(turn: Turn, intent: Intent) -> StopReason | None:
    turn.session.title = intent.text
    turn.update(SessionInfoUpdate(title=intent.text, updated_at=timestamp(turn.world.now())))
    await turn.say(f"This session is now called “{intent.text}”.")
    return None


async def mode(turn: Turn, intent: Intent) -> StopReason | None:
    listed = "\n".join(f"- `{each.id}`: {each.description}" for each in settings.MODES)
    try:
        switch_mode(turn, settings.check_mode(intent.text.lower()) if intent.text else turn.session.mode)
    except settings.NotAllowed:
        await turn.say(f"I have no mode “{intent.text}”. The modes are:\n\n{listed}")
        return None
    await turn.say(f"The mode is `{turn.session.mode}`. The modes are:\n\n{listed}")
    return None


def switch_mode(turn: Turn, mode: str) -> None:
    """Told twice, for clients that read the modes and for those that read the options."""
    turn.session.mode = mode
    turn.update(CurrentModeUpdate(current_mode_id=mode))
    turn.update(ConfigOptionUpdate(config_options=turn.options()))


async def model(turn: Turn, intent: Intent) -> StopReason | None:
    names = list(settings.CONTEXT_SIZE)
    wanted = [name for name in names if intent.text and name.endswith(intent.text.lower())]
    if intent.text and not wanted:
        await turn.say(f"I have no model “{intent.text}”. There are `{'` and `'.join(names)}`.")
        return None
    current = names.index(str(turn.session.values["model"]))
    turn.session.values["model"] = wanted[0] if wanted else names[(current + 1) % len(names)]
    turn.update(ConfigOptionUpdate(config_options=turn.options()))
    await turn.say(f"The model is now `{turn.session.values['model']}`. There is still none behind it.")
    return None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else line[:119].rstrip() + "…"
