"""`InputLine`: the input below the conversation and above the status line, drawn by prompt_toolkit.

`LiveOutbox` is the output above it; `Tail` splits that into finished lines and the open one. Order is kept; whole lines
go above the input line at most 30 times a second, and writers that are faster wait, and with them the agent.

Promised: typed text survives while output passes above it and while a question has the terminal; each picture goes to
the terminal in one piece, so that nothing flickers; the terminal's settings are restored, however the chat ends.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TextIO, cast

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, get_common_complete_suffix
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, VerticalAlign, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenuControl
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from dragoman.cli.output import STDOUT, USUAL_WIDTH, Outbox, terminal_width
from dragoman.cli.screen import Span
from dragoman.cli.text import columns

# Seconds between two pictures: words still seem to flow, and the terminal has time for everything else.
FRAME_S = 1 / 30


class Surface(Protocol):
    """The input line, as something that is drawn below the output."""

    def print_above(self, lines: str) -> None:
        """Print whole lines above the input line, which is drawn again below them."""
        ...

    def refresh(self) -> None:
        """Draw again: something else has changed, such as the open line."""
        ...


class LiveOutbox(Outbox):
    """Writes to the terminal itself while it has no surface: at first, and while a question has the terminal."""

    def __init__(self, width: int) -> None:
        super().__init__(shared=True)
        self.tail = Tail(width)
        self._surface: Surface | None = None
        self._next_frame = 0.0

    def put(self, fd: int, data: bytes | str) -> None:
        if self._surface is None:
            super().put(STDOUT, data)
        else:
            self.tail.feed(data if isinstance(data, str) else data.decode("utf-8", "replace"))

    async def flush(self) -> None:
        loop = asyncio.get_running_loop()
        if self._surface is not None and (wait := self._next_frame - loop.time()) > 0:
            await asyncio.sleep(wait)
        if self._surface is None:
            await super().flush()
            return
        self._next_frame = loop.time() + FRAME_S
        if lines := self.tail.take():
            self._surface.print_above(lines)
        else:
            self._surface.refresh()

    async def flush_notes(self) -> None:
        await self.flush()

    def attach(self, surface: Surface) -> None:
        """Draw on this surface from now on. Everything before must be flushed, and its last line ended."""
        self._surface = surface

    def detach(self) -> None:
        """Write to the terminal itself from now on, beginning with the open line."""
        self._surface = None
        super().put(STDOUT, self.tail.take_all())


_TOKENS = re.compile(
    r"(?P<look>\x1b\[[0-9;]*m)|\x1b\[(?P<back>\d+)D\x1b\[K|(?P<wipe>\r\x1b\[2K)|(?P<end>\n)|(?P<text>[^\x1b\r\n]+)|[\s\S]"
)
_NO_LOOK = "\x1b[0m"
_TAB = 8


class Tail:
    def __init__(self, width: int) -> None:
        self.width = width
        self._done: list[str] = []
        self._open: list[tuple[str, str]] = []  # look and text
        self._columns = 0
        self._look = ""

    def feed(self, written: str) -> None:
        for token in _TOKENS.finditer(written):
            match token.lastgroup:
                case "text":
                    self._text(token["text"])
                case "end":
                    self._end()
                case "look":
                    self._look = "" if token["look"] in (_NO_LOOK, "\x1b[m") else token["look"]
                case "back":
                    self._take_back(int(token["back"]))
                case "wipe":
                    self._open, self._columns = [], 0
                case _:
                    pass  # an escape character alone: nothing that is ours

    def take(self) -> str:
        """Take the lines that were finished since the last call, each with its end."""
        done, self._done = self._done, []
        return "".join(done)

    def take_all(self) -> str:
        """Take these and the open line."""
        everything = self.take() + self.open
        self._open, self._columns = [], 0
        return everything

    @property
    def open(self) -> str:
        return "".join(f"{look}{text}{_NO_LOOK}" if look else text for look, text in self._open)

    def _text(self, text: str) -> None:
        """Break at the edge, as a terminal does: the open line never takes more than one row."""
        while self._columns + (width := _width(text, self._columns)) > self.width:
            first = _fitting(text, self._columns, self.width)
            if not first and not self._open:
                break  # not even one character fits
            self._add(first, 0)
            self._end()
            text = text[len(first) :]
        else:
            self._add(text, width)
            return
        self._add(text, width)

    def _add(self, text: str, width: int) -> None:
        if text:
            self._open.append((self._look, text))
            self._columns += width

    def _end(self) -> None:
        self._done.append(f"{self.open}\n")
        self._open, self._columns = [], 0

    def _take_back(self, count: int) -> None:
        self._columns = max(0, self._columns - count)
        while count > 0 and self._open:
            look, text = self._open.pop()
            length = len(text)
            while length and count > 0:
                length -= 1
                count -= columns(text[length])
            if length:
                self._open.append((look, text[:length]))


def _width(text: str, column: int) -> int:
    """Count the columns of a text that begins at this column."""
    head, *rest = text.split("\t")
    end = column + columns(head)
    for part in rest:
        end += _TAB - end % _TAB + columns(part)
    return end - column


def _fitting(text: str, column: int, width: int) -> str:
    """Return the beginning of the text that fits into the row."""
    for position, character in enumerate(text):
        column += _width(character, column)
        if column > width:
            return text[:position]
    return text


MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "

# Rows for the menu, and for what is typed: the conversation stays in sight.
MENU_ROWS = 8
INPUT_ROWS = 12
USUAL_ROWS = 24

# The terminal's own colours and no backgrounds: readable on any theme, and also without colours.
_STYLE = Style.from_dict(
    {
        "bold": "bold",
        "dim": "dim",
        "good": "ansigreen",
        "bad": "ansired",
        "question": "bold ansiyellow",
        "completion-menu": "noinherit",
        "completion-menu.completion": "noinherit",
        "completion-menu.completion.current": "noinherit reverse",
        "completion-menu.meta.completion": "noinherit dim",
        "completion-menu.meta.completion.current": "noinherit reverse",
        "search-toolbar": "dim",
    }
)


class InputLine:
    """`live_output` is the end of the output of a running command, `queued` are the prompts that wait, `status` is the
    status line, for so many columns; all are asked for each time they are drawn. `interrupt` is called at Ctrl-C."""

    mark = MARK

    def __init__(
        self,
        *,
        completer: Completer,
        history: History,
        live_output: Callable[[int], Sequence[str]],
        queued: Callable[[], Sequence[str]],
        status: Callable[[int], Iterable[Span]],
        interrupt: Callable[[], None],
    ) -> None:
        self._live = LiveOutbox(terminal_width(STDOUT) or USUAL_WIDTH)
        self._completer = completer
        self._live_output = live_output
        self._queued = queued
        self._status = status
        self._interrupt = interrupt
        self._entered: asyncio.Queue[str | None] = asyncio.Queue()
        self._picture = _Picture(STDOUT)
        self._buffer = Buffer(completer=completer, complete_while_typing=True, history=history, multiline=True)
        self._app = self._application()
        self._app.after_render += lambda _: self._picture.release()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> InputLine:
        drawn = asyncio.Event()
        self._app.after_render += lambda _: drawn.set()
        await self._live.flush()
        self._live.attach(self)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="dragoman input line")
        await drawn.wait()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._picture.release()
        self._live.detach()

    async def _run(self) -> None:
        try:
            await self._app.run_async(set_exception_handler=False, handle_sigint=False)
        except EOFError:  # the terminal is gone
            pass
        finally:
            self._entered.put_nowait(None)

    # -- for the chat

    @property
    def outbox(self) -> Outbox:
        return self._live

    async def next(self) -> str | None:
        """Wait for an entered text; None when the user wants to leave."""
        return await self._entered.get()

    @property
    def typed(self) -> str:
        return self._buffer.text

    def put_back(self, text: str) -> None:
        """Put a text back, to be edited and entered again, before what is typed already."""
        self._buffer.text = f"{text}\n{self._buffer.text}" if self._buffer.text else text
        self._buffer.cursor_position = len(self._buffer.text)
        self.refresh()

    def clear(self) -> None:
        self._buffer.reset()
        self.refresh()

    @asynccontextmanager
    async def handed_over(self) -> AsyncIterator[None]:
        """Hand the terminal over: inside, the input line is gone and the terminal has its usual settings."""
        if self._task is None or self._task.done():  # not there yet, or no longer
            yield
            return
        async with in_terminal():
            self._picture.release()
            self._live.detach()
            try:
                yield
            finally:
                await self._live.flush()
                self._live.attach(self)

    # -- the surface

    def print_above(self, lines: str) -> None:
        self._picture.hold()
        self._app.renderer.erase()
        self._app.output.write_raw(lines.replace("\n", "\r\n"))
        self._app.output.flush()
        self.refresh()

    def refresh(self) -> None:
        self._app.invalidate()

    # -- how it is made

    def _application(self) -> Application[None]:
        search = SearchToolbar()
        typed = Window(
            BufferControl(self._buffer, search_buffer_control=search.control, preview_search=True),
            height=Dimension(min=1, max=INPUT_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=lambda line, wrapped: [("class:question", MARK if line == wrapped == 0 else "  ")],
        )
        menu = Window(
            CompletionsMenuControl(),
            height=Dimension(min=1, max=MENU_ROWS),
            dont_extend_height=True,
            style="class:completion-menu",
        )
        return Application(
            Layout(
                HSplit(
                    [
                        _shown(self._open_line),
                        _shown(self._output_of_command),
                        Window(height=1),
                        _shown(self._waiting),
                        typed,
                        search,
                        ConditionalContainer(menu, has_completions & ~is_searching),
                        Window(FormattedTextControl(self._status_line), height=1),
                    ],
                    # A menu that has gone leaves its rows empty, at the end.
                    align=VerticalAlign.TOP,
                ),
                focused_element=typed,
            ),
            key_bindings=self._keys(),
            style=_STYLE,
            include_default_pygments_style=False,
            erase_when_done=True,
            input=create_input(),
            # Asking the terminal where its cursor is would take a round trip for every picture.
            output=Vt100_Output(
                cast(TextIO, self._picture), _size, term=os.environ.get("TERM"), enable_cpr=False, enable_bell=False
            ),
        )

    def _open_line(self) -> StyleAndTextTuples:
        return to_formatted_text(ANSI(self._live.tail.open.expandtabs()))

    def _output_of_command(self) -> StyleAndTextTuples:
        return [("class:dim", "\n".join(lines))] if (lines := self._live_output(_size().columns)) else []

    def _waiting(self) -> StyleAndTextTuples:
        return [("class:dim", "\n".join(f"  {text}" for text in texts))] if (texts := self._queued()) else []

    def _status_line(self) -> StyleAndTextTuples:
        return [(f"class:{span.style}" if span.style else "", span.text) for span in self._status(_size().columns)]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter", filter=~is_searching)
        def _(event: KeyPressEvent) -> None:
            self._enter()

        @keys.add("escape", "enter", filter=~is_searching)
        def _(event: KeyPressEvent) -> None:
            self._buffer.insert_text("\n")

        @keys.add("tab", filter=~is_searching)
        def _(event: KeyPressEvent) -> None:
            self._complete()

        @keys.add("c-c", filter=~is_searching)
        def _(event: KeyPressEvent) -> None:
            self._interrupt()

        @keys.add("c-d", filter=Condition(lambda: not self._buffer.text))
        def _(event: KeyPressEvent) -> None:
            self._entered.put_nowait(None)

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        return keys

    def _complete(self) -> None:
        """Insert the common beginning of all completions, then one after the other, without waiting for the menu."""
        buffer = self._buffer
        state = buffer.complete_state
        inside = buffer.document.text_before_cursor.endswith("/") and state is not None and len(state.completions) == 1
        if state is not None and not inside:  # in the only folder, what is in it comes next
            buffer.complete_next()
            return
        buffer.complete_state = None
        document = buffer.document
        completions = list(self._completer.get_completions(document, CompleteEvent(completion_requested=True)))
        if len(completions) == 1:
            buffer.apply_completion(completions[0])
        elif suffix := get_common_complete_suffix(document, completions):
            buffer.insert_text(suffix)
        elif completions:
            buffer.start_completion(select_first=True)

    def _enter(self) -> None:
        state = self._buffer.complete_state
        before = self._buffer.document.text_before_cursor
        if state is not None and state.current_completion is not None and not before.startswith("/"):
            self._buffer.complete_state = None  # a file was chosen, and the sentence goes on
        elif before.endswith("\\"):
            self._buffer.delete_before_cursor()
            self._buffer.insert_text("\n")
        elif self._buffer.text.strip():
            text = self._buffer.text
            self._buffer.reset(append_to_history=True)
            self._entered.put_nowait(text)


class _Picture:
    """A file for prompt_toolkit to write to. While it is on hold, writes are collected and go out as one."""

    encoding = "utf-8"

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._parts: list[str] = []
        self._is_on_hold = False

    def hold(self) -> None:
        self._is_on_hold = True

    def release(self) -> None:
        self._is_on_hold = False
        self.flush()

    def write(self, text: str) -> None:
        self._parts.append(text)

    def flush(self) -> None:
        if self._is_on_hold or not self._parts:
            return
        rest = memoryview("".join(self._parts).encode("utf-8", "replace"))
        self._parts.clear()
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:  # the terminal is gone: its input ends in a moment
            return

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return True


def _shown(text: Callable[[], StyleAndTextTuples]) -> ConditionalContainer:
    window = Window(FormattedTextControl(text), wrap_lines=True, dont_extend_height=True)
    return ConditionalContainer(window, Condition(lambda: bool(text())))


def _size() -> Size:
    try:
        size = os.get_terminal_size(STDOUT)
    except OSError:
        return Size(USUAL_ROWS, USUAL_WIDTH)
    return Size(size.lines or USUAL_ROWS, size.columns or USUAL_WIDTH)
