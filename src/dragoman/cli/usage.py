"""`dragoman usage`: tokens and cost of runs, summed by day, agent, model or workspace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import click

from dragoman.agents.preset import load_presets
from dragoman.cli.command import (
    NOT_REPORTED,
    async_command,
    ending,
    folder,
    note,
    open_readonly,
    padded,
    print_json,
    styled,
    widest,
    width,
)
from dragoman.cli.figures import cost_part
from dragoman.cli.session_filter import matching, moment
from dragoman.cli.text import cut, one_line
from dragoman.config import load
from dragoman.evaluation.evaluate import CUMULATIVE
from dragoman.journal.usage import TOKEN_FIGURES, GroupBy, UsageSum, sum_usage, sum_usage_by, usage_by_run, usage_record
from dragoman.record.rows import Usage
from dragoman.wire.vocabulary import Cost

EPILOG = """\b
Examples:
  dragoman usage
  dragoman usage --by agent --since 30d
  dragoman usage --by model --json | jq '.[] | {model, output_tokens}'

Figures are those that agents report, and no others: what none of them told is
"—", and never zero."""
_HEADS: Final = {
    "input_tokens": "input",
    "cached_tokens": "cached",
    "output_tokens": "output",
    "thought_tokens": "thought",
    "total_tokens": "total",
}

# What is left out first where there is little room: it is a part of another figure.
_EXPENDABLE: Final = ("thought", "cached", "total")
_UNKNOWN: Final = {"day": "?", "agent": "unknown agent", "model": "model not told", "workspace": "unknown folder"}
_LEAST: Final = "+"  # some runs did not report it: it is at least so much


@click.command(epilog=EPILOG, short_help="Tokens and cost by day, agent, model or workspace.")
@click.option(
    "--by",
    type=click.Choice(["day", "agent", "model", "workspace"]),
    default="day",
    show_default=True,
    help="What is added up.",
)
@click.option("-a", "--agent", metavar="AGENT", help="Only runs of this agent.")
@click.option("--workspace", metavar="DIR", help="Only runs in this folder.")
@click.option("--since", metavar="TIME", help="Not older: 2026-01-31, yesterday, 12h, 7d.")
@click.option("--until", metavar="TIME", help="Not younger; a day counts with all of it.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@async_command
async def usage(
    *, by: GroupBy, agent: str | None, workspace: str | None, since: str | None, until: str | None, as_json: bool
) -> None:
    """Tokens and cost of the runs, by day, agent, model or workspace."""
    now = datetime.now().astimezone()
    after, before = moment(since, "--since", now), moment(until, "--until", now, end=True)
    adding_up = {name for name, preset in load_presets(load()).items() if CUMULATIVE in {q.id for q in preset.quirks}}
    async with open_readonly() as journal:
        every = await journal.sessions()
        # A session that went on later may have runs of that time, too.
        chosen = matching(every, agent=agent, workspace=workspace, since=after)
        known = await journal.summaries([one.id for one in chosen])
    runs = [
        run
        for session in chosen
        for run in usage_by_run(session, known[session.id], cumulative=session.agent in adding_up)
        if (after is None or run.time >= after) and (before is None or run.time < before)
    ]
    sums = sum_usage_by(runs, by)
    if as_json:
        return print_json([usage_record(one, by) for one in sums])
    if not sums:
        return note("No runs match." if every else 'No runs yet. Try: dragoman run "hello"')
    return _print(sums, sum_usage(runs), by)


def _print(sums: Sequence[UsageSum], whole: UsageSum, by: GroupBy) -> None:
    heads = [by, "runs", *_HEADS.values(), "cost"]
    rows = [[_name(one, by), *_cells(one)] for one in sums]
    if len(rows) > 1:
        rows.append(["total", *_cells(whole)])
    # A figure that no agent reports needs no column.
    for name in _HEADS:
        if not whole.reported[name]:
            _drop(heads, rows, _HEADS[name])
    for name in _EXPENDABLE:
        if _wide(heads, rows) > width() and name in heads:
            _drop(heads, rows, name)
    room = width() - (_wide(heads, rows) - widest([row[0] for row in rows]))
    for row in rows:
        row[0] = ending(row[0], max(12, room)) if by == "workspace" else cut(row[0], max(12, room))
    wide = [widest([head, *(row[place] for row in rows)]) for place, head in enumerate(heads)]
    click.echo(styled(_line(heads, wide), dim=True))
    for number, row in enumerate(rows):
        last = len(rows) > 1 and number == len(rows) - 1
        click.echo(styled(_line(row, wide), bold=True) if last else _line(row, wide))
    marks = {cell[-1:] for row in rows for cell in row[2:]}
    legend = [
        *([f"{NOT_REPORTED} not reported"] if NOT_REPORTED in marks else []),
        *([f"{_LEAST} at least: some runs did not report it"] if _LEAST in marks else []),
    ]
    if legend:
        note("", "; ".join(legend))


def _name(one: UsageSum, by: GroupBy) -> str:
    if one.key is None:
        return _UNKNOWN[by]
    return folder(one.key) if by == "workspace" else one_line(one.key, 60)


def _cells(one: UsageSum) -> list[str]:
    figures = [
        NOT_REPORTED if (value := one.figures[name]) is None else f"{value:,}{_partial(one, name)}"
        for name in TOKEN_FIGURES
    ]
    costs = [cost_part(Usage(cost=Cost(amount=amount, currency=unit))) for unit, amount in one.cost.items()]
    return [f"{one.runs:,}", *figures, f"{', '.join(costs)}{_partial(one, 'cost')}" if costs else NOT_REPORTED]


def _partial(one: UsageSum, name: str) -> str:
    return _LEAST if one.reported[name] < one.runs else ""


def _drop(heads: list[str], rows: list[list[str]], name: str) -> None:
    place = heads.index(name)
    for row in (heads, *rows):
        del row[place]


def _wide(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return sum(widest([head, *(row[place] for row in rows)]) + 2 for place, head in enumerate(heads)) - 2


def _line(row: Sequence[str], wide: Sequence[int]) -> str:
    return "  ".join(padded(cell, wide[place], right=place > 0) for place, cell in enumerate(row)).rstrip()
