"""`transcripts`: what it costs to take in what agents wrote on disk.

Real transcripts are other people's words and not part of the project: `DRAGOMAN_CORPUS` names the folder that has them.
"""

from __future__ import annotations

import os
import sys

from bench.measure import Contender, Sample, Settings, Unavailable, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row

BAR, AIM = 15, 8


def run(settings: Settings, peers: Peers) -> Case:
    def measure() -> Sample:
        folder = os.environ.get("DRAGOMAN_CORPUS")
        if not folder:
            raise Unavailable("DRAGOMAN_CORPUS names no folder with transcripts")
        return python_client(sys.executable, "transcripts", folder)

    outcome = interleaved("transcripts", [Contender("import", measure)], settings.repetitions, settings.say)["import"]

    def figure(name: str, value: str) -> Figure:
        return Figure(name, outcome.each(value), reason=outcome.reason)

    decoding = figure("decoding alone", "decode")
    notes = []
    if outcome.samples:
        size, frames = max(outcome.each("size")), max(outcome.each("frames"))
        notes = [
            f"{size / 1e6:.1f} MB of lines gave {frames:,.0f} frames.",
            f"At most {max(outcome.each('peak')) / 1e6:.0f} MB of memory were in use.",
        ]
    return Case(
        "transcripts",
        "Importing transcripts of Claude Code and Codex",
        "All transcripts of a folder are read, translated, folded, and committed with their rows and the index for "
        "search to an SQLite file; beside it, the same lines are read and decoded by msgspec into plain values, and "
        "thrown away. Then all of them are imported a second time, when nothing is new.",
        [
            Row("imported", "cost", figure("import", "take"), decoding, bar=BAR, aim=AIM),
            Row("imported a second time", "cost", figure("second import", "again"), decoding),
        ],
        notes,
    )
