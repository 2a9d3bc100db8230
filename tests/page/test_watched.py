"""Sessions that agents have in other terminals, on the page."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import expect

from page.person import Person
from translate import codex_talk
from translate.claude_talk import SESSION, Transcript


def _write(person: Person, transcript: Transcript) -> None:
    """Write the transcript where Claude Code keeps it, in the home folder of the server's user."""
    path = person.server.workspace.parent / ".claude" / "projects" / "-home-ada-proj" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(transcript.lines) + b"\n")


def _at_work(workspace: Path) -> Transcript:
    """In the middle of a run, just now."""
    transcript = Transcript(cwd=str(workspace), timestamp=datetime.now(UTC).isoformat())
    transcript.user("Count the files")
    transcript.call("Bash", {"command": "ls | wc -l"}, id="msg_1")
    return transcript


def test_after_consent_in_the_settings_sessions_of_a_terminal_are_shown(person: Person) -> None:
    transcript = _at_work(person.server.workspace)
    _write(person, transcript)
    page = person.page
    person.start_session()
    person.go("/settings/general")
    page.get_by_role("button", name="Import: Claude Code").click()
    person.sessions.get_by_role("link", name=re.compile("Count the files")).click()

    person.sees(re.compile("Another program is working on this session"))
    expect(person.composer).to_be_disabled()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    expect(page.get_by_role("button", name="Continue")).to_be_visible()

    transcript.result("2")
    transcript.text("There are two.", id="msg_2", stop="end_turn")
    _write(person, transcript)
    expect(person.conversation.get_by_text("There are two.")).to_be_visible()
    person.sees("This session is closed.")
    expect(person.composer).to_be_enabled()


def test_a_newcomer_brings_the_history_of_one_agent_after_the_other(person: Person) -> None:
    _write(person, _at_work(person.server.workspace))
    other = codex_talk.Transcript()
    other.run("Do it")
    path = person.server.workspace.parent / ".codex" / "sessions" / "2026" / "04" / "11" / codex_talk.NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\n".join(other.lines) + b"\n")
    person.page.reload()
    for name, prompt in (("Claude Code", "Count the files"), ("Codex", "Do it")):
        person.page.get_by_role("button", name=f"Import: {name}").click()
        expect(person.sessions.get_by_role("link", name=re.compile(prompt))).to_be_visible()
    expect(person.page.get_by_text("1 session imported; new ones appear as you work")).to_have_count(2)


def test_a_sub_agents_session_is_opened_from_that_of_its_parent(person: Person) -> None:
    transcript = _at_work(person.server.workspace)
    transcript.call("Task", {"description": "Look closely", "prompt": "Look"}, "toolu_2", id="msg_2")
    transcript.user("Look", isSidechain=True, parentUuid=None, uuid="side-1")
    transcript.text("I looked.", id="msg_3", stop="end_turn", isSidechain=True, parentUuid="side-1", uuid="side-2")
    transcript.result("I looked.", None, "toolu_2")
    transcript.text("It was looked at.", id="msg_4", stop="end_turn")
    _write(person, transcript)
    person.start_session()
    person.go("/settings/general")
    person.page.get_by_role("button", name="Import: Claude Code").click()
    person.sessions.get_by_role("link", name=re.compile("Count the files")).click()
    person.sees("It was looked at.")
    person.page.keyboard.press("Control+k")
    person.page.keyboard.type("show details")
    person.page.keyboard.press("Enter")
    person.page.get_by_role("tabpanel", name="Details").get_by_role("link", name="Look closely").click()
    expect(person.page.get_by_role("heading", name="Look closely")).to_be_visible()
    expect(person.conversation.get_by_text("I looked.")).to_be_visible()
