"""`StderrTail`: the last lines of an agent's stderr, in bounded memory.

The text is for people: decoded with replacement, without terminal control sequences (an error message must not move the
reader's cursor), with progress lines reduced to their last state.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)

MAX_LINES = 400
"""Enough for a stack trace of Node with its causes, and the lines before it."""

MAX_CHARACTERS = 128 * 1024
"""The limit that applies when all lines are long."""

MAX_LINE_BYTES = 4 * 1024
"""Longer lines are dumps (minified source, base64); their beginning identifies them."""

MAX_SHOWN_CHARACTERS = 500
"""The characters of a line that an error shows."""

TRUNCATION_MARK = " …[truncated]"

_CONTROLS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC: strings for the terminal
    r"|\x1b[ -/]*[0-~]?"  # the other escapes
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # single controls, but tab
)


def clean(raw: bytes) -> str:
    """Return a line as a terminal would show it after the last carriage return."""
    raw = raw.rstrip(b"\r")
    shown = raw[raw.rfind(b"\r") + 1 :]
    return _CONTROLS.sub("", shown.decode("utf-8", "replace"))


def _shorten(line: str) -> str:
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[:MAX_SHOWN_CHARACTERS] + TRUNCATION_MARK


class StderrTail:
    """A ring of lines. `on_line` gets each finished line, and an unfinished last one at the end."""

    def __init__(
        self,
        on_line: Callable[[str], None] | None = None,
        *,
        max_lines: int = MAX_LINES,
        max_characters: int = MAX_CHARACTERS,
        max_line: int = MAX_LINE_BYTES,
    ) -> None:
        self._on_line = on_line
        self._lines: deque[str] = deque()
        self._character_count = 0
        self._max_lines = max_lines
        self._max_characters = max_characters
        self._max_line = max_line
        self._partial = bytearray()
        self._overlong = False
        self.total_bytes = 0
        """All bytes that were ever fed."""

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        *finished, rest = data.split(b"\n")
        for part in finished:
            self._extend(part)
            self._finish_line()
        self._extend(rest)

    def end(self) -> None:
        """End the stream: an unfinished last line becomes a line."""
        if self._partial:
            self._finish_line()

    def text(self, lines: int = 20) -> str:
        """Return the last lines, an unfinished one included, without blank lines at the beginning and the end."""
        last = list(self._lines)
        if self._partial:
            last.append(self._current())
        text = "\n".join(_shorten(line) for line in last[-lines:]) if lines > 0 else ""
        return text.strip("\n").rstrip()

    def _extend(self, part: bytes) -> None:
        if self._overlong:
            # A carriage return starts the line again; a progress bar is not an overlong line.
            at = part.rfind(b"\r", 0, len(part) - 1)
            if at < 0:
                return
            part = part[at + 1 :]
            self._partial.clear()
            self._overlong = False
        room = self._max_line - len(self._partial)
        if len(part) <= room:
            self._partial += part
            return
        line = bytes(self._partial) + part
        line = line[line.rstrip(b"\r").rfind(b"\r") + 1 :]
        self._overlong = len(line) > self._max_line
        self._partial[:] = line[: self._max_line]

    def _current(self) -> str:
        return clean(bytes(self._partial)) + (TRUNCATION_MARK if self._overlong else "")

    def _finish_line(self) -> None:
        line = self._current()
        self._partial.clear()
        self._overlong = False
        self._lines.append(line)
        self._character_count += len(line)
        while len(self._lines) > self._max_lines or self._character_count > self._max_characters:
            self._character_count -= len(self._lines.popleft())
        if self._on_line is not None:
            try:
                self._on_line(line)
            except Exception:
                # A defect of a listener must not stop the reading: the agent would block on a full pipe.
                logger.exception("The listener on an agent's stderr failed")
