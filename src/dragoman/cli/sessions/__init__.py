"""`dragoman sessions`: the group; each command is in a module of its own."""

from __future__ import annotations

import click

from dragoman.cli.main import LazyGroup

EPILOG = """\b
Examples:
  dragoman sessions list --agent claude --since 7d
  dragoman sessions show
  dragoman sessions search timeout --kind tool
  dragoman sessions resume 3f9a1c "Now add a test for it"
  dragoman sessions export 3f9a1c -o talk.md

\b
ID is a session's id, or its first characters; `-` is the latest session.
See docs/sessions.md."""

COMMANDS = {
    "list": ("dragoman.cli.sessions.list:list_", "List sessions, latest first."),
    "show": ("dragoman.cli.sessions.show:show", "Show a conversation."),
    "search": ("dragoman.cli.sessions.list:search", "Search messages, tool calls, files and commands."),
    "rename": ("dragoman.cli.sessions.list:rename", "Give a session a title."),
    "resume": ("dragoman.cli.sessions.list:resume", "Resume a session."),
    "export": ("dragoman.cli.sessions.show:export", "Export a session as Markdown, JSON or JSON Lines."),
    "delete": ("dragoman.cli.sessions.list:delete", "Delete sessions permanently."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, epilog=EPILOG)
def sessions() -> None:
    """List, show, search, resume and delete sessions, with any agent."""
