"""How far a fleet is: bars on a terminal, lines where nobody watches, or nothing. All of it on stderr."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Final, Protocol

import msgspec

from dragoman.cli.output import STDERR
from dragoman.cli.text import plain
from dragoman.evaluation.fleet import Outcome, Status, Task

# Of an outcome, where it goes into a file: some errors are long. The file of outcomes has all of it.
MOST_SAID: Final = 500
# Of what runs now, beside the bar.
MOST_RUNNING: Final = 40
# Of an agent's name, where it is a command line; the table has all of it.
MOST_CALLED: Final = 24

_LOOKS: Final[dict[Status, str]] = {"ok": "green", "wrong": "yellow", "error": "red"}


class Shown(Protocol):
    def start(self, total: int, left: int, out: Path) -> None: ...
    def begun(self, task: Task, agent: str) -> None: ...
    def ended(self, outcome: Outcome) -> None: ...
    def stop(self) -> None: ...


def progress(*, quiet: bool, agents: int) -> Shown:
    """`agents` is how many there are: one need not be named in each line."""
    if quiet:
        return _Quiet()
    return _Bars(agents) if os.isatty(STDERR) else _Lines(agents)


class _Quiet:
    def start(self, total: int, left: int, out: Path) -> None:
        pass

    def begun(self, task: Task, agent: str) -> None:
        pass

    def ended(self, outcome: Outcome) -> None:
        pass

    def stop(self) -> None:
        pass


class _Lines(_Quiet):
    """A line for each that is done."""

    def __init__(self, agents: int) -> None:
        self._named = agents > 1
        self._done = self._total = 0

    def start(self, total: int, left: int, out: Path) -> None:
        self._done, self._total = total - left, total
        sys.stderr.write(f"dragoman: {plain(_beginning(total, left, out))}\n")

    def ended(self, outcome: Outcome) -> None:
        self._done += 1
        line = f"[{self._done}/{self._total}] {said(outcome, named=self._named)}"
        sys.stderr.write(f"{_cut(line, MOST_SAID)}\n")


class _Bars(_Quiet):
    """How far it is, what runs now, and a line for what did not end well."""

    def __init__(self, agents: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._named = agents > 1
        self._console = Console(stderr=True)
        self._bar = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counted]}"),
            TextColumn("{task.fields[running]}", style="dim"),
            console=self._console,
        )
        self._running: dict[tuple[str, str], None] = {}
        self._count: Counter[Status] = Counter()

    def start(self, total: int, left: int, out: Path) -> None:
        self._console.print(plain(_beginning(total, left, out)), style="dim", markup=False, highlight=False)
        if left:
            self._id = self._bar.add_task("", total=total, completed=total - left, counted="", running="")
            self._bar.start()

    def begun(self, task: Task, agent: str) -> None:
        self._running[task.id, agent] = None
        self._tell()

    def ended(self, outcome: Outcome) -> None:
        self._running.pop((outcome.task, outcome.agent), None)
        self._count[outcome.status] += 1
        self._bar.advance(self._id)
        if outcome.status != "ok" or outcome.tool_errors:
            line = _cut(said(outcome, named=self._named), 2 * self._console.width)
            self._console.print(line, style=_LOOKS[outcome.status], markup=False, highlight=False)
        self._tell()

    def _tell(self) -> None:
        from rich.markup import escape

        counts = ((status, self._count[status]) for status in _LOOKS)
        counted = " ".join(f"[{_LOOKS[status]}]{count} {status}[/]" for status, count in counts if count)
        running = ", ".join(f"{_called(agent)}: {task}" if self._named else task for task, agent in self._running)
        self._bar.update(self._id, counted=counted, running=escape(_cut(plain(running), MOST_RUNNING)))

    def stop(self) -> None:
        self._bar.stop()


def _beginning(total: int, left: int, out: Path) -> str:
    if not left:
        return f"nothing to do: all {total} are done already, and stand in {out}"
    known = f", {total - left} are done already" if left < total else ""
    return f"{left} to do{known}; outcomes go to {out}"


def said(outcome: Outcome, *, named: bool = True) -> str:
    """An outcome in a line: `wrong t2 (0.3 s): {"n":2}, expected {"n":3}`."""
    why = ""
    if outcome.status == "wrong":
        got = outcome.text.strip() if outcome.output is None else outcome.output
        why = f": {_json(got)}, expected {_json(outcome.expected)}"
    elif outcome.status == "error":
        why = f": {outcome.kind}: {outcome.error}"
    if outcome.tool_errors:
        why += f"; a tool failed: {'; '.join(outcome.tool_errors)}"
    who = f"{_called(outcome.agent)} {outcome.task}" if named else outcome.task
    return plain(f"{outcome.status} {who} ({outcome.seconds:.1f} s){why}".replace("\n", " "))


def _called(agent: str) -> str:
    program, space, rest = agent.partition(" ")
    return _cut(f"{os.path.basename(program)}{space}{rest}", MOST_CALLED)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 1]}…"
