"""Imports of a file that grows: however often it was imported on the way, and whether its runs seemed to be over or
not, the rows are those of one import of the whole file."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from dragoman.journal import maintenance
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import SessionRows
from dragoman.journal.sqlite import MemoryJournal
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.discover import detect_provider
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.report import AT_REST_S, Amounts, ImportedFile
from translate import codex_talk
from translate.claude_talk import SESSION, Transcript
from translate.test_claude_properties import DATA as CLAUDE
from translate.test_codex_properties import TRANSCRIPTS

FILES = {
    "claude": [(f"{SESSION}.jsonl", CLAUDE)],
    "codex": [(codex_talk.NAME, b"".join(line + b"\n" for line in lines)) for lines in TRANSCRIPTS.values()],
}

# The ids of rows end with positions, which frames that were withdrawn shift.
_ROW_ID = re.compile(r"(run|message|tool|notice)-(\d+)")


def _rows_without_positions(rows: SessionRows) -> Any:
    tables = msgspec.to_builtins(rows)
    positions: set[int] = set()

    def collect(value: Any) -> None:
        match value:
            case dict():
                for item in value.values():
                    collect(item)
            case list() | tuple():
                for item in value:
                    collect(item)
            case str() if match := _ROW_ID.fullmatch(value):
                positions.add(int(match[2]))

    def renumber(value: Any, key: str = "") -> Any:
        match value:
            case dict():
                return {name: renumber(item, name) for name, item in value.items() if name != "frames"}
            case list() | tuple():
                return [renumber(item) for item in value]
            case str() if match := _ROW_ID.fullmatch(value):
                return f"{match[1]}-{order[int(match[2])]}"
            case int() if key == "position":
                return order[value]
            case _:
                return value

    collect(tables)
    order = {position: number for number, position in enumerate(sorted(positions))}
    return renumber(tables)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _found(provider: str, path: Path) -> Found:
    stat = path.stat()
    return Found(provider, path, stat.st_size, stat.st_mtime)


async def _import(journal: Journal, provider: str, path: Path, *, at_rest: bool) -> ImportedFile:
    found = _found(provider, path)
    now = found.modified + (2 * AT_REST_S if at_rest else 0.0)
    return await Importer(journal, clock=lambda: now).import_file(found)


async def _rows_after(
    provider: str, name: str, data: bytes, steps: Sequence[tuple[int, bool]]
) -> tuple[dict[str, Any], Amounts]:
    """Import the first bytes of a file, and then all of it at rest; return its rows and the sum of the reports."""
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        async with MemoryJournal() as journal:
            reported = Amounts()
            for size, at_rest in (*steps, (len(data), True)):
                _write(path, data[:size])
                report = await _import(journal, provider, path, at_rest=at_rest)
                assert not report.failed, report.skipped
                reported += report.amounts
                assert not await maintenance.verify(journal)
            sessions = await journal.sessions()
            return {one.id: _rows_without_positions(await journal.rows(one.id)) for one in sessions}, reported


def _tokens(amounts: Amounts) -> tuple[int, int, int]:
    return amounts.input_tokens, amounts.cached_tokens, amounts.output_tokens


@pytest.mark.parametrize("provider", FILES)
@settings(deadline=None)
@drawn(st.data())
def test_imports_of_prefixes_of_a_file_equal_one_import_of_the_whole(provider: str, data: st.DataObject) -> None:
    name, whole = data.draw(st.sampled_from(FILES[provider]))
    cuts = data.draw(st.lists(st.tuples(st.integers(0, len(whole)), st.booleans()), max_size=6))
    once, reported_once = asyncio.run(_rows_after(provider, name, whole, ()))
    often, reported = asyncio.run(_rows_after(provider, name, whole, sorted(cuts)))
    assert often == once
    assert _tokens(reported) == _tokens(reported_once)


@pytest.mark.parametrize("provider", FILES)
def test_a_file_may_be_taken_to_be_at_rest_after_any_line(provider: str) -> None:
    for name, whole in FILES[provider]:
        once, _ = asyncio.run(_rows_after(provider, name, whole, ()))
        ends = [match.end() for match in re.finditer(rb"\n", whole)]
        often, _ = asyncio.run(_rows_after(provider, name, whole, [(end, True) for end in ends]))
        assert often == once


async def test_a_run_that_was_ended_while_it_was_silent_goes_on_with_all_its_tokens(tmp_path: Path) -> None:
    talk = Transcript()
    talk.user("Go")
    talk.call("Bash", {"command": "make"}, id="msg_1")
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(b"\n".join(talk.lines) + b"\n")
    async with MemoryJournal() as journal:
        await _import(journal, "claude", path, at_rest=True)
        (session,) = await journal.sessions()
        assert session.status == "interrupted"
        talk.result("done")
        talk.text("Built.", id="msg_2")
        path.write_bytes(b"\n".join(talk.lines) + b"\n")
        report = await _import(journal, "claude", path, at_rest=False)
        assert not await maintenance.verify(journal)
        (session,) = await journal.sessions()
        rows = await journal.rows(session.id)
    assert (session.status, session.runs) == ("success", 1)
    (run,) = rows.runs
    assert run.usage is not None
    assert (run.usage.input_tokens, run.usage.output_tokens) == (20, 10)
    assert report.amounts.input_tokens == 10  # the other ten were reported before
    assert {call.run_id for call in rows.tool_calls} == {message.run_id for message in rows.messages} == {run.id}


async def test_an_older_copy_that_was_imported_first_does_not_cost_tokens(tmp_path: Path) -> None:
    talk = Transcript()
    for number in range(3):
        talk.user(f"Prompt {number}")
        talk.call("Bash", {"command": "ls"}, f"toolu_{number}", id=f"msg_a{number}")
        talk.result("a", None, f"toolu_{number}")
        talk.text("Done.", id=f"msg_b{number}")
    copies = [tmp_path / folder / f"{SESSION}.jsonl" for folder in ("backup", "projects")]
    for path, count in zip(copies, (6, len(talk.lines)), strict=True):
        path.parent.mkdir()
        path.write_bytes(b"\n".join(talk.lines[:count]) + b"\n")
    sums = []
    for order in (copies, [copies[1], copies[0]], [*copies, copies[0]], copies[1:]):
        async with MemoryJournal() as journal:
            for path in order:
                os.utime(path)
                await _import(journal, "claude", path, at_rest=True)
            assert not await maintenance.verify(journal)
            (session,) = await journal.sessions()
            rows = await journal.rows(session.id)
            sums.append((session.status, [run.usage and run.usage.input_tokens for run in rows.runs]))
    assert sums == [("success", [20, 20, 20])] * 4


# -- real files

CORPUS = Path(os.environ.get("DRAGOMAN_CORPUS") or "corpus")
# The smaller ones: each is read several times.
REAL = [path for path in sorted(CORPUS.glob("**/*.jsonl")) if path.stat().st_size < 100_000]


@pytest.mark.skipif(not REAL, reason="no transcripts: DRAGOMAN_CORPUS names the folder that has them")
def test_imports_of_prefixes_of_real_files_equal_one_import_of_the_whole() -> None:
    rng = random.Random(16)
    count = 0
    for path in REAL:
        provider = detect_provider(path)
        if provider is None:
            continue
        count += 1
        whole = path.read_bytes()
        ends = [match.end() for match in re.finditer(rb"\n", whole)] or [len(whole)]
        steps = sorted((rng.choice(ends), rng.random() < 0.8) for _ in range(4))
        once, _ = asyncio.run(_rows_after(provider, path.name, whole, ()))
        often, _ = asyncio.run(_rows_after(provider, path.name, whole, steps))
        assert often == once, path
    assert count > 10
