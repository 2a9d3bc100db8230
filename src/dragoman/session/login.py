"""Logging in to an agent, by its own methods.

An `agent` method is carried out by the agent itself, when it is asked to (`authenticate`). A `terminal` method is the
agent's own program, run once more on the person's terminal. A `variables` method is a key that the person puts into
the environment: we tell which, and keep none. Afterwards a session is opened in a new process of the agent's, as every
later one will be: what the agent says of itself is not taken for a login.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final

import msgspec

from dragoman.errors import AuthenticationRequired, InputError, InvalidFrame, StartError
from dragoman.host.question.question import OnQuestion
from dragoman.proc.environment import agent_environment, resolve_command
from dragoman.session.capabilities import Capabilities
from dragoman.session.client import Agent, LocalClient
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.foreground import run_in_foreground
from dragoman.session.launch import find_command
from dragoman.session.login_method import TERMINAL_AUTH, LoginMethod, choose, methods_of, missing_variables
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import session_id_in

LOGIN_LIMIT: Final = 15 * 60.0
"""Seconds for a method that the agent carries out: the person may have to find their password first."""


class Login:
    """`async with Login(spec) as login:` starts the agent; at the end nothing of it is left.

    `runtime` makes the agent's runtimes, as `AgentRuntime` does.
    """

    def __init__(
        self,
        spec: AgentSpec,
        *,
        limits: Limits | None = None,
        on_diagnostic: Callable[[Diagnostic], None] | None = None,
        on_question: OnQuestion | None = None,
        runtime: Callable[..., AgentRuntime] = AgentRuntime,
    ) -> None:
        self.spec = spec
        self._limits = limits
        self._on_diagnostic = on_diagnostic
        self._on_question = on_question
        self._make = runtime
        # Which method is to be used is not decided yet, and terminals are at hand.
        meta = {**spec.meta, TERMINAL_AUTH: True} if spec.url is None else spec.meta
        self._runtime = self._new_runtime(msgspec.structs.replace(spec, auth_method=None, meta=meta))
        self.methods: tuple[LoginMethod, ...] = ()

    async def __aenter__(self) -> Login:
        await self._runtime.start()
        self.methods = methods_of(self._runtime.capabilities())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runtime.close()

    @property
    def capabilities(self) -> Capabilities:
        return self._runtime.capabilities()

    async def log_out(self) -> None:
        """Raises `CapabilityMissing` where the agent cannot."""
        await self._runtime.logout()

    async def carry_out(self, method: LoginMethod) -> None:
        """Logs in. The agent is ended by it: what it knew of the login before is out of date."""
        match method.kind:
            case "agent":
                asked = acp.AuthenticateRequest(method_id=method.id)
                await self._runtime.request("authenticate", asked, timeout=LOGIN_LIMIT)
                await self._runtime.close()
            case "terminal":
                await self._runtime.close()
                await self._run(method)
            case "variables":
                missing = missing_variables(method, self.environment())
                if missing:
                    raise AuthenticationRequired(
                        f"{self.spec.name} takes its key from the environment, where {', '.join(missing)} is not set",
                        method="login",
                        guidance=f"Set it, and try again.{f' Get one at {method.link}' if method.link else ''}",
                    )
                await self._runtime.close()
            case "unknown":
                raise InputError(f"the way to log in {method.id!r} is of a kind that this Dragoman does not know")

    async def command_of(self, method: LoginMethod) -> tuple[list[str], dict[str, str]]:
        """The program of a terminal method with its arguments, and the environment that it gets."""
        if self.spec.url is not None:
            raise InputError(
                f"{method.name!r} is done on the terminal of the machine that the agent runs on",
                guidance="Log in there.",
            )
        env = self.environment(method.env)
        if method.program is not None:
            return await resolve_command((method.program, *method.args), env, cwd=self.spec.cwd)
        return await find_command(self.spec, env, method.args)

    async def verify(self) -> None:
        """Opens a session in a new process, and closes it. Raises `AuthenticationRequired` where a login is lacking."""
        with tempfile.TemporaryDirectory(prefix="dragoman-login-") as folder:
            async with self._new_runtime(self.spec) as runtime:  # where it always starts: its command may be relative
                await _open_and_close(runtime, folder)

    def _new_runtime(self, spec: AgentSpec) -> AgentRuntime:
        return self._make(spec, limits=self._limits, on_diagnostic=self._on_diagnostic, on_question=self._on_question)

    async def _run(self, method: LoginMethod) -> None:
        command, env = await self.command_of(method)
        try:
            code = await run_in_foreground(command, env=env, cwd=self.spec.cwd)
        except OSError as problem:
            raise StartError(f"{command[0]} cannot be started: {problem.strerror}") from None
        if code != 0:
            ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise AuthenticationRequired(
                f"the login of {self.spec.name} {ended}", method="login", guidance="Its own words above say why."
            )

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """What the agent is started with, and these."""
        return agent_environment(os.environ, {**self.spec.env, **(extra or {})})


async def _open_and_close(runtime: AgentRuntime, folder: str) -> None:
    """By the bare requests: nothing is offered to a session that only shows whether there can be one."""
    raw = await runtime.request("session/new", acp.NewSessionRequest(cwd=folder, mcp_servers=()))
    session_id = session_id_in(raw)
    if session_id is None:
        raise InvalidFrame(f"the agent's answer to session/new has no sessionId: {bytes(raw)[:200]!r}")
    if runtime.capabilities().close:
        await runtime.request("session/close", acp.CloseSessionRequest(session_id=session_id))
    if runtime.capabilities().delete:  # nobody shall find it among their own
        await runtime.delete_session(session_id)


async def login(
    agent: Agent | None = None,
    method: str | None = None,
    *,
    env: Mapping[str, str | None] | None = None,
    headers: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    on_diagnostic: Callable[[Diagnostic], None] | None = None,
    on_question: OnQuestion | None = None,
) -> LoginMethod:
    """Logs in to an agent, by the method of that id or by its only one, and sees whether it helped.

    A method on a terminal takes this program's own; what the agent asks meanwhile goes to `on_question`. Raises
    `AuthenticationRequired` where a session still cannot be opened. Returns the method.
    """
    spec = LocalClient(env=env, headers=headers).spec_of(agent)
    async with Login(spec, limits=limits, on_diagnostic=on_diagnostic, on_question=on_question) as doing:
        chosen = choose(spec.name, doing.methods, method)
        if chosen.kind == "terminal" and not os.isatty(0):
            raise InputError(
                f"{chosen.name!r} needs a terminal, and there is none", guidance="Run `dragoman login` on a terminal."
            )
        await doing.carry_out(chosen)
        await doing.verify()
    return chosen
