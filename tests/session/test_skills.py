"""Skills in folders: what is found, what is listed with a reason, and what is never read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.session.skills import (
    MAX_DEPTH,
    MAX_DESCRIPTION_CHARS,
    MAX_ENTRIES,
    MAX_SKILL_BYTES,
    MAX_SKILLS,
    Skill,
    UnusableFile,
    find_folders,
    find_skills,
    skill_named,
    skill_text,
)
from dragoman.workspace import Workspace

DEFAULT = "skills, .agents/skills"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "skills").mkdir(parents=True)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def front_matter(name: str, description: str = "does it", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n# {name}\n"


def found(work: Path, home: Path, names: str = DEFAULT) -> list[Skill]:
    return find_skills(find_folders(names, Workspace(work), home))


def problems(skills: Sequence[Skill]) -> dict[str, str]:
    return {skill.name: skill.problem for skill in skills if skill.problem}


def test_folders_with_a_skill_file_are_skills_with_their_front_matter(work: Path, home: Path) -> None:
    more = "license: MIT\ncompatibility: any\nallowed-tools: Read Grep\nmetadata:\n  version: '2'\nalways: true\n"
    path = write(work / "skills/review/SKILL.md", front_matter("review", "Reviews code", more))
    write(work / "skills/review/references/more.md", "# not a skill of its own")
    [skill] = found(work, home)
    assert skill == Skill(
        name="review",
        description="Reviews code",
        path=path,
        folder=work / "skills",
        place="workspace",
        kind="skill",
        size=path.stat().st_size,
        is_always=True,
        license="MIT",
        compatibility="any",
        allowed_tools="Read Grep",
        metadata={"version": "2"},
    )
    assert skill_text(skill) == path.read_text()


def test_markdown_files_are_described_by_their_heading_first_line_or_front_matter(work: Path, home: Path) -> None:
    write(work / "skills/heading.md", "\n\n## House style ##\n\ntext")
    write(work / "skills/line.md", "Use *four* spaces.\nMore.")
    write(work / "skills/front.md", "---\ndescription: described\nalways: yes\n---\n# other")
    write(work / "skills/deep/empty.MD", "\n")
    described = {skill.name: (skill.kind, skill.description) for skill in found(work, home)}
    assert described == {
        "front": ("document", "described"),
        "heading": ("document", "House style"),
        "line": ("document", "Use *four* spaces."),
        "deep/empty": ("document", ""),
    }
    assert [skill.name for skill in found(work, home) if skill.is_always] == ["front"]


def test_a_script_is_a_file_that_begins_with_an_interpreter_line(work: Path, home: Path) -> None:
    write(work / "skills/scripts/test.sh", "#!/bin/sh\n\n#\n#  Runs the tests\n# more\nmake test\n")
    write(work / "skills/scripts/tool", "#!/usr/bin/env node\n// Makes a page\n")
    write(work / "skills/scripts/bare.py", "#!/usr/bin/python3\nimport os  # no comment of the script\n")
    write(work / "skills/scripts/doc.py", '#!/usr/bin/python3\n"""Sorts files."""\n')
    write(work / "skills/__init__.py", '"""A package that is called skills."""\n')
    write(work / "skills/picture.png", b"\x89PNG\r\n")
    assert {skill.name: (skill.kind, skill.description) for skill in found(work, home)} == {
        "scripts/bare.py": ("script", ""),
        "scripts/doc.py": ("script", "Sorts files."),
        "scripts/test.sh": ("script", "Runs the tests"),
        "scripts/tool": ("script", "Makes a page"),
    }


@pytest.mark.attempts("planted repositories")
def test_a_workspace_cannot_take_the_name_of_a_skill_of_the_users_own(work: Path, home: Path) -> None:
    write(work / "skills/review/SKILL.md", front_matter("review", "planted"))
    write(work / ".agents/skills/lint/SKILL.md", front_matter("lint"))
    own = write(home / ".agents/skills/review/SKILL.md", front_matter("review", "the user's"))
    write(home / "skills/letters.md", "# Letters")
    skills = found(work, home)
    assert [(skill.name, skill.place) for skill in skills] == [
        ("letters", "user"),
        ("review", "user"),
        ("review", "workspace"),
        ("lint", "workspace"),
    ]
    assert problems(skills) == {"review": f"another skill has this name: {own}"}
    chosen = skill_named(skills, "review")
    assert chosen is not None
    assert chosen.path == own


@pytest.mark.attempts("planted repositories")
def test_a_workspace_with_many_skills_does_not_crowd_out_the_users_own(work: Path, home: Path) -> None:
    for number in range(MAX_SKILLS + 1):
        write(work / f"skills/a{number:03}.md", "x")
    write(home / "skills/zeal.md", "the user's")
    assert skill_named(found(work, home), "zeal") is not None


def test_a_file_that_may_not_be_read_is_listed_with_the_reason_and_nothing_of_its_text(work: Path, home: Path) -> None:
    write(work / "skills/secret/SKILL.md", front_matter("secret-name", "SECRET"))
    write(work / "skills/secret.md", "SECRET")
    write(work / "skills/secret.sh", "#!/bin/sh\n# SECRET\n")
    write(home / "skills/free.md", "free")
    checked_files: list[tuple[str, str]] = []

    def check(path: Path, place: str) -> str | None:
        checked_files.append((path.name, place))
        return "a rule denies it" if "secret" in str(path.relative_to(work.parent)) else None

    skills = find_skills(find_folders(DEFAULT, Workspace(work), home), check)
    assert {skill.name: skill.problem for skill in skills} == {
        "free": "",
        "secret": "it may not be read: a rule denies it",
        "secret.md": "it may not be read: a rule denies it",
        "secret.sh": "it may not be read: a rule denies it",
    }
    assert "SECRET" not in str(skills)
    assert ("free.md", "user") in checked_files
    assert ("SKILL.md", "workspace") in checked_files


def test_the_setting_names_the_folders(work: Path, home: Path, tmp_path: Path) -> None:
    write(work / "skills/a.md", "a")
    write(work / ".claude/skills/b/SKILL.md", front_matter("b"))
    write(home / "more/c.md", "c")
    write(tmp_path / "elsewhere/d.md", "d")
    names = f".claude/skills, ~/more, {tmp_path}/elsewhere, missing"
    assert [skill.name for skill in found(work, home, names)] == ["c", "d", "b"]
    assert found(work, home, "none") == []


def test_additional_folders_are_of_the_workspace_and_a_folder_counts_once(
    work: Path, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for folder in (home, work, other):
        (folder / "skills").mkdir(parents=True, exist_ok=True)
    folders = find_folders("skills", Workspace(work, [home, other]), home)
    assert [(folder.path, folder.place) for folder in folders] == [
        (home / "skills", "user"),
        (work / "skills", "workspace"),
        (other / "skills", "workspace"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"# no front matter", "it has no description"),
        (b"---\nname: broken\n---\n", "it has no description"),
        (b"---\nname: &x broken\n---\n", "line 2: an anchor"),
        (b"---\ndescription: \xff\n---\n", "it is not UTF-8 text"),
        (front_matter("x" * 65).encode(), "its name is longer than 64 characters"),
        (front_matter("broken").encode() + b"x" * MAX_SKILL_BYTES, "it is larger than 256 KiB"),
    ],
)
def test_a_skill_that_cannot_be_used_is_listed_with_the_reason(
    text: bytes, problem: str, work: Path, home: Path
) -> None:
    write(work / "skills/broken/SKILL.md", text)
    [skill] = found(work, home)
    assert skill.name == "broken"
    assert skill.problem.startswith(problem)
    assert skill_named([skill], "broken") is None


def test_what_its_author_should_correct_is_a_notice(work: Path, home: Path) -> None:
    write(work / "skills/other/SKILL.md", front_matter("My Skill", "x" * 2000))
    write(work / "skills/nameless/SKILL.md", "---\ndescription: none\n---\n")
    nameless, named = found(work, home)
    assert (nameless.name, nameless.problem, nameless.notice) == (
        "nameless",
        "",
        "it has no name; its folder's is used",
    )
    assert (named.name, named.problem, len(named.description)) == ("My Skill", "", MAX_DESCRIPTION_CHARS)
    assert "differs from its folder's (other)" in named.notice
    assert "other than a-z" in named.notice
    assert "longer than 1024" in named.notice


@pytest.mark.parametrize("begin", ["# a", "text", "#", "#!/bin/sh\n# a", "#!/bin/sh\n#"])
def test_a_long_line_is_described_in_steps_that_grow_with_its_length_only(begin: str, work: Path, home: Path) -> None:
    # A quadratic search would take minutes for these, and the suite's own limit would end the test.
    for number, filler in enumerate((" ", "# ", "#", "\t", "-", '"')):
        for suffix in (".md", ".sh"):
            write(work / f"skills/{number}{suffix}", begin + filler * (MAX_SKILL_BYTES // 4 // len(filler)) + "x")
    assert all(not skill.problem and len(skill.description) <= MAX_DESCRIPTION_CHARS for skill in found(work, home))


def test_texts_that_act_on_a_terminal_are_made_inert(work: Path, home: Path) -> None:
    write(work / "skills/x/SKILL.md", front_matter("x", '"red \\u001b[31m \\u202e end"'))
    assert found(work, home)[0].description == "red end"


@pytest.mark.attempts("file escapes")
def test_no_link_leads_out_of_a_folder(work: Path, home: Path, tmp_path: Path) -> None:
    secret = write(tmp_path / "secret/SKILL.md", front_matter("secret", "SECRET"))
    write(tmp_path / "secret/run.sh", "#!/bin/sh\n# SECRET\n")
    (work / "skills/file.md").symlink_to(secret)
    (work / "skills/folder").symlink_to(secret.parent)
    (work / "skills/script").symlink_to(secret.parent / "run.sh")
    (work / "skills/relative.md").symlink_to("../../secret/SKILL.md")
    (work / "skills/broken.md").symlink_to("nowhere")
    (work / "skills/up").mkdir()
    (work / "skills/up/SKILL.md").symlink_to(secret)
    write(work / "skills/own.md", "# own")
    (work / "skills/inside.md").symlink_to("own.md")
    skills = found(work, home)
    out = "it is a link that leads out of the folder"
    assert problems(skills) == {
        "broken.md": "it cannot be read: No such file or directory",
        "file.md": out,
        "folder": out,
        "relative.md": out,
        "script": out,
        "up": out,
    }
    assert {skill.name: skill.description for skill in skills if not skill.problem} == {"own": "own", "inside": "own"}
    assert not any("SECRET" in skill.description for skill in skills)


@pytest.mark.attempts("file escapes")
def test_a_folder_of_the_workspace_that_is_a_link_to_outside_is_not_read(
    work: Path, home: Path, tmp_path: Path
) -> None:
    write(tmp_path / "notes/diary.md", "# SECRET")
    (work / ".agents").mkdir()
    (work / ".agents/skills").symlink_to(tmp_path / "notes")
    [skill] = found(work, home)
    assert (skill.description, skill.problem) == ("", "it is a link that leads out of the workspace")
    # The user's own folder may be anywhere.
    (home / "skills").symlink_to(tmp_path / "notes")
    assert "diary" in [skill.name for skill in found(work, home)]


@pytest.mark.attempts("file escapes")
def test_a_file_that_is_replaced_by_a_link_after_it_was_found_is_not_read(
    work: Path, home: Path, tmp_path: Path
) -> None:
    path = write(work / "skills/a.md", "# a")
    secret = write(tmp_path / "secret.md", "SECRET")
    [skill] = found(work, home)
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(UnusableFile, match="leads out of the folder"):
        skill_text(skill)


def test_pipes_and_unreadable_names_are_listed_and_never_opened_for_long(work: Path, home: Path) -> None:
    os.mkfifo(work / "skills/pipe.md")
    write(work / "skills" / os.fsdecode(b"bytes\xff.md"), "# x")
    write(work / "skills/line\nend.md", "# x")
    assert problems(found(work, home)) == {
        "bytes\ufffd.md": "its path is not UTF-8",
        "line end.md": "its path has characters that cannot be shown",
        "pipe.md": "it is no regular file",
    }


def test_hidden_files_and_tool_folders_are_left_out(work: Path, home: Path) -> None:
    for name in (".hidden.md", ".git/x.md", "node_modules/x.md", "__pycache__/x.md"):
        write(work / "skills" / name, "# x")
    assert found(work, home) == []


def test_the_number_of_skills_the_entries_and_the_depth_are_bounded(work: Path, home: Path) -> None:
    deep = work / "skills" / "/".join("abcdef"[: MAX_DEPTH + 1])
    write(deep / "x.md", "# x")
    assert [skill.problem for skill in found(work, home)] == [f"it is more than {MAX_DEPTH} folders deep"]
    for number in range(MAX_SKILLS + 1):
        write(work / f"skills/{number:04}.md", "# x")
    skills = found(work, home)
    assert len(skills) == MAX_SKILLS + 1
    assert skills[-1].problem == f"there are more than {MAX_SKILLS} skills; the rest is left out"
    for number in range(MAX_ENTRIES):
        (work / f"skills/{number:04}.txt").touch()
    assert [skill.problem for skill in found(work, home)] == [
        f"there are more than {MAX_ENTRIES:,} files: this folder is not searched, nor those after it"
    ]
