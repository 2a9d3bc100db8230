"""Whether a rule is about a deed: what each of its matchers makes of it. Pure.

Rules that allow are matched narrowly, rules that deny or ask widely (`globs` says how). Where the request does not say
what a deny would need to know (which file, which command, which host), it may be what is denied: a `maybe`, upon which
the policy asks. An allow has no maybe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.deeds import Deed
from dragoman.host.policy.globs import (
    Match,
    Spot,
    command_allowed,
    command_found,
    host_matches,
    mcp_allowed,
    mcp_found,
    name_matches,
    path_matches,
)
from dragoman.host.policy.rules import SAID, Rule
from dragoman.host.shell.typed import typed

Look: TypeAlias = Callable[[Rule, Deed, PermissionRequest, bool], Match]


def match(rule: Rule, deed: Deed, request: PermissionRequest) -> Match:
    wide = rule.answer != "allow"
    doubt = False
    for found in _looks(rule):
        matched = found(rule, deed, request, wide)
        if matched == "no" or (matched == "maybe" and not wide):
            return "no"
        doubt = doubt or matched == "maybe"
    return "maybe" if doubt else "yes"


def _looks(rule: Rule) -> Iterator[Look]:
    """What there is to look at, the most telling first: most rules are about something else."""
    if rule.command:
        yield _command
    if rule.path or rule.where is not None:
        yield _place
    if rule.mcp:
        yield _mcp
    if rule.host:
        yield _host
    if rule.line:
        yield _line
    if rule.kind:
        yield _kind
    if rule.tool:
        yield _tool
    if rule.agent:
        yield _agent


def _agent(rule: Rule, deed: Deed, request: PermissionRequest, wide: bool) -> Match:
    if not request.agent:
        return "maybe"
    return _yes(name_matches(pattern, request.agent, wide=wide) for pattern in rule.agent)


def _tool(rule: Rule, deed: Deed, request: PermissionRequest, wide: bool) -> Match:
    # A title is words for a reader; where there is no name it may yet be the tool's.
    name = request.name or (request.title if wide else None)
    return _yes(name is not None and name_matches(pattern, name, wide=wide) for pattern in rule.tool)


def _kind(rule: Rule, deed: Deed, request: PermissionRequest, wide: bool) -> Match:
    return _yes(_is_kind(each, rule, deed, request, wide) for each in rule.kind)


def _is_kind(kind: str, rule: Rule, deed: Deed, request: PermissionRequest, wide: bool) -> bool:
    does = SAID.get(kind, kind)
    if does != deed.does:
        if wide and does in ("read", "write") and (rule.path or rule.where):
            return bool(deed.beside)  # it may do that, to a file that it names
        return wide and kind == "mcp" and mcp_found("*", *_tool_words(deed, request))
    if kind == does or kind == "execute" or kind == request.kind:
        return True
    # A change that the agent does not call a deletion or a move is an edit, whatever it calls it.
    return wide and kind == "edit" and request.kind not in ("delete", "move")


def _place(rule: Rule, deed: Deed, request: PermissionRequest, wide: bool) -> Match:
    if deed.does in ("read", "write"):
        return "maybe" if deed.spot is None else _yes([_is_at(rule, deed.spot, wide)])
    return _yes(wide and _is_at(rule, spot, wide) for spot in deed.beside)


def _is_at(rule: Rule, spot: Spot, wide: bool) -> bool:
    if rule.where is not None and (rule.where == "inside") != (spot.inside is not None):
        return False
    return not rule.path or any(path_matches(pattern, spot, wide=wide) for pattern in rule.path)


def _command(rule: Rule, deed: Deed, request: PermissionRequest, wide: bool) -> Match:
    if deed.does != "run":
        return "no"
    part = deed.part
    if part is None:
        return "maybe"
    if not wide:
        return _yes(not (deed.elsewhere or deed.moved) and command_allowed(pattern, part) for pattern in rule.command)
    found = {command_found(pattern, part) for pattern in rule.command}
    return next((each for each in ("yes", "maybe") if each in found), "no")


def _line(rule: Rule, deed: Deed, request: PermissionRequest, wide: bool) -> Match:
    if deed.line is None:
        return "maybe" if deed.does == "run" else "no"
    if not wide:  # also what the line is redirected from and to: it was named with it
        return _yes(
            typed(deed.line) == typed(line) and not deed.elsewhere and not deed.below and not deed.env
            for line in rule.line
        )
    said = (deed.line.split(), typed(deed.line).split())
    return _yes(line.split() in said or typed(line).split() in said for line in rule.line)


def _mcp(rule: Rule, deed: Deed, request: PermissionRequest, wide: bool) -> Match:
    if wide:
        return _yes(mcp_found(pattern, *_tool_words(deed, request)) for pattern in rule.mcp)
    return _yes(deed.mcp is not None and mcp_allowed(pattern, *deed.mcp) for pattern in rule.mcp)


def _tool_words(deed: Deed, request: PermissionRequest) -> list[str]:
    """Where an MCP tool's name may stand. The title of a command or a file is about that."""
    title = request.title if deed.does in ("mcp", "other") else None
    known = "{1} ({0} MCP Server)".format(*deed.mcp) if deed.mcp is not None else None
    return [text for text in (request.name, title, known) if text]


def _host(rule: Rule, deed: Deed, request: PermissionRequest, wide: bool) -> Match:
    if deed.does != "fetch":
        return "no"
    host = deed.host
    return "maybe" if host is None else _yes(host_matches(pattern, host) for pattern in rule.host)


def _yes(found: Iterable[bool]) -> Match:
    return "yes" if any(found) else "no"
