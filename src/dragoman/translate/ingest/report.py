"""The result of an import: of one file (`ImportedFile`) and of all of them (`ImportSummary`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from typing import Final

import msgspec

from dragoman.journal.rows import Session
from dragoman.wire.dialect import MessageTokens

# A transcript that nobody has written to for so long is taken to be over. A tool may well run for minutes, and seldom
# for an hour.
AT_REST_S: Final = 3600.0


def is_at_work(session: Session, now: float) -> bool:
    """Return True if an agent that Dragoman did not start seems to be at work in an imported session.

    Do not call it for a session that a process of Dragoman has open.
    """
    return session.imported and session.status == "running" and now - session.updated <= AT_REST_S


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what was imported; tokens as the transcripts report them."""

    messages: int = 0  # the user's and the agent's; thoughts are not counted
    tool_calls: int = 0
    runs: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(**{name: getattr(self, name) - getattr(other, name) for name in self.__struct_fields__})


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """`skipped` is the reason why nothing of the file, or not all of it, was imported."""

    provider: str
    path: str
    new: Sequence[str] = ()  # sessions that the journal did not have
    grown: Sequence[str] = ()  # sessions that it had, and that have more now
    frames: int = 0
    amounts: Amounts = Amounts()
    messages: Sequence[MessageTokens] = ()  # those among `amounts`, where the file has the tokens of each message
    unknown: dict[str, int] = {}  # records of unknown kinds, by kind
    skipped: str | None = None
    passing: bool = False  # the reason may be gone next time, though the file stays the same
    failed: bool = False  # the reason is a defect of ours
    left: int = 0  # bytes of a last line that is half written


class ImportSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`dragoman import --json` prints this."""

    files: int
    unchanged: int  # files of which nothing was new
    new: int
    grown: int
    frames: int
    amounts: Amounts
    unknown: dict[str, int]
    skipped: dict[str, Sequence[str]]  # files by the reason
    left: Sequence[str]  # files whose last line is half written


def summarize(reports: Iterable[ImportedFile], counted_before: Set[str] = frozenset()) -> ImportSummary:
    """Add up the reports. A message that several sessions have, because one was forked from another, counts once.

    `counted_before`: the messages that the journal had before, in other sessions (`summarize_import` finds them).
    """
    files = list(reports)
    new = {session_id for file in files for session_id in file.new}
    unknown: Counter[str] = Counter()
    skipped: dict[str, list[str]] = {}
    for file in files:
        unknown.update({f"{file.provider}: {kind}": count for kind, count in file.unknown.items()})
        if file.skipped is not None:
            skipped.setdefault(file.skipped, []).append(file.path)
    return ImportSummary(
        files=len({file.path for file in files}),
        unchanged=sum(not file.frames and file.skipped is None for file in files),
        new=len(new),
        grown=len({session_id for file in files for session_id in file.grown} - new),
        frames=sum(file.frames for file in files),
        amounts=sum((file.amounts for file in files), Amounts()) - _repeated(files, counted_before),
        unknown=dict(unknown.most_common()),
        skipped=dict(skipped),
        left=[file.path for file in files if file.left],
    )


def _repeated(files: Iterable[ImportedFile], counted_before: Set[str]) -> Amounts:
    """Return the tokens of messages that were counted before, or that an earlier file has too."""
    counted = set(counted_before)
    repeated = Amounts()
    for file in files:
        for message in file.messages:
            if message.message_id in counted:
                repeated += Amounts(
                    input_tokens=message.input_tokens,
                    cached_tokens=message.cached_read_tokens or 0,
                    output_tokens=message.output_tokens,
                )
        counted.update(message.message_id for message in file.messages)
    return repeated
