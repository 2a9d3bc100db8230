"""The description of the API: true to what the server takes, and whole."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bridge.stub_server import StubServer
from dragoman.bridge.openapi import document
from dragoman.protocol.requests import REQUESTS, SessionPrompt


def references(found: object) -> list[str]:
    match found:
        case dict():
            own = [found["$ref"]] if isinstance(found.get("$ref"), str) else []
            return own + [one for value in found.values() for one in references(value)]
        case list():
            return [one for value in found for one in references(value)]
        case _:
            return []


def test_every_reference_leads_somewhere() -> None:
    schema = document()
    found = set(references(schema))
    assert found
    for reference in found:
        assert reference.removeprefix("#/components/schemas/") in schema["components"]["schemas"], reference


def test_every_operation_is_described_with_its_parameters() -> None:
    schema = document()
    for declaration in REQUESTS.values():
        if (route := declaration.route) is None:
            continue
        entry: dict[str, Any] = schema["paths"][route.path][route.method.lower()]
        in_path = {parameter["name"] for parameter in entry["parameters"] if parameter["in"] == "path"}
        assert in_path == route.path_fields
        assert str(route.status) in entry["responses"]
        assert "default" in entry["responses"]
        assert entry["summary"]
    names = [entry["operationId"] for path in schema["paths"].values() for entry in path.values()]
    assert len(names) == len(set(names))
    run = REQUESTS[SessionPrompt].route
    assert run is not None
    body = schema["paths"][run.path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["text"]
    assert body["properties"]["when"]["default"] == "refuse"


def test_every_field_is_snake_case() -> None:
    schemas = document()["components"]["schemas"]
    for name, schema in schemas.items():
        for field in schema.get("properties", {}):
            assert re.fullmatch(r"[a-z][a-z0-9_]*", field), (name, field)


async def test_it_is_served_to_everyone_with_a_page_of_our_own(server: StubServer) -> None:
    async with server.stranger() as stranger:
        answer = await stranger.get("/v1/openapi.json")
        assert answer.json()["openapi"] == "3.1.0"
        assert answer.json()["info"]["title"] == "Dragoman"
        home = await stranger.get("/")
        assert (home.status_code, home.headers["location"]) == (302, "/docs")
        page = await stranger.get("/docs")
        for path in re.findall(r'(?:src|href)="(/[^"]+)"', page.text):
            assert (await stranger.get(path)).status_code == 200, path


@pytest.mark.parametrize("path", sorted(document()["paths"]))
async def test_every_path_that_is_described_is_there(server: StubServer, path: str) -> None:
    async with server.stranger() as stranger:
        for method in document()["paths"][path]:
            answer = await stranger.request(method, re.sub(r"{\w+}", "x", path), json={} if method == "post" else None)
            assert answer.status_code not in (404, 405, 500), (method, path)
