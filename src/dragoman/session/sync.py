"""The same for programs that are not async: scripts, notebooks, threads.

One background thread with an event loop serves the whole process; it is started when first needed and
is no obstacle at exit. `on_permission`, where it is a plain function, runs in a thread of its own; `on_event`
and `heartbeat` run on the background loop, and must not block.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack, cast, overload

from dragoman.errors import InputError
from dragoman.host.question.question import OnQuestion
from dragoman.protocol.checkpoints import Checkpoint, Rewind, WorkspaceDiff
from dragoman.protocol.git import GitCommit, GitPush, GitState, ProposedMessage, PullRequest, PullRequestProgram
from dragoman.record.events import Event
from dragoman.session import ports
from dragoman.session.capabilities import Capabilities
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.git import GitPort
from dragoman.session.handle import SessionHandle
from dragoman.session.options import RunOptions, SessionConfig
from dragoman.session.ports import SessionStatus, ValidatedResult
from dragoman.session.prompt import Input
from dragoman.session.run import Run, RunResult
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # known to type checkers without being installed

T = TypeVar("T")
ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)
_T = TypeVar("_T")


class _Background:
    """The loop in its thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run the coroutine on the background loop and wait for it. Ctrl-C cancels it and waits for its clean-up; a
        second Ctrl-C waits no longer."""
        loop = self._running()
        if threading.current_thread() is self._thread:
            work.close()
            raise InputError(
                "a blocking call was made from a callback of the session itself, which would wait for ever",
                guidance="Make on_permission a plain function (it gets a thread of its own), or use the async API.",
            )
        tasks: list[asyncio.Task[_T]] = []

        async def supervise() -> asyncio.Task[_T]:
            tasks.append(loop.create_task(work))
            await asyncio.wait(tasks)
            return tasks[0]

        future = asyncio.run_coroutine_threadsafe(supervise(), loop)
        try:
            return future.result().result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            future.result()
            raise

    def soon(self, action: Callable[[], None]) -> None:
        """Schedule a call on the background loop without waiting. May be called from any thread at any time."""
        self._running().call_soon_threadsafe(action)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                # A forked child has the object, but not the thread: it gets its own.
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="dragoman", daemon=True)
                self._thread.start()
            return self._loop


background = _Background()


class _AsyncRun(Protocol[ResultT_co]):
    """A run that is iterated over batch by batch: that of a session here or on a server, or one with an output type."""

    @property
    def id(self) -> str: ...
    @property
    def done(self) -> bool: ...
    async def result(self) -> ResultT_co: ...
    async def cancel(self) -> None: ...
    def claim(self) -> None: ...
    async def next_events(self) -> list[Event]: ...
    def drain(self) -> None: ...


class SyncRun(Generic[ResultT]):
    """A run to iterate over, or to wait for with `result()`."""

    def __init__(self, run: _AsyncRun[ResultT]) -> None:
        self._run = run

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def done(self) -> bool:
        return self._run.done

    def result(self) -> ResultT:
        return background.call(self._run.result())

    def cancel(self) -> None:
        background.call(self._run.cancel())

    def __iter__(self) -> Iterator[Event]:
        self._run.claim()
        try:
            while batch := background.call(self._run.next_events()):
                yield from batch
        finally:
            background.soon(self._run.drain)  # as in the async loop: who leaves early must not hold up the agent

    def __enter__(self) -> SyncRun[ResultT]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._run.done:
            background.soon(self._run.drain)
            self.cancel()


class _Session(ports.SessionPort, Protocol):
    """One with a process here, or one on a server."""

    async def set_reasoning_effort(self, level: str) -> None: ...
    async def checkpoints(self) -> tuple[Checkpoint, ...]: ...
    @property
    def worktree(self) -> str | None: ...
    async def diff(
        self,
        run: Run | str | int | None = None,
        *,
        since_start: bool = False,
        path: str | None = None,
        offset: int = 0,
        first_line: int = 0,
    ) -> WorkspaceDiff: ...
    async def plan_rewind(
        self, run: Run | str | int | None = None, *, before: bool = False, undo: bool = False
    ) -> Rewind: ...
    async def rewind(self, plan: Rewind) -> Rewind: ...
    @property
    def git(self) -> GitPort: ...


class SyncGit:
    """`Session.git` for programs that are not async."""

    def __init__(self, git: GitPort) -> None:
        self._git = git

    def state(self) -> GitState:
        return background.call(self._git.state())

    def commit(
        self,
        message: str,
        *,
        paths: Sequence[str] | None = None,
        only_staged: bool = False,
        while_running: bool = False,
        trust_repository: bool = False,
    ) -> GitCommit:
        return background.call(
            self._git.commit(
                message,
                paths=paths,
                only_staged=only_staged,
                while_running=while_running,
                trust_repository=trust_repository,
            )
        )

    def push(
        self, remote: str | None = None, *, set_upstream: bool | None = None, trust_repository: bool = False
    ) -> GitPush:
        return background.call(self._git.push(remote, set_upstream=set_upstream, trust_repository=trust_repository))

    def open_pull_request(
        self,
        title: str | None = None,
        body: str = "",
        *,
        base: str | None = None,
        draft: bool = False,
        remote: str | None = None,
        program: PullRequestProgram | None = None,
        trust_repository: bool = False,
    ) -> PullRequest:
        return background.call(
            self._git.open_pull_request(
                title,
                body,
                base=base,
                draft=draft,
                remote=remote,
                program=program,
                trust_repository=trust_repository,
            )
        )

    def propose_message(self, *, paths: Sequence[str] | None = None, only_staged: bool = False) -> ProposedMessage:
        return background.call(self._git.propose_message(paths=paths, only_staged=only_staged))


class SyncSession:
    """A session whose methods block."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @overload
    def run(self, prompt: Input, *, output_type: None = None, **options: Unpack[RunOptions]) -> SyncRun[RunResult]: ...
    @overload
    def run(
        self, prompt: Input, *, output_type: type[T], max_rounds: int = 3, **options: Unpack[RunOptions]
    ) -> SyncRun[ValidatedResult[T]]: ...
    @overload
    def run(
        self, prompt: Input, *, output_type: TypeForm[T], max_rounds: int = 3, **options: Unpack[RunOptions]
    ) -> SyncRun[ValidatedResult[T]]: ...
    def run(
        self, prompt: Input, *, output_type: Any = None, max_rounds: int = 3, **options: Unpack[RunOptions]
    ) -> SyncRun[Any]:
        """Send a prompt as `Session.run` does; iterate over what it returns, or call its `result()`."""
        output = {} if output_type is None else {"output_type": output_type, "max_rounds": max_rounds}

        async def begin() -> _AsyncRun[Any]:
            session: Any = self._session
            return cast("_AsyncRun[Any]", session.run(prompt, **output, **options))

        return SyncRun(background.call(begin()))

    def cancel(self) -> None:
        background.call(self._session.cancel())

    def status(self) -> SessionStatus:
        return self._session.status()

    def snapshot(self) -> SessionHandle:
        return self._session.snapshot()

    def capabilities(self) -> Capabilities:
        return self._session.capabilities()

    def set_mode(self, mode: str) -> None:
        background.call(self._session.set_mode(mode))

    def set_model(self, model: str) -> None:
        background.call(self._session.set_model(model))

    def set_reasoning_effort(self, level: str) -> None:
        background.call(self._session.set_reasoning_effort(level))

    def set_option(self, option_id: str, value: str | bool) -> None:
        background.call(self._session.set_option(option_id, value))

    @property
    def worktree(self) -> str | None:
        """The name of the git worktree that the session works in, if it is in one."""
        return self._session.worktree

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of the workspace, the oldest first."""
        return background.call(self._session.checkpoints())

    def diff(
        self,
        run: SyncRun[Any] | str | int | None = None,
        *,
        since_start: bool = False,
        path: str | None = None,
        offset: int = 0,
        first_line: int = 0,
    ) -> WorkspaceDiff:
        """Return the files that a run changed, as `Session.diff` does."""
        chosen = run.id if isinstance(run, SyncRun) else run
        return background.call(
            self._session.diff(chosen, since_start=since_start, path=path, offset=offset, first_line=first_line)
        )

    def plan_rewind(
        self, run: SyncRun[Any] | str | int | None = None, *, before: bool = False, undo: bool = False
    ) -> Rewind:
        """Return which files `rewind` would change, as `Session.plan_rewind` does."""
        chosen = run.id if isinstance(run, SyncRun) else run
        return background.call(self._session.plan_rewind(chosen, before=before, undo=undo))

    def rewind(self, plan: Rewind) -> Rewind:
        """Do what a plan of `plan_rewind` says."""
        return background.call(self._session.rewind(plan))

    @property
    def git(self) -> SyncGit:
        """Git in the repository of the workspace."""
        return SyncGit(self._session.git)

    def close(self) -> None:
        background.call(self._session.close())

    def __enter__(self) -> SyncSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncAgentRuntime:
    """`AgentRuntime` for programs that are not async."""

    def __init__(
        self,
        spec: AgentSpec,
        *,
        limits: Limits | None = None,
        on_question: OnQuestion | None = None,
        on_diagnostic: Callable[[Diagnostic], None] | None = None,
    ) -> None:
        async def make() -> AgentRuntime:
            return AgentRuntime(spec, limits=limits, on_question=on_question, on_diagnostic=on_diagnostic)

        self._runtime = background.call(make())

    def start(self) -> SyncAgentRuntime:
        background.call(self._runtime.start())
        return self

    def capabilities(self) -> Capabilities:
        return self._runtime.capabilities()

    def open_session(self, config: SessionConfig) -> SyncSession:
        return SyncSession(background.call(self._runtime.open_session(config)))

    def resume_session(self, handle: SessionHandle, config: SessionConfig | None = None) -> SyncSession:
        return SyncSession(background.call(self._runtime.resume_session(handle, config)))

    def close(self) -> None:
        background.call(self._runtime.close())

    def __enter__(self) -> SyncAgentRuntime:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
