"""`MessageView`: the frames of a session as unified messages. Pure: no I/O, no clock, nothing random.

    frame of the agent                             type                  role       metadata beyond the frame's own
    answer to initialize                           session_init          system
    answer to session/new (load, resume, fork)     session_init          system     sessionId, also if it is left out
    agent_message_chunk                            stream_event          assistant
    agent_thought_chunk                            stream_event          assistant  thought: true
    tool_call, unfinished tool_call_update         tool_progress         tool
    tool_call_update (completed)                   tool_use_summary      tool       the last title and kind
    tool_call_update (failed)                      tool_use_summary      tool       the same, and is_error: true
    plan                                           status_change         system
    current_mode_update                            configuration_change  system     modeId
    session/request_permission                     permission_request    system     request_id, origin
    answer to session/prompt                       result                system     is_error: true for an error
    anything else, other sessions, invalid lines   unknown               system     the whole frame

`metadata` is the update (the params, the result) as the agent sent it, with unknown fields and `_meta`. The block of a
chunk and the result of a tool are in `content` instead. A tool_call that is finished when it first appears becomes two
messages, progress and summary, because a front end waits for both.

The host's actions for the agent have no frame of the agent's; their messages come from events:

    event                                          type                  role    metadata
    file.read                                      tool_use_summary      tool    origin: files, kind: read, locations
    file.written                                   tool_use_summary      tool    origin: files, kind: edit, locations;
                                                                                 the diff in `content`
    terminal.started                               tool_progress         tool    origin: terminals, rawInput
    terminal.exited                                tool_use_summary      tool    the same with rawOutput; the end of the
                                                                                 output in `content`
    terminal.refused                               tool_use_summary      tool    the same with rawInput and is_error
    question.answered                              status_change         system  origin: questions, action

They have a `toolCallId` of Dragoman's and a `title`, as an agent's tool calls have, and `decision`, `decided_by`,
`reason` and `rule` where a decision was made. A failure or a refusal has `is_error: true` and the `error` that the
agent got.

The metadata of the messages that Dragoman itself adds come from `permission_metadata`, `result_metadata` and
`error_metadata`.
"""

from __future__ import annotations

import os
import shlex
from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.backend.messages import Fields, MessageType, Role, UnifiedMessage
from dragoman.errors import AgentCrashed, DragomanError
from dragoman.host.permission import PermissionRequest
from dragoman.record import events
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import (
    DECODE_ERRORS,
    Message,
    Noise,
    Notification,
    Oversized,
    Reply,
    Request,
    Unknown,
    Update,
    session_id_in,
)

_OPENING_METHODS = ("session/new", "session/load", "session/resume", "session/fork")

_DecidedEvent: TypeAlias = (
    events.FileRead | events.FileWritten | events.TerminalStarted | events.TerminalRefused | events.QuestionAnswered
)


class _UpdateLine(msgspec.Struct, frozen=True):
    params: Fields


_decode_update_line = msgspec.json.Decoder(_UpdateLine).decode


class MessageView:
    """The messages of one session. Ids count the messages: the same frames give the same ids.

    Never raises, whatever the agent sends.
    """

    def __init__(self) -> None:
        self._count = 0
        self._session_id: str | None = None
        self._requested_session_id: str | None = None  # the session that we asked to load or resume
        self._tool_calls: dict[str, Fields] = {}  # unfinished, of this run: their fields so far
        self._covered_terminals: set[str] = set()  # of which a tool call reports

    # -- frames

    def on_sent(self, message: Message) -> None:
        """Take a frame of ours. It makes no message, but the answer depends on it."""
        if isinstance(message, Request) and message.method in _OPENING_METHODS:
            self._session_id = None  # until the answer has it: an agent may go on under another id
            self._requested_session_id = session_id_in(message.params)

    def on_received(self, message: Message, time: float) -> tuple[UnifiedMessage, ...]:
        """Return the message of a frame of the agent's; seldom two of them, and never none for a line it wrote."""
        match message:
            case Update():
                return self._update(message, time)
            case Reply(line=b"", method=method) if method != "session/prompt":
                return ()  # stands for an answer over the line limit, which has its message
            case Reply():
                return (self._reply(message, time),)
            case Request(method="session/request_permission") if self._is_own(session_id_in(message.params)):
                return (self._permission_request(message, time),)
            case Request() | Notification():
                return (self.message("unknown", time, _frame_fields(message)),)
            case Noise(reason=reason, line=line):
                return (self.message("unknown", time, {"noise": reason, "line": _text(line)}),)
            case Oversized(length=length, sha256=sha256, head=head):
                return (self.message("unknown", time, {"oversized": length, "sha256": sha256, "head": _text(head)}),)

    def message(
        self,
        type_: MessageType,
        time: float,
        metadata: Fields,
        content: tuple[Fields, ...] = (),
        role: Role = "system",
    ) -> UnifiedMessage:
        """Make the next message."""
        self._count += 1
        return UnifiedMessage(
            id=f"message-{self._count}", timestamp=time, type=type_, role=role, content=content, metadata=metadata
        )

    def _is_own(self, session_id: str | None) -> bool:
        """Return whether a frame is of this session; before its id is known it can be of no other."""
        return self._session_id is None or session_id == self._session_id

    # -- updates

    def _update(self, message: Update, time: float) -> tuple[UnifiedMessage, ...]:
        update, other_params = _update_fields(message)
        if not self._is_own(message.session_id):
            params = {"sessionId": message.session_id, **other_params, "update": update}
            return (self.message("unknown", time, {"method": "session/update", "params": params}),)
        if other_params:
            update["params"] = other_params  # beside the update: `_meta`, if anything
        match message.update:
            case acp.AgentMessageChunk():
                content = _pop_block(update)
                return (self.message("stream_event", time, update, content, "assistant"),)
            case acp.AgentThoughtChunk():
                content = _pop_block(update)
                return (self.message("stream_event", time, {**update, "thought": True}, content, "assistant"),)
            case acp.ToolCall() as call:
                return self._tool_call(call, update, time)
            case acp.SessionToolCallUpdate() as call:
                return (self._tool_call_update(call, update, time),)
            case acp.Plan():
                return (self.message("status_change", time, update),)
            case acp.CurrentModeUpdate(current_mode_id=mode):
                return (self.message("configuration_change", time, {**update, "modeId": mode}),)
            case _:
                return (self.message("unknown", time, update),)

    def _tool_call(self, call: acp.ToolCall, fields: Fields, time: float) -> tuple[UnifiedMessage, ...]:
        # The protocol's own defaults; a front end need not know them.
        fields = {**fields, "kind": call.kind or "other", "status": call.status or "pending"}
        progress = self.message("tool_progress", time, fields, role="tool")
        self._tool_calls[call.tool_call_id] = fields
        return (progress, self._summary(call, fields, time)) if _is_finished(call) else (progress,)

    def _tool_call_update(self, call: acp.ToolCallUpdate, fields: Fields, time: float) -> UnifiedMessage:
        if _is_finished(call):
            return self._summary(call, fields, time)
        earlier = self._tool_calls.get(call.tool_call_id, {})
        changes = {key: value for key, value in fields.items() if value is not None}
        self._tool_calls[call.tool_call_id] = {**earlier, **changes}
        return self.message("tool_progress", time, fields, role="tool")

    def _summary(self, call: acp.ToolCall | acp.ToolCallUpdate, fields: Fields, time: float) -> UnifiedMessage:
        """Make the message of a tool call's end. The update has only the changes: the rest is in earlier ones."""
        earlier = self._tool_calls.pop(call.tool_call_id, {})
        metadata = dict(fields)
        for key in ("title", "kind"):
            if not metadata.get(key) and key in earlier:
                metadata[key] = earlier[key]
        content = metadata.get("content")
        if content is None:
            content = earlier.get("content")
        if content is None or (isinstance(content, list) and all(isinstance(item, dict) for item in content)):
            metadata.pop("content", None)
        if call.status == "failed":
            metadata["is_error"] = True
        return self.message("tool_use_summary", time, metadata, _tool_blocks(content), "tool")

    # -- requests and answers

    def _permission_request(self, request: Request, time: float) -> UnifiedMessage:
        params = _as_fields(_frame_fields(request).get("params"), "params")
        message = self.message("permission_request", time, params)
        # Our own id, used once: the agent may use its id again, and a late answer must not reach the later request.
        return with_metadata(message, request_id=message.id, origin="agent")

    def _reply(self, reply: Reply, time: float) -> UnifiedMessage:
        frame = _frame_fields(reply)
        result = frame.get("result")
        if reply.method == "session/prompt":
            self._tool_calls.clear()
            return self.message("result", time, _prompt_result(reply, frame))
        if reply.error is None and reply.method == "initialize":
            return self.message("session_init", time, _as_fields(result, "result"))
        if reply.error is None and reply.method in _OPENING_METHODS:
            self._session_id = session_id_in(reply.result) or self._requested_session_id
            fields = _as_fields(result, "result") if result is not None else {}
            return self.message("session_init", time, {**fields, "sessionId": self._session_id})
        return self.message("unknown", time, {**frame, "method": reply.method})

    # -- actions of the host

    def on_event(self, event: events.Event, *, is_tool_running: bool) -> UnifiedMessage | None:
        """Return the message of an action of the host; None where a frame of the agent's reports it.

        While a tool call is under way, a file that was written and a command that ran are its work, and it reports
        them. Reads have a message only when they were denied, since agents look for files that may not exist. Other
        refusals and failures always have one.
        """
        match event:
            case events.FileRead(status=status) if status != "denied":
                return None
            case events.FileWritten(status="done") if is_tool_running:
                return None
            case events.TerminalStarted(terminal_id=terminal_id) if is_tool_running:
                self._covered_terminals.add(terminal_id)
                return None
            case events.TerminalExited(terminal_id=terminal_id) if terminal_id in self._covered_terminals:
                self._covered_terminals.discard(terminal_id)
                return None
            case _:
                return self.host_message(event)

    def host_message(self, event: events.Event) -> UnifiedMessage | None:
        """Return the message of any action of the host; None for an event that is no such action."""
        summary: MessageType = "tool_use_summary"
        match event:
            case events.FileRead(path=path, from_line=line):
                location = {"path": path} if line is None else {"path": path, "line": line}
                return self.message(summary, event.time, _file_metadata(event, "read", location), role="tool")
            case events.FileWritten(path=path, diff=diff):
                content: tuple[Fields, ...] = () if diff is None else (msgspec.to_builtins(diff),)
                return self.message(summary, event.time, _file_metadata(event, "edit", {"path": path}), content, "tool")
            case events.TerminalStarted():
                return self.message("tool_progress", event.time, _command_metadata(event, "in_progress"), role="tool")
            case events.TerminalRefused(error=error):
                metadata = {**_command_metadata(event, "failed"), "is_error": True, "error": error}
                return self.message(summary, event.time, metadata, role="tool")
            case events.TerminalExited(output=output):
                content = ({"type": "text", "text": output},) if output else ()
                return self.message(summary, event.time, _exit_metadata(event), content, "tool")
            case events.QuestionAnswered(question_id=question_id, action=action):
                metadata = {"origin": "questions", "questionId": question_id, "action": action}
                return self.message("status_change", event.time, {**metadata, **_decision_metadata(event)})
            case _:
                return None


def with_metadata(message: UnifiedMessage, **fields: object) -> UnifiedMessage:
    return msgspec.structs.replace(message, metadata={**message.metadata, **fields})


# -- metadata of messages that Dragoman adds


def permission_metadata(request: PermissionRequest) -> Fields:
    """Return the metadata of a permission request of the host's: about a file to write or a command to run."""
    return {
        "origin": request.origin,
        "toolCall": {
            "toolCallId": request.tool_call_id,
            "title": request.title,
            "kind": request.kind,
            "content": [msgspec.to_builtins(diff) for diff in request.diffs],
            "locations": [{"path": path} for path in request.paths],
            "rawInput": msgspec.to_builtins(request.raw_input),
        },
        "options": [{"optionId": option.id, "name": option.name, "kind": option.kind} for option in request.options],
    }


def error_metadata(error: DragomanError) -> Fields:
    """Return the metadata of an error."""
    metadata: Fields = {
        "message": error.message,
        "kind": type(error).__name__,
        "category": error.category,
        "guidance": error.guidance,
    }
    if isinstance(error, AgentCrashed):
        metadata |= {"exit_code": error.exit_code, "stderr": error.stderr}
    return metadata


def result_metadata(status: Literal["cancelled", "interrupted", "error"], reason: str) -> Fields:
    """Return the metadata of the result of a prompt that the agent did not answer."""
    error = {} if status == "cancelled" else {"is_error": True}
    return {"stopReason": None, "status": status, "reason": reason, **error}


# -- fields of frames


def _prompt_result(reply: Reply, frame: Fields) -> Fields:
    if reply.error is not None:
        return {"stopReason": None, "is_error": True, "error": frame.get("error")}
    result = _as_fields(frame.get("result"), "result")
    if isinstance(result.get("stopReason"), str):
        return result
    return {**result, "is_error": True}  # the end of a run without a reason is the agent's defect


def _is_finished(call: acp.ToolCall | acp.ToolCallUpdate) -> bool:
    return call.status in ("completed", "failed")


def _pop_block(update: Fields) -> tuple[Fields, ...]:
    """Remove the block of a chunk from its update, and return it."""
    return (update.pop("content"),) if isinstance(update.get("content"), dict) else ()


def _tool_blocks(content: object) -> tuple[Fields, ...]:
    """Return the result of a tool: blocks as they are in chunks, diffs and terminals."""
    items = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    # Unwrapped only where the wrapping has no other fields.
    return tuple(
        item["content"] if item.keys() == {"type", "content"} and isinstance(item["content"], dict) else item
        for item in items
    )


def _update_fields(message: Update) -> tuple[Fields, Fields]:
    """Return the update as the agent wrote it, and the other params but for the session's id."""
    try:
        other_params = _decode_update_line(message.line).params
        update = other_params.pop("update")
        other_params.pop("sessionId", None)
    except (*DECODE_ERRORS, KeyError):
        # A line that had to be repaired, or two on one line: the decoded value is the best available.
        value = message.update
        update, other_params = _decoded(value.raw) if isinstance(value, Unknown) else msgspec.to_builtins(value), {}
    return _as_fields(update, "update"), other_params


def _frame_fields(message: Request | Notification | Reply) -> Fields:
    """Return the JSON-RPC message as the agent wrote it."""
    try:
        frame = lenient.decode(message.line, dict[str, Any])
    except DECODE_ERRORS:
        frame = _rebuilt_frame(message)
    frame.pop("jsonrpc", None)
    return frame


def _rebuilt_frame(message: Request | Notification | Reply) -> Fields:
    match message:
        case Notification():
            return {"method": message.method, "params": _decoded(message.params)}
        case Request():
            return {"id": message.id, "method": message.method, "params": _decoded(message.params)}
        case Reply(error=None):
            return {"id": message.id, "result": _decoded(message.result)}
        case Reply():
            return {"id": message.id, "error": msgspec.to_builtins(message.error)}


def _decoded(raw: msgspec.Raw) -> object:
    try:
        return lenient.decode(raw, Any)
    except DECODE_ERRORS:
        return _text(bytes(raw))


def _as_fields(value: object, name: str) -> Fields:
    return dict(value) if isinstance(value, dict) else {name: value}


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


# -- metadata of the host's actions


def _file_metadata(
    event: events.FileRead | events.FileWritten, kind: Literal["read", "edit"], location: Fields
) -> Fields:
    is_done = event.status == "done"
    metadata: Fields = {
        "origin": "files",
        "toolCallId": event.file_id,
        "title": f"{'Read' if kind == 'read' else 'Write'} {os.path.basename(event.path)}",
        "kind": kind,
        "status": "completed" if is_done else "failed",
        "locations": [location],
        "size": event.size,
        **_decision_metadata(event),
    }
    return metadata if is_done else {**metadata, "is_error": True, "error": event.error}


def _command_metadata(event: events.TerminalStarted | events.TerminalRefused, status: str) -> Fields:
    raw_input = {"command": event.command, "args": list(event.args), "cwd": event.cwd, "env": list(event.env)}
    return {**_terminal_metadata(event, status), "rawInput": raw_input, **_decision_metadata(event)}


def _exit_metadata(event: events.TerminalExited) -> Fields:
    raw_output = {
        "exitCode": event.exit_code,
        "signal": event.signal,
        "ending": event.status,
        "bytes": event.output_bytes,
        "truncated": event.truncated,
    }
    return {**_terminal_metadata(event, "completed"), "rawOutput": raw_output}


def _terminal_metadata(
    event: events.TerminalStarted | events.TerminalRefused | events.TerminalExited, status: str
) -> Fields:
    line = shlex.join((event.command, *event.args)) if event.args else event.command
    return {
        "origin": "terminals",
        "toolCallId": event.terminal_id,
        "title": line,
        "kind": "execute",
        "status": status,
    }


def _decision_metadata(event: _DecidedEvent) -> Fields:
    fields = {name: getattr(event, name) for name in ("decision", "decided_by", "reason", "rule")}
    return {name: value for name, value in fields.items() if value is not None}
