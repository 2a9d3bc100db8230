"""Watching: what agents write comes in while they write it, each record once, and not before the user agreed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dragoman.clock import SystemClock
from dragoman.errors import InputError
from dragoman.journal import maintenance, notes
from dragoman.journal.entry import Entry, read_message
from dragoman.journal.errors import JournalLocked
from dragoman.journal.protocols import Connection, Journal
from dragoman.journal.sqlite import MemoryJournal, SqliteJournal
from dragoman.testing.clock import ManualClock
from dragoman.translate import transcript_file as reading
from dragoman.translate.claude.translator import ClaudeTranslator
from dragoman.translate.ingest import folder_watch
from dragoman.translate.ingest.dedup import imported_session_id
from dragoman.translate.ingest.file_import import FileImport
from dragoman.translate.ingest.folder_watch import (
    FileStamp,
    FolderNotifications,
    NotificationsUnavailable,
    WatchedFolder,
    WatchIntervals,
    folders_at,
    is_remote,
)
from dragoman.translate.ingest.report import AT_REST_S
from dragoman.translate.ingest.watcher import Watcher
from dragoman.translate.translator import Frame
from journal.talk import Talk, all_entries
from translate import codex_talk
from translate.claude_talk import BEGAN, FOLDER, SESSION, Transcript
from translate.watched import (
    NATIVE,
    OURS,
    POLLING,
    TIMEOUT_S,
    UNTOLD,
    append,
    frame_keys,
    imported,
    lines,
    modes,
    settled,
    talk,
    transcript_in,
    until,
    wait_for_status,
    wait_for_text,
    watcher,
)

OTHER = SESSION.replace("1", "9")


class ClockOf(SystemClock):
    """A clock whose time of day a test decides."""

    def __init__(self, time_of_day: Callable[[], float]) -> None:
        self._time_of_day = time_of_day

    def time(self) -> float:
        return self._time_of_day()


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    opened: MemoryJournal | SqliteJournal
    opened = MemoryJournal() if request.param == "memory" else await SqliteJournal.open(tmp_path / "journal.db")
    async with opened:
        yield opened


@pytest.fixture(params=["native", "polling"])
def pace(request: pytest.FixtureRequest) -> WatchIntervals:
    return NATIVE if request.param == "native" else UNTOLD


# -- what comes in


async def test_records_are_imported_as_they_are_written(journal: Journal, tmp_path: Path, pace: WatchIntervals) -> None:
    path = transcript_in(tmp_path)
    whole = talk("One", "Two")
    async with watcher(journal, tmp_path, pace):
        path.write_bytes(lines(whole[:1]))
        await wait_for_text(journal, "One")
        for line in whole[1:4]:
            append(path, lines([line]))
        await wait_for_text(journal, "Answer to One")
        append(path, lines(whole[4:]))
        entries = await wait_for_text(journal, "Answer to Two")
        assert frame_keys(entries)[:-1] == (await imported(path))[: len(entries) - 1]
    assert frame_keys(await all_entries(journal)) == await imported(path)
    assert not await maintenance.verify(journal)


async def test_existing_files_are_imported_oldest_first(journal: Journal, tmp_path: Path) -> None:
    for number, session in enumerate([OTHER, SESSION]):
        path = transcript_in(tmp_path, session)
        path.write_bytes(lines(talk(f"Number {number}", session=session)))
        os.utime(path, (1e9 + number, 1e9 + number))
    async with watcher(journal, tmp_path) as watch:
        await settled(watch)
        (status, _) = watch.status()
        assert (status.provider, status.mode, status.method, status.files) == ("claude", "on", "native", 2)
        assert (status.waiting, status.error) == (0, None)
    assert frame_keys(await all_entries(journal)) == await imported(tmp_path / ".claude")


async def test_a_hundred_files_at_once_all_come_in(journal: Journal, tmp_path: Path, pace: WatchIntervals) -> None:
    sessions = [f"{number:08}{SESSION[8:]}" for number in range(100)]
    async with watcher(journal, tmp_path, pace) as watch:
        await settled(watch)
        for session in sessions:
            transcript_in(tmp_path / session, session)  # each in a folder that is new
        folder = transcript_in(tmp_path).parent
        for session in sessions:
            path = folder / session / "subagents" / f"{session}.jsonl"
            path.parent.mkdir(parents=True)
            path.write_bytes(lines(talk("Go", session=session)))
        wanted = {imported_session_id("claude", session) for session in sessions}
        await until(journal, lambda entries: {entry.session_id for entry in entries} == wanted)
        await settled(watch)
    assert {one.runs for one in await journal.sessions()} == {1}


async def test_a_folder_may_appear_later_go_away_and_come_back(
    journal: Journal, tmp_path: Path, pace: WatchIntervals
) -> None:
    async with watcher(journal, tmp_path, pace) as watch:
        await settled(watch)
        assert watch.status()[0].method == "absent"
        transcript_in(tmp_path).write_bytes(lines(talk("One")))
        await wait_for_text(journal, "Answer to One")
        shutil.rmtree(tmp_path / ".claude")
        await wait_for_status(watch, lambda status: status.method == "absent")
        transcript_in(tmp_path, OTHER).write_bytes(lines(talk("Other", session=OTHER)))
        await wait_for_text(journal, "Answer to Other")


async def test_a_replaced_folder_with_the_same_identity_is_watched_again(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems give the number of a folder that is gone to the next one that is made."""
    monkeypatch.setattr(folder_watch, "_identity", lambda folder: (1, 1) if os.path.exists(folder) else None)
    transcript_in(tmp_path).write_bytes(lines(talk("One")))
    async with watcher(journal, tmp_path) as watch:
        await wait_for_text(journal, "Answer to One")
        await settled(watch)
        shutil.rmtree(tmp_path / ".claude")
        path = transcript_in(tmp_path, OTHER)
        for number in range(3):
            append(path, lines(talk("0", "1", "2", session=OTHER)[number * 4 : number * 4 + 4]))
            await wait_for_text(journal, f"Answer to {number}")


async def test_named_files_and_folders_are_watched_without_being_asked_about(journal: Journal, tmp_path: Path) -> None:
    alone = tmp_path / "alone.jsonl"
    alone.write_bytes(lines(talk("One")[:2]))
    folder = tmp_path / "folder"
    folder.mkdir()
    codex = codex_talk.Transcript()
    codex.run("Do it")
    async with Watcher(journal, folders=folders_at([alone, folder]), intervals=NATIVE) as watch:
        await wait_for_text(journal, "One")
        (tmp_path / "beside.jsonl").write_bytes(lines(talk("Beside", session=OTHER)))
        append(alone, lines(talk("One")[2:]))
        (folder / "some.jsonl").write_bytes(lines(codex.lines))
        await wait_for_text(journal, "Answer to One")
        await wait_for_text(journal, "Do it")
        await settled(watch)
        (status,) = watch.status()
        assert (status.provider, status.files) == ("", 2)
    assert {one.agent for one in await journal.sessions()} == {"claude", "codex"}
    assert not any(b"Beside" in entry.frame for entry in await all_entries(journal))


def test_a_file_that_is_not_there_cannot_be_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        folders_at([tmp_path / "gone.jsonl"])


# -- each record once


async def test_half_a_line_waits_for_its_other_half(journal: Journal, tmp_path: Path, pace: WatchIntervals) -> None:
    path = transcript_in(tmp_path)
    data = lines(talk("One"))
    async with watcher(journal, tmp_path, pace):
        path.write_bytes(data[:-40])
        await until(journal, lambda entries: any(entry.kind == "tool_call_update" for entry in entries))
        append(path, data[-40:-1])  # all but the newline
        await wait_for_text(journal, "Answer to One")
        append(path, data[-1:] + lines(talk("One", "Two")[4:]))
        await wait_for_text(journal, "Answer to Two")
    assert frame_keys(await all_entries(journal)) == await imported(path)


@pytest.mark.parametrize("how", ["truncated", "replaced", "written anew", "moved", "forgotten"])
async def test_any_change_of_a_file_imports_its_records_once(
    journal: Journal, tmp_path: Path, pace: WatchIntervals, how: str
) -> None:
    path = transcript_in(tmp_path)
    one, both = talk("One"), talk("One", "Two")
    async with watcher(journal, tmp_path, pace) as watch:
        path.write_bytes(lines(one))
        await wait_for_text(journal, "Answer to One")
        await settled(watch)
        match how:
            case "truncated":
                os.truncate(path, len(one[0]) + 1)
                append(path, lines(both[1:]))
            case "replaced":
                new = path.with_suffix(".new")
                new.write_bytes(lines(both))
                os.replace(new, path)
            case "written anew":
                summary = b'{"type":"summary","summary":"Of another","leafUuid":"x"}'
                path.write_bytes(lines([summary, *both]))
            case "moved":
                folder = path.parent.with_name("-home-ada-else")
                folder.mkdir()
                path = path.rename(folder / path.name)
                append(path, lines(both[4:]))
            case _:
                path.unlink()
                await settled(watch)
                path.write_bytes(lines(both))
        entries = await wait_for_text(journal, "Answer to Two")
        await settled(watch)
    frames = [entry.frame for entry in await all_entries(journal)]
    assert len(frames) == len(set(frames)) >= len(entries)
    assert set(frames) == {frame for _, _, frame in await imported(path)}
    (session,) = await journal.sessions()
    assert (session.id, session.runs) == (OURS, 2)
    assert not await maintenance.verify(journal)


async def test_of_a_file_that_grows_only_the_rest_is_read(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[int] = []
    feed = ClaudeTranslator.feed

    def spy(self: ClaudeTranslator, line: bytes, position: int) -> Sequence[Frame]:
        fed.append(position)
        return feed(self, line, position)

    monkeypatch.setattr(ClaudeTranslator, "feed", spy)
    path = transcript_in(tmp_path)
    whole = talk(*map(str, range(10)))
    async with watcher(journal, tmp_path) as watch:
        for number in range(0, len(whole), 4):
            append(path, lines(whole[number : number + 4]))
            await wait_for_text(journal, f"Answer to {number // 4}")
            await settled(watch)
    assert fed == sorted(fed)
    assert len(fed) == len(whole)


def _codex(home: Path, prompt: str, thread: str = codex_talk.THREAD) -> Path:
    frames_before = codex_talk.Transcript(id=thread)
    frames_before.run(prompt)
    path = home / ".codex" / "sessions" / "2026" / codex_talk.NAME.replace(codex_talk.THREAD, thread)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(frames_before.lines))
    return path


async def test_a_file_that_is_compressed_in_place_adds_nothing_twice(journal: Journal, tmp_path: Path) -> None:
    zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    path = _codex(tmp_path, "Do it")
    async with watcher(journal, tmp_path, modes=modes(tmp_path, '[watch]\ncodex = "on"\n')) as watch:
        await wait_for_text(journal, "Do it")
        await settled(watch)
        before = await all_entries(journal)
        path.with_name(f"{path.name}.zst").write_bytes(zstd.compress(path.read_bytes()))
        path.unlink()
        _codex(tmp_path, "Another", codex_talk.PARENT)
        await wait_for_text(journal, "Another")
        await settled(watch)
        assert watch.status()[1].error is None
    assert await all_entries(journal, before[0].session_id) == before
    assert any(position.path.endswith(".zst") for position in await journal.transcript_positions())


async def test_a_compressed_file_that_cannot_be_read_is_reported(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_ZSTD_MODULES", ())
    path = _codex(tmp_path, "Do it")
    path.rename(path.with_name(f"{path.name}.zst"))
    async with watcher(journal, tmp_path, modes=modes(tmp_path, '[watch]\ncodex = "on"\n')) as watch:
        await settled(watch)
        assert "it is compressed" in (watch.status()[1].error or "")
    assert not await journal.sessions()


async def test_sub_agents_may_come_before_the_session_that_began_them(journal: Journal, tmp_path: Path) -> None:
    side = Transcript(isSidechain=True, agentId="a1")
    side.user("Look!")
    side.text("Seen.")
    parent = transcript_in(tmp_path)
    child = parent.parent / SESSION / "subagents" / "agent-a1.jsonl"
    async with watcher(journal, tmp_path):
        child.parent.mkdir(parents=True)
        child.write_bytes(lines(side.lines))
        await wait_for_text(journal, "Seen.")
        parent.write_bytes(lines(talk("One")))
        await wait_for_text(journal, "Answer to One")
    assert {one.agent_session_id for one in await journal.sessions()} == {"a1", SESSION}
    assert not await maintenance.verify(journal)


async def test_two_watchers_of_one_journal_bring_each_record_once(tmp_path: Path) -> None:
    path = transcript_in(tmp_path)
    whole = talk(*map(str, range(20)))
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as one,
        await SqliteJournal.open(tmp_path / "journal.db") as two,
        watcher(one, tmp_path, POLLING),
        watcher(two, tmp_path, POLLING),
    ):
        for number in range(0, len(whole), 4):
            append(path, lines(whole[number : number + 4]))
            await wait_for_text(one, f"Answer to {number // 4}")
        assert frame_keys(await all_entries(one)) == await imported(path)
        assert not await maintenance.verify(one)


# -- what a transcript leaves open


async def test_a_run_stays_open_while_the_file_is_written_and_ends_when_it_rests(
    journal: Journal, tmp_path: Path
) -> None:
    path = transcript_in(tmp_path)
    later = [0.0]
    async with watcher(journal, tmp_path, POLLING, clock=ClockOf(lambda: path.stat().st_mtime + later[0])) as watch:
        path.write_bytes(lines(talk("One", "Two")[:5]))
        await wait_for_text(journal, "Two")
        later[0] = AT_REST_S / 2
        await settled(watch)
        assert (await journal.sessions())[0].status == "running"
        later[0] = AT_REST_S * 2
        await wait_for_text(journal, "The transcript ends before this run does.")
        assert (await journal.sessions())[0].status == "interrupted"
        later[0] = 0.0
        append(path, lines(talk("One", "Two", "Three")[5:]))
        await wait_for_text(journal, "Answer to Three")
    assert (await journal.sessions())[0].status == "success"
    assert not await maintenance.verify(journal)


# -- one conversation, one session


async def _ran(journal: Journal) -> None:
    """Record a session that Dragoman ran."""
    ran = await Talk.begin(journal, "s1", agent="claude", time=BEGAN + 3600)
    ran.note(notes.SessionOpened(agent="claude", cwd=FOLDER, agent_session_id=SESSION))
    ran.turn("One", "Answer")
    await ran.commit()


async def test_a_session_that_dragoman_runs_is_not_doubled(journal: Journal, tmp_path: Path) -> None:
    """Not even when the agent writes its transcript before it says the session's name."""
    path = transcript_in(tmp_path)
    clock = ManualClock(time.time())
    async with watcher(journal, tmp_path, WatchIntervals(), clock=clock) as watch:
        await settled(watch)
        path.write_bytes(lines(talk("One")))
        await wait_for_status(watch, lambda status: status.waiting == 1)
        await _ran(journal)
        before = await all_entries(journal)
        transcript_in(tmp_path, OTHER).write_bytes(lines(talk("Other", session=OTHER)))
        append(path, lines(talk("One", "Two")[4:]))
        await wait_for_status(watch, lambda status: status.waiting == 2)
        clock.advance(WatchIntervals().settle_s)
        entries = await wait_for_text(journal, "Answer to Other")  # read after the first one
        await settled(watch)
        assert watch.status()[0].files == 2
    assert {entry.session_id for entry in entries[len(before) :]} == {imported_session_id("claude", OTHER)}


async def test_a_session_with_a_new_agent_id_is_not_repeated(journal: Journal, tmp_path: Path) -> None:
    """Neither by the transcript from before nor by the one from after."""
    ran = await Talk.begin(journal, "s1", agent="claude", time=BEGAN + 3600)
    for name in (SESSION, OTHER):
        ran.note(notes.SessionOpened(agent="claude", cwd=FOLDER, agent_session_id=name))
    ran.turn("One", "Answer")
    await ran.commit()
    before = await all_entries(journal)
    for name in (SESSION, OTHER):
        transcript_in(tmp_path, name).write_bytes(lines(talk("One", session=name)))
    async with watcher(journal, tmp_path) as watch:
        await settled(watch)
        assert watch.status()[0].files == 2
    assert await all_entries(journal) == before
    assert SESSION in (await journal.sessions())[0].earlier_ids
    assert not await maintenance.verify(journal)


async def test_a_watched_session_that_dragoman_continues_is_skipped(journal: Journal, tmp_path: Path) -> None:
    path = transcript_in(tmp_path)
    path.write_bytes(lines(talk("One")))
    async with watcher(journal, tmp_path) as watch:
        await wait_for_text(journal, "Answer to One")
        await settled(watch)
        record = await maintenance.load_record(journal, OURS)
        await journal.register_connection(Connection(id="live", agent="claude", at=0.0))
        line = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"x","prompt":[]}}'
        entry = Entry("live", OURS, 1, 2e9, "client", "session/prompt", line)
        record.add(entry, read_message(entry))
        await journal.append([entry], [record.take()])
        before = await all_entries(journal, OURS)
        append(path, lines(talk("One", "Two")[4:]))
        transcript_in(tmp_path, OTHER).write_bytes(lines(talk("Other", session=OTHER)))
        await wait_for_text(journal, "Answer to Other")
        await settled(watch)
    assert await all_entries(journal, OURS) == before
    assert not await maintenance.verify(journal)


async def test_a_session_that_is_deleted_while_it_is_watched_stays_deleted(journal: Journal, tmp_path: Path) -> None:
    path = transcript_in(tmp_path)
    path.write_bytes(lines(talk("One")))
    async with watcher(journal, tmp_path) as watch:
        await wait_for_text(journal, "Answer to One")
        await settled(watch)
        await journal.delete(OURS, at=1.0)
        append(path, lines(talk("One", "Two")[4:]))
        transcript_in(tmp_path, OTHER).write_bytes(lines(talk("Other", session=OTHER)))
        await wait_for_text(journal, "Answer to Other")
        await settled(watch)
    assert [one.agent_session_id for one in await journal.sessions()] == [OTHER]


async def test_a_fork_is_a_session_of_its_own(journal: Journal, tmp_path: Path) -> None:
    transcript_in(tmp_path).write_bytes(lines(talk("One")))
    transcript_in(tmp_path, OTHER).write_bytes(lines(talk("One", "Two", session=OTHER)))
    async with watcher(journal, tmp_path) as watch:
        await settled(watch)
    assert {one.agent_session_id: one.runs for one in await journal.sessions()} == {SESSION: 1, OTHER: 2}


# -- who agreed to what


async def test_nothing_is_looked_at_before_the_user_agreed(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    find = WatchedFolder.find

    def spy(self: WatchedFolder, *given: Any) -> dict[str, FileStamp]:
        looked.append(self.path)
        return find(self, *given)

    monkeypatch.setattr(WatchedFolder, "find", spy)
    transcript_in(tmp_path).write_bytes(lines(talk("One")))
    ours = modes(tmp_path, "")
    async with watcher(journal, tmp_path, modes=ours) as watch:
        await settled(watch)
        assert [one.mode for one in watch.status()] == ["ask", "ask"]
        assert not looked
        await watch.allow("claude")
        await wait_for_text(journal, "Answer to One")
        assert [one.mode for one in watch.status()] == ["on", "ask"]
    assert set(looked) == {str(tmp_path / ".claude" / "projects")}


async def test_consent_during_close_does_not_wait_for_ever(journal: Journal, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with watcher(journal, tmp_path, modes=modes(tmp_path, "")) as watch:
            agreeing = asyncio.create_task(watch.allow("claude"))
            await asyncio.sleep(0)
        await agreeing


async def test_consent_is_asked_for_once(tmp_path: Path) -> None:
    ours = modes(tmp_path, "")
    ours.grant("codex")
    ours.grant("codex")
    assert [modes(tmp_path, "").mode(name) for name in ("claude", "codex")] == ["ask", "on"]
    assert modes(tmp_path, '[watch]\ncodex = "off"\n').mode("codex") == "off"


async def test_consent_cannot_override_the_settings(journal: Journal, tmp_path: Path) -> None:
    ours = modes(tmp_path, '[watch]\nclaude = "off"\n')
    transcript_in(tmp_path).write_bytes(lines(talk("One")))
    async with watcher(journal, tmp_path, modes=ours) as watch:
        with pytest.raises(InputError, match=r"watching claude is off \(.*config.toml:2\)"):
            await watch.allow("claude")
        await settled(watch)
        assert watch.status()[0].mode == "off"
    assert not await journal.sessions()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[watch]\nclaude = "yes"\n', 'watch.claude is "yes"; expected off, ask or on'),
        ('[watch]\nclade = "on"\n', 'did you mean "claude"'),
        ("watch = 1\n", "expected a table, written as"),
    ],
)
def test_a_mode_that_there_is_not_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        modes(tmp_path, text)
    assert problem in str(refused.value)


# -- when things go wrong


async def test_folders_without_notifications_are_polled(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(folder: str, *, is_recursive: bool) -> FolderNotifications:
        raise NotificationsUnavailable("OS file watch limit reached.")

    monkeypatch.setattr(FolderNotifications, "open", refuse)
    path = transcript_in(tmp_path)
    async with watcher(journal, tmp_path, POLLING) as watch:
        path.write_bytes(lines(talk("One")))
        await wait_for_text(journal, "Answer to One")
        status = watch.status()[0]
        assert status.method == "polling"
        assert "is polled, because the system does not report its changes: OS file watch limit reached." in (
            status.error or ""
        )


async def test_files_that_are_not_at_rest_are_looked_at_more_often_than_all_of_them(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "_MAX_LOOKING_SHARE", 1e-9)  # as if looking took for ever
    path = transcript_in(tmp_path)
    path.write_bytes(lines(talk("One")))
    async with watcher(journal, tmp_path, UNTOLD):
        await wait_for_text(journal, "Answer to One")
        append(path, lines(talk("One", "Two")[4:]))
        await wait_for_text(journal, "Answer to Two")


async def test_notifications_that_end_are_replaced_by_polling(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: FolderNotifications) -> list[str]:
        raise NotificationsUnavailable("no more")

    monkeypatch.setattr(FolderNotifications, "read", fail)
    path = transcript_in(tmp_path)
    async with watcher(journal, tmp_path, POLLING) as watch:
        path.write_bytes(lines(talk("One")))
        await wait_for_text(journal, "Answer to One")
        append(path, lines(talk("One", "Two")[4:]))
        await wait_for_text(journal, "Answer to Two")
        assert watch.status()[0].method == "polling"


async def test_records_that_could_not_be_committed_are_imported_later(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_, failures = journal.append, [JournalLocked("held"), JournalLocked("held again")]
    problems: list[str | None] = []

    async def fail(*given: Any, **more: Any) -> str:
        if failures:
            raise failures.pop()
        problems.append(watch.status()[0].error)
        return await append_(*given, **more)

    monkeypatch.setattr(journal, "append", fail)
    path = transcript_in(tmp_path)
    path.write_bytes(lines(talk("One")))
    async with watcher(journal, tmp_path) as watch:
        await wait_for_text(journal, "Answer to One")
        await settled(watch)
        assert "held" in (problems[0] or "")
        assert watch.status()[0].error is None
    assert frame_keys(await all_entries(journal)) == await imported(path)


async def test_a_file_that_cannot_be_understood_costs_no_other(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = FileImport.read

    async def fail(self: FileImport[Any], path: Path, *more: Any) -> None:
        if path.stem == OTHER:
            raise RuntimeError("a defect")
        await read(self, path, *more)

    monkeypatch.setattr(FileImport, "read", fail)
    for session in (OTHER, SESSION):
        transcript_in(tmp_path, session).write_bytes(lines(talk("One", session=session)))
    async with watcher(journal, tmp_path) as watch:
        await wait_for_text(journal, "Answer to One")
        await settled(watch)
        assert "RuntimeError: a defect" in (watch.status()[0].error or "")


async def test_a_file_that_may_not_be_read_comes_in_when_it_may(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, refused = FileImport.read, [True]
    problems: list[str | None] = []

    async def fail(self: FileImport[Any], *given: Any) -> None:
        if refused.pop() if refused else False:
            raise PermissionError(13, "Permission denied")
        problems.append(watch.status()[0].error)
        await read(self, *given)

    monkeypatch.setattr(FileImport, "read", fail)
    transcript_in(tmp_path).write_bytes(lines(talk("One")))
    async with watcher(journal, tmp_path, POLLING) as watch:
        await wait_for_text(journal, "Answer to One")
        await settled(watch)
        assert "cannot be read: Permission denied" in (problems[0] or "")
        assert watch.status()[0].error is None


@asynccontextmanager
async def home_of_somebody() -> AsyncIterator[Path]:
    """Run as an ordinary user: root may read everything."""
    is_root = os.geteuid() == 0
    if is_root:
        # What is loaded when it is first used has to be there by then: it may well be root's own.
        with TemporaryDirectory() as home:
            transcript_in(Path(home)).write_bytes(lines(talk("One")))
            async with MemoryJournal() as journal, watcher(journal, Path(home)):
                await wait_for_text(journal, "Answer to One")
        os.seteuid(65534)
    try:
        with TemporaryDirectory() as home:
            yield Path(home)
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize("pace", [POLLING, UNTOLD])
@pytest.mark.parametrize("name", [".claude", ".claude/projects", ".claude/projects/-home-ada-proj"])
async def test_an_unreadable_folder_is_reported_until_it_is_readable(name: str, pace: WatchIntervals) -> None:
    async with home_of_somebody() as home:
        transcript_in(home).write_bytes(lines(talk("One")))
        folder = home / name
        folder.chmod(0)
        async with MemoryJournal() as journal, watcher(journal, home, pace) as watch:
            await settled(watch)
            helps = f"If it is yours, this helps: chmod u+rx {folder}"
            assert watch.status()[0].error == f"{folder} cannot be read: Permission denied. {helps}"
            folder.chmod(0o755)
            await wait_for_text(journal, "Answer to One")
            await wait_for_status(watch, lambda status: status.error is None)
            await wait_for_status(
                watch, lambda status: status.method == ("native" if pace.use_notifications else "polling")
            )


@pytest.mark.parametrize(
    ("folder", "is_it"),
    [("/home/ada/.claude", False), ("/net/ada/x", True), ("/net/ad", False), ("/mnt/my disk/x", True)],
)
def test_folders_of_other_machines_are_recognised_by_their_mounts(folder: str, is_it: bool) -> None:
    mounts = (
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "40 22 0:50 / /net/ada rw - nfs4 server:/ada rw\n"
        "41 22 0:51 / /mnt/my\\040disk rw - fuse.sshfs host: rw\n"
        "no mount at all\n"
    )
    assert is_remote(folder, lambda: mounts) is is_it


def test_without_a_list_of_mounts_a_folder_counts_as_local() -> None:
    def missing() -> str:
        raise FileNotFoundError

    assert not is_remote("/home/ada", missing)
