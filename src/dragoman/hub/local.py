"""Sessions on this machine, for programs: `open_session`, `resume_session`, `run`, and their blocking twins.

All sessions that a program opens here are stored in the journal of the user's home folder, unless `journal=False` or
`DRAGOMAN_JOURNAL=off` says otherwise. They share one hub for each event loop, which opens with the first session and
closes with the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, Unpack, cast
from weakref import WeakKeyDictionary

from dragoman.config import Config, load
from dragoman.hub.hub import Hub
from dragoman.journal.errors import JournalError
from dragoman.session.client import Agent, LocalClient, LocalSession, Opening, client_from_options
from dragoman.session.handle import SessionHandle, read_handle, resumed_config, with_servers
from dragoman.session.journal_client import JournalClient
from dragoman.session.options import (
    LocalOptions,
    LocalRunOptions,
    ProcessOptions,
    ResumeOptions,
    RunLimitOptions,
    check_keywords,
    session_config,
)
from dragoman.session.prompt import Input
from dragoman.session.run import RunResult
from dragoman.session.session import Session
from dragoman.session.sync import SyncSession, background
from dragoman.session.sync_worktrees import SyncWorktrees
from dragoman.session.worktree import worktrees_of
from dragoman.workspace.worktrees import Worktrees

T = TypeVar("T")

HandleSource = SessionHandle | str | bytes | Mapping[str, object]


class _SharedHub:
    """The hub of all sessions that are opened here in one event loop with one home folder."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._hub: Hub | None = None
        self._users = 0
        self._lock = asyncio.Lock()

    async def acquire(self) -> JournalClient:
        async with self._lock:
            if self._hub is None:
                start = asyncio.ensure_future(Hub(config=self._config).start())
                try:
                    self._hub = await _uninterrupted(start)
                except asyncio.CancelledError:
                    if not start.cancelled() and start.exception() is None:
                        await start.result().close()
                    raise
                except JournalError as error:
                    without = "To work without the journal: journal=False, or DRAGOMAN_JOURNAL=off."
                    error.guidance = f"{error.guidance} {without}".strip()
                    raise
            self._users += 1
            return self._hub.journal_client

    async def release(self) -> None:
        await _uninterrupted(asyncio.ensure_future(self._release()))

    async def _release(self) -> None:
        async with self._lock:
            self._users -= 1
            if self._users == 0 and self._hub is not None:
                hub, self._hub = self._hub, None
                await hub.close()


async def _uninterrupted(task: asyncio.Future[T]) -> T:
    """Wait for a task to its end, even if the caller is cancelled meanwhile: half a start leaves things open."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


_shared_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, _SharedHub]] = WeakKeyDictionary()


def _shared_hub(config: Config, journal: bool | None) -> _SharedHub | None:
    """Return the hub that stores a session; None where the journal is off, by the keyword or by the settings."""
    if not (config.journal if journal is None else journal):
        return None
    hubs = _shared_hubs.setdefault(asyncio.get_running_loop(), {})
    return hubs.setdefault(config.home, _SharedHub(config))


@asynccontextmanager
async def default_journal(config: Config, journal: bool | None) -> AsyncIterator[JournalClient | None]:
    """Yield the handle on the user's journal; None where it is off, by the keyword or by the settings."""
    hub = _shared_hub(config, journal)
    if hub is None:
        yield None
        return
    client = await hub.acquire()
    try:
        yield client
    finally:
        await hub.release()


async def _open(
    open_it: Callable[[LocalClient], Awaitable[Session]], config: Config, options: ProcessOptions
) -> Session:
    """Open a session that holds the shared hub until it is closed."""
    hub = _shared_hub(config, options.get("journal"))
    journal_client = None if hub is None else await hub.acquire()
    try:
        session = await open_it(client_from_options(config, options, journal_client))
    except BaseException:
        if hub is not None:
            await hub.release()
        raise
    if hub is not None:
        assert isinstance(session, LocalSession)
        session.on_end = hub.release
    return session


def open_session(agent: Agent | None = None, **options: Unpack[LocalOptions]) -> Opening[Session]:
    """Open a session with an agent, in a process of its own. Await it, or use it with `async with`.

    `agent` is the name of a preset ("claude", "codex", …; the configured default when left out), an address ("wss://…",
    "https://…", with `headers` for a token), a command as a list, or an `AgentSpec`. `access` is what the agent may do
    without asking: "read-only", "ask" (the default), "edit-inside" or "full". `rules` are rules of this session, above
    those of the user's settings. `on_permission` answers what no rule answers, `on_question` the agent's own questions.

    The session is stored in the journal; `journal=False` or `DRAGOMAN_JOURNAL=off` turns that off.
    """
    check_keywords("open_session", options, LocalOptions)
    settings = load()
    config = session_config(options, settings)

    async def open_it() -> Session:
        return await _open(lambda client: client.open(agent, config, options.get("session_id")), settings, options)

    return Opening(open_it)


def resume_session(handle: HandleSource, **options: Unpack[ResumeOptions]) -> Opening[Session]:
    """Resume the session of `Session.snapshot()` in a new process. Await it, or use it with `async with`.

    Pass again what the handle does not contain because it is secret (`handle.secrets`). `how` is "resume" (in the way
    that the agent can), "load" (the agent sends its history again) or "new" (an agent that remembers nothing).
    """
    check_keywords("resume_session", options, ResumeOptions)

    async def open_it() -> Session:
        read = with_servers(read_handle(handle), options.get("mcp_servers"))
        config = resumed_config(read, options)
        how = options.get("how", "resume")
        return await _open(lambda client: client.resume(read, config, how), load(), options)

    return Opening(open_it)


async def run(agent: Agent | None, prompt: Input, **options: Unpack[LocalRunOptions]) -> RunResult:
    """Send one prompt to a new session of an agent; the session and its process end with it.

    Takes the keywords of `open_session`, and `deadline`, `idle_limit` and `heartbeat` of a run. Raises what the run
    failed with.
    """
    check_keywords("run", options, LocalRunOptions)
    limits = RunLimitOptions.__optional_keys__
    session_options = {name: value for name, value in options.items() if name not in limits}
    async with open_session(agent, **cast(LocalOptions, session_options)) as session:
        return await session.run(
            prompt,
            deadline=options.get("deadline"),
            idle_limit=options.get("idle_limit"),
            heartbeat=options.get("heartbeat"),
        )


def open_session_sync(agent: Agent | None = None, **options: Unpack[LocalOptions]) -> SyncSession:
    """Open a session as `open_session` does, for programs that are not async; use it with `with`."""
    return SyncSession(background.call(_opened(open_session(agent, **options))))


def resume_session_sync(handle: HandleSource, **options: Unpack[ResumeOptions]) -> SyncSession:
    """Resume a session as `resume_session` does, for programs that are not async; use it with `with`."""
    return SyncSession(background.call(_opened(resume_session(handle, **options))))


def run_sync(agent: Agent | None, prompt: Input, **options: Unpack[LocalRunOptions]) -> RunResult:
    """Send one prompt as `run` does, for programs that are not async."""
    return background.call(run(agent, prompt, **options))


def worktrees() -> Worktrees:
    """Return the worktrees of the user's sessions: list, find, recover and prune them."""
    return worktrees_of(load())


def worktrees_sync() -> SyncWorktrees:
    """Return the worktrees as `worktrees` does, for programs that are not async."""
    return SyncWorktrees(worktrees())


async def _opened(opening: Opening[Session]) -> Session:
    return await opening
