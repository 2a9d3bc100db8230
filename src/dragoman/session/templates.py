"""Prompt templates: Markdown files that a user calls by `/name arguments`. Blocking to find, pure to expand.

They are for agents that have no slash command of that name; the agent's own command is always first. In the text,
`$ARGUMENTS` stands for all arguments, `$1` to `$9` for single ones (quotes hold words together), and `$$` for `$`.

Promised: arguments are put in once and never read again, so that a `$1` in an argument stays what it is. An expanded
text never begins with `/` or `!`: agents take such a text for a command, and a template may come from anywhere.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from dragoman.errors import InputError
from dragoman.session.front_matter import FrontMatterError, read_markdown
from dragoman.session.skills import (
    MAX_ENTRIES,
    Place,
    ReadCheck,
    SkillFolder,
    UnusableFile,
    check_path,
    check_rules,
    first_line,
    read_text,
)

MAX_TEMPLATES: Final = 200
MAX_TEMPLATE_BYTES: Final = 64 * 1024
MAX_EXPANDED_CHARS: Final = 1024 * 1024

# The byte order mark is a space to JavaScript, in which many agents are written.
_COMMAND_START: Final = re.compile(r"[\s\ufeff]*([/!])")

_NAME: Final = re.compile(r"\w[\w.-]{0,63}")
_CALL: Final = re.compile(r"\s*/(\w[\w.-]{0,63})(?:\s+(.*))?", re.DOTALL)
_PLACEHOLDER: Final = re.compile(r"\$(\$|ARGUMENTS\b|[1-9](?!\d))")


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A template, or a file in its place that cannot be used (`problem`). `hint` describes its arguments."""

    name: str
    description: str = ""
    hint: str = ""
    path: Path
    place: Place
    body: str = ""
    problem: str = ""


def find_templates(folders: Iterable[SkillFolder], read_check: ReadCheck | None = None) -> list[Template]:
    """Return the templates of the folders, in their order. Of two with one name, the first can be used."""
    templates: list[Template] = []
    taken: dict[str, Template] = {}
    for folder in folders:
        for template in _templates_in(folder, read_check):
            if len(templates) == MAX_TEMPLATES:
                problem = f"there are more than {MAX_TEMPLATES} templates; the rest is left out"
                templates.append(_unusable(folder, folder.path, problem))
                return templates
            if not template.problem and (first := taken.setdefault(template.name, template)) is not template:
                template = msgspec.structs.replace(template, problem=f"another template has this name: {first.path}")
            templates.append(template)
    return templates


def _templates_in(folder: SkillFolder, read_check: ReadCheck | None) -> Iterator[Template]:
    if folder.problem:
        yield _unusable(folder, folder.path, folder.problem)
        return
    try:
        with os.scandir(folder.path) as listing:
            names = sorted(entry.name for entry, _ in zip(listing, range(MAX_ENTRIES), strict=False))
    except OSError as error:
        yield _unusable(folder, folder.path, f"it cannot be read: {error.strerror}")
        return
    for name in names:
        path = folder.path / name
        if path.suffix.lower() == ".md" and not name.startswith("."):
            try:
                check_rules(folder, path, read_check)
                yield _template(folder, path)
            except (UnusableFile, FrontMatterError) as error:
                yield _unusable(folder, path, str(error))


def _template(folder: SkillFolder, path: Path) -> Template:
    check_path(path)
    if not _NAME.fullmatch(path.stem):
        raise UnusableFile("its name cannot be typed as one word")
    markdown = read_markdown(read_text(folder.path, path, MAX_TEMPLATE_BYTES))
    if not markdown.body.strip():
        raise UnusableFile("it is empty")
    if command := _COMMAND_START.match(markdown.body):
        raise UnusableFile(f"its text begins with {command[1]!r}, which agents take for a command")
    return Template(
        name=path.stem,
        description=" ".join(markdown.text("description").split()) or first_line(markdown.body),
        hint=" ".join(markdown.text("argument-hint").split()),
        path=path,
        place=folder.place,
        body=markdown.body.strip(),
    )


def _unusable(folder: SkillFolder, path: Path, problem: str) -> Template:
    return Template(
        name=os.fsencode(path.name).decode("utf-8", "replace"), path=path, place=folder.place, problem=problem
    )


def called_template(
    text: str, templates: Mapping[str, Template], agent_commands: Collection[str]
) -> tuple[Template, str] | None:
    """Return the template that a prompt calls, and its arguments; None where it calls none, or a command of the
    agent's."""
    call = _CALL.fullmatch(text)
    if call is None or call[1] in agent_commands:
        return None
    template = templates.get(call[1])
    return None if template is None else (template, (call[2] or "").strip())


def expand_template(template: Template, arguments: str) -> str:
    """Return the text of a template with these arguments. Arguments that it has no place for follow after it.

    `InputError` where the result would be a command of the agent, or is too long.
    """
    try:
        words = shlex.split(arguments)
    except ValueError:  # an apostrophe, for example
        words = arguments.split()
    parts: list[str] = []
    begin = length = 0
    for mark in _PLACEHOLDER.finditer(template.body):
        value = {"$": "$", "ARGUMENTS": arguments}.get(mark[1])
        if value is None:
            number = int(mark[1])
            value = words[number - 1] if number <= len(words) else ""
        parts += [template.body[begin : mark.start()], value]
        length += mark.start() - begin + len(value)
        if length > MAX_EXPANDED_CHARS:
            raise InputError(f"/{template.name}: with these arguments the prompt is too long")
        begin = mark.end()
    is_placed = any(mark[1] != "$" for mark in _PLACEHOLDER.finditer(template.body))
    parts.append(template.body[begin:])
    if arguments and not is_placed:
        parts.append(f"\n\n{arguments}")
    text = "".join(parts).strip()
    if command := _COMMAND_START.match(text):
        raise InputError(
            f"/{template.name}: its text begins with {command[1]!r}, which agents take for a command",
            guidance=f"Let {template.path} begin with a word.",
        )
    if not text:
        raise InputError(f"/{template.name}: without arguments the prompt is empty", guidance=f"/{template.name} …")
    return text
