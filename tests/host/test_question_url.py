"""Pages that an agent sends people to: shown as what they are, or refused."""

from __future__ import annotations

import pytest

from dragoman.host.question.question import MAX_URL_CHARS, read_page
from dragoman.wire.connection import RpcRefusal


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/login?code=a%20b#top", "example.org"),
        ("https://example.org:8443/", "example.org"),
        ("HTTPS://Example.ORG/", "example.org"),
        ("http://localhost:9876/callback", "localhost"),
        ("http://127.0.0.1:9876/", "127.0.0.1"),
        ("http://[::1]:9876/", "::1"),
    ],
)
def test_a_page_is_taken_with_the_host_that_it_is_on(url: str, host: str) -> None:
    page = read_page("e1", url)
    assert (page.id, page.url, page.host) == ("e1", url, host)


def test_letters_that_look_like_others_are_shown_as_what_they_are() -> None:
    page = read_page("e1", "https://gооgle.com/login")  # two of the letters are Cyrillic
    assert page.host.startswith("xn--")
    assert page.url == f"https://{page.host}/login"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "http://127.0.0.1.example.org/",
        "http://localhost.example.org/",
        "http://0.0.0.0/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "vscode://settings",
        "//example.org/",
        "example.org",
        "https:///login",
        "https:example.org",
        "https://",
        "https://google.com@example.org/",
        "https://google.com:pass@example.org/",
        "https://google.com\\@example.org/",
        "https://example.org\\.google.com/",
        "https://exam%70le.org/",
        "https://example.org:port/",
        "https://exam ple.org/",
        "https://example.org/\x1b[2J",
        "https://example.org/a\nhttps://google.com/",
        "https://example.org/\u202egro.elgoog",
        "https://straße.example/\u00df",
        " https://example.org/",
        "https://[::1/",
        f"https://example.org/{'a' * MAX_URL_CHARS}",
        "",
    ],
)
def test_an_address_that_nobody_should_be_sent_to_is_refused(url: str) -> None:
    with pytest.raises(RpcRefusal) as refused:
        read_page("e1", url)
    assert refused.value.error.code == -32602
    assert refused.value.error.message.startswith("url: ")
