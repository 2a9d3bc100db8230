"""`dragoman sessions show`: a stored conversation on the terminal, in a pipe, or as events."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from dragoman.cli.command import async_command, folder, has_colours, open_readonly, when
from dragoman.cli.conversation import Conversation, InterruptedRun, Prompt, ReplayItem, replay_session
from dragoman.cli.figures import cost_part
from dragoman.cli.output import LOG_WIDTH, STDOUT, Outbox, terminal_width
from dragoman.cli.pieces import Line, Piece, Span
from dragoman.cli.render import Renderer
from dragoman.cli.screen import Screen, colours, markdown_stream, without_colours
from dragoman.cli.session_filter import State, state_of
from dragoman.cli.text import inert_json, one_line, plain
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import Session, SessionSummary
from dragoman.journal.sessions import LATEST, find_session, session_name
from dragoman.record.events import RunStarted, to_json

SHOW_EPILOG = """\b
Examples:
  dragoman sessions show
  dragoman sessions show 3f9a1c --last 1
  dragoman sessions show 3f9a1c | less
  dragoman sessions show 3f9a1c --json | jq -r '.text // empty'"""

_STATES: Final[dict[State, str]] = {"running": "still running", "interrupted": "interrupted", "idle": ""}


class _OneStream(Outbox):
    """Writes everything to stdout: the whole conversation is the output."""

    def put(self, fd: int, data: bytes | str) -> None:
        super().put(STDOUT, data)


@click.command(epilog=SHOW_EPILOG)
@click.argument("session", metavar="[ID]", required=False)
@click.option("--last", metavar="N", type=click.IntRange(min=1), help="Only the last N runs.")
@click.option("--thoughts/--no-thoughts", default=None, help="Show the agent's thoughts. [default: on a terminal]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON event per line, as `dragoman run --json`.")
@async_command
async def show(*, session: str | None, last: int | None, thoughts: bool | None, as_json: bool) -> None:
    """Show a conversation; without an ID, the latest."""
    async with open_readonly() as journal:
        found = find_session(await journal.sessions(), session or LATEST)
        if as_json:
            await _show_events(journal, found, last)
        else:
            await _show(journal, found, last, thoughts)


async def _show_events(journal: Journal, session: Session, last: int | None) -> None:
    """Print the events of `dragoman run --json`, and the prompts."""
    outbox = _OneStream()
    chosen = Last(session.runs, last)
    async for page in replay_session(journal, session):
        lines = [line for one in chosen.of(page) for line in _lines_of(one, session)]
        for line in map(inert_json, lines) if os.isatty(STDOUT) else lines:
            outbox.put(STDOUT, line + b"\n")
        await outbox.flush()


def _lines_of(item: ReplayItem, session: Session) -> list[bytes]:
    match item:
        case Prompt():
            head = {"type": "prompt", "time": item.time, "session_id": session.id, "run_id": item.run_id}
            return [msgspec.json.encode({**head, "text": item.text, "attached": item.attached})]
        case InterruptedRun():
            return [to_json(item.error), to_json(item.end)]
        case _:
            return [to_json(item)]


async def _show(journal: Journal, session: Session, last: int | None, thoughts: bool | None) -> None:
    tty = os.isatty(STDOUT)
    width = terminal_width(STDOUT) or LOG_WIDTH
    screen = Screen(
        _OneStream(),
        text_tty=True,  # text is made safe in a pipe too: it may end on a terminal
        notes_tty=False,
        shared=True,
        width=width if tty else None,
        paint=colours() if has_colours() else without_colours,
        markdown=markdown_stream(width) if tty else None,
    )
    renderer = Renderer(
        cwd=Path(session.cwd or "/"),
        width=width,
        thoughts=tty if thoughts is None else thoughts,
        verbose=False,
        diffs=True,
    )
    conversation = Conversation(renderer)
    known = (await journal.summaries([session.id]))[session.id]
    state = await state_of(journal, session)
    await screen.show(header(session, known, width))
    chosen = Last(session.runs, last)
    async for page in replay_session(journal, session):
        await screen.show(conversation.show(chosen.of(page)))
    await screen.show(conversation.end())
    if _STATES[state] and session.status == "running":
        await screen.show([Line((Span(_STATES[state], "bad" if state == "interrupted" else "bold"),), block="end")])
    screen.end()
    await screen.show(())


class Last:
    """Selects the items of the last runs; all items without `last`."""

    def __init__(self, runs: int, last: int | None) -> None:
        # Runs that have to begin before anything is shown.
        self._awaited = runs - last + 1 if last is not None and runs > last else 0

    def of(self, page: Sequence[ReplayItem]) -> list[ReplayItem]:
        shown = []
        for one in page:
            if self._awaited and isinstance(one, RunStarted):
                self._awaited -= 1
            if not self._awaited:
                shown.append(one)
        return shown


def header(session: Session, known: SessionSummary, width: int) -> list[Piece]:
    cost = cost_part(known.state.usage) if known.state is not None else ""
    runs = f"{session.runs} run{'s' * (session.runs != 1)}"
    parts = [plain(session.agent) or "unknown agent", folder(session.cwd), when(session.updated), runs, cost]
    return [
        Line((Span(one_line(session_name(session), width), "bold"),), block="question"),
        Line((Span(one_line(" · ".join(part for part in parts if part), width), "dim"),), block="question"),
        Line((Span(plain(session.id), "dim"),), block="question"),
    ]
