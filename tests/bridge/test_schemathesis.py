"""Requests made from the OpenAPI description never cause an internal error."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from bridge.serve_process import served
from dragoman.bridge.openapi import document

# The variable asks for more, to hunt a defect.
EXAMPLES = int(os.environ.get("DRAGOMAN_EXAMPLES", "25"))

# Its end is the client's to choose; what it answers to is tested elsewhere.
ENDLESS = "/v1/sessions/{session_id}/events"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")  # the library's own
async def test_no_request_fails_by_a_defect_and_every_answer_is_as_described(tmp_path: Path) -> None:
    async with (
        served(tmp_path / "home") as server,
        await server.program() as admin,
        await server.program("prompt") as user,
    ):
        opened = await admin.post("/v1/sessions", json={"cwd": str(tmp_path), "agent": "demo"})
        session_id = opened.json()["session_id"]
        url = await server.url()
        try:
            await asyncio.to_thread(_try_all, url, admin, user, session_id)
        finally:
            assert (await admin.get("/v1/health")).status_code == 200
        assert await server.end() == 0


def _try_all(url: str, admin: httpx.AsyncClient, user: httpx.AsyncClient, session_id: str) -> None:
    import schemathesis

    tried = 0
    for found in schemathesis.openapi.from_dict(document()).get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]  # it is our own schema, and has no errors
        if operation.path != ENDLESS:
            # A control may also be one that runs a command: those are an admin's.
            caller = user if operation.path == "/v1/requests" else admin
            _try(operation, url, caller.headers["authorization"], session_id)
            tried += 1
    assert tried > 20


def _try(operation: Any, url: str, authorization: str, session_id: str) -> None:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st
    from schemathesis import checks

    wanted = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(), real=st.booleans())
    def attempt(case: Any, real: bool) -> None:
        if real and operation.method != "delete" and "session_id" in (case.path_parameters or {}):
            case.path_parameters["session_id"] = session_id
        if operation.path.endswith("/runs"):
            case.headers["Prefer"] = "wait=5"
        answer = case.call(base_url=url, headers={"authorization": authorization}, timeout=30)
        case.validate_response(answer, checks=wanted)

    attempt()
