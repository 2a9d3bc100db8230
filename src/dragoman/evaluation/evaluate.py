"""`evaluate`: a prompt with tools and an output type, to any agent; a validated value, or a precise error.

This module checks the arguments before anything is started; `attempt` carries the evaluation out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, Unpack, cast, overload

import msgspec

from dragoman.agents.preset import load_preset
from dragoman.clock import SYSTEM_CLOCK
from dragoman.config import Config, load
from dragoman.errors import InputError
from dragoman.evaluation.attempt import ANY_FORMS, SERVER, Permissions, Plan, Transport, run_attempts
from dragoman.evaluation.budget import NO_BUDGET, Budget
from dragoman.evaluation.output import OUTPUT_TOOL
from dragoman.evaluation.response import EvaluationPrompt, PromptResponse, RetryPolicy
from dragoman.evaluation.rounds import Guard
from dragoman.evaluation.tool import Tool, tools_of
from dragoman.evaluation.transaction import check_state
from dragoman.evaluation.types import shape_of
from dragoman.host.permission import OnPermission
from dragoman.host.policy.rulebook import rule_sources
from dragoman.host.policy.rules import PolicyRule
from dragoman.hub.local import default_journal
from dragoman.protocol.requests import Isolation, SessionSettings
from dragoman.session.client import Agent, client_from_options, limits_of, spec_for_session
from dragoman.session.isolated_workspace import isolated_workspace
from dragoman.session.journal_client import JournalClient
from dragoman.session.options import (
    OnEvent,
    ProcessOptions,
    RunLimitOptions,
    SessionConfig,
    SessionOptions,
    check_keywords,
    parse_isolation,
    session_config,
)
from dragoman.session.prompt import Input
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits
from dragoman.session.sync import background  # the one loop of all programs that are not async
from dragoman.wire.vocabulary import McpServer
from dragoman.workspace.copies import shared_objects

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # known to type checkers without being installed

T = TypeVar("T")

# The quirk of an agent whose tokens are those of the session so far, as its preset notes it.
CUMULATIVE_USAGE_QUIRK: Final = "cumulative-usage"


class EvaluateOptions(SessionOptions, ProcessOptions, RunLimitOptions, total=False):
    """Keywords of `evaluate`, beside those of a session, of the agent's process and of a run.

    `access` is "read-only" by default: nobody is asked. `deadline` holds for all rounds and attempts together.
    """

    tools: Sequence[Tool | Callable[..., Any]]  # functions that the agent may call
    state: object | None  # the tools' state; a call that fails leaves it as it was
    budget: Budget | None  # limits on tokens, cost and tool calls, of all rounds and attempts together
    max_rounds: int  # prompts until there is a valid value; 3 by default
    guards: Guard | Sequence[Guard]  # checks of a result before it counts
    retry: RetryPolicy | None  # when a failed attempt is repeated
    allowed_paths: Sequence[str | Path] | None  # the agent may write here, and nowhere else
    transport: Transport  # how the agent reaches the tools: "auto", "http" or "stdio"
    prepare: Callable[[AgentSpec], AgentSpec] | None  # changes how the agent is started


Evaluated: TypeAlias = "Agent | AgentRuntime | None"


@overload
async def evaluate(
    agent: Evaluated, prompt: EvaluationPrompt, *, output_type: None = None, **options: Unpack[EvaluateOptions]
) -> PromptResponse[Any]: ...
@overload
async def evaluate(
    agent: Evaluated, prompt: Input, *, output_type: None = None, **options: Unpack[EvaluateOptions]
) -> PromptResponse[None]: ...
@overload
async def evaluate(
    agent: Evaluated, prompt: Input | EvaluationPrompt, *, output_type: type[T], **options: Unpack[EvaluateOptions]
) -> PromptResponse[T]: ...
@overload
async def evaluate(
    agent: Evaluated,
    prompt: Input | EvaluationPrompt,
    *,
    output_type: Mapping[str, Any],
    **options: Unpack[EvaluateOptions],
) -> PromptResponse[Any]: ...
@overload
async def evaluate(
    agent: Evaluated, prompt: Input | EvaluationPrompt, *, output_type: TypeForm[T], **options: Unpack[EvaluateOptions]
) -> PromptResponse[T]: ...
async def evaluate(
    agent: Evaluated, prompt: Input | EvaluationPrompt, *, output_type: Any = None, **options: Unpack[EvaluateOptions]
) -> PromptResponse[Any]:
    """Send one prompt to a new session of an agent, until there is a value of `output_type`.

    `agent` is what `open_session` takes, or a started `AgentRuntime`, which stays open. `output_type` is a Python type
    or a JSON Schema; without it the output is None, and the agent's text is the result. `tools` are functions that the
    agent may call, and `state` is theirs: a call that fails leaves it as it was. `guards` check a result before it
    counts.

    No person is asked: `tools` are allowed, everything else follows `access` and `rules`; with `allowed_paths` the
    agent may write there and nowhere else. `on_permission`, if given, answers the requests that these leave open. The
    session is stored in the journal; `journal=False` or `DRAGOMAN_JOURNAL=off` turns that off.

    With `isolation` each attempt has a HOME, an environment, a temporary folder and a copy of the workspace of its own,
    which are removed when the attempt is over; guards find the copy in `response.stats.cwd`.

    Raises `OutputInvalid`, `GuardFailed`, `BudgetExceeded`, `DeadlineExceeded`, …; `error.result` is the response so
    far, with its stats.
    """
    check_keywords("evaluate", options, EvaluateOptions)
    tools: Sequence[Tool | Callable[..., Any]] = options.get("tools", ())
    state, budget, max_rounds = options.get("state"), options.get("budget"), options.get("max_rounds", 3)
    transport, guards = options.get("transport", "auto"), options.get("guards", ())
    if isinstance(prompt, EvaluationPrompt):
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
    settings = load()
    options["access"] = options.get("access") or "read-only"
    config = session_config(options, settings)
    isolation = parse_isolation(settings.isolation if config.isolation is None else config.isolation)
    if isolation and isinstance(agent, AgentRuntime):
        raise InputError("the agent runs already, and cannot be isolated", guidance="Pass its name in its place.")
    spec = _spec_of(agent, config, settings, options, is_isolated=bool(isolation))
    permissions = Permissions(
        SERVER,
        served,
        allowed_paths=options.get("allowed_paths"),
        cwd=config.workspace.cwd,
        on_permission=config.on_permission,
        forms=spec.tool_names or ANY_FORMS,
    )
    config = msgspec.structs.replace(
        config, rules=(*permissions.session_rules, *config.rules), on_permission=permissions, on_event=None
    )
    keeps_journal = False if isinstance(agent, AgentRuntime) else options.get("journal")
    async with default_journal(settings, keeps_journal) as journal_client:
        new_runtime = _runtime_factory(agent, spec, config, settings, options, journal_client)

        @asynccontextmanager
        async def isolate(plan: Plan) -> AsyncIterator[Plan]:
            """Give an attempt a workspace and a home of its own, and remove them when it is over."""
            assert isolation
            async with isolated_workspace(isolation, plan.config.workspace, settings) as workspace:
                own_permissions = plan.permissions.moved(plan.config.workspace, workspace)
                own = msgspec.structs.replace(
                    plan.config,
                    workspace=workspace,
                    on_permission=own_permissions,
                    isolation=isolation,
                    # Only one evaluation sees a copy: recorded whole for each, they would fill the disk.
                    checkpoints=plan.config.checkpoints
                    if workspace is plan.config.workspace
                    else bool(plan.config.checkpoints),
                )
                own_spec = spec_for_session(msgspec.structs.replace(spec, cwd=workspace.cwd), own, settings)
                if own_spec.sandbox is not None and isolation.worktree is not False:
                    read = (*own_spec.sandbox.read, *map(str, shared_objects(workspace)))
                    sandbox = msgspec.structs.replace(own_spec.sandbox, read=read)
                    own_spec = msgspec.structs.replace(own_spec, sandbox=sandbox)
                own_runtime = _runtime_factory(agent, own_spec, own, settings, options, journal_client)
                yield msgspec.structs.replace(plan, config=own, permissions=own_permissions, runtime=own_runtime)

        plan = Plan(
            prompt=prompt,
            shape=shape,
            tools=tuple(tools_by_name.values()),
            state=state,
            config=config,
            permissions=permissions,
            runtime=new_runtime,
            given_runtime=isinstance(agent, AgentRuntime),
            clock=agent.clock if isinstance(agent, AgentRuntime) else SYSTEM_CLOCK,
            transport=transport,
            guards=(guards,) if callable(guards) else tuple(guards),
            max_rounds=max_rounds,
            idle_limit=options.get("idle_limit"),
            heartbeat=options.get("heartbeat"),
            on_event=options.get("on_event"),
            isolate=isolate if isolation else None,
        )
        return await run_attempts(
            plan,
            deadline=options.get("deadline"),
            budget=budget or NO_BUDGET,
            retry=options.get("retry") or RetryPolicy(),
            cumulative=_reports_cumulative_usage(spec, settings),
        )


@overload
def evaluate_sync(
    agent: Evaluated, prompt: EvaluationPrompt, *, output_type: None = None, **options: Unpack[EvaluateOptions]
) -> PromptResponse[Any]: ...
@overload
def evaluate_sync(
    agent: Evaluated, prompt: Input, *, output_type: None = None, **options: Unpack[EvaluateOptions]
) -> PromptResponse[None]: ...
@overload
def evaluate_sync(
    agent: Evaluated, prompt: Input | EvaluationPrompt, *, output_type: type[T], **options: Unpack[EvaluateOptions]
) -> PromptResponse[T]: ...
@overload
def evaluate_sync(
    agent: Evaluated,
    prompt: Input | EvaluationPrompt,
    *,
    output_type: Mapping[str, Any],
    **options: Unpack[EvaluateOptions],
) -> PromptResponse[Any]: ...
@overload
def evaluate_sync(
    agent: Evaluated, prompt: Input | EvaluationPrompt, *, output_type: TypeForm[T], **options: Unpack[EvaluateOptions]
) -> PromptResponse[T]: ...
def evaluate_sync(
    agent: Evaluated, prompt: Input | EvaluationPrompt, *, output_type: Any = None, **options: Unpack[EvaluateOptions]
) -> PromptResponse[Any]:
    """Evaluate as `evaluate` does, for programs that are not async."""
    return background.call(evaluate(agent, prompt, output_type=output_type, **options))


def _spec_of(
    agent: Evaluated, config: SessionConfig, settings: Config, options: EvaluateOptions, *, is_isolated: bool
) -> AgentSpec:
    """Return the spec for all attempts; where they are isolated, each adds what is its own."""
    if isinstance(agent, AgentRuntime):
        return agent.spec
    spec = client_from_options(settings, options, None).spec_of(agent)
    if not is_isolated:
        spec = spec_for_session(spec, config, settings)
    prepare = options.get("prepare")
    return prepare(spec) if prepare is not None else spec


def _runtime_factory(
    agent: Evaluated,
    spec: AgentSpec,
    config: SessionConfig,
    settings: Config,
    options: EvaluateOptions,
    journal_client: JournalClient | None,
) -> Callable[[], AgentRuntime]:
    """Return a function that makes a runtime for each attempt."""
    if isinstance(agent, AgentRuntime):
        runtime = agent
        return lambda: runtime
    limits = options.get("limits")

    def new_runtime() -> AgentRuntime:
        return AgentRuntime(
            spec,
            limits=limits or limits_of(settings),
            line_limit=settings.line_limit,
            sources=rule_sources(settings),
            on_question=config.on_question,
            on_diagnostic=options.get("on_diagnostic"),
            journal_client=journal_client,
        )

    return new_runtime


def _reports_cumulative_usage(spec: AgentSpec, settings: Config) -> bool:
    if spec.preset is None:
        return False
    return any(quirk.id == CUMULATIVE_USAGE_QUIRK for quirk in load_preset(spec.preset, settings).quirks)


class ModelConfig(SessionSettings, frozen=True, kw_only=True):
    """The agent and its settings. None means the agent's own default."""

    agent: Agent | None = None  # the configured default
    env: dict[str, str | None] = msgspec.field(default_factory=dict)
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class AdapterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace and the limits of an adapter: the parameters of `evaluate` by the same names.

    `read_files`, `write_files` and `terminals` are what we offer the agent to do for it; None is as its preset says.
    """

    cwd: str | Path = "."
    additional: Sequence[str | Path] = ()
    access: str = "read-only"
    allowed_paths: Sequence[str | Path] | None = None
    rules: Sequence[PolicyRule] = ()
    on_permission: OnPermission | None = None
    on_event: OnEvent | None = None
    heartbeat: Callable[[], None] | None = None
    deadline: float | None = None
    idle_limit: float | None = None
    budget: Budget | None = None
    max_rounds: int = 3
    guards: Sequence[Guard] = ()
    retry: RetryPolicy | None = None
    limits: Limits | None = None  # of starting, of requests, of the grace after a cancel
    mcp_servers: Sequence[McpServer] = ()
    transport: Transport = "auto"
    read_files: bool | None = None
    write_files: bool | None = None
    terminals: bool | None = None
    prepare: Callable[[AgentSpec], AgentSpec] | None = None  # changes how the agent is started
    isolation: bool | Isolation | None = None


_OFFERS = ("read_files", "write_files", "terminals")


class AcpAdapter:
    def __init__(self, model_config: ModelConfig, adapter_config: AdapterConfig | None = None) -> None:
        self.model_config = model_config
        self.adapter_config = adapter_config or AdapterConfig()

    @overload
    async def evaluate(
        self, prompt: Input | EvaluationPrompt, *, output_type: type[T], **options: Unpack[EvaluateOptions]
    ) -> PromptResponse[T]: ...
    @overload
    async def evaluate(
        self, prompt: Input | EvaluationPrompt, *, output_type: Any = None, **options: Unpack[EvaluateOptions]
    ) -> PromptResponse[Any]: ...
    async def evaluate(
        self, prompt: Input | EvaluationPrompt, *, output_type: Any = None, **options: Unpack[EvaluateOptions]
    ) -> PromptResponse[Any]:
        """Evaluate as `dragoman.evaluate` does; `options` override the configuration."""
        merged: EvaluateOptions = {**self._options(), **options}
        return await evaluate(self.model_config.agent, prompt, output_type=output_type, **merged)

    @overload
    def evaluate_sync(
        self, prompt: Input | EvaluationPrompt, *, output_type: type[T], **options: Unpack[EvaluateOptions]
    ) -> PromptResponse[T]: ...
    @overload
    def evaluate_sync(
        self, prompt: Input | EvaluationPrompt, *, output_type: Any = None, **options: Unpack[EvaluateOptions]
    ) -> PromptResponse[Any]: ...
    def evaluate_sync(
        self, prompt: Input | EvaluationPrompt, *, output_type: Any = None, **options: Unpack[EvaluateOptions]
    ) -> PromptResponse[Any]:
        """Evaluate as `evaluate` does, for programs that are not async."""
        return background.call(self.evaluate(prompt, output_type=output_type, **options))

    def _options(self) -> EvaluateOptions:
        model, adapter = msgspec.structs.asdict(self.model_config), msgspec.structs.asdict(self.adapter_config)
        del model["agent"]
        for name in (*_OFFERS, "prepare"):
            adapter.pop(name)
        adapter["isolation"] = model.pop("isolation") if adapter["isolation"] is None else adapter["isolation"]
        return cast(EvaluateOptions, {**model, **adapter, "prepare": self._prepare_spec})

    def _prepare_spec(self, spec: AgentSpec) -> AgentSpec:
        config = self.adapter_config
        offers = {name: getattr(config, name) for name in _OFFERS if getattr(config, name) is not None}
        spec = msgspec.structs.replace(spec, **offers)
        return config.prepare(spec) if config.prepare is not None else spec
