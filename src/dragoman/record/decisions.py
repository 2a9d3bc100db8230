"""What the rows of the agent's requests have in common: the decision on them, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from dragoman.errors import REQUEST_CANCELLED
from dragoman.record import notes, rows
from dragoman.wire import lenient
from dragoman.wire.messages import RpcError

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # known to type checkers without being installed

Row = TypeVar("Row", bound=rows.Decided)
T = TypeVar("T")


class Where(msgspec.Struct, frozen=True, gc=False):
    """Where in the conversation something was said, and of which run it is."""

    position: int
    time: float
    run_id: str | None

    def row_id(self, noun: str) -> str:
        """Of the row that begins here: by its place, so that another fold of the same frames gives the same."""
        return f"{noun}-{self.position}"


def with_decision(row: Row, decision: notes.Decision | None) -> Row:
    if decision is None:
        return row
    return msgspec.structs.replace(
        row,
        decision=decision.decision,
        decided_by=decision.by,
        reason=decision.reason,
        rule=decision.rule,
        layer=decision.layer,
        remembered=decision.remembered,
    )


def refused_as(error: RpcError, decision: notes.Decision | None) -> Literal["denied", "cancelled", "failed"]:
    """What became of a request that was answered by an error."""
    if decision is not None and decision.decision == "deny":
        return "denied"
    if error.code == REQUEST_CANCELLED or (decision is not None and decision.decision == "cancelled"):
        return "cancelled"
    return "failed"


def decoded(raw: msgspec.Raw, type_: TypeForm[T]) -> T | None:
    """None where it cannot be read."""
    try:
        return lenient.decode(raw, type_)
    except msgspec.MsgspecError:
        return None
