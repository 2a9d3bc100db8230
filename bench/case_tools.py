"""`tools`: the cost of a tool's round trip, beside a bare server of the `mcp` package."""

from __future__ import annotations

import sys

from bench.measure import Contender, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row

BARE = "bare mcp server"

# Ours, by what is called: a coroutine, a plain function (in a thread), one with a state that can be put back.
OURS = {"async": "async function", "plain": "plain function", "state": "async function with a state"}


def run(settings: Settings, peers: Peers) -> Case:
    rows = []
    for transport in ("http", "stdio"):
        contenders = [_contender(BARE, transport, "bare")]
        contenders += [_contender(name, transport, what) for what, name in OURS.items()]
        outcomes = interleaved("tools", contenders, settings.repetitions, settings.say)
        figures = {
            name: Figure(f"{name}, {transport}", outcome.each("seconds"), reason=outcome.reason)
            for name, outcome in outcomes.items()
        }
        bare = figures.pop(BARE)
        rows += [Row(figure.name, "cost", figure, bare) for figure in figures.values()]
    return Case(
        "tools",
        "A tool's round trip",
        "Two hundred calls of a tool, one after another, by the client of the official MCP package. Bare: a server of "
        "that package in a process of its own, over its HTTP (with its own web server) or its stdio, that returns a "
        "fixed answer. Ours: through the token, the arguments' types, the transaction and the record; over stdio "
        "through the shim, which is one more process.",
        rows,
    )


def _contender(name: str, transport: str, what: str) -> Contender:
    return Contender(name, lambda: python_client(sys.executable, "tools", transport, what))
