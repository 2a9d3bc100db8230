"""`dragoman policy`: test rules, list them, revoke remembered answers, trust a workspace's rules."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from dragoman.cli.command import count, note, print_json, styled, sync_command, usable_settings
from dragoman.cli.options import json_option
from dragoman.cli.output import MIN_WIDTH
from dragoman.cli.text import exact, plain
from dragoman.config import Config, home_folder, load
from dragoman.document import nearest
from dragoman.errors import InputError
from dragoman.fileio import folder_key
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy import rulebook
from dragoman.host.policy.access import BUILT_IN
from dragoman.host.policy.guards import default_guards
from dragoman.host.policy.policy import EffectVerdict, describe_rule
from dragoman.host.policy.remembered import Remembered, RememberedRule
from dragoman.host.policy.rulebook import POLICY_FILE, rule_sources
from dragoman.host.policy.rules import KINDS, Layer, PolicyRule, Verdict
from dragoman.host.requests import Requests
from dragoman.workspace import Workspace

EPILOG = """\b
Examples:
  dragoman policy test "git push origin main"
  dragoman policy list
  dragoman policy revoke 3f9a1c

\b
Write your own rules as tables [[policy]] in config.toml, in ~/.dragoman (or
DRAGOMAN_HOME): answer = "deny", path = "**/.env". See docs/policy.md."""
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
  dragoman policy list --guards
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
_FOLDER = click.argument("folder", metavar="[DIR]", required=False)


@click.group(epilog=EPILOG)
def policy() -> None:
    """Test and list permission rules, revoke remembered answers, trust a workspace's rules."""


_COLOURS: Final = {"allow": "green", "deny": "red", "ask": "yellow"}

# Columns: longer lines are harder to read.
_MAX_WIDTH: Final = 120


class Names:
    """Shortens file names: relative to the workspace, or to the home folder."""

    def __init__(self, settings: Config, workspace: Workspace | None = None) -> None:
        inside = [(f"{workspace.cwd}/", "")] if workspace is not None else []
        self._shorter = [(f"{settings.home}/", ""), *inside, (f"{os.path.expanduser('~')}/", "~/")]

    def short(self, text: str) -> str:
        for long, short in self._shorter:
            text = text.replace(f"({long}", f"({short}") if text.startswith(("allow", "ask", "deny")) else text
            text = short + text[len(long) :] if text.startswith(long) else text
        return plain(text)


def print_finding(finding: EffectVerdict, names: Names) -> None:
    click.echo()
    verdict = finding.verdict
    print_wrapped(f"  {styled_answer(verdict.decision)}  ", exact(str(finding.effect)), indent=9)
    by_rule = next((each for each in finding.matches if _is_answer(verdict, *each)), None)
    lines = []
    if by_rule is not None and by_rule[1].source != BUILT_IN:
        lines.append(f"by the rule: {names.short(describe_rule(*by_rule))}, layer {by_rule[0]}")
        lines += [f"because: {by_rule[1].reason}"] * bool(by_rule[1].reason)
    else:
        lines.append(f"because {verdict.reason}" + ("" if verdict.rule or verdict.layer else "; no rule is about it"))
    if finding.effect.unclear:
        lines.append(f"not clear: {finding.effect.unclear}")
    for layer, rule in finding.matches:
        if describe_rule(layer, rule) != verdict.rule:
            lines.append(f"overruled: {names.short(describe_rule(layer, rule))}, layer {layer}")
    for line in lines:
        print_wrapped("         ", plain(line), indent=11)


def _is_answer(verdict: Verdict, layer: Layer, rule: PolicyRule) -> bool:
    return (verdict.layer, verdict.rule) == (layer, describe_rule(layer, rule))


def print_rule(layer: Layer, rule: PolicyRule, names: Names) -> None:
    source = rule.reason if rule.source == BUILT_IN else names.short(rule.source)
    why = f": {rule.reason}" if rule.reason and rule.source != BUILT_IN else ""
    matchers = str(rule).partition(" ")[2]
    print_wrapped(
        f"  {layer:<10}  {styled_answer(rule.answer)}  ", f"{exact(matchers)} ({plain(source + why)})", indent=23
    )


def print_entry(entry: RememberedRule) -> None:
    since = datetime.fromtimestamp(entry.at).astimezone().date().isoformat()
    matchers = str(entry.rule).partition(" ")[2]
    text = f"{exact(matchers)} (since {since}, in {exact(entry.workspace)})"
    print_wrapped(f"  {entry.id}  {styled_answer(entry.rule.answer)}  ", text, indent=18)


def print_notice(notice: str | None) -> None:
    if notice is not None:
        note("", f"dragoman: {notice}")


def styled_answer(answer: str) -> str:
    return styled(f"{answer:<5}", fg=_COLOURS[answer])


def print_wrapped(start: str, text: str, *, indent: int) -> None:
    columns = min(_MAX_WIDTH, max(MIN_WIDTH, shutil.get_terminal_size((_MAX_WIDTH, 24)).columns))
    for line in _wrap(start, text, " " * indent, columns - 1):
        click.echo(line)


def _wrap(start: str, text: str, indent: str, room: int) -> Iterable[str]:
    """Wrap the text behind `start`, which may be coloured; later lines are indented."""
    width = len(click.unstyle(start))
    blank = " " * width
    lines = textwrap.wrap(
        text, room, initial_indent=blank, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    if not lines:
        return [start.rstrip()]
    return [start + lines[0][width:], *lines[1:]]


_EXPLANATION: Final = (
    "Requests without a matching rule are asked. A later layer overrides an earlier one; within a layer, deny goes "
    "before ask, and ask before allow."
)

# Kinds of rules, and the agents' words for them.
_AGENT_KINDS: Final = {"write": "edit", "run": "execute", "mcp": "other"}


@policy.command("test", epilog=TEST_EPILOG)
@click.argument("what", metavar="[REQUEST]", required=False)
@click.option("--tool-call", metavar="JSON", help="A tool call as agents report it; REQUEST may be one too.")
@click.option("--path", metavar="PATH", multiple=True, help="A file that is read or written; may be repeated.")
@click.option("--url", metavar="URL", help="An address that is fetched.")
@click.option("--kind", metavar="KIND", help="Kind of tool call: read, edit, delete, move, execute, …")
@click.option("--tool", metavar="NAME", help="The tool's name.")
@click.option("-a", "--agent", metavar="AGENT", help="The agent that asks. [default: the configured one]")
@click.option("--add-dir", metavar="DIR", multiple=True, help="Another folder of the workspace.")
@_ACCESS
@_CWD
@json_option
@sync_command
def test_(
    *,
    what: str | None,
    tool_call: str | None,
    path: Sequence[str],
    url: str | None,
    kind: str | None,
    tool: str | None,
    agent: str | None,
    add_dir: Sequence[str],
    access: str | None,
    cwd: str | None,
    as_json: bool,
) -> None:
    """Show which rule answers a command or tool call, and why.

    REQUEST is a command line, or a tool call as JSON. Nothing is run.
    """
    settings = load(flags={"access": access, "agent": agent})
    workspace = Workspace(cwd or os.getcwd(), add_dir)
    if what is not None and what.lstrip().startswith("{") and tool_call is None:
        what, tool_call = None, what
    if tool_call is not None:
        if what is not None or path or url or kind or tool:
            raise InputError("a tool call cannot be combined with a command, --path, --url, --kind or --tool")
        request = _of_tool_call(tool_call, settings.agent, workspace)
    else:
        request = _of_options(what, path, url, kind, tool, settings.agent, workspace)
    rules = rule_sources(settings).read(workspace)
    policy = rules.policy(settings.access)
    verdict, findings = policy.judge(request, workspace), policy.explain(request, workspace)
    if as_json:
        effects = [_finding_record(finding) for finding in findings]
        return print_json(
            {
                **_verdict_record(verdict),
                "access": settings.access,
                "effects": effects,
                "notice": rules.workspace_file.notice,
            }
        )
    print_wrapped(
        f"{styled_answer(verdict.decision)}  ", exact(request.title or f"a request of kind {request.kind}"), indent=7
    )
    names = Names(settings, workspace)
    for finding in findings:
        print_finding(finding, names)
    print_notice(rules.workspace_file.notice)
    return None


def _of_tool_call(text: str, agent: str, workspace: Workspace) -> PermissionRequest:
    try:
        call = msgspec.json.decode(text)
        if not isinstance(call, dict):
            raise InputError("the tool call is not a JSON object")
        call = {"toolCallId": "test", **call}
        params = msgspec.Raw(msgspec.json.encode({"sessionId": "test", "toolCall": call, "options": []}))
        return Requests("test", agent, workspace).of_tool_call(params, None)
    except msgspec.MsgspecError as error:
        raise InputError(
            f"the tool call cannot be read: {error}",
            guidance='One looks like this: {"kind": "edit", "title": "Write a", "locations": [{"path": "/w/a"}]}',
        ) from None


def _of_options(
    command: str | None,
    paths: Sequence[str],
    url: str | None,
    kind: str | None,
    tool: str | None,
    agent: str,
    workspace: Workspace,
) -> PermissionRequest:
    if command is None and not paths and url is None and kind is None and tool is None:
        raise InputError(
            "nothing to test",
            guidance='Name a command: dragoman policy test "git push"; or use --path, --url, --kind or --tool-call.',
        )
    if kind is not None and kind not in KINDS:
        near = nearest(kind, KINDS)
        raise InputError(
            f'--kind: there is no kind "{kind}"{f"; did you mean {near}?" if near else ""}',
            guidance=f"Kinds are {', '.join(KINDS)}.",
        )
    default_kind = "execute" if command is not None else "fetch" if url is not None else "read" if paths else "other"
    return PermissionRequest(
        session_id="test",
        agent=agent,
        tool_call_id="test",
        title=command or tool or "",
        kind=_AGENT_KINDS.get(kind, kind) if kind else default_kind,
        name=tool,
        paths=tuple(os.path.join(workspace.cwd, path) for path in paths),
        command=command,
        raw_input={"url": url} if url is not None else None,
        options=(),
    )


@policy.command("list", epilog=LIST_EPILOG)
@click.option("--all", "all_workspaces", is_flag=True, help="Include answers remembered for other workspaces.")
@click.option("--guards", "with_guards", is_flag=True, help="Also list the files that are always asked about.")
@_ACCESS
@_CWD
@json_option
@sync_command
def list_(*, all_workspaces: bool, with_guards: bool, access: str | None, cwd: str | None, as_json: bool) -> None:
    """List the rules in force with their sources, weakest layer first."""
    settings = load(flags={"access": access})
    workspace = Workspace(cwd or os.getcwd())
    rules = rule_sources(settings).read(workspace)
    policy = rules.policy(settings.access)
    # What `read-only` denies is in two layers; it is listed once.
    shown = [(layer, rule) for layer, layer_rules in policy.layers if layer != "access" for rule in layer_rules]
    entries = Remembered(settings.home).list()
    key = folder_key(workspace.cwd)
    here = [entry for entry in entries if entry.workspace == key]
    elsewhere = [entry for entry in entries if entry.workspace != key] if all_workspaces else []
    guards = rules.guards or default_guards()
    if as_json:
        return print_json(
            {
                "workspace": str(workspace.cwd),
                "access": settings.access,
                "rules": [_rule_record(layer, rule) for layer, rule in shown],
                "remembered": [_entry_record(entry) for entry in (*here, *elsewhere)],
                **({"guards": msgspec.to_builtins(guards)} if with_guards else {}),
                "workspace_file": {"path": str(rules.workspace_file.path), "state": rules.workspace_file.state},
                "notice": rules.workspace_file.notice,
            }
        )
    click.echo(f"Rules in {exact(str(workspace.cwd))} with access {settings.access}, weakest layer first:\n")
    names = Names(settings, workspace)
    for layer, rule in shown:
        print_rule(layer, rule, names)
    click.echo()
    print_wrapped("", _EXPLANATION, indent=0)
    if with_guards:
        click.echo("\nAlways asked about, unless the access is full:\n")
        for kind, guard in (*(("write", each) for each in guards.write), *(("read", each) for each in guards.read)):
            print_wrapped(f"  {kind:<5}  ", f"{exact(', '.join(guard.paths))} ({guard.reason})", indent=9)
    if elsewhere:
        click.echo("\nRemembered for other workspaces:\n")
        for entry in elsewhere:
            print_entry(entry)
    print_notice(rules.workspace_file.notice)
    return None


@policy.command(epilog=REVOKE_EPILOG)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@sync_command
def revoke(*, ids: Sequence[str], as_json: bool) -> None:
    """Revoke remembered "always" and "never" answers. `dragoman policy list` shows their ids."""
    gone = Remembered(home_folder()).revoke(*ids)
    if as_json:
        return print_json({"revoked": [_entry_record(entry) for entry in gone]})
    click.echo("No longer remembered:\n")
    for entry in gone:
        print_entry(entry)
    return None


@policy.command(epilog=TRUST_EPILOG)
@_FOLDER
@json_option
@sync_command
def trust(*, folder: str | None, as_json: bool) -> None:
    """Trust .dragoman/policy.toml of a workspace, as it is now.

    After a change it has to be trusted again.
    """
    settings = usable_settings()
    own = rulebook.trust(settings.home, _workspace_folder(folder))
    if as_json:
        return print_json(
            {"path": str(own.path), "sha256": own.sha256, "rules": [_rule_record("workspace", r) for r in own.rules]}
        )
    click.echo(f"Trusted {exact(str(own.path))} as it is now: {count(len(own.rules), 'rule')}.\n")
    for rule in own.rules:
        print_rule("workspace", rule, Names(settings, Workspace(own.path.parent.parent)))
    return None


@policy.command(epilog=UNTRUST_EPILOG)
@_FOLDER
@json_option
@sync_command
def untrust(*, folder: str | None, as_json: bool) -> None:
    """Stop trusting .dragoman/policy.toml of a workspace."""
    where = _workspace_folder(folder)
    was = rulebook.untrust(home_folder(), where)
    if as_json:
        return print_json({"path": str(where / POLICY_FILE), "was_trusted": was})
    path = exact(str(where / POLICY_FILE))
    click.echo(f"{path} is no longer trusted." if was else f"{path} was not trusted.")
    return None


def _workspace_folder(folder: str | None) -> Path:
    """Return the workspace's folder, also where the policy file itself is named."""
    path = Path(folder or os.getcwd()).absolute()
    return path.parent.parent if path.as_posix().endswith(f"/{POLICY_FILE}") else path


# -- JSON


def _verdict_record(verdict: Verdict) -> dict[str, object]:
    return {"decision": verdict.decision, "reason": verdict.reason, "layer": verdict.layer, "rule": verdict.rule}


def _finding_record(finding: EffectVerdict) -> dict[str, object]:
    matched = [_rule_record(layer, rule) for layer, rule in finding.matches]
    return {
        "effect": str(finding.effect),
        "kind": finding.effect.kind,
        **_verdict_record(finding.verdict),
        "matched": matched,
    }


def _rule_record(layer: Layer, rule: PolicyRule) -> dict[str, object]:
    fields = {"answer": rule.answer, "reason": rule.reason or None, **rule.matchers}
    return {"layer": layer, "source": rule.source, **fields}


def _entry_record(entry: RememberedRule) -> dict[str, object]:
    return {
        "id": entry.id,
        "workspace": entry.workspace,
        "at": entry.at,
        "answer": entry.rule.answer,
        **entry.rule.matchers,
    }
