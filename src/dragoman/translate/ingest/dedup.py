"""`Known`: a session that a transcript tells of, as the journal has it, and so what of the transcript is new.

What came from the transcript before is left out, frame by frame, each as often as the journal has it. Of a session that
Dragoman ran, all is left out until someone asks for something elsewhere, after the last that was said here: from then
on it is news.
"""

from __future__ import annotations

from typing import Final

from dragoman.journal.entry import Cursor, Entry, read_message
from dragoman.journal.errors import NotTheOwner
from dragoman.journal.protocols import Journal
from dragoman.journal.session_record import SessionRecord
from dragoman.translate.ingest.bounded_fold import BoundedFold
from dragoman.translate.ingest.import_policy import CONNECTION
from dragoman.translate.ingest.report import amounts
from dragoman.translate.scratch import Scratch, SpillingMap, digest
from dragoman.wire.messages import Message, Request

# Entries that are read back at once: they may be large.
_PAGE: Final = 200

# What is said, of all that goes between Dragoman and an agent. The rest may come at any time.
_SAID: Final = frozenset(
    {
        "session/prompt",
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
    }
)

# Seconds after which a prompt without an answer is not the one that its transcript tells of. It is written there a
# moment after it was sent, and where the agent died with it, nothing else tells when that was.
_UNANSWERED: Final = 60.0


class Known:
    """Made by `read_known`; `record` goes on with what is new."""

    def __init__(self, session_id: str, scratch: Scratch, *, is_live: bool) -> None:
        self.fold = BoundedFold(scratch)
        self.record = SessionRecord(session_id, self.fold)
        self.cursor: Cursor | None = None  # after the last frame of it that is known here
        self.changed = False
        self._is_live = is_live
        self._scratch = scratch
        # By digest: how often the journal has the frame; None while it has none.
        self._frame_counts: SpillingMap[int] | None = None
        self._last_word = 0.0 if is_live else None  # when it was said here; None where Dragoman did not run it
        self._unanswered = 0  # prompts
        self._news = not is_live  # what is told now was said elsewhere
        self.settle()

    def settle(self) -> None:
        """What comes from here on counts as new."""
        self.before = amounts(self.fold)
        self.is_new = not self.record.position
        self.changed = False

    @property
    def last_word(self) -> float | None:
        """Whatever was asked until then, Dragoman asked; None where it did not run this session."""
        if self._last_word is not None and self._unanswered > 0:
            return self._last_word + _UNANSWERED
        return self._last_word

    @property
    def all_is_known(self) -> bool:
        """Dragoman ran it, and nobody has asked for anything elsewhere."""
        return not self._news

    def asked(self, at: float) -> None:
        """The transcript tells of a prompt."""
        if self.last_word is not None and at > self.last_word:
            self._news = True

    def has(self, kind: str, line: bytes) -> bool:
        """Whether the journal has this frame of the transcript; asked once for each."""
        if not self._news:
            return True
        if self._frame_counts is None:
            return False
        key = digest(kind.encode(), line)
        count = self._frame_counts.get(key)
        if not count:
            return False
        self._frame_counts.put(key, count - 1)
        return True

    def hear(self, entry: Entry) -> None:
        """One more that the journal has."""
        message = read_message(entry)
        self.record.add(entry, message)
        if entry.origin in ("import", "host"):
            if self._frame_counts is None:
                self._frame_counts = SpillingMap(self._scratch)
            key = digest(entry.kind.encode(), entry.frame)
            self._frame_counts.put(key, (self._frame_counts.get(key) or 0) + 1)
        if entry.kind in _SAID and self._was_heard(entry):
            self._heard(entry, message)

    def _was_heard(self, entry: Entry) -> bool:
        """Dragoman heard or sent it then: here, or where the journal was that the session was taken over from."""
        if entry.origin == "import":
            return self._is_live and not entry.connection_id.startswith(CONNECTION)
        return entry.origin != "replay"

    def _heard(self, entry: Entry, message: Message) -> None:
        self._last_word = entry.at
        self._news = False
        if entry.kind == "session/prompt":
            self._unanswered += 1 if isinstance(message, Request) else -1


async def read_known(journal: Journal, session_id: str, scratch: Scratch, *, is_live: bool) -> Known:
    """`is_live`: Dragoman ran it from its beginning. Raises where a process
    has it open: nobody else may add to it."""
    owner = await journal.owner(session_id)
    if owner is not None and owner.process is not None:
        raise NotTheOwner(f"session {session_id} is open", owner=owner.process.id)
    known = Known(session_id, scratch, is_live=is_live)
    while (page := await journal.read(session_id, after=known.cursor, limit=_PAGE)).entries:
        for entry in page.entries:
            known.hear(entry)
        known.cursor = page.cursor
        known.record.take()  # the journal has these rows
        if len(page.entries) == _PAGE:
            known.fold.release()
    known.settle()
    return known
