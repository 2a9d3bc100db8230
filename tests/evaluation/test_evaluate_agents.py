"""Real agents are evaluated on the scripted model: values, limits and permissions, with access at its default."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

from agents.conftest import TIMEOUT_S, Stage, agent, stage  # noqa: F401 (fixtures)
from dragoman.errors import BudgetExceeded, BudgetNotReported, DeadlineExceeded, DragomanError, OutputInvalid
from dragoman.evaluation.attempt import SERVER
from dragoman.evaluation.budget import Budget
from dragoman.evaluation.evaluate import evaluate
from dragoman.evaluation.response import NO_RETRY, PromptResponse
from dragoman.evaluation.tool import tool
from dragoman.host.permission import PermissionRequest
from dragoman.record import events

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def calling(stage: Stage, tool: str, **arguments: Any) -> str:  # noqa: F811 (the fixture)
    """The directive that has the model call the tool by whatever name the agent gave it."""
    return stage.agent.call_mcp(SERVER, tool, arguments)


def handing_over(stage: Stage, value: Any) -> str:  # noqa: F811
    return calling(stage, "structured_output", value=value)


def needs_tools(stage: Stage, transport: str = "auto") -> None:  # noqa: F811
    transports = {"stdio", "http"} if transport == "auto" else {transport}
    if transports <= set(stage.agent.drops_mcp):
        pytest.skip(f"no MCP server reaches the model of {stage.agent.id} (quirk mcp-stdio-dropped)")


async def evaluated(stage: Stage, prompt: str, **options: Any) -> PromptResponse[Any]:  # noqa: F811 (the fixture)
    stage.more_env = stage.agent.mcp_env
    async with asyncio.timeout(TIMEOUT_S):
        settings = {"cwd": stage.folder, "max_rounds": 1, "retry": NO_RETRY, **options}
        response: PromptResponse[Any] = await evaluate(stage.spec, prompt, **settings)
        return response


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_a_value_is_handed_over_at_once(stage: Stage, transport: Any) -> None:  # noqa: F811
    needs_tools(stage, transport)
    response = await evaluated(stage, handing_over(stage, [1, 2]), output_type=list[int], transport=transport)
    assert response.output == [1, 2]
    assert response.stats.rounds == 1


async def test_tools_that_do_not_reach_the_model_are_named_in_the_error(stage: Stage) -> None:  # noqa: F811
    if "stdio" not in stage.agent.drops_mcp:
        pytest.skip(f"{stage.agent.id} takes MCP servers over stdio")
    with pytest.raises(OutputInvalid) as failed:
        await evaluated(stage, handing_over(stage, 3), output_type=int, transport="stdio")
    other = "it offers no other transport" if "http" in stage.agent.drops_mcp else "transport='http' would work"
    expected = f"never asked for the tools: it drops MCP servers over stdio; {other}"
    assert expected in str(failed.value)


async def test_a_wrong_value_is_mended_and_a_second_one_does_not_count(stage: Stage) -> None:  # noqa: F811
    needs_tools(stage)
    script = "".join(handing_over(stage, value) for value in ("three", 3, 4)) + "[[result]]"
    response = await evaluated(stage, script, output_type=int)
    assert response.output == 3
    assert "already accepted" in response.text


async def test_a_value_that_never_comes_is_a_precise_error(stage: Stage) -> None:  # noqa: F811
    with pytest.raises(OutputInvalid) as failed:
        await evaluated(stage, "[[say:I will not.]]", output_type=int, max_rounds=2)
    has_tool = not {"stdio", "http"} <= set(stage.agent.drops_mcp)
    uncalled = "structured_output was not called, and " if has_tool else ""
    assert failed.value.problems == (f"{uncalled}there is no JSON in the answer",)
    assert failed.value.result.stats.rounds == 2


async def test_json_in_the_text_will_do(stage: Stage) -> None:  # noqa: F811
    response = await evaluated(stage, '[[say:{"count": 3}]]', output_type=dict[str, int])
    assert response.output == {"count": 3}


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_the_callers_tools_are_called_and_linked_to_what_the_agent_reports(
    stage: Stage,  # noqa: F811
    transport: Any,
) -> None:
    @tool(read_only=True)
    async def look_up(sku: str) -> int:
        """Find how many of an item there are."""
        return 42

    needs_tools(stage, transport)
    script = f"{calling(stage, 'look_up', sku='violet')}{handing_over(stage, 42)}"
    response = await evaluated(stage, script, output_type=int, tools=[look_up], transport=transport)
    assert response.output == 42
    (call,) = response.stats.tool_calls
    assert (call.name, call.arguments, call.outcome) == ("look_up", {"sku": "violet"}, "ok")
    if not stage.agent.searches_tools:
        assert response.stats.calls == 1  # handing over the value is none
    assert call.tool_call_id in {row.tool_call_id for row in response.stats.reported}


class Job(TypedDict):
    """All that a policy takes for a command, an address or a file in what it does not know."""

    command: str
    cmd: str
    url: str
    path: str
    description: str


JOB = Job(command="rm -r .", cmd="rm -r .", url="https://a.example", path="/etc/passwd", description="rm -r .")


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_own_tools_are_never_asked_about_whatever_their_arguments_are_called(
    stage: Stage,  # noqa: F811
    transport: Any,
) -> None:
    reached: list[PermissionRequest] = []
    seen_events: list[events.Event] = []

    def ask(request: PermissionRequest) -> bool:
        reached.append(request)
        return False

    @tool
    async def do(command: str, cmd: str, url: str, path: str, description: str) -> str:
        """Do a job."""
        return "done"

    needs_tools(stage, transport)
    script = f"{calling(stage, 'do', **JOB)}{calling(stage, 'structured_output', **JOB)}"
    options: dict[str, Any] = {
        "access": "ask",
        "on_permission": ask,
        "on_event": seen_events.append,
        "transport": transport,
    }
    response = await evaluated(stage, script, output_type=Job, tools=[do], **options)
    assert response.output == JOB
    assert reached == []
    assert response.stats.refused == 0
    decided = [event for event in seen_events if isinstance(event, events.PermissionResolved)]
    assert {(event.decision, event.decided_by) for event in decided} <= {("allow", "rule")}
    assert bool(decided) == stage.agent.mcp_asks
    (call,) = response.stats.tool_calls
    if not stage.agent.searches_tools:
        assert response.stats.calls == 1
    assert call.tool_call_id in {row.tool_call_id for row in response.stats.reported}


@pytest.mark.parametrize("title", ["mcp__{}__look_up", "{}_look_up", "mcp.{}.look_up"])
async def test_a_command_that_is_called_like_an_own_tool_is_none(stage: Stage, title: str) -> None:  # noqa: F811
    @tool
    async def look_up() -> int:
        """Find how many there are."""
        return 42

    if not stage.agent.asks:
        pytest.skip(f"{stage.agent.id} never asks for permission (quirk never-asks)")
    script = stage.agent.run(title.format(SERVER))
    response = await evaluated(stage, script, tools=[look_up], access="read-only")
    assert response.stats.refused == 1


async def test_a_deadline_in_the_middle_of_a_tool_ends_it(stage: Stage) -> None:  # noqa: F811
    begun = asyncio.Event()

    @tool
    async def stand_by() -> None:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()

    needs_tools(stage)
    deadline = 6.0
    while True:
        with pytest.raises(DeadlineExceeded) as failed:
            await evaluated(stage, calling(stage, "stand_by"), tools=[stand_by], deadline=deadline)
        deadline *= 2
        if begun.is_set() or deadline > TIMEOUT_S:  # a busy machine may not have come to the tool
            break
    assert begun.is_set()
    assert failed.value.result.stats.limit == "deadline"
    (call,) = failed.value.result.stats.tool_calls
    assert not call.finished or call.outcome == "cancelled"


async def test_a_budget_of_tool_calls_ends_it(stage: Stage) -> None:  # noqa: F811
    @tool(read_only=True)
    async def again(number: int) -> int:
        """Count."""
        return number + 1

    needs_tools(stage)
    script = "".join(calling(stage, "again", number=number) for number in range(4))
    with pytest.raises(BudgetExceeded, match="tool_calls") as failed:
        await evaluated(stage, f"{script}[[slow:100:0.1]]", tools=[again], budget=Budget(tool_calls=2))
    assert failed.value.used is not None
    assert failed.value.used >= 3


async def test_a_budget_of_tokens_ends_the_run_or_is_reported_as_unknown(stage: Stage) -> None:  # noqa: F811
    expected: tuple[type[DragomanError], ...] = (BudgetExceeded,) if stage.agent.tells_tokens else (BudgetNotReported,)
    if stage.agent.tells_tokens is None:  # the report may come too late for this run
        expected = (BudgetExceeded, BudgetNotReported)
    with pytest.raises(expected, match="tokens"):
        # Two rounds: OpenCode tells its tokens with the end of a run.
        await evaluated(stage, "[[say:Nothing yet.]]", output_type=int, max_rounds=2, budget=Budget(tokens=10))


async def test_a_budget_of_cost_ends_the_run_or_is_reported_as_unknown(stage: Stage) -> None:  # noqa: F811
    # Of these only Claude tells what it costs: OpenCode does so where it knows the size of the model's context.
    expected: type[DragomanError] = BudgetExceeded if stage.agent.id == "claude" else BudgetNotReported
    with pytest.raises(expected, match="USD"):
        await evaluated(stage, "[[say:Nothing yet.]]", output_type=int, max_rounds=2, budget=Budget(cost_usd=0.000001))


async def test_a_budget_of_seconds_ends_it(stage: Stage) -> None:  # noqa: F811
    with pytest.raises(BudgetExceeded) as failed:
        await evaluated(stage, "[[slow:1000:0.1]]", budget=Budget(seconds=6))
    assert failed.value.result.stats.limit == "seconds"


async def test_other_requests_of_the_agent_are_refused_by_default(stage: Stage) -> None:  # noqa: F811
    if not stage.agent.asks:
        pytest.skip(f"{stage.agent.id} never asks for permission (quirk never-asks)")
    script = f"{stage.agent.run('touch made.txt')}{handing_over(stage, 1)}"
    try:
        response = await evaluated(stage, script, output_type=int)
    except OutputInvalid as problem:
        response = problem.result  # a refusal ends the turns of some
    assert not (stage.folder / "made.txt").exists()
    assert response.stats.refused >= 1
