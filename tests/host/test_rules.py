"""Rules as people write them, and what they are told when they slip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman import config
from dragoman.errors import ConfigError, InputError
from dragoman.host.policy.rules import PolicyRule, user_rules


def rules(home: Path, text: str) -> tuple[PolicyRule, ...]:
    (home / "config.toml").write_text(text)
    return user_rules(config.load(home, {}))


def test_a_rule_takes_one_pattern_or_several() -> None:
    assert PolicyRule("deny", path="**/.env") == PolicyRule(answer="deny", path=["**/.env"])
    assert PolicyRule("allow", command=("ls", "git log *")).command == ("ls", "git log *")


def test_a_rule_reads_as_one_would_say_it() -> None:
    assert str(PolicyRule("deny", path=("a", "b"), kind="write")) == "deny kind write, path a | b"
    assert str(PolicyRule("ask")) == "ask everything"


@pytest.mark.parametrize("form", ["[[policy]]", "[[policy.rules]]"])
def test_the_users_rules_stand_in_the_config_and_know_their_line(tmp_path: Path, form: str) -> None:
    text = f'access = "ask"\n\n{form}\nanswer = "deny"\npath = "**/.env"\nreason = "keys"\n\n{form}\nanswer = "ask"\n'
    first, second = rules(tmp_path, text)
    file = tmp_path / "config.toml"
    assert first == PolicyRule("deny", "keys", path="**/.env", source=f"{file}:3")
    assert second == PolicyRule("ask", source=f"{file}:8")


def test_without_rules_there_are_none(tmp_path: Path) -> None:
    assert user_rules(config.load(tmp_path, {})) == ()
    assert rules(tmp_path, 'access = "ask"') == ()


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("policy = 3", 1, "policy is an integer; expected rules, each a table written as [[policy]]"),
        ('policy = ["deny"]', 1, "policy is an array; expected rules"),
        ('[policy]\nrule = "x"', 2, 'there is no setting "rule"; did you mean "rules"?'),
        ('[policy]\nrules = "x"', 2, "rules is a string; expected tables"),
        ('[[policy]]\npath = "x"', 1, "answer is missing; expected one of: allow, deny, ask"),
        (
            '[[policy]]\nanswer = "denny"',
            2,
            'answer is "denny"; expected one of: allow, deny, ask (did you mean "deny"?)',
        ),
        ('[[policy]]\nanswer = "deny"\n\npaths = "x"', 4, 'there is no setting "paths"; did you mean "path"?'),
        ('[[policy]]\nanswer = "deny"\npath = 3', 3, "path is an integer; expected a text, or an array of texts"),
        ('[[policy]]\nanswer = "deny"\npath = []', 3, "path is an empty array; expected one pattern or more"),
        ('[[policy]]\nanswer = "deny"\npath = ["a", ""]', 3, "path has an empty pattern; leave path out to match any"),
        ('[[policy]]\nanswer = "deny"\npath = "../x"', 3, 'path is "../x"; expected a pattern without `..`'),
        ('[[policy]]\nanswer = "deny"\nwhere = "in"', 3, 'where is "in"; expected one of: inside, outside'),
        ('[[policy]]\nanswer = "deny"\nkind = "raed"', 3, 'kind is "raed"; expected one of: think, read'),
        ('[[policy]]\nanswer = "deny"\ncommand = "git \'x"', 3, "cannot be read as words: No closing quotation"),
        ('[[policy]]\nanswer = "deny"\nreason = 1', 3, "reason is an integer; expected a text"),
        (
            '[[policy]]\nanswer = "deny"\ncommand = "a"\npath = "b"',
            4,
            "are never about the same thing: make a rule for each",
        ),
        ('[[policy]]\nanswer = "deny"\ncommand = "a"\nkind = "read"', 4, 'kind is "read", but command is about run'),
        ('[[policy]]\nanswer = "deny"\n[[policy]]\nanswer = ""', 4, 'answer is ""; expected'),
        ('[[policy]]\nanswer = "deny"\nsource = "x"', 3, 'there is no setting "source"'),
    ],
)
def test_an_error_in_a_rule_names_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'config.toml'}:{line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [{"path": 3}, {"path": [3]}, {"answer": "no"}, {"kind": "x"}, {"command": "a", "host": "b"}, {"where": "x"}],
)
def test_a_rule_made_in_python_is_checked_in_the_same_way(given: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        PolicyRule(**{"answer": "deny", **given})
