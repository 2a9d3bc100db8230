"""`dragoman journal`: its commands. What they do is `journal_report`'s, loaded when there is something to do."""

from __future__ import annotations

from typing import Any

import click

EPILOG = """\b
Examples:
  dragoman journal path
  dragoman journal verify
  dragoman journal export -o backup.jsonl
  dragoman journal import recording.jsonl --agent claude

\b
Every frame to and from every agent is in it; docs/journal.md describes it."""

PATH_EPILOG = """\b
Examples:
  dragoman journal path
  sqlite3 "$(dragoman journal path)" 'SELECT kind, frame FROM frames LIMIT 5'"""

VERIFY_EPILOG = """\b
Examples:
  dragoman journal verify && echo all is well

The exit code is 1 where something is wrong."""

REBUILD_EPILOG = """\b
Examples:
  dragoman journal rebuild
  dragoman journal rebuild 3f9a1c"""

EXPORT_EPILOG = """\b
Examples:
  dragoman journal export -o backup.jsonl
  dragoman journal export | gzip > backup.jsonl.gz"""

IMPORT_EPILOG = """\b
Examples:
  dragoman journal import backup.jsonl --trust
  dragoman journal import recording.jsonl --agent claude
  zcat backup.jsonl.gz | dragoman journal import -

What a file claims that Dragoman itself noted is believed with --trust alone.
A session that is here already, or was deleted here, is left as it is."""

VACUUM_EPILOG = """\b
Examples:
  dragoman journal compress && dragoman journal vacuum"""

COMPRESS_EPILOG = """\b
Examples:
  dragoman journal compress
  dragoman journal compress 3f9a1c 07be52

Frames read as before, byte by byte. The room is given back by vacuum."""


@click.group(epilog=EPILOG, short_help="Look after the journal: verify, rebuild, export, import, vacuum.")
def journal() -> None:
    """Look after the journal, in which all is kept that is said."""


@journal.command(epilog=PATH_EPILOG, short_help="Where it is.")
def path() -> int:
    """Print the path of the journal's file, whether or not it is there yet."""
    from dragoman.cli.journal_report import run_path

    return run_path()


@journal.command(epilog=VERIFY_EPILOG, short_help="Check it: the file, and that all rows are what frames say.")
def verify() -> int:
    """Check the file, and that every row is what the frames say."""
    from dragoman.cli.journal_report import run_verify

    return run_verify()


@journal.command(epilog=REBUILD_EPILOG, short_help="Make the rows anew from the frames.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
def rebuild(**given: Any) -> int:
    """Make the rows of these sessions, or of all, anew from their frames."""
    from dragoman.cli.journal_report import run_rebuild

    return run_rebuild(**given)


@journal.command(epilog=EXPORT_EPILOG, short_help="All of it as JSON Lines.")
@click.option("-o", "--output", metavar="FILE", help="Where to. [default: stdout]")
def export(**given: Any) -> int:
    """Write all of it as JSON Lines; `dragoman sessions export` writes one session."""
    from dragoman.cli.journal_report import run_export

    return run_export(**given)


@journal.command("import", epilog=IMPORT_EPILOG, short_help="Take in exports and recordings.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-a", "--agent", metavar="AGENT", default="", help="Whose recording it is; an export says so itself.")
@click.option("--trust", "trusted", is_flag=True, help="It is an export of your own: believe all of it.")
def import_(**given: Any) -> int:
    """Take in exports and recordings; `-` is standard input."""
    from dragoman.cli.journal_report import run_import

    return run_import(**given)


@journal.command(epilog=VACUUM_EPILOG, short_help="Give back room that is not used.")
def vacuum() -> int:
    """Give back to the disk what is not used any more."""
    from dragoman.cli.journal_report import run_vacuum

    return run_vacuum()


@journal.command(epilog=COMPRESS_EPILOG, short_help="Store sessions that are at rest smaller.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
def compress(**given: Any) -> int:
    """Store these sessions, or all that no process has open, smaller."""
    from dragoman.cli.journal_report import run_compress

    return run_compress(**given)
