"""`InputLine`: the input below the conversation and above the status line, drawn by prompt_toolkit.

Promised: typed text survives while output passes above it and while a question has the terminal; each picture goes to
the terminal in one piece, so that nothing flickers; the terminal's settings are restored, however the chat ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TextIO, cast

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

from dragoman.cli.chat.output import LiveOutbox
from dragoman.cli.output import STDOUT, USUAL_WIDTH, Outbox, terminal_width
from dragoman.cli.pieces import Span

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
    """`queued` are the prompts that wait, `status` the status line for so many columns; both are asked for each time
    they are drawn. `interrupt` is called at Ctrl-C."""

    mark = MARK

    def __init__(
        self,
        *,
        completer: Completer,
        history: History,
        queued: Callable[[], Sequence[str]],
        status: Callable[[int], Iterable[Span]],
        interrupt: Callable[[], None],
    ) -> None:
        self._live = LiveOutbox(terminal_width(STDOUT) or USUAL_WIDTH)
        self._completer = completer
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

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        """Inside, the input line is gone and the terminal has its usual settings."""
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
        found = list(self._completer.get_completions(document, CompleteEvent(completion_requested=True)))
        if len(found) == 1:
            buffer.apply_completion(found[0])
        elif suffix := get_common_complete_suffix(document, found):
            buffer.insert_text(suffix)
        elif found:
            buffer.start_completion(select_first=True)

    def _enter(self) -> None:
        state = self._buffer.complete_state
        before = self._buffer.document.text_before_cursor
        if state is not None and state.current_completion is not None and not before.startswith(("/", ":")):
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
        except OSError:  # the terminal is gone, as the end of its input tells in a moment
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
