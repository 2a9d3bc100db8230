"""`dragoman sessions list`, `search`, `rename`, `resume` and `delete`."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, get_args

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.command import (
    NOT_REPORTED,
    UNLIMITED_WIDTH,
    State,
    Table,
    async_command,
    confirm,
    count,
    end_of,
    folder,
    how_long_ago,
    is_open_elsewhere,
    journal_file,
    note,
    open_readonly,
    print_json,
    state_of,
    styled,
    sync_command,
    usable_settings,
    when,
    width,
)
from dragoman.cli.options import (
    agent_filter,
    complete_access,
    complete_session,
    env_option,
    filter_sessions,
    json_option,
    limit_option,
    parse_time,
    since_option,
    until_option,
    workspace_filter,
    workspace_of,
)
from dragoman.cli.plan import RunOptions
from dragoman.cli.progress import Progress
from dragoman.cli.text import columns, cost_part, one_line, plain, truncate
from dragoman.errors import InputError
from dragoman.journal import notes as journal_notes
from dragoman.journal.rows import DocumentKind, Session, SessionSummary
from dragoman.journal.search_documents import SearchHit, SearchQuery
from dragoman.journal.sessions import descendants, find_session, session_name, short_ids, top_level, worktree_of
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

RENAME_EPILOG = """\b
Examples:
  dragoman sessions rename 3f9a1c "Fix the flaky parser test"
  dragoman sessions rename -"""

# A title is a line in a list.
MAX_TITLE_CHARACTERS: Final = 200

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

_STATE_LOOKS: Final[dict[State, str]] = {"running": "green", "needs you": "yellow", "failed": "red"}


class Listed(msgspec.Struct, frozen=True):
    """A session as the list shows it."""

    session: Session
    short_id: str
    state: State
    usage: Usage


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
        own_ids = {session.id for session in top_level(every)}
        chosen = matched if sub_agents else [session for session in matched if session.id in own_ids]
        shown = chosen[:limit] if limit else chosen
        short, summaries = short_ids(every), await journal.summaries([session.id for session in shown])
        listed = [
            Listed(session, short[session.id], await state_of(journal, session), _usage(summaries[session.id]))
            for session in shown
        ]
    if as_json:
        return print_json([_record(entry) for entry in listed])
    if not listed:
        return note(_no_sessions_note(bool(every)))
    print_sessions(listed, width(), time.time())
    if left := len(chosen) - len(shown):
        note(f"{left:,} older session{'s are' if left > 1 else ' is'} not shown: -n 0 lists all.")
    if hidden := len(matched) - len(chosen):
        note(f"{hidden:,} sub-agent{'s are' if hidden > 1 else ' is'} not shown: --sub-agents lists them too.")
    return None


def _usage(summary: SessionSummary) -> Usage:
    return summary.state.usage if summary.state is not None else Usage()


def _no_sessions_note(has_sessions: bool) -> str:
    if has_sessions:
        return "No session matches. `dragoman sessions list` without options lists all."
    return (
        f'No sessions yet in {folder(str(journal_file()))}. Try: dragoman run "hello".'
        " To import Claude Code and Codex history: dragoman import"
    )


def _record(entry: Listed) -> dict[str, object]:
    session = entry.session
    return {
        "id": session.id,
        "title": session.title,
        "prompt": session.prompt,
        "agent": session.agent,
        "agent_session_id": session.agent_session_id,
        "workspace": session.cwd,
        "folders": session.folders,
        "worktree": worktree_of(session),
        "created": session.created,
        "updated": session.updated,
        "state": entry.state,
        "last_run": session.status,
        "runs": session.runs,
        "frames": session.frames,
        "cost": entry.usage.cost,
        "parent": session.parent,
        "forked_from": session.forked_from,
    }


def print_sessions(listed: Sequence[Listed], room: int, now: float) -> None:
    """Print a table; on a terminal with the time relative to now, and with the columns that there is room for."""
    if room < _MIN_TABLE_COLUMNS:
        for entry in listed:
            _print_card(entry, room, now)
        return
    is_terminal = room < UNLIMITED_WIDTH
    headings = ["id", "last used", "agent", "state"]
    headings += ["cost"] if room >= _COST_COLUMNS else []
    headings += ["workspace"] if room >= _WORKSPACE_COLUMNS else []
    table = Table()
    for heading in headings:
        table.add_column(heading, right=heading == "cost")
    table.add_column("title", shrinks=True)
    for entry in listed:
        cells = {
            "id": entry.short_id,
            "last used": how_long_ago(entry.session.updated, now) if is_terminal else when(entry.session.updated),
            "agent": one_line(entry.session.agent or NOT_REPORTED, 16),
            "state": entry.state,
            "cost": cost_part(entry.usage) or NOT_REPORTED,
            "workspace": _workspace(entry.session, min(room // 4, 40) if is_terminal else room),
        }
        styles = {0: "bold", 3: _STATE_LOOKS.get(entry.state, "")}
        title = one_line(session_name(entry.session), room)
        table.add_row(*(cells[heading] for heading in headings), title, styles=styles)
    table.print()


def _workspace(session: Session, room: int) -> str:
    """Return the folder of a session; for one in a worktree, its name."""
    if (name := worktree_of(session)) is not None:
        return end_of(f"worktree {name}", room)
    return end_of(folder(session.cwd) or NOT_REPORTED, room)


def _print_card(entry: Listed, room: int, now: float) -> None:
    """Print three lines for a session, where the terminal is too narrow for a table."""
    colour = _STATE_LOOKS.get(entry.state)
    state = styled(entry.state, fg=colour) if colour else entry.state
    click.echo(f"{styled(entry.short_id, bold=True)}  {how_long_ago(entry.session.updated, now)}  {state}")
    click.echo(f"  {one_line(session_name(entry.session), room - 3)}")
    parts = [plain(entry.session.agent), folder(entry.session.cwd), cost_part(entry.usage)]
    click.echo(styled(f"  {one_line(' · '.join(part for part in parts if part), room - 3)}", dim=True))


@click.command(epilog=DELETE_EPILOG)
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_session)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@async_command
async def delete(*, ids: Sequence[str], yes: bool) -> int:
    """Delete sessions permanently."""
    async with open_readonly() as journal:
        every = await journal.sessions()
        named = [find_session(every, session_id) for session_id in ids]
        below = descendants(every, [session.id for session in named])
        chosen = list({session.id: session for session in (*named, *below)}.values())
        for session in chosen:
            if await is_open_elsewhere(journal, session.id):
                raise InputError(
                    f"session {session.id} is open in another process", guidance="End it there first, then delete it."
                )
        if not yes and not _is_confirmed(chosen, short_ids(every)):
            note("Nothing was deleted.")
            return exits.AGENT_FAILED
        from dragoman.hub.hub import forget_checkpoints, remove_unused_homes  # it loads what a list does without

        with Progress("deleting", len(chosen), unit="sessions") as progress:
            for session in progress.each(chosen):
                await forget_checkpoints(session, usable_settings())
                await journal.delete(session.id, at=time.time(), by="person")
        await remove_unused_homes(journal, usable_settings())
    click.echo(f"Deleted {count(len(chosen), 'session')}.")
    return exits.DONE


def _is_confirmed(chosen: Sequence[Session], short: dict[str, str]) -> bool:
    lines = []
    for session in chosen:
        line = f"{short[session.id]}  {when(session.updated)}  {plain(session.agent)}  "
        lines.append(line + one_line(session_name(session), max(20, min(width(), 120) - columns(line) - 1)))
    which = "this session" if len(chosen) == 1 else f"these {len(chosen)} sessions"
    return confirm(f"Delete {which} permanently?", action="delete", details=lines)


@click.command(epilog=RENAME_EPILOG)
@click.argument("session", metavar="ID", shell_complete=complete_session)
@click.argument("title", nargs=-1)
@async_command
async def rename(*, session: str, title: Sequence[str]) -> None:
    """Give a session a title; without a TITLE, the agent's own comes back."""
    from dragoman.hub.hub import Hub

    text = " ".join(" ".join(title).split())
    if len(text) > MAX_TITLE_CHARACTERS:
        raise InputError(f"a title has at most {MAX_TITLE_CHARACTERS} characters; this one has {len(text)}")
    async with open_readonly() as journal:
        found = find_session(await journal.sessions(), session)
        # In a running server the session's owner stores the note.
        if await is_open_elsewhere(journal, found.id):
            raise InputError(
                f"session {found.id} is open in another process", guidance="Rename it there, or close it first."
            )
    async with Hub(config=usable_settings()) as hub:
        note_ = journal_notes.write(journal_notes.SessionRenamed(title=text))
        await hub.note(found.id, lambda record: [note_])
        row = await hub.find(found.id)
    click.echo(f"{found.id}: {one_line(session_name(row), max(20, width() - len(found.id) - 3))}")


@click.command(epilog=RESUME_EPILOG)
@click.argument("session", metavar="ID", shell_complete=complete_session)
@click.argument("prompt", nargs=-1)
@click.option(
    "--access",
    metavar="LEVEL",
    shell_complete=complete_access,
    help="What the agent may do without asking. [default: as before]",
)
@env_option
@sync_command
def resume(*, session: str, prompt: Sequence[str], access: str | None, env: Sequence[str]) -> int:
    """Resume a session: with a PROMPT as `dragoman run`, without one as `dragoman chat`."""
    options = RunOptions(resume=asyncio.run(_id_of(session)), prompt=tuple(prompt), access=access, env=tuple(env))
    if prompt:
        from dragoman.cli.run import run_prompt

        return run_prompt(options)
    from dragoman.cli.chat.chat import start_chat

    return start_chat(options)


async def _id_of(session: str) -> str:
    async with open_readonly() as journal:
        return find_session(await journal.sessions(), session).id


SEARCH_EPILOG = """\b
Examples:
  dragoman sessions search timeout retry
  dragoman sessions search "connection refused" --agent codex
  dragoman sessions search main.py --kind tool --since 30d
  dragoman sessions search parser --json | jq -r '.[].session'

All words must occur, in any order, also as parts of words. Quoted words are
searched as a phrase. Case does not matter."""

# Columns: a shorter title says nothing.
_MIN_TITLE_COLUMNS: Final = 12
# Columns of the longest kind of hit.
_KIND_COLUMNS: Final = max(map(len, get_args(DocumentKind)))
_SPACES: Final = re.compile(r"\s+")


@click.command(epilog=SEARCH_EPILOG)
@click.argument("words", nargs=-1, required=True)
@agent_filter
@workspace_filter
@click.option(
    "--kind",
    multiple=True,
    type=click.Choice(get_args(DocumentKind)),
    help="Search only your messages, the agent's messages or thoughts, tool calls, files or commands; may be repeated.",
)
@since_option
@until_option
@limit_option
@json_option
@async_command
async def search(
    *,
    words: Sequence[str],
    agent: str | None,
    workspace: str | None,
    kind: Sequence[DocumentKind],
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Search messages, tool calls, files and commands of all sessions, best matches first."""
    now = datetime.now().astimezone()
    after, before = parse_time(since, "--since", now), parse_time(until, "--until", now, end=True)
    text = _query_text(words)
    async with open_readonly() as journal:
        every = await journal.sessions()
        query = SearchQuery(
            text=text,
            agent=agent,
            cwd=workspace_of(every, workspace),
            kinds=kind,
            since=after,
            until=before,
            limit=limit or None,
        )
        hits = await journal.search(query)
    sessions = {session.id: session for session in every}
    more = f"There are more than these {len(hits):,} matches: -n 0 shows all." if hits.is_cut else ""
    if as_json:
        print_json([_hit_record(hit, sessions[hit.session_id]) for hit in hits if hit.session_id in sessions])
        return note(more) if more else None
    if not hits:
        if every:
            return note("No matches. All words must occur in one message or tool call.")
        return note(f"No sessions yet in {journal_file()}.")
    short = short_ids(every)
    groups = [group for group in grouped_hits(hits) if group[0].session_id in sessions]  # else deleted a moment ago
    for number, group in enumerate(groups):
        if number:
            click.echo()
        session = sessions[group[0].session_id]
        _print_heading(session, short[session.id])
        for hit in group:
            _print_hit(hit)
    note("", *([more] if more else []), f"To show one: dragoman sessions show {short[hits[0].session_id]}")
    return None


def grouped_hits(hits: Sequence[SearchHit]) -> list[list[SearchHit]]:
    """Group the hits by session, the session of the best hit first. What a tool call and its file say is said once."""
    groups: dict[str, dict[str, SearchHit]] = {}
    for hit in hits:
        groups.setdefault(hit.session_id, {}).setdefault(_matched_line(hit), hit)
    return [list(group.values()) for group in groups.values()]


def _matched_line(hit: SearchHit) -> str:
    """Return the line of the snippet with the first match; of a path, the file's name."""
    at = hit.marks[0][0] if hit.marks else 0
    begin = hit.snippet.rfind("\n", 0, at) + 1
    line = hit.snippet[begin:].split("\n", 1)[0].strip()
    return line.rpartition("/")[2] if " " not in line else line


def _query_text(words: Sequence[str]) -> str:
    """Make the query; a word with spaces, quoted in the shell, is searched as a phrase."""
    query = " ".join(f'"{word}"' if " " in word and '"' not in word else word for word in words).strip()
    if not query.strip('" '):
        raise InputError("nothing to search for", guidance="For example: dragoman sessions search timeout")
    return query


def _hit_record(hit: SearchHit, session: Session) -> dict[str, object]:
    return {
        "session": hit.session_id,
        "title": session.title,
        "prompt": session.prompt,
        "agent": session.agent,
        "workspace": session.cwd,
        "row": hit.row_id,
        "kind": hit.kind,
        "time": hit.at,
        "snippet": hit.snippet,
        "marks": hit.marks,
        "score": hit.score,
    }


def _print_heading(session: Session, short: str) -> None:
    room = width()
    facts = truncate(f"  {when(session.updated)}  {plain(session.agent)}", room - columns(short) - 1)
    left = room - columns(short) - columns(facts) - 3
    title = f"  {one_line(session_name(session), left)}" if left >= _MIN_TITLE_COLUMNS else ""
    click.echo(f"{styled(short, bold=True)}{styled(facts, dim=True)}{title}")


def _print_hit(hit: SearchHit) -> None:
    kind = f"  {hit.kind:<{_KIND_COLUMNS}}  "
    click.echo(f"{styled(kind, dim=True)}{''.join(_highlighted(hit, width() - columns(kind) - 1))}".rstrip())


def _highlighted(hit: SearchHit, room: int) -> Iterator[str]:
    """Show as much of the snippet as fits on one line; each part is made safe by itself."""
    for number, (text, marked) in enumerate(_parts(hit)):
        # The text before the match leaves most of the room to it.
        shown = end_of(text, room // 3) if number == 0 else truncate(text, room)
        room -= columns(shown)
        yield styled(shown, fg="yellow", bold=True) if marked else shown
        if room <= 0 or (number and shown != text):
            return


def _parts(hit: SearchHit) -> Iterator[tuple[str, bool]]:
    at = 0
    for begin, end in (*hit.marks, (len(hit.snippet), len(hit.snippet))):
        yield _flat(hit.snippet[at:begin]), False
        yield _flat(hit.snippet[begin:end]), True
        at = end


def _flat(text: str) -> str:
    """Remove line ends; spaces at its edges stay."""
    return _SPACES.sub(" ", plain(text))
