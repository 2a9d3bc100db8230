"""`StderrTail`: the last lines an agent printed to its stderr, in bounded memory.

Fed with bytes as they come. It keeps text for people: decoded with replacement, without terminal control sequences
(an error message must not move the reader's cursor), progress lines reduced to their last state.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)

KEEP_LINES = 400
"""Enough for a stack trace of Node with its causes, and the lines before it."""

KEEP_CHARACTERS = 128 * 1024
"""The bound that holds when all lines are long."""

MAX_LINE = 4 * 1024
"""Longer lines are dumps (minified source, base64); their beginning says what they are."""

TOLD_LINE = 500
"""And of these, what is shown: an error is to be read, not scrolled through."""

CUT = " …[cut]"

_CONTROLS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC: strings for the terminal
    r"|\x1b[ -/]*[0-~]?"  # the other escapes
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # single controls, but tab
)


def clean(raw: bytes) -> str:
    """One line as a person should see it: what a terminal would show after the last carriage return."""
    raw = raw.rstrip(b"\r")
    shown = raw[raw.rfind(b"\r") + 1 :]
    return _CONTROLS.sub("", shown.decode("utf-8", "replace"))


def _short(line: str) -> str:
    return line if len(line) <= TOLD_LINE else line[:TOLD_LINE] + CUT


class StderrTail:
    """A ring of lines. `on_line` is called with each finished line, and with an unfinished last one at the end."""

    def __init__(
        self,
        on_line: Callable[[str], None] | None = None,
        *,
        keep_lines: int = KEEP_LINES,
        keep_characters: int = KEEP_CHARACTERS,
        max_line: int = MAX_LINE,
    ) -> None:
        self._on_line = on_line
        self._lines: deque[str] = deque()
        self._kept = 0
        self._keep_lines = keep_lines
        self._keep_characters = keep_characters
        self._max_line = max_line
        self._partial = bytearray()
        self._overlong = False
        self.total_bytes = 0
        """All that was ever fed, kept or not."""

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        *finished, rest = data.split(b"\n")
        for piece in finished:
            self._extend(piece)
            self._finish_line()
        self._extend(rest)

    def end(self) -> None:
        """There will be no more: an unfinished last line becomes a line."""
        if self._partial:
            self._finish_line()

    def text(self, lines: int = 20) -> str:
        """The last lines, an unfinished one included; lines with nothing but space at either end are left out."""
        last = list(self._lines)
        if self._partial:
            last.append(self._current())
        kept = "\n".join(_short(line) for line in last[-lines:]) if lines > 0 else ""
        return kept.strip("\n").rstrip()

    def _extend(self, piece: bytes) -> None:
        if self._overlong:
            # A carriage return begins the line anew; a progress bar is not an overlong line.
            at = piece.rfind(b"\r", 0, len(piece) - 1)
            if at < 0:
                return
            piece = piece[at + 1 :]
            self._partial.clear()
            self._overlong = False
        room = self._max_line - len(self._partial)
        if len(piece) <= room:
            self._partial += piece
            return
        whole = bytes(self._partial) + piece
        whole = whole[whole.rstrip(b"\r").rfind(b"\r") + 1 :]
        self._overlong = len(whole) > self._max_line
        self._partial[:] = whole[: self._max_line]

    def _current(self) -> str:
        return clean(bytes(self._partial)) + (CUT if self._overlong else "")

    def _finish_line(self) -> None:
        line = self._current()
        self._partial.clear()
        self._overlong = False
        self._lines.append(line)
        self._kept += len(line)
        while len(self._lines) > self._keep_lines or self._kept > self._keep_characters:
            self._kept -= len(self._lines.popleft())
        if self._on_line is not None:
            try:
                self._on_line(line)
            except Exception:
                # A listener's defect must not stop the draining: the agent would block on a full pipe.
                logger.exception("The listener on an agent's stderr failed")
