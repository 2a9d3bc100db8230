"""A session: one conversation with one agent in one workspace.

Everything that a program does with a session is here. It owns the session's fold, its host, its dispatcher (frames in,
events out) and its run queue (runs never overlap).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Unpack, overload

import msgspec

from dragoman.clock import Clock
from dragoman.config import Access
from dragoman.errors import (
    AgentCrashed,
    AuthenticationRequired,
    CapabilityMissing,
    DragomanError,
    InputError,
    RequestFailed,
    SessionBusy,
    SessionClosed,
)
from dragoman.host.host import Host
from dragoman.host.permission import PermissionRequest
from dragoman.host.permission import Reply as PermissionReply
from dragoman.host.policy.remembered import DerivedRules
from dragoman.host.policy.rulebook import Rulebook
from dragoman.host.question.question import Question, QuestionAnswer
from dragoman.host.requests import AgentTools
from dragoman.host.terminal.terminal import Terminal
from dragoman.proc.environment import agent_environment
from dragoman.protocol.checkpoints import Checkpoint, Rewind, WorkspaceDiff
from dragoman.protocol.worktrees import SessionWorktree
from dragoman.record import events, notes, rows
from dragoman.record.diffs import claimed_paths
from dragoman.record.events import Event
from dragoman.record.fold import Direction, SessionFold
from dragoman.record.settings import is_unlisted
from dragoman.session.capabilities import Capabilities
from dragoman.session.context import AvailableContext, PreparedPrompt, SessionContext, rules_check
from dragoman.session.dispatcher import SessionDispatcher
from dragoman.session.git import GitActions
from dragoman.session.handle import SessionHandle, agent_settings, handle_of
from dragoman.session.interfaces import Runtime
from dragoman.session.lifecycle import CloseOnce, call_safely
from dragoman.session.options import (
    AGENT_CATEGORIES,
    CATEGORY_NAMES,
    RunOptions,
    SessionConfig,
    check_keywords,
    check_rules,
    check_run_options,
    check_skills,
    read_agent_value,
)
from dragoman.session.ports import OutputRunPort, SessionStatus
from dragoman.session.prompt import Input, assemble
from dragoman.session.run import Run
from dragoman.session.run_checkpoints import RunCheckpoints, choose_run, rewound_note, words_for
from dragoman.session.run_queue import RunQueue
from dragoman.session.skills import ReadCheck
from dragoman.session.spec import AgentSpec
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import copy_error
from dragoman.wire.messages import Message, Notification, Request
from dragoman.workspace.checkpoints import SessionCheckpoints
from dragoman.workspace.commit_diff import ChangesText
from dragoman.workspace.git_state import Repository

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # known to type checkers without being installed

T = TypeVar("T")

_RUN_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


# Where values of a type are validated. Loaded by its name, when first used: that package stands above this one.
_OUTPUT_RUN_MODULE: Final = "dragoman.evaluation.rounds"

# Where an agent is asked for a commit message, in a session of its own. The same holds for it.
_COMMIT_MESSAGE_MODULE: Final = "dragoman.hub.commit_message"


class Session:
    """Made by `AgentRuntime.open_session` and `resume_session`."""

    def __init__(
        self, runtime: Runtime, session_id: str, config: SessionConfig, fold: SessionFold | None = None
    ) -> None:
        """`fold` holds the rows of a session that the journal knows already."""
        self.id = session_id
        self.agent_session_id = ""
        self.forked_from: str | None = None  # the session of which this one began as a copy
        self.config = config
        self.fold = fold or SessionFold()
        # The agent's options as the journal has them, before the agent that continues the session says its own.
        self._journaled_options = agent_settings(self.fold)["options"]
        self._runtime = runtime
        self._rules = Rulebook(
            config.workspace,
            config.access,
            runtime.sources,
            network=config.network if isinstance(config.network, bool) else None,
            web_search=config.web_search,
            session=config.rules,
        )
        self._host = Host(
            workspace=config.workspace,
            rules=self._rules,
            session_id=session_id,
            note=self.note,
            read_files=runtime.spec.read_files,
            write_files=runtime.spec.write_files,
            terminals=runtime.spec.terminals,
            agent=runtime.spec.preset or runtime.spec.name,
            on_permission=config.on_permission,
            on_question=config.on_question or runtime.on_question,
            time_limit_s=runtime.limits.permission_timeout,
            known=self.fold.tool_calls.by_agent_id,
            first_title=self.fold.tool_calls.first_title,
            clock=runtime.clock,
            buffers=config.buffers,
            file_handler=config.file_handler,
            terminal_handler=config.terminal_handler,
            keep_terminals=config.keep_terminals is True,
            tools=_tools_of(runtime.spec),
            sandbox=runtime.sandbox,
            environ=agent_environment({}, runtime.environment) if runtime.environment is not None else None,
        )
        self._dispatcher = SessionDispatcher(
            session_id,
            self.fold,
            self._host,
            runtime.recorder,
            emit=self.emit,
            on_event=config.on_event,
            observer=runtime.observer,
        )
        self._checkpoints: SessionCheckpoints | None = None
        self._run_checkpoints: RunCheckpoints | None = None
        recorded = runtime.checkpoints
        if recorded is None and config.checkpoints:
            raise InputError("checkpoints need the journal, by which they are found again", guidance="Switch it on.")
        if recorded is not None and (recorded.is_default if config.checkpoints is None else config.checkpoints):
            self._checkpoints = SessionCheckpoints(recorded, session_id, config.workspace.folders)
            self._run_checkpoints = RunCheckpoints(self._checkpoints, self.note, self.fold.rewinds, runtime.clock)
        self._run_queue = RunQueue(
            self, runtime, self._host, self._dispatcher, config.system_prompt, self._run_checkpoints
        )
        self._context = SessionContext(
            runtime.context, config.workspace, config.skills, config.custom_instructions, self._read_check
        )
        self.on_updates = self._dispatcher.on_updates
        self._serving = 0  # requests of the agent that we have not answered
        self.own_tool_calls = 0  # of tools that this program serves to the agent, and that still run
        self._failure: DragomanError | None = None
        self.on_lost: Callable[[DragomanError], None] | None = None  # called when the agent is gone
        self._closed = False
        self._close = CloseOnce(self._end, f"close session {session_id}")

    # -- for programs

    @overload
    def run(self, prompt: Input, *, output_type: None = None, **options: Unpack[RunOptions]) -> Run: ...
    @overload
    def run(
        self, prompt: Input, *, output_type: type[T], max_rounds: int = 3, **options: Unpack[RunOptions]
    ) -> OutputRunPort[T]: ...
    @overload
    def run(
        self, prompt: Input, *, output_type: Mapping[str, Any], max_rounds: int = 3, **options: Unpack[RunOptions]
    ) -> OutputRunPort[Any]: ...
    @overload
    def run(
        self, prompt: Input, *, output_type: TypeForm[T], max_rounds: int = 3, **options: Unpack[RunOptions]
    ) -> OutputRunPort[T]: ...
    def run(
        self, prompt: Input, *, output_type: Any = None, max_rounds: int = 3, **options: Unpack[RunOptions]
    ) -> Run | OutputRunPort[Any]:
        """Send a prompt, or queue it behind the run that is active.

        `deadline` and `idle_limit` are seconds from the moment the prompt is sent; `heartbeat` is called
        on every update; `rules` hold for this run alone, above all others. `skills` are names of skills whose whole
        text goes with this prompt.

        Returns a `Run`. With `output_type` it ends with a `PromptResponse`, whose `output` is of that type: where the
        agent's answer does not fit, it is asked again, up to `max_rounds` times.
        """
        check_keywords("run", options, RunOptions)
        if output_type is not None:
            evaluation = import_module(_OUTPUT_RUN_MODULE)
            output_run: OutputRunPort[Any] = evaluation.OutputRun(
                self, prompt, output_type, max_rounds=max_rounds, **options
            )
            return output_run
        check_run_options(options)
        self.check_open()
        blocks = assemble(prompt, self.capabilities())
        if options.get("when_busy") == "raise" and (busy := self._run_queue.first) is not None:
            raise SessionBusy(f"session {self.id} is busy with run {busy.id}")
        run = Run(
            self,
            new_id(),
            deadline=options.get("deadline"),
            idle_limit=options.get("idle_limit"),
            heartbeat=options.get("heartbeat"),
            rules=check_rules(options.get("rules", ())),
            skills=check_skills(options.get("skills")),
            clock=self.clock,
        )
        self._run_queue.add(run, blocks)
        return run

    async def finish_ended_run(self) -> None:
        """Wait until a run that the agent has ended no longer keeps the session busy."""
        await self._run_queue.finished()

    def begin(self, prompt: Input, *, run_id: str | None = None, skills: tuple[str, ...] = ()) -> Run:
        """Begin a run now, under an id that the caller may choose. `SessionBusy` where another one is active."""
        self.check_open()
        if self.active is not None:
            raise SessionBusy(f"session {self.id} is busy with run {self.active.id}")
        if run_id is not None and (not _RUN_ID.fullmatch(run_id) or run_id in self.fold.runs):
            raise InputError(f"{run_id!r} cannot be the id of a new run", guidance="Leave it out, and one is chosen.")
        run_id = run_id or new_id()
        run = Run(self, run_id, deadline=None, idle_limit=None, heartbeat=None, skills=skills, clock=self.clock)
        self._run_queue.begin(run, assemble(prompt, self.capabilities()))
        return run

    async def cancel(self) -> None:
        """Cancel the active run, and those queued behind it; return when the agent has stopped."""
        self._run_queue.cancel_queued()
        if self.active is not None:
            await self.active.cancel()

    def status(self) -> SessionStatus:
        """Return idle, running, waiting (for an answer to a permission request) or error (the agent is gone)."""
        if self._failure is not None or self._closed:
            return "error"
        if self.active is None:
            return "idle"
        return "waiting" if self._host.pending else "running"

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def failure(self) -> DragomanError | None:
        """The error that the status stands for."""
        return self._failure

    def capabilities(self) -> Capabilities:
        return self._runtime.capabilities()

    def available_context(self) -> AvailableContext:
        """Return the skills and prompt templates of the workspace and of the user, as they are now. Blocking."""
        return self._context.read()

    @property
    def worktree(self) -> str | None:
        """The name of the git worktree that the session works in, if it is in one."""
        worktree = self.config.worktree
        return worktree.name if isinstance(worktree, SessionWorktree) else None

    def snapshot(self) -> SessionHandle:
        """Return a handle by which another process can resume the session: JSON, without secrets."""
        return handle_of(
            self._runtime.spec,
            self.config,
            self.id,
            self.agent_session_id,
            self.fold,
            system_prompt_sent=self._run_queue.pending_system_prompt is None,
        )

    async def set_mode(self, mode: str) -> None:
        self.check_open()
        await self._switch("mode", mode)

    async def set_model(self, model: str) -> None:
        self.check_open()
        await self._switch("model", model)

    async def set_reasoning_effort(self, level: str) -> None:
        self.check_open()
        await self._switch("thought_level", level)

    def set_access(self, access: Access) -> None:
        """Change what the agent may do without asking, from its next request on."""
        self.check_open()
        self.config = msgspec.structs.replace(self.config, access=access)
        self._rules.set_access(self.config.access)
        if self._runtime.recorder is not None:
            self.note_opened()  # the session is resumed with this access

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Set one of the agent's own config options (`session.fold.settings` lists them)."""
        self.check_open()
        setting = self.fold.settings.get(option_id)
        if setting is None:
            option_ids = ", ".join(self.fold.settings) or "none"
            raise InputError(f"{self.agent_name} has no option {option_id!r}; it has: {option_ids}")
        await self._set(setting, value)

    async def _switch(self, category: str, value: str | bool) -> None:
        """Set the setting of a category, such as mode, model or thought_level."""
        setting = self.fold.setting(category)
        if setting is None:
            raise CapabilityMissing(
                f"{self.agent_name} offers no {CATEGORY_NAMES.get(category, category)} to choose from",
                capability=f"configOptions ({category})",
            )
        await self._set(setting, value)

    async def _set(self, setting: rows.Setting, value: str | bool) -> None:
        """Set by config option, or by the older calls where that is what the agent offers."""
        _check_choice(self.agent_name, setting, value)
        if value == setting.current and value in [choice.value for choice in setting.choices if is_unlisted(choice)]:
            return  # it is in use, and an agent may refuse what is not in its list
        await self._send_setting(setting, value)

    async def _send_setting(self, setting: rows.Setting, value: str | bool) -> None:
        session_id = self.agent_session_id
        match setting.source:
            case "option":
                kind = "boolean" if isinstance(value, bool) else None
                option = acp.SetSessionConfigOptionRequest(
                    session_id=session_id, config_id=setting.id, value=value, type=kind
                )
                await self._runtime.request("session/set_config_option", option)
            case "mode":
                mode = acp.SetSessionModeRequest(session_id=session_id, mode_id=str(value))
                await self._runtime.request("session/set_mode", mode)
            case "model":
                model = acp.SetSessionModelRequest(session_id=session_id, model_id=str(value))
                await self._runtime.request("session/set_model", model)

    async def apply_config(self) -> None:
        """Apply the settings of the config. If one cannot be applied, the session is closed."""
        config = self.config
        try:
            for name, category in AGENT_CATEGORIES.items():
                if (value := getattr(config, name)) is not None:
                    self.check_open()
                    await self._switch(category, self._agent_value(name, category, value))
            for option_id, value in config.options.items():
                await self.set_option(option_id, value)
        except BaseException:
            await self.close()
            raise

    def _agent_value(self, name: str, category: str, value: object) -> str | bool:
        """Return a value of ours as the agent writes it: the choice that means the same."""
        if isinstance(value, str | bool):
            return value
        setting = self.fold.setting(category)
        choices = [choice.value for choice in setting.choices] if setting is not None else []
        return next((choice for choice in choices if read_agent_value(name, choice) == value), str(value))

    async def restore_settings(self, handle: SessionHandle) -> list[str]:
        """Restore the settings that the agent did not remember; return a message for each that cannot be restored.

        The journal's are newer than the handle's if the process that had the session was killed: it stored a handle
        when it opened the session, and every switch since.
        """
        messages = []
        options = {**handle.options, **self._journaled_options} if handle.options else {}
        for option_id, value in options.items():
            setting = self.fold.settings.get(option_id)
            if setting is not None and setting.current != value:
                try:
                    self.check_open()
                    # It was in use: an agent may take what it does not list.
                    await self._send_setting(setting, value)
                except (InputError, RequestFailed) as error:
                    messages.append(f"{option_id} cannot be set as it was: {error}")
        return messages

    def permission_request(self, permission_id: str) -> PermissionRequest | None:
        """Return a permission request that waits, by its row's id; None where it has its answer."""
        row = self._permission(permission_id)
        return self._host.permissions.get(row.request_id) if row.outcome == "pending" else None

    def admin_reason(self, request: PermissionRequest) -> str | None:
        """Return why only a client with the scope `admin` may allow a request; None where others may, too."""
        return self._rules.admin_reason(request)

    async def answer_permission(
        self, permission_id: str, reply: PermissionReply, *, by: Literal["person", "callback"] = "person"
    ) -> bool:
        """Answer a `permission.requested` event by its id, as `on_permission` would; the first answer counts.

        `by` tells who decided it: a person, or a program. False: it has its answer already, or was withdrawn, and this
        one changes nothing.
        """
        return self.settle_permission(permission_id, reply, by=by)

    def settle_permission(
        self, permission_id: str, reply: PermissionReply, *, by: Literal["person", "callback"] = "person"
    ) -> bool:
        """Answer a permission at once, for callers that cannot wait; otherwise as `answer_permission`."""
        row = self._permission(permission_id)
        return row.outcome == "pending" and self._host.permissions.answer(row.request_id, reply, by)

    def question(self, question_id: str) -> Question | None:
        """Return a question of the agent's that waits, by its row's id; None where it has its answer."""
        row = self._question(question_id)
        return self._host.questions.get(row.request_id) if row.action == "pending" else None

    async def answer_question(self, question_id: str, answer: QuestionAnswer) -> bool:
        """Answer a question of the agent's by its row's id, as `on_question` would; the first answer counts.

        False: it has its answer already, or was withdrawn, and this one changes nothing.
        """
        row = self._question(question_id)
        return row.action == "pending" and self._host.questions.answer(row.request_id, answer)

    def _question(self, question_id: str) -> rows.Question:
        row = self.fold.questions.get(question_id)
        if row is None:
            raise InputError(f"session {self.id} was never asked {question_id!r}")
        return row

    def preview(self, permission_id: str, *, allowed: bool, only_files: bool = False) -> DerivedRules:
        """Return the rules that an answer to be remembered would become; none, and why, where it cannot."""
        request_id = self._permission(permission_id).request_id
        return self._host.permissions.preview(request_id, allowed=allowed, only_files=only_files)

    def _permission(self, permission_id: str) -> rows.Permission:
        row = self.fold.permissions.get(permission_id)
        if row is None:
            raise InputError(f"session {self.id} was never asked {permission_id!r}")
        return row

    @property
    def is_recording_files(self) -> bool:
        """True while a prompt waits for the checkpoint before its run."""
        return self._run_checkpoints is not None and self._run_checkpoints.is_prompt_held

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of the workspace that this session took, the oldest first."""
        return await self._recorded().list_checkpoints()

    async def diff(
        self,
        run: Run | str | int | None = None,
        *,
        since_start: bool = False,
        path: str | None = None,
        offset: int = 0,
        first_line: int = 0,
    ) -> WorkspaceDiff:
        """Return the files that a run changed, with their lines: how they differ, whoever changed them by what means.

        `run` is a run, its id or its number, by default the last one; or compare `since_start` of the session. A long
        answer comes in parts: pass `offset` the `next_offset` of the last one; for more lines of one file, `path` and
        its `next_line` as `first_line`.
        """
        run_id = None if since_start else self._run_id(-1 if run is None else run)
        claims = claimed_paths(self.fold.tool_calls, self.fold.files.values(), run_id)
        return await self._recorded().diff(run_id, path=path, offset=offset, first_line=first_line, claims=claims)

    async def plan_rewind(
        self, run: Run | str | int | None = None, *, before: bool = False, undo: bool = False
    ) -> Rewind:
        """Return which files `rewind` would change, to bring them back to what they were after a run, or `before` it;
        with `undo`, to what they were before the last rewind. Nothing is changed."""
        if undo == (run is not None):
            raise InputError("name a run to rewind to, or undo=True")
        run_id = None if run is None else self._run_id(run)
        target = words_for(tuple(self.fold.runs), run_id, before=before)
        return await self._recorded().plan_rewind(run_id, before=before, target=target)

    async def rewind(self, plan: Rewind) -> Rewind:
        """Do what a plan of `plan_rewind` says. A checkpoint is taken first, so that it can be undone.

        `SessionBusy` while a run is active; `CheckpointError` where files were changed since the plan was made. The
        agent is not told: say in the next prompt what it has to know.
        """
        self.check_open()
        if self.active is not None:
            raise SessionBusy(
                f"session {self.id} is busy with run {self.active.id}", guidance="Wait for it, or cancel it."
            )
        done = await self._recorded().rewind(plan, at=self.clock.time())
        await self.record_note(notes.write(rewound_note(done)))
        return done

    @property
    def git(self) -> GitActions:
        """Git in the repository of the workspace: its state, commits, pushes and pull requests."""
        recorded = self._runtime.checkpoints

        async def record(note: notes.GitAction) -> None:
            await self.record_note(notes.write(note))

        async def running(repository: Repository) -> Sequence[str]:
            return (self.id,) if self.active is not None else ()

        async def propose(changes: ChangesText) -> str:
            message: str = await import_module(_COMMIT_MESSAGE_MODULE).propose_message(None, self.snapshot(), changes)
            return message

        def is_hidden(path: Path) -> bool:
            hidden: bool = import_module(_COMMIT_MESSAGE_MODULE).is_hidden(self.config.workspace, None, path)
            return hidden

        return GitActions(
            self.config.workspace.cwd,
            recorded.home if recorded is not None else None,
            note=record,
            running=running,
            propose=propose,
            is_hidden=is_hidden,
        )

    def _recorded(self) -> SessionCheckpoints:
        if self._checkpoints is None:
            raise InputError(
                f"session {self.id} takes no checkpoints of its workspace",
                guidance="They need the journal; checkpoints=False and DRAGOMAN_CHECKPOINTS=off switch them off.",
            )
        return self._checkpoints

    def _run_id(self, run: Run | str | int) -> str:
        return choose_run(tuple(self.fold.runs), run.id if isinstance(run, Run) else run)

    def terminal(self, terminal_id: str) -> Terminal | None:
        """Return a command that runs, or ran, for the agent, to follow its output. None where it is not ours."""
        return self._host.terminal(terminal_id)

    @property
    def policy_notice(self) -> str | None:
        """The reason why the workspace's own rules do not count, where there are some."""
        return self._rules.notice

    async def close(self) -> None:
        """Cancel the run, close the session at the agent if it offers that, and release it. Closing twice is fine."""
        self._closed = True
        await self._close()

    async def _end(self) -> None:
        try:
            await self.cancel()
        finally:
            await self._host.close()
            if self._run_checkpoints is not None:
                await self._run_checkpoints.close()
            await self._runtime.close_session(self)
            if self._runtime.recorder is not None:
                if (history_difference := self._dispatcher.end_replay()) is not None:
                    self.note(history_difference)
                self.note_opened()  # as it is now: that is how it can be continued
                await self._runtime.leave_journal(self)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for the runtime, and the parts of the session

    def check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.id} is closed")
        if self._failure is not None:
            raise copy_error(self._failure)

    def on_opened(self) -> None:
        """Begin with what can be done before the first prompt: the agent has opened the session."""
        if self._run_checkpoints is not None:
            self._run_checkpoints.on_opened()

    def system_prompt_sent(self) -> None:
        """Take note that the agent has the system prompt already, by a request of its own or from an earlier run."""
        self._run_queue.pending_system_prompt = None

    def note(self, note: notes.Note) -> None:
        """Record what the host did, or decided: a part of the conversation like any frame."""
        self.record("host", notes.write(note), self.clock.time())

    def prepare_prompt(self, run: Run, blocks: tuple[acp.ContentBlock, ...]) -> PreparedPrompt:
        """Return the prompt with what goes with it: skills, custom instructions, the text of a template."""
        capabilities = self.capabilities()
        if self.spec.embeds_by_path:  # its model would see nothing of them
            capabilities = msgspec.structs.replace(capabilities, embedded_context=False)
        commands = [command.name for command in self.fold.commands]
        return self._context.prepare(blocks, capabilities, commands, run.skills)

    def _read_check(self) -> ReadCheck:
        agent = self.spec.preset or self.spec.name
        return rules_check(self._rules.policy_for_reading, self.config.workspace, agent)

    def note_opened(self) -> None:
        """Record the agent's id of the session and its settings, by which another process can continue it."""
        from dragoman.journal import notes as journal_notes  # with a journal: loaded by those who have one

        workspace = self.config.workspace
        opened = journal_notes.SessionOpened(
            agent=self.spec.preset or self.spec.name,
            cwd=str(workspace.cwd),
            agent_session_id=self.agent_session_id,
            folders=tuple(map(str, workspace.folders)),
            handle=self.snapshot().to_json(),
            forked_from=self.forked_from,
        )
        self.record("host", journal_notes.write(opened), self.clock.time())

    def record(self, direction: Direction, message: Message, at: float) -> None:
        """Take a frame of this session that is no update."""
        self._dispatcher.record(direction, message, at)

    def record_note(self, message: Notification) -> Awaitable[None]:
        """Take a note of ours, now; await the result to know that it is committed."""
        return self._dispatcher.record_note(message, self.clock.time())

    def begin_replay(self, *, whole_history: bool) -> None:
        """Expect the agent to repeat its history until the next prompt."""
        self._dispatcher.begin_replay(whole_history=whole_history)

    async def serve(self, request: Request) -> object:
        """Serve a request of the agent's."""
        self._serving += 1
        try:
            return await self._host.serve(request)
        finally:
            self._serving -= 1

    def on_link_lost(self, failure: DragomanError) -> None:
        """End what runs: the agent is gone."""
        self._failure = failure
        if self.active is None:
            kind, now = type(failure).__name__, self.clock.time()
            error = events.Error(now, self.id, None, None, str(failure), failure.category, kind, failure.guidance)
            self.emit(None, error)
        self._run_queue.on_link_lost(failure)
        self._dispatcher.on_link_lost()
        if self.on_lost is not None:
            call_safely(self.id, self.on_lost, failure)

    # -- for the runs

    @property
    def clock(self) -> Clock:
        return self._runtime.clock

    @property
    def agent_name(self) -> str:
        return self._runtime.spec.name

    @property
    def active(self) -> Run | None:
        return self._dispatcher.active

    @property
    def frames(self) -> int:
        """The number of frames so far: a sign of life when it grows."""
        return self._dispatcher.frame_count

    @property
    def at_work(self) -> bool:
        """True while a tool runs, the agent waits for us, or we do not read: silence is then no sign of a hang."""
        if self.own_tool_calls or self._serving or self.active is None or self._runtime.reader_is_paused:
            return True
        return self.fold.tool_calls.has_unfinished

    @property
    def spec(self) -> AgentSpec:
        """The spec of its agent."""
        return self._runtime.spec

    def cancel_run(self, run: Run) -> None:
        """Ask for the end of a run; what it takes to get it goes on in the background."""
        self._run_queue.cancel(run)

    def emit(self, run: Run | None, event: Event) -> None:
        if run is not None and run.wants_events:
            run.push([event])
        if self.config.on_event is not None:
            call_safely(self.id, self.config.on_event, event)

    def stderr_tail(self) -> str:
        return self._runtime.stderr_tail()

    def wake_reader(self) -> None:
        self._runtime.wake_reader()

    def explained(self, failure: DragomanError) -> DragomanError:
        """Add to a failure what only the runtime knows: the agent's ways to log in, its exit code."""
        if isinstance(failure, AuthenticationRequired):
            return self._runtime.authentication_required(failure)
        if isinstance(failure, AgentCrashed) and isinstance(self._failure, AgentCrashed):
            return copy_error(self._failure)
        return failure


def _tools_of(spec: AgentSpec) -> AgentTools:
    return AgentTools(
        name_fields=tuple(field for field in spec.tool_names if field.startswith("_meta.")),
        kinds=spec.tool_kinds,
        files_through_us=spec.files_through_us and spec.read_files and spec.write_files,
    )


def _check_choice(agent: str, setting: rows.Setting, value: str | bool) -> None:
    if isinstance(setting.current, bool) != isinstance(value, bool):
        kinds = "true or false" if isinstance(setting.current, bool) else "one of its values"
        raise InputError(f"option {setting.id!r} of {agent} takes {kinds}, not {value!r}")
    choices = [choice.value for choice in setting.choices]
    if choices and value not in choices:
        shown = ", ".join(choices[:20]) + (", …" if len(choices) > 20 else "")
        raise InputError(f"{agent} has no {setting.name.lower()} {value!r}; it has: {shown}")


def new_id() -> str:
    return uuid.uuid4().hex[:12]
