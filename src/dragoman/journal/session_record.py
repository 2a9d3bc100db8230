"""`SessionRecord`: folds the frames of a session and collects the rows that they change. Pure.

All rows are made here, those of live, imported and rebuilt sessions alike. A chunk of text costs the same at the
beginning and at the end of a message; no row is rewritten for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from dragoman.journal import notes
from dragoman.journal.entry import Entry, direction_of, is_from_transcript, provisional_group
from dragoman.journal.rows import (
    TABLE_NAMES,
    MessagePart,
    Receipt,
    Row,
    RowChanges,
    SearchDocument,
    Session,
    State,
    StoredMessage,
    Tombstone,
    Usage,
    row_key,
)
from dragoman.journal.search_documents import search_documents
from dragoman.record import facts, rows
from dragoman.record.facts import Fact, TextAdded
from dragoman.record.fold import SessionFold
from dragoman.wire import vocabulary as acp
from dragoman.wire.dialect import MessageTokens
from dragoman.wire.messages import Message, Notification, Update
from dragoman.wire.vocabulary import ContentBlock

# Characters of the first prompt that a list of sessions shows where the agent gave no title.
MAX_PROMPT_CHARACTERS: Final = 200

# A slash command: a name, and not the beginning of a path.
_SLASH_COMMAND: Final = re.compile(r"/[\w:.-]+(?!\S)")

# Updates that are part of a history; every other update during a replay is new.
_HISTORY_UPDATES = (
    acp.AgentMessageChunk,
    acp.AgentThoughtChunk,
    acp.UserMessageChunk,
    acp.ToolCall,
    acp.SessionToolCallUpdate,
    acp.Plan,
    acp.PlanUpdate,
    acp.PlanRemoved,
)


class SessionRecord:
    """Call `add` with each frame of the session in order, of any origin, and `take` once for each commit.

    The provisional frames of a transcript wait: `take` folds them, and if the transcript goes on instead, they are
    dropped. If it goes on after `take` has folded them, rows are wrong from then on (`is_outdated`), and the session
    has to be folded again from its beginning.
    """

    def __init__(self, session_id: str, fold: SessionFold | None = None) -> None:
        self.session_id = session_id
        self.fold = fold or SessionFold()
        self.position = 0
        self.is_outdated = False  # provisional frames were folded, and then withdrawn
        self._provisional: list[tuple[int, Entry, Message]] = []  # frames that wait, with their positions
        self._provisional_group: int | None = None  # of the frames that wait or were folded; None if there are none
        self._has_folded_provisional = False
        self._opened: notes.SessionOpened | None = None
        self._earlier_ids: dict[str, None] = {}
        self._title = ""  # given by a person
        self._forked_from: str | None = None
        self._imported = False
        self._prompt = ""
        self._command = ""
        self._prompts_checked = 0  # messages that were looked at for the first prompt
        self._created: float | None = None
        self._updated = 0.0
        self._tombstone: Tombstone | None = None
        self._taken_messages = 0  # messages that `take` has returned
        self._taken_position = 0  # the position when it did
        self._running: dict[str, rows.Run] = {}
        self._model: str | None = None  # the one that was set when the last run ended
        self._messages: tuple[MessageTokens, ...] = ()  # of the last run that ended
        self._unsearchable: set[str] = set()  # tool calls whose text is not searchable yet
        # During a replay: whether the journal already has the history. None when there is no replay.
        self._skips_replay: bool | None = None
        self._begin()

    def _begin(self) -> None:
        self._parts: dict[str, list[str | ContentBlock]] = {}
        self._touched: dict[str, rows.Message] = {}
        self._puts: dict[tuple[str, str], Row] = {}
        self._removed: dict[tuple[str, str], None] = {}
        self._documents: list[SearchDocument] = []
        self._state_changed = False

    def add(self, entry: Entry, message: Message) -> Sequence[Fact]:
        self.position = position = self.position + 1
        self._updated = entry.at
        if type(message) is Update and entry.origin == "agent" and self._provisional_group is None:
            appended = self.fold.messages.append_text(message.update)
            if appended is not None:
                row, text = appended
                parts = self._parts.get(row.id)
                if parts is None:
                    parts = self._parts[row.id] = []
                    self._touched[row.id] = row
                parts.append(text)
                return (TextAdded(row, text),)
        if entry.origin != "import" and self._provisional_group is None:
            return self._fold(position, entry, message)
        group = provisional_group(entry)
        settled: Sequence[Fact] = ()
        if self._provisional_group is not None and group != self._provisional_group:
            settled = self._settle_provisional(entry)
        if group is None:
            facts = self._fold(position, entry, message)
            return [*settled, *facts] if settled else facts
        self._provisional_group = group
        self._provisional.append((position, entry, message))
        return ()

    def _settle_provisional(self, following: Entry) -> Sequence[Fact]:
        """Drop the provisional frames if the transcript goes on, or fold them if the session goes on elsewhere: here,
        or in another transcript, which begins with a `session/new` of its own."""
        if following.origin == "host":  # a title, for example: it says nothing about the transcript
            return ()
        settled: Sequence[Fact] = ()
        if is_from_transcript(following) and following.kind != "session/new":
            self.is_outdated = self.is_outdated or self._has_folded_provisional
            self._provisional = []
        else:
            settled = [fact for _, facts in self.fold_provisional() for fact in facts]
        self._provisional_group, self._has_folded_provisional = None, False
        return settled

    @property
    def provisional(self) -> Sequence[tuple[Entry, Message]]:
        """The provisional frames that wait."""
        return [(entry, message) for _, entry, message in self._provisional]

    @property
    def last_messages(self) -> Sequence[MessageTokens]:
        """The messages of the last run that ended, where a transcript has their tokens."""
        return self._messages

    def fold_provisional(self) -> Sequence[tuple[Entry, Sequence[Fact]]]:
        """Fold the provisional frames that wait, because no more frames follow for now."""
        waiting, self._provisional = self._provisional, []
        self._has_folded_provisional = self._has_folded_provisional or bool(waiting)
        return [(entry, self._fold(position, entry, message)) for position, entry, message in waiting]

    def _fold(self, position: int, entry: Entry, message: Message) -> Sequence[Fact]:
        if self._created is None:
            self._created = entry.at
        if entry.origin == "import":
            self._imported = True
        if entry.origin == "host" and isinstance(message, Notification) and self._apply_note(entry, message):
            return ()
        if self._is_stored_history(entry, message):
            return ()
        changed = self.fold.apply(position, entry.at, direction_of(entry.origin, message), message)
        self._collect(changed)
        return changed

    def drop_changes(self) -> None:
        """Drop the changes since the last call: the journal has them. Provisional frames go on waiting."""
        self._first_prompt()  # the caller may drop the text of messages now
        self._taken_messages, self._taken_position = len(self.fold.messages), self.position
        self._begin()

    def take(self, *, are_more_expected: bool = False) -> RowChanges:
        """Return the changes since the last call; those of provisional frames only if no more frames are expected."""
        if not are_more_expected:
            self.fold_provisional()
        puts = list(self._puts.values())
        parts: list[MessagePart] = []
        fresh = {message.id: message for message in self.fold.messages[self._taken_messages :]}
        self._taken_messages = len(self.fold.messages)
        for message in ({key: row for key, row in self._touched.items() if key not in fresh} | fresh).values():
            if message.ended:
                stored = _stored(message, whole=True)
                puts.append(stored)
                self._documents.extend(search_documents(stored))
                continue
            if message.id in fresh:
                puts.append(_stored(message, whole=False))
            pieces = self._parts.get(message.id)
            if pieces:
                text = "".join([piece for piece in pieces if isinstance(piece, str)])
                blocks = tuple([piece for piece in pieces if not isinstance(piece, str)])
                parts.append(MessagePart(message.id, text, blocks))
        if self._state_changed:
            puts.append(self._state())
        puts.append(self._tombstone or self.session())
        removed, previous_position = list(self._removed), self._taken_position
        changes = RowChanges(self.session_id, self.position, puts, removed, parts, self._documents, previous_position)
        self._taken_position = self.position
        self._begin()
        return changes

    def session(self) -> Session:
        fold = self.fold
        opened = self._opened
        last = next(reversed(fold.runs.values()), None)
        return Session(
            id=self.session_id,
            agent=opened.agent if opened else "",
            agent_session_id=opened.agent_session_id if opened else "",
            cwd=opened.cwd if opened else "",
            folders=opened.folders if opened else (),
            title=self._title or fold.title,
            prompt=self._first_prompt(),
            created=self._created or 0.0,
            updated=self._updated,
            frames=self.position,
            runs=len(fold.runs),
            status=last.status if last else None,
            handle=opened.handle if opened else None,
            imported=self._imported,
            earlier_ids=tuple(self._earlier_ids),
            parent=opened.parent if opened else None,
            forked_from=self._forked_from,
        )

    def _first_prompt(self) -> str:
        """Return the beginning of the user's first prompt. Each message is looked at once.

        A slash command is returned only where there is nothing else: alone it does not say what the session is about,
        and one that began no run (`/model opus` in a transcript) was not sent to the agent.
        """
        messages = self.fold.messages
        while not self._prompt and self._prompts_checked < len(messages):
            message = messages[self._prompts_checked]
            words = (
                " ".join(message.text[: MAX_PROMPT_CHARACTERS * 2].split())[:MAX_PROMPT_CHARACTERS]
                if message.kind == "user"
                else ""
            )
            if not message.ended:
                return self._command or words
            command = _SLASH_COMMAND.match(words)
            if command is not None and (message.run_id is None or command.end() == len(words)):
                self._command = self._command or words
            else:
                self._prompt = words
            self._prompts_checked += 1
        return self._prompt or self._command

    def _state(self) -> State:
        fold = self.fold
        return State(
            title=fold.title,
            commands=fold.commands,
            settings=tuple(fold.settings.values()),
            sub_agents=tuple(fold.sub_agents.values()),
            usage=fold.usage,
            differs=fold.differs,
        )

    # -- what a frame changed

    def _apply_note(self, entry: Entry, message: Notification) -> bool:
        match notes.read(message):
            case notes.SessionOpened() as opened:
                if self._opened and self._opened.agent_session_id not in ("", opened.agent_session_id):
                    self._earlier_ids[self._opened.agent_session_id] = None
                self._opened = opened
                self._forked_from = self._forked_from or opened.forked_from
            case notes.SessionRenamed(title=title):
                self._title = title
            case notes.Receipt(command_id=command_id, outcome=outcome, detail=detail):
                self._put(Receipt(id=command_id, time=entry.at, outcome=outcome, detail=detail))
            case notes.Tombstone() as tombstone if tombstone.session_id == self.session_id:
                self._tombstone = Tombstone(
                    id=self.session_id,
                    time=entry.at,
                    agent=tombstone.agent,
                    agent_session_id=tombstone.agent_session_id,
                    earlier_ids=tombstone.earlier_ids,
                    by=tombstone.by,
                )
            case _:
                return False
        return True

    def _is_stored_history(self, entry: Entry, message: Message) -> bool:
        """Return whether this frame replays something that the journal has from the time when it happened."""
        if entry.origin != "replay":
            if entry.kind == "session/prompt":
                self._skips_replay = None
            return False
        if self._skips_replay is None:
            self._skips_replay = bool(self.fold.messages or len(self.fold.tool_calls))
        return self._skips_replay and type(message) is Update and isinstance(message.update, _HISTORY_UPDATES)

    def _collect(self, changed: Sequence[Fact]) -> None:
        for fact in changed:
            handler = _HANDLERS.get(type(fact))
            if handler is not None:
                handler(self, fact)
            else:
                self._put_carried_row(fact)
        # There is no fact for a requested cancellation.
        for run_id, last_seen in self._running.items():
            if (run := self.fold.runs[run_id]) is not last_seen:
                self._put(run)
                self._running[run_id] = run

    def _put(self, row: Row) -> None:
        key = (TABLE_NAMES[type(row)], row_key(row))
        self._puts[key] = row

    def _put_carried_row(self, fact: Fact) -> None:
        """Store the row that a fact carries, as it is now."""
        for name in fact.__struct_fields__:
            value = getattr(fact, name)
            if type(value) in TABLE_NAMES:
                self._put(value)

    def _text(self, fact: facts.TextAdded) -> None:
        self._touched[fact.message.id] = fact.message
        self._parts.setdefault(fact.message.id, []).append(fact.text)

    def _block(self, fact: facts.BlockAdded) -> None:
        self._touched[fact.message.id] = fact.message
        self._parts.setdefault(fact.message.id, []).append(fact.message.blocks[-1])

    def _message_ended(self, fact: facts.MessageEnded) -> None:
        self._touched[fact.message.id] = fact.message

    def _plan(self, fact: facts.PlanChanged) -> None:
        if fact.removed:
            key = ("plans", row_key(fact.plan))
            self._puts.pop(key, None)
            self._removed[key] = None
        else:
            self._put(fact.plan)

    def _state_fact(self, fact: Fact) -> None:
        self._state_changed = True

    def _tool_seen(self, fact: facts.ToolCallSeen) -> None:
        self._put(fact.tool_call)
        self._unsearchable.add(fact.tool_call.id)

    def _tool_ended(self, fact: facts.ToolCallEnded) -> None:
        self._put(fact.tool_call)
        self._make_searchable(fact.tool_call)

    def _make_searchable(self, call: rows.ToolCall) -> None:
        if call.id in self._unsearchable:
            self._unsearchable.discard(call.id)
            self._documents.extend(search_documents(call))

    def _host_call(self, fact: facts.FileCallEnded | facts.TerminalStarted) -> None:
        self._put_carried_row(fact)
        self._documents.extend(
            search_documents(fact.file_call if isinstance(fact, facts.FileCallEnded) else fact.terminal)
        )

    def _run_started(self, fact: facts.RunStarted) -> None:
        self._put(fact.run)
        self._running[fact.run.id] = fact.run

    def _run_ended(self, fact: facts.RunEnded) -> None:
        run = fact.run
        self._running.pop(run.id, None)
        self._put(run)
        model = self.fold.setting("model")
        self._model = model.current if model is not None and isinstance(model.current, str) else None
        self._messages = fact.messages
        self._put_usage(run)
        # A tool call without an end will hardly get one now.
        for call_id in [call_id for call_id in self._unsearchable if self.fold.tool_calls[call_id].run_id == run.id]:
            self._make_searchable(self.fold.tool_calls[call_id])

    def _run_cost_changed(self, fact: facts.RunCostChanged) -> None:
        self._put(fact.run)
        self._put_usage(fact.run)

    def _put_usage(self, run: rows.Run) -> None:
        if run.usage is not None and run.usage != rows.Usage():
            usage = Usage(id=run.id, time=run.ended_time, model=self._model, usage=run.usage, messages=self._messages)
            self._put(usage)


_HANDLERS: Final[dict[type[Any], Callable[[SessionRecord, Any], None]]] = {
    facts.TextAdded: SessionRecord._text,
    facts.BlockAdded: SessionRecord._block,
    facts.MessageEnded: SessionRecord._message_ended,
    facts.PlanChanged: SessionRecord._plan,
    facts.UsageChanged: SessionRecord._state_fact,
    facts.SettingsChanged: SessionRecord._state_fact,
    facts.HistoryDiffers: SessionRecord._state_fact,
    facts.ToolCallSeen: SessionRecord._tool_seen,
    facts.ToolCallEnded: SessionRecord._tool_ended,
    facts.FileCallEnded: SessionRecord._host_call,
    facts.TerminalStarted: SessionRecord._host_call,
    facts.RunStarted: SessionRecord._run_started,
    facts.RunEnded: SessionRecord._run_ended,
    facts.RunCostChanged: SessionRecord._run_cost_changed,
}


def _stored(message: rows.Message, *, whole: bool) -> StoredMessage:
    return StoredMessage(
        id=message.id,
        kind=message.kind,
        run_id=message.run_id,
        message_id=message.message_id,
        time=message.time,
        replayed=message.replayed,
        text=message.text if whole else "",
        blocks=tuple(message.blocks) if whole else (),
        ended=message.ended,
    )
