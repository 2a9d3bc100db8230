"""What happens in a watched session, in lines for people. Pure.

Calm: what was asked, what is done, what was said, and how it ended; a line each. Thoughts, outputs and settings are not
shown: `dragoman sessions show` has all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from dragoman.cli.text import one_line
from dragoman.journal.entry import Entry, message_of
from dragoman.journal.rows import Session
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import UNREADABLE, Message, Reply, Request, Update

# Marks that tell at a glance who speaks. What the agent says has none.
_USER, _TOOL, _BAD, _END = "> ", "· ", "✗ ", "✓ "


class WatchLines:
    """`width`: columns that a line may take."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._titles: dict[str, str] = {}
        self._calls: dict[tuple[str, str], str] = {}  # titles of those that have not ended
        self._last: str | None = None

    def knows(self, session_id: str) -> bool:
        return session_id in self._titles

    def meet(self, session: Session, workspace: str) -> None:
        """To be told before the session's first entry."""
        words = session.title or session.prompt
        self._titles[session.id] = f"{session.id} {session.agent} {workspace}: {words}"

    def of(self, entry: Entry) -> Iterator[str]:
        """Lines for one more entry; before it, when another session was shown last, which one this is."""
        session_id = entry.session_id or ""
        text = self._text(session_id, message_of(entry))
        if text is None:
            return
        if session_id != self._last:
            self._last = session_id
            yield one_line(self._titles.get(session_id, session_id), self._width)
        clock = datetime.fromtimestamp(entry.at).astimezone().strftime("%H:%M:%S")
        yield f"  {clock} {one_line(text, self._width - len(clock) - 3)}"

    def _text(self, session_id: str, message: Message) -> str | None:
        match message:
            case Request(method="session/prompt"):
                return _USER + _prompt(message)
            case Reply(method="session/prompt"):
                return _end(message)
            case Update(update=acp.UserMessageChunk(content=acp.TextContent(text=text))):
                return _USER + text
            case Update(update=acp.AgentMessageChunk(content=acp.TextContent(text=text))):
                return text if text.strip() else None
            case Update(update=acp.ToolCall() as call):
                self._calls[session_id, call.tool_call_id] = call.title
                return (_BAD if call.status == "failed" else _TOOL) + call.title
            case Update(
                update=acp.SessionToolCallUpdate(tool_call_id=call_id, status="completed" | "failed" as status)
            ):
                title = self._calls.pop((session_id, call_id), call_id)
                return f"{_BAD}{title}" if status == "failed" else None
            case Update(update=acp.Plan(entries=entries)):
                done = sum(one.status == "completed" for one in entries)
                return f"{_TOOL}plan: {done} of {len(entries)} done"
            case Update(update=acp.Notice(title=title, description=more)):
                return f"! {title}{f': {more}' if more else ''}"
            case _:
                return None


def _prompt(request: Request) -> str:
    try:
        blocks = msgspec.json.decode(request.params, type=acp.PromptRequest).prompt
    except UNREADABLE:
        return "(a prompt that cannot be read)"
    words = " ".join(block.text for block in blocks if isinstance(block, acp.TextContent))
    return words or "(nobody's words)"


def _end(reply: Reply) -> str:
    if reply.error is not None:
        return _BAD + reply.error.message
    try:
        response = msgspec.json.decode(reply.result, type=acp.PromptResponse)
    except UNREADABLE:
        return f"{_END}done"
    if response.stop_reason != "end_turn":
        return f"{_BAD}{response.stop_reason.replace('_', ' ')}"
    usage = response.usage
    return f"{_END}done" + (f", {usage.output_tokens:,} tokens out" if usage and usage.output_tokens else "")
