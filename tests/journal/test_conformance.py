"""The promises of `journal.protocols`, checked on every journal."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.journal import maintenance, notes
from dragoman.journal.entry import Cursor, Entry, Origin, Page, read_message
from dragoman.journal.errors import JournalClosed, NotTheOwner, OutOfOrder, SessionDeleted
from dragoman.journal.protocols import Connection, InboxCommand, Journal
from dragoman.journal.rows import RowChanges, SessionRows, SessionSummary
from dragoman.journal.search_documents import MAX_RANKED, SearchQuery
from dragoman.record import notes as record_notes
from dragoman.wire.messages import Oversized, Reply, RpcError
from journal.talk import Talk, all_entries, entry, process, register_c1


async def follow(journal: Journal, seen: list[Entry], count: int, **where: Any) -> Cursor:
    """Read until `count` entries have been seen; return the cursor after the last one."""
    pages: Any = journal.subscribe(**where)
    async with asyncio.timeout(20), aclosing(pages):
        async for page in pages:
            assert isinstance(page, Page)
            for place, one in enumerate(page.entries):
                seen.append(one)
                if len(seen) == count:
                    return page.cursor_at(place)
    raise AssertionError(f"the journal ended after {len(seen)} of {count} entries")


# -- frames


async def test_frames_are_read_as_they_were_written(journal: Journal) -> None:
    await register_c1(journal)
    odd = [
        b'{"jsonrpc": "2.0",  "method":"x"}',
        b"\xff\xfe no JSON",
        b"",
        '{"a": "\u65e5\u0000"}'.encode(),
        b"x" * 300_000,
        os.urandom(5000),
    ]
    entries = [Entry("c1", "s1", n, 0.1 * n, "agent", "noise", frame) for n, frame in enumerate(odd, start=1)]
    await journal.append(entries)
    assert await all_entries(journal) == entries


async def test_a_cursor_continues_where_it_was_returned(journal: Journal) -> None:
    await register_c1(journal)
    entries = [entry(n, session=None if n % 3 else "s2") for n in range(1, 21)]
    for begin in range(0, 20, 4):
        await journal.append(entries[begin : begin + 4])
    page = await journal.read(limit=20)
    assert list(page.entries) == entries
    for place in range(20):
        rest = await journal.read(after=page.cursor_at(place), limit=50)
        assert list(rest.entries) == entries[place + 1 :]
    assert (await journal.read(after=page.cursor)).cursor == page.cursor == await journal.cursor()


async def test_a_session_is_read_alone(journal: Journal) -> None:
    await register_c1(journal)
    await journal.append([entry(n, session=f"s{n % 3}") for n in range(1, 31)])
    assert [one.n for one in await all_entries(journal, "s1", limit=3)] == list(range(1, 31, 3))
    assert await all_entries(journal, "nobody") == []


@pytest.mark.parametrize("cursor", ["", "12", "another.12", "another", "{name}.x", "{name}.-1", "{name}."])
async def test_a_cursor_of_something_else_is_refused(journal: Any, cursor: str) -> None:
    with pytest.raises(InputError, match="not a cursor of this journal"):
        await journal.read(after=cursor.replace("{name}", journal.name))


@pytest.mark.parametrize("numbers", [[2], [1, 3], [1, 1], [0], [1, 2, 2]])
async def test_a_gap_or_a_double_is_refused_and_nothing_of_it_is_written(journal: Journal, numbers: list[int]) -> None:
    await register_c1(journal)
    with pytest.raises(OutOfOrder):
        await journal.append([entry(n) for n in numbers])
    assert await all_entries(journal) == []
    assert await journal.session_ids() == []
    await journal.append([entry(1), entry(2)])
    with pytest.raises(OutOfOrder):
        await journal.append([entry(2)])
    assert [one.n for one in await all_entries(journal)] == [1, 2]


async def test_a_connection_must_be_registered_first(journal: Journal) -> None:
    with pytest.raises(OutOfOrder, match="not known"):
        await journal.append([entry(1)])


async def test_one_refused_append_harms_no_other(journal: Journal) -> None:
    await register_c1(journal, "c1")
    await register_c1(journal, "c2")
    results = await asyncio.gather(
        journal.append([entry(1)]),
        journal.append([entry(7)]),
        journal.append([entry(1, connection="c2")]),
        journal.append([entry(2)]),
        return_exceptions=True,
    )
    assert [isinstance(one, OutOfOrder) for one in results] == [False, True, False, False]
    assert [(one.connection_id, one.n) for one in await all_entries(journal)] == [("c1", 1), ("c2", 1), ("c1", 2)]


@pytest.mark.parametrize("odd", [{"kind": "half \ud800"}, {"at": object()}])
async def test_a_value_that_cannot_be_stored_harms_no_other(journal: Journal, odd: dict[str, Any]) -> None:
    await register_c1(journal, "c1")
    await register_c1(journal, "c2")
    results = await asyncio.gather(
        journal.append([entry(1)]),
        journal.append([msgspec.structs.replace(entry(1, connection="c2"), **odd)]),
        journal.append([entry(2)]),
        return_exceptions=True,
    )
    assert [isinstance(results[0], str), isinstance(results[2], str)] == [True, True]
    assert [one.n for one in await all_entries(journal) if one.connection_id == "c1"] == [1, 2]


async def test_the_details_of_a_connection_are_stored(journal: Journal) -> None:
    await journal.register_connection(Connection(id="c1", agent="demo", at=5.0))
    connection = Connection(
        id="c1", agent="demo", at=5.0, protocol_version=1, capabilities=msgspec.Raw(b'{"loadSession":true}')
    )
    await journal.register_connection(connection)
    [stored] = await journal.connections()
    assert msgspec.json.encode(stored) == msgspec.json.encode(connection)


async def test_after_its_end_a_journal_says_so(journal: Journal) -> None:
    await journal.close()
    with pytest.raises(JournalClosed):
        await journal.append([entry(1)])
    with pytest.raises(JournalClosed):
        await journal.read()
    await journal.close()


async def test_an_oversized_line_and_the_error_that_replaces_it_are_stored(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    request_id = talk.prompt("x")
    long = Oversized(99, "00ff", b"\xffhead", b"tail")
    talk.message(long, "agent")
    talk.message(Reply(request_id, "session/prompt", msgspec.Raw(b"null"), RpcError(1, "too long"), b""), "host")
    await talk.commit()
    messages = [read_message(stored) for stored in await all_entries(journal, "s1")]
    assert long in messages
    assert (await journal.rows("s1")).runs[0].status == "error"
    assert await maintenance.verify(journal) == []


# -- subscriptions


async def test_a_subscriber_gets_stored_entries_and_then_new_ones(journal: Journal) -> None:
    await register_c1(journal)
    await journal.append([entry(n) for n in range(1, 6)])
    seen: list[Entry] = []
    reader = asyncio.create_task(follow(journal, seen, 12, limit=2))
    for n in range(6, 13):
        await journal.append([entry(n)])
    await reader
    assert [one.n for one in seen] == list(range(1, 13))


async def test_readers_of_every_speed_see_all_of_it_once(journal: Journal) -> None:
    await register_c1(journal)
    everything: list[list[Entry]] = [[] for _ in range(5)]
    readers = [
        asyncio.create_task(follow(journal, seen, 40, limit=limit))
        for seen, limit in zip(everything, (1, 2, 3, 100, 1000), strict=True)
    ]
    for n in range(1, 41, 4):
        await journal.append([entry(n + more) for more in range(4)])
    await asyncio.gather(*readers)
    assert all([one.n for one in seen] == list(range(1, 41)) for seen in everything)


async def test_a_reader_that_returns_with_a_cursor_misses_nothing_and_sees_nothing_twice(journal: Journal) -> None:
    await register_c1(journal)
    seen: list[Entry] = []
    cursor: Cursor | None = None
    for n in range(1, 10):
        await journal.append([entry(n, session="s1" if n % 2 else "s2")])
        if n % 2:
            cursor = await follow(journal, seen, len(seen) + 1, session_id="s1", after=cursor)
    assert [one.n for one in seen] == [1, 3, 5, 7, 9]


async def test_a_subscription_ends_with_the_journal(journal: Journal) -> None:
    await register_c1(journal)
    await journal.append([entry(1)])
    first = asyncio.Event()
    seen: list[int] = []

    async def read() -> None:
        async for page in journal.subscribe():
            seen.extend(one.n for one in page.entries)
            first.set()

    reader = asyncio.create_task(read())
    async with asyncio.timeout(20):
        await first.wait()
        await journal.close()
        await reader
    assert seen == [1]


async def test_a_session_that_is_not_there_yet_can_be_waited_for(journal: Journal) -> None:
    await register_c1(journal)
    seen: list[Entry] = []
    reader = asyncio.create_task(follow(journal, seen, 1, session_id="later"))
    await journal.append([entry(1)])
    await journal.append([entry(2, session="later")])
    await reader
    assert [one.n for one in seen] == [2]


# -- rows


async def test_rows_are_committed_with_their_frames(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    request_id = talk.prompt("do it, please")
    talk.say("one ")
    await talk.commit()
    rows = await journal.stored_rows("s1")
    assert [(one.kind, one.text, one.ended) for one in rows.messages] == [
        ("user", "do it, please", True),
        ("assistant", "one ", False),
    ]
    talk.say("two ")
    talk.update("agent_message_chunk", content={"type": "image", "data": "aGk=", "mimeType": "image/png"})
    await talk.commit()
    talk.say("three")
    await talk.commit()
    [_, message] = (await journal.stored_rows("s1")).messages
    assert (message.text, len(message.blocks), message.ended) == ("one two three", 1, False)
    talk.tool("t1", kind="read", rawInput={"path": "x"})
    talk.end(request_id, usage={"inputTokens": 3, "outputTokens": 4, "totalTokens": 7})
    await talk.commit()
    rows = await journal.stored_rows("s1")
    assert [one.text for one in rows.messages] == ["do it, please", "one two three"]
    assert rows.messages[1].ended
    assert [one.title for one in rows.tool_calls] == ["a tool"]
    assert [(one.id, one.status) for one in rows.runs] == [("run-of-1", "success")]
    assert rows.usage[0].usage.input_tokens == 3
    [session] = rows.sessions
    assert (session.agent, session.cwd, session.prompt) == ("demo", "/home/me/project", "do it, please")
    assert (session.frames, session.runs, session.status) == (talk.record.position, 1, "success")
    assert await maintenance.verify(journal) == []


async def test_a_session_is_named_by_its_first_prompt_or_else_by_a_command(
    journal: Journal,
) -> None:
    async def named() -> str:
        await talk.commit()
        (session,) = (await journal.rows("s1")).sessions
        return session.prompt

    def typed(text: str) -> None:
        talk.update("user_message_chunk", "import", content={"type": "text", "text": text}, messageId=text)

    talk = await Talk.begin(journal)
    typed("/clear")
    assert await named() == "/clear"
    typed("/model opus")
    talk.turn("/compact", "so be it")
    assert await named() == "/clear"
    talk.turn("/etc/hosts has two lines too many", "it has")
    assert await named() == "/etc/hosts has two lines too many"
    talk.turn("thanks", "you are welcome")
    assert await named() == "/etc/hosts has two lines too many"


async def test_a_command_with_text_that_the_agent_answered_names_a_session(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    talk.turn("/review the last commit", "it is fine")
    talk.turn("thanks", "you are welcome")
    await talk.commit()
    assert (await journal.rows("s1")).sessions[0].prompt == "/review the last commit"


@pytest.mark.parametrize("commit_each", [True, False])
async def test_a_plan_that_is_removed_and_made_again_is_the_last_one(journal: Journal, commit_each: bool) -> None:
    talk = await Talk.begin(journal)

    async def plan(name: str, text: str | None) -> None:
        if text is None:
            talk.update("plan_removed", planId=name)
        else:
            talk.update("plan_update", plan={"type": "markdown", "planId": name, "content": text})
        if commit_each:
            await talk.commit()

    for name, text in (("a", "1"), ("b", "2"), ("c", "3"), ("b", None)):
        await plan(name, text)
    await talk.commit()
    assert [one.plan_id for one in (await journal.stored_rows("s1")).plans] == ["a", "c"]
    for name, text in (("a", None), ("a", "4"), ("c", "5")):
        await plan(name, text)
    await talk.commit()
    plans = (await journal.stored_rows("s1")).plans
    assert [(one.plan_id, one.markdown) for one in plans] == [("c", "5"), ("a", "4")]
    assert await maintenance.verify(journal) == []


async def test_that_a_run_is_being_cancelled_is_in_its_row(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    request_id = talk.prompt("go")
    await talk.commit()
    talk.frame("out", {"method": "session/cancel", "params": {"sessionId": "a"}}, "client")
    await talk.commit()
    assert [one.cancel_requested for one in (await journal.stored_rows("s1")).runs] == [True]
    talk.frame("in", {"id": request_id, "result": {"stopReason": "cancelled"}}, "agent")
    await talk.commit()
    assert [one.status for one in (await journal.stored_rows("s1")).runs] == ["cancelled"]
    assert await maintenance.verify(journal) == []


async def test_files_terminals_and_questions_have_their_rows(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    talk.prompt("go")
    requests: dict[str, dict[str, Any]] = {
        "fs/write_text_file": {"path": "/x/needle.txt", "content": "words"},
        "terminal/create": {"command": "make", "args": ["haystack"]},
        "elicitation/create": {"message": "Really?", "mode": "form", "requestedSchema": {"type": "object"}},
    }
    for number, (method, params) in enumerate(requests.items(), start=100):
        frame = {"id": number, "method": method, "params": {"sessionId": "a", **params}}
        talk.frame("in", frame, "agent")
    await talk.commit()
    for number, result in ((100, {}), (101, {"terminalId": "t1"}), (102, {"action": "decline"})):
        talk.frame("out", {"id": number, "result": result}, "client")
    await talk.commit()
    rows = await journal.stored_rows("s1")
    assert [(one.path, one.status) for one in rows.file_calls] == [("/x/needle.txt", "done")]
    assert [(one.command, one.status) for one in rows.terminals] == [("make", "running")]
    assert [(one.message, one.action) for one in rows.questions] == [("Really?", "decline")]
    assert await found(journal, "needle.txt") == [("s1", "file")]
    assert await found(journal, "haystack") == [("s1", "command")]
    assert await maintenance.verify(journal) == []


async def test_numbers_too_large_for_a_column_are_stored(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    params = {"sessionId": "a", "path": "/x", "line": 2**31}
    talk.frame("in", {"id": 2**70, "method": "fs/read_text_file", "params": params}, "agent")
    await talk.commit()
    assert [one.request_id for one in (await journal.stored_rows("s1")).file_calls] == [2**70]
    assert await maintenance.verify(journal) == []


async def test_rows_of_entries_that_came_without_are_made_when_asked_for(journal: Journal) -> None:
    await register_c1(journal)
    await journal.append([entry(1, "a"), entry(2, "b"), entry(3, "c", session="s2")])
    assert set(await journal.stale_sessions()) == {"s1", "s2"}
    assert [one.text for one in (await journal.rows("s1")).messages] == ["ab"]
    assert await journal.stale_sessions() == ["s2"]
    assert {one.id for one in await journal.sessions()} == {"s1", "s2"}
    assert await journal.stale_sessions() == []
    assert await maintenance.verify(journal) == []


async def test_a_loaded_record_continues_where_it_was(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    talk.turn("first", "one", "two")
    talk.say("un")
    await talk.commit()
    again = await Talk.resume(journal, connection="another")
    again.say("finished")
    again.turn("second", "three")
    await again.commit()
    rows = await journal.stored_rows("s1")
    assert [one.text for one in rows.messages] == ["first", "onetwo", "unfinished", "second", "three"]
    assert len({one.id for one in rows.messages}) == 5
    assert await maintenance.verify(journal) == []


async def test_rows_that_lack_frames_stay_stale_when_more_are_added(journal: Journal) -> None:
    """Another process may add to a session between frames that came without rows and the rebuild of the rows."""
    talk = await Talk.begin(journal)
    talk.turn("first", "one")
    talk.say("half ")
    await talk.commit()
    await register_c1(journal, "another")
    await journal.append([entry(1, "done", connection="another")])
    other = await Talk.resume(journal, connection="of another process")
    other.turn("second", "two")
    await other.commit()
    assert await journal.stale_sessions() == ["s1"]
    assert [one.text for one in (await journal.rows("s1")).messages] == ["first", "one", "half done", "second", "two"]
    assert len(await journal.search(query("done"))) == 1
    assert await maintenance.verify(journal) == []


async def test_rebuilt_rows_are_the_same_rows(journal: Journal) -> None:
    for name in ("s1", "s2"):
        talk = await Talk.begin(journal, name)
        talk.turn("first", "one", "two")
        talk.tool("t", status="completed")
        talk.turn("second", "three")
        talk.say("open")
        await talk.commit()
    before = {name: await journal.stored_rows(name) for name in ("s1", "s2")}
    hits = await journal.search(query("three"))
    assert await maintenance.rebuild(journal) == 2
    assert {name: await journal.stored_rows(name) for name in ("s1", "s2")} == before
    assert await journal.search(query("three")) == hits
    assert await maintenance.verify(journal) == []


async def test_a_session_that_grows_while_it_is_verified_has_no_defects(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await Talk.begin(journal)
    talk.turn("hello", "hi")
    await talk.commit()
    read = journal.stored_rows
    looks = 0

    async def read_later(session_id: str) -> SessionRows:
        nonlocal looks
        looks += 1
        if looks < 3:
            talk.turn("and more", "of it")
            await talk.commit()
        return await read(session_id)

    monkeypatch.setattr(journal, "stored_rows", read_later)
    assert await maintenance.verify(journal) == []
    assert looks == 3


async def test_the_session_with_the_latest_frame_is_listed_first(journal: Journal) -> None:
    for name, time in (("s1", 50.0), ("s2", 90.0), ("s3", 10.0)):
        await (await Talk.begin(journal, name, time=time)).commit()
    assert [one.id for one in await journal.sessions()] == ["s2", "s1", "s3"]


async def test_a_replayed_history_that_is_recorded_adds_no_rows(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    talk.turn("hello", "hi")
    await talk.commit()
    before = await journal.rows("s1")
    talk.update("user_message_chunk", "replay", content={"type": "text", "text": "hello"})
    talk.say("hi", "replay")
    talk.update("session_info_update", "replay", title="A title")
    await talk.commit()
    after = await journal.rows("s1")
    assert after.messages == before.messages
    assert after.sessions[0].title == "A title"
    talk.turn("again", "yes")
    await talk.commit()
    assert [one.text for one in (await journal.rows("s1")).messages] == ["hello", "hi", "again", "yes"]
    assert await maintenance.verify(journal) == []


async def test_a_replayed_history_of_a_new_session_adds_its_rows(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    talk.update("user_message_chunk", "replay", content={"type": "text", "text": "hello"})
    talk.say("hi", "replay")
    await talk.commit()
    assert [one.text for one in (await journal.rows("s1")).messages] == ["hello", "hi"]
    assert await maintenance.verify(journal) == []


# -- what only the host may say


FOREIGN: tuple[Origin, ...] = ("agent", "import", "replay", "client")


async def test_an_agent_that_forges_notes_changes_nothing(journal: Journal) -> None:
    victim = await Talk.begin(journal, "victim")
    victim.turn("hello", "hi")
    await victim.commit()
    await journal.send_command(InboxCommand(id="k1", session_id="s1", at=0.0, body=b"{}"))
    talk = await Talk.begin(journal)
    for note in (
        notes.Tombstone(session_id="s1"),
        notes.Tombstone(session_id="victim"),
        notes.Receipt(command_id="k1"),
        notes.SessionOpened(agent="evil", cwd="/", handle="{}"),
    ):
        for origin in FOREIGN:
            talk.message(notes.write(note), origin)
    for record_note in (record_notes.RunInterrupted("run-1", "error", "so it was"), record_notes.HistoryDiffers((), 1)):
        for origin in FOREIGN:
            talk.message(record_notes.write(record_note), origin)
    await talk.commit()
    state = await journal.command_state("k1")
    assert state is not None
    assert state.outcome is None
    assert await journal.tombstones() == []
    sessions = await journal.sessions()
    assert {(one.id, one.agent, one.handle) for one in sessions} == {("victim", "demo", None), ("s1", "demo", None)}
    assert [state.differs for state in (await journal.rows("s1")).session_state if state.differs] == []
    assert (await journal.rows("s1")).receipts == []
    assert await maintenance.verify(journal) == []


# -- summaries and figures


async def test_a_summary_has_runs_usage_and_state_without_messages(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    request_id = talk.prompt("go")
    talk.say("done")
    talk.end(request_id, usage={"inputTokens": 3, "outputTokens": 2, "totalTokens": 5})
    await talk.commit()
    rows = await journal.rows("s1")
    summaries = await journal.summaries(["s1", "absent"])
    assert summaries["s1"].runs == rows.runs
    assert [(report.id, report.usage.total_tokens) for report in summaries["s1"].usage] == [(rows.runs[0].id, 5)]
    assert summaries["s1"].state == rows.session_state[0]
    assert summaries["absent"] == SessionSummary([], [])


async def test_each_commit_is_timed_once_and_nothing_is_pending_after_it(journal: Journal) -> None:
    await register_c1(journal)
    journal.commit_times()
    await journal.append([entry(1)])
    assert [seconds >= 0 for seconds in journal.commit_times()] == [True]
    assert journal.commit_times() == []
    assert journal.pending_writes == 0


# -- deleting


async def test_a_deleted_session_is_gone_and_stays_gone(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    talk.turn("hello", "unspeakable")
    await talk.commit()
    other = await Talk.begin(journal, "s2")
    other.turn("hello", "unspeakable too")
    await other.commit()
    assert await journal.delete("s1", at=99.0, by="me")
    [tombstone] = await all_entries(journal, "s1")
    assert (tombstone.origin, tombstone.kind) == ("host", "_dragoman/tombstone")
    rows = await journal.rows("s1")
    assert not rows.sessions
    assert not rows.messages
    assert [one.id for one in await journal.sessions()] == ["s2"]
    assert [one.session_id for one in await journal.search(query("unspeakable"))] == ["s2"]
    [row] = await journal.tombstones()
    assert (row.id, row.agent, row.agent_session_id, row.by) == ("s1", "demo", "agent's s1", "me")
    talk.say("I am back")
    with pytest.raises(SessionDeleted):
        await talk.commit()
    assert not await journal.delete("s1", at=100.0)
    assert not await journal.delete("never was", at=100.0)
    assert await maintenance.verify(journal) == []
    await maintenance.rebuild(journal)
    assert await journal.tombstones() == [row]


async def test_a_reader_of_a_session_learns_of_its_end(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    talk.turn("hello", "hi")
    await talk.commit()
    begun = asyncio.Event()
    kinds: list[str] = []

    async def read() -> None:
        async for page in journal.subscribe("s1"):
            kinds.extend(one.kind for one in page.entries)
            begun.set()

    reader = asyncio.create_task(read())
    async with asyncio.timeout(20):
        await begun.wait()
        await journal.delete("s1", at=9.0)
        await reader
    assert kinds[-1] == "_dragoman/tombstone"


async def test_a_cursor_outlives_its_entry(journal: Journal) -> None:
    await register_c1(journal)
    await journal.append([entry(1, session="s1"), entry(2, session="s2")])
    cursor = await journal.cursor()
    await journal.delete("s2", at=1.0)
    await journal.append([entry(3, session="s1")])
    page = await journal.read(after=cursor)
    assert [one.kind for one in page.entries] == ["_dragoman/tombstone", "agent_message_chunk"]


# -- owners and the inbox


async def test_only_the_owner_appends_and_a_dead_one_is_followed_by_another(journal: Journal) -> None:
    await register_c1(journal)
    for name in ("p1", "p2"):
        await journal.heartbeat(process(name))
    epoch = await journal.claim("s1", "p1", is_alive=lambda _: True)
    assert await journal.claim("s1", "p1", is_alive=lambda _: True) == epoch
    with pytest.raises(NotTheOwner, match="4711"):
        await journal.claim("s1", "p2", is_alive=lambda _: True)
    with pytest.raises(NotTheOwner):
        await journal.append([entry(1)])
    await journal.append([entry(1)], epochs={"s1": epoch})
    later = await journal.claim("s1", "p2", is_alive=lambda _: False)
    assert later > epoch
    with pytest.raises(NotTheOwner):
        await journal.append([], [RowChanges("s1", 1)], epochs={"s1": epoch})
    with pytest.raises(NotTheOwner):
        await journal.append([entry(2)], epochs={"s1": epoch})
    await journal.append([entry(2)], epochs={"s1": later})
    await journal.release("s1", "p1")
    owner = await journal.owner("s1")
    assert owner is not None
    assert owner.process == process("p2")
    await journal.release("s1", "p2")
    with pytest.raises(NotTheOwner):
        await journal.append([entry(3)], epochs={"s1": later})
    await journal.append([entry(3)])
    assert await journal.claim("s1", "p1", is_alive=lambda _: True) > later
    assert [one.n for one in await all_entries(journal)] == [1, 2, 3]


async def test_a_command_that_is_sent_twice_is_done_once(journal: Journal) -> None:
    await journal.heartbeat(process("p1"))
    epoch = await journal.claim("s1", "p1", is_alive=lambda _: True)
    talk = await Talk.begin(journal, epoch=epoch)
    command = InboxCommand(id="k1", session_id="s1", at=1.0, body=b'{"prompt":"go"}')
    assert await journal.send_command(command)
    assert not await journal.send_command(command)
    assert await journal.take_commands("s1", epoch) == [command]
    assert await journal.take_commands("s1", epoch) == []
    talk.note(notes.Receipt(command_id="k1", outcome="done", detail="sent"))
    await talk.commit()
    assert not await journal.send_command(command)
    state = await journal.command_state("k1")
    assert state is not None
    assert (state.taken, state.outcome, state.detail) == (True, "done", "sent")
    assert [one.id for one in (await journal.rows("s1")).receipts] == ["k1"]
    assert await journal.command_state("k2") is None


async def test_commands_that_a_dead_owner_did_not_carry_out_go_to_the_next(journal: Journal) -> None:
    for name in ("p1", "p2"):
        await journal.heartbeat(process(name))
    epoch = await journal.claim("s1", "p1", is_alive=lambda _: True)
    talk = await Talk.begin(journal, epoch=epoch)
    commands = [InboxCommand(id=f"k{n}", session_id="s1", at=1.0, body=b"{}") for n in range(3)]
    for command in commands:
        await journal.send_command(command)
    await journal.send_command(InboxCommand(id="other", session_id="s2", at=1.0, body=b"{}"))
    assert await journal.take_commands("s1", epoch) == commands
    talk.note(notes.Receipt(command_id="k1"))
    await talk.commit()
    later = await journal.claim("s1", "p2", is_alive=lambda _: False)
    with pytest.raises(NotTheOwner):
        await journal.take_commands("s1", epoch)
    assert [one.id for one in await journal.take_commands("s1", later)] == ["k0", "k2"]


# -- search


def query(text: str, **filters: Any) -> SearchQuery:
    return SearchQuery(text=text, **filters)


@pytest.fixture
async def library(journal: Journal) -> Journal:
    first = await Talk.begin(journal, "s1", agent="claude", cwd="/a", time=100.0)
    first.turn("Where is the Configuration parsed?", "In config.py, ", "by load_document().")
    first.tool(
        "t1",
        title="Read src/config.py",
        kind="read",
        status="completed",
        locations=[{"path": "/a/src/config.py"}],
        rawInput={"command": ["rg", "needle_in_command"]},
        content=[{"type": "diff", "path": "/a/x.py", "oldText": "old_words", "newText": "new_words"}],
    )
    await first.commit()
    second = await Talk.begin(journal, "s2", agent="codex", cwd="/b", time=500.0)
    second.turn("日本語で設定ファイルを読む", "設定は config に。", " ok?")
    second.turn("config config config", "no")
    await second.commit()
    return journal


async def found(journal: Journal, text: str, **filters: Any) -> list[tuple[str, str]]:
    return [(hit.session_id, hit.kind) for hit in await journal.search(query(text, **filters))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("configuration", {("s1", "user")}),
        ("CONFIGURATION parsed", {("s1", "user")}),
        ("load_doc", {("s1", "assistant")}),
        ('"parsed where"', set()),
        ('"the configuration parsed"', {("s1", "user")}),
        ("設定ファイル", {("s2", "user")}),
        ("設定", {("s2", "user"), ("s2", "assistant")}),
        ("読", {("s2", "user")}),
        ("む", {("s2", "user")}),
        ("k?", {("s2", "assistant")}),
        ("?", {("s1", "user"), ("s2", "assistant")}),
        ("no", {("s2", "user"), ("s2", "assistant")} - {("s2", "user")}),
        ("needle_in_command", {("s1", "tool")}),
        ("src/config.py", {("s1", "tool")}),
        ("new_words old_words", {("s1", "tool")}),
        ("nothing like it", set()),
        ("zq", set()),
        ('"', set()),
        ("", set()),
        ("   ", set()),
        ("c* OR NEAR(", set()),
    ],
)
async def test_the_search_finds_parts_of_words_in_any_script(
    library: Journal, text: str, expected: set[tuple[str, str]]
) -> None:
    hits = await found(library, text)
    assert expected <= set(hits)
    if text not in ("no", "?"):
        assert set(hits) == expected


async def test_search_can_be_narrowed(library: Journal) -> None:
    assert set(await found(library, "config")) >= {("s1", "assistant"), ("s1", "tool"), ("s2", "user")}
    assert {session for session, _ in await found(library, "config", agent="claude")} == {"s1"}
    assert {session for session, _ in await found(library, "config", cwd="/b")} == {"s2"}
    assert {session for session, _ in await found(library, "config", session_id="s2")} == {"s2"}
    assert {kind for _, kind in await found(library, "config", kinds=["tool"])} == {"tool"}
    assert {session for session, _ in await found(library, "config", since=400.0)} == {"s2"}
    assert {session for session, _ in await found(library, "config", until=400.0)} == {"s1"}
    assert len(await found(library, "config", limit=1)) == 1


async def test_the_best_hit_is_first_and_shows_its_match(library: Journal) -> None:
    [best, *_] = await library.search(query("config"))
    assert best.snippet == "config config config"
    assert [best.snippet[begin:end] for begin, end in best.marks] == ["config"] * 3


async def test_a_long_text_is_shown_around_the_match(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    talk.turn("x", "filler " * 1000, "the Needle is here", " filler" * 1000)
    await talk.commit()
    [hit] = await journal.search(query("needle"))
    assert len(hit.snippet) <= 160
    assert [hit.snippet[begin:end] for begin, end in hit.marks] == ["Needle"]


async def test_of_too_many_matches_the_newest_are_ranked(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    for number in range(MAX_RANKED):
        talk.turn("common", f"common {number}")
    await talk.commit()
    hits = await journal.search(query("common", limit=MAX_RANKED))
    assert len(hits) == MAX_RANKED
    assert hits.is_cut
    newest = sorted(one.time for one in (await journal.rows("s1")).messages)[-MAX_RANKED:]
    assert sorted(hit.at for hit in hits) == newest


# -- upkeep


async def test_a_compressed_session_reads_as_before(journal: Journal) -> None:
    talk = await Talk.begin(journal)
    for turn in range(30):
        talk.turn(f"prompt {turn}", *(f"word {n}" for n in range(20)))
    talk.noise(b"\xff\x00")
    await talk.commit()
    before, rows = await all_entries(journal), await journal.rows("s1")
    await journal.compress("s1")
    await journal.compress("nobody")
    assert await all_entries(journal) == before
    talk.turn("and on", "it goes")
    await talk.commit()
    assert (await all_entries(journal, "s1"))[: len(before)] == before
    assert list((await journal.rows("s1")).messages)[: len(rows.messages)] == list(rows.messages)
    await journal.vacuum()
    assert await maintenance.verify(journal) == []


async def test_an_owner_s_own_command_is_stored_as_taken_and_offered_to_the_next_owner_only(journal: Journal) -> None:
    await journal.heartbeat(process("p1"))
    await journal.heartbeat(process("p2"))
    epoch = await journal.claim("s1", "p1", is_alive=lambda _: True)
    command = InboxCommand(id="c1", session_id="s1", at=1.0, body=b"{}")
    assert await journal.send_command(command, taken_epoch=epoch)
    assert not await journal.send_command(command, taken_epoch=epoch)
    assert await journal.take_commands("s1", epoch) == []
    assert await journal.sessions_with_commands() == frozenset()
    state = await journal.command_state("c1")
    assert state is not None
    assert state.taken
    next_epoch = await journal.claim("s1", "p2", is_alive=lambda _: False)
    assert [taken.id for taken in await journal.take_commands("s1", next_epoch)] == ["c1"]
    with pytest.raises(NotTheOwner):
        await journal.send_command(InboxCommand(id="c2", session_id="s1", at=1.0, body=b"{}"), taken_epoch=epoch)
    assert await journal.command_state("c2") is None


async def test_a_sent_command_wakes_the_subscribers_of_the_inbox(journal: Journal) -> None:
    async with asyncio.timeout(20):
        waking = journal.command_changes()
        await anext(waking)
        await journal.send_command(InboxCommand(id="c1", session_id="s1", at=1.0, body=b"{}"))
        await anext(waking)
        await journal.close()
