"""The OpenAPI 3.1 description of `/v1/…`, made of the same table and types that requests are read with."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from dragoman._version import __version__
from dragoman.bridge import answers, asked, http, messages, operations, runs
from dragoman.bridge.operations import OPERATIONS, OURS, SESSION, Operation
from dragoman.bridge.reply import Failed

Schema = dict[str, Any]
REFERENCE: Final = "#/components/schemas/{name}"

ABOUT: Final = """Drive coding agents over HTTP: the same as on the WebSocket `/v1/socket`, for scripts.

Programs show a token (`dragoman token create NAME`) in `Authorization: Bearer`. What changes something takes an
`Idempotency-Key`: sent twice with the same one, it is done once. Every error has the same shape."""

_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Chosen by the client: sent twice with the same one, it is done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": operations.MOST_KEY, "pattern": r"^[ -~]+$"},
}
_AFTER: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event that was seen; those after it follow.",
    "schema": {"type": "string"},
}
_PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "`respond-async`: do not wait. `wait=30`: no longer than so many seconds.",
    "schema": {"type": "string"},
}
_STREAM: Final = {
    "name": "stream",
    "in": "query",
    "description": "1: events as they come (also with `Accept: text/event-stream`), `run` as the last.",
    "schema": {"type": "string", "enum": ["0", "1"]},
}
_FRAMES: Final = {
    "name": "frames",
    "in": "query",
    "description": "1: frames as they went over the wire, in place of rows.",
    "schema": {"type": "string", "enum": ["0", "1"]},
}
_SESSION_ID: Final = {"name": "session_id", "in": "path", "required": True, "schema": {"type": "string"}}
# Of each event: 3.1 has no word for a stream of them, and tools read it so.
_EVENTS: Final = {
    "schema": {
        "type": "object",
        "description": "A server-sent event. `id` is a cursor, `data` a message as JSON.",
        "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
    }
}
_TEXT: Final = {"schema": {"type": "string"}}


@cache
def description() -> bytes:
    """As JSON."""
    return msgspec.json.encode(document())


def document() -> Schema:
    types = [
        *(operation.control for operation in (*OPERATIONS, http.RUN, http.EXPORT)),
        *asked.RESULTS.values(),
        Failed,
        http.Health,
        http.Signed,
        runs.RunTold,
        messages.SessionSnapshot,
        messages.PermissionsSnapshot,
        asked.AnyControl,
    ]
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    known = dict(zip(types[:-1], schemas, strict=False))
    described = _Described(known, components)
    paths: dict[str, Schema] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = described.operation(operation)
    for (method, path), entry in described.own(schemas[-1]).items():
        paths.setdefault(path, {})[method] = entry
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dragoman", "version": __version__, "description": ABOUT},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


class _Described:
    def __init__(self, known: dict[Any, Schema], components: dict[str, Schema]) -> None:
        self._known = known
        self._components = components

    def operation(self, operation: Operation) -> Schema:
        fields = self._fields(operation)
        path = [_parameter("path", name, self._field(operation, name), True) for name in sorted(operation.in_path)]
        entry: Schema = {
            "operationId": str(operation.control.__struct_config__.tag).replace(".", "_"),
            "summary": operation.summary,
            "description": _about(operation.control),
        }
        if operation.has_body:
            entry["parameters"] = [*path, _KEY]
            required = [name for name, (_, needed) in fields.items() if needed]
            entry["requestBody"] = {
                "required": bool(required),
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {name: schema for name, (schema, _) in fields.items()},
                            "required": required,
                            "additionalProperties": False,
                        }
                    }
                },
            }
        else:
            query = [_parameter("query", name, schema, needed) for name, (schema, needed) in fields.items()]
            entry["parameters"] = [*path, *query, *([_KEY] if operation.method == "DELETE" else [])]
        entry["responses"] = self._answers(self._ref(asked.RESULTS[operation.control]), operation.status)
        return entry

    def own(self, any_control: Schema) -> dict[tuple[str, str], Schema]:
        """Those that are no control alone."""
        run = self.operation(http.RUN)
        run["parameters"] += [_PREFER, _STREAM]
        run["responses"] = {
            **self._answers(self._ref(runs.RunTold)),
            "202": _answer(
                "It goes on, or waits in the queue",
                {"anyOf": [self._ref(answers.Prompted), self._ref(runs.RunTold)]},
            ),
        }
        run["responses"]["200"]["content"]["text/event-stream"] = _EVENTS
        export = self.operation(http.EXPORT)
        export["responses"]["200"]["content"] = {
            kind: {"schema": {"type": "string"}} for kind in ("text/markdown", "application/x-ndjson")
        }
        snapshot = self._answers(self._ref(messages.SessionSnapshot))
        events = {**self._answers({}), "200": {"description": "Events", "content": {"text/event-stream": _EVENTS}}}
        metrics = {**self._answers({}), "200": {"description": "Figures", "content": {"text/plain": _TEXT}}}
        pair_body = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
        return {
            ("post", http.RUN.path): run,
            ("get", http.EXPORT.path): export,
            ("get", SESSION): _own("session_get", "A session: how it stands, and its rows", snapshot, _SESSION_ID),
            ("get", f"{SESSION}/events"): _own(
                "session_events", "A session as it goes on", events, _SESSION_ID, _FRAMES, _AFTER
            ),
            ("get", "/v1/permissions"): _own(
                "permissions", "All that waits for a person", self._answers(self._ref(messages.PermissionsSnapshot))
            ),
            ("get", "/v1/metrics"): _own("metrics", "Figures, as Prometheus reads them", metrics),
            ("get", "/v1/health"): _open(_own("health", "Whether it answers", self._answers(self._ref(http.Health)))),
            ("post", "/v1/controls"): _own(
                "control",
                "Any control, as on the socket",
                self._answers({"type": "object"}),
                _KEY,
                body=any_control,
            ),
            ("post", "/v1/pair"): _open(
                _own("pair", "A cookie for a pairing code", self._answers(self._ref(http.Signed)), body=pair_body)
            ),
            ("post", "/v1/sign_out"): _open(
                _own("sign_out", "Revoke this browser's cookie", self._answers(self._ref(answers.Done)))
            ),
        }

    def _fields(self, operation: Operation) -> dict[str, tuple[Schema, bool]]:
        whole = self._components[operation.control.__name__]
        hidden = OURS | operation.in_path
        return {
            name: (
                {**schema, "default": operation.defaults[name]} if name in operation.defaults else schema,
                name in whole["required"],
            )
            for name, schema in whole["properties"].items()
            if name not in hidden
        }

    def _field(self, operation: Operation, name: str) -> Schema:
        found: Schema = self._components[operation.control.__name__]["properties"][name]
        return found

    def _ref(self, kind: Any) -> Schema:
        return self._known[kind]

    def _answers(self, schema: Schema, status: int = 200) -> Schema:
        return {str(status): _answer("Done", schema), "default": _answer("It was not done", self._ref(Failed))}


def _answer(about: str, schema: Schema) -> Schema:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _parameter(where: str, name: str, schema: Schema, required: bool) -> Schema:
    return {"name": name, "in": where, "required": required, "schema": schema}


def _own(name: str, summary: str, responses: Schema, *parameters: Schema, body: Schema | None = None) -> Schema:
    entry: Schema = {"operationId": name, "summary": summary, "parameters": list(parameters), "responses": responses}
    if body is not None:
        entry["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return entry


def _open(entry: Schema) -> Schema:
    """For who has no token."""
    return {**entry, "security": []}


def _about(kind: type[asked.Control]) -> str:
    """What its docstring says of it, without the socket's words on its result."""
    text = " ".join((kind.__doc__ or "").split()) if kind.__doc__ != asked.Control.__doc__ else ""
    return text.partition("Result: ")[0].strip()
