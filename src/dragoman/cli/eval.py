"""`dragoman eval`: runs the same tasks on several agents and compares the outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TextIO

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.command import NOT_REPORTED, note, print_error
from dragoman.cli.exits import Interrupts
from dragoman.cli.options import FILE, Number, parse_pair, sandbox_options, split_command
from dragoman.cli.progress import is_drawable, stderr_console
from dragoman.cli.sandbox import sandbox_lines
from dragoman.cli.text import columns, money, one_line, plain, truncate
from dragoman.config import Config, load
from dragoman.errors import DragomanError, InputError
from dragoman.evaluation.budget import Budget
from dragoman.evaluation.evaluate import evaluate
from dragoman.evaluation.fleet import Fleet, Outcome, Results, Status, Summary, Task, compare, read_tasks
from dragoman.evaluation.response import PromptResponse, RetryPolicy
from dragoman.evaluation.tool import load_tools, tools_of
from dragoman.evaluation.types import shape_of
from dragoman.host.policy.access import parse_access
from dragoman.protocol.models import SandboxReport
from dragoman.session.client import Agent, LocalClient, sandbox_choice
from dragoman.workspace import Workspace
from dragoman.workspace.sandbox_policy import choose_mechanism, report_of

EPILOG = """\b
Examples:
  dragoman eval -a claude -a codex tasks.jsonl
  dragoman eval -a claude -a gemini tasks.jsonl --schema answer.json -j 4
  dragoman eval -a opencode tasks.jsonl --tools catalogue:lookup --deadline 2m
  dragoman eval -a claude tasks.jsonl --budget cost_usd=0.5 --budget tool_calls=30
  dragoman eval -a claude tasks.jsonl --access full --sandbox --network off
  dragoman eval -a demo tasks.jsonl --json | jq -r 'select(.status != "ok") | .task'

\b
A task is a line of JSON: {"prompt": "…"}, and optionally "id", "expected"
(the right output; without --schema, the right text) and "schema".

\b
Exit codes:
  0    all tasks succeeded, with the expected output
  1    some did not
  2    bad input: an option, a file or a setting
  130  interrupted by Ctrl-C; finished tasks are kept

Each outcome is appended to the --out file when its task ends. After an
interruption, run the same command again: finished tasks are skipped."""


@click.command("eval", epilog=EPILOG)
@click.argument("tasks", type=FILE)
@click.option("-a", "--agent", "agents", metavar="AGENT", multiple=True, help="An agent; may be repeated.")
@click.option(
    "--agent-command",
    "commands",
    metavar="COMMAND",
    multiple=True,
    help="Any command line that speaks ACP; may be repeated.",
)
@click.option(
    "--tools", metavar="MODULE:NAME", multiple=True, help="Python functions that the agents may call; may be repeated."
)
@click.option("--schema", metavar="FILE", type=FILE, help="The JSON Schema of the output.")
@click.option(
    "-j", "--jobs", metavar="N", type=Number(1, 256), default=1, help="Number of parallel tasks. [default: 1]"
)
@click.option("-o", "--out", metavar="FILE", help="File for the outcomes. [default: TASKS.results.jsonl]")
@click.option("--redo-errors", is_flag=True, help="Run tasks that ended with an error again.")
@click.option("--cwd", metavar="DIR", help="The workspace. [default: the current folder]")
@click.option("--access", metavar="LEVEL", default="read-only", help="What the agents may do. [default: read-only]")
@sandbox_options
@click.option("--model", metavar="MODEL", help="The agents' model.")
@click.option("--max-rounds", metavar="N", type=Number(1), default=3, help="Maximum prompts per task. [default: 3]")
@click.option("--attempts", metavar="N", type=Number(1), default=3, help="Attempts on transient errors. [default: 3]")
@click.option("--deadline", metavar="TIME", help='Time limit per task: "90s", "5m", "1h30m".')
@click.option("--idle-limit", metavar="TIME", help="End a task after this time without activity.")
@click.option(
    "--budget",
    metavar="NAME=N",
    multiple=True,
    help="Limit per task on tokens, cost_usd, tool_calls or seconds; may be repeated.",
)
@click.option(
    "--env", metavar="NAME=VALUE", multiple=True, help="Environment variable for the agents; may be repeated."
)
@click.option(
    "--isolated/--not-isolated",
    "isolation",
    default=None,
    help="Give each attempt a HOME, an environment and a copy of the workspace of its own. [default: no]",
)
@click.option("--json", "as_json", is_flag=True, help="Also print each outcome as a line of JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress, only the table and errors.")
def eval_(**options: Any) -> int:
    """Run the same tasks on several agents and compare the outcomes.

    TASKS is a file with one task per line. No questions are asked: what --access does not allow is denied.
    """
    return run_tasks(EvalOptions(**options))


class EvalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options as typed."""

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
    sandbox: bool | None
    network: bool | Literal["hosts"] | None
    model: str | None
    max_rounds: int
    attempts: int
    deadline: str | None
    idle_limit: str | None
    budget: tuple[str, ...]
    env: tuple[str, ...]
    isolation: bool | None
    as_json: bool
    quiet: bool


class EvalPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The evaluation to run, checked as far as possible before an agent starts."""

    sandbox: SandboxReport | None
    tasks: Sequence[Task]
    agents: dict[str, Agent]  # by the name that the outcomes have
    schema: dict[str, Any] | None
    out: Path
    options: dict[str, Any]

    async def evaluate(self, task: Task, agent: str) -> PromptResponse[Any]:
        schema = task.output_schema(self.schema)
        return await evaluate(self.agents[agent], task.prompt, output_type=schema, **self.options)


def run_tasks(options: EvalOptions) -> int:
    """Run the evaluation and return its exit code."""
    stdout = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):  # the user's functions may print
            plan = prepare(options)
            with Results(plan.out) as results:
                return asyncio.run(_run(options, plan, results, stdout))
    except DragomanError as error:
        return print_error(error, opened=False)


def prepare(options: EvalOptions) -> EvalPlan:
    settings = load(flags={"deadline": options.deadline, "idle_limit": options.idle_limit})
    cwd = Path(options.cwd or os.getcwd())
    tasks = Path(options.tasks)
    env = dict(parse_pair(text, "--env", "NAME=VALUE") for text in options.env)
    agents: dict[str, Agent] = {name: name for name in options.agents}
    agents |= {line: split_command(line) for line in options.commands}
    agents = agents or {settings.agent: settings.agent}
    client = LocalClient(config=settings, env=env)
    for agent in agents.values():
        client.spec_of(agent)  # raises for an unknown name
    schema = _schema(Path(options.schema)) if options.schema is not None else None
    Workspace(cwd)  # raises for a missing folder, as `parse_access` does for an unknown level, before a task fails
    parse_access(options.access)
    sandbox = _sandbox(options, settings)
    tools = tools_of(tool for where in options.tools for tool in load_tools(where, folder=Path.cwd()))
    return EvalPlan(
        sandbox=sandbox,
        tasks=read_tasks(tasks),
        agents=agents,
        schema=schema,
        out=Path(options.out) if options.out is not None else tasks.with_suffix(".results.jsonl"),
        options={
            "tools": list(tools.values()),
            "cwd": cwd,
            "access": options.access,
            "sandbox": options.sandbox,
            "network": options.network,
            "model": options.model,
            "max_rounds": options.max_rounds,
            "retry": RetryPolicy(attempts=options.attempts),
            "deadline": settings.deadline,
            "idle_limit": settings.idle_limit,
            "budget": _budget(options.budget),
            "env": env,
            "isolation": options.isolation,
        },
    )


def _sandbox(options: EvalOptions, settings: Config) -> SandboxReport | None:
    """Return what confines the agents; `SandboxUnavailable` where that cannot be had."""
    choice = sandbox_choice(options.sandbox, settings)
    if choice == "off":
        return None
    from dragoman.workspace.sandbox import this_machine

    machine = this_machine()
    network = settings.sandbox_network if options.network is None else options.network
    return report_of(machine, choose_mechanism(choice, machine), network=network is True)


def _schema(path: Path) -> dict[str, Any]:
    try:
        schema = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        shape_of(schema)
    except (OSError, msgspec.MsgspecError, InputError) as error:
        raise InputError(f"--schema: {path}: {error}") from None
    return schema


def _budget(options: Sequence[str]) -> Budget | None:
    if not options:
        return None
    named = dict(parse_pair(text, "--budget", "NAME=N") for text in options)
    if unknown := [name for name in named if name not in Budget.__struct_fields__]:
        raise InputError(
            f"--budget: there is no {unknown[0]!r}; expected one of: {', '.join(Budget.__struct_fields__)}"
        )
    try:
        return msgspec.convert(named, Budget, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"--budget: {error}") from None


async def _run(options: EvalOptions, plan: EvalPlan, results: Results, stdout: TextIO) -> int:
    agents = list(plan.agents)
    if not options.quiet:
        note(*sandbox_lines(plan.sandbox, options.network, None))
    view = progress(quiet=options.quiet, agents=len(agents))

    def ended(outcome: Outcome) -> None:
        results.add(outcome)
        view.ended(outcome)
        if options.as_json:
            stdout.write(msgspec.json.encode(outcome).decode() + "\n")
            stdout.flush()

    fleet = Fleet(
        plan.tasks,
        agents,
        plan.evaluate,
        schema=plan.schema,
        model=options.model,
        jobs=options.jobs,
        on_start=view.begun,
        on_end=ended,
    )
    left = fleet.remaining(results.outcomes, redo_errors=options.redo_errors)
    view.start(len(plan.tasks) * len(agents), len(left), results.path)
    try:
        code = await _until_stopped(lambda: fleet.run(left))
    finally:
        view.stop()
    outcomes = fleet.latest_outcomes(results.outcomes)
    print_table(compare(outcomes, agents), sys.stderr if options.as_json else stdout)
    if code is not None:
        undone = len(fleet.remaining(results.outcomes, redo_errors=options.redo_errors))
        note(f"dragoman: {undone} left to do; run the same command again to continue")
        return code
    failed = sum(outcome.status == "error" for outcome in outcomes)
    if failed and not options.quiet:
        note(f"dragoman: {failed} ended with an error; use --redo-errors to run them again")
    return exits.DONE if all(outcome.status == "ok" for outcome in outcomes) else exits.AGENT_FAILED


async def _until_stopped(plan: Callable[[], Awaitable[None]]) -> int | None:
    """Wait for the plan; return the exit code of the signal that stopped it, or None. All agents have ended by then."""
    task = asyncio.ensure_future(plan())

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


# -- the comparison
FIGURES: Final = ("ok", "wrong", "errors", "rounds", "calls", "tokens", "cost", "time")

# Columns of the table for the agent, which is broken into several lines where it is a longer command line.
MIN_AGENT_COLUMNS: Final = 8

NO_BREAK_SPACE: Final = "\u00a0"


def print_table(summaries: Sequence[Summary], stream: TextIO) -> None:
    """Print a row per agent; where the terminal is too narrow for all figures, a paragraph per agent."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    agent_columns = min(max((len(summary.agent) for summary in summaries), default=0), MIN_AGENT_COLUMNS)
    table = Table(box=None, pad_edge=False)
    table.add_column("agent", overflow="fold", min_width=agent_columns)
    for name in FIGURES:
        table.add_column(name, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(Text(plain(summary.agent)), *_figures(summary))
    # In a file the table is as wide as it needs to be: nothing in it may be truncated.
    console = Console(file=stream, width=None if stream.isatty() else 200, highlight=False)
    rows = [FIGURES, *map(_figures, summaries)]
    figure_columns = sum(2 + max(map(len, column)) for column in zip(*rows, strict=True))
    if agent_columns + figure_columns <= console.width:
        console.print(table)
        return
    for summary in summaries:
        pairs = zip(FIGURES, _figures(summary), strict=True)
        # No line break within a figure.
        figures = ", ".join(f"{name} {figure}".replace(" ", NO_BREAK_SPACE) for name, figure in pairs)
        lines = exits.lay_out([summary.agent, f"  {figures}"], console.width)
        stream.write(lines.replace(NO_BREAK_SPACE, " "))


def _figures(summary: Summary) -> tuple[str, ...]:
    return (
        f"{summary.ok}/{summary.tasks}",
        str(summary.wrong),
        str(summary.errors),
        _or_dash(summary.rounds, "{:.1f}"),
        str(summary.tool_calls),
        _or_dash(summary.tokens, "{:,}"),
        money(summary.cost, summary.currency or "") if summary.cost is not None else NOT_REPORTED,
        _or_dash(summary.seconds, "{:.1f} s"),
    )


def _or_dash(value: float | None, form: str) -> str:
    """Format a figure; one that was not reported is a dash, not a zero."""
    return NOT_REPORTED if value is None else form.format(value)


# Of an outcome in a log: some errors are long. The file of outcomes has all of it.
MAX_OUTCOME_COLUMNS: Final = 500

# Of the names of running tasks, beside the bar.
MAX_RUNNING_COLUMNS: Final = 40

# Of an agent's name, where it is a command line; the table has all of it.
MAX_NAME_COLUMNS: Final = 24
MAX_TASK_COLUMNS: Final = 40

# Of an output that is wrong and of the expected one: less would say nothing.
MIN_OUTPUT_COLUMNS: Final = 20
_LOOKS: Final[dict[Status, str]] = {"ok": "green", "wrong": "yellow", "error": "red"}


def progress(*, quiet: bool, agents: int) -> ProgressView:
    """Create a view of the progress; `agents` is their number: a single one is not named in each line."""
    if quiet:
        return ProgressView()
    return _Bars(agents) if is_drawable() else _Lines(agents)


class ProgressView:
    """Shows nothing; the other views show how far the tasks are."""

    def start(self, total: int, left: int, out: Path) -> None:
        pass

    def begun(self, task: Task, agent: str) -> None:
        pass

    def ended(self, outcome: Outcome) -> None:
        pass

    def stop(self) -> None:
        pass


class _Lines(ProgressView):
    """A line for each finished task, in a log."""

    def __init__(self, agents: int) -> None:
        self._named = agents > 1
        self._done = self._total = 0

    def start(self, total: int, left: int, out: Path) -> None:
        self._done, self._total = total - left, total
        sys.stderr.write(f"dragoman: {plain(_beginning(total, left, out))}\n")

    def ended(self, outcome: Outcome) -> None:
        self._done += 1
        counted = f"[{self._done}/{self._total}]"
        sys.stderr.write(f"{counted} {outcome_line(outcome, named=self._named, width=MAX_OUTCOME_COLUMNS)}\n")


class _Bars(ProgressView):
    """A bar with the running tasks, and a line for each task that did not succeed."""

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
            line = outcome_line(outcome, named=self._named, width=2 * self._console.width)
            self._console.print(line, style=_LOOKS[outcome.status], markup=False, highlight=False)
        self._tell()

    def _tell(self) -> None:
        from rich.markup import escape

        counts = ((status, self._count[status]) for status in _LOOKS)
        counted = " ".join(f"[{_LOOKS[status]}]{count} {status}[/]" for status, count in counts if count)
        running = ", ".join(f"{_short_name(agent)}: {task}" if self._named else task for task, agent in self._running)
        self._bar.update(self._id, counted=counted, running=escape(one_line(running, MAX_RUNNING_COLUMNS)))

    def stop(self) -> None:
        self._bar.stop()


def _beginning(total: int, left: int, out: Path) -> str:
    if not left:
        return f"nothing to do: all {total} are done, see {out}"
    done = f", {total - left} already done" if left < total else ""
    return f"{left} to do{done}; outcomes go to {out}"


def outcome_line(outcome: Outcome, *, named: bool = True, width: int = MAX_OUTCOME_COLUMNS) -> str:
    """Describe an outcome on a line of at most `width` columns: `wrong t2 (0.3 s): {"n":2}, expected {"n":3}`.

    Of a wrong output and the expected one, each gets its part of the line: the expected one is never truncated away.
    """
    task = truncate(outcome.task, MAX_TASK_COLUMNS)
    name = f"{_short_name(outcome.agent)} {task}" if named else task
    line = f"{outcome.status} {name} ({outcome.seconds:.1f} s)"
    if outcome.status == "wrong":
        got = outcome.text.strip() if outcome.output is None else outcome.output
        room = width - columns(line) - columns(": , expected ")
        line += ": {}, expected {}".format(*_fit_both(_json(got), _json(outcome.expected), room))
    elif outcome.status == "error":
        line += f": {outcome.kind}: {outcome.error}"
    if outcome.tool_errors:
        line += f"; a tool failed: {'; '.join(outcome.tool_errors)}"
    return one_line(line, width)


def _fit_both(first: str, second: str, room: int) -> tuple[str, str]:
    """Truncate both texts to fit into so many columns together; a short one leaves its room to the other."""
    half = max(room // 2, MIN_OUTPUT_COLUMNS)
    first_room = max(half, room - columns(second))
    second_room = max(half, room - columns(first))
    return truncate(first, first_room), truncate(second, second_room)


def _short_name(agent: str) -> str:
    program, space, rest = agent.partition(" ")
    return truncate(f"{os.path.basename(program)}{space}{rest}", MAX_NAME_COLUMNS)


def _json(value: object) -> str:
    return plain(msgspec.json.encode(value).decode())
