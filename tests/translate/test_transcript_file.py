"""Reading transcript files: long lines are found without holding them in memory."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from dragoman.translate import transcript_file as reading
from dragoman.translate.transcript_file import has_long_line


@pytest.mark.parametrize(("length", "is_long"), [(99, False), (100, False), (101, True), (250, True)])
@pytest.mark.parametrize("before", [0, 1, 63, 64, 99])
@pytest.mark.parametrize("end", [b"\n", b"", b"\nx\n"])
def test_a_long_line_is_found_at_any_offset(
    length: int, is_long: bool, before: int, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONG_LINE_BYTES", 100)
    monkeypatch.setattr(reading, "_READ_BYTES", 64)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"x" * before + b"\n" + b"y" * length + end)
    assert has_long_line(path, path.stat().st_size) == is_long


def test_a_long_line_that_came_since_the_file_was_looked_at_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONG_LINE_BYTES", 100)
    monkeypatch.setattr(reading, "_READ_BYTES", 64)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"x\n" * 100 + b"y" * 250)
    assert [has_long_line(path, until) for until in (100, 200, 450)] == [False, False, True]


def test_a_python_without_ctypes_reads_long_lines_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    reading._return_freed_memory.cache_clear()
    line = b"x" * (reading.LONG_LINE_BYTES + 1)
    assert [one.text for one in reading.whole_lines(io.BytesIO(line + b"\n"))] == [line]
    reading._return_freed_memory.cache_clear()
