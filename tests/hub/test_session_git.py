"""Git actions of sessions: notes in the journal, agents at work, planted hooks, and messages that an agent proposes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config import load
from dragoman.errors import GitActionError, InputError, SandboxUnavailable
from dragoman.hub.commit_message import clean_message, propose_message
from dragoman.hub.hub import Hub
from dragoman.hub.session_git import folder_git, session_git
from dragoman.record.events import GitAction
from dragoman.session.session import Session
from dragoman.testing.memory import session_of
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.workspace import Workspace
from dragoman.workspace.commit_diff import describe_changes
from workspace.repositories import Clone, StandIn, git, only_these_programs

NewHub = Callable[[], Hub]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@asynccontextmanager
async def opened(
    hub: Hub, clone: Clone, script: Callable[[Turn], Awaitable[object]] | None = None, **settings: Any
) -> AsyncIterator[Session]:
    async def answer(turn: Turn) -> None:
        if script is not None:
            await script(turn)
        await turn.say("Done.")

    runtime = {"journal_client": hub.journal_client}
    workspace = Workspace(clone.root)
    async with session_of(ScriptedAgent(answer), runtime=runtime, workspace=workspace, **settings) as session:
        yield session


async def notices(hub: Hub, session_id: str) -> list[tuple[str, str | None]]:
    return [(notice.title, notice.text) for notice in (await hub.journal.rows(session_id)).notices]


async def test_what_was_done_is_in_the_history_of_the_session(
    new_hub: NewHub, clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = only_these_programs(tmp_path, monkeypatch)
    StandIn(programs, "gh").answer(create={"stdout": "https://github.com/ada/engine/pull/7\n"})
    events: list[object] = []
    async with new_hub() as hub, opened(hub, clone, on_event=events.append) as session:
        clone.git("remote", "set-url", "origin", "https://github.com/ada/engine")
        clone.git("remote", "set-url", "--push", "origin", str(clone.bare))
        clone.git("switch", "--quiet", "-c", "feature")
        clone.write("a.txt", "changed\n")
        assert (await session.git.state()).file_count == 1
        made = await session.git.commit("Add retries\n\nBecause.", trust_repository=True)
        await session.git.push()
        assert (await session.git.push()).is_up_to_date
        assert (await session.git.open_pull_request()).is_new
        actions = [event for event in events if isinstance(event, GitAction)]
        assert [(event.action, event.branch, event.commit) for event in actions] == [
            ("commit", "feature", made.commit),
            ("push", "feature", made.commit),
            ("pull_request", "feature", None),
        ]
        assert await notices(hub, session.id) == [
            (f"Committed {made.commit[:10]} on feature: Add retries", None),
            (f"Pushed feature ({made.commit[:10]}) to origin", str(clone.bare)),
            ("Opened a pull request: Add retries", "https://github.com/ada/engine/pull/7"),
        ]
        session_id = session.id
    async with new_hub() as hub:  # it is not open any more
        clone.write("a.txt", "again\n")
        actions_of = await session_git(hub, load(), session_id)
        await actions_of.commit("Closed")
        assert [title for title, _ in await notices(hub, session_id)][-1].endswith("on feature: Closed")


async def test_a_session_without_a_journal_has_git_too(clone: Clone) -> None:
    events: list[object] = []
    agent = ScriptedAgent()
    async with session_of(agent, workspace=Workspace(clone.root), on_event=events.append) as session:
        clone.write("a.txt", "changed\n")
        clone.hook("pre-commit", "true")
        assert (await session.git.state()).untrusted == ()
        made = await session.git.commit("Unrecorded")
        assert [event.commit for event in events if isinstance(event, GitAction)] == [made.commit]


async def test_an_owner_in_another_process_records_it(new_hub: NewHub, clone: Clone) -> None:
    async with new_hub() as owner, new_hub() as other, opened(owner, clone) as session:
        await session.run("hello")
        clone.write("a.txt", "changed\n")
        assert await other.owned_elsewhere(session.id)
        await (await session_git(other, load(), session.id)).commit("From elsewhere")
        titles = [notice.title for notice in session.fold.notices.values()]
        assert titles[0].endswith("on main: From elsewhere")


async def test_a_commit_is_refused_while_an_agent_works_there(new_hub: NewHub, clone: Clone) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> None:
        begun.set()
        await go_on.wait()

    async with new_hub() as hub, opened(hub, clone, script) as session, opened(hub, clone) as second:
        await second.run("hello")
        run = session.run("work")
        await begun.wait()
        clone.write("sub/new", "new\n")
        for actions in (
            session.git,
            await session_git(hub, load(), second.id),
            folder_git(hub, load(), clone.root / "sub"),
        ):
            assert (await actions.state()).running == (session.id,)
            with pytest.raises(GitActionError, match=f"an agent is at work in these files \\(session {session.id}"):
                await actions.commit("too early")
        await session.git.push()
        await session.git.commit("anyway", while_running=True)
        go_on.set()
        await run
        clone.write("sub/new", "newer\n")
        await session.git.commit("now")


async def test_a_hook_that_an_agent_planted_is_not_run(new_hub: NewHub, clone: Clone, tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    async def script(turn: Turn) -> None:
        clone.hook("pre-commit", f"touch {ran}")
        clone.git("config", "core.sshCommand", f"touch {ran}")
        clone.write("a.txt", "changed\n")

    async with new_hub() as hub, opened(hub, clone, script) as session:
        assert (await session.git.state()).untrusted == ()
        await session.run("plant")
        state = await session.git.state()
        assert state.untrusted == ("hook pre-commit (new)", "setting core.sshcommand (new)")
        assert [file.path for file in state.files] == ["a.txt"]
        for action in (session.git.commit("no"), session.git.push(), session.git.open_pull_request("no")):
            with pytest.raises(GitActionError, match=r"hook pre-commit \(new\), setting core\.sshcommand \(new\)"):
                await action
        assert not ran.exists()
        async with opened(hub, clone) as next_session:  # which finds the hook there
            with pytest.raises(GitActionError, match="hook pre-commit"):
                await next_session.git.commit("no")
        await session.git.commit("looked at", trust_repository=True)
        assert ran.exists()
        assert (await session.git.state()).untrusted == ()


async def test_a_cancelled_commit_ends_its_hook(new_hub: NewHub, clone: Clone, tmp_path: Path) -> None:
    started = tmp_path / "started"
    for name in ("started", "never"):
        os.mkfifo(tmp_path / name)
    clone.hook("pre-commit", f"echo now > {started}; cat {tmp_path / 'never'}")
    async with new_hub() as hub, opened(hub, clone) as session:
        clone.write("a.txt", "changed\n")
        commit = asyncio.ensure_future(session.git.commit("never"))
        assert await asyncio.to_thread(started.read_text) == "now\n"
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
    assert clone.git("status", "--porcelain") == " M a.txt"
    assert not (clone.root / ".git" / "index.lock").exists()


async def test_a_session_that_is_unknown_or_whose_folder_is_gone(new_hub: NewHub, clone: Clone, tmp_path: Path) -> None:
    async with new_hub() as hub:
        with pytest.raises(InputError, match="there is no session"):
            await session_git(hub, load(), "missing")
        async with opened(hub, clone) as session:
            await session.run("hello")
        clone.root.rename(tmp_path / "moved")
        with pytest.raises(InputError, match="not on this machine"):
            await session_git(hub, load(), session.id)


async def test_a_folder_without_git_has_no_state(new_hub: NewHub, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    async with new_hub() as hub:
        with pytest.raises(GitActionError, match="in no git repository"):
            await folder_git(hub, load(), tmp_path / "plain").state()


# -- proposed messages

_AGENT = """
import json, sys
log = open({log!r}, "a")
def send(**message):
    print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)
def write(session, text):
    chunk = {{"sessionUpdate": "agent_message_chunk", "content": {{"type": "text", "text": text}}}}
    send(method="session/update", params={{"sessionId": session, "update": chunk}})
for line in sys.stdin:
    message = json.loads(line)
    log.write(line)
    log.flush()
    method = message.get("method")
    if method == "initialize":
        send(id=message["id"], result={{"protocolVersion": 1, "agentCapabilities": {{}}}})
    elif method == "session/new":
        send(id=message["id"], result={{"sessionId": "s"}})
    elif method == "session/prompt" and "Write the message" not in line:
        write("s", "Hello.")
        send(id=message["id"], result={{"stopReason": "end_turn"}})
    elif method == "session/prompt":
        prompt = message["id"]
        names = {{"yes": "allow_once", "no": "reject_once"}}
        options = [{{"optionId": name, "name": name, "kind": kind}} for name, kind in names.items()]
        call = {{"toolCallId": "c", "title": "rm -rf", "kind": "execute"}}
        asked = {{"sessionId": "s", "toolCall": call, "options": options}}
        send(id=1, method="session/request_permission", params=asked)
    elif method is None:
        write("s", "```\\nAdd retries\\n\\nBecause.\\n```")
        send(id=prompt, result={{"stopReason": "end_turn"}})
"""


class StdioAgent:
    """An agent that asks for a permission and then proposes a message; what it receives is in a log."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "agent.log"
        script = folder / "agent.py"
        script.write_text(_AGENT.format(log=str(self._log)))
        self.command = (sys.executable, str(script))

    def received(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def prompts(self) -> str:
        return "".join(json.dumps(message) for message in self.received() if message.get("method") == "session/prompt")

    def prompt(self) -> str:
        prompts = [message["params"] for message in self.received() if message.get("method") == "session/prompt"]
        return str(prompts[-1]["prompt"][0]["text"])


async def test_the_agent_proposes_a_message_in_a_session_of_its_own(
    new_hub: NewHub, clone: Clone, tmp_path: Path
) -> None:
    agent = StdioAgent(tmp_path)
    home_settings = tmp_path / "home" / "config.toml"
    home_settings.parent.mkdir(exist_ok=True)
    home_settings.write_text('[[policy]]\nanswer = "allow"\nkind = "execute"\n')
    async with new_hub() as hub, hub.open_session(agent.command, cwd=clone.root, access="full") as session:
        await session.run("hello")
        clone.write("a.txt", "b\n")
        clone.write("new.txt", "a new line\n")
        clone.write(".env", "TOKEN=secret\n")
        clone.write("binary", "\0")
        proposed = await session.git.propose_message()
        assert proposed.message == "Add retries\n\nBecause."
        sessions = await hub.sessions()
        assert [row.id for row in sessions] == [session.id]
        assert len(session.fold.runs) == 1
        hub_git = await session_git(hub, load(), session.id)
        proposed = await hub_git.propose_message()
        assert proposed.hidden_paths == (".env",)
    prompt = agent.prompt()
    assert "-a\n+b\n" in prompt
    assert "new file new.txt\n+a new line\n" in prompt
    assert "added: .env" in prompt
    assert "secret" not in prompt
    assert "The last commits, for the style:\nfirst\n" in prompt
    received = agent.received()
    answers = [message["result"] for message in received if "result" in message]
    assert answers == [{"outcome": {"outcome": "selected", "optionId": "no"}}] * 2
    opened_in = [message["params"]["cwd"] for message in received if message.get("method") == "session/new"]
    assert opened_in[0] == str(clone.root)
    assert len(opened_in) == 3
    for folder in map(Path, opened_in[1:]):
        assert folder.name.startswith("dragoman-message-")
        assert folder.name not in os.listdir(folder.parent)
    offered = [message["params"]["clientCapabilities"] for message in received if message.get("method") == "initialize"]
    assert offered[0]["fs"]
    assert all(not each.get("fs") and not each.get("terminal") for each in offered[1:])


async def test_the_agent_of_a_session_in_a_sandbox_is_asked_in_one(
    new_hub: NewHub, clone: Clone, tmp_path: Path
) -> None:
    agent = StdioAgent(tmp_path)
    async with new_hub() as hub, hub.open_session(agent.command, cwd=clone.root) as session:
        clone.write("a.txt", "b\n")
        handle = msgspec.structs.replace(session.snapshot(), sandbox="seatbelt")  # which is not for this system
        changes = await asyncio.to_thread(describe_changes, clone.repository)
        with pytest.raises(SandboxUnavailable):
            await propose_message(None, handle, changes)
    assert "Write the message" not in agent.prompts()


async def test_a_long_difference_is_shortened_file_by_file(new_hub: NewHub, clone: Clone, tmp_path: Path) -> None:
    agent = StdioAgent(tmp_path)
    clone.write("lock", "".join(f"old {number}\n" for number in range(20_000)))
    clone.git("add", "lock")
    clone.git("commit", "--quiet", "-m", "lock")
    async with new_hub() as hub, hub.open_session(agent.command, cwd=clone.root) as session:
        clone.write("lock", "".join(f"new {number}\n" for number in range(20_000)))
        clone.write("zebra", "the change that matters\n")
        proposed = await session.git.propose_message()
        assert proposed.is_shortened
        assert "the change that matters" in agent.prompt()
        assert len(agent.prompt()) < 20_000
        await session.git.propose_message(paths=["zebra"])
        assert "old 1\n" not in agent.prompt()
        clone.git("add", "zebra")
        await session.git.propose_message(only_staged=True)
        assert "the change that matters" in agent.prompt()
        assert "old 1\n" not in agent.prompt()
        clone.git("stash", "--quiet", "--include-untracked")
        with pytest.raises(GitActionError, match="nothing to commit"):
            await session.git.propose_message()


async def test_the_first_commit_gets_a_message_too(new_hub: NewHub, tmp_path: Path) -> None:
    agent = StdioAgent(tmp_path)
    unborn = tmp_path / "unborn"
    git(tmp_path, "init", "--quiet", str(unborn))
    (unborn / "one").write_text("the first line\n")
    git(unborn, "add", "one")
    async with new_hub() as hub, hub.open_session(agent.command, cwd=unborn) as session:
        await session.git.propose_message()
    assert "+the first line" in agent.prompt()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("Add retries", "Add retries"),
        (" \nAdd retries  \n\nBecause.\n", "Add retries\n\nBecause."),
        ("Here is the message:\n\n```text\nAdd retries\n```\nAnything else?", "Add retries"),
        ('"Add retries"', "Add retries"),
        ('"Add" and "retries"', '"Add" and "retries"'),
        ("``` ```", "``` ```"),
        ("", ""),
    ],
)
def test_the_message_is_taken_out_of_the_answer(answer: str, message: str) -> None:
    assert clean_message(answer) == message
