"""What `dragoman replay` does: finds the recording, and plays it on stdin and stdout."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from dragoman.agents.replay.act import Manner
from dragoman.agents.replay.agent import serve as play
from dragoman.agents.replay.player import Player
from dragoman.agents.replay.reading import read_recording
from dragoman.cli.stored import existing, told, where
from dragoman.errors import InputError
from dragoman.journal.find import find
from dragoman.journal.transfer import export
from dragoman.wire.stdio import stdio_transport


def serve(recording: str, manner: Manner, connection: int) -> int:
    return told(_serve)(recording, manner, connection)


async def _serve(recording: str, manner: Manner, connection: int) -> None:
    # Read before anything is answered: what is wrong with it is told on stderr, and the client sees us end.
    lines = _lines_of_file(recording)
    if lines is None:
        lines = await _lines_of_session(recording)
    script = read_recording(lines, name=recording)
    player = Player(script, manner, connection=connection)
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not _is_stream(stream.fileno()):
            raise InputError(f"the replay agent talks to a client over pipes; its {name} is none", guidance=_HINT)
    if sys.stdin.isatty():
        sys.stderr.write(f"The replay agent waits for JSON-RPC on its stdin. {_HINT}\n")
    await play(await stdio_transport(), player)


_HINT = 'To watch it: dragoman run --agent-command "dragoman replay --by-order FILE" "hello"'


def _lines_of_file(recording: str) -> Sequence[bytes] | None:
    """None where the name can only be that of a session."""
    path = Path(recording)
    if path.is_file():
        return path.read_bytes().splitlines()
    if os.sep in recording or path.suffix or not where().exists():
        raise InputError(
            f"there is no recording {recording}",
            guidance="Name a file in JSON Lines, or a session as `dragoman sessions list` shows them.",
        )
    return None


async def _lines_of_session(wanted: str) -> Sequence[bytes]:
    async with existing() as journal:
        session = find(await journal.sessions(), wanted)
        return [line async for line in export(journal, session.id)]


def _is_stream(descriptor: int) -> bool:
    """Files and /dev/null cannot be waited on, so a client is never at their other end."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
