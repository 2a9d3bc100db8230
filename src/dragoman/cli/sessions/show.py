"""`dragoman sessions show` and `export`: a stored session as a conversation, as events, frames, rows or Markdown.

The frames go through the same fold as when they came, and their events through the same renderer, so a stored session
looks like the live one. Added are the user's prompts and answers, which were typed on the screen at that time.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import click
import msgspec

from dragoman.cli.command import (
    async_command,
    count,
    folder,
    has_colours,
    note,
    open_output,
    open_readonly,
    state_of,
    when,
)
from dragoman.cli.options import Number, complete_session
from dragoman.cli.output import LOG_WIDTH, STDOUT, Outbox, terminal_width
from dragoman.cli.render import NO, YES, Renderer
from dragoman.cli.screen import (
    UNSEEN,
    Ending,
    Line,
    MessageEnd,
    Piece,
    Screen,
    Span,
    Text,
    Thought,
    colours,
    markdown_stream,
    without_colours,
)
from dragoman.cli.text import cost_part, inert_json, one_line, plain, size, usage_parts, wrapped
from dragoman.journal import transfer
from dragoman.journal.entry import Cursor, Entry, read_message
from dragoman.journal.markdown import attachment_label, context_label, session_markdown
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import Session, SessionSummary
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sessions import LATEST, find_session, session_name, worktree_of
from dragoman.record import events, facts, rows
from dragoman.record.events import Event, RunStarted, event_from_fact, to_json
from dragoman.record.rows import PromptContext
from dragoman.session.run import failure_of

SHOW_EPILOG = """\b
Examples:
  dragoman sessions show
  dragoman sessions show 3f9a1c --last 1
  dragoman sessions show 3f9a1c | less
  dragoman sessions show 3f9a1c --json | jq -r '.text // empty'"""


class _OneStream(Outbox):
    """Writes everything to stdout: the whole conversation is the output."""

    def put(self, fd: int, data: bytes | str) -> None:
        super().put(STDOUT, data)


@click.command(epilog=SHOW_EPILOG)
@click.argument("session", metavar="[ID]", required=False, shell_complete=complete_session)
@click.option("--last", metavar="N", type=Number(1), help="Only the last N runs.")
@click.option("--thoughts/--no-thoughts", default=None, help="Show the agent's thoughts. [default: on a terminal]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON event per line, as `dragoman run --json`.")
@async_command
async def show(*, session: str | None, last: int | None, thoughts: bool | None, as_json: bool) -> None:
    """Show a conversation; without an ID, the latest."""
    async with open_readonly() as journal:
        row = find_session(await journal.sessions(), session or LATEST)
        if as_json:
            await _show_events(journal, row, last)
        else:
            await _show(journal, row, last, thoughts)


async def _show_events(journal: Journal, session: Session, last: int | None) -> None:
    """Print the events of `dragoman run --json`, and the prompts."""
    outbox = _OneStream()
    chosen = LastRuns(session.runs, last)
    async for page in replay_session(journal, session):
        lines = [line for item in chosen.of(page) for line in _lines_of(item, session)]
        for line in map(inert_json, lines) if os.isatty(STDOUT) else lines:
            outbox.put(STDOUT, line + b"\n")
        await outbox.flush()


def _lines_of(item: ReplayItem, session: Session) -> list[bytes]:
    match item:
        case Prompt():
            head = {"type": "prompt", "time": item.time, "session_id": session.id, "run_id": item.run_id}
            return [msgspec.json.encode({**head, "text": item.text, "attached": item.attached})]
        case InterruptedRun():
            return [to_json(item.error), to_json(item.end)]
        case Restart():
            return []  # the events are those of `dragoman run --json`
        case _:
            return [to_json(item)]


async def _show(journal: Journal, session: Session, last: int | None, thoughts: bool | None) -> None:
    tty = os.isatty(STDOUT)
    width = terminal_width(STDOUT) or LOG_WIDTH
    screen = Screen(
        _OneStream(),
        text_tty=True,  # text is made safe in a pipe too: it may end on a terminal
        notes_tty=False,
        shared=True,
        width=width if tty else None,
        paint=colours() if has_colours() else without_colours,
        markdown=markdown_stream(width) if tty else None,
    )
    renderer = Renderer(
        cwd=Path(session.cwd or "/"),
        width=width,
        thoughts=tty if thoughts is None else thoughts,
        verbose=False,
        diffs=True,
    )
    conversation = Conversation(renderer)
    summary = (await journal.summaries([session.id]))[session.id]
    state = await state_of(journal, session)
    await screen.show(header(session, summary, width))
    chosen = LastRuns(session.runs, last)
    async for page in replay_session(journal, session):
        await screen.show(conversation.show(chosen.of(page)))
    await screen.show(conversation.end())
    if session.status == "running" and state != "idle":
        await screen.show([Line((Span(state, "bad" if state == "interrupted" else "bold"),), block="end")])
    screen.end()
    await screen.show(())


class LastRuns:
    """Selects the items of the last runs; all items without `last`."""

    def __init__(self, runs: int, last: int | None) -> None:
        # Runs that have to begin before anything is shown.
        self._awaited = runs - last + 1 if last is not None and runs > last else 0

    def of(self, page: Sequence[ReplayItem]) -> list[ReplayItem]:
        shown = []
        for item in page:
            if self._awaited and isinstance(item, RunStarted):
                self._awaited -= 1
            if not self._awaited:
                shown.append(item)
        return shown


def header(session: Session, summary: SessionSummary, width: int) -> list[Piece]:
    cost = cost_part(summary.state.usage) if summary.state is not None else ""
    runs = count(session.runs, "run")
    worktree = worktree_of(session)
    place = folder(session.cwd) if worktree is None else plain(f"worktree {worktree}")
    parts = [plain(session.agent) or "unknown agent", place, when(session.updated), runs, cost]
    forked = f"forked from {session.forked_from}" if session.forked_from else ""
    parts.insert(2, plain(forked))
    return [
        Line((Span(one_line(session_name(session), width), "bold"),), block="question"),
        Line((Span(one_line(" · ".join(part for part in parts if part), width), "dim"),), block="question"),
        Line((Span(plain(session.id), "dim"),), block="question"),
    ]


MARK = "\u203a "


class Prompt(msgspec.Struct, frozen=True):
    """A prompt in the user's own words."""

    time: float
    run_id: str | None  # None in a history that the agent replayed, or that was imported
    text: str
    attached: tuple[str, ...] = ()
    context: str = ""  # a line about the text that went with it


class Restart(msgspec.Struct, frozen=True):
    """Another process of the agent went on with the session."""

    text: str


class InterruptedRun(msgspec.Struct, frozen=True):
    """An interrupted run: the reason, and the events that `--json` prints for it."""

    reason: str
    error: events.Error
    end: events.RunCompleted


ReplayItem: TypeAlias = Event | Prompt | Restart | InterruptedRun


class SessionReplay:
    """Turns the entries of a session, in order, into items."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._record = SessionRecord(session.id)
        self._first_message = 0  # of the current run

    def add(self, entry: Entry) -> Iterator[ReplayItem]:
        before = self._record.fold.runs.current_id
        yield from self._items(entry, self._record.add(entry, read_message(entry)), before)

    def finish(self) -> Iterator[ReplayItem]:
        """Return the items of a transcript's end."""
        before = self._record.fold.runs.current_id
        for entry, changed in self._record.fold_provisional():
            yield from self._items(entry, changed, before)

    def _items(self, entry: Entry, changed: Sequence[facts.Fact], before: str | None) -> Iterator[ReplayItem]:
        fold = self._record.fold
        line = entry.frame if entry.origin not in ("client", "host") else None
        for fact in changed:
            match fact:
                case facts.RunStarted():
                    self._first_message = len(fold.messages)
                    yield events.RunStarted(entry.at, self._session.id, fact.run.id, None, fact.run.context)
                    yield _prompt(fold.messages[-1], fact.run.context)
                case facts.MessageEnded(message=message) if message.kind == "user":
                    yield _prompt(message)
                case facts.RunEnded(run=run):
                    yield from self._ended(run)
                case facts.NoticeChanged(notice=notice, kind="restart"):
                    yield Restart(notice.title)
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
            run.ended_time - run.time if run.ended_time is not None else None,
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
    yield [*replay.finish()]


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
            case RunStarted():
                return []  # the prompt that follows tells what went with it
            case InterruptedRun():
                return self._interrupted(item)
            case Restart(text=text):
                return [Line((Span(one_line(text, self._renderer.width), "dim"),), block="end")]
            case events.PermissionRequested(permission_id=id_, title=title):
                self._subjects[id_] = title
                return self._renderer.show(item)
            case events.PermissionResolved(decided_by=by) if by not in (*UNSEEN, None):
                self._renderer.waiting_time.add(item)
                return self._decided(item)
            case events.QuestionAsked(question_id=id_, message=message):
                self._subjects[id_] = message
                return self._renderer.show(item)
            case events.QuestionAnswered(decided_by=by) if by not in UNSEEN:
                self._renderer.waiting_time.add(item)
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
        for line in wrapped(plain(prompt.context), self._renderer.width - 3) if prompt.context else ():
            yield Line((Span(f"  {line}", "dim"),), block="prompt")

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
        if answer.asked_because:
            for line in wrapped(plain(f"! {answer.asked_because}"), self._room() - 1):
                yield Line((Span(f"  {line}", "dim"),))
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
    """Merges the parts of a message into one piece, and leaves out a line that is ended by the next piece."""

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


def _prompt(message: rows.Message, context: PromptContext | None = None) -> Prompt:
    return Prompt(
        message.time,
        message.run_id,
        message.text,
        tuple(attachment_label(block, format_size=size) for block in message.blocks),
        context_label(context) if context is not None else "",
    )


EXPORT_EPILOG = """\b
Examples:
  dragoman sessions export 3f9a1c -o talk.md
  dragoman sessions export - --format json | jq '.tool_calls[].title'
  dragoman sessions export 3f9a1c > talk.jsonl

\b
Formats:
  jsonl     every frame, byte for byte; `dragoman journal import` reads it
  markdown  the conversation, for people
  json      the rows: runs, messages, tool calls, usage, …
Without --format, the file's suffix decides; the default is jsonl."""

Format: TypeAlias = Literal["jsonl", "markdown", "json"]
_SUFFIXES: dict[str, Format] = {".jsonl": "jsonl", ".md": "markdown", ".markdown": "markdown", ".json": "json"}


@click.command(epilog=EXPORT_EPILOG)
@click.argument("session", metavar="ID", shell_complete=complete_session)
@click.option(
    "--format",
    "format_",
    type=click.Choice(get_args(Format)),
    help="Output format. [default: by the suffix of the file, or jsonl]",
)
@click.option("-o", "--output", metavar="FILE", help="Output file. [default: stdout]")
@async_command
async def export(*, session: str, format_: Format | None, output: str | None) -> None:
    """Export a session to stdout or to a file."""
    chosen = format_ or _SUFFIXES.get(Path(output or "").suffix.lower(), "jsonl")
    async with open_readonly() as journal:
        row = find_session(await journal.sessions(), session)
        with open_output(output) as write:
            async for part in _exported(journal, row, chosen):
                write(part)
    if output is not None:
        note(f"Exported session {row.id} to {output} as {chosen}.")


async def _exported(journal: Journal, session: Session, format_: Format) -> AsyncIterator[bytes]:
    match format_:
        case "jsonl":
            async for line in transfer.export(journal, session.id):
                yield line
        case "json":
            rows = msgspec.json.encode(await journal.rows(session.id))
            yield msgspec.json.format(rows, indent=2) + b"\n"
        case "markdown":
            for text in session_markdown(await journal.rows(session.id)):
                yield text.encode("utf-8", "replace")
