"""`import`: the time that `import dragoman` adds to the start of a program."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.measure import Contender, Sample, Settings, client, interleaved
from bench.peers import Peers
from bench.table import Case, Figure, Row

BAR = 0.2

# The statement is timed in a fresh interpreter; what follows it makes sure that the thing itself was imported.
PROGRAM = """
import time
started = time.perf_counter()
{statement}
seconds = time.perf_counter() - started
{check}
print('{{"seconds": %r}}' % seconds)
"""


def run(settings: Settings, peers: Peers) -> Case:
    ours, used, theirs = "import dragoman", "import dragoman; dragoman.open_session", "import acp"
    check = "dragoman.AgentRuntime, dragoman.open_session"
    contenders = [
        Contender(theirs, lambda: _time_import(peers.python, theirs, "acp.spawn_agent_process")),
        Contender(ours, lambda: _time_import(sys.executable, ours, check)),
        Contender(used, lambda: _time_import(sys.executable, used, check)),
    ]
    outcomes = interleaved("import", contenders, settings.short_repetitions, settings.say, warm_up=True)
    figures = {name: Figure(name, outcome.each("seconds"), reason=outcome.reason) for name, outcome in outcomes.items()}
    return Case(
        "import",
        "The import",
        "The statement alone, timed in a fresh interpreter. `import dragoman` loads its parts when they are first "
        "used, so the second row uses one: the whole cost for a program that opens a session.",
        [
            Row("against the Python SDK", "cost", figures[ours], figures[theirs], bar=BAR),
            Row("with all that opening a session loads", "cost", figures[used], figures[theirs]),
        ],
    )


def _time_import(python: Path | str, statement: str, check: str) -> Sample:
    return client([str(python), "-c", PROGRAM.format(statement=statement, check=check)])
