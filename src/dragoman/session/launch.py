"""Starting an agent: from a spec to a link."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from dragoman.errors import CommandNotFound
from dragoman.proc.environment import agent_environment, resolve_command
from dragoman.proc.link import AgentLink
from dragoman.proc.spawn import spawn
from dragoman.session.spec import AgentSpec, Limits


async def launch(spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
    """Connect to the spec's address, or start the first of its commands that is there."""
    if spec.url is not None:
        from dragoman.session.network_link import connect  # the network is loaded when it is used

        return await connect(spec.url, headers=spec.headers)(spec, limits, on_stderr)
    command, env = await find_command(spec, agent_environment(os.environ, spec.env))
    return await spawn(command, cwd=spec.cwd, env=env, name=spec.name, on_stderr=on_stderr, install=spec.install)


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
