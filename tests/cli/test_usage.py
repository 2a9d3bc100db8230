"""`dragoman usage`: what agents reported, added up, and nothing that they did not report."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from dragoman.cli.text import columns
from dragoman.evaluation.spending import Spent, spent, summed, total
from dragoman.journal.glance import Glance
from dragoman.journal.rows import Session
from dragoman.journal.rows import Usage as Reported
from dragoman.journal.sqlite import SqliteJournal
from dragoman.record.rows import Run, Usage
from dragoman.wire.vocabulary import Cost
from journal.talk import Talk

from .conftest import Cli, without_looks
from .stored_home import NOON, keep, shown, talked

SESSION = Session(id="s1", agent="demo", cwd="/w")


def glance(*usages: Usage | None) -> Glance:
    """A session with a run for each of them; None is one whose agent reported nothing."""
    runs = [Run(id=f"r{n}", time=NOON, ended_time=NOON + n, status="success") for n in range(len(usages))]
    reported = [
        Reported(id=f"r{n}", time=NOON + n, model="m", usage=one) for n, one in enumerate(usages) if one is not None
    ]
    return Glance(runs, reported)


def cost(amount: float, currency: str = "USD") -> Usage:
    return Usage(cost=Cost(amount=amount, currency=currency))


def runs(*usages: Usage | None, cumulative: bool = False) -> list[Spent]:
    return list(spent(SESSION, glance(*usages), cumulative=cumulative))


def test_what_nobody_reported_is_no_zero() -> None:
    one = total(runs(None, None))
    assert one.runs == 2
    assert set(one.figures.values()) == {None}
    assert one.cost == {}


def test_a_reported_zero_is_one() -> None:
    one = total(runs(Usage(input_tokens=0), cost(0.0)))
    assert (one.figures["input_tokens"], one.figures["output_tokens"]) == (0, None)
    assert one.cost == {"USD": 0.0}


def test_a_sum_knows_of_how_many_runs_it_is_made() -> None:
    one = total(runs(Usage(output_tokens=5), None, Usage(output_tokens=7)))
    assert (one.runs, one.figures["output_tokens"], one.reported["output_tokens"]) == (3, 12, 2)


def test_costs_are_the_sessions_so_far_and_counted_once() -> None:
    assert [one.usage.cost.amount for one in runs(cost(0.5), cost(0.75), cost(1.0)) if one.usage.cost] == [
        0.5,
        0.25,
        0.25,
    ]
    assert total(runs(cost(0.5), None, cost(1.0))).cost == {"USD": 1.0}


def test_a_cost_that_went_down_began_anew() -> None:
    assert total(runs(cost(2.0), cost(0.5))).cost == {"USD": 2.5}


def test_currencies_are_never_added_to_each_other() -> None:
    assert total([*runs(cost(2.0)), *runs(cost(3.0, "EUR"))]).cost == {"USD": 2.0, "EUR": 3.0}


def test_tokens_that_an_agent_adds_up_are_taken_apart() -> None:
    told = (Usage(input_tokens=10), None, Usage(input_tokens=25))
    assert total(runs(*told, cumulative=True)).figures["input_tokens"] == 25
    assert total(runs(*told)).figures["input_tokens"] == 35


def test_groups_are_days_in_their_order_or_those_with_the_most_runs_first() -> None:
    def run(day: int, agent: str, model: str | None = None) -> Spent:
        return Spent(time=NOON + day * 86_400, agent=agent, workspace="/w", model=model, usage=Usage())

    some = [run(2, "b"), run(0, "a", "m"), run(1, "b")]
    days = [datetime.fromtimestamp(NOON + n * 86_400).astimezone().date().isoformat() for n in range(3)]
    assert [one.key for one in summed(some, "day")] == days
    assert [(one.key, one.runs) for one in summed(some, "agent")] == [("b", 2), ("a", 1)]
    assert [(one.key, one.runs) for one in summed(some, "model")] == [(None, 2), ("m", 1)]
    assert [(one.key, one.runs) for one in summed(some, "workspace")] == [("/w", 3)]


# -- the command


@pytest.fixture
def used(cli: Cli) -> Cli:
    async def work(journal: SqliteJournal) -> None:
        await talked(journal, "s1", agent="silent", cwd="/home/me/other", at=NOON - 5 * 86_400)
        talk = await Talk.begin(journal, "s2", agent="claude", time=NOON)
        for amount in (0.25, 0.75):
            run = talk.prompt("hello")
            talk.say("hi")
            talk.update("usage_update", used=10, size=100, cost={"amount": amount, "currency": "USD"})
            talk.end(run, usage={"inputTokens": 1000, "outputTokens": 20, "totalTokens": 1020})
        talk.turn("once more", "no figures this time")
        await talk.commit()

    keep(cli, work)
    return cli


def test_a_cost_that_was_told_after_the_runs_end_is_counted_once_and_as_the_list_has_it(cli: Cli) -> None:
    def model(talk: Talk, name: str) -> None:
        option = {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": name}
        options = [{"value": name, "name": name}]
        talk.update("config_option_update", configOptions=[{**option, "options": options}])

    async def work(journal: SqliteJournal) -> None:
        talk = await Talk.begin(journal, "s1", agent="claude", time=NOON)
        for name, amounts in (("small", (0.25, 0.5)), ("large", (0.5, 2.5))):
            model(talk, name)
            talk.turn("hello", "hi")
            await talk.commit()
            model(talk, "another")
            for amount in amounts:
                talk.update("usage_update", used=10, size=100, cost={"amount": amount, "currency": "USD"})
                await talk.commit()

    keep(cli, work)
    (whole,) = json.loads(cli("usage", "--json", "--by", "agent").out)
    assert (whole["runs"], whole["cost"]) == (2, [{"amount": 2.5, "currency": "USD"}])
    (listed,) = json.loads(cli("sessions", "list", "--json").out)
    assert listed["cost"] == whole["cost"][0]
    by_model = json.loads(cli("usage", "--json", "--by", "model").out)
    assert {one["model"]: one["cost"][0]["amount"] for one in by_model} == {"small": 0.5, "large": 2.0}


def table(text: str) -> dict[str, list[str]]:
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return {row[0]: row[1:] for row in rows}


def test_the_help_teaches_by_example(cli: Cli) -> None:
    done = cli("usage", "--help")
    assert (done.code, done.err) == (0, "")
    assert "Examples:\n    dragoman usage\n" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_where_nothing_was_run_a_first_step_is_shown(cli: Cli) -> None:
    done = cli("usage")
    assert (done.code, done.out) == (0, "")
    assert 'dragoman run "hello"' in done.err
    assert cli("usage", "--json").out == "[]\n"
    assert not (cli.home / "journal.db").exists()


def test_the_table_says_what_was_reported_and_what_was_not(used: Cli) -> None:
    done = used("usage", "--by", "agent")
    assert done.code == 0
    assert table(done.out) == {
        "agent": ["runs", "input", "output", "total", "cost"],
        "claude": ["3", "2,000+", "40+", "2,040+", "0.7500", "USD"],
        "silent": ["1", "—", "—", "—", "—"],
        "total": ["4", "2,000+", "40+", "2,040+", "0.7500", "USD+"],
    }
    assert "not reported" in done.err
    assert "at least" in done.err


def test_as_json_what_was_not_reported_is_null(used: Cli) -> None:
    done = used("usage", "--by", "workspace", "--json")
    assert (done.code, done.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.out)
    assert [(one["workspace"], one["runs"]) for one in found] == [("/home/me/project", 3), ("/home/me/other", 1)]
    assert found[0]["cost"] == [{"amount": 0.75, "currency": "USD"}]
    assert (found[0]["input_tokens"], found[0]["reported"]["input_tokens"]) == (2000, 2)
    assert (found[1]["input_tokens"], found[1]["cost"]) == (None, None)


def test_it_can_be_narrowed(used: Cli) -> None:
    day = datetime.fromtimestamp(NOON).astimezone().date().isoformat()
    for filters, count in (
        (["--agent", "claude"], 3),
        (["--workspace", "/home/me/other"], 1),
        (["--since", day], 3),
        (["--until", day], 4),
        (["--until", "2020-01-01"], 0),
    ):
        found = json.loads(used("usage", "--by", "agent", "--json", *filters).out)
        assert sum(one["runs"] for one in found) == count, filters
    assert used("usage", "--since", "whenever").code == 2


def test_what_a_real_run_reported_is_there(cli: Cli) -> None:
    assert cli("run", "hello").code == 0
    [one] = json.loads(cli("usage", "--by", "model", "--json").out)
    assert one["model"] == "demo-small"
    assert one["runs"] == 1
    assert one["output_tokens"] > 0


@pytest.mark.parametrize("by", ["day", "agent", "model", "workspace"])
def test_no_line_is_wider_than_the_terminal(used: Cli, by: str) -> None:
    text = without_looks(shown(used, 48, "usage", "--by", by))
    assert "runs" in text
    assert max(columns(line) for line in text.splitlines()) <= 48
