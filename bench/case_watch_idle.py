"""`watch-idle`: the cost of watching transcripts to which no program writes."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.measure import Contender, Sample, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row, Unit

FEW = 1

# Long enough for several looks through polled folders. With notifications there is one look a minute, and it costs as
# much as a start.
SECONDS = 20.0


def run(settings: Settings, peers: Peers) -> Case:
    many = settings.watched
    folders = {count: settings.workspace / f"watched-{count}" for count in (FEW, many)}
    filled: dict[int, float] = {}
    for count, folder in folders.items():
        folder.mkdir()
        settings.say(f"watch-idle: writing and importing {count:,} files")
        filled[count] = python_client(sys.executable, "watch_idle", "prepare", str(folder), str(count)).number("start")

    def contender(how: str, count: int) -> Contender:
        return Contender(_name(how, count), lambda: _measure(how, folders[count], count))

    contenders = [contender(how, count) for how in ("native", "polling") for count in (many, FEW)]
    contenders.append(contender("look", many))
    outcomes = interleaved("watch-idle", contenders, settings.repetitions, settings.say)

    def figure(how: str, count: int, value: str, unit: Unit = "s") -> Figure:
        outcome = outcomes[_name(how, count)]
        return Figure(_name(how, count), outcome.each(value), unit, outcome.reason)

    def against_few(what: str, how: str, value: str, unit: Unit = "s") -> Row:
        return Row(what, "cost", figure(how, many, value, unit), figure(how, FEW, value, unit))

    return Case(
        "watch-idle",
        "Watching idle transcripts",
        f"{many:,} small transcripts in folders of 20, all of them in the journal already, are watched for "
        f"{SECONDS:g} s by a process that does nothing else, compared with a single transcript. The time to start "
        "ends when every file was compared with its position in the journal; it is compared with a `stat` of every "
        "file.",
        [
            against_few("processor time in an idle minute", "native", "idle"),
            against_few("the same without notifications", "polling", "idle"),
            against_few("memory of the process", "native", "memory", "B"),
            Row("time to start", "cost", figure("native", many, "start"), figure("look", many, "seconds")),
        ],
        [
            "With notifications, all files are also looked at once a minute. This is not in the first row, and costs "
            "as much as a `stat` of every file.",
            f"The first import of all {many:,} files took {filled[many]:.1f} s.",
        ],
    )


def _name(how: str, count: int) -> str:
    files = f"{count:,} file{'s' * (count != 1)}"
    return f"looking at {files}" if how == "look" else f"{files}, {how}"


def _measure(how: str, folder: Path, count: int) -> Sample:
    return python_client(sys.executable, "watch_idle", how, str(folder), str(count), str(SECONDS))
