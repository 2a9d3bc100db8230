"""Tab completion in a chat (`/` commands and templates, `@` files), and the history of prompts.

The history is one file in the home folder, readable by its user alone; each workspace sees its own prompts. A line that
begins with a space is not stored, as in a shell. A history file that cannot be read or written is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from dragoman.cli.chat.commands import COMMANDS, PREFIX, choices
from dragoman.cli.text import one_line
from dragoman.config import make_home
from dragoman.errors import ConfigError
from dragoman.fileio import atomic_write
from dragoman.record.fold import SessionFold
from dragoman.session.templates import Template

# Files of a folder that are offered; typing on narrows them down.
MAX_FILES = 200


class ChatCompleter(Completer):
    """Completes what is typed. `session_fold` returns the record of the session; None before it is open.

    `templates` returns the prompt templates of the workspace.
    """

    def __init__(
        self,
        session_fold: Callable[[], SessionFold | None],
        cwd: Path,
        templates: Callable[[], Iterable[Template]] = tuple,
    ) -> None:
        self._session_fold = session_fold
        self._cwd = cwd
        self._templates = templates

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith(PREFIX) and not any(character.isspace() for character in text):
            return (*self._own(text), *self._agents(text), *self._prompt_templates(text))
        if text.startswith(PREFIX) and "\n" not in text:
            return self._values(text)
        word = text.split()[-1] if text and not text[-1].isspace() else ""
        return self._files(word[1:]) if word.startswith("@") else ()

    def _own(self, text: str) -> Iterable[Completion]:
        for command in COMMANDS:
            if command.name.startswith(text[len(PREFIX) :].lower()):
                name = f"{PREFIX}{command.name}"
                shown = f"{name} {command.arguments}".rstrip()
                yield _completion(name, text, shown=shown, about=command.about, more=bool(command.arguments))

    def _agents(self, text: str) -> Iterable[Completion]:
        fold = self._session_fold()
        own = {command.name for command in COMMANDS}
        for command in fold.commands if fold is not None else ():
            # A name that holds more than a word cannot be typed as one.
            is_word = command.name.split() == [command.name] and command.name not in own
            if is_word and command.name.lower().startswith(text[len(PREFIX) :].lower()):
                hint = f" {one_line(command.hint, 30)}" if command.hint else ""
                yield _completion(
                    f"/{command.name}", text, shown=f"/{command.name}{hint}", about=command.description, more=bool(hint)
                )

    def _prompt_templates(self, text: str) -> Iterable[Completion]:
        fold = self._session_fold()
        others = {command.name for command in COMMANDS} | {command.name for command in (fold.commands if fold else ())}
        for template in self._templates():
            if template.name not in others and template.name.lower().startswith(text[len(PREFIX) :].lower()):
                hint = f" {one_line(template.hint, 30)}" if template.hint else ""
                about = template.description or "a prompt template"
                yield _completion(
                    f"/{template.name}", text, shown=f"/{template.name}{hint}", about=about, more=bool(hint)
                )

    def _values(self, text: str) -> Iterable[Completion]:
        name, _, rest = text[len(PREFIX) :].partition(" ")
        fold = self._session_fold()
        words, _, typed = rest.rpartition(" ")
        for choice in choices(name, words, fold) if fold is not None else ():
            if typed.lower() in (choice.value.lower()[: len(typed)], choice.name.lower()[: len(typed)]):
                name_too = choice.name if choice.name.lower() != choice.value.lower() else ""
                about = ": ".join(part for part in (name_too, choice.description) if part)
                yield _completion(choice.value, typed, shown=choice.value, about=about)

    def _files(self, typed: str) -> Iterable[Completion]:
        folder, _, beginning = typed.rpartition("/")
        searched = self._cwd / Path(f"{folder}/" if folder or typed.startswith("/") else ".")
        try:
            with os.scandir(searched.expanduser()) as listing:
                # Hidden files only where they are meant.
                entries = [
                    (entry.name, entry.is_dir())
                    for entry in listing
                    if entry.name.startswith(beginning) and (beginning or not entry.name.startswith("."))
                ]
        except (OSError, RuntimeError, ValueError):
            return
        for name, is_folder in sorted(entries, key=lambda item: (not item[1], item[0]))[:MAX_FILES]:
            path = f"{folder}/{name}" if folder or typed.startswith("/") else name
            if path.isprintable() and " " not in path:
                yield _completion(f"@{path}{'/' if is_folder else ''}", f"@{typed}", shown=f"{name}{'/' * is_folder}")


def _completion(text: str, typed: str, *, shown: str, about: str = "", more: bool = False) -> Completion:
    return Completion(
        text + (" " if more else ""),
        start_position=-len(typed),
        display=one_line(shown, 40),
        display_meta=one_line(about, 100),
    )


FILE_NAME = "chat-history.jsonl"

# Past this size the older half goes: thousands of prompts are left, and it is read within milliseconds.
MAX_HISTORY_BYTES = 1_000_000


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
        """Return the prompts of this workspace, the newest first."""
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
            if size > MAX_HISTORY_BYTES:
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
