"""`AgentRuntime`: one agent's process, and the sessions on it.

It starts the agent, shakes hands, and routes every frame to its session in the order of the wire. When the link is lost
it ends the sessions; when it is closed it ends the process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman._version import __version__
from dragoman.clock import SYSTEM_CLOCK, Clock, timeout
from dragoman.errors import (
    AgentCrashed,
    AuthenticationRequired,
    DragomanError,
    InputError,
    InvalidFrame,
    ProtocolError,
    RequestFailed,
    RequestTimeout,
    SandboxUnavailable,
    SessionClosed,
    StartError,
    StartTimeout,
)
from dragoman.host.policy.rulebook import RuleSources
from dragoman.host.question.question import OnQuestion
from dragoman.host.question.questions import Questions
from dragoman.proc.environment import agent_environment, secret_variables
from dragoman.proc.link import AgentLink
from dragoman.proc.spawn import start_failure
from dragoman.record import notes
from dragoman.session.capabilities import (
    TERMINAL_AUTH,
    Capabilities,
    OpeningMethod,
    capabilities_of,
    login_line,
    request_known,
    request_new,
)
from dragoman.session.context import ContextSource, SessionContext
from dragoman.session.diagnostics import Diagnostic, Diagnostics
from dragoman.session.git import remember_repository
from dragoman.session.handle import SessionHandle, config_of_handle, read_handle
from dragoman.session.interfaces import FrameObserver, RoutedSession
from dragoman.session.lifecycle import CloseOnce
from dragoman.session.link import launch
from dragoman.session.options import SessionConfig
from dragoman.session.router import Router
from dragoman.session.session import Session, new_id
from dragoman.session.spec import AgentSpec, Launch, Limits
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import Call, RpcConnection, copy_error
from dragoman.wire.dialect import LATEST_VERSION, dialect_for
from dragoman.wire.framing import DEFAULT_LINE_LIMIT_BYTES
from dragoman.workspace.checkpoints import CheckpointSettings
from dragoman.workspace.isolation import describe_isolation
from dragoman.workspace.sandbox_policy import CommandWrapper, loopback_port

if TYPE_CHECKING:
    # With a journal: loaded by those who have one.
    from dragoman.journal.recorder import ConnectionRecorder
    from dragoman.session.journal_client import JournalClient
    from dragoman.workspace.isolated_home import IsolatedHome  # with isolation
    from dragoman.workspace.sandbox import Sandbox  # with a sandbox

_T = TypeVar("_T")

# Empty pages of `session/list`, one after the other, until we take them for the end. An agent that filters by folder
# after it has made its pages sends some.
MAX_EMPTY_PAGES = 100

# Gemini CLI's late replay begins within a millisecond of its answer and comes in one go; a history of any length is
# through the pipe long before the looks are used up.
REPLAY_QUIET_S = 0.1
MAX_REPLAY_LOOKS = 50


class AgentRuntime:
    """`async with AgentRuntime(AgentSpec(command=[…])) as runtime:` starts the agent and, at the end, ends it.

    `sources` are the rules that its sessions have beside their own (`rule_sources(config)`: the user's). `context` has
    the skills and custom instructions that go with prompts; without one only those that a session names do.
    `on_question` answers the agent's questions; without one they are refused. With a `journal_client`
    everything is in the journal before it is shown, or written to the agent.
    """

    def __init__(
        self,
        spec: AgentSpec,
        *,
        limits: Limits | None = None,
        on_diagnostic: Callable[[Diagnostic], None] | None = None,
        line_limit: int = DEFAULT_LINE_LIMIT_BYTES,
        sources: RuleSources | None = None,
        context: ContextSource | None = None,
        on_question: OnQuestion | None = None,
        journal_client: JournalClient | None = None,
        launch: Launch = launch,
        observer: FrameObserver | None = None,
        session_type: type[Session] = Session,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.spec = spec
        self.limits = limits or Limits()
        self.diagnostics = Diagnostics(on_diagnostic)
        self.sources = sources or RuleSources()
        has_own_home = spec.isolation is not None and spec.isolation.isolation.home
        self.context = context.without_user() if context is not None and has_own_home else context
        self.on_question = on_question
        self.clock = clock
        self.observer = observer
        self.recorder: ConnectionRecorder | None = None
        self._journal_client = journal_client
        self._line_limit = line_limit
        self._launch = launch
        self._session_type = session_type
        self._sandbox: Sandbox | None = None
        self._isolated_home: IsolatedHome | None = None
        self._link: AgentLink | None = None
        self._connection: RpcConnection | None = None
        self._capabilities: Capabilities | None = None
        self._questions = Questions(
            on_question,
            agent=spec.preset or spec.name,
            time_limit_s=self.limits.permission_timeout,
            clock=clock,
        )
        self._router = Router(self.diagnostics, self._ended, self._questions if on_question else None, observer)
        self.expected = 0  # sessions that are about to be opened on it
        self._new_session_ids: set[str] = set()  # sessions that the journal did not have before
        self._failure: DragomanError | None = None
        self._ending: str | None = None  # why we end the link ourselves
        self._closed = False
        self._close = CloseOnce(self._end, f"close {spec.name}")

    @property
    def checkpoints(self) -> CheckpointSettings | None:
        """The settings for checkpoints of workspaces; None without a journal, by which alone they are found again."""
        return self._journal_client.checkpoints if self._journal_client is not None else None

    def keep_in(self, journal_client: JournalClient) -> None:
        """Record everything in this journal. To be called before the start."""
        self._journal_client = journal_client

    # -- starting

    async def start(self) -> AgentRuntime:
        """Start the agent and shake hands. On failure nothing is left running."""
        if self._connection is not None or self._closed:
            raise InputError("this runtime was started before", guidance="Make a new AgentRuntime.")
        try:
            async with timeout(self.clock, self.limits.start_timeout):
                secrets = secret_variables(self.spec.env) | self.spec.headers
                spec = await self._confined_spec(await self._isolated_spec())
                secrets |= secret_variables(self.environment or {})
                self._link = await self._launch(spec, self.limits, self._on_stderr)
                self._check_confined()
                # An agent that crashes may print its environment, and its last lines are shown to every client.
                self._link.stderr.hide(secret_variables(os.environ) | secrets)
                if self._journal_client is not None:
                    self.recorder = await self._journal_client.connect(self.spec.preset or self.spec.name, secrets)
                    self._router.record_in(self.recorder)
                self._connection = RpcConnection(
                    self._link,
                    self._router,
                    line_limit=self._line_limit,
                    clock=self.clock,
                    wait_peer_ended=self._link.wait,
                    flush=self.recorder.flush if self.recorder is not None else None,
                )
                self._router.connection, self._router.link = self._connection, self._link
                await self._shake_hands(self._connection)
        except TimeoutError:
            failure = self._start_timeout()
            await self.close()
            raise failure from None
        except BaseException:
            await self.close()
            raise
        return self

    async def _confined_spec(self, spec: AgentSpec) -> AgentSpec:
        """Return the spec to launch: with a running sandbox, where one is wanted."""
        policy = spec.sandbox
        if policy is None:
            return spec
        if self.spec.url is not None:
            raise SandboxUnavailable(
                f"{self.spec.name} runs elsewhere, and cannot be confined by a sandbox of this machine",
                guidance="Open the session without a sandbox, or start the agent here.",
            )
        from dragoman.workspace.sandbox import Sandbox  # most agents have none

        env = agent_environment(os.environ, spec.env)
        if self._isolated_home is not None:
            users_home = Path(env.get("HOME") or Path.home())
            policy = replace(policy, write=(*policy.write, *self._isolated_home.folders), users_home=users_home)
            env = agent_environment({}, self._isolated_home.environment)
        self._sandbox = await Sandbox.start(policy, env, on_refused=self._on_refused)
        return replace(spec, wrapper=self._sandbox)

    def _check_confined(self) -> None:
        if self._sandbox is not None and not self._sandbox.is_used:
            raise SandboxUnavailable(f"{self.spec.name} was started by a `launch` that knows no sandbox")

    def _on_refused(self, address: str) -> None:
        self.diagnostics.add(self.clock.time(), "sandbox", f"the sandbox refused a connection to {address}")

    async def _isolated_spec(self) -> AgentSpec:
        """Return the spec to launch: with the environment of an isolated home, where one is wanted."""
        spec, plan = self.spec, self.spec.isolation
        if plan is None:
            return spec
        if spec.url is not None:
            raise InputError(
                f"{spec.name} runs elsewhere, and cannot be isolated on this machine",
                guidance="Open the session without isolation, or start the agent here.",
            )
        from dragoman.workspace.isolated_home import IsolatedHome  # most agents have none

        given = spec.given if spec.preset is not None else tuple(spec.env)
        environ = agent_environment(os.environ, spec.env)
        self._isolated_home = await IsolatedHome.make(plan, spec.isolation_needs, environ, given, clock=self.clock)
        report = self._isolated_home.report
        self.diagnostics.add(self.clock.time(), "isolation", describe_isolation(report))
        for problem in report.problems:
            self.diagnostics.add(self.clock.time(), "isolation", problem)
        return replace(spec, environment=self._isolated_home.environment)

    async def _shake_hands(self, connection: RpcConnection) -> None:
        request = acp.InitializeRequest(
            protocol_version=LATEST_VERSION,
            client_capabilities=client_capabilities(self.spec, questions=self.on_question is not None),
            client_info=acp.Implementation(name="dragoman", title="Dragoman", version=__version__),
        )
        call = connection.call("initialize", request)
        lenient.build_decoders(acp.InitializeResponse, acp.LoadSessionResponse)  # while the agent starts
        try:
            raw = await connection.result(call)
        except RequestFailed as error:
            if error.category != "protocol":
                raise
            raise ProtocolError(
                f"{self.spec.name} does not speak ACP: {error}",
                guidance="Check that this command starts the agent in its ACP mode (often `acp` or `--acp`).",
            ) from error
        answer = _decode("initialize", raw, acp.InitializeResponse)
        dialect_for(answer.protocol_version)
        self._capabilities = capabilities_of(answer, raw)
        if self._sandbox is not None:
            self._capabilities = msgspec.structs.replace(self._capabilities, sandbox=self._sandbox.report())
        if self._isolated_home is not None:
            self._capabilities = msgspec.structs.replace(self._capabilities, isolation=self._isolated_home.report)
        if self.recorder is not None:
            await self.recorder.record_handshake(raw)
        if self.spec.auth_method is not None:
            await self.authenticate(self.spec.auth_method)

    def _start_timeout(self) -> StartTimeout:
        stderr = self.stderr_tail()
        details = f"; its last lines were:\n{stderr}" if stderr else ""
        return StartTimeout(
            f"{self.spec.name} did not answer `initialize` within {self.limits.start_timeout:g} s{details}",
            stderr=stderr,
        )

    async def __aenter__(self) -> AgentRuntime:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for programs

    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            raise SessionClosed(f"{self.spec.name} is not started")
        return self._capabilities

    async def authenticate(self, method_id: str) -> None:
        """Log in by one of the agent's own methods (`capabilities().auth_methods`)."""
        await self.request("authenticate", acp.AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        self.capabilities().require("logout", "log out")
        await self.request("logout", acp.LogoutRequest())

    async def open_session(self, config: SessionConfig, session_id: str | None = None) -> Session:
        """Open a new session. Its model, mode and options are set before it is returned.

        `session_id` is our id for it. A session that the journal knows goes on with an agent that remembers nothing.
        """
        params = request_new(config, self.capabilities())
        SessionContext(self.context, config.workspace, config.skills).check()
        session = await self._session(session_id or new_id(), config)
        async with self._discarding_on_failure(session):
            await self._open("session/new", params, session)
            self._note_restart(session, "new")
            if params.system_prompt is not None:
                session.system_prompt_sent()
            await session.apply_config()
        return session

    async def resume_session(
        self, handle: SessionHandle | str | bytes | Mapping[str, object], config: SessionConfig | None = None
    ) -> Session:
        """Continue the session of a snapshot: by `session/resume`, or `session/load` where only that is offered."""
        handle = read_handle(handle)
        capabilities = self.capabilities()
        if not capabilities.resume:
            capabilities.require("load", "continue an earlier session")
        return await self._reopen(handle, config, "session/resume" if capabilities.resume else "session/load")

    async def load_session(
        self, handle: SessionHandle | str | bytes | Mapping[str, object], config: SessionConfig | None = None
    ) -> Session:
        """Continue it by `session/load`: the agent repeats the whole history, and the fold has it."""
        self.capabilities().require("load", "load a session")
        return await self._reopen(read_handle(handle), config, "session/load")

    async def fork_session(self, session: Session) -> Session:
        """Open a second session that begins with all that this one knows."""
        fork = await self.fork_of(session.agent_session_id, session.config, forked_from=session.id)
        if session.snapshot().system_prompt_sent:
            fork.system_prompt_sent()
        return fork

    async def fork_of(
        self,
        agent_session_id: str,
        config: SessionConfig,
        session_id: str | None = None,
        *,
        forked_from: str | None = None,
    ) -> Session:
        """Fork a session by the agent's own id, whether or not it is open here. `forked_from` is our id of it."""
        self.capabilities().require("fork", "fork a session")
        fork = await self._session(session_id or new_id(), config)
        fork.forked_from = forked_from
        params = request_known("session/fork", agent_session_id, config, self.capabilities())
        async with self._discarding_on_failure(fork):
            await self._open("session/fork", params, fork)
        if params.system_prompt is not None:
            fork.system_prompt_sent()
        return fork

    async def discard_session(self, session: Session, error: BaseException | None = None) -> None:
        """Close a session without a run, and remove it from the journal if it began here: it would be an empty entry.

        `error`: why it could not be opened as its program wants it.
        """
        if session.agent_session_id:
            await session.close()
        else:
            await self.leave_journal(session)
        if self._journal_client is not None and session.id in self._new_session_ids:
            self._new_session_ids.discard(session.id)
            await self._journal_client.discard(session.id, error)

    async def list_sessions(self, cwd: str | None = None) -> AsyncIterator[acp.SessionInfo]:
        """Iterate over the sessions that the agent itself remembers."""
        self.capabilities().require("list", "list its sessions")
        cursor: str | None = None
        seen: set[str] = set()
        empty = 0
        while True:
            raw = await self.request("session/list", acp.ListSessionsRequest(cwd=cwd, cursor=cursor))
            page = _decode("session/list", raw, acp.ListSessionsResponse)
            for info in page.sessions:
                yield info
            cursor = page.next_cursor
            empty = 0 if page.sessions else empty + 1
            # An agent that repeats a cursor, or has always one more page with nothing on it, would never end.
            if cursor is None or cursor in seen or empty == MAX_EMPTY_PAGES:
                return
            seen.add(cursor)

    async def delete_session(self, agent_session_id: str) -> None:
        self.capabilities().require("delete", "delete a session")
        await self.request("session/delete", acp.DeleteSessionRequest(session_id=agent_session_id))

    async def close(self) -> None:
        """End the sessions, then the agent and everything it started. Closing twice is fine."""
        self._closed = True
        self._ending = self._ending or "the runtime was closed"
        await self._close()

    async def _end(self) -> None:
        try:
            for session in self.sessions:
                await session.close()
        finally:
            if self._link is not None:
                await self._link.end(self.limits.close_timeout)
            if self._connection is not None:
                await self._connection.close()
            if self._sandbox is not None:
                await self._sandbox.close()
            if self._isolated_home is not None:
                await self._isolated_home.close()

    @property
    def environment(self) -> Mapping[str, str] | None:
        """The whole environment of an isolated agent, which its commands have too; None where it has the user's."""
        return self._isolated_home.environment if self._isolated_home is not None else None

    @property
    def closed(self) -> bool:
        """True once it is closed, or being closed."""
        return self._closed

    @property
    def sessions(self) -> Sequence[Session]:
        """The sessions that are open on it, in the order in which they were opened."""
        return [session for session in self._router.sessions.values() if isinstance(session, Session)]

    @property
    def living(self) -> bool:
        """True while it runs, or will: sessions may be opened on it."""
        return self._failure is None and not self._closed

    @property
    def busy(self) -> bool:
        """True while sessions are open on it, or about to be."""
        return self.expected > 0 or bool(self._router.sessions)

    # -- opening

    @property
    def sandbox(self) -> CommandWrapper | None:
        """The sandbox in which the agent and its commands run."""
        return self._sandbox

    async def open_port(self, port: int) -> None:
        """Let the agent reach a port of this machine's loopback, where its sandbox keeps it from the network."""
        if self._sandbox is not None:
            await self._sandbox.open_port(port)

    async def _check_sandbox(self, config: SessionConfig) -> None:
        """Refuse a session that wants more confinement than the agent was started with; open what it needs."""
        if self._sandbox is None:
            if config.sandbox not in (None, "off"):
                raise SandboxUnavailable(
                    f"{self.spec.name} was started without a sandbox, which this session wants",
                    guidance="Open the session by open_session(), or start the agent with AgentSpec(sandbox=…).",
                )
            return
        if not self._sandbox.contains(config.workspace.folders):
            raise SandboxUnavailable(
                f"{self.spec.name} runs in a sandbox for {self._sandbox.policy.folders[0]}, "
                f"and cannot work in {config.workspace.cwd}",
                guidance="Start another agent for that folder.",
            )
        for server in config.mcp_servers:
            if server.url is not None and (port := loopback_port(server.url)) is not None:
                await self._sandbox.open_port(port)

    async def _session(self, session_id: str, config: SessionConfig) -> Session:
        """Make a session that the agent does not know of yet."""
        await self._check_sandbox(config)
        if self.recorder is None:
            return self._session_type(self, session_id, config)
        assert self._journal_client is not None
        record, epoch = await self._journal_client.claim(session_id)
        if record.position == 0:
            self._new_session_ids.add(session_id)
        self.recorder.add_session(record, epoch)
        if self.checkpoints is not None:
            await remember_repository(self.checkpoints.home, config.workspace.cwd)
        return self._session_type(self, session_id, config, record.fold)

    @asynccontextmanager
    async def _discarding_on_failure(self, session: Session) -> AsyncIterator[None]:
        """Leave nothing of a new session in the journal that cannot be opened."""
        try:
            yield
        except BaseException as error:
            await self.discard_session(session, error)
            raise

    def _note_restart(self, session: Session, how: Literal["resume", "load", "new"]) -> None:
        """Mark in a session with a history that another process of the agent goes on with it."""
        if session.fold.runs:
            session.note(notes.AgentRestarted(how))

    async def _open(self, method: str, params: object, session: Session) -> None:
        try:
            connection = self._living()
            self._router.about_to_open(session)
            call = connection.call(method, params)
            self._router.opening(call.id, session)
            try:
                raw = await self._answer(connection, call)
            finally:
                self._router.opened(call.id)
        except BaseException:
            self._router.release(session)
            if self.recorder is not None:
                await self.leave_journal(session)
            raise
        if self.recorder is not None and self._journal_client is not None:
            session.note_opened()
            self._journal_client.session_opened(session)
            for run in [run for run in session.fold.runs.values() if run.status == "running"]:
                # Its process has gone, or works on in a terminal; what it does from here on belongs to no run of ours.
                session.note(
                    notes.RunInterrupted(run.id, "interrupted", "the session was continued before this run had ended")
                )
            await self.recorder.flush()
        session.on_opened()
        if not session.agent_session_id:
            raise InvalidFrame(f"the agent's answer to {method} has no sessionId that is new: {bytes(raw)[:200]!r}")

    async def _reopen(self, handle: SessionHandle, config: SessionConfig | None, method: OpeningMethod) -> Session:
        config = config or config_of_handle(handle)
        params = request_known(method, handle.agent_session_id, config, self.capabilities())
        if handle.agent_session_id in self._router.sessions:
            raise InputError(
                f"session {handle.agent_session_id!r} is open on this runtime already",
                guidance="Use the session that is open, or close it first.",
            )
        session = await self._session(handle.session_id, config)
        # Resuming is not to replay, but some agents do (nanocoder).
        session.begin_replay(whole_history=method == "session/load")
        self._router.bind(session, handle.agent_session_id)  # before it is asked for: what it replays is its own
        await self._open(method, params, session)
        if params.system_prompt is not None or handle.system_prompt_sent:
            session.system_prompt_sent()
        self._note_restart(session, "load" if method == "session/load" else "resume")
        try:
            if method == "session/load" and self.spec.late_replay:
                await self._wait_for_silence(session)
            for message in await session.restore_settings(handle):
                self.diagnostics.add(self.clock.time(), "stray", message)
        except BaseException:
            await session.close()  # else it could not be opened again
            raise
        await session.apply_config()
        return session

    async def _wait_for_silence(self, session: Session) -> None:
        """Wait until an agent that replays late has fallen silent: nothing in the protocol tells that it is done."""
        for _ in range(MAX_REPLAY_LOOKS):
            frame_count = session.frames
            await self.clock.sleep(REPLAY_QUIET_S)
            if session.frames == frame_count:
                return

    # -- asking

    def _living(self) -> RpcConnection:
        if self._failure is not None:
            raise copy_error(self._failure)
        if self._connection is None or self._closed:
            raise SessionClosed(f"{self.spec.name} is not running")
        return self._connection

    async def request(self, method: str, params: object, *, timeout: float | None = None) -> msgspec.Raw:
        """Send a request and return its result, within `Limits.request` seconds or `timeout`."""
        connection = self._living()
        return await self._answer(connection, connection.call(method, params), timeout)

    async def _answer(self, connection: RpcConnection, call: Call, timeout: float | None = None) -> msgspec.Raw:
        self._router.wake()  # the answer must be read, however full a run's queue is
        try:
            return await connection.result(call, timeout=timeout or self.limits.request_timeout)
        except AuthenticationRequired as failure:
            raise self.authentication_required(failure) from None
        except RequestTimeout as failure:
            stderr = self.stderr_tail()
            if stderr:
                failure.message += f"; its last lines were:\n{stderr}"
            raise

    def authentication_required(self, failure: AuthenticationRequired) -> AuthenticationRequired:
        """Return the failure with the agent's own ways to log in."""
        methods = self._capabilities.auth_methods if self._capabilities else ()
        if not methods:
            return failure
        ways = "; ".join(f"{way.name} ({way.description or way.id})" for way in methods)
        return AuthenticationRequired(
            failure.message,
            method=failure.method,
            methods=[(way.id, way.name, way.description or "") for way in methods],
            data=failure.data,
            guidance=f"Log in: {login_line(self.spec)}. It offers: {ways}",
        )

    def send_prompt(self, agent_session_id: str, blocks: tuple[acp.ContentBlock, ...]) -> None:
        connection = self._living()
        with self._router.sending_for(agent_session_id):
            connection.call("session/prompt", acp.PromptRequest(session_id=agent_session_id, prompt=blocks))

    def hold_writes(self, until: asyncio.Future[None]) -> None:
        """Write nothing more to the agent before `until` is done."""
        if self._connection is not None:
            self._connection.hold_writes(until)

    def notify(self, method: str, params: object) -> None:
        if self._connection is not None:
            self._connection.notify(method, params)

    async def close_session(self, session: RoutedSession) -> None:
        """Tell the agent that a session is closed, where it offers that, and route no more frames to it."""
        if self._capabilities is not None and self._capabilities.close and self._failure is None and not self._closed:
            try:
                closing = acp.CloseSessionRequest(session_id=session.agent_session_id)
                await self.request("session/close", closing, timeout=self.limits.close_timeout)
            except DragomanError as error:
                # It is closed for us either way; the agent's trouble with it is worth a line, not an exception.
                self.diagnostics.add(self.clock.time(), "stray", f"session/close: {error}")
        self._router.release(session)

    async def leave_journal(self, session: RoutedSession) -> None:
        """Commit all of a session's frames, and let another process have it."""
        if self.recorder is not None and self._journal_client is not None:
            await self.recorder.flush()
            self.recorder.remove_session(session.id)
            await self._journal_client.leave(session.id)

    # -- ending

    async def _ended(self) -> DragomanError:
        """Find out why the link ended: the agent's stdout has."""
        assert self._link is not None
        self._failure = await self._why_ended(self._link)
        return self._failure

    async def _why_ended(self, link: AgentLink) -> DragomanError:
        if self._closed:
            await link.end(self.limits.close_timeout)
            return SessionClosed(f"{self.spec.name} was closed")
        try:
            async with timeout(self.clock, self.limits.close_timeout):
                await link.wait()
            how = ""
        except TimeoutError:
            how = "closed its stdout and "
        code = await link.end(self.limits.close_timeout)
        if self._ending is not None:
            return AgentCrashed(self._ending, exit_code=code, stderr=link.stderr.text())
        if self.spec.url is not None:
            reason = getattr(link, "end_reason", None) or "it was closed at the other end"
            kind = StartError if self._capabilities is None else AgentCrashed
            return kind(f"the connection to {self.spec.name} ended: {reason}", stderr=link.stderr.text())
        if self._capabilities is None:
            return start_failure(link, self.spec.install)
        return _crash(self.spec.name, how, code, link.stderr.text())

    def _on_stderr(self, line: str) -> None:
        self.diagnostics.add(self.clock.time(), "stderr", line)

    async def end_link(self, reason: str) -> None:
        """End an agent that does not stop when asked to: by an interrupt first."""
        if self._link is None or self._failure is not None:
            return
        self._ending = reason
        self._link.interrupt()
        await self._link.end(self.limits.close_timeout)

    @property
    def reader_is_paused(self) -> bool:
        return self._router.is_paused

    def wake_reader(self) -> None:
        self._router.wake()

    def stderr_tail(self) -> str:
        return self._link.stderr.text() if self._link is not None else ""


def client_capabilities(spec: AgentSpec, *, questions: bool = False) -> acp.ClientCapabilities:
    """Return what we really offer, and nothing else."""
    elicitation = acp.ElicitationCapabilities(
        form=acp.ElicitationFormCapabilities(), url=acp.ElicitationUrlCapabilities()
    )
    return acp.ClientCapabilities(
        elicitation=elicitation if questions else None,
        auth=acp.AuthCapabilities(terminal=spec.meta.get(TERMINAL_AUTH) is True),
        fs=acp.FileSystemCapabilities(read_text_file=spec.read_files, write_text_file=spec.write_files),
        terminal=spec.terminals,
        session=acp.ClientSessionCapabilities(
            compaction=acp.CompactionCapabilities(),
            config_options=acp.SessionConfigOptionsCapabilities(boolean=acp.BooleanConfigOptionCapabilities()),
            notices=acp.NoticeCapabilities(),
        ),
        meta=spec.meta or None,
    )


def _crash(name: str, how: str, code: int, stderr: str) -> AgentCrashed:
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    details = f"; its last lines were:\n{stderr}" if stderr else ""
    return AgentCrashed(f"{name} {how}{ended}{details}", exit_code=code, stderr=stderr)


def _decode(method: str, raw: msgspec.Raw, type_: type[_T]) -> _T:
    try:
        return lenient.decode(raw, type_)
    except msgspec.MsgspecError as error:
        raise InvalidFrame(f"the agent's answer to {method} cannot be read: {error}") from error
