"""Which agents are here: where a preset's program lies, which version it is, and how to get the ones that are missing.

`choose` decides how a preset is started on this machine; `survey` does so for all of them and asks each program for
its version. Programs that would download something (`npx`, `uvx`) are found but never run by a survey. One that hangs,
fails or prints nonsense costs its own line a version, and nothing else; none is left running.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agents.preset import Preset
from dragoman.clock import SYSTEM_CLOCK, Clock, timeout
from dragoman.config import format_duration
from dragoman.errors import InputError, StartError

Find: TypeAlias = Callable[[str, Mapping[str, str]], Path | None]
"""Where the program of that name is, with that environment; None when there is none."""

RUNNERS: Final = frozenset({"npx", "uvx"})
"""Programs that fetch a package and run it: the two that the registry of agents knows."""

VERSION_TIMEOUT_S: Final = 10.0
"""Seconds for `--version`. The slowest seen needed about one; a cold disk and a busy machine need more."""

MAX_CONCURRENT_CHECKS: Final = 4
"""Versions asked at a time: most agents are Node programs that keep a processor busy while they start."""

MAX_OUTPUT_BYTES: Final = 64 * 1024
"""Bytes of output that are looked at. A version stands in the first line or not far below it."""

_VERSION: Final = re.compile(r"(?<![\w./-])v?(\d+\.\d+(?:\.\d+)*(?:[-+][0-9A-Za-z][0-9A-Za-z.+-]*)?)")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Choice(Struct, frozen=True):
    """The command line by which a preset is started here, and the path of its program.

    `downloads` is set where the program would fetch the agent first.
    """

    line: tuple[str, ...]
    path: Path
    downloads: bool


class Finding(Struct, frozen=True, kw_only=True):
    """The result of a survey for one preset.

    `installed`: it can be started. `downloads`: it can, and is fetched at its first start. `missing`: it cannot.
    `problem` says what is wrong with it, `hint` how to get it; each may be empty.
    """

    preset: Preset
    state: Literal["installed", "downloads", "missing"]
    path: Path | None = None
    version: str | None = None
    problem: str = ""
    hint: str = ""


def choose(preset: Preset, environ: Mapping[str, str], find: Find | None = None) -> Choice | None:
    """Return the first of the preset's command lines whose program is installed; None where none is.

    Blocks as long as `find` does: the usual one may ask the user's login shell.
    """
    find = find or _find_command()
    env = {**environ, **preset.env}
    for line in preset.command_lines:
        if path := find(line[0], env):
            return Choice(line, path.absolute(), Path(line[0]).name in RUNNERS)
    return None


async def survey(
    presets: Mapping[str, Preset],
    *,
    environ: Mapping[str, str],
    find: Find | None = None,
    timeout_s: float = VERSION_TIMEOUT_S,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Finding]:
    """Return a finding for each preset, in order. Versions are asked for in parallel, `timeout_s` seconds each."""
    found = find or _find_command()
    looks = await asyncio.to_thread(lambda: [_look(preset, environ, found) for preset in presets.values()])
    slots = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)

    async def complete(finding: Finding, question: tuple[str, ...]) -> Finding:
        if not question:
            return finding
        async with slots:
            version, problem = await ask_version(question, {**environ, **finding.preset.env}, timeout_s, clock)
        return replace(finding, version=version, problem=finding.problem or problem)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(complete(*look)) for look in looks]
    return [task.result() for task in tasks]


def _look(preset: Preset, environ: Mapping[str, str], find: Find) -> tuple[Finding, tuple[str, ...]]:
    """Return what is known without running anything, and the command line that asks for the version, if any."""
    env = {**environ, **preset.env}
    install = f"Install it: {preset.install}" if preset.install else f"Check the command of [agents.{preset.id}]."
    choice = choose(preset, environ, find)
    if choice is None:
        programs = [line[0] for line in preset.command_lines]
        problem = f"neither {' nor '.join(programs)} was found" if programs[1:] else f"{programs[0]} was not found"
        return Finding(preset=preset, state="missing", problem=problem, hint=install), ()
    question = _question(preset, choice, env, find)
    if lacking := [program for program in preset.needs if not find(program, env)]:
        problem = f"it needs {' and '.join(lacking)}, not found here"
        return Finding(preset=preset, state="missing", path=choice.path, problem=problem, hint=install), question
    if choice.downloads:
        hint = f"{choice.path.name} fetches it at its first start. {install}"
        return Finding(preset=preset, state="downloads", path=choice.path, hint=hint), question
    return Finding(preset=preset, state="installed", path=choice.path), question


def _question(preset: Preset, choice: Choice, env: Mapping[str, str], find: Find) -> tuple[str, ...]:
    if not preset.version:
        return ()
    program, *args = preset.version
    if program == "{command}":
        return () if choice.downloads else (str(choice.path), *args)
    path = find(program, env)
    return (str(path.absolute()), *args) if path and path.name not in RUNNERS else ()


async def ask_version(
    command: tuple[str, ...], env: Mapping[str, str], timeout_s: float, clock: Clock = SYSTEM_CLOCK
) -> tuple[str | None, str]:
    """Return the version that a program reports, and the error, if there is one. The program has ended afterwards."""
    from dragoman.proc.spawn import spawn  # loads what starting processes takes, which presets alone do not need

    question = " ".join((Path(command[0]).name, *command[1:]))
    try:
        # Not in the user's folder: programs read settings, and some even code, from where they are started.
        link = await spawn(command, cwd=Path("/"), env=_beside(Path(command[0]), env), name=question)
    except (StartError, InputError) as error:
        return None, str(error)
    output = bytearray()
    problem = ""
    try:
        async with timeout(clock, timeout_s):
            link.close()
            while data := await link.read():
                output += data[: MAX_OUTPUT_BYTES - len(output)]
            if code := await link.wait():
                stderr_line = link.stderr.text(lines=1)
                return None, f"`{question}` ended with exit code {code}" + (f": {stderr_line}" if stderr_line else "")
    except TimeoutError:
        problem = f"`{question}` did not end within {format_duration(timeout_s)}"
    finally:
        await link.end(grace=0)
    while data := await link.read():  # printed before it was ended
        output += data[: MAX_OUTPUT_BYTES - len(output)]
    version = version_in(bytes(output))
    return version, problem or ("" if version else f"`{question}` printed no version")


def version_in(output: bytes) -> str | None:
    """Return the first text in a program's output that looks like a version."""
    match = _VERSION.search(_COLOURS.sub("", output.decode("utf-8", "replace")))
    return match[1].rstrip(".") if match else None


def _beside(program: Path, env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment in which a program also finds programs beside it, as a script its interpreter."""
    search = env.get("PATH", os.defpath)
    folder = str(program.parent)
    return env if folder in search.split(os.pathsep) else {**env, "PATH": f"{folder}{os.pathsep}{search}"}


def _find_command() -> Find:
    from dragoman.proc.environment import find_command

    return find_command
