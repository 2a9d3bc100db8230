"""The server's metrics and its log.

`Metrics` has the figures of one server, as Prometheus reads them from `GET /v1/metrics`. Labels have few values, which
we choose: memory does not grow with what clients send.

The log goes to stderr: lines for people, or one JSON object per line. Tokens and pairing codes are redacted. A record
may carry `extra={"fields": {...}}`, which become keys of the JSON object.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

from dragoman.bridge.tokens import TOKEN_PREFIX

__all__ = ["CONTENT_TYPE", "Metrics"]

# From a commit on a fast disk to an event loop that hangs.
_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """All figures of one server, in a registry of their own."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._commit_times: Callable[[], Iterable[float]] | None = None
        self.sessions = Gauge("dragoman_sessions", "Open sessions.", registry=registry)
        self.sessions_running = Gauge("dragoman_sessions_running", "Sessions with a current run.", registry=registry)
        self.runs = Counter("dragoman_runs", "Runs that ended, by status.", ["status"], registry=registry)
        self.frames = Counter("dragoman_frames", "Frames written to the journal.", registry=registry)
        self.commit_seconds = Histogram(
            "dragoman_commit_seconds", "Duration of a commit of the journal.", buckets=_BUCKETS_S, registry=registry
        )
        self.journal_queue = Gauge(
            "dragoman_journal_queue", "Entries that wait for the journal's writer.", registry=registry
        )
        self.loop_delay_seconds = Histogram(
            "dragoman_loop_delay_seconds", "Delay of a timer of the event loop.", buckets=_BUCKETS_S, registry=registry
        )
        self.sockets = Gauge("dragoman_sockets", "Open WebSockets.", registry=registry)
        self.socket_messages = Counter(
            "dragoman_socket_messages", "Messages on WebSockets, by direction.", ["direction"], registry=registry
        )
        self.prompts_queued = Gauge("dragoman_prompts_queued", "Prompts in the queues of sessions.", registry=registry)
        self.http_requests = Counter(
            "dragoman_http_requests", "HTTP requests, by method and status.", ["method", "status"], registry=registry
        )
        self.http_seconds = Histogram(
            "dragoman_http_seconds", "Duration of HTTP requests.", buckets=_BUCKETS_S, registry=registry
        )

    def observe_commits(self, commit_times: Callable[[], Iterable[float]]) -> None:
        """Take the durations of commits, in seconds, from this function, which returns those since its last call."""
        self._commit_times = commit_times

    def text(self) -> bytes:
        """All figures in Prometheus's text format."""
        if self._commit_times is not None:
            for seconds in self._commit_times():
                self.commit_seconds.observe(seconds)
        return generate_latest(self._registry)


# Our own loggers, and those of the libraries that serve.
LOGGERS: Final = ("dragoman", "uvicorn", "websockets", "asyncio")

# Warnings and errors of one kind that are logged in a period. The rest is only counted: a client that can cause them
# must not fill the disk.
MAX_REPEATS: Final = 20
REPEAT_PERIOD_S: Final = 60.0

REDACTED: Final = "[hidden]"
_SECRETS: Final = re.compile(
    rf"{TOKEN_PREFIX}[A-Za-z0-9_-]+"
    r"|(?<=/pair#)[A-Za-z0-9_-]+"
    r"|(?<=dragoman_)(\d+=)[^;\s]+"
    r"|(?i:(?<=bearer )|(?<=basic ))[^\s\"']+"
)


def redact(text: str) -> str:
    return _SECRETS.sub(lambda match: (match[1] or "") + REDACTED, text)


class RepeatFilter(logging.Filter):
    """Lets the first warnings and errors of a kind pass in each period. A kind is a line of the code that logs."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}  # the beginning of the period, and the number in it

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        kind = (record.pathname, record.lineno)
        began, count = self._counts.get(kind, (record.created, 0))
        if record.created - began >= REPEAT_PERIOD_S:
            if count > MAX_REPEATS:
                record.msg = f"{record.getMessage()} ({count - MAX_REPEATS} more of these were not logged)"
                record.args = ()
            began, count = record.created, 0
        self._counts[kind] = (began, count + 1)
        return count < MAX_REPEATS


class _TextFormatter(logging.Formatter):
    """Lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        mark = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return redact(f"{when} {mark}{record.getMessage()}{_trace(record)}")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if trace := _trace(record):
            line["trace"] = trace.strip()
        return redact(msgspec.json.encode(line).decode())


def set_up_log(form: Literal["human", "json"], *, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Set up the log of the whole process. The text form shows requests only with `verbose`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    handler.addFilter(RepeatFilter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        # Those of the libraries would name URLs with their queries; requests are in our own log.
        logger.setLevel(logging.INFO if name == "dragoman" else logging.WARNING)
    logging.getLogger("dragoman.access").setLevel(logging.INFO if verbose or form == "json" else logging.WARNING)


def _trace(record: logging.LogRecord) -> str:
    if record.exc_info is None or record.exc_info[0] is None:
        return ""
    return "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
