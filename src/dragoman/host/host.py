"""`Host`: serves the agent's requests of one session.

Promised: nothing is read, written or run that neither a rule nor a person allowed (G8); `note` is called with each
request, decision and action before the agent gets its answer; after `cancel_pending` no question is left open, and
after `end_run_terminals` no command of the run is left running (G5); after `close` no command at all (G6). Requests are
independent: each may be served while others wait.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from dragoman.clock import SYSTEM_CLOCK, Clock
from dragoman.errors import INVALID_PARAMS, INVALID_REQUEST
from dragoman.host.files import Buffers, WorkspaceFiles, locate
from dragoman.host.handlers import FileHandler, HandledFiles, HandledTerminals, TerminalHandler
from dragoman.host.permission import OnPermission, PermissionRequest
from dragoman.host.permission_service import PermissionService
from dragoman.host.policy.rulebook import Rulebook
from dragoman.host.question.question import OnQuestion
from dragoman.host.question.questions import AnsweredQuestion, Questions
from dragoman.host.refusals import invalid, not_offered, withdrawn
from dragoman.host.requests import UNKNOWN_TOOLS, AgentTools, FirstTitle, Known, Requests
from dragoman.host.terminal.terminal import Terminal
from dragoman.host.terminal.terminals import Terminals
from dragoman.proc.environment import agent_environment
from dragoman.record import notes
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.messages import Request, RequestId
from dragoman.workspace import OutsideWorkspace, Workspace
from dragoman.workspace.sandbox_policy import CommandWrapper

T = TypeVar("T", bound=msgspec.Struct)
Serve: TypeAlias = Callable[[Request], Awaitable[object]]


class _RunTerminals(msgspec.Struct):
    """The commands that were started in one run."""

    ids: list[str] = []
    starting: set[asyncio.Future[None]] = msgspec.field(default_factory=set)  # one for each that is being started
    is_stopped: bool = False  # no more are started, and one that is being started is ended at once
    ending: asyncio.Task[None] | None = None

    def check_active(self, action: str) -> None:
        if self.is_stopped:
            raise withdrawn(action)


class Host:
    """Serves the requests; `permissions` and `questions` also take answers from elsewhere than the callbacks.

    `known` returns the session's row of a tool call, by the agent's id: permission requests may leave fields out.
    `first_title` returns the title with which it was first reported.

    A `file_handler` or `terminal_handler` does the work in place of our own. With `keep_terminals` commands outlive a
    run that was cancelled. In a `sandbox` commands are started, and only files are written that it leaves writable.
    """

    def __init__(
        self,
        *,
        workspace: Workspace,
        rules: Rulebook,
        session_id: str,
        note: Callable[[notes.Note], None],
        read_files: bool,
        write_files: bool,
        terminals: bool,
        agent: str = "",
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        time_limit_s: float | None = None,
        environ: Mapping[str, str] | None = None,
        known: Known | None = None,
        first_title: FirstTitle | None = None,
        buffers: Buffers | None = None,
        file_handler: FileHandler | None = None,
        terminal_handler: TerminalHandler | None = None,
        keep_terminals: bool = False,
        tools: AgentTools = UNKNOWN_TOOLS,
        sandbox: CommandWrapper | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._workspace = workspace
        self._keep_terminals = keep_terminals
        self._sandbox = sandbox
        self._run_terminals = _RunTerminals()
        self._requests = Requests(session_id, agent, workspace, tools)
        self._note = note
        self._known = known
        self._first_title = first_title
        self._environ = dict(environ) if environ is not None else agent_environment(os.environ, {})
        self.permissions = PermissionService(workspace, rules, note, on_permission, time_limit_s, clock)
        self.questions = Questions(
            on_question,
            agent=agent,
            session_id=session_id,
            time_limit_s=time_limit_s,
            on_answered=self._question_answered,
            clock=clock,
        )
        self._files = (
            WorkspaceFiles(workspace, buffers=buffers)
            if file_handler is None
            else HandledFiles(file_handler, workspace)
        )
        self._own_terminals = Terminals(sandbox=sandbox, on_exit=lambda terminal: note(terminal.summary()))
        self._terminals = self._own_terminals if terminal_handler is None else HandledTerminals(terminal_handler)
        self._closed = False
        self._request_ids: set[RequestId] = set()  # by the agent's id: until they are answered
        self._serving: dict[str, Serve] = {"session/request_permission": self._request_permission}
        if on_question is not None:
            self._serving["elicitation/create"] = self.questions.create
        if read_files:
            self._serving["fs/read_text_file"] = self._read_text_file
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
        """Return the result for the agent; `RpcRefusal` where there is none."""
        if self._closed:
            raise RpcRefusal(INVALID_REQUEST, f"{request.method}: the session is closed")
        serving = self._serving.get(request.method)
        if serving is None:
            raise not_offered(request.method)
        if request.id in self._request_ids:
            self.permissions.refuse_announced(request)
            # Answers name the id: a yes to one of them must not count for the other.
            raise RpcRefusal(INVALID_REQUEST, f"{request.method}: another request with the id {request.id!r} waits")
        self._request_ids.add(request.id)
        try:
            return await serving(request)
        except OutsideWorkspace as error:  # a symbolic link was changed between two looks
            raise invalid("path", str(error)) from None
        finally:
            self._request_ids.discard(request.id)

    def announce(self, request: Request) -> None:
        """Open a request before it is served: those who are shown it meanwhile may answer it."""
        if request.id in self._request_ids:
            return  # `serve` refuses it
        if request.method == "session/request_permission" and not self._closed:
            try:
                self.permissions.announce(request, self._permission_of(request))
            except msgspec.MsgspecError:
                pass  # `serve` says so

    @property
    def pending(self) -> int:
        """The number of requests and questions without an answer."""
        return self.permissions.pending + self.questions.pending

    def terminal(self, terminal_id: str) -> Terminal | None:
        """Return one of our own terminals, to show or follow it; also one that the agent has released."""
        return self._own_terminals.find(terminal_id)

    def cancel_pending(self, *, rest_of_run: bool = False) -> None:
        """Answer every open question `cancelled`, at once; later answers change nothing.

        With `rest_of_run` so are the questions that come before `run_ended`: an agent may ask one more while our
        `session/cancel` is on its way.
        """
        self.permissions.cancel_pending(rest_of_run=rest_of_run)
        self.questions.cancel_pending(rest_of_run=rest_of_run)

    @property
    def has_run_terminals(self) -> bool:
        """True where `end_run_terminals` has something to end, or is about to."""
        return bool(self._run_terminals.ids or self._run_terminals.starting) and not self._keep_terminals

    async def end_run_terminals(self) -> None:
        """End the commands of this run: agents leave them running when cancelled. None is started in it any more."""
        if self._keep_terminals:
            return
        commands = self._run_terminals
        commands.is_stopped = True
        if commands.ending is None:
            ending = self._terminals.end(tuple(commands.ids))
            commands.ending = asyncio.get_running_loop().create_task(ending, name="dragoman end of commands")
        await asyncio.wait((commands.ending, *commands.starting))

    def run_ended(self, *, stopped: bool = False) -> None:
        """Forget the state of the run: its unused approvals, its cancellation, and its commands.

        Of a run that was `stopped`, no command is started any more.
        """
        self.permissions.run_ended()
        self.questions.run_ended()
        self._run_terminals.is_stopped |= stopped and not self._keep_terminals
        self._run_terminals = _RunTerminals()

    async def close(self) -> None:
        """Cancel all questions and end all terminals. Requests that come later are refused."""
        self._closed = True
        self.permissions.close()
        self.questions.cancel_pending(rest_of_run=True)
        await self._terminals.close()

    # -- asking

    async def _request_permission(self, request: Request) -> acp.RequestPermissionResponse:
        try:
            permission = self._permission_of(request)
        except msgspec.MsgspecError as error:
            raise RpcRefusal(INVALID_PARAMS, f"{request.method}: {error}") from None
        decision = await self.permissions.decide(request, permission)
        option_id = decision.answer.option_id
        outcome: acp.RequestPermissionOutcome = (
            acp.CancelledPermissionOutcome()
            if option_id is None
            else acp.SelectedPermissionOutcome(option_id=option_id)
        )
        return acp.RequestPermissionResponse(outcome=outcome)

    def _permission_of(self, request: Request) -> PermissionRequest:
        return self._requests.of_tool_call(request.params, self._known, self._first_title)

    def _question_answered(self, answered: AnsweredQuestion) -> None:
        request_id = answered.question.request_id
        assert request_id is not None  # it was read from a request
        self._note(notes.Decision(request_id, answered.by, answered.reason))

    # -- files and terminals

    async def _read_text_file(self, request: Request) -> acp.ReadTextFileResponse:
        params = _params(request, acp.ReadTextFileRequest)
        path = await asyncio.to_thread(locate, self._workspace, params.path)
        self._note(notes.file_note(request.id, str(path)))
        await self.permissions.permit(request, self._requests.of_read(path))
        found = await self._files.read(params)
        if found.path != path:
            raise invalid("path", f"{params.path} now leads to another file than before")
        return acp.ReadTextFileResponse(content=found.text, meta=found.meta)

    async def _write_text_file(self, request: Request) -> acp.WriteTextFileResponse:
        params = _params(request, acp.WriteTextFileRequest)
        target = await self._files.prepare_write(params)
        if self._sandbox is not None and (reason := self._sandbox.write_refusal(target.path)):
            raise invalid("path", reason)
        permission = self._requests.of_write(target.path, target.old_text, params.content)
        # What may not be touched need not be copied into the record either.
        old_text = None if self.permissions.denies(permission) else target.old_text
        self._note(notes.file_note(request.id, str(target.path), old_text, old_size=target.old_size))
        decision = await self.permissions.permit(request, permission)
        if decision.by != "rule":
            now = await self._files.prepare_write(params)
            if now.path == target.path and now != target:
                # What was allowed is the difference that was shown.
                raise invalid("path", f"{params.path} was changed before the write was approved: read it again")
        return await self._files.write(target.path, params)

    async def _create_terminal(self, request: Request) -> acp.CreateTerminalResponse:
        params = _params(request, acp.CreateTerminalRequest)
        if params.output_byte_limit is not None and params.output_byte_limit < 0:
            raise invalid("outputByteLimit", f"is {params.output_byte_limit}; expected a number of bytes")
        cwd = self._folder(params.cwd)
        given = {variable.name: _checked_variable(variable) for variable in params.env}
        env = {**self._environ, **given}
        shell = self._terminals.check(params, env, cwd)
        permission = self._requests.of_command(params.command, params.args, given, cwd, shell=shell)
        commands = self._run_terminals
        await self.permissions.permit(request, permission)
        if self._folder(params.cwd) != cwd:
            raise invalid("cwd", f"{params.cwd} now leads to another folder than the one that was approved")
        commands.check_active(f"{request.method} ({permission.title})")
        is_started = asyncio.get_running_loop().create_future()
        commands.starting.add(is_started)
        try:
            started = await self._terminals.create(params, env, cwd, shell=shell)
            commands.ids.append(started.terminal_id)
            if commands.is_stopped:  # meanwhile
                await self._terminals.end((started.terminal_id,))
        finally:
            commands.starting.discard(is_started)
            is_started.set_result(None)
        return started

    def _folder(self, cwd: str | None) -> Path:
        if cwd is None:
            return self._workspace.cwd
        try:
            folder = self._workspace.resolve(cwd)
        except OutsideWorkspace as error:
            raise invalid("cwd", str(error)) from None
        if not folder.is_dir():
            raise invalid("cwd", f"{cwd} is not a folder" if folder.exists() else f"{cwd} does not exist")
        return folder


def _unasked(type_: type[T], act: Callable[[T], Awaitable[object]]) -> Serve:
    """Serve a request that needs no permission."""

    async def serve(request: Request) -> object:
        return await act(_params(request, type_))

    return serve


def _params(request: Request, type_: type[T]) -> T:
    try:
        return lenient.decode(request.params, type_)
    except msgspec.MsgspecError as error:
        raise RpcRefusal(INVALID_PARAMS, f"{request.method}: {error}") from None


def _checked_variable(variable: acp.EnvVariable) -> str:
    if not variable.name or "=" in variable.name or "\0" in variable.name + variable.value:
        raise invalid("env", f"{variable.name!r} cannot be a variable's name, or has a NUL character in its value")
    return variable.value
