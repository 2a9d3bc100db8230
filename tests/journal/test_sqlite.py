"""The journal in a file: what outlives a process, what other processes see, and what happens when the disk does not."""

from __future__ import annotations

import asyncio
import math
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.journal import maintenance
from dragoman.journal.entry import Entry
from dragoman.journal.errors import (
    JournalCorrupt,
    JournalError,
    JournalFull,
    JournalLocked,
    JournalReadOnly,
    from_sqlite,
)
from dragoman.journal.rows import RowChanges
from dragoman.journal.search_documents import MAX_MESSAGE_CHARACTERS, SearchQuery
from dragoman.journal.sqlite import SqliteJournal, schema
from dragoman.journal.sqlite import journal as sqlite_journal
from journal.talk import Talk, all_entries, entry, register_c1

TESTS = Path(__file__).resolve().parents[1]
TIMEOUT_S = 20.0


def size_of(path: Path) -> int:
    return path.stat().st_size


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


# -- what stays


async def test_everything_is_there_when_the_file_is_opened_again(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        talk.turn("hello", "hi ", "there")
        talk.say("half a mess")
        cursor = await talk.commit()
        before, rows = await all_entries(journal), await journal.rows("s1")
    async with await SqliteJournal.open(path) as journal:
        assert await all_entries(journal) == before
        assert await journal.stored_rows("s1") == rows
        assert await journal.cursor() == cursor
        assert await maintenance.verify(journal) == []


async def test_bulk_appends_store_the_same_as_single_ones(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames and rows of a bulk are made ready aside; those of a moment are not."""
    stored: list[list[tuple[Any, ...]]] = []
    for much in (0, 2**62):
        monkeypatch.setattr("dragoman.journal.sqlite.journal._BULK_BYTES", much)
        async with await SqliteJournal.open(path.with_name(f"{much}.db")) as journal:
            for name in ("s1", "s2"):
                talk = await Talk.begin(journal, name)
                await talk.commit()
                talk.turn("hello", "a word " * 1000, "and more")
                talk.tool("t1", status="completed", rawInput={"command": "cat " * 1000})
                await talk.commit()
            assert await maintenance.verify(journal) == []
        with closing(sqlite3.connect(path.with_name(f"{much}.db"))) as connection:
            frames = connection.execute("SELECT seq, n, kind_key, frame, dictionary_key FROM stored_frames").fetchall()
            stored.append([*frames, *connection.execute("SELECT * FROM tool_calls")])
        assert any(packed is not None for *_, packed in frames), "none was stored smaller"
    assert stored[0] == stored[1]


@pytest.mark.parametrize("much", [0, 2**62])
async def test_appends_that_are_asked_for_at_once_keep_their_order(
    path: Path, monkeypatch: pytest.MonkeyPatch, much: int
) -> None:
    monkeypatch.setattr("dragoman.journal.sqlite.journal._BULK_BYTES", much)
    async with await SqliteJournal.open(path) as journal:
        await register_c1(journal)
        texts = {n: "word " * (20_000 if n % 2 else 1) for n in range(1, 21)}
        await asyncio.gather(*(journal.append([entry(n, text)]) for n, text in texts.items()))
        assert [one.n for one in await all_entries(journal)] == list(range(1, 21))


LARGE_TEXT = "a line, €😀\n" * 300_000


async def test_an_append_of_megabytes_is_encoded_while_others_are_stored(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that follows it on its connection, or in its session, is stored after it."""
    encode, may_encode = sqlite_journal._encode, threading.Event()

    def encode_later(entries: Sequence[Entry], changes: Sequence[RowChanges]) -> object:
        if any(len(one.frame) > len(LARGE_TEXT) for one in entries):
            assert may_encode.wait(TIMEOUT_S)
        return encode(entries, changes)

    monkeypatch.setattr(sqlite_journal, "_encode", encode_later)
    async with await SqliteJournal.open(path) as journal, asyncio.timeout(TIMEOUT_S):
        for connection in ("c1", "c2", "c3"):
            await register_c1(journal, connection)
        large = asyncio.create_task(journal.append([entry(1, LARGE_TEXT)]))
        after = asyncio.create_task(journal.append([entry(2)]))
        same_session = asyncio.create_task(journal.append([entry(1, connection="c2")]))
        await journal.append([entry(1, session="s2", connection="c3")])
        await journal.append([entry(2, "word " * 100_000, session="s2", connection="c3")])
        assert not any(task.done() for task in (large, after, same_session))
        may_encode.set()
        await asyncio.gather(large, after, same_session)
        order = [(one.connection_id, one.n) for one in await all_entries(journal)]
        assert order == [("c3", 1), ("c3", 2), ("c1", 1), ("c1", 2), ("c2", 1)]


async def test_the_log_of_a_flood_is_copied_into_the_file_while_others_are_stored(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_log, may_copy, copied = SqliteJournal._copy_log, threading.Event(), threading.Event()

    def copy_later(journal: SqliteJournal, connection: sqlite3.Connection) -> None:
        assert may_copy.wait(TIMEOUT_S)
        copy_log(journal, connection)
        copied.set()

    monkeypatch.setattr(SqliteJournal, "_copy_log", copy_later)
    text = random.Random(1).randbytes(500_000).hex()
    async with await SqliteJournal.open(path) as journal, asyncio.timeout(TIMEOUT_S):
        await register_c1(journal)
        await asyncio.gather(*(journal.append([entry(n, text)]) for n in range(1, 13)))
        await journal.append([entry(13)])  # though the log is being copied
        before = size_of(path)
        may_copy.set()
        assert await asyncio.to_thread(copied.wait, TIMEOUT_S)
        assert size_of(path) > before + 4_000_000
        assert [one.n for one in await all_entries(journal)] == list(range(1, 14))


async def test_large_appends_keep_their_order_and_one_that_is_cancelled_stops_none(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal:
        await register_c1(journal)
        cancelled = asyncio.create_task(journal.append([entry(1, LARGE_TEXT)]))
        await asyncio.sleep(0)
        cancelled.cancel()
        texts = {n: LARGE_TEXT if n % 2 else "x" for n in range(1, 8)}
        await asyncio.gather(*(journal.append([entry(n, text)]) for n, text in texts.items()))
        assert [one.n for one in await all_entries(journal)] == list(range(1, 8))


async def test_a_text_of_megabytes_is_stored_compressed_and_read_as_it_was(path: Path) -> None:
    """While it grows, and once it is complete."""
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        run = talk.prompt("Go")
        talk.say(LARGE_TEXT)
        await talk.commit()
        talk.say("the end")
        await talk.commit()
        assert (await journal.stored_rows("s1")).messages[-1].text == f"{LARGE_TEXT}the end"
        assert (await journal.rows("s1", max_characters=1001)).messages[-1].text == LARGE_TEXT[:1001]
        assert await maintenance.verify(journal) == []
        talk.end(run)
        await talk.commit()
        assert (await journal.stored_rows("s1")).messages[-1].text == f"{LARGE_TEXT}the end"
        assert await maintenance.verify(journal) == []
        assert (await journal.rows("s1", max_characters=1001)).messages[-1].text == LARGE_TEXT[:1001]
        with closing(sqlite3.connect(path)) as connection:
            sizes = connection.execute("SELECT length(text) FROM messages WHERE typeof(text) = 'blob'").fetchall()
        assert [size < len(LARGE_TEXT) // 20 for (size,) in sizes] == [True]
        await maintenance.rebuild(journal)
        assert await maintenance.verify(journal) == []
        await journal.delete("s1", at=1.0)  # the index has to be told what was in it
        assert await journal.check() == []


async def test_the_first_characters_of_a_long_message_can_be_searched(path: Path) -> None:
    text = f"needle {'x' * MAX_MESSAGE_CHARACTERS} haystack"
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        talk.turn("Go", text)
        await talk.commit()
        [hit] = await journal.search(SearchQuery(text="needle"))
        assert hit.snippet.startswith("needle")
        assert await journal.search(SearchQuery(text="haystack")) == []
        with closing(sqlite3.connect(path)) as connection:
            lengths = connection.execute("SELECT length(text) FROM search_documents WHERE text IS NOT NULL").fetchall()
        assert lengths == [(MAX_MESSAGE_CHARACTERS,)]


@pytest.mark.attempts("journal faults")
async def test_frames_of_which_one_cannot_be_stored_leave_nothing_and_harm_no_other(path: Path) -> None:
    """Sixteen frames are one statement, and it fails at the tenth."""
    async with await SqliteJournal.open(path) as journal:
        await register_c1(journal, "c1")
        await register_c1(journal, "c2")
        frames = [entry(n) for n in range(1, 17)]
        frames[9] = msgspec.structs.replace(frames[9], at=math.nan)
        good = journal.append([entry(1, connection="c2")])
        failed, _ = await asyncio.gather(journal.append(frames), good, return_exceptions=True)
        assert isinstance(failed, JournalError)
        assert [one.connection_id for one in await all_entries(journal)] == ["c2"]
        await journal.append([entry(n) for n in range(1, 17)])
        assert len(await all_entries(journal)) == 17


async def test_the_file_is_for_its_owner_alone(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal:
        await (await Talk.begin(journal)).commit()
        for file in path.parent.iterdir():
            assert file.stat().st_mode & 0o077 == 0, file


async def test_each_commit_is_synced_with_durability_power(path: Path) -> None:
    for durability, level in (("process", 1), ("power", 2)):
        connection = schema.connect(path, durability)  # type: ignore[arg-type]  # of the two
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
        connection.close()
    async with await SqliteJournal.open(path, durability="power") as journal:
        await register_c1(journal)
        await journal.append([entry(1)])
        assert len(await all_entries(journal)) == 1


async def test_rows_of_another_version_are_rebuilt(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal:
        for name in ("s1", "s2"):
            talk = await Talk.begin(journal, name)
            talk.turn("hello", "hi")
            await talk.commit()
        await journal.delete("s2", at=5.0)
        rows, tombstones = await journal.rows("s1"), await journal.tombstones()
        hits = await journal.search(SearchQuery(text="hello"))
    file = sqlite3.connect(path)
    file.executescript(
        "UPDATE meta SET value = '0.old' WHERE key = 'rows'; ALTER TABLE messages RENAME COLUMN text TO words"
    )
    file.close()
    async with await SqliteJournal.open(path) as journal:
        assert set(await journal.stale_sessions()) == {"s1", "s2"}
        assert await journal.rows("s1") == rows
        assert await journal.search(SearchQuery(text="hello")) == hits
        assert await journal.tombstones() == tombstones
        assert await maintenance.verify(journal) == []


@pytest.mark.attempts("journal faults")
async def test_damaged_rows_are_noticed_and_rebuilt(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        talk.turn("hello", "hi")
        await talk.commit()
        file = sqlite3.connect(path)
        file.execute("UPDATE messages SET text = 'something else' WHERE kind = 'assistant'")
        file.commit()
        file.close()
        assert await maintenance.verify(journal) == ["session s1: the rows in messages differ from its frames"]
        file = sqlite3.connect(path)
        file.execute("UPDATE messages SET text = 'hi' WHERE kind = 'assistant'")
        file.commit()
        file.execute("DELETE FROM stored_frames WHERE seq = 3")
        file.commit()
        file.close()
        assert "session s1 has 4 frames, 5 were appended" in await maintenance.verify(journal)


@pytest.mark.attempts("secrets")
async def test_nothing_of_a_deleted_session_is_left_in_the_files(path: Path) -> None:
    # The last is as short as what the index is made of, and like nothing else in it.
    words = ["zebrafinch", "capybara", "pangolin", "axolotl", "wolverine", "\ua66e\ua66e\ua66e"]
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal, "s1", cwd="/home/wolverine")
        for _ in range(40):
            talk.turn("say zebrafinch \ua66e\ua66e\ua66e", "and ", "capybara", " x" * 500)
            await talk.commit()
        diff = {"type": "diff", "path": "/a", "oldText": "pangolin" * 2000, "newText": "axolotl" * 2000}
        talk.tool("t", title="pangolin", status="completed", content=[diff])
        await talk.commit()
        await journal.compress("s1")
        other = await Talk.begin(journal, "s2")
        other.turn("hello", "here I stay")
        await other.commit()
        await maintenance.rebuild(journal)
        assert any(word.encode() in file.read_bytes() for word in words for file in path.parent.iterdir())
        await journal.delete("s1", at=1.0)
        for file in path.parent.iterdir():
            data = file.read_bytes()
            assert [word for word in words if word.encode() in data] == []
        assert await journal.search(SearchQuery(text="zebrafinch")) == []
        assert len(await journal.search(SearchQuery(text="stay"))) == 1
        assert await maintenance.verify(journal) == []


async def test_compressing_makes_the_file_smaller(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        talk.turn("go", *(f"word {n} " for n in range(20_000)))
        await talk.commit()
        await journal.vacuum()
        before = size_of(path)
        await journal.compress("s1")
        await journal.vacuum()
        assert size_of(path) < before * 0.6
        assert await maintenance.verify(journal) == []


# -- other processes


@asynccontextmanager
async def writer(path: Path, connection: str, count: int) -> AsyncIterator[asyncio.subprocess.Process]:
    tee = path.with_name(f"{connection}.tee")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "journal.writer_process", str(path), str(tee), connection, str(count)),
        cwd=TESTS,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_reader_follows_the_writes_of_another_process(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal, asyncio.timeout(50):
        seen: list[Entry] = []
        pages = journal.subscribe(limit=50)
        async with writer(path, "there", 20) as process:
            async for page in pages:
                seen.extend(page.entries)
                if process.returncode is None and len(seen) > 100:
                    await process.wait()
                if process.returncode is not None and page.cursor == await journal.cursor():
                    break
            assert await process.wait() == 0
        assert [one.n for one in seen] == list(range(1, len(seen) + 1))
        assert [one.frame for one in seen] == path.with_name("there.tee").read_bytes().splitlines()
        assert await maintenance.verify(journal) == []


@pytest.mark.attempts("shared home")
async def test_two_processes_write_to_one_file_and_harm_each_other_in_nothing(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal, asyncio.timeout(50):
        async with writer(path, "a", 15) as first, writer(path, "b", 15) as second:
            assert (await first.wait(), await second.wait()) == (0, 0)
        entries = await all_entries(journal, limit=1000)
        for name in ("a", "b"):
            mine = [one for one in entries if one.connection_id == name]
            assert [one.n for one in mine] == list(range(1, len(mine) + 1))
            assert [one.frame for one in mine] == path.with_name(f"{name}.tee").read_bytes().splitlines()
        assert await maintenance.verify(journal) == []


@pytest.mark.attempts("journal faults")
async def test_a_writer_that_is_killed_leaves_a_prefix_that_rebuilds(path: Path) -> None:
    chance = random.Random(4)
    for number in range(4):
        name = f"c{number}"
        async with writer(path, name, 0) as process, asyncio.timeout(50):
            assert process.stdout is not None
            committed = 0
            for _ in range(chance.randint(1, 30)):
                committed = int(await process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            rest = await process.stdout.read()
            committed = int(rest.splitlines()[-1]) if rest.endswith(b"\n") else committed
        async with await SqliteJournal.open(path) as journal:
            entries = [one for one in await all_entries(journal, limit=1000) if one.connection_id == name]
            assert len(entries) >= committed
            assert [one.n for one in entries] == list(range(1, len(entries) + 1))
            tee = path.with_name(f"{name}.tee").read_bytes().splitlines()
            assert [one.frame for one in entries] == tee[: len(entries)]
            assert await maintenance.verify(journal) == []
            stored = {one: await journal.stored_rows(one) for one in await journal.session_ids()}
            await maintenance.rebuild(journal)
            assert {one: await journal.stored_rows(one) for one in await journal.session_ids()} == stored


# -- what goes wrong


@pytest.mark.attempts("journal faults")
async def test_a_full_disk_raises_and_the_append_can_be_repeated(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        await talk.commit()
        limit = journal._connection.execute("PRAGMA page_count").fetchone()[0] + 3
        journal._connection.execute(f"PRAGMA max_page_count = {limit}")
        talk.turn("hello", *("x" * 1000 for _ in range(200)))
        with pytest.raises(JournalFull, match="disk is full"):
            await talk.commit()
        assert len(await all_entries(journal)) == 1
        assert await maintenance.verify(journal) == []
        with pytest.raises(JournalFull):
            await talk.recorder.ready()
        journal._connection.execute("PRAGMA max_page_count = 1000000")
        talk.say("and on")
        await talk.commit()
        entries = await all_entries(journal, limit=1000)
        assert [one.n for one in entries] == list(range(1, 206))
        assert await maintenance.verify(journal) == []


@pytest.mark.attempts("journal faults")
async def test_a_file_that_another_holds_is_waited_for_and_then_given_up(path: Path) -> None:
    async with await SqliteJournal.open(path, busy_s=0.05) as journal:
        await register_c1(journal)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalLocked, match="another process"):
            await journal.append([entry(1)])
        assert await all_entries(journal) == []
        other.execute("ROLLBACK")
        other.close()
        await journal.append([entry(1)])
        assert len(await all_entries(journal)) == 1


@contextmanager
def somebody_else() -> Iterator[None]:
    """Root may write everything; somebody else may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that somebody else can look into; pytest's own cannot."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def lock_up(folder: Path) -> None:
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)


@pytest.mark.attempts("journal faults")
async def test_a_read_only_file_raises(open_folder: Path) -> None:
    path = open_folder / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        await register_c1(journal)
    lock_up(open_folder)
    with somebody_else():
        with pytest.raises(JournalReadOnly) as raised:
            await SqliteJournal.open(path)
        assert str(path) in str(raised.value)
        assert raised.value.guidance
        with pytest.raises(JournalReadOnly):
            await SqliteJournal.open(open_folder / "another.db")


def damage(path: Path) -> None:
    size = size_of(path)
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 4))


@pytest.mark.attempts("journal faults")
async def test_a_damaged_page_raises(path: Path) -> None:
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        talk.turn("go", *(f"word {n} " for n in range(3000)))
        await talk.commit()
    damage(path)

    async def read() -> None:
        async with await SqliteJournal.open(path) as journal:
            assert await journal.check() != []
            await all_entries(journal, limit=1000)

    with pytest.raises(JournalCorrupt, match="damaged"):
        await read()


def write_other_file(path: Path, content: str) -> None:
    match content:
        case "text":
            path.write_bytes(b"Dear diary, " * 1000)
        case "folder":
            path.mkdir()
        case _:
            execute(path, "CREATE TABLE mine(x)")


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        for statement in statements:
            file.execute(statement)
        file.commit()


def contents(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


@pytest.mark.attempts("journal faults")
@pytest.mark.parametrize("content", ["text", "database", "folder"])
async def test_a_file_that_is_not_a_journal_is_refused_and_left_as_it_is(path: Path, content: str) -> None:
    write_other_file(path, content)
    before = contents(path)
    with pytest.raises(JournalError) as raised:
        await SqliteJournal.open(path)
    assert str(path) in str(raised.value)
    assert contents(path) == before


@pytest.mark.attempts("journal faults")
@pytest.mark.parametrize(
    ("pragmas", "message", "advice"),
    [
        (["PRAGMA user_version = 99"], r"newer version of Dragoman \(format 99;", "Update Dragoman"),
        (
            [f"PRAGMA application_id = {schema.EARLY_APPLICATION_ID}", "PRAGMA user_version = 2"],
            r"early version of Dragoman \(format 2\)",
            "`dragoman journal export -o old.jsonl`",
        ),
    ],
)
async def test_a_journal_of_another_version_is_refused_and_left_as_it_is(
    path: Path, pragmas: list[str], message: str, advice: str
) -> None:
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        talk.turn("hello", "hi")
        await talk.commit()
    execute(path, *pragmas)
    before = contents(path)
    with pytest.raises(JournalError, match=message) as raised:
        await SqliteJournal.open(path)
    assert str(path) in str(raised.value)
    assert "Nothing in the file was changed." in str(raised.value)
    assert advice in raised.value.guidance
    assert contents(path) == before


@pytest.mark.attempts("journal faults")
@pytest.mark.parametrize(
    "change", [f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}", "UPDATE meta SET value = 'x' WHERE key = 'rows'"]
)
async def test_a_journal_that_another_version_changes_meanwhile_is_not_used_any_more(path: Path, change: str) -> None:
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        talk.turn("hello", "hi")
        await talk.commit()
        with closing(sqlite3.connect(path)) as file:
            file.execute(change)
            file.commit()
            count = file.execute("SELECT COUNT(*) FROM stored_frames").fetchone()
            talk.turn("more", "of it")
            with pytest.raises(JournalError, match="another version of Dragoman") as raised:
                await talk.commit()
            assert "Restart" in raised.value.guidance
            with pytest.raises(JournalError, match="another version of Dragoman"):
                await journal.rows("s1")
            assert file.execute("SELECT COUNT(*) FROM stored_frames").fetchone() == count


@pytest.mark.attempts("secrets")
def test_an_error_quotes_nothing_of_a_conversation() -> None:
    error = sqlite3.OperationalError("Could not decode to UTF-8 column 'text' with text 'my secret'")
    assert "my secret" not in str(from_sqlite(error, "journal.db"))
    assert "column 'text'" in str(from_sqlite(error, "journal.db"))


async def test_a_file_of_an_older_format_is_migrated_with_all_that_is_in_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await SqliteJournal.open(path) as journal:
        talk = await Talk.begin(journal)
        talk.turn("hello", "hi")
        cursor = await talk.commit()
        before, rows = await all_entries(journal), await journal.rows("s1")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE added_later(x)"))
    async with await SqliteJournal.open(path) as journal:
        assert await all_entries(journal) == before
        assert await journal.rows("s1") == rows
        assert await journal.cursor() == cursor
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (2,)
        assert file.execute("SELECT COUNT(*) FROM added_later").fetchone() == (0,)
