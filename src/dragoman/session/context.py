"""The context of a prompt: custom instructions before the user's words, skills after them, and prompt templates.

`ContextSource` reads the settings and the folders, fresh for each prompt: a skill that was added, or a setting that was
changed, counts from the next prompt on. `SessionContext` makes the blocks of a prompt, and the note of what was added.
A file that the rules forbid to be read, or about which they ask, goes with no prompt (`rules_check`).

The user's own words stay a block of their own, and the first one but for custom instructions: agents make titles of
them. A slash command is sent as it is, with nothing added, because an agent knows it by its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dragoman.config import Config, SkillState, home_folder, load
from dragoman.document import nearest
from dragoman.errors import ConfigError, InputError
from dragoman.host.policy.policy import Policy
from dragoman.host.policy.rulebook import read_refusal, rule_sources
from dragoman.record.notes import CONTEXT_MARK, INSTRUCTIONS_HEADING
from dragoman.record.rows import OmittedSkill, PromptContext, SentSkill
from dragoman.session.capabilities import Capabilities
from dragoman.session.prompt import text_resource
from dragoman.session.skills import (
    Place,
    ReadCheck,
    Skill,
    UnusableFile,
    find_folders,
    find_skills,
    skill_named,
    skill_text,
)
from dragoman.session.templates import Template, called_template, expand_template, find_templates
from dragoman.wire import vocabulary as acp
from dragoman.workspace import Workspace

Blocks = tuple[acp.ContentBlock, ...]

# Characters of a description in the index. By the standard it may have 1,024; most have fewer than 300.
MAX_INDEX_DESCRIPTION_CHARS: Final = 500

# The part of the budget that the index may take; the rest is for skills in full.
_INDEX_SHARE: Final = 0.5

INDEX_HEADING: Final = (
    "Skills are files with instructions for certain tasks. If one fits the task at hand, read its file first and"
    " follow it."
)
FULL_HEADING: Final = "These skills apply to this prompt; their text follows:"

# Texts that agents take for a command of theirs.
_AGENT_COMMAND: Final = re.compile(r"[\s\ufeff]*(?:!|/[\w:.-]+(?:\s|$))")


class AvailableSkill(msgspec.Struct, frozen=True):
    """A skill, and how it goes with prompts by the settings, or else by its own front matter."""

    skill: Skill
    state: SkillState


class AvailableContext(msgspec.Struct, frozen=True):
    """The skills and templates that a workspace has, as they were when they were read."""

    skills: tuple[AvailableSkill, ...] = ()
    templates: tuple[Template, ...] = ()

    def skill(self, name: str) -> Skill:
        """Return the skill of this name; `InputError` where there is none, or it cannot be used."""
        skills = [available.skill for available in self.skills]
        skill = skill_named(skills, name)
        if skill is not None:
            return skill
        broken = next((skill for skill in skills if name in (skill.name, skill.name.removesuffix(".md"))), None)
        if broken is not None:
            raise InputError(f"the skill {name!r} cannot be used: {broken.problem}", guidance=f"See {broken.path}")
        near = nearest(name, [skill.name for skill in skills if not skill.problem])
        raise InputError(
            f"there is no skill {name!r}" + (f"; did you mean {near!r}?" if near else ""),
            guidance="`dragoman skills list` shows them.",
        )

    def usable_templates(self) -> dict[str, Template]:
        return {template.name: template for template in self.templates if not template.problem}


class ContextSource:
    """Reads skills, templates and their settings, each time as they are. `home` is our folder, by default that of the
    environment; `user_home` is the user's own."""

    def __init__(self, home: Path | None = None, *, user_home: Path | None = None) -> None:
        self._home = home
        self._user_home = user_home or Path(os.path.expanduser("~"))

    def without_user(self) -> ContextSource:
        """Return a source for isolated agents, without what the user has for all workspaces."""
        return _WorkspaceSource(self._home, user_home=Path(os.devnull))

    def settings(self) -> Config:
        """Return the settings as they are now; an invalid one is left out, and reported where it is set."""
        return load(self._home or home_folder(), on_error=lambda error: None)

    # `read_check` is that of a session; without one the user's rules decide, and those of the workspace.

    def read(
        self, workspace: Workspace, settings: Config | None = None, read_check: ReadCheck | None = None
    ) -> AvailableContext:
        settings = settings or self.settings()
        read_check = read_check or _users_check(workspace, settings)
        return AvailableContext(
            self.skills(workspace, settings, read_check), self.templates(workspace, settings, read_check)
        )

    def skills(
        self, workspace: Workspace, settings: Config, read_check: ReadCheck | None = None
    ) -> tuple[AvailableSkill, ...]:
        folders = find_folders(settings.skills_folders, workspace, self._user_home)
        found = find_skills(folders, read_check or _users_check(workspace, settings))
        return tuple(AvailableSkill(skill, state_of(skill, settings.skill_states)) for skill in found)

    def templates(
        self, workspace: Workspace, settings: Config | None = None, read_check: ReadCheck | None = None
    ) -> tuple[Template, ...]:
        settings = settings or self.settings()
        folders = find_folders(settings.prompts_folders, workspace, self._user_home)
        return tuple(find_templates(folders, read_check or _users_check(workspace, settings)))


class _WorkspaceSource(ContextSource):
    """Reads what the workspace has, and nothing of the user's: neither skills and templates, nor instructions."""

    def settings(self) -> Config:
        settings = super().settings()
        return msgspec.structs.replace(
            settings,
            skills_folders=_in_workspace(settings.skills_folders),
            prompts_folders=_in_workspace(settings.prompts_folders),
            custom_instructions=None,
        )


def _in_workspace(folders: str) -> str:
    names = [name.strip() for name in folders.split(",")]
    return ", ".join(name for name in names if not name.startswith(("/", "~"))) or "none"


def rules_check(load_policy: Callable[[], Policy], workspace: Workspace, agent: str = "") -> ReadCheck:
    """Return a check by rules, which are read at its first use. Where they cannot be, no file of the workspace is."""
    policy: Policy | ConfigError | None = None

    def check(path: Path, place: Place) -> str | None:
        nonlocal policy
        if policy is None:
            try:
                policy = load_policy()
            except ConfigError as error:
                policy = error
        if isinstance(policy, ConfigError):
            return None if place == "user" else f"the rules cannot be read: {policy}"
        return read_refusal(policy, path, workspace, agent=agent, is_users_own=place == "user")

    return check


def _users_check(workspace: Workspace, settings: Config) -> ReadCheck:
    return rules_check(lambda: rule_sources(settings).read(workspace).policy("ask"), workspace)


def state_of(skill: Skill, states: Mapping[str, SkillState]) -> SkillState:
    """Return how a skill goes with prompts."""
    return states.get(str(skill.path)) or ("always" if skill.is_always else "listed")


class PreparedPrompt(msgspec.Struct, frozen=True):
    """The blocks to send, and what was added to the user's own; None where nothing was."""

    blocks: Blocks
    context: PromptContext | None = None


class SessionContext:
    """The context of the prompts of one session.

    `skills`: None for those of the settings, and all of them in an index; names of further ones that go in full; none
    at all where it is empty. `custom_instructions`: None for those of the settings; an empty text for none. Without a
    `source` only what is named here, or for a run, goes with a prompt. `read_check` returns the check of the session's
    rules, anew for each prompt; without it those of the settings decide.
    """

    def __init__(
        self,
        source: ContextSource | None,
        workspace: Workspace,
        skills: tuple[str, ...] | None = None,
        custom_instructions: str | None = None,
        read_check: Callable[[], ReadCheck | None] = lambda: None,
    ) -> None:
        self._source = source
        self._workspace = workspace
        self._skills = skills
        self._custom_instructions = custom_instructions
        self._read_check = read_check

    def check(self) -> None:
        """Raise `InputError` where the session names a skill that cannot be used."""
        if self._skills:
            available = self.read()
            for name in self._skills:
                available.skill(name)

    def read(self) -> AvailableContext:
        """Return the skills and templates of the workspace, whether or not they go with prompts."""
        return (self._source or ContextSource()).read(self._workspace, read_check=self._read_check())

    def prepare(
        self,
        blocks: Blocks,
        capabilities: Capabilities,
        agent_commands: Collection[str] = (),
        run_skills: Sequence[str] = (),
    ) -> PreparedPrompt:
        """Add to a user's prompt what goes with it. `InputError` where the run names a skill that cannot be used."""
        if self._source is None and not (self._skills or run_skills or self._custom_instructions):
            return PreparedPrompt(blocks)
        source = self._source or ContextSource()
        settings, read_check = source.settings(), self._read_check()
        first = next((index for index, block in enumerate(blocks) if isinstance(block, acp.TextContent)), None)
        template: Template | None = None
        if first is not None and _AGENT_COMMAND.match(text := _text_of(blocks[first])):
            has_templates = self._source is not None
            templates = source.templates(self._workspace, settings, read_check) if has_templates else ()
            usable = AvailableContext(templates=templates).usable_templates()
            call = called_template(text, usable, agent_commands)
            if call is None:
                return PreparedPrompt(blocks)
            template = call[0]
            expanded = acp.TextContent(text=expand_template(*call))
            blocks = (*blocks[:first], expanded, *blocks[first + 1 :])
        instructions = self._instructions(settings)
        skills = self._skill_blocks(source, settings, read_check, capabilities, run_skills)
        context = msgspec.structs.replace(
            skills.context or PromptContext(),
            template=str(template.path) if template is not None else None,
            has_custom_instructions=bool(instructions),
        )
        if instructions:
            text = f"{INSTRUCTIONS_HEADING}\n\n{instructions}"
            blocks = (acp.TextContent(text=text, meta={CONTEXT_MARK: True}), *blocks)
        return PreparedPrompt((*blocks, *skills.blocks), context if context != PromptContext() else None)

    def _instructions(self, settings: Config) -> str:
        if self._custom_instructions is not None:
            return self._custom_instructions.strip()
        return (settings.custom_instructions or "") if self._source is not None else ""

    def _skill_blocks(
        self,
        source: ContextSource,
        settings: Config,
        read_check: ReadCheck | None,
        capabilities: Capabilities,
        run_skills: Sequence[str],
    ) -> PreparedPrompt:
        has_index = self._source is not None and self._skills != ()
        if not has_index and not self._skills and not run_skills:
            return PreparedPrompt(())
        available = AvailableContext(source.skills(self._workspace, settings, read_check))
        chosen = {name: available.skill(name) for name in dict.fromkeys(run_skills)}
        omitted: list[OmittedSkill] = []
        for name in self._skills or ():
            try:
                chosen.setdefault(name, available.skill(name))
            except InputError as error:  # it was there when the session was opened
                omitted.append(OmittedSkill(name, str(error)))
        listed = [item for item in available.skills if not item.skill.problem and item.state != "off"]
        if has_index:
            for item in listed:
                if item.state == "always":
                    chosen.setdefault(item.skill.name, item.skill)
            for item in available.skills:
                if item.skill.problem and item.state == "always":
                    omitted.append(OmittedSkill(item.skill.name, item.skill.problem))
        index = _Index([item.skill for item in listed] if has_index else [], int(settings.skills_budget * _INDEX_SHARE))
        full = _FullTexts(settings.skills_budget - len(index.text.encode()))
        for skill in chosen.values():
            full.add(skill)
        context = PromptContext(
            folders=tuple(index.folders),
            listed=len(index.skills),
            workspace_skills=tuple(dict.fromkeys(_names_of_workspace([*index.skills, *full.skills]))),
            skills=tuple(sent for sent, _ in full.texts),
            omitted=(*omitted, *full.omitted),
        )
        lead = "\n\n".join(part for part in (index.text, full.heading) if part)
        if not lead:
            return PreparedPrompt((), context)
        blocks = [text_resource("attachment:skills", "Skills", lead, "text/markdown", capabilities)]
        for sent, text in full.texts:
            path = Path(sent.path)
            mime_type = "text/markdown" if path.suffix.lower() == ".md" else "text/plain"
            blocks.append(text_resource(path.as_uri(), sent.path, text, mime_type, capabilities))
        marked = (msgspec.structs.replace(block, meta={CONTEXT_MARK: True}) for block in blocks)
        return PreparedPrompt(tuple(marked), context)


class _Index:
    """The index of skills within a number of bytes: each folder, and a line for each skill below it."""

    def __init__(self, skills: Iterable[Skill], max_bytes: int) -> None:
        self.folders: list[str] = []
        self.skills: list[Skill] = []
        lines: list[str] = []
        left, left_out = max_bytes - len(INDEX_HEADING) - 100, 0
        for skill in skills:
            new_lines = [_index_line(skill)]
            if str(skill.folder) not in self.folders:
                new_lines = [f"\nIn {skill.folder}:", *new_lines]
            size = sum(len(line.encode()) + 1 for line in new_lines)
            if size > left:
                left_out += 1
                continue
            left -= size
            lines += new_lines
            self.skills.append(skill)
            self.folders = list(dict.fromkeys([*self.folders, str(skill.folder)]))
        if left_out:
            lines.append(f"\n{left_out} more could not be listed here: look into the folders.")
        self.text = "\n".join([INDEX_HEADING, *lines]) if self.skills else ""


def _index_line(skill: Skill) -> str:
    path = skill.path.relative_to(skill.folder)
    description = skill.description
    if len(description) > MAX_INDEX_DESCRIPTION_CHARS:
        description = f"{description[: MAX_INDEX_DESCRIPTION_CHARS - 1]}…"
    name = "" if skill.name in (path.parent.name, str(path), str(path.with_suffix(""))) else f"{skill.name}: "
    return f"- {path}: {name}{description}".rstrip(": ")


class _FullTexts:
    """The skills that go in full, as far as they fit into a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.texts: list[tuple[SentSkill, str]] = []
        self.skills: list[Skill] = []
        self.omitted: list[OmittedSkill] = []
        self._left = max_bytes - len(FULL_HEADING) - 100

    def add(self, skill: Skill) -> None:
        try:
            text = skill_text(skill)
        except UnusableFile as error:
            self.omitted.append(OmittedSkill(skill.name, str(error)))
            return
        size = len(text.encode())
        needed = size + len(_full_line(skill.name, str(skill.path)).encode()) + 1
        if needed > self._left:
            reason = f"its {size:,} bytes do not fit: skills_budget has {max(self._left, 0):,} left"
            self.omitted.append(OmittedSkill(skill.name, reason))
            return
        self._left -= needed
        self.skills.append(skill)
        self.texts.append((SentSkill(skill.name, str(skill.path), size), text))

    @property
    def heading(self) -> str:
        lines = [_full_line(sent.name, sent.path) for sent, _ in self.texts]
        if not lines:
            return ""
        return "\n".join([FULL_HEADING, *lines])


def _full_line(name: str, path: str) -> str:
    return f"- {name}: {path}"


def _names_of_workspace(skills: Iterable[Skill]) -> Iterable[str]:
    return (skill.name for skill in skills if skill.place == "workspace")


def _text_of(block: acp.ContentBlock) -> str:
    return block.text if isinstance(block, acp.TextContent) else ""
