"""What the commands of `dragoman policy` do, and how it is shown: for people, or as JSON."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, ParamSpec

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.output import LEAST_WIDTH, terminal_width
from dragoman.cli.text import exact, plain
from dragoman.config import Config, load
from dragoman.errors import DragomanError, InputError
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.access import BUILT_IN
from dragoman.host.policy.kept import folder_key
from dragoman.host.policy.policy import Finding, named
from dragoman.host.policy.remembered import Entry, Remembered
from dragoman.host.policy.rules import Layer, Rule, Verdict
from dragoman.host.policy.standing import standing
from dragoman.host.policy.trust import POLICY_FILE, trust, untrust
from dragoman.host.requests import Requests
from dragoman.workspace import Workspace

P = ParamSpec("P")

_COLOURS: Final = {"allow": "green", "deny": "red", "ask": "yellow"}
_HOW: Final = (
    "What no rule is about is asked. A later layer goes before an earlier one; in it, deny before ask before allow."
)
# Longer lines are harder to read than broken ones.
_WIDEST: Final = 120


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
    stands = standing(settings, workspace)
    policy = stands.policy(settings.access)
    verdict, findings = policy.judge(request, workspace), policy.explain(request, workspace)
    if as_json:
        deeds = [_finding_record(finding) for finding in findings]
        return _json(
            {**_verdict_record(verdict), "access": settings.access, "deeds": deeds, "notice": stands.own.notice}
        )
    _print_wrapped(
        f"{_answer(verdict.decision)}  ", exact(request.title or f"a request of kind {request.kind}"), indent=7
    )
    names = _Names(settings, workspace)
    for finding in findings:
        _print_finding(finding, names)
    _notice(stands.own.notice)
    return None


def _of_tool_call(text: str, agent: str, workspace: Workspace) -> PermissionRequest:
    try:
        call = msgspec.json.decode(text)
        if not isinstance(call, dict):
            raise InputError("the tool call is no JSON object")
        call = {"toolCallId": "test", **call}
        params = msgspec.Raw(msgspec.json.encode({"sessionId": "test", "toolCall": call, "options": []}))
        return Requests("test", "", workspace).of_tool_call(params, None)
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
    meant = "execute" if command is not None else "fetch" if url is not None else "read" if paths else "other"
    return PermissionRequest(
        session_id="test",
        agent=agent,
        tool_call_id="test",
        title=command or tool or "",
        kind=kind or meant,
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
    stands = standing(settings, workspace)
    policy = stands.policy(settings.access)
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
                "workspace_file": {"path": str(stands.own.path), "state": stands.own.state},
                "notice": stands.own.notice,
            }
        )
    click.echo(f"Rules in {exact(str(workspace.cwd))} with access {settings.access}, the weakest first:\n")
    names = _Names(settings, workspace)
    for layer, rule in shown:
        _print_rule(layer, rule, names)
    click.echo()
    _print_wrapped("", _HOW, indent=0)
    if elsewhere:
        click.echo("\nRemembered of other workspaces:\n")
        for entry in elsewhere:
            _print_entry(entry)
    _notice(stands.own.notice)
    return None


@_told
def run_revoke(*, ids: Sequence[str], as_json: bool) -> None:
    gone = Remembered(load().home).revoke(*ids)
    if as_json:
        return _json({"revoked": [_entry_record(entry) for entry in gone]})
    click.echo("No longer remembered:\n")
    for entry in gone:
        _print_entry(entry)
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
        _print_rule("workspace", rule, _Names(settings, Workspace(own.path.parent.parent)))
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


def _finding_record(finding: Finding) -> dict[str, object]:
    matched = [_rule_record(layer, rule) for layer, rule in finding.matched]
    return {
        "deed": str(finding.deed),
        "does": finding.deed.does,
        **_verdict_record(finding.verdict),
        "matched": matched,
    }


def _rule_record(layer: Layer, rule: Rule) -> dict[str, object]:
    said = {"answer": rule.answer, "reason": rule.reason or None, **rule.matchers}
    return {"layer": layer, "source": rule.source, **said}


def _entry_record(entry: Entry) -> dict[str, object]:
    return {
        "id": entry.id,
        "workspace": entry.workspace,
        "at": entry.at,
        "answer": entry.rule.answer,
        **entry.rule.matchers,
    }


# For people


class _Names:
    """File names as people know them."""

    def __init__(self, settings: Config, workspace: Workspace | None = None) -> None:
        inside = [(f"{workspace.cwd}/", "")] if workspace is not None else []
        self._shorter = [(f"{settings.home}/", ""), *inside, (f"{os.path.expanduser('~')}/", "~/")]

    def short(self, text: str) -> str:
        for long, short in self._shorter:
            text = text.replace(f"({long}", f"({short}") if text.startswith(("allow", "ask", "deny")) else text
            text = short + text[len(long) :] if text.startswith(long) else text
        return plain(text)


def _print_finding(finding: Finding, names: _Names) -> None:
    click.echo()
    verdict = finding.verdict
    _print_wrapped(f"  {_answer(verdict.decision)}  ", exact(str(finding.deed)), indent=9)
    by_rule = next((each for each in finding.matched if _is_answer(verdict, *each)), None)
    lines = []
    if by_rule is not None and by_rule[1].source != BUILT_IN:
        lines.append(f"by the rule: {names.short(named(*by_rule))}, {_layer(by_rule[0])}")
        lines += [f"because: {by_rule[1].reason}"] * bool(by_rule[1].reason)
    else:
        lines.append(f"because {verdict.reason}" + ("" if verdict.rule or verdict.layer else "; no rule is about it"))
    if finding.deed.unclear:
        lines.append(f"not clear: {finding.deed.unclear}")
    for layer, rule in finding.matched:
        if named(layer, rule) != verdict.rule:
            lines.append(f"overruled: {names.short(named(layer, rule))}, {_layer(layer)}")
    for line in lines:
        _print_wrapped("         ", plain(line), indent=11)


def _is_answer(verdict: Verdict, layer: Layer, rule: Rule) -> bool:
    return (verdict.layer, verdict.rule) == (layer, named(layer, rule))


def _print_rule(layer: Layer, rule: Rule, names: _Names) -> None:
    stands = rule.reason if rule.source == BUILT_IN else names.short(rule.source)
    why = f": {rule.reason}" if rule.reason and rule.source != BUILT_IN else ""
    matchers = str(rule).partition(" ")[2]
    _print_wrapped(f"  {layer:<10}  {_answer(rule.answer)}  ", f"{exact(matchers)} ({plain(stands + why)})", indent=23)


def _print_entry(entry: Entry) -> None:
    since = datetime.fromtimestamp(entry.at).astimezone().date().isoformat()
    matchers = str(entry.rule).partition(" ")[2]
    text = f"{exact(matchers)} (since {since}, in {exact(entry.workspace)})"
    _print_wrapped(f"  {entry.id}  {_answer(entry.rule.answer)}  ", text, indent=18)


def _layer(layer: Layer) -> str:
    return f"layer {layer}"


def _notice(notice: str | None) -> None:
    if notice is not None:
        sys.stderr.write(exits.laid_out(["", f"dragoman: {notice}"], terminal_width()))


def _answer(answer: str) -> str:
    return _styled(f"{answer:<5}", _COLOURS[answer])


def _styled(text: str, colour: str) -> str:
    return click.style(text, fg=colour) if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def _print_wrapped(start: str, text: str, *, indent: int) -> None:
    columns = min(_WIDEST, max(LEAST_WIDTH, shutil.get_terminal_size((_WIDEST, 24)).columns))
    for line in _broken(start, text, " " * indent, columns - 1):
        click.echo(line)


def _broken(start: str, text: str, indent: str, room: int) -> Iterable[str]:
    """`start` may be coloured, which takes no room: it is as wide as the indent, or narrower than it by what is cut."""
    width = len(click.unstyle(start))
    blank = " " * width
    lines = textwrap.wrap(
        text, room, initial_indent=blank, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    if not lines:
        return [start.rstrip()]
    return [start + lines[0][width:], *lines[1:]]
