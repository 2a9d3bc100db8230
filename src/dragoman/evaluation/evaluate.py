"""`evaluate`: a prompt with tools and an output type, to any agent; a validated value, or a precise error.

This module checks the arguments before anything is started; `attempt` carries the evaluation out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, overload

import msgspec

from dragoman.agents.preset import load_preset
from dragoman.config import Config, load
from dragoman.errors import InputError
from dragoman.evaluation.attempt import SERVER, Permissions, Plan, Transport, run_attempts
from dragoman.evaluation.budget import NO_BUDGET, Budget
from dragoman.evaluation.output import OUTPUT_TOOL
from dragoman.evaluation.response import Prompt, PromptResponse, Retry
from dragoman.evaluation.rounds import Guard
from dragoman.evaluation.tool import Tool, tools_of
from dragoman.evaluation.transaction import check_state
from dragoman.evaluation.types import Type, shape_of
from dragoman.host.permission import OnPermission
from dragoman.host.policy.access import parse_access
from dragoman.host.policy.rulebook import rule_sources
from dragoman.host.policy.rules import Rule
from dragoman.session.client import Agent, LocalClient, limits_of
from dragoman.session.prompt import Input
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits, OnEvent, SessionConfig, rules_of
from dragoman.session.sync import background  # the one loop of all programs that are not async
from dragoman.wire.vocabulary import McpServer
from dragoman.workspace import Workspace

T = TypeVar("T")

# The quirk of an agent whose tokens are those of the session so far, as its preset notes it.
CUMULATIVE_USAGE_QUIRK: Final = "cumulative-usage"


@overload
async def evaluate(
    agent: Agent | AgentRuntime | None, prompt: Input | Prompt, *, output_type: type[T], **options: Any
) -> PromptResponse[T]: ...
@overload
async def evaluate(
    agent: Agent | AgentRuntime | None, prompt: Input | Prompt, *, output_type: Type = None, **options: Any
) -> PromptResponse[Any]: ...
async def evaluate(
    agent: Agent | AgentRuntime | None,
    prompt: Input | Prompt,
    *,
    output_type: Type = None,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    state: object | None = None,
    deadline: float | None = None,
    idle_limit: float | None = None,
    heartbeat: Callable[[], None] | None = None,
    budget: Budget | None = None,
    max_rounds: int = 3,
    guards: Guard | Sequence[Guard] = (),
    retry: Retry | None = None,
    cwd: str | Path = ".",
    additional: Sequence[str | Path] = (),
    access: str = "read-only",
    allowed_paths: Sequence[str | Path] | None = None,
    rules: Sequence[Rule] = (),
    on_permission: OnPermission | None = None,
    on_event: OnEvent | None = None,
    mcp_servers: Sequence[McpServer] = (),
    transport: Transport = "auto",
    env: Mapping[str, str | None] | None = None,
    headers: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    prepare: Callable[[AgentSpec], AgentSpec] | None = None,
    **session: Any,
) -> PromptResponse[Any]:
    """One prompt to a fresh session of an agent, until there is a value of `output_type`.

    `agent` is what `open_session` takes, or an `AgentRuntime` that is running and stays so. `tools` are functions
    that the agent may call while it works, and `state` is theirs: a call that fails leaves it as it was. `deadline`
    and `budget` hold for all of it: starting, all rounds and attempts. `guards` look at a result before it counts.

    Nobody is asked: `tools` are allowed, all else by `access` and `rules`; with `allowed_paths` it may write there and
    nowhere else. `on_permission`, where given, answers what these leave open. `transport` is how the agent reaches the
    tools: by HTTP where it can, else by a program on stdio. `prepare` may change how the agent is started. The rest
    (`model`, `mode`, `options`, `system_prompt`, …) is what `SessionConfig` takes.

    Raises `OutputInvalid`, `GuardFailed`, `BudgetExceeded`, `DeadlineExceeded`, … ; `error.result` is the response so
    far, with its stats.
    """
    if isinstance(prompt, Prompt):
        tools = (*prompt.tools, *tools)
        output_type = prompt.output_type if output_type is None else output_type
        prompt = prompt.text
    if not isinstance(max_rounds, int) or max_rounds < 1:
        raise InputError(f"max_rounds is {max_rounds!r}; expected a whole number, 1 or more")
    if transport not in ("auto", "http", "stdio"):
        raise InputError(f"transport is {transport!r}; expected auto, http or stdio")
    if not isinstance(budget, Budget | None):
        raise InputError(f"budget is {budget!r}; expected a Budget, such as Budget(tool_calls=30)")
    tools_by_name = tools_of(tools)
    if OUTPUT_TOOL in tools_by_name:
        raise InputError(
            f"a tool is called {OUTPUT_TOOL!r}, which is the name of our own", guidance="Call it something else."
        )
    if state is not None:
        check_state(state)
    shape = None if output_type is None else shape_of(output_type)
    served = (*tools_by_name, *((OUTPUT_TOOL,) if shape is not None else ()))
    workspace = Workspace(cwd, additional)
    permissions = Permissions(
        SERVER, served, allowed_paths=allowed_paths, cwd=workspace.cwd, on_permission=on_permission
    )
    config = SessionConfig(
        workspace=workspace,
        access=parse_access(access),
        rules=(*permissions.session_rules, *rules_of(list(rules))),
        on_permission=permissions,
        mcp_servers=tuple(mcp_servers),
        **session,
    )
    settings = load()
    runtime, spec = _runtime_of(agent, config, settings, env=env, headers=headers, limits=limits, prepare=prepare)
    plan = Plan(
        prompt=prompt,
        shape=shape,
        tools=tuple(tools_by_name.values()),
        state=state,
        config=config,
        permissions=permissions,
        runtime=runtime,
        given_runtime=isinstance(agent, AgentRuntime),
        transport=transport,
        guards=(guards,) if callable(guards) else tuple(guards),
        max_rounds=max_rounds,
        idle_limit=idle_limit,
        heartbeat=heartbeat,
        on_event=on_event,
    )
    return await run_attempts(
        plan,
        deadline=deadline,
        budget=budget or NO_BUDGET,
        retry=retry or Retry(),
        cumulative=_reports_cumulative_usage(spec, settings),
    )


def evaluate_sync(agent: Agent | AgentRuntime | None, prompt: Input | Prompt, **options: Any) -> PromptResponse[Any]:
    """As `evaluate`, for programs that are not async."""
    return background.call(evaluate(agent, prompt, **options))


def _runtime_of(
    agent: Agent | AgentRuntime | None,
    config: SessionConfig,
    settings: Config,
    *,
    env: Mapping[str, str | None] | None,
    headers: Mapping[str, str] | None,
    limits: Limits | None,
    prepare: Callable[[AgentSpec], AgentSpec] | None,
) -> tuple[Callable[[], AgentRuntime], AgentSpec]:
    if isinstance(agent, AgentRuntime):
        runtime = agent
        return lambda: runtime, agent.spec
    spec = LocalClient(config=settings, env=env, headers=headers, limits=limits).spec_of(agent)
    if spec.cwd is None:
        spec = msgspec.structs.replace(spec, cwd=config.workspace.cwd)
    if prepare is not None:
        spec = prepare(spec)

    def new_runtime() -> AgentRuntime:
        return AgentRuntime(
            spec,
            limits=limits or limits_of(settings),
            line_limit=settings.line_limit,
            sources=rule_sources(settings),
            on_question=config.on_question,
        )

    return new_runtime, spec


def _reports_cumulative_usage(spec: AgentSpec, settings: Config) -> bool:
    if spec.preset is None:
        return False
    return any(quirk.id == CUMULATIVE_USAGE_QUIRK for quirk in load_preset(spec.preset, settings).quirks)


# Changes how the agent is started: another HOME, fewer variables, a sandbox before the command.
Isolation = Callable[[AgentSpec], AgentSpec]


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The agent and its settings. None means the agent's own default."""

    agent: Agent | None = None  # the configured default
    model: str | None = None
    mode: str | None = None
    reasoning_effort: str | None = None
    options: dict[str, str | bool] = {}
    system_prompt: str | None = None
    env: dict[str, str | None] = {}
    headers: dict[str, str] = {}


class AdapterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace and the limits of an adapter: the parameters of `evaluate` by the same names.

    `read_files`, `write_files` and `terminals` are what we offer the agent to do for it; None is as its preset says.
    """

    cwd: str | Path = "."
    additional: Sequence[str | Path] = ()
    access: str = "read-only"
    allowed_paths: Sequence[str | Path] | None = None
    rules: Sequence[Rule] = ()
    on_permission: OnPermission | None = None
    on_event: OnEvent | None = None
    heartbeat: Callable[[], None] | None = None
    deadline: float | None = None
    idle_limit: float | None = None
    budget: Budget | None = None
    max_rounds: int = 3
    guards: Sequence[Guard] = ()
    retry: Retry | None = None
    limits: Limits | None = None  # of starting, of requests, of the grace after a cancel
    mcp_servers: Sequence[McpServer] = ()
    transport: Transport = "auto"
    read_files: bool | None = None
    write_files: bool | None = None
    terminals: bool | None = None
    isolation: Isolation | None = None


_OFFERS = ("read_files", "write_files", "terminals")


class AcpAdapter:
    def __init__(self, model_config: ModelConfig, adapter_config: AdapterConfig | None = None) -> None:
        self.model_config = model_config
        self.adapter_config = adapter_config or AdapterConfig()

    async def evaluate(self, prompt: Input | Prompt, **options: Any) -> PromptResponse[Any]:
        """As `dragoman.evaluate`; `options` go before what was configured."""
        return await evaluate(self.model_config.agent, prompt, **{**self._options(), **options})

    def evaluate_sync(self, prompt: Input | Prompt, **options: Any) -> PromptResponse[Any]:
        return evaluate_sync(self.model_config.agent, prompt, **{**self._options(), **options})

    def _options(self) -> dict[str, Any]:
        model, adapter = msgspec.structs.asdict(self.model_config), msgspec.structs.asdict(self.adapter_config)
        del model["agent"]
        for name in (*_OFFERS, "isolation"):
            adapter.pop(name)
        return {**model, **adapter, "prepare": self._prepare_spec}

    def _prepare_spec(self, spec: AgentSpec) -> AgentSpec:
        config = self.adapter_config
        offers = {name: getattr(config, name) for name in _OFFERS if getattr(config, name) is not None}
        spec = msgspec.structs.replace(spec, **offers)
        return config.isolation(spec) if config.isolation is not None else spec
