"""Fleets: what is left to do, what an outcome holds, how agents are compared."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.cli.eval import outcome_line
from dragoman.errors import InputError, OutputInvalid
from dragoman.evaluation.fleet import Fleet, Outcome, Results, Task, compare, read_tasks
from dragoman.evaluation.response import EvaluationStats, PromptResponse
from dragoman.evaluation.tool import ToolError
from dragoman.evaluation.toolbox import Toolbox
from dragoman.record.rows import Usage
from dragoman.wire.vocabulary import Cost

TASKS = [Task(id="a", prompt="1"), Task(id="b", prompt="2", expected=2, schema={"type": "integer"})]


def outcome(task: str, agent: str, **more: Any) -> Outcome:
    digest = next(each for each in TASKS if each.id == task).digest(None)
    return Outcome(**{"task": task, "agent": agent, "digest": digest, "status": "ok", **more})


async def echo(task: Task, agent: str) -> PromptResponse[Any]:
    if agent == "fails":
        raise OutputInvalid("no")
    usage = Usage(total_tokens=10, cost=Cost(amount=0.5, currency="USD"))
    return PromptResponse(
        output=int(task.prompt), text=task.prompt, stop_reason="end_turn", stats=EvaluationStats(usage=usage)
    )


async def test_each_task_goes_to_each_agent_and_never_more_at_once_than_jobs() -> None:
    running = most = 0
    release = asyncio.Event()

    async def slow(task: Task, agent: str) -> PromptResponse[Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            release.set()
        async with asyncio.timeout(10):
            await release.wait()
        running -= 1
        return await echo(task, agent)

    ended: list[Outcome] = []
    fleet = Fleet(TASKS, ["x", "y", "fails"], slow, jobs=3, on_end=ended.append)
    await fleet.run(fleet.remaining([]))
    assert most == 3
    assert {(each.agent, each.task): each.status for each in ended} == {
        ("x", "a"): "ok",
        ("x", "b"): "ok",
        ("y", "a"): "ok",
        ("y", "b"): "ok",
        ("fails", "a"): "error",
        ("fails", "b"): "error",
    }


async def test_an_error_that_concerns_all_tasks_stops_all() -> None:
    def full(outcome: Outcome) -> None:
        raise OSError("no space left on device")

    fleet = Fleet(TASKS, ["x"], echo, jobs=2, on_end=full)
    with pytest.raises(OSError, match="no space"):
        await fleet.run(fleet.remaining([]))


def test_a_changed_task_is_a_new_one_and_an_error_may_be_done_again() -> None:
    known = [outcome("a", "x"), outcome("b", "x", status="error"), outcome("a", "y", digest="old")]
    fleet = Fleet(TASKS, ["x", "y"], echo)
    assert [(task.id, agent) for task, agent in fleet.remaining(known)] == [("a", "y"), ("b", "y")]
    assert ("b", "x") in [(task.id, agent) for task, agent in fleet.remaining(known, redo_errors=True)]
    again = [*known, outcome("b", "x")]
    assert ("b", "x") not in [(task.id, agent) for task, agent in fleet.remaining(again, redo_errors=True)]


@settings(deadline=None)  # the machine may be busy
@given(cut=st.integers(0, 1000))
def test_a_file_that_was_cut_anywhere_is_read_up_to_its_last_whole_line(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("results") / "out.jsonl"
    with Results(path) as results:
        for number in range(4):
            results.add(outcome("a", f"agent {number}", text="ünïcode\nlines"))
    data = path.read_bytes()
    path.write_bytes(data[: cut % (len(data) + 1)])
    whole = data[: cut % (len(data) + 1)].count(b"\n")
    with Results(path) as again:
        assert [each.agent for each in again.outcomes] == [f"agent {number}" for number in range(whole)]
        again.add(outcome("b", "last"))
    with Results(path) as third:
        assert [each.agent for each in third.outcomes][-1] == "last"
        assert len(third.outcomes) == whole + 1


@pytest.mark.parametrize("data", [b'{"mine": 1}\nrest', b"a note without an end", b'{"prompt": "x"}'])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"mine\.jsonl:1 is not an outcome"), Results(path):
        pass
    assert path.read_bytes() == data


def test_a_path_that_is_no_file_is_refused_before_it_is_read() -> None:
    with pytest.raises(InputError, match="is not a regular file"), Results(Path("/dev/zero")):  # it would never end
        pass


def test_another_model_makes_other_tasks() -> None:
    task = Task(id="a", prompt="p")
    done = Outcome(task="a", agent="x", digest=task.digest(None, "small"), status="ok")
    left = {model: Fleet([task], ["x"], echo, model=model).remaining([done]) for model in ("small", "large", None)}
    assert left == {"small": [], "large": [(task, "x")], None: [(task, "x")]}


def test_other_ends_of_lines_may_stand_in_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('\ufeff{"prompt": "a\u2028b\u0085c"}\r\n{"prompt": "d"}', newline="")
    assert [task.prompt for task in read_tasks(path)] == ["a\u2028b\u0085c", "d"]


async def test_an_exception_of_a_user_function_is_in_the_outcome_and_a_tool_error_is_not() -> None:
    def broken(sku: str) -> int:
        """Find an item."""
        raise KeyError(sku)

    def careful(sku: str) -> int:
        """Find an item."""
        raise ToolError(f"there is no {sku}")

    async def calls(task: Task, agent: str) -> PromptResponse[Any]:
        tools = Toolbox([broken, careful])
        for name in ("broken", "careful", "broken"):
            await tools.call(name, {"sku": "pear"})
        stats = EvaluationStats(tool_calls=tuple(tools.calls), calls=5)
        return PromptResponse(output=1, text="", stop_reason="end_turn", stats=stats)

    ended: list[Outcome] = []
    await Fleet(TASKS[:1], ["x"], calls, on_end=ended.append).run([(TASKS[0], "x")])
    assert [(each.tool_calls, each.tool_errors) for each in ended] == [(5, ("broken: KeyError: 'pear'",))]
    assert outcome_line(ended[0]).endswith("s); a tool failed: broken: KeyError: 'pear'")


def test_agents_are_compared_and_missing_figures_are_no_zeros() -> None:
    lines = compare(
        [
            outcome("a", "x", status="error", rounds=3, seconds=4),
            outcome("a", "y", tokens=10, cost=0.5, currency="USD", rounds=1, seconds=1),
            outcome("b", "y", tokens=5, rounds=2, seconds=3, status="wrong"),
        ],
        ["x", "y", "z"],
    )
    assert [(line.agent, line.ok, line.tasks, line.tokens, line.cost, line.seconds) for line in lines] == [
        ("y", 1, 2, 15, 0.5, 2),
        ("x", 0, 1, None, None, 4),
        ("z", 0, 0, None, None, None),
    ]


@pytest.mark.parametrize(
    ("expected", "schema", "output", "text", "status"),
    [
        (1, {}, 1, "x", "ok"),
        (1, {}, 2, "1", "wrong"),
        ("hi", None, None, " hi\n", "ok"),
        ("hi", None, None, "ho", "wrong"),
        (None, {"type": "null"}, None, "It is null.", "ok"),
        (None, {}, 0, "null", "wrong"),
        (0, {}, None, "0", "wrong"),
        ("hi", {}, None, "hi", "wrong"),  # with a schema the text is no output
        (1, {}, True, "", "wrong"),
        ({"a": [1, None]}, {}, {"a": [1.0, None]}, "", "ok"),
        ({"a": [1, None]}, {}, {"a": [True, None]}, "", "wrong"),
        ({"a": 1}, {}, {"a": 1, "b": 2}, "", "wrong"),
        ([1, 2], {}, [1], "", "wrong"),
    ],
)
async def test_the_expected_value_is_compared_with_the_output_or_without_a_schema_with_the_text(
    expected: Any, schema: dict[str, Any] | None, output: Any, text: str, status: str
) -> None:
    async def answers(task: Task, agent: str) -> PromptResponse[Any]:
        return PromptResponse(output=output, text=text, stop_reason="end_turn", stats=EvaluationStats())

    of_task, of_all = (Task(id="a", prompt="p", expected=expected, schema=each) for each in (schema, None))
    for task, common in ((of_task, None), (of_all, schema)):
        ended: list[Outcome] = []
        await Fleet([task], ["x"], answers, schema=common, on_end=ended.append).run([(task, "x")])
        assert [each.status for each in ended] == [status]


def test_tasks_are_called_by_their_line_where_they_have_no_id(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": "b", "id": "x", "expected": null}\n')
    first, second = read_tasks(path)
    assert (first.id, second.id, second.expected) == ("1", "x", None)
    assert first.digest(None) != first.digest({"type": "integer"})
