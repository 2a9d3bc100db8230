"""Sessions whose every frame is in the journal before anyone is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from dragoman.errors import DragomanError
from dragoman.hub.hub import Hub
from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry
from dragoman.journal.errors import JournalFull, NotTheOwner
from dragoman.journal.maintenance import verify
from dragoman.journal.protocols import TranscriptPosition
from dragoman.journal.rows import RowChanges
from dragoman.journal.sqlite import MemoryJournal
from dragoman.record import events
from dragoman.session.client import LocalClient
from dragoman.session.options import SessionConfig
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec
from dragoman.testing.conformance import CHECKS, Check
from dragoman.testing.demo import demo_spec
from dragoman.testing.memory import TIMEOUT_S, config, runtime_of, session_of
from dragoman.testing.scripted import Answer, ReceivedRequest, ScriptedAgent, Turn
from dragoman.wire.vocabulary import EnvVariable, HttpHeader, McpServerHttp, McpServerStdio
from dragoman.workspace import Workspace
from hub.journaled import journal_client_of, journaled_session

NewHub = Callable[[], Hub]


class StallingJournal(MemoryJournal):
    """Commits a batch with a frame of this kind only once `released` is set; `reached` tells that it came to that."""

    def __init__(self, stalled_kind: str = "") -> None:
        super().__init__()
        self.stalled_kind = stalled_kind
        self.released = asyncio.Event()
        self.reached = asyncio.Event()
        self.problem: DragomanError | None = None

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = MappingProxyType({}),
        transcript_position: TranscriptPosition | None = None,
    ) -> Cursor:
        if any(entry.kind == self.stalled_kind for entry in entries):
            self.reached.set()
            await self.released.wait()
        if self.problem is not None:
            raise self.problem
        return await super().append(entries, changes, epochs=epochs, transcript_position=transcript_position)


# -- the same sessions


class KeptDemo:
    """The demo agent, kept in a file."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.folder = folder
        self.hub = hub

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AgentRuntime]:
        async with AgentRuntime(demo_spec(self.folder), journal_client=self.hub.journal_client) as runtime:
            yield runtime


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_journaled_session_keeps_the_promises_of_any(check: Check, tmp_path: Path, new_hub: NewHub) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with new_hub() as hub:
        await check(KeptDemo(folder, hub))
        assert await verify(hub.journal) == []


# -- kept before it is told


async def test_nothing_is_delivered_before_it_is_stored() -> None:
    journal = StallingJournal("agent_message_chunk")

    async def script(turn: Turn) -> None:
        await turn.say("told when kept")

    heard: list[events.Event] = []
    async with journaled_session(script, journal, on_event=heard.append) as session:
        run = session.run("go")
        await journal.reached.wait()
        assert [type(event) for event in heard if not isinstance(event, events.ProviderEvent)] == [events.RunStarted]
        assert not run.done
        journal.released.set()
        assert (await run).text == "told when kept"


async def test_a_cancelled_run_is_over_when_the_ends_of_its_commands_are_stored(tmp_path: Path) -> None:
    journal = StallingJournal("_dragoman/terminal_exited")

    async def script(turn: Turn) -> None:
        params = {"sessionId": turn.session_id, "command": "sleep", "args": ["60"]}
        await turn.agent.request("terminal/create", params)
        await turn.cancelled.wait()

    heard: list[str] = []
    settings: dict[str, Any] = {"workspace": Workspace(tmp_path), "access": "full"}
    async with journaled_session(script, journal, **settings) as session:
        run = session.run("go")
        async for event in run:
            heard.append(event.type)
            if isinstance(event, events.TerminalStarted):
                cancelling = asyncio.create_task(run.cancel())
                await journal.reached.wait()
                terminal = session.terminal(event.terminal_id)
                assert terminal is not None
                await terminal.end()
                for _ in range(20):
                    await asyncio.sleep(0)  # whatever else waited for the end of the command has its turn
                assert not run.done
                journal.released.set()
                await cancelling
    assert heard[-2:] == ["terminal.exited", "run.completed"]


async def test_nothing_is_written_to_the_agent_before_it_is_committed() -> None:
    journal = StallingJournal("session/prompt")
    agent = ScriptedAgent()
    async with journaled_session(agent, journal) as session:
        run = session.run("go")
        await journal.reached.wait()
        assert not agent.all_heard("session/prompt")
        journal.released.set()
        await run
        assert len(agent.all_heard("session/prompt")) == 1


async def test_a_full_disk_ends_the_session_with_its_own_error_and_nothing_more_is_emitted() -> None:
    journal = StallingJournal()

    async def script(turn: Turn) -> None:
        await turn.say("one")
        journal.problem = JournalFull("the journal could not be written, the disk is full")
        await turn.say("two")
        await turn.never()

    heard: list[str] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.AssistantDelta):
            heard.append(event.text)

    async with journaled_session(script, journal, on_event=listen) as session:
        with pytest.raises(JournalFull, match="the disk is full"):
            await session.run("go")
        assert session.status() == "error"
        assert "two" not in heard
        with pytest.raises(JournalFull):
            session.run("again")
        journal.problem = None  # there is room again: what waited is kept after all


async def test_a_note_that_the_full_disk_does_not_take_fails_before_and_after_the_agent_is_gone() -> None:
    journal = StallingJournal()

    def note() -> Awaitable[None]:
        return session.record_note(notes.write(notes.SessionRenamed(title="mine")))

    async with journaled_session(ScriptedAgent(), journal) as session:
        journal.problem = JournalFull("the journal could not be written, the disk is full")
        before = note()
        with pytest.raises(JournalFull):
            await session.run("go")
        with pytest.raises(JournalFull):
            await before
        with pytest.raises(JournalFull):
            await note()
        journal.problem = None


# -- what is kept


async def test_every_frame_is_stored_verbatim_and_in_order() -> None:
    journal = MemoryJournal()
    odd = b'{"jsonrpc":"2.0","method":"_vendor/odd",  "params":{"sessionId":"%s","x":[1, 2]},"_meta":{"a":1}}\n'

    async def script(turn: Turn) -> None:
        turn.agent.raw(b"this is no JSON\n")
        turn.agent.raw(odd % turn.session_id.encode())
        await turn.say("done")

    async with journaled_session(script, journal) as session:
        await session.run("go")
        agent_session_id = session.agent_session_id
        entries = (await journal.read()).entries
    frames = [entry.frame for entry in entries]
    assert b"this is no JSON" in frames
    assert (odd % agent_session_id.encode()).rstrip(b"\n") in frames
    assert [entry.n for entry in entries] == list(range(1, len(entries) + 1))
    kinds = [entry.kind for entry in entries]
    assert kinds[:2] == ["initialize", "initialize"]
    assert kinds.index("_dragoman/prompt") < kinds.index("session/prompt")


SECRET = "s3cret-of-ours"
SECRET_SERVERS = (
    McpServerStdio(name="env", command="true", args=(), env=(EnvVariable(name="NOTES_KEY", value=SECRET),)),
    McpServerStdio(name="args", command="true", args=("--api-key", SECRET), env=()),
    McpServerHttp(name="header", url="http://h/", headers=(HttpHeader(name="A", value=f"Bearer {SECRET}"),)),
    McpServerHttp(name="query", url=f"http://h/mcp?token={SECRET}", headers=()),
    McpServerHttp(name="user", url=f"http://me:{SECRET}@h/mcp", headers=()),
    McpServerHttp(name="meta", url="http://h/mcp", headers=(), meta={"key": SECRET}),
)


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_no_secret_of_ours_is_stored_live_replayed_or_in_a_handle(
    home: Path, tmp_path: Path, method: str
) -> None:
    """Neither of the frames that open a session, nor of those that continue it, nor in what it takes to do so."""
    offered = {"mcpCapabilities": {"http": True}, "loadSession": True, "sessionCapabilities": {"resume": {}}}

    async def retell(request: ReceivedRequest) -> object:
        request.agent.update(request.session_id, "user_message_chunk", content={"type": "text", "text": "go elsewhere"})
        return {}

    answers: dict[str, Answer] = {"session/load": retell, "session/resume": retell}
    settings = config(workspace=Workspace(tmp_path), mcp_servers=SECRET_SERVERS, access="full")
    spec = AgentSpec(command=["agent"], env={"MY_KEY": SECRET}, headers={"Authorization": SECRET})
    async with Hub(home) as hub:
        async with runtime_of(
            ScriptedAgent(capabilities=offered), spec=spec, journal_client=hub.journal_client
        ) as runtime:
            session = await runtime.open_session(settings)
            await session.run(f"use {SECRET}")
            handle = session.snapshot()
        again = ScriptedAgent(capabilities=offered, answers=answers)
        async with runtime_of(again, spec=spec, journal_client=hub.journal_client) as runtime:
            reopen = runtime.load_session if method == "session/load" else runtime.resume_session
            await (await reopen(handle, settings)).run("go on")
        [row] = await hub.sessions()
        origins = {entry.origin for entry in (await hub.journal.read(row.id)).entries}
        assert {"replay", "client", "host"} <= origins
        assert row.handle is not None
        assert "env MY_KEY" in row.handle
        assert SECRET.encode() not in all_bytes(home)
    assert SECRET.encode() not in all_bytes(home)


async def test_no_secret_of_ours_is_stored_with_a_real_process(new_hub: NewHub, home: Path, tmp_path: Path) -> None:
    async with new_hub() as hub:
        opened = hub.open_session(
            "demo", cwd=tmp_path, env={"MY_KEY": SECRET}, mcp_servers=SECRET_SERVERS[:2], access="full"
        )
        async with opened as session:
            await session.run("hello")
    assert SECRET.encode() not in all_bytes(home)


async def test_a_note_that_is_stored_without_its_secret_is_committed() -> None:
    journal = MemoryJournal()
    spec = AgentSpec(command=["agent"], env={"MY_KEY": SECRET})
    client = await journal_client_of(journal)
    async with session_of(ScriptedAgent(), runtime={"journal_client": client, "spec": spec}) as session:
        await session.record_note(notes.write(notes.SessionRenamed(title=f"about {SECRET}")))
        row = await journal.session(session.id)
        assert row is not None
        assert row.title == "about [secret:MY_KEY]"


async def test_a_variable_that_is_no_secret_leaves_the_folder_of_the_session_as_it_is(
    new_hub: NewHub, tmp_path: Path
) -> None:
    workspace = tmp_path / "my-app"
    workspace.mkdir()
    async with new_hub() as hub:
        async with hub.open_session("demo", cwd=workspace, env={"GOOGLE_CLOUD_PROJECT": "my-app"}) as session:
            await session.run("hello")
        row = await hub.journal.session(session.id)
        assert row is not None
        assert row.cwd == str(workspace)


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_the_agents_name_and_capabilities_are_stored_with_the_connection() -> None:
    journal = MemoryJournal()
    agent = ScriptedAgent(capabilities={"loadSession": True}, initialize={"agentInfo": {"name": "a", "version": "1"}})
    async with journaled_session(agent, journal):
        [connection] = await journal.connections()
    assert connection.protocol_version == 1
    assert connection.capabilities == msgspec.Raw(b'{"loadSession":true}')
    assert connection.agent_info == msgspec.Raw(b'{"name":"a","version":"1"}')


# -- coming back


async def test_a_session_continues_in_another_process_with_its_whole_history(new_hub: NewHub, tmp_path: Path) -> None:
    async with new_hub() as hub, hub.open_session("demo", cwd=tmp_path) as session:
        await session.run("hello")
        first, texts_sent = session.id, [message.text for message in session.fold.messages]
    async with new_hub() as hub:
        [row] = await hub.sessions()
        assert (row.id, row.agent, row.prompt, row.status) == (first, "demo", "hello", "success")
        async with hub.resume_session(first[:6]) as session:
            assert session.id == first
            assert [message.text for message in session.fold.messages] == texts_sent
            await session.run("hello")
        [row] = await hub.sessions()
        assert row.runs == 2
        assert await verify(hub.journal) == []


async def test_a_replayed_history_adds_nothing(new_hub: NewHub, tmp_path: Path) -> None:
    async with new_hub() as hub, AgentRuntime(demo_spec(tmp_path), journal_client=hub.journal_client) as runtime:
        async with await runtime.open_session(config(workspace=Workspace(tmp_path))) as session:
            await session.run("hello")
            handle = session.snapshot()
            before = await hub.journal.rows(session.id)
        async with await runtime.load_session(handle) as session:
            assert len(session.fold.messages) == len(before.messages)
        after = await hub.journal.rows(handle.session_id)
        assert after.messages == before.messages
        origins = {entry.origin for entry in (await hub.journal.read(handle.session_id)).entries}
        assert "replay" in origins


async def test_a_session_of_a_living_process_is_not_taken_from_it(new_hub: NewHub, tmp_path: Path) -> None:
    async with new_hub() as hub, new_hub() as other:
        async with hub.open_session("demo", cwd=tmp_path) as session:
            with pytest.raises(NotTheOwner):
                await other.resume_session(session.id)
            await session.run("hello")
        async with other.resume_session(session.id) as again:
            await again.run("hello")


async def test_a_session_that_cannot_be_opened_leaves_its_request_and_no_owner() -> None:
    journal = MemoryJournal()
    agent = ScriptedAgent(answers={"session/new": {}})
    client = await journal_client_of(journal)
    async with runtime_of(agent, journal_client=client) as runtime:
        with pytest.raises(DragomanError):
            await runtime.open_session(config())
    kinds = [entry.kind for entry in (await journal.read()).entries]
    assert "session/new" in kinds


async def test_a_client_keeps_what_it_opens(tmp_path: Path) -> None:
    journal = MemoryJournal()
    client = LocalClient(journal_client=await journal_client_of(journal))
    async with asyncio.timeout(TIMEOUT_S):
        session = await client.open(
            AgentSpec(command=demo_spec(tmp_path).command), SessionConfig(workspace=Workspace(tmp_path))
        )
        await session.run("hello")
        await client.close()
    [row] = await journal.sessions()
    assert row.handle is not None
    assert msgspec.json.decode(row.handle)["session_id"] == session.id


# -- updates that come before the answer that names their session


def early_speaker(*names: str) -> ScriptedAgent:
    """Return an agent that makes sessions of these names, and sends updates of each before its answer names it."""
    left = list(names)

    async def opened(request: ReceivedRequest) -> object:
        name = left.pop(0)
        request.agent.update(name, "agent_message_chunk", content={"type": "text", "text": f"early for {name}"})
        request.agent.raw(b"noise\n")
        return {"sessionId": name}

    return ScriptedAgent(answers={"session/new": opened})


async def test_an_update_before_its_session_has_an_id_is_stored_in_the_order_of_the_wire() -> None:
    journal = MemoryJournal()
    async with runtime_of(early_speaker("one", "two"), journal_client=await journal_client_of(journal)) as runtime:
        for name in ("one", "two"):
            before = len((await journal.read()).entries)
            session = await runtime.open_session(config())
            assert [message.text for message in session.fold.messages] == [f"early for {name}"]
            entries = (await journal.read()).entries[before:]
            assert [(entry.kind, entry.session_id) for entry in entries][:4] == [
                ("session/new", session.id),
                ("agent_message_chunk", session.id),
                ("noise", None),
                ("session/new", session.id),
            ]


async def test_an_update_that_could_be_anothers_waits_for_the_name_of_its_session() -> None:
    journal = MemoryJournal()
    busy = asyncio.Event()

    async def script(turn: Turn) -> str:
        busy.set()
        return await turn.wait_cancelled()

    async def opened(request: ReceivedRequest) -> object:
        made = len(request.agent.all_heard("session/new"))
        for name in ("a helper of the first", "two") if made == 2 else ():
            request.agent.update(name, "agent_message_chunk", content={"type": "text", "text": f"early for {name}"})
        return {"sessionId": "two" if made == 2 else "one"}

    agent = ScriptedAgent(script, answers={"session/new": opened})
    async with runtime_of(agent, journal_client=await journal_client_of(journal)) as runtime:
        first = await runtime.open_session(config())
        run = first.run("go")
        await busy.wait()
        second = await runtime.open_session(config())
        await run.cancel()
        assert [message.text for message in second.fold.messages] == ["early for two"]
        kinds = [entry.kind for entry in (await journal.read(second.id)).entries]
        assert kinds[:3] == ["session/new", "agent_message_chunk", "session/new"]
        strays = [one.frame for one in (await journal.read()).entries if one.session_id is None]
        assert any(b"a helper of the first" in frame for frame in strays)
        assert await verify(journal) == []


async def test_a_late_update_of_a_closed_session_does_not_belong_to_the_next_one() -> None:
    journal = MemoryJournal()

    async def opened(request: ReceivedRequest) -> object:
        made = len(request.agent.all_heard("session/new"))
        if made == 2:
            request.agent.update("session-1", "agent_message_chunk", content={"type": "text", "text": "late"})
        return {"sessionId": f"session-{made}"}

    async with runtime_of(
        ScriptedAgent(answers={"session/new": opened}), journal_client=await journal_client_of(journal)
    ) as runtime:
        await (await runtime.open_session(config())).close()
        session = await runtime.open_session(config())
        assert not session.fold.messages
        assert "agent_message_chunk" in [one.kind for one in (await journal.read()).entries if one.session_id is None]
