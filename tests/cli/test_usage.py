"""`dragoman usage`: sums of the figures that agents reported, and of no others."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from dragoman.cli.text import columns
from dragoman.journal.sqlite import SqliteJournal
from journal.talk import Talk

from .conftest import Cli, without_looks
from .stored_home import NOON, edit_journal, shown, write_session

# -- the command


@pytest.fixture
def used(cli: Cli) -> Cli:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "s1", agent="silent", cwd="/home/me/other", at=NOON - 5 * 86_400)
        talk = await Talk.begin(journal, "s2", agent="claude", time=NOON)
        for amount in (0.25, 0.75):
            run = talk.prompt("hello")
            talk.say("hi")
            talk.update("usage_update", used=10, size=100, cost={"amount": amount, "currency": "USD"})
            talk.end(run, usage={"inputTokens": 1000, "outputTokens": 20, "totalTokens": 1020})
        talk.turn("once more", "no figures this time")
        await talk.commit()

    edit_journal(cli, work)
    return cli


def test_a_cost_reported_after_the_end_of_a_run_is_counted_once_as_in_the_list(cli: Cli) -> None:
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

    edit_journal(cli, work)
    (whole,) = json.loads(cli("usage", "--json", "--by", "agent").out)
    assert (whole["runs"], whole["cost"]) == (2, [{"amount": 2.5, "currency": "USD"}])
    (listed,) = json.loads(cli("sessions", "list", "--json").out)
    assert listed["cost"] == whole["cost"][0]
    by_model = json.loads(cli("usage", "--json", "--by", "model").out)
    assert {row["model"]: row["cost"][0]["amount"] for row in by_model} == {"small": 0.5, "large": 2.0}


def table(text: str) -> dict[str, list[str]]:
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return {row[0]: row[1:] for row in rows}


def test_the_help_teaches_by_example(cli: Cli) -> None:
    done = cli("usage", "--help")
    assert (done.code, done.err) == (0, "")
    assert "Examples:\n    dragoman usage\n" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_without_runs_a_first_step_is_shown(cli: Cli) -> None:
    done = cli("usage")
    assert (done.code, done.out) == (0, "")
    assert 'dragoman run "hello"' in done.err
    assert cli("usage", "--json").out == "[]\n"
    assert not (cli.home / "journal.db").exists()


def test_the_table_marks_figures_that_were_not_reported(used: Cli) -> None:
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


def test_in_json_a_figure_that_was_not_reported_is_null(used: Cli) -> None:
    done = used("usage", "--by", "workspace", "--json")
    assert (done.code, done.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.out)
    assert [(row["workspace"], row["runs"]) for row in found] == [("/home/me/project", 3), ("/home/me/other", 1)]
    assert found[0]["cost"] == [{"amount": 0.75, "currency": "USD"}]
    assert (found[0]["input_tokens"], found[0]["reported"]["input_tokens"]) == (2000, 2)
    assert (found[1]["input_tokens"], found[1]["cost"]) == (None, None)


def test_usage_can_be_filtered(used: Cli) -> None:
    day = datetime.fromtimestamp(NOON).astimezone().date().isoformat()
    for filters, count in (
        (["--agent", "claude"], 3),
        (["--workspace", "/home/me/other"], 1),
        (["--since", day], 3),
        (["--until", day], 4),
        (["--until", "2020-01-01"], 0),
    ):
        found = json.loads(used("usage", "--by", "agent", "--json", *filters).out)
        assert sum(row["runs"] for row in found) == count, filters
    assert used("usage", "--since", "whenever").code == 2


def test_the_figures_of_a_real_run_are_counted(cli: Cli) -> None:
    assert cli("run", "hello").code == 0
    [row] = json.loads(cli("usage", "--by", "model", "--json").out)
    assert row["model"] == "demo-small"
    assert row["runs"] == 1
    assert row["output_tokens"] > 0


@pytest.mark.parametrize("by", ["day", "agent", "model", "workspace"])
def test_no_line_is_wider_than_the_terminal(used: Cli, by: str) -> None:
    text = without_looks(shown(used, 48, "usage", "--by", by))
    assert "runs" in text
    assert max(columns(line) for line in text.splitlines()) <= 48
