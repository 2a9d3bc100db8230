"""`dragoman sessions list`, `delete` and `resume`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.command import (
    NOT_REPORTED,
    UNLIMITED_WIDTH,
    Table,
    async_command,
    count,
    end_of,
    folder,
    how_long_ago,
    journal_file,
    note,
    open_readonly,
    print_error,
    print_json,
    styled,
    when,
    width,
)
from dragoman.cli.figures import cost_part
from dragoman.cli.options import agent_filter, env_option, json_option, limit_option, since_option, workspace_filter
from dragoman.cli.output import STDIN
from dragoman.cli.plan import RunOptions
from dragoman.cli.progress import Progress
from dragoman.cli.session_filter import State, filter_sessions, is_open_elsewhere, parse_time, state_of
from dragoman.cli.text import columns, one_line, plain
from dragoman.errors import DragomanError, InputError
from dragoman.journal.rows import Session, SessionSummary
from dragoman.journal.sessions import descendants, find_session, session_name, short_ids, top_level
from dragoman.record.rows import Usage

LIST_EPILOG = """\b
Examples:
  dragoman sessions list
  dragoman sessions list --workspace . --since yesterday
  dragoman sessions list -n 0 --json | jq -r '.[].id'"""

RESUME_EPILOG = """\b
Examples:
  dragoman sessions resume -
  dragoman sessions resume 3f9a1c "Now add a test for it"

For more options, see `dragoman run --resume ID` and `dragoman chat --resume ID`."""

DELETE_EPILOG = """\b
Examples:
  dragoman sessions delete 3f9a1c
  dragoman sessions delete --yes 3f9a1c 07be52

Frames, rows and search index are removed from the file and overwritten. Only a
note that the session was deleted stays, so that it is not imported again."""

# Columns of a terminal that a table needs, and that it needs to show the cost and the workspace as well.
_MIN_TABLE_COLUMNS: Final = 60
_COST_COLUMNS: Final = 90
_WORKSPACE_COLUMNS: Final = 110


class Listed(msgspec.Struct, frozen=True):
    """A session as the list shows it."""

    session: Session
    short: str
    state: State
    known: SessionSummary

    @property
    def usage(self) -> Usage:
        return self.known.state.usage if self.known.state is not None else Usage()


@click.command("list", epilog=LIST_EPILOG)
@agent_filter
@workspace_filter
@since_option
@limit_option
@click.option("--sub-agents", is_flag=True, help="Include sessions of sub-agents.")
@json_option
@async_command
async def list_(
    *, agent: str | None, workspace: str | None, since: str | None, limit: int, sub_agents: bool, as_json: bool
) -> None:
    """List sessions, latest first."""
    after = parse_time(since, "--since", datetime.now().astimezone())
    async with open_readonly() as journal:
        every = await journal.sessions()
        matched = filter_sessions(every, agent=agent, workspace=workspace, since=after)
        own = {one.id for one in top_level(every)}
        found = matched if sub_agents else [one for one in matched if one.id in own]
        shown = found[:limit] if limit else found
        short, known = short_ids(every), await journal.summaries([one.id for one in shown])
        listed = [Listed(one, short[one.id], await state_of(journal, one), known[one.id]) for one in shown]
    if as_json:
        return print_json([_record(one) for one in listed])
    if not listed:
        return note(_no_sessions_note(bool(every)))
    print_sessions(listed, width(), time.time())
    if len(shown) < len(found):
        left = len(found) - len(shown)
        note(f"{left:,} older session{'s are' if left > 1 else ' is'} not shown: -n 0 lists all.")
    if hidden := len(matched) - len(found):
        note(f"{hidden:,} sub-agent{'s are' if hidden > 1 else ' is'} not shown: --sub-agents lists them too.")
    return None


def _no_sessions_note(has_sessions: bool) -> str:
    if has_sessions:
        return "No session matches. `dragoman sessions list` without options lists all."
    return (
        f'No sessions yet in {folder(str(journal_file()))}. Try: dragoman run "hello".'
        " To import Claude Code and Codex history: dragoman import"
    )


def _record(one: Listed) -> dict[str, object]:
    session, usage = one.session, one.usage
    return {
        "id": session.id,
        "title": session.title,
        "prompt": session.prompt,
        "agent": session.agent,
        "agent_session_id": session.agent_session_id,
        "workspace": session.cwd,
        "folders": session.folders,
        "created": session.created,
        "updated": session.updated,
        "state": one.state,
        "last_run": session.status,
        "runs": session.runs,
        "frames": session.frames,
        "cost": usage.cost,
        "parent": session.parent,
    }


def print_sessions(listed: Sequence[Listed], room: int, now: float) -> None:
    """A table; on a terminal with the time relative to now, and with the columns that there is room for."""
    if room < _MIN_TABLE_COLUMNS:
        for one in listed:
            _print_card(one, room, now)
        return
    is_terminal = room < UNLIMITED_WIDTH
    headings = ["id", "last used", "agent", "state"]
    headings += ["cost"] if room >= _COST_COLUMNS else []
    headings += ["workspace"] if room >= _WORKSPACE_COLUMNS else []
    table = Table()
    for heading in headings:
        table.add_column(heading, right=heading == "cost")
    table.add_column("title", shrinks=True)
    for one in listed:
        cells = {
            "id": one.short,
            "last used": how_long_ago(one.session.updated, now) if is_terminal else when(one.session.updated),
            "agent": one_line(one.session.agent or NOT_REPORTED, 16),
            "state": one.state,
            "cost": cost_part(one.usage) or NOT_REPORTED,
            "workspace": end_of(folder(one.session.cwd) or NOT_REPORTED, min(room // 4, 40) if is_terminal else room),
        }
        styles = {0: "bold", **({3: "green"} if one.state == "running" else {})}
        title = one_line(session_name(one.session), room)
        table.add_row(*(cells[heading] for heading in headings), title, styles=styles)
    table.print()


def _print_card(one: Listed, room: int, now: float) -> None:
    """Three lines for a session, where the terminal is too narrow for a table."""
    state = one.state if one.state != "running" else styled(one.state, fg="green")
    click.echo(f"{styled(one.short, bold=True)}  {how_long_ago(one.session.updated, now)}  {state}")
    click.echo(f"  {one_line(session_name(one.session), room - 3)}")
    parts = [plain(one.session.agent), folder(one.session.cwd), cost_part(one.usage)]
    click.echo(styled(f"  {one_line(' · '.join(part for part in parts if part), room - 3)}", dim=True))


@click.command(epilog=DELETE_EPILOG)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@async_command
async def delete(*, ids: Sequence[str], yes: bool) -> int:
    """Delete sessions permanently."""
    async with open_readonly() as journal:
        every = await journal.sessions()
        named = [find_session(every, wanted) for wanted in ids]
        chosen = list({one.id: one for one in (*named, *descendants(every, [one.id for one in named]))}.values())
        for one in chosen:
            if await is_open_elsewhere(journal, one.id):
                raise InputError(
                    f"session {one.id} is open in another process", guidance="End it there first, then delete it."
                )
        if not yes and not _is_confirmed(chosen, short_ids(every)):
            note("Nothing was deleted.")
            return exits.AGENT_FAILED
        with Progress("deleting", len(chosen), unit="sessions") as progress:
            for one in progress.each(chosen):
                await journal.delete(one.id, at=time.time(), by="person")
    click.echo(f"Deleted {count(len(chosen), 'session')}.")
    return exits.DONE


def _is_confirmed(chosen: Sequence[Session], short: dict[str, str]) -> bool:
    if not os.isatty(STDIN):
        raise InputError("there is no terminal to ask for confirmation", guidance="Use --yes to delete without asking.")
    for one in chosen:
        line = f"{short[one.id]}  {when(one.updated)}  {plain(one.agent)}  "
        click.echo(line + one_line(session_name(one), max(20, min(width(), 120) - columns(line) - 1)), err=True)
    which = "this session" if len(chosen) == 1 else f"these {len(chosen)} sessions"
    return click.confirm(f"Delete {which} permanently?", err=True)


@click.command(epilog=RESUME_EPILOG)
@click.argument("session", metavar="ID")
@click.argument("prompt", nargs=-1)
@click.option("--access", metavar="LEVEL", help="What the agent may do without asking. [default: as before]")
@env_option
def resume(*, session: str, prompt: Sequence[str], access: str | None, env: Sequence[str]) -> int:
    """Resume a session: with a PROMPT as `dragoman run`, without one as `dragoman chat`."""
    try:
        session_id = asyncio.run(_id_of(session))
    except DragomanError as error:
        return print_error(error)
    options = RunOptions(resume=session_id, prompt=tuple(prompt), access=access, env=tuple(env))
    if prompt:
        from dragoman.cli.run import run_prompt

        return run_prompt(options)
    from dragoman.cli.chat.chat import start_chat

    return start_chat(options)


async def _id_of(wanted: str) -> str:
    async with open_readonly() as journal:
        return find_session(await journal.sessions(), wanted).id
