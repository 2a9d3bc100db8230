"""`policy.*` and `workspace.*`: the rules in force, what "always" would mean, and whose rules are trusted."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.folders import folder_of
from dragoman.bridge.refusal import Refusal
from dragoman.config import load
from dragoman.host.policy.remembered import Remembered, RememberedRule
from dragoman.host.policy.rulebook import rule_sources
from dragoman.host.policy.rules import Rule
from dragoman.host.policy.trust import trust, untrust, workspace_policy
from dragoman.workspace import Workspace

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge


async def recent(bridge: Bridge, said: asked.WorkspaceRecent, caller: Caller) -> answers.Workspaces:
    found: dict[str, tuple[int, float]] = {}
    for item in bridge.feeds.listing.every():
        if item.cwd:
            count, updated = found.get(item.cwd, (0, 0.0))
            found[item.cwd] = (count + 1, max(updated, item.updated))
    latest = sorted(found.items(), key=lambda one: -one[1][1])[: min(max(said.limit, 1), 200)]
    home = bridge.config.home

    def look() -> tuple[answers.WorkspaceItem, ...]:
        return tuple(
            _workspace(home, cwd, sessions, updated) for cwd, (sessions, updated) in latest if os.path.isdir(cwd)
        )

    return answers.Workspaces(workspaces=await asyncio.to_thread(look), home=str(Path.home()))


def _workspace(home: Path, cwd: str, sessions: int, updated: float) -> answers.WorkspaceItem:
    own = workspace_policy(home, Path(cwd))
    trusted = None if own.state == "absent" else own.state == "trusted"
    return answers.WorkspaceItem(cwd=cwd, sessions=sessions, updated=updated, trusted=trusted, notice=own.notice)


async def trust_workspace(bridge: Bridge, said: asked.WorkspaceTrust, caller: Caller) -> answers.Trusted:
    folder = folder_of(said.cwd)

    def decide() -> answers.Trusted:
        if said.trust:
            trust(bridge.config.home, folder)
        else:
            untrust(bridge.config.home, folder)
        own = workspace_policy(bridge.config.home, folder)
        return answers.Trusted(trusted=None if own.state == "absent" else own.state == "trusted", notice=own.notice)

    return await asyncio.to_thread(decide)


async def list_rules(bridge: Bridge, said: asked.PolicyList, caller: Caller) -> answers.Policy:
    if said.cwd is not None and all(item.cwd != said.cwd for item in bridge.feeds.listing.every()):
        caller.require("prompt", "looking at a folder that no session has")
    return await asyncio.to_thread(_listed, bridge, said.cwd)


def _listed(bridge: Bridge, cwd: str | None) -> answers.Policy:
    settings = load(bridge.config.home)
    entries = Remembered(settings.home).list()
    rules: list[answers.RuleItem] = []
    notice = None
    if cwd is not None:
        workspace = Workspace(folder_of(cwd))
        standing = rule_sources(settings).read(workspace)
        notice = standing.workspace_file.notice
        for layer, layered in standing.policy(settings.access).layers:
            if layer not in ("access", "remembered"):
                rules.extend(
                    answers.RuleItem(id=None, answer=rule.answer, text=str(rule), layer=layer, source=rule.source)
                    for rule in layered
                )
        key = str(workspace.cwd)
        entries = tuple(entry for entry in entries if entry.workspace == key)
    rules.extend(map(_remembered, entries))
    return answers.Policy(access=settings.access, rules=tuple(rules), notice=notice)


def _remembered(entry: RememberedRule) -> answers.RuleItem:
    return answers.RuleItem(
        id=entry.id,
        answer=entry.rule.answer,
        text=str(entry.rule),
        layer="remembered",
        source=f"remembered as {entry.id}",
        workspace=entry.workspace,
        at=entry.at or None,
    )


async def preview(bridge: Bridge, said: asked.PolicyPreview, caller: Caller) -> answers.Preview:
    held = bridge.hub.owned_sessions.get(said.session_id)
    if held is None or held.session is None:
        raise Refusal("conflict", f"session {said.session_id} is not open here")
    derived = held.session.preview(said.permission_id, allowed=said.answer == "allow")
    return answers.Preview(rules=tuple(map(str, derived.rules)), problem=derived.error)


async def add(bridge: Bridge, said: asked.PolicyAdd, caller: Caller) -> answers.Policy:
    workspace = Workspace(folder_of(said.cwd))
    try:
        rule = msgspec.convert({**said.about, "answer": said.answer, "source": ""}, Rule)
    except msgspec.ValidationError as problem:
        raise Refusal("invalid", str(problem), field="about") from None
    await asyncio.to_thread(Remembered(bridge.config.home).add, workspace, [rule])
    return await asyncio.to_thread(_listed, bridge, said.cwd)


async def revoke(bridge: Bridge, said: asked.PolicyRevoke, caller: Caller) -> answers.Policy:
    await asyncio.to_thread(Remembered(bridge.config.home).revoke, *said.ids)
    return await asyncio.to_thread(_listed, bridge, None)
