"""`Fleet`: the same tasks for several agents, some at a time, with one line of JSON for each outcome.

A task is a line of JSON: {"id": …, "prompt": …, "expected": …, "schema": …}; only the prompt is required. Each outcome
is written at once, so that a fleet that was killed continues where it stopped: a task that has a line is not done
again. An incomplete last line is removed; a changed task is a new one.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import statistics
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, TypeAlias

import msgspec

from dragoman.errors import DragomanError, InputError
from dragoman.evaluation.response import PromptResponse
from dragoman.evaluation.toolbox import Call
from dragoman.evaluation.types import encode, shape_of
from dragoman.record.rows import Usage

Status: TypeAlias = Literal["ok", "wrong", "error"]

# The beginning of each line of outcomes. Nothing may be removed from a file that is not ours.
_BEGIN: Final = b'{"task":"'


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prompt for all agents. `expected` is the output that counts as right, or the text without a schema."""

    prompt: str
    id: str = ""
    expected: Any | msgspec.UnsetType = msgspec.UNSET
    schema: dict[str, Any] | None = None

    def output_schema(self, common: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the task's own schema, or the common one; None if the text is the output. `{}` allows anything."""
        return self.schema if self.schema is not None else common

    def digest(self, schema: dict[str, Any] | None, model: str | None = None) -> str:
        """Return a digest that changes whenever the task does."""
        whole = msgspec.structs.replace(self, id="", schema=self.output_schema(schema))
        encoded = msgspec.json.encode(whole if model is None else (whole, model), order="sorted")
        return hashlib.sha256(encoded).hexdigest()[:16]


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one agent for one task. Figures that were not reported are left out."""

    task: str
    agent: str
    digest: str
    status: Status
    output: Any = None
    expected: Any = None  # of a wrong outcome
    text: str = ""
    error: str | None = None
    kind: str | None = None  # of the error
    category: str | None = None
    limit: str | None = None
    stop_reason: str | None = None
    rounds: int = 0
    attempts: int = 1
    tool_calls: int = 0
    tool_errors: tuple[str, ...] = ()  # exceptions of the user's functions, except `ToolError`
    tokens: int | None = None
    cost: float | None = None
    currency: str | None = None
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.task, self.agent, self.digest


Evaluate: TypeAlias = Callable[[Task, str], Awaitable[PromptResponse[Any]]]


def read_tasks(path: Path) -> list[Task]:
    """Read the tasks of a file; a task without an id gets its line number. `InputError` names file and line."""
    try:
        # Only by the newline: JSON texts may contain other line ends.
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    tasks: dict[str, Task] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            task = msgspec.json.decode(line, type=Task)
            if task.schema is not None:
                shape_of(task.schema)
        except (msgspec.MsgspecError, InputError) as error:
            raise InputError(f"{path}:{number}: {error}") from None
        task = msgspec.structs.replace(task, id=task.id or str(number))
        if not task.prompt.strip():
            raise InputError(f"{path}:{number}: the prompt is empty")
        if task.id in tasks:
            raise InputError(f"{path}:{number}: there is another task with the id {task.id!r}")
        tasks[task.id] = task
    if not tasks:
        raise InputError(f"{path} has no task in it")
    return list(tasks.values())


class Results:
    """The file of outcomes. Only one process may write to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: list[Outcome] = []
        self._file: BinaryIO | None = None

    def __enter__(self) -> Results:
        import fcntl

        if self.path.exists() and not self.path.is_file():
            raise InputError(f"{self.path} is not a regular file", guidance="Name another with --out.")
        try:
            file = self._file = open(self.path, "a+b")  # closed in __exit__
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.seek(0)
            self._read(file)
        except BlockingIOError:
            file.close()
            raise InputError(f"another dragoman eval is writing to {self.path}") from None
        except BaseException:
            file.close()
            raise
        return self

    def _read(self, file: BinaryIO) -> None:
        data = file.read()
        complete, newline, rest = data.rpartition(b"\n")
        for number, line in enumerate(complete.splitlines(), 1):
            try:
                self.outcomes.append(msgspec.json.decode(line, type=Outcome))
            except msgspec.MsgspecError as error:
                raise self._foreign(number, str(error)) from None
        if rest and rest[: len(_BEGIN)] != _BEGIN[: len(rest)]:
            raise self._foreign(data.count(b"\n") + 1, "it is not an incomplete one, either")
        file.truncate(len(complete) + len(newline))  # an incomplete one is done again

    def _foreign(self, number: int, why: str) -> InputError:
        return InputError(
            f"{self.path}:{number} is not an outcome of dragoman eval: {why}", guidance="Name another file with --out."
        )

    def add(self, outcome: Outcome) -> None:
        assert self._file is not None
        self._file.write(msgspec.json.encode(outcome) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.outcomes.append(outcome)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


class Fleet:
    """`jobs` evaluations at a time; `evaluate` does one. `on_start` and `on_end` are called for each."""

    def __init__(
        self,
        tasks: Sequence[Task],
        agents: Sequence[str],
        evaluate: Evaluate,
        *,
        schema: dict[str, Any] | None = None,
        model: str | None = None,
        jobs: int = 1,
        on_start: Callable[[Task, str], None] = lambda task, agent: None,
        on_end: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        self._tasks = tasks
        self._agents = agents
        self._evaluate = evaluate
        self._schema = schema
        self._model = model
        self._jobs = jobs
        self._on_start = on_start
        self._on_end = on_end

    def remaining(self, outcomes: Iterable[Outcome], *, redo_errors: bool = False) -> list[tuple[Task, str]]:
        """Return the remaining work, task by task, so that all agents advance together."""
        done = {each.key for each in latest(outcomes) if not (redo_errors and each.status == "error")}
        pairs = ((task, agent) for task in self._tasks for agent in self._agents)
        return [(task, agent) for task, agent in pairs if self._key(task, agent) not in done]

    def latest_outcomes(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Return the last outcome of each of these tasks and agents."""
        keys = {self._key(task, agent) for task in self._tasks for agent in self._agents}
        return [each for each in latest(outcomes) if each.key in keys]

    def _key(self, task: Task, agent: str) -> tuple[str, str, str]:
        return task.id, agent, task.digest(self._schema, self._model)

    async def run(self, pairs: Iterable[tuple[Task, str]]) -> None:
        remaining = iter(pairs)

        async def work() -> None:
            for task, agent in remaining:
                self._on_start(task, agent)
                self._on_end(await self._evaluate_task(task, agent))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._jobs):
                    group.create_task(work())
        except BaseExceptionGroup as group_error:
            # A failed evaluation is an outcome; an exception concerns all of them, such as a full disk.
            raise group_error.exceptions[0] from None

    async def _evaluate_task(self, task: Task, agent: str) -> Outcome:
        *_, digest = self._key(task, agent)
        try:
            response = await self._evaluate(task, agent)
        except DragomanError as error:
            failed_response = error.result if isinstance(error.result, PromptResponse) else None
            outcome = Outcome(
                task=task.id,
                agent=agent,
                digest=digest,
                status="error",
                error=str(error),
                kind=type(error).__name__,
                category=error.category,
            )
            return outcome if failed_response is None else _with_stats(outcome, failed_response)
        output = encode(response.output)
        answers = (response.text.strip(), response.text) if task.output_schema(self._schema) is None else (output,)
        status = judge(task, answers)
        outcome = Outcome(
            task=task.id,
            agent=agent,
            digest=digest,
            status=status,
            output=output,
            expected=task.expected if status == "wrong" else None,
        )
        return _with_stats(outcome, response)


def judge(task: Task, answers: Iterable[Any]) -> Status:
    """Return `ok` if one of the answers is expected, or if nothing is expected."""
    is_right = task.expected is msgspec.UNSET or any(_same(task.expected, answer) for answer in answers)
    return "ok" if is_right else "wrong"


def _same(expected: Any, answer: Any) -> bool:
    """Compare as JSON does: true is not 1, but 1.0 is."""
    match expected, answer:
        case dict(), dict():
            return expected.keys() == answer.keys() and all(
                _same(value, answer[key]) for key, value in expected.items()
            )
        case list(), list():
            return len(expected) == len(answer) and all(map(_same, expected, answer))
        case _:
            return isinstance(expected, bool) == isinstance(answer, bool) and bool(expected == answer)


def _with_stats(outcome: Outcome, response: PromptResponse[Any]) -> Outcome:
    stats = response.stats
    usage: Usage = stats.usage
    return msgspec.structs.replace(
        outcome,
        text=response.text,
        stop_reason=response.stop_reason,
        limit=stats.limit,
        rounds=stats.rounds,
        attempts=stats.attempts,
        tool_calls=stats.calls,
        tool_errors=tuple(dict.fromkeys(map(_raised, filter(_is_broken, stats.tool_calls)))),
        tokens=usage.total_tokens,
        cost=usage.cost.amount if usage.cost is not None else None,
        currency=usage.cost.currency if usage.cost is not None else None,
        seconds=round(stats.duration, 3),
    )


def _is_broken(call: Call) -> bool:
    """Return whether a tool failed by a defect. A `ToolError` is a message to the agent, not a defect."""
    return call.traceback is not None and (call.error or "") not in call.traceback


def _raised(call: Call) -> str:
    return f"{call.name}: {(call.traceback or '').strip().splitlines()[-1]}"


def latest(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the last outcome of each task and agent: a repeated one replaces the earlier one."""
    return list({each.key: each for each in outcomes}.values())


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one agent; None where none was reported."""

    agent: str
    tasks: int
    ok: int
    wrong: int
    errors: int
    rounds: float | None
    tool_calls: int
    tokens: int | None
    cost: float | None
    currency: str | None
    seconds: float | None  # the median


def compare(outcomes: Iterable[Outcome], agents: Sequence[str]) -> list[Summary]:
    """Return a summary for each agent, the one with the most successes first."""
    last_outcomes = latest(outcomes)
    lines = [_summary(agent, [each for each in last_outcomes if each.agent == agent]) for agent in agents]
    return sorted(lines, key=lambda line: -line.ok)


def _summary(agent: str, own: Sequence[Outcome]) -> Summary:
    tokens = [each.tokens for each in own if each.tokens is not None]
    currencies = {each.currency for each in own if each.currency is not None}
    costs = [each.cost for each in own if each.cost is not None]
    return Summary(
        agent=agent,
        tasks=len(own),
        ok=sum(each.status == "ok" for each in own),
        wrong=sum(each.status == "wrong" for each in own),
        errors=sum(each.status == "error" for each in own),
        rounds=statistics.mean(each.rounds for each in own) if own else None,
        tool_calls=sum(each.tool_calls for each in own),
        tokens=sum(tokens) if tokens else None,
        cost=sum(costs) if costs and len(currencies) == 1 else None,
        currency=currencies.pop() if len(currencies) == 1 else None,
        seconds=statistics.median(each.seconds for each in own) if own else None,
    )
