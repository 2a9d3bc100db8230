"""`dragoman sessions search`: full-text search over all sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, get_args

import click

from dragoman.cli.command import (
    async_command,
    end_of,
    journal_file,
    note,
    open_readonly,
    print_json,
    styled,
    when,
    width,
)
from dragoman.cli.options import agent_filter, json_option, limit_option, since_option, until_option, workspace_filter
from dragoman.cli.session_filter import parse_time, workspace_of
from dragoman.cli.text import columns, cut, one_line, plain
from dragoman.errors import InputError
from dragoman.journal.rows import DocumentKind, Session
from dragoman.journal.search_documents import MAX_RANKED, SearchHit, SearchQuery
from dragoman.journal.sessions import session_name, short_ids

SEARCH_EPILOG = """\b
Examples:
  dragoman sessions search timeout retry
  dragoman sessions search "connection refused" --agent codex
  dragoman sessions search main.py --kind tool --since 30d
  dragoman sessions search parser --json | jq -r '.[].session'

All words must occur, in any order, also as parts of words. Quoted words are
searched as a phrase. Case does not matter."""

KINDS: Final[tuple[DocumentKind, ...]] = get_args(DocumentKind)
# Columns: a shorter title says nothing.
_MIN_TITLE_COLUMNS: Final = 12
_SPACES: Final = re.compile(r"\s+")


@click.command(epilog=SEARCH_EPILOG)
@click.argument("words", nargs=-1, required=True)
@agent_filter
@workspace_filter
@click.option(
    "--kind",
    multiple=True,
    type=click.Choice(["user", "assistant", "thought", "tool", "file", "command"]),
    help="Only in messages of you or the agent, its thoughts, tool calls, files or commands.",
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
            limit=limit or MAX_RANKED,  # more are never ranked
        )
        hits = await journal.search(query)
    sessions = {one.id: one for one in every}
    if as_json:
        return print_json([_record(hit, sessions[hit.session_id]) for hit in hits if hit.session_id in sessions])
    if not hits:
        if every:
            return note("No matches. All words must occur in one message or tool call.")
        return note(f"No sessions yet in {journal_file()}.")
    short = short_ids(every)
    for number, hit in enumerate(hits):
        if hit.session_id in sessions:  # else it was deleted a parse_time ago
            if number:
                click.echo()
            _print(hit, sessions[hit.session_id], short[hit.session_id])
    note("", f"To show one: dragoman sessions show {short[hits[0].session_id]}")
    return None


def _query_text(words: Sequence[str]) -> str:
    """Make the query; a word with spaces, quoted in the shell, is searched as a phrase."""
    query = " ".join(f'"{word}"' if " " in word and '"' not in word else word for word in words).strip()
    if not query.strip('" '):
        raise InputError("nothing to search for", guidance="For example: dragoman sessions search timeout")
    return query


def _record(hit: SearchHit, session: Session) -> dict[str, object]:
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


def _print(hit: SearchHit, session: Session, short: str) -> None:
    room = width()
    facts = cut(f"  {when(hit.at)}  {plain(session.agent)}  {hit.kind}", room - columns(short) - 1)
    left = room - columns(short) - columns(facts) - 3
    title = f"  {one_line(session_name(session), left)}" if left >= _MIN_TITLE_COLUMNS else ""
    click.echo(f"{styled(short, bold=True)}{styled(facts, dim=True)}{title}")
    click.echo("".join(_highlighted(hit, room - 3)).rstrip())


def _highlighted(hit: SearchHit, room: int) -> Iterator[str]:
    """The snippet on one line, as much of it as fits; each part is made safe by itself."""
    yield "  "
    for number, (text, marked) in enumerate(_parts(hit)):
        # The text before the match leaves most of the room to it.
        shown = end_of(text, room // 3) if number == 0 else cut(text, room)
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
