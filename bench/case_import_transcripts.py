"""`transcripts`: the cost of importing the transcripts that agents wrote to disk.

Real transcripts are other people's texts and not part of the project: `DRAGOMAN_CORPUS` names a folder that has some.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.measure import (
    CLIENT_TIMEOUT_SECONDS,
    Contender,
    Outcome,
    Sample,
    Settings,
    Unavailable,
    interleaved,
    last_line,
    python_client,
)
from bench.peers import CLAUDE_CODE_LOG, Peers
from bench.table import Case, Figure, Row

BAR, AIM = 15, 8
PEER_BAR = 5

# Sizes of the generated transcripts, in megabytes. Two sizes show whether memory grows with the transcript.
SMALL, LARGE = 100, 400
MEMORY_BAR = 200e6  # bytes

NO_CORPUS = "Nothing was measured: DRAGOMAN_CORPUS names no folder with transcripts."


def run(settings: Settings, peers: Peers) -> Case:
    corpus = os.environ.get("DRAGOMAN_CORPUS")
    outcomes = _measure(settings, peers, Path(corpus)) if corpus else {}

    def figure(contender: str, shown: str, value: str, unit: str = "s") -> Figure:
        outcome = outcomes.get(contender, Outcome(contender))
        return Figure(shown, outcome.each(value), "B" if unit == "B" else "s", outcome.reason)

    decoding = figure("import", "decoding alone", "decode")
    large = figure("large", f"{LARGE} MB", "peak", "B")
    peer = figure("peer", "claude-code-log", "seconds")
    bar = Figure("the bar", [MEMORY_BAR], "B")
    return Case(
        "transcripts",
        "Importing transcripts of Claude Code and Codex",
        "All transcripts of a folder are read, translated, folded, and committed with their rows and the search index "
        "to an SQLite file. For comparison, msgspec reads and decodes the same lines into plain values. Then all "
        "transcripts are imported a second time, when nothing is new. The transcripts of Claude Code are also "
        f"converted by {CLAUDE_CODE_LOG[0]} {CLAUDE_CODE_LOG[1]} to one HTML page; both programs are timed from start "
        f"to end. Memory is the peak while one generated transcript of {LARGE} MB is imported.",
        [
            Row("imported", "cost", figure("import", "import", "take"), decoding, bar=BAR, aim=AIM),
            Row("imported a second time", "cost", figure("import", "second import", "again"), decoding),
            Row("against claude-code-log", "speed", figure("ours", "import", "seconds"), peer, bar=PEER_BAR),
            Row("memory for a long transcript", "cost", large, bar, bar=1),
            Row("memory, by length", "cost", large, figure("small", f"{SMALL} MB", "peak", "B")),
        ],
        _notes(outcomes) if corpus else [NO_CORPUS],
    )


def _measure(settings: Settings, peers: Peers, corpus: Path) -> dict[str, Outcome]:
    claude = settings.workspace / "claude"
    size = _copy(corpus / "claude", claude)
    contenders = [
        Contender("import", lambda: python_client(sys.executable, "transcripts", str(corpus))),
        Contender("ours", lambda: _import(claude, size)),
        Contender("peer", lambda: _convert(peers.claude_code_log, claude)),
    ]
    outcomes = interleaved("transcripts", contenders, settings.repetitions, settings.say)
    lengths = [
        Contender(name, lambda length=length: python_client(sys.executable, "transcripts_large", str(length)))  # type: ignore[misc]  # mypy cannot infer a default's type here
        for name, length in (("small", SMALL), ("large", LARGE))
    ]
    return outcomes | interleaved("long transcripts", lengths, 1, settings.say)


def _copy(source: Path, folder: Path) -> int:
    """Copy the transcripts, because the peer writes beside what it reads; return their size in bytes."""
    folder.mkdir()
    size = 0
    for path in sorted(source.glob("*.jsonl")):
        size += path.stat().st_size
        shutil.copyfile(path, folder / path.name)
    return size


def _import(folder: Path, size: int) -> Sample:
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "dragoman", "import", "--provider", "claude", str(folder)]
        return Sample({"seconds": _seconds(command, {"DRAGOMAN_HOME": home}), "size": size})


def _convert(program: Path, folder: Path) -> Sample:
    with tempfile.TemporaryDirectory() as home:
        command = [str(program), str(folder), "--no-cache", "--combined", "only", "-o", str(Path(home, "page.html"))]
        return Sample({"seconds": _seconds(command, {"HOME": home})})


def _seconds(command: Sequence[str], more: Mapping[str, str]) -> float:
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_SECONDS, env={**os.environ, **more}
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"no result within {CLIENT_TIMEOUT_SECONDS} s") from error
    if done.returncode:
        raise Unavailable(last_line(done.stderr) or f"it ended with exit code {done.returncode}")
    return time.perf_counter() - began


def _notes(outcomes: Mapping[str, Outcome]) -> list[str]:
    notes = []
    if (imported := outcomes["import"]).samples:
        size, frames = max(imported.each("size")), max(imported.each("frames"))
        notes.append(f"{size / 1e6:.1f} MB of lines gave {frames:,.0f} frames.")
        notes.append(f"At most {max(imported.each('peak')) / 1e6:.0f} MB of memory were in use.")
    if (ours := outcomes["ours"]).samples:
        notes.append(f"Of these {max(ours.each('size')) / 1e6:.1f} MB, all of Claude Code, were read by both programs.")
    return notes
