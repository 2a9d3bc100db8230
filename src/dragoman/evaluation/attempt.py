"""`Attempt`: one session of an evaluation, from the agent's start to its end; `run_attempts`: as many as it takes.

An attempt has a session of its own, and a tool server that lives as long. Whatever happens, both end with it; so does
the agent's process, unless the caller gave a runtime that it runs itself.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec

from dragoman.clock import Clock, timeout
from dragoman.errors import DragomanError, GuardFailed, InputError, OutputInvalid
from dragoman.evaluation.budget import Budget, Spending
from dragoman.evaluation.output import OUTPUT_TOOL, Output
from dragoman.evaluation.response import EvaluationStats, PromptResponse, RetryPolicy, had_side_effects, limit_of
from dragoman.evaluation.rounds import Guard, Rounds, TimeLeft
from dragoman.evaluation.tool import Tool
from dragoman.evaluation.toolbox import Call, link
from dragoman.evaluation.types import Shape
from dragoman.host.pending import call
from dragoman.host.permission import OnPermission, PermissionRequest, Reply
from dragoman.host.policy.effects import mcp_tool
from dragoman.host.policy.globs import mcp_found
from dragoman.host.policy.rules import PolicyRule
from dragoman.record import events, rows
from dragoman.session.options import OnEvent, SessionConfig
from dragoman.session.prompt import Input
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec
from dragoman.workspace import Workspace
from dragoman.workspace.copies import moved_path

if TYPE_CHECKING:
    from dragoman.evaluation.server import ToolServer


# One name per process, not per evaluation: models cache prompts by their beginning, and the tools come first.
SERVER: Final = f"dragoman-{secrets.token_hex(4)}"

# Forms in which an agent without a preset may name a tool, by field; presets have those of their agents.
ANY_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("mcp__{server}__{tool}", "{server}__{tool}"),
    "toolCallId": ("mcp_{server}_{tool}__",),
    "title": ("mcp__{server}__{tool}", "{server}: {tool}", "{server}_{tool}", "{server}.{tool}", "{server}/{tool}"),
}

# Until an agent has asked for the tools, after it has opened the session: agents look for them beside the conversation.
# The slowest takes about two seconds; one that never asks is prompted after this time.
TOOLS_LISTED_TIMEOUT_S: Final = 10.0

# Goose describes the call in a title after this.
_ABOUT: Final = " · "


def is_own(
    request: PermissionRequest, server: str, tools: Collection[str], forms: Mapping[str, tuple[str, ...]] = ANY_FORMS
) -> bool:
    """Return whether the agent certainly asks for a tool of this server, all of which are ours; in doubt False.

    `forms` say how the agent names a tool, by field of its tool call; a field of `_meta` is the request's `name`, and
    `tool_call.title` the title with which the agent reported the call before it asked.
    """
    if request.origin != "agent" or request.diffs:
        return False
    tool = mcp_tool(request)  # of Codex, too
    if tool is not None:
        return tool[0] == server
    own_texts: defaultdict[str, set[str]] = defaultdict(set)
    for field, field_forms in forms.items():
        key = "name" if field.startswith("_meta.") else field
        for form in field_forms:
            texts = {form.replace("{server}", server).replace("{tool}", own) for own in tools}
            own_texts[key if "{server}" in form else "bare title"].update(map(_spaced, texts))
    if request.name:
        return _spaced(request.name) in own_texts["name"]
    if request.kind not in ("other", ""):
        return False
    call_id = request.tool_call_id or ""
    if "toolCallId" in forms and ("__" in call_id or call_id.startswith("mcp_")):
        # Gemini begins its ids with the tool's name, and asks without the input; its titles may be an argument. Other
        # agents take ids from the model.
        return request.raw_input is None and _spaced(call_id).startswith(tuple(own_texts["toolCallId"]))
    # Where all there is is a title, what the model wrote must not have the name in it: the title may be made of that.
    if server in repr(request.raw_input):
        return False
    title, first_title = _spaced(request.title), _spaced(request.first_title)
    if title in own_texts["title"] or first_title in own_texts["tool_call.title"]:
        return True
    # Copilot puts the argument `description` over a call, and names only the tool when it asks.
    arguments = request.raw_input.values() if isinstance(request.raw_input, dict) else ()
    return title in own_texts["bare title"] and request.first_title in arguments


def is_call_of(call: events.ToolCall, server: str, tool: str) -> bool:
    """Return whether a call that the agent reports may be one of this tool; for counting only, never to allow it."""
    words = (call.name or "", call.title.partition(_ABOUT)[0])
    return call.tool_call_id.startswith(f"mcp_{server}_{tool}__") or mcp_found(
        f"{server}/{tool}", *(text.removeprefix("mcp.") for text in words)
    )


def _spaced(text: str) -> str:
    """Return the text with spaces for underscores: goose writes `look up` for `look_up`."""
    return re.sub(r"[\s_]+", " ", text)


class Permissions:
    """The session's `on_permission`, and its rules. `server` is the name of our tool server, `tools` those on it;
    `on_permission` is the caller's, for the rest."""

    def __init__(
        self,
        server: str,
        tools: Iterable[str],
        *,
        allowed_paths: Sequence[str | Path] | None = None,
        cwd: Path = Path(),
        on_permission: OnPermission | None = None,
        forms: Mapping[str, tuple[str, ...]] = ANY_FORMS,
    ) -> None:
        self._server = server
        self._tools = tuple(tools)
        self._forms = forms
        self._allowed_paths = allowed_paths
        self._paths = None if allowed_paths is None else patterns_of(allowed_paths, cwd)
        self._on_permission = on_permission

    def moved(self, original: Workspace, copy: Workspace) -> Permissions:
        """Return the same for a copy of the workspace: the paths are those of the copy."""
        paths = self._allowed_paths
        return Permissions(
            self._server,
            self._tools,
            allowed_paths=None if paths is None else [moved_path(path, original, copy) for path in paths],
            cwd=copy.cwd,
            on_permission=self._on_permission,
            forms=self._forms,
        )

    @property
    def session_rules(self) -> tuple[PolicyRule, ...]:
        # Above what access allows, and below the run's rules, which name the paths where it may write.
        return () if self._paths is None else (PolicyRule("deny", "it is not under allowed_paths", kind="write"),)

    @property
    def run_rules(self) -> tuple[PolicyRule, ...]:
        if not self._paths:
            return ()
        return (PolicyRule("allow", "it is under allowed_paths", kind=("read", "write"), path=self._paths),)

    def is_own(self, request: PermissionRequest) -> bool:
        """Return whether to allow a request before any rule is checked."""
        return bool(self._tools) and is_own(request, self._server, self._tools, self._forms)

    async def __call__(self, request: PermissionRequest) -> Reply:
        if self._on_permission is None:
            return request.reject()
        reply = await call(self._on_permission, request)  # the session checks it
        return cast(Reply, reply)


def patterns_of(paths: Sequence[str | Path], cwd: Path) -> tuple[str, ...]:
    """Return a pattern for each path and all below it; absolute, because `src` must not match every `src` below."""
    absolute_paths = (os.path.realpath(os.path.join(cwd, Path(path).expanduser())) for path in paths)
    return tuple(re.sub(r"([*?\[])", r"[\1]", path) for path in absolute_paths)


Transport = Literal["auto", "http", "stdio"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The checked arguments of an evaluation, the same for each attempt."""

    prompt: Input
    shape: Shape | None
    tools: tuple[Tool, ...]
    state: object
    config: SessionConfig
    permissions: Permissions
    runtime: Callable[[], AgentRuntime]
    given_runtime: bool  # the caller's: it is started, and stays
    clock: Clock  # of the deadline and of the pauses between attempts
    transport: Transport
    guards: tuple[Guard, ...]
    max_rounds: int
    idle_limit: float | None
    heartbeat: Callable[[], None] | None
    on_event: OnEvent | None
    isolate: Callable[[Plan], AbstractAsyncContextManager[Plan]] | None = None  # gives an attempt what is its own


class Attempt:
    """One session, from the agent's start to its end."""

    def __init__(self, plan: Plan, number: int, spending: Spending, time: TimeLeft) -> None:
        self._plan = plan
        self._number = number
        self._spending = spending
        self._time = time
        self._calls_before = spending.tool_calls
        self._calls: dict[str, Call] = {}
        self._reported_count = 0
        # The agent's ids: a title may be another one later, and an id that of another call.
        self._output_call_ids: set[str] = set()
        self._output_calls: set[str] = set()  # our ids of the same: agents do not report all of them as such
        self._other_call_ids: set[str] = set()
        self._refused_call_ids: set[str | None] = set()
        self._refusal_count = 0
        self._output = Output(plan.shape) if plan.shape is not None else None
        self._server: ToolServer | None = None
        self._why_no_tools = ""  # why the agent cannot have them, where that is known before it starts
        self._rounds: Rounds | None = None
        self._session: Session | None = None
        self._name = ""
        self._version: str | None = None

    async def run(self) -> PromptResponse[Any]:
        """Return the response. The `result` of an error is the response so far, with a value that was accepted."""
        try:
            async with AsyncExitStack() as stack:
                rounds = self._rounds = await self._open(stack)
                response = await rounds.run_all(self._plan.prompt, self.stats)
        except DragomanError as error:
            self._explain(error)
            last = self._rounds.last if self._rounds is not None else None
            error.result = PromptResponse(
                output=self._output.value if self._output is not None else None,
                text=last.text if last is not None else "",
                stop_reason=last.stop_reason if last is not None else None,
                stats=msgspec.structs.replace(self.stats(), limit=limit_of(error)),
            )
            raise
        return msgspec.structs.replace(
            response, stats=msgspec.structs.replace(response.stats, over_budget=self._spending.used_up())
        )

    async def _open(self, stack: AsyncExitStack) -> Rounds:
        """Start the agent, its tools and a session, each on the stack, within the time that is left."""
        output = self._output
        tools = (*self._plan.tools, *((output.tool,) if output is not None else ()))
        self._time.left()
        try:
            async with self._time.limit():
                if (isolate := self._plan.isolate) is not None:
                    self._plan = await stack.enter_async_context(isolate(self._plan))
                plan = self._plan
                runtime = plan.runtime()
                self._name = runtime.spec.name
                if not plan.given_runtime:
                    stack.push_async_callback(runtime.close)
                    await runtime.start()
                self._version = runtime.capabilities().agent_version
                servers = plan.config.mcp_servers
                if tools:
                    server = self._server = _server()(tools, state=plan.state, on_call=self._on_call, name=SERVER)
                    await stack.enter_async_context(server)
                    for port in server.ports:
                        await runtime.open_port(port)
                    servers = (*servers, server.for_agent(http=self._over_http(runtime)))
                config = msgspec.structs.replace(plan.config, mcp_servers=servers, on_event=self._on_event)
                session = self._session = await runtime.open_session(config)
                stack.push_async_callback(session.close)
                await self._wait_for_tools(runtime.spec)
        except TimeoutError:
            raise self._time.over(f" before {self._name or 'the agent'} was ready") from None
        self._spending.begin_session()
        return Rounds(
            session,
            output=output,
            spending=self._spending,
            time=self._time,
            has_tool=output is not None and output.has_tool,
            guards=plan.guards,
            max_rounds=plan.max_rounds,
            idle_limit=plan.idle_limit,
            heartbeat=plan.heartbeat,
            rules=plan.permissions.run_rules,
        )

    # -- tools

    def _over_http(self, runtime: AgentRuntime) -> bool:
        """Choose how the agent reaches the tools; take note of why it cannot."""
        transport, takes_http = self._plan.transport, runtime.capabilities().mcp_http
        if transport == "http" or (transport == "auto" and takes_http):
            return True
        if runtime.spec.drops_stdio_mcp:
            other = "transport='http' would work" if takes_http else "it offers no other transport"
            self._why_no_tools = f"it drops MCP servers over stdio; {other}"
            if self._output is not None:
                self._output.has_tool = False
        return False

    async def _wait_for_tools(self, spec: AgentSpec) -> None:
        """Wait until the agent has asked for the tools, where it does so before the first prompt."""
        server = self._server
        if server is None or self._why_no_tools or not (spec.lists_tools or server.was_contacted):
            return
        try:
            async with timeout(self._plan.clock, TOOLS_LISTED_TIMEOUT_S):
                await server.wait_until_listed()
        except TimeoutError:
            pass  # it may still ask when it is prompted

    def _explain(self, error: DragomanError) -> None:
        """Say why no tool was called, where that may be what the evaluation failed of."""
        if self._server is None or self._server.is_listed or not isinstance(error, OutputInvalid | GuardFailed):
            return
        problems = error.problems if isinstance(error, OutputInvalid) else ()
        if not (self._why_no_tools or self._plan.tools or any(OUTPUT_TOOL in problem for problem in problems)):
            return  # the value was there, in the text, and is wrong
        why = f": {self._why_no_tools}" if self._why_no_tools else ""
        error.message += f"; no tool was called, since {self._name} never asked for the tools{why}"

    # -- events and calls

    def _on_event(self, event: events.Event) -> None:
        rounds = self._rounds
        if rounds is not None:
            rounds.on_event(event)
        match event:
            case events.ToolCall():
                if is_call_of(event, SERVER, OUTPUT_TOOL):
                    self._output_call_ids.add(event.tool_call_id)
                else:
                    self._other_call_ids.add(event.tool_call_id)
                    self._reported_count += 1
                    self._count()
            case events.PermissionResolved(decision="deny", origin="agent"):
                self._refused_call_ids.add(event.tool_call_id)
                self._refusal_count += 1
            case events.FileRead(status="denied") | events.FileWritten(status="denied"):
                self._refusal_count += 1
            case events.TerminalRefused(status="denied"):
                self._refusal_count += 1
            case _:
                pass
        if self._plan.on_event is not None:
            self._plan.on_event(event)

    def _on_call(self, call: Call) -> None:
        if call.name == OUTPUT_TOOL:
            self._output_calls.add(call.id)
            self._count()
            return
        self._calls[call.id] = call
        if self._session is not None:
            self._session.own_tool_calls = sum(not each.finished for each in self._calls.values())
        self._count()

    def _count(self) -> None:
        """Count tool calls: the agent reports most calls of our tools too, and we know of those that it does not."""
        unrecognized = max(0, len(self._output_calls) - len(self._output_call_ids))
        count = max(self._reported_count - unrecognized, len(self._calls))
        used_up = self._spending.counted(self._calls_before + count)
        if self._rounds is not None:
            self._rounds.stop_if(used_up)

    # -- results

    @property
    def had_side_effects(self) -> bool:
        harmless = self._output_call_ids - self._other_call_ids
        reported = [row for row in self._rows() if row.tool_call_id not in harmless]
        return had_side_effects(self._linked(), reported, self._refused_call_ids)

    def _rows(self) -> tuple[rows.ToolCall, ...]:
        results = self._rounds.results if self._rounds is not None else ()
        return tuple(row for result in results for row in result.tool_calls)

    def _linked(self) -> tuple[Call, ...]:
        return link(self._calls.values(), self._rows())

    def stats(self) -> EvaluationStats:
        rounds = self._rounds
        return EvaluationStats(
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
            refused=self._refusal_count,
            cwd=str(self._plan.config.workspace.cwd),
        )


async def run_attempts(
    plan: Plan, *, deadline: float | None, budget: Budget, retry: RetryPolicy, cumulative: bool
) -> PromptResponse[Any]:
    """Run attempt after attempt, as far as `retry` allows."""
    spending = Spending(budget, cumulative=cumulative)
    time = TimeLeft(deadline, spending, plan.clock)
    number = 0
    while True:
        number += 1
        attempt = Attempt(plan, number, spending, time)
        try:
            return await attempt.run()
        except DragomanError as error:
            if not retry.should_retry(error, number, side_effects=attempt.had_side_effects):
                raise
            pause, ends = retry.pause(number), time.ends
            if ends is not None and plan.clock.monotonic() + pause >= ends:
                raise  # there would be no time left to try again
        await plan.clock.sleep(pause)


def _server() -> type[ToolServer]:
    """Load the server, and with it MCP, only where there are tools."""
    try:
        from dragoman.evaluation.server import ToolServer
    except ImportError as error:
        raise InputError(
            f"tools and a structured output need the package mcp, which cannot be loaded: {error}",
            guidance="Install it: pip install 'dragoman[mcp]'",
        ) from error
    return ToolServer
