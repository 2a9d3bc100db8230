"""`PermissionService` with a home folder and people who answer: remembered answers, time limits, first answer wins."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.config import make_home
from dragoman.errors import ConfigError, InputError
from dragoman.host.permission import PermissionAnswer, PermissionRequest, answer_later
from dragoman.host.policy.remembered import REMEMBERED_FILE, Remembered
from dragoman.host.policy.rulebook import Rulebook, RuleSources, trust
from dragoman.host.policy.rules import PolicyRule
from dragoman.record import notes
from dragoman.testing.clock import ManualClock
from dragoman.workspace import Workspace
from host.conftest import ALWAYS, NO, ONCE, TIMEOUT_S, Agent, Build

YES_ONCE = {"outcome": "selected", "optionId": "yes"}
YES_ALWAYS = {"outcome": "selected", "optionId": "yes-always"}
REFUSED = {"outcome": "selected", "optionId": "no"}


class Waits:
    """A person who has not answered yet."""

    answers_as = "person"

    def __init__(self) -> None:
        self.requests: asyncio.Queue[PermissionRequest] = asyncio.Queue()
        self.withdrawn: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, request: PermissionRequest) -> PermissionAnswer:
        self.requests.put_nowait(request)
        try:
            await asyncio.Event().wait()
        finally:
            self.withdrawn.put_nowait(request.title)
        raise AssertionError("never answers")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def last(agent: Agent) -> notes.Decision:
    decisions = [note for note in agent.notes if isinstance(note, notes.Decision)]
    return decisions[-1]


def write(agent: Agent, name: str = "a.txt") -> asyncio.Task[dict[str, object]]:
    path = str(agent.workspace.cwd / name)
    return asyncio.create_task(agent.ask("fs/write_text_file", path=path, content="new\n"))


async def waiting(agent: Agent, count: int = 1) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while agent.host.pending < count:  # noqa: ASYNC110  the host tells nobody, and it is a few passes of the loop
            await asyncio.sleep(0)


# -- in time


async def test_a_request_without_an_answer_in_time_is_refused_with_the_reason(agent_with: Build) -> None:
    person = Waits()
    clock = ManualClock()
    agent = agent_with(on_permission=person, time_limit_s=60.0, clock=clock)
    async with asyncio.timeout(TIMEOUT_S):
        outcome = asyncio.create_task(agent.permission(title="slow"))
        await clock.wait_for_timers(2)  # the limit, and the next look at the rules
        clock.advance(60.0)
        assert await outcome == REFUSED
        assert await person.withdrawn.get() == "slow"
    assert (last(agent).by, last(agent).decision) == ("timeout", "deny")
    assert last(agent).reason == "denied: nobody answered within 1m"
    assert agent.host.pending == 0


# -- tools of the program itself


class Serves:
    """A program whose own tool is called `mine`."""

    def is_own(self, request: PermissionRequest) -> bool:
        return request.title == "mine"

    async def __call__(self, request: PermissionRequest) -> bool:
        assert request.title != "mine", "it is not asked"
        return False


async def test_a_tool_of_the_program_itself_is_allowed_without_asking_and_covers_nothing_else(
    agent_with: Build,
) -> None:
    agent = agent_with(access="read-only", session=(PolicyRule("deny", "never"),), on_permission=Serves())
    given = {"command": "touch made"}
    assert await agent.permission(title="mine", kind="execute", rawInput=given) == YES_ONCE
    assert (last(agent).by, last(agent).decision, last(agent).layer) == ("rule", "allow", "session")
    assert await agent.permission(title="other", kind="execute", rawInput=given) == REFUSED
    refused = await agent.refused("terminal/create", command="touch made")
    assert "never" in refused.message
    agent.host.cancel_pending(rest_of_run=True)
    assert await agent.permission(title="mine") == {"outcome": "cancelled"}


# -- the first answer


async def test_the_first_answer_counts_and_a_late_one_is_reported_as_late(agent_with: Build) -> None:
    agent = agent_with(on_permission=answer_later)
    asking = asyncio.create_task(agent.permission())
    await waiting(agent)
    assert agent.host.permissions.answer(1, "yes")
    assert not agent.host.permissions.answer(1, "no")
    async with asyncio.timeout(TIMEOUT_S):
        assert await asking == YES_ONCE
    assert not agent.host.permissions.answer(1, "no")
    assert (last(agent).by, last(agent).decision, last(agent).option_id) == ("person", "allow", "yes")


async def test_an_answer_from_elsewhere_ends_the_callbacks_question(agent_with: Build) -> None:
    person = Waits()
    agent = agent_with(on_permission=person)
    asking = asyncio.create_task(agent.permission(title="asked twice"))
    async with asyncio.timeout(TIMEOUT_S):
        await person.requests.get()
        assert agent.host.permissions.answer(1, False)
        assert await asking == REFUSED
        assert await person.withdrawn.get() == "asked twice"


async def test_what_is_no_answer_leaves_the_question_open(agent_with: Build) -> None:
    agent = agent_with(on_permission=answer_later)
    asking = asyncio.create_task(agent.permission())
    await waiting(agent)
    with pytest.raises(InputError, match="no option 'maybe'"):
        agent.host.permissions.answer(1, "maybe")
    assert agent.host.permissions.answer(1, True)
    async with asyncio.timeout(TIMEOUT_S):
        assert await asking == YES_ONCE


# -- for good


async def test_always_is_remembered_and_answers_the_next_time_whatever_the_agent(
    agent_with: Build, workspace: Workspace, home: Path
) -> None:
    agent = agent_with(on_permission=lambda request: request.allow(always=True), sources=RuleSources(home), agent="one")
    assert await agent.permission(ALWAYS, NO, ONCE, kind="edit", locations=[{"path": "a.txt"}]) == YES_ALWAYS
    [entry] = Remembered(home).list()
    assert last(agent).remembered == (entry.id,)
    assert "remembered for this workspace" in last(agent).reason

    def never(_: PermissionRequest) -> None:
        raise AssertionError("nobody is to be asked")

    other = agent_with(on_permission=never, sources=RuleSources(home), agent="two")
    async with asyncio.timeout(TIMEOUT_S):
        await write(other)
    assert (workspace.cwd / "a.txt").read_text() == "new\n"
    assert (last(other).by, last(other).layer) == ("rule", "remembered")
    assert entry.id in (last(other).rule or "")

    Remembered(home).revoke(entry.id)
    refusal = await other.refused("fs/write_text_file", path=str(workspace.cwd / "a.txt"), content="x")
    assert "nobody is to be asked" in refusal.message


async def test_never_is_remembered_as_a_refusal(agent_with: Build, home: Path) -> None:
    agent = agent_with(on_permission=lambda request: request.reject(always=True), sources=RuleSources(home))
    assert await agent.permission(kind="execute", rawInput={"command": "git push"}) == REFUSED
    later = agent_with(access="full", sources=RuleSources(home))
    assert await later.permission(kind="execute", rawInput={"command": "git push"}) == REFUSED
    assert await later.permission(kind="execute", rawInput={"command": "git status"}) == YES_ONCE


async def test_without_a_home_folder_always_holds_once(agent_with: Build) -> None:
    titles: list[str] = []

    def always(request: PermissionRequest) -> PermissionAnswer:
        titles.append(request.title)
        return request.allow(always=True)

    agent = agent_with(on_permission=always)
    for title in ("first", "second"):
        assert await agent.permission(title=title, kind="edit", locations=[{"path": "a.txt"}]) == YES_ALWAYS
    assert titles == ["first", "second"]
    assert "has no home folder" in last(agent).reason


async def test_what_cannot_be_named_is_allowed_once_and_says_why(agent_with: Build, home: Path) -> None:
    agent = agent_with(on_permission=lambda request: request.allow(always=True), sources=RuleSources(home))
    assert await agent.permission(kind="other") == YES_ALWAYS
    assert Remembered(home).list() == ()
    assert "cannot be remembered" in last(agent).reason


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_answer_for_good_answers_at_once_what_waits_in_every_session(
    agent_with: Build, home: Path, allowed: bool
) -> None:
    here = agent_with(on_permission=answer_later, sources=RuleSources(home))
    there = agent_with(on_permission=answer_later, sources=RuleSources(home))
    # A yes is about the folder, a no about the file; and of two writes to one file, one would find it changed.
    first, second, third = ("a.txt", "b.txt", "c.txt") if allowed else ("a.txt",) * 3
    asking = [write(here, first), write(here, second), write(there, third)]
    await waiting(here, 2)
    await waiting(there)
    assert here.host.permissions.answer(1, "allow-always" if allowed else "reject-always")
    async with asyncio.timeout(TIMEOUT_S):
        results = await asyncio.gather(*asking, return_exceptions=True)
    assert [isinstance(result, Exception) for result in results] == [not allowed] * 3
    assert (last(there).by, last(there).layer) == ("rule", "remembered")


async def test_an_answer_for_good_leaves_open_what_it_does_not_cover(agent_with: Build, home: Path) -> None:
    agent = agent_with(on_permission=answer_later, sources=RuleSources(home))
    editing = write(agent)
    await waiting(agent)
    running = asyncio.create_task(agent.permission(kind="execute", rawInput={"command": "make"}))
    await waiting(agent, 2)
    assert agent.host.permissions.answer(1, "allow-always")
    async with asyncio.timeout(TIMEOUT_S):
        await editing
        agent.rules.refresh()
        assert agent.host.pending == 1
        assert agent.host.permissions.answer(2, "no")
        assert await running == REFUSED


# -- the rules, as they stand


async def test_a_rule_of_this_session_goes_before_the_users(agent_with: Build, home: Path) -> None:
    user = PolicyRule("deny", "no pushing", command="git push *")
    agent = agent_with(sources=RuleSources(home, (user,)), access="full")
    assert await agent.permission(kind="execute", rawInput={"command": "git push origin"}) == REFUSED
    assert last(agent).layer == "user"
    own = agent_with(sources=RuleSources(home, (user,)), session=(PolicyRule("allow", command="git push *"),))
    assert await own.permission(kind="execute", rawInput={"command": "git push origin"}) == YES_ONCE
    assert last(own).layer == "session"


async def test_a_rule_of_a_run_ends_with_it(agent_with: Build) -> None:
    agent = agent_with()
    agent.host.permissions.begin_run((PolicyRule("allow", command="make"),))
    assert await agent.permission(kind="execute", rawInput={"command": "make"}) == YES_ONCE
    agent.host.run_ended()
    agent.host.permissions.begin_run(())
    assert await agent.permission(kind="execute", rawInput={"command": "make"}) == REFUSED


async def test_a_workspaces_rules_count_from_the_moment_they_are_trusted(
    agent_with: Build, workspace: Workspace, home: Path
) -> None:
    file = workspace.cwd / ".dragoman" / "policy.toml"
    file.parent.mkdir()
    file.write_text('[[rules]]\nanswer = "deny"\npath = "*.lock"\n')
    agent = agent_with(access="edit-inside", sources=RuleSources(home))
    assert "not trusted it" in (agent.rules.notice or "")
    async with asyncio.timeout(TIMEOUT_S):
        await write(agent, "a.lock")
        trust(home, workspace.cwd)
        refusal = await agent.refused("fs/write_text_file", path=str(workspace.cwd / "a.lock"), content="x")
        assert "policy.toml:1" in refusal.message
        assert not agent.rules.notice
        file.write_text("")
        await write(agent, "a.lock")


async def test_rules_that_cannot_be_read_any_more_allow_nothing(
    agent_with: Build, workspace: Workspace, home: Path
) -> None:
    agent = agent_with(access="full", sources=RuleSources(home))
    async with asyncio.timeout(TIMEOUT_S):
        await write(agent)
        make_home(home)
        (home / REMEMBERED_FILE).write_text("{")
        refusal = await agent.refused("fs/write_text_file", path=str(workspace.cwd / "a.txt"), content="x")
    assert "nobody to ask" in refusal.message
    with pytest.raises(ConfigError):
        Rulebook(workspace, "full", RuleSources(home))


async def test_a_run_begins_though_the_rules_cannot_be_read_any_more(agent_with: Build, home: Path) -> None:
    agent = agent_with(sources=RuleSources(home))
    make_home(home)
    (home / REMEMBERED_FILE).write_text("{")
    agent.host.permissions.begin_run((PolicyRule("allow"),))
    async with asyncio.timeout(TIMEOUT_S):
        assert "nobody to ask" in (await agent.refused("terminal/create", command="make")).message
        (home / REMEMBERED_FILE).unlink()
        await write(agent)


async def test_a_file_that_changed_while_it_was_asked_about_is_not_overwritten(
    agent_with: Build, workspace: Workspace
) -> None:
    agent = agent_with(on_permission=answer_later)
    writing = asyncio.create_task(
        agent.refused("fs/write_text_file", path=str(workspace.cwd / "a.txt"), content="agent's\n")
    )
    await waiting(agent)
    (workspace.cwd / "a.txt").write_text("mine\n")
    assert agent.host.permissions.answer(1, "allow")
    async with asyncio.timeout(TIMEOUT_S):
        assert "was changed before the write was approved" in (await writing).message
    assert (workspace.cwd / "a.txt").read_text() == "mine\n"


async def test_a_file_that_has_the_text_already_is_not_asked_about(agent_with: Build, workspace: Workspace) -> None:
    (workspace.cwd / "a.txt").write_text("new\n")
    agent = agent_with(on_permission=Waits())
    async with asyncio.timeout(TIMEOUT_S):
        await write(agent)
    assert (last(agent).decision, last(agent).reason) == ("allow", "the file has this text already")


async def test_a_rule_against_it_holds_for_a_file_that_has_the_text_already(
    agent_with: Build, workspace: Workspace
) -> None:
    (workspace.cwd / "a.txt").write_text("new\n")
    agent = agent_with(on_permission=Waits(), session=(PolicyRule("deny", path="a.txt"),))
    await agent.refused("fs/write_text_file", path=str(workspace.cwd / "a.txt"), content="new\n")
    assert last(agent).decision == "deny"


async def test_the_text_of_a_file_that_may_not_be_touched_is_not_copied(
    agent_with: Build, workspace: Workspace
) -> None:
    (workspace.cwd / ".env").write_text("KEY=1\n")
    agent = agent_with(access="full", session=(PolicyRule("deny", path="**/.env"),))
    await agent.refused("fs/write_text_file", path=str(workspace.cwd / ".env"), content="x")
    assert "KEY=1" not in repr(agent.notes)


# -- reading through us


async def test_a_rule_holds_for_what_is_read_through_us(agent_with: Build, workspace: Workspace) -> None:
    (workspace.cwd / ".env").write_text("KEY=1\n")
    (workspace.cwd / "a.txt").write_text("a\n")
    agent = agent_with(access="full", session=(PolicyRule("deny", path="**/.env"), PolicyRule("ask", path="*.txt")))
    refusal = await agent.refused("fs/read_text_file", path=str(workspace.cwd / ".env"))
    assert refusal.code == -32001
    refusal = await agent.refused("fs/read_text_file", path=str(workspace.cwd / "a.txt"))
    assert "nobody to ask" in refusal.message


async def test_a_request_to_the_host_is_noted_with_its_options_before_it_is_answered(agent_with: Build) -> None:
    agent = agent_with(on_permission=answer_later)
    writing = write(agent)
    await waiting(agent)
    located, refusal = agent.notes
    assert isinstance(located, notes.File)
    assert isinstance(refusal, notes.PermissionRequested)
    assert (refusal.origin, refusal.title, refusal.kind) == ("files", "Write a.txt", "edit")
    assert [option.kind for option in refusal.options] == ["allow_once", "allow_always", "reject_once", "reject_always"]
    assert agent.host.permissions.answer(1, "allow")
    async with asyncio.timeout(TIMEOUT_S):
        await writing
    assert last(agent).option_id == "allow"


async def test_the_end_of_a_command_is_noted_with_its_last_words(agent_with: Build) -> None:
    agent = agent_with(access="full")
    async with asyncio.timeout(TIMEOUT_S):
        created = await agent.ask("terminal/create", command="sh", args=["-c", "echo last words; exit 3"])
        await agent.ask("terminal/wait_for_exit", terminalId=created["terminalId"])
    [end] = [note for note in agent.notes if isinstance(note, notes.TerminalExited)]
    assert (end.exit_code, end.output.strip(), end.terminal_id) == (3, "last words", created["terminalId"])
