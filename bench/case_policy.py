"""`policy`: the cost of deciding on a permission request."""

from __future__ import annotations

import sys

from bench.measure import Contender, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row

# Rules of one user: more than people write by hand.
RULES = 200

YARDSTICK = "decoding the request"
REQUEST_KINDS = ("read", "edit", "command")


def run(settings: Settings, peers: Peers) -> Case:
    contenders = [Contender(YARDSTICK, lambda: python_client(sys.executable, "policy", "decode", "0"))]
    for what in REQUEST_KINDS:
        for count in (0, RULES):
            contenders.append(_contender(what, count))
    outcomes = interleaved("policy", contenders, settings.repetitions, settings.say)
    figures = {name: Figure(name, outcome.each("seconds"), reason=outcome.reason) for name, outcome in outcomes.items()}
    decoding = figures.pop(YARDSTICK)
    return Case(
        "policy",
        "A policy decision",
        "A thousand decisions on a request of an agent, with the access `edit-inside` alone and with 200 rules of the "
        "user, against decoding the JSON of such a request as often with the standard library. For a read and an edit "
        "the path is resolved; a command is parsed by two shell grammars, and each part of it is decided.",
        [Row(name, "cost", figure, decoding) for name, figure in figures.items()],
    )


def _contender(what: str, count: int) -> Contender:
    name = f"{what}, {count} rules"
    return Contender(name, lambda: python_client(sys.executable, "policy", what, str(count)))
