"""`flood`: a session beside another one whose agent floods the server, and `/v1/health` meanwhile."""

from __future__ import annotations

import shlex
import sys
from typing import Final

from bench.measure import ROOT, Contender, Sample, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row

# The delay that nobody may cause another session, at the 99th percentile.
LIMIT_S: Final = 0.1

# Each kind of flood, its size, and its name in the table.
FLOODS: Final = (
    ("noise", 1_000_000, "1,000,000 lines that are no messages"),
    ("requests", 20_000, "20,000 requests"),
    ("updates", 500_000, "500,000 updates"),
    ("message", 60, "one message of 60 MB, then opened by four clients"),
)


def run(settings: Settings, peers: Peers) -> Case:
    ticking = shlex.join([sys.executable, str(ROOT / "bench" / "ticking_agent.py")])
    scale = settings.chunks / Settings.chunks

    def measure(kind: str, count: int) -> Sample:
        size = str(max(1, round(count * scale)))
        where = ["--agent", ticking, "--cwd", str(settings.workspace)]
        return python_client(sys.executable, "flood", *where, "--flood", kind, size)

    contenders = [
        Contender(name, lambda kind=kind, count=count: measure(kind, count))  # type: ignore[misc]
        for kind, count, name in FLOODS
    ]
    found = interleaved("flood", contenders, settings.repetitions, settings.say)
    rows, notes = [], []
    for _, _, name in FLOODS:
        outcome = found[name]
        for subject, figure in (("another session's updates", "p99"), ("`/v1/health`", "health_p99")):
            rows.append(
                Row(
                    f"{name}: {subject}, 99th percentile",
                    "cost",
                    Figure("delay", outcome.each(figure), "s", outcome.reason),
                    Figure("limit", [LIMIT_S], "s"),
                    bar=1,
                )
            )
        if outcome.samples:
            worst, health = max(outcome.each("worst")), max(outcome.each("health_worst"))
            notes.append(f"{name}: at worst {worst * 1000:.0f} ms for an update, {health * 1000:.0f} ms for a request.")
    return Case(
        "flood",
        "What one session notices of another one whose agent floods the server",
        "Both sessions are on one `dragoman serve`, each with an agent process of its own. One agent floods; the other "
        "sends an update every millisecond, with the time of its writing, which a client on the socket compares with "
        "its own clock. Meanwhile `GET /v1/health` is asked again and again.",
        rows,
        notes,
    )
