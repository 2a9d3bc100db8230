"""What an HTTP request is answered with: JSON of the types that cross the socket, and one shape for all errors."""

from __future__ import annotations

import math
from typing import Final

import msgspec
from starlette.responses import Response

from dragoman.bridge.messages import ErrorBody
from dragoman.bridge.payload import Out
from dragoman.bridge.refusal import Refusal

JSON: Final = "application/json"


class Failed(Out, frozen=True, kw_only=True):
    """What every error looks like."""

    error: ErrorBody


def reply(answer: msgspec.Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status, {"cache-control": "no-store"}, JSON)


def refused(refusal: Refusal, status: int | None = None) -> Response:
    """`status`: where HTTP has a better one than the refusal's kind has."""
    body = refusal.body
    response = reply(Failed(error=body), status or refusal.status)
    if body.retry_after is not None:
        response.headers["retry-after"] = str(math.ceil(body.retry_after))
    if body.kind == "unauthorized":
        response.headers["www-authenticate"] = 'Bearer realm="dragoman"'
    return response
