"""Messages: the same stream in the words of coding-agent front ends. Pure: no I/O, no clock, nothing random.

What the agent says, in the order of the wire; what a front end says is in `actions`.

    frame                                          type                  role       metadata beyond the frame's own
    answer to initialize                           session_init          system
    answer to session/new (load, resume, fork)     session_init          system     sessionId, also where it is not told
    agent_message_chunk                            stream_event          assistant
    agent_thought_chunk                            stream_event          assistant  thought: true
    tool_call, unfinished tool_call_update         tool_progress         tool
    tool_call_update (completed)                   tool_use_summary      tool       title and kind, as known
    tool_call_update (failed)                      tool_use_summary      tool       the same, and is_error: true
    plan                                           status_change         system
    current_mode_update                            configuration_change  system     modeId
    session/request_permission                     permission_request    system     request_id, origin
    answer to session/prompt                       result                system     is_error: true for an error
    anything else, of other sessions, no message   unknown               system     whole

`metadata` is the update (the params, the result) as the agent said it, fields we do not know and `_meta` included, but
for what moved into `content`: the block of a chunk, the result of a tool. A tool_call that is finished at first sight
is told twice, as progress and as summary, because a front end waits for both.

`error` (system) is ours: no frame stands behind it. It tells what went wrong with a message that was sent
(`in_reply_to`), or with the agent as a whole.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.errors import AgentCrashed, DragomanError, InputError
from dragoman.host.permission import PermissionRequest
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

MessageType: TypeAlias = Literal[
    "session_init",
    "stream_event",
    "tool_progress",
    "tool_use_summary",
    "status_change",
    "configuration_change",
    "permission_request",
    "result",
    "unknown",
    "error",
    "user_message",
    "permission_response",
    "interrupt",
]
Role: TypeAlias = Literal["system", "assistant", "tool", "user"]

# JSON as it stands on the wire: front ends know more of an agent's own fields than we do.
Fields: TypeAlias = dict[str, Any]


class UnifiedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """`timestamp` is in seconds since 1970. Of messages from a front end, `id` is the front end's own."""

    id: str
    timestamp: float
    type: MessageType
    role: Role
    content: tuple[Fields, ...] = ()
    metadata: Fields = {}


def read_message(data: bytes | str) -> UnifiedMessage:
    """A message as JSON, from a front end in another process."""
    try:
        return msgspec.json.decode(data, type=UnifiedMessage)
    except DECODE_ERRORS as problem:
        raise InputError(f"this is no message: {problem}", guidance="A message is one JSON object.") from None


# -- from the agent

_OPENING = ("session/new", "session/load", "session/resume", "session/fork")


class _UpdateLine(msgspec.Struct, frozen=True):
    params: Fields


_update_line = msgspec.json.Decoder(_UpdateLine).decode


class MessageView:
    """The frames of a connection with one session, as messages. Ids count the messages: the same frames give the same.

    Never raises, whatever the agent sends.
    """

    def __init__(self) -> None:
        self._made = 0
        self._session_id: str | None = None
        self._asked_for: str | None = None  # the session that we asked to load or resume
        self._tools: dict[str, Fields] = {}  # unfinished tool calls of this turn: what was said of them last

    def sent(self, message: Message) -> None:
        """A frame of ours. It is no message, but answers are read in its light."""
        if isinstance(message, Request) and message.method in _OPENING:
            self._session_id = None  # until the answer tells it: an agent may go on under another
            self._asked_for = session_id_in(message.params)

    def heard(self, message: Message, time: float) -> tuple[UnifiedMessage, ...]:
        """A frame of the agent's: one message, seldom two, never none."""
        match message:
            case Update():
                return self._update(message, time)
            case Reply():
                return (self._reply(message, time),)
            case Request(method="session/request_permission") if self._is_ours(session_id_in(message.params)):
                return (self._permission(message, time),)
            case Request() | Notification():
                return (self.tell("unknown", time, _frame(message)),)
            case Noise(reason=reason, line=line):
                return (self.tell("unknown", time, {"noise": reason, "line": _text(line)}),)
            case Oversized(length=length, sha256=sha256, head=head):
                return (self.tell("unknown", time, {"oversized": length, "sha256": sha256, "head": _text(head)}),)

    def tell(
        self,
        type_: MessageType,
        time: float,
        metadata: Fields,
        content: tuple[Fields, ...] = (),
        role: Role = "system",
    ) -> UnifiedMessage:
        """The next message."""
        self._made += 1
        return UnifiedMessage(
            id=f"message-{self._made}", timestamp=time, type=type_, role=role, content=content, metadata=metadata
        )

    def _is_ours(self, session_id: str | None) -> bool:
        """What comes before the session's id is known can only be its own."""
        return self._session_id is None or session_id == self._session_id

    # -- updates

    def _update(self, message: Update, time: float) -> tuple[UnifiedMessage, ...]:
        said, beside = _said(message)
        if not self._is_ours(message.session_id):
            params = {"sessionId": message.session_id, **beside, "update": said}
            return (self.tell("unknown", time, {"method": "session/update", "params": params}),)
        if beside:
            said["params"] = beside  # what the agent put next to the update: `_meta`, where anything
        match message.update:
            case acp.AgentMessageChunk():
                content = _taken(said)
                return (self.tell("stream_event", time, said, content, "assistant"),)
            case acp.AgentThoughtChunk():
                content = _taken(said)
                return (self.tell("stream_event", time, {**said, "thought": True}, content, "assistant"),)
            case acp.ToolCall() as call:
                return self._tool_call(call, said, time)
            case acp.SessionToolCallUpdate() as call:
                return (self._tool_update(call, said, time),)
            case acp.Plan():
                return (self.tell("status_change", time, said),)
            case acp.CurrentModeUpdate(current_mode_id=mode):
                return (self.tell("configuration_change", time, {**said, "modeId": mode}),)
            case _:
                return (self.tell("unknown", time, said),)

    def _tool_call(self, call: acp.ToolCall, said: Fields, time: float) -> tuple[UnifiedMessage, ...]:
        # The protocol's own defaults; a front end need not know them.
        said = {**said, "kind": call.kind or "other", "status": call.status or "pending"}
        progress = self.tell("tool_progress", time, said, role="tool")
        self._tools[call.tool_call_id] = said
        return (progress, self._summary(call, said, time)) if _finished(call) else (progress,)

    def _tool_update(self, call: acp.ToolCallUpdate, said: Fields, time: float) -> UnifiedMessage:
        if _finished(call):
            return self._summary(call, said, time)
        known = self._tools.get(call.tool_call_id, {})
        self._tools[call.tool_call_id] = {**known, **{key: value for key, value in said.items() if value is not None}}
        return self.tell("tool_progress", time, said, role="tool")

    def _summary(self, call: acp.ToolCall | acp.ToolCallUpdate, said: Fields, time: float) -> UnifiedMessage:
        """The end of a tool call. An update names only what has changed: the rest is as it was said before."""
        known = self._tools.pop(call.tool_call_id, {})
        metadata = dict(said)
        for key in ("title", "kind"):
            if not metadata.get(key) and key in known:
                metadata[key] = known[key]
        content = metadata.get("content")
        if content is None:
            content = known.get("content")
        if content is None or (isinstance(content, list) and all(isinstance(item, dict) for item in content)):
            metadata.pop("content", None)
        if call.status == "failed":
            metadata["is_error"] = True
        return self.tell("tool_use_summary", time, metadata, _blocks(content), "tool")

    # -- requests and answers

    def _permission(self, request: Request, time: float) -> UnifiedMessage:
        params = _fields(_frame(request).get("params"), "params")
        message = self.tell("permission_request", time, params)
        # Ours, and used once: the agent may give the same id to a later request, and a late answer must not reach it.
        return with_metadata(message, request_id=message.id, origin="agent")

    def _reply(self, reply: Reply, time: float) -> UnifiedMessage:
        frame = _frame(reply)
        result = frame.get("result")
        if reply.method == "session/prompt":
            self._tools.clear()
            return self.tell("result", time, _result(reply, frame))
        if reply.error is None and reply.method == "initialize":
            return self.tell("session_init", time, _fields(result, "result"))
        if reply.error is None and reply.method in _OPENING:
            self._session_id = session_id_in(reply.result) or self._asked_for
            opened = _fields(result, "result") if result is not None else {}
            return self.tell("session_init", time, {**opened, "sessionId": self._session_id})
        return self.tell("unknown", time, {**frame, "method": reply.method})


def _result(reply: Reply, frame: Fields) -> Fields:
    if reply.error is not None:
        return {"stopReason": None, "is_error": True, "error": frame.get("error")}
    result = _fields(frame.get("result"), "result")
    if isinstance(result.get("stopReason"), str):
        return result
    return {**result, "is_error": True}  # a run's end without a reason is the agent's defect


def _finished(call: acp.ToolCall | acp.ToolCallUpdate) -> bool:
    return call.status in ("completed", "failed")


def _taken(said: Fields) -> tuple[Fields, ...]:
    """The block of a chunk, out of the rest."""
    return (said.pop("content"),) if isinstance(said.get("content"), dict) else ()


def _blocks(content: object) -> tuple[Fields, ...]:
    """The result of a tool: blocks as they are in messages, and diffs and terminals."""
    items = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    # Only where the wrapping says nothing else.
    return tuple(
        item["content"] if item.keys() == {"type", "content"} and isinstance(item["content"], dict) else item
        for item in items
    )


def _said(message: Update) -> tuple[Fields, Fields]:
    """The update as it was said, and what else was in the params but for the session's id."""
    try:
        beside = _update_line(message.line).params
        said = beside.pop("update")
        beside.pop("sessionId", None)
    except (*DECODE_ERRORS, KeyError):
        # A line that had to be mended, or two on one: what was made of it is the best there is.
        update = message.update
        said, beside = _plain(update.raw) if isinstance(update, Unknown) else msgspec.to_builtins(update), {}
    return _fields(said, "update"), beside


def _frame(message: Request | Notification | Reply) -> Fields:
    """The JSON-RPC message as it was said."""
    try:
        frame = lenient.decode(message.line, dict[str, Any])
    except DECODE_ERRORS:
        frame = _put_together(message)
    frame.pop("jsonrpc", None)
    return frame


def _put_together(message: Request | Notification | Reply) -> Fields:
    match message:
        case Notification():
            return {"method": message.method, "params": _plain(message.params)}
        case Request():
            return {"id": message.id, "method": message.method, "params": _plain(message.params)}
        case Reply(error=None):
            return {"id": message.id, "result": _plain(message.result)}
        case Reply():
            return {"id": message.id, "error": msgspec.to_builtins(message.error)}


def _plain(raw: msgspec.Raw) -> object:
    try:
        return lenient.decode(raw, Any)
    except DECODE_ERRORS:
        return _text(bytes(raw))


def _fields(value: object, name: str) -> Fields:
    return dict(value) if isinstance(value, dict) else {name: value}


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


def with_metadata(message: UnifiedMessage, **more: object) -> UnifiedMessage:
    return msgspec.structs.replace(message, metadata={**message.metadata, **more})


# -- what no frame of the agent says


def question_of(request: PermissionRequest) -> Fields:
    """The metadata of a permission request of our own: the agent wants us to write a file or to run a command."""
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
        "options": [{"optionId": each.id, "name": each.name, "kind": each.kind} for each in request.options],
    }


def error_of(problem: DragomanError) -> Fields:
    """The metadata of an error."""
    metadata: Fields = {
        "message": problem.message,
        "kind": type(problem).__name__,
        "category": problem.category,
        "guidance": problem.guidance,
    }
    if isinstance(problem, AgentCrashed):
        metadata |= {"exit_code": problem.exit_code, "stderr": problem.stderr}
    return metadata


def cut_of(status: Literal["cancelled", "interrupted", "error"], reason: str) -> Fields:
    """The metadata of the result of a prompt that the agent did not answer."""
    failed = {} if status == "cancelled" else {"is_error": True}
    return {"stopReason": None, "status": status, "reason": reason, **failed}
