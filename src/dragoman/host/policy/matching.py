"""Matching: does a rule apply to an effect? Pure.

Rules that allow are matched narrowly, rules that deny or ask widely (see `globs`). Where the request leaves out what a
rule that denies or asks needs to know (which file, which command, which host), the match is a `maybe`, and the policy
asks. A rule that allows never matches on a maybe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.effects import Effect
from dragoman.host.policy.globs import (
    Match,
    ResolvedPath,
    command_allowed,
    command_found,
    host_matches,
    mcp_allowed,
    mcp_found,
    name_matches,
    path_matches,
)
from dragoman.host.policy.rules import AGENT_KINDS, PolicyRule
from dragoman.host.shell.wrappers import unwrap_shell

_Matcher: TypeAlias = Callable[[PolicyRule, Effect, PermissionRequest, bool], Match]


def match_rule(rule: PolicyRule, effect: Effect, request: PermissionRequest) -> Match:
    wide = rule.answer != "allow"
    is_certain = True
    for matcher in _matchers(rule):
        matched = matcher(rule, effect, request, wide)
        if matched == "no" or (matched == "maybe" and not wide):
            return "no"
        is_certain = is_certain and matched == "yes"
    return "yes" if is_certain else "maybe"


def _matchers(rule: PolicyRule) -> Iterator[_Matcher]:
    """Yield the rule's matchers, the most selective first, since most rules do not apply."""
    if rule.command:
        yield _match_command
    if rule.path or rule.where is not None:
        yield _match_path
    if rule.mcp:
        yield _match_mcp
    if rule.host:
        yield _match_host
    if rule.line:
        yield _match_line
    if rule.kind:
        yield _match_kind
    if rule.tool:
        yield _match_tool
    if rule.agent:
        yield _match_agent


def _match_agent(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if not request.agent:
        return "maybe"
    return _any(name_matches(pattern, request.agent, wide=wide) for pattern in rule.agent)


def _match_tool(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    # A title is text for people, but where the tool has no name it may still be the tool's.
    name = request.name or (request.title if wide else None)
    return _any(name is not None and name_matches(pattern, name, wide=wide) for pattern in rule.tool)


def _match_kind(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    return _any(_is_kind(kind, rule, effect, request, wide) for kind in rule.kind)


def _is_kind(kind: str, rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> bool:
    effect_kind = AGENT_KINDS.get(kind, kind)
    if effect_kind != effect.kind:
        if wide and effect_kind in ("read", "write") and (rule.path or rule.where):
            return bool(effect.mentioned_paths)  # it may read or write a file that it names
        return wide and kind == "mcp" and mcp_found("*", *_tool_texts(effect, request))
    if kind == effect_kind or kind == "execute" or kind == request.kind:
        return True
    # A change that the agent calls neither a deletion nor a move is an edit, whatever it calls it.
    return wide and kind == "edit" and request.kind not in ("delete", "move")


def _match_path(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if effect.kind in ("read", "write"):
        return "maybe" if effect.path is None else _any([_is_at(rule, effect.path, wide)])
    return _any(wide and _is_at(rule, path, wide) for path in effect.mentioned_paths)


def _is_at(rule: PolicyRule, path: ResolvedPath, wide: bool) -> bool:
    if rule.where is not None and (rule.where == "inside") != (path.inside is not None):
        return False
    return not rule.path or any(path_matches(pattern, path, wide=wide) for pattern in rule.path)


def _match_command(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if effect.kind != "run":
        return "no"
    command = effect.command
    if command is None:
        return "maybe"
    if not wide:
        if effect.outside or effect.may_leave:
            return "no"
        return _any(command_allowed(pattern, command) for pattern in rule.command)
    matches = {command_found(pattern, command) for pattern in rule.command}
    return next((match for match in ("yes", "maybe") if match in matches), "no")


def _match_line(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    """Match the whole line; the files that it is redirected from and to are part of it."""
    if effect.line is None:
        return "maybe" if effect.kind == "run" else "no"
    if not wide:
        if effect.outside or effect.in_subfolder or effect.env:
            return "no"
        return _any(unwrap_shell(effect.line) == unwrap_shell(line) for line in rule.line)
    spellings = (effect.line.split(), unwrap_shell(effect.line).split())
    return _any(line.split() in spellings or unwrap_shell(line).split() in spellings for line in rule.line)


def _match_mcp(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if wide:
        return _any(mcp_found(pattern, *_tool_texts(effect, request)) for pattern in rule.mcp)
    return _any(effect.mcp is not None and mcp_allowed(pattern, *effect.mcp) for pattern in rule.mcp)


def _tool_texts(effect: Effect, request: PermissionRequest) -> list[str]:
    """List the texts that may name an MCP tool. The title of a command or file request names that instead."""
    title = request.title if effect.kind in ("mcp", "other") else None
    certain = "{1} ({0} MCP Server)".format(*effect.mcp) if effect.mcp is not None else None
    return [text for text in (request.name, title, certain) if text]


def _match_host(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if effect.kind != "fetch":
        return "no"
    host = effect.host
    return "maybe" if host is None else _any(host_matches(pattern, host) for pattern in rule.host)


def _any(matches: Iterable[bool]) -> Match:
    return "yes" if any(matches) else "no"
