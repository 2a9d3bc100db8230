"""Isolated homes: which variables and files they have, how logins are kept in step, and what is removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.preset import load_presets
from dragoman.config import load
from dragoman.errors import InputError
from dragoman.protocol.requests import Isolation
from dragoman.testing.clock import ManualClock
from dragoman.workspace import isolated_home
from dragoman.workspace.isolated_home import IsolatedHome, find_unused, remove_homes, select_keys
from dragoman.workspace.isolation import (
    IsolationNeeds,
    IsolationPlan,
    isolated_environment,
    new_isolated_name,
    path_in_home,
    real_path,
)

NEEDS = IsolationNeeds(login=("$MINE_HOME/login.json", "{config}/mine/key"), variables={"MINE_HOME": "~/.mine"})

Open = Callable[..., IsolatedHome]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    home = tmp_path / "user"
    (home / ".mine").mkdir(parents=True)
    (home / ".mine" / "login.json").write_text('{"token": 1}')
    return home


@pytest.fixture
def open_home(tmp_path: Path, user: Path) -> Open:
    def open_it(needs: IsolationNeeds = NEEDS, environ: dict[str, str] | None = None, **plan: Any) -> IsolatedHome:
        name = plan.pop("name", None) or new_isolated_name()
        whole = IsolationPlan(
            isolation=plan.pop("isolation", Isolation()), root=tmp_path / "own" / "isolated", name=name, **plan
        )
        return IsolatedHome.open(whole, needs, {"HOME": str(user), **(environ or {})})

    return open_it


def login_of(isolated: IsolatedHome) -> Path:
    assert isolated.home is not None
    return isolated.home / ".mine" / "login.json"


def set_later(path: Path, text: str, seconds: int) -> None:
    """Write a file that is so many seconds newer than now: file systems tell times apart at different steps."""
    path.write_text(text)
    status = path.stat()
    os.utime(path, (status.st_atime + seconds, status.st_mtime + seconds))


# -- the environment


def test_variables_of_version_managers_lead_to_the_users_folders(user: Path, tmp_path: Path) -> None:
    (user / ".volta").mkdir()
    environ = {"HOME": str(user), "RUSTUP_HOME": "/rust", "PATH": "/bin"}
    env = isolated_environment(environ, Isolation(), IsolationNeeds(), home=tmp_path / "home")
    assert env["VOLTA_HOME"] == str(user / ".volta")
    assert env["RUSTUP_HOME"] == "/rust"
    assert "PYENV_ROOT" not in env


def test_without_a_home_of_its_own_an_agent_has_the_users_folders(user: Path) -> None:
    environ = {"HOME": str(user), "XDG_CONFIG_HOME": "/config", "MINE_HOME": "/mine", "SECRET": "1", "TMPDIR": "/var/t"}
    isolation = Isolation(home=False, temporary_folder=False)
    env = isolated_environment(environ, isolation, NEEDS)
    assert env == {"HOME": str(user), "XDG_CONFIG_HOME": "/config", "MINE_HOME": "/mine", "TMPDIR": "/var/t"}


def test_a_variable_that_names_a_folder_leads_into_the_home_even_if_it_was_given(tmp_path: Path) -> None:
    environ = {"HOME": "/home/user", "MINE_HOME": "/mine"}
    env = isolated_environment(environ, Isolation(), NEEDS, given=("HOME", "MINE_HOME"), home=tmp_path)
    assert (env["HOME"], env["MINE_HOME"]) == (str(tmp_path), str(tmp_path / ".mine"))


def test_a_star_passes_all_variables(tmp_path: Path) -> None:
    env = isolated_environment({"SECRET": "1"}, Isolation(environment=("*",)), NEEDS, home=tmp_path)
    assert env["SECRET"] == "1"


def test_the_login_is_found_where_the_users_variables_say(user: Path) -> None:
    moved = {"MINE_HOME": "/moved", "XDG_CONFIG_HOME": "/config"}
    assert [real_path(text, NEEDS, moved, user) for text in NEEDS.login] == [
        Path("/moved/login.json"),
        Path("/config/mine/key"),
    ]
    assert [str(path_in_home(text, NEEDS)) for text in NEEDS.login] == [".mine/login.json", ".config/mine/key"]


def test_every_preset_names_files_inside_of_the_home() -> None:
    for preset in load_presets(load()).values():
        needs = preset.isolation
        for text in (*needs.login, *needs.settings):
            path = path_in_home(text, needs)
            assert not path.is_absolute(), (preset.id, text)
            assert ".." not in path.parts, (preset.id, text)


# -- settings


def test_only_the_selected_keys_of_settings_are_copied() -> None:
    json = b'{"security": {"auth": {"selectedType": "oauth"}, "x": 1}, "hooks": {}, "mcpServers": {"a": 1}}'
    assert select_keys("settings.json", json, ["security.auth.selectedType"]) == (
        b'{"security":{"auth":{"selectedType":"oauth"}}}'
    )
    assert select_keys("settings.json", b'{"security": 1}', ["security.auth"]) == b""
    yaml = b"GOOSE_PROVIDER: openai\nGOOSE_MODEL: m\nextensions:\n  GOOSE_MODEL: inner\n  evil: yes\n"
    assert select_keys("config.yaml", yaml, ["GOOSE_PROVIDER", "extensions"]) == b"GOOSE_PROVIDER: openai\n"
    with pytest.raises(ValueError, match="not JSON"):
        select_keys("settings.json", b"// a comment", ["a"])


# -- logins


def test_a_login_that_is_renewed_elsewhere_comes_to_the_agent(open_home: Open, user: Path) -> None:
    first, second = open_home(), open_home()
    login_of(first).write_text('{"token": 2}')
    first.sync_logins()
    assert (user / ".mine/login.json").read_text() == '{"token": 2}'
    second.sync_logins()
    assert login_of(second).read_text() == '{"token": 2}'
    assert (login_of(second).stat().st_mode & 0o777) == 0o600
    for isolated in (first, second):
        isolated.leave()


def test_of_two_that_were_renewed_the_later_one_counts(open_home: Open, user: Path) -> None:
    for is_second_later in (True, False):
        first, second = open_home(), open_home()
        set_later(login_of(first), '{"token": "first"}', 20)
        set_later(login_of(second), '{"token": "second"}', 40 if is_second_later else -40)
        first.sync_logins()
        os.utime(user / ".mine/login.json", (login_of(first).stat().st_mtime,) * 2)
        second.sync_logins()
        winner = "second" if is_second_later else "first"
        assert (user / ".mine/login.json").read_text() == f'{{"token": "{winner}"}}'
        assert login_of(second).read_text() == f'{{"token": "{winner}"}}'
        first.sync_logins()
        assert login_of(first).read_text() == f'{{"token": "{winner}"}}'
        for isolated in (first, second):
            isolated.leave()


def test_a_login_that_the_user_changed_is_never_overwritten(open_home: Open, user: Path) -> None:
    isolated = open_home()
    (user / ".mine/login.json").write_text('{"token": "of another account"}')
    set_later(login_of(isolated), '{"token": 2}', 60)
    isolated.sync_logins()
    assert (user / ".mine/login.json").read_text() == '{"token": "of another account"}'
    isolated.leave()


def test_half_of_a_file_is_not_taken_for_a_login(open_home: Open, user: Path) -> None:
    isolated = open_home()
    login_of(isolated).write_text('{"token": 2')
    isolated.sync_logins()
    assert (user / ".mine/login.json").read_text() == '{"token": 1}'
    login_of(isolated).write_text('{"token": 2}')
    isolated.sync_logins()
    assert (user / ".mine/login.json").read_text() == '{"token": 2}'
    isolated.leave()


def test_the_mode_of_the_users_file_stays(open_home: Open, user: Path) -> None:
    (user / ".mine/login.json").chmod(0o640)
    isolated = open_home()
    login_of(isolated).write_text('{"token": 2}')
    isolated.sync_logins()
    assert ((user / ".mine/login.json").stat().st_mode & 0o777) == 0o640
    isolated.leave()


def test_a_login_that_the_agent_makes_is_its_own(open_home: Open, user: Path) -> None:
    (user / ".mine/login.json").unlink()
    isolated = open_home()
    login_of(isolated).write_text('{"token": "new"}')
    isolated.sync_logins()
    assert not (user / ".mine/login.json").exists()
    isolated.leave()


def test_a_file_that_is_too_large_is_no_login(open_home: Open, user: Path) -> None:
    isolated = open_home()
    login_of(isolated).write_bytes(b'"' + b"x" * isolated_home.MAX_LOGIN_BYTES + b'"')
    isolated.sync_logins()
    assert (user / ".mine/login.json").read_text() == '{"token": 1}'
    assert "more than" in isolated.report.problems[0]
    isolated.leave()


async def test_a_login_is_kept_in_step_while_the_agent_runs(tmp_path: Path, user: Path) -> None:
    clock = ManualClock()
    plan = IsolationPlan(isolation=Isolation(), root=tmp_path / "own" / "isolated", name=new_isolated_name())
    isolated = await IsolatedHome.make(plan, NEEDS, {"HOME": str(user)}, clock=clock)
    login_of(isolated).write_text('{"token": 2}')
    await clock.wait_for_timers()
    clock.advance(isolated_home.SYNC_INTERVAL_S)
    await clock.wait_for_timers()  # the next look is due: this one is over
    assert (user / ".mine/login.json").read_text() == '{"token": 2}'
    await isolated.close()


# -- how long they last


def test_a_home_is_removed_with_everything_in_it(open_home: Open, tmp_path: Path) -> None:
    isolated = open_home()
    assert isolated.home is not None
    assert isolated.temporary is not None
    for folder in (isolated.home, isolated.temporary):
        (folder / "modules" / "deep").mkdir(parents=True)
        (folder / "modules" / "deep" / "file").touch()
        (folder / "modules" / "outside").symlink_to(tmp_path)
        (folder / "modules" / "deep").chmod(0o500)
        (folder / "modules").chmod(0o500)
    isolated.leave()
    assert not isolated.home.exists()
    assert not isolated.temporary.exists()
    assert tmp_path.exists()


def test_a_home_that_two_agents_share_is_removed_with_the_last(open_home: Open) -> None:
    first = open_home(name="shared")
    second = open_home(name="shared")
    first.leave()
    assert second.home is not None
    assert login_of(second).exists()
    second.leave()
    assert not second.home.exists()


def test_a_home_that_is_kept_is_named_as_unused_and_removed_on_demand(open_home: Open, tmp_path: Path) -> None:
    root = tmp_path / "own" / "isolated"
    isolated = open_home(keep=True)
    name = isolated.home.parent.name if isolated.home else ""
    assert find_unused(root) == []
    remove_homes(root, [name])
    assert login_of(isolated).exists()  # it is in use
    isolated.leave()
    assert find_unused(root) == [name]
    again = open_home(name=name, is_known=True)
    assert find_unused(root) == []
    again.leave()
    remove_homes(root, find_unused(root))
    assert not (root / name).exists()


def test_a_known_home_that_is_gone_is_an_error(open_home: Open, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="was removed"):
        open_home(name="gone", is_known=True)
    assert find_unused(tmp_path / "own" / "isolated") == []


def test_removals_that_were_interrupted_are_completed(open_home: Open, tmp_path: Path) -> None:
    root = tmp_path / "own" / "isolated"
    open_home().leave()
    (root / ".removed-1" / "home").mkdir(parents=True)
    (root / "half-made").mkdir()  # killed before its record was written
    find_unused(root)
    assert [path.name for path in root.iterdir() if path.is_dir()] == []
