"""Handlers of `skill.*`: the skills and prompt templates of a workspace, and how they go with prompts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from dragoman.bridge.auth import Caller
from dragoman.bridge.refusal import Refusal, existing_folder
from dragoman.bridge.services import Services, handles
from dragoman.errors import InputError
from dragoman.protocol import requests, results
from dragoman.session.context import AvailableContext, ContextSource
from dragoman.settings import change_settings, with_skill_state
from dragoman.workspace import Workspace


@handles(requests.SkillList)
async def list_skills(services: Services, request: requests.SkillList, caller: Caller) -> results.KnownSkills:
    workspace = await _workspace(services, request, caller)
    return await asyncio.to_thread(_known_skills, ContextSource(services.config.home), workspace)


@handles(requests.SkillSet)
async def set_skill(services: Services, request: requests.SkillSet, caller: Caller) -> results.KnownSkills:
    workspace = await _workspace(services, request, caller)
    source = ContextSource(services.config.home)

    def change() -> results.KnownSkills:
        try:
            path = str(source.read(workspace).skill(request.name).path)
        except InputError as error:
            raise Refusal("not_found", str(error), guidance=error.guidance, field="name") from None
        change_settings(services.config.home, lambda page: with_skill_state(page, path, request.state))
        return _known_skills(source, workspace)

    return await asyncio.to_thread(change)


async def _workspace(services: Services, request: requests.SkillList | requests.SkillSet, caller: Caller) -> Workspace:
    """The workspace of a session, or a folder; the caller must be allowed to work there."""
    if request.session_id is not None:
        row = await services.session_row(request.session_id)
        folders = [row.cwd, *(folder for folder in row.folders if folder != row.cwd)]
    elif request.cwd is not None:
        folders = [request.cwd]
    else:
        raise Refusal("invalid", "a session or a folder is needed", field="session_id")
    await services.check_folders(caller, *folders)  # before it tells whether they exist
    cwd, *additional = [existing_folder(folder) for folder in folders]
    return Workspace(cwd, additional)


def _known_skills(source: ContextSource, workspace: Workspace) -> results.KnownSkills:
    settings = source.settings()
    available = source.read(workspace, settings)
    return results.KnownSkills(
        skills=_skill_items(available), templates=_template_items(available), budget=settings.skills_budget
    )


def _skill_items(available: AvailableContext) -> tuple[results.SkillItem, ...]:
    fields = set(results.SkillItem.__struct_fields__) - {"path", "folder", "state"}
    return tuple(
        results.SkillItem(
            path=_text(item.skill.path),
            folder=_text(item.skill.folder),
            state=item.state,
            **{name: getattr(item.skill, name) for name in fields},
        )
        for item in available.skills
    )


def _template_items(available: AvailableContext) -> tuple[results.TemplateItem, ...]:
    return tuple(
        results.TemplateItem(
            name=template.name,
            description=template.description,
            hint=template.hint,
            path=_text(template.path),
            place=template.place,
            problem=template.problem,
        )
        for template in available.templates
    )


def _text(path: Path) -> str:
    """The path as JSON can carry it."""
    return os.fsencode(path).decode("utf-8", "replace")
