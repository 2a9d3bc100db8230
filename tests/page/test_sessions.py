"""Sessions: the list, the header, and what can be done with one."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Browser, WebSocketRoute, expect

from page.person import Person
from page.server import Server


def test_requests_are_first_in_the_list_and_are_answered_in_the_tray(person: Person) -> None:
    person.start_session()
    person.say("hello")
    person.start_session()
    person.say("edit README: one more line")
    expect(person.sessions.get_by_role("link", name="Needs you (1)")).to_be_visible()
    person.sessions.get_by_role("link", name="Needs you (1)").click()
    person.sees("1 request needs you")
    person.page.get_by_role("button", name="Allow", exact=False).first.click()
    person.sees("Nothing needs you")
    expect(person.sessions.get_by_role("region", name="Needs you")).to_have_count(0)
    person.sessions.get_by_role("link").first.click()
    expect(person.conversation).to_contain_text("README")
    person.is_ready()
    assert "one more line" in (person.server.workspace / "README").read_text()


def test_the_page_opens_on_pending_requests(browser: Browser, person: Person) -> None:
    person.start_session()
    person.say("permission")
    expect(person.sessions.get_by_role("link", name="Needs you (1)")).to_be_visible()
    other = Person.at(browser, person.server, width=390, height=844, touch=True)
    other.sees("1 request needs you")
    other.page.get_by_role("link", name="Sessions").tap()
    expect(other.sessions.get_by_role("link", name=re.compile("permission"))).to_be_visible()
    other.leave()


def test_a_session_is_renamed_in_its_title(person: Person) -> None:
    person.start_session()
    person.say("hello")
    person.page.get_by_role("heading", level=1).get_by_role("button").click()
    title = person.page.get_by_label("Session title")
    title.fill("Parser repairs")
    title.press("Enter")
    expect(person.sessions.get_by_role("link", name=re.compile("Parser repairs"))).to_be_visible()
    person.page.reload()
    expect(person.page.get_by_role("heading", name="Parser repairs")).to_be_visible()


def test_model_and_mode_are_switched_in_the_header(person: Person) -> None:
    person.start_session()
    person.choose("Model", "Demo Large")
    expect(person.page.get_by_role("button", name="Model: Demo Large")).to_be_visible()
    person.choose("Mode", "Plan")
    expect(person.page.get_by_role("button", name="Mode: Plan")).to_be_visible()
    person.page.reload()
    expect(person.page.get_by_role("button", name="Model: Demo Large")).to_be_visible()


def test_a_setting_that_the_agent_refuses_is_reverted_with_the_reason(person: Person) -> None:
    def refusing(line: WebSocketRoute) -> None:
        server = line.connect_to_server()

        def from_page(message: str | bytes) -> None:
            request = json.loads(message)
            if request["type"] == "session.set_option":
                error = {"kind": "agent", "message": "not on Sundays", "guidance": "Try again on Monday."}
                line.send(json.dumps({"type": "error", "id": request["id"], "error": error}))
            else:
                server.send(message)

        line.on_message(from_page)

    person.page.route_web_socket("**/v1/socket", refusing)
    person.start_session()
    person.choose("Model", "Demo Large")
    expect(person.page.get_by_role("alert").filter(has_text="not on Sundays")).to_contain_text("Try again on Monday.")
    expect(person.page.get_by_role("button", name="Model: Demo Small")).to_be_visible()


def test_search_results_show_the_words_around_a_match(person: Person) -> None:
    person.start_session()
    person.say("hello zanzibar")
    expect(person.conversation).to_contain_text("zanzibar")
    person.start_session()
    person.page.locator("body").press("/")
    person.page.keyboard.type("zanzibar")
    found = person.sessions.get_by_role("link").filter(has=person.page.locator("mark"))
    expect(found.first).to_contain_text("zanzibar")
    found.first.click()
    expect(person.conversation).to_contain_text("hello zanzibar")
    person.page.get_by_label("Search all sessions").press("Escape")
    expect(person.sessions.get_by_role("link")).to_have_count(2)


def test_a_session_is_closed_continued_and_deleted(person: Person) -> None:
    person.start_session()
    person.say("hello")
    person.done()
    person.act("Close")
    person.page.get_by_role("button", name="Continue").click()
    person.is_ready()
    person.say("hello again")
    expect(person.conversation).to_contain_text("hello again")
    person.act("Delete")
    person.page.get_by_role("button", name="Delete").click()
    person.sees("Welcome to Dragoman")


def test_the_start_page_returns_when_the_last_session_is_deleted_elsewhere(
    browser: Browser, server: Server, person: Person
) -> None:
    session = person.start_session()
    person.go("/")
    expect(person.page.get_by_role("heading", name="New session")).to_be_visible()
    elsewhere = Person.at(browser, server, width=1360, height=850)
    elsewhere.go(f"/s/{session}")
    elsewhere.act("Delete")
    elsewhere.page.get_by_role("button", name="Delete").click()
    person.sees("Welcome to Dragoman")
    elsewhere.sees("Welcome to Dragoman")
    elsewhere.leave()


def test_a_crashed_agent_is_reported_and_restarted(person: Person) -> None:
    person.start_session()
    person.say("crash")
    expect(person.page.get_by_text(re.compile("its last lines were"))).to_have_count(1)
    person.page.get_by_role("button", name="Restart", exact=True).first.click()
    person.is_ready()
    person.say("hello")
    expect(person.conversation.get_by_text(re.compile("demo agent", re.IGNORECASE)).first).to_be_visible()


def test_an_agent_that_did_not_start_is_reported_once_with_actions(person: Person) -> None:
    session = person.start_session()
    person.is_ready()
    person.edit_agent("Demo", command="no-such-program")
    person.go(f"/s/{session}")
    person.act("Restart and reload")
    expect(person.page.get_by_text("not started", exact=True)).to_be_visible()
    person.say("hello")
    expect(person.page.get_by_text("Not sent: the agent did not start.")).to_be_visible()
    expect(person.composer).to_have_value("hello")
    expect(person.page.get_by_text("no-such-program")).to_have_count(1)
    person.page.get_by_role("button", name="Agent settings").click()
    person.page.wait_for_url(re.compile("/settings/agents"))


def test_a_session_is_exported(person: Person, tmp_path: Path) -> None:
    person.start_session()
    person.say("hello")
    person.done()
    with person.page.expect_download() as download:
        person.act("Export as Markdown")
    assert "hello" in download.value.path().read_text()


def test_two_browsers_show_the_same(browser: Browser, person: Person) -> None:
    session = person.start_session()
    other = Person.at(browser, person.server, width=1200, height=800)
    other.go(f"/s/{session}")
    person.say("hello from the one")
    expect(other.conversation).to_contain_text("hello from the one")
    other.say("hello from the other")
    expect(person.conversation).to_contain_text("hello from the other")
    other.leave()


def test_a_prompt_of_someone_else_does_not_scroll_a_reader(browser: Browser, person: Person) -> None:
    session = person.start_session()
    person.say("stream 3000")
    person.done()
    reader = Person.at(browser, person.server, width=1360, height=850)
    reader.go(f"/s/{session}")
    reader.done()
    reader.conversation.hover()
    reader.page.mouse.wheel(0, -2000)
    below = "view => view.scrollHeight - view.scrollTop - view.clientHeight"
    person.say("hello there")
    expect(person.conversation.locator(".bubble").last).to_have_text("hello there")
    person.is_ready()
    person.is_at_end()
    expect(reader.page.get_by_role("button", name=re.compile("new"))).to_be_visible()
    assert reader.conversation.evaluate(below) > 1000
    reader.say("hello again")
    expect(reader.conversation.locator(".bubble").last).to_have_text("hello again")
    reader.is_ready()
    reader.is_at_end()
    reader.leave()


def test_the_address_of_a_session_that_is_not_there_says_so(person: Person) -> None:
    person.go("/s/nothing")
    person.sees("Session not found")
