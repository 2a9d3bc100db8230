"""What is counted and measured, as Prometheus reads it: `GET /v1/metrics`.

Labels are few and fixed by us, so that what is kept does not grow with what clients send.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

# Seconds: from a commit on a fast disk to a loop that hangs.
_STEPS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Counter:
    """Only ever grows."""

    kind: Final = "counter"

    def __init__(self, name: str, help_text: str) -> None:
        self.name, self.help = name, help_text
        self._values: dict[Labels, float] = {}

    def add(self, count: float = 1, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        self._values[key] = self._values.get(key, 0) + count

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        for labels, value in self._values.items() or [((), 0.0)]:
            yield self.name, labels, value


class Gauge:
    """Goes up and down; or is asked when it is wanted (`ask`), which then counts alone."""

    kind: Final = "gauge"

    def __init__(self, name: str, help_text: str) -> None:
        self.name, self.help = name, help_text
        self._value = 0.0
        self._ask: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        self._value = value

    def add(self, change: float = 1) -> None:
        self._value += change

    def ask(self, how: Callable[[], float]) -> None:
        self._ask = how

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        yield self.name, (), self._value if self._ask is None else self._ask()


class Histogram:
    kind: Final = "histogram"

    def __init__(self, name: str, help_text: str, steps: tuple[float, ...] = _STEPS) -> None:
        self.name, self.help = name, help_text
        self._steps = steps
        self._counts = [0] * (len(steps) + 1)
        self._sum = 0.0
        self._gather: Callable[[], Iterable[float]] | None = None

    def gather(self, how: Callable[[], Iterable[float]]) -> None:
        """Where the values come from: asked for those since the last time, when they are wanted."""
        self._gather = how

    def observe(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._steps, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        for value in self._gather() if self._gather is not None else ():
            self.observe(value)
        total = 0
        for step, count in zip((*self._steps, math.inf), self._counts, strict=True):
            total += count
            yield f"{self.name}_bucket", (("le", "+Inf" if step == math.inf else f"{step:g}"),), total
        yield f"{self.name}_sum", (), self._sum
        yield f"{self.name}_count", (), total


class Metrics:
    """All there are, of one server."""

    def __init__(self) -> None:
        self.sessions = Gauge("dragoman_sessions", "Sessions that are open here.")
        self.sessions_running = Gauge("dragoman_sessions_running", "Sessions with a run that goes on.")
        self.runs = Counter("dragoman_runs_total", "Runs that ended, by status.")
        self.frames = Counter("dragoman_frames_total", "Frames that were kept in the journal.")
        self.commit_seconds = Histogram("dragoman_commit_seconds", "How long the journal took for a commit.")
        self.journal_queue = Gauge("dragoman_journal_queue", "Entries that wait for the journal's writer.")
        self.loop_delay_seconds = Histogram("dragoman_loop_delay_seconds", "How late the event loop came to a timer.")
        self.sockets = Gauge("dragoman_sockets", "WebSockets that are open.")
        self.socket_messages = Counter("dragoman_socket_messages_total", "Messages on WebSockets, by direction.")
        self.prompts_queued = Gauge("dragoman_prompts_queued", "Prompts that wait for their turn.")
        self.http_requests = Counter("dragoman_http_requests_total", "HTTP requests, by method and status.")
        self.http_seconds = Histogram("dragoman_http_seconds", "How long HTTP requests took.")

    def text(self) -> str:
        lines = []
        for metric in vars(self).values():
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{name}{_labels(labels)} {value:.15g}" for name, labels, value in metric.samples()]
        return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
