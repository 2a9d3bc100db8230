"""The tools of one server: looked up, called as transactions, and each call recorded.

Independent of MCP. Exceptions of a tool end here: of a `ToolError` the agent sees the text, of any other the type and
the id of the call, under which the record has the traceback.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.evaluation.content import MAX_RESULT_BYTES, Content, Unfit, failed
from dragoman.evaluation.tool import Tool, ToolContext, ToolError, tools_of
from dragoman.evaluation.transaction import Work, check_state, perform
from dragoman.evaluation.types import Invalid

Outcome = Literal["running", "ok", "error", "refused", "cancelled"]
"""`refused`: the arguments did not fit, and the function was not run."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool of ours."""

    id: str  # ours; the agent sees it with an error whose details it does not see
    name: str  # the tool's
    arguments: Any  # JSON, as the agent sent it
    read_only: bool = False  # the tool said of itself that it changes nothing
    outcome: Outcome = "running"
    result: Any = None  # JSON, of a call that went well
    error: str | None = None  # the text that the agent saw
    traceback: str | None = None  # of what the tool raised; for the caller, the agent never sees it
    started: float  # seconds since the epoch
    duration: float | None = None  # seconds; None while it runs
    tool_call_id: str | None = None  # the agent's id of it, where `link` found one

    @property
    def finished(self) -> bool:
        return self.outcome != "running"


OnCall: TypeAlias = Callable[[Call], None]


class ReportedCall(Protocol):
    """A tool call as the agent reports it: a row of the record, or the event's."""

    @property
    def tool_call_id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def raw_input(self) -> Any: ...


def link(calls: Iterable[Call], reported: Iterable[ReportedCall]) -> tuple[Call, ...]:
    """Return the calls, each with the id of the agent's tool call that it belongs to.

    Agents do not tell which is which. They name the tool in the call's name or title, each in its own way, and most
    repeat the arguments; equal calls are matched in order. A call without a match keeps no id.
    """
    linked = list(calls)
    unmatched = list(reported)
    for is_match in (_same_call, _same_name, _same_arguments):
        for position, call in enumerate(linked):
            row = next((row for row in unmatched if call.tool_call_id is None and is_match(call, row)), None)
            if row is not None:
                unmatched.remove(row)
                linked[position] = msgspec.structs.replace(call, tool_call_id=row.tool_call_id)
    return tuple(linked)


def _same_call(call: Call, row: ReportedCall) -> bool:
    return _names(call, row) and _repeats(call, row)


def _same_name(call: Call, row: ReportedCall) -> bool:
    """Return whether the name matches and no arguments contradict: some agents report none, or only what they show."""
    return _names(call, row) and not row.raw_input


def _same_arguments(call: Call, row: ReportedCall) -> bool:
    """Match by arguments: goose replaces the tool's name by a title of the model's."""
    return not row.name and bool(call.arguments) and _repeats(call, row)


def _names(call: Call, row: ReportedCall) -> bool:
    """Match by name: `mcp__dragoman__lookup`, `dragoman_lookup`, `dragoman: look up`, `lookup (dragoman MCP …)`.

    Gemini puts an argument over some calls, but begins their ids with the name: `mcp_dragoman_lookup__…`.
    """
    name_words = _words(call.name)
    texts = (row.name, row.title, row.tool_call_id.rpartition("__")[0])
    return any(_words(text)[-len(name_words) :] == name_words for text in texts if text)


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", re.sub(r"\(.*\)$", "", text).lower()) if word]


def _repeats(call: Call, row: ReportedCall) -> bool:
    """Return whether the arguments are the raw input, or a value in it (`{"tool": …, "arguments": …}`)."""
    raw_input = row.raw_input
    if raw_input == call.arguments:
        return True
    return isinstance(raw_input, dict) and any(value == call.arguments for value in raw_input.values() if value)


logger = logging.getLogger(__name__)

# Time for cancelled calls to end when the toolbox is closed. Plain functions cannot be cancelled.
CANCEL_GRACE_S: Final = 1.0

Report = Callable[[float, float | None, str | None], None]


class CallEnd(msgspec.Struct, frozen=True):
    """The end of a call, with what the agent does not see."""

    outcome: Outcome
    traceback: str | None = None


class Toolbox:
    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]],
        *,
        state: object | None = None,
        on_call: OnCall | None = None,
        max_bytes: int = MAX_RESULT_BYTES,
    ) -> None:
        if state is not None:
            check_state(state)
        self.tools = tools_of(tools)
        self.calls: list[Call] = []
        self._state = state
        self._on_call = on_call
        self._max_bytes = max_bytes
        self._closed = False
        self._attempts: set[asyncio.Future[tuple[Content, CallEnd]]] = set()  # calls under way
        self._at_work: set[Work] = set()  # functions that run, of calls that were cancelled as well

    async def call(self, name: str, arguments: Any, report: Report | None = None) -> Content:
        """Call a tool. Errors are in the answer; only a cancellation is raised, and recorded."""
        if self._closed:
            return failed("the tool server is closed")
        tool = self.tools.get(name)
        if tool is None:
            return failed(f"there is no tool {name!r}; there are: {', '.join(self.tools) or 'none'}")
        call = Call(
            id=f"call-{len(self.calls) + 1}",
            name=name,
            arguments=arguments,
            read_only=tool.read_only,
            started=time.time(),
        )
        self.calls.append(call)
        self._notify(call)
        started = time.monotonic()
        content, end = failed("the call was cancelled"), CallEnd("cancelled")
        attempt = asyncio.ensure_future(self._attempt(tool, arguments, call.id, report))
        self._attempts.add(attempt)
        try:
            await asyncio.wait({attempt})
            if not attempt.cancelled():  # by `close`: the caller gets that error
                content, end = attempt.result()
        finally:
            attempt.cancel()
            self._attempts.discard(attempt)
            self._end(call, content, end, time.monotonic() - started)
        return content

    async def _attempt(
        self, tool: Tool, arguments: Any, call_id: str, report: Report | None
    ) -> tuple[Content, CallEnd]:
        try:
            content = await self._perform(tool, arguments, ToolContext(call_id, self._state, report))
        except Invalid as error:
            return failed(f"the arguments of {tool.name} do not fit: {error}"), CallEnd("refused")
        except (ToolError, Unfit) as error:
            return failed(str(error) or f"{tool.name} failed"), CallEnd("error", _traceback(error))
        except Exception as error:
            message = f"{tool.name} failed: {type(error).__name__} (reference: {call_id})"
            return failed(message), CallEnd("error", _traceback(error))
        return content, CallEnd("ok")

    def _end(self, call: Call, content: Content, end: CallEnd, duration: float) -> None:
        done = msgspec.structs.replace(
            call,
            outcome=end.outcome,
            result=content.value,
            error=content.text if content.is_error else None,
            traceback=end.traceback,
            duration=duration,
        )
        self.calls[self.calls.index(call)] = done
        self._notify(done)

    async def _perform(self, tool: Tool, arguments: Any, context: ToolContext) -> Content:
        function = tool.bound(arguments, context)

        def to_content(result: Any) -> Content:
            # Part of the transaction: a result that cannot be passed on is a failure, too.
            try:
                return tool.content(result, self._max_bytes)
            except InputError as error:
                raise Unfit(f"the result of {tool.name} cannot be passed on: {error}") from error

        async def call_async() -> Content:
            return to_content(await function())

        work: Callable[[], Any] = (lambda: to_content(function())) if tool.plain else call_async
        content: Content = await perform(work, plain=tool.plain, state=self._state, at_work=self._at_work)
        return content

    async def close(self) -> None:
        """Cancel all calls and give them a short time to end, so that their changes are undone when this returns."""
        self._closed = True
        for attempt in self._attempts:
            attempt.cancel()
        if self._attempts:
            await asyncio.wait(self._attempts)
        if self._at_work:
            _, late = await asyncio.wait(self._at_work, timeout=CANCEL_GRACE_S)
            if late:
                logger.warning("%d tool calls were cancelled and still run", len(late))
            await asyncio.sleep(0)  # what is undone is undone in the loop's next turn

    def _notify(self, call: Call) -> None:
        if self._on_call is None:
            return
        try:
            self._on_call(call)
        except Exception:
            logger.exception("on_call failed")


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
