"""`Metrics`: the figures of one server, as Prometheus reads them from `GET /v1/metrics`.

Labels have few values, which we choose: memory does not grow with what clients send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

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
