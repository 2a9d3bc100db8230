"""Everything by the keyboard."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from page.person import Person


def command(person: Person, text: str) -> None:
    """Run the command of the palette that fits the text best."""
    person.page.keyboard.press("Control+k")
    person.page.keyboard.type(text)
    person.page.keyboard.press("Enter")


def test_the_palette_opens_the_view_that_is_typed(person: Person) -> None:
    person.page.keyboard.press("Control+k")
    person.page.keyboard.type("settings: rules")
    person.page.keyboard.press("Enter")
    person.page.wait_for_url(re.compile("/settings/rules"))
    expect(person.page.get_by_role("dialog")).to_have_count(0)


def test_keys_work_from_the_moment_the_page_is_drawn(person: Person) -> None:
    person.page.add_init_script("""
        new MutationObserver((_, watching) => {
            if (document.querySelector("main h1") === null) return;
            watching.disconnect();
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true }));
        }).observe(document, { childList: true, subtree: true });
    """)
    person.go("/new")
    expect(person.page.get_by_role("dialog", name="Commands")).to_be_visible()


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


def test_the_palette_has_the_actions_of_the_session(person: Person) -> None:
    person.start_session()
    person.is_ready()
    command(person, "rename")
    expect(person.page.get_by_label("Session title")).to_be_focused()
    person.page.keyboard.type("By keys alone")
    person.page.keyboard.press("Enter")
    expect(person.page.get_by_role("heading", name="By keys alone")).to_be_visible()
    command(person, "model")
    person.page.keyboard.type("large")
    person.page.keyboard.press("Enter")
    expect(person.page.get_by_role("button", name="Model: Demo Large")).to_be_visible()
    command(person, "show details")
    expect(person.page.get_by_role("tabpanel", name="Details")).to_be_visible()
    command(person, "stop")
    expect(person.page.get_by_role("option")).to_have_count(0)
    person.page.keyboard.press("Escape")
    command(person, "delete")
    expect(person.page.get_by_role("dialog", name="Delete this session?")).to_be_visible()


def test_the_keyboard_is_back_where_it_was_when_the_palette_closes(person: Person) -> None:
    person.start_session()
    person.composer.focus()
    person.page.keyboard.press("Control+k")
    expect(person.page.get_by_role("combobox")).to_be_focused()
    person.page.keyboard.press("Escape")
    expect(person.composer).to_be_focused()


def test_a_question_mark_shows_the_keys_but_not_while_one_writes(person: Person) -> None:
    person.page.locator("body").press("?")
    expect(person.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    person.page.keyboard.press("Escape")
    expect(person.page.get_by_role("dialog")).to_have_count(0)
    person.page.get_by_label("Search all sessions").fill("")
    person.page.keyboard.type("?")
    expect(person.page.get_by_role("dialog")).to_have_count(0)


def test_a_menu_is_used_by_keys_alone(person: Person) -> None:
    person.start_session()
    # Before that nothing can be set, and a button that is off does not take the keyboard.
    person.is_ready()
    person.page.get_by_role("button", name=re.compile("^Model:")).focus()
    person.page.keyboard.press("Enter")
    expect(person.page.locator("[role=menuitemradio]:focus")).to_have_count(1)
    person.page.keyboard.press("ArrowDown")
    person.page.keyboard.press("Enter")
    expect(person.page.get_by_role("button", name="Model: Demo Large")).to_be_focused()


def test_a_session_is_started_and_spoken_to_by_keys_alone(person: Person) -> None:
    person.page.locator("body").press("n")
    person.page.wait_for_url(re.compile("/new"))
    person.page.get_by_label("Folder").fill(str(person.server.workspace))
    expect(person.page.get_by_role("button", name="Start")).to_be_enabled()
    person.page.keyboard.press("Enter")
    person.page.wait_for_url(re.compile("/s/"))
    person.composer.focus()
    person.page.keyboard.type("hello")
    person.page.keyboard.press("Enter")
    expect(person.conversation.get_by_text(re.compile("demo agent", re.IGNORECASE)).first).to_be_visible()


def test_a_menu_action_that_moves_the_keyboard_keeps_it(person: Person) -> None:
    person.start_session()
    person.is_ready()
    person.act("Rename")
    expect(person.page.get_by_label("Session title")).to_be_focused()
    person.page.keyboard.press("Escape")
    person.page.get_by_role("button", name="Session actions").click()
    expect(person.page.get_by_role("menu")).to_be_visible()
    person.page.keyboard.press("Escape")
    expect(person.page.get_by_role("menu")).to_have_count(0)
    expect(person.page.get_by_role("button", name="Session actions")).to_be_focused()
    person.act("Delete")
    person.page.keyboard.press("Escape")
    expect(person.page.get_by_role("dialog")).to_have_count(0)
    expect(person.page.get_by_role("button", name="Session actions")).to_be_focused()
