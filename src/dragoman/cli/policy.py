"""`dragoman policy`: its commands. What they do is `policy_report`'s, which is loaded when there is something to do."""

from __future__ import annotations

from typing import Any

import click

EPILOG = """\b
Examples:
  dragoman policy test "git push origin main"
  dragoman policy list
  dragoman policy revoke 3f9a1c

\b
Your own rules are tables [[policy]] in config.toml in ~/.dragoman (or
DRAGOMAN_HOME): answer = "deny", path = "**/.env". docs/policy.md tells more."""

TEST_EPILOG = """\b
Examples:
  dragoman policy test "npm test && npm publish"
  dragoman policy test --access edit-inside --kind edit --path .git/config
  dragoman policy test -a claude --url https://example.org/
  dragoman policy test '{"kind": "other", "name": "mcp__note__echo"}'
  dragoman policy test --json "rm -rf build" | jq -r .decision"""

LIST_EPILOG = """\b
Examples:
  dragoman policy list
  dragoman policy list --all --json | jq -r '.remembered[].id'"""

REVOKE_EPILOG = """\b
Examples:
  dragoman policy revoke 3f9a1c
  dragoman policy revoke 3f9a1c 07be52"""

TRUST_EPILOG = """\b
Examples:
  dragoman policy trust
  dragoman policy trust ~/src/project"""

UNTRUST_EPILOG = """\b
Examples:
  dragoman policy untrust
  dragoman policy untrust ~/src/project"""

_CWD = click.option("--cwd", metavar="DIR", help="The workspace. [default: the current folder]")
_ACCESS = click.option(
    "--access", metavar="LEVEL", help="read-only, ask, edit-inside or full. [default: as configured]"
)
_JSON = click.option("--json", "as_json", is_flag=True, help="As JSON.")
_FOLDER = click.argument("folder", metavar="[DIR]", required=False)


@click.group(epilog=EPILOG, short_help="What agents may do: test rules, list them, revoke and trust.")
def policy() -> None:
    """What agents may do unasked, what they may not, and by which rule."""


@policy.command("test", epilog=TEST_EPILOG, short_help="Which rule answers a command or tool call, and why.")
@click.argument("what", required=False)
@click.option("--tool-call", metavar="JSON", help="A tool call as agents report it; WHAT may be one, too.")
@click.option("--path", metavar="PATH", multiple=True, help="A file that is read or written.")
@click.option("--url", metavar="URL", help="An address that is fetched.")
@click.option("--kind", metavar="KIND", help="What the agent calls it: read, edit, delete, move, execute, … ")
@click.option("--tool", metavar="NAME", help="The tool's name.")
@click.option("-a", "--agent", metavar="AGENT", help="Which agent asks. [default: the one configured]")
@click.option("--add-dir", metavar="DIR", multiple=True, help="One more folder of the workspace.")
@_ACCESS
@_CWD
@_JSON
def test_(**given: Any) -> int:
    """Tell which rule answers, and why: effect by effect.

    WHAT is a command line, or a tool call as JSON. Nothing is run.
    """
    from dragoman.cli.policy_report import run_test

    return run_test(**given)


@policy.command("list", epilog=LIST_EPILOG, short_help="The rules in force, and where each of them stands.")
@click.option("--all", "everywhere", is_flag=True, help="Also what is remembered of other workspaces.")
@_ACCESS
@_CWD
@_JSON
def list_(**given: Any) -> int:
    """List the rules in force: the weakest layer first, each rule with where it stands."""
    from dragoman.cli.policy_report import run_list

    return run_list(**given)


@policy.command(epilog=REVOKE_EPILOG, short_help='Forget an "always" or a "never".')
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@_JSON
def revoke(**given: Any) -> int:
    """Forget what was answered with "always" or "never". `dragoman policy list` shows the ids."""
    from dragoman.cli.policy_report import run_revoke

    return run_revoke(**given)


@policy.command(epilog=TRUST_EPILOG, short_help="Let a workspace's own rules count, as they are now.")
@_FOLDER
@_JSON
def trust(**given: Any) -> int:
    """Let .dragoman/policy.toml of a workspace count, as it is now.

    When it is changed it no longer counts, until it is trusted anew.
    """
    from dragoman.cli.policy_report import run_trust

    return run_trust(**given)


@policy.command(epilog=UNTRUST_EPILOG, short_help="Let a workspace's own rules no longer count.")
@_FOLDER
@_JSON
def untrust(**given: Any) -> int:
    """Let .dragoman/policy.toml of a workspace no longer count."""
    from dragoman.cli.policy_report import run_untrust

    return run_untrust(**given)
