"""`dragoman serve` and `dragoman token`: real processes, from the first link to the last signal."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import ssl
import stat
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from bridge.serve_process import TIMEOUT_S, dragoman, served
from dragoman.bridge import listen
from dragoman.bridge.listen import ListenAddress
from dragoman.bridge.tls import FILE_NAME, generated_certificate
from dragoman.config import make_home
from dragoman.errors import InputError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    """A folder in which clients with the scope `prompt` may open sessions."""
    folder = tmp_path / "work"
    folder.mkdir()
    (make_home(home) / "config.toml").write_text(f'folders = ["{folder}"]\n')
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files_with(folder: Path, secret: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def page_of(link: str) -> tuple[str, str]:
    url, _, code = link.partition("/pair#")
    return url, code


async def test_the_link_lets_one_browser_in(home: Path) -> None:
    async with served(home) as server:
        url, code = page_of(await server.link())
        own = {"origin": url, "sec-fetch-site": "same-origin"}
        async with (
            httpx.AsyncClient(base_url=url, headers=own, trust_env=False) as browser,
            httpx.AsyncClient(base_url=url, headers=own, trust_env=False) as another,
        ):
            assert (await browser.get("/pair")).status_code == 200
            assert (await browser.get("/v1/sessions")).status_code == 401
            assert (await browser.post("/v1/pair", json={"code": code})).status_code == 200
            assert (await browser.get("/v1/sessions")).status_code == 200
            assert (await another.post("/v1/pair", json={"code": code})).status_code == 401
            cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
            address = f"{url.replace('http', 'ws')}/v1/socket"
            async with connect(address, additional_headers={"cookie": cookie, **own}, proxy=None) as opened:
                hello = json.loads(await opened.recv())
                assert (hello["type"], hello["scope"]) == ("hello", "admin")
    assert mode(home) == 0o700


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_cleanly(home: Path, number: signal.Signals) -> None:
    async with served(home) as server:
        await server.link()
        _, listed, _ = await dragoman(home, "token", "link")
        assert "/pair#" in listed
        assert await server.end(number) == 0
        assert server.output.endswith("Stopped.\n")
        assert await server.stderr() == ""
    code, _, err = await dragoman(home, "token", "link")
    assert code == 2
    assert "no server is running" in err


async def test_sockets_that_are_open_and_come_back_at_the_end_are_no_errors(home: Path) -> None:
    async with served(home) as server:
        address = f"{(await server.url()).replace('http', 'ws')}/v1/socket"
        _, token, _ = await dragoman(home, "token", "create", "a test")
        headers = {"authorization": f"Bearer {token.strip()}"}
        is_open = asyncio.Event()

        async def follow() -> None:
            while True:
                try:
                    async with connect(address, additional_headers=headers, proxy=None) as opened:
                        is_open.set()
                        async for _ in opened:
                            pass
                except (ConnectionClosed, InvalidHandshake):
                    continue
                except OSError:
                    return

        browsers = [asyncio.create_task(follow()) for _ in range(3)]
        async with asyncio.timeout(TIMEOUT_S):
            await is_open.wait()
            assert await server.end() == 0
            await asyncio.gather(*browsers)
        assert await server.stderr() == ""


async def test_running_sessions_are_named_and_ended(home: Path, folder: Path) -> None:
    async with served(home) as server, await server.program("prompt") as program:
        opened = await program.post("/v1/sessions", json={"cwd": str(folder), "agent": "demo"})
        session = f"/v1/sessions/{opened.json()['session_id']}"
        begun = await program.post(f"{session}/runs", json={"text": "sleep 600"}, headers={"prefer": "respond-async"})
        assert begun.status_code == 202, begun.text
        waiting = asyncio.create_task(program.get(f"{session}/events"))
        async with program.stream("GET", f"{session}/events") as following:
            async for line in following.aiter_lines():
                if "I sleep" in line:
                    break
        assert await server.end() == 0
        assert "Stopped, with 1 running session." in server.output
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.wait({waiting})
        assert await server.stderr() == ""


async def test_the_second_signal_ends_it_at_once(home: Path) -> None:
    async with served(home) as server:
        await server.link()
        assert await server.end(signal.SIGINT, signal.SIGTERM) == 130


async def test_a_run_of_the_demo_agent_is_awaited(home: Path, folder: Path) -> None:
    async with served(home) as server, await server.program("prompt") as program:
        opened = await program.post("/v1/sessions", json={"cwd": str(folder), "agent": "demo"})
        session = f"/v1/sessions/{opened.json()['session_id']}"
        answer = await program.post(f"{session}/runs", json={"text": "hello"})
        assert (answer.status_code, answer.json()["status"]) == (200, "success"), answer.text
        assert "demo agent" in answer.json()["text"]
        again = await program.post(f"{session}/runs?stream=1", json={"text": "hello"})
        assert again.text.count("event: run\n") == 1
        rows = (await program.get(session)).json()["rows"]
        assert [run["status"] for run in rows["runs"]] == ["success", "success"]
        exported = await program.get(f"{session}/export")
        assert "demo agent" in exported.text
        assert len((await program.get("/v1/sessions")).json()["sessions"]) == 1
        assert (await program.delete(session)).status_code == 403  # that is an admin's


async def test_a_busy_session_says_so_or_queues(home: Path, folder: Path) -> None:
    async with served(home) as server, await server.program("prompt") as program:
        opened = await program.post("/v1/sessions", json={"cwd": str(folder), "agent": "demo"})
        session = f"/v1/sessions/{opened.json()['session_id']}"
        begun = await program.post(f"{session}/runs", json={"text": "sleep 600"}, headers={"prefer": "respond-async"})
        assert begun.status_code == 202
        assert (await program.post(f"{session}/runs", json={"text": "hello"})).status_code == 409
        queued = await program.post(f"{session}/runs", json={"text": "hello", "when": "queue"})
        assert (queued.status_code, queued.json()["how"]) == (202, "queued")
        assert (await program.post(f"{session}/cancel")).status_code == 200


@pytest.mark.attempts("shared home")
async def test_a_port_of_another_dragoman_is_distinguished_from_one_of_another_program(
    home: Path, tmp_path: Path
) -> None:
    async with served(home) as server:
        url = await server.url()
        port = url.rpartition(":")[2]
        code, out, err = await dragoman(home, "serve", "--port", port)
        assert (code, out) == (3, "")
        assert f"already running as process {server.process.pid}: {url}" in err
        assert "dragoman token link" in err
        code, _, err = await dragoman(tmp_path / "other", "serve", "--port", port)
        assert code == 3
        assert "another Dragoman" in err
        assert f"--port {int(port) + 1}" in err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = await dragoman(home, "serve", "--port", port)
        assert code == 3
        assert "another program" in err


async def test_on_the_network_it_has_tls_and_shows_its_fingerprint(home: Path) -> None:
    async with served(home, "--host", "0.0.0.0") as server:
        url = await server.url()
        assert url.startswith("https://127.0.0.1:")
        shown = await server.until(r"((?:[0-9A-F]{2}:){31}[0-9A-F]{2})")
        known = ssl.create_default_context(cafile=str(home / FILE_NAME))
        async with httpx.AsyncClient(base_url=url, verify=known, trust_env=False) as client:
            assert (await client.get("/v1/health")).status_code == 200
            foreign = {"host": "evil.example"}
            assert (await client.get("/v1/health", headers=foreign)).status_code == 421
            code = page_of(await server.link())[1]
            answer = await client.post("/v1/pair", json={"code": code}, headers={"origin": url})
            assert "secure" in answer.headers["set-cookie"].lower()
        assert mode(home / FILE_NAME) == 0o600
        assert await server.end() == 0
    async with served(home, "--host", "0.0.0.0") as server:
        assert (await server.until(r"((?:[0-9A-F]{2}:){31}[0-9A-F]{2})"))[1] == shown[1]


async def test_a_certificate_of_the_users_own_is_taken(home: Path, tmp_path: Path) -> None:
    own = generated_certificate(tmp_path / "is_custom", ["127.0.0.1"])
    async with served(home, "--cert", str(own), "--key", str(own)) as server:
        url = await server.url()
        async with httpx.AsyncClient(verify=ssl.create_default_context(cafile=str(own)), trust_env=False) as client:
            assert (await client.get(f"{url}/v1/health")).status_code == 200
    assert not (home / FILE_NAME).exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--key", "key.pem"), "--key needs --cert"),
        (("--cert", "nothing.pem"), "nothing.pem"),
        (("--host", "not.a.name.invalid"), "has no address"),
        (("--host", "192.0.2.1"), "cannot listen on"),
    ],
)
async def test_an_impossible_option_is_explained(home: Path, options: tuple[str, ...], message: str) -> None:
    code, _, err = await dragoman(home, "serve", "--port", "0", *options)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.attempts("secrets")
async def test_a_code_is_printed_on_a_terminal_alone(home: Path) -> None:
    async with served(home) as server:  # as a service, in a container, or with nohup
        await server.until("For a link: dragoman token link")
        assert await server.end() == 0
        assert "/pair#" not in server.output


@pytest.mark.attempts("secrets")
async def test_the_browser_is_opened_without_a_code_on_its_command_line(home: Path, tmp_path: Path) -> None:
    browser, page = tmp_path / "browser", home / "open.html"
    browser.write_text('#!/bin/sh\necho "opened $*."\n')
    browser.chmod(0o755)
    async with served(home, "--open", BROWSER=f"{browser} %s") as server:
        opened = await server.until(r"opened (.*)\.\n")
        assert opened[1] == page.resolve().as_uri()
        assert mode(page) == 0o600
        found = re.search(r'url=([^"]+)"', page.read_text())
        assert found is not None
        url, code = page_of(found[1])
        async with httpx.AsyncClient(base_url=url, headers={"origin": url}, trust_env=False) as client:
            assert (await client.post("/v1/pair", json={"code": code})).status_code == 200
        assert await server.end() == 0
    assert not page.exists()


async def test_tokens_are_made_listed_and_revoked_while_it_runs(home: Path) -> None:
    async with served(home) as server, await server.program("view") as program:
        assert (await program.get("/v1/sessions")).status_code == 200
        _, listed, _ = await dragoman(home, "token", "list", "--json")
        (token,) = json.loads(listed)
        assert (token["name"], token["scope"], token["browser"]) == ("a test", "view", False)
        assert token["used"] is not None
        _, shown, _ = await dragoman(home, "token", "list")
        assert re.search(rf"^{token['id']}  a test  view +program +\d", shown, re.MULTILINE)
        code, _, err = await dragoman(home, "token", "revoke", token["id"][:5])
        assert (code, "is revoked" in err) == (0, True)
        assert (await program.get("/v1/sessions")).status_code == 401
        code, _, err = await dragoman(home, "token", "revoke", token["id"])
        assert (code, "there is no token" in err) == (2, True)
        code, _, err = await dragoman(home, "token", "create", "\x1b[2J")
        assert (code, "printable" in err) == (2, True)


@pytest.mark.attempts("secrets")
async def test_no_secret_is_left_in_the_home_folder_or_the_log(home: Path, tmp_path: Path) -> None:
    async with served(home, "--log-format", "json") as server, await server.program() as program:
        link = page_of(await server.link())[1]
        opened = await program.post("/v1/sessions", json={"cwd": str(tmp_path), "agent": "demo"})
        await program.post(f"/v1/sessions/{opened.json()['session_id']}/runs", json={"text": "hello"})
        own = {"origin": await server.url()}
        paired = await program.post("/v1/pair", json={"code": link}, headers=own)
        cookie = paired.headers["set-cookie"].partition("=")[2].partition(";")[0]
        made = (await program.post("/v1/tokens", json={"name": "more", "scope": "view"})).json()["token"]
        assert await server.end() == 0
        log = await server.stderr()
        token = program.headers["authorization"].removeprefix("Bearer ")
    assert [json.loads(line)["path"] for line in log.splitlines()].count("/v1/pair") == 1
    for secret in (link, cookie, made, token):
        assert secret not in log
        assert files_with(home, secret) == []


# -- where it listens, without a process


def test_names_and_addresses_follow_from_the_place() -> None:
    here = ListenAddress(host="127.0.0.1", port=1, allow_host=("dragoman.example",))
    assert here.is_loopback
    assert not here.uses_generated_certificate
    assert here.addresses() == ()
    assert here.host_names().allow("dragoman.example:1")
    assert not here.host_names().allow("192.0.2.1:1")
    there = ListenAddress(host="192.0.2.1", port=1)
    assert there.uses_generated_certificate
    assert there.addresses() == ("192.0.2.1",)
    assert there.host_names().allow("192.0.2.1:1")
    assert not there.host_names().allow("evil.example")
    assert not ListenAddress(host="0.0.0.0", port=1, no_tls=True).uses_generated_certificate
    assert ListenAddress(host="::1", port=1).is_loopback


def test_a_server_for_ipv4_offers_no_link_for_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "machine_addresses", lambda: ("192.0.2.1", "2001:db8::1"))
    assert ListenAddress(host="0.0.0.0", port=1).addresses() == ("192.0.2.1",)
    assert ListenAddress(host="::", port=1).addresses() == ("192.0.2.1", "2001:db8::1")


def test_a_key_alone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        ListenAddress(host="127.0.0.1", port=1, key="key.pem").tls(tmp_path)
