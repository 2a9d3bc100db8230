"""`AgentLink`: the hold on a running agent. A session holds a link, never a pid.

`StderrTail` has the last lines of an agent's stderr, in bounded memory. The text is for people: decoded with
replacement, without terminal control sequences (an error message must not move the reader's cursor), with progress
lines reduced to their last state.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from dragoman.wire.transport import Transport

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


# A shorter value is not looked for: it would be found within ordinary words.
MIN_SECRET_CHARACTERS = 6


def hide_values(text: str, secrets: Mapping[str, str]) -> str:
    """Return the text with the name of each secret in place of its value."""
    # The longest first: one may be a part of another.
    for name, value in sorted(secrets.items(), key=lambda pair: -len(pair[1])):
        if len(value) >= MIN_SECRET_CHARACTERS:
            text = text.replace(value, f"[secret:{name}]")
    return text


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
        self._secrets: Mapping[str, str] = {}
        self.total_bytes = 0
        """All bytes that were ever fed."""

    def hide(self, secrets: Mapping[str, str]) -> None:
        """Replace these values, by name, in what is returned and reported from here on."""
        self._secrets = secrets

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
        text = "\n".join(_shorten(hide_values(line, self._secrets)) for line in last[-lines:]) if lines > 0 else ""
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
                self._on_line(hide_values(line, self._secrets))
            except Exception:
                # A defect of a listener must not stop the reading: the agent would block on a full pipe.
                logger.exception("The listener on an agent's stderr failed")


END_GRACE_S = 1.0
"""Seconds that `end()` waits after the end of stdin, and again after SIGTERM. A polite agent has ended within a few
hundred milliseconds of the end of its stdin; those that ignore it were seen to ignore it for longer than 4 s, so that
more patience would only make every close slow."""


class AgentLink(Transport, Protocol):
    """A running agent: its bytes, its stderr and its end.

    The owner of a link calls `end()`, also when the agent has ended by itself: children may be left.
    """

    @property
    def name(self) -> str:
        """The command or address, for messages."""
        ...

    @property
    def exit_code(self) -> int | None:
        """None while the agent runs; then its exit code, or minus the signal that ended it (as in `subprocess`)."""
        ...

    @property
    def stderr(self) -> StderrTail:
        """The last lines of its stderr; complete, as far as the agent itself wrote them, once `wait()` has returned."""
        ...

    async def wait(self) -> int:
        """Return the exit code as soon as the agent's process has ended, even if its children hold its pipes open.

        `read` then still returns what the agent wrote, and for a short time what its children add, then `b""`.
        """
        ...

    async def end(self, grace: float = END_GRACE_S) -> int:
        """End the agent and all that it started, release its resources, and return its exit code.

        The end of stdin, `grace` seconds, SIGTERM to the group, `grace` seconds, SIGKILL; then what is left of its
        group, and of its children outside of it. Bytes that the agent wrote before are not lost: `read` returns them.
        It may be called again, and by several tasks at once: all wait for the same end. Cancelling a caller does not
        stop it.
        """
        ...

    def interrupt(self) -> None:
        """Send SIGINT to the group. Does nothing when the agent has ended."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to the group, at once. `end()` is still to be called."""
        ...
