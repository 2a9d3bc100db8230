"""Scenes: the actions of the demo agent for each request.

`play_scene` gives every run its title, the description of its attachments and a thought, and then plays the scene: the
`steps` of demo.toml, or a function of this module or of `workspace_scenes`. Nothing in this module touches the
workspace; its last part misbehaves on request, as clients must be able to live with that.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from dragoman.agents.demo import settings
from dragoman.agents.demo.requests import (
    DOCUMENT,
    REQUESTS,
    REQUESTS_BY_NAME,
    Intent,
    PretendedTool,
    Step,
    help_text,
    parse_prompt,
)
from dragoman.agents.demo.session import BURST_CHUNKS, PromptRun, text_content, timestamp, title_of
from dragoman.agents.demo.workspace_scenes import (
    ActionFailed,
    absolute_path,
    ask_scene,
    delete_scene,
    edit_scene,
    file_exists,
    page_scene,
    permission_scene,
    read_scene,
    run_scene,
)
from dragoman.errors import AUTHENTICATION_REQUIRED, INTERNAL_ERROR
from dragoman.record.notes import CONTEXT_MARK
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal

Scene: TypeAlias = Callable[[PromptRun, Intent], Awaitable[acp.StopReason | None]]

TOUR_FILE = "dragoman-tour.md"

# Seconds between two words: slow enough to watch, and to cancel in between.
SLOW_PACE_S = 0.5

CRASH_EXIT_CODE = 3

LOGIN = acp.AuthMethodAgent(
    id="demo-login", name="Demo login", description="Needs no password: it shows how a login works."
)

NOISE = (
    b"this line is not JSON\n",
    b"\n",
    b'{"jsonrpc": "2.0", "half": \n',
    b"null\n",
    b"42\n",
    b"[]\n",
    b'{"a": 1}\n',
    b"\xff\xfe\n",
)


async def play_scene(run: PromptRun, blocks: tuple[acp.ContentBlock, ...]) -> acp.StopReason | None:
    """Play the scene that a prompt asks for; None is the stop reason `end_turn`."""
    texts = [block for block in blocks if isinstance(block, acp.TextContent) and CONTEXT_MARK not in (block.meta or {})]
    text = "\n".join(block.text for block in texts)
    intent = parse_prompt(text)
    run.input_words = len(text.split())
    if intent.name == "silent":
        return None  # not even a title
    if run.session.title is None:
        run.session.title = title_of(text)
        run.update(acp.SessionInfoUpdate(title=run.session.title, updated_at=timestamp(run.world.now())))
    if attachments := [describe_attachment(block) for block in blocks if block not in texts]:
        await run.say(f"You attached {', '.join(attachments)}.")
    request = REQUESTS_BY_NAME.get(intent.name)
    if request is None or request.group != "Break":
        await _think_aloud(run, intent)
    try:
        return await SCENES[intent.name](run, intent)
    except ActionFailed as error:
        await run.say(f"I cannot do that. {error}")
        return None


async def _think_aloud(run: PromptRun, intent: Intent) -> None:
    level = run.session.values["thought_level"]
    if level != "off":
        await run.think(f"This is a request for “{intent.name}”.")
    if level == "high":
        await run.think("I know what to do then, and no model need be asked.")


def describe_attachment(block: acp.ContentBlock) -> str:
    """Return an attachment's kind and size."""
    match block:
        case acp.ImageContent() | acp.AudioContent():
            kind = "an image" if isinstance(block, acp.ImageContent) else "a sound"
            return f"{kind} ({block.mime_type}, {_base64_size(block.data):,} bytes)"
        case acp.ResourceLink():
            return f"a link to {block.uri}"
        case acp.EmbeddedResource(resource=resource):
            if resource.text is not None:
                return f"the file {resource.uri} ({len(resource.text):,} characters)"
            return f"the file {resource.uri} ({_base64_size(resource.blob or ''):,} bytes)"
        case acp.TextContent():
            return f"a text ({len(block.text):,} characters)"


def _base64_size(text: str) -> int:
    """Return the number of bytes that a base64 text encodes: three for four characters, minus its `=` signs."""
    return len(text) * 3 // 4 - text[-2:].count("=")


def _media(name: str) -> str:
    """Return a file of this package as base64 text."""
    return base64.b64encode(files("dragoman.agents.demo").joinpath(name).read_bytes()).decode()


# -- scenes that are data


async def play_steps(run: PromptRun, steps: tuple[Step, ...]) -> acp.StopReason | None:
    for step in steps:
        match step:
            case Step(say=str(text)):
                await run.say(text)
            case Step(think=str(text)):
                await run.think(text)
            case Step(plan=tuple(entries)):
                await _advance_plan(run, entries)
            case Step(tool=PretendedTool() as tool):
                await _pretend(run, tool)
            case Step(show=str(name)):
                run.chunk(_content(run, name))
            case Step(error=str(message)):
                raise RpcRefusal(INTERNAL_ERROR, message, {"details": "say anything else to go on"})
            case Step(stop=stop):
                return stop
    return None


async def _advance_plan(run: PromptRun, steps: tuple[str, ...]) -> None:
    for number, step in enumerate(steps):
        run.plan(*plan_entries(steps, number))
        await run.say(f"{number + 1}. {step} …")
    run.plan(*plan_entries(steps, len(steps)))


def plan_entries(steps: tuple[str, ...], done: int) -> list[tuple[str, acp.PlanEntryStatus]]:
    """Return the plan when `done` steps are completed and the next one is in progress."""
    return [
        (step, "completed" if number < done else "in_progress" if number == done else "pending")
        for number, step in enumerate(steps)
    ]


async def _pretend(run: PromptRun, tool: PretendedTool) -> None:
    location = acp.ToolCallLocation(path=os.path.join(run.session.cwd, "README.md"), line=1)
    call = run.tool(tool.title, tool.kind, locations=(location,), raw_input={"pretend": True, "kind": tool.kind})
    await run.breathe()
    call.progress()
    if tool.fails is not None:
        call.fail(tool.fails)
    else:
        call.complete(text_content(f"{tool.title}: done"), raw_output={"ok": True})


def _content(run: PromptRun, name: str) -> acp.ContentBlock:
    match name:
        case "image":
            return acp.ImageContent(data=_media("sun.png"), mime_type="image/png")
        case "audio":
            return acp.AudioContent(data=_media("beep.wav"), mime_type="audio/wav")
        case "folder_link":
            folder = Path(run.session.cwd)
            return acp.ResourceLink(
                uri=folder.as_uri(), name=folder.name or "/", title="The workspace", description=str(folder)
            )
        case _:
            note = "# A note\n\nFrom the demo agent.\n"
            return acp.EmbeddedResource(
                resource=acp.TextResourceContents(uri="demo:///note.md", mime_type="text/markdown", text=note)
            )


# -- talk


async def hello(run: PromptRun, intent: Intent) -> None:
    await run.say(f"Hello! {DOCUMENT.welcome}")
    await _suggest(run)


async def chat(run: PromptRun, intent: Intent) -> None:
    if question := run.session.question:
        run.session.question = None
        await run.say(f"Thank you. To “{question}” you answered: {intent.text or '(nothing)'}")
        return
    words = len(intent.text.split())
    quoted = (
        f"You said “{_shortened(intent.text)}” ({words} {'word' if words == 1 else 'words'})."
        if words
        else "You said nothing."
    )
    await run.say(f"{quoted} I would do it if I were a model, but I am only the demo agent.")
    await _suggest(run)


async def _suggest(run: PromptRun) -> None:
    await run.say(DOCUMENT.suggestions)
    if run.session.values["model"] == "demo-large":
        await run.say(DOCUMENT.large_model_addition)


async def unknown(run: PromptRun, intent: Intent) -> None:
    await run.say(f"There is no command `{intent.text}`. `/help` lists the commands.")


async def help_(run: PromptRun, intent: Intent) -> None:
    await run.say(f"{DOCUMENT.welcome}\n\n{help_text()}")


# -- the session and its client


async def usage(run: PromptRun, intent: Intent) -> None:
    run.report_usage()
    used, size = run.session.words, run.session.context_size
    await run.say(
        f"Before this answer, this session had used {used:,} of {size:,} words. Without a model there are no tokens: "
        "I count words and report them instead. It costs nothing."
    )


async def mcp(run: PromptRun, intent: Intent) -> None:
    servers = run.session.mcp_servers
    if not servers:
        await run.say("The client named no MCP servers for this session.")
        return
    listed = "\n".join(f"- {_describe_server(server)}" for server in servers)
    await run.say(
        f"The client named these MCP servers. I do not connect to them: the demo agent needs no tools.\n\n{listed}"
    )


def _describe_server(server: acp.McpServer) -> str:
    """Leave out arguments, environment, headers and query: these may hold secrets."""
    address = server.url.partition("?")[0] if server.url else server.command or server.server_id
    return f"`{server.name}`: {server.type or 'stdio'}, {address}"


async def notice(run: PromptRun, intent: Intent) -> None:
    if run.client.session is None or run.client.session.notices is None:
        await run.say("This client does not show notices, so I send none: “The demo agent says hello.”")
        return
    run.update(acp.Notice(severity="info", title="The demo agent says hello", description="Notices are not history."))
    await run.say("I sent you a notice.")


async def compact(run: PromptRun, intent: Intent) -> None:
    if run.client.session is None or run.client.session.compaction is None:
        await run.say("This client does not show compactions, so I report none.")
        return
    compaction = run.session.next_id("compaction")
    run.update(acp.CompactionUpdate(compaction_id=compaction, status="in_progress"))
    summary = "So far you and the demo agent have talked, and nothing important was said."
    for word in summary.split():
        run.update(acp.CompactionSummaryChunk(compaction_id=compaction, content=acp.TextContent(text=f"{word} ")))
    run.update(acp.CompactionUpdate(compaction_id=compaction, status="completed"))
    run.session.words = len(summary.split())
    await run.say("I have compacted our conversation.")


async def title(run: PromptRun, intent: Intent) -> None:
    run.session.title = intent.text
    run.update(acp.SessionInfoUpdate(title=intent.text, updated_at=timestamp(run.world.now())))
    await run.say(f"This session is now called “{intent.text}”.")


async def mode(run: PromptRun, intent: Intent) -> None:
    listed = "\n".join(f"- `{mode.id}`: {mode.description}" for mode in DOCUMENT.mode)
    try:
        switch_mode(run, settings.check_mode(intent.text.lower()) if intent.text else run.session.mode)
    except settings.NotAllowed:
        await run.say(f"I have no mode “{intent.text}”. The modes are:\n\n{listed}")
        return
    await run.say(f"The mode is `{run.session.mode}`. The modes are:\n\n{listed}")


def switch_mode(run: PromptRun, mode: str) -> None:
    """Report the mode twice: some clients read the modes, others the config options."""
    run.session.mode = mode
    run.update(acp.CurrentModeUpdate(current_mode_id=mode))
    run.update(acp.ConfigOptionUpdate(config_options=run.options()))


async def model(run: PromptRun, intent: Intent) -> None:
    names = list(DOCUMENT.context_size)
    matches = [name for name in names if intent.text and name.endswith(intent.text.lower())]
    if intent.text and not matches:
        await run.say(f"I have no model “{intent.text}”. There are `{'` and `'.join(names)}`.")
        return
    current = names.index(str(run.session.values["model"]))
    run.session.values["model"] = matches[0] if matches else names[(current + 1) % len(names)]
    run.update(acp.ConfigOptionUpdate(config_options=run.options()))
    await run.say(f"The model is now `{run.session.values['model']}`. There is still none behind it.")


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else line[:119].rstrip() + "…"


# -- the tour


async def tour(run: PromptRun, intent: Intent) -> None:
    """Show a bit of everything. A "no" skips a stop; the tour goes on."""
    stops: tuple[tuple[str, tuple[Intent, ...]], ...] = (
        ("Think", (Intent("think"),)),
        ("Change a file", (Intent("change", TOUR_FILE),)),
        ("Run a command", (Intent("run", "ls"),)),
        ("Ask you something", (Intent("ask"),)),
        ("Show pictures and links", (Intent("image"), Intent("link"))),
        ("Look at the surroundings", (Intent("mcp"), *_client_extras(run), Intent("modes"))),
        ("Count what it cost", (Intent("usage"),)),
    )
    names = tuple(name for name, _ in stops)
    scenes = SCENES | {"change": _change_and_read, "modes": _switch_mode_and_back}
    await run.say("A tour of all that an agent can show. I ask before I change or run anything; a no is fine.")
    for number, (name, intents) in enumerate(stops):
        run.plan(*plan_entries(names, number))
        await run.say(f"**{number + 1}. {name}**")
        for stop in intents:
            try:
                await scenes[stop.name](run, stop)
            except ActionFailed as error:
                await run.say(f"I cannot do that. {error}")
    run.plan(*plan_entries(names, len(names)))
    await run.say("That was the tour. `help` lists everything, also the ways in which I can misbehave.")


def _client_extras(run: PromptRun) -> list[Intent]:
    """Return notices and compactions where the client shows them: elsewhere they would only be excuses."""
    offers = run.client.session
    extras: list[Intent] = []
    if offers is not None and offers.notices is not None:
        extras.append(Intent("notice"))
    if offers is not None and offers.compaction is not None:
        extras.append(Intent("compact"))
    return extras


async def _change_and_read(run: PromptRun, intent: Intent) -> None:
    """Change a file and, if that was allowed, read it again."""
    await edit_scene(run, intent)
    if file_exists(run, absolute_path(run, intent.text)):
        await read_scene(run, intent)


async def _switch_mode_and_back(run: PromptRun, intent: Intent) -> None:
    before = run.session.mode
    switch_mode(run, "plan")
    await run.say("I switched to plan mode, in which I change nothing, and back.")
    switch_mode(run, before)


# -- scenes that pour out much, take long, or misbehave


async def stream(run: PromptRun, intent: Intent) -> None:
    await _pour(run, int(intent.number), "chunk")


async def flood(run: PromptRun, intent: Intent) -> None:
    await _pour(run, int(intent.number), "drop")


async def _pour(run: PromptRun, count: int, word: str) -> None:
    for number in range(1, count + 1):
        run.chunk(acp.TextContent(text=f"{word} {number}\n"))
        run.output_words += 2
        if number % BURST_CHUNKS == 0:
            await run.breathe()


async def slow(run: PromptRun, intent: Intent) -> None:
    for number in range(1, int(intent.number) + 1):
        run.chunk(acp.TextContent(text=f"word {number}\n"))
        run.output_words += 2
        await run.world.sleep(SLOW_PACE_S)


async def sleep(run: PromptRun, intent: Intent) -> None:
    await run.say(f"I sleep for {intent.number:g} s.")
    await run.world.sleep(intent.number)
    await run.say("I am awake again.")


async def login(run: PromptRun, intent: Intent) -> None:
    if not run.logged_in:
        raise login_required()
    await run.say("You are logged in. `logout` in the client's menu undoes it.")


def login_required() -> RpcRefusal:
    return RpcRefusal(AUTHENTICATION_REQUIRED, "Authentication required", {"authMethods": [LOGIN]})


async def noise(run: PromptRun, intent: Intent) -> None:
    await run.say("Some lines on my stdout are now no messages.")
    for line in NOISE:
        run.world.write_raw(line)
    await run.say("If you read this, your client took no harm.")


async def stderr(run: PromptRun, intent: Intent) -> None:
    count = int(intent.number)
    for number in range(1, count + 1):
        run.world.stderr.write(f"demo agent: line {number} of {count} on stderr\n")
    run.world.stderr.flush()
    await run.say(f"I wrote {count:,} lines to my stderr.")


async def crash(run: PromptRun, intent: Intent) -> None:
    await run.say("My process ends in the middle of this")
    await run.breathe()
    run.world.stderr.write(f"demo agent: crashing as asked, exit code {CRASH_EXIT_CODE}\n")
    run.world.stderr.flush()
    run.world.exit(CRASH_EXIT_CODE)


async def hang(run: PromptRun, intent: Intent) -> None:
    await run.say("I hang from now on, and ignore cancel. Only ending my process helps.")
    run.ignores_cancel = True
    await asyncio.Event().wait()


def _scene_of_steps(steps: tuple[Step, ...]) -> Scene:
    return lambda run, intent: play_steps(run, steps)


SCENES: dict[str, Scene] = {
    "hello": hello,
    "chat": chat,
    "unknown": unknown,
    "help": help_,
    "tour": tour,
    "usage": usage,
    "mcp": mcp,
    "notice": notice,
    "compact": compact,
    "title": title,
    "mode": mode,
    "model": model,
    "read": read_scene,
    "edit": edit_scene,
    "delete": delete_scene,
    "run": run_scene,
    "permission": permission_scene,
    "ask": ask_scene,
    "page": page_scene,
    "stream": stream,
    "slow": slow,
    "sleep": sleep,
    "flood": flood,
    "login": login,
    "noise": noise,
    "stderr": stderr,
    "crash": crash,
    "hang": hang,
} | {request.name: _scene_of_steps(request.steps) for request in REQUESTS if request.steps is not None}
