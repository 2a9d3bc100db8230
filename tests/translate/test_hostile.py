"""Anybody may have written a transcript. For any file in its place, the import ends, takes bounded memory, reads no
other file, and does not affect other imports."""

from __future__ import annotations

import os
import socket
import sqlite3
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.journal import maintenance
from dragoman.journal.sqlite import MemoryJournal
from dragoman.translate import scratch
from dragoman.translate import transcript_file as reading
from dragoman.translate.claude.translator import ClaudeTranslator
from dragoman.translate.discover import transcripts_at
from dragoman.translate.ingest import file_import, importer
from dragoman.translate.ingest.dedup import ImportPolicy, load_policy
from dragoman.translate.ingest.file_import import FileImport
from dragoman.translate.ingest.folder_watch import folders_at
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.report import ImportedFile
from dragoman.translate.ingest.worker_process import start_worker
from dragoman.translate.transcript_file import OVERLONG_KIND, open_transcript, whole_lines

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from journal.talk import all_entries
from translate import codex_talk
from translate.claude_talk import SESSION, Transcript

OTHER = f"{SESSION[:-1]}9"
LINK = "it is a symlink, and symlinks in a folder are not followed (name the file it points to)"


@pytest.fixture
async def journal() -> Any:
    async with MemoryJournal() as opened_:
        yield opened_


def _talk(*prompts: str, session: str = SESSION) -> Transcript:
    transcript = Transcript(sessionId=session)
    for number, prompt in enumerate(prompts):
        transcript.user(prompt)
        transcript.text(f"Answer to {prompt}", id=f"msg_{number}")
    return transcript


def _written(path: Path, lines: Sequence[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def _file(folder: Path, lines: Sequence[bytes], name: str = SESSION) -> Path:
    return _written(folder / f"{name}.jsonl", lines)


async def _import(journal: MemoryJournal, path: Path, provider: str = "claude") -> list[ImportedFile]:
    done = await Importer(journal).import_all(transcripts_at([path], provider))
    assert not await maintenance.verify(journal)
    return done


async def _message_texts(journal: MemoryJournal, number: int = 0) -> list[str]:
    sessions = sorted(await journal.sessions(), key=lambda one: one.agent_session_id)
    return [row.text for row in (await journal.rows(sessions[number].id)).messages]


# -- what is no file


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [_pipe, _device, _folder, _loop])
def test_only_a_regular_file_is_opened_even_if_it_was_replaced(make: Any, tmp_path: Path) -> None:
    make(tmp_path / "x.jsonl")
    with pytest.raises(InputError):
        open_transcript(tmp_path / "x.jsonl")


def test_a_socket_is_not_opened_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("x.jsonl")
        with pytest.raises(OSError, match="No such device"):
            open_transcript(Path("x.jsonl"))


@pytest.mark.parametrize("make", [_pipe, _device, _folder])
async def test_a_sidecar_that_is_no_regular_file_is_ignored(make: Any, journal: MemoryJournal, tmp_path: Path) -> None:
    transcript = Transcript(agentId="a1", isSidechain=True)
    transcript.user("Look")
    _file(tmp_path, transcript.lines, "agent-a1")
    make(tmp_path / "agent-a1.meta.json")
    (done,) = await _import(journal, tmp_path)
    assert (len(done.new), done.skipped) == (1, None)


async def test_a_sidecar_that_is_too_large_is_ignored(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_import, "_MAX_SIDECAR_BYTES", 100)
    transcript = Transcript(agentId="a1", isSidechain=True)
    transcript.user("Look")
    _file(tmp_path, transcript.lines, "agent-a1")
    (tmp_path / "agent-a1.meta.json").write_text('{"description": "Told"}' + " " * 100)
    await _import(journal, tmp_path)
    (session,) = await journal.sessions()
    assert session.title != "Told"


# -- what lies outside


async def test_a_link_in_a_folder_is_not_followed_and_one_that_is_named_is(
    journal: MemoryJournal, tmp_path: Path
) -> None:
    outside = _file(tmp_path / "outside", _talk("Secret", session=OTHER).lines, OTHER)
    inside = _file(tmp_path / "agreed", _talk("Go").lines)
    link = inside.with_name("link.jsonl")
    link.symlink_to(outside)
    inside.with_name("folder").symlink_to(outside.parent)
    done = await _import(journal, inside.parent)
    assert {Path(one.path).name: one.skipped for one in done} == {inside.name: None, link.name: LINK}
    assert [one.agent_session_id for one in await journal.sessions()] == [SESSION]

    (named,) = await _import(journal, link)
    assert (len(named.new), named.path) == (1, str(outside))
    assert [place.name for place in folders_at([link])] == [outside.name]


async def test_a_folder_that_is_a_link_itself_is_read(journal: MemoryJournal, tmp_path: Path) -> None:
    _file(tmp_path / "elsewhere", _talk("Go").lines)
    (tmp_path / "projects").symlink_to("elsewhere")
    (done,) = await _import(journal, tmp_path / "projects")
    assert (len(done.new), done.skipped) == (1, None)


async def test_no_module_in_the_current_folder_is_loaded(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path, _talk("Go").lines)
    (tmp_path / "dragoman").mkdir()
    for name in ("dragoman/__init__.py", "msgspec.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importer, "_MIN_WORKER_FILE_BYTES", 0)
    (done,) = await Importer(journal).import_all(transcripts_at([path], "claude"), process=start_worker())
    assert (len(done.new), (tmp_path / "ran").exists()) == (1, False)


# -- what has no end


async def test_an_overlong_line_is_stored_as_length_digest_and_beginning(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 1000)
    first, second = _talk("Go").lines, _talk("Go", "On").lines
    long = msgspec.json.encode({"type": "user", "uuid": "long", "message": {"content": "word " * 1000}})
    path = _file(tmp_path, [*first, long, *second[len(first) :]])
    (done,) = await _import(journal, path)
    assert done.unknown == {OVERLONG_KIND: 1}
    assert await _message_texts(journal) == ["Go", "Answer to Go", "On", "Answer to On"]
    (frame,) = [one.frame for one in await all_entries(journal) if one.kind == "_native/claude"]
    record = msgspec.json.decode(frame)["params"]["record"]
    assert (record["length"], record["sha256"]) == (len(long), sha256(long).hexdigest())
    assert record["beginning"] == long[:1000].decode()
    assert (await _import(journal, path))[0].frames == 0


@pytest.mark.parametrize("provider", ["claude", "codex"])
async def test_a_line_that_is_too_long_and_half_written_is_left(
    provider: str, journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 1000)
    codex = codex_talk.Transcript()
    codex.event("user_message", message="Go")
    lines = _talk("Go").lines if provider == "claude" else codex.lines
    path = _file(tmp_path, lines)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"type": "' + b"x" * 5000)
    (half,) = await _import(journal, path, provider)
    assert (half.unknown, half.left) == ({}, path.stat().st_size - size)
    with path.open("ab") as file:
        file.write(b'"}\n')
    (whole,) = await _import(journal, path, provider)
    assert (whole.unknown, whole.left) == ({OVERLONG_KIND: 1}, 0)


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_lines_about_as_long_as_the_longest_are_all_read_once(
    more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 100)
    length = 100 + more
    path = _written(tmp_path / "x.jsonl", [b"1", b"x" * length, b"2"])
    with open_transcript(path) as file:
        lines = list(whole_lines(file))
    assert [(line.offset, line.end) for line in lines] == [(0, 2), (2, length + 3), (length + 3, length + 5)]
    assert [line.text for line in (lines[0], lines[2])] == [b"1", b"2"]
    assert (lines[1].text == b"x" * length) == (length < 100)


async def test_a_file_that_grows_without_a_pause_is_read_to_its_size_at_the_start(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path, (transcript := _talk("Go")).lines)
    found = transcripts_at([path], "claude")
    feed, times = ClaudeTranslator.feed, 0

    def writes(self: ClaudeTranslator, line: bytes, position: int) -> Any:
        nonlocal times
        times += 1
        if times <= 20:  # or it would go on for ever, were it not as it should be
            transcript.user(f"And {times}")
            with path.open("ab") as file:
                file.write(transcript.lines[-1] + b"\n")
        return feed(self, line, position)

    with monkeypatch.context() as patched:
        patched.setattr(ClaudeTranslator, "feed", writes)
        await Importer(journal).import_all(found)
    assert (times, await _message_texts(journal)) == (2, ["Go", "Answer to Go"])
    await _import(journal, path)
    assert await _message_texts(journal) == ["Go", "Answer to Go", "And 1", "And 2"]


async def test_a_compressed_file_that_expands_too_far_is_skipped(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MIN_EXPANDED_BYTES", 1000)
    path = tmp_path / codex_talk.NAME
    path = path.with_name(f"{path.name}.zst")
    path.write_bytes(zstd.compress(b"0" * 10_000_000))
    (done,) = await _import(journal, path, "codex")
    assert done.skipped == "it is damaged: it expands to more than any transcript"


@pytest.mark.parametrize(("limit", "value"), [("_MAX_LINES_BEFORE_SESSION", 10), ("_MAX_BYTES_BEFORE_SESSION", 1000)])
async def test_a_long_file_without_a_conversation_is_not_read_to_its_end(
    limit: str, value: int, journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_import, limit, value)
    path = _file(tmp_path, [b'{"type": "strange", "number": %d}' % number for number in range(100)])
    (done,) = await _import(journal, path)
    assert done.skipped == "there is no conversation in the beginning of it"


# -- what is in a line


@pytest.mark.parametrize("provider", ["claude", "codex"])
async def test_bytes_that_are_no_text_cost_no_word_beside_them(
    provider: str, journal: MemoryJournal, tmp_path: Path
) -> None:
    codex = codex_talk.Transcript()
    codex.started()
    codex.event("user_message", message="Go @ on")
    lines = _talk("Go @ on").lines if provider == "claude" else codex.lines
    path = _file(tmp_path, [line.replace(b"@", b"\xff\xfe") for line in lines])
    await _import(journal, path, provider)
    assert (await _message_texts(journal))[0] == "Go \ufffd\ufffd on"


def test_a_number_that_is_longer_than_python_reads_is_none() -> None:
    digits = "9" * 5000
    claude = Transcript()
    claude.user("Go")
    claude.call("Bash", {"command": "ls"})
    claude.result(f"Exit code {digits}", error=True)
    assert claude.frames()
    codex = codex_talk.Transcript()
    codex.event("user_message", message="Go")
    codex.item("function_call", name="exec_command", call_id="c", arguments='{"cmd": "ls"}')
    codex.item(
        "function_call_output", call_id="c", output=f"Wall time: 1\nProcess exited with code {digits}\nOutput:\n"
    )
    change = {"type": "update", "unified_diff": f"@@ -1 +{digits} @@\n+a"}
    codex.event("patch_apply_end", call_id="d", success=True, changes={"/a": change})
    assert codex.frames()


def test_a_text_of_repeated_beginnings_is_searched_once() -> None:
    """Otherwise each of these takes minutes."""
    claude = Transcript()
    claude.user("Go")
    claude.call("Task", {"prompt": "Look", "description": "Look"})
    claude.result("<usage>" * 200_000)
    assert claude.frames()
    codex = codex_talk.Transcript()
    codex.event("user_message", message="Go")
    codex.item("function_call", name="exec_command", call_id="c", arguments='{"cmd": "ls"}')
    codex.item("function_call_output", call_id="c", output="a_" * 200_000)
    assert codex.frames()
    flat = codex_talk.Transcript(begun=False)
    flat.line(id=codex_talk.THREAD)
    words = "<environment_context>" + "<cwd>" * 200_000
    flat.line(type="message", role="user", content=[{"type": "input_text", "text": words}])
    assert flat.frames() is not None


@pytest.mark.parametrize(
    "stamp", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "1969-12-31T00:00:00Z"]
)
async def test_a_time_that_no_calendar_has_is_unknown(stamp: str, journal: MemoryJournal, tmp_path: Path) -> None:
    transcript = Transcript(timestamp=stamp)
    transcript.user("Go")
    await _import(journal, _file(tmp_path, transcript.lines))
    (session,) = await journal.sessions()
    assert session.updated == 0.0


async def test_a_file_with_a_time_beyond_the_calendar_is_imported(journal: MemoryJournal, tmp_path: Path) -> None:
    transcript = Transcript(timestamp=None)
    transcript.user("Go")
    path = _file(tmp_path, transcript.lines)
    os.utime(path, (-1e6, -1e6))
    await _import(journal, path)
    (session,) = await journal.sessions()
    assert session.updated == 0.0


async def test_files_with_a_future_time_share_one_policy(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def counted(*arguments: Any) -> ImportPolicy:
        nonlocal looks
        looks += 1
        return await load_policy(*arguments)

    monkeypatch.setattr(importer, "load_policy", counted)
    for number in range(5):
        name = f"{SESSION[:-1]}{number}"
        os.utime(_file(tmp_path, _talk("Go", session=name).lines, name), (4e9, 4e9))
    assert [len(one.new) for one in await _import(journal, tmp_path)] == [1] * 5
    assert looks == 1


# -- names


@pytest.mark.parametrize(("name", "provider"), [(b"\xff" * 36 + b".jsonl", "claude"), (b"rollout-\xff.jsonl", "codex")])
async def test_a_file_whose_name_is_no_utf8_is_imported(
    name: bytes, provider: str, journal: MemoryJournal, tmp_path: Path
) -> None:
    codex = codex_talk.Transcript(begun=False)
    codex.event("user_message", message="Go")
    lines = _talk("Go").lines if provider == "claude" else codex.lines
    path = _written(tmp_path / os.fsdecode(name), lines)
    (done,) = await _import(journal, path, provider)
    assert len(done.new) == 1
    assert msgspec.json.decode(msgspec.json.encode(done), type=ImportedFile).path == done.path


def test_the_same_name_gives_the_same_session_for_any_bytes() -> None:
    ids = {
        frame.session_id
        for frame in ClaudeTranslator(PurePath(os.fsdecode(b"\xff" * 36 + b".jsonl"))).feed(_talk("Go").lines[0], 0)
    }
    assert len(ids) == 1
    assert ids.pop().encode()


# -- what goes wrong here


async def test_a_defect_that_one_file_shows_costs_no_other_file_anything(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _file(tmp_path, _talk("Bad").lines)
    _file(tmp_path, _talk("Good", session=OTHER).lines, OTHER)
    read = FileImport.read

    async def fails(self: FileImport[Any], path: Path, transcript: Any) -> None:
        if path.stem == SESSION:
            raise ZeroDivisionError("by nought")
        await read(self, path, transcript)

    monkeypatch.setattr(FileImport, "read", fails)
    done = {Path(one.path).stem: one for one in await _import(journal, tmp_path)}
    assert done[SESSION].skipped == "cannot be understood: ZeroDivisionError: by nought"
    assert done[SESSION].failed
    assert len(done[OTHER].new) == 1


async def test_a_process_apart_that_says_something_else_is_not_waited_for(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path, _talk("Go").lines)
    (tmp_path / "sitecustomize.py").write_text("print('Good morning to you')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(importer, "_MIN_WORKER_FILE_BYTES", 0)
    (done,) = await Importer(journal).import_all(transcripts_at([path], "claude"), process=start_worker())
    assert (len(done.new), done.skipped) == (1, None)


async def test_a_failure_while_the_worker_answers_mixes_up_no_files(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{SESSION[:-1]}{number}" for number in range(3)]
    for number, name in enumerate(names):
        talk = _talk(*map(str, range(3000 if number == 0 else 1)), session=name)  # the first is of several commits
        os.utime(_file(tmp_path, talk.lines, name), (1e9 + number, 1e9 + number))
    append, times = journal.append, 0

    async def fails_once(*given_: Any, **more: Any) -> str:
        nonlocal times
        times += 1
        if times == 1:
            raise ZeroDivisionError("by nought")
        return await append(*given_, **more)

    monkeypatch.setattr(journal, "append", fails_once)
    monkeypatch.setattr(importer, "_MIN_WORKER_FILE_BYTES", 0)
    done = await Importer(journal).import_all(transcripts_at([tmp_path], "claude"), process=start_worker())
    ids = {one.id: one.agent_session_id for one in await journal.sessions()}
    assert [[ids[session_id] for session_id in one.new] for one in done] == [[name] for name in names]


async def test_without_room_for_temporary_files_a_file_is_skipped_with_the_remedy(
    journal: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_import, "_MAX_COMMIT_ENTRIES", 5)

    def open_full_database() -> sqlite3.Connection:
        connection = open_database()
        connection.execute("PRAGMA max_page_count = 4")
        return connection

    open_database = scratch._open_database
    monkeypatch.setattr(scratch, "_open_database", open_full_database)
    transcript = _talk("Go")
    for number in range(10):
        transcript.call("Bash", {"command": "ls"}, f"toolu_{number}", id=f"call_{number}")
        transcript.result("a" * 1000, None, f"toolu_{number}")
    path = _file(tmp_path, transcript.lines)
    (done,) = await _import(journal, path)
    expected = "no room for temporary files (database or disk is full); set TMPDIR to a folder that has some"
    assert (done.skipped, done.passing) == (f"cannot be read: {expected}", True)
    monkeypatch.undo()
    await _import(journal, path)
    (session,) = await journal.sessions()
    assert len((await journal.rows(session.id)).tool_calls) == 10
