"""`dragoman sandbox`: what a sandbox can confine on this machine; and any command in one, to try it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from dragoman.config import Config
    from dragoman.protocol.models import SandboxReport
    from dragoman.workspace.sandbox_policy import Machine

EPILOG = """\b
Examples:
  dragoman sandbox                             what can be confined here
  dragoman sandbox -- ls -la ~/.ssh            try it: this cannot be read
  dragoman sandbox --network off -- npm test
  dragoman run -a claude --sandbox "hello"     an agent in a sandbox
  dragoman config set sandbox on               all agents, from now on"""


@click.command(epilog=EPILOG, context_settings={"ignore_unknown_options": True})
@click.option("--cwd", metavar="DIR", help="The folder that may be written. [default: the current folder]")
@click.option("--network", type=click.Choice(["on", "off"]), default="on", help="[default: on]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def sandbox(cwd: str | None, network: str, as_json: bool, command: tuple[str, ...]) -> int:
    """Show what a sandbox can confine on this machine, or run COMMAND in one.

    In a sandbox the kernel lets a program write only in the workspace, its own state and a temporary folder, and read
    only these, the system and installed tools.
    """
    from dragoman.cli.command import print_error, print_json, print_lines
    from dragoman.config import load
    from dragoman.errors import DragomanError
    from dragoman.workspace.sandbox import this_machine

    try:
        if command:
            return _run(command, cwd or os.getcwd(), network == "on")
    except DragomanError as error:
        return print_error(error, opened=False)
    machine = this_machine()
    if as_json:
        print_json(_record(machine))
    else:
        print_lines(*machine_lines(machine, load()))
    return 0


def _run(command: Sequence[str], cwd: str, has_network: bool) -> int:
    import asyncio
    import shlex

    from dragoman.config import load
    from dragoman.proc.environment import agent_environment, resolve_command
    from dragoman.workspace import Workspace
    from dragoman.workspace.sandbox import Sandbox
    from dragoman.workspace.sandbox_policy import SandboxPolicy

    settings = load()
    folder = Workspace(cwd).cwd

    async def run() -> int:
        policy = SandboxPolicy(
            mechanism="auto" if settings.sandbox == "off" else settings.sandbox,
            folders=(folder,),
            read=tuple(map(str, settings.sandbox_read)),
            write=tuple(map(str, settings.sandbox_write)),
            network=has_network,
            hidden=settings.home,
        )
        words = shlex.split(command[0]) if len(command) == 1 else command
        resolved, env = await resolve_command(words, agent_environment(os.environ, {}), cwd=folder)
        confined = await Sandbox.start(policy, env, on_refused=_on_refused)
        try:
            line, environment = confined.wrap(resolved, env)
            process = await asyncio.create_subprocess_exec(*line, cwd=folder, env=environment)
            try:
                code = await process.wait()
            except asyncio.CancelledError:  # Ctrl-C, which the command has got as well
                code = await process.wait()
            return code if code >= 0 else 128 - code
        finally:
            await confined.close()

    return asyncio.run(run())


def _on_refused(address: str) -> None:
    from dragoman.cli.command import note

    note(f"dragoman: the sandbox refused a connection to {address}")


def _record(machine: Machine) -> Mapping[str, object]:
    import msgspec

    from dragoman.workspace.sandbox_policy import MECHANISMS, report_of

    return {
        "mechanisms": [
            {
                "name": mechanism,
                "problem": machine.problem(mechanism) or None,
                "network_on": msgspec.to_builtins(report_of(machine, mechanism)),
                "network_off": msgspec.to_builtins(report_of(machine, mechanism, network=False)),
            }
            for mechanism in MECHANISMS
        ],
        "chosen": machine.usable[0] if machine.usable else None,
    }


def machine_lines(machine: Machine, settings: Config) -> list[str]:
    """Return the setting, and what can be confined on a machine, for people."""
    from dragoman.workspace.sandbox_policy import MECHANISMS, report_of

    own = ("seatbelt",) if sys.platform == "darwin" else ("bubblewrap", "landlock")
    configured = settings.sandbox if settings.sandbox in machine.usable else None
    chosen = configured or next(iter(machine.usable), None)
    lines = []
    for mechanism in MECHANISMS:
        if mechanism in own:
            state = machine.problem(mechanism) or "works here" + ("; --sandbox uses it" if mechanism == chosen else "")
            lines.append(f"{mechanism:<12}{state}")
    if chosen is None:
        return [*lines, "", "No sandbox can be had here: a session that asks for one is refused."]
    if settings.sandbox == "off":
        lines += ["", "Sessions have no sandbox by default. To change that: dragoman config set sandbox on"]
    else:
        lines += ["", "All sessions have a sandbox. For one without: --no-sandbox"]
    report = report_of(machine, chosen, network=False)
    lines += ["", "With --sandbox --network off, an agent is kept from:", *(f"  - {each}" for each in report.confined)]
    lines += ["", "It is not kept from:", *(f"  - {each}" for each in report.not_confined)]
    return lines


def sandbox_lines(
    report: SandboxReport | None, network: bool | Literal["hosts"] | None, width: int | None
) -> list[str]:
    """Return the notice of a session: what its sandbox leaves open; or that nothing enforces `network`, its option."""
    from dragoman.cli.text import plain, wrapped
    from dragoman.workspace.sandbox_policy import describe_sandbox

    if report is not None:
        notice = f"dragoman: sandbox: {describe_sandbox(report)}. Not confined: {'; '.join(report.not_confined)}."
    elif network is False or network == "hosts":
        option = "hosts" if network else "off"
        notice = f"dragoman: --network {option} is not enforced without --sandbox: it decides only what the agent asks."
    else:
        return []
    return wrapped(plain(notice), width - 1) if width else [plain(notice)]
