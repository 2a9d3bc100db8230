"""Imports of a file that grows: however often it was imported on the way, and whether its runs seemed to be over or
not, the rows are those of one import of the whole file."""

from __future__ import annotations

import asyncio
import itertools
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

from dragoman.clock import SystemClock
from dragoman.journal import maintenance
from dragoman.journal.markdown import session_markdown
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import SessionRows
from dragoman.journal.sqlite import MemoryJournal
from dragoman.journal.usage import sum_usage, sum_usage_by, usage_of_sessions
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.discover import detect_provider
from dragoman.translate.ingest.dedup import imported_session_id
from dragoman.translate.ingest.folder_watch import folders_at
from dragoman.translate.ingest.importer import Importer, summarize_import
from dragoman.translate.ingest.report import AT_REST_S, Amounts, ImportedFile
from dragoman.translate.ingest.watcher import Watcher
from dragoman.translate.translator import get_provider
from translate import codex_talk
from translate.claude_talk import SESSION, Transcript
from translate.test_claude_properties import DATA as CLAUDE
from translate.test_codex_properties import TRANSCRIPTS
from translate.watched import UNTOLD, append


def _without_times() -> bytes:
    transcript = Transcript(timestamp=None)
    for number in range(2):
        transcript.user(f"Prompt {number}")
        transcript.call("Bash", {"command": "ls"}, f"toolu_{number}", id=f"msg_a{number}")
        transcript.result("a", None, f"toolu_{number}")
        transcript.text("Done.", id=f"msg_b{number}")
    return b"".join(line + b"\n" for line in transcript.lines)


FILES = {
    "claude": [(f"{SESSION}.jsonl", CLAUDE), (f"{SESSION}.jsonl", _without_times())],
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


_file_times = itertools.count(1_800_000_000)


def _write(path: Path, data: bytes) -> None:
    """Write the file; it is newer each time."""
    path.write_bytes(data)
    modified = next(_file_times)
    os.utime(path, (modified, modified))


def _found(provider: str, path: Path) -> Found:
    stat = path.stat()
    return Found(provider, path, stat.st_size, stat.st_mtime)


async def _import(journal: Journal, provider: str, path: Path, *, at_rest: bool) -> ImportedFile:
    found = _found(provider, path)
    now = found.modified + (2 * AT_REST_S if at_rest else 0.0)
    return await Importer(journal, clock=lambda: now).import_file(found)


async def _rows_after(
    provider: str, name: str, data: bytes, steps: Sequence[tuple[int, bool]], *, verify: bool = True
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
                assert not verify or not await maintenance.verify(journal)
            return await _rows_of_all(journal), reported


async def _rows_of_all(journal: Journal) -> dict[str, Any]:
    sessions = await journal.sessions()
    return {one.id: _rows_without_positions(await journal.rows(one.id)) for one in sessions}


def _tokens(amounts: Amounts) -> tuple[int, int, int]:
    return amounts.input_tokens, amounts.cached_tokens, amounts.output_tokens


@pytest.mark.slow
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


async def test_a_file_without_times_has_an_unknown_time(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    _write(path, _without_times())
    async with MemoryJournal() as journal:
        await _import(journal, "claude", path, at_rest=True)
        (session,) = await journal.sessions()
        rows = await journal.rows(session.id)
        assert (session.created, session.updated, rows.runs[0].time, rows.messages[0].time) == (0.0,) * 4
        summaries = await journal.summaries([session.id])
        (by_day,) = sum_usage_by(usage_of_sessions([session], summaries, cumulative_agents=()), "day")
        assert by_day.key is None
        assert "began: unknown time" in "".join(session_markdown(rows))


async def test_a_record_without_a_time_has_that_of_the_one_before(tmp_path: Path) -> None:
    transcript = codex_talk.Transcript()
    transcript.run()
    path = tmp_path / codex_talk.NAME
    _write(path, b"weather\n" + b"".join(line + b"\n" for line in transcript.lines))
    async with MemoryJournal() as journal:
        await _import(journal, "codex", path, at_rest=True)
        (first, *others) = (await journal.read(imported_session_id("codex", codex_talk.THREAD))).entries
        (weather,) = [entry for entry in others if b"weather" in entry.frame]
        assert weather.at == first.at > 0


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


# -- several files of one session


def _rolled_back_thread() -> dict[str, bytes]:
    """The files of a thread that was rolled back twice, the first time in the middle of a run."""
    first = codex_talk.Transcript()
    first.run("One")
    first.started()
    first.prompt("Two")
    first.tokens(300, 100)
    files = {codex_talk.NAME: first.lines}
    for number in (1, 2):
        base = {"thread_id": codex_talk.THREAD, "end_ordinal_exclusive": 6, "end_byte_offset": 1300}
        part = codex_talk.Transcript(history_base=base, timestamp=f"2026-04-11T2{number}:30:03.000Z")
        part.run(f"Instead {number}")
        rollback_id = f"019d7e40-7150-7df3-b034-a8421746ef8{number}"
        files[f"rollout-2026-04-11T2{number}-30-03-{codex_talk.THREAD}_{rollback_id}.jsonl"] = [
            line.replace(b'"2026-04-11T20:', b'"2026-04-11T2%d:' % number) for line in part.lines
        ]
    return {name: b"".join(line + b"\n" for line in lines) for name, lines in files.items()}


@pytest.mark.parametrize("at_rest", [True, False])
async def test_the_files_of_a_thread_may_be_imported_in_any_order(tmp_path: Path, at_rest: bool) -> None:
    files = _rolled_back_thread()
    results = []
    for number, order in enumerate(itertools.permutations(files)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in files.items():
            _write(folder / name, data)
        async with MemoryJournal() as journal:
            for name in order:
                report = await _import(journal, "codex", folder / name, at_rest=at_rest)
                assert not report.failed, report.skipped
            assert not await maintenance.verify(journal)
            results.append(await _rows_of_all(journal))
    ((session_id, rows),) = results[0].items()
    assert [run["status"] for run in rows["runs"]] == ["success", "interrupted", "success", "success"]
    texts = [message["text"] for message in rows["messages"] if message["kind"] == "user"]
    assert texts == ["One", "Two", "Instead 1", "Instead 2"]
    assert results == [{session_id: rows}] * 6


async def test_files_that_are_imported_with_a_later_one_are_reported_once(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in _rolled_back_thread()]
    for path, data in zip(paths, _rolled_back_thread().values(), strict=True):
        _write(path, data)
    sums = []
    for chosen in (paths, paths[::-1], paths[2:]):
        async with MemoryJournal() as journal:
            reports = await Importer(journal).import_all([_found("codex", path) for path in chosen])
            done = await summarize_import(journal, reports)
            assert (done.files, done.new + done.grown) == (3, 1)
            sums.append(done.amounts)
    assert sums[0] == sums[1] == sums[2]
    assert sums[0].runs == 4


# -- real files

CORPUS = Path(os.environ.get("DRAGOMAN_CORPUS") or "corpus")
SEED = int(os.environ.get("DRAGOMAN_SEED", "16"))
ROUNDS = int(os.environ.get("DRAGOMAN_ROUNDS", "1"))  # for each real file

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="no transcripts: DRAGOMAN_CORPUS names the folder that has them"
)


def _real_files(max_bytes: int = 2**40) -> list[tuple[str, Path]]:
    """The transcripts of the corpus with their providers."""
    found = [(path, detect_provider(path)) for path in sorted(CORPUS.glob("**/*.jsonl"))]
    return [(provider, path) for path, provider in found if provider is not None and path.stat().st_size < max_bytes]


def _random_steps(rng: random.Random, whole: bytes) -> list[tuple[int, bool]]:
    """Return the sizes with which the file is imported, ends of lines or not, and whether it is at rest then."""
    ends = [match.end() for match in re.finditer(rb"\n", whole)] or [len(whole)]
    sizes = [rng.choice(ends) if rng.random() < 0.5 else rng.randrange(len(whole) + 1) for _ in range(4)]
    return [(size, rng.random() < 0.7) for size in sorted(sizes)]


@pytest.mark.slow
@needs_corpus
def test_imports_of_prefixes_of_real_files_equal_one_import_of_the_whole() -> None:
    rng = random.Random(SEED)
    files = _real_files(max_bytes=100_000)  # each is read several times
    for provider, path in files:
        whole = path.read_bytes()
        once, _ = asyncio.run(_rows_after(provider, path.name, whole, ()))
        often, _ = asyncio.run(_rows_after(provider, path.name, whole, _random_steps(rng, whole)))
        assert often == once, path
    assert len(files) > 10


@needs_corpus
@pytest.mark.slow
@pytest.mark.timeout(900)  # for each round, some minutes on a busy machine
@pytest.mark.parametrize("reader", ["import", "watch"])
def test_any_real_file_may_be_read_in_any_parts(reader: str) -> None:
    rng = random.Random(SEED)
    rows_after = _rows_after if reader == "import" else _rows_after_watching
    count = 0
    differences = []
    for provider, path in _real_files():
        whole = path.read_bytes()
        name = path.name if get_provider(provider).reads(path) else f"rollout-{path.name}"
        once, reported_once = asyncio.run(_rows_after(provider, name, whole, (), verify=False))
        for _ in range(ROUNDS):
            steps = _random_steps(rng, whole)
            often, reported = asyncio.run(rows_after(provider, name, whole, steps, verify=False))
            count += 1
            if often != once or (reported is not None and _tokens(reported) != _tokens(reported_once)):
                differences.append((str(path), steps))
    print(f"{count} files were read in parts by {reader}")
    assert not differences
    assert count > 100


@needs_corpus
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_real_files_may_be_imported_in_any_order() -> None:
    rng = random.Random(SEED)
    files = [_found(provider, path) for provider, path in _real_files()]
    later = max(file.modified for file in files) + 2 * AT_REST_S
    results = []
    for _ in range(3):
        async with MemoryJournal() as journal:
            await Importer(journal, clock=lambda: later).import_all(files)
            results.append((await _rows_of_all(journal), await _usage_of_all(journal)))
        rng.shuffle(files)
    (rows, usage), *others = results
    for other_rows, other_usage in others:
        assert [key for key in rows if other_rows.get(key) != rows[key]] == []
        assert (len(other_rows), other_usage) == (len(rows), usage)


async def _usage_of_all(journal: Journal) -> dict[str, int | None]:
    sessions = await journal.sessions()
    summaries = await journal.summaries([session.id for session in sessions])
    return sum_usage(usage_of_sessions(sessions, summaries, cumulative_agents=())).figures


async def _rows_after_watching(
    provider: str, name: str, data: bytes, steps: Sequence[tuple[int, bool]], *, verify: bool
) -> tuple[dict[str, Any], None]:
    """Write the file step by step in a folder that is watched; return its rows."""
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        clock = _ClockBehind(path)
        async with MemoryJournal() as journal:
            watcher = Watcher(journal, folders=folders_at([Path(folder)], provider), clock=clock, intervals=UNTOLD)
            async with watcher, asyncio.timeout(120):
                written = 0
                for size, at_rest in (*steps, (len(data), True)):
                    clock.seconds_behind = 0.0
                    append(path, data[written:size])
                    written = size
                    clock.seconds_behind = 2 * AT_REST_S if at_rest else 0.0
                    await _until_read(journal, written, finished=at_rest)
            return await _rows_of_all(journal), None


class _ClockBehind(SystemClock):
    """A clock that shows so many seconds after the last change of a file."""

    def __init__(self, path: Path) -> None:
        self.seconds_behind = 0.0
        self._path = path

    def time(self) -> float:
        return (self._path.stat().st_mtime if self._path.exists() else 0.0) + self.seconds_behind


async def _until_read(journal: Journal, size: int, *, finished: bool) -> None:
    async for _ in journal.changes():
        for position in await journal.transcript_positions():
            if position.size == size and (position.finished or not finished):
                return
