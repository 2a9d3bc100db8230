"""`journal`: the cost of storing everything, and the speed of reading and searching it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from bench.measure import Contender, Outcome, Settings, Unavailable, interleaved, python_client
from bench.peers import PYTHON_SDK, Peers
from bench.table import Case, Figure, Row, Unit

BAR, AIM = 3, 5
SIZE_BAR = 2.2
RECORDED_SIZE_BAR = 1.6
READ_BAR = 3
SEARCH_BAR = 100
OPEN_BAR = 20

# Concurrent sessions may reach four fifths of the throughput of a single one.
SESSIONS = 20
SESSIONS_BAR = 1.25


def run(settings: Settings, peers: Peers) -> Case:
    count = settings.chunks
    each = count // SESSIONS

    def burst(chunks: int) -> list[str]:
        agent = shlex.join(settings.agent(prepare=chunks))
        return ["--agent", agent, "--cwd", str(settings.workspace), "--count", str(chunks)]

    store = ["--agent", "none", "--cwd", str(settings.workspace), "--count", str(settings.million)]
    several = [*burst(each), "--tool-every", str(SESSIONS)]
    contenders = [
        Contender("Python SDK", lambda: python_client(peers.python, "chunks_python_sdk", *burst(count))),
        Contender("dragoman", lambda: python_client(sys.executable, "journal_burst", *burst(count))),
        Contender(f"{SESSIONS} sessions", lambda: python_client(sys.executable, "journal_burst", *several)),
        Contender("a hub", lambda: python_client(sys.executable, "journal_hub", *burst(count))),
        Contender(f"a hub, {SESSIONS} sessions", lambda: python_client(sys.executable, "journal_hub", *several)),
    ]
    outcomes = interleaved("journal", contenders, settings.repetitions, settings.say)
    # Long, and each holds its own comparison.
    few = max(1, settings.repetitions * 3 // 5)
    alone = interleaved(
        "journal",
        [Contender("store", lambda: python_client(sys.executable, "journal_store", *store))],
        few,
        settings.say,
    )["store"]
    library = interleaved(
        "journal",
        [Contender("search", lambda: python_client(sys.executable, "journal_search", *store))],
        1,
        settings.say,
    )["search"]
    recorded = interleaved(
        "journal",
        [Contender("recordings", lambda: python_client(sys.executable, "journal_recordings", _recordings()))],
        1,
        settings.say,
    )["recordings"]
    ours = outcomes["dragoman"]
    hub, busy_hub = outcomes["a hub"], outcomes[f"a hub, {SESSIONS} sessions"]
    return Case(
        "journal",
        f"{count:,} message chunks, each frame and its rows committed to a file before it is shown",
        "The agent, the chunks and the Python SDK are those of `chunks`; the SDK only dispatches, and stores nothing. "
        "With Dragoman each frame is folded, committed with its rows to an SQLite file, and only then delivered; "
        "through a hub it goes on to `async for event in run`. "
        f"The store by itself: {settings.million:,} frames are committed with their rows and read back by cursor, "
        "and a session of 100,000 frames is opened from its rows and by folding its frames. "
        f"{settings.million:,} messages of English prose are searched, by the index and by `LIKE`, for a word that a "
        "hundred of them have, for one that every fifteenth has, and for two words in a row.",
        [
            Row(
                f"against the Python SDK ({PYTHON_SDK[1]}), which stores nothing",
                "speed",
                _figure(ours, "seconds"),
                _figure(outcomes["Python SDK"], "seconds"),
                bar=BAR,
                aim=AIM,
            ),
            Row(
                f"{SESSIONS} sessions at once against one, the same chunks in all",
                "cost",
                _figure(outcomes[f"{SESSIONS} sessions"], "seconds"),
                _figure(ours, "seconds"),
                bar=SESSIONS_BAR,
            ),
            Row(
                "through a hub, event by event, against the Python SDK",
                "speed",
                _figure(hub, "seconds"),
                _figure(outcomes["Python SDK"], "seconds"),
            ),
            Row(
                f"through a hub, {SESSIONS} sessions at once against one",
                "cost",
                _figure(busy_hub, "seconds"),
                _figure(hub, "seconds"),
            ),
            Row(
                "the file against the bytes of its frames",
                "cost",
                _figure(ours, "file_bytes", "the file", "B"),
                _figure(ours, "frame_bytes", "frames", "B"),
                bar=SIZE_BAR,
            ),
            Row(
                "the same of recordings of real agents",
                "cost",
                _figure(recorded, "file_bytes", "the file", "B"),
                _figure(recorded, "frame_bytes", "frames", "B"),
                bar=RECORDED_SIZE_BAR,
            ),
            _within("read by cursor, against written", alone, "read_seconds", "write_seconds", READ_BAR),
            _within("opened from rows, against folded", alone, "rows_seconds", "fold_seconds", OPEN_BAR),
            _within("a rare word, against a scan", library, "search_seconds", "scan_seconds", SEARCH_BAR),
            _within("a frequent word", library, "frequent_seconds", "frequent_scan_seconds"),
            _within("two words in a row", library, "phrase_seconds", "phrase_scan_seconds"),
        ],
        [
            *_lag(ours, "one session"),
            *_lag(outcomes[f"{SESSIONS} sessions"], f"{SESSIONS} sessions"),
            *_lag(hub, "one session of a hub"),
            *_lag(busy_hub, f"{SESSIONS} sessions of a hub"),
        ],
    )


def _recordings() -> str:
    """Return a folder of recordings: more than the project has, of which the empty tables would be most of the file."""
    folder = os.environ.get("DRAGOMAN_RECORDINGS")
    if not folder:
        raise Unavailable("DRAGOMAN_RECORDINGS names no folder with recordings")
    return folder


def _figure(outcome: Outcome, value: str, name: str = "", unit: Unit = "s") -> Figure:
    samples: Sequence[float] = outcome.each(value)
    return Figure(name or outcome.name, samples, unit, outcome.reason)


def _within(what: str, outcome: Outcome, ours: str, other: str, bar: float | None = None) -> Row:
    """Compare two figures of the same run."""
    names = (name.removesuffix("_seconds") for name in (ours, other))
    return Row(what, "speed", _figure(outcome, ours, next(names)), _figure(outcome, other, next(names)), bar=bar)


def _lag(outcome: Outcome, what: str) -> list[str]:
    if not outcome.samples:
        return []
    return [f"Delay of the event loop, {what}: {max(outcome.each('lag')) * 1000:.1f} ms at p99 in the worst run."]
