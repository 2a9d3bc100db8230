"""Lost connections: the server stops, the network breaks, the token is revoked."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, WebSocketRoute, expect

from page.person import Person
from page.server import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """With an agent that pauses between words, so that its runs can be interrupted."""
    server = Server(tmp_path, pace=0.02)
    server.start()
    yield server
    server.stop()


def test_a_page_without_its_server_says_so_and_continues_when_it_is_back(person: Person) -> None:
    person.start_session()
    person.say("hello")
    person.done()
    person.away = True
    person.server.stop(signal.SIGKILL)
    person.sees("Cannot reach the server.")
    expect(person.conversation).to_contain_text("hello")
    person.server.start()
    expect(person.page.get_by_text("Cannot reach the server.")).to_have_count(0)
    person.away = False
    person.page.get_by_role("button", name="Continue").click()
    person.is_ready()
    person.say("hello again")
    expect(person.conversation).to_contain_text("hello again")


def _words(person: Person) -> list[int]:
    return [int(number) for number in re.findall(r"word (\d+)", person.conversation.inner_text())]


def _break_connection(person: Person, connections: list[WebSocketRoute]) -> None:
    """Break the connection after the next word of `slow`, and wait until the page has connected again."""
    expect(person.conversation).to_contain_text(re.compile(rf"word {len(_words(person)) + 1}\b"))
    count = len(connections)
    connections[-1].close(code=1012)
    while len(connections) == count:
        person.page.evaluate("() => new Promise(requestAnimationFrame)")


def test_a_connection_that_breaks_during_a_stream_loses_and_doubles_nothing(browser: Browser, person: Person) -> None:
    connections: list[WebSocketRoute] = []

    def forward(connection: WebSocketRoute) -> None:
        connection.connect_to_server()
        connections.append(connection)

    person.page.route_web_socket("**/v1/socket", forward)
    person.start_session()
    person.say("slow 200")
    for _ in range(3):
        _break_connection(person, connections)
    person.page.get_by_role("button", name="Stop").click()
    person.done()
    words = _words(person)
    assert len(words) >= 3
    assert words == list(range(1, len(words) + 1))
    other = Person.at(browser, person.server, width=1360, height=850)
    other.go(person.page.url.removeprefix(person.server.url))
    other.done()
    assert _messages(person) == _messages(other)
    other.leave()


def test_a_page_that_reconnects_continues_from_its_cursor(person: Person) -> None:
    """The page names its cursor and gets only what is new. Loading everything again would look the same to a person."""
    connections: list[WebSocketRoute] = []
    cursors: list[str | None] = []
    resumed: list[bool] = []

    def forward(connection: WebSocketRoute) -> None:
        server = connection.connect_to_server()
        connections.append(connection)

        def from_page(text: str | bytes) -> None:
            message = json.loads(text)
            if message["type"] == "subscribe" and message["stream"] == "session":
                cursors.append(message["after"])
            server.send(text)

        def from_server(text: str | bytes) -> None:
            message = json.loads(text)
            if message["type"] == "snapshot" and message["stream"] == "session":
                resumed.append(message["resumed"])
            connection.send(text)

        connection.on_message(from_page)
        server.on_message(from_server)

    person.page.route_web_socket("**/v1/socket", forward)
    person.start_session()
    person.say("slow 200")
    for _ in range(3):
        _break_connection(person, connections)
    person.page.get_by_role("button", name="Stop").click()
    person.done()
    assert len(cursors) == 4
    assert cursors[0] is None
    assert len(set(cursors)) == 4  # each further than the one before
    assert resumed == [False, True, True, True]


def _messages(person: Person) -> list[str]:
    return person.conversation.get_by_role("article").all_inner_texts()


def test_a_run_that_ended_with_the_server_is_shown_as_interrupted(person: Person) -> None:
    person.start_session()
    person.say("slow 200")
    expect(person.page.get_by_role("button", name="Stop")).to_be_visible()
    person.away = True
    person.server.stop(signal.SIGKILL)
    person.sees("Cannot reach the server.")
    person.server.start()
    expect(person.page.get_by_text("Cannot reach the server.")).to_have_count(0)
    person.away = False
    expect(person.page.get_by_text(re.compile("interrupted", re.IGNORECASE)).first).to_be_visible()
    expect(person.page.get_by_role("button", name="Stop")).to_have_count(0)


def test_a_browser_whose_token_was_revoked_says_so(browser: Browser, person: Person) -> None:
    person.go("/settings/devices")
    person.page.get_by_role("button", name=re.compile("^Sign out")).click()
    person.away = True
    person.sees("This browser is not signed in.")
