"""`Host`: the agent's requests of one session, answered.

Promised: nothing is written and nothing is run that `access` does not allow or that was not asked and allowed (G8);
`decided` hears who decided and why before the agent does; after `cancel_pending` no question is left open (G5); after
`close` no command is left running (G6). Requests are independent: each may be served while others wait.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from dragoman.errors import INVALID_PARAMS, INVALID_REQUEST, InputError
from dragoman.host import requests
from dragoman.host.access import Access, Verdict, judge
from dragoman.host.approvals import Approvals
from dragoman.host.broker import Broker, Decision
from dragoman.host.files import OwnFiles
from dragoman.host.handlers import FileHandler, HandledFiles, HandledTerminals, TerminalHandler
from dragoman.host.permission import CANCELLED, OnPermission, PermissionRequest
from dragoman.host.refusals import denied, invalid, not_offered, withdrawn
from dragoman.host.terminals import Terminals
from dragoman.proc.environment import agent_environment
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.messages import Request, RequestId
from dragoman.workspace import OutsideWorkspace, Workspace

T = TypeVar("T", bound=msgspec.Struct)
Serve: TypeAlias = Callable[[Request], Awaitable[object]]


class Host:
    """`known` tells what the session knows of a tool call by the agent's id: permission requests may leave it out.

    A `file_handler` or `terminal_handler` does the work in place of our own.
    """

    def __init__(
        self,
        *,
        workspace: Workspace,
        access: Access,
        session_id: str,
        decided: Callable[[RequestId, str, str], None],
        read_files: bool,
        write_files: bool,
        terminals: bool,
        on_permission: OnPermission | None = None,
        network: bool | None = None,
        web_search: bool | None = None,
        environ: Mapping[str, str] | None = None,
        known: requests.Known | None = None,
        file_handler: FileHandler | None = None,
        terminal_handler: TerminalHandler | None = None,
    ) -> None:
        self._workspace = workspace
        self._access = access
        self._session_id = session_id
        self._network = network
        self._web_search = web_search
        self._decided = decided
        self._known = known
        self._environ = dict(environ) if environ is not None else agent_environment(os.environ, {})
        self._broker = Broker(on_permission)
        self._approvals = Approvals(workspace)
        self._files = OwnFiles(workspace) if file_handler is None else HandledFiles(file_handler, workspace)
        self._terminals = Terminals() if terminal_handler is None else HandledTerminals(terminal_handler)
        self._closed = False
        self._cancelling = False
        self._serving: dict[str, Serve] = {"session/request_permission": self._request_permission}
        if read_files:
            self._serving["fs/read_text_file"] = _unasked(acp.ReadTextFileRequest, self._files.read)
        if write_files:
            self._serving["fs/write_text_file"] = self._write_text_file
        if terminals:
            self._serving |= {
                "terminal/create": self._create_terminal,
                "terminal/output": _unasked(acp.TerminalOutputRequest, self._terminals.output),
                "terminal/wait_for_exit": _unasked(acp.WaitForTerminalExitRequest, self._terminals.wait_for_exit),
                "terminal/kill": _unasked(acp.KillTerminalRequest, self._terminals.kill),
                "terminal/release": _unasked(acp.ReleaseTerminalRequest, self._terminals.release),
            }

    async def serve(self, request: Request) -> object:
        """The result for the agent; `RpcRefusal` where there is none."""
        if self._closed:
            raise RpcRefusal(INVALID_REQUEST, f"{request.method}: the session is closed")
        serving = self._serving.get(request.method)
        if serving is None:
            raise not_offered(request.method)
        try:
            return await serving(request)
        except OutsideWorkspace as problem:  # a link that was changed between two looks
            raise invalid("path", str(problem)) from None

    @property
    def pending(self) -> int:
        """Questions that wait for an answer."""
        return self._broker.pending

    def cancel_pending(self, *, rest_of_run: bool = False) -> None:
        """Answer every open question `cancelled`, at once; whoever was asked is no longer heard.

        With `rest_of_run` so are the questions that come before `run_ended`: an agent may ask one more while our
        `session/cancel` is on its way.
        """
        self._cancelling = self._cancelling or rest_of_run
        self._broker.cancel_pending()
        self._approvals.clear()

    def run_ended(self) -> None:
        """Forget what belonged to the run: what it was allowed and did not carry out, and that it was cancelled."""
        self._cancelling = False
        self._approvals.clear()

    async def close(self) -> None:
        """Cancel what is asked, end all terminals. Nothing is served after it."""
        self._closed = True
        self.cancel_pending()
        await self._terminals.close()

    # -- permissions

    async def _request_permission(self, request: Request) -> acp.RequestPermissionResponse:
        try:
            asked = requests.of_tool_call(
                request.params, self._known, session_id=self._session_id, workspace=self._workspace
            )
        except msgspec.MsgspecError as problem:
            raise RpcRefusal(INVALID_PARAMS, f"{request.method}: {problem}") from None
        decision = await self._decide(request, asked)
        option_id = decision.answer.option_id
        # Every option of that id: where one of them refuses, nobody can tell which was meant.
        meant = [option.allows for option in asked.options if option.id == option_id]
        if decision.by == "callback" and decision.answer.allowed and all(meant):
            self._approvals.add(asked)
        outcome: acp.RequestPermissionOutcome = (
            acp.CancelledPermissionOutcome()
            if option_id is None
            else acp.SelectedPermissionOutcome(option_id=option_id)
        )
        return acp.RequestPermissionResponse(outcome=outcome)

    async def _permit(self, request: Request, asked: PermissionRequest) -> None:
        """Return if this, which the agent wants us to do, is allowed."""
        decision = await self._decide(request, asked)
        if decision.answer.allowed:
            return
        if decision.answer.outcome == "cancelled":
            raise withdrawn(f"{request.method} ({asked.title})")
        raise denied(f"{request.method} ({asked.title})", decision.reason)

    async def _decide(self, request: Request, asked: PermissionRequest) -> Decision:
        verdict = judge(self._access, asked, self._workspace, network=self._network, web_search=self._web_search)
        if self._closed:  # meanwhile
            decision = Decision(CANCELLED, "cancel", "the session is closed")
        elif self._cancelling:
            decision = Decision(CANCELLED, "cancel", "the run is being cancelled")
        elif verdict.decision == "ask":
            decision = await self._ask(request, asked)
        else:
            decision = _by_access(asked, verdict)
        self._decided(request.id, decision.by, decision.reason)
        return decision

    async def _ask(self, request: Request, asked: PermissionRequest) -> Decision:
        asked = msgspec.structs.replace(asked, request_id=request.id)
        if asked.origin != "agent" and self._approvals.take(asked):
            return Decision(asked.allow(), "callback", "on_permission allowed it when the agent asked for it")
        try:
            return await self._broker.ask(asked)
        except asyncio.CancelledError:
            self._decided(request.id, "cancel", "the agent withdrew its request, or the connection ended")
            raise

    # -- files and terminals

    async def _write_text_file(self, request: Request) -> acp.WriteTextFileResponse:
        params = _params(request, acp.WriteTextFileRequest)
        path, old = await self._files.before_write(params)
        asked = requests.of_write(path, old, params.content, session_id=self._session_id, workspace=self._workspace)
        await self._permit(request, asked)
        return await self._files.write(path, params)

    async def _create_terminal(self, request: Request) -> acp.CreateTerminalResponse:
        params = _params(request, acp.CreateTerminalRequest)
        if params.output_byte_limit is not None and params.output_byte_limit < 0:
            raise invalid("outputByteLimit", f"is {params.output_byte_limit}; expected a number of bytes")
        cwd = self._folder(params.cwd)
        given = {variable.name: _checked_variable(variable) for variable in params.env}
        env = {**self._environ, **given}
        self._terminals.check(params, env, cwd)
        asked = requests.of_command(params.command, params.args, given, cwd, session_id=self._session_id)
        await self._permit(request, asked)
        return await self._terminals.create(params, env, cwd)

    def _folder(self, cwd: str | None) -> Path:
        if cwd is None:
            return self._workspace.cwd
        try:
            folder = self._workspace.resolve(cwd)
        except OutsideWorkspace as problem:
            raise invalid("cwd", str(problem)) from None
        if not folder.is_dir():
            raise invalid("cwd", f"{cwd} is not a folder" if folder.exists() else f"{cwd} does not exist")
        return folder


def _by_access(asked: PermissionRequest, verdict: Verdict) -> Decision:
    if verdict.decision != "allow":
        return Decision(asked.reject(), "access", verdict.reason)
    try:
        return Decision(asked.allow(), "access", verdict.reason)
    except InputError as problem:  # no option allows: there is nothing to take but the way out
        return Decision(CANCELLED, "access", f"{verdict.reason}, but {problem}")


def _unasked(type_: type[T], act: Callable[[T], Awaitable[object]]) -> Serve:
    """Serves what nobody is asked about."""

    async def serve(request: Request) -> object:
        return await act(_params(request, type_))

    return serve


def _params(request: Request, type_: type[T]) -> T:
    try:
        return lenient.decode(request.params, type_)
    except msgspec.MsgspecError as problem:
        raise RpcRefusal(INVALID_PARAMS, f"{request.method}: {problem}") from None


def _checked_variable(variable: acp.EnvVariable) -> str:
    if not variable.name or "=" in variable.name or "\0" in variable.name + variable.value:
        raise invalid("env", f"{variable.name!r} cannot be a variable's name, or has a NUL character in its value")
    return variable.value
