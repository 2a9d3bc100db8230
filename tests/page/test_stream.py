"""A session that goes on and on, and the page that follows it."""

from __future__ import annotations

import json
import re
import sys

import pytest
from playwright.sync_api import WebSocketRoute, expect

from page import busy, cost
from page.person import Person

# Bytes that the page may hold at any time of the hour, after forced collections. It holds 12 MB, whatever the number of
# updates: rows beyond a limit are dropped.
MAX_HEAP_BYTES = 18_000_000
NODES = 2_000

# The item in the middle of what is read.
IN_VIEW = """() => {
  const { x, y, width, height } = document.querySelector("[role=log]").getBoundingClientRect();
  return document.elementFromPoint(x + width / 2, y + height / 2).closest("[data-key]").dataset.key;
}"""

# Goes up and up, until there is what is looked for.
UP = """words => {
  const view = document.querySelector("[role=log]");
  view.scrollTop = 0;
  return view.textContent.includes(words);
}"""


@pytest.mark.timeout(300)
def test_an_hour_of_streaming_played_at_speed_keeps_memory_flat(person: Person) -> None:
    samples = cost.hour(person)
    assert max(one.heap for one in samples) < MAX_HEAP_BYTES, samples
    assert max(one.nodes for one in samples) < NODES, samples


@pytest.mark.timeout(120)
def test_one_message_without_end_costs_its_text_and_no_more(person: Person) -> None:
    person.start_session()
    before = cost.heap(person)
    # A million characters. As often as the page may hold them: what it has, what it draws, what it drew before.
    assert cost.stream(person, "stream 100000").heap < before + 10 * 1_200_000


@pytest.mark.timeout(180)
def test_a_reader_further_up_keeps_their_position(person: Person) -> None:
    person.add_agent("busy", sys.executable, busy.__file__)
    person.start_session(agent="busy")
    # More rows than the page keeps while the end is followed.
    person.say("Work for 30 minutes.")
    stop = person.page.get_by_role("button", name="Stop")
    person.page.wait_for_function("() => document.querySelector('[role=log]').scrollTop > 1000")
    person.conversation.hover()
    person.page.mouse.wheel(0, -1_000_000)
    to_end = person.page.get_by_role("button", name=re.compile("Jump to the end|new"))
    expect(to_end).to_be_visible()
    reading = person.conversation.locator(f"[data-key='{person.page.evaluate(IN_VIEW)}']")
    place = reading.bounding_box()
    expect(stop).to_have_count(0, timeout=60_000)
    assert reading.bounding_box() == place
    to_end.click()
    expect(person.conversation).to_contain_text(busy.over(30))


@pytest.mark.timeout(180)
def test_dropped_rows_are_loaded_again_when_the_reader_goes_up(person: Person) -> None:
    person.add_agent("busy", sys.executable, busy.__file__)
    person.start_session(agent="busy")
    person.say("Work for 30 minutes.")
    expect(person.conversation).to_contain_text(busy.over(30), timeout=60_000)
    earlier = person.conversation.get_by_role("button", name="Load earlier messages")
    expect(earlier).to_have_count(1)
    # The panel tells of all of it all the same.
    changes = person.page.get_by_role("tabpanel", name="Changes")
    expect(changes).to_contain_text("30 files")
    changes.get_by_role("button", name=re.compile(r"\bpart1\.py")).click()
    expect(changes.get_by_role("region", name=re.compile(r"\bpart1\.py"))).to_contain_text("new 0 of 13")
    person.page.wait_for_function(UP, arg="Work for 30 minutes.")
    expect(earlier).to_have_count(0)


@pytest.mark.timeout(180)
def test_a_reader_further_up_keeps_their_position_after_a_new_snapshot(person: Person) -> None:
    """The server sends a new snapshot to a page that was away for long, or that is too slow."""
    lines: list[WebSocketRoute] = []
    replaced: list[bool] = []

    def through(line: WebSocketRoute) -> None:
        server = line.connect_to_server()
        lines.append(line)

        def from_page(text: str | bytes) -> None:
            message = json.loads(text)
            server.send(json.dumps({**message, "after": None}) if message["type"] == "subscribe" else text)

        def from_server(text: str | bytes) -> None:
            message = json.loads(text)
            if message["type"] == "snapshot" and message["stream"] == "session":
                replaced.append(not message["resumed"])
            line.send(text)

        line.on_message(from_page)
        server.on_message(from_server)

    person.page.route_web_socket("**/v1/socket", through)
    person.add_agent("busy", sys.executable, busy.__file__)
    person.start_session(agent="busy")
    for minute in (5, 10, 15):
        person.say(f"Work for 5 minutes, to minute {minute}.")
        expect(person.conversation).to_contain_text(busy.over(minute), timeout=60_000)
    person.conversation.hover()
    person.page.wait_for_function(UP, arg="to minute 5.")
    person.conversation.evaluate("view => view.scrollTo(0, view.scrollHeight / 3)")
    person.page.evaluate("() => new Promise(requestAnimationFrame)")
    key = person.page.evaluate(IN_VIEW)
    place = person.conversation.locator(f"[data-key='{key}']").bounding_box()
    lines[-1].close(code=1012)
    while len(replaced) < 2:
        person.page.evaluate("() => new Promise(requestAnimationFrame)")
    for _ in range(5):  # it is drawn
        person.page.evaluate("() => new Promise(requestAnimationFrame)")
    assert replaced == [True, True]
    assert place is not None
    person.page.wait_for_function(
        "([key, y]) => Math.abs(document.querySelector(`[data-key='${key}']`)?.getBoundingClientRect().y - y) < 2",
        arg=[key, place["y"]],
    )
