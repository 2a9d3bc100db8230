"""The tool calls of a Codex thread, from call to end.

A call is reported when it is made. Its result is in its output, and in many versions also in an event before that,
which has more details; of the two, the first one counts. A command may run on after its output: calls that poll it are
reported as updates of the command. The call of a plan is reported as the plan, and as a call if it failed.

Events of older versions and items of newer ones report the ends of calls with the same fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.translate.codex import commands, records, tools
from dragoman.translate.codex.commands import CallOutput
from dragoman.translate.codex.records import RecordRef, content_blocks, image_block, local_path
from dragoman.translate.frames import SessionFrames
from dragoman.translate.scratch import Scratch, SpillingMap
from dragoman.wire.vocabulary import (
    Content,
    ContentBlock,
    Diff,
    Plan,
    SessionToolCallUpdate,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolKind,
)

# The action of a web search without details, as events spell it.
_NO_ACTION: Final = b'{"type":"other"}'

# An update has the whole output so far. Up to this many characters, each new piece is reported at once.
_SMALL_OUTPUT_CHARS: Final = 16 * 1024

_FAILED_STATUSES: Final = frozenset({"failed", "declined", "interrupted", "rejected"})

CallEvent: TypeAlias = records.Payload | records.Item


class _Invocation(msgspec.Struct, frozen=True, gc=False):
    server: str = ""
    tool: str = ""
    arguments: Any = None


class _McpResult(msgspec.Struct, frozen=True, gc=False):
    good: msgspec.Raw = msgspec.field(default=records.ABSENT, name="Ok")
    bad: msgspec.Raw = msgspec.field(default=records.ABSENT, name="Err")


class _McpAnswer(msgspec.Struct, frozen=True, gc=False):
    content: msgspec.Raw = records.ABSENT
    is_error: bool | None = msgspec.field(default=None, name="isError")


class Call(msgspec.Struct, gc=False):
    id: str
    display: tools.ToolDisplay
    text: str = ""  # its output so far
    reported_chars: int = 0  # of the output
    is_in_background: bool = False  # its process has a number, and may print more
    has_ended: bool = False
    is_end_only: bool = False  # no call was seen, only its end


# Stand-ins for calls that have ended: nothing else is remembered of them.
_ENDED_CALL: Final = Call("", tools.ToolDisplay(name="", title=""), has_ended=True)
_ENDED_UNSEEN_CALL: Final = msgspec.structs.replace(_ENDED_CALL, is_end_only=True)


class Calls:
    """The tool calls of one thread."""

    def __init__(self, frames: SessionFrames, scratch: Scratch) -> None:
        self._frames = frames
        self._calls: dict[str, Call] = {}  # by Codex's id: those that have not ended
        self._ended_calls: SpillingMap[int] = SpillingMap(scratch)  # the others: 1 if only their end was seen, else 0
        self._open_calls: dict[str, Call] = {}
        self._running: dict[str, Call] = {}  # by the number of the process or script
        self._early: dict[str, tuple[RecordRef, CallOutput]] = {}  # outputs whose calls have not come
        self._searches: list[tuple[str, bytes]] = []  # web searches of which one of two records was seen

    @property
    def any_open(self) -> bool:
        return bool(self._open_calls)

    # -- calls and outputs

    def add_call(self, ref: RecordRef, call_id: str, display: tools.ToolDisplay) -> None:
        existing = self._find(call_id)
        if existing is _ENDED_UNSEEN_CALL:
            self._ended_calls.put(call_id, False)
            return
        # An id that comes again is another call.
        call = Call(call_id if existing is None else f"{call_id}:{ref.offset}", display)
        self._calls[call_id] = self._open_calls[call_id] = call
        if display.form not in ("plan", "poll"):
            self._emit_call(ref, call)
        early = self._early.pop(call_id, None)
        if early is not None:
            self.add_output(early[0], call_id, early[1])

    def add_output(self, ref: RecordRef, call_id: str, result: CallOutput) -> None:
        call = self._find(call_id)
        if call is None:
            self._early[call_id] = (ref, result)
        elif call.has_ended:
            if result.running is not None:
                self._running[result.running] = call  # an event reported its end before this output; polls may follow
        else:
            match call.display.form:
                case "plan":
                    self._finish_plan(ref, call, result)
                case "poll":
                    self._finish_poll(ref, call, result)
                case _:
                    self._add_output_of(ref, call, result)

    def _finish_plan(self, ref: RecordRef, call: Call, result: CallOutput | None) -> None:
        if result is not None and result.failed:
            self._emit_call(ref, call)
            self._end(ref, call, "failed", _content(result), raw_output=result.text)
            return
        if call.display.plan:
            self._frames.update(ref.at, Plan(entries=call.display.plan, meta=ref.meta(callId=call.id)))
        self._close(call)

    def _finish_poll(self, ref: RecordRef, poll: Call, result: CallOutput) -> None:
        """Add the output of a poll to the command that is still running."""
        display = poll.display
        self._close(poll)
        call = self._running.get(display.polled or "")
        if call is None or result.refused:
            # The command is not known, or it was not polled: the poll is reported as a call of its own.
            poll.display = display
            self._emit_call(ref, poll)
            self._end(ref, poll, _status(result), _content(result), raw_output=_exit(result))
        else:
            typed = f"\n{display.typed}\n" if display.typed else ""
            news = msgspec.structs.replace(result, text=typed + result.text)
            self._add_output_of(ref, call, news, polled_by=poll.id)

    def _add_output_of(self, ref: RecordRef, call: Call, result: CallOutput, polled_by: str | None = None) -> None:
        if call.has_ended:
            return  # an event has reported all of it
        call.text += result.text
        if result.running is not None:
            self._running[result.running] = call
            call.is_in_background = True
            self._report_output(ref, call, polled_by, whole=False)
        else:
            whole = msgspec.structs.replace(result, text=call.text)
            raw_output = _exit(whole)
            if call.display.form == "agent":
                raw_output = records.plain(result.text.encode("utf-8", "replace"))
                if raw_output is None and result.text:  # success is JSON, a failure is a sentence
                    whole = msgspec.structs.replace(whole, failed=True)
            self._end(
                ref, call, _status(whole), self._final_content(call, whole), raw_output=raw_output, polled_by=polled_by
            )

    def _report_output(self, ref: RecordRef, call: Call, polled_by: str | None, *, whole: bool) -> None:
        """Report all output so far. If it is long, do so only when it has doubled."""
        is_news = len(call.text) > call.reported_chars and (
            whole or len(call.text) <= _SMALL_OUTPUT_CHARS or len(call.text) >= 2 * call.reported_chars
        )
        content = (_text(call.text),) if is_news else None
        call.reported_chars = len(call.text) if is_news else call.reported_chars
        meta = ref.meta(callId=polled_by)
        self._frames.update(
            ref.at, SessionToolCallUpdate(tool_call_id=call.id, status="in_progress", content=content, meta=meta)
        )

    def _final_content(self, call: Call, result: CallOutput) -> tuple[ToolCallContent, ...] | None:
        """The content of a call at its end; None if it stays as it was."""
        if call.display.form == "patch":
            return (*call.display.content, *_content(result)) if result.failed else None
        if call.display.name == "view_image" and not result.failed:
            return tuple(Content(content=image_block(address)) for address in result.images) or None
        if call.display.form == "agent" and not result.failed:
            return None
        return _content(result)

    # -- the ends of calls, as events report them

    def end_command(self, ref: RecordRef, call_id: str | None, event: CallEvent) -> None:
        key = self._key(ref, call_id)
        call = self._find(key)
        if call is not None and (call.has_ended or call.display.form in ("patch", "poll")):
            return  # their outputs have as much
        failed = bool(event.exit_code) or _event_status(event) in _FAILED_STATUSES
        result = CallOutput(event.aggregated_output or "", event.exit_code, failed=failed)
        line, folder = commands.line_of(records.plain(event.command)), local_path(event.cwd or "")
        reported_actions = commands.decode_actions(event.parsed_cmd)
        command_display = commands.display_command(line, folder, reported_actions)
        if call is None:
            display = tools.ToolDisplay(
                form="command",
                name="",
                title=command_display.title,
                kind=command_display.kind,
                raw_input={"command": line, "cwd": folder},
            )
            call = self._add_unseen(ref, key, display)
        changed = command_display.title != call.display.title and bool(reported_actions)
        title, kind = (command_display.title, command_display.kind) if changed else (None, None)
        self._end(ref, call, _status(result), _content(result), raw_output=_exit(result), title=title, kind=kind)

    def end_patch(self, ref: RecordRef, call_id: str | None, event: CallEvent, cwd: str) -> None:
        key = self._key(ref, call_id)
        call = self._find(key)
        if call is not None and call.has_ended:
            return
        failed = event.success is False or _event_status(event) in _FAILED_STATUSES
        text = (event.stderr or event.stdout) if failed else event.stdout
        changes = tools.applied_changes(event.changes)
        diffs = tools.diffs_of(changes, cwd)
        locations = tools.locations_of(changes, cwd)
        if call is None:
            display = tools.ToolDisplay(
                form="patch", name="apply_patch", title=tools.EDITING, kind="edit", locations=locations
            )
            call = self._add_unseen(ref, key, display)
        elif call.display.form != "patch":
            # A command that turned out to be a patch.
            call.display = display = tools.ToolDisplay(
                form="patch", name=call.display.name, title=tools.EDITING, kind="edit"
            )
            update = SessionToolCallUpdate(tool_call_id=call.id, title=display.title, kind=display.kind)
            self._frames.update(ref.at, update)
        content: tuple[ToolCallContent, ...] = diffs or tuple(
            shown for shown in call.display.content if isinstance(shown, Diff)
        )
        if failed and text:
            content = (*content, _text(text))
        self._end(ref, call, "failed" if failed else "completed", content, raw_output=text or None, locations=locations)

    def end_mcp_event(self, ref: RecordRef, event: records.Payload) -> None:
        invocation = records.read(event.invocation, _Invocation, _Invocation())
        self._end_mcp(ref, event.call_id, invocation, records.read(event.result, _McpResult, _McpResult()))

    def end_mcp_item(self, ref: RecordRef, item: records.Item) -> None:
        invocation = _Invocation(item.server, item.tool, records.plain(item.arguments))
        self._end_mcp(ref, item.id, invocation, _McpResult(item.result, item.error))

    def _end_mcp(self, ref: RecordRef, call_id: str | None, invocation: _Invocation, result: _McpResult) -> None:
        answer = records.read(result.good, _McpAnswer, _McpAnswer())
        error = records.plain(result.bad)
        # MCP and ACP have the same content blocks.
        blocks = records.read(answer.content, tuple[ContentBlock, ...], None)
        if blocks is None:
            blocks = content_blocks(records.parts(answer.content))
        if error is not None:
            message = error.get("message") if isinstance(error, dict) else None
            blocks = (TextContent(text=str(message or error)),)
        self._end_tool(
            ref,
            call_id,
            tools.mcp(invocation.server, invocation.tool, invocation.arguments),
            blocks,
            failed=error is not None or bool(answer.is_error),
            raw_output={"result": result.good, "error": error},
        )

    def end_dynamic_tool(self, ref: RecordRef, call_id: str | None, event: CallEvent) -> None:
        """End a call of a tool that the program which embeds Codex offers."""
        display = tools.ToolDisplay(
            name=f"{event.namespace or ''}{event.tool}",
            title=event.tool,
            kind="execute",
            raw_input={"arguments": event.arguments},
        )
        failed = event.success is False or records.plain(event.error) is not None
        self._end_tool(
            ref, call_id, display, content_blocks(records.parts(event.content_items)), failed=failed, raw_output=None
        )

    def _end_tool(
        self,
        ref: RecordRef,
        call_id: str | None,
        display: tools.ToolDisplay,
        blocks: Sequence[ContentBlock],
        *,
        failed: bool,
        raw_output: object,
    ) -> None:
        key = self._key(ref, call_id)
        call = self._find(key)
        if call is not None and call.has_ended:
            return
        if call is None:
            call = self._add_unseen(ref, key, display)
        if display.title != call.display.title:
            update = SessionToolCallUpdate(tool_call_id=call.id, title=display.title, raw_input=display.raw_input)
            self._frames.update(ref.at, update)
        content = tuple(Content(content=block) for block in blocks)
        self._end(ref, call, "failed" if failed else "completed", content, raw_output=raw_output)

    def add_image(self, ref: RecordRef, call_id: str | None, event: CallEvent) -> None:
        """Add an image that the model made."""
        blocks: list[ContentBlock] = []
        if event.revised_prompt:
            blocks.append(TextContent(text=f"Revised prompt: {event.revised_prompt}"))
        if data := records.string(event.result):
            blocks.append(image_block(f"data:image/png;base64,{data}"))
        self.add_finished(
            ref,
            self._key(ref, call_id),
            tools.ToolDisplay(name="image_generation", title="Image generation"),
            "failed" if _event_status(event) in _FAILED_STATUSES else "completed",
            tuple(Content(content=block) for block in blocks),
        )

    @staticmethod
    def _key(ref: RecordRef, call_id: str | None) -> str:
        return call_id or f"codex:{ref.offset}"

    def add_finished(
        self,
        ref: RecordRef,
        call_id: str,
        display: tools.ToolDisplay,
        status: ToolCallStatus = "completed",
        content: tuple[ToolCallContent, ...] = (),
    ) -> None:
        """Add a call that is reported only at its end, by one record or by two."""
        call = self._find(call_id)
        if call is None:
            call = self._add_unseen(ref, call_id, display)
        if not call.has_ended:
            self._end(ref, call, status, content or None)

    def add_unrequested(self, ref: RecordRef, call_id: str, display: tools.ToolDisplay, result: CallOutput) -> None:
        """Add an output that no call asked for; if a call waits for it, add it to that."""
        if self._find(call_id) is not None:
            self.add_output(ref, call_id, result)
        else:
            self.add_finished(ref, call_id, display, _status(result), _content(result))

    def add_search(
        self, ref: RecordRef, by: Literal["event", "item"], call_id: str | None, query: str, action: msgspec.Raw
    ) -> None:
        """Add a web search. Of its two records, either may be without an id, or missing."""
        display = tools.web_search(query, action)
        call = self._find(call_id or "")
        if call is not None and not call.is_end_only:
            if not call.has_ended:  # a tool that the model called searches: its output is still to come
                self._frames.update(
                    ref.at, SessionToolCallUpdate(tool_call_id=call.id, title=display.title, kind=display.kind)
                )
            return
        action_key = bytes(action) if action != records.ABSENT else _NO_ACTION
        other = ("item" if by == "event" else "event", action_key)
        if other in self._searches:
            self._searches.remove(other)
            if call is None:
                return
        else:
            self._searches.append((by, action_key))
        self.add_finished(ref, call_id or f"{self._frames.session_id}:{ref.offset}", display)

    # -- the end of a turn

    def abort(self, ref: RecordRef) -> None:
        """Fail the calls without an output. Background processes may still report their end."""
        for call in list(self._open_calls.values()):
            if call.display.form == "plan":
                self._finish_plan(ref, call, None)
            elif call.display.form == "poll":
                self._close(call)
            elif call.is_in_background:
                self._frames.update(
                    ref.at, SessionToolCallUpdate(tool_call_id=call.id, status="failed", meta=ref.meta())
                )
            else:
                self._end(ref, call, "failed", None)

    def end_turn(self, ref: RecordRef) -> None:
        """Report plans whose outputs are missing, and the unreported output of running commands."""
        for call in [call for call in self._open_calls.values() if call.display.form == "plan"]:
            self._finish_plan(ref, call, None)
        for call in self._open_calls.values():
            if call.is_in_background and len(call.text) > call.reported_chars:
                self._report_output(ref, call, None, whole=True)
        self._searches.clear()

    # -- frames

    def _add_unseen(self, ref: RecordRef, call_id: str, display: tools.ToolDisplay) -> Call:
        call = self._calls[call_id] = Call(call_id, display, is_end_only=True)
        self._emit_call(ref, call)
        return call

    def _emit_call(self, ref: RecordRef, call: Call) -> None:
        display = call.display
        self._frames.update(
            ref.at,
            ToolCall(
                tool_call_id=call.id,
                title=display.title,
                name=display.name or None,
                kind=display.kind,
                status="in_progress",
                content=display.content,
                locations=display.locations,
                raw_input=display.raw_input,
                meta=ref.meta(),
            ),
        )

    def _end(
        self,
        ref: RecordRef,
        call: Call,
        status: ToolCallStatus,
        content: tuple[ToolCallContent, ...] | None,
        *,
        raw_output: object = None,
        title: str | None = None,
        kind: ToolKind | None = None,
        locations: tuple[ToolCallLocation, ...] = (),
        polled_by: str | None = None,
    ) -> None:
        self._frames.update(
            ref.at,
            SessionToolCallUpdate(
                tool_call_id=call.id,
                status=status,
                title=title,
                kind=kind,
                content=content or None,
                locations=locations or None,
                raw_output=raw_output,
                meta=ref.meta(callId=polled_by),
            ),
        )
        self._close(call)

    def _close(self, call: Call) -> None:
        call.has_ended, call.text, call.display = True, "", _ENDED_CALL.display
        for key in [key for key, other in self._calls.items() if other is call]:
            del self._calls[key]
            self._ended_calls.put(key, call.is_end_only)
        self._open_calls = {key: other for key, other in self._open_calls.items() if other is not call}

    def _find(self, call_id: str) -> Call | None:
        has_ended = self._ended_calls.get(call_id)
        return self._calls.get(call_id) or (
            None if has_ended is None else _ENDED_UNSEEN_CALL if has_ended else _ENDED_CALL
        )


def _event_status(event: CallEvent) -> str:
    return event.status if isinstance(event, records.Item) else records.string(event.status)


def _status(result: CallOutput) -> ToolCallStatus:
    return "failed" if result.failed else "completed"


def _exit(result: CallOutput) -> object:
    return {"exit_code": result.exit_code} if result.exit_code is not None else None


def _content(result: CallOutput) -> tuple[ToolCallContent, ...]:
    text: tuple[ToolCallContent, ...] = (_text(result.text),) if result.text else ()
    return (*text, *(Content(content=image_block(address)) for address in result.images))


def _text(text: str) -> Content:
    return Content(content=TextContent(text=text))
