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
from typing import TypeVar

import msgspec

from dragoman.errors import INVALID_PARAMS, INVALID_REQUEST, InputError
from dragoman.host import files, questions
from dragoman.host.access import Access, Verdict, judge
from dragoman.host.approvals import Approvals
from dragoman.host.broker import Broker, Decision
from dragoman.host.handlers import FileHandler, HandledFiles, HandledTerminals, TerminalHandler
from dragoman.host.permission import CANCELLED, OnPermission, PermissionRequest
from dragoman.host.refusals import denied, invalid, not_offered, withdrawn
from dragoman.host.terminals import Terminals, command_line
from dragoman.proc.environment import agent_environment
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.messages import Request, RequestId
from dragoman.workspace import OutsideWorkspace, Workspace

T = TypeVar("T", bound=msgspec.Struct)


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
        known: questions.Known | None = None,
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
        self._terminals = Terminals()
        self._handled_files = HandledFiles(file_handler) if file_handler is not None else None
        self._handled_terminals = HandledTerminals(terminal_handler) if terminal_handler is not None else None
        self._closed = False
        self._cancelling = False
        self._serving: dict[str, Callable[[Request], Awaitable[object]]] = {
            "session/request_permission": self._request_permission
        }
        if read_files:
            self._serving["fs/read_text_file"] = self._read_text_file
        if write_files:
            self._serving["fs/write_text_file"] = self._write_text_file
        if terminals:
            self._serving |= {
                "terminal/create": self._create_terminal,
                "terminal/output": self._terminal_output,
                "terminal/wait_for_exit": self._wait_for_terminal_exit,
                "terminal/kill": self._kill_terminal,
                "terminal/release": self._release_terminal,
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
        if self._handled_terminals is not None:
            await self._handled_terminals.close()

    # -- permissions

    async def _request_permission(self, request: Request) -> acp.RequestPermissionResponse:
        try:
            asked = questions.of_tool_call(
                request.params, self._known, session_id=self._session_id, workspace=self._workspace
            )
        except msgspec.MsgspecError as problem:
            raise RpcRefusal(INVALID_PARAMS, f"{request.method}: {problem}") from None
        decision = await self._decide(request, asked)
        if decision.by == "callback" and decision.answer.allowed:
            self._approvals.add(asked)
        option_id = decision.answer.option_id
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
        if self._cancelling:
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

    # -- files

    async def _read_text_file(self, request: Request) -> acp.ReadTextFileResponse:
        params = _params(request, acp.ReadTextFileRequest)
        if self._handled_files is not None:
            await asyncio.to_thread(files.locate, self._workspace, params.path)
            return await self._handled_files.read(params)
        text = await asyncio.to_thread(files.read_text, self._workspace, params.path, params.line, params.limit)
        return acp.ReadTextFileResponse(content=text)

    async def _write_text_file(self, request: Request) -> acp.WriteTextFileResponse:
        params = _params(request, acp.WriteTextFileRequest)
        if self._handled_files is not None:
            return await self._write_by_handler(self._handled_files, request, params)
        # Before anyone is asked: what cannot be done anyway is no question.
        path, old = await asyncio.to_thread(files.before_write, self._workspace, params.path, params.content)
        asked = questions.of_write(path, old, params.content, session_id=self._session_id, workspace=self._workspace)
        await self._permit(request, asked)
        await asyncio.to_thread(files.write_text, self._workspace, path, params.content)
        return acp.WriteTextFileResponse()

    async def _write_by_handler(
        self, handled: HandledFiles, request: Request, params: acp.WriteTextFileRequest
    ) -> acp.WriteTextFileResponse:
        path = await asyncio.to_thread(files.locate, self._workspace, params.path)
        old = await handled.shown(params.session_id, params.path)
        asked = questions.of_write(path, old, params.content, session_id=self._session_id, workspace=self._workspace)
        await self._permit(request, asked)
        # Looked up anew: a person may have thought for minutes, and what was allowed is this place.
        if await asyncio.to_thread(files.locate, self._workspace, params.path) != path:
            raise invalid("path", f"{params.path} leads elsewhere now than when it was allowed")
        return await handled.write(params)

    # -- terminals

    async def _create_terminal(self, request: Request) -> acp.CreateTerminalResponse:
        params = _params(request, acp.CreateTerminalRequest)
        if params.output_byte_limit is not None and params.output_byte_limit < 0:
            raise invalid("outputByteLimit", f"is {params.output_byte_limit}; expected a number of bytes")
        cwd = self._folder(params.cwd)
        given = {variable.name: _checked_variable(variable) for variable in params.env}
        env = {**self._environ, **given}
        # A handler knows by itself which programs there are.
        argv = command_line(params.command, params.args, env, cwd) if self._handled_terminals is None else []
        asked = questions.of_command(params.command, params.args, given, cwd, session_id=self._session_id)
        await self._permit(request, asked)
        if self._handled_terminals is not None:
            return await self._handled_terminals.create(params)
        terminal_id = await self._terminals.create(argv, env, cwd, params.output_byte_limit)
        return acp.CreateTerminalResponse(terminal_id=terminal_id)

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

    async def _terminal_output(self, request: Request) -> acp.TerminalOutputResponse:
        params = _params(request, acp.TerminalOutputRequest)
        if self._handled_terminals is not None:
            return await self._handled_terminals.output(params)
        terminal = self._terminals[params.terminal_id]
        output, truncated = terminal.output
        return acp.TerminalOutputResponse(output=output, truncated=truncated, exit_status=terminal.exit_status)

    async def _wait_for_terminal_exit(self, request: Request) -> acp.WaitForTerminalExitResponse:
        params = _params(request, acp.WaitForTerminalExitRequest)
        if self._handled_terminals is not None:
            return await self._handled_terminals.wait_for_exit(params)
        status = await self._terminals[params.terminal_id].wait()
        return acp.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def _kill_terminal(self, request: Request) -> acp.KillTerminalResponse:
        params = _params(request, acp.KillTerminalRequest)
        if self._handled_terminals is not None:
            return await self._handled_terminals.kill(params)
        await self._terminals[params.terminal_id].end()
        return acp.KillTerminalResponse()

    async def _release_terminal(self, request: Request) -> acp.ReleaseTerminalResponse:
        params = _params(request, acp.ReleaseTerminalRequest)
        if self._handled_terminals is not None:
            return await self._handled_terminals.release(params)
        await self._terminals.release(params.terminal_id)
        return acp.ReleaseTerminalResponse()


def _by_access(asked: PermissionRequest, verdict: Verdict) -> Decision:
    if verdict.decision != "allow":
        return Decision(asked.reject(), "access", verdict.reason)
    try:
        return Decision(asked.allow(), "access", verdict.reason)
    except InputError as problem:  # no option allows: there is nothing to take but the way out
        return Decision(CANCELLED, "access", f"{verdict.reason}, but {problem}")


def _params(request: Request, type_: type[T]) -> T:
    try:
        return lenient.decode(request.params, type_)
    except msgspec.MsgspecError as problem:
        raise RpcRefusal(INVALID_PARAMS, f"{request.method}: {problem}") from None


def _checked_variable(variable: acp.EnvVariable) -> str:
    if not variable.name or "=" in variable.name or "\0" in variable.name + variable.value:
        raise invalid("env", f"{variable.name!r} cannot be a variable's name, or has a NUL character in its value")
    return variable.value
