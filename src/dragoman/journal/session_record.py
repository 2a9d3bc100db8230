"""`SessionRecord`: the frames of a session in, and which rows they changed out.

Pure, and the one way by which rows come about: live, imported and rebuilt sessions all go through here. A chunk of text
costs the same first or last; no row is written again for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from dragoman.journal import notes
from dragoman.journal.entry import Entry, direction_of
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
from dragoman.wire.messages import Message, Notification, Update
from dragoman.wire.vocabulary import ContentBlock

# Characters of the first prompt that a list of sessions shows where the agent gave no title.
PROMPT_SHOWN: Final = 200

# A slash command: its name, and nothing that would make a path of it.
_COMMAND: Final = re.compile(r"/[\w:.-]+(?!\S)")

# Updates that tell a history; everything else that comes while it is told again is news.
_TOLD_AGAIN = (
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
    """`add` each frame of the session in order, of whatever origin; `take` what they changed, once for each commit."""

    def __init__(self, session_id: str, fold: SessionFold | None = None) -> None:
        self.session_id = session_id
        self.fold = fold or SessionFold()
        self.position = 0
        self._opened: notes.SessionOpened | None = None
        self._earlier_ids: dict[str, None] = {}
        self._title = ""  # that a person gave it
        self._imported = False
        self._prompt = ""
        self._command = ""
        self._looked_at = 0
        self._created: float | None = None
        self._updated = 0.0
        self._tombstone: Tombstone | None = None
        self._known = 0  # messages that a store has been told of
        self._running: dict[str, rows.Run] = {}
        self._model: str | None = None  # that was set when the last run ended
        self._unsearchable: set[str] = set()  # tool calls whose words cannot be searched yet
        self._skipping: bool | None = None  # a history is told again: whether we have it; None when none is
        self._begin()

    def _begin(self) -> None:
        self._parts: dict[str, list[str | ContentBlock]] = {}
        self._touched: dict[str, rows.Message] = {}
        self._puts: dict[tuple[str, str], Row] = {}
        self._removed: dict[tuple[str, str], None] = {}
        self._docs: list[SearchDocument] = []
        self._state_changed = False

    def add(self, entry: Entry, message: Message) -> Sequence[Fact]:
        self.position = position = self.position + 1
        self._updated = entry.at
        if type(message) is Update and entry.origin == "agent":
            said = self.fold.messages.append_text(message.update)
            if said is not None:
                row, text = said
                parts = self._parts.get(row.id)
                if parts is None:
                    parts = self._parts[row.id] = []
                    self._touched[row.id] = row
                parts.append(text)
                return (TextAdded(row, text),)
        if self._created is None:
            self._created = entry.at
        if entry.origin == "import":
            self._imported = True
        if entry.origin == "host" and isinstance(message, Notification) and self._noted(entry, message):
            return ()
        if self._is_known(entry, message):
            return ()
        changed = self.fold.apply(position, entry.at, direction_of(entry.origin, message), message)
        self._notice(changed)
        return changed

    def take(self) -> RowChanges:
        """What changed since the last time. The next frames change other rows, or the same ones again."""
        puts = list(self._puts.values())
        parts: list[MessagePart] = []
        fresh = {message.id: message for message in self.fold.messages[self._known :]}
        self._known = len(self.fold.messages)
        for message in ({key: row for key, row in self._touched.items() if key not in fresh} | fresh).values():
            if message.ended:
                stored = _stored(message, whole=True)
                puts.append(stored)
                self._docs.extend(search_documents(stored))
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
        changes = RowChanges(self.session_id, self.position, puts, list(self._removed), parts, self._docs)
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
        )

    def _first_prompt(self) -> str:
        """The first words of the user's to the agent; each message is looked at once.

        A slash command stands in where there are none: alone it does not tell what the session is about, and one that
        began no run (`/model opus` in a transcript) was not said to the agent.
        """
        messages = self.fold.messages
        while not self._prompt and self._looked_at < len(messages):
            message = messages[self._looked_at]
            words = " ".join(message.text[: PROMPT_SHOWN * 2].split())[:PROMPT_SHOWN] if message.kind == "user" else ""
            if not message.ended:
                return self._command or words
            command = _COMMAND.match(words)
            if command is not None and (message.run_id is None or command.end() == len(words)):
                self._command = self._command or words
            else:
                self._prompt = words
            self._looked_at += 1
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

    def _noted(self, entry: Entry, message: Notification) -> bool:
        match notes.read(message):
            case notes.SessionOpened() as opened:
                if self._opened and self._opened.agent_session_id not in ("", opened.agent_session_id):
                    self._earlier_ids[self._opened.agent_session_id] = None
                self._opened = opened
            case notes.SessionRenamed(title=title):
                self._title = title
            case notes.Receipt(command_id=command_id, outcome=outcome, detail=detail):
                self._put(Receipt(id=command_id, time=entry.at, outcome=outcome, detail=detail))
            case notes.Tombstone() as told if told.session_id == self.session_id:
                self._tombstone = Tombstone(
                    id=self.session_id,
                    time=entry.at,
                    agent=told.agent,
                    agent_session_id=told.agent_session_id,
                    earlier_ids=told.earlier_ids,
                    by=told.by,
                )
            case _:
                return False
        return True

    def _is_known(self, entry: Entry, message: Message) -> bool:
        """Something that `session/load` tells again, and that the journal has from the time when it happened."""
        if entry.origin != "replay":
            if entry.kind == "session/prompt":
                self._skipping = None
            return False
        if self._skipping is None:
            self._skipping = bool(self.fold.messages or len(self.fold.tool_calls))
        return self._skipping and type(message) is Update and isinstance(message.update, _TOLD_AGAIN)

    def _notice(self, changed: Sequence[Fact]) -> None:
        for fact in changed:
            handler = _HANDLERS.get(type(fact))
            if handler is not None:
                handler(self, fact)
            else:
                self._carried(fact)
        # No fact tells of a cancel that was asked for.
        for run_id, known in self._running.items():
            if (run := self.fold.runs[run_id]) is not known:
                self._put(run)
                self._running[run_id] = run

    def _put(self, row: Row) -> None:
        key = (TABLE_NAMES[type(row)], row_key(row))
        self._puts[key] = row

    def _carried(self, fact: Fact) -> None:
        """Any fact that carries a row: the row is as it is now."""
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

    def _set(self, fact: Fact) -> None:
        self._state_changed = True

    def _tool_seen(self, fact: facts.ToolCallSeen) -> None:
        self._put(fact.tool_call)
        self._unsearchable.add(fact.tool_call.id)

    def _tool_ended(self, fact: facts.ToolCallEnded) -> None:
        self._put(fact.tool_call)
        self._searchable(fact.tool_call)

    def _searchable(self, call: rows.ToolCall) -> None:
        if call.id in self._unsearchable:
            self._unsearchable.discard(call.id)
            self._docs.extend(search_documents(call))

    def _ended(self, fact: facts.FileCallEnded | facts.TerminalStarted) -> None:
        self._carried(fact)
        self._docs.extend(search_documents(fact.file_call if isinstance(fact, facts.FileCallEnded) else fact.terminal))

    def _run_started(self, fact: facts.RunStarted) -> None:
        self._put(fact.run)
        self._running[fact.run.id] = fact.run

    def _run_ended(self, fact: facts.RunEnded) -> None:
        run = fact.run
        self._running.pop(run.id, None)
        self._put(run)
        model = self.fold.setting("model")
        self._model = model.current if model is not None and isinstance(model.current, str) else None
        self._spent(run)
        # What never ended will hardly do so now.
        for call_id in [call_id for call_id in self._unsearchable if self.fold.tool_calls[call_id].run_id == run.id]:
            self._searchable(self.fold.tool_calls[call_id])

    def _run_paid(self, fact: facts.RunCostChanged) -> None:
        self._put(fact.run)
        self._spent(fact.run)

    def _spent(self, run: rows.Run) -> None:
        if run.usage is not None and run.usage != rows.Usage():
            self._put(Usage(id=run.id, time=run.ended_time, model=self._model, usage=run.usage))


_HANDLERS: Final[dict[type[Any], Callable[[SessionRecord, Any], None]]] = {
    facts.TextAdded: SessionRecord._text,
    facts.BlockAdded: SessionRecord._block,
    facts.MessageEnded: SessionRecord._message_ended,
    facts.PlanChanged: SessionRecord._plan,
    facts.UsageChanged: SessionRecord._set,
    facts.SettingsChanged: SessionRecord._set,
    facts.HistoryDiffers: SessionRecord._set,
    facts.ToolCallSeen: SessionRecord._tool_seen,
    facts.ToolCallEnded: SessionRecord._tool_ended,
    facts.FileCallEnded: SessionRecord._ended,
    facts.TerminalStarted: SessionRecord._ended,
    facts.RunStarted: SessionRecord._run_started,
    facts.RunEnded: SessionRecord._run_ended,
    facts.RunCostChanged: SessionRecord._run_paid,
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
