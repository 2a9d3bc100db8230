"""The tool calls of a Codex thread, from call to end, by whichever record tells of it first.

A call is told when it is made. What it gave is told by its output, and in many versions by an event before that, which
knows more; whatever comes second adds nothing. A command may go on after its output: calls that ask for more of it are
told as news of the command. A plan's call is told as the plan, and as a call where it failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from dragoman.translate import frames
from dragoman.translate.codex import commands, patches, prompts, records, tools
from dragoman.translate.codex.outputs import Result
from dragoman.translate.codex.records import RecordRef
from dragoman.translate.scratch import Scratch, SpillingMap
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import (
    Content,
    Diff,
    Plan,
    SessionToolCallUpdate,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolKind,
)

# What a search does of which nothing is told, as events spell it.
_NO_ACTION: Final = b'{"type":"other"}'

# Characters of output that are told again with each piece that is added.
_SMALL_OUTPUT_CHARS: Final = 16 * 1024


class Call(msgspec.Struct, gc=False):
    id: str
    display: tools.ToolDisplay
    text: str = ""  # what it printed until now
    reported_chars: int = 0  # of it
    is_in_background: bool = False  # its process is known by a number, and may give more
    has_ended: bool = False
    is_end_only: bool = False  # no call was seen, only its end


# What stands for a call that has ended: that is all that matters of it.
_ENDED_CALL: Final = Call("", tools.ToolDisplay(name="", title=""), has_ended=True)
_ENDED_UNSEEN_CALL: Final = msgspec.structs.replace(_ENDED_CALL, is_end_only=True)


class Calls:
    """The tool calls of one thread; frames go to `out`."""

    def __init__(self, session_id: str, out: list[Frame], scratch: Scratch) -> None:
        self._session_id = session_id
        self._out = out
        self._calls: dict[str, Call] = {}  # by Codex's id: those that have not ended
        self._ended_calls: SpillingMap[int] = SpillingMap(scratch)  # the others: 1 if only their end was seen, else 0
        self._open_calls: dict[str, Call] = {}
        self._running: dict[str, Call] = {}  # by the number of the process or script
        self._early: dict[str, tuple[RecordRef, Result]] = {}  # outputs whose calls have not come
        self._searches: list[tuple[str, bytes]] = []  # on the web, told by one of two records; the other has no id

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
        call = Call(call_id if existing is None else f"{call_id}:{ref.position}", display)
        self._calls[call_id] = self._open_calls[call_id] = call
        if display.form not in ("plan", "poll"):
            self._emit_call(ref, call)
        early = self._early.pop(call_id, None)
        if early is not None:
            self.add_output(early[0], call_id, early[1])

    def add_output(self, ref: RecordRef, call_id: str, result: Result) -> None:
        call = self._find(call_id)
        if call is None:
            self._early[call_id] = (ref, result)
        elif call.has_ended:
            if result.running is not None:
                self._running[result.running] = call  # an event told its end before this output: polls come late too
        else:
            match call.display.form:
                case "plan":
                    self._finish_plan(ref, call, result)
                case "poll":
                    self._finish_poll(ref, call, result)
                case _:
                    self._add_output_of(ref, call, result)

    def _finish_plan(self, ref: RecordRef, call: Call, result: Result | None) -> None:
        if result is not None and result.failed:
            self._emit_call(ref, call)
            self._end(ref, call, "failed", _content(result), raw_output=result.text)
            return
        if call.display.plan:
            self._emit(ref, Plan(entries=call.display.plan, meta=ref.meta(callId=call.id)))
        self._close(call)

    def _finish_poll(self, ref: RecordRef, poll: Call, result: Result) -> None:
        """Add the output of a poll to the command that is still running."""
        display = poll.display
        self._close(poll)
        call = self._running.get(display.polled or "")
        if call is None or result.refused:
            # Nobody knows what it asks for, or it was not done: it stands for itself.
            poll.display = display
            self._emit_call(ref, poll)
            self._end(ref, poll, _status(result), _content(result), raw_output=_exit(result))
        else:
            typed = f"\n{display.typed}\n" if display.typed else ""
            news = msgspec.structs.replace(result, text=typed + result.text)
            self._add_output_of(ref, call, news, polled_by=poll.id)

    def _add_output_of(self, ref: RecordRef, call: Call, result: Result, polled_by: str | None = None) -> None:
        if call.has_ended:
            return  # an event has told all of it
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
        """Report all output so far. If that is much, wait until there is twice as much."""
        is_news = len(call.text) > call.reported_chars and (
            whole or len(call.text) <= _SMALL_OUTPUT_CHARS or len(call.text) >= 2 * call.reported_chars
        )
        content = (_text(call.text),) if is_news else None
        call.reported_chars = len(call.text) if is_news else call.reported_chars
        meta = ref.meta(callId=polled_by)
        self._emit(ref, SessionToolCallUpdate(tool_call_id=call.id, status="in_progress", content=content, meta=meta))

    def _final_content(self, call: Call, result: Result) -> tuple[ToolCallContent, ...] | None:
        """The content of a call at its end; None if it stays as it was."""
        if call.display.form == "patch":
            return (*call.display.content, *_content(result)) if result.failed else None
        if call.display.name == "view_image" and not result.failed:
            return tuple(Content(content=prompts.image(address)) for address in result.images) or None
        if call.display.form == "agent" and not result.failed:
            return None
        return _content(result)

    # -- what events tell of their ends

    def end_command(
        self,
        ref: RecordRef,
        call_id: str,
        line: str,
        folder: str,
        reported_actions: Sequence[commands.Action],
        result: Result,
    ) -> None:
        call = self._find(call_id)
        if call is not None and (call.has_ended or call.display.form in ("patch", "poll")):
            return  # their outputs tell as much
        command_display = commands.display_command(line, folder, reported_actions)
        if call is None:
            display = tools.ToolDisplay(
                form="command",
                name="",
                title=command_display.title,
                kind=command_display.kind,
                raw_input={"command": line, "cwd": folder},
            )
            call = self._add_unseen(ref, call_id, display)
        changed = command_display.title != call.display.title and bool(reported_actions)
        title, kind = (command_display.title, command_display.kind) if changed else (None, None)
        self._end(ref, call, _status(result), _content(result), raw_output=_exit(result), title=title, kind=kind)

    def end_patch(
        self, ref: RecordRef, call_id: str, changes: msgspec.Raw, folder: str, *, failed: bool, words: str
    ) -> None:
        applied_changes = patches.applied_changes(changes)
        diffs = patches.diffs(applied_changes, folder)
        locations = patches.locations(applied_changes, folder)
        call = self._find(call_id)
        if call is not None and call.has_ended:
            return
        if call is None:
            display = tools.ToolDisplay(
                form="patch", name="apply_patch", title=tools.EDITING, kind="edit", locations=locations
            )
            call = self._add_unseen(ref, call_id, display)
        elif call.display.form != "patch":
            # A command that turned out to be a patch.
            display = tools.ToolDisplay(form="patch", name=call.display.name, title=tools.EDITING, kind="edit")
            call.display = display
            self._emit(ref, SessionToolCallUpdate(tool_call_id=call.id, title=display.title, kind=display.kind))
        content: tuple[ToolCallContent, ...] = diffs or tuple(
            display for display in call.display.content if isinstance(display, Diff)
        )
        if failed and words:
            content = (*content, _text(words))
        self._end(
            ref, call, "failed" if failed else "completed", content, raw_output=words or None, locations=locations
        )

    def end_tool(
        self,
        ref: RecordRef,
        call_id: str,
        display: tools.ToolDisplay,
        content: tuple[ToolCallContent, ...],
        *,
        failed: bool,
        raw_output: object,
    ) -> None:
        """End a call of an MCP tool, or of another that an event reports."""
        call = self._find(call_id)
        if call is not None and call.has_ended:
            return
        if call is None:
            call = self._add_unseen(ref, call_id, display)
        status: ToolCallStatus = "failed" if failed else "completed"
        if display.title != call.display.title:
            update = SessionToolCallUpdate(tool_call_id=call.id, title=display.title, raw_input=display.raw_input)
            self._emit(ref, update)
        self._end(ref, call, status, content, raw_output=raw_output)

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

    def add_unrequested(self, ref: RecordRef, call_id: str, display: tools.ToolDisplay, result: Result) -> None:
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
                self._emit(ref, SessionToolCallUpdate(tool_call_id=call.id, title=display.title, kind=display.kind))
            return
        action_key = bytes(action) if action != records.ABSENT else _NO_ACTION
        other = ("item" if by == "event" else "event", action_key)
        if other in self._searches:
            self._searches.remove(other)
            if call is None:
                return
        else:
            self._searches.append((by, action_key))
        self.add_finished(ref, call_id or f"{self._session_id}:{ref.position}", display)

    # -- the end of a turn

    def abort(self, ref: RecordRef) -> None:
        """Fail the calls without an output. Background processes may still report their end."""
        for call in list(self._open_calls.values()):
            if call.display.form == "plan":
                self._finish_plan(ref, call, None)
            elif call.display.form == "poll":
                self._close(call)
            elif call.is_in_background:
                self._emit(ref, SessionToolCallUpdate(tool_call_id=call.id, status="failed", meta=ref.meta()))
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

    # -- telling

    def _add_unseen(self, ref: RecordRef, call_id: str, display: tools.ToolDisplay) -> Call:
        call = self._calls[call_id] = Call(call_id, display, is_end_only=True)
        self._emit_call(ref, call)
        return call

    def _emit_call(self, ref: RecordRef, call: Call) -> None:
        display = call.display
        self._emit(
            ref,
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
        self._emit(
            ref,
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

    def _emit(self, ref: RecordRef, update: SessionUpdate) -> None:
        self._out.append(frames.update(self._session_id, ref.at, update))


def _status(result: Result) -> ToolCallStatus:
    return "failed" if result.failed else "completed"


def _exit(result: Result) -> object:
    return {"exit_code": result.exit_code} if result.exit_code is not None else None


def _content(result: Result) -> tuple[ToolCallContent, ...]:
    words: tuple[ToolCallContent, ...] = (_text(result.text),) if result.text else ()
    return (*words, *(Content(content=prompts.image(address)) for address in result.images))


def _text(text: str) -> Content:
    return Content(content=TextContent(text=text))
