"""`Person`: someone at the page, who sees what the browser shows and presses what it offers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, expect

from page.server import Server

AXE = Path(__file__).resolve().parents[2] / "web/node_modules/axe-core/axe.min.js"

TIMEOUT_MS = 15_000  # for anything that the page should show
expect.set_options(timeout=TIMEOUT_MS)

AT_END = """() => {
  const view = document.querySelector("[role=log]");
  return view.scrollHeight - view.scrollTop - view.clientHeight < 1;
}"""


class Person:
    """Fails the test when the person leaves, if the browser logged an error or fetched anything from another host."""

    def __init__(self, context: BrowserContext, server: Server, *, touch: bool = False) -> None:
        self.context = context
        self.touch = touch
        self.server = server
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        context.on("request", self._request)
        self.away = False  # the server is: that the socket complains is right then

    @classmethod
    def at(cls, browser: Browser, server: Server, *, width: int, height: int, touch: bool = False) -> Person:
        context = browser.new_context(viewport={"width": width, "height": height}, has_touch=touch)
        person = cls(context, server, touch=touch)
        person.page.goto(server.link())
        person.page.wait_for_url(lambda url: urlsplit(url).path != "/pair")
        person.is_in()
        return person

    def leave(self) -> None:
        self.context.close()
        assert self.complaints == []

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not self.away:
            self.complaints.append(message.text)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.complaints.append(f"the page asked for {request.url}")

    # -- what one does

    def go(self, path: str) -> None:
        self.page.goto(self.server.url + path)
        self.is_in()

    def start_session(self, agent: str = "Demo", access: str = "Ask") -> str:
        """A new session in the workspace; its id."""
        self.go("/new")
        self.page.get_by_role("radio", name=re.compile(f"^{agent}")).check()
        self.page.get_by_label("Folder").fill(str(self.server.workspace))
        self.page.get_by_role("radio", name=re.compile(f"^{access}")).check()
        self.page.get_by_role("button", name="Start").click()
        self.page.wait_for_url(re.compile(r"/s/[^/]+$"))
        return self.page.url.rsplit("/", 1)[1]

    def add_agent(self, agent: str, command: str, *arguments: str) -> None:
        self.go("/settings/agents")
        self.page.get_by_role("button", name="Add an agent").click()
        form = self.page.get_by_role("dialog")
        form.get_by_label("Id").fill(agent)
        form.get_by_label("Command").fill(command)
        form.get_by_label("Arguments").fill("\n".join(arguments))
        form.get_by_role("button", name="Save").click()
        expect(form).to_have_count(0)

    def edit_agent(self, name: str, *, command: str) -> None:
        self.go("/settings/agents")
        self.page.get_by_role("button", name=f"Edit {name}").click()
        form = self.page.get_by_role("dialog")
        form.get_by_label("Command").fill(command)
        form.get_by_role("button", name="Save").click()
        expect(form).to_have_count(0)

    def say(self, text: str) -> None:
        self.composer.fill(text)
        if self.touch:  # where Enter is a new line
            self.page.get_by_role("button", name="Send").tap()
        else:
            self.composer.press("Enter")

    def choose(self, menu: str, item: str) -> None:
        self.page.get_by_role("button", name=re.compile(f"^{menu}:")).click()
        self.page.get_by_role("menuitemradio", name=re.compile(f"^{item}")).click()

    def field(self, label: str) -> Locator:
        """The field to select a value, which shows the selected one."""
        return self.page.get_by_role("combobox", name=label, exact=True)

    def select(self, label: str, option: str) -> None:
        self.field(label).click()
        self.page.get_by_role("option", name=option, exact=True).click()

    def act(self, item: str) -> None:
        """Something of the session's menu."""
        self.page.get_by_role("button", name="Session actions").click()
        self.page.get_by_role("menuitem", name=re.compile(f"^{item}")).click()

    def allow(self) -> None:
        """Allow the request once, whatever the agent calls that option."""
        self.permission.get_by_title("Allow this once").click()

    def refuse(self) -> None:
        self.permission.get_by_title("Deny this once").click()

    def cut_off(self) -> None:
        """The network is gone, for this browser alone."""
        self.away = True
        self.context.set_offline(True)

    def reconnect(self) -> None:
        self.context.set_offline(False)
        expect(self.page.get_by_text("Cannot reach the server.")).to_have_count(0)
        self.away = False

    def done(self, runs: int = 1) -> None:
        """Wait until this many runs of the session have ended."""
        expect(self.conversation.locator(".end")).to_have_count(runs)

    def is_in(self) -> None:
        """Wait until the page is drawn; from then on it reacts to keys."""
        expect(self.page.locator("main h1").first).to_be_attached()

    def is_ready(self) -> None:
        """Wait until the agent is connected and takes the next prompt."""
        expect(self.page.locator(".status-words")).to_have_text(re.compile("^(idle|failed)$"))

    def is_at_end(self) -> None:
        """Wait until the end of the conversation is in view; items are measured after they are drawn."""
        self.page.wait_for_function(AT_END, timeout=TIMEOUT_MS)

    # -- what one sees

    @property
    def composer(self) -> Locator:
        return self.page.locator("textarea")

    @property
    def conversation(self) -> Locator:
        return self.page.get_by_role("log", name="Conversation")

    @property
    def permission(self) -> Locator:
        """The permission request that is pending in the conversation."""
        return self.conversation.locator("[data-permission].waiting")

    @property
    def sessions(self) -> Locator:
        return self.page.get_by_role("navigation", name="Sessions")

    def sees(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible()

    def faults(self) -> list[str]:
        """Accessibility violations that axe-core finds."""
        self.page.evaluate(AXE.read_text())
        found: list[dict[str, Any]] = self.page.evaluate("axe.run().then(({ violations }) => violations)")
        return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]
