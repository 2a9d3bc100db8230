"""Notices of the agent's, and its compactions: what it tells of itself beside the conversation."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.record import rows
from dragoman.record.decisions import Where
from dragoman.record.facts import NoticeChanged
from dragoman.wire import vocabulary as acp

# Characters of a summary that are kept in its row; the frames have all of it.
SUMMARY = 64 * 1024


class Notices(dict[str, rows.Notice]):
    """Rows by id, in the order they came. For reading; the fold alone changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._compactions: dict[str, str] = {}  # the agent's ids to the rows'
        self._summaries: dict[str, list[str]] = {}  # of those that go on: what was told of the summary

    def told(self, where: Where, update: acp.Notice) -> NoticeChanged:
        row = rows.Notice(
            id=where.row_id("notice"),
            run_id=where.run_id,
            time=where.time,
            kind="notice",
            severity=update.severity,
            title=update.title,
            text=update.description,
        )
        self[row.id] = row
        return NoticeChanged(row, "notice")

    def compaction(self, where: Where, update: acp.CompactionUpdate) -> NoticeChanged:
        row = self.get(self._compactions.get(update.compaction_id, ""))
        if row is None:
            row = rows.Notice(
                id=where.row_id("notice"), run_id=where.run_id, time=where.time, kind="compaction", title=""
            )
            self._compactions[update.compaction_id] = row.id
        chunks = self._summaries.get(update.compaction_id, [])
        if update.summary is not msgspec.UNSET and update.summary is not None:
            chunks = list(_texts(update.summary))
        failed = update.error if update.error is not msgspec.UNSET else None
        ended = update.status != "in_progress"
        row = msgspec.structs.replace(
            row,
            status=update.status,
            severity="error" if update.status == "failed" else "info",
            text=failed or "".join(chunks)[:SUMMARY] or row.text,
            ended_time=where.time if ended else None,
        )
        if ended:
            self._summaries.pop(update.compaction_id, None)
        self[row.id] = row
        return NoticeChanged(row, "compaction_update")

    def summary(self, update: acp.CompactionSummaryChunk) -> None:
        """Kept until it ends: a row is not written again for each word of it."""
        self._summaries.setdefault(update.compaction_id, []).extend(_texts((update.content,)))


def _texts(blocks: Iterable[object]) -> Iterable[str]:
    return (block.text for block in blocks if isinstance(block, acp.TextContent))
