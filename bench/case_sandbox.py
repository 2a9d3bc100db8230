"""`sandbox`: how much longer a session takes to open, and a command to run, in a sandbox."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from statistics import median

from bench.measure import Contender, Outcome, Sample, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row

MECHANISMS = {
    "bubblewrap": ["--sandbox", "bubblewrap"],
    "bubblewrap, network off": ["--sandbox", "bubblewrap", "--network", "off"],
    "Landlock": ["--sandbox", "landlock"],
    "Landlock, network off": ["--sandbox", "landlock", "--network", "off"],
}
BARE = "without a sandbox"


def run(settings: Settings, peers: Peers) -> Case:
    arguments = ["--agent", shlex.join(settings.agent()), "--cwd", str(settings.workspace)]
    arguments += ["--count", str(settings.opens)]

    def contender(name: str, options: list[str]) -> Contender:
        return Contender(name, lambda: python_client(sys.executable, "open_sandboxed", *arguments, *options))

    contenders = [contender(BARE, ["--sandbox", "off"])]
    contenders += [contender(name, options) for name, options in MECHANISMS.items()]
    outcomes = interleaved("sandbox", contenders, settings.repetitions, settings.say, warm_up=True)
    bare = outcomes[BARE]

    def row(what: str, ours: Outcome, of: Callable[[Sample], float]) -> Row:
        return Row(what, "cost", _figure(ours, of), _figure(bare, of))

    rows = [row(f"an agent, {name}", outcomes[name], lambda sample: median(_later(sample))) for name in MECHANISMS]
    rows += [
        row(f"a command, {name}", outcomes[name], lambda sample: median(sample.numbers("commands")))
        for name in MECHANISMS
    ]
    return Case(
        "sandbox",
        "Starting in a sandbox",
        "Start the raw agent in a sandbox, `initialize`, `session/new`; then run `true` there, as a terminal on pipes. "
        "The difference is one start of Python for the launcher, bubblewrap's mounts or Landlock's rules, and with the "
        "network off a proxy and its forwarder. The trial of the mechanisms, once in a process, is not included. "
        "bubblewrap is missing where it is not installed.",
        rows,
    )


def _figure(outcome: Outcome, of: Callable[[Sample], float]) -> Figure:
    return Figure(outcome.name, [of(sample) for sample in outcome.samples], reason=outcome.reason)


def _later(sample: Sample) -> list[float]:
    return list(sample.numbers("opens")[1:])
