"""One `dragoman eval`: reads the tasks, runs the fleet, shows how far it is, and compares at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from dragoman.cli import exits
from dragoman.cli.fleet_progress import progress
from dragoman.cli.output import terminal_width
from dragoman.cli.signals import Interrupts
from dragoman.cli.text import plain
from dragoman.config import load
from dragoman.errors import DragomanError, InputError
from dragoman.evaluation.budget import Budget
from dragoman.evaluation.evaluate import evaluate
from dragoman.evaluation.fleet import Fleet, Outcome, Results, Summary, Task, compared, read_tasks
from dragoman.evaluation.loading import load_tools
from dragoman.evaluation.response import PromptResponse
from dragoman.evaluation.retry import Retry
from dragoman.evaluation.tool import tools_of
from dragoman.evaluation.types import shape_of
from dragoman.host.policy.access import parse_access
from dragoman.session.client import Agent, LocalClient
from dragoman.workspace import Workspace


class Given(msgspec.Struct, frozen=True, kw_only=True):
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


def run(given: Given) -> int:
    """Does it, and returns the exit code. Raises nothing that the user could have caused."""
    told = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the user's functions print is no outcome
            work = prepare(given)
            with Results(work.out) as results:
                return asyncio.run(_run(given, work, results, told))
    except DragomanError as error:
        sys.stderr.write(exits.message_of(error, width=terminal_width()))
        return exits.code_of_error(error, opened=False)


def prepare(given: Given) -> Work:
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


async def _run(given: Given, work: Work, results: Results, told: TextIO) -> int:
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
