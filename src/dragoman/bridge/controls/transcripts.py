"""`transcripts.*`: sessions that agents had in other terminals, read from their own files once someone agrees."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.agents.preset import load_presets
from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.config import load
from dragoman.translate.discover import find_transcripts
from dragoman.translate.translator import PROVIDERS

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge


async def list_transcripts(bridge: Bridge, said: asked.TranscriptsList, caller: Caller) -> answers.Transcripts:
    presets = await asyncio.to_thread(lambda: load_presets(load(bridge.config.home)))
    here = Counter(item.agent for item in bridge.feeds.listing.every() if item.imported)
    known = {status.provider: status for status in bridge.watcher.status()}
    items = []
    for provider in PROVIDERS:
        status = known.get(provider)
        mode = status.mode if status is not None else "off"
        found = await asyncio.to_thread(find_transcripts, provider, os.environ, Path.home()) if mode != "off" else []
        preset = presets.get(provider)
        items.append(
            answers.ProviderItem(
                provider=provider,
                name=preset.name if preset is not None else provider,
                mode=mode,
                files=len(found),
                size=sum(one.size for one in found),
                sessions=here[provider],
                waiting=status.waiting if status is not None else 0,
                problem=status.error if status is not None else None,
            )
        )
    return answers.Transcripts(providers=tuple(items))


async def allow(bridge: Bridge, said: asked.TranscriptsAllow, caller: Caller) -> answers.Transcripts:
    await bridge.watcher.allow(said.provider)
    return await list_transcripts(bridge, asked.TranscriptsList(id=said.id), caller)
