"""`Refusal`: why a request of a client failed. The one place where errors become what a client is sent."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from dragoman.errors import (
    AuthenticationRequired,
    CapabilityMissing,
    CheckpointError,
    ConfigError,
    DragomanError,
    GitActionError,
    InputError,
    RequestTimeout,
    ScopeMissing,
    SessionBusy,
    SessionClosed,
    StartError,
    WorktreeError,
)
from dragoman.journal.errors import JournalError, NotTheOwner
from dragoman.protocol.messages import ErrorDetails

# The HTTP status of each kind of refusal.
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
    """A request failed. `kind` is one of `STATUS`; `details` is what the client is sent."""

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
        fields: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.details = ErrorDetails(
            kind=kind,
            message=message,
            guidance=guidance,
            field=field,
            retry_after=retry_after,
            error=error,
            stderr=stderr,
            fields=fields or {},
        )

    @property
    def status(self) -> int:
        return STATUS[self.details.kind]


def refusal_of(error: Exception) -> Refusal:
    """The refusal for an error. A defect of ours is only reported as one; the log has the rest."""
    match error:
        case Refusal():
            return error
        case ScopeMissing():
            kind = "forbidden"
        case NotTheOwner() | SessionBusy() | SessionClosed() | CheckpointError() | GitActionError() | WorktreeError():
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
                guidance="The server's log has the details. Please report it.",
            )
    return Refusal(
        kind,
        str(error),
        guidance=error.guidance,
        error=type(error).__name__,
        stderr=getattr(error, "stderr", ""),
    )


def refusal_of_field(error: msgspec.ValidationError) -> Refusal:
    """The refusal for a field with a wrong value; it names the field."""
    message, _, path = str(error).partition(" - at ")
    field = re.sub(r"^\$\.?", "", path.strip("`")) or None
    return Refusal("invalid", f"{field}: {message}" if field else message, field=field)


def existing_folder(cwd: str, field: str = "cwd") -> Path:
    """A folder that a client names by its absolute path, or by `~`; a `Refusal` where it does not exist."""
    folder = Path(os.path.expanduser(cwd)) if "\0" not in cwd else Path()
    if not folder.is_absolute() or not folder.is_dir():
        raise Refusal(
            "invalid", f"{cwd!r} is not a folder on this machine", guidance="Give its absolute path.", field=field
        )
    return folder
