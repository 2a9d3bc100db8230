"""Recordings of real agents: read, so that tests can ask them, and made fit to be kept."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from dragoman.record.fold import SessionFold
from dragoman.record.routing import fold_recording

from . import notes_server
from .conftest import Frame, Stage, frames_of

MAX_TEXT_CHARACTERS = 500
"""Characters of a text in a recording that is kept: agents send the whole of their skills and change logs."""
MAX_COMMANDS = 5


class Recording:
    """A recording, read: its frames, and what they fold to."""

    def __init__(self, lines: list[bytes]) -> None:
        self.frames = frames_of(lines)
        self.folds = fold_recording(lines)

    @property
    def fold(self) -> SessionFold:
        """Of the session that ran last."""
        return [fold for fold in self.folds.values() if fold.runs][-1]

    def requests(self, method: str) -> list[tuple[int, int, Frame]]:
        """Return our answered requests of this method: the line of each, the line of its answer, and the answer."""
        found = []
        for sent, frame in enumerate(self.frames):
            if frame.dir == "out" and frame.method == method:
                for at in range(sent + 1, len(self.frames)):
                    reply = self.frames[at]
                    if reply.dir == "in" and reply.method is None and reply.id == frame.id:
                        found.append((sent, at, reply))
                        break
        return found

    def called(self, method: str) -> list[Frame]:
        """Return the agent's requests and notifications of this method."""
        return [frame for frame in self.frames if frame.dir == "in" and frame.method == method]

    def updates_after_prompt(self, kind: str) -> bool:
        """Return whether an update of this kind came after the answer to the prompt."""
        answered = [at for _, at, _ in self.requests("session/prompt")]
        return bool(answered) and any(frame.update == kind for frame in self.frames[answered[-1] :])

    @property
    def text(self) -> str:
        return "\n".join(message.text for message in self.fold.messages if message.kind == "assistant")


def scrubbed(lines: list[bytes], stage: Stage) -> bytes:
    """Return the recording as it is stored: without paths and addresses of this machine, long texts shortened."""
    folders = {
        str(stage.folder): "/workspace",
        str(stage.home): "/home/user",
        str(stage.folder.parent): "/run",
        str(stage.folder).lstrip("/"): "workspace",  # as seen from the root
        **{str(folder.parent.parent): "/agents" for folder in stage.programs},
        notes_server.__file__: "/servers/notes.py",
        sys.executable: "python",
        stage.server.url: "http://127.0.0.1:8090",
    }
    text = b"".join(lines).decode()
    for folder, name in folders.items():
        text = text.replace(msgspec.json.encode(folder).decode()[1:-1], name)
    shortened = (
        line if len(line) < MAX_TEXT_CHARACTERS else msgspec.json.encode(_shorten(msgspec.json.decode(line))).decode()
        for line in text.splitlines()
    )
    return "".join(f"{line}\n" for line in shortened).encode()


def _shorten(value: Any) -> Any:
    match value:
        case str() if len(value) > MAX_TEXT_CHARACTERS:
            return value[:MAX_TEXT_CHARACTERS] + "…"
        case list():
            return [_shorten(each) for each in value]
        case dict():
            few = {key: each[:MAX_COMMANDS] for key, each in value.items() if key == "availableCommands"}
            return {key: _shorten(few.get(key, each)) for key, each in value.items()}
        case _:
            return value
