"""An address can be shown to anyone; what is secret is in the headers, and is not repeated."""

from __future__ import annotations

import pytest

from dragoman.errors import InputError
from dragoman.wire.network import check_headers, parse_address

SCHEMES = ("ws", "wss")


def test_a_scheme_is_known_in_any_case() -> None:
    assert parse_address("WSS://agents.example/acp", SCHEMES).scheme == "wss"


def test_an_address_is_shown_without_its_query() -> None:
    address = parse_address("wss://agents.example:8443/acp?key=secret", SCHEMES)
    assert address.shown == "wss://agents.example:8443/acp"
    assert address.url == "wss://agents.example:8443/acp?key=secret"


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("ws://127.0.0.1:1/acp", True),
        ("ws://[::1]:1/acp", True),
        ("ws://localhost/acp", True),
        ("ws://agent.localhost/acp", True),
        ("ws://10.0.0.1/acp", False),
        ("ws://agents.example/acp", False),
    ],
)
def test_this_machine_is_known_by_its_names(url: str, loopback: bool) -> None:
    assert parse_address(url, SCHEMES).is_loopback is loopback


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.1/acp", "must begin with ws://, wss://"),
        ("ws://", "name a host"),
        ("127.0.0.1:80", "must begin with"),
        ("ws://host:port/", "cannot be read"),
        ("ws://ada:secret@host/", "holds a user or password"),
        ("ws://host/acp#part", "fragment"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_the_reason(url: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        parse_address(url, SCHEMES)
    assert "secret" not in str(refused.value) + refused.value.guidance


@pytest.mark.parametrize("headers", [{"X-Key": "secret\r\nX-Other: 1"}, {"X-Key": "secret\0"}, {"X-Key": "sécret"}])
def test_a_header_that_cannot_be_sent_is_refused_by_name(headers: dict[str, str]) -> None:
    with pytest.raises(InputError, match="X-Key") as refused:
        check_headers(headers)
    assert "cret" not in str(refused.value)


def test_a_header_needs_a_proper_name() -> None:
    with pytest.raises(InputError, match="not a valid HTTP header name"):
        check_headers({"bad name": "1"})


def test_no_headers_are_fine() -> None:
    assert check_headers(None) == {}
