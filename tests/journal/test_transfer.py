"""Out of one journal and into another, and recordings of real agents in between."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.journal import maintenance, notes
from dragoman.journal.protocols import Journal
from dragoman.journal.sqlite import MemoryJournal
from dragoman.journal.transfer import export, import_lines
from dragoman.record.routing import fold_recording
from journal.talk import Talk, all_entries

FOLDER = Path(os.environ.get("DRAGOMAN_RECORDINGS") or Path(__file__).resolve().parents[3] / "shared" / "recordings")
RECORDINGS = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.jsonl"))
ABSENT = pytest.mark.skip(reason=f"no recordings in {FOLDER}: DRAGOMAN_RECORDINGS names their folder")


def names(prefix: str = "new") -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"{prefix}-{next(numbers)}"


async def exported(journal: Journal, session_id: str | None = None) -> list[bytes]:
    return [line async for line in export(journal, session_id)]


@pytest.fixture
async def source() -> MemoryJournal:
    journal = MemoryJournal()
    for name in ("s1", "s2"):
        talk = await Talk.begin(journal, name)
        talk.turn("hello", "hi ", "there")
        talk.noise(b"\xff not JSON")
        talk.say("open")
        await talk.commit()
    return journal


async def test_a_trusted_import_equals_the_export(source: MemoryJournal, journal: Journal) -> None:
    lines = await exported(source)
    done = await import_lines(journal, lines, new_id=names(), trusted=True)
    assert (set(done.sessions), done.left_out) == ({"s1", "s2"}, [])
    there, here = await all_entries(source), await all_entries(journal)
    assert [(e.session_id, e.at, e.origin, e.kind, e.frame) for e in here] == [
        (e.session_id, e.at, e.origin, e.kind, e.frame) for e in there
    ]
    for name in ("s1", "s2"):
        assert maintenance.differing_tables(await journal.rows(name), await source.rows(name)) == []
    assert [(c.agent, c.at) for c in await journal.connections()] == [
        (c.agent, c.at) for c in await source.connections()
    ]
    assert await maintenance.verify(journal) == []


async def test_one_session_can_be_exported_alone(source: MemoryJournal, journal: Journal) -> None:
    done = await import_lines(journal, await exported(source, "s2"), new_id=names())
    assert done.sessions == ["s2"]
    [session] = await journal.sessions()
    assert (session.id, session.agent, session.agent_session_id) == ("s2", "demo", "agent's s2")
    texts = [one.text for one in (await journal.rows("s2")).messages]
    assert texts == ["hello", "hi there", "open"]
    assert {one.origin for one in await all_entries(journal)} == {"host", "import"}


async def test_an_export_of_one_session_has_only_its_own_connections(source: MemoryJournal) -> None:
    lines = [msgspec.json.decode(line) for line in await exported(source, "s2")]
    connections = {line["id"] for line in lines if line["dir"] == "connection"}
    assert connections == {line["connection"] for line in lines if "connection" in line}
    assert len(connections) == 1 < len(await source.connections())


@pytest.mark.parametrize("early", [False, True], ids=["", "an update before the answer"])
async def test_a_recorded_session_keeps_its_folders(journal: Journal, early: bool) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
    params = {"cwd": "/work/here", "mcpServers": [], "additionalDirectories": ["/work/there"]}
    frames: list[tuple[str, dict[str, object]]] = [
        ("out", {"id": 1, "method": "session/new", "params": {"cwd": "/elsewhere", "mcpServers": []}}),
        ("in", {"id": 1, "result": {"sessionId": "a"}}),
        ("out", {"id": 2, "method": "session/new", "params": params}),
        ("in", {"id": 2, "result": {"sessionId": "b"}}),
    ]
    if early:
        frames.insert(3, ("in", {"method": "session/update", "params": {"sessionId": "b", "update": update}}))
    lines = [msgspec.json.encode({"dir": way, "ts": 1.0, "frame": {"jsonrpc": "2.0"} | frame}) for way, frame in frames]
    await import_lines(journal, lines, new_id=names())
    sessions = {one.agent_session_id: (one.cwd, one.folders) for one in await journal.sessions()}
    assert sessions == {"a": ("/elsewhere", ("/elsewhere",)), "b": ("/work/here", ("/work/here", "/work/there"))}


async def test_a_forged_import_changes_nothing_that_is_here(journal: Journal) -> None:
    talk = await Talk.begin(journal, "s1")
    talk.turn("hello", "hi")
    await talk.commit()
    gone = await Talk.begin(journal, "gone")
    await gone.commit()
    await journal.delete("gone", at=9.0)
    before = await all_entries(journal), await journal.sessions(), await journal.tombstones()

    def line(note: notes.Note, session: str, connection: str = "journal") -> bytes:
        frame = msgspec.Raw(notes.write(note).line)
        fields = {"dir": "host", "ts": 1.0, "origin": "host", "kind": notes.METHODS[type(note)], "frame": frame}
        return msgspec.json.encode({**fields, "connection": connection, "session": session})

    forged = [
        line(notes.Tombstone(session_id="s1"), "s1"),
        line(notes.Tombstone(session_id="s1"), "other"),
        line(notes.Tombstone(session_id="s1"), "s1", "c"),
        line(notes.SessionOpened(agent="evil", cwd="/"), "s1", "c"),
        line(notes.SessionOpened(agent="evil", cwd="/"), "gone", "c"),
        line(notes.Receipt(command_id="k"), "other"),
        msgspec.json.encode({"dir": "session", "id": "back", "agent": "demo", "agent_session_id": "agent's gone"}),
    ]
    for trusted in (False, True):
        done = await import_lines(journal, forged, new_id=names(f"forged {trusted}"), trusted=trusted)
        assert {session for session, _ in done.left_out} >= {"s1", "gone", "back"}
    after = await all_entries(journal), await journal.sessions(), await journal.tombstones()
    assert after == before


@pytest.mark.parametrize("origin", ["host", "replay", "agent"])
async def test_the_resume_data_in_a_file_is_not_trusted(journal: Journal, origin: str) -> None:
    """A handle names the command to run: a forged handle could run anything."""
    handle = '{"session_id":"new","agent_session_id":"a","command":["rm","-r","/"],"cwd":"/"}'
    note = notes.SessionOpened(agent="evil", cwd="/", handle=handle)
    fields = {"dir": "in", "ts": 1.0, "origin": origin, "connection": "c", "session": "new"}
    lines = [
        msgspec.json.encode({"dir": "session", "id": "new", "agent": "demo", "cwd": "/w", "handle": handle}),
        msgspec.json.encode({**fields, "kind": "_dragoman/session", "frame": msgspec.Raw(notes.write(note).line)}),
    ]
    await import_lines(journal, lines, new_id=names())
    [session] = await journal.sessions()
    assert (session.agent, session.cwd, session.handle) == ("demo", "/w", None)
    assert [one.origin for one in await all_entries(journal)] == ["host", "import"]


async def test_an_existing_session_is_left_unchanged(source: MemoryJournal, journal: Journal) -> None:
    lines = await exported(source)
    await import_lines(journal, lines, new_id=names("a"))
    before = await all_entries(journal)
    done = await import_lines(journal, lines, new_id=names("b"))
    assert (done.sessions, len(done.left_out), done.frames) == ([], 2, 0)
    assert await all_entries(journal) == before


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'{"dir":"noise","origin":"agent","bytes":"*"}', b'{"dir":"in","origin":"nobody"}', b"\xff"],
)
async def test_a_line_that_cannot_be_read_is_named(source: MemoryJournal, journal: Journal, line: bytes) -> None:
    with pytest.raises(InputError, match="line 3"):
        await import_lines(journal, [*(await exported(source))[:2], line], new_id=names())


async def test_an_export_of_a_later_format_is_refused(journal: Journal) -> None:
    with pytest.raises(InputError, match="format 2"):
        await import_lines(journal, [b'{"dir":"journal","format":2}'], new_id=names())


@pytest.mark.parametrize("case", RECORDINGS or [pytest.param("none", marks=ABSENT)])
async def test_a_recording_is_imported_as_it_folds_and_rebuilds(case: str, journal: Journal) -> None:
    lines = (FOLDER / case).read_bytes().splitlines()
    done = await import_lines(journal, lines, new_id=names(), agent="recorded")
    folds = fold_recording(lines)
    sessions = {one.agent_session_id: one for one in await journal.sessions()}
    assert set(sessions) == set(folds)
    assert all(one.cwd for one in sessions.values())
    assert len(done.sessions) == len(folds)
    for agent_session_id, fold in folds.items():
        rows = await journal.rows(sessions[agent_session_id].id)
        assert [(one.kind, one.text) for one in rows.messages] == [(one.kind, one.text) for one in fold.messages]
        assert [(one.title, one.status) for one in rows.tool_calls] == [
            (one.title, one.status) for one in fold.tool_calls
        ]
        assert [one.status for one in rows.runs] == [one.status for one in fold.runs.values()]
    assert await maintenance.verify(journal) == []
    again = MemoryJournal()
    await import_lines(again, await exported(journal), new_id=names("x"), trusted=True)
    for one in await journal.sessions():
        assert maintenance.differing_tables(await again.rows(one.id), await journal.rows(one.id)) == []
