"""`AcpAdapter`: `evaluate` as an object, for programs that embed it. What holds for all prompts is said once.

adapter = AcpAdapter(ModelConfig(agent="claude", model="opus"), AdapterConfig(cwd="repo", deadline=120))
response = await adapter.evaluate(Prompt(text="Which items are out?", tools=[lookup], output_type=list[Item]))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dragoman.evaluation.attempt import Transport
from dragoman.evaluation.budget import Budget
from dragoman.evaluation.evaluate import evaluate, evaluate_sync
from dragoman.evaluation.guard import Guard
from dragoman.evaluation.response import Prompt, PromptResponse
from dragoman.evaluation.retry import Retry
from dragoman.host.permission import OnPermission
from dragoman.host.policy.rules import Rule
from dragoman.session.client import Agent
from dragoman.session.prompt import Input
from dragoman.session.spec import AgentSpec, Limits, OnEvent
from dragoman.wire.vocabulary import McpServer

# Changes how the agent is started: another HOME, fewer variables, a sandbox before the command.
Isolation = Callable[[AgentSpec], AgentSpec]


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which agent, and what it is told to be. What is None is the agent's own default."""

    agent: Agent | None = None  # the configured default
    model: str | None = None
    mode: str | None = None
    reasoning_effort: str | None = None
    options: dict[str, str | bool] = {}
    system_prompt: str | None = None
    env: dict[str, str | None] = {}
    headers: dict[str, str] = {}


class AdapterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where and within which bounds it works. As the parameters of `evaluate` by these names.

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
        return {**model, **adapter, "prepare": self._prepared}

    def _prepared(self, spec: AgentSpec) -> AgentSpec:
        config = self.adapter_config
        offers = {name: getattr(config, name) for name in _OFFERS if getattr(config, name) is not None}
        spec = msgspec.structs.replace(spec, **offers)
        return config.isolation(spec) if config.isolation is not None else spec
