"""`evaluate`: the cost of evaluating a prompt beyond running it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from statistics import median

from bench.measure import Contender, Outcome, Sample, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row

# Without tools it is the same session with a watch over it; with tools it is also a server, opened and closed.
BAR = 1.1
TOOL_BAR = 1.5

HOW = {"run": "run", "evaluate": "evaluated", "tool": "with a tool"}


def run(settings: Settings, peers: Peers) -> Case:
    agent = shlex.join(settings.agent())

    def contender(how: str) -> Contender:
        arguments = (how, agent, str(settings.workspace), str(settings.opens))
        return Contender(HOW[how], lambda: python_client(sys.executable, "evaluate", *arguments))

    outcomes = interleaved("evaluate", [contender(how) for how in HOW], settings.repetitions, settings.say)
    plain = outcomes[HOW["run"]]

    def row(what: str, how: str, of: Callable[[Sample], float], bar: float | None) -> Row:
        return Row(what, "cost", _figure(outcomes[HOW[how]], of), _figure(plain, of), bar=bar)

    return Case(
        "evaluate",
        "Evaluating a prompt",
        "A prompt that is answered with ten chunks, each time to a new process of the raw agent, from its start to its "
        "end: by `run`, by `evaluate`, and by `evaluate` with a function as a tool, for which a server on loopback is "
        "opened and closed. The agent answers at once and calls nothing, so that our own cost is as visible as "
        "possible.",
        [
            row("without tools", "evaluate", _later, BAR),
            row("with a tool", "tool", _later, TOOL_BAR),
            row("the first in a process, with a tool", "tool", _first, None),
        ],
    )


def _figure(outcome: Outcome, of: Callable[[Sample], float]) -> Figure:
    return Figure(outcome.name, [of(sample) for sample in outcome.samples], reason=outcome.reason)


def _first(sample: Sample) -> float:
    return sample.number("first")


def _later(sample: Sample) -> float:
    return median(sample.numbers("each"))
