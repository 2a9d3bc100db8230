"""One prompt under way: the means by which a scene speaks, shows tool calls and asks.

Whatever a turn sends also becomes history. A turn ends by its scene, by `session/cancel` or by a permission that was
answered `cancelled`; tool calls that were then still open are told as failed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

import msgspec

from dragoman.agents.demo.session import Session
from dragoman.agents.demo.settings import SWITCH_ID
from dragoman.errors import INTERNAL_ERROR, Cancelled, RequestFailed
from dragoman.wire import lenient
from dragoman.wire.connection import Connection
from dragoman.wire.vocabulary import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CancelledPermissionOutcome,
    ClientCapabilities,
    Content,
    ContentBlock,
    Cost,
    CreateElicitationResponse,
    ElicitationFormMode,
    ElicitationUrlMode,
    PermissionOption,
    Plan,
    PlanEntry,
    PlanEntryStatus,
    PromptResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
    SessionConfigOption,
    SessionNotification,
    SessionToolCallUpdate,
    SessionUpdate,
    StopReason,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallLocation,
    ToolCallUpdate,
    ToolKind,
    Usage,
    UsageUpdate,
)

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # known to type checkers without being installed

T = TypeVar("T")

# Chunks that are sent without a pause before the loop gets its turn: a cancel must be heard during a flood.
BURST = 256

_WORD = re.compile(r"\s*\S+\s*|\s+")

_OPTIONS = (
    PermissionOption(option_id="allow-once", name="Allow", kind="allow_once"),
    PermissionOption(option_id="allow-always", name="Always allow", kind="allow_always"),
    PermissionOption(option_id="reject-once", name="Reject", kind="reject_once"),
    PermissionOption(option_id="reject-always", name="Always reject", kind="reject_always"),
)


class World(msgspec.Struct, frozen=True):
    """What lies outside of the agent and is passed in: time, the process's end, its stderr, raw lines to stdout."""

    pace: float
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], float]
    exit: Callable[[int], NoReturn]
    stderr: TextIO
    write_raw: Callable[[bytes], None]


class TurnCancelled(Exception):
    """A permission was answered `cancelled`: the turn ends so."""


class Tool:
    """A tool call from its first sight to its end."""

    def __init__(self, turn: Turn, call: ToolCall) -> None:
        self._turn = turn
        self.call = call
        self.open = True

    def progress(self, *content: ToolCallContent) -> None:
        """It works now; content, where given, replaces what was shown."""
        self._tell(status="in_progress", content=content or None)

    def complete(self, *content: ToolCallContent, raw_output: object = None) -> None:
        self.open = False
        self._tell(status="completed", content=content or None, raw_output=raw_output)

    def fail(self, reason: str) -> None:
        self.open = False
        self._tell(status="failed", content=(text_content(reason),), raw_output={"error": reason})

    def _tell(self, **changes: object) -> None:
        update = msgspec.structs.replace(SessionToolCallUpdate(tool_call_id=self.call.tool_call_id), **changes)
        self._turn.update(update)


class Turn:
    def __init__(
        self, session: Session, connection: Connection, client: ClientCapabilities, world: World, logged_in: bool
    ) -> None:
        self.session = session
        self.connection = connection
        self.client = client
        self.world = world
        self.logged_in = logged_in
        self.deaf = False  # a hanging turn hears no cancel
        self._cancelled = False
        self.input_words = self.output_words = self.thought_words = 0
        self._message: tuple[type, str] | None = None
        self._tools: list[Tool] = []
        self._sent = 0
        self._scene: asyncio.Task[StopReason | None] | None = None

    # -- from beginning to end

    async def play(self, scene: Coroutine[Any, Any, StopReason | None]) -> PromptResponse:
        """Runs the scene to its end, however it ends. Must be called at once: a cancel may already be on its way."""
        self._scene = asyncio.get_running_loop().create_task(scene, name="demo scene")
        while not self._scene.done():
            try:
                await asyncio.wait([self._scene])
            except asyncio.CancelledError:  # `$/cancel_request`, or the connection ended
                if self.deaf:
                    continue
                await self._stop()
                raise
        try:
            stop_reason = self._scene.result() or "end_turn"
        except (asyncio.CancelledError, TurnCancelled, Cancelled):
            stop_reason = "cancelled"
        self._close_tools()
        return PromptResponse(stop_reason=stop_reason, usage=self._usage())

    def cancel(self) -> None:
        # Once only: a second one would break into the cleaning up after the first.
        if self._scene is not None and not self.deaf and not self._cancelled:
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

    def _usage(self) -> Usage | None:
        """Told once at the end, where anything was said at all."""
        if not self._sent:
            return None
        self.session.words += self.input_words + self.output_words + self.thought_words
        self.tell_usage()
        return Usage(
            total_tokens=self.input_words + self.output_words + self.thought_words,
            input_tokens=self.input_words,
            output_tokens=self.output_words,
            thought_tokens=self.thought_words,
        )

    def tell_usage(self) -> None:
        """Words in place of tokens, and a cost that is known for certain."""
        size = self.session.context_size
        self.update(UsageUpdate(used=min(self.session.words, size), size=size, cost=Cost(amount=0.0, currency="USD")))

    # -- speaking

    def update(self, update: SessionUpdate) -> None:
        self._sent += 1
        if not isinstance(update, AgentMessageChunk | AgentThoughtChunk):
            self._message = None  # what is said after something else has happened is a new message
        self.session.history.add(update)
        self.connection.notify("session/update", SessionNotification(session_id=self.session.id, update=update))

    def chunk(
        self, content: ContentBlock, kind: type[AgentMessageChunk | AgentThoughtChunk] = AgentMessageChunk
    ) -> None:
        """One chunk of the current message; a new message when the last chunk was of another kind."""
        if self._message is None or self._message[0] is not kind:
            self._message = (kind, self.session.next_id("message"))
        self.update(kind(content=content, message_id=self._message[1]))

    async def say(self, text: str) -> None:
        """Streams text word by word. A second text in the same message is a new paragraph."""
        if self._message is not None and self._message[0] is AgentMessageChunk:
            text = "\n\n" + text
        self.output_words += await self._stream(text, AgentMessageChunk)

    async def think(self, text: str) -> None:
        if self._message is not None and self._message[0] is AgentThoughtChunk:
            text = "\n\n" + text
        self.thought_words += await self._stream(text, AgentThoughtChunk)

    async def _stream(self, text: str, kind: type[AgentMessageChunk | AgentThoughtChunk]) -> int:
        words = _WORD.findall(text) if self.session.values[SWITCH_ID] else [text]
        for word in words:
            self.chunk(TextContent(text=word), kind)
            if self.world.pace > 0:
                await self.world.sleep(self.world.pace)
            elif self._sent % BURST == 0:
                await self.breathe()
        return len(text.split())

    async def breathe(self) -> None:
        """Waits while the client is behind, and lets the loop hear what came in."""
        await self.connection.drain()
        await asyncio.sleep(0)

    def plan(self, *entries: tuple[str, PlanEntryStatus]) -> None:
        """The whole plan: each telling replaces the last."""
        self.update(
            Plan(entries=tuple(PlanEntry(content=text, priority="medium", status=status) for text, status in entries))
        )

    def tool(
        self,
        title: str,
        kind: ToolKind,
        *content: ToolCallContent,
        locations: tuple[ToolCallLocation, ...] = (),
        raw_input: object = None,
    ) -> Tool:
        """Shows a tool call, pending."""
        call = ToolCall(
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

    def options(self) -> tuple[SessionConfigOption, ...]:
        return self.session.options(switches=shows_switches(self.client))

    # -- asking

    async def request(self, method: str, params: object, answer: TypeForm[T]) -> T:
        """Asks the client. `RequestFailed` when it refuses, or answers what cannot be read."""
        raw = await self.connection.request(method, params)
        try:
            return lenient.decode(raw, answer)
        except msgspec.MsgspecError as problem:
            message = f"{method} was answered with what cannot be read: {problem}"
            raise RequestFailed(message, method=method, code=INTERNAL_ERROR) from None

    async def elicit(self, question: ElicitationFormMode | ElicitationUrlMode) -> CreateElicitationResponse:
        return await self.request("elicitation/create", question, CreateElicitationResponse)

    async def allowed(self, tool: Tool) -> bool:
        """Whether the tool may be used: by an earlier "always", else by asking. A "no" is told; the turn goes on."""
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
        shown = ToolCallUpdate(
            tool_call_id=call.tool_call_id,
            title=call.title,
            kind=call.kind,
            status=call.status,
            content=call.content or None,
            locations=call.locations or None,
            raw_input=call.raw_input,
        )
        params = RequestPermissionRequest(session_id=self.session.id, tool_call=shown, options=_OPTIONS)
        try:
            answer = await self.request("session/request_permission", params, RequestPermissionResponse)
        except RequestFailed as problem:
            tool.fail(f"No permission: {problem}")
            await self.say("This client could not ask you for permission, so I leave it. Nothing was changed.")
            return False
        match answer.outcome:
            case CancelledPermissionOutcome():
                raise TurnCancelled
            case SelectedPermissionOutcome(option_id=option_id):
                # An option that was not offered is no permission.
                allowed = option_id in ("allow-once", "allow-always")
                if option_id.endswith("-always"):
                    self.session.always[kind] = allowed
                return allowed


def text_content(text: str) -> Content:
    return Content(content=TextContent(text=text))


def shows_switches(client: ClientCapabilities) -> bool:
    """Whether the client can show an on-off option."""
    offers = client.session and client.session.config_options
    return bool(offers and offers.boolean is not None)
