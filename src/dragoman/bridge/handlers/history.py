"""Handlers of `search`, `usage` and `transcripts.*`: everything that was recorded or can be imported."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

from dragoman.agents.preset import load_presets
from dragoman.bridge.auth import Caller
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.services import Services, handles
from dragoman.config import load
from dragoman.evaluation.evaluate import CUMULATIVE_USAGE_QUIRK
from dragoman.journal.search_documents import SearchQuery
from dragoman.journal.usage import UsageSum, sum_usage, sum_usage_by, usage_of_sessions
from dragoman.protocol import requests, results
from dragoman.translate.discover import find_transcripts
from dragoman.translate.translator import PROVIDERS


@handles(requests.Search)
async def search(services: Services, request: requests.Search, caller: Caller) -> results.SearchHits:
    if not request.text.strip():
        raise Refusal("invalid", "there is nothing to search for", field="text")
    query = SearchQuery(
        text=request.text[:1000],
        agent=request.agent,
        cwd=request.cwd,
        kinds=request.kinds,
        session_id=request.session_id,
        since=request.since,
        until=request.until,
        limit=min(max(request.limit, 1), 200),
    )
    hits = []
    matches = await services.journal.search(query)
    for hit in matches:
        item = services.listing.item(hit.session_id)
        if item is not None:
            hits.append(
                results.SearchHit(
                    session=item,
                    row_id=hit.row_id,
                    kind=hit.kind,
                    at=hit.at,
                    snippet=hit.snippet,
                    marks=tuple((begin, end) for begin, end in hit.marks),
                )
            )
    return results.SearchHits(hits=tuple(hits), is_cut=matches.is_cut)


@handles(requests.UsageQuery)
async def report_usage(services: Services, request: requests.UsageQuery, caller: Caller) -> results.UsageReport:
    presets = load_presets(load(services.config.home))
    cumulative = {
        name for name, preset in presets.items() if CUMULATIVE_USAGE_QUIRK in {quirk.id for quirk in preset.quirks}
    }
    sessions = [
        row
        for row in await services.journal.sessions()
        if (request.agent is None or row.agent == request.agent)
        and (request.cwd is None or row.cwd == request.cwd)
        and (request.since is None or row.updated >= request.since)
    ]
    summaries = await services.journal.summaries([row.id for row in sessions])
    runs = [
        run
        for run in usage_of_sessions(sessions, summaries, cumulative_agents=cumulative)
        if (request.since is None or run.time >= request.since) and (request.until is None or run.time < request.until)
    ]
    sums = tuple(map(_usage_sum, sum_usage_by(runs, request.by)))
    return results.UsageReport(by=request.by, sums=sums, total=_usage_sum(sum_usage(runs)))


def _usage_sum(usage: UsageSum) -> results.UsageSum:
    return results.UsageSum(key=usage.key, runs=usage.runs, cost=usage.cost, reported=usage.reported, **usage.figures)


@handles(requests.TranscriptsList)
async def list_transcripts(
    services: Services, request: requests.TranscriptsList, caller: Caller
) -> results.TranscriptProviders:
    return await _providers(services)


@handles(requests.TranscriptsAllow)
async def allow_transcripts(
    services: Services, request: requests.TranscriptsAllow, caller: Caller
) -> results.TranscriptProviders:
    await services.watcher.allow(request.provider)
    return await _providers(services)


async def _providers(services: Services) -> results.TranscriptProviders:
    presets = await asyncio.to_thread(lambda: load_presets(load(services.config.home)))
    imported = Counter(item.agent for item in services.listing.all_items() if item.imported)
    statuses = {status.provider: status for status in services.watcher.status()}
    items = []
    for provider in PROVIDERS:
        status = statuses.get(provider)
        mode = status.mode if status is not None else "off"
        files = await asyncio.to_thread(find_transcripts, provider, os.environ, Path.home()) if mode != "off" else []
        preset = presets.get(provider)
        items.append(
            results.ProviderItem(
                provider=provider,
                name=preset.name if preset is not None else provider,
                mode=mode,
                files=len(files),
                size=sum(file.size for file in files),
                sessions=imported[provider],
                pending=status.waiting if status is not None else 0,
                error=status.error if status is not None else None,
            )
        )
    return results.TranscriptProviders(providers=tuple(items))
