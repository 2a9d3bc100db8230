"""Importing transcripts: each record once, and one session for each conversation, in any circumstances."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from dragoman.errors import InputError
from dragoman.journal import maintenance, notes, transfer
from dragoman.journal.entry import Entry, read_message
from dragoman.journal.protocols import Connection, Journal, Process
from dragoman.journal.rows import Session
from dragoman.journal.sessions import top_level
from dragoman.journal.sqlite import MemoryJournal, SqliteJournal
from dragoman.journal.usage import sum_usage, usage_of_sessions
from dragoman.session.handle import read_handle
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.discover import detect_provider, find_transcripts, transcripts_at
from dragoman.translate.ingest import importer
from dragoman.translate.ingest.dedup import RAN_HERE, SESSION_DELETED, SESSION_OPEN, imported_session_id
from dragoman.translate.ingest.file_import import NO_CONVERSATION, QUIET_S, FileImport
from dragoman.translate.ingest.importer import NOT_A_TRANSCRIPT, Commits, Importer, summarize_import
from dragoman.translate.ingest.report import AT_REST_S, ImportedFile, is_at_work, summarize
from dragoman.wire.messages import Notification

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from journal.talk import Talk, all_entries
from translate import codex_talk
from translate.claude_talk import BEGAN, FOLDER, SESSION, Transcript
from translate.test_claude_properties import DATA

TIMEOUT_S = 60.0
OURS = imported_session_id("claude", SESSION)
CORPUS = Path(os.environ.get("DRAGOMAN_CORPUS") or "corpus")


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    opened: MemoryJournal | SqliteJournal
    opened = MemoryJournal() if request.param == "memory" else await SqliteJournal.open(tmp_path / "journal.db")
    async with opened:
        yield opened


def _talk(*prompts: str) -> Transcript:
    transcript = Transcript()
    for number, prompt in enumerate(prompts):
        transcript.user(prompt)
        transcript.call("Bash", {"command": "ls"}, f"toolu_{number}", id=f"msg_c{number}")
        transcript.result("a", None, f"toolu_{number}")
        transcript.text(f"Answer to {prompt}", id=f"msg_{number}")
    return transcript


def _written(path: Path, lines: Sequence[bytes], end: bytes = b"\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(lines) + end)
    return path


def _claude(folder: Path, lines: Sequence[bytes], name: str = f"{SESSION}.jsonl") -> Path:
    return _written(folder / ".claude" / "projects" / "-home-ada-proj" / name, lines)


async def _import(
    journal: Journal, *paths: Path, provider: str = "claude", later: float = 2 * AT_REST_S
) -> ImportedFile:
    """The last one's. `later`: how long after the files were written."""
    done: list[ImportedFile] = []
    for path in paths:
        stat = path.stat()
        taking = Importer(journal, clock=lambda at=stat.st_mtime: at + later)  # type: ignore[misc]
        done.append(await taking.import_file(Found(provider, path, stat.st_size, stat.st_mtime)))
    assert not await maintenance.verify(journal)
    return done[-1]


def _frame_keys(entries: Sequence[Entry]) -> list[tuple[str | None, str, bytes]]:
    return [(entry.session_id, entry.kind, entry.frame) for entry in entries]


# -- what comes in


async def test_a_transcript_becomes_a_session_like_any_other(journal: Journal, tmp_path: Path) -> None:
    done = await _import(journal, _claude(tmp_path, _talk("Go", "On").lines))
    (session,) = await journal.sessions()
    assert (session.id, session.agent, session.agent_session_id) == (OURS, "claude", SESSION)
    assert (session.cwd, session.prompt, session.runs, session.status) == (FOLDER, "Go", 2, "success")
    assert session.handle is not None
    handle = read_handle(session.handle)
    assert (handle.session_id, handle.agent, handle.agent_session_id, handle.cwd) == (OURS, "claude", SESSION, FOLDER)
    rows = await journal.rows(OURS)
    assert [row.text for row in rows.messages] == ["Go", "Answer to Go", "On", "Answer to On"]
    assert (done.new, done.grown, done.skipped, done.left) == ([OURS], [], None, 0)
    assert (done.amounts.messages, done.amounts.tool_calls, done.amounts.runs) == (4, 2, 2)
    assert (done.amounts.input_tokens, done.amounts.output_tokens) == (40, 20)
    entries = await all_entries(journal)
    assert {entry.origin for entry in entries if entry.kind != "_dragoman/session"} == {"import"}
    assert [entry.n for entry in entries] == list(range(1, len(entries) + 1)) == list(range(1, done.frames + 1))


async def test_a_sub_agent_is_a_session_of_its_own_that_only_its_agent_continues(
    journal: Journal, tmp_path: Path
) -> None:
    transcript = Transcript(isSidechain=True, agentId="a1")
    transcript.user("Look!")
    transcript.text("Seen.")
    await _import(journal, _claude(tmp_path, transcript.lines, "agent-a1.jsonl"), _claude(tmp_path, _talk("Go").lines))
    sessions = {one.agent_session_id: one for one in await journal.sessions()}
    assert set(sessions) == {"a1", SESSION}
    assert sessions["a1"].id == imported_session_id("claude", "a1")
    assert sessions["a1"].handle is None


async def test_unknown_records_are_imported_and_counted(journal: Journal, tmp_path: Path) -> None:
    transcript = _talk("Go")
    transcript.bare("weather", sky="blue")
    transcript.lines.append(b"no JSON")
    path = _claude(tmp_path, transcript.lines)
    done = await _import(journal, path)
    assert done.unknown == {"weather": 1, "unreadable": 1}
    assert [entry.kind for entry in await all_entries(journal, OURS)].count("_native/claude") == 2
    transcript.user("More")
    _claude(tmp_path, transcript.lines)
    assert (await _import(journal, path)).unknown == {}


async def test_frames_before_the_session_are_added_after_its_opening(journal: Journal, tmp_path: Path) -> None:
    transcript = codex_talk.Transcript(begun=False)
    transcript.lines.append(b"no JSON")
    transcript.began()
    transcript.run()
    path = _written(tmp_path / codex_talk.NAME, transcript.lines)
    await _import(journal, path, provider="codex")
    kinds = [entry.kind for entry in await all_entries(journal)]
    assert kinds[:3] == ["_dragoman/session", "session/new", "_native/codex"]


async def test_a_file_without_a_conversation_makes_no_session(journal: Journal, tmp_path: Path) -> None:
    path = _written(tmp_path / "x.jsonl", [b'{"type":"summary","summary":"Of another","leafUuid":"x"}', b"{}"])
    done = await _import(journal, path)
    assert (done.skipped, done.unknown) == (NO_CONVERSATION, {"unreadable": 1})
    assert not await journal.sessions()


async def test_a_session_is_imported_with_its_first_message(journal: Journal, tmp_path: Path) -> None:
    transcript = codex_talk.Transcript()
    path = _written(tmp_path / codex_talk.NAME, transcript.lines)
    assert (await _import(journal, path, provider="codex")).skipped == NO_CONVERSATION
    assert not await journal.sessions()
    transcript.run()
    done = await _import(journal, _written(path, transcript.lines), provider="codex")
    assert (len(done.new), done.skipped) == (1, None)
    assert [entry.kind for entry in await all_entries(journal)][:2] == ["_dragoman/session", "session/new"]


async def test_a_file_that_cannot_be_read_is_skipped_with_the_reason(journal: Journal, tmp_path: Path) -> None:
    gone = await Importer(journal).import_file(Found("claude", tmp_path / "gone.jsonl", 0, 0.0))
    assert gone.skipped == "cannot be read: No such file or directory"


def _compressed(folder: Path) -> Path:
    transcript = codex_talk.Transcript()
    transcript.run()
    path = folder / f"{codex_talk.NAME}.zst"
    path.write_bytes(zstd.compress(b"\n".join(transcript.lines) + b"\n"))
    return path


async def test_a_compressed_file_comes_in_as_any_other(journal: Journal, tmp_path: Path) -> None:
    done = await _import(journal, _compressed(tmp_path), provider="codex")
    assert (done.amounts.messages, done.amounts.runs, done.skipped, done.left) == (2, 1, None, 0)


async def test_a_half_written_compressed_file_is_imported_when_it_is_complete(journal: Journal, tmp_path: Path) -> None:
    path = _compressed(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    first = await _import(journal, path, provider="codex", later=0.0)
    assert first.skipped in (None, NO_CONVERSATION)
    path.write_bytes(whole)
    await _import(journal, path, provider="codex")
    assert [one.runs for one in await journal.sessions()] == [1]


async def test_a_damaged_compressed_file_is_skipped_with_the_reason(journal: Journal, tmp_path: Path) -> None:
    path = _written(tmp_path / f"{codex_talk.NAME}.zst", [b"no zstd at all"])
    assert ((await _import(journal, path, provider="codex")).skipped or "").startswith("it is damaged")


async def test_without_zstd_a_compressed_file_is_skipped_with_the_remedy(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _compressed(tmp_path)
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    done = await _import(journal, path, provider="codex")
    assert done.skipped == "it is compressed; to read it: pip install 'dragoman[zstd]'"


async def test_a_name_that_is_no_utf_8_does_no_harm(journal: Journal, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    path = _claude(folder, _talk("Go").lines)
    assert (await _import(journal, path)).new == [OURS]
    assert (await _import(journal, path)).frames == 0


# -- each record once


async def test_a_second_import_brings_nothing_and_does_not_open_the_file(journal: Journal, tmp_path: Path) -> None:
    path = _claude(tmp_path, _talk("Go").lines)
    await _import(journal, path)
    before = await all_entries(journal)
    stat = path.stat()
    path.write_bytes(b"x" * stat.st_size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    done = await _import(journal, path)
    assert (done.frames, done.skipped, done.unknown) == (0, None, {})
    assert await all_entries(journal) == before


async def test_only_appended_records_are_imported(journal: Journal, tmp_path: Path) -> None:
    path = _claude(tmp_path, _talk("Go").lines)
    first = await _import(journal, path)
    _claude(tmp_path, _talk("Go", "On").lines)
    second = await _import(journal, path)
    assert (second.new, second.grown, second.amounts.messages, second.amounts.runs) == ([], [OURS], 2, 1)
    _claude(tmp_path / "whole", _talk("Go", "On").lines)
    async with MemoryJournal() as whole:
        await _import(whole, _claude(tmp_path / "whole", _talk("Go", "On").lines))
        assert _frame_keys(await all_entries(whole)) == _frame_keys(await all_entries(journal))
    assert first.frames + second.frames == len(await all_entries(journal))


@pytest.mark.parametrize("how", ["moved", "copied", "replaced", "truncated"])
async def test_a_moved_or_replaced_file_adds_nothing_twice(journal: Journal, tmp_path: Path, how: str) -> None:
    lines = _talk("Go", "On").lines
    path = _claude(tmp_path, lines)
    await _import(journal, path)
    before = _frame_keys(await all_entries(journal))
    other = tmp_path / "elsewhere" / path.name
    other.parent.mkdir()
    if how == "moved":
        path.rename(other)
    elif how == "copied":
        shutil.copy(path, other)
    elif how == "replaced":
        path.unlink()
        other = _claude(tmp_path, lines)
    else:
        other = _claude(tmp_path, lines[:4])
    assert (await _import(journal, other)).frames == 0
    assert _frame_keys(await all_entries(journal)) == before


async def test_half_a_last_line_is_left_for_the_next_time(journal: Journal, tmp_path: Path) -> None:
    lines = _talk("Go").lines
    whole = b"\n".join(lines) + b"\n"
    path = _claude(tmp_path, lines)
    path.write_bytes(whole[:-20])
    done = await _import(journal, path, later=0.0)
    assert done.left == len(lines[-1]) + 1 - 20
    assert not done.unknown
    path.write_bytes(whole)
    done = await _import(journal, path, later=0.0)
    assert (done.left, done.amounts.messages) == (0, 1)


async def test_a_last_line_without_a_newline_counts_when_it_is_whole(journal: Journal, tmp_path: Path) -> None:
    lines = _talk("Go").lines
    path = _claude(tmp_path, lines)
    path.write_bytes(b"\n".join(lines))
    assert (await _import(journal, path)).amounts.messages == 2
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert (await _import(journal, path)).frames == 0


# -- many files


@pytest.fixture(params=["here", "apart"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read small files in this process, or in the worker as if they were large."""
    monkeypatch.setattr(importer, "is_worker_worthwhile", lambda _: request.param == "apart")
    monkeypatch.setattr(importer, "_MIN_WORKER_FILE_BYTES", 0)


@pytest.mark.usefixtures("where")
async def test_all_files_come_in_as_one_after_the_other_would(journal: Journal, tmp_path: Path) -> None:
    names = [f"{SESSION[:-1]}{number}" for number in range(5)]
    paths = [
        _claude(
            tmp_path, [line.replace(SESSION.encode(), name.encode()) for line in _talk("Go").lines], f"{name}.jsonl"
        )
        for name in names
    ]
    done: list[str] = []
    taken = await Importer(journal).import_all(
        transcripts_at(paths, "claude"), on_done=lambda one, came: done.append(f"{one.path.stem} {came.frames}")
    )
    assert done == [f"{Path(one.path).stem} {one.frames}" for one in taken]
    assert [one.path for one in taken] == [str(one.path) for one in transcripts_at(paths)]
    assert {one.agent_session_id for one in await journal.sessions()} == set(names)
    assert not await maintenance.verify(journal)
    assert sum(one.frames for one in await Importer(journal).import_all(transcripts_at(paths, "claude"))) == 0


@pytest.mark.usefixtures("where")
async def test_two_files_of_one_session_bring_each_record_once(journal: Journal, tmp_path: Path) -> None:
    """Though the second is read before the first is committed."""
    first = _claude(tmp_path, _talk("Go").lines)
    second = _claude(tmp_path / "copy", _talk("Go", "On").lines)
    os.utime(first, (1e9, 1e9))
    os.utime(second, (1e9 + 1, 1e9 + 1))
    taken = await Importer(journal).import_all(transcripts_at([first, second, first], "claude"))
    assert [(one.new, one.grown) for one in taken] == [([OURS], []), ([], [OURS])]
    assert [row.text for row in (await journal.rows(OURS)).messages] == ["Go", "Answer to Go", "On", "Answer to On"]
    assert not await maintenance.verify(journal)


async def test_a_file_is_read_while_the_one_before_is_committed(tmp_path: Path) -> None:
    other = f"{SESSION[:-1]}9"
    lines = [line.replace(SESSION.encode(), other.encode()) for line in _talk("On").lines]
    paths = [_claude(tmp_path, _talk("Go").lines), _claude(tmp_path, lines, f"{other}.jsonl")]
    async with MemoryJournal() as journal:
        append, appended, both = journal.append, [], asyncio.Event()

        async def slow(entries: Sequence[Entry], *more: Any, **named: Any) -> str:
            appended.append(entries)
            if len(appended) == 2:
                both.set()
            await both.wait()
            return await append(entries, *more, **named)

        journal.append = slow  # type: ignore[method-assign]
        async with asyncio.timeout(TIMEOUT_S):
            taken = await Importer(journal).import_all(transcripts_at(paths, "claude"))
        assert [len(one.new) for one in taken] == [1, 1]


async def test_no_file_is_read_while_too_many_bytes_wait_for_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "_MAX_BYTES_AHEAD", 0)
    names = [f"{SESSION[:-1]}{number}" for number in range(3)]
    talk = _talk("Go").lines
    paths = [
        _claude(tmp_path, [line.replace(SESSION.encode(), name.encode()) for line in talk], f"{name}.jsonl")
        for name in names
    ]
    async with MemoryJournal() as journal:
        append, over = journal.append, Commits.over
        started = running = most_running = 0
        next_file_waits = asyncio.Event()

        async def wait_for_commits(self: Commits) -> None:
            next_file_waits.set()
            await over(self)

        async def slow(*entries: Any, **named: Any) -> str:
            nonlocal started, running, most_running
            started, running = started + 1, running + 1
            most_running = max(most_running, running)
            if started < len(names):
                await next_file_waits.wait()
                next_file_waits.clear()
            running -= 1
            return await append(*entries, **named)

        monkeypatch.setattr(Commits, "over", wait_for_commits)
        journal.append = slow  # type: ignore[method-assign]
        async with asyncio.timeout(TIMEOUT_S):
            reports = await Importer(journal).import_all(transcripts_at(paths, "claude"))
        assert [len(report.new) for report in reports] == [1, 1, 1]
        assert most_running == 1


@pytest.mark.usefixtures("where")
async def test_a_file_whose_session_is_open_does_not_block_the_others(journal: Journal, tmp_path: Path) -> None:
    path = _claude(tmp_path, _talk("Go").lines)
    await _import(journal, path)
    await journal.heartbeat(Process(id="p", host="h", pid=1, started="", heartbeat=0.0))
    await journal.claim(OURS, "p", is_alive=lambda _: True)
    _claude(tmp_path, _talk("Go", "On").lines)
    other = f"{SESSION[:-1]}9"
    lines = [line.replace(SESSION.encode(), other.encode()) for line in _talk("On").lines]
    files = [Found("claude", one, 0, 0.0) for one in (path, _claude(tmp_path, lines, f"{other}.jsonl"))]
    taken = await Importer(journal).import_all(files)
    assert [(one.skipped, one.passing, len(one.new)) for one in taken] == [
        (SESSION_OPEN, True, 0),
        (None, False, 1),
    ]


@pytest.mark.usefixtures("where")
async def test_the_reason_to_skip_a_file_is_reported(journal: Journal, tmp_path: Path) -> None:
    await _ran(journal)
    files = [
        _claude(tmp_path, _talk("Go").lines),
        _written(tmp_path / "empty.jsonl", [b"{}"]),
        tmp_path / "gone.jsonl",
    ]
    taken = await Importer(journal).import_all([Found("claude", path, 0, 0.0) for path in files])
    assert [one.skipped for one in taken] == [
        RAN_HERE,
        NO_CONVERSATION,
        "cannot be read: No such file or directory",
    ]
    assert [one.path for one in taken] == [str(path) for path in files]


@pytest.mark.usefixtures("where")
async def test_an_import_can_be_stopped_while_it_commits(tmp_path: Path) -> None:
    path = _claude(tmp_path, _talk("Go").lines)
    async with MemoryJournal() as journal:
        begun = asyncio.Event()

        async def never(*_: Any, **__: Any) -> str:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        journal.append = never  # type: ignore[method-assign]
        taking = asyncio.create_task(Importer(journal).import_all(transcripts_at([path], "claude")))
        async with asyncio.timeout(TIMEOUT_S):
            await begun.wait()
        taking.cancel()
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.wait([taking])
        assert taking.cancelled()


async def test_a_title_that_is_given_later_comes_in_and_nothing_else(journal: Journal, tmp_path: Path) -> None:
    transcript = codex_talk.Transcript()
    transcript.run()
    path = _written(tmp_path / "sessions" / "2026" / codex_talk.NAME, transcript.lines)
    await _import(journal, path, provider="codex")
    _written(tmp_path / "session_index.jsonl", [msgspec.json.encode({"id": codex_talk.THREAD, "thread_name": "Named"})])
    transcript.run("More", "More.")
    _written(path, transcript.lines)
    await _import(journal, path, provider="codex")
    rows = await journal.rows(imported_session_id("codex", codex_talk.THREAD))
    assert [row.text for row in rows.messages] == ["Go", "Done.", "More", "More."]
    assert [row.title for row in rows.sessions] == ["Named"]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@drawn(st.lists(st.tuples(st.integers(0, len(DATA)), st.booleans()), max_size=6))
def test_any_split_of_a_file_into_appends_brings_each_record_once(cuts: list[tuple[int, bool]]) -> None:
    """A run that was ended too early is not repeated, and no later run is lost."""

    async def run(steps: Sequence[tuple[int, bool]], folder: Path) -> list[tuple[str | None, str, bytes]]:
        path = _claude(folder, [])
        async with MemoryJournal() as journal:
            for place, at_rest in steps:
                path.write_bytes(DATA[:place])
                await _import(journal, path, later=2 * AT_REST_S if at_rest else 0.0)
            return _frame_keys(await all_entries(journal))

    with TemporaryDirectory() as name:
        steps = sorted(cuts)
        end = (len(DATA), False)
        whole = asyncio.run(run([end], Path(name, "whole")))
        quiet = asyncio.run(run([*((place, False) for place, _ in steps), end], Path(name, "quiet")))
        assert quiet == whole
        ended = Counter(asyncio.run(run([*steps, end], Path(name, "ended"))))
        assert not Counter(whole) - ended
        more = [kind for _, kind, _ in (ended - Counter(whole)).elements()]
        # Ends of runs, and what is held back until its end is known.
        open_elsewhere = {"session/prompt", "user_message_chunk", "tool_call", "tool_call_update"}
        assert set(more) <= open_elsewhere


async def test_a_run_that_is_left_open_ends_when_the_file_is_at_rest(journal: Journal, tmp_path: Path) -> None:
    path = _claude(tmp_path, _talk("Go", "On").lines[:5])
    await _import(journal, path, later=1.0)
    assert (await journal.sessions())[0].status == "running"
    done = await _import(journal, path)
    assert (done.grown, done.frames) == ([OURS], 1)
    assert (await journal.sessions())[0].status == "interrupted"
    assert (await _import(journal, path)).frames == 0


async def test_a_file_that_was_brought_here_is_at_rest_by_its_own_times(journal: Journal, tmp_path: Path) -> None:
    lines = _talk("Go", "On").lines
    path = _claude(tmp_path, lines[:5])
    await _import(journal, path, later=120.0)  # it was written just now, and its records are of March
    assert (await journal.sessions())[0].status == "interrupted"
    assert (await _import(journal, path)).frames == 0
    while_it_worked = BEGAN + AT_REST_S / 2
    other = _claude(tmp_path, [line.replace(SESSION.encode(), b"other") for line in lines[:5]], "other.jsonl")
    os.utime(other, (while_it_worked, while_it_worked))
    await _import(journal, other, later=120.0)
    assert [one.status for one in await journal.sessions() if one.id != OURS] == ["running"]


async def test_a_file_that_was_brought_here_a_moment_ago_is_looked_at_once_more(
    journal: Journal, tmp_path: Path
) -> None:
    path = _claude(tmp_path, _talk("Go", "On").lines[:5])
    await _import(journal, path, later=1.0)
    assert (await journal.sessions())[0].status == "running"
    await _import(journal, path, later=2 * QUIET_S)
    assert (await journal.sessions())[0].status == "interrupted"


async def test_a_file_that_is_written_slowly_is_not_read_again_and_again(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _claude(tmp_path, _talk("Go", "On").lines[:5])
    os.utime(path, (BEGAN + 10.0, BEGAN + 10.0))
    read: list[Path] = []
    reads = FileImport.read

    async def spy(self: FileImport[Any], path: Path, transcript: Any) -> None:
        read.append(path)
        await reads(self, path, transcript)

    monkeypatch.setattr(FileImport, "read", spy)
    taking = Importer(journal, clock=lambda: BEGAN + 10.0 + 2 * QUIET_S)
    for _ in range(5):
        await taking.import_file(Found("claude", path, 1, BEGAN))
    assert 1 <= len(read) <= 2
    assert (await journal.sessions())[0].status == "running"


async def test_a_session_of_another_kind_of_machine_cannot_be_continued(journal: Journal, tmp_path: Path) -> None:
    talk = Transcript(cwd="D:\\work")
    talk.user("Go")
    talk.text("Gone.")
    await _import(journal, _claude(tmp_path, talk.lines))
    (session,) = await journal.sessions()
    assert (session.cwd, session.handle) == ("D:\\work", None)


def test_an_agent_is_at_work_while_its_transcript_says_so_and_is_not_old() -> None:
    session = Session(id="one", imported=True, status="running", updated=1000.0)
    assert is_at_work(session, 1000.0 + AT_REST_S)
    assert not is_at_work(session, 1001.0 + AT_REST_S)
    assert not is_at_work(msgspec.structs.replace(session, status="success"), 1000.0)
    assert not is_at_work(msgspec.structs.replace(session, imported=False), 1000.0)


def _steps(*arguments: str, stop_after: int | None) -> int:
    """Run the process, kill it after `stop_after` lines, and return how many lines it printed."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "translate.import_process", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        text_ = 0
        for _ in process.stdout:
            text_ += 1
            if text_ == stop_after:
                process.kill()
                break
        process.wait(TIMEOUT_S)
    return text_


@pytest.mark.slow
@pytest.mark.parametrize(("where", "seed"), [("here", 1), ("apart", 2)])
async def test_killed_at_any_moment_it_brings_each_record_once(tmp_path: Path, where: str, seed: int) -> None:
    for number in range(4 if where == "here" else 10):
        prompts = [f"{number} {turn}" for turn in range(12)]
        session = f"{SESSION[:-1]}{number}"
        lines = [line.replace(SESSION.encode(), session.encode()) for line in _talk(*prompts).lines]
        os.utime(_claude(tmp_path, lines, f"{session}.jsonl"), (1e9 + number, 1e9 + number))
    folder = str(tmp_path / ".claude")
    steps = _steps(str(tmp_path / "whole.db"), folder, where, stop_after=None)
    assert steps >= 20
    chance = random.Random(seed)
    for _ in range(5):
        _steps(str(tmp_path / "killed.db"), folder, where, stop_after=chance.randint(1, steps // 3))
    _steps(str(tmp_path / "killed.db"), folder, where, stop_after=None)
    async with (
        await SqliteJournal.open(tmp_path / "whole.db") as whole,
        await SqliteJournal.open(tmp_path / "killed.db") as killed,
    ):
        assert _frame_keys(await all_entries(killed)) == _frame_keys(await all_entries(whole))
        assert list(await killed.transcript_positions()) == list(await whole.transcript_positions())
        assert not await maintenance.verify(killed)


async def test_two_imports_at_once_bring_each_record_once(tmp_path: Path) -> None:
    path = _claude(tmp_path, _talk(*map(str, range(30))).lines)
    found = Found("claude", path, path.stat().st_size, path.stat().st_mtime)
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as one,
        await SqliteJournal.open(tmp_path / "journal.db") as two,
    ):
        done = await asyncio.gather(Importer(one).import_file(found), Importer(two).import_file(found))
        assert sorted(bool(report.frames) for report in done) == [False, True]
        frames = [entry.frame for entry in await all_entries(one)]
        assert len(frames) == len(set(frames))
        assert not await maintenance.verify(one)


async def test_an_import_that_came_too_late_does_not_keep_the_next_one_from_going_on(
    journal: Journal, tmp_path: Path
) -> None:
    path = _claude(tmp_path, _talk("Go").lines)
    found = Found("claude", path, path.stat().st_size, path.stat().st_mtime)
    late = Importer(journal)
    await late.import_file(Found("claude", tmp_path / "gone.jsonl", 0, 0.0))  # it has looked how far others are
    await late.import_file(Found("claude", _claude(tmp_path, [b"{}"], "empty.jsonl"), 0, 0.0))
    await _import(journal, path)
    assert (await late.import_file(found)).frames == 0
    _claude(tmp_path, _talk("Go", "On").lines)
    assert (await late.import_file(found)).skipped == "another import is reading it"
    assert (await late.import_file(found)).grown == [OURS]
    assert not await maintenance.verify(journal)


async def test_copies_imported_at_once_add_each_record_once(journal: Journal, tmp_path: Path) -> None:
    lines = _talk("Go", "On").lines
    paths = [_written(tmp_path / f"{number}" / f"{SESSION}.jsonl", lines) for number in range(5)]
    found = [Found("claude", path, 0, 0.0) for path in paths]
    importer = Importer(journal)
    done = await asyncio.gather(*(importer.import_file(one) for one in [*found, found[0]]))
    assert [one.path for one in done] == [*map(str, paths), str(paths[0])]
    assert [bool(one.frames) for one in done] == [True, False, False, False, False, False]
    frames = [entry.frame for entry in await all_entries(journal)]
    assert len(frames) == len(set(frames))
    assert not await maintenance.verify(journal)


# -- one conversation, one session


async def _ran(journal: Journal, session_id: str = "s1", agent_session_id: str = SESSION) -> Talk:
    """Record the first four lines of the transcript as a session that Dragoman ran."""
    talk = await Talk.begin(journal, session_id, agent="claude", time=BEGAN - 1.5)
    opened = notes.SessionOpened(agent="claude", cwd=FOLDER, agent_session_id=agent_session_id)
    talk.note(opened)
    talk.turn("Go", "Answer")
    await talk.commit()
    return talk


async def test_a_session_that_dragoman_ran_is_not_doubled(journal: Journal, tmp_path: Path) -> None:
    await _ran(journal)
    before = await all_entries(journal)
    side = Transcript(isSidechain=True, agentId="a1")
    side.user("Look!")
    done = await _import(journal, _claude(tmp_path, _talk("Go").lines))
    assert done.skipped == RAN_HERE
    done = await _import(journal, _claude(tmp_path, side.lines, "agent-a1.jsonl"))
    assert (done.skipped or "").startswith(RAN_HERE)
    assert await all_entries(journal) == before


async def test_prompts_elsewhere_after_the_last_recorded_exchange_are_imported(
    journal: Journal, tmp_path: Path
) -> None:
    await _ran(journal)
    path = _claude(tmp_path, _talk("Go", "On").lines)
    done = await _import(journal, path)
    assert (done.skipped, done.new, done.grown) == (None, [], ["s1"])
    _claude(tmp_path, _talk("Go", "On", "And on").lines)
    assert (await _import(journal, path)).amounts.messages == 2
    assert not (await _import(journal, path)).frames
    assert [session.id for session in await journal.sessions()] == ["s1"]
    rows = await journal.rows("s1")
    words = ["Go", "Answer", "On", "Answer to On", "And on", "Answer to And on"]
    assert [message.text for message in rows.messages] == words
    assert [run.status for run in rows.runs] == ["success"] * 3
    assert not await maintenance.verify(journal)


async def test_a_session_imported_from_another_journal_is_not_repeated(journal: Journal, tmp_path: Path) -> None:
    """Make a journal in which Dragoman ran the session."""
    async with MemoryJournal() as other:
        await _ran(other)
        lines = [line async for line in transfer.export(other)]
    await transfer.import_lines(journal, lines, new_id=lambda: "taken over")
    before = await all_entries(journal)
    path = _claude(tmp_path, _talk("Go").lines)
    assert (await _import(journal, path)).skipped == RAN_HERE
    assert await all_entries(journal) == before
    _claude(tmp_path, _talk("Go", "On").lines)
    assert (await _import(journal, path)).amounts.messages == 2


async def test_a_sub_agent_started_elsewhere_afterwards_is_imported(journal: Journal, tmp_path: Path) -> None:
    await _ran(journal)
    side = Transcript(isSidechain=True, agentId="a2", timestamp="2026-03-01T10:00:09.000Z")
    side.user("Look!")
    done = await _import(journal, _claude(tmp_path, side.lines, "agent-a2.jsonl"))
    assert done.new == [imported_session_id("claude", "a2")]
    session = await journal.session(done.new[0])
    assert session is not None
    assert session.parent == "s1"


@pytest.mark.parametrize(("seconds", "comes"), [(1, False), (59, False), (61, True)])
async def test_a_prompt_without_an_answer_may_be_in_the_transcript_a_little_later(
    journal: Journal, tmp_path: Path, seconds: int, comes: bool
) -> None:
    """The agent may have died with it."""
    talk = await _ran(journal)
    talk.time = BEGAN + 4.5
    talk.prompt("On")
    await talk.commit()
    transcript = _talk("Go")
    at = datetime.fromtimestamp(talk.time + seconds, UTC)
    transcript.user("On", timestamp=at.isoformat())
    done = await _import(journal, _claude(tmp_path, transcript.lines))
    assert (done.grown == ["s1"], done.skipped) == (comes, None if comes else RAN_HERE)


async def test_a_session_that_begins_while_files_are_imported_is_not_doubled(journal: Journal, tmp_path: Path) -> None:
    other = SESSION.replace("1", "9")
    first = _claude(
        tmp_path, [line.replace(SESSION.encode(), other.encode()) for line in _talk("Go").lines], f"{other}.jsonl"
    )
    now = [first.stat().st_mtime]
    importer = Importer(journal, clock=lambda: now[0])
    await importer.import_file(Found("claude", first, 0, 0.0))
    await _ran(journal)
    path = _claude(tmp_path, _talk("Go").lines)
    os.utime(path, (now[0] + 5, now[0] + 5))
    now[0] += 6
    assert (await importer.import_file(Found("claude", path, 0, 0.0))).skipped == RAN_HERE


async def test_an_imported_session_that_dragoman_continued_is_not_doubled(journal: Journal, tmp_path: Path) -> None:
    path = _claude(tmp_path, _talk("Go").lines)
    await _import(journal, path)
    record = await maintenance.load_record(journal, OURS)
    await journal.register_connection(Connection(id="live", agent="claude", at=0.0))
    line = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"x","prompt":[]}}'
    entry = Entry("live", OURS, 1, 2e9, "client", "session/prompt", line)
    record.add(entry, read_message(entry))
    await journal.append([entry], [record.take()])
    before = await all_entries(journal)
    _claude(tmp_path, _talk("Go", "On").lines)
    assert (await _import(journal, path)).skipped == RAN_HERE
    assert await all_entries(journal) == before


async def test_a_session_that_a_process_has_open_is_left_to_it(journal: Journal, tmp_path: Path) -> None:
    path = _claude(tmp_path, _talk("Go").lines)
    await _import(journal, path)
    await journal.heartbeat(Process(id="p", host="h", pid=1, started="", heartbeat=0.0))
    await journal.claim(OURS, "p", is_alive=lambda _: True)
    before = await all_entries(journal)
    _claude(tmp_path, _talk("Go", "On").lines)
    assert (await _import(journal, path)).skipped == SESSION_OPEN
    assert await all_entries(journal) == before
    await journal.release(OURS, "p")
    assert (await _import(journal, path)).grown == [OURS]


@pytest.mark.parametrize("session", ["imported", "live", "rotated"])
async def test_a_deleted_session_stays_deleted(journal: Journal, tmp_path: Path, session: str) -> None:
    path = _claude(tmp_path, _talk("Go").lines)
    if session == "imported":
        await _import(journal, path)
        await journal.delete(OURS, at=1.0)
    else:
        talk = await _ran(journal)
        if session == "rotated":  # the agent gave it another id later on
            talk.note(notes.SessionOpened(agent="claude", cwd=FOLDER, agent_session_id="another"))
            await talk.commit()
        await journal.delete("s1", at=1.0)
    assert not await journal.transcript_positions()
    for lines in (_talk("Go").lines, _talk("Go", "On").lines):
        _claude(tmp_path, lines)
        assert (await _import(journal, path)).skipped == SESSION_DELETED
    assert not await journal.sessions()


async def test_the_note_on_an_imported_session_is_the_hosts(journal: Journal, tmp_path: Path) -> None:
    await _import(journal, _claude(tmp_path, _talk("Go").lines))
    first = (await all_entries(journal))[0]
    message = read_message(first)
    assert first.origin == "host"
    assert isinstance(message, Notification)
    assert isinstance(notes.read(message), notes.SessionOpened)


# -- which files there are


def test_the_files_of_a_provider_are_found_in_its_folders(tmp_path: Path) -> None:
    path = _claude(tmp_path, [b"{}"])
    _claude(tmp_path, [b"{}"], f"{SESSION}/tool-results/x.jsonl")
    _claude(tmp_path, [b"{}"], "notes.txt")
    assert [(one.provider, one.path, one.size) for one in find_transcripts("claude", {}, tmp_path)] == [
        ("claude", path, 3)
    ]
    assert find_transcripts("codex", {}, tmp_path) == []
    moved = {"CLAUDE_CONFIG_DIR": str(tmp_path / ".claude")}
    assert [one.path for one in find_transcripts("claude", moved, Path("/nowhere"))] == [path]


async def test_the_provider_of_a_file_is_detected_from_its_beginning(journal: Journal, tmp_path: Path) -> None:
    codex = codex_talk.Transcript()
    codex.run()
    paths = {
        "claude": _written(tmp_path / "1.jsonl", _talk("Go").lines),
        "codex": _written(tmp_path / "2.jsonl", codex.lines),
        None: _written(tmp_path / "3.jsonl", [b'{"type":"session","version":3}', b'{"type":"message"}']),
    }
    assert {detect_provider(path): path for path in paths.values()} == paths
    importer = Importer(journal)
    done = summarize([await importer.import_file(one) for one in transcripts_at([tmp_path])])
    assert (done.files, done.new) == (3, 2)
    assert list(done.skipped) == [NOT_A_TRANSCRIPT]
    again = summarize([await importer.import_file(one) for one in transcripts_at([tmp_path])])
    assert (again.frames, again.unchanged) == (0, 2)


def test_unknown_kinds_at_the_beginning_do_not_prevent_detection(tmp_path: Path) -> None:
    unknown = [b'{"type":"weather","sky":"blue"}'] * 60
    codex = codex_talk.Transcript()
    codex.run()
    assert detect_provider(_written(tmp_path / "1.jsonl", [*unknown, *_talk("Go").lines])) == "claude"
    assert detect_provider(_written(tmp_path / "2.jsonl", [*unknown, *codex.lines])) == "codex"


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        (
            "Qwen Code",
            '{"uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-11-15T06:27:01Z","type":"user",'
            '"cwd":"/home/ada","version":"0.24.4","message":{"role":"user","parts":[{"text":"Go"}]}}\n',
        ),
        ("Gemini CLI", '{\n  "sessionId": "s",\n  "projectHash": "h",\n  "messages": []\n}\n'),
        ("Gemini CLI", '{"sessionId":"s","projectHash":"h","startTime":"t","kind":"main"}\n'),
        ("OpenCode", '{\n  "info": {"id": "ses_1"},\n  "messages": []\n}\n'),
        ("Copilot CLI", '{"type":"session.start","data":{},"id":"e","timestamp":"t","parentId":null}\n'),
        ("pi", '{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/home/ada"}\n'),
        (
            "Claude Code's stream-json output",
            '{"type":"assistant","session_id":"s","message":{"role":"assistant","content":[]}}\n',
        ),
    ],
)
async def test_a_transcript_of_an_agent_that_cannot_be_read_is_left_out_by_name(
    agent: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text(text)
    assert detect_provider(path) is None
    async with MemoryJournal() as journal:
        done = await Importer(journal).import_file(Found("", path, 1, 1.0))
        assert not await journal.sessions()
    assert done.skipped == f"a transcript of {agent}, which cannot be read yet (supported: claude, codex)"
    with pytest.raises(InputError, match=f"is a transcript of {agent}, not of claude") as refused:
        transcripts_at([path], "claude")
    assert refused.value.guidance == "Supported: claude, codex."


async def test_a_damaged_line_does_not_prevent_detection(tmp_path: Path) -> None:
    first, *rest = _talk("Go").lines
    assert detect_provider(_written(tmp_path / "1.jsonl", [first, b'{"type":"us', *rest])) == "claude"


async def test_a_folder_that_may_not_be_looked_into_is_left_out_with_the_reason() -> None:
    async with MemoryJournal() as journal:
        with _nobody(), TemporaryDirectory() as name:
            home = Path(name)
            _claude(home, _talk("Go").lines)
            closed = home / ".claude" / "projects" / "closed"
            closed.mkdir(mode=0)
            for found in (
                find_transcripts("claude", {}, home),
                transcripts_at([home]),
                transcripts_at([home], "claude"),
            ):
                done = summarize([await Importer(journal).import_file(one) for one in found])
                assert done.skipped == {"cannot be read: Permission denied": [str(closed)]}
            closed.rmdir()
            assert len(await journal.sessions()) == 1


@contextmanager
def _nobody() -> Iterator[None]:
    """Root may look into everything; somebody else may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_folder_can_be_limited_to_one_provider(tmp_path: Path) -> None:
    codex = codex_talk.Transcript()
    codex.run()
    ours = _written(tmp_path / "mixed" / "1.jsonl", _talk("Go").lines)
    theirs = _written(tmp_path / "mixed" / "2.jsonl", codex.lines)
    assert [(one.provider, one.path) for one in transcripts_at([tmp_path], "claude")] == [("claude", ours)]
    assert [(one.provider, one.path) for one in transcripts_at([tmp_path], "codex")] == [("codex", theirs)]
    with pytest.raises(InputError, match=r"1\.jsonl is a transcript of claude, not of codex"):
        transcripts_at([ours], "codex")
    strange = _written(tmp_path / "strange.jsonl", [b'{"type":"weather"}'])
    assert [(one.provider, one.path) for one in transcripts_at([strange], "codex")] == [("codex", strange)]


# -- sessions that repeat others


async def test_a_session_resumed_under_another_id_shows_all_and_counts_once(journal: Journal, tmp_path: Path) -> None:
    original, resumed = _talk("Go", "On"), _talk("Go", "On")
    resumed.user("More")
    resumed.text("Gone.", id="msg_more")
    other = "22222222-2222-3333-4444-555555555555"
    paths = [_claude(tmp_path, original.lines), _claude(tmp_path, resumed.lines, f"{other}.jsonl")]
    reports = await Importer(journal).import_all(transcripts_at(paths))
    assert summarize(reports).amounts.input_tokens == 5 * 10
    sessions = await journal.sessions()
    assert sorted(session.runs for session in sessions) == [2, 3]
    summaries = await journal.summaries([session.id for session in sessions])
    whole = sum_usage(usage_of_sessions(sessions, summaries, cumulative_agents=()))
    assert (whole.runs, whole.figures["input_tokens"]) == (3, 5 * 10)


async def _tokens_in_usage(journal: Journal) -> tuple[int, int, int]:
    sessions = await journal.sessions()
    summaries = await journal.summaries([session.id for session in sessions])
    figures = sum_usage(usage_of_sessions(sessions, summaries, cumulative_agents=())).figures
    return figures["input_tokens"] or 0, figures["cached_tokens"] or 0, figures["output_tokens"] or 0


@pytest.mark.parametrize("order", list(permutations(["half", "whole", "fork", "fork of fork"])))
async def test_a_summary_has_the_tokens_by_which_the_usage_has_grown(
    journal: Journal, tmp_path: Path, order: tuple[str, ...]
) -> None:
    whole, fork, second_fork = _talk("Go", "On"), _talk("Go", "On"), _talk("Go", "On")
    for talk, number in ((fork, 0), (second_fork, 0), (second_fork, 1)):
        talk.user(f"More {number}")
        talk.text("Gone.", id=f"msg_more_{number}")
    files = {  # the first half ends within a run
        "half": (SESSION, whole.lines[: len(whole.lines) // 2 + 2]),
        "whole": (SESSION, whole.lines),
        "fork": ("22222222-2222-3333-4444-555555555555", fork.lines),
        "fork of fork": ("33333333-2222-3333-4444-555555555555", second_fork.lines),
    }
    before = (0, 0, 0)
    for number, name in enumerate(order):
        session_id, lines = files[name]
        path = _claude(tmp_path / str(number), lines, f"{session_id}.jsonl")
        importer = Importer(journal, clock=lambda: time.time() + 2 * AT_REST_S)
        done = await summarize_import(journal, [await importer.import_file(one) for one in transcripts_at([path])])
        amounts = done.amounts
        reported = (amounts.input_tokens, amounts.cached_tokens, amounts.output_tokens)
        after = await _tokens_in_usage(journal)
        assert reported == tuple(now - then for now, then in zip(after, before, strict=True)), name
        before = after
    assert before[0] == 10 * 6


async def test_a_sub_agent_without_a_parent_is_kept_out_of_lists(journal: Journal, tmp_path: Path) -> None:
    claude = Transcript(isSidechain=True, agentId="a1", sessionId="gone")
    claude.user("Look!")
    claude.text("Seen.")
    codex = codex_talk.Transcript(source={"subagent": "review"})
    codex.run()
    await _import(journal, _claude(tmp_path, claude.lines, "agent-a1.jsonl"))
    await _import(journal, _written(tmp_path / codex_talk.NAME, codex.lines), provider="codex")
    sessions = await journal.sessions()
    assert len(sessions) == 2
    assert top_level(sessions) == []


# -- real ones


@pytest.mark.slow
@pytest.mark.skipif(
    not (CORPUS / "oracle.json").exists(), reason="no transcripts: DRAGOMAN_CORPUS names the folder that has them"
)
async def test_all_real_transcripts_come_in_once(tmp_path: Path) -> None:
    found = transcripts_at([CORPUS])
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        # However new the files are: nobody writes to them.
        first = summarize(await Importer(journal, clock=lambda: time.time() + 2 * AT_REST_S).import_all(found))
        assert first.new > 100
        assert not first.unknown
        left_out = {reason: paths for reason, paths in first.skipped.items() if reason != NO_CONVERSATION}
        assert all(reason == NOT_A_TRANSCRIPT or "cannot be read yet" in reason for reason in left_out)
        nobodys = {Path(path).relative_to(CORPUS).parts[0] for paths in left_out.values() for path in paths}
        assert not {"claude", "codex", "generated", "trees"} & nobodys
        assert len(await journal.sessions()) == first.new
        assert not await maintenance.verify(journal)
        second = summarize(await Importer(journal).import_all(found))
        assert (second.new, second.grown, second.frames) == (0, 0, 0)
        for one in await journal.sessions():
            assert one.status != "running"
