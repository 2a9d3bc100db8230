"""Links to agents: `launch` starts a process, or connects to an agent that runs elsewhere (`NetworkLink`).

    runtime = AgentRuntime(AgentSpec(url="wss://agents.example/acp", headers={"Authorization": f"Bearer {token}"}))

The runtime sees the same link as of a process here. What it cannot have is the process: nothing is signalled, and an
agent whose connection is ended may go on elsewhere until its server notices. Nothing connects again by itself; open
the session again on a new runtime, by `load_session` or `resume_session`, where the agent can.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from dragoman.errors import CommandNotFound
from dragoman.proc.environment import agent_environment, resolve_command
from dragoman.proc.link import END_GRACE_S, AgentLink, StderrTail
from dragoman.proc.spawn import spawn
from dragoman.session.lifecycle import CloseOnce
from dragoman.session.spec import REMOTE_SCHEMES, AgentSpec, Launch, Limits
from dragoman.wire.framing import DEFAULT_LINE_LIMIT_BYTES
from dragoman.wire.network import check_headers, parse_address
from dragoman.wire.transport import Transport

# In place of exit codes, which a connection has none of: we ended it, or it was lost.
EXIT_CODE_ENDED = 0
EXIT_CODE_LOST = 1


class NetworkTransport(Transport, Protocol):
    """A transport over the network, with what a link needs beyond reading and writing."""

    @property
    def end_reason(self) -> str | None: ...
    async def wait_ended(self) -> None: ...
    async def end(self, grace: float) -> None: ...
    def abort(self) -> None: ...


class NetworkLink:
    """An `AgentLink`. Its stderr holds the complaints of the connection itself."""

    def __init__(self, transport: NetworkTransport, name: str, tail: StderrTail) -> None:
        self.name = name
        self.stderr = tail
        self._transport = transport
        self._grace = END_GRACE_S
        self._exit_code: int | None = None
        self._code_at_end = EXIT_CODE_LOST
        self._end_once = CloseOnce(self._end, f"end {name}")
        self.read = transport.read
        self.write = transport.write
        self.drain = transport.drain
        self.close = transport.close

    @property
    def exit_code(self) -> int | None:
        """0 when we ended the connection, 1 when it was lost."""
        return self._exit_code

    @property
    def end_reason(self) -> str | None:
        """The reason why the connection ended; None while it lasts."""
        return self._transport.end_reason

    async def wait(self) -> int:
        await self._transport.wait_ended()
        return self._settle()

    async def end(self, grace: float = END_GRACE_S) -> int:
        self._grace = grace
        if self._transport.end_reason is None:
            self._code_at_end = EXIT_CODE_ENDED
        await self._end_once()
        return self._settle()

    async def _end(self) -> None:
        await self._transport.end(self._grace)

    def interrupt(self) -> None:
        """Do nothing: there is no process of ours to interrupt. `session/cancel` was sent, and the end follows."""

    def kill(self) -> None:
        self._transport.abort()

    def _settle(self) -> int:
        if self._exit_code is None:
            self._exit_code = self._code_at_end
            if self._exit_code == EXIT_CODE_LOST:
                self.stderr.feed(f"{self._transport.end_reason or 'the connection ended'}\n".encode())
            self.stderr.end()
        return self._exit_code


def connect(
    url: str, *, headers: Mapping[str, str] | None = None, message_limit: int = DEFAULT_LINE_LIMIT_BYTES
) -> Launch:
    """Return the `launch` of an `AgentRuntime` whose agent listens at `ws://`, `wss://`, `http://` or `https://`.

    `headers` are for what the server wants to know of us, such as a token; an address must not hold one. A message of
    more than `message_limit` bytes ends the connection.
    """
    address = parse_address(url, REMOTE_SCHEMES)
    checked_headers = check_headers(headers)

    async def launch(spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        from dragoman.wire import http, websocket  # the network is loaded when it is used

        tail = StderrTail(on_stderr)
        transport: NetworkTransport
        if address.scheme in websocket.SCHEMES:
            transport = await websocket.connect_websocket(url, headers=checked_headers, message_limit=message_limit)
        else:
            transport = await http.connect_http(
                url,
                headers=checked_headers,
                message_limit=message_limit,
                on_diagnostic=lambda line: tail.feed(f"{line}\n".encode()),
            )
        return NetworkLink(transport, address.shown, tail)

    return launch


async def launch(spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
    """Connect to the spec's address, or start the first of its commands that is there."""
    if spec.url is not None:
        return await connect(spec.url, headers=spec.headers)(spec, limits, on_stderr)
    command, env = await find_command(spec, agent_environment(os.environ, spec.env))
    if spec.environment is not None:
        # Found where the user has it: the PATH on which its own programs are found too.
        path = env.get("PATH", os.defpath)
        env = agent_environment({}, {**spec.environment, "PATH": path, **_npx_cache(command, env)})
    if spec.wrapper is not None:
        command, env = await asyncio.to_thread(spec.wrapper.wrap, command, env)
    return await spawn(command, cwd=spec.cwd, env=env, name=spec.name, on_stderr=on_stderr, install=spec.install)


def _npx_cache(command: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """Return where npx has the packages that it downloaded: else each isolated agent would be downloaded again."""
    if os.path.basename(command[0]) != "npx":
        return {}
    home = env.get("HOME") or os.path.expanduser("~")
    return {"npm_config_cache": env.get("npm_config_cache") or os.path.join(home, ".npm")}


async def find_command(
    spec: AgentSpec, environment: Mapping[str, str], args: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Find the first of the spec's commands that is there, with these arguments after its own, and its environment.

    Where there is none, `CommandNotFound` names the one that it should be.
    """
    missing: CommandNotFound | None = None
    for command in (spec.command, *spec.alternatives):
        try:
            return await resolve_command((*command, *args), environment, cwd=spec.cwd, install=spec.install)
        except CommandNotFound as error:
            missing = missing or error
    assert missing is not None
    raise missing
