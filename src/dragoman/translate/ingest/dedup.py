"""Deduplication: which sessions of a transcript may be imported, and which of their frames are new to the journal.

One conversation is one session, and a deleted session stays deleted (`ImportPolicy`). Sessions are matched by the
agent's own id, which is the transcript's, and by the ids that it had before. A sub-agent goes the way of the session
that started it: if Dragoman ran that one, it recorded the sub-agent's work too.

Frames that came from the transcript before are left out, each as often as the journal has it (`SessionDedup`).
Provisional frames do not count: they are withdrawn when the transcript goes on. Of a session that Dragoman ran,
everything is left out until somebody prompts the agent elsewhere, after the last exchange that Dragoman recorded: from
then on all of it is new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from dragoman.journal.entry import Cursor, Entry, is_from_transcript, provisional_group, read_message, without_mark
from dragoman.journal.errors import NotTheOwner
from dragoman.journal.protocols import Journal
from dragoman.journal.session_record import SessionRecord
from dragoman.translate.ingest.bounded_fold import BoundedFold, count_amounts, count_tokens
from dragoman.translate.scratch import Scratch, SpillingMap, digest
from dragoman.wire.dialect import LATEST_VERSION, dialect_for
from dragoman.wire.messages import Message, Request

_dialect = dialect_for(LATEST_VERSION)

# Why a session, or a whole file, is left out.
RAN_HERE: Final = "Dragoman ran this session and recorded it"
SESSION_DELETED: Final = "the session was deleted here"
SESSION_OPEN: Final = "a process has the session open"

_SESSION_ID_LENGTH: Final = 12  # as long as the ids of sessions that Dragoman runs

# Entries that are read from the journal at once: they may be large.
_PAGE_ENTRIES: Final = 200

# The kinds of frames that are part of the conversation. Others may come at any time.
_CONVERSATION_KINDS: Final = frozenset(
    {
        "session/prompt",
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
    }
)

# A prompt without an answer is in its transcript a moment after it was sent. If the agent died with it, nothing else
# tells when that was, so what the transcript has within this time is taken to be that prompt.
_UNANSWERED_PROMPT_S: Final = 60.0


def imported_session_id(provider: str, native_id: str) -> str:
    """Our id of an imported session: always the same, on any machine."""
    return sha256(f"{provider}:{native_id}".encode("utf-8", "surrogatepass")).hexdigest()[:_SESSION_ID_LENGTH]


class ImportPolicy(msgspec.Struct, frozen=True):
    """The sessions of the journal, by the agents' own ids."""

    live: Mapping[str, str]  # sessions that Dragoman ran: the agent's id to ours
    deleted: frozenset[str]  # the agents' ids of deleted sessions

    def refusal(self, native_id: str, parent_id: str | None = None) -> str | None:
        """The reason to leave a session out, if there is one."""
        if native_id in self.deleted:
            return SESSION_DELETED
        return refusal_for_sub_agent(SESSION_DELETED) if parent_id in self.deleted else None

    def session_id(self, provider: str, native_id: str) -> str:
        return self.live.get(native_id) or imported_session_id(provider, native_id)


def refusal_for_sub_agent(reason: str) -> str:
    return f"{reason} (the one that started this sub-agent)"


async def load_policy(journal: Journal, provider: str) -> ImportPolicy:
    sessions = await journal.sessions()
    tombstones = await journal.tombstones()
    ours = [
        (native_id, session.id)
        for session in sessions
        for native_id in (session.agent_session_id, *session.earlier_ids)
        if native_id
    ]
    deleted = [
        native_id for tombstone in tombstones for native_id in (tombstone.agent_session_id, *tombstone.earlier_ids)
    ]
    return ImportPolicy(
        live={
            native_id: session_id
            for native_id, session_id in ours
            if imported_session_id(provider, native_id) != session_id
        },
        deleted=frozenset(native_id for native_id in deleted if native_id),
    )


class SessionDedup:
    """One session of a transcript as the journal has it. Made by `load_dedup`; `record` takes what is new."""

    def __init__(self, session_id: str, scratch: Scratch, *, is_live: bool) -> None:
        self.fold = BoundedFold(scratch)
        self.record = SessionRecord(session_id, self.fold)
        self.cursor: Cursor | None = None  # after the last frame of the journal that was seen
        self.has_changed = False
        self.needs_rebuild = False  # the journal's rows contain provisional frames that were withdrawn
        self._is_live = is_live
        self._scratch = scratch
        # By digest: how often the journal has the frame. None while the journal has none.
        self._frame_counts: SpillingMap[int] | None = None
        self._last_key: bytes | None = None  # digest of the last frame that the journal has from a transcript
        self._has_last_frame = True  # the file has that frame, or more
        self._has_stored_end = False  # the journal's last frames are provisional
        self._last_recorded = 0.0 if is_live else None  # time of the last exchange; None if Dragoman did not run it
        self._unanswered_prompts = 0
        self._is_continued_elsewhere = not is_live  # the transcript has come to what Dragoman did not record
        self.reset_changes()

    def reset_changes(self) -> None:
        """Count what comes from here on as new."""
        ends = [end for _, message in self.record.provisional if (end := _dialect.run_end(message)) is not None]
        self.amounts_before = count_amounts(self.fold) + count_tokens(ends)
        # Messages that are among these amounts and may come again: of runs that go on, or get another cost.
        self.messages_before = {
            message.message_id
            for messages in (self.record.last_messages, *(end.messages for end in ends))
            for message in messages
        }
        self.is_new = not self.record.position
        self.has_changed = False

    @property
    def recorded_until(self) -> float | None:
        """Prompts until this time were sent by Dragoman; None if it did not run this session."""
        if self._last_recorded is not None and self._unanswered_prompts > 0:
            return self._last_recorded + _UNANSWERED_PROMPT_S
        return self._last_recorded

    @property
    def is_all_recorded(self) -> bool:
        """Return True if Dragoman ran the session and nobody has prompted the agent elsewhere since."""
        return not self._is_continued_elsewhere

    def see_prompt(self, at: float) -> None:
        """The transcript has a prompt of this time."""
        if self.recorded_until is not None and at > self.recorded_until:
            self._is_continued_elsewhere = True

    def has_frame(self, kind: str, line: bytes) -> bool:
        """Return True if the journal has this frame of the transcript. Call it once for each frame."""
        if not self._is_continued_elsewhere:
            return True
        if self._frame_counts is None:
            return False
        key = digest(kind.encode(), line)
        count = self._frame_counts.get(key)
        if not count:
            return False
        self._frame_counts.put(key, count - 1)
        if key == self._last_key and count == 1:
            self._has_last_frame = True
        return True

    def add_entry(self, entry: Entry) -> None:
        """Add an entry that the journal does not have."""
        if self._has_stored_end:
            self._has_stored_end, self.needs_rebuild = False, True
        self.record.add(entry, read_message(entry))
        self.has_changed = self._has_last_frame = True

    def accepts_end(self, frames: Sequence[bytes]) -> bool:
        """Return True if the provisional frames at the end of the transcript are to be added.

        Not those of an older copy of it: the journal knows how the session went on. And not those that it has.
        """
        if not self._is_continued_elsewhere or not self._has_last_frame:
            return False
        return self.has_changed or frames != [without_mark(entry.frame) for entry, _ in self.record.provisional]

    def load_entry(self, entry: Entry) -> None:
        """Add an entry of the journal."""
        message = read_message(entry)
        self.record.add(entry, message)
        if provisional_group(entry) is not None:
            self._has_stored_end = True
            return
        if entry.origin in ("import", "host"):
            if self._frame_counts is None:
                self._frame_counts = SpillingMap(self._scratch)
            key = digest(entry.kind.encode(), entry.frame)
            self._frame_counts.put(key, (self._frame_counts.get(key) or 0) + 1)
            if entry.origin == "import":
                self._last_key, self._has_last_frame, self._has_stored_end = key, False, False
        if entry.kind in _CONVERSATION_KINDS and self._was_recorded_live(entry):
            self._load_exchange(entry, message)

    def _was_recorded_live(self, entry: Entry) -> bool:
        """Return True if Dragoman sent or received it: here, or before the session came from another journal."""
        if entry.origin == "import":
            return self._is_live and not is_from_transcript(entry)
        return entry.origin != "replay"

    def _load_exchange(self, entry: Entry, message: Message) -> None:
        self._last_recorded = entry.at
        self._is_continued_elsewhere = False
        if entry.kind == "session/prompt":
            self._unanswered_prompts += 1 if isinstance(message, Request) else -1


async def load_dedup(journal: Journal, session_id: str, scratch: Scratch, *, is_live: bool) -> SessionDedup:
    """Read the session from the journal. `is_live`: Dragoman ran it from its beginning.

    Raises `NotTheOwner` if a process has the session open: no other may add to it.
    """
    owner = await journal.owner(session_id)
    if owner is not None and owner.process is not None:
        raise NotTheOwner(f"session {session_id} is open", owner=owner.process.id)
    dedup = SessionDedup(session_id, scratch, is_live=is_live)
    while (page := await journal.read(session_id, after=dedup.cursor, limit=_PAGE_ENTRIES)).entries:
        for entry in page.entries:
            dedup.load_entry(entry)
        dedup.cursor = page.cursor
        dedup.record.drop_changes()
        if len(page.entries) == _PAGE_ENTRIES:
            dedup.fold.release()
    dedup.reset_changes()
    return dedup
