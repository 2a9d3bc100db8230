"""Real agents on a scripted model, driven by a person at the page."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from agents.catalog import AGENTS, RealAgent
from agents.conftest import TIMEOUT_S
from page.person import TIMEOUT_MS, Person
from page.server import Server
from page.staged import SETUP_TIMEOUT_S, Staged, on_stage

pytestmark = pytest.mark.timeout(SETUP_TIMEOUT_S + 60)

BY_ID = {agent.id: agent for agent in AGENTS}
DRIVEN = [BY_ID[name] for name in ("opencode", "claude", "codex")]

# Long enough that whatever a test does meanwhile is in the middle of it.
ENDLESS = "[[slow:2000:0.05]]"


@pytest.fixture(params=DRIVEN, ids=lambda agent: agent.id)
def agent(request: pytest.FixtureRequest) -> RealAgent:
    chosen: RealAgent = request.param
    return chosen


@pytest.fixture
def stage(agent: RealAgent, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Staged]:
    with on_stage(agent, tmp_path, request.config) as stage:
        yield stage


@pytest.fixture(autouse=True)
def _timeout() -> Iterator[None]:
    """Real agents take seconds to start, and more on a busy machine."""
    expect.set_options(timeout=TIMEOUT_S * 1000)
    yield
    expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture
def server(stage: Staged) -> Server:
    return stage.server


def only(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("agent", [BY_ID[name]], ids=[name], indirect=True)


def test_an_answer_is_read_while_it_is_written(stage: Staged, person: Person) -> None:
    person.start_session(stage.name)
    person.say("[[think:Let me see.]][[slow:60:0.05]][[say:\n\nThat was **all** of it.]]")
    expect(person.conversation).to_contain_text("word3 ")
    expect(person.page.get_by_role("button", name="Stop")).to_be_visible()
    person.done()
    assert words(person) == [str(number) for number in range(1, 61)]
    expect(person.conversation.locator("strong")).to_have_text("all")
    expect(person.page.get_by_role("button", name="Stop")).to_have_count(0)
    person.is_ready()


def test_an_edit_is_looked_at_approved_and_found_among_the_changes(stage: Staged, person: Person) -> None:
    person.start_session(stage.name)
    person.say(f"{stage.writing}[[say:It is written.]]")
    expect(person.permission).to_contain_text("written.txt")
    expect(person.permission.locator(".diff")).to_contain_text("written")
    assert not stage.written.exists()
    person.allow()
    person.done()
    assert stage.written.read_text() == "written\n"
    expect(person.conversation).to_contain_text("It is written.")
    person.conversation.get_by_role("button", name=re.compile("1 file changed")).click()
    changed = person.page.get_by_role("region", name=str(stage.written))
    expect(changed).to_contain_text("written")


def test_a_denied_step_is_not_done_and_is_shown_as_denied(stage: Staged, person: Person) -> None:
    person.start_session(stage.name)
    person.say(f"{stage.writing}[[say:It went on.]]")
    person.refuse()
    person.done()
    assert not stage.written.exists()
    expect(person.permission).to_have_count(0)
    person.conversation.locator(".step-row").first.click()
    expect(person.conversation).to_contain_text("Denied by you")
    expect(person.page.get_by_role("button", name=re.compile("file changed"))).to_have_count(0)


@only("codex")
def test_the_output_of_the_agents_own_command_is_in_its_row(stage: Staged, person: Person) -> None:
    """Codex tells it beside the protocol, piece by piece."""
    person.start_session(stage.name)
    person.say(f"{stage.agent.run('echo seen by all; exit 3')}[[say:It ran.]]")
    person.allow()
    person.done()
    person.conversation.locator(".step-row").first.click()
    details = person.conversation.locator(".step-details")
    expect(details.locator(".screen").first).to_contain_text("seen by all")
    expect(details).to_contain_text("exit code 3")
    person.page.reload()
    person.conversation.locator(".step-row").first.click()
    expect(details.locator(".screen").first).to_contain_text("seen by all")


def test_a_run_is_stopped_and_the_session_goes_on(stage: Staged, person: Person) -> None:
    person.start_session(stage.name)
    person.say(ENDLESS)
    expect(person.conversation).to_contain_text("word3 ")
    person.page.get_by_role("button", name="Stop").click()
    person.done()
    expect(person.conversation.locator(".end")).to_contain_text("Stopped")
    person.say("[[begin]][[say:After the stop.]]")
    person.done(2)
    expect(person.conversation).to_contain_text("After the stop.")


@only("opencode")
def test_another_model_answers_once_it_is_chosen(stage: Staged, person: Person) -> None:
    person.start_session(stage.name)
    person.choose("Model", "Scripted.Scripted 2")
    person.say("[[say:Chosen.]]")
    person.done()
    assert stage.requests.had('"model":"scripted-2"')
    person.page.reload()
    expect(person.page.get_by_role("button", name=re.compile("^Model: .*Scripted 2"))).to_be_visible()


def test_a_command_that_was_edited_counts_from_the_next_start_on(stage: Staged, person: Person) -> None:
    session = person.start_session(stage.name)
    person.say("[[say:The word is azure.]]")
    person.done()

    person.edit_agent(stage.name, command="no-such-program")
    person.go(f"/s/{session}")
    person.act("Restart and reload")
    expect(person.page.get_by_role("alert").first).to_contain_text("no-such-program")

    person.edit_agent(stage.name, command=str(stage.wrapper()))
    person.go(f"/s/{session}")
    person.page.get_by_role("button", name=re.compile("^(Continue|Restart and reload)$")).first.click()
    person.is_ready()
    assert (stage.home / "wrapped").exists()
    person.say("[[recall]]")
    person.done(2)
    expect(person.conversation).to_contain_text("I said before: The word is azure.")


def test_a_closed_session_is_found_again_loaded_and_continued(stage: Staged, person: Person, browser: Browser) -> None:
    person.start_session(stage.name)
    person.say("[[say:The word is azure.]]")
    person.done()
    person.act("Close")
    person.sees("Closed. The conversation is kept.")
    assert stage.processes() == []
    before = messages(person)

    later = Person.at(browser, person.server, width=1360, height=850)
    later.sessions.get_by_role("link").filter(has_text=re.compile("workspace")).first.click()
    later.page.get_by_role("button", name="Continue").click()
    later.is_ready()
    assert messages(later) == before
    later.say("[[recall]]")
    later.done(2)
    expect(later.conversation).to_contain_text("I said before: The word is azure.")
    expect(person.conversation).to_contain_text("I said before: The word is azure.")
    assert messages(later) == messages(person)
    later.leave()


@only("opencode")
def test_two_browsers_share_a_session_and_either_answers(stage: Staged, person: Person, browser: Browser) -> None:
    session = person.start_session(stage.name)
    other = Person.at(browser, person.server, width=390, height=844, touch=True)
    other.go(f"/s/{session}")
    person.say(f"{stage.writing}[[say:It went on.]]")
    expect(person.permission).to_be_visible()
    other.allow()
    expect(person.permission).to_have_count(0)
    person.done()
    other.done()
    assert stage.written.exists()
    other.say("[[begin]][[say:From the phone.]]")
    person.done(2)
    other.done(2)
    expect(person.conversation).to_contain_text("From the phone.")
    assert messages(person) == messages(other)
    other.leave()


@only("opencode")
def test_a_network_that_is_cut_in_mid_stream_costs_nothing(stage: Staged, person: Person, browser: Browser) -> None:
    session = person.start_session(stage.name)
    person.say("[[slow:160:0.05]]")
    expect(person.conversation).to_contain_text("word3 ")
    person.cut_off()
    person.sees("Cannot reach the server.")
    other = Person.at(browser, person.server, width=1360, height=850)
    other.go(f"/s/{session}")
    other.done()
    person.reconnect()
    person.done()
    assert words(person) == [str(number) for number in range(1, 161)]
    assert messages(person) == messages(other)
    other.leave()


@only("opencode")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_a_server_that_restarts_during_a_stream_keeps_the_messages(
    stage: Staged, person: Person, how: signal.Signals
) -> None:
    person.start_session(stage.name)
    person.say("[[say:The word is azure.]]")
    person.done()
    person.say(ENDLESS)
    expect(person.conversation).to_contain_text("word3 ")
    person.away = True
    stage.server.stop(how)
    person.sees("Cannot reach the server.")
    stage.server.start()
    expect(person.page.get_by_text("Cannot reach the server.")).to_have_count(0)
    person.away = False
    person.done(2)
    expect(person.page.get_by_role("button", name="Stop")).to_have_count(0)
    received = words(person)
    assert received == [str(number) for number in range(1, len(received) + 1)]
    assert len(received) >= 3
    person.page.get_by_role("button", name="Continue").click()
    person.is_ready()
    person.say("[[begin]][[recall]]")
    person.done(3)
    expect(person.conversation).to_contain_text("I said before: The word is azure.")


def words(person: Person) -> list[str]:
    return re.findall(r"word(\d+)", "".join(messages(person)))


def messages(person: Person) -> list[str]:
    return person.conversation.get_by_role("article").all_inner_texts()
