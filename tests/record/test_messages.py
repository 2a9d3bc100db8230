"""Messages, notices and compactions of the agent, in the record."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.record.facts import Fact, NoticeChanged, OtherUpdate
from dragoman.record.fold import SessionFold
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Unknown, Update


def fold_updates(fold: SessionFold, *updates: acp.SessionUpdate) -> list[Fact]:
    return [fact for at, update in enumerate(updates, start=1) for fact in fold.update(at, float(at), update)]


def chunk(text: str) -> acp.CompactionSummaryChunk:
    return acp.CompactionSummaryChunk(compaction_id="c", content=acp.TextContent(text=text))


def test_a_notice_is_a_row() -> None:
    fold = SessionFold()
    (fact,) = fold_updates(
        fold, acp.Notice(severity="warning", title="Nearly full", description="Ten percent are left.")
    )
    (row,) = fold.notices.values()
    assert fact == NoticeChanged(row, "notice")
    assert (row.id, row.severity, row.title, row.text) == (
        "notice-1",
        "warning",
        "Nearly full",
        "Ten percent are left.",
    )


def test_a_compaction_is_one_row_from_its_beginning_to_its_end() -> None:
    fold = SessionFold()
    facts = fold_updates(
        fold,
        acp.CompactionUpdate(compaction_id="c", status="in_progress"),
        chunk("What "),
        chunk("was said."),
        acp.CompactionUpdate(compaction_id="c", status="completed"),
    )
    (row,) = fold.notices.values()
    assert (row.kind, row.status, row.text, row.time, row.ended_time) == (
        "compaction",
        "completed",
        "What was said.",
        1.0,
        4.0,
    )
    assert [type(fact) for fact in facts] == [NoticeChanged, OtherUpdate, OtherUpdate, NoticeChanged]


def test_a_compaction_that_failed_says_why() -> None:
    fold = SessionFold()
    fold_updates(fold, acp.CompactionUpdate(compaction_id="c", status="failed", error="There was no room."))
    (row,) = fold.notices.values()
    assert (row.severity, row.text) == ("error", "There was no room.")


def test_the_whole_summary_replaces_its_pieces() -> None:
    fold = SessionFold()
    whole = (acp.TextContent(text="All of it."),)
    fold_updates(fold, chunk("Some"), acp.CompactionUpdate(compaction_id="c", status="completed", summary=whole))
    assert [row.text for row in fold.notices.values()] == ["All of it."]


def say(text: str, message_id: str | None = None) -> Update:
    return Update("s", acp.AgentMessageChunk(content=acp.TextContent(text=text), message_id=message_id), b"")


@pytest.mark.parametrize(
    "other",
    [
        say("of another message", "m2"),
        Update("s", acp.AgentThoughtChunk(content=acp.TextContent(text="hm")), b""),
        Update("s", acp.AgentMessageChunk(content=acp.ImageContent(data="aGk=", mime_type="image/png")), b""),
        Update("s", acp.ToolCall(tool_call_id="t", title="read"), b""),
        Update("s", Unknown("odd", msgspec.Raw(b"{}")), b""),
    ],
    ids=["another message", "a thought", "an image", "a tool call", "an unknown update"],
)
def test_texts_are_appended_up_to_the_first_other_update(other: Update) -> None:
    fold = SessionFold()
    updates = [say("a"), say("b"), say("c", "m1"), other, say("d")]
    assert fold.messages.append_texts(updates, 0) == []  # there is no message yet
    fold.update(1, 1.0, say("0", "m1").update)
    assert fold.messages.append_texts(updates, 1) == ["b", "c"]
    assert fold.messages.append_texts(updates, 3) == []
    [message] = fold.messages
    assert message.text == "0bc"


def test_texts_are_not_appended_to_a_thought() -> None:
    fold = SessionFold()
    fold.update(1, 1.0, acp.AgentThoughtChunk(content=acp.TextContent(text="hm")))
    assert fold.messages.append_texts([say("a")], 0) == []
    assert [message.text for message in fold.messages] == ["hm"]
