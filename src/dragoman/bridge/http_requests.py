"""HTTP requests as requests of the protocol.

A field comes from the path where the route names it, else from the query (GET, DELETE) or from the JSON body.
"""

from __future__ import annotations

import math
import re
import uuid
from typing import Any, Final, get_origin, get_type_hints

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request as HttpRequest

from dragoman.bridge.refusal import Refusal, refusal_of_field
from dragoman.protocol.requests import AnyRequest, Declaration, Request

# A prompt with a photograph of 20 MB in base64; the socket accepts no more, either.
MAX_BODY_BYTES: Final = 32 * 1024 * 1024

# Time that `Prefer: wait=` may ask for: a day.
MAX_WAIT_S: Final = 86_400.0

MAX_KEY_CHARS: Final = 200

# Fields that HTTP expresses in its own way.
ENVELOPE_FIELDS: Final = frozenset({"id", "command_id", "type"})


def read_request(
    declaration: Declaration, path: dict[str, str], query: QueryParams, body: bytes, key: str | None
) -> Request[Any]:
    """The request that an HTTP request stands for; a `Refusal` names what is wrong with it."""
    request_type, route = declaration.request, declaration.route
    assert route is not None
    if route.has_body:
        fields = read_object(body)
        allowed = {field.name for field in msgspec.structs.fields(request_type)} - ENVELOPE_FIELDS - route.path_fields
        if unknown := sorted(fields.keys() - allowed):
            raise Refusal("invalid", f"there is no field {unknown[0]!r} here", field=unknown[0])
    else:
        fields = _query_fields(request_type, query, ENVELOPE_FIELDS | route.path_fields)
    fields = {
        **route.defaults,
        **fields,
        **path,
        "type": declaration.name,
        "id": uuid.uuid4().hex,
        "command_id": _checked_key(key),
    }
    try:
        request: Request[Any] = msgspec.convert(fields, request_type, strict=route.has_body)
    except msgspec.ValidationError as error:
        raise refusal_of_field(error) from None
    for name in request_type.__struct_fields__:
        value = getattr(request, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal("invalid", f"{name}: expected a finite number", field=name)
    return request


def read_any_request(body: bytes, key: str | None) -> Request[Any]:
    """A request in the form of the socket."""
    fields = read_object(body)
    if key is not None:
        fields["command_id"] = _checked_key(key)
    try:
        request: Request[Any] = msgspec.convert(fields, AnyRequest)
    except msgspec.ValidationError as error:
        raise refusal_of_field(error) from None
    return request


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; an empty body is an empty object."""
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except msgspec.ValidationError:
        raise Refusal("invalid", "the body of the request is not a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal("invalid", f"the body of the request is not JSON: {error}") from None


async def read_body(request: HttpRequest) -> bytes:
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and media_type != "application/json":
        raise Refusal(
            "invalid",
            "the content type of the request is not JSON",
            guidance="Send the header Content-Type: application/json.",
        )
    return bytes(body)


def preferred_wait(request: HttpRequest) -> float | None:
    """Seconds that the client wants to wait: 0 is `respond-async`, None until the run has ended (RFC 7240)."""
    preferences = [part.strip().lower() for value in request.headers.getlist("prefer") for part in value.split(",")]
    if "respond-async" in preferences:
        return 0
    for preference in preferences:
        if match := re.fullmatch(r"wait=(\d{1,9})", preference):
            return min(float(match[1]), MAX_WAIT_S)
    return None


def wants_events(request: HttpRequest) -> bool:
    return is_set(request, "stream") or "text/event-stream" in request.headers.get("accept", "").lower()


def is_set(request: HttpRequest, parameter: str) -> bool:
    return request.query_params.get(parameter) in ("1", "true")


def _too_large() -> Refusal:
    return Refusal("too_large", f"the body of a request is limited to {MAX_BODY_BYTES // 1024 // 1024} MiB")


def _query_fields(request_type: type[Request[Any]], query: QueryParams, hidden: frozenset[str]) -> dict[str, Any]:
    hints = get_type_hints(request_type)
    fields: dict[str, Any] = {}
    for name in query:
        if name in hidden or name not in hints:
            raise Refusal("invalid", f"there is no parameter {name!r} here", field=name)
        values = query.getlist(name)
        if get_origin(hints[name]) is tuple:
            fields[name] = values
        elif len(values) == 1:
            fields[name] = values[0]
        else:
            raise Refusal("invalid", f"the parameter {name} appears {len(values)} times", field=name)
    return fields


def _checked_key(key: str | None) -> str | None:
    if key is not None and not (0 < len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()):
        raise Refusal("invalid", f"an Idempotency-Key has up to {MAX_KEY_CHARS} printable ASCII characters")
    return key


# A user agent contains the names of other browsers: the first that matches is the right one.
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS: Final = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Mac OS X", "Mac"), ("Windows", "Windows"),
    ("Linux", "Linux"),
)  # fmt: skip


def browser_name(request: HttpRequest) -> str:
    """A name for a browser's token, such as "Firefox on Linux"."""
    user_agent = request.headers.get("user-agent", "")
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "Browser")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), None)
    return f"{browser} on {system}" if system else browser
