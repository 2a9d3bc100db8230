"""`dragoman replay`: a recorded session as an agent on stdin and stdout, for any ACP client."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from dragoman.agents.replay.playback import PlaybackOptions
from dragoman.agents.replay.player import Player
from dragoman.agents.replay.player import serve as play
from dragoman.agents.replay.recording import read_recording
from dragoman.cli.command import async_command, journal_file, open_existing
from dragoman.cli.options import Number
from dragoman.errors import InputError
from dragoman.journal.sessions import find_session
from dragoman.journal.transfer import export
from dragoman.wire.stdio import stdio_transport

EPILOG = """\b
Examples:
  dragoman replay talk.jsonl               an agent that repeats a recording
  dragoman run --agent-command "dragoman replay --by-order talk.jsonl" "hello"
  dragoman replay --speed now 3f9a21       a session of the journal
  dragoman replay -                        the latest session

\b
In an editor, set `dragoman` as the agent's command and `replay`, `--by-order`,
`FILE` as its arguments. To record an agent:
  python -m dragoman.testing.tee talk.jsonl -- my-agent --acp"""


@click.command(epilog=EPILOG)
@click.argument("recording", metavar="FILE|SESSION")
@click.option(
    "--speed",
    type=click.Choice(["real", "now"]),
    default="real",
    show_default=True,
    help="Keep the pauses of the recording, or play at once.",
)
@click.option(
    "--strict/--by-order",
    default=True,
    help="Reject a prompt that differs from the recording [default]; or answer any prompt with the next recorded run.",
)
@click.option(
    "--connection",
    type=Number(1),
    default=1,
    metavar="N",
    help="The connection to play, if the file has several. [default: 1]",
)
@async_command
async def replay(recording: str, speed: Literal["real", "now"], strict: bool, connection: int) -> None:
    """Play a recorded session back to any ACP client, on stdin and stdout.

    FILE is a recording in JSON Lines; SESSION is a session of the journal: its id, the beginning of its id, or "-" for
    the latest. No model or agent is needed.
    """
    manner = PlaybackOptions(strict=strict, real_time=speed == "real")
    # Read first: an error goes to stderr, and the client sees us exit.
    lines = _lines_of_file(recording)
    if lines is None:
        lines = await _lines_of_session(recording)
    script = read_recording(lines, name=recording)
    player = Player(script, manner, connection=connection)
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not _is_stream(stream.fileno()):
            raise InputError(
                f"the replay agent talks to a client over pipes, but its {name} is not a pipe", guidance=_HINT
            )
    if sys.stdin.isatty():
        sys.stderr.write(f"Waiting for an ACP client on stdin. {_HINT}\n")
    await play(await stdio_transport(), player)


_HINT = 'To watch it: dragoman run --agent-command "dragoman replay --by-order FILE" "hello"'


def _lines_of_file(recording: str) -> Sequence[bytes] | None:
    """Read the lines of a file; None where the name can only be that of a session."""
    path = Path(recording)
    if path.is_file():
        return path.read_bytes().splitlines()
    if os.sep in recording or path.suffix or not journal_file().exists():
        raise InputError(
            f"there is no recording {recording}",
            guidance="Name a file in JSON Lines, or a session as `dragoman sessions list` shows them.",
        )
    return None


async def _lines_of_session(name: str) -> Sequence[bytes]:
    async with open_existing() as journal:
        session = find_session(await journal.sessions(), name)
        return [line async for line in export(journal, session.id)]


def _is_stream(descriptor: int) -> bool:
    """Files and /dev/null cannot be waited on, so a client is never at their other end."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
