"""Everything by the keyboard."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from page.person import Person


def test_the_palette_opens_what_is_typed(person: Person) -> None:
    person.page.keyboard.press("Control+k")
    person.page.keyboard.type("settings: rules")
    person.page.keyboard.press("Enter")
    person.page.wait_for_url(re.compile("/settings/rules"))
    expect(person.page.get_by_role("dialog")).to_have_count(0)


def test_the_palette_finds_sessions_by_their_names(person: Person) -> None:
    person.start_session()
    person.say("title Orange grove")
    expect(person.sessions.get_by_role("link", name=re.compile("Orange grove"))).to_be_visible()
    person.go("/new")
    person.page.keyboard.press("Control+k")
    person.page.keyboard.type("orange")
    expect(person.page.get_by_role("option", name=re.compile("Orange grove"))).to_be_visible()
    person.page.keyboard.press("Enter")
    person.page.wait_for_url(re.compile("/s/"))


def test_a_question_mark_shows_the_keys_but_not_while_one_writes(person: Person) -> None:
    person.page.locator("body").press("?")
    expect(person.page.get_by_role("dialog", name="Keys")).to_be_visible()
    person.page.keyboard.press("Escape")
    expect(person.page.get_by_role("dialog")).to_have_count(0)
    person.page.get_by_label("Search all sessions").fill("")
    person.page.keyboard.type("?")
    expect(person.page.get_by_role("dialog")).to_have_count(0)


def test_a_menu_is_used_by_keys_alone(person: Person) -> None:
    person.start_session()
    person.page.get_by_role("button", name=re.compile("^Model:")).focus()
    person.page.keyboard.press("Enter")
    person.page.keyboard.press("ArrowDown")
    person.page.keyboard.press("Enter")
    expect(person.page.get_by_role("button", name="Model: Demo Large")).to_be_focused()


def test_a_session_is_started_and_spoken_to_by_keys_alone(person: Person) -> None:
    person.page.locator("body").press("n")
    person.page.wait_for_url(re.compile("/new"))
    person.page.get_by_label("Folder").fill(str(person.served.workspace))
    expect(person.page.get_by_role("button", name="Start")).to_be_enabled()
    person.page.keyboard.press("Enter")
    person.page.wait_for_url(re.compile("/s/"))
    person.composer.focus()
    person.page.keyboard.type("hello")
    person.page.keyboard.press("Enter")
    expect(person.conversation.get_by_text(re.compile("demo agent", re.IGNORECASE)).first).to_be_visible()
