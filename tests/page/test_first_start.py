"""The first minutes: nothing is there yet."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from page.person import Person


def test_a_fresh_start_offers_the_demo_the_agents_that_are_here_and_the_history(person: Person) -> None:
    person.sees("Welcome to Dragoman")
    for card in ("Try the demo", "Connect an agent", "Import your history"):
        expect(person.page.get_by_role("heading", name=card)).to_be_visible()


def test_the_demo_agent_answers(person: Person) -> None:
    person.page.get_by_role("button", name="Start the demo agent").click()
    person.page.wait_for_url(re.compile("/s/"))
    person.say("hello")
    expect(person.conversation.get_by_text(re.compile("demo agent", re.IGNORECASE)).first).to_be_visible()
    expect(person.sessions.get_by_role("link")).to_have_count(1)


def test_a_new_session_is_refused_with_the_reason_and_guidance(person: Person) -> None:
    person.go("/new")
    person.page.get_by_label("Folder").fill("/no/such/folder")
    person.page.get_by_role("button", name="Start").click()
    expect(person.page.get_by_role("alert")).to_contain_text("/no/such/folder")
    expect(person.page.get_by_role("button", name="Start")).to_be_enabled()


def test_a_phone_shows_the_same_welcome(on_phone: Person) -> None:
    on_phone.sees("Try the demo")
    on_phone.page.get_by_role("button", name="Start the demo agent").tap()
    on_phone.say("hello")
    expect(on_phone.conversation.get_by_text(re.compile("demo agent", re.IGNORECASE)).first).to_be_visible()
