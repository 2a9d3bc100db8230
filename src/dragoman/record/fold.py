"""The fold: frames of one session in, rows and facts out. Pure: no I/O, no clock, nothing random.

It never raises, whatever the agent sends and in whatever order. A chunk costs the same whether it is the first or the
millionth. Live, replayed and imported sessions all go through here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.record import notes, rows, settings
from dragoman.record.facts import (
    Fact,
    HistoryDiffers,
    OtherUpdate,
    PermissionResolved,
    PlanChanged,
    RunCostChanged,
    RunEnded,
    RunStarted,
    SettingsChanged,
    TextAdded,
    UsageChanged,
)
from dragoman.record.messages import Messages, Notices
from dragoman.record.requests import Requests
from dragoman.record.rows import FrameContext
from dragoman.record.runs import Runs
from dragoman.record.tool_calls import ToolCalls
from dragoman.wire import vocabulary as acp
from dragoman.wire.dialect import RunEnd
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import Message, Notification, Reply, Request, RequestId, Unknown, Update

Direction: TypeAlias = Literal["in", "out", "host"]

_NOTHING: tuple[Fact, ...] = ()


class SessionFold:
    """The state of a session. Read its attributes freely; only `apply` and `update` change them.

    `messages.append_text` and `append_texts` may be called instead of `update`, for the updates that they take.
    """

    def __init__(self) -> None:
        self.messages = Messages()
        self.tool_calls = ToolCalls()
        self.plans: dict[str | None, rows.Plan] = {}
        self.commands: tuple[rows.Command, ...] = ()
        self.settings: dict[str, rows.Setting] = {}
        self.initial_values: dict[str, str | bool | None] = {}  # of the settings, as the agent itself chose them
        self.usage = rows.Usage()
        self.title: str | None = None
        self.differs: notes.HistoryDiffers | None = None  # of the last replay that differed from the journal
        self.rewinds: set[str] = set()  # ids of the rewinds that were recorded
        self.runs = Runs()
        self.sub_agents: dict[str, rows.SubAgent] = {}
        self.notices = Notices()
        self._requests = Requests()
        self.permissions = self._requests.permissions
        self.files = self._requests.files
        self.terminals = self._requests.terminals
        self.questions = self._requests.questions
        self._switches: dict[RequestId, Request] = {}  # requests to the agent that change a setting, without an answer
        self._replaying = False

    @property
    def run(self) -> rows.Run | None:
        """The active run."""
        return self.runs[self.runs.current_id] if self.runs.current_id is not None else None

    def setting(self, category: str) -> rows.Setting | None:
        """Return the setting of a category (mode, model, …); of several, the one whose id is the category."""
        matches = [setting for setting in self.settings.values() if setting.category == category]
        return next((setting for setting in matches if setting.id == category), matches[0] if matches else None)

    # -- frames

    def apply(self, position: int, time: float, direction: Direction, message: Message) -> Sequence[Fact]:
        """Fold one frame; return what it changed, in order."""
        match message:
            case Update():
                return self.update(position, time, message.update)
            case Reply() if direction == "in":
                return self._on_agent_answer(time, message)
            case Reply():
                return self._on_host_answer(time, message)
            case Request() if direction == "out":
                return self._on_client_request(position, time, message)
            case Request(method="session/request_permission"):
                return self._on_permission_request(position, time, message)
            case Request():
                return self._requests.on_request(self._context(position, time), message)
            case Notification() if direction == "host":
                return self._on_note(position, time, message)
            case Notification(method="session/cancel") if direction == "out":
                self.runs.request_cancel()
                return _NOTHING
            case Notification(method="elicitation/complete") if direction == "in":
                return self.questions.on_complete(message, time) or (OtherUpdate(message.method),)
            case Notification() if direction == "in":
                return (OtherUpdate(message.method),)
            case _:
                return _NOTHING

    def update(self, position: int, time: float, update: acp.SessionUpdate | Unknown) -> Sequence[Fact]:
        """Fold one `session/update`; return what it changed, in order."""
        appended = self.messages.append_text(update)
        if appended is not None:
            return (TextAdded(*appended),)
        handler = _UPDATE_HANDLERS.get(type(update))
        if handler is not None:
            return handler(self, position, time, update)
        kind = update.kind if isinstance(update, Unknown) else _kind_of(update)
        return (OtherUpdate(kind),)

    # -- messages

    def _assistant_chunk(self, position: int, time: float, update: acp.AgentMessageChunk) -> Sequence[Fact]:
        return self._chunk(position, time, "assistant", update)

    def _thought_chunk(self, position: int, time: float, update: acp.AgentThoughtChunk) -> Sequence[Fact]:
        return self._chunk(position, time, "thought", update)

    def _user_chunk(self, position: int, time: float, update: acp.UserMessageChunk) -> Sequence[Fact]:
        if not self.runs:
            # No prompt was sent here: the message is of an earlier time (OpenCode replays the history of a fork).
            self._replaying = True
        before = len(self.messages)
        facts = self._chunk(position, time, "user", update)
        if self._replaying and len(self.messages) > before:
            # A replay has no prompts; the user's messages separate its runs.
            self.tool_calls.begin_run()
        return facts

    def _chunk(self, position: int, time: float, kind: rows.MessageKind, update: acp.ContentChunk) -> Sequence[Fact]:
        added = self.messages.append_chunk(kind, update)
        if added is not None:
            return (added,)
        if kind != "user":
            self.runs.mark_active()
        return self.messages.begin(self._context(position, time), kind, update, replayed=self._replaying)

    # -- tool calls and plans

    def _tool_call(self, position: int, time: float, update: acp.ToolCall) -> Sequence[Fact]:
        ended = self._before_tool_call(self.tool_calls.is_known(update.tool_call_id))
        return [*ended, *self.tool_calls.add_call(self._blank_tool_call(position, time), update)]

    def _tool_call_update(self, position: int, time: float, update: acp.ToolCallUpdate) -> Sequence[Fact]:
        ended = self._before_tool_call(self.tool_calls.by_agent_id(update.tool_call_id) is not None)
        return [*ended, *self.tool_calls.add_update(self._blank_tool_call(position, time), update)]

    def _before_tool_call(self, is_known: bool) -> list[Fact]:
        """End the current message before a new tool call, unless the agent gives messages ids."""
        self.runs.mark_active()
        message = self.messages.current
        if is_known or message is None or message.message_id is not None:
            return []
        return self.messages.end()

    def _blank_tool_call(self, position: int, time: float) -> rows.ToolCall:
        context = self._context(position, time)
        return rows.ToolCall(
            id=context.row_id("tool"),
            tool_call_id="",
            run_id=context.run_id,
            time=context.time,
            replayed=self._replaying,
        )

    def _plan(self, position: int, time: float, update: acp.Plan) -> Sequence[Fact]:
        return self._set_plan(rows.Plan(plan_id=None, entries=_entries(update.entries)))

    def _plan_update(self, position: int, time: float, update: acp.PlanUpdate) -> Sequence[Fact]:
        match update.plan:
            case acp.PlanItems(plan_id=plan_id, entries=entries):
                return self._set_plan(rows.Plan(plan_id=plan_id, entries=_entries(entries)))
            case acp.PlanMarkdown(plan_id=plan_id, content=content):
                return self._set_plan(rows.Plan(plan_id=plan_id, markdown=content))
            case acp.PlanFile(plan_id=plan_id, uri=uri):
                return self._set_plan(rows.Plan(plan_id=plan_id, uri=uri))

    def _set_plan(self, plan: rows.Plan) -> Sequence[Fact]:
        self.runs.mark_active()
        self.plans[plan.plan_id] = plan
        return (PlanChanged(plan),)

    def _plan_removed(self, position: int, time: float, update: acp.PlanRemoved) -> Sequence[Fact]:
        plan = self.plans.pop(update.plan_id, None)
        return (PlanChanged(plan, removed=True),) if plan is not None else (OtherUpdate("plan_removed"),)

    # -- settings, usage, sub-agents, notices

    def _commands(self, position: int, time: float, update: acp.AvailableCommandsUpdate) -> Sequence[Fact]:
        self.commands = tuple(
            rows.Command(command.name, command.description, command.input.hint if command.input else None)
            for command in update.available_commands
        )
        return (SettingsChanged("available_commands_update"),)

    def _mode(self, position: int, time: float, update: acp.CurrentModeUpdate) -> Sequence[Fact]:
        self.settings = settings.with_mode(self.settings, update.current_mode_id)
        return (SettingsChanged("current_mode_update"),)

    def _options(self, position: int, time: float, update: acp.ConfigOptionUpdate) -> Sequence[Fact]:
        self.settings = settings.with_options(self.settings, update.config_options)
        return (SettingsChanged("config_option_update"),)

    def _info(self, position: int, time: float, update: acp.SessionInfoUpdate) -> Sequence[Fact]:
        if update.title is not msgspec.UNSET:
            self.title = None if _is_of_instructions(update.title) else update.title
        return (SettingsChanged("session_info_update"),)

    def _usage(self, position: int, time: float, update: acp.UsageUpdate) -> Sequence[Fact]:
        self.usage = msgspec.structs.replace(
            self.usage,
            context_used=update.used,
            context_size=update.size,
            is_context_size_guessed=_is_size_guessed(update.meta),
            cost=update.cost if update.cost is not None else self.usage.cost,
        )
        run = self.runs.add_late_cost(update.cost) if update.cost is not None else None
        return (UsageChanged(self.usage),) if run is None else (UsageChanged(self.usage), RunCostChanged(run))

    def _sub_agent(self, position: int, time: float, update: acp.SubagentUpdate) -> Sequence[Fact]:
        sub_agent = self.sub_agents.get(update.session_id) or rows.SubAgent(session_id=update.session_id)
        changes: dict[str, str | None] = {}
        if update.title is not msgspec.UNSET:
            changes["title"] = update.title
        if update.description is not msgspec.UNSET:
            changes["description"] = update.description
        if update.state is not msgspec.UNSET:
            changes["state"] = None if update.state is None else _state_of(update.state)
        self.sub_agents[update.session_id] = msgspec.structs.replace(sub_agent, **changes)
        return (SettingsChanged("subagent_update"),)

    def _notice(self, position: int, time: float, update: acp.Notice) -> Sequence[Fact]:
        return (self.notices.add(self._context(position, time), update),)

    def _compaction(self, position: int, time: float, update: acp.CompactionUpdate) -> Sequence[Fact]:
        return (self.notices.update_compaction(self._context(position, time), update),)

    def _compaction_summary(self, position: int, time: float, update: acp.CompactionSummaryChunk) -> Sequence[Fact]:
        self.notices.append_summary(update)
        return (OtherUpdate("compaction_summary_chunk"),)

    # -- requests to the agent, and its answers

    def _on_client_request(self, position: int, time: float, request: Request) -> Sequence[Fact]:
        match request.method:
            case "session/prompt":
                return self._run_started(position, time, request)
            case "session/load" | "session/resume":
                # Resuming should not replay, but some agents do: frames before the next prompt are history.
                self._replaying = True
            case "session/set_mode" | "session/set_model" | "session/set_config_option":
                self._switches[request.id] = request
            case _:
                pass
        return _NOTHING

    def _run_started(self, position: int, time: float, request: Request) -> Sequence[Fact]:
        facts = self.messages.end()
        run, prompt = self.runs.start(position, time, request)
        self._replaying = False
        self.tool_calls.begin_run()
        self.messages.add_prompt(self._context(position, time), prompt)
        facts.append(RunStarted(run))
        return facts

    def _on_agent_answer(self, time: float, reply: Reply) -> Sequence[Fact]:
        ended = self.runs.find_end(reply)
        if ended is not None:
            return self._run_ended(time, *ended)
        request = self._switches.pop(reply.id, None)
        if reply.error is not None:
            return _NOTHING
        if request is not None:
            return self._switched(request, reply)
        if reply.method in ("session/new", "session/load", "session/resume", "session/fork"):
            return self._opened(reply)
        return _NOTHING

    def _opened(self, reply: Reply) -> Sequence[Fact]:
        # The answers to new, load, resume and fork differ only in their ids; load may answer null.
        answer = decode_or_none(reply.result, acp.LoadSessionResponse)
        if answer is None:
            return _NOTHING
        before = self.settings
        has_settings = (answer.config_options, answer.modes, answer.models) != (None, None, None)
        if has_settings or reply.method not in ("session/load", "session/resume"):
            # An agent that continues a session without a word about its settings has them as they were.
            self.settings = settings.session_settings(answer.config_options, answer.modes, answer.models, before)
        if reply.method == "session/new":
            self.initial_values = {setting.id: setting.current for setting in self.settings.values()}
        # Also where there are none any more: the rows must not keep them.
        return (SettingsChanged(reply.method),) if self.settings or before else _NOTHING

    def _switched(self, request: Request, reply: Reply) -> Sequence[Fact]:
        """Update the settings after a successful switch, from the agent's answer, or else from the request."""
        match request.method:
            case "session/set_config_option":
                answer = decode_or_none(reply.result, acp.SetSessionConfigOptionResponse)
                option = decode_or_none(request.params, acp.SetSessionConfigOptionRequest)
                if answer is not None:
                    self.settings = settings.with_options(self.settings, answer.config_options)
                elif option is not None:
                    self.settings = settings.with_value(self.settings, option.config_id, option.value)
            case "session/set_mode":
                if mode := decode_or_none(request.params, acp.SetSessionModeRequest):
                    self.settings = settings.with_mode(self.settings, mode.mode_id)
            case _:
                if model := decode_or_none(request.params, acp.SetSessionModelRequest):
                    self.settings = settings.with_model(self.settings, model.model_id)
        return (SettingsChanged(request.method),)

    def _run_ended(self, time: float, run: rows.Run, end: RunEnd) -> Sequence[Fact]:
        facts = self.messages.end()
        if end.usage is not None:
            self.usage = msgspec.structs.replace(
                self.usage,
                input_tokens=end.usage.input_tokens,
                cached_tokens=end.usage.cached_read_tokens,
                output_tokens=end.usage.output_tokens,
                thought_tokens=end.usage.thought_tokens,
                total_tokens=end.usage.total_tokens,
            )
            facts.append(UsageChanged(self.usage))
        facts.append(RunEnded(self.runs.end(run, time, end, self.usage), end.messages))
        return facts

    # -- requests of the agent, and notes of the host

    def _context(self, position: int, time: float) -> FrameContext:
        return FrameContext(position, time, self.runs.current_id)

    def _on_permission_request(self, position: int, time: float, request: Request) -> Sequence[Fact]:
        params = decode_or_none(request.params, acp.RequestPermissionRequest)
        if params is None:
            return (OtherUpdate(request.method),)
        # Gemini CLI names a tool call here first, and sends no tool_call for it.
        facts = self._before_tool_call(self.tool_calls.is_known(params.tool_call.tool_call_id))
        blank = self._blank_tool_call(position, time)
        tool_call, changes = self.tool_calls.add_permission_request(blank, params.tool_call)
        facts.extend(changes)
        context = self._context(position, time)
        permission = rows.Permission(
            id=context.row_id("permission"),
            request_id=request.id,
            run_id=context.run_id,
            time=context.time,
            options=tuple(params.options),
            tool_call_row=tool_call.id,
            tool_call_id=tool_call.tool_call_id,
            title=tool_call.title,
            kind=tool_call.kind,
            content=tool_call.content,
            locations=tool_call.locations,
            raw_input=tool_call.raw_input,
        )
        facts.append(self._requests.on_permission_request(permission))
        return facts

    def _on_host_answer(self, time: float, reply: Reply) -> Sequence[Fact]:
        facts = self._requests.on_answer(reply, time)
        for fact in facts:
            match fact:
                case PermissionResolved(permission=rows.Permission(tool_call_row=str(row_id), decision=decision)):
                    if decision != "allow":
                        self.tool_calls.mark_refused(row_id)
                case _:
                    pass
        return facts

    def _on_note(self, position: int, time: float, message: Notification) -> Sequence[Fact]:
        match notes.read(message):
            case notes.Prompt() as prompt:
                self.runs.announce(prompt)
            case notes.RunInterrupted() as note:
                run = self.runs.interrupt(note, time, self.usage)
                if run is None:
                    return _NOTHING
                closed = self._requests.on_run_interrupted(run.id, note.reason, time)
                return [*self.messages.end(), *closed, RunEnded(run)]
            case notes.AgentRestarted(how=how):
                return (self.notices.add_restart(self._context(position, time), how),)
            case notes.CheckpointFailed() as failed:
                return (self.notices.add_checkpoint_failed(self._context(position, time), failed),)
            case notes.Rewound() as rewound:
                self.rewinds.add(rewound.operation)
                return (self.notices.add_rewound(self._context(position, time), rewound),)
            case notes.GitAction() as done:
                return (self.notices.add_git_action(self._context(position, time), done),)
            case notes.HistoryDiffers() as differs:
                self.differs = differs
                return (HistoryDiffers(differs),)
            case None:
                pass
            case note:
                return self._requests.on_note(self._context(position, time), note)
        return _NOTHING


_UPDATE_HANDLERS: Final[dict[type, Callable[[SessionFold, int, float, Any], Sequence[Fact]]]] = {
    acp.AgentMessageChunk: SessionFold._assistant_chunk,
    acp.AgentThoughtChunk: SessionFold._thought_chunk,
    acp.UserMessageChunk: SessionFold._user_chunk,
    acp.ToolCall: SessionFold._tool_call,
    acp.SessionToolCallUpdate: SessionFold._tool_call_update,
    acp.Plan: SessionFold._plan,
    acp.PlanUpdate: SessionFold._plan_update,
    acp.PlanRemoved: SessionFold._plan_removed,
    acp.AvailableCommandsUpdate: SessionFold._commands,
    acp.CurrentModeUpdate: SessionFold._mode,
    acp.ConfigOptionUpdate: SessionFold._options,
    acp.SessionInfoUpdate: SessionFold._info,
    acp.UsageUpdate: SessionFold._usage,
    acp.SubagentUpdate: SessionFold._sub_agent,
    acp.Notice: SessionFold._notice,
    acp.CompactionUpdate: SessionFold._compaction,
    acp.CompactionSummaryChunk: SessionFold._compaction_summary,
}


def _is_of_instructions(title: str | None) -> bool:
    """Return whether an agent made the title of custom instructions, which go before the user's words."""
    return title is not None and title.strip()[:20] == notes.INSTRUCTIONS_HEADING[:20]


def _is_size_guessed(meta: dict[str, Any] | None) -> bool:
    """Return True if an importer guessed the size of the context."""
    match meta:
        case {"native": {"isSizeGuessed": True}}:
            return True
        case _:
            return False


def _kind_of(update: object) -> str:
    """Return the update's tag on the wire."""
    config = getattr(type(update), "__struct_config__", None)
    return str(config.tag or "") if config is not None else ""


def _state_of(state: object) -> str:
    return str(getattr(state, "state", "") or _kind_of(state))


def _entries(entries: Sequence[acp.PlanEntry]) -> tuple[rows.PlanEntry, ...]:
    return tuple(rows.PlanEntry(entry.content, entry.priority, entry.status) for entry in entries)
