"""`chunks`: message chunks from a pipe to a program, in order, ours beside both official SDKs."""

from __future__ import annotations

import shlex
import sys

from bench.measure import Contender, Outcome, Sample, Settings, client, interleaved, python_client
from bench.peers import PYTHON_SDK, TS_SDK, Peers
from bench.table import Case, Figure, Row

BAR, AIM = 6, 10
FLOOR = "lines only"


def run(settings: Settings, peers: Peers) -> Case:
    count = settings.chunks
    agent = settings.agent(prepare=count)
    arguments = ["--agent", shlex.join(agent), "--cwd", str(settings.workspace), "--count", str(count)]

    def typescript(way: str) -> Sample:
        program = "bench/clients/chunks_ts_sdk.mjs"
        return client(["node", program, way, str(peers.node), str(count), str(settings.workspace), *agent])

    contenders = [
        Contender("Python SDK", lambda: python_client(peers.python, "chunks_python_sdk", *arguments)),
        Contender("TypeScript SDK (session)", lambda: typescript("session")),
        Contender("TypeScript SDK (handler)", lambda: typescript("handler")),
        Contender(FLOOR, lambda: python_client(sys.executable, "chunks_floor", *arguments)),
        Contender("dragoman", lambda: python_client(sys.executable, "chunks_ours", *arguments)),
    ]
    outcomes = interleaved("chunks", contenders, settings.repetitions, settings.say)
    figures = {name: Figure(name, outcome.each("seconds"), reason=outcome.reason) for name, outcome in outcomes.items()}

    def row(what: str, name: str) -> Row:
        ours, other = figures["dragoman"], figures[name]
        return Row(what, "cost", ours, other) if name == FLOOR else Row(what, "speed", ours, other, bar=BAR, aim=AIM)

    return Case(
        "chunks",
        f"{count:,} message chunks, from a pipe to typed events in order",
        "One raw agent program writes the chunks as fast as the pipe accepts them; each client handles every chunk and "
        "stores its text. Timed inside the client, on its session's second prompt, from sending `session/prompt` until "
        "the last chunk is handled and the response has arrived. "
        f"The Python SDK is `{PYTHON_SDK[0]}` {PYTHON_SDK[1]}, the TypeScript SDK `{TS_SDK[0]}` {TS_SDK[1]} "
        "in both ways that it offers: a session whose updates are pulled, and a notification handler. "
        "The floor only splits the bytes into lines.",
        [
            row("against the Python SDK", "Python SDK"),
            row("against the TypeScript SDK, pulling from a session", "TypeScript SDK (session)"),
            row("against the TypeScript SDK, with a handler", "TypeScript SDK (handler)"),
            row("above the floor: the pipe, split into lines", FLOOR),
        ],
        [_rates(figures, count), _order(outcomes)],
    )


def _rates(figures: dict[str, Figure], count: int) -> str:
    rates = [f"{figure.name} {count / figure.median:,.0f}" for figure in figures.values() if figure.median]
    return f"Updates a second: {', '.join(rates)}."


def _order(outcomes: dict[str, Outcome]) -> str:
    clients = [outcome for name, outcome in outcomes.items() if outcome.samples and name != FLOOR]
    late = [f"{outcome.name} {max(outcome.each('late')):.0f}" for outcome in clients]
    return f"Every client saw every chunk once. Chunks seen after a later one, at worst: {', '.join(late)}."
