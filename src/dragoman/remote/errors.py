"""Errors that a server reports, as the exceptions that a local session would raise. Pure."""

from __future__ import annotations

from dragoman import errors
from dragoman.errors import DragomanError
from dragoman.protocol.messages import ErrorDetails
from dragoman.protocol.models import SessionFailure

# Exceptions that take a message and guidance only, by name.
_PLAIN: dict[str, type[DragomanError]] = {
    kind.__name__: kind
    for kind in (
        errors.InputError,
        errors.ConfigError,
        errors.ProtocolError,
        errors.UnsupportedVersion,
        errors.InvalidFrame,
        errors.SessionError,
        errors.SessionBusy,
        errors.SessionClosed,
        errors.CheckpointError,
        errors.WorktreeError,
        errors.DeadlineExceeded,
        errors.IdleLimitExceeded,
        errors.Cancelled,
    )
}
_WITH_STDERR: dict[
    str,
    type[errors.StartError] | type[errors.AgentCrashed] | type[errors.SilentFailure] | type[errors.GitActionError],
] = {
    kind.__name__: kind
    for kind in (
        errors.StartError,
        errors.CommandNotFound,
        errors.CommandNotExecutable,
        errors.ExitedAtStart,
        errors.StartTimeout,
        errors.AgentCrashed,
        errors.SilentFailure,
        errors.GitActionError,
    )
}

# By the kind of the refusal, for errors without a name of ours.
_KINDS: dict[str, type[DragomanError]] = {
    "invalid": errors.InputError,
    "too_large": errors.InputError,
    "agent": DragomanError,
}


def request_error(details: ErrorDetails) -> DragomanError:
    """The exception for a request that failed on the server."""
    named = _named_error(details.error or "", details.message, details.guidance, details.stderr)
    if named is not None:
        return named
    if (kind := _KINDS.get(details.kind)) is not None:
        return kind(details.message, guidance=details.guidance)
    return errors.ServerRefused(details.message, kind=details.kind, guidance=details.guidance)


def session_error(failure: SessionFailure) -> DragomanError:
    """The exception for the failure of a session's agent."""
    named = _named_error(failure.kind, failure.message, failure.guidance, failure.stderr)
    return named or DragomanError(failure.message, guidance=failure.guidance)


def _named_error(name: str, message: str, guidance: str, stderr: str) -> DragomanError | None:
    if (plain := _PLAIN.get(name)) is not None:
        return plain(message, guidance=guidance)
    if (with_stderr := _WITH_STDERR.get(name)) is not None:
        return with_stderr(message, guidance=guidance, stderr=stderr)
    match name:
        case "CapabilityMissing":
            return errors.CapabilityMissing(message, capability="", guidance=guidance)
        case "AuthenticationRequired":
            return errors.AuthenticationRequired(message, method="", guidance=guidance)
        case "RequestFailed":
            return errors.RequestFailed(message, method="", code=errors.INTERNAL_ERROR, guidance=guidance)
        case "RequestTimeout":
            return errors.RequestTimeout(message, method="", guidance=guidance)
        case _:
            return None
