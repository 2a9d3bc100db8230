"""Refusals: the JSON-RPC errors that the host answers with, each made in one place."""

from __future__ import annotations

from typing import Final

from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, NOT_FOUND, REQUEST_CANCELLED
from dragoman.wire.connection import RpcRefusal

# Of the range that JSON-RPC leaves to applications. Not -32000, which in ACP means "log in first", and not -32603,
# which says that trying again may help.
DENIED: Final = -32001


def denied(what: str, reason: str) -> RpcRefusal:
    return RpcRefusal(DENIED, f"{what} was not allowed: {reason}")


def withdrawn(what: str) -> RpcRefusal:
    return RpcRefusal(REQUEST_CANCELLED, f"{what} was cancelled before it was allowed")


def invalid(field: str, reason: str) -> RpcRefusal:
    """Refuse a parameter; `field` is its name on the wire."""
    return RpcRefusal(INVALID_PARAMS, f"{field}: {reason}")


def not_found(uri: str, what: str = "Resource") -> RpcRefusal:
    # With `data.uri`, as agents built on the protocol's own libraries expect it.
    return RpcRefusal(NOT_FOUND, f"{what} not found: {uri}", {"uri": uri})


def not_offered(method: str) -> RpcRefusal:
    return RpcRefusal(METHOD_NOT_FOUND, f"{method} is not offered by this client", {"method": method})


def failed(path: str, error: OSError) -> RpcRefusal:
    """Refuse because the system refused a file operation."""
    if isinstance(error, FileNotFoundError):
        return not_found(path)
    if isinstance(error, PermissionError | NotADirectoryError | IsADirectoryError | FileExistsError):
        return invalid("path", f"{path}: {error.strerror}")
    return RpcRefusal(INTERNAL_ERROR, f"{path}: {error.strerror or error}")
