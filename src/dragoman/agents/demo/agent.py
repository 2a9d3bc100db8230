"""The ACP side of the demo agent: capabilities, methods, sessions, cancel.

It answers every method of the stable protocol for agents, and `session/fork`. An invalid request is refused with the
name of the field (-32602), an unknown session with -32002, a second prompt on a busy session with -32600.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from dragoman._version import __version__
from dragoman.agents.demo import settings
from dragoman.agents.demo.requests import DOCUMENT, REQUESTS
from dragoman.agents.demo.scenes import LOGIN, login_required, play_scene
from dragoman.agents.demo.session import BURST_CHUNKS, PromptRun, Session, World, shows_switches, timestamp
from dragoman.agents.demo.store import BadCursor, SavedSession, SessionStore, UnreadableSession, new_id
from dragoman.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    DragomanError,
)
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcConnection, RpcRefusal
from dragoman.wire.messages import Message, Notification, OutgoingMessage, Request, RequestId

Method: TypeAlias = Callable[[Any], Awaitable[object]]
OpenParams: TypeAlias = (
    acp.NewSessionRequest | acp.LoadSessionRequest | acp.ResumeSessionRequest | acp.ForkSessionRequest
)

# Sessions on a page of `session/list`: a screen or two.
PAGE_SIZE = 50

# At the end of stdin, how long requests under way may still take to be answered.
ANSWER_GRACE_S = 2.0


# It connects to no MCP server, so it offers neither http nor sse; stdio servers every agent has to accept.
CAPABILITIES = acp.AgentCapabilities(
    load_session=True,
    prompt_capabilities=acp.PromptCapabilities(image=True, audio=True, embedded_context=True),
    session_capabilities=acp.SessionCapabilities(
        list=acp.SessionListCapabilities(),
        delete=acp.SessionDeleteCapabilities(),
        additional_directories=acp.SessionAdditionalDirectoriesCapabilities(),
        fork=acp.SessionForkCapabilities(),
        resume=acp.SessionResumeCapabilities(),
        close=acp.SessionCloseCapabilities(),
    ),
    auth=acp.AgentAuthCapabilities(logout=acp.LogoutCapabilities()),
)

# Without those that misbehave: nobody should crash the agent by picking from a menu.
COMMANDS = acp.AvailableCommandsUpdate(
    available_commands=tuple(
        acp.AvailableCommand(
            name=request.name,
            description=request.description,
            input=acp.UnstructuredCommandInput(hint=request.hint) if request.hint else None,
        )
        for request in REQUESTS
        if request.group != "Break"
    )
)

INITIALIZE_RESPONSE = acp.InitializeResponse(
    protocol_version=acp.PROTOCOL_VERSION,
    agent_capabilities=CAPABILITIES,
    auth_methods=(LOGIN,),
    agent_info=acp.Implementation(name="dragoman-demo", title="Dragoman's demo agent", version=__version__),
)


class DemoAgent:
    """A connection's handler. `attach` gives it the connection, which needs its handler first."""

    def __init__(
        self, store: SessionStore, world: World, *, login_required: bool = False, page_size: int = PAGE_SIZE
    ) -> None:
        self._store = store
        self._world = world
        self._login_required = login_required
        self._page_size = page_size
        self._client: acp.ClientCapabilities | None = None
        self._logged_in = False
        self._sessions: dict[str, Session] = {}
        self._serving_tasks: set[asyncio.Task[Any]] = set()
        # Prompts that were heard and not yet begun, with their session; None once they are cancelled.
        self._unstarted_prompts: dict[RequestId, str | None] = {}
        self._methods: dict[str, tuple[type, Method]] = {
            "initialize": (acp.InitializeRequest, self._initialize),
            "authenticate": (acp.AuthenticateRequest, self._authenticate),
            "logout": (acp.LogoutRequest, self._logout),
            "session/new": (acp.NewSessionRequest, self._new),
            "session/load": (acp.LoadSessionRequest, self._load),
            "session/resume": (acp.ResumeSessionRequest, self._resume),
            "session/fork": (acp.ForkSessionRequest, self._fork),
            "session/list": (acp.ListSessionsRequest, self._list),
            "session/close": (acp.CloseSessionRequest, self._close),
            "session/delete": (acp.DeleteSessionRequest, self._delete),
            "session/set_mode": (acp.SetSessionModeRequest, self._set_mode),
            "session/set_config_option": (acp.SetSessionConfigOptionRequest, self._set_config_option),
            "session/prompt": (acp.PromptRequest, self._prompt),
        }

    def attach(self, connection: RpcConnection) -> None:
        self._connection = connection

    # -- calls of the connection (wire.connection.Handler)

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        for message in messages:
            match message:
                case Request(method="session/prompt"):
                    self._unstarted_prompts[message.id] = _session_id_of(message.params)
                case Notification(method="session/cancel"):
                    self._cancel(_session_id_of(message.params))
                case _:
                    pass

    def on_sending(self, message: OutgoingMessage, at: float) -> None:
        pass

    async def wait_until_ready(self) -> None:
        pass

    async def serve(self, request: Request) -> object:
        task = asyncio.current_task()
        assert task is not None
        self._serving_tasks.add(task)
        try:
            if self._unstarted_prompts.pop(request.id, "") is None:
                return acp.PromptResponse(stop_reason="cancelled")
            return await self._answer(request)
        finally:
            self._serving_tasks.discard(task)

    async def on_ended(self) -> DragomanError:
        """Stop the runs, since the client is gone; requests under way are still answered."""
        for session in self._sessions.values():
            if session.run is not None:
                session.run.ignores_cancel = False
                session.run.cancel()
        if self._serving_tasks:
            await asyncio.wait(self._serving_tasks, timeout=ANSWER_GRACE_S)
        return DragomanError("the client has closed the connection")

    async def _answer(self, request: Request) -> object:
        if request.method not in self._methods:
            raise RpcRefusal(METHOD_NOT_FOUND, f"{request.method} is no method of the demo agent")
        kind, method = self._methods[request.method]
        if self._client is None and request.method != "initialize":
            raise RpcRefusal(INVALID_REQUEST, f"{request.method} came before initialize")
        try:
            params: Any = lenient.decode(request.params, kind)
        except msgspec.MsgspecError as error:
            raise RpcRefusal(INVALID_PARAMS, f"{request.method}: {error}") from None
        try:
            return await method(params)
        except (settings.NotAllowed, BadCursor) as error:
            raise RpcRefusal(INVALID_PARAMS, str(error)) from None
        except UnreadableSession as error:
            raise RpcRefusal(INTERNAL_ERROR, str(error)) from None

    def _cancel(self, session_id: str) -> None:
        """Cancel the run under way, and prompts that came in the same read and have not begun."""
        session = self._sessions.get(session_id)
        if session is not None and session.run is not None:
            session.run.cancel()
        for request_id, its_session in self._unstarted_prompts.items():
            if its_session == session_id:
                self._unstarted_prompts[request_id] = None

    # -- the connection itself

    async def _initialize(self, params: acp.InitializeRequest) -> acp.InitializeResponse:
        self._client = params.client_capabilities
        return INITIALIZE_RESPONSE

    async def _authenticate(self, params: acp.AuthenticateRequest) -> acp.AuthenticateResponse:
        if params.method_id != LOGIN.id:
            raise RpcRefusal(
                INVALID_PARAMS, f"methodId: there is no {params.method_id!r}; the only one is {LOGIN.id!r}"
            )
        self._logged_in = True
        return acp.AuthenticateResponse()

    async def _logout(self, params: acp.LogoutRequest) -> acp.LogoutResponse:
        self._logged_in = False
        return acp.LogoutResponse()

    # -- sessions

    async def _new(self, params: acp.NewSessionRequest) -> acp.NewSessionResponse:
        self._check_opening(params)
        session = self._open_saved(self._new_saved(params), params)
        self._notify_soon(session, COMMANDS)
        return acp.NewSessionResponse(
            session_id=session.id, modes=settings.mode_state(session.mode), config_options=self._options(session)
        )

    async def _load(self, params: acp.LoadSessionRequest) -> acp.LoadSessionResponse:
        """Send the whole history, then answer."""
        session = self._reopen(params)
        for number, update in enumerate(session.history.entries(), start=1):
            self._connection.notify("session/update", {"sessionId": session.id, "update": update})
            if number % BURST_CHUNKS == 0:
                await self._connection.drain()
        self._notify(session, COMMANDS)
        self._notify(session, acp.SessionInfoUpdate(title=session.title, updated_at=session.updated_at))
        self._notify(session, acp.UsageUpdate(used=min(session.words, session.context_size), size=session.context_size))
        return acp.LoadSessionResponse(modes=settings.mode_state(session.mode), config_options=self._options(session))

    async def _resume(self, params: acp.ResumeSessionRequest) -> acp.ResumeSessionResponse:
        session = self._reopen(params)
        self._notify_soon(session, COMMANDS)
        return acp.ResumeSessionResponse(modes=settings.mode_state(session.mode), config_options=self._options(session))

    async def _fork(self, params: acp.ForkSessionRequest) -> acp.ForkSessionResponse:
        self._check_opening(params)
        source = self._load_saved(params.session_id)
        copy = msgspec.structs.replace(source, id=new_id(), updated_at=timestamp(self._world.now()))
        session = self._open_saved(copy, params)
        self._notify_soon(session, COMMANDS)
        return acp.ForkSessionResponse(
            session_id=session.id, modes=settings.mode_state(session.mode), config_options=self._options(session)
        )

    async def _list(self, params: acp.ListSessionsRequest) -> acp.ListSessionsResponse:
        self._check_login()
        if params.cwd is not None:
            _check_absolute("cwd", params.cwd)
        page, cursor = self._store.page(cwd=params.cwd, cursor=params.cursor, size=self._page_size)
        infos = (
            acp.SessionInfo(
                session_id=head.id,
                cwd=head.cwd,
                additional_directories=head.additional_directories,
                title=head.title,
                updated_at=head.updated_at,
            )
            for head in page
        )
        return acp.ListSessionsResponse(sessions=tuple(infos), next_cursor=cursor)

    async def _close(self, params: acp.CloseSessionRequest) -> acp.CloseSessionResponse:
        self._forget(self._open_session(params.session_id))
        return acp.CloseSessionResponse()

    async def _delete(self, params: acp.DeleteSessionRequest) -> acp.DeleteSessionResponse:
        """Delete a session. One that does not exist is no error."""
        self._check_login()
        self._store.delete(params.session_id)
        if session := self._sessions.get(params.session_id):
            self._forget(session)
        return acp.DeleteSessionResponse()

    async def _set_mode(self, params: acp.SetSessionModeRequest) -> acp.SetSessionModeResponse:
        session = self._open_session(params.session_id)
        session.mode = settings.check_mode(params.mode_id)
        self._save(session)
        self._notify(session, acp.ConfigOptionUpdate(config_options=self._options(session)))
        return acp.SetSessionModeResponse()

    async def _set_config_option(self, params: acp.SetSessionConfigOptionRequest) -> acp.SetSessionConfigOptionResponse:
        session = self._open_session(params.session_id)
        if params.config_id == "mode":
            session.mode = settings.check_mode(str(params.value), field="value")
            self._notify(session, acp.CurrentModeUpdate(current_mode_id=session.mode))
        else:
            session.values[params.config_id] = settings.check_value(params.config_id, params.value)
        self._save(session)
        return acp.SetSessionConfigOptionResponse(config_options=self._options(session))

    # -- prompts

    async def _prompt(self, params: acp.PromptRequest) -> acp.PromptResponse:
        session = self._open_session(params.session_id)
        if session.run is not None:
            raise RpcRefusal(
                INVALID_REQUEST,
                f"session {session.id} is busy with another prompt; wait for it, or send session/cancel",
            )
        run = session.run = PromptRun(
            session, self._connection, self._client_capabilities, self._world, self._logged_in
        )
        try:
            session.add_prompt(params.prompt)
            session.updated_at = timestamp(self._world.now())
            self._save(session)
            return await run.play(play_scene(run, params.prompt))
        finally:
            session.run = None
            session.updated_at = timestamp(self._world.now())
            self._save(session)

    # -- helpers

    @property
    def _client_capabilities(self) -> acp.ClientCapabilities:
        assert self._client is not None, "serve refuses everything before initialize"
        return self._client

    def _check_login(self) -> None:
        if self._login_required and not self._logged_in:
            raise login_required()

    def _check_opening(self, params: OpenParams) -> None:
        self._check_login()
        _check_absolute("cwd", params.cwd)
        for number, folder in enumerate(params.additional_directories):
            _check_absolute(f"additionalDirectories[{number}]", folder)

    def _new_saved(self, params: acp.NewSessionRequest) -> SavedSession:
        return SavedSession(
            id=new_id(), cwd=params.cwd, updated_at=timestamp(self._world.now()), mode=DOCUMENT.default_mode
        )

    def _open_saved(self, saved: SavedSession, params: OpenParams) -> Session:
        """Open a new session from saved data, and save it."""
        session = Session(saved, params.mcp_servers)
        _apply_params(session, params)
        self._sessions[session.id] = session
        self._save(session, new=True)
        return session

    def _reopen(self, params: acp.LoadSessionRequest | acp.ResumeSessionRequest) -> Session:
        self._check_opening(params)
        session = self._sessions.get(params.session_id)
        if session is None:
            session = Session(self._load_saved(params.session_id), params.mcp_servers)
            self._sessions[session.id] = session
        elif session.run is not None:
            raise RpcRefusal(INVALID_REQUEST, f"session {session.id} is busy with a prompt; wait for it, or cancel it")
        _apply_params(session, params)
        return session

    def _load_saved(self, session_id: str) -> SavedSession:
        if session := self._sessions.get(session_id):
            return session.saved()
        saved = self._store.load(session_id)
        if saved is None:
            raise RpcRefusal(NOT_FOUND, f"there is no session {session_id!r}; session/list lists the sessions")
        return saved

    def _open_session(self, session_id: str) -> Session:
        self._check_login()
        if session_id not in self._sessions:
            raise RpcRefusal(NOT_FOUND, f"session {session_id!r} is not open; load or resume it first")
        return self._sessions[session_id]

    def _forget(self, session: Session) -> None:
        if session.run is not None:
            session.run.cancel()
        del self._sessions[session.id]

    def _save(self, session: Session, *, new: bool = False) -> None:
        try:
            if new:
                self._store.save(session.saved())
                self._store.prune()
            else:
                self._store.save_again(session.saved())
        except OSError as error:
            # The conversation can go on; only load, resume and list will not know of it.
            self._world.stderr.write(f"demo agent: {session.id} could not be saved: {error}\n")
            self._world.stderr.flush()

    def _options(self, session: Session) -> tuple[Any, ...]:
        return session.options(switches=shows_switches(self._client_capabilities))

    def _notify(self, session: Session, update: acp.SessionUpdate) -> None:
        self._connection.notify("session/update", acp.SessionNotification(session_id=session.id, update=update))

    def _notify_soon(self, session: Session, update: acp.SessionUpdate) -> None:
        """Notify after the answer that is about to be sent: a client may not know the session before it."""
        asyncio.get_running_loop().call_soon(self._notify, session, update)


def _session_id_of(params: msgspec.Raw) -> str:
    """Return the session id of a message; empty where it has none."""
    try:
        return lenient.decode(params, acp.CancelNotification).session_id
    except msgspec.MsgspecError:
        return ""


def _apply_params(session: Session, params: OpenParams) -> None:
    session.cwd = os.path.normpath(params.cwd)
    session.additional_directories = params.additional_directories
    session.mcp_servers = params.mcp_servers


def _check_absolute(field: str, path: str) -> None:
    if not os.path.isabs(path):
        raise RpcRefusal(INVALID_PARAMS, f"{field}: {path!r} is not an absolute path")
