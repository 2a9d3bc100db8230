"""The prompts of earlier chats: one file in the home folder, for its user alone.

Each workspace sees its own. A line that begins with a space is not kept, as shells do it. A file that cannot be read or
written costs the history, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from dragoman.config import make_home
from dragoman.errors import ConfigError
from dragoman.fileio import atomic_write

FILE_NAME = "chat-history.jsonl"

# Past this size the older half goes: thousands of prompts are left, and it is read within milliseconds.
MOST = 1_000_000


class _Entry(msgspec.Struct, frozen=True):
    cwd: str
    text: str


_entry = msgspec.json.Decoder(_Entry)


class ChatHistory(History):
    def __init__(self, home: Path, cwd: Path) -> None:
        super().__init__()
        self._home = home
        self._file = home / FILE_NAME
        self._cwd = str(cwd)

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        entries = [entry for line in self._lines() if (entry := _read(line)) is not None]
        return [entry.text for entry in reversed(entries) if entry.cwd == self._cwd]

    def store_string(self, string: str) -> None:
        if string.startswith(" "):
            return
        line = msgspec.json.encode(_Entry(self._cwd, string)) + b"\n"
        try:
            make_home(self._home)
            # One write at the end of the file: two chats do not write into each other's lines.
            fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(fd, line)
                size = os.fstat(fd).st_size
            finally:
                os.close(fd)
            if size > MOST:
                self._forget_older_half()
        except (OSError, ConfigError):
            return  # it is still in the memory of this chat

    def _lines(self) -> list[bytes]:
        try:
            return self._file.read_bytes().splitlines()
        except OSError:
            return []

    def _forget_older_half(self) -> None:
        lines = self._lines()
        atomic_write(self._file, b"".join(line + b"\n" for line in lines[len(lines) // 2 :]))


def _read(line: bytes) -> _Entry | None:
    try:
        return _entry.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
