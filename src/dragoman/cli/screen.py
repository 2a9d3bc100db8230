"""`Screen`: writes pieces of output to stdout and stderr; `Follower`: shows a run and hands the terminal to questions.

Pieces have neither a position nor colours: `render` makes them of events. Blank lines separate their blocks.

stdout gets the agent's text and nothing else: after `dragoman run … > out.md`, the file holds the result's text and a
newline. Where stdout and stderr are the same terminal or file they share one layout, with blank lines around text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from dragoman.cli.markdown import MarkdownStream
from dragoman.cli.output import STDERR, STDOUT, Outbox
from dragoman.cli.text import Wrapper
from dragoman.record.events import Event
from dragoman.record.text import strip_controls

# Pieces of one block belong together; blank lines separate blocks.
Block: TypeAlias = Literal["prompt", "text", "thought", "line", "question", "end"]

# The meaning of a span; `_LOOKS` says how each looks.
Style: TypeAlias = Literal["", "bold", "dim", "good", "bad", "tool", "question", "thought"]

# Deciders that the user does not see on the screen.
UNSEEN: Final = ("rule", "default", "timeout")


class Span(msgspec.Struct, frozen=True):
    text: str
    style: Style = ""


class Text(msgspec.Struct, frozen=True):
    """A part of the agent's text, for stdout, and the message it belongs to."""

    text: str
    message_id: str


class Thought(msgspec.Struct, frozen=True):
    text: str
    message_id: str


class MessageEnd(msgspec.Struct, frozen=True):
    """The end of a message or thought."""

    message_id: str


class Line(msgspec.Struct, frozen=True):
    """A line beside the text. With a `key` it stays open for its `Ending`, as long as nothing else is written."""

    spans: tuple[Span, ...]
    key: str | None = None
    block: Block = "line"


class Ending(msgspec.Struct, frozen=True):
    """The outcome of the line with this key. It replaces that line while it is still open."""

    key: str
    spans: tuple[Span, ...]


Piece: TypeAlias = Text | Thought | MessageEnd | Line | Ending


CLEAR_LINE = "\r\x1b[2K"

Paint: TypeAlias = Callable[[Iterable[Span]], str]


def without_colours(spans: Iterable[Span]) -> str:
    return "".join(span.text for span in spans)


_LOOKS: dict[Style, str] = {
    "bold": "bold",
    "dim": "dim",
    "good": "green",
    "bad": "red",
    "tool": "cyan",
    "question": "bold yellow",
    "thought": "dim italic",
}


def markdown_stream(width: int) -> MarkdownStream | None:
    """Create a renderer for the terminal that stdout is; None where it cannot show styles."""
    from rich.console import Console

    console = Console()
    if console.is_dumb_terminal or not console.is_terminal:
        return None
    return MarkdownStream(width, colours=not console.no_color and console.color_system is not None)


def colours() -> Paint:
    """Create a painter for this terminal; it adds no colours where the terminal has none, or with NO_COLOR."""
    from rich.color import ColorSystem
    from rich.console import Console
    from rich.style import Style as Look

    console = Console(stderr=True)
    if console.no_color or console.is_dumb_terminal or console.color_system is None:
        return without_colours
    looks = {style: Look.parse(look) for style, look in _LOOKS.items()}

    def paint(spans: Iterable[Span]) -> str:
        # The sixteen colours of the terminal's own theme, which fit its background.
        return "".join(
            looks[span.style].render(span.text, color_system=ColorSystem.STANDARD) if span.style else span.text
            for span in spans
        )

    return paint


class _Lane:
    """One stream as the reader sees it: its last block, and whether its line is still open."""

    def __init__(self, width: int | None) -> None:
        self._wrapper = Wrapper(width) if width else None
        self.last: Block | None = None
        self.message_id: str | None = None
        self.newlines = 0  # held back at the end of a message: they count only if it goes on
        self.mid_line = False
        self.open_key: str | None = None

    def resize(self, width: int) -> None:
        if self._wrapper is not None:
            self._wrapper.resize(width)

    def begin(self, kind: Block) -> str:
        """Return the gap to be written before a piece of this block."""
        gap = "\n" if self.mid_line else ""
        if self.last and self.last != kind:
            gap += "\n"
        self.last, self.mid_line, self.newlines, self.open_key = kind, False, 0, None
        return gap

    def stream(self, kind: Literal["text", "thought"], text: str, message_id: str) -> tuple[str, str]:
        """Return the gap and the text to write for the next part of a message."""
        gap, body = self._stream(kind, text, message_id)
        if self._wrapper is None:
            return gap, body
        if gap:
            self._wrapper.restart()
        return gap, self._wrapper.feed(body)

    def _stream(self, kind: Literal["text", "thought"], text: str, message_id: str) -> tuple[str, str]:
        gap = ""
        if self.last != kind or self.message_id != message_id:
            goes_on = self.message_id == message_id
            text = text.lstrip("\n")
            if not text:
                return "", ""
            gap = ("\n\n" if self.mid_line else "\n") if self.last == kind and not goes_on else self.begin(kind)
            self.newlines = 0
            if not goes_on and self._wrapper is not None:
                self._wrapper.begin_message()
            self.message_id = message_id
        body = text.rstrip("\n")
        newlines = "\n" * self.newlines if body else ""
        self.newlines = len(text) - len(body) + (0 if body else self.newlines)
        self.mid_line = self.mid_line or bool(body)
        return gap, newlines + body

    def end(self, message_id: str) -> str:
        """End the last line of a message at once: the next piece may go to another stream."""
        if self.message_id != message_id or self.last not in ("text", "thought"):
            return ""
        return self.end_line()

    def end_line(self) -> str:
        ending = "\n" if self.mid_line else ""
        self.mid_line, self.newlines = False, 0
        return ending


class Screen:
    """Writes pieces to stdout and stderr; `markdown` renders the agent's text, which then comes in blocks."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        text_tty: bool,
        notes_tty: bool,
        shared: bool,
        width: int | None,
        quiet: bool = False,
        paint: Paint | None = None,
        markdown: MarkdownStream | None = None,
    ) -> None:
        self._outbox = outbox
        self._quiet = quiet
        self._clean_text = text_tty
        self._text = _Lane(width if text_tty else None)
        self._notes = self._text if shared else _Lane(width if notes_tty else None)
        self._redraws = notes_tty  # logs get whole lines, and each of them
        self._paint = paint or (colours() if notes_tty else without_colours)
        self._markdown = markdown
        self._message_id: str | None = None  # of the message that is being rendered
        self._between_messages = False  # a message has ended since the last text
        self._open_line = ""  # of a block that is not complete, as it is shown

    def resize(self, width: int) -> None:
        """Adopt another width of the terminal."""
        for lane in (self._text, self._notes):
            lane.resize(width)
        if self._markdown is not None:
            self._markdown.width = width

    async def show(self, pieces: Iterable[Piece]) -> None:
        """Write the pieces; return when they are written."""
        piece: Piece | None = None
        for piece in pieces:
            self.put(piece)
        if self._markdown is not None and isinstance(piece, Text):
            self._draw_markdown(self._markdown)
        await self._outbox.flush()

    def put(self, piece: Piece) -> None:
        match piece:
            case Text(text, message_id) if self._markdown is not None:
                self._put_markdown(self._markdown, strip_controls(text), message_id)
            case Text(text, message_id):
                gap, body = self._text.stream("text", strip_controls(text) if self._clean_text else text, message_id)
                self._outbox.put(STDOUT, gap + body)
            case MessageEnd(message_id):
                if self._markdown is not None and self._message_id == message_id:
                    self._end_markdown(self._markdown)
                self._outbox.put(STDOUT, self._text.end(message_id))
                if self._notes is not self._text:
                    self._outbox.put(STDERR, self._notes.end(message_id))
            case _ if self._quiet:
                return
            case Thought(text, message_id):
                self._flush_markdown()
                gap, body = self._notes.stream("thought", strip_controls(text), message_id)
                self._outbox.put(STDERR, gap + (self._paint([Span(body, "thought")]) if body else ""))
            case Line(spans, key, block):
                self.line(spans, key, block)
            case Ending(key, spans):
                self._flush_markdown()
                if self._notes.open_key == key and self._notes.mid_line:
                    self._outbox.put(STDERR, f"{CLEAR_LINE}{self._paint(spans)}\n")
                    self._notes.mid_line, self._notes.open_key = False, None
                else:
                    self.line(spans)

    # -- rendered text

    def _put_markdown(self, markdown: MarkdownStream, text: str, message_id: str) -> None:
        if message_id != self._message_id:
            self._end_markdown(markdown)
            self._message_id = message_id
        self._begin_rendered(markdown)
        if lines := markdown.feed(text):
            self._put_rendered(lines)

    def _draw_markdown(self, markdown: MarkdownStream) -> None:
        """Show the text of the block that is not complete; its last line stays open."""
        self._begin_rendered(markdown)
        lines, open_line = markdown.draw()
        if lines or open_line != self._open_line:
            self._put_rendered(lines, open_line)

    def _end_markdown(self, markdown: MarkdownStream) -> None:
        self._finish_rendered(markdown, markdown.end)
        self._message_id = None
        self._between_messages = True

    def _flush_markdown(self) -> None:
        """Write the text that came before something else does."""
        if self._markdown is not None:
            self._finish_rendered(self._markdown, self._markdown.flush)

    def _finish_rendered(self, markdown: MarkdownStream, finish: Callable[[], str]) -> None:
        self._begin_rendered(markdown)
        lines = finish()
        if lines or self._open_line:
            self._put_rendered(lines)

    def _begin_rendered(self, markdown: MarkdownStream) -> None:
        """Restart the blank lines between blocks where something else, or another message, came before."""
        if self._text.last != "text" or self._between_messages:
            markdown.restart()

    def _put_rendered(self, lines: str, open_line: str = "") -> None:
        lane = self._text
        if self._open_line:
            before = CLEAR_LINE
        else:
            parts_messages = lane.last == "text" and self._between_messages
            before = lane.begin("text") + ("\n" if parts_messages else "")
        self._outbox.put(STDOUT, f"{before}{lines}{open_line}")
        self._open_line, lane.mid_line, self._between_messages = open_line, bool(open_line), False

    def line(self, spans: Iterable[Span], key: str | None = None, block: Block = "line") -> None:
        """Write a line of its own to stderr, also when quiet."""
        self._flush_markdown()
        gap = self._notes.begin(block)
        stays_open = key is not None and self._redraws
        self._outbox.put(STDERR, gap + self._paint(spans) + ("" if stays_open else "\n"))
        self._notes.mid_line, self._notes.open_key = stays_open, key if stays_open else None

    def line_soon(self, spans: Iterable[Span]) -> None:
        """Write such a line, for callers that cannot wait."""
        self.line(spans)
        self._outbox.flush_notes_soon()

    def part(self) -> None:
        """Separate the next question from the last one."""
        if self._notes.last == "question":
            self._outbox.put(STDERR, f"{self._notes.end_line()}\n")

    async def ask(self, spans: Iterable[Span]) -> None:
        """Write a line that is left open for the user to type on."""
        self._flush_markdown()
        self._outbox.put(STDERR, self._notes.begin("question") + self._paint(spans))
        self._notes.mid_line = True
        await self._outbox.flush()

    def answered(self) -> None:
        """Note that a line was typed; the terminal showed it with its end."""
        self._notes.mid_line = False

    def end(self) -> None:
        """End the lines that are still open."""
        if self._markdown is not None:
            self._end_markdown(self._markdown)
        for fd, lane in ((STDOUT, self._text), (STDERR, self._notes)):
            self._outbox.put(fd, lane.end_line())


# Entered to ask the user something: inside, the terminal belongs to the question alone.
Floor: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


class FollowedRun(Protocol):
    """A run whose events are taken in batches."""

    @property
    def done(self) -> bool: ...
    @property
    def waiting(self) -> bool: ...
    def claim(self) -> None: ...
    async def next_events(self) -> list[Event]: ...


class Follower:
    """`show` puts events on the screen and returns when they are there."""

    def __init__(self, show: Callable[[Sequence[Event]], Awaitable[None]]) -> None:
        self._show = show
        self._run: FollowedRun | None = None
        self._batch: list[Event] = []  # taken from the run, and not shown
        self._screen = asyncio.Lock()
        self._run_changed = asyncio.Event()

    @property
    def is_free(self) -> bool:
        """True while neither a batch nor a question has the screen."""
        return not self._screen.locked()

    async def follow(self, run: FollowedRun) -> None:
        """Show the run until it is over. From here on the agent is read only as fast as we show."""
        run.claim()
        self._set_run(run)
        try:
            while batch := await run.next_events():
                self._batch = batch
                async with self._screen:
                    await self._show_batch()
        finally:
            self._set_run(None)

    @asynccontextmanager
    async def floor(self, run: FollowedRun | None = None) -> AsyncIterator[None]:
        """Hand the screen to a question of this run, one at a time, in the order they came.

        The events before the question are shown first; those that come meanwhile wait.
        """
        while run is not None and run is not self._run and not run.done:
            self._run_changed.clear()
            await self._run_changed.wait()
        async with self._screen:
            await self._show_batch()
            if run is not None and run.waiting:
                await self._show(await run.next_events())
            yield

    async def _show_batch(self) -> None:
        batch, self._batch = self._batch, []
        if batch:
            await self._show(batch)

    def _set_run(self, run: FollowedRun | None) -> None:
        self._run = run
        self._run_changed.set()
