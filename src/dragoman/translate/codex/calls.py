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
from dragoman.translate.codex.where import Where
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
_SMALL: Final = 16 * 1024


class Call(msgspec.Struct, gc=False):
    id: str
    shown: tools.Shown
    text: str = ""  # what it printed until now
    told: int = 0  # characters of it that were told
    goes_on: bool = False  # its process is known by a number, and may give more
    ended: bool = False
    event_only: bool = False  # no call was seen, only its end


# What stands for a call that has ended: that is all that matters of it.
_ENDED: Final = Call("", tools.Shown(name="", title=""), ended=True)
_ENDED_UNSEEN: Final = msgspec.structs.replace(_ENDED, event_only=True)


class Calls:
    """What is to be told goes to `out`."""

    def __init__(self, session_id: str, out: list[Frame], scratch: Scratch) -> None:
        self._session_id = session_id
        self._out = out
        self._calls: dict[str, Call] = {}  # by Codex's id: those that have not ended
        self._ended: SpillingMap[int] = SpillingMap(scratch)  # the others: 1 if only their end was seen, else 0
        self._open: dict[str, Call] = {}
        self._running: dict[str, Call] = {}  # by the number of the process or script
        self._early: dict[str, tuple[Where, Result]] = {}  # outputs whose calls have not come
        self._searches: list[tuple[str, bytes]] = []  # on the web, told by one of two records; the other has no id

    @property
    def any_open(self) -> bool:
        return bool(self._open)

    # -- calls and outputs

    def called(self, where: Where, call_id: str, shown: tools.Shown) -> None:
        known = self._known(call_id)
        if known is _ENDED_UNSEEN:
            self._ended.put(call_id, False)
            return
        # An id that comes again is another call.
        call = Call(call_id if known is None else f"{call_id}:{where.position}", shown)
        self._calls[call_id] = self._open[call_id] = call
        if shown.form not in ("plan", "poll"):
            self._tell_call(where, call)
        early = self._early.pop(call_id, None)
        if early is not None:
            self.answered(early[0], call_id, early[1])

    def answered(self, where: Where, call_id: str, result: Result) -> None:
        call = self._known(call_id)
        if call is None:
            self._early[call_id] = (where, result)
        elif call.ended:
            if result.running is not None:
                self._running[result.running] = call  # an event told its end before this output: polls come late too
        else:
            match call.shown.form:
                case "plan":
                    self._planned(where, call, result)
                case "poll":
                    self._polled(where, call, result)
                case _:
                    self._gave(where, call, result)

    def _planned(self, where: Where, call: Call, result: Result | None) -> None:
        if result is not None and result.failed:
            self._tell_call(where, call)
            self._end(where, call, "failed", _content(result), raw_output=result.text)
            return
        if call.shown.plan:
            self._tell(where, Plan(entries=call.shown.plan, meta=where.meta(callId=call.id)))
        self._close(call)

    def _polled(self, where: Where, poll: Call, result: Result) -> None:
        """News of a command that goes on."""
        shown = poll.shown
        self._close(poll)
        call = self._running.get(shown.polled or "")
        if call is None or result.refused:
            # Nobody knows what it asks for, or it was not done: it stands for itself.
            poll.shown = shown
            self._tell_call(where, poll)
            self._end(where, poll, _status(result), _content(result), raw_output=_exit(result))
        else:
            typed = f"\n{shown.typed}\n" if shown.typed else ""
            news = msgspec.structs.replace(result, text=typed + result.text)
            self._gave(where, call, news, polled_by=poll.id)

    def _gave(self, where: Where, call: Call, result: Result, polled_by: str | None = None) -> None:
        if call.ended:
            return  # an event has told all of it
        call.text += result.text
        if result.running is not None:
            self._running[result.running] = call
            call.goes_on = True
            self._going_on(where, call, polled_by, whole=False)
        else:
            whole = msgspec.structs.replace(result, text=call.text)
            gave = _exit(whole)
            if call.shown.form == "agent":
                gave = records.plain(result.text.encode("utf-8", "replace"))
                if gave is None and result.text:  # what was done is told as JSON, and in a sentence why it was not
                    whole = msgspec.structs.replace(whole, failed=True)
            self._end(where, call, _status(whole), self._shows(call, whole), raw_output=gave, polled_by=polled_by)

    def _going_on(self, where: Where, call: Call, polled_by: str | None, *, whole: bool) -> None:
        """Each telling has all that was printed. Where that is much, it waits until there is twice as much."""
        is_news = len(call.text) > call.told and (whole or len(call.text) <= _SMALL or len(call.text) >= 2 * call.told)
        content = (_text(call.text),) if is_news else None
        call.told = len(call.text) if is_news else call.told
        meta = where.meta(callId=polled_by)
        self._tell(where, SessionToolCallUpdate(tool_call_id=call.id, status="in_progress", content=content, meta=meta))

    def _shows(self, call: Call, result: Result) -> tuple[ToolCallContent, ...] | None:
        """What a call ends with; None where that is what it showed before."""
        if call.shown.form == "patch":
            return (*call.shown.content, *_content(result)) if result.failed else None
        if call.shown.name == "view_image" and not result.failed:
            return tuple(Content(content=prompts.image(address)) for address in result.images) or None
        if call.shown.form == "agent" and not result.failed:
            return None
        return _content(result)

    # -- what events tell of their ends

    def command_ended(
        self,
        where: Where,
        call_id: str,
        line: str,
        folder: str,
        told: Sequence[commands.Action],
        result: Result,
    ) -> None:
        call = self._known(call_id)
        if call is not None and (call.ended or call.shown.form in ("patch", "poll")):
            return  # their outputs tell as much
        look = commands.look(line, folder, told)
        if call is None:
            shown = tools.Shown(
                form="command", name="", title=look.title, kind=look.kind, raw_input={"command": line, "cwd": folder}
            )
            call = self._only_ended(where, call_id, shown)
        changed = look.title != call.shown.title and bool(told)
        title, kind = (look.title, look.kind) if changed else (None, None)
        self._end(where, call, _status(result), _content(result), raw_output=_exit(result), title=title, kind=kind)

    def patch_ended(
        self, where: Where, call_id: str, changes: msgspec.Raw, folder: str, *, failed: bool, words: str
    ) -> None:
        made = patches.made(changes)
        diffs = patches.diffs(made, folder)
        places = patches.locations(made, folder)
        call = self._known(call_id)
        if call is not None and call.ended:
            return
        if call is None:
            shown = tools.Shown(form="patch", name="apply_patch", title=tools.EDITING, kind="edit", locations=places)
            call = self._only_ended(where, call_id, shown)
        elif call.shown.form != "patch":
            # A command that turned out to be a patch.
            shown = tools.Shown(form="patch", name=call.shown.name, title=tools.EDITING, kind="edit")
            call.shown = shown
            self._tell(where, SessionToolCallUpdate(tool_call_id=call.id, title=shown.title, kind=shown.kind))
        content: tuple[ToolCallContent, ...] = diffs or tuple(
            shown for shown in call.shown.content if isinstance(shown, Diff)
        )
        if failed and words:
            content = (*content, _text(words))
        self._end(where, call, "failed" if failed else "completed", content, raw_output=words or None, places=places)

    def tool_ended(
        self,
        where: Where,
        call_id: str,
        shown: tools.Shown,
        content: tuple[ToolCallContent, ...],
        *,
        failed: bool,
        raw_output: object,
    ) -> None:
        """A tool of an MCP server, or another of which an event tells."""
        call = self._known(call_id)
        if call is not None and call.ended:
            return
        if call is None:
            call = self._only_ended(where, call_id, shown)
        status: ToolCallStatus = "failed" if failed else "completed"
        if shown.title != call.shown.title:
            told = SessionToolCallUpdate(tool_call_id=call.id, title=shown.title, raw_input=shown.raw_input)
            self._tell(where, told)
        self._end(where, call, status, content, raw_output=raw_output)

    def at_once(
        self,
        where: Where,
        call_id: str,
        shown: tools.Shown,
        status: ToolCallStatus = "completed",
        content: tuple[ToolCallContent, ...] = (),
    ) -> None:
        """A call that is told when it has ended, by one record or by two."""
        call = self._known(call_id)
        if call is None:
            call = self._only_ended(where, call_id, shown)
        if not call.ended:
            self._end(where, call, status, content or None)

    def brought(self, where: Where, call_id: str, shown: tools.Shown, result: Result) -> None:
        """What a tool tells without having been called; of a call that waits, what it gave."""
        if self._known(call_id) is not None:
            self.answered(where, call_id, result)
        else:
            self.at_once(where, call_id, shown, _status(result), _content(result))

    def searched(
        self, where: Where, by: Literal["event", "item"], call_id: str | None, query: str, action: msgspec.Raw
    ) -> None:
        """A search on the web. Of its two records, either may be without an id, or missing."""
        shown = tools.web_search(query, action)
        call = self._known(call_id or "")
        if call is not None and not call.event_only:
            if not call.ended:  # a tool that the model called searches: its output is still to come
                self._tell(where, SessionToolCallUpdate(tool_call_id=call.id, title=shown.title, kind=shown.kind))
            return
        told = bytes(action) if action != records.ABSENT else _NO_ACTION
        other = ("item" if by == "event" else "event", told)
        if other in self._searches:
            self._searches.remove(other)
            if call is None:
                return
        else:
            self._searches.append((by, told))
        self.at_once(where, call_id or f"{self._session_id}:{where.position}", shown)

    # -- the end of a turn

    def aborted(self, where: Where) -> None:
        """Nothing more comes of calls without an output. What runs by itself may still tell of its end."""
        for call in list(self._open.values()):
            if call.shown.form == "plan":
                self._planned(where, call, None)
            elif call.shown.form == "poll":
                self._close(call)
            elif call.goes_on:
                self._tell(where, SessionToolCallUpdate(tool_call_id=call.id, status="failed", meta=where.meta()))
            else:
                self._end(where, call, "failed", None)

    def turn_ended(self, where: Where) -> None:
        """Plans whose answers were lost are told, and what was held back of commands that go on."""
        for call in [call for call in self._open.values() if call.shown.form == "plan"]:
            self._planned(where, call, None)
        for call in self._open.values():
            if call.goes_on and len(call.text) > call.told:
                self._going_on(where, call, None, whole=True)
        self._searches.clear()

    # -- telling

    def _only_ended(self, where: Where, call_id: str, shown: tools.Shown) -> Call:
        call = self._calls[call_id] = Call(call_id, shown, event_only=True)
        self._tell_call(where, call)
        return call

    def _tell_call(self, where: Where, call: Call) -> None:
        shown = call.shown
        self._tell(
            where,
            ToolCall(
                tool_call_id=call.id,
                title=shown.title,
                name=shown.name or None,
                kind=shown.kind,
                status="in_progress",
                content=shown.content,
                locations=shown.locations,
                raw_input=shown.raw_input,
                meta=where.meta(),
            ),
        )

    def _end(
        self,
        where: Where,
        call: Call,
        status: ToolCallStatus,
        content: tuple[ToolCallContent, ...] | None,
        *,
        raw_output: object = None,
        title: str | None = None,
        kind: ToolKind | None = None,
        places: tuple[ToolCallLocation, ...] = (),
        polled_by: str | None = None,
    ) -> None:
        self._tell(
            where,
            SessionToolCallUpdate(
                tool_call_id=call.id,
                status=status,
                title=title,
                kind=kind,
                content=content or None,
                locations=places or None,
                raw_output=raw_output,
                meta=where.meta(callId=polled_by),
            ),
        )
        self._close(call)

    def _close(self, call: Call) -> None:
        call.ended, call.text, call.shown = True, "", _ENDED.shown
        for key in [key for key, other in self._calls.items() if other is call]:
            del self._calls[key]
            self._ended.put(key, call.event_only)
        self._open = {key: other for key, other in self._open.items() if other is not call}

    def _known(self, call_id: str) -> Call | None:
        ended = self._ended.get(call_id)
        return self._calls.get(call_id) or (None if ended is None else _ENDED_UNSEEN if ended else _ENDED)

    def _tell(self, where: Where, update: SessionUpdate) -> None:
        self._out.append(frames.update(self._session_id, where.at, update))


def _status(result: Result) -> ToolCallStatus:
    return "failed" if result.failed else "completed"


def _exit(result: Result) -> object:
    return {"exit_code": result.exit_code} if result.exit_code is not None else None


def _content(result: Result) -> tuple[ToolCallContent, ...]:
    words: tuple[ToolCallContent, ...] = (_text(result.text),) if result.text else ()
    return (*words, *(Content(content=prompts.image(address)) for address in result.images))


def _text(text: str) -> Content:
    return Content(content=TextContent(text=text))
