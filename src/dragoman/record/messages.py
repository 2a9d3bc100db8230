"""The messages of a session: whose words they are, and where one ends and the next begins."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.record import rows
from dragoman.record.decisions import Where
from dragoman.record.facts import BlockAdded, Fact, MessageEnded, TextAdded
from dragoman.record.text import GrowingText
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Unknown
from dragoman.wire.vocabulary import AgentMessageChunk, TextContent


class Messages(list[rows.Message]):
    """In the order they began. For reading; the fold alone changes it."""

    __slots__ = ("_wordless", "at_hand")

    def __init__(self) -> None:
        super().__init__()
        self.at_hand: rows.Message | None = None  # more may come of it
        self._wordless = 0  # so many of the first have been let go of

    def more_text(self, update: acp.SessionUpdate | Unknown) -> tuple[rows.Message, str] | None:
        """What nearly all frames are: more words of the message at hand. The message and the words, which
        it now has; None when the update is anything else, and then nothing has changed."""
        message = self.at_hand
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

    def continued(self, kind: rows.MessageKind, chunk: acp.ContentChunk) -> Fact | None:
        """Adds it to the message at hand; None where it belongs to another one."""
        message = self.at_hand
        if message is None or message.kind != kind or chunk.message_id not in (None, message.message_id):
            return None
        return _add(message, chunk.content)

    def begun(self, where: Where, kind: rows.MessageKind, chunk: acp.ContentChunk, *, replayed: bool) -> list[Fact]:
        """Another message, which ends the one before."""
        facts = self.ended()
        message = rows.Message(
            id=where.row_id("message"),
            kind=kind,
            run_id=where.run_id,
            message_id=chunk.message_id,
            time=where.time,
            replayed=replayed,
            body=GrowingText(),
        )
        self.at_hand = message
        self.append(message)
        facts.append(_add(message, chunk.content))
        return facts

    def ended(self) -> list[Fact]:
        """Whatever comes next is another message."""
        message, self.at_hand = self.at_hand, None
        if message is None:
            return []
        message.ended = True
        return [MessageEnded(message)]

    def let_go(self, run_id: str) -> None:
        """What was said up to the end of a run is not kept here any longer: for who has it elsewhere. All of it had
        ended by then; that there was a message, when and whose, stays."""
        of_run = [index for index in range(self._wordless, len(self)) if self[index].run_id == run_id]
        if not of_run:
            return
        for message in self[self._wordless : of_run[-1] + 1]:
            message.body, message.blocks = GrowingText(), []
        self._wordless = of_run[-1] + 1

    def prompted(self, where: Where, blocks: Sequence[acp.ContentBlock]) -> None:
        """The user's own words, which are whole when they are sent."""
        body = GrowingText()
        for block in blocks:
            if isinstance(block, acp.TextContent):
                body.add(block.text)
        self.append(
            rows.Message(
                id=where.row_id("message"),
                kind="user",
                run_id=where.run_id,
                message_id=None,
                time=where.time,
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
