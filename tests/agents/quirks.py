"""The quirks of the presets that show on the wire: what brings each out, and what its recording must then show.

A scene is played with the agent on the scripted model; a check looks at the recording of it. Quirks of processes cannot
be seen in a recording, and are named in `NOT_ON_THE_WIRE`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from dragoman import PermissionRequest, events
from dragoman.errors import DragomanError
from dragoman.host.permission import Answer
from dragoman.record.conversation import fold_recording
from dragoman.record.fold import SessionFold
from dragoman.wire import vocabulary as acp

from . import notes_server
from .acts import Tool, allow, refuse
from .conftest import Frame, Stage, frames_of

Scene = Callable[[Stage], Awaitable[None]]

NOT_ON_THE_WIRE = {
    "leaves-children",
    "child-survives-cancel",
    "slow-exit",
    "asks-npm",
    "embedded-file-by-path",  # what the model is told is not on this wire
    "login-before-session",  # its agent needs an account, and is not run here
}


class Recording:
    """A recording, read: its frames, and what they fold to."""

    def __init__(self, lines: list[bytes]) -> None:
        self.frames = frames_of(lines)
        self.folds = fold_recording(lines)

    @property
    def fold(self) -> SessionFold:
        """Of the session that ran last."""
        return [fold for fold in self.folds.values() if fold.runs][-1]

    def asked(self, method: str) -> list[tuple[int, int, Frame]]:
        """Our requests of this method that were answered: where each was sent, where answered, and the answer."""
        found = []
        for sent, frame in enumerate(self.frames):
            if frame.dir == "out" and frame.method == method:
                for at in range(sent + 1, len(self.frames)):
                    reply = self.frames[at]
                    if reply.dir == "in" and reply.method is None and reply.id == frame.id:
                        found.append((sent, at, reply))
                        break
        return found

    def called(self, method: str) -> list[Frame]:
        """What the agent asked of us or told us by this method."""
        return [frame for frame in self.frames if frame.dir == "in" and frame.method == method]

    @property
    def text(self) -> str:
        return "\n".join(message.text for message in self.fold.messages if message.kind == "assistant")


# Scenes ---------------------------------------------------------------------------------------------------------------


async def speaks(stage: Stage) -> None:
    async with stage.session() as session:
        await session.run("[[say:One. Two. Three.]]")


def speaks_until(kind: str) -> Scene:
    """The update of this kind comes when the prompt has been answered."""

    async def scene(stage: Stage) -> None:
        heard = asyncio.Event()
        async with stage.session(on_event=lambda event: heard.set()) as session:
            await session.run("[[say:Hello.]]")
            while not _updates_after(kind)(Recording(stage.lines)):
                heard.clear()
                await heard.wait()

    return scene


async def is_refused(stage: Stage) -> None:
    async with stage.session(refuse) as session:
        await session.run(f"{stage.agent.run('echo made > made.txt')}[[say:It went on.]]")


async def always_for_two_files(stage: Stage) -> None:
    async with stage.session(_always) as session:
        for name in ("one", "two"):
            writing = stage.agent.write(stage.folder / f"{name}.txt").replace("written.txt", f"{name}.txt")
            await session.run(f"{writing}[[say:It is done.]]")


async def always_in_two_processes(stage: Stage) -> None:
    for _ in range(2):
        async with stage.session(_always) as session:
            await session.run(f"{stage.agent.run('touch made.txt')}[[say:It is done.]]")


async def _always(request: PermissionRequest) -> Answer:
    return request.allow(always=True)


async def is_cancelled_while_it_asks(stage: Stage) -> None:
    asked = asyncio.Event()

    async def think_for_ever(request: PermissionRequest) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    async with stage.runtime() as runtime:
        session = await runtime.open_session(stage.config(think_for_ever))
        run = session.run(stage.agent.run("echo made > made.txt"))
        task = asyncio.create_task(run.result())
        await asked.wait()
        # Not by `run.cancel`, which would answer the question before the agent can take it back.
        runtime.notify("session/cancel", acp.CancelNotification(session_id=session.agent_session_id))
        await task


async def is_cancelled_while_it_speaks(stage: Stage) -> None:
    async with stage.session() as session:
        run = session.run("[[slow:200:0.05]]")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        await run.cancel()


async def is_cancelled_while_its_terminal_runs(stage: Stage) -> None:
    stage.offers = {"terminals": True}
    async with stage.session(allow) as session:
        tool = Tool(stage.folder / "begun")
        run = session.run(stage.agent.run(tool.command))
        task = asyncio.create_task(run.result())
        await tool.begun()
        await run.cancel()
        await task


async def model_fails(stage: Stage) -> None:
    async with stage.session() as session:
        try:
            await session.run("[[http:400]]")
        except DragomanError:
            pass


async def gets_a_server(stage: Stage) -> None:
    stage.more_env = {"ENABLE_TOOL_SEARCH": "true"} if stage.agent.id == "claude" else {}
    server = acp.McpServerStdio(name="notes", command=sys.executable, args=(notes_server.__file__,), env=())
    async with stage.session(mcp_servers=(server,)) as session:
        await session.run("[[tools]]")


async def gets_two_prompts(stage: Stage) -> None:
    """Not by a session's `run`, which would queue the second."""
    spoke = asyncio.Event()

    def hear(event: events.Event) -> None:
        if isinstance(event, events.AssistantDelta):
            spoke.set()

    async with stage.runtime() as runtime:
        session = await runtime.open_session(stage.config(on_event=hear))

        async def prompt(text: str) -> None:
            block = acp.TextContent(text=text)
            request = acp.PromptRequest(session_id=session.agent_session_id, prompt=(block,))
            try:
                await runtime.request("session/prompt", request)
            except DragomanError:
                pass

        first = asyncio.create_task(prompt("[[slow:20:0.05]]"))
        await spoke.wait()
        await asyncio.gather(first, prompt("[[begin]][[say:The second.]]"))


async def creates_where_reading_is_offered(stage: Stage) -> None:
    stage.offers = {"read_files": True, "write_files": True}
    await writes(stage)


async def writes(stage: Stage) -> None:
    async with stage.session(allow) as session:
        await session.run(f"{stage.agent.write(stage.folder / 'written.txt')}[[say:It is done.]]")


async def writes_and_runs(stage: Stage) -> None:
    async with stage.session(allow) as session:
        await session.run(f"{stage.agent.write(stage.folder / 'written.txt')}[[say:It is done.]]")
        await session.run(f"{stage.agent.run('echo made > made.txt')}[[say:It is done.]]")


async def is_allowed(stage: Stage) -> None:
    async with stage.session(allow) as session:
        await session.run(f"{stage.agent.run('echo made > made.txt')}[[say:It is done.]]")


async def is_loaded_at_once(stage: Stage) -> None:
    async with stage.session() as session:
        await session.run("[[say:The word is azure.]]")
    async with stage.runtime() as runtime:
        try:
            await runtime.load_session(session.snapshot())
        except DragomanError:
            pass


async def is_loaded_in_the_next_minute(stage: Stage) -> None:
    async with stage.session() as session:
        await session.run("[[say:The word is azure.]]")
    await asyncio.sleep(60.5 - time.time() % 60)
    async with stage.runtime() as runtime:
        await runtime.load_session(session.snapshot())


async def is_told_a_model(stage: Stage) -> None:
    async with stage.runtime() as runtime:
        session = await runtime.open_session(stage.config())
        setting = session.fold.setting("model")
        assert setting is not None
        request = acp.SetSessionModelRequest(session_id=session.agent_session_id, model_id=str(setting.current))
        try:
            await runtime.request("session/set_model", request)
        except DragomanError:
            pass


async def is_started_elsewhere(stage: Stage) -> None:
    folder = stage.folder / "elsewhere"
    folder.mkdir()
    async with stage.session(allow, folder=folder) as session:
        await session.run(f"{stage.agent.run('pwd')}[[result]]")


# Checks ---------------------------------------------------------------------------------------------------------------

Check = Callable[[Recording], Any]


def _updates_after(kind: str) -> Check:
    def check(seen: Recording) -> bool:
        [(_, at, _)] = seen.asked("session/prompt")
        return any(frame.update == kind for frame in seen.frames[at:])

    return check


def _updates_before_session(seen: Recording) -> bool:
    [(_, at, _)] = seen.asked("session/new")
    return any(frame.update for frame in seen.frames[:at])


def _stopped(reason: str) -> Check:
    """The prompt was answered so, and went on no further."""

    def check(seen: Recording) -> bool:
        [(_, _, reply)] = seen.asked("session/prompt")
        return reply.result["stopReason"] == reason and "It went on." not in seen.text

    return check


def _refused_and_stopped(reason: str) -> Check:
    def check(seen: Recording) -> bool:
        [permission] = seen.fold.permissions.values()
        assert not [frame for frame in seen.frames if frame.method == "session/cancel"]
        return permission.option_kind == "reject_once" and bool(_stopped(reason)(seen))

    return check


def _asks_again(seen: Recording) -> bool:
    first, *more = seen.fold.permissions.values()
    return first.option_kind == "allow_always" and bool(more)


def _outlives(seen: Recording) -> bool:
    first, second = (fold.permissions for fold in seen.folds.values() if fold.runs)
    return len(first) == 1 and not second


def _ends_a_turn_that_was_cancelled(seen: Recording) -> bool:
    assert [frame for frame in seen.frames if frame.method == "session/cancel"]
    return bool(_stopped("end_turn")(seen))


def _tells(*methods: str) -> Check:
    return lambda seen: all(seen.called(method) for method in methods)


def _no_such_tool(seen: Recording) -> bool:
    [request] = [frame for frame in seen.frames if frame.method == "session/new"]
    assert request.params["mcpServers"][0]["name"] == "notes"
    return bool(seen.text) and "echo_note" not in seen.text


def _two_prompts(first: str, second: str) -> Check:
    def check(seen: Recording) -> bool:
        answers = [reply for _, _, reply in seen.asked("session/prompt")]
        how = ["error" if reply.error else reply.result["stopReason"] for reply in answers]
        return how == [first, second]

    return check


def _no_tool_call_before(seen: Recording) -> bool:
    at = next(at for at, frame in enumerate(seen.frames) if frame.method == "session/request_permission")
    return not any(frame.update == "tool_call" for frame in seen.frames[:at])


def _read_error_breaks(seen: Recording) -> bool:
    assert seen.called("fs/read_text_file")
    refused = [frame for frame in seen.frames if frame.dir == "out" and frame.error]
    return bool(refused) and [call.status for call in seen.fold.tool_calls] == ["failed"]


def _replays_late(seen: Recording) -> bool:
    [(_, at, _)] = seen.asked("session/load")
    return any(frame.update == "agent_message_chunk" for frame in seen.frames[at:])


def _loses_it(seen: Recording) -> bool:
    [(sent, _, reply)] = seen.asked("session/load")
    return bool(reply.error) or not any(frame.update == "agent_message_chunk" for frame in seen.frames[sent:])


def _terminal_is_left(seen: Recording) -> bool:
    [(_, at, _)] = seen.asked("session/prompt")
    cancelled = next(at for at, frame in enumerate(seen.frames) if frame.method == "session/cancel")
    assert seen.called("terminal/create")
    return not any(frame.method == "terminal/kill" for frame in seen.frames[cancelled : at + 1])


def _writes_unadvertised(seen: Recording) -> bool:
    offered = seen.frames[0].params["clientCapabilities"].get("fs", {}).get("writeTextFile", False)
    return not offered and bool(seen.called("fs/write_text_file"))


def _error_as_text(seen: Recording) -> bool:
    return bool(_stopped("end_turn")(seen)) and bool(seen.text)


def _error_as_silence(seen: Recording) -> bool:
    return bool(_stopped("end_turn")(seen)) and not seen.text


def _asks_for_shell_only(seen: Recording) -> bool:
    [permission] = seen.fold.permissions.values()
    return permission.tool_call.kind == "execute" and len(list(seen.fold.tool_calls)) == 2


def _never_asks(seen: Recording) -> bool:
    return [call.status for call in seen.fold.tool_calls] == ["completed"] and not seen.fold.permissions


def _modes_are_urls(seen: Recording) -> bool:
    setting = seen.fold.setting("mode")
    return setting is not None and all(choice.value.startswith("https://") for choice in setting.choices)


def _rejected(seen: Recording) -> bool:
    [(_, _, reply)] = seen.asked("session/set_model")
    [(_, _, made)] = seen.asked("session/new")
    return bool(made.result["models"]) and reply.error is not None


def _stays_where_it_was_started(seen: Recording) -> bool:
    [request] = [frame for frame in seen.frames if frame.method == "session/new"]
    assert request.params["cwd"] == "/workspace/elsewhere"
    return "/workspace" in seen.text and "elsewhere" not in seen.text


def _one_piece(seen: Recording) -> bool:
    pieces = [frame for frame in seen.frames if frame.update == "agent_message_chunk"]
    return len(pieces) == 1 and seen.text == "One. Two. Three."


class Pin(Struct, frozen=True):
    """How a quirk is brought out and recognised."""

    scene: Scene
    check: Check


PINS: dict[tuple[str, str], Pin] = {
    ("claude", "updates-after-response"): Pin(
        speaks_until("session_info_update"), _updates_after("session_info_update")
    ),
    ("claude", "cancels-permission-request"): Pin(is_cancelled_while_it_asks, _tells("$/cancel_request")),
    ("claude", "off-spec-methods"): Pin(speaks, _tells("_auth/status_update")),
    ("claude", "mcp-tools-deferred"): Pin(gets_a_server, _no_such_tool),
    ("codex", "refusal-cancels-turn"): Pin(is_refused, _refused_and_stopped("cancelled")),
    ("codex", "always-asks-again"): Pin(always_for_two_files, _asks_again),
    ("codex", "cancels-permission-request"): Pin(is_cancelled_while_it_asks, _tells("$/cancel_request")),
    ("codex", "off-spec-methods"): Pin(speaks, _tells("_auth/status_update")),
    ("codex", "model-error-as-text"): Pin(model_fails, _error_as_text),
    ("codex", "mcp-tools-deferred"): Pin(gets_a_server, _no_such_tool),
    ("copilot", "mcp-stdio-dropped"): Pin(gets_a_server, _no_such_tool),
    ("copilot", "mode-ids-are-urls"): Pin(speaks, _modes_are_urls),
    ("copilot", "updates-before-session"): Pin(speaks, _updates_before_session),
    ("copilot", "refusal-ends-turn"): Pin(is_refused, _refused_and_stopped("end_turn")),
    ("copilot", "model-error-as-text"): Pin(model_fails, _error_as_text),
    ("copilot", "second-prompt-cancels-first"): Pin(gets_two_prompts, _two_prompts("cancelled", "end_turn")),
    ("gemini", "read-error-breaks-create"): Pin(creates_where_reading_is_offered, _read_error_breaks),
    ("gemini", "permission-without-tool-call"): Pin(is_allowed, _no_tool_call_before),
    ("gemini", "replay-after-load"): Pin(is_loaded_in_the_next_minute, _replays_late),
    ("gemini", "load-within-minute"): Pin(is_loaded_at_once, _loses_it),
    ("gemini", "second-prompt-cancels-first"): Pin(gets_two_prompts, _two_prompts("cancelled", "end_turn")),
    ("goose", "cancel-as-end-turn"): Pin(is_cancelled_while_it_speaks, _ends_a_turn_that_was_cancelled),
    ("goose", "updates-before-session"): Pin(speaks, _updates_before_session),
    ("goose", "string-request-ids"): Pin(
        is_allowed, lambda seen: isinstance(seen.called("session/request_permission")[0].id, str)
    ),
    ("goose", "always-outlives-process"): Pin(always_in_two_processes, _outlives),
    ("goose", "model-error-as-text"): Pin(model_fails, _error_as_text),
    ("goose", "terminal-survives-cancel"): Pin(is_cancelled_while_its_terminal_runs, _terminal_is_left),
    ("kimi", "updates-after-response"): Pin(speaks_until("usage_update"), _updates_after("usage_update")),
    ("kimi", "always-asks-again"): Pin(always_for_two_files, _asks_again),
    ("kimi", "model-error-as-silence"): Pin(model_fails, _error_as_silence),
    ("kimi", "second-prompt-refused"): Pin(gets_two_prompts, _two_prompts("end_turn", "error")),
    ("nanocoder", "asks-for-shell-only"): Pin(writes_and_runs, _asks_for_shell_only),
    ("nanocoder", "mcp-stdio-dropped"): Pin(gets_a_server, _no_such_tool),
    ("nanocoder", "messages-whole"): Pin(speaks, _one_piece),
    ("nanocoder", "stays-where-started"): Pin(is_started_elsewhere, _stays_where_it_was_started),
    ("nanocoder", "updates-before-session"): Pin(speaks, _updates_before_session),
    ("opencode", "writes-unadvertised"): Pin(writes, _writes_unadvertised),
    ("opencode", "refusal-ends-turn"): Pin(is_refused, _refused_and_stopped("end_turn")),
    ("pi", "never-asks"): Pin(is_allowed, _never_asks),
    ("pi", "mcp-stdio-dropped"): Pin(gets_a_server, _no_such_tool),
    ("pi", "set-model-rejected"): Pin(is_told_a_model, _rejected),
    ("qwen", "updates-after-response"): Pin(
        speaks_until("available_commands_update"), _updates_after("available_commands_update")
    ),
    ("qwen", "mcp-tools-deferred"): Pin(gets_a_server, _no_such_tool),
    ("qwen", "off-spec-methods"): Pin(is_allowed, _tells("craft/drainMidTurnQueue")),
    ("qwen", "refusal-ends-turn"): Pin(is_refused, _refused_and_stopped("end_turn")),
    ("qwen", "second-prompt-fails-first"): Pin(gets_two_prompts, _two_prompts("error", "end_turn")),
}


LONGEST = 500
"""Characters of a text in a recording that is kept: agents send the whole of their skills and change logs."""
MOST_COMMANDS = 5


def kept(lines: list[bytes], stage: Stage) -> bytes:
    """The recording as it is kept: other paths and addresses for those of this machine, long texts and lists of
    commands cut."""
    places = {
        str(stage.folder): "/workspace",
        str(stage.home): "/home/user",
        str(stage.folder.parent): "/run",
        **{str(folder.parent.parent): "/agents" for folder in stage.programs},
        notes_server.__file__: "/servers/notes.py",
        sys.executable: "python",
        stage.server.url: "http://127.0.0.1:8090",
    }
    text = b"".join(lines).decode()
    for place, name in places.items():
        text = text.replace(msgspec.json.encode(place).decode()[1:-1], name)
    cut = (
        line if len(line) < LONGEST else msgspec.json.encode(_cut(msgspec.json.decode(line))).decode()
        for line in text.splitlines()
    )
    return "".join(f"{line}\n" for line in cut).encode()


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > LONGEST:
            return value[:LONGEST] + "…"
        case list():
            return [_cut(each) for each in value]
        case dict():
            few = {key: each[:MOST_COMMANDS] for key, each in value.items() if key == "availableCommands"}
            return {key: _cut(few.get(key, each)) for key, each in value.items()}
        case _:
            return value
