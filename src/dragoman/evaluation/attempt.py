"""`Attempt`: one session of an evaluation, from the agent's start to its end; `carried_out`: as many as it takes.

An attempt has a session of its own, and a tool server that lives as long. Whatever happens, both end with it; so does
the agent's process, unless the caller gave a runtime that it runs itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dragoman.errors import DragomanError, InputError
from dragoman.evaluation.budget import Budget, Spending
from dragoman.evaluation.calls import Call, link
from dragoman.evaluation.guard import Guard
from dragoman.evaluation.identity import SERVER, tells_of
from dragoman.evaluation.output import NAME, Output
from dragoman.evaluation.permissions import Permissions
from dragoman.evaluation.response import PromptResponse, Stats, limit_of
from dragoman.evaluation.retry import Retry, had_side_effects
from dragoman.evaluation.rounds import Rounds, TimeLeft
from dragoman.evaluation.tool import Tool
from dragoman.evaluation.types import Shape
from dragoman.record import events, rows
from dragoman.session.prompt import Input
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.session.spec import OnEvent, SessionConfig

if TYPE_CHECKING:
    from dragoman.evaluation.server import ToolServer

Transport = Literal["auto", "http", "stdio"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that was asked for, checked. The same for each attempt."""

    prompt: Input
    shape: Shape | None
    tools: tuple[Tool, ...]
    state: object
    config: SessionConfig
    permissions: Permissions
    runtime: Callable[[], AgentRuntime]
    given_runtime: bool  # the caller's: it is started, and stays
    transport: Transport
    guards: tuple[Guard, ...]
    max_rounds: int
    idle_limit: float | None
    heartbeat: Callable[[], None] | None
    on_event: OnEvent | None


class Attempt:
    """One session, from the agent's start to its end."""

    def __init__(self, plan: Plan, number: int, spending: Spending, time: TimeLeft) -> None:
        self._plan = plan
        self._number = number
        self._spending = spending
        self._time = time
        self._calls_before = spending.tool_calls
        self._calls: dict[str, Call] = {}
        self._reported = 0
        # The agent's ids: a title may be another one later, and an id that of another call.
        self._handing_over: set[str] = set()
        self._working: set[str] = set()
        self._refused: set[str | None] = set()
        self._refusals = 0
        self._output = Output(plan.shape) if plan.shape is not None else None
        self._rounds: Rounds | None = None
        self._session: Session | None = None
        self._name = ""
        self._version: str | None = None

    async def run(self) -> PromptResponse[Any]:
        """Raises what it failed with; `result` of the error is the response so far, with a value that was accepted."""
        try:
            async with AsyncExitStack() as stack:
                rounds = self._rounds = await self._opened(stack)
                response = await rounds.play(self._plan.prompt, self.stats)
        except DragomanError as problem:
            last = self._rounds.last if self._rounds is not None else None
            problem.result = PromptResponse(
                output=self._output.value if self._output is not None else None,
                text=last.text if last is not None else "",
                stop_reason=last.stop_reason if last is not None else None,
                stats=msgspec.structs.replace(self.stats(), limit=limit_of(problem)),
            )
            raise
        return msgspec.structs.replace(
            response, stats=msgspec.structs.replace(response.stats, over_budget=self._spending.used_up())
        )

    async def _opened(self, stack: AsyncExitStack) -> Rounds:
        """The agent, its tools and a session, each on the stack; within the time that is left."""
        plan = self._plan
        output = self._output
        tools = (*plan.tools, *((output.tool,) if output is not None else ()))
        self._time.left()
        try:
            async with asyncio.timeout_at(self._time.ends):
                runtime = plan.runtime()
                self._name = runtime.spec.name
                if not plan.given_runtime:
                    stack.push_async_callback(runtime.close)
                    await runtime.start()
                self._version = runtime.capabilities().agent_version
                servers = plan.config.mcp_servers
                if tools:
                    server = _server()(tools, state=plan.state, on_call=self._called, name=SERVER)
                    await stack.enter_async_context(server)
                    http = plan.transport == "http" or (plan.transport == "auto" and runtime.capabilities().mcp_http)
                    servers = (*servers, server.for_agent(http=http))
                config = msgspec.structs.replace(plan.config, mcp_servers=servers, on_event=self._heard)
                session = self._session = await runtime.open_session(config)
                stack.push_async_callback(session.close)
        except TimeoutError:
            raise self._time.over(f" before {self._name or 'the agent'} was ready") from None
        self._spending.begin_session()
        return Rounds(
            session,
            output=output,
            spending=self._spending,
            time=self._time,
            has_tool=output is not None,
            guards=plan.guards,
            max_rounds=plan.max_rounds,
            idle_limit=plan.idle_limit,
            heartbeat=plan.heartbeat,
            rules=plan.permissions.run_rules,
        )

    # -- what happens meanwhile

    def _heard(self, event: events.Event) -> None:
        rounds = self._rounds
        if rounds is not None:
            rounds.heard(event)
        match event:
            case events.ToolCall():
                if tells_of(event, SERVER, NAME):
                    self._handing_over.add(event.tool_call_id)
                else:
                    self._working.add(event.tool_call_id)
                    self._reported += 1
                    self._count()
            case events.PermissionResolved(decision="deny", origin="agent"):
                self._refused.add(event.tool_call_id)
                self._refusals += 1
            case events.FileRead(status="denied") | events.FileWritten(status="denied"):
                self._refusals += 1
            case events.TerminalRefused(status="denied"):
                self._refusals += 1
            case _:
                pass
        if self._plan.on_event is not None:
            self._plan.on_event(event)

    def _called(self, call: Call) -> None:
        if call.name == NAME:
            return
        self._calls[call.id] = call
        if self._session is not None:
            self._session.calls_of_ours = sum(not each.finished for each in self._calls.values())
        self._count()

    def _count(self) -> None:
        """Most calls of our tools are also told by the agent; of those that are not, we know."""
        used_up = self._spending.counted(self._calls_before + max(self._reported, len(self._calls)))
        if self._rounds is not None:
            self._rounds.stop_if(used_up)

    # -- what came of it

    @property
    def had_side_effects(self) -> bool:
        harmless = self._handing_over - self._working
        reported = [row for row in self._rows() if row.tool_call_id not in harmless]
        return had_side_effects(self._linked(), reported, self._refused)

    def _rows(self) -> tuple[rows.ToolCall, ...]:
        results = self._rounds.results if self._rounds is not None else ()
        return tuple(row for result in results for row in result.tool_calls)

    def _linked(self) -> tuple[Call, ...]:
        return link(self._calls.values(), self._rows())

    def stats(self) -> Stats:
        rounds = self._rounds
        return Stats(
            agent=self._name,
            agent_version=self._version,
            session_id=rounds.session.id if rounds is not None else None,
            rounds=rounds.number if rounds is not None else 0,
            attempts=self._number,
            duration=self._time.passed,
            usage=self._spending.total,
            calls=self._spending.tool_calls,
            tool_calls=self._linked(),
            reported=self._rows(),
            refused=self._refusals,
        )


async def carried_out(
    plan: Plan, *, deadline: float | None, budget: Budget, retry: Retry, cumulative: bool
) -> PromptResponse[Any]:
    """Attempt after attempt, as far as `retry` goes."""
    spending = Spending(budget, cumulative=cumulative)
    time = TimeLeft(deadline, spending, asyncio.get_running_loop().time)
    number = 0
    while True:
        number += 1
        attempt = Attempt(plan, number, spending, time)
        try:
            return await attempt.run()
        except DragomanError as problem:
            if not retry.again(problem, number, side_effects=attempt.had_side_effects):
                raise
            pause, ends = retry.pause(number), time.ends
            if ends is not None and asyncio.get_running_loop().time() + pause >= ends:
                raise  # there would be no time left to try again
        await asyncio.sleep(pause)


def _server() -> type[ToolServer]:
    """MCP is loaded where there are tools."""
    try:
        from dragoman.evaluation.server import ToolServer
    except ImportError as problem:
        raise InputError(
            f"tools and a structured output need the package mcp, which cannot be loaded: {problem}",
            guidance="Install it: pip install 'dragoman[mcp]'",
        ) from problem
    return ToolServer
