"""Settings: agents, rules, devices, and what went over the wire."""

from __future__ import annotations

import re
import sys

from playwright.sync_api import Browser, expect

from page.person import Person


def test_an_agent_is_added_tested_used_edited_and_removed(person: Person) -> None:
    page = person.page
    person.go("/settings/agents")
    page.get_by_role("button", name="Add an agent").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Id").fill("mine")
    form.get_by_label("Name", exact=True).fill("My agent")
    form.get_by_label("Command").fill(sys.executable)
    form.get_by_label("Arguments").fill("-m\ndragoman.agents.nothing")
    form.get_by_label("Key name").fill("MINE_KEY")
    form.get_by_label("Key", exact=True).fill("sk-planted-in-a-test")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.get_by_role("button", name="Test My agent").click()
    expect(page.locator(".settings-result.bad")).to_contain_text("dragoman.agents.nothing")

    page.get_by_role("button", name="Edit My agent").click()
    expect(form.get_by_label("Key", exact=True)).to_have_value("")
    form.get_by_label("Arguments").fill("-m\ndragoman.agents.demo")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Test My agent").click()
    expect(page.locator(".settings-result.good")).to_be_visible()
    assert "sk-planted-in-a-test" not in page.content()

    person.start_session(agent="My agent")
    person.say("hello")
    expect(person.conversation.get_by_text(re.compile("demo agent", re.IGNORECASE)).first).to_be_visible()

    person.go("/settings/agents")
    page.get_by_role("button", name="Remove: My agent").click()
    expect(page.get_by_role("heading", name=re.compile("My agent"))).to_have_count(0)


def test_a_form_says_which_field_is_wrong(person: Person) -> None:
    person.go("/settings/agents")
    person.page.get_by_role("button", name="Edit Demo").click()
    person.page.get_by_label("Environment").fill("this is no variable")
    person.page.get_by_role("button", name="Save").click()
    expect(person.page.get_by_role("alert")).to_contain_text("this is no variable")


def test_a_rule_that_was_remembered_is_revoked(person: Person) -> None:
    person.start_session()
    person.say("run ls")
    person.page.get_by_role("button", name=re.compile("Always in this workspace")).click()
    person.page.get_by_role("button", name="Save the rule and allow").click()
    person.done()
    person.go("/settings/rules")
    revoke = person.page.get_by_role("button", name=re.compile("^Revoke: allow"))
    expect(revoke.first).to_be_visible()
    revoke.first.click()
    expect(revoke).to_have_count(0)


def test_a_token_is_shown_once_and_revoked(browser: Browser, person: Person) -> None:
    person.go("/settings/devices")
    person.page.get_by_label("Name").fill("script")
    person.page.get_by_role("button", name="Create token").click()
    person.sees("Copy it now")
    token = person.page.locator(".settings-result code").inner_text()
    person.page.reload()
    expect(person.page.get_by_role("button", name="Revoke script")).to_be_visible()
    assert token not in person.page.content()
    person.page.get_by_role("button", name="Revoke script").click()
    expect(person.page.get_by_role("button", name="Revoke script")).to_have_count(0)


def test_a_setting_is_changed_and_put_back(person: Person) -> None:
    person.go("/settings/general")
    person.select("Access", "read-only")
    expect(person.field("Access")).to_have_text("read-only")
    back = person.page.get_by_role("button", name="Reset Access to its default")
    back.click()
    expect(person.field("Access")).to_have_text("ask")
    expect(back).to_have_count(0)


def test_a_theme_is_chosen_for_this_device_and_is_there_before_anything_is_drawn(person: Person) -> None:
    person.go("/settings/general")
    person.select("Theme", "Dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    expect(person.page.locator("html")).to_have_css("color-scheme", "dark")
    dark = person.page.evaluate(ground)
    # What the document has when its body begins, before the page's own script runs.
    person.page.add_init_script("""
        new MutationObserver((_, watching) => {
            if (document.body === null) return;
            window.themeAtFirst = document.documentElement.dataset.theme;
            watching.disconnect();
        }).observe(document, { childList: true, subtree: true });
    """)
    person.page.reload()
    person.is_in()
    assert person.page.evaluate("window.themeAtFirst") == "dark"
    assert person.page.evaluate(ground) == dark
    person.page.keyboard.press("Control+k")
    person.page.keyboard.type("theme")
    person.page.keyboard.press("Enter")
    person.page.keyboard.type("light")
    person.page.keyboard.press("Enter")
    expect(person.field("Theme")).to_have_text("Light")
    assert person.page.evaluate(ground) != dark


def test_diagnostics_show_the_frames_of_a_session(person: Person) -> None:
    session = person.start_session()
    person.say("hello")
    person.done()
    person.act("Diagnostics")
    frames = person.page.get_by_role("region", name="Frames")
    frames.get_by_role("button", name="session/new").first.click()
    expect(frames.locator("pre")).to_contain_text(str(person.server.workspace))
    assert session in person.page.url
