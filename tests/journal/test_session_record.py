"""Provisional frames: they count until their transcript goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import pytest

from dragoman.journal import maintenance
from dragoman.journal.entry import (
    TRANSCRIPT_PREFIX,
    Entry,
    mark_provisional,
    provisional_group,
    read_message,
    without_mark,
)
from dragoman.journal.rows import SessionRows
from dragoman.journal.search_documents import MAX_TOOL_CHARACTERS, MAX_TOOL_VALUES, search_documents
from dragoman.journal.session_record import SessionRecord
from dragoman.record import rows

TRANSCRIPT = f"{TRANSCRIPT_PREFIX}1"


class Counted(list[Any]):
    """A list that counts the items that were looked at."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__(items)
        self.seen = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self.seen += 1
            yield item


def searchable(**fields: Any) -> str:
    call = rows.ToolCall(id="tool-1", tool_call_id="t", run_id=None, time=0.0, replayed=False, **fields)
    [document] = search_documents(call)
    assert document.text is not None
    return document.text


def test_a_tool_call_is_searchable_by_its_first_characters_which_are_found_in_bounded_work() -> None:
    assert searchable(title="Read", raw_input={"path": "/a", "other": ["/a", {"b": "c"}]}) == "Read\n/a\nc"
    assert len(searchable(title="x" * MAX_TOOL_CHARACTERS * 2, raw_input="y")) == MAX_TOOL_CHARACTERS
    texts = Counted(["x" * 1000 + str(number) for number in range(1000)])
    assert len(searchable(title="Read", raw_input=texts)) <= MAX_TOOL_CHARACTERS
    assert texts.seen < 20
    numbers = Counted([0] * MAX_TOOL_VALUES * 2)
    assert searchable(title="Read", raw_input=numbers) == "Read"
    assert numbers.seen <= MAX_TOOL_VALUES


class Frames:
    """Entries of one session."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, kind: str, line: bytes, origin: Any = "import") -> None:
        connection = TRANSCRIPT if origin == "import" else "c1"
        number = len(self.entries) + 1
        self.entries.append(Entry(connection, "s1", number, float(number), origin, kind, line))

    def prompt(self, id_: str, origin: Literal["import", "client"] = "import") -> None:
        params = {"sessionId": "s", "prompt": [{"type": "text", "text": "Go"}]}
        self.add("session/prompt", _line(id=id_, method="session/prompt", params=params), origin)

    def text(self, text: str, origin: Literal["import", "agent"] = "import") -> None:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, "messageId": "m"}
        params = {"sessionId": "s", "update": update}
        self.add("agent_message_chunk", _line(method="session/update", params=params), origin)

    def answer(self, id_: str, *, group: int | None = None, tokens: int = 1) -> None:
        result = {"stopReason": "end_turn", "usage": {"totalTokens": tokens, "inputTokens": tokens, "outputTokens": 0}}
        line = _line(id=id_, result=result)
        self.add("session/prompt", line if group is None else mark_provisional(line, group))


def _line(**message: Any) -> bytes:
    return msgspec.json.encode({**message, "jsonrpc": "2.0"})


def _folded(entries: list[Entry]) -> SessionRecord:
    record = SessionRecord("s1")
    for entry in entries:
        record.add(entry, read_message(entry))
    return record


def _rows(frames: Frames) -> SessionRows:
    return maintenance.rows_of(_folded(frames.entries))


def test_a_mark_can_be_read_and_removed() -> None:
    line = _line(id="1", result={})
    marked = mark_provisional(line, 12)
    assert without_mark(marked) == line
    assert msgspec.json.decode(marked) == {**msgspec.json.decode(line), "_provisional": 12}
    assert provisional_group(Entry(TRANSCRIPT, "s1", 1, 1.0, "import", "session/prompt", marked)) == 12
    assert provisional_group(Entry(TRANSCRIPT, "s1", 1, 1.0, "import", "session/prompt", line)) is None
    assert provisional_group(Entry("c1", "s1", 1, 1.0, "agent", "session/prompt", marked)) is None


def test_a_provisional_end_counts_at_the_end_of_the_frames() -> None:
    frames = Frames()
    frames.prompt("1")
    frames.text("Do")
    frames.answer("1", group=2)
    rows = _rows(frames)
    assert [run.status for run in rows.runs] == ["success"]
    assert [message.ended for message in rows.messages] == [True, True]


def test_a_provisional_end_is_withdrawn_when_the_transcript_goes_on() -> None:
    frames = Frames()
    frames.prompt("1")
    frames.text("Do")
    frames.answer("1", group=2, tokens=1)
    frames.text("ne.")
    assert [run.status for run in _rows(frames).runs] == ["running"]
    frames.answer("1", tokens=5)
    rows = _rows(frames)
    assert [run.usage and run.usage.total_tokens for run in rows.runs] == [5]
    assert [message.text for message in rows.messages] == ["Go", "Done."]


def test_a_later_provisional_end_replaces_an_earlier_one() -> None:
    frames = Frames()
    frames.prompt("1")
    frames.text("Do")
    frames.answer("1", group=2, tokens=1)
    frames.answer("1", group=3, tokens=4)
    assert [run.usage and run.usage.total_tokens for run in _rows(frames).runs] == [4]


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_provisional_end_is_final_when_the_session_goes_on_here(is_taken: bool) -> None:
    frames = Frames()
    frames.prompt("1")
    frames.text("Done.")
    frames.answer("1", group=2)
    record = _folded(frames.entries)
    if is_taken:
        record.take()
    frames.prompt("2", "client")
    frames.text("More.", "agent")
    frames.prompt("3")  # the transcript has it too, later
    for entry in frames.entries[3:]:
        record.add(entry, read_message(entry))
    assert [run.status for run in record.fold.runs.values()] == ["success", "running", "running"]
    assert not record.is_outdated


def test_a_record_knows_that_rows_it_returned_were_withdrawn() -> None:
    frames = Frames()
    frames.prompt("1")
    frames.answer("1", group=1)
    record = _folded(frames.entries)
    assert not record.is_outdated
    record.take(are_more_expected=True)
    frames.text("Go")
    record.add(frames.entries[-1], read_message(frames.entries[-1]))
    assert not record.is_outdated
    frames.answer("1", group=3)
    record.add(frames.entries[-1], read_message(frames.entries[-1]))
    record.take()
    record.add(frames.entries[2], read_message(frames.entries[2]))
    assert record.is_outdated
