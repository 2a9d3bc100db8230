"""`version`: the cost of a command line before it does anything."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import ROOT, Contender, Sample, Settings, Unavailable, interleaved, last_line
from bench.peers import Peers
from bench.table import Case, Figure, Row

BAR = 5


def run(settings: Settings, peers: Peers) -> Case:
    # The command as it was installed beside this interpreter, so that both start the same Python.
    command = Path(sys.executable).parent / "dragoman"
    contenders = [
        Contender("python -c pass", lambda: _time([sys.executable, "-c", "pass"])),
        Contender("dragoman --version", lambda: _time([str(command), "--version"])),
    ]
    outcomes = interleaved("version", contenders, settings.short_repetitions, settings.say, warm_up=True)
    bare, ours = (Figure(name, outcome.each("seconds"), reason=outcome.reason) for name, outcome in outcomes.items())
    return Case(
        "version",
        "Starting the command line",
        "`dragoman --version` and an interpreter that does nothing, each from the start to the end of its process.",
        [Row("against a bare interpreter", "cost", ours, bare, bar=BAR)],
    )


def _time(command: Sequence[str]) -> Sample:
    started = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Unavailable(
            "there is no `dragoman` command beside this interpreter; install the project first"
        ) from error
    seconds = time.perf_counter() - started
    if done.returncode:
        raise Unavailable(last_line(done.stderr) or f"it ended with exit code {done.returncode}")
    return Sample({"seconds": seconds})
