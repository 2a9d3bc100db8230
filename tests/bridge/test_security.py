"""The origin of a request: our own page, another site, or a program."""

from __future__ import annotations

import pytest

from dragoman.bridge.security import host_names, host_of, is_own_page


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost:8421", "localhost"),
        ("LocalHost.", "localhost"),
        ("[::1]:8421", "::1"),
        ("127.0.0.1", "127.0.0.1"),
        ("", None),
        (":8421", None),
        ("localhost:x", None),
        ("localhost:99999", None),
        ("user@localhost", None),
        ("localhost/evil.example", None),
        ("localhost?evil", None),
        ("[::1", None),
    ],
)
def test_the_name_in_a_host_header(header: str, name: str | None) -> None:
    assert host_of(header) == name


@pytest.mark.attempts("http")
def test_an_address_is_taken_on_the_network_and_a_name_only_where_it_is_ours() -> None:
    names = host_names(["Desk.local.", "[2001:db8::1]"], any_address=True)
    for header in ("desk.local:8421", "192.0.2.9:8421", "[2001:db8::1]", "[fe80::1%25eth0]:1", "localhost"):
        assert names.allow(header), header
    for header in ("evil.example", "desk.local.evil.example", "192.0.2.9.evil.example", "2130706433.example"):
        assert not names.allow(header), header
    assert not names.allow(None)


HOST = {"host": "127.0.0.1:8421"}
OWN = "http://127.0.0.1:8421"
UPGRADE = {"upgrade": "websocket"}


@pytest.mark.parametrize(
    ("method", "headers", "own"),
    [
        ("GET", {}, True),
        ("GET", {"sec-fetch-site": "none"}, True),
        ("GET", {"sec-fetch-site": "cross-site"}, False),
        ("GET", {"origin": "https://evil.example"}, False),
        ("POST", {}, False),
        ("POST", {"origin": OWN}, True),
        ("POST", {"origin": "https://127.0.0.1:8421"}, True),
        ("POST", {"origin": "http://127.0.0.1"}, False),
        ("POST", {"origin": "http://localhost:8421"}, False),
        ("POST", {"origin": "null"}, False),
        ("POST", {"origin": OWN, "sec-fetch-site": "same-site"}, False),
        ("POST", {"sec-fetch-site": "same-origin"}, True),
        ("POST", {"sec-fetch-site": "none"}, False),
        ("GET", UPGRADE, False),
        ("GET", {**UPGRADE, "sec-fetch-site": "same-origin"}, False),
        ("GET", {**UPGRADE, "origin": OWN}, True),
        ("GET", {**UPGRADE, "origin": "http://127.0.0.1:9"}, False),
        ("GET", {**UPGRADE, "origin": "http://[:"}, False),
    ],
)
def test_requests_of_our_own_page_are_recognised(method: str, headers: dict[str, str], own: bool) -> None:
    assert is_own_page(method, {**HOST, **headers}) is own


def test_default_ports_go_without_saying() -> None:
    for host in ("dragoman.example", "dragoman.example:443"):
        assert is_own_page("POST", {"host": host, "origin": "https://dragoman.example"})
    assert not is_own_page("POST", {"host": "dragoman.example:80", "origin": "https://dragoman.example"})
