"""`dragoman skills`: the skills and prompt templates of a folder, and how they go with prompts. No skill is run."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import click

from dragoman.cli.command import Table, folder, note, print_json, sync_command, usable_settings
from dragoman.cli.options import complete_skill, json_option
from dragoman.cli.text import one_line, plain, size
from dragoman.config import Config, SkillState, home_folder, make_home
from dragoman.errors import InputError
from dragoman.session.context import AvailableContext, AvailableSkill, ContextSource
from dragoman.session.skills import Skill, UnusableFile, skill_text
from dragoman.session.templates import Template
from dragoman.settings import change_settings, with_skill_state
from dragoman.workspace import Workspace

EPILOG = """\b
Examples:
  dragoman skills list
  dragoman skills show review
  dragoman skills enable review --always   in full with every prompt
  dragoman skills disable review           not even in the index
  dragoman run --skill review "Look at the last commit"

See docs/skills.md."""
LIST_EPILOG = """\b
Examples:
  dragoman skills list
  dragoman skills list --json | jq -r '.skills[].name'"""
SHOW_EPILOG = """\b
Examples:
  dragoman skills show review"""
ENABLE_EPILOG = """\b
Examples:
  dragoman skills enable review
  dragoman skills enable style --always"""
DISABLE_EPILOG = """\b
Examples:
  dragoman skills disable review"""

# Columns of a name in the list: those of names by the standard may have 64 characters, and hardly one has 30.
MAX_NAME_COLUMNS = 32

cwd_option = click.option("--cwd", metavar="DIR", help="The workspace. [default: the current folder]")


@click.group(epilog=EPILOG)
def skills() -> None:
    """List, show, enable and disable skills: files with instructions that go with your prompts."""


@skills.command("list", epilog=LIST_EPILOG, short_help="List the skills and prompt templates of a folder.")
@cwd_option
@json_option
@sync_command
def list_(cwd: str | None, as_json: bool) -> None:
    """List the skills and prompt templates of a folder, and your own."""
    settings = usable_settings()
    available = _read(settings, cwd)
    if as_json:
        return print_json(
            {
                "skills": [_skill_record(item) for item in available.skills],
                "templates": [_template_record(template) for template in available.templates],
            }
        )
    if not available.skills and not available.templates:
        return _explain_where(settings)
    usable = [item for item in available.skills if not item.skill.problem]
    if usable:
        table = Table()
        for heading in ("skill", "state", "size", "from", "description"):
            table.add_column(heading, shrinks=heading == "description")
        for item in usable:
            skill = item.skill
            name, origin = one_line(skill.name, MAX_NAME_COLUMNS), "you" if skill.place == "user" else "workspace"
            table.add_row(name, item.state, size(skill.size), origin, plain(skill.description), styles={0: "bold"})
        table.print()
    if templates := available.usable_templates():
        if usable:
            click.echo()
        _print_templates(templates.values())
    for item in usable:
        if item.skill.notice:
            note(plain(f"{item.skill.name}: {item.skill.notice}"))
    problems: list[Skill | Template] = [item.skill for item in available.skills if item.skill.problem]
    problems += [template for template in available.templates if template.problem]
    if problems:
        note("Not usable:")
        for problem in problems:
            note(plain(f"  {folder(_path_text(problem.path))}: {problem.problem}"))
    return None


def _explain_where(settings: Config) -> None:
    """Say where skills and templates belong, for a folder that has none."""
    note("There are no skills and no prompt templates here.")
    if settings.skills_folders == "none":
        note("Skills are switched off: skills_folders = none.")
    else:
        folders, first = settings.skills_folders, settings.skills_folders.split(",")[0]
        note(f"A skill is a Markdown file or a folder with a SKILL.md in {folders}, here or in your home folder.")
        note(f'For example: mkdir -p {first} && echo "Run make test before you are done." > {first}/done.md')
    if settings.prompts_folders != "none":
        note(f"A prompt template is a Markdown file in {settings.prompts_folders}: /NAME in a prompt calls it.")


def _print_templates(templates: Collection[Template]) -> None:
    table = Table()
    for heading in ("prompt", "arguments", "description"):
        table.add_column(heading, shrinks=heading == "description")
    for template in templates:
        table.add_row(*map(plain, (f"/{template.name}", template.hint, template.description)), styles={0: "bold"})
    table.print()


@skills.command(epilog=SHOW_EPILOG, short_help="Print a skill.")
@click.argument("name", shell_complete=complete_skill)
@cwd_option
@sync_command
def show(name: str, cwd: str | None) -> None:
    """Print the text of a skill, and on stderr where it is and how it goes with prompts."""
    available = _read(usable_settings(), cwd)
    skill = available.skill(name)
    state = next(item.state for item in available.skills if item.skill is skill)
    note(plain(f"{folder(str(skill.path))} ({size(skill.size)}, {state})"))
    for label, value in (
        ("license", skill.license),
        ("compatibility", skill.compatibility),
        ("allowed tools", skill.allowed_tools),
        ("notice", skill.notice),
    ):
        if value:
            note(plain(f"{label}: {value}"))
    try:
        click.echo(plain(skill_text(skill)))
    except UnusableFile as error:
        raise InputError(f"{skill.path}: {error}") from None


@skills.command(epilog=ENABLE_EPILOG, short_help="List a skill in the index, or send it in full.")
@click.argument("name", shell_complete=complete_skill)
@click.option("--always", is_flag=True, help="Send it in full with every prompt.")
@cwd_option
@sync_command
def enable(name: str, always: bool, cwd: str | None) -> None:
    """List a skill in the index that goes with every prompt; with --always, send it in full."""
    _set_state(name, "always" if always else "listed", cwd)


@skills.command(epilog=DISABLE_EPILOG, short_help="Leave a skill out.")
@click.argument("name", shell_complete=complete_skill)
@cwd_option
@sync_command
def disable(name: str, cwd: str | None) -> None:
    """Leave a skill out of prompts, unless one names it."""
    _set_state(name, "off", cwd)


def _set_state(name: str, state: SkillState, cwd: str | None) -> None:
    skill = _read(usable_settings(), cwd).skill(name)
    default = "always" if skill.is_always else "listed"
    change = None if state == default else state
    change_settings(make_home(home_folder()), lambda page: with_skill_state(page, str(skill.path), change))
    texts = {
        "always": "goes in full with every prompt",
        "listed": "is listed with every prompt",
        "off": "is left out",
    }
    click.echo(plain(f"{skill.name} {texts[state]}."))
    note(plain(folder(str(skill.path))))


def _read(settings: Config, cwd: str | None) -> AvailableContext:
    return ContextSource(settings.home).read(Workspace(cwd or os.getcwd()), settings)


def _skill_record(item: AvailableSkill) -> dict[str, object]:
    skill = item.skill
    return {
        "name": skill.name,
        "state": item.state,
        "kind": skill.kind,
        "place": skill.place,
        "path": _path_text(skill.path),
        "size": skill.size,
        "description": skill.description,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed_tools": skill.allowed_tools,
        "metadata": skill.metadata,
        "problem": skill.problem or None,
        "notice": skill.notice or None,
    }


def _template_record(template: Template) -> dict[str, object]:
    return {
        "name": template.name,
        "arguments": template.hint,
        "place": template.place,
        "path": _path_text(template.path),
        "description": template.description,
        "problem": template.problem or None,
    }


def _path_text(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "replace")
