"""`evaluate` on scripted agents in memory: values, rounds, limits, permissions, attempts."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dragoman.clock import SYSTEM_CLOCK, Clock
from dragoman.errors import (
    BudgetExceeded,
    BudgetNotReported,
    DeadlineExceeded,
    DragomanError,
    GuardFailed,
    IdleLimitExceeded,
    InputError,
    OutputInvalid,
    RequestFailed,
    StoppedEarly,
)
from dragoman.evaluation.attempt import SERVER, TOOLS_LISTED_TIMEOUT_S
from dragoman.evaluation.budget import Budget
from dragoman.evaluation.evaluate import evaluate
from dragoman.evaluation.response import NO_RETRY, EvaluationPrompt, PromptResponse, RetryPolicy
from dragoman.evaluation.tool import tool
from dragoman.host.permission import PermissionRequest
from dragoman.record import events
from dragoman.session.run import IDLE_LOOKS
from dragoman.session.spec import AgentSpec, Limits
from dragoman.testing.clock import ManualClock
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent, Turn
from evaluation.acting import acting, connected, hands, runtime_on

pytestmark = pytest.mark.usefixtures("leaves_nothing")

TIMEOUT_S = 20.0
QUICK = RetryPolicy(backoff=0.0)


@dataclass
class Item:
    sku: str
    count: int


async def evaluated(
    agent: Any,
    prompt: Any = "Which item?",
    *,
    clock: Clock = SYSTEM_CLOCK,
    spec: AgentSpec | None = None,
    **options: Any,
) -> PromptResponse[Any]:
    limits = Limits(cancel_timeout=2, close_timeout=1)
    async with asyncio.timeout(TIMEOUT_S), runtime_on(agent, limits=limits, clock=clock, spec=spec) as runtime:
        response: PromptResponse[Any] = await evaluate(runtime, prompt, **{"retry": NO_RETRY, **options})
        return response


# -- values


async def test_a_text_is_enough_without_an_output_type() -> None:
    response = await evaluated(ScriptedAgent(), "hi")
    assert (response.output, response.text, response.stop_reason) == (None, "Hello.", "end_turn")
    assert (response.stats.rounds, response.stats.attempts) == (1, 1)
    assert response.stats.usage.total_tokens is None


async def test_a_value_that_is_handed_over_is_the_output() -> None:
    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            assert await tools.hand_over(sku="A-1", count=3, extra="ignored") == (
                True,
                "Accepted. The task is done; say no more.",
            )

    response = await evaluated(script, output_type=Item)
    assert response.output == Item("A-1", 3)
    assert response.stats.rounds == 1
    assert response.stats.tool_calls == ()  # handing over is no call of the caller's tools


async def test_a_list_travels_wrapped_and_arrives_as_a_list() -> None:
    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            await tools.hand_over(value=[{"sku": "A-1", "count": 3}])

    response = await evaluated(script, output_type=list[Item])
    assert response.output == [Item("A-1", 3)]


async def test_the_agent_gets_the_errors_of_a_bad_value_and_may_correct_it_in_the_same_round() -> None:
    results: list[tuple[bool, str]] = []

    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            results.append(await tools.hand_over(sku=3, count="x"))
            results.append(await tools.hand_over(sku="A-1", count=3))

    response = await evaluated(script, output_type=Item)
    (first, why), (second, _) = results
    assert (first, second) == (False, True)
    assert "sku: expected string, got 3" in why
    assert 'count: expected integer, got "x"' in why
    assert response.output == Item("A-1", 3)
    assert response.stats.rounds == 1


async def test_a_second_value_is_refused_and_the_first_stays() -> None:
    results: list[tuple[bool, str]] = []

    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            await tools.hand_over(sku="first", count=1)
            results.append(await tools.hand_over(sku="second", count=2))

    response = await evaluated(script, output_type=Item)
    assert response.output == Item("first", 1)
    assert results[0][0] is False
    assert "already accepted" in results[0][1]


async def test_of_two_values_at_once_one_is_accepted() -> None:
    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            both = await asyncio.gather(tools.hand_over(sku="a", count=1), tools.hand_over(sku="b", count=2))
            assert sorted(went for went, _ in both) == [False, True]
            await turn.say("a" if both[0][0] else "b")

    response = await evaluated(script, output_type=Item)
    assert response.output.sku == response.text


async def test_a_round_without_a_value_is_followed_by_one_that_asks_for_it() -> None:
    prompts: list[str] = []

    async def script(turn: Turn) -> None:
        prompts.append(turn.text)
        if len(prompts) == 1:
            await turn.say("I looked into it.")
            return
        async with hands(turn) as tools:
            await tools.hand_over(sku="A-1", count=3)

    response = await evaluated(script, output_type=Item)
    assert response.output == Item("A-1", 3)
    assert response.stats.rounds == 2
    assert prompts[0].startswith("Which item?\n\n")
    assert '"sku"' in prompts[0]
    assert "structured_output was not called" in prompts[1]


async def test_a_value_that_never_comes_is_a_precise_error() -> None:
    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            await tools.hand_over(sku="A-1")

    with pytest.raises(OutputInvalid, match="no valid Item after 2 rounds: the field 'count' is missing") as failed:
        await evaluated(script, output_type=Item, max_rounds=2)
    assert failed.value.problems == ("the field 'count' is missing",)
    assert failed.value.category == "agent"
    assert failed.value.result.stats.rounds == 2
    assert failed.value.result.output is None


async def test_the_last_json_in_the_text_counts_where_the_tool_was_not_called() -> None:
    async def script(turn: Turn) -> None:
        await turn.say('Not {"sku": "old", "count": 1}, but:\n```json\n{"sku": "A-1", "count": 3}\n```\n')

    assert (await evaluated(script, output_type=Item)).output == Item("A-1", 3)


async def test_json_that_does_not_fit_is_never_repaired_and_no_earlier_one_is_tried() -> None:
    async def script(turn: Turn) -> None:
        await turn.say('{"sku": "A-1", "count": 3} or rather {"sku": "A-1", "count": "three"}')

    with pytest.raises(OutputInvalid, match='count: expected integer, got "three"'):
        await evaluated(script, output_type=Item, max_rounds=1)


async def test_a_prompt_may_carry_its_tools_and_its_type() -> None:
    def lookup(sku: str) -> int:
        "Return the number in stock."
        return len(sku)

    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            went, answer = await tools.call("lookup", {"sku": "A-1"})
            assert went
            await tools.hand_over(value=int(answer) if answer.isdigit() else 3)

    response = await evaluated(script, EvaluationPrompt(text="How many?", tools=[lookup], output_type=int))
    assert response.output == 3
    (call,) = response.stats.tool_calls
    assert (call.name, call.arguments, call.outcome, call.tool_call_id) == ("lookup", {"sku": "A-1"}, "ok", "call-1")
    assert [row.tool_call_id for row in response.stats.reported] == ["call-1", "call-2"]


async def test_a_run_that_stops_early_after_the_value_was_accepted_is_no_failure() -> None:
    async def script(turn: Turn) -> str:
        async with hands(turn) as tools:
            await tools.hand_over(sku="A-1", count=3)
        return "max_tokens"

    response = await evaluated(script, output_type=Item)
    assert (response.output, response.stop_reason) == (Item("A-1", 3), "max_tokens")


async def test_a_run_that_stops_early_without_a_value_is_that_failure() -> None:
    async def script(turn: Turn) -> str:
        await turn.say("half")
        return "max_tokens"

    with pytest.raises(StoppedEarly) as failed:
        await evaluated(script, output_type=Item)
    assert failed.value.result.text == "half"


# -- guards


async def test_a_guard_that_objects_sends_the_agent_back_with_its_reason() -> None:
    prompts: list[str] = []

    async def script(turn: Turn) -> None:
        prompts.append(turn.text)
        async with hands(turn) as tools:
            await tools.hand_over(value=len(prompts))

    async def enough(response: PromptResponse[int]) -> str | None:
        return None if response.output >= 2 else "it is too small"

    response = await evaluated(script, output_type=int, guards=enough)
    assert (response.output, response.stats.rounds) == (2, 2)
    assert "it is too small" in prompts[1]


async def test_a_guard_that_objects_to_the_end_is_an_error_with_its_reasons() -> None:
    def never(response: PromptResponse[None]) -> bool:
        return False

    with pytest.raises(GuardFailed, match="not done after 2 rounds: the check never did not pass") as failed:
        await evaluated(ScriptedAgent(), guards=[never, lambda response: "more"], max_rounds=2)
    assert failed.value.reasons == ("the check never did not pass", "more")
    assert failed.value.result.stats.rounds == 2


async def test_a_guard_that_takes_for_ever_is_ended_by_the_deadline() -> None:
    clock, guard_began = ManualClock(), asyncio.Event()

    async def stuck(response: PromptResponse[None]) -> None:
        guard_began.set()
        await asyncio.Event().wait()

    evaluation = asyncio.ensure_future(evaluated(ScriptedAgent(), guards=stuck, deadline=60.0, clock=clock))
    await guard_began.wait()
    clock.advance(60.0)
    with pytest.raises(DeadlineExceeded, match="while a guard looked at the result") as failed:
        await evaluation
    assert failed.value.result.text == "Hello."


# -- limits


async def test_a_deadline_in_the_middle_of_a_tool_ends_the_tool_and_the_run() -> None:
    clock, began, ended = ManualClock(), asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        "Wait."
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def script(turn: Turn) -> object:
        async with hands(turn) as tools:
            waiting = asyncio.ensure_future(tools.call("wait", {}))
            await turn.cancelled.wait()
            waiting.cancel()
            await asyncio.wait([waiting])
        return "cancelled"

    agent = acting(script)
    evaluation = asyncio.ensure_future(evaluated(agent, tools=[wait], deadline=60.0, clock=clock))
    await began.wait()
    clock.advance(60.0)
    with pytest.raises(DeadlineExceeded, match="60 s") as failed:
        await evaluation
    assert ended.is_set()
    assert len(agent.all_heard("session/cancel")) == 1
    stats = failed.value.result.stats
    assert stats.limit == "deadline"
    assert [(call.name, call.outcome) for call in stats.tool_calls] == [("wait", "cancelled")]


async def test_the_deadline_is_one_for_all_rounds() -> None:
    clock, second_round = ManualClock(), asyncio.Event()

    async def script(turn: Turn) -> object:
        if len(turn.agent.all_heard("session/prompt")) == 1:
            clock.advance(40.0)
            await turn.say("nothing yet")
            return None
        second_round.set()
        return await turn.wait_cancelled()

    evaluation = asyncio.ensure_future(evaluated(acting(script), output_type=int, deadline=60.0, clock=clock))
    await second_round.wait()
    await clock.wait_for_timers()
    clock.advance(20.0)
    with pytest.raises(DeadlineExceeded) as failed:
        await evaluation
    assert failed.value.result.stats.rounds == 2


async def test_a_deadline_counts_from_before_the_agent_is_ready() -> None:
    clock, session_requested = ManualClock(), asyncio.Event()

    async def never(received: ReceivedRequest) -> object:
        session_requested.set()
        await asyncio.Event().wait()
        return None

    agent = ScriptedAgent(answers={"session/new": never})
    evaluation = asyncio.ensure_future(evaluated(agent, deadline=60.0, clock=clock))
    await session_requested.wait()
    clock.advance(60.0)
    with pytest.raises(DeadlineExceeded, match="before memory was ready") as failed:
        await evaluation
    assert (failed.value.result.stats.limit, failed.value.result.stats.rounds) == ("deadline", 0)


async def test_silence_while_a_tool_of_ours_runs_is_no_hang_also_where_the_agent_does_not_tell_of_it() -> None:
    clock = ManualClock()

    @tool
    async def wait() -> str:
        "Wait for twice the limit."
        for _ in range(2 * IDLE_LOOKS):
            await clock.wait_for_timers()
            clock.advance(40.0 / IDLE_LOOKS)
        return "done"

    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            await turn.say((await tools.call("wait", {}, report=False))[1])

    async with asyncio.timeout(TIMEOUT_S), runtime_on(script, clock=clock) as runtime:
        response = await evaluate(runtime, "go", tools=[wait], idle_limit=40.0, retry=NO_RETRY)
    assert response.text == "done"


async def test_silence_ends_it_and_is_named() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("hm")
        return await turn.wait_cancelled()

    clock, spoke = ManualClock(), asyncio.Event()

    def on_event(event: events.Event) -> None:
        if isinstance(event, events.AssistantDelta):
            spoke.set()

    evaluation = asyncio.ensure_future(evaluated(script, idle_limit=40.0, clock=clock, on_event=on_event))
    await spoke.wait()
    for _ in range(IDLE_LOOKS + 1):  # the first look sees a sign of life
        await clock.wait_for_timers()
        clock.advance(40.0 / IDLE_LOOKS)
    with pytest.raises(IdleLimitExceeded) as failed:
        await evaluation
    assert failed.value.result.stats.limit == "idle_limit"


def _usage(total: int) -> dict[str, Any]:
    usage = {"totalTokens": total, "inputTokens": total, "outputTokens": 0}
    return {"stopReason": "end_turn", "usage": usage}


async def test_a_budget_of_tool_calls_ends_the_run_at_the_first_call_too_many() -> None:
    async def script(turn: Turn) -> object:
        for number in range(3):
            await turn.tool(f"t{number}", kind="read", status="completed")
        return await turn.wait_cancelled()

    agent = acting(script)
    with pytest.raises(BudgetExceeded, match="tool_calls is used up: 3 tool calls, and 2 were allowed") as failed:
        await evaluated(agent, budget=Budget(tool_calls=2))
    assert (failed.value.budget, failed.value.used, failed.value.allowed) == ("tool_calls", 3, 2)
    assert failed.value.result.stats.limit == "tool_calls"
    assert len(agent.all_heard("session/cancel")) == 1


async def test_handing_over_the_value_costs_no_tool_call() -> None:
    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            await tools.hand_over(value=1)

    assert (await evaluated(script, output_type=int, budget=Budget(tool_calls=0))).output == 1


async def test_a_budget_of_cost_ends_the_run_when_it_is_reached() -> None:
    async def script(turn: Turn) -> object:
        for amount in (0.1, 0.3, 0.5):
            await turn.update("usage_update", used=10, size=100, cost={"amount": amount, "currency": "USD"})
        return await turn.wait_cancelled()

    with pytest.raises(BudgetExceeded, match=r"0\.5 USD of 0\.5") as failed:
        await evaluated(script, budget=Budget(cost_usd=0.5))
    assert failed.value.budget == "cost_usd"
    assert failed.value.result.stats.usage.cost.amount == 0.5


async def test_a_budget_of_tokens_ends_a_run_whose_context_alone_is_more() -> None:
    async def script(turn: Turn) -> object:
        await turn.update("usage_update", used=1500, size=10_000)
        return await turn.wait_cancelled()

    with pytest.raises(BudgetExceeded, match="1,500 tokens of 1,000"):
        await evaluated(script, budget=Budget(tokens=1000))


async def test_a_budget_of_tokens_that_is_used_up_after_a_round_allows_no_other() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("nothing")
        return _usage(1200)

    agent = acting(script)
    with pytest.raises(BudgetExceeded, match="1,200 tokens of 1,000"):
        await evaluated(agent, output_type=int, budget=Budget(tokens=1000))
    assert len(agent.all_heard("session/prompt")) == 1


async def test_a_budget_that_is_exceeded_only_at_the_end_is_reported_in_the_stats() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("7")
        return _usage(1200)

    response = await evaluated(script, output_type=int, budget=Budget(tokens=1000))
    assert (response.output, response.stats.over_budget, response.stats.limit) == (7, "tokens", None)
    assert response.stats.usage.total_tokens == 1200


async def test_a_budget_of_seconds_is_named_as_such() -> None:
    clock, has_begun = ManualClock(), asyncio.Event()

    async def script(turn: Turn) -> object:
        await turn.say("hm")
        has_begun.set()
        return await turn.wait_cancelled()

    evaluation = asyncio.ensure_future(evaluated(script, budget=Budget(seconds=30), deadline=60, clock=clock))
    await has_begun.wait()
    await clock.wait_for_timers()
    clock.advance(30.0)
    with pytest.raises(BudgetExceeded) as failed:
        await evaluation
    assert failed.value.budget == "seconds"
    assert failed.value.result.stats.limit == "seconds"


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (Budget(tokens=1000), "does not report its tokens"),
        (Budget(cost_usd=1), "does not report its cost"),
    ],
)
async def test_a_budget_on_a_figure_that_is_never_reported_fails_with_that_reason(budget: Budget, message: str) -> None:
    with pytest.raises(BudgetNotReported, match=message):
        await evaluated(ScriptedAgent(), budget=budget)


async def test_a_context_that_is_reported_with_the_end_of_a_run_counts_for_the_budget_of_tokens() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("done")
        turn.agent.update(turn.session_id, "usage_update", used=1465, size=128_000)  # read in one piece with the answer
        return {"stopReason": "end_turn"}

    with pytest.raises(BudgetExceeded, match="1,465 tokens of 10"):
        await evaluated(script, budget=Budget(tokens=10))


async def test_a_cost_in_another_currency_is_no_cost_in_dollars() -> None:
    async def script(turn: Turn) -> None:
        await turn.update("usage_update", used=1, size=2, cost={"amount": 3, "currency": "EUR"})
        await turn.say("done")

    with pytest.raises(BudgetNotReported, match="in dollars, but in EUR"):
        await evaluated(script, budget=Budget(cost_usd=1))


# -- permissions


@pytest.mark.parametrize(
    ("access", "requested", "allowed"),
    [
        ("read-only", set(), set()),
        ("ask", {"a command", "another server", "a file"}, set()),
        ("edit-inside", {"a command", "another server"}, {"a file"}),
        ("full", set(), {"a command", "another server", "a file"}),
    ],
)
async def test_our_own_tools_are_never_asked_about_and_what_looks_like_them_follows_access(
    tmp_path: Path, access: str, requested: set[str], allowed: set[str]
) -> None:
    command = {"command": "rm -rf /"}
    own: dict[str, dict[str, Any]] = {
        "by title": {"title": f"{SERVER}: structured output", "rawInput": command},
        "by name": {"title": "Look", "name": f"mcp__{SERVER}__lookup", "rawInput": command},
        "by id": {"title": "rm -rf /", "toolCallId": f"mcp_{SERVER}_lookup__1"},
        "as codex": {
            "title": f"mcp.{SERVER}.lookup",
            "kind": "execute",
            "rawInput": {"server": SERVER, "tool": "lookup", "arguments": command},
        },
    }
    others: dict[str, dict[str, Any]] = {
        "a command": {"title": f"{SERVER}: lookup", "kind": "execute", "rawInput": command},
        "another server": {"title": "mcp__dragoman__lookup", "name": "mcp__dragoman__lookup"},
        "a file": {"title": f"{SERVER}_lookup", "kind": "edit", "locations": [{"path": str(tmp_path / "a")}]},
    }
    answers: dict[str, str | None] = {}
    reached: set[str | None] = set()
    seen_events: list[events.Event] = []

    def lookup(command: str = "") -> str:
        "Look it up."
        return "found"

    def ask(request: PermissionRequest) -> bool:
        reached.add(request.tool_call_id)
        return False

    async def script(turn: Turn) -> None:
        for what, call in (own | others).items():
            answers[what] = await turn.ask_permission(**{"kind": "other", "toolCallId": what, **call})
        await turn.say("7")

    response = await evaluated(
        script,
        tools=[lookup],
        output_type=int,
        cwd=tmp_path,
        access=access,
        on_permission=ask,
        on_event=seen_events.append,
    )
    assert {name for name, answer in answers.items() if answer == "allow"} == set(own) | allowed
    assert reached == requested
    assert response.stats.refused == len(others) - len(allowed)
    decided = [event.decided_by for event in seen_events if isinstance(event, events.PermissionResolved)]
    assert decided[: len(own)] == ["rule"] * len(own)


@pytest.mark.parametrize(
    ("tool_names", "call"),
    [
        (
            {"_meta.toolName": ("mcp__{server}__{tool}",)},
            {"title": "{}", "_meta": {"toolName": f"mcp__{SERVER}__lookup"}},
        ),
        ({"title": ("Tool {tool} of {server}",)}, {"title": f"Tool lookup of {SERVER}"}),
        ({"title": ("{server}: {tool}",)}, {"title": f"{SERVER}: lookup", "toolCallId": "call__1"}),
    ],
    ids=["in _meta", "in a form of its own", "with an id that looks like a name"],
)
async def test_a_tool_of_ours_is_known_by_the_names_in_the_agents_preset(
    tool_names: dict[str, tuple[str, ...]], call: dict[str, Any]
) -> None:
    def lookup() -> str:
        "Look it up."
        return "found"

    answers: list[str | None] = []

    async def script(turn: Turn) -> None:
        answers.append(await turn.ask_permission(**{"kind": "other", **call}))
        await turn.say("done")

    spec = AgentSpec(command=["memory"], tool_names=tool_names)
    await evaluated(acting(script), spec=spec, tools=[lookup])
    assert answers == ["allow"]


async def test_allowing_a_tool_of_ours_approves_no_command_and_no_file(tmp_path: Path) -> None:
    """The agent may ask us next to run what it named as an argument."""

    def lookup(command: str) -> str:
        "Look it up."
        return "found"

    answers: list[str | None] = []

    async def script(turn: Turn) -> None:
        given = {"command": "touch made.txt"}
        answers.append(await turn.ask_permission("Look", kind="other", name=f"mcp__{SERVER}__lookup", rawInput=given))
        with pytest.raises(RequestFailed, match="on_permission refused it"):
            await turn.agent.request("terminal/create", {"sessionId": turn.session_id, "command": "touch made.txt"})
        await turn.say("done")

    response = await evaluated(script, tools=[lookup], cwd=tmp_path, access="ask", on_permission=lambda request: False)
    assert answers == ["allow"]
    assert response.stats.refused == 1
    assert not (tmp_path / "made.txt").exists()


async def test_it_may_write_under_the_allowed_paths_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "other" / "src").mkdir(parents=True)
    answers: dict[str, str | None] = {}

    async def script(turn: Turn) -> None:
        for name in ("src/a.py", "other/src/a.py", "a.py", "src/../a.py"):
            place = {"path": str(tmp_path / name)}
            answers[name] = await turn.ask_permission(f"Write {name}", kind="edit", locations=[place])
        await turn.say("done")

    for access in ("read-only", "edit-inside", "full"):
        await evaluated(script, cwd=tmp_path, access=access, allowed_paths=["src"])
        assert answers == {"src/a.py": "allow", "other/src/a.py": "reject", "a.py": "reject", "src/../a.py": "reject"}


async def test_requests_that_no_rule_decides_may_be_answered_by_the_caller(tmp_path: Path) -> None:
    async def script(turn: Turn) -> None:
        await turn.say(str(await turn.ask_permission("Deploy", kind="other")))

    assert (await evaluated(script, cwd=tmp_path, access="ask")).text == "reject"
    assert (await evaluated(script, cwd=tmp_path, access="ask", on_permission=lambda request: True)).text == "allow"


# -- attempts


async def test_a_transient_failure_is_tried_again_in_a_new_session() -> None:
    async def script(turn: Turn) -> None:
        if len(turn.agent.all_heard("session/prompt")) < 3:
            turn.refuse(-32603, "overloaded")
        await turn.say("7")

    agent = acting(script)
    response = await evaluated(agent, output_type=int, retry=QUICK)
    assert (response.output, response.stats.attempts, response.stats.rounds) == (7, 3, 1)
    assert len(agent.all_heard("session/new")) == 3


@pytest.mark.parametrize("code", [-32602, -32000, -32001])
async def test_an_error_that_is_not_transient_is_not_retried(code: int) -> None:
    async def script(turn: Turn) -> None:
        turn.refuse(code, "no")

    agent = acting(script)
    with pytest.raises(DragomanError):
        await evaluated(agent, retry=QUICK)
    assert len(agent.all_heard("session/prompt")) == 1


@pytest.mark.parametrize(
    ("read_only", "after_side_effects", "attempts"), [(True, False, 2), (False, False, 1), (False, True, 2)]
)
async def test_nothing_is_retried_after_a_tool_with_side_effects_unless_requested(
    read_only: bool, after_side_effects: bool, attempts: int
) -> None:
    @tool(read_only=read_only)
    def act() -> str:
        "Act."
        return "done"

    async def script(turn: Turn) -> None:
        async with hands(turn) as tools:
            await tools.call("act", {})
        turn.refuse(-32603, "overloaded")

    retry = RetryPolicy(attempts=2, backoff=0.0, after_side_effects=after_side_effects)
    with pytest.raises(RequestFailed) as failed:
        await evaluated(script, tools=[act], retry=retry)
    assert failed.value.result.stats.attempts == attempts


@pytest.mark.parametrize(("second", "sessions"), [("structured output", 2), ("erase", 1)])
async def test_handing_over_is_no_side_effect_under_whatever_title_but_a_later_call_of_its_id_is(
    second: str, sessions: int
) -> None:
    async def script(turn: Turn) -> None:
        prompts = len(turn.agent.all_heard("session/prompt"))
        await turn.tool("1", title=f"{SERVER}: {second if prompts == 2 else 'structured output'} · 7", kind="other")
        await turn.tool_update("1", title="Tells the number", status="completed")  # as goose does
        if prompts == 2:
            turn.refuse(-32603, "overloaded")
        await turn.say("7" if prompts == 3 else "Wait.")

    agent = acting(script)
    with contextlib.suppress(RequestFailed):
        await evaluated(agent, output_type=int, retry=QUICK)
    assert len(agent.all_heard("session/new")) == sessions


@pytest.mark.parametrize(("kind", "attempts"), [("read", 2), ("execute", 1), ("edit", 1)])
async def test_the_agents_own_tools_count_as_side_effects_by_their_kind(kind: str, attempts: int) -> None:
    async def script(turn: Turn) -> None:
        await turn.tool("t", kind=kind, status="completed")
        turn.refuse(-32603, "overloaded")

    with pytest.raises(RequestFailed) as failed:
        await evaluated(script, retry=RetryPolicy(attempts=2, backoff=0.0))
    assert failed.value.result.stats.attempts == attempts


# -- settings and callbacks


def nothing() -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    "options",
    [
        {"max_rounds": 0},
        {"transport": "sse"},
        {"budget": 3},
        {"deadline": -1},
        {"output_type": object()},
        {"access": "all"},
        {"tools": [3]},
        {"tools": [tool(nothing), nothing]},
        {"tools": [tool(name="structured_output")(nothing)]},
        {"state": object()},
    ],
)
async def test_invalid_arguments_are_refused_before_anything_is_sent_to_the_agent(options: dict[str, Any]) -> None:
    agent = ScriptedAgent()
    with pytest.raises(InputError):
        await evaluated(agent, **options)
    assert not agent.all_heard("session/new")


async def test_every_event_and_heartbeat_is_reported() -> None:
    seen_events: list[events.Event] = []
    beats: list[None] = []
    await evaluated(ScriptedAgent(), on_event=seen_events.append, heartbeat=lambda: beats.append(None))
    assert isinstance(seen_events[-1], events.RunCompleted)
    assert beats


async def test_a_caller_that_stops_waiting_leaves_nothing_running() -> None:
    begun = asyncio.Event()

    async def script(turn: Turn) -> object:
        begun.set()
        return await turn.wait_cancelled()

    agent = acting(script)
    async with runtime_on(agent) as runtime:
        waiting = asyncio.ensure_future(evaluate(runtime, "go", output_type=int))
        async with asyncio.timeout(TIMEOUT_S):
            await begun.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert len(agent.all_heard("session/cancel")) == 1


async def test_handing_over_the_value_is_no_tool_call_however_the_agent_reports_it() -> None:
    """Copilot CLI 1.0.102 puts an argument over a call, in place of the tool's name."""

    async def script(turn: Turn) -> None:
        async with hands(turn) as agent:
            await turn.tool("call-1", title="Count them", kind="other")
            await agent.call("structured_output", {"value": 3}, report=False)
            await turn.tool_update("call-1", status="completed")
            await turn.say("done")

    response = await evaluated(script, output_type=int)
    assert (response.output, response.stats.calls) == (3, 0)


# -- tools that the agent has yet to ask for


async def test_the_first_prompt_waits_until_the_agent_has_asked_for_the_tools() -> None:
    order: list[str] = []
    looking: list[asyncio.Task[None]] = []

    async def new(request: ReceivedRequest) -> object:
        is_connected = asyncio.Event()

        async def look() -> None:
            async with connected(request.params["mcpServers"][-1]) as client:
                is_connected.set()
                for _ in range(5):  # longer than a prompt takes that nothing holds up
                    await client.send_ping()
                order.append("the agent asks for the tools")
                await client.list_tools()

        looking.append(asyncio.create_task(look()))
        await is_connected.wait()
        return {"sessionId": "s"}

    async def script(turn: Turn) -> None:
        order.append("the agent is prompted")
        await turn.say("hi")

    @tool
    async def look_up(sku: str) -> int:
        """Find how many of an item there are."""
        return 42

    agent = acting(script, answers={"session/new": new})
    await evaluated(agent, tools=[look_up])
    await asyncio.gather(*looking)
    assert order == ["the agent asks for the tools", "the agent is prompted"]


async def test_an_agent_that_never_asks_for_the_tools_is_prompted_after_a_while_and_the_error_says_so() -> None:
    clock = ManualClock()
    spec = AgentSpec(command=["memory"], lists_tools=True)
    task = asyncio.create_task(evaluated(ScriptedAgent(), clock=clock, spec=spec, output_type=Item, max_rounds=1))
    while TOOLS_LISTED_TIMEOUT_S not in clock.delays:
        await clock.wait_for_timers()
        await asyncio.sleep(0)
    clock.advance(TOOLS_LISTED_TIMEOUT_S)
    with pytest.raises(OutputInvalid, match="no tool was called, since memory never asked for the tools"):
        await task


async def test_an_agent_that_drops_mcp_servers_is_asked_for_json_and_the_error_says_why_no_tool_was_called() -> None:
    prompts: list[str] = []

    async def script(turn: Turn) -> None:
        prompts.append(turn.text)
        await turn.say("I will not.")

    spec = AgentSpec(command=["memory"], drops_stdio_mcp=True, lists_tools=True)
    with pytest.raises(OutputInvalid) as failed:
        await evaluated(ScriptedAgent(script), spec=spec, output_type=Item, max_rounds=1)
    assert "structured_output" not in prompts[0]
    reason = "memory never asked for the tools: it drops MCP servers over stdio; it offers no other transport"
    assert reason in str(failed.value)
    with pytest.raises(OutputInvalid, match="transport='http' would work"):
        await evaluated(acting(script), spec=spec, output_type=Item, max_rounds=1, transport="stdio")


# -- skills


async def test_skills_of_the_workspace_go_with_an_evaluation_only_where_it_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("DRAGOMAN_CUSTOM_INSTRUCTIONS", "Be brief.")
    for name in ("one", "two"):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: does it\nalways: true\n---\nThe text of {name}.\n"
        )
    agent = ScriptedAgent()
    await evaluated(agent, "hi", cwd=tmp_path)
    await evaluated(agent, "hi", cwd=tmp_path, skills=["two"])
    plain, skilled = (request.params["prompt"] for request in agent.all_heard("session/prompt"))
    assert plain == [{"type": "text", "text": "hi"}]
    assert "The text of two." in str(skilled)
    assert "The text of one." not in str(skilled)
    assert "Be brief." not in str(skilled)
