"""Prompt templates: which are found, what `/name arguments` becomes, and that none becomes a command of the agent."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import InputError
from dragoman.session.skills import find_folders
from dragoman.session.templates import (
    MAX_TEMPLATE_BYTES,
    MAX_TEMPLATES,
    Template,
    called_template,
    expand_template,
    find_templates,
)
from dragoman.workspace import Workspace


def found(work: Path) -> list[Template]:
    return find_templates(find_folders("prompts", Workspace(work), work / "home"))


def template(body: str) -> Template:
    return Template(name="t", path=Path("/t.md"), place="workspace", body=body)


def test_templates_are_markdown_files_with_a_description_and_a_hint(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/fix.md").write_text("---\ndescription: Fix it\nargument-hint: ISSUE\n---\nFix $1.\n")
    (tmp_path / "prompts/plain.md").write_text("# Plan\nMake a plan.")
    (tmp_path / "prompts/two words.md").write_text("x")
    (tmp_path / "prompts/empty.md").write_text("---\ndescription: x\n---\n")
    (tmp_path / "prompts/large.md").write_text("x" * (MAX_TEMPLATE_BYTES + 1))
    (tmp_path / "prompts/shell.md").write_text("\n!rm -rf x")
    (tmp_path / "prompts/notes.txt").write_text("x")
    (tmp_path / "prompts/out.md").symlink_to("/etc/hostname")
    listed = {each.name: each.problem or (each.description, each.hint, each.body) for each in found(tmp_path)}
    assert listed == {
        "empty.md": "it is empty",
        "fix": ("Fix it", "ISSUE", "Fix $1."),
        "large.md": "it is larger than 64 KiB",
        "out.md": "it is a link that leads out of the folder",
        "plain": ("Plan", "", "# Plan\nMake a plan."),
        "shell.md": "its text begins with '!', which agents take for a command",
        "two words.md": "its name cannot be typed as one word",
    }


def test_the_first_of_two_names_counts_and_the_number_is_bounded(tmp_path: Path) -> None:
    for folder in ("prompts", "home/prompts"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.md").write_text(folder)
    first, second = found(tmp_path)
    assert (first.body, first.problem, second.place) == ("home/prompts", "", "workspace")
    assert second.problem == f"another template has this name: {first.path}"
    for number in range(MAX_TEMPLATES):
        (tmp_path / f"prompts/{number:03}.md").write_text("x")
    assert found(tmp_path)[-1].problem.startswith(f"there are more than {MAX_TEMPLATES} templates")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("/t", ""),
        (" /t  a b ", "a b"),
        ("/t\na\nb", "a\nb"),
        ("/T", None),
        ("/tx", None),
        ("see /t", None),
        ("t", None),
    ],
)
def test_a_prompt_calls_a_template_by_its_first_word(text: str, arguments: str | None) -> None:
    called = called_template(text, {"t": template("x")}, ())
    assert (called[1] if called is not None else None) == arguments


def test_the_agents_own_command_is_first() -> None:
    assert called_template("/t a", {"t": template("x")}, ["t"]) is None
    assert called_template("/t a", {"t": template("x")}, ["other"]) is not None


@pytest.mark.parametrize(
    ("body", "arguments", "expanded"),
    [
        ("Fix $1 and $2.", "'a b' c", "Fix a b and c."),
        ("Fix $1 and $2.", "a", "Fix a and ."),
        ("All: $ARGUMENTS", "it's $1", "All: it's $1"),
        ("First: $1", "it's b", "First: it's"),
        ("Pay $$5, $ARGUMENTS, $10 $ARGUMENTSX", "now", "Pay $5, now, $10 $ARGUMENTSX"),
        ("No place", "a b", "No place\n\na b"),
        ("No place", "", "No place"),
        ("$1 twice $1", "$2", "$2 twice $2"),
    ],
)
def test_arguments_are_put_in_once(body: str, arguments: str, expanded: str) -> None:
    assert expand_template(template(body), arguments) == expanded


@pytest.mark.attempts("scopes")
@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("!rm -rf .", ""),
        ("  /yolo", ""),
        ("$ARGUMENTS", "!rm x"),
        ("$1", "'/mode free'"),
        ("\ufeff /yolo", ""),  # JavaScript takes it for a space
        ("$1/yolo", ""),
    ],
)
def test_a_template_never_becomes_a_command_of_the_agent(body: str, arguments: str) -> None:
    with pytest.raises(InputError, match="which agents take for a command"):
        expand_template(template(body), arguments)


def test_an_expansion_that_is_empty_or_far_too_long_is_refused() -> None:
    with pytest.raises(InputError, match="is empty"):
        expand_template(template("$ARGUMENTS"), "")
    with pytest.raises(InputError, match="too long"):
        expand_template(template("$ARGUMENTS " * 5000), "x" * 10_000)


@given(st.text(max_size=50), st.text(alphabet="$1A '\"/!x\n", max_size=20))
def test_no_text_and_no_arguments_raise_anything_else(body: str, arguments: str) -> None:
    try:
        assert expand_template(template(body), arguments)[0] not in "/!"
    except InputError:
        pass
