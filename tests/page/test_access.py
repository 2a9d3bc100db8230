"""Accessibility, by axe-core: both themes, at a desk and on a phone."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from playwright.sync_api import expect

from page.person import Person

VIEWS = ("/", "/new", "/needs", "/settings/agents", "/settings/rules", "/settings/devices", "/settings/general")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_view_shuts_anyone_out(person: Person, theme: Literal["light", "dark"]) -> None:
    person.page.emulate_media(color_scheme=theme)
    found: set[str] = set()
    session = person.start_session()
    person.say("edit README: a line")
    expect(person.page.get_by_role("button", name=re.compile("Allow")).first).to_be_visible()
    for view in (*VIEWS, f"/s/{session}", f"/settings/diagnostics?session={session}"):
        person.go(view)
        expect(person.page.get_by_role("heading", level=1).first).to_be_visible()
        found.update(f"{view.split('?')[0]}: {fault}" for fault in person.faults())
    assert found == set()


def test_no_dialog_shuts_anyone_out(person: Person) -> None:
    person.go("/settings/agents")
    for opener in ("Add an agent", "Edit Demo"):
        person.page.get_by_role("button", name=opener).click()
        assert person.faults() == []
        person.page.keyboard.press("Escape")
    person.page.keyboard.press("Control+k")
    assert person.faults() == []
    person.page.keyboard.press("Escape")
    person.page.locator("body").press("?")
    assert person.faults() == []


def test_on_a_phone_buttons_are_large_enough_and_nothing_is_wider_than_the_screen(on_phone: Person) -> None:
    session = on_phone.start_session()
    on_phone.say("edit README: a line")
    expect(on_phone.page.get_by_role("button", name=re.compile("Allow")).first).to_be_visible()
    for view in (*VIEWS, f"/s/{session}", f"/s/{session}/beside"):
        on_phone.go(view)
        expect(on_phone.page.get_by_role("navigation", name="Views")).to_be_visible()
        on_phone.page.wait_for_load_state("networkidle")
        assert on_phone.page.evaluate("document.documentElement.scrollWidth") <= 390, view
        small = on_phone.page.evaluate(
            """() => [...document.querySelectorAll(".button, .phone-tabs a, input.input, button.select")]
                 .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 43.5)
                 .map((one) => one.outerHTML.slice(0, 120))"""
        )
        assert small == [], view
