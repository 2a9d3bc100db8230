"""HTTP for scripts: which request is which control. From this table requests are read and the OpenAPI schema is made.

A control's fields come from the path, where it names them, else from the query (GET, DELETE) or from the JSON body.
"""

from __future__ import annotations

import math
import re
import uuid
from typing import Any, Final, Literal, get_origin, get_type_hints

import msgspec
from starlette.datastructures import QueryParams

from dragoman.bridge import asked
from dragoman.bridge.asked import AnyControl, Control
from dragoman.bridge.refusal import Refusal

Method = Literal["GET", "POST", "PATCH", "DELETE"]

# Fields that no request has: HTTP says them in its own way.
OURS: Final = frozenset({"id", "command_id", "type"})

MOST_KEY: Final = 200


class Operation(msgspec.Struct, frozen=True):
    """`defaults`: of fields that are something else here than on the socket when they are left out."""

    method: Method
    path: str
    control: type[Control]
    summary: str
    status: int = 200
    defaults: dict[str, str] = {}

    @property
    def in_path(self) -> frozenset[str]:
        return frozenset(re.findall(r"{(\w+)}", self.path))

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PATCH")


SESSION: Final = "/v1/sessions/{session_id}"

OPERATIONS: Final = (
    Operation("GET", "/v1/sessions", asked.SessionList, "Sessions, the latest first"),
    Operation("POST", "/v1/sessions", asked.SessionOpen, "Open a session", 201),
    Operation("PATCH", SESSION, asked.SessionRename, "Rename a session"),
    Operation("DELETE", SESSION, asked.SessionDelete, "Delete a session and all that was said in it"),
    Operation("GET", f"{SESSION}/history", asked.SessionHistory, "Older rows of a session"),
    Operation("POST", f"{SESSION}/cancel", asked.SessionCancel, "Cancel the run that goes on"),
    Operation("POST", f"{SESSION}/close", asked.SessionClose, "End its agent; the session can be continued later"),
    Operation("POST", f"{SESSION}/fork", asked.SessionFork, "A new session with the same past", 201),
    Operation("POST", f"{SESSION}/load", asked.SessionLoad, "Continue it; the agent tells its history again"),
    Operation("POST", f"{SESSION}/resume", asked.SessionResume, "Continue it, in the way that the agent can"),
    Operation("POST", f"{SESSION}/restart", asked.SessionRestart, "End the agent and start it anew"),
    Operation("POST", f"{SESSION}/mode", asked.SessionSetMode, "Switch the agent's mode"),
    Operation("POST", SESSION + "/options/{option_id}", asked.SessionSetOption, "Set an option of the agent's"),
    Operation("POST", "/v1/permissions/{session_id}/{permission_id}", asked.PermissionAnswer, "Answer a permission"),
    Operation("POST", "/v1/questions/{session_id}/{question_id}", asked.QuestionAnswer, "Answer an agent's question"),
    Operation("GET", "/v1/agents", asked.AgentList, "Agents that could be started here"),
    Operation("GET", "/v1/search", asked.Search, "Search in all that was said"),
    Operation("GET", "/v1/usage", asked.UsageAsked, "Tokens and cost, as agents reported them"),
    Operation("GET", "/v1/policy", asked.PolicyList, "The rules in force"),
    Operation("GET", "/v1/tokens", asked.TokenList, "Tokens"),
    Operation("POST", "/v1/tokens", asked.TokenCreate, "Make a token; it is told this once", 201),
    Operation("DELETE", "/v1/tokens/{token_id}", asked.TokenRevoke, "Revoke a token"),
)


def read_control(
    operation: Operation, path: dict[str, str], query: QueryParams, body: bytes, key: str | None
) -> Control:
    """The control that a request means; a `Refusal` names what is wrong with it."""
    kind = operation.control
    if operation.has_body:
        fields = read_object(body)
        known = {field.name for field in msgspec.structs.fields(kind)} - OURS - operation.in_path
        if unknown := sorted(fields.keys() - known):
            raise Refusal("invalid", f"there is no field {unknown[0]!r} here", field=unknown[0])
    else:
        fields = _from_query(kind, query, OURS | operation.in_path)
    return _made(kind, {**operation.defaults, **fields, **path}, key, strict=operation.has_body)


def read_any_control(body: bytes, key: str | None) -> Control:
    """A control as the socket takes it; `id` may be left out."""
    fields = read_object(body)
    fields.setdefault("id", "")
    if key is not None:
        fields["command_id"] = _key(key)
    try:
        made: Control = msgspec.convert(fields, AnyControl)
    except msgspec.ValidationError as problem:
        raise invalid(problem) from None
    return made


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; an empty one is no fields."""
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except msgspec.ValidationError:
        raise Refusal("invalid", "the body of the request is no JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Refusal("invalid", f"the body of the request is no JSON: {problem}") from None


def invalid(problem: msgspec.ValidationError) -> Refusal:
    """What msgspec says of a field, with the field named."""
    message, _, where = str(problem).partition(" - at ")
    field = re.sub(r"^\$\.?", "", where.strip("`")) or None
    return Refusal("invalid", f"{field}: {message}" if field else message, field=field)


def _from_query(kind: type[Control], query: QueryParams, hidden: frozenset[str]) -> dict[str, Any]:
    hints = get_type_hints(kind)
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
            raise Refusal("invalid", f"{name} is given {len(values)} times", field=name)
    return fields


def _made(kind: type[Control], fields: dict[str, Any], key: str | None, *, strict: bool) -> Control:
    fields = {**fields, "type": kind.__struct_config__.tag, "id": uuid.uuid4().hex, "command_id": _key(key)}
    try:
        made = msgspec.convert(fields, kind, strict=strict)
    except msgspec.ValidationError as problem:
        raise invalid(problem) from None
    for name in kind.__struct_fields__:
        value = getattr(made, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal("invalid", f"{name}: expected a finite number", field=name)
    return made


def _key(key: str | None) -> str | None:
    if key is not None and not (0 < len(key) <= MOST_KEY and key.isascii() and key.isprintable()):
        raise Refusal("invalid", "an Idempotency-Key is up to 200 printable ASCII characters")
    return key
