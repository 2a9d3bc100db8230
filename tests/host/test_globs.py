"""Patterns: what each matches, narrowly for an allow and widely for a deny."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.host.policy.effects import resolve_path
from dragoman.host.policy.globs import (
    command_allowed,
    command_found,
    escaped,
    mcp_allowed,
    mcp_found,
    name_matches,
    path_matches,
)
from dragoman.host.shell.reader import ShellCommand, read_script
from dragoman.workspace import Workspace


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (".env", [".env", "a/.env", "a/b/.env", ".env/x"], [".envrc", "x.env", "a.env"]),
        ("**/.env", [".env", "a/.env"], [".env.local"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "lib/src/a", "srcs/a"]),
        ("src", ["src", "src/a", "lib/src/a"], ["srcs"]),
        ("src/", ["src", "src/a"], ["srcs"]),
        ("./a", ["a", "a/b"], ["b/a"]),
        ("src/*.py", ["src/a.py", "src/.py"], ["src/a/b.py", "src/a.pyc"]),
        ("**/test_*.py", ["test_a.py", "a/b/test_x.py"], ["a/test_x.txt"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["a/bz", "b/a/z"]),
        ("*.py", ["a.py", "x/a.py"], ["a.pyi"]),
        ("file?.txt", ["file1.txt"], ["file.txt", "file12.txt"]),
        ("[ab].txt", ["a.txt"], ["c.txt"]),
        ("[!a].txt", ["b.txt"], ["a.txt"]),
        ("**", ["a", "a/b"], []),
        ("a[*]b", ["a*b"], ["axb"]),
    ],
)
def test_paths_match_like_lines_of_a_gitignore(
    workspace: Workspace, pattern: str, matching: list[str], others: list[str]
) -> None:
    for wide in (False, True):
        for path in matching:
            assert path_matches(pattern, resolve_path(str(workspace.cwd / path), workspace), wide=wide), path
        for path in others if not wide or not pattern.endswith("/**") else ():
            assert not path_matches(pattern, resolve_path(str(workspace.cwd / path), workspace), wide=wide), path


def test_a_deny_knows_a_file_by_every_spelling_and_an_allow_by_one(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.cwd / "innocent").symlink_to(".env")
    (workspace.cwd / ".envrc").symlink_to("plain.txt")
    spots = {
        "by its capitals": (".env", resolve_path(str(workspace.cwd / ".ENV"), workspace)),
        "by a link's own name": (".envrc", resolve_path(str(workspace.cwd / ".envrc"), workspace)),
        "outside": ("**/.env", resolve_path("/elsewhere/.env", workspace)),
        "with dots": ("**/.env", resolve_path(f"{workspace.cwd}/x/../.env", workspace)),
        "from home": ("~/.ssh/**", resolve_path("~/.ssh/id", workspace)),
        "the folder of all that is denied": ("sub/**", resolve_path(str(workspace.cwd / "sub"), workspace)),
    }
    for how, (pattern, resolved) in spots.items():
        assert path_matches(pattern, resolved, wide=True), how
        assert not path_matches(pattern, resolved), how
    assert path_matches(".env", resolve_path(str(workspace.cwd / "innocent"), workspace))


def test_absolute_patterns_are_about_real_paths(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    resolved = resolve_path(str(tmp_path / "link" / "f"), workspace)
    for folder in ("real", "link"):
        assert path_matches(f"{tmp_path}/{folder}/**", resolved)
        assert path_matches(f"{tmp_path}/{folder}/**", resolved, wide=True)
    assert not path_matches(f"{tmp_path}/other/**", resolved, wide=True)


@given(st.text(max_size=20))
def test_an_escaped_text_matches_itself_alone(text: str) -> None:
    assert name_matches(escaped(text), text)
    assert not name_matches(escaped(text), text + "x")


@given(st.text("ab*?[]!^-\\/", max_size=12), st.text("ab*?[]/", max_size=12))
def test_any_text_is_a_pattern(pattern: str, text: str) -> None:
    name_matches(pattern, text)
    name_matches(pattern, text, wide=True)


@given(st.text("ab*?", max_size=10), st.text("ab", max_size=12))
def test_stars_and_question_marks_mean_what_fnmatch_takes_them_for(pattern: str, text: str) -> None:
    assert name_matches(pattern, text) == fnmatchcase(text, pattern)


def part(line: str) -> ShellCommand:
    return read_script(line).commands[0]


@pytest.mark.parametrize(
    ("pattern", "line", "allowed", "found"),
    [
        ("git push *", "git push", True, "yes"),
        ("git push *", "git push origin main", True, "yes"),
        ("git push *", "git pull", False, "no"),
        ("git push", "git push origin", False, "no"),
        ("git * origin", "git push origin", True, "yes"),
        ("git * origin", "git push the origin", False, "no"),
        ("npm run test:*", "npm run test:unit", True, "yes"),
        ("git push *", "/usr/bin/git push", False, "yes"),
        ("/usr/bin/git push", "git push", False, "yes"),
        ("git push *", "GIT push", False, "yes"),
        ("git push *", "FOO=1 git push", False, "yes"),
        ("FOO=1 git push", "FOO=1 git push", True, "yes"),
        ("FOO=2 git push", "FOO=1 git push", False, "no"),
        ("cat *", "cat $FILE", False, "yes"),
        ("cat $FILE", "cat $FILE", True, "maybe"),
        ("git push --force", "git push $FLAG", False, "maybe"),
        ("git push", "git push $NOTHING", False, "maybe"),
        ("git push --force", "git pull $FLAG", False, "no"),
        ("rm *", "$X -rf /", False, "maybe"),
        ("source *", "source x.sh", False, "yes"),
        ("source x.sh", "source x.sh", True, "yes"),
        ("rm *", "source x.sh", False, "maybe"),
        ("echo 'a b'", "echo 'a b'", True, "yes"),
        ("echo 'a b'", "echo a b", False, "no"),
        ("echo [*]", "echo '*'", True, "yes"),
        ("echo [*]", "echo x", False, "no"),
    ],
)
def test_commands_match_word_by_word(pattern: str, line: str, allowed: bool, found: str) -> None:
    assert (command_allowed(pattern, part(line)), command_found(pattern, part(line))) == (allowed, found)


def test_words_that_are_fed_to_a_command_are_no_part_of_what_was_allowed() -> None:
    _, inner = read_script("xargs git add").commands
    assert not command_allowed("git add", inner)
    assert not command_allowed("git add *", inner)
    assert command_found("git add *", inner) == "yes"


@pytest.mark.parametrize(
    "text",
    [
        "mcp__note__echo_note",
        "note__echo_note",
        "note_echo_note",
        "note: echo note",
        "echo_note (note MCP Server)",
        "Tool: note/echo_note",
        "note.echo_note",
        "NOTE_ECHO_NOTE",
    ],
)
def test_a_deny_knows_an_mcp_tool_however_agents_write_it(text: str) -> None:
    assert mcp_found("note/echo_note", text)
    assert mcp_found("note/*", text)
    assert mcp_found("note", text)
    assert not mcp_found("other/*", text)
    assert not mcp_found("note/delete_note", text)


def test_a_deny_of_all_mcp_tools_takes_nothing_else_for_one() -> None:
    assert mcp_found("*", "mcp__note__echo")
    assert mcp_found("*/*", "echo (note MCP Server)")
    assert not mcp_found("*", "Write out.txt", "shell_command")


def test_an_allow_of_an_mcp_tool_is_exact() -> None:
    assert mcp_allowed("note/*", "note", "echo")
    assert mcp_allowed("note", "note", "echo")
    assert not mcp_allowed("note/echo", "Note", "echo")
    assert not mcp_allowed("note/echo", "note", "echo2")
