"""An open session: its settings, its permissions, and its history in the form that a load replays."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from dragoman.agents.demo import settings
from dragoman.agents.demo.store import Saved, new_id
from dragoman.wire.vocabulary import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ContentBlock,
    McpServer,
    Plan,
    SessionConfigOption,
    SessionToolCallUpdate,
    SessionUpdate,
    TextContent,
    ToolCall,
    UserMessageChunk,
)

if TYPE_CHECKING:
    from dragoman.agents.demo.turn import Turn

# What a conversation consists of. The rest (commands, mode, options, usage, title) is the session's state and is told
# anew at every load; notices are for the moment only.
_HISTORY = (UserMessageChunk, AgentMessageChunk, AgentThoughtChunk, ToolCall, SessionToolCallUpdate, Plan)

_TITLE_LENGTH = 60


class History:
    """The updates of the conversation. The chunks of one text are kept as one: a load tells the same words in fewer
    updates, and a flood of a hundred thousand chunks is one entry."""

    def __init__(self, entries: list[msgspec.Raw]) -> None:
        self._entries = list(entries)
        self._open: tuple[type[AgentMessageChunk | AgentThoughtChunk], str | None] | None = None
        self._texts: list[str] = []

    def add(self, update: SessionUpdate) -> None:
        if isinstance(update, AgentMessageChunk | AgentThoughtChunk) and isinstance(update.content, TextContent):
            message = (type(update), update.message_id)
            if self._open != message:
                self._close()
                self._open = message
            self._texts.append(update.content.text)
        elif isinstance(update, _HISTORY):
            self._close()
            self._entries.append(msgspec.Raw(msgspec.json.encode(update)))

    def entries(self) -> list[msgspec.Raw]:
        self._close()
        return list(self._entries)

    def _close(self) -> None:
        if self._open is not None:
            kind, message_id = self._open
            whole = kind(content=TextContent(text="".join(self._texts)), message_id=message_id)
            self._entries.append(msgspec.Raw(msgspec.json.encode(whole)))
            self._open = None
            self._texts.clear()


class Session:
    """One conversation that is open in this process. `turn` is the prompt under way, if any."""

    def __init__(self, saved: Saved, mcp_servers: tuple[McpServer, ...]) -> None:
        self.id = saved.id
        self.cwd = saved.cwd
        self.additional_directories = saved.additional_directories
        self.mcp_servers = mcp_servers
        self.title = saved.title
        self.updated_at = saved.updated_at
        self.mode = saved.mode
        self.values: settings.Values = settings.default_values() | saved.values
        self.words = saved.words
        self.history = History(saved.history)
        # "Always" answers, by kind of tool. They end with the process: an old yes must gain no authority later.
        self.always: dict[str, bool] = {}
        # A question that was asked in text, for clients without forms: the next prompt may answer it.
        self.question: str | None = None
        self.turn: Turn | None = None
        self._messages = 0
        self._prefix = new_id().removeprefix("demo-")[:6]

    def next_id(self, kind: str) -> str:
        """An id that no earlier process has used in this session."""
        self._messages += 1
        return f"{kind}-{self._prefix}-{self._messages}"

    def heard(self, blocks: tuple[ContentBlock, ...]) -> None:
        """The user's words become history; they are not echoed."""
        message_id = self.next_id("user")
        for block in blocks:
            self.history.add(UserMessageChunk(content=block, message_id=message_id))

    def saved(self) -> Saved:
        return Saved(
            id=self.id,
            cwd=self.cwd,
            additional_directories=self.additional_directories,
            title=self.title,
            updated_at=self.updated_at,
            mode=self.mode,
            values=self.values,
            words=self.words,
            history=self.history.entries(),
        )

    def options(self, *, switches: bool) -> tuple[SessionConfigOption, ...]:
        return settings.options(self.mode, self.values, switches=switches)

    @property
    def context_size(self) -> int:
        return settings.CONTEXT_SIZE[str(self.values["model"])]


def title_of(prompt: str) -> str:
    """The first line of a prompt, not too long."""
    line = " ".join(prompt.strip().splitlines()[:1]).strip() or "Untitled"
    return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1].rstrip() + "…"


def timestamp(now: float) -> str:
    """ISO 8601 in UTC, to the millisecond: sorts as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
