"""What the commands of `dragoman policy` do, told as JSON, or in lines for people (`policy_lines`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, ParamSpec

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.output import terminal_width
from dragoman.cli.policy_lines import (
    Names,
    print_entry,
    print_finding,
    print_notice,
    print_rule,
    print_wrapped,
    styled_answer,
)
from dragoman.cli.text import exact
from dragoman.config import load
from dragoman.document import nearest
from dragoman.errors import DragomanError, InputError
from dragoman.fileio import folder_key
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.policy import EffectVerdict
from dragoman.host.policy.remembered import Remembered, RememberedRule
from dragoman.host.policy.rulebook import rule_sources
from dragoman.host.policy.rules import KINDS, Layer, Rule, Verdict
from dragoman.host.policy.trust import POLICY_FILE, trust, untrust
from dragoman.host.requests import Requests
from dragoman.workspace import Workspace

P = ParamSpec("P")

_HOW: Final = (
    "What no rule is about is asked. A later layer goes before an earlier one; in it, deny before ask before allow."
)
# What rules say where agents have a word of their own.
_TOLD_AS: Final = {"write": "edit", "run": "execute", "mcp": "other"}


def _told(command: Callable[P, None]) -> Callable[P, int]:
    """Its exit code; errors become messages."""

    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            command(*args, **kwargs)
        except DragomanError as error:
            sys.stderr.write(exits.message_of(error, width=terminal_width()))
            return exits.code_of_error(error, opened=False)
        return exits.DONE

    return run


@_told
def run_test(
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
    settings = load(flags={"access": access, "agent": agent})
    workspace = Workspace(cwd or os.getcwd(), add_dir)
    if what is not None and what.lstrip().startswith("{") and tool_call is None:
        what, tool_call = None, what
    if tool_call is not None:
        if what is not None or path or url or kind or tool:
            raise InputError("a tool call says all by itself: leave out the command, --path, --url, --kind and --tool")
        request = _of_tool_call(tool_call, settings.agent, workspace)
    else:
        request = _of_options(what, path, url, kind, tool, settings.agent, workspace)
    standing = rule_sources(settings).read(workspace)
    policy = standing.policy(settings.access)
    verdict, findings = policy.judge(request, workspace), policy.explain(request, workspace)
    if as_json:
        effects = [_finding_record(finding) for finding in findings]
        return _json(
            {
                **_verdict_record(verdict),
                "access": settings.access,
                "effects": effects,
                "notice": standing.workspace_file.notice,
            }
        )
    print_wrapped(
        f"{styled_answer(verdict.decision)}  ", exact(request.title or f"a request of kind {request.kind}"), indent=7
    )
    names = Names(settings, workspace)
    for finding in findings:
        print_finding(finding, names)
    print_notice(standing.workspace_file.notice)
    return None


def _of_tool_call(text: str, agent: str, workspace: Workspace) -> PermissionRequest:
    try:
        call = msgspec.json.decode(text)
        if not isinstance(call, dict):
            raise InputError("the tool call is no JSON object")
        call = {"toolCallId": "test", **call}
        params = msgspec.Raw(msgspec.json.encode({"sessionId": "test", "toolCall": call, "options": []}))
        return Requests("test", agent, workspace).of_tool_call(params, None)
    except msgspec.MsgspecError as problem:
        raise InputError(
            f"the tool call cannot be read: {problem}",
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
            "there is nothing to test",
            guidance='Name a command: dragoman policy test "git push"; or use --path, --url, --kind or --tool-call.',
        )
    if kind is not None and kind not in KINDS:
        near = nearest(kind, KINDS)
        raise InputError(
            f'--kind: there is no kind "{kind}"{f"; did you mean {near}?" if near else ""}',
            guidance=f"Kinds are {', '.join(KINDS)}.",
        )
    meant = "execute" if command is not None else "fetch" if url is not None else "read" if paths else "other"
    return PermissionRequest(
        session_id="test",
        agent=agent,
        tool_call_id="test",
        title=command or tool or "",
        kind=_TOLD_AS.get(kind, kind) if kind else meant,
        name=tool,
        paths=tuple(os.path.join(workspace.cwd, path) for path in paths),
        command=command,
        raw_input={"url": url} if url is not None else None,
        options=(),
    )


@_told
def run_list(*, everywhere: bool, access: str | None, cwd: str | None, as_json: bool) -> None:
    settings = load(flags={"access": access})
    workspace = Workspace(cwd or os.getcwd())
    standing = rule_sources(settings).read(workspace)
    policy = standing.policy(settings.access)
    # What `read-only` denies stands in two layers; told once it is enough.
    shown = [(layer, rule) for layer, rules in policy.layers if layer != "access" for rule in rules]
    entries = Remembered(settings.home).list()
    key = folder_key(workspace.cwd)
    here = [entry for entry in entries if entry.workspace == key]
    elsewhere = [entry for entry in entries if entry.workspace != key] if everywhere else []
    if as_json:
        return _json(
            {
                "workspace": str(workspace.cwd),
                "access": settings.access,
                "rules": [_rule_record(layer, rule) for layer, rule in shown],
                "remembered": [_entry_record(entry) for entry in (*here, *elsewhere)],
                "workspace_file": {"path": str(standing.workspace_file.path), "state": standing.workspace_file.state},
                "notice": standing.workspace_file.notice,
            }
        )
    click.echo(f"Rules in {exact(str(workspace.cwd))} with access {settings.access}, the weakest first:\n")
    names = Names(settings, workspace)
    for layer, rule in shown:
        print_rule(layer, rule, names)
    click.echo()
    print_wrapped("", _HOW, indent=0)
    if elsewhere:
        click.echo("\nRemembered of other workspaces:\n")
        for entry in elsewhere:
            print_entry(entry)
    print_notice(standing.workspace_file.notice)
    return None


@_told
def run_revoke(*, ids: Sequence[str], as_json: bool) -> None:
    gone = Remembered(load().home).revoke(*ids)
    if as_json:
        return _json({"revoked": [_entry_record(entry) for entry in gone]})
    click.echo("No longer remembered:\n")
    for entry in gone:
        print_entry(entry)
    return None


@_told
def run_trust(*, folder: str | None, as_json: bool) -> None:
    settings = load()
    own = trust(settings.home, _workspace_folder(folder))
    if as_json:
        return _json(
            {"path": str(own.path), "sha256": own.sha256, "rules": [_rule_record("workspace", r) for r in own.rules]}
        )
    count = f"{len(own.rules)} rule{'s' * (len(own.rules) != 1)}"
    click.echo(f"{exact(str(own.path))} counts from now on, as it is now: {count}.\n")
    for rule in own.rules:
        print_rule("workspace", rule, Names(settings, Workspace(own.path.parent.parent)))
    return None


@_told
def run_untrust(*, folder: str | None, as_json: bool) -> None:
    where = _workspace_folder(folder)
    was = untrust(load().home, where)
    if as_json:
        return _json({"path": str(where / POLICY_FILE), "was_trusted": was})
    path = exact(str(where / POLICY_FILE))
    click.echo(f"{path} no longer counts." if was else f"{path} was not trusted before, either.")
    return None


def _workspace_folder(given: str | None) -> Path:
    """The workspace's folder; who names the file itself means the folder that it is for."""
    path = Path(given or os.getcwd()).absolute()
    return path.parent.parent if path.as_posix().endswith(f"/{POLICY_FILE}") else path


# As JSON


def _json(content: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())


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


def _rule_record(layer: Layer, rule: Rule) -> dict[str, object]:
    said = {"answer": rule.answer, "reason": rule.reason or None, **rule.matchers}
    return {"layer": layer, "source": rule.source, **said}


def _entry_record(entry: RememberedRule) -> dict[str, object]:
    return {
        "id": entry.id,
        "workspace": entry.workspace,
        "at": entry.at,
        "answer": entry.rule.answer,
        **entry.rule.matchers,
    }
