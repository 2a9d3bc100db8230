"""The fold: frames of one session in, rows and facts out. Pure: no I/O, no clock, nothing random.

It never raises, whatever the agent sends and in whatever order. A chunk costs the same whether it is
the first or the millionth. Live, recorded and imported conversations all go through here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.record import notes, rows, settings
from dragoman.record.decisions import Where, decoded
from dragoman.record.facts import (
    Fact,
    HistoryDiffers,
    OtherUpdate,
    PermissionResolved,
    PlanChanged,
    RunEnded,
    RunPaid,
    RunStarted,
    SettingsChanged,
    TextAdded,
    UsageChanged,
)
from dragoman.record.messages import Messages
from dragoman.record.notices import Notices
from dragoman.record.requests import Requests
from dragoman.record.runs import Runs
from dragoman.record.tool_calls import ToolCalls
from dragoman.wire import vocabulary as acp
from dragoman.wire.dialect import RunEnd
from dragoman.wire.messages import Message, Notification, Reply, Request, RequestId, Unknown, Update

Direction: TypeAlias = Literal["in", "out", "host"]

_NOTHING: tuple[Fact, ...] = ()


class SessionFold:
    """What is known of a session. Read its attributes freely: `apply` and `update` change them, and `more_text` of its
    messages, which stands in for `update` where it says so."""

    def __init__(self) -> None:
        self.messages = Messages()
        self.tool_calls = ToolCalls()
        self.plans: dict[str | None, rows.Plan] = {}
        self.commands: tuple[rows.Command, ...] = ()
        self.settings: dict[str, rows.Setting] = {}
        self.usage = rows.Usage()
        self.title: str | None = None
        self.differs: notes.HistoryDiffers | None = None  # how the agent told it when it last told it otherwise
        self.runs = Runs()
        self.sub_agents: dict[str, rows.SubAgent] = {}
        self.notices = Notices()
        self._requests = Requests()
        self.permissions = self._requests.permissions
        self.files = self._requests.files
        self.terminals = self._requests.terminals
        self.questions = self._requests.questions
        self._asked: dict[RequestId, Request] = {}  # requests of ours whose answers change rows
        self._replaying = False

    @property
    def run(self) -> rows.Run | None:
        """The run that is going on."""
        return self.runs[self.runs.current_id] if self.runs.current_id is not None else None

    def setting(self, category: str) -> rows.Setting | None:
        """The mode, the model, or another setting by its category; of several, the one that is named so."""
        found = [setting for setting in self.settings.values() if setting.category == category]
        return next((setting for setting in found if setting.id == category), found[0] if found else None)

    # -- frames

    def apply(self, position: int, time: float, direction: Direction, message: Message) -> Sequence[Fact]:
        """Takes one frame; returns what it changed, in order."""
        match message:
            case Update():
                return self.update(position, time, message.update)
            case Reply() if direction == "in":
                return self._answered(time, message)
            case Reply():
                return self._we_answered(time, message)
            case Request() if direction == "out":
                return self._we_asked(position, time, message)
            case Request(method="session/request_permission"):
                return self._permission_requested(position, time, message)
            case Request():
                return self._requests.asked(self._where(position, time), message)
            case Notification() if direction == "host":
                return self._noted(position, time, message)
            case Notification(method="session/cancel") if direction == "out":
                self.runs.cancelling()
                return _NOTHING
            case Notification(method="elicitation/complete") if direction == "in":
                return self.questions.completed(message, time) or (OtherUpdate(message.method),)
            case Notification() if direction == "in":
                return (OtherUpdate(message.method),)
            case _:
                return _NOTHING

    def update(self, position: int, time: float, update: acp.SessionUpdate | Unknown) -> Sequence[Fact]:
        said = self.messages.more_text(update)
        if said is not None:
            return (TextAdded(*said),)
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
            # Nobody has asked anything here: the words are of a time before (OpenCode tells a fork its history).
            self._replaying = True
        before = len(self.messages)
        facts = self._chunk(position, time, "user", update)
        if self._replaying and len(self.messages) > before:
            # A replay has no prompts; the user's words are what separates its turns.
            self.tool_calls.next_turn()
        return facts

    def _chunk(self, position: int, time: float, kind: rows.MessageKind, update: acp.ContentChunk) -> Sequence[Fact]:
        added = self.messages.continued(kind, update)
        if added is not None:
            return (added,)
        if kind != "user":
            self.runs.heard()
        return self.messages.begun(self._where(position, time), kind, update, replayed=self._replaying)

    # -- tool calls and plans

    def _tool_call(self, position: int, time: float, update: acp.ToolCall) -> Sequence[Fact]:
        ended = self._tool_seen(self.tool_calls.knows(update.tool_call_id))
        return [*ended, *self.tool_calls.started(self._origin(position, time), update)]

    def _tool_call_update(self, position: int, time: float, update: acp.ToolCallUpdate) -> Sequence[Fact]:
        ended = self._tool_seen(self.tool_calls.by_agent_id(update.tool_call_id) is not None)
        return [*ended, *self.tool_calls.changed(self._origin(position, time), update)]

    def _tool_seen(self, before: bool) -> list[Fact]:
        self.runs.heard()
        message = self.messages.at_hand
        if before or message is None or message.message_id is not None:
            return []
        # Words after a tool call are another message. An agent that gives ids says so itself.
        return self.messages.ended()

    def _origin(self, position: int, time: float) -> rows.ToolCall:
        where = self._where(position, time)
        return rows.ToolCall(
            id=where.row_id("tool"),
            tool_call_id="",
            run_id=where.run_id,
            time=where.time,
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
        self.runs.heard()
        self.plans[plan.plan_id] = plan
        return (PlanChanged(plan),)

    def _plan_removed(self, position: int, time: float, update: acp.PlanRemoved) -> Sequence[Fact]:
        plan = self.plans.pop(update.plan_id, None)
        return (PlanChanged(plan, removed=True),) if plan is not None else (OtherUpdate("plan_removed"),)

    # -- what else a session has

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
            self.title = update.title
        return (SettingsChanged("session_info_update"),)

    def _usage(self, position: int, time: float, update: acp.UsageUpdate) -> Sequence[Fact]:
        self.usage = msgspec.structs.replace(
            self.usage,
            context_used=update.used,
            context_size=update.size,
            cost=update.cost if update.cost is not None else self.usage.cost,
        )
        paid = self.runs.paid(update.cost) if update.cost is not None else None
        return (UsageChanged(self.usage),) if paid is None else (UsageChanged(self.usage), RunPaid(paid))

    def _sub_agent(self, position: int, time: float, update: acp.SubagentUpdate) -> Sequence[Fact]:
        known = self.sub_agents.get(update.session_id) or rows.SubAgent(session_id=update.session_id)
        changes: dict[str, str | None] = {}
        if update.title is not msgspec.UNSET:
            changes["title"] = update.title
        if update.description is not msgspec.UNSET:
            changes["description"] = update.description
        if update.state is not msgspec.UNSET:
            changes["state"] = None if update.state is None else _state_of(update.state)
        self.sub_agents[update.session_id] = msgspec.structs.replace(known, **changes)
        return (SettingsChanged("subagent_update"),)

    def _notice(self, position: int, time: float, update: acp.Notice) -> Sequence[Fact]:
        return (self.notices.told(self._where(position, time), update),)

    def _compaction(self, position: int, time: float, update: acp.CompactionUpdate) -> Sequence[Fact]:
        return (self.notices.compaction(self._where(position, time), update),)

    def _compaction_summary(self, position: int, time: float, update: acp.CompactionSummaryChunk) -> Sequence[Fact]:
        self.notices.summary(update)
        return (OtherUpdate("compaction_summary_chunk"),)

    # -- what we asked, and what came back

    def _we_asked(self, position: int, time: float, request: Request) -> Sequence[Fact]:
        match request.method:
            case "session/prompt":
                return self._run_started(position, time, request)
            case "session/load" | "session/resume":
                # Resuming is not to replay, but some agents do: what comes before the next prompt is no news.
                self._replaying = True
            case "session/set_mode" | "session/set_model" | "session/set_config_option":
                self._asked[request.id] = request
            case _:
                pass
        return _NOTHING

    def _run_started(self, position: int, time: float, request: Request) -> Sequence[Fact]:
        facts = self.messages.ended()
        run, prompt = self.runs.started(position, time, request)
        self._replaying = False
        self.tool_calls.next_turn()
        self.messages.prompted(self._where(position, time), prompt)
        facts.append(RunStarted(run))
        return facts

    def _answered(self, time: float, reply: Reply) -> Sequence[Fact]:
        ended = self.runs.end_in(reply)
        if ended is not None:
            return self._run_ended(time, *ended)
        asked = self._asked.pop(reply.id, None)
        if reply.error is not None:
            return _NOTHING
        if asked is not None:
            return self._switched(asked, reply)
        if reply.method in ("session/new", "session/load", "session/resume", "session/fork"):
            return self._opened(reply)
        return _NOTHING

    def _opened(self, reply: Reply) -> Sequence[Fact]:
        # New, load, resume and fork answer alike, but for ids; and load may answer null.
        answer = decoded(reply.result, acp.LoadSessionResponse)
        if answer is None:
            return _NOTHING
        self.settings = settings.of_session(answer.config_options, answer.modes, answer.models)
        return (SettingsChanged(reply.method),) if self.settings else _NOTHING

    def _switched(self, request: Request, reply: Reply) -> Sequence[Fact]:
        """A switch went well: the agent's answer tells what is now set, else what we asked for is."""
        match request.method:
            case "session/set_config_option":
                answer = decoded(reply.result, acp.SetSessionConfigOptionResponse)
                option = decoded(request.params, acp.SetSessionConfigOptionRequest)
                if answer is not None:
                    self.settings = settings.with_options(self.settings, answer.config_options)
                elif option is not None:
                    self.settings = settings.with_value(self.settings, option.config_id, option.value)
            case "session/set_mode":
                if mode := decoded(request.params, acp.SetSessionModeRequest):
                    self.settings = settings.with_mode(self.settings, mode.mode_id)
            case _:
                if model := decoded(request.params, acp.SetSessionModelRequest):
                    self.settings = settings.with_model(self.settings, model.model_id)
        return (SettingsChanged(request.method),)

    def _run_ended(self, time: float, run: rows.Run, end: RunEnd) -> Sequence[Fact]:
        facts = self.messages.ended()
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
        facts.append(RunEnded(self.runs.ended(run, time, end, self.usage)))
        return facts

    # -- what the agent asked of us, and what the host itself noted

    def _where(self, position: int, time: float) -> Where:
        return Where(position, time, self.runs.current_id)

    def _permission_requested(self, position: int, time: float, request: Request) -> Sequence[Fact]:
        asked = decoded(request.params, acp.RequestPermissionRequest)
        if asked is None:
            return (OtherUpdate(request.method),)
        # Gemini CLI names a tool call here first, and sends no tool_call for it.
        facts = self._tool_seen(self.tool_calls.knows(asked.tool_call.tool_call_id))
        tool_call, changes = self.tool_calls.asked_for(self._origin(position, time), asked.tool_call)
        facts.extend(changes)
        where = self._where(position, time)
        permission = rows.Permission(
            id=where.row_id("permission"),
            request_id=request.id,
            run_id=where.run_id,
            time=where.time,
            options=tuple(asked.options),
            tool_call_row=tool_call.id,
            tool_call_id=tool_call.tool_call_id,
            title=tool_call.title,
            kind=tool_call.kind,
            content=tool_call.content,
            locations=tool_call.locations,
            raw_input=tool_call.raw_input,
        )
        facts.append(self._requests.permission_asked(permission))
        return facts

    def _we_answered(self, time: float, reply: Reply) -> Sequence[Fact]:
        facts = self._requests.answered(reply, time)
        for fact in facts:
            match fact:
                case PermissionResolved(permission=rows.Permission(tool_call_row=str(row_id), decision=decision)):
                    if decision != "allow":
                        self.tool_calls.refused(row_id)
                case _:
                    pass
        return facts

    def _noted(self, position: int, time: float, message: Notification) -> Sequence[Fact]:
        match notes.read(message):
            case notes.Prompt() as prompt:
                self.runs.announced(prompt)
            case notes.RunCut() as cut:
                run = self.runs.cut(cut, time, self.usage)
                if run is None:
                    return _NOTHING
                left = self._requests.cut(run.id, cut.reason, time)
                return [*self.messages.ended(), *left, RunEnded(run)]
            case notes.HistoryDiffers() as differs:
                self.differs = differs
                return (HistoryDiffers(differs),)
            case None:
                pass
            case note:
                return self._requests.noted(self._where(position, time), note)
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


def _kind_of(update: object) -> str:
    """The update's own tag, as it stood on the wire."""
    config = getattr(type(update), "__struct_config__", None)
    return str(config.tag or "") if config is not None else ""


def _state_of(state: object) -> str:
    return str(getattr(state, "state", "") or _kind_of(state))


def _entries(entries: Sequence[acp.PlanEntry]) -> tuple[rows.PlanEntry, ...]:
    return tuple(rows.PlanEntry(entry.content, entry.priority, entry.status) for entry in entries)
