"""`dragoman eval`: runs the same tasks on several agents and compares the outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.command import print_error
from dragoman.cli.options import FILE
from dragoman.cli.progress import is_drawable, stderr_console
from dragoman.cli.signals import Interrupts
from dragoman.cli.text import plain
from dragoman.config import load
from dragoman.errors import DragomanError, InputError
from dragoman.evaluation.budget import Budget
from dragoman.evaluation.evaluate import evaluate
from dragoman.evaluation.fleet import Fleet, Outcome, Results, Status, Summary, Task, compared, read_tasks
from dragoman.evaluation.response import PromptResponse, Retry
from dragoman.evaluation.tool import load_tools, tools_of
from dragoman.evaluation.types import shape_of
from dragoman.host.policy.access import parse_access
from dragoman.session.client import Agent, LocalClient
from dragoman.workspace import Workspace

EPILOG = """\b
Examples:
  dragoman eval -a claude -a codex tasks.jsonl
  dragoman eval -a claude -a gemini tasks.jsonl --schema answer.json -j 4
  dragoman eval -a opencode tasks.jsonl --tools catalogue:lookup --deadline 2m
  dragoman eval -a claude tasks.jsonl --budget cost_usd=0.5 --budget tool_calls=30
  dragoman eval -a demo tasks.jsonl --json | jq -r 'select(.status != "ok") | .task'

\b
A task is a line of JSON: {"prompt": "…"}, and, as you like, "id", "expected"
(what the output must be; without --schema the text) and "schema" (its own).

\b
Exit codes:
  0    all tasks ended well, as expected where something was
  1    some did not
  2    bad input: an option, a file or a setting
  130  interrupted by Ctrl-C; what was done is kept

Each outcome is a line in the file of --out the moment it is known. Start the
same command again after a kill: what has a line there is not done again."""


@click.command("eval", epilog=EPILOG)
@click.argument("tasks", type=FILE)
@click.option("-a", "--agent", "agents", metavar="AGENT", multiple=True, help="An agent; give it several times.")
@click.option("--agent-command", "commands", metavar="COMMAND", multiple=True, help="Any command line that speaks ACP.")
@click.option("--tools", metavar="MODULE:NAME", multiple=True, help="Python functions that the agents may call.")
@click.option("--schema", metavar="FILE", type=FILE, help="The JSON Schema of the output.")
@click.option(
    "-j", "--jobs", metavar="N", type=click.IntRange(1, 256), default=1, help="How many at a time. [default: 1]"
)
@click.option("-o", "--out", metavar="FILE", help="Where the outcomes go. [default: TASKS.results.jsonl]")
@click.option("--redo-errors", is_flag=True, help="Do again what ended with an error.")
@click.option("--cwd", metavar="DIR", help="The workspace. [default: the current folder]")
@click.option("--access", metavar="LEVEL", default="read-only", help="What they may do. [default: read-only]")
@click.option("--model", metavar="MODEL", help="The agents' model.")
@click.option("--max-rounds", metavar="N", type=click.IntRange(1), default=3, help="Prompts for one task. [default: 3]")
@click.option("--attempts", metavar="N", type=click.IntRange(1), default=3, help="On transient errors. [default: 3]")
@click.option("--deadline", metavar="TIME", help='For each task: "90s", "5m", "1h30m".')
@click.option("--idle-limit", metavar="TIME", help="End a task after so long without a sign of life.")
@click.option("--budget", metavar="NAME=N", multiple=True, help="For each task: tokens, cost_usd, tool_calls, seconds.")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the agents' environment.")
@click.option("--json", "as_json", is_flag=True, help="Each outcome on stdout too, one JSON object a line.")
@click.option("-q", "--quiet", is_flag=True, help="No progress: nothing but the table, and errors.")
def eval_(**given: Any) -> int:
    """Give the same tasks to several agents and compare them.

    TASKS is a file with one task a line. Nobody is asked: what --access does not allow is refused.
    """
    return run_tasks(EvalOptions(**given))


class EvalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options, as they were typed."""

    tasks: str
    agents: tuple[str, ...]
    commands: tuple[str, ...]
    tools: tuple[str, ...]
    schema: str | None
    jobs: int
    out: str | None
    redo_errors: bool
    cwd: str | None
    access: str
    model: str | None
    max_rounds: int
    attempts: int
    deadline: str | None
    idle_limit: str | None
    budget: tuple[str, ...]
    env: tuple[str, ...]
    as_json: bool
    quiet: bool


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, checked: everything that can be found wrong before an agent is started has been."""

    tasks: Sequence[Task]
    agents: dict[str, Agent]  # by the name that stands in the outcomes
    schema: dict[str, Any] | None
    out: Path
    options: dict[str, Any]

    async def evaluated(self, task: Task, agent: str) -> PromptResponse[Any]:
        wanted = task.output_schema(self.schema)
        return await evaluate(self.agents[agent], task.prompt, output_type=wanted, **self.options)


def run_tasks(given: EvalOptions) -> int:
    """Does it, and returns the exit code. Raises nothing that the user could have caused."""
    told = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the user's functions print is no outcome
            work = prepare(given)
            with Results(work.out) as results:
                return asyncio.run(_run(given, work, results, told))
    except DragomanError as error:
        return print_error(error, opened=False)


def prepare(given: EvalOptions) -> Work:
    settings = load(flags={"deadline": given.deadline, "idle_limit": given.idle_limit})
    cwd = Path(given.cwd or os.getcwd())
    tasks = Path(given.tasks)
    env = dict(_pair(text, "--env", "NAME=VALUE") for text in given.env)
    agents: dict[str, Agent] = {name: name for name in given.agents}
    for line in given.commands:
        try:
            agents[line] = tuple(shlex.split(line))
        except ValueError as problem:
            raise InputError(f"--agent-command: {problem} in {line!r}") from None
    agents = agents or {settings.agent: settings.agent}
    client = LocalClient(config=settings, env=env)
    for agent in agents.values():
        client.spec_of(agent)  # a name that nobody knows is found now
    schema = _schema(Path(given.schema)) if given.schema is not None else None
    # Else each task would fail with it, and be taken as done.
    Workspace(cwd)
    parse_access(given.access)
    tools = tools_of(tool for where in given.tools for tool in load_tools(where, folder=Path.cwd()))
    return Work(
        tasks=read_tasks(tasks),
        agents=agents,
        schema=schema,
        out=Path(given.out) if given.out is not None else tasks.with_suffix(".results.jsonl"),
        options={
            "tools": list(tools.values()),
            "cwd": cwd,
            "access": given.access,
            "model": given.model,
            "max_rounds": given.max_rounds,
            "retry": Retry(attempts=given.attempts),
            "deadline": settings.deadline,
            "idle_limit": settings.idle_limit,
            "budget": _budget(given.budget),
            "env": env,
        },
    )


def _schema(path: Path) -> dict[str, Any]:
    try:
        schema = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        shape_of(schema)
    except (OSError, msgspec.MsgspecError, InputError) as problem:
        raise InputError(f"--schema: {path}: {problem}") from None
    return schema


def _budget(given: Sequence[str]) -> Budget | None:
    if not given:
        return None
    named = dict(_pair(text, "--budget", "NAME=N") for text in given)
    if unknown := [name for name in named if name not in Budget.__struct_fields__]:
        raise InputError(
            f"--budget: there is no {unknown[0]!r}; expected one of: {', '.join(Budget.__struct_fields__)}"
        )
    try:
        return msgspec.convert(named, Budget, strict=False)
    except msgspec.ValidationError as problem:
        raise InputError(f"--budget: {problem}") from None


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{option} wants {form}; there is no name, or no equals sign, in what was given")
    return name.strip(), value


async def _run(given: EvalOptions, work: Work, results: Results, told: TextIO) -> int:
    agents = list(work.agents)
    shown = progress(quiet=given.quiet, agents=len(agents))

    def ended(outcome: Outcome) -> None:
        results.add(outcome)
        shown.ended(outcome)
        if given.as_json:
            told.write(msgspec.json.encode(outcome).decode() + "\n")
            told.flush()

    fleet = Fleet(
        work.tasks,
        agents,
        work.evaluated,
        schema=work.schema,
        model=given.model,
        jobs=given.jobs,
        begun=shown.begun,
        ended=ended,
    )
    left = fleet.left(results.known, redo_errors=given.redo_errors)
    shown.start(len(work.tasks) * len(agents), len(left), results.path)
    try:
        code = await _until_stopped(lambda: fleet.run(left))
    finally:
        shown.stop()
    outcomes = fleet.wanted(results.known)
    print_table(compared(outcomes, agents), sys.stderr if given.as_json else told)
    if code is not None:
        undone = len(fleet.left(results.known, redo_errors=given.redo_errors))
        sys.stderr.write(f"dragoman: {undone} left to do; the same command goes on with them\n")
        return code
    failed = sum(outcome.status == "error" for outcome in outcomes)
    if failed and not given.quiet:
        sys.stderr.write(f"dragoman: {failed} ended with an error; --redo-errors does them again\n")
    return exits.DONE if all(outcome.status == "ok" for outcome in outcomes) else exits.AGENT_FAILED


async def _until_stopped(work: Callable[[], Awaitable[None]]) -> int | None:
    """The exit code of what stopped it, or None. Agents are told to stop, and ended, before this returns."""
    task = asyncio.ensure_future(work())

    def stop() -> None:
        if not task.cancelling():
            task.cancel()

    with Interrupts(stop, stop) as interrupts:
        try:
            await task
        except asyncio.CancelledError:
            if interrupts.code is None:
                raise
        return interrupts.code


# -- what came of it
def print_table(lines: Sequence[Summary], stream: TextIO) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("agent", overflow="fold")  # it may be a command line, and no figure shall be cut for it
    for name in ("ok", "wrong", "errors", "rounds", "calls", "tokens", "cost", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            escape(plain(line.agent)),
            f"{line.ok}/{line.tasks}",
            str(line.wrong),
            str(line.errors),
            _or_dash(line.rounds, "{:.1f}"),
            str(line.tool_calls),
            _or_dash(line.tokens, "{:,}"),
            _or_dash(line.cost, "{:.4f} " + (line.currency or "")),
            _or_dash(line.seconds, "{:.1f} s"),
        )
    # Into a file the table is as wide as it is: nothing in it may be cut.
    width = None if stream.isatty() else 200
    Console(file=stream, width=width, highlight=False).print(table)


def _or_dash(value: float | None, form: str) -> str:
    """A figure that was not reported is no zero."""
    return "-" if value is None else form.format(value)


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
    return _Bars(agents) if is_drawable() else _Lines(agents)


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
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._named = agents > 1
        self._console = stderr_console()
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
