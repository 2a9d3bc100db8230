"""Skills: files with instructions for an agent, found in folders of the workspace and of the user. Blocking; no state.

A skill is a folder with a `SKILL.md` (agentskills.io), a Markdown file, or a script, which is a file that begins with
`#!`. Dragoman reads skills and never runs one: the agent does, if it wants to and may. The user's own come first, so
that a workspace can neither take the name of one of them, nor crowd them out.

Promised: the number of files, their size and the depth of folders are bounded. A symbolic link never leads out of its
folder, and a folder of the workspace that is itself a link never out of the workspace. A file that cannot be used is
listed with the reason (`Skill.problem`), and so is the rest of a folder that has too many files. A file that may not be
read by the rules is not opened.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.record.text import strip_controls, strip_directions
from dragoman.session.front_matter import (
    MAX_FRONT_MATTER_CHARS,
    FrontMatterError,
    MarkdownFile,
    read_markdown,
)
from dragoman.workspace import OutsideWorkspace, Workspace
from dragoman.workspace.paths import pin, resolve

# Skills of all folders together, and files and folders that are looked at in one of them.
MAX_SKILLS: Final = 200
MAX_ENTRIES: Final = 2_000

# Folders below a skills folder, as in `skills/writing/letters/formal/SKILL.md`.
MAX_DEPTH: Final = 3

MAX_SKILL_BYTES: Final = 256 * 1024
MAX_NAME_CHARS: Final = 64
MAX_DESCRIPTION_CHARS: Final = 1024

# Bytes of a file that are read for the index: its front matter, or its first heading or comment.
_HEAD_BYTES: Final = MAX_FRONT_MATTER_CHARS + 1024

OUTSIDE_FOLDER: Final = "it is a link that leads out of the folder"

_STANDARD_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_HEADING: Final = re.compile(r"#{1,6}\s+")
_COMMENT: Final = re.compile(r"(?:#|//|--|;|%|\")+\s*(\S.*)")
_COMMENT_MARKS: Final = ' \t#/-;%"'
_SKILL_FILES: Final = ("SKILL.md", "skill.md")
_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "venv"})

Place: TypeAlias = Literal["workspace", "user"]
Kind: TypeAlias = Literal["skill", "document", "script"]

# Returns why a file may not be read; None where it may.
ReadCheck: TypeAlias = Callable[[Path, Place], str | None]


class SkillFolder(msgspec.Struct, frozen=True):
    """A folder that exists. `path` has no link in it. `problem`: why nothing in it is read."""

    path: Path
    place: Place
    problem: str = ""


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill, or a file in its place that cannot be used (`problem`). `notice`: what its author should correct.

    `size` is in bytes. `is_always`: its front matter says that it goes with every prompt in full.
    """

    name: str
    description: str = ""
    path: Path
    folder: Path
    place: Place
    kind: Kind
    size: int = 0
    is_always: bool = False
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    metadata: dict[str, str] = {}
    problem: str = ""
    notice: str = ""


def find_folders(names: str, workspace: Workspace, user_home: Path) -> list[SkillFolder]:
    """Return the folders of a setting (`skills, ~/more`) that exist, the user's own first, each once."""
    found: dict[Path, SkillFolder] = {}
    for path in user_folders(names, user_home):
        real = Path(os.path.realpath(path))
        found.setdefault(real, SkillFolder(real, "user"))
    for name in (name for name in _listed(names) if not name.startswith(("/", "~/"))):
        for path in (folder / name for folder in workspace.folders):
            if os.path.isdir(path):  # False for one that cannot be looked at, too
                try:
                    folder = SkillFolder(resolve(workspace.folders, str(path)), "workspace")
                except OutsideWorkspace:
                    folder = SkillFolder(path, "workspace", "it is a link that leads out of the workspace")
                found.setdefault(folder.path, folder)
    return list(found.values())


def user_folders(names: str, user_home: Path) -> list[Path]:
    """Return the user's own folders of a setting that exist, by the paths that it names, with the links in them."""
    paths = [user_home / name.removeprefix("~/") for name in _listed(names)]  # an absolute one stays as it is
    return [path for path in paths if os.path.isdir(path)]


def _listed(names: str) -> list[str]:
    return [] if names == "none" else [name.strip() for name in names.split(",") if name.strip()]


def find_skills(folders: Iterable[SkillFolder], read_check: ReadCheck | None = None) -> list[Skill]:
    """Return the skills of the folders, in their order. Of two with one name, the first can be used.

    Without a `read_check` every file is read.
    """
    skills: list[Skill] = []
    taken: dict[str, Skill] = {}
    for folder in folders:
        for skill in _skills_in(folder, read_check):
            if len(skills) == MAX_SKILLS:
                problem = f"there are more than {MAX_SKILLS} skills; the rest is left out"
                return [*skills, _unusable(folder, folder.path, problem)]
            if not skill.problem and (first := taken.setdefault(skill.name, skill)) is not skill:
                skill = msgspec.structs.replace(skill, problem=f"another skill has this name: {first.path}")
            skills.append(skill)
    return skills


def _skills_in(folder: SkillFolder, read_check: ReadCheck | None) -> Iterator[Skill]:
    if folder.problem:
        yield _unusable(folder, folder.path, folder.problem)
        return
    left = MAX_ENTRIES
    pending = [(folder.path, 0)]
    while pending:
        current, depth = pending.pop()
        try:
            with os.scandir(current) as listing:
                entries = sorted((entry for entry, _ in zip(listing, range(left + 1), strict=False)), key=_entry_name)
        except OSError as error:
            yield _unusable(folder, current, f"it cannot be read: {error.strerror}")
            continue
        if len(entries) > left:
            problem = f"there are more than {MAX_ENTRIES:,} files: this folder is not searched, nor those after it"
            yield _unusable(folder, current, problem)
            return
        left -= len(entries)
        main = next((entry for entry in entries if entry.name in _SKILL_FILES), None)
        if main is not None and depth:
            yield _skill_of(folder, Path(main.path), read_check)
            continue
        subfolders: list[tuple[Path, int]] = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth == MAX_DEPTH:
                    yield _unusable(folder, Path(entry.path), f"it is more than {MAX_DEPTH} folders deep")
                elif entry.name not in _SKIPPED_FOLDERS:
                    subfolders.append((Path(entry.path), depth + 1))
            elif (skill := _other_skill(folder, Path(entry.path), read_check)) is not None:
                yield skill
        pending.extend(reversed(subfolders))


def _entry_name(entry: os.DirEntry[str]) -> str:
    return entry.name


# -- files


class UnusableFile(Exception):
    """A file that is not read; the message says why."""


def read_file(folder: Path, path: Path, max_bytes: int) -> tuple[bytes, int]:
    """Return the first bytes of a file below a folder, and its size. Raises `UnusableFile`, also for a link to outside.

    Nothing else than a regular file is read: a pipe in its place would block us forever.
    """
    try:
        with pin((folder,), str(path)) as pinned, pinned.open() as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnusableFile("it is no regular file")
            return file.read(max_bytes), status.st_size
    except OutsideWorkspace:
        raise UnusableFile(OUTSIDE_FOLDER) from None
    except OSError as error:
        raise UnusableFile(f"it cannot be read: {error.strerror}") from None


def read_text(folder: Path, path: Path, max_bytes: int) -> str:
    """Read a whole text file below a folder. Raises `UnusableFile`."""
    data, size = read_file(folder, path, max_bytes + 1)
    if len(data) > max_bytes or size > max_bytes:
        raise UnusableFile(f"it is larger than {max_bytes // 1024} KiB")
    return _decode(data, final=True)


def skill_text(skill: Skill) -> str:
    """Read a skill in full. Raises `UnusableFile`."""
    return read_text(skill.folder, skill.path, MAX_SKILL_BYTES)


def _decode(data: bytes, *, final: bool) -> str:
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final)
    except UnicodeDecodeError as error:
        raise UnusableFile(f"it is not UTF-8 text ({error.reason} at byte {error.start})") from None


def _unusable(folder: SkillFolder, path: Path, problem: str, kind: Kind = "document") -> Skill:
    named = path.parent if kind == "skill" else path
    name = _relative_name(folder, named) if path != folder.path else str(path)
    return Skill(name=_one_line(name), path=path, folder=folder.path, place=folder.place, kind=kind, problem=problem)


def _skill_of(folder: SkillFolder, path: Path, read_check: ReadCheck | None) -> Skill:
    """Return the skill of a `SKILL.md`."""
    own_folder = path.parent
    try:
        check_rules(folder, path, read_check)
        markdown, size = _read_head(folder, path)
    except (UnusableFile, FrontMatterError) as error:
        return _unusable(folder, path, str(error), "skill")
    name, description = _one_line(markdown.text("name")), _one_line(markdown.text("description"))
    if not description:
        return _unusable(folder, path, "it has no description", "skill")
    notices = []
    if not name:
        name = _one_line(own_folder.name)
        notices.append("it has no name; its folder's is used")
    elif name != own_folder.name:
        notices.append(f"its name differs from its folder's ({own_folder.name})")
    if len(name) > MAX_NAME_CHARS:
        return _unusable(folder, path, f"its name is longer than {MAX_NAME_CHARS} characters", "skill")
    if not _STANDARD_NAME.fullmatch(name):
        notices.append("its name has characters other than a-z, 0-9 and single hyphens")
    if len(description) > MAX_DESCRIPTION_CHARS:
        notices.append(f"its description is longer than {MAX_DESCRIPTION_CHARS} characters")
    return _with_fields(folder, path, "skill", name, description, size, markdown, "; ".join(notices))


def _other_skill(folder: SkillFolder, path: Path, read_check: ReadCheck | None) -> Skill | None:
    """Return the skill of a Markdown file or a script; None for any other file."""
    is_markdown = path.suffix.lower() == ".md"
    name = _relative_name(folder, path)
    try:
        if os.path.islink(path) and os.path.isdir(path):
            resolve((folder.path,), str(path))
            return None  # one of the folder's own: it is listed where it is
        check_rules(folder, path, read_check)
        if is_markdown:
            markdown, size = _read_head(folder, path)
            description = _one_line(markdown.text("description")) or first_line(markdown.body)
            return _with_fields(folder, path, "document", name.removesuffix(path.suffix), description, size, markdown)
        if not read_file(folder.path, path, 2)[0].startswith(b"#!"):
            return None
        markdown, size = _read_head(folder, path)
        return _with_fields(folder, path, "script", name, _first_comment(markdown.body), size, markdown)
    except OutsideWorkspace:
        return _unusable(folder, path, OUTSIDE_FOLDER)
    except (UnusableFile, FrontMatterError) as error:
        return _unusable(folder, path, str(error), "document" if is_markdown else "script")


def check_rules(folder: SkillFolder, path: Path, read_check: ReadCheck | None) -> None:
    """Raise `UnusableFile` for a file that may not be read by the rules, under its own name or that of its target."""
    if read_check is not None and (reason := read_check(path, folder.place)):
        raise UnusableFile(f"it may not be read: {reason}")


def _read_head(folder: SkillFolder, path: Path) -> tuple[MarkdownFile, int]:
    """Return the beginning of a file and its size. Raises `UnusableFile` and `FrontMatterError`."""
    check_path(path)
    data, size = read_file(folder.path, path, _HEAD_BYTES)
    if size > MAX_SKILL_BYTES:
        raise UnusableFile(f"it is larger than {MAX_SKILL_BYTES // 1024} KiB")
    return read_markdown(_decode(data, final=size <= len(data))), size


def _with_fields(
    folder: SkillFolder,
    path: Path,
    kind: Kind,
    name: str,
    description: str,
    size: int,
    markdown: MarkdownFile,
    notice: str = "",
) -> Skill:
    metadata = markdown.values.get("metadata")
    return Skill(
        name=_one_line(name),
        description=description[:MAX_DESCRIPTION_CHARS],
        path=path,
        folder=folder.path,
        place=folder.place,
        kind=kind,
        size=size,
        is_always=markdown.is_true("always"),
        license=_one_line(markdown.text("license")),
        compatibility=_one_line(markdown.text("compatibility")),
        allowed_tools=_one_line(markdown.text("allowed-tools")),
        metadata=metadata if isinstance(metadata, dict) else {},
        notice=notice,
    )


def check_path(path: Path) -> None:
    """Raise `UnusableFile` for a path that cannot be written in a prompt."""
    text = str(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnusableFile("its path is not UTF-8") from None
    if not text.isprintable() or strip_directions(text) != text:
        raise UnusableFile("its path has characters that cannot be shown")


def first_line(body: str) -> str:
    """Return the first heading or line of a Markdown text, as a description."""
    for line in body.splitlines():
        if text := line.strip():
            heading = _HEADING.match(text)
            return _one_line(text[heading.end() :].rstrip("#") if heading else text)[:MAX_DESCRIPTION_CHARS]
    return ""


def _first_comment(text: str) -> str:
    """Return the first comment or docstring after the `#!` line of a script; empty where something else comes first."""
    for line in text.splitlines()[1:]:
        if line.strip(_COMMENT_MARKS):  # neither empty nor an empty comment
            comment = _COMMENT.fullmatch(line.strip())
            return _one_line(comment[1]).rstrip('"')[:MAX_DESCRIPTION_CHARS] if comment is not None else ""
    return ""


def _relative_name(folder: SkillFolder, path: Path) -> str:
    return os.fsencode(path.relative_to(folder.path)).decode("utf-8", "replace")


def _one_line(text: str) -> str:
    return " ".join(strip_directions(strip_controls(text)).split())


# -- names


def skill_named(skills: Sequence[Skill], name: str) -> Skill | None:
    """Return the skill of this name that can be used."""
    return next((skill for skill in skills if skill.name == name and not skill.problem), None)
