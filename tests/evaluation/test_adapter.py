"""`AcpAdapter`: what is configured once holds for every prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import BudgetExceeded, OutputInvalid
from dragoman.evaluation.budget import Budget
from dragoman.evaluation.evaluate import AcpAdapter, AdapterConfig, ModelConfig
from dragoman.evaluation.response import NO_RETRY, EvaluationPrompt
from dragoman.session.spec import AgentSpec
from dragoman.testing.demo import demo_spec

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def adapter(tmp_path: Path, **config: Any) -> AcpAdapter:
    model = ModelConfig(agent=demo_spec(tmp_path / "demo"))
    return AcpAdapter(model, AdapterConfig(**{"cwd": tmp_path, "retry": NO_RETRY, **config}))


async def test_a_prompt_object_is_evaluated_with_the_configuration(tmp_path: Path) -> None:
    prompt = EvaluationPrompt(text='{"n": 3}', output_type=dict[str, int])
    response = await adapter(tmp_path).evaluate(prompt)
    assert response.output == {"n": 3}
    with pytest.raises(OutputInvalid) as failed:
        await adapter(tmp_path, max_rounds=2).evaluate(EvaluationPrompt(text="hello", output_type=int))
    assert failed.value.result.stats.rounds == 2


async def test_settings_of_one_prompt_override_those_of_the_adapter(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded):
        await adapter(tmp_path, budget=Budget(seconds=60)).evaluate("sleep 100", budget=Budget(seconds=1.5))


async def test_prepare_and_offers_shape_how_the_agent_is_started(tmp_path: Path) -> None:
    seen: list[AgentSpec] = []

    def prepared(spec: AgentSpec) -> AgentSpec:
        seen.append(spec)
        return msgspec.structs.replace(spec, env={**spec.env, "HOME": str(tmp_path)})

    made = adapter(tmp_path, terminals=False, write_files=False, prepare=prepared, access="full")
    response = await made.evaluate("run echo $HOME")
    (spec,) = seen
    assert (spec.terminals, spec.write_files, spec.read_files) == (False, False, True)
    assert spec.command[0] == sys.executable
    assert response.stop_reason == "end_turn"
