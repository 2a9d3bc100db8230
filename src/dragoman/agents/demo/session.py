"""Open sessions of the demo agent, and the run of one prompt in a session.

`Session` has the settings, the remembered permissions and the history in the form that `session/load` replays.
`PromptRun` has the means by which a scene speaks, shows tool calls and asks. All that a run sends also becomes history.
A run ends by its scene, by `session/cancel` or by a permission that is answered `cancelled`; tool calls that are open
by then are reported as failed.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

import msgspec

from dragoman.agents.demo import settings
from dragoman.agents.demo.requests import DOCUMENT
from dragoman.agents.demo.settings import SWITCH_ID
from dragoman.agents.demo.store import SavedSession, new_id
from dragoman.errors import INTERNAL_ERROR, Cancelled, RequestFailed
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcConnection

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # known to type checkers without being installed

T = TypeVar("T")

# Chunks that are sent without a pause before the loop gets its run: a cancel must be heard during a flood.
BURST_CHUNKS = 256

_WORD = re.compile(r"\s*\S+\s*|\s+")

_OPTIONS = (
    acp.PermissionOption(option_id="allow-once", name="Allow", kind="allow_once"),
    acp.PermissionOption(option_id="allow-always", name="Always allow", kind="allow_always"),
    acp.PermissionOption(option_id="reject-once", name="Reject", kind="reject_once"),
    acp.PermissionOption(option_id="reject-always", name="Always reject", kind="reject_always"),
)


class World(msgspec.Struct, frozen=True):
    """The agent's surroundings, passed in: clock, exit, stderr, raw lines to stdout. `pace` is seconds per word."""

    pace: float
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], float]
    exit: Callable[[int], NoReturn]
    stderr: TextIO
    write_raw: Callable[[bytes], None]


class RunCancelled(Exception):
    """A permission was answered `cancelled`: the run ends so."""


# The updates that a conversation consists of. The rest (commands, mode, options, usage, title) is the state of the
# session and is sent again at every load; notices are never sent again.
_HISTORY = (
    acp.UserMessageChunk,
    acp.AgentMessageChunk,
    acp.AgentThoughtChunk,
    acp.ToolCall,
    acp.SessionToolCallUpdate,
    acp.Plan,
)

_MAX_TITLE_CHARACTERS = 60


class History:
    """The updates of the conversation. The chunks of one text become one entry, so a load sends the same text in fewer
    updates, and a flood of a hundred thousand chunks is one entry."""

    def __init__(self, entries: list[msgspec.Raw]) -> None:
        self._entries = list(entries)
        self._open: tuple[type[acp.AgentMessageChunk | acp.AgentThoughtChunk], str | None] | None = None
        self._texts: list[str] = []

    def add(self, update: acp.SessionUpdate) -> None:
        if isinstance(update, acp.AgentMessageChunk | acp.AgentThoughtChunk) and isinstance(
            update.content, acp.TextContent
        ):
            message = (type(update), update.message_id)
            if self._open != message:
                self._close()
                self._open = message
            self._texts.append(update.content.text)
        elif isinstance(update, _HISTORY):
            self._close()
            self._entries.append(msgspec.Raw(msgspec.json.encode(update)))

    def entries(self) -> list[msgspec.Raw]:
        self._close()
        return list(self._entries)

    def _close(self) -> None:
        if self._open is not None:
            kind, message_id = self._open
            whole = kind(content=acp.TextContent(text="".join(self._texts)), message_id=message_id)
            self._entries.append(msgspec.Raw(msgspec.json.encode(whole)))
            self._open = None
            self._texts.clear()


class Session:
    """One conversation that is open in this process. `run` is the prompt under way, if any."""

    def __init__(self, saved: SavedSession, mcp_servers: tuple[acp.McpServer, ...]) -> None:
        self.id = saved.id
        self.cwd = saved.cwd
        self.additional_directories = saved.additional_directories
        self.mcp_servers = mcp_servers
        self.title = saved.title
        self.updated_at = saved.updated_at
        self.mode = saved.mode
        self.values: settings.Values = settings.default_values() | saved.values
        self.words = saved.words
        self.history = History(saved.history)
        # "Always" answers, by kind of tool. They end with the process: an old yes must gain no authority later.
        self.always: dict[str, bool] = {}
        # A question that was asked in text, for clients without forms: the next prompt may answer it.
        self.question: str | None = None
        self.run: PromptRun | None = None
        self._messages = 0
        self._prefix = new_id().removeprefix("demo-")[:6]

    def next_id(self, kind: str) -> str:
        """Return an id that no earlier process has used in this session."""
        self._messages += 1
        return f"{kind}-{self._prefix}-{self._messages}"

    def add_prompt(self, blocks: tuple[acp.ContentBlock, ...]) -> None:
        """Add the user's prompt to the history; it is not echoed."""
        message_id = self.next_id("user")
        for block in blocks:
            self.history.add(acp.UserMessageChunk(content=block, message_id=message_id))

    def saved(self) -> SavedSession:
        return SavedSession(
            id=self.id,
            cwd=self.cwd,
            additional_directories=self.additional_directories,
            title=self.title,
            updated_at=self.updated_at,
            mode=self.mode,
            values=self.values,
            words=self.words,
            history=self.history.entries(),
        )

    def options(self, *, switches: bool) -> tuple[acp.SessionConfigOption, ...]:
        return settings.options(self.mode, self.values, switches=switches)

    @property
    def context_size(self) -> int:
        return DOCUMENT.context_size[str(self.values["model"])]


def title_of(prompt: str) -> str:
    """Return the first line of a prompt, shortened."""
    line = " ".join(prompt.strip().splitlines()[:1]).strip() or "Untitled"
    return line if len(line) <= _MAX_TITLE_CHARACTERS else line[: _MAX_TITLE_CHARACTERS - 1].rstrip() + "…"


def timestamp(now: float) -> str:
    """Format the time as ISO 8601 in UTC, to the millisecond; it sorts as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


class Tool:
    """A tool call from its first sight to its end."""

    def __init__(self, run: PromptRun, call: acp.ToolCall) -> None:
        self._turn = run
        self.call = call
        self.open = True

    def progress(self, *content: acp.ToolCallContent) -> None:
        """Report the tool call as in progress; `content` replaces what was shown."""
        self._update(status="in_progress", content=content or None)

    def complete(self, *content: acp.ToolCallContent, raw_output: object = None) -> None:
        self.open = False
        self._update(status="completed", content=content or None, raw_output=raw_output)

    def fail(self, reason: str) -> None:
        self.open = False
        self._update(status="failed", content=(text_content(reason),), raw_output={"error": reason})

    def _update(self, **changes: object) -> None:
        update = msgspec.structs.replace(acp.SessionToolCallUpdate(tool_call_id=self.call.tool_call_id), **changes)
        self._turn.update(update)


class PromptRun:
    def __init__(
        self, session: Session, connection: RpcConnection, client: acp.ClientCapabilities, world: World, logged_in: bool
    ) -> None:
        self.session = session
        self.connection = connection
        self.client = client
        self.world = world
        self.logged_in = logged_in
        self.ignores_cancel = False  # a hanging run
        self._cancelled = False
        self.input_words = self.output_words = self.thought_words = 0
        self._message: tuple[type, str] | None = None
        self._tools: list[Tool] = []
        self._sent = 0
        self._scene: asyncio.Task[acp.StopReason | None] | None = None

    # -- from beginning to end

    async def play(self, scene: Coroutine[Any, Any, acp.StopReason | None]) -> acp.PromptResponse:
        """Run the scene to its end, however it ends. Must be called at once: a cancel may already be on its way."""
        self._scene = asyncio.get_running_loop().create_task(scene, name="demo scene")
        while not self._scene.done():
            try:
                await asyncio.wait([self._scene])
            except asyncio.CancelledError:  # `$/cancel_request`, or the connection ended
                if self.ignores_cancel:
                    continue
                await self._stop()
                raise
        try:
            stop_reason = self._scene.result() or "end_turn"
        except (asyncio.CancelledError, RunCancelled, Cancelled):
            stop_reason = "cancelled"
        self._close_tools()
        return acp.PromptResponse(stop_reason=stop_reason, usage=self._usage())

    def cancel(self) -> None:
        # Once only: a second cancel would interrupt the clean-up after the first.
        if self._scene is not None and not self.ignores_cancel and not self._cancelled:
            self._cancelled = True
            self._scene.cancel()

    async def _stop(self) -> None:
        assert self._scene is not None
        self.cancel()
        await asyncio.wait([self._scene])
        self._close_tools()

    def _close_tools(self) -> None:
        for tool in self._tools:
            if tool.open:
                tool.fail("Cancelled")

    def _usage(self) -> acp.Usage | None:
        """Report the usage once, at the end, if the run sent anything at all."""
        if not self._sent:
            return None
        self.session.words += self.input_words + self.output_words + self.thought_words
        self.report_usage()
        return acp.Usage(
            total_tokens=self.input_words + self.output_words + self.thought_words,
            input_tokens=self.input_words,
            output_tokens=self.output_words,
            thought_tokens=self.thought_words,
        )

    def report_usage(self) -> None:
        """Report words instead of tokens, and a cost of zero."""
        size = self.session.context_size
        self.update(
            acp.UsageUpdate(used=min(self.session.words, size), size=size, cost=acp.Cost(amount=0.0, currency="USD"))
        )

    # -- speaking

    def update(self, update: acp.SessionUpdate) -> None:
        self._sent += 1
        if not isinstance(update, acp.AgentMessageChunk | acp.AgentThoughtChunk):
            self._message = None  # text after another kind of update is a new message
        self.session.history.add(update)
        self.connection.notify("session/update", acp.SessionNotification(session_id=self.session.id, update=update))

    def chunk(
        self,
        content: acp.ContentBlock,
        kind: type[acp.AgentMessageChunk | acp.AgentThoughtChunk] = acp.AgentMessageChunk,
    ) -> None:
        """Send a chunk of the current message, or of a new one if the last chunk was of another kind."""
        if self._message is None or self._message[0] is not kind:
            self._message = (kind, self.session.next_id("message"))
        self.update(kind(content=content, message_id=self._message[1]))

    async def say(self, text: str) -> None:
        """Stream text word by word. A second text in the same message is a new paragraph."""
        if self._message is not None and self._message[0] is acp.AgentMessageChunk:
            text = "\n\n" + text
        self.output_words += await self._stream(text, acp.AgentMessageChunk)

    async def think(self, text: str) -> None:
        if self._message is not None and self._message[0] is acp.AgentThoughtChunk:
            text = "\n\n" + text
        self.thought_words += await self._stream(text, acp.AgentThoughtChunk)

    async def _stream(self, text: str, kind: type[acp.AgentMessageChunk | acp.AgentThoughtChunk]) -> int:
        words = _WORD.findall(text) if self.session.values[SWITCH_ID] else [text]
        for word in words:
            self.chunk(acp.TextContent(text=word), kind)
            if self.world.pace > 0:
                await self.world.sleep(self.world.pace)
            elif self._sent % BURST_CHUNKS == 0:
                await self.breathe()
        return len(text.split())

    async def breathe(self) -> None:
        """Wait while the client is behind, and let the event loop read what came in."""
        await self.connection.drain()
        await asyncio.sleep(0)

    def plan(self, *entries: tuple[str, acp.PlanEntryStatus]) -> None:
        """Send the whole plan; it replaces the previous one."""
        self.update(
            acp.Plan(
                entries=tuple(acp.PlanEntry(content=text, priority="medium", status=status) for text, status in entries)
            )
        )

    def tool(
        self,
        title: str,
        kind: acp.ToolKind,
        *content: acp.ToolCallContent,
        locations: tuple[acp.ToolCallLocation, ...] = (),
        raw_input: object = None,
    ) -> Tool:
        """Report a pending tool call."""
        call = acp.ToolCall(
            tool_call_id=self.session.next_id("call"),
            title=title,
            kind=kind,
            status="pending",
            content=content,
            locations=locations,
            raw_input=raw_input,
        )
        self.update(call)
        tool = Tool(self, call)
        self._tools.append(tool)
        return tool

    def options(self) -> tuple[acp.SessionConfigOption, ...]:
        return self.session.options(switches=shows_switches(self.client))

    # -- asking

    async def request(self, method: str, params: object, answer: TypeForm[T]) -> T:
        """Send a request to the client. `RequestFailed` when it refuses, or its answer cannot be decoded."""
        raw = await self.connection.request(method, params)
        try:
            return lenient.decode(raw, answer)
        except msgspec.MsgspecError as error:
            message = f"the answer to {method} cannot be decoded: {error}"
            raise RequestFailed(message, method=method, code=INTERNAL_ERROR) from None

    async def elicit(self, question: acp.ElicitationFormMode | acp.ElicitationUrlMode) -> acp.CreateElicitationResponse:
        return await self.request("elicitation/create", question, acp.CreateElicitationResponse)

    async def allowed(self, tool: Tool) -> bool:
        """Return whether the tool may be used, by an earlier "always" or by asking. After a "no" the run goes on."""
        if self.session.mode == "plan":
            tool.fail("Not done: this session is in plan mode")
            await self.say("I am in plan mode, so I only show what I would do. Say `mode code` to let me act.")
            return False
        kind = tool.call.kind or "other"
        # In ask mode an earlier "always allow" does not count; an "always reject" still spares the question.
        remembered = self.session.always.get(kind)
        if remembered is None or (remembered and self.session.mode == "ask"):
            remembered = await self._ask_permission(tool, kind)
        else:
            await self.say(f"You said “always {'allow' if remembered else 'reject'}”, so I do not ask again.")
        if not remembered and tool.open:
            tool.fail("Rejected by the user")
            await self.say("You said no, so I leave it. Nothing was changed.")
        return remembered

    async def _ask_permission(self, tool: Tool, kind: str) -> bool:
        call = tool.call
        shown = acp.ToolCallUpdate(
            tool_call_id=call.tool_call_id,
            title=call.title,
            kind=call.kind,
            status=call.status,
            content=call.content or None,
            locations=call.locations or None,
            raw_input=call.raw_input,
        )
        params = acp.RequestPermissionRequest(session_id=self.session.id, tool_call=shown, options=_OPTIONS)
        try:
            answer = await self.request("session/request_permission", params, acp.RequestPermissionResponse)
        except RequestFailed as error:
            tool.fail(f"No permission: {error}")
            await self.say("This client could not ask you for permission, so I leave it. Nothing was changed.")
            return False
        match answer.outcome:
            case acp.CancelledPermissionOutcome():
                raise RunCancelled
            case acp.SelectedPermissionOutcome(option_id=option_id):
                # An option that was not offered is no permission.
                allowed = option_id in ("allow-once", "allow-always")
                if option_id.endswith("-always"):
                    self.session.always[kind] = allowed
                return allowed


def text_content(text: str) -> acp.Content:
    return acp.Content(content=acp.TextContent(text=text))


def shows_switches(client: acp.ClientCapabilities) -> bool:
    """Return whether the client can show an on-off option."""
    offers = client.session and client.session.config_options
    return bool(offers and offers.boolean is not None)
