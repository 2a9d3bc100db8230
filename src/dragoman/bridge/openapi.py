"""The OpenAPI 3.1 description of `/v1/…`, derived from the declarations of requests."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from dragoman._version import __version__
from dragoman.bridge.http import ENVELOPE_FIELDS, MAX_KEY_CHARS
from dragoman.protocol import messages, results
from dragoman.protocol.requests import (
    REQUESTS,
    SESSION,
    AnyRequest,
    Declaration,
    Route,
    SessionExport,
    SessionPrompt,
)

Schema = dict[str, Any]
REFERENCE: Final = "#/components/schemas/{name}"

ABOUT: Final = """Drive coding agents over HTTP: the same requests as on the WebSocket `/v1/socket`, for scripts.

Programs send a token (`dragoman token create NAME`) in `Authorization: Bearer`. Requests that change something take an
`Idempotency-Key`: sent twice with the same key, a request is carried out once. All errors have the same form."""

_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Chosen by the client: sent twice with the same key, the request is carried out once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "pattern": r"^[ -~]+$"},
}
_AFTER: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event that the client has; the stream continues after it.",
    "schema": {"type": "string"},
}
_PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "`respond-async`: do not wait. `wait=30`: wait at most 30 seconds.",
    "schema": {"type": "string"},
}
_STREAM: Final = {
    "name": "stream",
    "in": "query",
    "description": "1: send events (also with `Accept: text/event-stream`); the last one is `run`.",
    "schema": {"type": "string", "enum": ["0", "1"]},
}
_FRAMES: Final = {
    "name": "frames",
    "in": "query",
    "description": "1: JSON-RPC frames between Dragoman and the agent instead of rows.",
    "schema": {"type": "string", "enum": ["0", "1"]},
}
_SESSION_ID: Final = {"name": "session_id", "in": "path", "required": True, "schema": {"type": "string"}}
# OpenAPI 3.1 cannot describe a stream of events; tools take this for the schema of each.
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
    """The OpenAPI document as JSON."""
    return msgspec.json.encode(document())


def document() -> Schema:
    """The OpenAPI document."""
    declarations = [declaration for declaration in REQUESTS.values() if declaration.route is not None]
    types = [
        *(declaration.request for declaration in declarations),
        *dict.fromkeys(declaration.result for declaration in REQUESTS.values()),
        results.HttpError,
        results.Health,
        results.Paired,
        results.RunResult,
        messages.SessionSnapshot,
        messages.PermissionsSnapshot,
        AnyRequest,
    ]
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    builder = _Builder(dict(zip(types[:-1], schemas, strict=False)), components)
    paths: dict[str, Schema] = {}
    for declaration in declarations:
        route = declaration.route
        assert route is not None
        paths.setdefault(route.path, {})[route.method.lower()] = builder.operation(declaration, route)
    for (method, path), entry in builder.other_operations(schemas[-1]).items():
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


class _Builder:
    """Operations of the document. `schemas` by type, `components` by name."""

    def __init__(self, schemas: dict[Any, Schema], components: dict[str, Schema]) -> None:
        self._schemas = schemas
        self._components = components

    def operation(self, declaration: Declaration, route: Route) -> Schema:
        fields = self._fields(declaration, route)
        path = [
            _parameter("path", name, self._component(declaration)["properties"][name], True)
            for name in sorted(route.path_fields)
        ]
        entry: Schema = {
            "operationId": declaration.name.replace(".", "_"),
            "summary": declaration.summary,
            "description": declaration.description,
        }
        if route.has_body:
            entry["parameters"] = [*path, _KEY]
            required = [name for name, (_, is_required) in fields.items() if is_required]
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
            query = [_parameter("query", name, schema, is_required) for name, (schema, is_required) in fields.items()]
            entry["parameters"] = [*path, *query, *([_KEY] if route.method == "DELETE" else [])]
        entry["responses"] = self._responses(self._schemas[declaration.result], route.status)
        if declaration.request is SessionPrompt:
            self._describe_run(entry)
        if declaration.request is SessionExport:
            entry["responses"]["200"]["content"] = dict.fromkeys(("text/markdown", "application/x-ndjson"), _TEXT)
        return entry

    def _describe_run(self, entry: Schema) -> None:
        entry["parameters"] += [_PREFER, _STREAM]
        run = self._schemas[results.RunResult]
        entry["responses"] = {
            **self._responses(run),
            "202": _response(
                "The run goes on, or the prompt is queued",
                {"anyOf": [self._schemas[results.PromptAccepted], run]},
            ),
        }
        entry["responses"]["200"]["content"]["text/event-stream"] = _EVENTS

    def other_operations(self, any_request: Schema) -> dict[tuple[str, str], Schema]:
        """Operations that are not a single request of the protocol."""
        events = {**self._responses({}), "200": {"description": "Events", "content": {"text/event-stream": _EVENTS}}}
        metrics = {**self._responses({}), "200": {"description": "Figures", "content": {"text/plain": _TEXT}}}
        pair_body = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}

        def returns(result: type[msgspec.Struct]) -> Schema:
            return self._responses(self._schemas[result])

        return {
            ("get", SESSION): _operation(
                "session_get", "Read a session: its state and its rows", returns(messages.SessionSnapshot), _SESSION_ID
            ),
            ("get", f"{SESSION}/events"): _operation(
                "session_events", "Follow a session", events, _SESSION_ID, _FRAMES, _AFTER
            ),
            ("get", "/v1/permissions"): _operation(
                "permissions", "List pending permissions and questions", returns(messages.PermissionsSnapshot)
            ),
            ("get", "/v1/metrics"): _operation("metrics", "Read figures for Prometheus", metrics),
            ("get", "/v1/health"): _without_token(
                _operation("health", "Check that the server answers", returns(results.Health))
            ),
            ("post", "/v1/requests"): _operation(
                "request",
                "Send any request, in the form of the socket",
                self._responses({"type": "object"}),
                _KEY,
                body=any_request,
            ),
            ("post", "/v1/pair"): _without_token(
                _operation("pair", "Exchange a pairing code for a cookie", returns(results.Paired), body=pair_body)
            ),
            ("post", "/v1/sign_out"): _without_token(
                _operation("sign_out", "Revoke this browser's cookie", returns(results.Done))
            ),
        }

    def _fields(self, declaration: Declaration, route: Route) -> dict[str, tuple[Schema, bool]]:
        """The schema of each field outside the path, and whether it is required."""
        component = self._component(declaration)
        hidden = ENVELOPE_FIELDS | route.path_fields
        return {
            name: (
                {**schema, "default": route.defaults[name]} if name in route.defaults else schema,
                name in component["required"],
            )
            for name, schema in component["properties"].items()
            if name not in hidden
        }

    def _component(self, declaration: Declaration) -> Schema:
        return self._components[declaration.request.__name__]

    def _responses(self, schema: Schema, status: int = 200) -> Schema:
        error = self._schemas[results.HttpError]
        return {str(status): _response("Success", schema), "default": _response("Error", error)}


def _response(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _parameter(location: str, name: str, schema: Schema, required: bool) -> Schema:
    return {"name": name, "in": location, "required": required, "schema": schema}


def _operation(name: str, summary: str, responses: Schema, *parameters: Schema, body: Schema | None = None) -> Schema:
    entry: Schema = {"operationId": name, "summary": summary, "parameters": list(parameters), "responses": responses}
    if body is not None:
        entry["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return entry


def _without_token(entry: Schema) -> Schema:
    """The operation of a client that has no token."""
    return {**entry, "security": []}
