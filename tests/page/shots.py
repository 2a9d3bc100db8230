"""Take the pictures in docs/images: `make shots`. No test compares them; people look at them."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from page.person import Person
from page.server import Server

IMAGES = Path(__file__).resolve().parents[2] / "docs/images"


def take(browser: Browser, server: Server) -> None:
    person = Person.at(browser, server, width=1280, height=800)
    page = person.page
    person.sees("Try the demo")
    expect(page.get_by_text("Loading")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=IMAGES / "page-first-start.png")

    person.start_session()
    person.say("plan")
    person.done()
    person.start_session()
    person.say("tour")
    page.get_by_role("button", name=re.compile("Allow")).first.click()
    page.get_by_text("Run a command").first.wait_for()
    expect(page.get_by_role("button", name=re.compile("Allow")).first).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.screenshot(path=IMAGES / "page-session.png")
    session = page.url.rsplit("/", 1)[1]
    person.context.close()

    dark = Person.at(browser, server, width=1280, height=800)
    dark.page.emulate_media(color_scheme="dark")
    dark.go("/new")
    expect(dark.page.get_by_role("button", name="Start")).to_be_enabled()
    dark.page.get_by_label("Folder").fill("~/api-server")
    dark.page.screenshot(path=IMAGES / "page-new-dark.png")
    dark.go(f"/s/{session}")
    expect(dark.page.get_by_role("button", name=re.compile("Allow")).first).to_be_visible()
    expect(dark.page.get_by_role("tabpanel", name="Changes").locator(".diff-code").first).to_be_visible()
    dark.page.screenshot(path=IMAGES / "page-session-dark.png")
    dark.go("/settings/agents")
    dark.page.get_by_text("Claude Code").first.evaluate("heading => heading.scrollIntoView()")
    dark.page.screenshot(path=IMAGES / "page-settings-dark.png")
    dark.context.close()

    phone = Person.at(browser, server, width=390, height=780, touch=True)
    expect(phone.page.get_by_role("heading", level=1, name="1 request needs you")).to_be_visible()
    phone.page.screenshot(path=IMAGES / "page-phone-needs.png")
    phone.go(f"/s/{session}")
    expect(phone.page.get_by_role("button", name=re.compile("Allow")).first).to_be_visible()
    phone.page.screenshot(path=IMAGES / "page-phone-session.png")
    phone.context.close()

    troubled = Person.at(browser, server, width=1280, height=800)
    troubled.edit_agent("Demo", command="no-such-program")
    troubled.go(f"/s/{session}")
    troubled.act("Restart and reload")
    expect(troubled.page.get_by_text("not started", exact=True)).to_be_visible()
    troubled.page.screenshot(path=IMAGES / "page-failed.png")
    troubled.context.close()


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        server = Server(Path(folder))
        server.start()
        try:
            take(browser, server)
        finally:
            server.stop()
            browser.close()


if __name__ == "__main__":
    main()
