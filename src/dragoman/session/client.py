"""`LocalClient`: sessions by the name of an agent, on this machine.

Every session gets a process of its own, which ends with it, unless its agent is `shared`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from msgspec.structs import replace

from dragoman.agents.preset import load_preset
from dragoman.config import PREFIX, Config, SandboxChoice, load
from dragoman.errors import ConfigError, InputError
from dragoman.host.permission import answer_later
from dragoman.host.policy.rulebook import rule_sources
from dragoman.host.question.question import Question
from dragoman.protocol.worktrees import SessionWorktree
from dragoman.session.context import ContextSource
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.handle import HEADER, QUERY, VARIABLE, SessionHandle, config_of_handle, read_handle
from dragoman.session.options import ProcessOptions, SessionConfig, parse_isolation, parse_sandbox
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session, new_id
from dragoman.session.skills import user_folders
from dragoman.session.spec import REMOTE_SCHEMES, AgentSpec, Limits, spec_of_preset
from dragoman.session.worktree import entered_worktree
from dragoman.workspace.isolation import ISOLATED_FOLDER, IsolationPlan, new_isolated_name
from dragoman.workspace.sandbox_policy import Mechanism, SandboxPolicy

if TYPE_CHECKING:
    from dragoman.session.journal_client import JournalClient

Agent = str | AgentSpec | Sequence[str]

# How a session goes on: in the way that the agent can; by `session/load`; or with an agent that remembers nothing.
Continuing: TypeAlias = Literal["resume", "load", "new"]


class LocalSession(Session):
    """A session with a process of its own: the process ends with the last session on it.

    `on_end` is awaited once, when both are closed.
    """

    on_end: Callable[[], Awaitable[None]] | None = None

    async def close(self) -> None:
        await super().close()
        if not self._runtime.busy:
            await self._runtime.close()
        await self._call_on_end()

    async def _call_on_end(self) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            await on_end()

    async def _end(self) -> None:
        try:
            await super()._end()
        finally:
            # Here too: a caller that gives up waiting for `close` must not leave the process behind. Where the runtime
            # is being closed already, it waits for us, and we must not wait for it.
            if not self._runtime.busy and not self._runtime.closed:
                await self._runtime.close()
                await self._call_on_end()


class _Closable(Protocol):
    async def close(self) -> None: ...


SessionT = TypeVar("SessionT", bound=_Closable)


class Opening(Generic[SessionT]):
    """A session about to be opened: await it, or enter it."""

    def __init__(self, open_it: Callable[[], Coroutine[Any, Any, SessionT]]) -> None:
        self._open_it = open_it
        self._session: SessionT | None = None

    def __await__(self) -> Generator[Any, None, SessionT]:
        return self._open_it().__await__()

    async def __aenter__(self) -> SessionT:
        self._session = await self
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()


class RuntimePool:
    """The agents of a process that has many sessions, and which of them a new session is opened on.

    An agent that is `shared` has one process for all its sessions in a folder that were opened with the same settings:
    a hundred sessions then cost one process, and what ends it ends them all. Others have a process for each session.
    Either way it ends with the last session on it.
    """

    def __init__(self) -> None:
        self._runtimes: list[AgentRuntime] = []
        self._starts: dict[AgentRuntime, asyncio.Task[AgentRuntime]] = {}

    @asynccontextmanager
    async def runtime(
        self, spec: AgentSpec, make: Callable[[], AgentRuntime], *, new: bool = False
    ) -> AsyncIterator[AgentRuntime]:
        """Yield a started runtime, to open a session on. A `new` one has no session yet: a restart wants that."""
        self._runtimes = [runtime for runtime in self._runtimes if runtime.living]
        shared = [] if new or not spec.shared else [runtime for runtime in self._runtimes if runtime.spec == spec]
        runtime = shared[0] if shared else None
        if runtime is None:
            runtime = make()
            self._starts[runtime] = asyncio.get_running_loop().create_task(runtime.start(), name="dragoman start")
            if spec.shared:
                self._runtimes.insert(0, runtime)  # the newest is found first
        start = self._starts.get(runtime)
        runtime.expected += 1
        try:
            if start is not None:
                await asyncio.shield(start)
                self._starts.pop(runtime, None)
            yield runtime
        finally:
            runtime.expected -= 1
            if not runtime.busy:
                if start is not None and not start.done():
                    start.cancel()
                    await asyncio.wait([start])
                self._starts.pop(runtime, None)
                await runtime.close()


class LocalClient:
    """An `AgentClient` whose agents run on this machine."""

    def __init__(
        self,
        *,
        config: Config | None = None,
        env: Mapping[str, str | None] | None = None,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        journal_client: JournalClient | None = None,
        runtime_pool: RuntimePool | None = None,
        on_diagnostic: Callable[[Diagnostic], None] | None = None,
    ) -> None:
        """`runtime_pool`: processes that several clients share."""
        if not isinstance(limits, Limits | None):
            raise InputError(f"limits is {limits!r}; expected Limits, such as Limits(cancel_timeout=1)")
        self._config = config or load()
        self._env = dict(env or {})
        self._headers = dict(headers or {})
        self._limits = limits or limits_of(self._config)
        self._journal_client = journal_client
        self._runtime_pool = runtime_pool or RuntimePool()
        self._on_diagnostic = on_diagnostic
        self._sessions: list[Session] = []

    async def open(self, agent: Agent | None, config: SessionConfig, session_id: str | None = None) -> Session:
        session_id = session_id or new_id()
        entered = entered_worktree(self._config, config, session_id, on_progress=self._report_worktree)
        async with entered as session_config:
            spec = self._spec_for_session(self.spec_of(agent), session_config)
            return await self._open(
                spec, session_config, lambda runtime: runtime.open_session(session_config, session_id)
            )

    def _report_worktree(self, line: str) -> None:
        if self._on_diagnostic is not None:
            self._on_diagnostic(Diagnostic(time.time(), "worktree", line))

    async def resume(
        self,
        handle: SessionHandle | str | bytes | Mapping[str, object],
        config: SessionConfig | None = None,
        how: Continuing = "resume",
        *,
        restart: bool = False,
    ) -> Session:
        """Resume the session of a snapshot. `restart`: with a new process, even if the agent is shared."""
        if how not in get_args(Continuing):
            raise InputError(f"how is {how!r}; expected 'resume', 'load' or 'new'")
        stored = read_handle(handle)
        self._check_secrets(stored)
        session_config = config or config_of_handle(stored)

        async def open_it(runtime: AgentRuntime) -> Session:
            match how:
                case "resume":
                    return await runtime.resume_session(stored, session_config)
                case "load":
                    return await runtime.load_session(stored, session_config)
                case "new":
                    session = await runtime.open_session(session_config, stored.session_id)
                    await session.restore_settings(stored)  # an agent that remembers nothing has its defaults
                    return session

        # An agent that remembers nothing needs no home with its memory, which may be gone.
        isolated_home = stored.isolated_home if how != "new" else None
        spec = self._spec_for_session(self.spec_of_handle(stored), session_config, isolated_home)
        return await self._open(spec, session_config, open_it, restart=restart)

    async def fork(self, original: Session, config: SessionConfig, session_id: str) -> Session:
        """Open a session that begins with all that another one of the same agent knows."""
        return await self._open(
            self._spec_for_session(original.spec, config, original.snapshot().isolated_home),
            config,
            lambda runtime: runtime.fork_of(original.agent_session_id, config, session_id, forked_from=original.id),
        )

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            await session.close()

    def spec_of(self, agent: Agent | None) -> AgentSpec:
        """Return the spec of a preset's name, an address (`wss://…`), a command line given as a list, or a spec."""
        if agent is None:
            return self._default_spec()
        if isinstance(agent, AgentSpec):
            env, headers = {**agent.env, **self._env}, {**agent.headers, **self._headers}
            return replace(agent, env=env, headers=headers, given=tuple(dict.fromkeys((*agent.given, *self._env))))
        if isinstance(agent, str) and agent.partition("://")[0] in REMOTE_SCHEMES and "://" in agent:
            return AgentSpec(url=agent, headers=self._headers)
        if isinstance(agent, str):
            return spec_of_preset(load_preset(agent, self._config), env=self._env)
        if not isinstance(agent, Sequence):
            raise InputError(
                f"the agent is {agent!r}; expected a name, an address, a command as a list, or an AgentSpec"
            )
        return AgentSpec(command=tuple(agent), env=self._env)

    def _default_spec(self) -> AgentSpec:
        """Return the spec of the default agent; where there is no such agent, the error says where it is set."""
        where = self._config.where("agent")
        try:
            return self.spec_of(self._config.agent)
        except ConfigError:
            raise
        except InputError as error:
            if where is None or where.startswith("--"):
                raise
            change = f"set {where}=NAME" if where.startswith(PREFIX) else "set one: dragoman config set agent NAME"
            raise ConfigError(str(error), where=where, guidance=f"`dragoman agents` lists them; {change}") from None

    def spec_of_handle(self, handle: SessionHandle) -> AgentSpec:
        """Return the spec of the agent that a snapshot names."""
        if handle.agent is not None:
            return self.spec_of(handle.agent)
        return AgentSpec(
            command=handle.command,
            url=handle.url,
            headers=self._headers if handle.url is not None else {},
            env=self._env,
            name=handle.name or "",
            auth_method=handle.auth_method,
            read_files="read_files" in handle.offers,
            write_files="write_files" in handle.offers,
            terminals="terminals" in handle.offers,
        )

    def _check_secrets(self, handle: SessionHandle) -> None:
        headers = [secret.removeprefix(HEADER) for secret in handle.secrets if secret.startswith(HEADER)]
        if missing := [name for name in headers if name not in self._headers]:
            raise InputError(
                f"this session needs headers that a snapshot does not store: {', '.join(missing)}",
                guidance="Pass them again: resume_session(handle, headers={…}).",
            )
        if QUERY in handle.secrets:
            raise InputError(
                f"the address {handle.url} had a query, which a snapshot does not store",
                guidance="Resume on AgentRuntime(AgentSpec(url=…)).",
            )
        variables = [secret.removeprefix(VARIABLE) for secret in handle.secrets if secret.startswith(VARIABLE)]
        if missing := [name for name in variables if name not in self._env]:
            raise InputError(
                f"this session needs environment variables that a snapshot does not store: {', '.join(missing)}",
                guidance="Pass them again: resume_session(handle, env={…}).",
            )

    def _runtime(self, spec: AgentSpec, config: SessionConfig) -> AgentRuntime:
        def ask_the_newest(question: Question) -> Any:
            """Answer what a shared agent asks outside of its sessions."""
            on_question = runtime.sessions[-1].config.on_question if runtime.sessions else None
            if on_question is None or on_question is answer_later:
                return question.cancel()
            return on_question(question)

        runtime = AgentRuntime(
            spec,
            limits=self._limits,
            on_diagnostic=self._on_diagnostic,
            line_limit=self._config.line_limit,
            sources=rule_sources(self._config),
            context=ContextSource(self._config.home),
            on_question=ask_the_newest if spec.shared and config.on_question is not None else config.on_question,
            journal_client=self._journal_client,
            session_type=LocalSession,
        )
        return runtime

    def _spec_for_session(self, spec: AgentSpec, config: SessionConfig, isolated_home: str | None = None) -> AgentSpec:
        keep = self._journal_client is not None
        return spec_for_session(spec, config, self._config, isolated_home=isolated_home, keep=keep)

    async def _open(
        self,
        spec: AgentSpec,
        config: SessionConfig,
        open_it: Callable[[AgentRuntime], Awaitable[Session]],
        *,
        restart: bool = False,
    ) -> Session:
        async with self._runtime_pool.runtime(spec, lambda: self._runtime(spec, config), new=restart) as runtime:
            session = await open_it(runtime)
        self._sessions = [*(other for other in self._sessions if not other.closed), session]
        return session


def sandbox_choice(value: bool | str | None, settings: Config) -> SandboxChoice:
    """Return the sandbox for a session: the caller's choice, or the configured one."""
    choice = parse_sandbox(value) or settings.sandbox
    if choice == "auto" and settings.sandbox != "off":
        return settings.sandbox  # the mechanism that is configured
    return choice


def spec_for_session(
    spec: AgentSpec, config: SessionConfig, settings: Config, *, isolated_home: str | None = None, keep: bool = False
) -> AgentSpec:
    """Return the spec of an agent for one session: started in its folder, isolated and in the sandbox that it wants.

    `isolated_home` is the one that the session had before. `keep`: the session can be continued, and its home stays.
    """
    if spec.cwd is None:
        spec = replace(spec, cwd=config.workspace.cwd)
    spec = replace(spec, isolation=_isolation_plan(config, settings, isolated_home, keep=keep))
    choice = sandbox_choice(config.sandbox, settings)
    if spec.sandbox is None and choice != "off":
        spec = replace(spec, sandbox=_sandbox_policy(choice, spec, config, settings))
    return spec


def _isolation_plan(
    config: SessionConfig, settings: Config, isolated_home: str | None, *, keep: bool
) -> IsolationPlan | None:
    isolation = parse_isolation(settings.isolation if config.isolation is None else config.isolation)
    if not isolation:
        return None
    return IsolationPlan(
        isolation=isolation,
        root=settings.home / ISOLATED_FOLDER,
        name=isolated_home or new_isolated_name(),
        keep=keep and isolation.home,
        is_known=isolated_home is not None and isolation.home,
    )


def _sandbox_policy(
    choice: Mechanism | Literal["auto"], spec: AgentSpec, config: SessionConfig, settings: Config
) -> SandboxPolicy:
    network = settings.sandbox_network if config.network is None else config.network
    needs = spec.sandbox_needs
    rules = rule_sources(settings).read(config.workspace) if network == "hosts" else None
    has_own_home = spec.isolation is not None and spec.isolation.home is not None
    # Prompts of an isolated session name no skills of the user.
    skills = [] if has_own_home else _skill_folders(settings)
    return SandboxPolicy(
        mechanism=choice,
        folders=config.workspace.folders,
        state=needs.state,
        read=(*map(str, settings.sandbox_read), *skills, *_git_folders(config)),
        write=tuple(map(str, settings.sandbox_write)),
        network=network is True,
        hosts=(*needs.hosts, *(rules.allowed_hosts(config.rules) if rules is not None else ())),
        refused_hosts=rules.refused_hosts(config.rules) if rules is not None else (),
        env=needs.env,
        programs=tuple(word for word in spec.command if word.startswith("/")),
        hidden=settings.home,
    )


def _git_folders(config: SessionConfig) -> list[str]:
    """Return the repository of a session in a worktree: git reads it from there. It is not to be written: hooks and
    settings in it would run outside of the sandbox."""
    return [config.worktree.git_dir] if isinstance(config.worktree, SessionWorktree) else []


def _skill_folders(settings: Config) -> list[str]:
    """Return the user's own folders of skills: prompts name the files in them, for the agent to read.

    By the paths of the setting: the sandbox follows no link that an agent may have made.
    """
    home = Path(os.path.expanduser("~"))
    real_home = Path(os.path.realpath(home))
    found = user_folders(settings.skills_folders, home)
    return [str(path) for path in found if not real_home.is_relative_to(os.path.realpath(path))]


def check_agent(config: Config, agent: object) -> None:
    """Raise `InputError` unless this is the name of an agent that can be the default, or an address."""
    LocalClient(config=config).spec_of(str(agent))


def limits_of(config: Config) -> Limits:
    return Limits(
        start_timeout=config.start_timeout,
        request_timeout=config.request_timeout,
        cancel_timeout=config.cancel_timeout,
        close_timeout=config.close_timeout,
        permission_timeout=config.permission_timeout,
    )


def client_from_options(
    config: Config,
    options: ProcessOptions,
    journal_client: JournalClient | None,
    runtime_pool: RuntimePool | None = None,
) -> LocalClient:
    return LocalClient(
        config=config,
        env=options.get("env"),
        headers=options.get("headers"),
        limits=options.get("limits"),
        journal_client=journal_client,
        runtime_pool=runtime_pool,
        on_diagnostic=options.get("on_diagnostic"),
    )
