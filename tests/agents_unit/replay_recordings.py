"""Recordings of real agents, for tests that play them: those of the repository, and those of `DRAGOMAN_RECORDINGS`."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

HERE = Path(__file__).resolve().parents[1] / "agents" / "recordings"
FOLDER = Path(os.environ.get("DRAGOMAN_RECORDINGS") or Path(__file__).resolve().parents[3] / "shared" / "recordings")
CASES = sorted(HERE.glob("*/*.jsonl")) + sorted(FOLDER.glob("*/*.jsonl"))

every_recording = pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")


class Line(msgspec.Struct, frozen=True):
    dir: str
    ts: float = 0.0
    frame: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def bytes(self) -> bytes:
        return bytes(self.frame)

    def asks(self, method: str) -> bool:
        return self.dir == "out" and msgspec.json.decode(self.frame).get("method") == method


def connections(path: Path) -> list[list[Line]]:
    """Return the frames of each connection of a recording."""
    found: list[list[Line]] = []
    for text in path.read_bytes().splitlines():
        line = msgspec.json.decode(text, type=Line)
        if line.dir not in ("in", "out"):
            continue
        if line.asks("initialize") or not found:
            found.append([])
        found[-1].append(line)
    return found
