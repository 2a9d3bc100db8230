"""`dragoman usage`: tokens and cost of runs, summed by day, agent, model or workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import click

from dragoman.agents.preset import load_presets
from dragoman.cli.command import (
    NOT_REPORTED,
    Table,
    async_command,
    folder,
    note,
    open_readonly,
    print_error,
    print_json,
    usable_settings,
    width,
)
from dragoman.cli.options import (
    agent_filter,
    filter_sessions,
    json_option,
    parse_time,
    since_option,
    until_option,
    workspace_filter,
)
from dragoman.cli.text import cost_part, one_line
from dragoman.evaluation.evaluate import CUMULATIVE_USAGE_QUIRK
from dragoman.journal.usage import (
    TOKEN_FIGURES,
    GroupBy,
    UsageSum,
    sum_usage,
    sum_usage_by,
    usage_of_sessions,
    usage_record,
)
from dragoman.record.rows import Usage
from dragoman.wire.vocabulary import Cost

EPILOG = """\b
Examples:
  dragoman usage
  dragoman usage --by agent --since 30d
  dragoman usage --by model --json | jq '.[] | {model, output_tokens}'

Only figures that agents report are counted; "—" means not reported."""
_HEADS: Final = {
    "input_tokens": "input",
    "cached_tokens": "cached",
    "output_tokens": "output",
    "thought_tokens": "thought",
    "total_tokens": "total",
}

# Columns that are left out where there is little room: each is a part of another figure.
_EXPENDABLE: Final = ("thought", "cached", "total")
_UNKNOWN: Final = {
    "day": "unknown day",
    "agent": "unknown agent",
    "model": "model not reported",
    "workspace": "unknown folder",
}
_AT_LEAST: Final = "+"  # some runs did not report it: it is at least so much


@click.command(epilog=EPILOG)
@click.option(
    "--by",
    type=click.Choice(["day", "agent", "model", "workspace"]),
    default="day",
    show_default=True,
    help="Grouping of the runs.",
)
@agent_filter
@workspace_filter
@since_option
@until_option
@json_option
@async_command
async def usage(
    *, by: GroupBy, agent: str | None, workspace: str | None, since: str | None, until: str | None, as_json: bool
) -> None:
    """Show the tokens and cost of runs, by day, agent, model or workspace."""
    now = datetime.now().astimezone()
    after, before = parse_time(since, "--since", now), parse_time(until, "--until", now, end=True)
    adding_up = {
        name
        for name, preset in load_presets(usable_settings(), print_error).items()
        if CUMULATIVE_USAGE_QUIRK in {q.id for q in preset.quirks}
    }
    async with open_readonly() as journal:
        every = await journal.sessions()
        # A session that went on later may have runs of that time, too.
        chosen = filter_sessions(every, agent=agent, workspace=workspace, since=after)
        summaries = await journal.summaries([session.id for session in chosen])
    runs = [
        run
        for run in usage_of_sessions(chosen, summaries, cumulative_agents=adding_up)
        if (after is None or run.time >= after) and (before is None or run.time < before)
    ]
    sums = sum_usage_by(runs, by)
    if as_json:
        return print_json([usage_record(each, by) for each in sums])
    if not sums:
        return note("No runs match." if every else 'No runs yet. Try: dragoman run "hello"')
    return _print(sums, sum_usage(runs), by)


def _print(sums: Sequence[UsageSum], whole: UsageSum, by: GroupBy) -> None:
    rows = [{by: _name(each, by), **_cells(each)} for each in sums]
    if len(rows) > 1:
        rows.append({by: "total", **_cells(whole)})
    headings = [by, "runs", *(head for name, head in _HEADS.items() if whole.reported[name]), "cost"]
    table = _table(headings, rows)
    for name in _EXPENDABLE:
        if name in headings and table.columns() > width():
            headings.remove(name)
            table = _table(headings, rows)
    table.print()
    marks = {row[heading][-1:] for row in rows for heading in headings[2:]}
    legend = [
        *([f"{NOT_REPORTED} not reported"] if NOT_REPORTED in marks else []),
        *([f"{_AT_LEAST} at least: some runs did not report it"] if _AT_LEAST in marks else []),
    ]
    if legend:
        note("", "; ".join(legend))


def _table(headings: Sequence[str], rows: Sequence[Mapping[str, str]]) -> Table:
    table = Table()
    for position, heading in enumerate(headings):
        table.add_column(heading, right=position > 0, shrinks=position == 0)
    for number, row in enumerate(rows, start=1):
        is_total = number == len(rows) > 1
        table.add_row(*(row[heading] for heading in headings), style="bold" if is_total else None)
    return table


def _name(usage_sum: UsageSum, by: GroupBy) -> str:
    if usage_sum.key is None:
        return _UNKNOWN[by]
    return folder(usage_sum.key) if by == "workspace" else one_line(usage_sum.key, 60)


def _cells(usage_sum: UsageSum) -> dict[str, str]:
    """Format the figures, by heading."""
    figures = {
        _HEADS[name]: f"{value:,}{_partial(usage_sum, name)}" if value is not None else NOT_REPORTED
        for name, value in ((name, usage_sum.figures[name]) for name in TOKEN_FIGURES)
    }
    costs = [cost_part(Usage(cost=Cost(amount=amount, currency=unit))) for unit, amount in usage_sum.cost.items()]
    cost = f"{', '.join(costs)}{_partial(usage_sum, 'cost')}" if costs else NOT_REPORTED
    return {"runs": f"{usage_sum.runs:,}", **figures, "cost": cost}


def _partial(usage_sum: UsageSum, name: str) -> str:
    return _AT_LEAST if usage_sum.reported[name] < usage_sum.runs else ""
