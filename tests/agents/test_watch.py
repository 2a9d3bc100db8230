"""Claude Code and Codex at work in another process: what they do comes into the journal while they do it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.socket_client import real_server
from dragoman import AgentRuntime
from dragoman.host.policy.rulebook import RuleSources
from dragoman.hub.identity import is_alive, this_process
from dragoman.journal.maintenance import verify
from dragoman.journal.protocols import Journal
from dragoman.journal.sqlite import MemoryJournal
from dragoman.session.journal_client import JournalClient
from dragoman.translate.ingest.watcher import Watcher
from translate.watched import modes, until, wait_for_text

from .acts import allow
from .catalog import AGENTS, RealAgent
from .conftest import TIMEOUT_S, Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Where each agent's own program is among what was installed, how it is told to do as it is asked, how to go on with a
# session, and how it is asked to wait for a command.
PROGRAMS = {
    "claude": (
        "@anthropic-ai/claude-agent-sdk-*/claude",
        ["--allowedTools", "Bash", "-p"],
        "--resume",
        'Bash {"command": "COMMAND"}',
    ),
    "codex": (
        "@openai/codex-*/vendor/*/bin/codex",
        ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"],
        "resume",
        'exec_command {"cmd": "COMMAND", "yield_time_ms": 30000}',
    ),
}


@pytest.fixture(params=[one for one in AGENTS if one.id in PROGRAMS], ids=lambda agent: agent.id, scope="module")
def agent(request: pytest.FixtureRequest) -> RealAgent:
    chosen: RealAgent = request.param
    return chosen


def _environment(stage: Stage) -> dict[str, str]:
    every: dict[str, str | None] = {**os.environ, **stage.env}
    return {name: value for name, value in every.items() if value is not None}


def _command(stage: Stage, prompt: str, resumed: str | None) -> list[str]:
    pattern, arguments, resume, _ = PROGRAMS[stage.agent.id]
    found = [path for programs in stage.programs for path in programs.parent.glob(pattern)]
    if not found:
        pytest.skip(f"{stage.agent.id} came without a program for this machine")
    return [str(found[0]), *arguments, *([] if resumed is None else [resume, resumed]), prompt]


@asynccontextmanager
async def _started(stage: Stage, prompt: str, resumed: str | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *_command(stage, prompt, resumed),
        cwd=stage.folder,
        env=_environment(stage),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _watcher(stage: Stage, journal: Journal) -> Watcher:
    on = modes(stage.home, f'[watch]\n{stage.agent.id} = "on"\n')
    return Watcher(journal, on, environment=_environment(stage), home=stage.home)


def _watching(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a home whose server watches the agent."""
    for name, value in _environment(stage).items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "dragoman"
    home.mkdir()
    (home / "config.toml").write_text(f'[watch]\n{stage.agent.id} = "on"\n')
    return home


def _gate(stage: Stage, tmp_path: Path) -> tuple[Path, str]:
    """Make a pipe that the agent's tool waits on, and the call that waits."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    return gate, PROGRAMS[stage.agent.id][-1].replace("COMMAND", f"cat {gate}")


async def _wait_for_answer(journal: Journal, words: str) -> None:
    """Wait until the agent has said this: the words are in the prompt, too."""
    await until(
        journal,
        lambda entries: any(entry.kind == "agent_message_chunk" and words.encode() in entry.frame for entry in entries),
    )


async def test_what_it_does_in_another_process_is_seen_while_it_does_it(stage: Stage, tmp_path: Path) -> None:
    gate, call = _gate(stage, tmp_path)
    prompt = f"[[tool:{call}]][[say:Gone through.]]"
    async with asyncio.timeout(TIMEOUT_S), MemoryJournal() as journal, _watcher(stage, journal):
        async with _started(stage, prompt) as process:
            await until(journal, lambda entries: any(entry.kind == "tool_call" for entry in entries))
            assert process.returncode is None
            assert (await journal.sessions())[0].status == "running"
            await asyncio.to_thread(gate.write_text, "open\n")
            await process.wait()
        await wait_for_text(journal, '"stopReason":"end_turn"')
        (session,) = await journal.sessions()
        rows = await journal.rows(session.id)
        assert (session.agent, session.cwd, session.runs) == (stage.agent.id, str(stage.folder), 1)
        assert session.status == "success"
        assert rows.messages[-1].text == "Gone through."
        assert [call.status for call in rows.tool_calls] == ["completed"]
        assert await verify(journal) == []


async def test_what_dragoman_runs_itself_is_not_doubled(stage: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S), MemoryJournal() as journal, _watcher(stage, journal) as watch:
        await watch.settled()
        process = this_process()
        await journal.heartbeat(process)
        client = JournalClient(journal, process, is_alive)
        sources = RuleSources(stage.home / ".dragoman")
        async with AgentRuntime(stage.spec, sources=sources, journal_client=client) as runtime:
            session = await runtime.open_session(stage.config(allow))
            await session.run("[[say:Of our own.]]")
            await session.run("[[say:And once more.]]")
        async with _started(stage, "[[say:Of another one.]]") as other:
            await other.wait()
        await _wait_for_answer(journal, "Of another one.")
        await watch.settled()
        (status,) = [one for one in watch.status() if one.provider == stage.agent.id]
        assert status.files == 2
        agents_ids = [one.agent_session_id for one in await journal.sessions()]
        assert len(agents_ids) == len(set(agents_ids)) == 2
        assert session.snapshot().agent_session_id in agents_ids


async def test_what_is_said_in_a_terminal_after_dragoman_ran_it_joins_its_session(stage: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S), MemoryJournal() as journal, _watcher(stage, journal) as watch:
        await watch.settled()
        process = this_process()
        await journal.heartbeat(process)
        client = JournalClient(journal, process, is_alive)
        async with AgentRuntime(
            stage.spec, sources=RuleSources(stage.home / ".dragoman"), journal_client=client
        ) as runtime:
            session = await runtime.open_session(stage.config(allow))
            await session.run("[[say:Of our own.]]")
        async with _started(stage, "[[say:From a terminal.]]", session.snapshot().agent_session_id) as terminal:
            await terminal.wait()
        await _wait_for_answer(journal, "From a terminal.")
        await watch.settled()
        assert [one.id for one in await journal.sessions()] == [session.id]
        rows = await journal.rows(session.id)
        message = [message.text for message in rows.messages if message.kind == "assistant"]
        assert message == ["Of our own.", "From a terminal."]
        assert len(rows.runs) == 2
        assert await verify(journal) == []


async def test_a_client_on_the_socket_sees_it_live(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _watching(stage, tmp_path, monkeypatch)
    gate, call = _gate(stage, tmp_path)
    async with asyncio.timeout(TIMEOUT_S), real_server(home) as server, server.client() as talk:
        await talk.send(type="subscribe", stream="sessions")
        async with _started(stage, f"[[tool:{call}]][[say:Gone through.]]") as process:
            listed = await talk.until(
                lambda message: any(item["status"] == "running" for item in message.get("changed", ()))
            )
            view = await talk.follow(listed["changed"][0]["id"])
            await talk.wait_for(view, lambda view: bool(view.rows("tool_calls")))
            assert process.returncode is None
            await asyncio.to_thread(gate.write_text, "open\n")
            await process.wait()
        await talk.wait_for(view, lambda view: view.settled and "Gone through." in "".join(view.texts()))
        assert view.session["imported"]


async def test_what_was_left_in_a_terminal_in_the_middle_of_a_run_goes_on_here(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _watching(stage, tmp_path, monkeypatch)
    gate, call = _gate(stage, tmp_path)
    async with asyncio.timeout(TIMEOUT_S), real_server(home) as server, server.client() as talk:
        await talk.send(type="subscribe", stream="sessions")
        async with _started(stage, f"[[tool:{call}]][[say:Gone through.]]"):
            listed = await talk.until(
                lambda message: any(item["status"] == "running" for item in message.get("changed", ()))
            )
            session_id = listed["changed"][0]["id"]
            view = await talk.follow(session_id)
            await talk.wait_for(view, lambda view: bool(view.rows("tool_calls")))
            assert view.state["connection"] == "watched"
        os.close(os.open(gate, os.O_RDWR))  # its command ends, which the killed agent has left running
        opened = await talk.call("session.resume", session_id=session_id)
        assert (opened["state"]["connection"], opened["state"]["status"]) == ("connected", "idle")
        await talk.call("session.prompt", session_id=session_id, text="[[say:Here again.]]")
        await talk.wait_for(view, lambda view: view.settled and "Here again." in "".join(view.texts()))
        assert [run["status"] for run in view.rows("runs")] == ["interrupted", "success"]
        assert view.texts() == ["Here again."]
