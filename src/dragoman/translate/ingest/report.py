"""What came of an import: of a file, and of all of them. Pure data, and how it adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.journal.rows import Session

if TYPE_CHECKING:
    from dragoman.translate.ingest.bounded_fold import BoundedFold

# Seconds without a word after which a transcript is taken to be over. A tool may well run for minutes, and seldom for
# an hour.
REST: Final = 3600.0


def is_at_work(session: Session, now: float) -> bool:
    """Whether an agent that Dragoman did not start is at work in the session, as far as its transcript tells. Not for
    one that a process has open."""
    return session.imported and session.status == "running" and now - session.updated <= REST


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens as the transcripts report them."""

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


def amounts(fold: BoundedFold) -> Amounts:
    """Of a session as it is now."""
    spent = fold.spent
    return Amounts(
        messages=sum(message.kind != "thought" for message in fold.messages),
        tool_calls=len(fold.tool_calls),
        runs=len(fold.runs),
        input_tokens=spent.input,
        cached_tokens=spent.cached,
        output_tokens=spent.output,
    )


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """`skipped` says why nothing of the file, or not all of it, came in."""

    provider: str
    path: str
    new: Sequence[str] = ()  # sessions that were not here before
    grown: Sequence[str] = ()  # sessions that were, and have got more
    frames: int = 0
    amounts: Amounts = Amounts()
    unknown: dict[str, int] = {}  # records that nobody knows, by kind
    skipped: str | None = None
    passing: bool = False  # what kept it out may be over the next time, also where the file stays as it is
    failed: bool = False  # what kept it out is a defect of ours
    left: int = 0  # bytes of a last line that is half written


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    files: int
    unchanged: int  # files of which nothing was new
    new: int
    grown: int
    frames: int
    amounts: Amounts
    unknown: dict[str, int]
    skipped: dict[str, Sequence[str]]  # files by the reason
    left: Sequence[str]  # files whose last line is half written


def summed(files: Iterable[ImportedFile]) -> Imported:
    every = list(files)
    unknown: Counter[str] = Counter()
    skipped: dict[str, list[str]] = {}
    for one in every:
        unknown.update({f"{one.provider}: {kind}": count for kind, count in one.unknown.items()})
        if one.skipped is not None:
            skipped.setdefault(one.skipped, []).append(one.path)
    return Imported(
        files=len(every),
        unchanged=sum(not one.frames and one.skipped is None for one in every),
        new=len({session_id for one in every for session_id in one.new}),
        grown=len({session_id for one in every for session_id in one.grown}),
        frames=sum(one.frames for one in every),
        amounts=sum((one.amounts for one in every), Amounts()),
        unknown=dict(unknown.most_common()),
        skipped=dict(skipped),
        left=[one.path for one in every if one.left],
    )
