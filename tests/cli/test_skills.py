"""`dragoman skills`, and skills, instructions and templates with `run`: what is sent, and what is shown of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli

pytestmark = pytest.mark.slow  # many processes of the command line

SKILL = "---\nname: review\ndescription: Reviews code\n---\nREVIEW TEXT\n"


@pytest.fixture
def skilled(cli: Cli, tmp_path: Path) -> Cli:
    """A workspace with a skill, a document and a template; the user has none."""
    cli.env["HOME"] = str(tmp_path)
    folder = cli.workspace / "skills/review"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (cli.workspace / "skills/style.md").write_text("# House style\n")
    (cli.workspace / "prompts").mkdir()
    (cli.workspace / "prompts/greet.md").write_text("---\nargument-hint: NAME\n---\nSay hello to $1.\n")
    return cli


def listed(cli: Cli) -> dict[str, dict[str, Any]]:
    done = cli("skills", "list", "--json")
    assert (done.code, done.err) == (0, "")
    return {skill["name"]: skill for skill in json.loads(done.out)["skills"]}


def prompts(cli: Cli) -> list[str]:
    """Return the frames of the prompts of the latest session, as they were sent."""
    done = cli("sessions", "export", "-")
    return [line for line in done.out.splitlines() if '"method":"session/prompt"' in line]


def test_the_help_of_each_command_teaches_by_example(cli: Cli) -> None:
    for command in ((), ("list",), ("show",), ("enable",), ("disable",)):
        done = cli("skills", *command, "--help")
        assert (done.code, done.err) == (0, "")
        assert "Examples:\n    dragoman skills " in done.out
        assert max(map(len, done.out.splitlines())) <= 80


def test_skills_and_templates_are_listed_with_those_that_cannot_be_used(skilled: Cli) -> None:
    (skilled.workspace / "skills/broken").mkdir()
    (skilled.workspace / "skills/broken/SKILL.md").write_text("---\nname: !x\n---\n")
    done = skilled("skills", "list")
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines() if line]
    assert rows[0] == ["skill", "state", "size", "from", "description"]
    assert [row[:2] for row in rows[1:3]] == [["style", "listed"], ["review", "listed"]]
    assert rows[3:] == [["prompt", "arguments", "description"], ["/greet", "NAME", "Say", "hello", "to", "$1."]]
    assert "Not usable:" in done.err
    assert "skills/broken/SKILL.md: line 2: a tag is not read" in " ".join(done.err.split())


def test_without_skills_the_list_says_where_they_belong(cli: Cli, tmp_path: Path) -> None:
    cli.env["HOME"] = str(tmp_path)
    done = cli("skills", "list")
    assert (done.code, done.out) == (0, "")
    assert "in skills, .agents/skills, here or in your home folder" in " ".join(done.err.split())
    # The example that it gives works.
    command = next(line for line in " ".join(done.err.split()).split("For example: ")[1:]).split(" A prompt")[0]
    subprocess.run(["sh", "-c", command], cwd=cli.workspace, check=True)
    assert listed(cli)["done"]["description"] == "Run make test before you are done."
    (cli.workspace / "skills/done.md").unlink()
    cli("config", "set", "skills_folders", "none")
    assert "Skills are switched off" in cli("skills", "list").err


def test_a_skill_is_shown_in_full(skilled: Cli) -> None:
    done = skilled("skills", "show", "review")
    assert (done.code, done.out) == (0, f"{SKILL}\n")
    assert "skills/review/SKILL.md" in done.err
    done = skilled("skills", "show", "reviw")
    assert (done.code, done.out) == (2, "")
    assert "there is no skill 'reviw'; did you mean 'review'?" in done.err


def test_a_skill_is_enabled_and_disabled(skilled: Cli) -> None:
    assert listed(skilled)["style"]["state"] == "listed"
    done = skilled("skills", "enable", "style", "--always")
    assert (done.code, done.out) == (0, "style goes in full with every prompt.\n")
    assert listed(skilled)["style"]["state"] == "always"
    done = skilled("skills", "disable", "style")
    assert (done.code, done.out) == (0, "style is left out.\n")
    assert (listed(skilled)["style"]["state"], listed(skilled)["review"]["state"]) == ("off", "listed")
    assert skilled("skills", "enable", "style").code == 0
    assert listed(skilled)["style"]["state"] == "listed"
    # Nothing is left in the settings that says the same as the skill itself.
    assert json.loads((skilled.home / "settings.json").read_text())["skills"] == {}


def test_a_run_sends_a_skill_and_the_record_shows_the_users_words(skilled: Cli) -> None:
    done = skilled("run", "--skill", "review", "hello")
    assert done.code == 0
    assert "with skills in full: review · 2 skills listed" in done.err
    [frame] = prompts(skilled)
    assert "REVIEW TEXT" in frame
    shown = skilled("sessions", "show").out
    assert "› hello\n  with skills in full: review · 2 skills listed\n" in shown
    assert "REVIEW TEXT" not in shown
    exported = skilled("sessions", "export", "-", "--format", "markdown").out
    assert "> hello\n\n*with skills in full: review · 2 skills listed*\n" in exported
    assert "REVIEW TEXT" not in exported
    rows = json.loads(skilled("sessions", "export", "-", "--format", "json").out)
    assert rows["runs"][0]["context"]["skills"][0]["name"] == "review"
    [started] = [event for event in skilled("sessions", "show", "--json").events() if event["type"] == "run.started"]
    assert started["context"]["listed"] == 2


def test_skills_of_the_workspace_are_named_when_they_first_go_with_a_prompt(skilled: Cli, tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills/mine.md").write_text("mine")
    notice = "skills of this folder go with your prompts: style, review (dragoman skills list"
    done = skilled("run", "hello")
    assert notice in " ".join(done.err.split())
    assert notice not in " ".join(skilled("run", "--no-skills", "hello").err.split())


def test_a_run_without_skills_or_with_an_unknown_one(skilled: Cli) -> None:
    assert skilled("run", "--no-skills", "hello").code == 0
    assert "attachment:skills" not in prompts(skilled)[0]
    done = skilled("run", "--skill", "nothing", "hello")
    assert done.code == 2
    assert "there is no skill 'nothing'" in done.err
    done = skilled("run", "--skill", "review", "--no-skills", "hello")
    assert done.code == 2
    assert "--skill and --no-skills cannot be combined" in done.err


def test_custom_instructions_go_before_the_prompt_by_setting_and_by_option(skilled: Cli) -> None:
    skilled("config", "set", "custom_instructions", "Be brief.")
    skilled("run", "--no-skills", "hello")
    assert "Be brief." in prompts(skilled)[0]
    # The session is still named by the user's words.
    (session,) = json.loads(skilled("sessions", "list", "--json").out)
    assert session["title"] == "hello"
    assert "custom instructions" in skilled("sessions", "show").out
    skilled("run", "--no-skills", "--instructions", "", "hello")
    assert "Be brief." not in prompts(skilled)[0]
    skilled("run", "--no-skills", "--instructions", "In verse.", "hello")
    assert "In verse." in prompts(skilled)[0]


def test_a_template_is_called_by_its_name(skilled: Cli) -> None:
    done = skilled("run", "--no-skills", "/greet Ada")
    assert "Say hello to Ada." in done.out
    assert f"with template: {skilled.workspace}/prompts/greet.md" in " ".join(done.err.split())
    assert "› /greet Ada\n" in skilled("sessions", "show").out


def test_a_planted_script_is_listed_and_never_run(skilled: Cli) -> None:
    proof = skilled.workspace / "proof"
    script = skilled.workspace / "skills/setup.sh"
    script.write_text(f"#!/bin/sh\n# Sets up\ntouch {proof}\n")
    script.chmod(0o755)
    assert listed(skilled)["setup.sh"]["description"] == "Sets up"
    assert skilled("skills", "enable", "setup.sh", "--always").code == 0
    assert skilled("skills", "show", "setup.sh").code == 0
    assert skilled("run", "--skill", "setup.sh", "hello").code == 0
    assert not proof.exists()


def test_the_settings_are_checked(skilled: Cli) -> None:
    for name, value, expected in (
        ("skills_folders", "../elsewhere", "folders with commas between them"),
        ("skills_budget", "2MiB", "of at most 1 MiB"),
        ("custom_instructions", " ", "a text of at most 16 KiB"),
    ):
        done = skilled("config", "set", name, value)
        assert done.code == 2
        assert expected in " ".join(done.err.split())
    assert skilled("config", "set", "skills_folders", "none").out == "skills_folders = none\n"
    assert listed(skilled) == {}
    assert skilled("config", "get", "skills_budget").out == "32KiB\n"
