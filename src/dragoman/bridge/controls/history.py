"""`search` and `usage`: over all that was ever said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.agents.preset import load_presets
from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.refusal import Refusal
from dragoman.config import load
from dragoman.evaluation.evaluate import CUMULATIVE_USAGE_QUIRK
from dragoman.journal.search_documents import SearchQuery
from dragoman.journal.usage import UsageSum, sum_usage, sum_usage_by, usage_by_run

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge


async def search(bridge: Bridge, said: asked.Search, caller: Caller) -> answers.Found:
    if not said.text.strip():
        raise Refusal("invalid", "there is nothing to search for", field="text")
    query = SearchQuery(
        text=said.text[:1000],
        agent=said.agent,
        cwd=said.cwd,
        kinds=said.kinds,
        session_id=said.session_id,
        since=said.since,
        until=said.until,
        limit=min(max(said.limit, 1), 200),
    )
    hits = []
    for hit in await bridge.hub.journal.search(query):
        item = bridge.feeds.listing.item(hit.session_id)
        if item is not None:
            hits.append(
                answers.Hit(
                    session=item,
                    row_id=hit.row_id,
                    kind=hit.kind,
                    at=hit.at,
                    snippet=hit.snippet,
                    marks=tuple((begin, end) for begin, end in hit.marks),
                )
            )
    return answers.Found(hits=tuple(hits))


async def usage(bridge: Bridge, said: asked.UsageAsked, caller: Caller) -> answers.UsageTold:
    presets = load_presets(load(bridge.config.home))
    adding_up = {
        name for name, preset in presets.items() if CUMULATIVE_USAGE_QUIRK in {quirk.id for quirk in preset.quirks}
    }
    sessions = [
        row
        for row in await bridge.hub.journal.sessions()
        if (said.agent is None or row.agent == said.agent)
        and (said.cwd is None or row.cwd == said.cwd)
        and (said.since is None or row.updated >= said.since)
    ]
    known = await bridge.hub.journal.summaries([row.id for row in sessions])
    runs = [
        run
        for row in sessions
        for run in usage_by_run(row, known[row.id], cumulative=row.agent in adding_up)
        if (said.since is None or run.time >= said.since) and (said.until is None or run.time < said.until)
    ]
    sums = tuple(_sum(one) for one in sum_usage_by(runs, said.by))
    return answers.UsageTold(by=said.by, sums=sums, total=_sum(sum_usage(runs)))


def _sum(one: UsageSum) -> answers.Sum:
    return answers.Sum(key=one.key, runs=one.runs, cost=one.cost, reported=one.reported, **one.figures)
