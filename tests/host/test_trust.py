"""A workspace's own rules count only while they are what the user trusted."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import ConfigError, InputError
from dragoman.host.policy.rulebook import MAX_POLICY_BYTES, trust, untrust, workspace_policy
from dragoman.host.policy.rules import PolicyRule

RULES = '[[rules]]\nanswer = "allow"\ncommand = "make *"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ws" / ".dragoman" / "policy.toml"
    path.parent.mkdir(parents=True)
    path.write_text(RULES)
    return path


def folder_of(file: Path) -> Path:
    return file.parent.parent


def test_no_file_is_no_rules_and_nothing_to_tell(home: Path, tmp_path: Path) -> None:
    found = workspace_policy(home, tmp_path)
    assert (found.state, found.rules, found.notice) == ("absent", (), None)
    assert not home.exists()


def test_a_file_counts_once_it_is_trusted_and_until_it_is_changed(home: Path, file: Path) -> None:
    folder = folder_of(file)
    found = workspace_policy(home, folder)
    assert (found.state, found.rules) == ("untrusted", ())
    assert (
        found.notice == f"{file} is ignored: you have not trusted it. Read it, then run: dragoman policy trust {folder}"
    )
    assert trust(home, folder).rules == (PolicyRule("allow", command="make *", source=f"{file}:1"),)
    found = workspace_policy(home, folder)
    assert (found.state, found.notice, len(found.rules)) == ("trusted", None, 1)
    file.write_text(RULES + "\n")
    found = workspace_policy(home, folder)
    assert (found.state, found.rules) == ("changed", ())
    assert "it has changed since you trusted it" in (found.notice or "")
    file.write_text(RULES)
    assert workspace_policy(home, folder).state == "trusted"
    assert untrust(home, folder)
    assert not untrust(home, folder)
    assert workspace_policy(home, folder).rules == ()


def test_trust_is_for_one_folder_by_whatever_way_it_is_reached(home: Path, file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder_of(file))
    trust(home, tmp_path / "link")
    assert workspace_policy(home, folder_of(file)).state == "trusted"
    other = tmp_path / "copy" / ".dragoman"
    other.mkdir(parents=True)
    (other / "policy.toml").write_text(RULES)
    assert workspace_policy(home, other.parent).state == "untrusted"


def test_the_stored_file_is_private_to_its_user(home: Path, file: Path) -> None:
    trust(home, folder_of(file))
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in home.iterdir()} == {0o600}
    assert sorted(each.name for each in home.iterdir()) == ["trusted.json", "trusted.json.lock"]


@pytest.mark.parametrize("text", ["answer = ", "[[rules]]\n", '[[policy]]\nanswer = "deny"', "\xff"])
def test_a_file_that_cannot_be_used_is_not_trusted(home: Path, file: Path, text: str) -> None:
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"policy\.toml:\d"):
        trust(home, folder_of(file))
    assert workspace_policy(home, folder_of(file)).state == "untrusted"


def test_what_is_no_file_of_rules_is_refused_at_once(home: Path, file: Path, tmp_path: Path) -> None:
    file.unlink()
    with pytest.raises(InputError, match=r"there is no .* to trust"):
        trust(home, folder_of(file))
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="not a regular file"):
        workspace_policy(home, folder_of(file))
    file.unlink()
    file.write_bytes(b"#" * (MAX_POLICY_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        workspace_policy(home, folder_of(file))


@pytest.mark.parametrize("text", ["", "[]", '{"workspaces": {"/x": 3}}', '{"workspaces": {}, "more": 1}', "{"])
def test_a_broken_list_of_the_trusted_trusts_nothing(home: Path, file: Path, text: str) -> None:
    home.mkdir()
    (home / "trusted.json").write_text(text)
    for act in (workspace_policy, trust, untrust):
        with pytest.raises(ConfigError, match=r"trusted\.json: this is not what Dragoman writes there"):
            act(home, folder_of(file))
    assert (home / "trusted.json").read_text() == text


def test_a_folder_of_any_name_can_be_trusted(home: Path, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    try:
        (folder / ".dragoman").mkdir(parents=True)
    except OSError:
        pytest.skip("this file system takes only names that are text")
    (folder / ".dragoman" / "policy.toml").write_text(RULES)
    trust(home, folder)
    assert workspace_policy(home, folder).state == "trusted"


def test_two_processes_that_trust_at_the_same_time_both_do(home: Path, tmp_path: Path) -> None:
    folders = [tmp_path / f"w{number}" for number in range(20)]
    for folder in folders:
        (folder / ".dragoman").mkdir(parents=True)
        (folder / ".dragoman" / "policy.toml").write_text(RULES)
    program = (
        "import sys; from pathlib import Path; from dragoman.host.policy.rulebook import trust\n"
        "for folder in sys.argv[2:]: trust(Path(sys.argv[1]), Path(folder))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(home), *map(str, half)])
        for half in (folders[::2], folders[1::2])
    ]
    assert [process.wait(40) for process in running] == [0, 0]
    assert {workspace_policy(home, folder).state for folder in folders} == {"trusted"}
