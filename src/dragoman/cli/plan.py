"""`RunOptions` of `run` and `chat`, the `RunPlan` that they are checked into, its prompt, and the `AgentProcess`."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from dragoman.agents.find import choose
from dragoman.agents.preset import load_presets
from dragoman.cli.command import save_path
from dragoman.cli.options import parse_pair, split_command
from dragoman.cli.output import STDIN
from dragoman.cli.text import size
from dragoman.config import Access, Config, load
from dragoman.errors import InputError
from dragoman.fileio import atomic_write
from dragoman.host.permission import OnPermission, PermissionRequest
from dragoman.host.policy.access import parse_access
from dragoman.host.policy.remembered import DerivedRules, derive
from dragoman.host.policy.rulebook import RuleSources, rule_sources
from dragoman.host.question.question import OnQuestion
from dragoman.proc.link import AgentLink
from dragoman.protocol.requests import SessionSettings
from dragoman.protocol.worktrees import SessionWorktree, WorktreeChoice
from dragoman.record.events import Event
from dragoman.session.client import LocalClient, limits_of, spec_for_session
from dragoman.session.context import ContextSource, SessionContext
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.handle import VARIABLE, SessionHandle, read_handle, workspace_of
from dragoman.session.link import launch
from dragoman.session.options import AGENT_SETTINGS, SessionConfig, settings_in
from dragoman.session.prompt import FileAttachment, ImageAttachment, Part, TextAttachment
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec, Limits
from dragoman.session.worktree import isolated_worktree, without_worktree, worktrees_of
from dragoman.workspace import Workspace
from dragoman.workspace.worktree_store import check_name


class RunOptions(SessionSettings, frozen=True, kw_only=True):
    """The options as typed: those of the session under the names of its settings, then all others."""

    prompt: tuple[str, ...] = ()
    agent: str | None = None
    agent_command: str | None = None
    cwd: str | None = None
    add_dir: tuple[str, ...] = ()
    access: str | None = None
    option: tuple[str, ...] = ()
    skill: tuple[str, ...] = ()
    no_skills: bool = False
    file: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    deadline: str | None = None
    idle_limit: str | None = None
    start_timeout: str | None = None
    env: tuple[str, ...] = ()
    resume: str | None = None
    save: str | None = None
    worktree: bool | None = None
    worktree_name: str | None = None
    base: str | None = None
    setup: str | None = None
    keep_failed: bool = False
    no_journal: bool = False
    json: bool = False
    quiet: bool = False
    plain: bool = False
    verbose: bool = False
    thoughts: bool | None = None


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A checked plan: the agent, its workspace, the prompt, and the file of the session's handle."""

    options: RunOptions
    settings: Config
    spec: AgentSpec
    workspace: Workspace
    access: Access
    sources: RuleSources
    parts: tuple[Part, ...]
    agent_options: dict[str, str]
    handle: SessionHandle | None
    save: Path | None
    worktree_choice: WorktreeChoice | None = None
    worktree: SessionWorktree | None = None  # the one that the workspace is in

    def rule_preview(self, request: PermissionRequest, allowed: bool, only_files: bool) -> DerivedRules:
        """Return the rules that "always" (allowed) or "never" to this request would become."""
        answer: Literal["allow", "deny"] = "allow" if allowed else "deny"
        home, guards = self.settings.home, self.sources.guards
        return derive(request, self.workspace, answer, home=home, guards=guards, only_files=only_files)

    def default_agent_hint(self) -> str:
        """Return how to use an agent that is installed, where the demo agent runs because nobody chose another."""
        options = self.options
        is_chosen = options.agent or options.agent_command is not None or options.resume is not None
        if is_chosen or self.settings.where("agent") is not None:
            return ""
        if not (names := installed_agents(self.settings)):
            return ""
        return (
            f"This is the demo agent. Installed here: {', '.join(names)}. To use one: -a {names[0]}, "
            f"or for good: dragoman config set agent {names[0]}"
        )

    def with_spec(self, spec: AgentSpec) -> RunPlan:
        """Return the plan with an agent that is started in the workspace, isolated and in a sandbox if it is to be."""
        config = self.session_config(None, lambda event: None)
        isolated_home = self.handle.isolated_home if self.handle is not None else None
        keep = self.settings.journal
        spec = spec_for_session(spec, config, self.settings, isolated_home=isolated_home, keep=keep)
        return msgspec.structs.replace(self, spec=spec)

    def session_config(self, on_permission: OnPermission | None, on_event: Callable[[Event], None]) -> SessionConfig:
        stored = settings_in(self.handle, without=AGENT_SETTINGS) if self.handle is not None else {}
        return SessionConfig(
            workspace=self.workspace,
            on_permission=on_permission,
            on_event=on_event,
            worktree=self.worktree,
            **{**stored, **settings_in(self.options), **self._chosen_skills(), "access": self.access},
        )

    def _chosen_skills(self) -> dict[str, tuple[str, ...]]:
        if self.options.no_skills:
            return {"skills": ()}
        return {"skills": self.options.skill} if self.options.skill else {}


def installed_agents(settings: Config) -> list[str]:
    """Return the agents whose own program is on the PATH, without the demo agent and those that would be downloaded."""

    def find(name: str, environ: Mapping[str, str]) -> Path | None:
        found = shutil.which(name, path=environ.get("PATH"))
        return Path(found) if found else None

    presets = load_presets(settings, lambda error: None)
    default = Config(home=settings.home).agent
    choices = {name: choose(preset, os.environ, find) for name, preset in presets.items() if name != default}
    return [name for name, choice in choices.items() if choice is not None and not choice.downloads]


def prepare(options: RunOptions, *, prompt: bool = True) -> RunPlan:
    """Check the options as far as possible before an agent starts; InputError where one is wrong.

    `prompt` is False for a chat, which asks for its prompts later.
    """
    flags = {"access": options.access, "deadline": options.deadline, "idle_limit": options.idle_limit}
    flags["journal"] = "off" if options.no_journal else None
    settings = load(flags={**flags, "agent": options.agent, "start_timeout": options.start_timeout})
    env = dict(parse_pair(text, "--env", "NAME=VALUE") for text in options.env)
    agent_options = dict(parse_pair(text, "--option", "ID=VALUE") for text in options.option)
    save = save_path(options.save) if options.save else None
    handle = _read_handle(options, env, settings) if options.resume else None
    workspace = workspace_of(handle) if handle else Workspace(options.cwd or os.getcwd(), options.add_dir)
    if options.skill and options.no_skills:
        raise InputError("--skill and --no-skills cannot be combined")
    if options.skill:
        SessionContext(ContextSource(settings.home), workspace, options.skill).check()
    client = LocalClient(config=settings, env=env)
    if handle is not None:
        spec = client.spec_of_handle(handle)
    else:
        spec = client.spec_of(_command(options) if options.agent_command is not None else None)
    if options.worktree is False and handle is None:
        options = msgspec.structs.replace(options, isolation=without_worktree(options.isolation, settings))
    plan = RunPlan(
        options=options,
        settings=settings,
        spec=spec,
        workspace=workspace,
        access=parse_access(handle.access) if handle and options.access is None else settings.access,
        sources=rule_sources(settings),
        # Last: it may wait for standard input, in vain if something else is wrong.
        parts=_parts(options) if prompt else (),
        agent_options=agent_options,
        handle=handle,
        save=save,
        worktree_choice=_worktree_choice(options),
        worktree=handle.worktree if handle is not None else None,
    )
    if plan.worktree_choice is None and handle is None:
        wanted = isolated_worktree(plan.session_config(None, lambda event: None), settings)
        plan = msgspec.structs.replace(plan, worktree_choice=wanted)
    return plan.with_spec(spec)


def _worktree_choice(options: RunOptions) -> WorktreeChoice | None:
    if not options.worktree and options.worktree_name is None:
        for option, value in {"--base": options.base, "--setup": options.setup}.items():
            if value is not None:
                raise InputError(f"{option} is for a session in a worktree", guidance="Add --worktree.")
        return None
    if options.worktree_name is not None:
        check_name(options.worktree_name)
    return WorktreeChoice(
        name=options.worktree_name, base=options.base, setup=options.setup, keep_failed=options.keep_failed
    )


def _parts(options: RunOptions) -> tuple[Part, ...]:
    return prompt_parts(options.prompt, files=[*map(Path, options.file)], images=[*map(Path, options.image)])


def _command(options: RunOptions) -> Sequence[str]:
    if options.agent is not None:
        raise InputError("-a and --agent-command cannot be combined: both name the agent")
    words = split_command(options.agent_command or "")
    if not words:
        raise InputError(
            "--agent-command is empty", guidance='Name a program and its arguments: --agent-command "my-agent --acp"'
        )
    return words


def _read_handle(options: RunOptions, env: dict[str, str], settings: Config) -> SessionHandle:
    for option, value in {
        "-a": options.agent,
        "--agent-command": options.agent_command,
        "--cwd": options.cwd,
        "--add-dir": options.add_dir,
        "--system-prompt": options.system_prompt,
        "--worktree": options.worktree or options.worktree_name,
    }.items():
        if value:
            raise InputError(f"{option} cannot be combined with --resume: the session has its own")
    name = options.resume or ""
    try:
        handle = read_handle(Path(name).read_bytes() if Path(name).exists() else _stored_handle(name, settings))
    except OSError as error:
        raise InputError(f"--resume: {options.resume} cannot be read: {error.strerror}") from None
    except InputError as error:
        raise InputError(
            f"--resume: {options.resume}: {error}",
            guidance="Name a session (`dragoman sessions list`), or a file that --save wrote.",
        ) from None
    missing = [secret for secret in handle.secrets if secret.removeprefix(VARIABLE) not in env]
    if missing:
        raise InputError(
            f"the session was opened with values that a handle does not store: {', '.join(missing)}",
            guidance="Pass variables again with --env NAME=VALUE; MCP servers can be passed in Python only.",
        )
    return handle


def _stored_handle(session_id: str, settings: Config) -> str:
    """Return the handle of a session in the journal."""
    from dragoman.hub.hub import Hub  # it loads a database

    async def find() -> str | None:
        async with Hub(config=settings) as hub:
            return (await hub.find(session_id)).handle

    if not settings.journal:
        raise InputError(f"there is no file {session_id}, and the journal is off")
    handle = asyncio.run(find())
    if handle is None:
        raise InputError(f"session {session_id} cannot be resumed: it has no handle")
    return handle


def option_value(session: Session, option_id: str, text: str) -> str | bool:
    """Convert a typed value to the type of the agent's option."""
    setting = session.fold.settings.get(option_id)
    if setting is None or not isinstance(setting.current, bool):
        return text
    match text.lower():
        case "true" | "on" | "yes" | "1":
            return True
        case "false" | "off" | "no" | "0":
            return False
        case _:
            raise InputError(f"{option_id} is {text!r}; expected on or off")


def save_handle(path: Path, handle: SessionHandle) -> None:
    """Write the handle whole or not at all: half of one would lose the session."""
    try:
        # Only its owner may read it: a command line may hold a key.
        atomic_write(path, f"{handle.to_json()}\n".encode())
    except OSError as error:
        raise InputError(f"the session cannot be saved: {path} cannot be written: {error.strerror}") from None


class AgentProcess:
    def __init__(
        self, plan: RunPlan, *, on_diagnostic: Callable[[Diagnostic], None], on_question: OnQuestion | None = None
    ) -> None:
        self._plan = plan
        self._link: AgentLink | None = None
        self.runtime = AgentRuntime(
            plan.spec,
            limits=limits_of(plan.settings),
            on_diagnostic=on_diagnostic,
            line_limit=plan.settings.line_limit,
            sources=plan.sources,
            context=ContextSource(plan.settings.home),
            on_question=on_question,
            launch=self._launch,
        )

    async def _launch(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        self._link = await launch(spec, limits, on_stderr)
        return self._link

    async def open(
        self, config: SessionConfig, handle: SessionHandle | None, options: Mapping[str, str] | None = None
    ) -> Session:
        """Resume the session of the handle, or open a new one; then set these options, as typed."""
        if handle is not None:
            session = await self.runtime.resume_session(handle, config)
        else:
            session = await self.runtime.open_session(config)
        if self._plan.worktree is not None:
            found = await worktrees_of(self._plan.settings).at(self._plan.workspace.cwd)
            if found is not None:
                await found.add_session(session.id)
        try:
            for option_id, text in (options or {}).items():
                await session.set_option(option_id, option_value(session, option_id, text))
        except BaseException as error:
            if handle is None:
                await self.runtime.discard_session(session, error)
            raise
        return session

    def kill(self) -> None:
        """Kill the agent, if it was started; the runtime must still be closed."""
        if self._link is not None:
            self._link.kill()


# -- the prompt

# Far more than any model reads, and far less than the line limits of agents.
MAX_STDIN_BYTES = 8_000_000


# Seconds before we print what we wait for: the program that started us may have left its pipe open.
PATIENCE_S = 2.0


EXAMPLE = 'For example: dragoman run "Explain this project", or: dragoman run < task.md'


def prompt_parts(
    words: Sequence[str], *, files: Sequence[Path] = (), images: Sequence[Path] = (), fd: int = STDIN
) -> tuple[Part, ...]:
    """Return the prompt: the words, or stdin for `-` or no words; beside words, piped input is attached."""
    text = " ".join(words)
    if text.strip() in ("", "-"):
        if not text.strip() and os.isatty(fd):
            raise InputError("there is no prompt", guidance=EXAMPLE)
        text, piped = read_text(fd), ""
        if not text.strip():
            raise InputError("the prompt is empty: standard input has no text", guidance=EXAMPLE)
    else:
        piped = read_text(fd) if _is_piped(fd) else ""
    attached = (TextAttachment("stdin", piped),) if piped.strip() else ()
    return (text, *attached, *(FileAttachment(path) for path in files), *(ImageAttachment(path) for path in images))


def read_text(fd: int) -> str:
    """Read all of a stream as text; InputError where it is not."""
    try:
        return b"".join(_pieces(fd)).decode("utf-8")
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror}", guidance=EXAMPLE) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input is not UTF-8 text ({error.reason} at byte {error.start})",
            guidance="Give the agent the file's path, or attach a picture with --image.",
        ) from None


def _pieces(fd: int) -> Iterator[bytes]:
    _say_when_waiting(fd)
    length = 0
    while piece := os.read(fd, 1 << 16):
        length += len(piece)
        if length > MAX_STDIN_BYTES:
            raise InputError(
                f"standard input is longer than {size(MAX_STDIN_BYTES)}",
                guidance="Save it to a file in the workspace and name that file in the prompt.",
            )
        yield piece


def _say_when_waiting(fd: int) -> None:
    if not os.isatty(fd) and not select.select([fd], [], [], PATIENCE_S)[0]:
        note = "dragoman: reading standard input until its end (with nothing to attach, add: < /dev/null)\n"
        sys.stderr.write(note)
        sys.stderr.flush()


def _is_piped(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:  # closed
        return False
    # Not devices: /dev/null is empty, and other terminals are not ours to read.
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
