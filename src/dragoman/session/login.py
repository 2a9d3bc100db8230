"""Logging in to an agent, by its own methods.

The agent itself carries out an `agent` method when it is asked to (`authenticate`). A `terminal` method is the agent's
own program, run once more on the person's terminal. A `variables` method is a key that the person puts into the
environment: we say which one, and store none. Afterwards a session is opened in a new process of the agent's, as every
later one will be: the agent's own word is not taken for a login.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from dragoman.errors import AuthenticationRequired, InputError, InvalidFrame, StartError
from dragoman.host.question.question import OnQuestion
from dragoman.proc.environment import agent_environment, resolve_command
from dragoman.session.capabilities import (
    TERMINAL_AUTH,
    Capabilities,
    LoginMethod,
    choose,
    methods_of,
    missing_variables,
)
from dragoman.session.client import Agent, LocalClient
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.link import find_command
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import session_id_in

_STDIN: Final = 0

# Seconds between SIGTERM and SIGKILL for a program that we have to end.
_TERMINATE_GRACE_S: Final = 1.0


LOGIN_LIMIT_S: Final = 15 * 60.0
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
        # Which method is to be used is not decided yet, and the agent may use our terminal.
        meta = {**spec.meta, TERMINAL_AUTH: True} if spec.url is None else spec.meta
        self._runtime = self._new_runtime(msgspec.structs.replace(spec, auth_method=None, meta=meta))
        self.methods: tuple[LoginMethod, ...] = ()

    async def __aenter__(self) -> Login:
        await self._runtime.start()
        self.methods = methods_of(self._runtime.capabilities())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runtime.close()

    @property
    def capabilities(self) -> Capabilities:
        return self._runtime.capabilities()

    async def log_out(self) -> None:
        """Log out. `CapabilityMissing` where the agent cannot."""
        await self._runtime.logout()

    async def carry_out(self, method: LoginMethod) -> None:
        """Log in. Ends the agent: what it knew of the login before is out of date."""
        match method.kind:
            case "agent":
                request = acp.AuthenticateRequest(method_id=method.id)
                await self._runtime.request("authenticate", request, timeout=LOGIN_LIMIT_S)
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
        """Return the program of a terminal method with its arguments, and its environment."""
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
        """Open a session in a new process, and close it. `AuthenticationRequired` where a login is lacking."""
        with tempfile.TemporaryDirectory(prefix="dragoman-login-") as folder:
            async with self._new_runtime(self.spec) as runtime:  # where it always starts: its command may be relative
                await _open_and_close(runtime, folder)

    def _new_runtime(self, spec: AgentSpec) -> AgentRuntime:
        return self._make(spec, limits=self._limits, on_diagnostic=self._on_diagnostic, on_question=self._on_question)

    async def _run(self, method: LoginMethod) -> None:
        command, env = await self.command_of(method)
        try:
            code = await run_in_foreground(command, env=env, cwd=self.spec.cwd)
        except OSError as error:
            raise StartError(f"{command[0]} cannot be started: {error.strerror}") from None
        if code != 0:
            ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise AuthenticationRequired(
                f"the login of {self.spec.name} {ended}", method="login", guidance="Its own words above say why."
            )

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment that the agent is started with, and these variables."""
        return agent_environment(os.environ, {**self.spec.env, **(extra or {})})


async def _open_and_close(runtime: AgentRuntime, folder: str) -> None:
    """Open a session by the bare requests: nothing is offered to one that only shows that there can be one."""
    raw = await runtime.request("session/new", acp.NewSessionRequest(cwd=folder, mcp_servers=()))
    session_id = session_id_in(raw)
    if session_id is None:
        raise InvalidFrame(f"the agent's answer to session/new has no sessionId: {bytes(raw)[:200]!r}")
    if runtime.capabilities().close:
        await runtime.request("session/close", acp.CloseSessionRequest(session_id=session_id))
    if runtime.capabilities().delete:  # so that users do not find it among their sessions
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
    """Log in to an agent, by the method of that id or by its only one, and check that it helped.

    A method on a terminal takes this program's own; what the agent asks meanwhile goes to `on_question`. Raises
    `AuthenticationRequired` where a session still cannot be opened. Returns the method.
    """
    spec = LocalClient(env=env, headers=headers).spec_of(agent)
    async with Login(spec, limits=limits, on_diagnostic=on_diagnostic, on_question=on_question) as attempt:
        chosen = choose(spec.name, attempt.methods, method)
        if chosen.kind == "terminal" and not os.isatty(0):
            raise InputError(
                f"{chosen.name!r} needs a terminal, and there is none", guidance="Run `dragoman login` on a terminal."
            )
        await attempt.carry_out(chosen)
        await attempt.verify()
    return chosen


async def run_in_foreground(command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None) -> int:
    """Run a program on the person's own terminal, as a shell would; return its exit code, or minus the signal.

    It runs in our process group, so that the keys of the terminal (Ctrl-C, Ctrl-Z) reach it; Ctrl-C does nothing here
    meanwhile. Afterwards the terminal is as it was before, also where the program crashed while it drew on it. What the
    program leaves behind (a browser) stays: it is not an agent. Raises `OSError` where it cannot be started.
    """
    with _terminal_restored(), _keys_ignored_here():
        process = await asyncio.create_subprocess_exec(*command, env=dict(env), cwd=cwd)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await _end_process(process)
            raise


async def _end_process(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(_TERMINATE_GRACE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@contextmanager
def _terminal_restored() -> Iterator[None]:
    if not os.isatty(_STDIN):
        yield
        return
    import termios

    before = termios.tcgetattr(_STDIN)
    try:
        yield
    finally:
        termios.tcsetattr(_STDIN, termios.TCSADRAIN, before)


@contextmanager
def _keys_ignored_here() -> Iterator[None]:
    """Let Ctrl-C do nothing here; not by ignoring the signals, which the program would inherit."""
    if threading.current_thread() is not threading.main_thread():  # signals come to the main thread only
        yield
        return
    loop = asyncio.get_running_loop()
    keys = (signal.SIGINT, signal.SIGQUIT)
    before = {key: signal.getsignal(key) for key in keys}
    for key in keys:
        loop.add_signal_handler(key, lambda: None)
    try:
        yield
    finally:
        for key in keys:
            loop.remove_signal_handler(key)
            signal.signal(key, before[key])
