"""A certificate of our own, and the user's."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from dragoman.bridge.server import open_port, serving
from dragoman.bridge.tls import (
    FILE_NAME,
    MAX_NAMES,
    RENEW_BEFORE,
    VALIDITY,
    fingerprint,
    generated_certificate,
    machine_addresses,
    server_context,
)
from dragoman.errors import ConfigError

NAMES = ["192.0.2.7", "2001:db8::7", "desk.local", "localhost", "127.0.0.1"]


def trusting(path: Path) -> ssl.SSLContext:
    """A client that knows this certificate, and no other."""
    return ssl.create_default_context(cafile=str(path))


def test_it_is_kept_and_the_users_alone(tmp_path: Path) -> None:
    path = generated_certificate(tmp_path / "home", NAMES)
    assert path.name == FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_bytes()
    assert generated_certificate(tmp_path / "home", NAMES[:2]).read_bytes() == first
    assert len(fingerprint(path).split(":")) == 32


def test_it_is_renewed_before_it_ends(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    before = fingerprint(generated_certificate(tmp_path, NAMES, now))
    in_time = now + VALIDITY - RENEW_BEFORE
    assert fingerprint(generated_certificate(tmp_path, NAMES, in_time - timedelta(minutes=1))) == before
    assert fingerprint(generated_certificate(tmp_path, NAMES, in_time)) != before


def test_a_machine_that_moved_gets_its_new_name_in_and_keeps_the_old(tmp_path: Path) -> None:
    first = fingerprint(generated_certificate(tmp_path, ["192.0.2.7", "desk.local"]))
    second = fingerprint(generated_certificate(tmp_path, ["198.51.100.9", "desk.local"]))
    assert second != first
    assert fingerprint(generated_certificate(tmp_path, ["192.0.2.7"])) == second
    generated_certificate(tmp_path, [f"192.0.2.{n}" for n in range(MAX_NAMES)])
    assert fingerprint(generated_certificate(tmp_path, ["desk.local"])) != second


def test_an_unreadable_certificate_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("nothing")
    path = generated_certificate(tmp_path, NAMES)
    assert path == tmp_path / FILE_NAME
    assert "BEGIN CERTIFICATE" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert server_context(path, None).minimum_version == ssl.TLSVersion.TLSv1_2
    assert fingerprint(generated_certificate(tmp_path, NAMES)) == fingerprint(path)  # it is kept from then on


async def test_a_client_that_knows_it_connects(tmp_path: Path) -> None:
    async def app(scope: dict[str, object], receive: object, send: object) -> None:
        from starlette.responses import PlainTextResponse

        await PlainTextResponse(str(scope["scheme"]))(scope, receive, send)  # type: ignore[arg-type]

    path = generated_certificate(tmp_path, NAMES)
    port = open_port("127.0.0.1", 0)
    url = f"https://127.0.0.1:{port.getsockname()[1]}/"
    async with serving(app, port, server_context(path, None)):  # type: ignore[arg-type]
        async with httpx.AsyncClient(verify=trusting(path), trust_env=False) as client:
            assert (await client.get(url)).text == "https"
        async with httpx.AsyncClient(trust_env=False) as stranger:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE"):
                await stranger.get(url)


def test_files_that_are_no_certificate_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file") as missing:
        server_context(tmp_path / "cert.pem", tmp_path / "key.pem")
    assert "cert.pem" in str(missing.value)
    own = generated_certificate(tmp_path, NAMES)
    with pytest.raises(ConfigError, match=r"key\.pem"):
        server_context(own, tmp_path / "key.pem")
    (tmp_path / "key.pem").write_text("nothing")
    with pytest.raises(ConfigError, match="cannot be used"):
        server_context(own, tmp_path / "key.pem")


def test_the_machines_addresses_are_not_its_loopback() -> None:
    assert not [one for one in machine_addresses() if one.startswith("127.") or one == "::1" or "%" in one]
