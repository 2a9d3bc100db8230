"""The messages and notices of a session: who wrote each, and where one ends and the next begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dragoman.record import notes, rows
from dragoman.record.facts import (
    BlockAdded,
    CheckpointFailed,
    Fact,
    GitActionDone,
    MessageEnded,
    NoticeChanged,
    Rewound,
    TextAdded,
)
from dragoman.record.rows import FrameContext
from dragoman.record.text import GrowingText
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Unknown, Update
from dragoman.wire.vocabulary import AgentMessageChunk, TextContent

# Characters of a compaction's summary in its row; the frames have all of it.
MAX_SUMMARY_CHARACTERS = 64 * 1024


class Messages(list[rows.Message]):
    """Messages in the order in which they began. For reading; only the fold changes it."""

    __slots__ = ("_dropped_count", "current")

    def __init__(self) -> None:
        super().__init__()
        self.current: rows.Message | None = None  # the message that a chunk may still join
        self._dropped_count = 0  # of the first messages, whose contents were dropped

    def append_text(self, update: acp.SessionUpdate | Unknown) -> tuple[rows.Message, str] | None:
        """Append a chunk of text to the agent's current message, which is what nearly all frames are.

        Return the message and the text; None, with nothing changed, when the update is anything else.
        """
        message = self.current
        if (
            type(update) is AgentMessageChunk
            and message is not None
            and message.kind == "assistant"
            and (update.message_id is None or update.message_id == message.message_id)
            and type(content := update.content) is TextContent
        ):
            message.body.add(content.text)
            return message, content.text
        return None

    def append_texts(self, updates: Sequence[Update], first: int) -> list[str]:
        """Append the chunks of text from index `first` on, as `append_text` does, up to the first other update.

        Return their texts.
        """
        texts: list[str] = []
        message = self.current
        if message is None or message.kind != "assistant":
            return texts
        for index in range(first, len(updates)):
            update = updates[index].update
            if (
                type(update) is not AgentMessageChunk
                or (update.message_id is not None and update.message_id != message.message_id)
                or type(content := update.content) is not TextContent
            ):
                break
            texts.append(content.text)
        message.body.add_all(texts)
        return texts

    def append_chunk(self, kind: rows.MessageKind, chunk: acp.ContentChunk) -> Fact | None:
        """Append a chunk to the current message; return None where it belongs to another one."""
        message = self.current
        if message is None or message.kind != kind or chunk.message_id not in (None, message.message_id):
            return None
        return _add(message, chunk.content)

    def begin(
        self, context: FrameContext, kind: rows.MessageKind, chunk: acp.ContentChunk, *, replayed: bool
    ) -> list[Fact]:
        """Begin another message, which ends the current one."""
        facts = self.end()
        message = rows.Message(
            id=context.row_id("message"),
            kind=kind,
            run_id=context.run_id,
            message_id=chunk.message_id,
            time=context.time,
            replayed=replayed,
            body=GrowingText(),
        )
        self.current = message
        self.append(message)
        facts.append(_add(message, chunk.content))
        return facts

    def end(self) -> list[Fact]:
        """End the current message: the next chunk begins another one."""
        message, self.current = self.current, None
        if message is None:
            return []
        message.ended = True
        return [MessageEnded(message)]

    def drop_contents(self, run_id: str) -> None:
        """Drop the contents of all messages up to the end of a run, to save memory where a journal has them.

        All of them had ended by then. The messages themselves, without text and blocks, stay.
        """
        run_indexes = [index for index in range(self._dropped_count, len(self)) if self[index].run_id == run_id]
        if not run_indexes:
            return
        for message in self[self._dropped_count : run_indexes[-1] + 1]:
            message.body, message.blocks = GrowingText(), []
        self._dropped_count = run_indexes[-1] + 1

    def add_prompt(self, context: FrameContext, blocks: Sequence[acp.ContentBlock]) -> None:
        """Add the user's own prompt, which is complete when it is sent."""
        body = GrowingText()
        for block in blocks:
            if isinstance(block, acp.TextContent):
                body.add(block.text)
        self.append(
            rows.Message(
                id=context.row_id("message"),
                kind="user",
                run_id=context.run_id,
                message_id=None,
                time=context.time,
                replayed=False,
                body=body,
                blocks=[block for block in blocks if not isinstance(block, acp.TextContent)],
                ended=True,
            )
        )


def _add(message: rows.Message, content: acp.ContentBlock) -> Fact:
    if type(content) is TextContent:
        message.body.add(content.text)
        return TextAdded(message, content.text)
    message.blocks.append(content)
    return BlockAdded(message)


RESTART: Final = "restart"
"""The kind of a `NoticeChanged` about a restart, which no update of the agent tells."""

_RESTARTS: Final = {
    "resume": "The agent was started again and resumed the session.",
    "load": "The agent was started again and loaded the conversation.",
    "new": "The agent was started again with a new session: it does not know the conversation so far.",
}


class Notices(dict[str, rows.Notice]):
    """Notices by id, in the order in which they came. For reading; only the fold changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._compactions: dict[str, str] = {}  # row ids by the agent's ids
        self._summaries: dict[str, list[str]] = {}  # of running compactions: the parts of the summary so far

    def add(self, context: FrameContext, update: acp.Notice) -> NoticeChanged:
        row = rows.Notice(
            id=context.row_id("notice"),
            run_id=context.run_id,
            time=context.time,
            kind="notice",
            severity=update.severity,
            title=update.title,
            text=update.description,
        )
        self[row.id] = row
        return NoticeChanged(row, "notice")

    def add_restart(self, context: FrameContext, how: str) -> NoticeChanged:
        """Mark the place where another process of the agent went on, and whether it knows what came before."""
        row = rows.Notice(
            id=context.row_id("notice"),
            run_id=None,
            time=context.time,
            kind="notice",
            severity="warning" if how == "new" else "info",
            title=_RESTARTS[how],
        )
        self[row.id] = row
        return NoticeChanged(row, RESTART)

    def add_checkpoint_failed(self, context: FrameContext, note: notes.CheckpointFailed) -> CheckpointFailed:
        title = "No checkpoint before this run: it cannot be rewound, and its changes are not known exactly."
        if note.moment == "after":
            title = "No checkpoint after this run: its changes are not known exactly."
        row = rows.Notice(
            id=context.row_id("notice"),
            run_id=note.run_id,
            time=context.time,
            kind="notice",
            severity="warning",
            title=title,
            text=note.reason,
        )
        self[row.id] = row
        return CheckpointFailed(row, note)

    def add_rewound(self, context: FrameContext, note: notes.Rewound) -> Rewound:
        """Mark the place where the files were brought back. The agent does not know of it."""
        more = note.changed - len(note.paths) if note.paths else 0
        listed = ", ".join((*note.paths, *([f"and {more} more"] if more > 0 else ())))
        row = rows.Notice(
            id=context.row_id("notice"),
            run_id=None,
            time=context.time,
            kind="notice",
            title=f"The files were brought back to what they were {note.target}.",
            text=f"{note.changed} changed{': ' if note.paths else ''}{listed}" if note.changed else "No file differed.",
        )
        self[row.id] = row
        return Rewound(row, note)

    def add_git_action(self, context: FrameContext, note: notes.GitAction) -> GitActionDone:
        """Mark the place where a person committed, pushed or opened a pull request. The agent does not know of it."""
        short = (note.commit or "")[:10]
        branch = note.branch or "no branch"
        titles = {
            "commit": f"Committed {short} on {branch}: {note.subject}",
            "push": f"Pushed {branch} ({short}) to {note.remote}",
            "pull_request": f"Opened a pull request: {note.subject}",
        }
        row = rows.Notice(
            id=context.row_id("notice"),
            run_id=None,
            time=context.time,
            kind="notice",
            title=titles[note.action],
            text=note.url,
        )
        self[row.id] = row
        return GitActionDone(row, note)

    def update_compaction(self, context: FrameContext, update: acp.CompactionUpdate) -> NoticeChanged:
        row = self.get(self._compactions.get(update.compaction_id, ""))
        if row is None:
            row = rows.Notice(
                id=context.row_id("notice"), run_id=context.run_id, time=context.time, kind="compaction", title=""
            )
            self._compactions[update.compaction_id] = row.id
        chunks = self._summaries.get(update.compaction_id, [])
        if update.summary is not msgspec.UNSET and update.summary is not None:
            chunks = list(_texts(update.summary))
        error = update.error if update.error is not msgspec.UNSET else None
        ended = update.status != "in_progress"
        row = msgspec.structs.replace(
            row,
            status=update.status,
            severity="error" if update.status == "failed" else "info",
            text=error or "".join(chunks)[:MAX_SUMMARY_CHARACTERS] or row.text,
            ended_time=context.time if ended else None,
        )
        if ended:
            self._summaries.pop(update.compaction_id, None)
        self[row.id] = row
        return NoticeChanged(row, "compaction_update")

    def append_summary(self, update: acp.CompactionSummaryChunk) -> None:
        """Collect a part of the summary until the compaction ends, so that no row is rewritten for each part."""
        self._summaries.setdefault(update.compaction_id, []).extend(_texts((update.content,)))


def _texts(blocks: Iterable[object]) -> Iterable[str]:
    return (block.text for block in blocks if isinstance(block, acp.TextContent))
