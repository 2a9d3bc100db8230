"""HTTP for scripts: how requests are read and answered."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from bridge.stub_server import StubServer
from dragoman.bridge.auth import Caller
from dragoman.bridge.refusal import Refusal
from dragoman.protocol import requests
from dragoman.protocol.models import Model
from dragoman.protocol.requests import Request
from dragoman.protocol.results import Health
from dragoman.record.rows import Run


async def test_health_needs_no_token_and_reveals_little(server: StubServer) -> None:
    async with server.stranger() as stranger:
        answer = await stranger.get("/v1/health")
        assert answer.status_code == 200
        assert answer.json() == {"name": "dragoman", "status": "ok", "version": Health().version}
        assert answer.headers["cache-control"] == "no-store"
        assert (await stranger.head("/v1/health")).status_code == 200


async def test_fields_come_from_path_query_and_body(server: StubServer) -> None:
    async with server.program("prompt") as program:
        assert (await program.get("/v1/sessions?limit=5&agent=demo&before=1.5")).status_code == 200
        opened = await program.post("/v1/sessions", json={"cwd": "/work", "options": {"fast": True}})
        assert (opened.status_code, opened.json()["session_id"]) == (201, "s1")
        await program.get("/v1/search?text=a%20b&kinds=user&kinds=tool")
        await program.post("/v1/sessions/s1/restart", json={"reload": True})
        await program.post("/v1/sessions/s1/close")
        await program.post("/v1/permissions/s1/p1", json={"answer": "allow", "always": True})
        await program.patch("/v1/sessions/s1", json={"title": "a name"})
        await program.post("/v1/requests", json={"type": "queue.add", "session_id": "s1", "text": "later"})
    listed, opened_, search, restart, close, permission, rename, queued = server.bridge.requests
    assert (listed.limit, listed.agent, listed.before) == (5, "demo", 1.5)  # type: ignore[attr-defined]
    assert isinstance(opened_, requests.SessionOpen)
    assert (opened_.cwd, opened_.options) == ("/work", {"fast": True})
    assert isinstance(search, requests.Search)
    assert (search.text, search.kinds) == ("a b", ("user", "tool"))
    assert isinstance(restart, requests.SessionRestart)
    assert (restart.session_id, restart.reload) == ("s1", True)
    assert isinstance(close, requests.SessionClose)
    assert isinstance(permission, requests.PermissionAnswer)
    assert (permission.session_id, permission.permission_id, permission.always) == ("s1", "p1", True)
    assert isinstance(rename, requests.SessionRename)
    assert isinstance(queued, requests.QueueAdd)
    assert {caller.scope for caller in server.bridge.callers} == {"prompt"}
    assert len({one.id for one in server.bridge.requests}) == len(server.bridge.requests)


async def test_an_idempotency_key_is_the_commands_id(server: StubServer) -> None:
    async with server.program() as program:
        await program.post("/v1/sessions/s1/cancel", headers={"idempotency-key": "k-1"})
        await program.post("/v1/requests", json={"type": "session.list"}, headers={"idempotency-key": "k-2"})
        await program.post("/v1/sessions/s1/cancel")
        assert [one.command_id for one in server.bridge.requests] == ["k-1", "k-2", None]
        assert (await program.post("/v1/sessions/s1/cancel", headers={"idempotency-key": "k" * 201})).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("GET", "/v1/sessions?limit=many", None, "limit"),
        ("GET", "/v1/sessions?limit=1&limit=2", None, "limit"),
        ("GET", "/v1/sessions?before=nan", None, "before"),
        ("GET", "/v1/sessions?nothing=1", None, "nothing"),
        ("GET", "/v1/sessions?command_id=1", None, "command_id"),
        ("GET", "/v1/search", None, "text"),
        ("GET", "/v1/search?text=a&kinds=nothing", None, "kinds[0]"),
        ("POST", "/v1/sessions", "{}", "cwd"),
        ("POST", "/v1/sessions", '{"cwd": 3}', "cwd"),
        ("POST", "/v1/sessions", '{"cwd": "/", "sudo": true}', "sudo"),
        ("POST", "/v1/sessions", '{"cwd": "/", "command_id": "x"}', "command_id"),
        ("POST", "/v1/sessions/s1/restart", '{"session_id": "s2"}', "session_id"),
        ("POST", "/v1/sessions", "[]", None),
        ("POST", "/v1/sessions", "{", None),
        ("POST", "/v1/sessions", '{"cwd": "\\ud800"}', None),
        ("POST", "/v1/sessions", "[" * 100_000, None),
        ("POST", "/v1/requests", '{"type": "nothing"}', "type"),
        ("POST", "/v1/requests", '{"type": "subscribe", "stream": "sessions"}', "type"),
        ("POST", "/v1/requests", "{}", "type"),
        ("POST", "/v1/pair", '{"code": 3}', "code"),
    ],
)
async def test_an_invalid_field_of_a_request_is_named(
    server: StubServer, method: str, path: str, body: str | None, field: str | None
) -> None:
    async with server.program() as program:
        answer = await program.request(method, path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["kind"] == "invalid"
    if field is not None:
        assert field in (error["field"] or "") or field in error["message"]
    assert server.bridge.requests == []


async def test_bytes_that_are_no_text_are_a_bad_request(server: StubServer) -> None:
    async with server.program() as program:
        sent = {"content": b'{"cwd": "\xff"}', "headers": {"content-type": "application/json"}}
        assert (await program.post("/v1/sessions", **sent)).status_code == 400  # type: ignore[arg-type]
        assert (await program.get("/v1/search?text=%ff%fe")).status_code == 200


@pytest.mark.parametrize(
    ("kind", "status"), [("not_found", 404), ("conflict", 409), ("too_fast", 429), ("agent", 502), ("timeout", 504)]
)
async def test_a_refusal_has_its_status(server: StubServer, kind: str, status: int) -> None:
    server.bridge.error = Refusal(kind, "it cannot be", guidance="Try again.", retry_after=1.2)
    async with server.program() as program:
        answer = await program.post("/v1/sessions/s1/cancel")
    assert answer.status_code == status
    assert answer.headers["retry-after"] == "2"
    assert answer.json()["error"]["guidance"] == "Try again."


async def test_unknown_urls_and_wrong_methods(server: StubServer) -> None:
    async with server.program() as program:
        nothing = await program.get("/v1/nothing")
        assert (nothing.status_code, nothing.json()["error"]["kind"]) == (404, "not_found")
        wrong = await program.put("/v1/sessions")
        assert (wrong.status_code, wrong.json()["error"]["kind"]) == (405, "unsupported")
        assert {"GET", "POST"} <= {one.strip() for one in wrong.headers["allow"].split(",")}
        assert (await program.post("/v1/openapi.json")).status_code == 405
        assert (await program.post("/docs")).status_code == 405
        assert (await program.post("/v1/nothing")).status_code == 404
        assert (await program.get("/v1/sessions/none")).status_code == 404


@pytest.mark.filterwarnings("ignore")
async def test_an_internal_error_reveals_nothing(server: StubServer, caplog: pytest.LogCaptureFixture) -> None:
    server.bridge.error = RuntimeError("a secret")
    async with server.program() as program:
        answer = await program.post("/v1/sessions/s1/cancel")
    assert answer.status_code == 500
    assert answer.json()["error"]["kind"] == "internal"
    assert "secret" not in answer.text
    assert "a secret" in caplog.text


async def test_a_session_is_returned_with_its_rows(server: StubServer) -> None:
    async with server.program() as program:
        result = (await program.get("/v1/sessions/s1")).json()
    assert (result["id"], result["session"]["agent"], result["rows"]["messages"]) == ("s1", "demo", [])
    assert server.bridge.followers == 0


async def test_an_export_is_a_file(server: StubServer) -> None:
    async with server.program() as program:
        answer = await program.get("/v1/sessions/s1/export?format=markdown")
    assert answer.text == "# hello"
    assert answer.headers["content-type"].startswith("text/markdown")
    assert answer.headers["content-disposition"] == 'attachment; filename="a__name_.md"'


async def test_metrics_are_served(server: StubServer) -> None:
    server.metrics.sockets.set(3)
    async with server.program("view") as program:
        await program.get("/v1/sessions")
        text = (await program.get("/v1/metrics")).text
    assert "dragoman_sockets 3.0\n" in text
    assert 'dragoman_http_requests_total{method="GET",status="200"} 1.0\n' in text
    assert 'dragoman_http_seconds_bucket{le="+Inf"} 1.0\n' in text


# -- runs


async def prompted(server: StubServer, program: httpx.AsyncClient, **request: object) -> asyncio.Task[httpx.Response]:
    """A prompt that was sent, and reached the bridge."""
    sending = program.post("/v1/sessions/s1/runs", json={"text": "hi"}, **request)  # type: ignore[arg-type]
    task = asyncio.create_task(sending)
    async with asyncio.timeout(10):
        await server.bridge.prompted.wait()
    return task


async def test_a_run_is_awaited_and_its_text_returned(server: StubServer) -> None:
    async with server.program() as program:
        waiting = await prompted(server, program)
        server.bridge.run("running")
        server.bridge.message("m0", "of another run", run_id="r0")
        server.bridge.message("m1", "Hel")
        server.bridge.append("m1", "lo.")
        server.bridge.message("m2", "Bye")
        server.bridge.message("m2", "Bye.")
        server.bridge.run("success", stop_reason="end_turn")
        answer = await waiting
    assert answer.status_code == 200
    result = answer.json()
    assert (result["status"], result["stop_reason"], result["text"]) == ("success", "end_turn", "Hello.\n\nBye.")
    assert (result["run_id"], result["cursor"]) == ("r1", str(server.bridge.cursor))
    assert server.bridge.followers == 0
    sent_request = server.bridge.requests[0]
    assert isinstance(sent_request, requests.SessionPrompt)
    assert sent_request.when == "refuse"


async def test_a_prompt_that_was_sent_long_ago_is_answered_at_once_when_it_is_sent_again(server: StubServer) -> None:
    server.bridge.run_row = Run(id="r1", time=0, status="success")
    async with server.program() as program:
        again = {"idempotency-key": "nightly"}
        answer = await program.post("/v1/sessions/s1/runs", json={"text": "hi"}, headers=again)
    assert (answer.status_code, answer.json()["status"]) == (200, "success")


async def test_respond_async_is_answered_at_once(server: StubServer) -> None:
    async with server.program() as program:
        answer = await program.post(
            "/v1/sessions/s1/runs", json={"text": "hi"}, headers={"prefer": "respond-async, wait=9"}
        )
        assert (answer.status_code, answer.json()["run_id"]) == (202, "r1")
        queued = await program.post("/v1/sessions/s1/runs", json={"text": "hi", "when": "queue"})
        assert (queued.status_code, queued.json()["queued_id"]) == (202, "q1")
    assert server.bridge.followers == 0


async def test_a_wait_that_is_over_returns_the_run_so_far(server: StubServer) -> None:
    server.bridge.message("m1", "so far")
    async with server.program() as program:
        answer = await program.post("/v1/sessions/s1/runs", json={"text": "hi"}, headers={"prefer": "wait=1"})
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["text"]) == ("running", "so far")


async def test_a_prompt_that_is_refused_is_an_error(server: StubServer) -> None:
    server.bridge.error = Refusal("conflict", "the session is busy")
    async with server.program() as program:
        assert (await program.post("/v1/sessions/s1/runs", json={"text": "hi"})).status_code == 409
        assert (await program.post("/v1/sessions/none/runs", json={"text": "hi"})).status_code == 404
    assert server.bridge.followers == 0


async def test_a_client_that_goes_leaves_no_one_waiting(server: StubServer) -> None:
    async with server.program() as program:
        waiting = await prompted(server, program)
        waiting.cancel()
        await asyncio.wait({waiting})
    async with asyncio.timeout(10):
        await server.bridge.unfollowed.wait()


async def test_a_stopping_server_ends_waiting_requests(server: StubServer) -> None:
    async with server.program() as program:
        waiting = await prompted(server, program)
        server.stopping.set()
        answer = await waiting
    assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "unavailable")


def events(text: str) -> list[tuple[str | None, str, dict[str, object]]]:
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return found


@pytest.mark.parametrize("request_", [{"params": {"stream": "1"}}, {"headers": {"accept": "text/event-stream"}}])
async def test_a_run_is_streamed_until_it_ends(server: StubServer, request_: dict[str, object]) -> None:
    async with server.program() as program:
        waiting = await prompted(server, program, **request_)
        server.bridge.message("m1", "Hello.")
        server.bridge.run("success")
        server.bridge.message("m9", "of the next run", run_id="r2")
        answer = await waiting
    assert answer.headers["content-type"].startswith("text/event-stream")
    result = events(answer.text)
    assert [(cursor, kind) for cursor, kind, _ in result] == [
        ("0", "snapshot"), ("1", "update"), ("2", "update"), (None, "run"),
    ]  # fmt: skip
    assert result[-1][2]["text"] == "Hello."
    assert server.bridge.followers == 0


async def test_a_look_at_a_streams_headers_ends(server: StubServer) -> None:
    async with server.program() as program:
        answer = await program.head("/v1/sessions/s1/events")
    assert (answer.status_code, server.bridge.followers) == (200, 0)


async def test_a_stream_ends_when_its_token_is_revoked(server: StubServer) -> None:
    secret, made = server.tokens.create("nightly", "view")
    async with server.program(token=secret) as program, program.stream("GET", "/v1/sessions/s1/events") as answer:
        chunks = answer.aiter_text()
        text = await anext(chunks)
        server.tokens.revoke(made.id)
        server.bridge.message("m1", "not for them")
        text += "".join([chunk async for chunk in chunks])
    assert [kind for _, kind, _ in events(text)] == ["snapshot", "error"]
    assert "not for them" not in text


async def test_a_result_is_not_for_a_token_that_was_revoked_meanwhile(
    server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, token = server.tokens.create("nightly", "prompt")
    execute = server.bridge.execute

    async def revoke_and_execute(request: Request[Any], caller: Caller) -> Model:
        server.tokens.revoke(token.id)
        return await execute(request, caller)

    monkeypatch.setattr(server.bridge, "execute", revoke_and_execute)
    async with server.program(token=secret) as program:
        answer = await program.get("/v1/sessions")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (401, "unauthorized")


async def test_a_stream_goes_on_where_it_was_left(server: StubServer) -> None:
    server.bridge.message("m1", "Hello.")
    async with (
        server.program("view") as program,
        program.stream("GET", "/v1/sessions/s1/events", headers={"last-event-id": "7"}) as answer,
    ):
        assert server.bridge.followed_after == "7"
        text, result = "", events("")
        async for chunk in answer.aiter_text():
            text += chunk
            result = events(text)
            if len(result) == 2:
                break
        assert result[0][2]["resumed"] is True
        assert result[1][0] == "1"
    async with asyncio.timeout(10):
        await server.bridge.unfollowed.wait()
