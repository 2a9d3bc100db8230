"""`BackendAdapter`: an agent as the backend of a front end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import msgspec

from dragoman.backend.session import BackendSession
from dragoman.config import load
from dragoman.errors import InputError
from dragoman.host.handlers import FileHandler, TerminalHandler
from dragoman.host.policy.rulebook import rule_sources
from dragoman.hub.local import default_journal
from dragoman.session.client import Agent, LocalClient, limits_of, spec_for_session
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.handle import SessionHandle
from dragoman.session.link import launch
from dragoman.session.options import SessionConfig
from dragoman.session.spec import AgentSpec, Launch, Limits
from dragoman.workspace import Workspace


class BackendCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The features that a front end can rely on, with any agent."""

    streaming: bool = True
    permissions: bool = True
    slash_commands: bool = True
    availability: Literal["local", "both"] = "local"


class BackendAdapter:
    """`agent` is a preset's name (the configured default when left out), a command as a list, or an `AgentSpec`.

    Or the agent listens at a `url` (`ws://`, `wss://`, `http://`, `https://`), which gets the `headers`, such as a
    token. `env` is added to the agent's environment. Sessions are stored in the journal; `journal=False` or
    `DRAGOMAN_JOURNAL=off` turns that off. `launch` starts the agent, or connects to it, in another way.
    """

    def __init__(
        self,
        agent: Agent | None = None,
        *,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str | None] | None = None,
        limits: Limits | None = None,
        journal: bool | None = None,
        launch: Launch = launch,
    ) -> None:
        self.capabilities = BackendCapabilities(availability="local" if url is None else "both")
        self._agent = agent
        self._env = env
        self._limits = limits
        self._journal = journal
        self._launch = launch
        if url is not None:
            if agent is not None:
                raise InputError("agent and url are both given; pass only one of them")
            self._agent = AgentSpec(url=url, headers=dict(headers or {}))

    async def connect(
        self,
        config: SessionConfig | str | Path = ".",
        *,
        file_handler: FileHandler | None = None,
        terminal_handler: TerminalHandler | None = None,
        resume: SessionHandle | str | bytes | Mapping[str, object] | None = None,
        on_diagnostic: Callable[[Diagnostic], None] | None = None,
    ) -> BackendSession:
        """Open a session in a folder, or with a whole `SessionConfig`; it has a process, or a connection, of its own.

        A request that neither a rule nor `access` decides becomes a `permission_request`. A handler serves the agent's
        files or terminals in place of Dragoman, also to agents to which Dragoman would not offer them. `resume` is the
        handle of an earlier session. Raises if the agent cannot be started or the session cannot be opened.
        """
        config = config if isinstance(config, SessionConfig) else SessionConfig(workspace=Workspace(config))
        if config.on_permission is not None:
            raise InputError(
                "on_permission cannot be used with a backend session: the front end gets a permission_request",
                guidance="Leave it out, and answer with permission_response.",
            )
        files, terminals = file_handler or config.file_handler, terminal_handler or config.terminal_handler
        settings = load()
        spec = LocalClient(config=settings, env=self._env).spec_of(self._agent)
        spec = msgspec.structs.replace(
            spec_for_session(spec, config, settings),
            read_files=spec.read_files or files is not None,
            write_files=spec.write_files or files is not None,
            terminals=spec.terminals or terminals is not None,
        )
        async with AsyncExitStack() as stack:
            session = BackendSession(
                spec,
                msgspec.structs.replace(config, file_handler=files, terminal_handler=terminals),
                limits=self._limits or limits_of(settings),
                line_limit=settings.line_limit,
                sources=rule_sources(settings),
                journal_client=await stack.enter_async_context(default_journal(settings, self._journal)),
                launch=self._launch,
                on_diagnostic=on_diagnostic,
            )
            await session.open(resume)
            session.on_end = stack.pop_all().aclose
        return session
