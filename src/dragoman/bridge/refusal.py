"""`Refusal`: why something that a client asked was not done. Here, and here alone, errors become what it is told."""

from __future__ import annotations

from typing import Final

from dragoman.bridge.messages import ErrorBody
from dragoman.errors import (
    AuthenticationRequired,
    CapabilityMissing,
    ConfigError,
    DragomanError,
    InputError,
    RequestTimeout,
    SessionBusy,
    SessionClosed,
    StartError,
)
from dragoman.journal.errors import JournalError, NotTheOwner

# Kind of a refusal, and the status of an HTTP answer that tells it.
STATUS: Final = {
    "invalid": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "unsupported": 422,
    "too_fast": 429,
    "internal": 500,
    "agent": 502,
    "unavailable": 503,
    "timeout": 504,
}


class Refusal(Exception):
    """`kind` is one of `STATUS`."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        guidance: str = "",
        field: str | None = None,
        retry_after: float | None = None,
        error: str | None = None,
        stderr: str = "",
    ) -> None:
        super().__init__(message)
        self.body = ErrorBody(
            kind=kind,
            message=message,
            guidance=guidance,
            field=field,
            retry_after=retry_after,
            error=error,
            stderr=stderr,
        )

    @property
    def status(self) -> int:
        return STATUS[self.body.kind]


def refusal_of(problem: Exception) -> Refusal:
    """What a client is told of an error. Of a defect of ours only that there is one; the log has the rest."""
    match problem:
        case Refusal():
            return problem
        case NotTheOwner() | SessionBusy() | SessionClosed():
            kind = "conflict"
        case CapabilityMissing():
            kind = "unsupported"
        case ConfigError() | InputError():
            kind = "invalid"
        case RequestTimeout():
            kind = "timeout"
        case JournalError():
            kind = "unavailable"
        case AuthenticationRequired() | StartError() | DragomanError():
            kind = "agent"
        case _:
            return Refusal(
                "internal",
                "something went wrong inside Dragoman",
                guidance="The server's log says what. Please report it.",
            )
    return Refusal(
        kind,
        str(problem),
        guidance=problem.guidance,
        error=type(problem).__name__,
        stderr=getattr(problem, "stderr", ""),
    )
