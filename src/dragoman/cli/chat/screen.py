"""`ChatScreen`: what a person sees of a chat, and how: prompts, runs, notes and errors, at the terminal's width."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.cli import exits
from dragoman.cli.output import STDOUT, USUAL_WIDTH, Outbox, terminal_width
from dragoman.cli.pieces import Block, Span, Style
from dragoman.cli.render import Renderer
from dragoman.cli.screen import Screen, without_colours
from dragoman.cli.text import one_line, plain
from dragoman.cli.wrap import wrapped
from dragoman.errors import AgentCrashed, DragomanError
from dragoman.record.events import Event
from dragoman.record.fold import SessionFold

# Of a prompt that is shown again, and of what was said before a session was resumed.
SHOWN_LINES = 12


class ChatScreen:
    """`mark` is what stands before the person's own words; where it is empty they stand there already."""

    def __init__(self, outbox: Outbox, mark: str, *, cwd: Path, dumb: bool, thoughts: bool, verbose: bool) -> None:
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
        )
        self._renderer = Renderer(cwd=cwd, width=self.width, thoughts=thoughts, verbose=verbose, diffs=not dumb)

    def fit(self) -> int:
        """The width that the terminal has now; all that is shown next keeps to it."""
        if (width := terminal_width(STDOUT) or USUAL_WIDTH) != self.width:
            self.width = self._renderer.width = width
            self.screen.resize(width)
        return self.width

    async def show(self, batch: Sequence[Event]) -> None:
        """Returns when it is on the screen."""
        self.fit()
        await self.screen.show([piece for event in batch for piece in self._renderer.show(event)])

    def say(self, *spans: Span, block: Block = "line") -> None:
        """A line of its own."""
        self.screen.line(spans, block=block)

    def explain(self, text: str) -> None:
        """A sentence or two of ours."""
        for line in wrapped(text, self.width - 1):
            self.say(Span(line, "dim"))

    def note(self, text: str) -> None:
        """The same for callers that cannot wait."""
        self.explain(text)
        self._outbox.flush_notes_soon()

    def block(self, mark: Span, text: str, style: Style) -> None:
        """A text that stands for itself, kept within bounds."""
        lines = wrapped(text, self.width - 3)
        for number, line in enumerate(lines[:SHOWN_LINES]):
            lead = mark if number == 0 else Span(" " * len(mark.text))
            self.say(lead, Span(line, style), block="prompt")
        if len(lines) > SHOWN_LINES:
            self.say(Span(f"  … {len(lines) - SHOWN_LINES} more lines", "dim"), block="prompt")

    def echo(self, text: str, attached: Sequence[str] = ()) -> None:
        """What the person entered, and what goes with it."""
        if self._mark:
            self.block(Span(self._mark, "question"), plain(text).strip(), "bold")
        if attached:
            names = one_line(", ".join(attached), self.width - 8)
            self.say(Span(f"  with {names}", "dim"), block="prompt")

    def remind(self, fold: SessionFold) -> None:
        """The last that was said, where a session goes on that told its history."""
        told = [message for message in fold.messages if message.kind != "thought" and message.text.strip()]
        for message in told[-2:]:
            mark = self._mark or "> " if message.kind == "user" else ""
            self.block(Span(mark, "dim"), plain(message.text).strip(), "dim")

    def tell(self, error: DragomanError) -> None:
        if isinstance(error, AgentCrashed):
            # What to do about it is said by the chat, which has something better to offer than a program has.
            error = AgentCrashed(error.message, exit_code=error.exit_code, stderr=error.stderr, guidance="")
        message = exits.message_of(error, verbose=self._verbose, width=self.width)
        for number, line in enumerate(message.splitlines()):
            self.say(Span(line, "" if number else "bad"))
