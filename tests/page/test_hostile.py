"""Nothing that an agent says runs, or fetches anything from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, expect

from attempts import Attempts
from page import hostile
from page.person import Person

AGENT = Path(hostile.__file__)

# Those that a link of the page may have.
HARMLESS = ("http:", "https:", "mailto:", "blob:", "")


@pytest.mark.attempts("page scripts")
@pytest.mark.timeout(120)
def test_an_agent_that_attacks_the_page_achieves_nothing(person: Person, attempts: Attempts) -> None:
    page = person.page
    dialogs: list[Dialog] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog))
    person.add_agent("hostile", sys.executable, str(AGENT))
    session = person.start_session(agent="hostile")
    person.say("go on")
    card = page.locator("[data-permission]").first
    expect(card).to_be_visible()
    _open_everything(person)
    person.go("/needs")
    expect(card).to_be_visible()
    _open_everything(person)
    card.get_by_role("button").filter(has_text="<script>").first.click()
    person.sees("Nothing needs you")
    for view in (f"/s/{session}", "/new", f"/settings/diagnostics?session={session}"):
        person.go(view)
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
        _open_everything(person)
    person.go(f"/s/{session}")
    for tab in ("Changes", "Plan", "Details"):
        page.get_by_role("tab", name=tab).click()
        _open_everything(person)
    page.keyboard.press("Control+k")
    page.keyboard.type("script")
    expect(page.get_by_role("option").first).to_contain_text("<script>")
    attempts.add(hostile.payload_count())
    assert dialogs == []
    assert page.evaluate("window.hit") is None
    assert page.title() == "Dragoman"


@pytest.mark.attempts("page bombs")
@pytest.mark.timeout(120)
def test_messages_that_are_made_to_freeze_the_page_are_shown(person: Person, attempts: Attempts) -> None:
    page = person.page
    person.add_agent("hostile", sys.executable, str(AGENT))
    session = person.start_session(agent="hostile")
    person.say("bombs")
    expect(page.locator("strong").filter(has_text="still here")).to_be_visible()
    person.go(f"/s/{session}")  # and again, from the journal
    expect(page.locator("strong").filter(has_text="still here")).to_be_visible()
    more = page.get_by_role("button", name="Truncated: show more")
    more.scroll_into_view_if_needed()
    more.click()
    expect(page.get_by_text("The very end of the long message.")).to_be_attached()
    page.get_by_role("log").press("Home")
    expect(page.locator(".as-written").first).to_be_visible()
    attempts.add(len(hostile.BOMBS) + 1)


def _open_everything(person: Person) -> None:
    """All that is folded, and a look at every link and image that there is then."""
    page = person.page
    for _ in range(3):
        page.evaluate(
            """() => {
                 const all = (which) => [...document.querySelectorAll(`main ${which}`)];
                 for (const one of all("details:not([open])")) one.open = true;
                 for (const one of all("[aria-expanded=false]:not([aria-haspopup])")) one.click();
               }"""
        )
    schemes = page.evaluate(
        """() => [...document.querySelectorAll("a[href], area[href], form[action]")]
              .map((one) => new URL(one.getAttribute("href") ?? one.getAttribute("action"), location.href).protocol)"""
    )
    assert {scheme for scheme in schemes if scheme not in HARMLESS} == set()
    assert page.locator("iframe, object, embed, [onerror], [onload], main script").count() == 0
    assert page.evaluate("window.hit") is None
