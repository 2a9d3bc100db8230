"""Handlers of `workspace.*`, `policy.*` and `files.*`: folders, their rules and their files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from dragoman.bridge.auth import Caller
from dragoman.bridge.changes import shown_files
from dragoman.bridge.refusal import Refusal, existing_folder
from dragoman.bridge.services import Services, handles
from dragoman.config import load
from dragoman.errors import InputError, ScopeMissing
from dragoman.host.files import locate, read_text
from dragoman.host.policy.remembered import Remembered, RememberedRule
from dragoman.host.policy.rulebook import rule_sources, trust, untrust, workspace_policy
from dragoman.host.policy.rules import PolicyRule
from dragoman.hub.commands import is_within
from dragoman.hub.scopes import reading_reason, require_admin
from dragoman.protocol import requests, results
from dragoman.protocol.messages import includes
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace
from dragoman.workspace.listing import list_folder, rank_paths

# -- workspaces


@handles(requests.WorkspaceRecent)
async def recent_workspaces(
    services: Services, request: requests.WorkspaceRecent, caller: Caller
) -> results.RecentWorkspaces:
    folders: dict[str, tuple[int, float]] = {}
    for item in services.listing.all_items():
        if item.cwd:
            count, updated = folders.get(item.cwd, (0, 0.0))
            folders[item.cwd] = (count + 1, max(updated, item.updated))
    latest = sorted(folders.items(), key=lambda folder: -folder[1][1])[: min(max(request.limit, 1), 200)]
    home = services.config.home

    def existing() -> tuple[results.WorkspaceItem, ...]:
        return tuple(
            _workspace_item(home, cwd, sessions, updated) for cwd, (sessions, updated) in latest if os.path.isdir(cwd)
        )

    return results.RecentWorkspaces(workspaces=await asyncio.to_thread(existing), home=str(Path.home()))


def _workspace_item(home: Path, cwd: str, sessions: int, updated: float) -> results.WorkspaceItem:
    own = workspace_policy(home, Path(cwd))
    trusted = None if own.state == "absent" else own.state == "trusted"
    return results.WorkspaceItem(cwd=cwd, sessions=sessions, updated=updated, trusted=trusted, notice=own.notice)


@handles(requests.WorkspaceTrust)
async def trust_workspace(
    services: Services, request: requests.WorkspaceTrust, caller: Caller
) -> results.WorkspaceTrusted:
    folder = existing_folder(request.cwd)

    def decide() -> results.WorkspaceTrusted:
        if request.trust:
            trust(services.config.home, folder)
        else:
            untrust(services.config.home, folder)
        own = workspace_policy(services.config.home, folder)
        return results.WorkspaceTrusted(
            trusted=None if own.state == "absent" else own.state == "trusted", notice=own.notice
        )

    return await asyncio.to_thread(decide)


# -- rules


@handles(requests.PolicyList)
async def list_rules(services: Services, request: requests.PolicyList, caller: Caller) -> results.PolicyRules:
    if request.cwd is not None and all(item.cwd != request.cwd for item in services.listing.all_items()):
        caller.require("prompt", "looking at a folder without a session")
        await services.check_folders(caller, request.cwd)
    return await asyncio.to_thread(_rules, services, request.cwd)


def _rules(services: Services, cwd: str | None) -> results.PolicyRules:
    settings = load(services.config.home)
    entries = Remembered(settings.home).list()
    rules: list[results.RuleItem] = []
    notice = None
    if cwd is not None:
        workspace = Workspace(existing_folder(cwd))
        sources = rule_sources(settings).read(workspace)
        notice = sources.workspace_file.notice
        for layer, layer_rules in sources.policy(settings.access).layers:
            if layer not in ("access", "remembered"):
                rules.extend(
                    results.RuleItem(id=None, answer=rule.answer, text=str(rule), layer=layer, source=rule.source)
                    for rule in layer_rules
                )
        key = str(workspace.cwd)
        entries = tuple(entry for entry in entries if entry.workspace == key)
    rules.extend(map(_remembered_rule, entries))
    return results.PolicyRules(access=settings.access, rules=tuple(rules), notice=notice)


def _remembered_rule(entry: RememberedRule) -> results.RuleItem:
    return results.RuleItem(
        id=entry.id,
        answer=entry.rule.answer,
        text=str(entry.rule),
        layer="remembered",
        source=f"remembered as {entry.id}",
        workspace=entry.workspace,
        at=entry.at or None,
    )


@handles(requests.PolicyPreview)
async def preview_rules(services: Services, request: requests.PolicyPreview, caller: Caller) -> results.RulePreview:
    owned = services.hub.owned_sessions.get(request.session_id)
    if owned is None or owned.session is None:
        raise Refusal("conflict", f"session {request.session_id} is not open here")
    allowed = request.answer == "allow"
    preview = owned.session.preview(request.permission_id, allowed=allowed)
    narrow = owned.session.preview(request.permission_id, allowed=allowed, only_files=True)
    return results.RulePreview(
        rules=tuple(map(str, preview.rules)),
        only_files=tuple(map(str, narrow.rules)) if narrow.rules != preview.rules else (),
        error=preview.error,
    )


@handles(requests.PolicyAdd)
async def add_rule(services: Services, request: requests.PolicyAdd, caller: Caller) -> results.PolicyRules:
    workspace = Workspace(existing_folder(request.cwd))
    try:
        rule = msgspec.convert({**request.about, "answer": request.answer, "source": ""}, PolicyRule)
    except msgspec.ValidationError as error:
        raise Refusal("invalid", str(error), field="about") from None
    await asyncio.to_thread(Remembered(services.config.home).add, workspace, [rule])
    return await asyncio.to_thread(_rules, services, request.cwd)


@handles(requests.PolicyRevoke)
async def revoke_rules(services: Services, request: requests.PolicyRevoke, caller: Caller) -> results.PolicyRules:
    await asyncio.to_thread(Remembered(services.config.home).revoke, *request.ids)
    return await asyncio.to_thread(_rules, services, None)


# -- files


async def _workspace(services: Services, session_id: str) -> Workspace:
    row = await services.session_row(session_id)
    try:
        return Workspace(row.cwd, [folder for folder in row.folders if folder != row.cwd])
    except InputError as error:
        raise Refusal("conflict", f"the workspace of session {session_id} is not on this machine: {error}") from None


@handles(requests.FilesList)
async def list_files(services: Services, request: requests.FilesList, caller: Caller) -> results.FileMatches:
    if request.session_id is not None:
        workspace = await _workspace(services, request.session_id)
        await services.check_folders(caller, *map(str, workspace.folders))
        cwd = workspace.cwd
    elif request.cwd is not None:
        caller.require("admin", "listing a folder without a session")
        cwd = existing_folder(request.cwd)
    else:
        raise Refusal("invalid", "a session or a folder is needed", field="session_id")
    files = await asyncio.to_thread(list_folder, cwd)
    limit = min(max(request.limit, 1), 500)
    paths = await asyncio.to_thread(rank_paths, request.query[:200], files.paths, limit)
    return results.FileMatches(cwd=str(cwd), paths=tuple(paths), complete=files.is_complete)


@handles(requests.FilesRead)
async def read_file(services: Services, request: requests.FilesRead, caller: Caller) -> results.FileText:
    workspace = await _workspace(services, request.session_id)
    line, limit = max(request.line, 1), min(max(request.limit, 1), 20_000)
    shown = None
    if not includes(caller.scope, "prompt") or not await _may_list(services, caller, workspace):
        shown = shown_files(await services.session_rows(request.session_id))

    def read() -> results.FileText:
        path = os.path.join(workspace.cwd, request.path)
        _check_reading(services, caller, workspace, locate(workspace, path), shown)
        file = read_text(workspace, path, line, limit + 1)
        _check_reading(services, caller, workspace, file.path, shown)  # once more: a link may have changed
        lines = file.text.splitlines(keepends=True)
        return results.FileText(
            path=str(file.path),
            text="".join(lines[:limit]),
            line=line,
            lines=line - 1 + len(lines),
            truncated=len(lines) > limit,
        )

    try:
        text = await asyncio.to_thread(read)
    except RpcRefusal as error:
        raise Refusal("invalid", str(error), field="path") from None
    if is_within(text.path, services.config.home):  # a workspace may contain it, with keys and tokens
        raise Refusal("invalid", f"{request.path} belongs to Dragoman itself", field="path")
    return text


async def _may_list(services: Services, caller: Caller, workspace: Workspace) -> bool:
    """Return whether the caller may see all files of a workspace: not of an imported session in a folder of its own."""
    try:
        await services.check_folders(caller, *map(str, workspace.folders))
    except ScopeMissing:
        return False
    return True


def _check_reading(
    services: Services, caller: Caller, workspace: Workspace, path: Path, shown: Collection[str] | None
) -> None:
    """Refuse a file that the caller's scope does not include. `shown`: all files that it may read at most."""
    if includes(caller.scope, "admin"):
        return
    if shown is not None and all(_real(workspace, other) != str(path) for other in shown):
        caller.require("prompt", "reading a file that the conversation does not show")
        require_admin(caller.scope, "the conversation does not show this file")
    require_admin(caller.scope, reading_reason(path, workspace, load(services.config.home)))


def _real(workspace: Workspace, path: str) -> str | None:
    try:
        return os.path.realpath(os.path.join(workspace.cwd, path))
    except (OSError, ValueError):  # characters that no file's name can have
        return None
