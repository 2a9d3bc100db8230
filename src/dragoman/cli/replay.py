"""`dragoman replay`: a recorded session as an agent on stdin and stdout, for any ACP client."""

from __future__ import annotations

from typing import Literal

import click

EPILOG = """\b
Examples:
  dragoman replay talk.jsonl               an agent that says what was recorded
  dragoman run --agent-command "dragoman replay --by-order talk.jsonl" "hello"
  dragoman replay --speed now 3f9a21       a session of the journal, by its id
  dragoman replay -                        the latest session

\b
In an editor, set `dragoman` as the agent's command and `replay`, `--by-order`,
`FILE` as its arguments. To record an agent:
  python -m dragoman.testing.tee talk.jsonl -- my-agent --acp"""


@click.command(epilog=EPILOG, short_help="Play a recorded session back, as an ACP agent.")
@click.argument("recording", metavar="FILE|SESSION")
@click.option(
    "--speed",
    type=click.Choice(["real", "now"]),
    default="real",
    show_default=True,
    help="With the pauses of the recording, or at once.",
)
@click.option(
    "--strict/--by-order",
    default=True,
    help="A prompt that is not the recorded one is an error that shows the difference [default]; or: the next "
    "recorded turn answers whatever is asked.",
)
@click.option(
    "--connection",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Of a file with several connections, the one whose sessions are opened. [default: 1]",
)
def replay(recording: str, speed: Literal["real", "now"], strict: bool, connection: int) -> int:
    """Play a recorded session back to any ACP client, on stdin and stdout.

    FILE is a recording in JSON Lines; SESSION is one of the journal: its id, the beginning of it, or "-" for the
    latest. No model is asked and no agent is needed.
    """
    from dragoman.agents.replay.act import Manner
    from dragoman.cli.replay_serve import serve

    return serve(recording, Manner(strict=strict, real=speed == "real"), connection)
