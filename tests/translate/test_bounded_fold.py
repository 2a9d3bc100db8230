"""A fold that lets go of what was taken: the rows are the same, and little stays in memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.journal import maintenance
from dragoman.journal.entry import Entry, Origin, Page, read_message
from dragoman.journal.protocols import Journal, Owner, TranscriptPosition
from dragoman.journal.rows import RowStore
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sqlite import MemoryJournal
from dragoman.record import notes
from dragoman.translate import scratch
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.frames import SessionFrames
from dragoman.translate.ingest import file_import
from dragoman.translate.ingest.bounded_fold import BoundedFold, Tokens
from dragoman.translate.ingest.dedup import ImportPolicy
from dragoman.translate.ingest.file_import import Commit
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.report import AT_REST_S
from dragoman.translate.scratch import ObjectStore, Scratch
from dragoman.translate.translator import Frame
from dragoman.wire.messages import RpcError
from dragoman.wire.vocabulary import (
    AgentMessageChunk,
    Content,
    Cost,
    PromptRequest,
    PromptResponse,
    SessionToolCallUpdate,
    SessionUpdate,
    TextContent,
    ToolCall,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)
from translate.claude_talk import SESSION, Transcript
from translate.test_claude_properties import DATA

pytestmark = pytest.mark.slow

LONG = "long " * 1000


def _text(text: str) -> Content:
    return Content(content=TextContent(text=text))


UPDATES: tuple[SessionUpdate, ...] = (
    AgentMessageChunk(content=TextContent(text=LONG), message_id="m1"),
    ToolCall(tool_call_id="t1", title="One", kind="execute", raw_input={"command": LONG}, content=(_text(LONG),)),
    ToolCall(tool_call_id="t2", title="Two"),
    SessionToolCallUpdate(tool_call_id="t1", status="completed", raw_output={"said": LONG}),
    AgentMessageChunk(content=TextContent(text="Between."), message_id="m2"),
    SessionToolCallUpdate(tool_call_id="t2", status="failed"),
    SessionToolCallUpdate(tool_call_id="t1", title="One, late"),
    SessionToolCallUpdate(tool_call_id="t1", status="completed", content=(_text("News."),)),
    ToolCall(tool_call_id="t1", title="One, again"),
)


def _entries() -> list[Entry]:
    frames: list[Frame] = []
    session = SessionFrames("native", frames)
    for at, update in enumerate(UPDATES, start=1):
        session.update(float(at), update)
    return [Entry("c", "s", n, frame.at, "import", frame.kind, frame.line) for n, frame in enumerate(frames, start=1)]


def _rows(record: SessionRecord, bounded: BoundedFold | None) -> RowStore:
    """Return the rows of a store that gets the changes after every frame."""
    store = RowStore()
    for entry in _entries():
        record.add(entry, read_message(entry))
        store.apply(record.take())
        if bounded is not None:
            bounded.release()
    return store


def test_the_rows_are_the_same_however_late_an_update_comes() -> None:
    bounded = BoundedFold(Scratch())
    rows = _rows(SessionRecord("s", bounded), bounded).read()
    assert rows == _rows(SessionRecord("s"), None).read()
    assert [(row.title, row.raw_output) for row in rows.tool_calls] == [
        ("One, again", {"said": LONG}),
        ("Two", None),
    ]


def test_released_rows_leave_memory() -> None:
    bounded = BoundedFold(Scratch())
    _rows(SessionRecord("s", bounded), bounded)
    assert [message.text for message in bounded.messages] == ["", "Between."]  # the second one may go on
    assert not any(call.content or call.raw_input or call.raw_output for call in bounded.tool_calls)


_ids = st.sampled_from(["", "a", "b"])
_statuses = st.sampled_from([None, "pending", "in_progress", "completed", "failed"])
_words = st.builds(TextContent, text=st.sampled_from(["/model", "/model opus", "Words."]))
_message_ids = st.sampled_from([None, "m1", "m2"])
_costs = st.one_of(st.none(), st.builds(Cost, amount=st.sampled_from([0.5, 1.0, 2.0]), currency=st.just("USD")))
_request_ids = st.sampled_from(["p0", "p1"])  # prompts: ids that come again, answered late, twice or never
_spent = st.builds(Usage, total_tokens=st.just(7), input_tokens=st.just(4), output_tokens=st.just(3))
_events = st.one_of(
    st.tuples(st.just("prompt"), _request_ids, _words),
    st.tuples(
        st.just("answer"),
        _request_ids,
        st.builds(
            PromptResponse, stop_reason=st.sampled_from(["end_turn", "cancelled"]), usage=st.one_of(st.none(), _spent)
        ),
    ),
    st.just(("failure",)),
    st.just(("cancel",)),
    st.tuples(st.just("interrupted"), st.integers(1, 40)),
    st.builds(UsageUpdate, used=st.just(1), size=st.just(2), cost=_costs),
    st.builds(AgentMessageChunk, content=_words, message_id=_message_ids),
    st.builds(UserMessageChunk, content=_words, message_id=_message_ids),
    st.builds(ToolCall, tool_call_id=_ids, title=st.sampled_from(["", "A title"]), status=_statuses),
    st.builds(SessionToolCallUpdate, tool_call_id=_ids, title=st.sampled_from([None, "Another"]), status=_statuses),
)


def _entry(n: int, transcript: Any) -> Entry:
    at = float(n)
    origin: Origin = "import"
    frames: list[Frame] = []
    session = SessionFrames("native", frames)
    match transcript:
        case ("prompt", request_id, text):
            request = PromptRequest(session_id="native", prompt=(text,))
            session.request(at, request_id, "session/prompt", request)
        case ("answer", request_id, answer):
            session.answer_prompt(at, request_id, answer)
        case ("failure",):
            session.answer_prompt(at, "p0", RpcError(code=-32603, message="No"))
        case ("cancel",):
            line = b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"native"}}'
            frames.append(Frame(at, "out", "native", "session/cancel", line))
        case ("interrupted", position):
            note = notes.write(notes.RunInterrupted(f"run-{position}", "interrupted", "gone"))
            origin = "host"
            frames.append(Frame(at, "out", "native", note.method, note.line))
        case update:
            session.update(at, update)
    [frame] = frames
    return Entry("c", "s", n, at, origin, frame.kind, frame.line)


@settings(max_examples=400)  # with fewer, few have several runs that ended
@given(st.lists(st.tuples(_events, st.sampled_from(["stays", "is released", "is evicted"])), max_size=40))
def test_updates_in_any_order_give_the_same_rows(transcript: list[tuple[Any, str]]) -> None:
    """Whenever the fold is released, or evicted as a whole: within a turn, after it, or never."""
    whole, space = SessionRecord("s"), Scratch()
    store_of_records: ObjectStore[SessionRecord] = ObjectStore(space)
    store_of_records.add("s", SessionRecord("s", BoundedFold(space)))
    stores = [RowStore(), RowStore()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "MAX_OBJECTS_IN_MEMORY", 0)
        for n, (one, then) in enumerate(transcript, start=1):
            entry = _entry(n, one)
            bounded = store_of_records.get("s")
            assert bounded is not None
            for record, store in zip((bounded, whole), stores, strict=True):
                record.add(entry, read_message(entry))
                store.apply(record.take())
            if then != "stays":
                cast(BoundedFold, bounded.fold).release()
            if then == "is evicted":
                store_of_records.evict()
                assert not store_of_records.loaded
    assert stores[0].read() == stores[1].read()
    (bounded,) = store_of_records.values()
    spent = Tokens()
    for run in whole.fold.runs.values():
        spent = spent.plus(run.usage)
    assert cast(BoundedFold, bounded.fold).spent == spent
    assert len(bounded.fold.runs) == len(whole.fold.runs)
    assert len(bounded.fold.tool_calls) == len(whole.fold.tool_calls)


@pytest.mark.parametrize("size", [1, 3])
async def test_a_transcript_in_many_commits_gives_the_rows_that_its_frames_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(file_import, "_MAX_COMMIT_ENTRIES", size)
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(DATA)
    modified = path.stat().st_mtime
    async with MemoryJournal() as journal:
        importer = Importer(journal, clock=lambda: modified + 2 * AT_REST_S)
        assert (await importer.import_file(Found("claude", path, len(DATA), modified))).frames > 10
        assert not await maintenance.verify(journal)


class _Sink:
    """The part of a journal and of the commits that a `FileImport` needs; it discards everything."""

    async def add(self, *_: Any) -> None:
        pass

    async def owner(self, session_id: str) -> Owner | None:
        return None

    async def read(self, *_: Any, **__: Any) -> Page:
        return Page((), "", "", ())


def _long_talk(calls: int) -> Transcript:
    """One run after the other, each with ten calls, and what Claude Code writes between them."""
    transcript = Transcript(timestamp="2026-03-01T10:00:00.000Z")
    for number in range(calls):
        if number % 10 == 0:
            transcript.user("Go on")
        call_id = f"toolu_{number:020}"
        transcript.call("Bash", {"command": "ls", "description": f"Look, {number}"}, call_id, id=f"msg_{number}")
        transcript.add("progress", data={"type": "hook_progress"}, parentToolUseID=call_id)
        transcript.result("a.py\nb.py\n" * 10, {"stdout": "a.py\nb.py\n" * 10}, call_id)
    return transcript


def _many_prompts(prompts: int) -> Transcript:
    transcript = Transcript(timestamp="2026-03-01T10:00:00.000Z")
    for number in range(prompts):
        transcript.user(f"Go on, {number}")
    return transcript


def _many_sides(sides: int) -> Transcript:
    """Sub-agents in the session's own file, as Claude Code wrote them until 2.0, each with a call."""
    transcript = Transcript(timestamp="2026-03-01T10:00:00.000Z")
    transcript.user("Ask the others")
    for number in range(sides):
        call_id = f"toolu_{number:020}"
        request_id = transcript.user(f"You are {number}", isSidechain=True, parentUuid=None)
        called = transcript.call("Bash", {"command": "ls"}, call_id, isSidechain=True, parentUuid=request_id)
        transcript.result("a.py", None, call_id, isSidechain=True, parentUuid=called)
    return transcript


async def _read(
    data: bytes, path: Path, on_progress: Callable[[int], None], sink: _Sink
) -> file_import.FileImport[_Sink]:
    position = TranscriptPosition(
        connection_id="c", provider="claude", path=str(path), session_id="", frames=0, offset=0
    )
    end = file_import.FileState(inode=0, size=len(data), modified=0.0, age=2 * AT_REST_S)
    taken = file_import.FileImport(cast(Journal, sink), ImportPolicy({}, frozenset()), position, end, sink)
    path.write_bytes(data)  # noqa: ASYNC240 (a small file)
    tracemalloc.start()
    try:
        await taken.read(path, on_progress)
    finally:
        tracemalloc.stop()
    return taken


@pytest.mark.parametrize(
    ("talk", "count", "bytes_each"),
    [
        # For each call there are three records. Of a run, of which there is one for ten calls, a few bytes stay.
        (_long_talk, 1000, 150),
        (_many_prompts, 1000, 150),
        # A session of some 15 kB is put aside; its name and those of its records stay.
        (_many_sides, 150, 600),
    ],
)
async def test_only_a_few_bytes_of_each_record_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, talk: Callable[[int], Transcript], count: int, bytes_each: int
) -> None:
    # Of a file there are more entries, of a sub-agent there are fewer.
    monkeypatch.setattr(scratch, "MAX_ENTRIES_IN_MEMORY", 100)
    monkeypatch.setattr(scratch, "MAX_OBJECTS_IN_MEMORY", 16)
    monkeypatch.setattr(file_import, "_MAX_COMMIT_ENTRIES", 100)
    data = b"\n".join(talk(3 * count).lines)
    memory_used: list[int] = []

    def transcript(offset: int) -> None:
        if offset > len(data) * (len(memory_used) + 1) / 3:
            gc.collect()
            memory_used.append(tracemalloc.get_traced_memory()[0])

    taken = await _read(data, tmp_path / f"{SESSION}.jsonl", transcript, _Sink())
    came = taken.report().amounts
    assert 3 * count in (came.tool_calls, came.runs)
    assert came.input_tokens == 10 * came.tool_calls
    assert (memory_used[1] - memory_used[0]) / count < bytes_each


class _Weighing(_Sink):
    """Measures the memory in use at each commit."""

    memory_used = 0

    async def add(self, *_: Any) -> None:
        self.memory_used = max(self.memory_used, tracemalloc.get_traced_memory()[0])


@pytest.mark.parametrize("frame", [Transcript.user, Transcript.text])
async def test_of_a_long_line_only_its_frames_stay_in_memory(
    tmp_path: Path, frame: Callable[[Transcript, str], str]
) -> None:
    size = 4_000_000
    transcript = Transcript()
    transcript.user("Go")
    frame(transcript, "x" * size)
    transcript.user("Go on")
    sink = _Weighing()
    await _read(b"\n".join(transcript.lines), tmp_path / f"{SESSION}.jsonl", lambda _: None, sink)
    assert 2 * size < sink.memory_used < 3 * size  # its frame, with some room, and its row


class _Counting(_Sink):
    """Records the number of entries of the largest commit."""

    most = 0

    async def add(self, commit: Commit, *_: Any) -> None:
        self.most = max(self.most, len(commit.entries))


async def test_the_frames_at_the_end_of_a_file_are_committed_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_import, "_MAX_COMMIT_ENTRIES", 20)
    sink = _Counting()
    # Each of them is cut by the end.
    await _read(b"\n".join(_many_sides(100).lines), tmp_path / f"{SESSION}.jsonl", lambda _: None, sink)
    assert 20 <= sink.most < 40
