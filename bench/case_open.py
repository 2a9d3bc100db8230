"""`open`: how much longer a session takes to open than the same handshake by hand."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from statistics import median

from bench.measure import Contender, Outcome, Sample, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row

BAR = 1.2


def run(settings: Settings, peers: Peers) -> Case:
    arguments = ["--agent", shlex.join(settings.agent()), "--cwd", str(settings.workspace)]
    arguments += ["--count", str(settings.opens)]
    contenders = [
        Contender("by hand", lambda: python_client(sys.executable, "open_raw", *arguments)),
        Contender("dragoman", lambda: python_client(sys.executable, "open_ours", *arguments)),
    ]
    # More repetitions: only one open of each process is its first, and its time swings by half.
    outcomes = interleaved("open", contenders, settings.repetitions * 5, settings.say, warm_up=True)
    hand, ours = outcomes["by hand"], outcomes["dragoman"]

    def row(what: str, of: Callable[[Sample], float], bar: float | None) -> Row:
        return Row(what, "cost", _figure(ours, of), _figure(hand, of), bar=bar)

    return Case(
        "open",
        "Opening a session",
        "Start the raw agent, `initialize`, `session/new`; by hand that is asyncio's subprocess and streams with "
        "hand-written JSON. The agent only answers, so that our own cost is as visible as possible: "
        "real agents take far longer to start. Closing is not timed.",
        [
            row("the first in a process", lambda sample: sample.numbers("opens")[0], BAR),
            row(f"later ones (the median of {settings.opens - 1})", lambda sample: median(_later(sample)), BAR),
            row("the first, with the imports", lambda sample: sample.number("load") + sample.numbers("opens")[0], None),
        ],
    )


def _figure(outcome: Outcome, of: Callable[[Sample], float]) -> Figure:
    return Figure(outcome.name, [of(sample) for sample in outcome.samples], reason=outcome.reason)


def _later(sample: Sample) -> list[float]:
    return list(sample.numbers("opens")[1:])
