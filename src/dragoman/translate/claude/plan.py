"""Claude's plan: the list that `TodoWrite` replaces, and the one that the `Task…` tools change piece by piece."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from dragoman.translate.claude.results import Output, Task
from dragoman.translate.claude.tools import Input
from dragoman.wire.vocabulary import PlanEntry

# How older versions tell it: in words alone.
_CREATED = re.compile(r"Task #(\S+) created successfully: (.+)")


class _Entry(msgspec.Struct, frozen=True):
    subject: str
    status: str = "pending"
    active_form: str | None = None


class Plan:
    def __init__(self) -> None:
        self._todos: tuple[_Entry, ...] | None = None
        self._tasks: dict[str, _Entry] = {}

    def entries(self) -> tuple[PlanEntry, ...]:
        shown = self._todos if self._todos is not None else tuple(self._tasks.values())
        return tuple(
            PlanEntry(content=_words(entry), priority="medium", status=_status(entry.status)) for entry in shown
        )

    def done(self, name: str, given: Input, output: Output, told: str) -> None:
        """A call that went well; `told` is its result in words."""
        if name == "TodoWrite":
            self._todos = tuple(
                _Entry(str(todo.get("content", "")), str(todo.get("status", "pending")), _form(todo.get("activeForm")))
                for todo in given.todos
            )
            return
        self._todos = None
        match name:
            case "TaskCreate":
                self._created(given, output.task or _told(told))
            case "TaskUpdate":
                self._updated(given)
            case "TaskList" if output.tasks is not None:
                self._tasks = {
                    task.id: _Entry(task.subject, task.status, self._form_of(task.id)) for task in output.tasks
                }
            case _:
                pass

    def _created(self, given: Input, task: Task | None) -> None:
        if task is not None and task.id:
            self._tasks[task.id] = _Entry(given.subject or task.subject, "pending", given.active_form)

    def _updated(self, given: Input) -> None:
        known = self._tasks.get(given.task_id or "")
        if given.task_id is None:
            return
        if given.status == "deleted":
            self._tasks.pop(given.task_id, None)
            return
        subject = given.subject or (known.subject if known else "")
        if subject:
            before = known or _Entry(subject)
            self._tasks[given.task_id] = _Entry(
                subject, given.status or before.status, given.active_form or before.active_form
            )

    def _form_of(self, task_id: str) -> str | None:
        known = self._tasks.get(task_id)
        return known.active_form if known is not None else None


def _words(entry: _Entry) -> str:
    return entry.active_form if entry.status == "in_progress" and entry.active_form else entry.subject


def _status(status: str) -> Literal["pending", "in_progress", "completed"]:
    match status:
        case "in_progress" | "completed":
            return status
        case _:
            return "pending"


def _form(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _told(words: str) -> Task | None:
    found = _CREATED.match(words.strip())
    return Task(found[1], found[2]) if found else None
