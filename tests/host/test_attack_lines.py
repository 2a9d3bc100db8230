"""Attack lines, judged under rules from none to careless ones; lines that run a denied program in another way.

The lines are data: attack_lines.toml and denied_lines.toml. The few that are allowed are listed there, each with the
reason why no reader of command lines can do better.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from attempts import Attempts
from dragoman.config import Access
from dragoman.host.policy.policy import Policy, build_policy
from dragoman.host.policy.rules import PolicyRule
from dragoman.workspace import Workspace

from .conftest import requested

HERE = Path(__file__).parent


def data(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name).read_text())


ATTACKS, DENIED = data("attack_lines.toml"), data("denied_lines.toml")


def lines_of(table: dict[str, Any]) -> list[str]:
    return [line for group in table["lines"] for line in group["lines"]]


def allowed(policy: Policy, lines: list[str], workspace: Workspace) -> list[str]:
    return [line for line in lines if policy.judge(requested(line), workspace).decision == "allow"]


def expect_inherent(found: list[str], inherent: list[dict[str, Any]], attempts: Attempts) -> None:
    """Fail for each line that is allowed without a reason, and for each reason whose line is not allowed any more."""
    reasons = {line: entry["reason"] for entry in inherent for line in entry["lines"]}
    assert [line for line in found if line not in reasons] == [], "allowed"
    assert [line for line in reasons if line not in found] == [], "listed as inherent, but not allowed"
    for line in found:
        attempts.add_inherent(line, reasons[line])


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with a link that leads out of it, and a folder that to git is a repository."""
    folder = tmp_path / "workspace"
    for name in ("evil/objects/x", "evil/refs/x", "evil/HEAD", "sub/c", "a", ".env"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("1\n")
    (tmp_path / "secret").write_text("secret")
    (folder / "link-out").symlink_to(tmp_path / "secret")
    return Workspace(folder)


CASES = [
    pytest.param(rules, access, marks=pytest.mark.attempts(f"attack lines, {rules['name']}"))
    for rules in ATTACKS["rules"]
    for access in rules["access"]
]


@pytest.mark.parametrize(
    ("rules", "access"), CASES, ids=lambda value: value if isinstance(value, str) else value["name"]
)
def test_no_attack_line_is_allowed(
    workspace: Workspace, rules: dict[str, Any], access: Access, attempts: Attempts
) -> None:
    own = [PolicyRule("allow", command=rules["allow"])] if rules["allow"] else []
    lines = lines_of(ATTACKS)
    attempts.add(len(lines))
    found = allowed(build_policy(access, user=own), lines, workspace)
    inherent = [entry for entry in ATTACKS.get("inherent", []) if rules["name"] in entry["rules"]]
    expect_inherent(found, inherent, attempts)


@pytest.mark.attempts("denied programs")
def test_no_wrapper_or_spelling_runs_a_denied_program(workspace: Workspace, attempts: Attempts) -> None:
    policy = build_policy("full", user=[PolicyRule("deny", command=DENIED["deny"])])
    lines = lines_of(DENIED)
    attempts.add(len(lines))
    expect_inherent(allowed(policy, lines, workspace), DENIED.get("inherent", []), attempts)


def test_no_line_is_listed_twice() -> None:
    for table in (ATTACKS, DENIED):
        lines = lines_of(table)
        assert len(set(lines)) == len(lines)
