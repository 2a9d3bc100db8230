"""`RunOptions` of `run` and `chat`, the `RunPlan` that they are checked into, and the `AgentProcess` it starts."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from dragoman.cli.stdin import prompt_parts
from dragoman.config import Access, Config, load
from dragoman.errors import InputError
from dragoman.fileio import atomic_write
from dragoman.host.permission import OnPermission
from dragoman.host.policy.access import parse_access
from dragoman.host.policy.rulebook import RuleSources, rule_sources
from dragoman.host.question.question import OnQuestion
from dragoman.proc.link import AgentLink
from dragoman.record.events import Event
from dragoman.session.client import LocalClient, limits_of
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.handle import VARIABLE, SessionHandle, read_handle
from dragoman.session.launch import launch
from dragoman.session.prompt import Part
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec, Limits, SessionConfig
from dragoman.workspace import Workspace


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options as they were typed."""

    prompt: tuple[str, ...] = ()
    agent: str | None = None
    agent_command: str | None = None
    cwd: str | None = None
    add_dir: tuple[str, ...] = ()
    access: str | None = None
    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    option: tuple[str, ...] = ()
    file: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    system_prompt: str | None = None
    deadline: str | None = None
    idle_limit: str | None = None
    start_timeout: str | None = None
    env: tuple[str, ...] = ()
    resume: str | None = None
    save: str | None = None
    no_journal: bool = False
    json: bool = False
    quiet: bool = False
    plain: bool = False
    verbose: bool = False
    thoughts: bool | None = None


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done: which agent, where, what is said to it, and where its handle is kept."""

    given: RunOptions
    settings: Config
    spec: AgentSpec
    workspace: Workspace
    access: Access
    sources: RuleSources
    parts: tuple[Part, ...]
    options: dict[str, str]
    handle: SessionHandle | None
    save: Path | None

    def session_config(self, on_permission: OnPermission | None, on_event: Callable[[Event], None]) -> SessionConfig:
        known = self.handle
        return SessionConfig(
            workspace=self.workspace,
            access=self.access,
            network=known.network if known else None,
            web_search=known.web_search if known else None,
            mcp_servers=known.mcp_servers if known else (),
            model=self.given.model,
            mode=self.given.mode,
            reasoning_effort=self.given.effort,
            system_prompt=self.given.system_prompt,
            on_permission=on_permission,
            on_event=on_event,
        )


def prepare(given: RunOptions, *, prompt: bool = True) -> RunPlan:
    """Everything that can be found wrong before an agent is started is found here, as an InputError.

    Without a `prompt`, none is looked for: a chat asks for many.
    """
    flags = {"access": given.access, "deadline": given.deadline, "idle_limit": given.idle_limit}
    flags["journal"] = "off" if given.no_journal else None
    settings = load(flags={**flags, "agent": given.agent, "start_timeout": given.start_timeout})
    env = dict(_pair(text, "--env", "NAME=VALUE") for text in given.env)
    options = dict(_pair(text, "--option", "ID=VALUE") for text in given.option)
    save = save_path(given.save) if given.save else None
    handle = _read_handle(given, env, settings) if given.resume else None
    workspace = (
        Workspace(handle.cwd, handle.additional) if handle else Workspace(given.cwd or os.getcwd(), given.add_dir)
    )
    client = LocalClient(config=settings, env=env)
    if handle is not None:
        spec = client.spec_of_handle(handle)
    else:
        spec = client.spec_of(_command(given) if given.agent_command is not None else None)
    return RunPlan(
        given=given,
        settings=settings,
        spec=spec if spec.cwd else msgspec.structs.replace(spec, cwd=workspace.cwd),
        workspace=workspace,
        access=parse_access(handle.access) if handle and given.access is None else settings.access,
        sources=rule_sources(settings),
        # Last: it may wait for standard input, which is in vain when something else is wrong.
        parts=_parts(given) if prompt else (),
        options=options,
        handle=handle,
        save=save,
    )


def _parts(given: RunOptions) -> tuple[Part, ...]:
    return prompt_parts(given.prompt, files=[*map(Path, given.file)], images=[*map(Path, given.image)])


def _command(given: RunOptions) -> Sequence[str]:
    if given.agent is not None:
        raise InputError("-a and --agent-command both name the agent: give one of them")
    try:
        words = shlex.split(given.agent_command or "")
    except ValueError as problem:
        raise InputError(f"--agent-command: {problem} in {given.agent_command!r}") from None
    if not words:
        raise InputError(
            "--agent-command is empty", guidance='Name a program and its arguments: --agent-command "my-agent --acp"'
        )
    return words


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        # Without the value: of --env it may be a key.
        raise InputError(f"{option} wants {form}; there is no name, or no equals sign, in what was given")
    return name.strip(), value


def _read_handle(given: RunOptions, env: dict[str, str], settings: Config) -> SessionHandle:
    for option, value in {
        "-a": given.agent,
        "--agent-command": given.agent_command,
        "--cwd": given.cwd,
        "--add-dir": given.add_dir,
        "--system-prompt": given.system_prompt,
    }.items():
        if value:
            raise InputError(f"{option} cannot be given with --resume: the session has its own already")
    name = given.resume or ""
    try:
        handle = read_handle(Path(name).read_bytes() if Path(name).exists() else _kept_handle(name, settings))
    except OSError as problem:
        raise InputError(f"--resume: {given.resume} cannot be read: {problem.strerror}") from None
    except InputError as problem:
        raise InputError(
            f"--resume: {given.resume}: {problem}",
            guidance="Name a session (`dragoman sessions list`), or a file that --save wrote.",
        ) from None
    missing = [secret for secret in handle.secrets if secret.removeprefix(VARIABLE) not in env]
    if missing:
        raise InputError(
            f"the session was opened with what a handle does not keep: {', '.join(missing)}",
            guidance="Give variables again with --env NAME=VALUE; MCP servers can be given in Python only.",
        )
    return handle


def _kept_handle(session_id: str, settings: Config) -> str:
    """Of a session in the journal."""
    from dragoman.hub.hub import Hub  # it loads a database

    async def find() -> str | None:
        async with Hub(config=settings) as hub:
            return (await hub.find(session_id)).handle

    if not settings.journal:
        raise InputError(f"there is no file {session_id}, and the journal is off")
    handle = asyncio.run(find())
    if handle is None:
        raise InputError(f"session {session_id} cannot be continued: what its agent needs for it was not kept")
    return handle


def save_path(text: str, by: str = "--save") -> Path:
    """Where a handle may be written; `by` names who wants it, in errors."""
    path = Path(text).expanduser()
    if path.is_dir():
        raise InputError(f"{by}: {path} is a folder", guidance="Name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"{by}: the folder {path.parent} does not exist")
    if path.exists() and not path.is_file():
        # Replaced by a file it would be gone: /dev/null, /dev/stdout.
        raise InputError(f"{by}: {path} is no regular file", guidance="Name a file; it is written anew.")
    return Path(os.path.realpath(path))


def option_value(session: Session, option_id: str, text: str) -> str | bool:
    """What was typed, as the kind of value that the agent's option has."""
    setting = session.fold.settings.get(option_id)
    if setting is None or not isinstance(setting.current, bool):
        return text
    match text.lower():
        case "true" | "on" | "yes" | "1":
            return True
        case "false" | "off" | "no" | "0":
            return False
        case _:
            raise InputError(f"--option {option_id}={text}: the agent's option {option_id} is on or off")


def save_handle(path: Path, handle: SessionHandle) -> None:
    """Whole or not at all: a handle that was cut would lose the session."""
    try:
        # Only its owner may read it: a command line may hold a key.
        atomic_write(path, f"{handle.to_json()}\n".encode())
    except OSError as problem:
        raise InputError(f"the session cannot be saved: {path} cannot be written: {problem.strerror}") from None


class AgentProcess:
    def __init__(
        self, job: RunPlan, *, on_diagnostic: Callable[[Diagnostic], None], on_question: OnQuestion | None = None
    ) -> None:
        self._link: AgentLink | None = None
        self.runtime = AgentRuntime(
            job.spec,
            limits=limits_of(job.settings),
            on_diagnostic=on_diagnostic,
            line_limit=job.settings.line_limit,
            sources=job.sources,
            on_question=on_question,
            launch=self._launch,
        )

    async def _launch(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        self._link = await launch(spec, limits, on_stderr)
        return self._link

    async def open(
        self, config: SessionConfig, handle: SessionHandle | None, options: Mapping[str, str] | None = None
    ) -> Session:
        """The session of the handle, or a new one; with these options, as they were typed."""
        if handle is not None:
            session = await self.runtime.resume_session(handle, config)
        else:
            session = await self.runtime.open_session(config)
        for option_id, text in (options or {}).items():
            await session.set_option(option_id, option_value(session, option_id, text))
        return session

    def kill(self) -> None:
        """Ends the agent at once, where there is one by now; the runtime is still to be closed."""
        if self._link is not None:
            self._link.kill()
