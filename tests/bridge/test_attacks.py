"""Attacks, each refused: on a real server, over a real port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import websockets
from websockets.asyncio.client import connect

from attempts import Attempts
from bridge.stub_server import StubServer, stub_server
from dragoman.bridge.auth import MAX_ATTEMPTS
from dragoman.bridge.security import SECURITY_HEADERS
from dragoman.errors import ConfigError

SOCKET = "/v1/socket"
PLANTED = "what lies beside the page"


async def socket_status(server: StubServer, path: str = SOCKET, **headers: str) -> int:
    """101 where it was opened, else what it was refused with."""
    try:
        async with connect(f"ws://127.0.0.1:{server.port}{path}", additional_headers=headers, proxy=None) as opened:
            assert await opened.recv()
            return 101
    except websockets.InvalidStatus as refused:
        return refused.response.status_code


def cookies(client: httpx.AsyncClient) -> str:
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


async def raw(server: StubServer, request: bytes) -> bytes:
    """Send bytes that no client library would send, and return the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(request)
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.attempts("http")
async def test_without_a_token_nothing_is_returned(server: StubServer, attempts: Attempts) -> None:
    async with server.stranger() as stranger:
        for path in ("/v1/sessions", "/v1/sessions/s1", "/v1/sessions/s1/events", "/v1/permissions", "/v1/metrics"):
            answer = await stranger.get(path)
            attempts.add()
            assert answer.status_code == 401, path
            assert answer.json()["error"]["kind"] == "unauthorized"
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert (await stranger.post("/v1/requests", json={"type": "session.list"})).status_code == 401
        assert (await stranger.post("/v1/sessions/s1/runs", json={"text": "hi"})).status_code == 401
    assert await socket_status(server) == 401
    attempts.add(3)
    assert server.bridge.requests == []


@pytest.mark.attempts("http")
async def test_a_wrong_token_is_refused_even_beside_a_valid_cookie(server: StubServer) -> None:
    async with server.browser() as browser:
        await server.sign_in(browser)
        wrong = {"authorization": f"Bearer {server.token()[:-2]}xx"}
        assert (await browser.get("/v1/sessions")).status_code == 200
        assert (await browser.get("/v1/sessions", headers=wrong)).status_code == 401
    assert await socket_status(server, authorization="Bearer dgm_wrong") == 401
    assert await socket_status(server, authorization=f"Basic {server.token()}") == 401


async def test_a_proxys_own_password_does_not_hide_the_cookie(server: StubServer) -> None:
    async with server.browser(authorization="Basic cHJveHk6cHJveHk=") as browser:
        await server.sign_in(browser)
        assert (await browser.get("/v1/sessions")).status_code == 200


async def test_a_full_disk_locks_no_client_out(server: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with server.program() as program:

        def full(_: str) -> None:
            raise ConfigError("the file cannot be written: no space left")

        monkeypatch.setattr(server.tokens, "write_use", full)
        assert (await program.get("/v1/sessions")).status_code == 200


@pytest.mark.attempts("http")
async def test_a_broken_token_file_is_reported_and_admits_no_client(server: StubServer, tmp_path: Path) -> None:
    async with server.program() as program:
        (tmp_path / "home" / "tokens.json").write_text("{")
        answer = await program.get("/v1/sessions")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "unavailable")


@pytest.mark.attempts("socket")
async def test_a_revoked_token_is_refused(server: StubServer) -> None:
    secret, made = server.tokens.create("nightly", "admin")
    async with server.program(token=secret) as program:
        assert (await program.get("/v1/sessions")).status_code == 200
        server.tokens.revoke(made.id)
        assert (await program.get("/v1/sessions")).status_code == 401


@pytest.mark.attempts("http")
async def test_wrong_tokens_are_slowed_down_and_right_ones_are_not(server: StubServer, attempts: Attempts) -> None:
    async with server.program(token="dgm_wrong") as guessing, server.program() as program:
        statuses = [(await guessing.get("/v1/sessions")).status_code for _ in range(MAX_ATTEMPTS + 2)]
        assert statuses == [401] * MAX_ATTEMPTS + [429] * 2
        attempts.add(len(statuses))
        assert int((await guessing.get("/v1/sessions")).headers["retry-after"]) > 0
        assert (await program.get("/v1/sessions")).status_code == 200


@pytest.mark.attempts("http")
@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://127.0.0.1:1", "http://localhost.evil.example", "null", "file://", "http://", "x"],
)
async def test_a_foreign_origin_gets_nothing_with_our_cookie(
    server: StubServer, origin: str, attempts: Attempts
) -> None:
    async with server.browser() as browser:
        await server.sign_in(browser)
        browser.headers["origin"] = origin
        del browser.headers["sec-fetch-site"]
        assert (await browser.post("/v1/sessions", json={"cwd": "/"})).status_code == 403
        assert (await browser.delete("/v1/sessions/s1")).status_code == 403
        assert await socket_status(server, cookie=cookies(browser), origin=origin) == 403
        assert await socket_status(server, cookie=cookies(browser)) == 403  # no browser leaves it out
        assert await socket_status(server, cookie=cookies(browser), origin=server.url) == 101
        attempts.add(4)
    assert server.bridge.requests == []


@pytest.mark.attempts("http")
@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_a_post_that_another_page_made_is_refused(server: StubServer, site: str) -> None:
    async with server.browser() as browser:
        await server.sign_in(browser)
        del browser.headers["origin"]
        browser.headers["sec-fetch-site"] = site
        assert (await browser.post("/v1/sessions/s1/cancel")).status_code == 403
        assert (await browser.get("/v1/sessions")).status_code == (200 if site == "none" else 403)
        del browser.headers["sec-fetch-site"]
        assert (await browser.post("/v1/sessions/s1/cancel")).status_code == 403


@pytest.mark.attempts("http")
async def test_a_form_cannot_be_posted(server: StubServer) -> None:
    async with server.program() as program:
        answer = await program.post("/v1/sessions", data={"cwd": "/"})
        assert answer.status_code == 400
        assert "application/json" in answer.json()["error"]["guidance"]


@pytest.mark.attempts("http")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "203.0.113.9",
        "localhost@evil.example",
        "[::ffff:203.0.113.9]",
        "a b",
        "[::1].evil.example",
    ],
)
async def test_a_foreign_host_gets_nothing(server: StubServer, host: str, attempts: Attempts) -> None:
    async with server.program() as program:
        for path in ("/v1/sessions", "/v1/health", "/", "/pair"):
            assert (await program.get(path, headers={"host": f"{host}:{server.port}"})).status_code == 421, path
        assert await socket_status(server, authorization=program.headers["authorization"], host=host) in (400, 421)
        attempts.add(5)
    assert server.bridge.requests == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "127.0.0.1", "[::1]", "dragoman.example", "me.localhost"])
async def test_our_own_names_are_taken(server: StubServer, host: str) -> None:
    async with server.program() as program:
        assert (await program.get("/v1/health", headers={"host": f"{host}:{server.port}"})).status_code == 200


@pytest.mark.attempts("http")
async def test_a_request_without_a_host_or_with_two_is_refused(server: StubServer) -> None:
    assert b" 421 " in await raw(server, b"GET /v1/health HTTP/1.0\r\n\r\n")
    two = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert (await raw(server, two)).split()[1] in (b"400", b"421")


@pytest.mark.attempts("http")
async def test_a_token_in_an_address_is_refused(server: StubServer, attempts: Attempts) -> None:
    secret = server.token()
    for query in (f"token={secret}", f"access_token={secret}", f"x={secret}", "Authorization=Bearer%20x"):
        assert await socket_status(server, f"{SOCKET}?{query}") == 400
        assert await socket_status(server, f"{SOCKET}?{query}", authorization=f"Bearer {secret}") == 400
        async with server.stranger() as stranger:
            assert (await stranger.get(f"/v1/sessions?{query}")).status_code == 400
        attempts.add(3)


@pytest.mark.attempts("http")
async def test_a_pairing_code_is_valid_once_and_never_in_a_url(server: StubServer) -> None:
    code = server.tokens.new_code()
    async with server.browser() as first, server.browser() as second:
        assert (await first.get(f"/v1/sessions?code={code}")).status_code == 400
        assert (await first.post("/v1/pair", json={"code": code})).json() == {"new": True}
        replayed = await second.post("/v1/pair", json={"code": code})
        assert replayed.status_code == 401
        assert "already used" in replayed.json()["error"]["message"]
        assert "set-cookie" not in replayed.headers
        assert (await first.get("/v1/sessions")).status_code == 200
        assert (await second.get("/v1/sessions")).status_code == 401


@pytest.mark.attempts("http")
async def test_pairing_codes_cannot_be_guessed_at_speed(server: StubServer, attempts: Attempts) -> None:
    async with server.browser() as browser:
        statuses = [
            (await browser.post("/v1/pair", json={"code": f"{n}"})).status_code for n in range(MAX_ATTEMPTS + 1)
        ]
    assert statuses == [401] * MAX_ATTEMPTS + [429]
    attempts.add(len(statuses))


@pytest.mark.attempts("http")
async def test_another_sites_page_cannot_pair(server: StubServer) -> None:
    code = server.tokens.new_code()
    async with server.browser(origin="https://evil.example") as evil, server.browser() as browser:
        assert (await evil.post("/v1/pair", json={"code": code})).status_code == 403
        assert (await browser.post("/v1/pair", json={"code": code})).status_code == 200


@pytest.mark.attempts("scopes")
async def test_the_scope_view_cannot_be_widened(server: StubServer) -> None:
    async with server.program("view") as program, server.browser() as browser:
        answer = await program.post("/v1/tokens", json={"name": "mine", "scope": "admin"})
        assert answer.status_code == 403
        assert "scope admin" in answer.json()["error"]["message"]
        await server.sign_in(browser, "view")
        assert (await browser.post("/v1/tokens", json={"name": "mine", "scope": "admin"})).status_code == 403
    assert {caller.scope for caller in server.bridge.callers} == {"view"}


@pytest.mark.attempts("http")
async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(server: StubServer) -> None:
    async with server.browser() as browser:
        answer = await browser.post("/v1/pair", json={"code": server.tokens.new_code()})
        cookie = answer.headers["set-cookie"].lower()
        assert f"dragoman_{server.port}=dgm_" in cookie
        for part in ("httponly", "samesite=strict", "path=/", "max-age="):
            assert part in cookie
        assert "secure" not in cookie  # over plain HTTP it would never come back
        assert "domain=" not in cookie
        assert "dgm_" not in answer.text
    async with server.browser(origin="https://dragoman.example", host="dragoman.example") as browser:
        answer = await browser.post("/v1/pair", json={"code": server.tokens.new_code()})
        assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.attempts("http")
async def test_signing_out_ends_the_cookie(server: StubServer) -> None:
    async with server.browser() as browser:
        await server.sign_in(browser)
        stolen = cookies(browser)
        assert (await browser.post("/v1/sign_out")).status_code == 200
        assert (await browser.get("/v1/sessions", headers={"cookie": stolen})).status_code == 401


async def test_a_second_link_replaces_the_first_cookie(server: StubServer) -> None:
    async with server.browser() as browser:
        await server.sign_in(browser)
        await server.sign_in(browser)
        assert len(server.tokens.all()) == 1
        used = await browser.post("/v1/pair", json={"code": "used long ago"})
        assert (used.status_code, used.json()) == (200, {"new": False})


async def test_every_answer_keeps_scripts_and_frames_of_others_out(server: StubServer) -> None:
    async with server.stranger() as stranger:
        for path in ("/v1/health", "/v1/sessions", "/docs", "/pair", "/nothing", "/v1/nothing"):
            answer = await stranger.get(path)
            for name, value in SECURITY_HEADERS.items():
                assert answer.headers[name] == value, (path, name)
            assert "access-control-allow-origin" not in answer.headers
            assert "server" not in answer.headers
        policy = SECURITY_HEADERS["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        for page in ("/docs", "/pair"):
            text = (await stranger.get(page)).text
            assert "<script>" not in text
            assert "//" not in text  # nothing from elsewhere
        preflight = await stranger.options(
            "/v1/sessions", headers={"origin": "https://evil.example", "access-control-request-method": "POST"}
        )
        assert preflight.status_code == 405


@pytest.fixture
def page(tmp_path: Path) -> Path:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>the page</title>")
    (folder / "assets" / "main-3f9a1c07.js").write_text("export {}")
    (folder / "assets" / "main-3f9a1c07.js.gz").write_bytes(b"\x1f\x8b compressed")
    (folder / "large.css").write_text("a{}" * 1000)
    (folder / ".hidden").write_text("hidden")
    (tmp_path / "secret.txt").write_text(PLANTED)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


@pytest.mark.attempts("http")
@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/secret.txt",
        "/assets/../../secret.txt",
        "/assets/..%5c..%5csecret.txt",
        "//etc/passwd",
        "/etc/passwd",
        "/.hidden",
        "/link.txt",
        "/assets",
        "/index.html%00.js",
        "/docs/../../tokens.py",
        "/docs/%2e%2e/tokens.py",
    ],
)
async def test_no_path_leads_out_of_the_page(tmp_path: Path, page: Path, path: str) -> None:
    async with stub_server(tmp_path / "home", page) as server:
        answer = await raw(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert b" 404 " in answer.partition(b"\r\n")[0]
        assert PLANTED.encode() not in answer


async def test_the_page_is_served_as_it_was_built(tmp_path: Path, page: Path) -> None:
    async with stub_server(tmp_path / "home", page) as server, server.stranger() as stranger:
        for path in ("/", "/index.html", "/sessions/s1"):
            answer = await stranger.get(path, headers={"accept": "text/html"})
            assert "the page" in answer.text
            assert answer.headers["cache-control"] == "no-cache"
        etag = (await stranger.get("/")).headers["etag"]
        assert (await stranger.get("/", headers={"if-none-match": etag})).status_code == 304
        request = stranger.build_request(
            "GET", "/assets/main-3f9a1c07.js", headers={"accept-encoding": "br, gzip;q=0.5"}
        )
        asset = await stranger.send(request, stream=True)
        assert "immutable" in asset.headers["cache-control"]
        assert asset.headers["content-encoding"] == "gzip"
        assert asset.headers["content-type"].startswith("text/javascript")
        await asset.aclose()
        plain = await stranger.get("/assets/main-3f9a1c07.js", headers={"accept-encoding": "identity"})
        assert plain.text == "export {}"
        large = await stranger.get("/large.css", headers={"accept-encoding": "gzip"})
        assert large.headers["content-encoding"] == "gzip"
        assert large.text == "a{}" * 1000


@pytest.mark.attempts("http")
@pytest.mark.parametrize("size", [40 * 1024, 200 * 1024])
async def test_headers_that_are_too_large_are_refused(server: StubServer, size: int) -> None:
    head = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Large: " + b"x" * size + b"\r\n\r\n"
    try:
        answer = await raw(server, head)
    except ConnectionError:
        return  # closed while we were still sending
    assert answer.split()[1] in (b"400", b"431")


@pytest.mark.attempts("http")
async def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: StubServer) -> None:
    head = (
        f"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token()}\r\n"
        "Content-Type: application/json\r\nContent-Length: 9999999999\r\nConnection: close\r\n\r\n{"
    )
    assert b" 413 " in await raw(server, head.encode())


@pytest.mark.attempts("http")
async def test_a_body_without_an_end_is_refused(server: StubServer) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 1024 * 1024

    async with server.program() as program:
        try:
            answer = await program.post(
                "/v1/sessions",
                content=endless(),
                headers={"content-type": "application/json"},
            )
        except httpx.NetworkError:
            return  # it answered, and closed while we were still sending
        assert answer.status_code == 413
