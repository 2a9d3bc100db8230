"""The tools of one server: looked up, called as transactions, and each call recorded.

Knows nothing of MCP. What a tool raises ends here: a `ToolError` is told in its own words, of anything else the agent
learns the type and a reference, the call's id, under which the record has the traceback.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from dragoman.errors import InputError
from dragoman.evaluation.calls import Call, OnCall, Outcome
from dragoman.evaluation.content import MOST_BYTES, Content, Unfit, failed
from dragoman.evaluation.snapshot import check_state
from dragoman.evaluation.tool import Context, Tool, ToolError, tools_of
from dragoman.evaluation.transaction import Work, perform
from dragoman.evaluation.types import Invalid

logger = logging.getLogger(__name__)

GRACE: Final = 1.0
"""Seconds that cancelled calls get to come back when all is closed. Plain functions cannot be told to."""

Report = Callable[[float, float | None, str | None], None]


class Ended(msgspec.Struct, frozen=True):
    """How a call ended, beyond what the agent was told."""

    outcome: Outcome
    traceback: str | None = None


class Toolbox:
    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]],
        *,
        state: object | None = None,
        on_call: OnCall | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        if state is not None:
            check_state(state)
        self.tools = tools_of(tools)
        self.calls: list[Call] = []
        self._state = state
        self._on_call = on_call
        self._most_bytes = most_bytes
        self._closed = False
        self._attempts: set[asyncio.Future[tuple[Content, Ended]]] = set()  # calls under way
        self._at_work: set[Work] = set()  # functions that run, of calls that were cancelled as well

    async def call(self, name: str, arguments: Any, report: Report | None = None) -> Content:
        """Calls a tool; whatever goes wrong is in the answer. Only a cancellation is raised, and recorded."""
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
        self._tell(call)
        begun = time.monotonic()
        content, ended = failed("the call was cancelled"), Ended("cancelled")
        attempt = asyncio.ensure_future(self._attempt(tool, arguments, call.id, report))
        self._attempts.add(attempt)
        try:
            await asyncio.wait({attempt})
            if not attempt.cancelled():  # by `close`, and then whoever called is told so
                content, ended = attempt.result()
        finally:
            attempt.cancel()
            self._attempts.discard(attempt)
            self._end(call, content, ended, time.monotonic() - begun)
        return content

    async def _attempt(self, tool: Tool, arguments: Any, call_id: str, report: Report | None) -> tuple[Content, Ended]:
        try:
            content = await self._perform(tool, arguments, Context(call_id, self._state, report))
        except Invalid as problem:
            return failed(f"the arguments of {tool.name} do not fit: {problem}"), Ended("refused")
        except (ToolError, Unfit) as problem:
            return failed(str(problem) or f"{tool.name} failed"), Ended("error", _traceback(problem))
        except Exception as problem:
            told = f"{tool.name} failed: {type(problem).__name__} (reference: {call_id})"
            return failed(told), Ended("error", _traceback(problem))
        return content, Ended("ok")

    def _end(self, call: Call, content: Content, ended: Ended, duration: float) -> None:
        done = msgspec.structs.replace(
            call,
            outcome=ended.outcome,
            result=content.value,
            error=content.text if content.is_error else None,
            traceback=ended.traceback,
            duration=duration,
        )
        self.calls[self.calls.index(call)] = done
        self._tell(done)

    async def _perform(self, tool: Tool, arguments: Any, context: Context) -> Content:
        function = tool.bound(arguments, context)

        def finished(result: Any) -> Content:
            # Part of the transaction: a result that cannot be passed on is a failure, too.
            try:
                return tool.content(result, self._most_bytes)
            except InputError as problem:
                raise Unfit(f"the result of {tool.name} cannot be passed on: {problem}") from problem

        async def awaited() -> Content:
            return finished(await function())

        work: Callable[[], Any] = (lambda: finished(function())) if tool.plain else awaited
        content: Content = await perform(work, plain=tool.plain, state=self._state, at_work=self._at_work)
        return content

    async def close(self) -> None:
        """Cancels all calls, and waits a little for them, so that what they changed is undone when this returns."""
        self._closed = True
        for attempt in self._attempts:
            attempt.cancel()
        if self._attempts:
            await asyncio.wait(self._attempts)
        if self._at_work:
            _, late = await asyncio.wait(self._at_work, timeout=GRACE)
            if late:
                logger.warning("%d tool calls were cancelled and still run", len(late))
            await asyncio.sleep(0)  # what is undone is undone in the loop's next turn

    def _tell(self, call: Call) -> None:
        if self._on_call is None:
            return
        try:
            self._on_call(call)
        except Exception:
            logger.exception("on_call failed")


def _traceback(problem: BaseException) -> str:
    return "".join(traceback.format_exception(problem))
