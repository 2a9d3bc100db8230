"""`terminal`: the delay that a flooding terminal of one session puts on the updates of another."""

from __future__ import annotations

import shlex
import sys
from statistics import median

from bench.measure import ROOT, Contender, Outcome, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row

# As often as a model sends text, and far enough apart that each update is read alone.
PACE_MILLISECONDS = 2

REST, BUSY, FLOOD, PIPES = "resting", "a busy core", "flood", "flood on pipes"

# The command of the other session. The second takes a core and prints nothing: its delay comes from the machine.
RUN = {REST: "", BUSY: "run yes >/dev/null", FLOOD: "run yes", PIPES: "run-on-pipes yes"}


def run(settings: Settings, peers: Peers) -> Case:
    agent = [sys.executable, str(ROOT / "bench" / "ticking_agent.py")]
    arguments = ["--agent", shlex.join(agent), "--cwd", str(settings.workspace)]
    arguments += ["--count", str(settings.ticks), "--pace", str(PACE_MILLISECONDS)]

    def contender(name: str, command: str) -> Contender:
        return Contender(name, lambda: python_client(sys.executable, "delay_ours", *arguments, "--run", command))

    contenders = [contender(name, command) for name, command in RUN.items()]
    outcomes = interleaved("terminal", contenders, settings.repetitions, settings.say)
    return Case(
        "terminal",
        "A flooding terminal beside another session",
        f"Two sessions in one process, each with an agent of its own. One agent sends {settings.ticks:,} updates, one "
        f"every {PACE_MILLISECONDS} ms, each with the time when it was written; the delay ends when `async for` "
        "returns it. The other agent runs a command meanwhile: none; `yes >/dev/null`, which takes a core and prints "
        "nothing; or `yes`, which prints as fast as it is read, on a terminal and on pipes.",
        [
            _row("median delay, beside a flood on a terminal", "p50", outcomes[FLOOD], outcomes[REST]),
            _row("the 99th of 100, beside a flood on a terminal", "p99", outcomes[FLOOD], outcomes[REST]),
            _row("the same, against one busy core", "p99", outcomes[FLOOD], outcomes[BUSY]),
            _row("median delay, beside a flood on pipes", "p50", outcomes[PIPES], outcomes[REST]),
            _row("the 99th of 100, beside a flood on pipes", "p99", outcomes[PIPES], outcomes[REST]),
            _row("the same, against one busy core", "p99", outcomes[PIPES], outcomes[BUSY]),
        ],
        [_worst(outcomes)],
    )


def _row(what: str, value: str, ours: Outcome, other: Outcome) -> Row:
    return Row(
        what,
        "cost",
        Figure(ours.name, ours.each(value), reason=ours.reason),
        Figure(other.name, other.each(value), reason=other.reason),
    )


def _worst(outcomes: dict[str, Outcome]) -> str:
    seen = {name: median(outcome.each("worst")) for name, outcome in outcomes.items() if outcome.samples}
    return f"The longest delay of all: {', '.join(f'{name} {worst * 1000:.1f} ms' for name, worst in seen.items())}."
