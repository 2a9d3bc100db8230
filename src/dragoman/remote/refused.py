"""What a server says went wrong, as the error that it is here. Pure."""

from __future__ import annotations

from dragoman import errors
from dragoman.bridge.messages import ErrorBody
from dragoman.bridge.payload import Problem
from dragoman.errors import DragomanError

# Those that take nothing but what is said here, by their names.
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
        errors.DeadlineExceeded,
        errors.IdleLimitExceeded,
        errors.Cancelled,
    )
}
_WITH_STDERR: dict[str, type[errors.StartError] | type[errors.AgentCrashed] | type[errors.SilentFailure]] = {
    kind.__name__: kind
    for kind in (
        errors.StartError,
        errors.CommandNotFound,
        errors.CommandNotExecutable,
        errors.ExitedAtStart,
        errors.StartTimeout,
        errors.AgentCrashed,
        errors.SilentFailure,
    )
}

# By the server's own word, for what has no name of ours.
_KINDS: dict[str, type[DragomanError]] = {
    "invalid": errors.InputError,
    "too_large": errors.InputError,
    "agent": DragomanError,
}


def error_of(body: ErrorBody) -> DragomanError:
    """Why something that was asked of the server was not done."""
    named = _named(body.error or "", body.message, body.guidance, body.stderr)
    if named is not None:
        return named
    if (kind := _KINDS.get(body.kind)) is not None:
        return kind(body.message, guidance=body.guidance)
    return errors.ServerRefused(body.message, kind=body.kind, guidance=body.guidance)


def error_of_problem(problem: Problem) -> DragomanError:
    """What went wrong with a session's agent."""
    named = _named(problem.kind, problem.message, problem.guidance, problem.stderr)
    return named or DragomanError(problem.message, guidance=problem.guidance)


def _named(name: str, message: str, guidance: str, stderr: str) -> DragomanError | None:
    if (plain := _PLAIN.get(name)) is not None:
        return plain(message, guidance=guidance)
    if (told := _WITH_STDERR.get(name)) is not None:
        return told(message, guidance=guidance, stderr=stderr)
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
