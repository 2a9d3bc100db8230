"""A stored session replayed: frames in, events and prompts out, and pieces to show made of them.

The frames go through the same fold as when they came, and their events through the same renderer, so a stored session
looks like the live item. Added are the user's prompts and answers, which were typed on the screen at that time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TypeAlias

import msgspec

from dragoman.cli.command import when
from dragoman.cli.figures import size, usage_parts
from dragoman.cli.host_actions import NO, YES
from dragoman.cli.pieces import UNSEEN, Ending, Line, MessageEnd, Piece, Span, Text, Thought
from dragoman.cli.render import Renderer
from dragoman.cli.text import one_line, plain, wrapped
from dragoman.journal.entry import Cursor, Entry, read_message
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import Session
from dragoman.journal.session_record import SessionRecord
from dragoman.record import events, facts, rows
from dragoman.record.events import Event, event_from_fact
from dragoman.session.run import failure_of
from dragoman.wire import vocabulary as acp

MARK = "\u203a "


class Prompt(msgspec.Struct, frozen=True):
    """A prompt in the user's own words."""

    time: float
    run_id: str | None  # None in a history that the agent replayed, or that was imported
    text: str
    attached: tuple[str, ...] = ()


class InterruptedRun(msgspec.Struct, frozen=True):
    """An interrupted run: the reason, and the events that `--json` prints for it."""

    reason: str
    error: events.Error
    end: events.RunCompleted


ReplayItem: TypeAlias = Event | Prompt | InterruptedRun


class SessionReplay:
    """Turns the entries of a session, in order, into items."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._record = SessionRecord(session.id)
        self._first_message = 0  # of the current run

    def add(self, entry: Entry) -> Iterator[ReplayItem]:
        fold = self._record.fold
        before = fold.runs.current_id
        line = entry.frame if entry.origin not in ("client", "host") else None
        for fact in self._record.add(entry, read_message(entry)):
            match fact:
                case facts.RunStarted():
                    self._first_message = len(fold.messages)
                    yield events.RunStarted(entry.at, self._session.id, fact.run.id, None)
                    yield _prompt(fold.messages[-1])
                case facts.MessageEnded(message=message) if message.kind == "user":
                    yield _prompt(message)
                case facts.RunEnded(run=run):
                    yield from self._ended(run)
                case _:
                    event = event_from_fact(fact, entry.at, self._session.id, fold.runs.current_id or before, line)
                    if event is not None:
                        yield event

    def _ended(self, run: rows.Run) -> Iterator[ReplayItem]:
        time = run.ended_time or run.time
        head = (time, self._session.id, run.id, None)
        failure = failure_of(run, self._session.agent or "the agent", "")
        messages = [
            message for message in self._record.fold.messages[self._first_message :] if message.kind == "assistant"
        ]
        end = events.RunCompleted(
            *head,
            "error" if failure is not None else "cancelled" if run.status == "cancelled" else "success",
            run.stop_reason,
            events.join_texts(messages),
            run.usage,
            time - run.time,
            failure.message if failure is not None else run.reason,
        )
        if failure is None:
            yield end
            return
        error = events.Error(*head, str(failure), failure.category, type(failure).__name__, failure.guidance)
        if run.status == "interrupted":
            yield InterruptedRun(run.reason or failure.message, error, end)
        else:
            yield error
            yield end


async def replay_session(journal: Journal, session: Session) -> AsyncIterator[list[ReplayItem]]:
    """Replay a session, a page at a time."""
    replay = SessionReplay(session)
    cursor: Cursor | None = None
    while (page := await journal.read(session.id, after=cursor)).entries:
        yield [item for entry in page.entries for item in replay.add(entry)]
        cursor = page.cursor


class Conversation:
    """Makes pieces of replayed items. The last piece may still change and is held back; `end` returns the rest."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._merger = PieceMerger()
        self._subjects: dict[str, str] = {}  # permissions and questions without an answer: what they are about

    def show(self, items: Iterable[ReplayItem]) -> Iterator[Piece]:
        for item in items:
            for piece in self._pieces(item):
                yield from self._merger.put(piece)

    def end(self) -> Iterator[Piece]:
        yield from self._merger.end()

    def _pieces(self, item: ReplayItem) -> Iterable[Piece]:
        match item:
            case Prompt():
                return self._prompt(item)
            case InterruptedRun():
                return self._interrupted(item)
            case events.PermissionRequested(permission_id=id_, title=title):
                self._subjects[id_] = title
                return self._renderer.show(item)
            case events.PermissionResolved(decided_by=by) if by not in (*UNSEEN, None):
                return self._decided(item)
            case events.QuestionAsked(question_id=id_, message=message):
                self._subjects[id_] = message
                return self._renderer.show(item)
            case events.QuestionAnswered(decided_by=by) if by not in UNSEEN:
                return self._answered(item)
            case events.Error(message=message):
                return self._error(message)
            case _:
                return self._renderer.show(item)

    def _prompt(self, prompt: Prompt) -> Iterator[Piece]:
        yield Line((Span(when(prompt.time), "dim"),), block="prompt")
        for number, line in enumerate(wrapped(plain(prompt.text).strip(), self._renderer.width - 3)):
            yield Line((Span(" " * len(MARK) if number else MARK, "question"), Span(line, "bold")), block="prompt")
        if prompt.attached:
            names = one_line(", ".join(prompt.attached), self._renderer.width - 8)
            yield Line((Span(f"  with {names}", "dim"),), block="prompt")

    def _decided(self, answer: events.PermissionResolved) -> Iterator[Piece]:
        about = self._subjects.pop(answer.permission_id, "")
        who = "you" if answer.decided_by == "person" else answer.decided_by
        if answer.decision == "allow":
            mark, word = Span(YES, "good"), f"allowed by {who}"
        elif answer.decision == "deny":
            mark, word = Span(NO, "bad"), f"denied by {who}"
        else:
            mark, word = Span(NO, "bad"), "not answered"
        yield Line((mark, Span(f" {one_line(f'{word}: {about}', self._room())}", "dim")))
        # Of an "always" or a "never": how far it goes.
        _, _, extent = (answer.reason or "").partition("; ")
        for line in wrapped(plain(extent), self._room() - 1) if extent else ():
            yield Line((Span(f"  {line}", "dim"),))

    def _answered(self, answer: events.QuestionAnswered) -> Iterator[Piece]:
        yield Line((Span("? ", "question"), Span(one_line(self._subjects.pop(answer.question_id, ""), self._room()))))
        for name, value in (answer.content or {}).items():
            yield Line((Span(f"  {one_line(f'{name}: {value}', self._room())}", "bold"),))
        if answer.action != "accept":
            word = {"decline": "declined", "cancel": "not answered"}.get(answer.action, answer.action)
            yield Line((Span(f"  {one_line(word, self._room())}", "dim"),))

    def _interrupted(self, run: InterruptedRun) -> Iterator[Piece]:
        """Show no duration: the interruption may have been recorded much later."""
        usage = usage_parts(run.end.usage) if run.end.usage else ()
        words = " · ".join([f"interrupted: {plain(run.reason).strip().rstrip('.')}", *usage])
        for line in wrapped(words, self._renderer.width):
            yield Line((Span(line, "dim"),), block="end")

    def _error(self, message: str) -> Iterator[Piece]:
        for number, line in enumerate(wrapped(plain(message), self._renderer.width - 3)):
            yield Line((Span(" " if number else NO, "bad"), Span(f" {line}")))

    def _room(self) -> int:
        return self._renderer.width - 2


class PieceMerger:
    """Merges the parts of a message into item piece, and leaves out a line that is ended by the next piece."""

    def __init__(self) -> None:
        self._words: list[Text | Thought] = []
        self._line: Line | None = None

    def put(self, piece: Piece) -> Iterator[Piece]:
        if isinstance(piece, Text | Thought):
            if self._words and (type(self._words[0]), self._words[0].message_id) != (type(piece), piece.message_id):
                yield from self._take_words()
            yield from self._take_line()
            self._words.append(piece)
            return
        yield from self._take_words()
        if isinstance(piece, MessageEnd):
            yield piece
        elif isinstance(piece, Ending):
            if self._line is not None and self._line.key == piece.key:
                self._line = None
            yield from self._take_line()
            yield Line(piece.spans)
        else:
            yield from self._take_line()
            if piece.key is None:
                yield piece
            else:
                self._line = piece

    def end(self) -> Iterator[Piece]:
        yield from self._take_words()
        yield from self._take_line()

    def _take_words(self) -> Iterator[Piece]:
        if self._words:
            first, text = self._words[0], "".join(item.text for item in self._words)
            self._words = []
            yield Thought(text, first.message_id) if isinstance(first, Thought) else Text(text, first.message_id)

    def _take_line(self) -> Iterator[Piece]:
        if self._line is not None:
            line, self._line = self._line, None
            yield Line(line.spans, None, line.block)


def _prompt(message: rows.Message) -> Prompt:
    return Prompt(message.time, message.run_id, message.text, tuple(_attachment(block) for block in message.blocks))


def _attachment(block: acp.ContentBlock) -> str:
    match block:
        case acp.ImageContent(data=data, mime_type=kind) | acp.AudioContent(data=data, mime_type=kind):
            return f"{kind} ({size(len(data) * 3 // 4)})"
        case acp.ResourceLink(name=name, uri=uri):
            return name or uri
        case acp.EmbeddedResource(resource=resource):
            return resource.uri
        case _:
            return "an attachment"
