"""The terminal of a chat: `ChatScreen` shows prompts, runs, notes and errors; `status_line` is below the input.

`Line` is where prompts are typed: `PlainLine` on a terminal that can only write line after line, else `InputLine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from dragoman.cli import exits
from dragoman.cli.output import STDIN, STDOUT, USUAL_WIDTH, Outbox, read_line, terminal_width
from dragoman.cli.progress import spinner_frame
from dragoman.cli.render import Renderer
from dragoman.cli.screen import Block, Screen, Span, Style, markdown_stream, without_colours
from dragoman.cli.text import columns, context_part, cost_part, one_line, plain, truncate, wrapped
from dragoman.errors import AgentCrashed, DragomanError
from dragoman.record import rows
from dragoman.record.events import Event
from dragoman.record.fold import SessionFold
from dragoman.session.session import Session
from dragoman.session.templates import Template

# Lines of a command's output that are shown, while it runs and after it, from its end.
OUTPUT_LINES = 5

# Bytes of output that are looked at for them.
_OUTPUT_BYTES = 4096

# Lines of a prompt that is shown again, and of the last exchange of a resumed session.
SHOWN_LINES = 12


class ChatScreen:
    """`mark` is written before the user's prompts; where it is empty, the terminal shows them already."""

    def __init__(
        self, outbox: Outbox, mark: str, *, cwd: Path, dumb: bool, thoughts: bool, verbose: bool, plain: bool
    ) -> None:
        self.width = terminal_width(STDOUT) or USUAL_WIDTH
        self._outbox = outbox
        self._mark = mark
        self._verbose = verbose
        self.screen = Screen(
            outbox,
            text_tty=True,
            notes_tty=not dumb,
            shared=True,
            width=None if dumb else self.width,
            paint=without_colours if dumb else None,
            markdown=None if dumb or plain else markdown_stream(self.width),
        )
        self._renderer = Renderer(
            cwd=cwd,
            width=self.width,
            thoughts=thoughts,
            verbose=verbose,
            diffs=not dumb,
            output_lines=0 if dumb else OUTPUT_LINES,
        )

    def fit(self) -> int:
        """Adopt the terminal's current width, and return it."""
        if (width := terminal_width(STDOUT) or USUAL_WIDTH) != self.width:
            self.width = self._renderer.width = width
            self.screen.resize(width)
        return self.width

    async def show(self, batch: Sequence[Event]) -> None:
        """Show the events; return when they are on the screen."""
        self.fit()
        await self.screen.show([piece for event in batch for piece in self._renderer.show(event)])

    def say(self, *spans: Span, block: Block = "line") -> None:
        """Print a line of its own."""
        self.screen.line(spans, block=block)

    def explain(self, text: str) -> None:
        """Print a sentence or two of our own."""
        for line in wrapped(text, self.width - 1):
            self.say(Span(line, "dim"))

    def note(self, text: str) -> None:
        """Print such a sentence, for callers that cannot wait."""
        self.explain(text)
        self._outbox.flush_notes_soon()

    def block(self, mark: Span, text: str, style: Style) -> None:
        """Print a text of its own, at most SHOWN_LINES of it."""
        lines = wrapped(text, self.width - 3)
        for number, line in enumerate(lines[:SHOWN_LINES]):
            lead = mark if number == 0 else Span(" " * len(mark.text))
            self.say(lead, Span(line, style), block="prompt")
        if len(lines) > SHOWN_LINES:
            self.say(Span(f"  … {len(lines) - SHOWN_LINES} more lines", "dim"), block="prompt")

    def echo(self, text: str, attached: Sequence[str] = ()) -> None:
        """Show the prompt that was entered, and the names of its attachments."""
        if self._mark:
            self.block(Span(self._mark, "question"), plain(text).strip(), "bold")
        if attached:
            names = one_line(", ".join(attached), self.width - 8)
            self.say(Span(f"  with {names}", "dim"), block="prompt")

    def remind(self, fold: SessionFold) -> None:
        """Show the last exchange of a resumed session."""
        messages = [message for message in fold.messages if message.kind != "thought" and message.text.strip()]
        for message in messages[-2:]:
            mark = self._mark or "> " if message.kind == "user" else ""
            self.block(Span(mark, "dim"), plain(message.text).strip(), "dim")

    def tell(self, error: DragomanError) -> None:
        if isinstance(error, AgentCrashed):
            # The chat has better guidance to offer than the error: it can restart the agent.
            error = AgentCrashed(error.message, exit_code=error.exit_code, stderr=error.stderr, guidance="")
        message = exits.message_of(error, verbose=self._verbose, width=self.width)
        for number, line in enumerate(message.splitlines()):
            self.say(Span(line, "" if number else "bad"))


_BETWEEN = " · "
_UNKNOWN = "not reported"


class Activity(msgspec.Struct, frozen=True):
    """An action in progress, in a word, and the monotonic time at which it began."""

    name: str
    since: float


def status_line(
    agent: str, access: str, fold: SessionFold | None, activity: Activity | None, now: float, width: int
) -> tuple[Span, ...]:
    """Show as many parts as fit; the least important go first."""
    busy = _activity(activity, now) if activity is not None else ""
    parts = [(0, one_line(agent, 30)), *(_facts(fold) if fold is not None else ()), (3, f"access {access}")]
    room = width - 1 - (columns(busy) + len(_BETWEEN) if busy else 0)
    while len(parts) > 1 and _length(parts) > room:
        parts.remove(max(parts, key=lambda part: part[0]))
    line = one_line(_BETWEEN.join(text for _, text in parts), max(0, room))
    if not busy:
        return (Span(line, "dim"),)
    return Span(busy, "bold"), Span(f"{_BETWEEN}{line}" if room > 0 else "", "dim")


def _facts(fold: SessionFold) -> list[tuple[int, str]]:
    """Return the parts of the status with their ranks: the highest goes first where there is no room."""
    usage = fold.usage
    cost, context = cost_part(usage), context_part(usage)
    return [
        _setting(fold, "model", 2),
        _setting(fold, "mode", 4),
        (1, f"context {context}") if context else (6, f"context {_UNKNOWN}"),
        (5, cost) if cost else (7, f"cost {_UNKNOWN}"),
    ]


def _setting(fold: SessionFold, category: str, rank: int) -> tuple[int, str]:
    setting = fold.setting(category)
    if setting is None or setting.current is None:
        return rank + 4, f"{category} {_UNKNOWN}"
    return rank, f"{category} {one_line(_name(setting), 30)}"


def _name(setting: rows.Setting) -> str:
    """Return the value that a user types to choose it."""
    return str(setting.current)


def _length(parts: list[tuple[int, str]]) -> int:
    return sum(columns(text) for _, text in parts) + len(_BETWEEN) * (len(parts) - 1)


def _activity(activity: Activity, now: float) -> str:
    elapsed = max(0.0, now - activity.since)
    return f"{spinner_frame(elapsed)} {activity.name} {elapsed:.0f}s"


def running_output(session: Session, width: int) -> list[str]:
    """Return the last lines that the command of the agent has written, while one runs; for so many columns."""
    return output_lines(_running_text(session), width)


def _running_text(session: Session) -> str:
    for row in reversed(session.fold.terminals.values()):
        if row.status == "running" and (terminal := session.terminal(row.terminal_id or "")) is not None:
            return terminal.summary(_OUTPUT_BYTES).output
    if session.active is None:
        return ""
    # An agent that runs the command itself may report the output as it comes.
    calls = [call for call in session.fold.tool_calls if call.run_id == session.active.id and not call.finished]
    return next((call.output for call in reversed(calls) if call.output), "")


def output_lines(text: str, width: int) -> list[str]:
    lines = plain(text).rstrip().expandtabs(4).splitlines()
    return [f"    {truncate(line, width - 5)}" for line in lines[-OUTPUT_LINES:]]


class Line(Protocol):
    """Entered once the agent is there; until then, and after, its outbox writes to a plain terminal.

    `mark` is what stands before a prompt when it is shown again; empty where that is not needed.
    """

    mark: str

    @property
    def outbox(self) -> Outbox: ...

    @property
    def typed(self) -> str:
        """The text that is typed and not entered."""
        ...

    async def __aenter__(self) -> object: ...
    async def __aexit__(self, *exc_info: object) -> None: ...

    async def next(self) -> str | None:
        """Wait for an entered text; None when the user wants to leave."""
        ...

    def put_back(self, text: str) -> None:
        """Put a text back, to be edited and entered again, before what is typed already."""
        ...

    def clear(self) -> None: ...

    def refresh(self) -> None:
        """Draw again: something that is drawn with the line has changed."""
        ...

    def handed_over(self) -> AbstractAsyncContextManager[None]:
        """Hand the terminal over: inside, the input line is gone and the terminal has its usual settings."""
        ...


def input_line(
    *,
    home: Path,
    cwd: Path,
    session_fold: Callable[[], SessionFold | None],
    live_output: Callable[[int], Sequence[str]],
    queued: Callable[[], Sequence[str]],
    status: Callable[[int], Iterable[Span]],
    interrupt: Callable[[], None],
    templates: Callable[[], Iterable[Template]],
) -> Line:
    # Loaded here: prompt_toolkit takes longer than all the rest, and only a chat on a real terminal needs it.
    from dragoman.cli.chat.completion import ChatCompleter, ChatHistory
    from dragoman.cli.chat.line import InputLine

    return InputLine(
        completer=ChatCompleter(session_fold, cwd, templates),
        history=ChatHistory(home, cwd),
        live_output=live_output,
        queued=queued,
        status=status,
        interrupt=interrupt,
    )


_PLAIN_MARK = "> "


class PlainLine:
    """`idle` is set while no run is shown."""

    mark = ""  # the terminal shows what was typed

    def __init__(self, idle: asyncio.Event) -> None:
        self.outbox = Outbox()
        self.typed = ""  # only the terminal knows
        self._idle = idle
        self._reading = False

    async def __aenter__(self) -> PlainLine:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return None

    async def next(self) -> str | None:
        while True:
            await self._idle.wait()
            self._reading = True
            self.refresh()
            line = await read_line(STDIN)
            self._reading = False
            if line is None:
                self.outbox.put(STDOUT, "\n")
            if line is None or line.strip():
                return line

    def put_back(self, text: str) -> None:
        return  # it is still on the screen, to be copied

    def clear(self) -> None:
        return  # Ctrl-C has made the terminal forget what was typed

    def refresh(self) -> None:
        """Write the mark again where something was written while a line is awaited."""
        if self._reading:
            self.outbox.put(STDOUT, _PLAIN_MARK)
            self.outbox.flush_notes_soon()

    @asynccontextmanager
    async def handed_over(self) -> AsyncIterator[None]:
        yield
