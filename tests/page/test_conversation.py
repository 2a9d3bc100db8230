"""Reading, writing and answering in a session, on the demo agent."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from page.person import Person

# How far the end of the conversation is below what is in view.
BELOW = "view => Math.round(view.scrollHeight - view.scrollTop - view.clientHeight)"


def step(person: Person, title: str) -> Locator:
    return person.conversation.locator(".step-row", has_text=title)


def test_a_permission_is_shown_in_full_and_answered_by_a_number(person: Person) -> None:
    person.start_session()
    person.say("edit README: a line of mine")
    expect(person.permission.locator("tr.added")).to_contain_text("a line of mine")
    # Who writes means the number for the text.
    person.composer.press("1")
    expect(person.composer).to_have_value("1")
    expect(person.permission).to_be_visible()
    # One that is pressed as the card appears was meant for something else, and does nothing.
    while person.permission.count() > 0:
        person.composer.press("Alt+1")
    expect(step(person, "Edit README").get_by_role("img", name="done")).to_be_visible()
    expect(person.page.get_by_role("tabpanel", name="Changes")).to_contain_text("a line of mine")


def test_always_shows_the_rule_first_and_is_not_asked_again(person: Person) -> None:
    person.start_session()
    person.say("run echo one")
    person.permission.get_by_role("button", name="Always in this workspace…").click()
    expect(person.permission.locator(".rule").first).to_contain_text("echo")
    person.permission.get_by_role("button", name="Save the rule and allow").click()
    person.done()
    person.say("run echo one")
    person.done(2)
    expect(person.permission).to_have_count(0)
    step(person, "echo one").last.click()
    expect(
        person.conversation.locator(".step-details").get_by_text(re.compile("Allowed by the rule")).first
    ).to_be_visible()


def test_a_denied_step_says_who_denied_it(person: Person) -> None:
    person.start_session()
    person.say("run touch made")
    person.refuse()
    person.done()
    row = step(person, "touch made")
    expect(row.get_by_role("img", name="denied")).to_be_visible()
    row.click()
    expect(person.conversation.locator(".step-details")).to_contain_text("Denied by you")
    assert not (person.server.workspace / "made").exists()


def test_a_form_names_invalid_fields_and_is_answered(person: Person) -> None:
    person.start_session()
    person.say("ask me")
    card = person.conversation.locator("[data-question]")
    card.get_by_role("button", name="Answer").click()
    expect(card.get_by_text("This is required.")).to_be_visible()
    card.get_by_role("radio").first.check()
    card.get_by_role("button", name="Answer").click()
    person.done()
    expect(card).to_contain_text("Answered by you")


def test_a_command_is_watched_while_it_runs_and_ended(person: Person) -> None:
    person.start_session()
    person.say("run echo begun; sleep 600")
    person.allow()
    person.page.get_by_role("tab", name="Terminals").click()
    terminals = person.page.get_by_role("tabpanel", name="Terminals")
    expect(terminals.locator(".screen")).to_contain_text("begun")
    terminals.get_by_role("button", name="Kill").click()
    person.done()
    expect(terminals.locator(".screen")).to_contain_text("begun")


def test_a_file_that_was_named_goes_with_the_prompt_and_opens_beside_it(person: Person) -> None:
    (person.server.workspace / "notes").mkdir()
    (person.server.workspace / "notes/plan.py").write_text("one = 1\ntwo = 2\n")
    person.start_session()
    person.composer.press_sequentially("look at @pla")
    person.page.get_by_role("option", name="notes/plan.py").wait_for()
    person.composer.press("Enter")
    expect(person.composer).to_have_value("look at @notes/plan.py ")
    person.composer.press("Enter")
    expect(person.conversation.locator(".bubble .chip")).to_have_text("plan.py")
    person.done()
    person.say("read notes/plan.py")
    person.done(2)
    step(person, "notes/plan.py").last.click()
    person.conversation.locator(".step-details").get_by_role("button", name="notes/plan.py").first.click()
    expect(person.page.get_by_role("tabpanel", name="File")).to_contain_text("two = 2")


def test_prompts_wait_while_the_agent_works_and_can_be_changed(person: Person) -> None:
    person.start_session()
    person.say("sleep 60")
    expect(person.page.get_by_role("button", name="Stop")).to_be_visible()
    person.say("hello one")
    person.say("hello two")
    queue = person.page.get_by_role("list", name="Queued prompts").get_by_role("listitem")
    expect(queue).to_have_count(2)
    queue.nth(1).get_by_role("button", name="Move up").click()
    expect(queue.nth(0)).to_contain_text("hello two")
    queue.nth(1).get_by_role("button", name="Remove from the queue").click()
    expect(queue).to_have_count(1)
    queue.nth(0).get_by_role("button", name="Edit").click()
    person.page.get_by_label("Edit queued prompt").fill("hello three")
    person.page.get_by_label("Edit queued prompt").press("Enter")
    expect(queue.nth(0)).to_contain_text("hello three")
    person.page.locator("body").press("Escape")
    expect(person.page.get_by_text("Press Esc again to stop")).to_be_visible()
    # The second press must follow soon; one that comes too late counts as the first again.
    while person.page.get_by_role("button", name="Stop").count() > 0:
        person.page.locator("body").press("Escape")
    expect(person.conversation.get_by_text("Stopped").first).to_be_visible()
    # Stopping a run pauses the queue: the next prompt is sent when the person says so.
    person.sees("idle: 1 queued, waiting for you to continue")
    queue.nth(0).get_by_role("button", name="Send now").click()
    person.done(2)
    expect(person.conversation.locator(".bubble").last).to_have_text("hello three")


def test_the_end_is_followed_until_the_reader_goes_up(person: Person) -> None:
    person.start_session()
    person.say("stream 3000")
    person.done()
    person.is_at_end()
    person.say("slow 30")
    expect(person.conversation.get_by_text("word 2")).to_be_visible()
    person.conversation.hover()
    person.page.mouse.wheel(0, -400)
    to_end = person.page.get_by_role("button", name=re.compile("Jump to the end|new"))
    expect(to_end).to_be_visible()
    expect(person.page.get_by_text("word 9", exact=False)).to_have_count(1)
    assert person.conversation.evaluate(BELOW) > 200
    to_end.click()
    expect(to_end).to_have_count(0)
    person.is_at_end()


def test_the_end_stays_in_view_when_the_view_becomes_shorter(person: Person) -> None:
    person.start_session()
    person.say("stream 3000")
    person.done()
    height = person.conversation.evaluate("view => view.clientHeight")
    person.composer.fill("a prompt\nof several\nlines")
    person.page.wait_for_function("height => document.querySelector('[role=log]').clientHeight < height", arg=height)
    person.is_at_end()


def test_no_way_to_the_end_lies_over_the_last_lines(person: Person) -> None:
    person.start_session()
    person.say("stream 3000")
    person.done()
    to_end = person.page.get_by_role("button", name=re.compile("Jump to the end|new$"))
    person.conversation.hover()
    person.page.mouse.wheel(0, -600)
    expect(to_end).to_be_visible()
    # Near the end, but not so near that it is followed again.
    person.conversation.evaluate("view => view.scrollTo(0, view.scrollHeight - view.clientHeight - 100)")
    expect(to_end).to_have_count(0)
    assert person.conversation.evaluate(BELOW) == 100


def test_each_message_has_an_address_and_opens_there(person: Person) -> None:
    session = person.start_session()
    person.say("hello")
    person.done()
    for runs in range(2, 8):
        person.say("tools")
        person.done(runs) if runs < 4 else person.is_ready()
    person.conversation.evaluate("view => view.scrollTo(0, 0)")
    first = person.conversation.locator("[data-kind=user]").first
    expect(first).to_contain_text("hello")
    address = first.get_by_role("link", name="Link").get_attribute("href")
    assert address is not None
    person.page.goto("about:blank")
    person.go(f"/s/{session}{address}")
    expect(person.conversation.locator(".aimed")).to_be_in_viewport()
    expect(person.conversation.locator(".aimed")).to_contain_text("hello")


def test_a_draft_survives_a_reload(person: Person) -> None:
    person.start_session()
    person.composer.fill("half a thought")
    person.page.reload()
    expect(person.composer).to_have_value("half a thought")


def test_on_a_phone_a_permission_is_read_and_answered(on_phone: Person) -> None:
    on_phone.start_session()
    on_phone.say("edit README: from the phone")
    expect(on_phone.permission.locator("tr.added")).to_contain_text("from the phone")
    on_phone.permission.get_by_title("Allow this once").tap()
    on_phone.done()
    assert "from the phone" in (on_phone.server.workspace / "README").read_text()


def test_on_a_phone_changes_have_a_title_and_a_way_back(on_phone: Person) -> None:
    on_phone.start_session(access="Full")
    on_phone.say("edit README: from the phone")
    on_phone.done()
    on_phone.conversation.get_by_role("button", name=re.compile("1 file changed")).tap()
    expect(on_phone.page.get_by_role("heading", level=1, name="Changes")).to_be_visible()
    on_phone.page.get_by_role("link", name="Back to the conversation").tap()
    expect(on_phone.conversation).to_be_visible()


def test_on_a_phone_all_settings_are_behind_one_button(on_phone: Person) -> None:
    on_phone.start_session()
    on_phone.is_ready()
    on_phone.page.get_by_role("button", name=re.compile("^Settings:")).tap()
    on_phone.page.get_by_role("menuitem", name=re.compile("^Mode ")).tap()
    on_phone.page.get_by_role("menuitemradio", name=re.compile("^Plan")).tap()
    expect(on_phone.page.get_by_role("button", name=re.compile("^Settings:.*Plan"))).to_be_visible()
