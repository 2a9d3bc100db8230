"""Sessions whose every frame is in the journal before anyone is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest

from dragoman.errors import DragomanError
from dragoman.hub.hub import Hub
from dragoman.hub.identity import alive, this_process
from dragoman.journal.entry import Cursor, Entry
from dragoman.journal.errors import JournalFull, NotTheOwner
from dragoman.journal.memory import MemoryJournal
from dragoman.journal.rows import RowChanges
from dragoman.journal.store import Position
from dragoman.journal.upkeep import verify
from dragoman.session.client import LocalClient
from dragoman.session.keeping import Keeper
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec, SessionConfig
from dragoman.testing.conformance import CHECKS, Check
from dragoman.testing.demo import demo_spec
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.testing.stage import LIMIT, config, runtime_of, session_of
from dragoman.views import events
from dragoman.wire.vocabulary import EnvVariable, McpServerStdio
from dragoman.workspace import Workspace

NewHub = Callable[[], Hub]


class Held(MemoryJournal):
    """Commits what has a frame of the kind `held` only once `open` is set; `reached` tells that it came to that."""

    def __init__(self, held: str = "") -> None:
        super().__init__()
        self.held = held
        self.open = asyncio.Event()
        self.reached = asyncio.Event()
        self.problem: DragomanError | None = None

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = MappingProxyType({}),
        position: Position | None = None,
    ) -> Cursor:
        if any(entry.kind == self.held for entry in entries):
            self.reached.set()
            await self.open.wait()
        if self.problem is not None:
            raise self.problem
        return await super().append(entries, changes, epochs=epochs, position=position)


async def keeper_of(journal: MemoryJournal) -> Keeper:
    process = this_process()
    await journal.heartbeat(process)
    return Keeper(journal, process, alive)


@asynccontextmanager
async def kept_session(
    agent: ScriptedAgent | Callable[[Turn], object], journal: MemoryJournal, **settings: object
) -> AsyncIterator[Session]:
    keeper = await keeper_of(journal)
    async with session_of(agent, runtime={"keeper": keeper}, **settings) as session:  # type: ignore[arg-type]
        yield session


# -- the same sessions


class KeptDemo:
    """The demo agent, kept in a file."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.folder = folder
        self.hub = hub

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AgentRuntime]:
        async with AgentRuntime(demo_spec(self.folder), keeper=self.hub.keeper) as runtime:
            yield runtime


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_kept_session_keeps_the_promises_of_any(check: Check, tmp_path: Path, new_hub: NewHub) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with new_hub() as hub:
        await check(KeptDemo(folder, hub))
        assert await verify(hub.journal) == []


# -- kept before it is told


async def test_nothing_is_told_before_it_is_kept() -> None:
    journal = Held("agent_message_chunk")

    async def script(turn: Turn) -> None:
        await turn.say("told when kept")

    heard: list[events.Event] = []
    async with kept_session(script, journal, on_event=heard.append) as session:
        run = session.run("go")
        await journal.reached.wait()
        assert [type(event) for event in heard if not isinstance(event, events.ProviderEvent)] == [events.RunStarted]
        assert not run.done
        journal.open.set()
        assert (await run).text == "told when kept"


async def test_nothing_is_written_to_the_agent_before_it_is_kept() -> None:
    journal = Held("session/prompt")
    agent = ScriptedAgent()
    async with kept_session(agent, journal) as session:
        run = session.run("go")
        await journal.reached.wait()
        assert not agent.all_heard("session/prompt")
        journal.open.set()
        await run
        assert len(agent.all_heard("session/prompt")) == 1


async def test_a_full_disk_ends_the_session_with_its_own_error_and_tells_nothing_more() -> None:
    journal = Held()

    async def script(turn: Turn) -> None:
        await turn.say("one")
        journal.problem = JournalFull("the journal could not be written, the disk is full")
        await turn.say("two")
        await turn.never()

    heard: list[str] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.AssistantDelta):
            heard.append(event.text)

    async with kept_session(script, journal, on_event=listen) as session:
        with pytest.raises(JournalFull, match="the disk is full"):
            await session.run("go")
        assert session.status() == "error"
        assert "two" not in heard
        with pytest.raises(JournalFull):
            session.run("again")
        journal.problem = None  # there is room again: what waited is kept after all


# -- what is kept


async def test_everything_that_was_said_is_kept_verbatim_and_in_order() -> None:
    journal = MemoryJournal()
    odd = b'{"jsonrpc":"2.0","method":"_vendor/odd",  "params":{"sessionId":"%s","x":[1, 2]},"_meta":{"a":1}}\n'

    async def script(turn: Turn) -> None:
        turn.agent.raw(b"this is no JSON\n")
        turn.agent.raw(odd % turn.session_id.encode())
        await turn.say("done")

    async with kept_session(script, journal) as session:
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


async def test_no_secret_of_ours_is_kept(new_hub: NewHub, home: Path, tmp_path: Path) -> None:
    planted = {"variable": "s3cret-of-the-env", "server": "s3cret-of-the-server"}
    server = McpServerStdio(
        name="notes", command="true", args=(), env=(EnvVariable(name="NOTES_KEY", value=planted["server"]),)
    )
    async with new_hub() as hub:
        opened = hub.open_session(
            "demo", cwd=tmp_path, env={"MY_KEY": planted["variable"]}, mcp_servers=(server,), access="full"
        )
        async with opened as session:
            await session.run("hello")
    assert [name for name, value in planted.items() if value.encode() in all_bytes(home)] == []


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_what_the_agent_says_of_itself_is_kept_with_the_connection() -> None:
    journal = MemoryJournal()
    agent = ScriptedAgent(capabilities={"loadSession": True}, initialize={"agentInfo": {"name": "a", "version": "1"}})
    async with kept_session(agent, journal):
        [connection] = await journal.connections()
    assert connection.protocol_version == 1
    assert connection.capabilities == msgspec.Raw(b'{"loadSession":true}')
    assert connection.agent_info == msgspec.Raw(b'{"name":"a","version":"1"}')


# -- coming back


async def test_a_session_goes_on_in_another_process_with_all_that_was_said(new_hub: NewHub, tmp_path: Path) -> None:
    async with new_hub() as hub, hub.open_session("demo", cwd=tmp_path) as session:
        await session.run("hello")
        first, said = session.id, [message.text for message in session.fold.messages]
    async with new_hub() as hub:
        [row] = await hub.sessions()
        assert (row.id, row.agent, row.prompt, row.status) == (first, "demo", "hello", "success")
        async with hub.resume_session(first[:6]) as session:
            assert session.id == first
            assert [message.text for message in session.fold.messages] == said
            await session.run("hello")
        [row] = await hub.sessions()
        assert row.runs == 2
        assert await verify(hub.journal) == []


async def test_a_history_that_is_told_again_adds_nothing(new_hub: NewHub, tmp_path: Path) -> None:
    async with new_hub() as hub, AgentRuntime(demo_spec(tmp_path), keeper=hub.keeper) as runtime:
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
    keeper = await keeper_of(journal)
    async with runtime_of(agent, keeper=keeper) as runtime:
        with pytest.raises(DragomanError):
            await runtime.open_session(config())
    kinds = [entry.kind for entry in (await journal.read()).entries]
    assert "session/new" in kinds


async def test_a_client_keeps_what_it_opens(tmp_path: Path) -> None:
    journal = MemoryJournal()
    client = LocalClient(keeper=await keeper_of(journal))
    async with asyncio.timeout(LIMIT):
        session = await client.open(
            AgentSpec(command=demo_spec(tmp_path).command), SessionConfig(workspace=Workspace(tmp_path))
        )
        await session.run("hello")
        await client.close()
    [row] = await journal.sessions()
    assert row.handle is not None
    assert msgspec.json.decode(row.handle)["session_id"] == session.id
