from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import config
from dragoman.errors import ConfigError, InputError


def write(home: Path, text: str) -> Path:
    home.mkdir(exist_ok=True)
    file = home / "config.toml"
    file.write_text(text)
    return file


# Layers


def test_without_settings_the_defaults_apply_and_no_folder_is_created(tmp_path: Path) -> None:
    settings = config.load(environ={"HOME": str(tmp_path)})
    assert settings.home == tmp_path / ".dragoman"
    assert not settings.home.exists()
    assert (settings.agent, settings.access) == ("demo", "ask")
    assert (settings.start_timeout, settings.deadline, settings.idle_limit) == (60.0, None, None)
    assert settings.line_limit == 64 * 1024 * 1024
    assert settings.agents == {}


def test_folders_are_absolute_paths(tmp_path: Path) -> None:
    write(tmp_path, 'folders = ["/srv/work", "~/projects", "~"]\n')
    folders = config.load(tmp_path, {"HOME": "/home/me"}).folders
    assert [str(folder) for folder in folders] == ["/srv/work", "/home/me/projects", "/home/me"]
    for text in ('"/srv"', "[1]", '["projects"]'):
        write(tmp_path, f"folders = {text}\n")
        with pytest.raises(ConfigError, match=r"config\.toml:1: folders is .*; expected a list of absolute paths"):
            config.load(tmp_path, {})


def test_flags_win_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    write(tmp_path, 'agent = "file"\naccess = "full"\nstart_timeout = 1\nclose_timeout = 1\n')
    settings = config.load(
        tmp_path,
        {"DRAGOMAN_AGENT": "environment", "DRAGOMAN_ACCESS": "ask", "DRAGOMAN_START_TIMEOUT": "2"},
        {"agent": "flag", "access": None, "start_timeout": "3s"},
    )
    assert (settings.agent, settings.access, settings.start_timeout, settings.close_timeout) == (
        "flag",
        "ask",
        3.0,
        1.0,
    )


def test_a_setting_knows_its_source(tmp_path: Path) -> None:
    file = write(tmp_path, '\nagent = "claude"\naccess = "full"\ndeadline = 5\n')
    settings = config.load(tmp_path, {"DRAGOMAN_ACCESS": "ask"}, {"deadline": 6})
    assert settings.where("agent") == f"{file}:2"
    assert settings.where("access") == "DRAGOMAN_ACCESS"
    assert settings.where("deadline") == "--deadline"
    assert settings.where("idle_limit") is None


def test_invalid_settings_are_reported_and_left_out_where_the_caller_wants_that(tmp_path: Path) -> None:
    write(tmp_path, 'acces = "ask"\naccess = "full"\ndeadline = "soon"\npolicy = 3\n')
    (tmp_path / "settings.json").write_text('{"settings": {"access": "much", "idle_limit": "5m"}}')
    errors: list[ConfigError] = []
    settings = config.load(tmp_path, {"DRAGOMAN_LINE_LIMIT": "1"}, {"agent": " "}, on_error=errors.append)
    assert (settings.access, settings.deadline, settings.idle_limit, settings.agent) == ("full", None, 300.0, "demo")
    assert [str(error).rpartition("/")[2].split(":")[0] for error in errors] == [
        "config.toml",
        "config.toml",
        "config.toml",
        "settings.json",
        "DRAGOMAN_LINE_LIMIT",
        "--agent",
    ]
    assert errors[3].guidance == "Set it again, or remove it: dragoman config unset access"
    write(tmp_path, "no TOML")
    (tmp_path / "settings.json").write_text("no JSON")
    errors.clear()
    assert config.load(tmp_path, {}, on_error=errors.append).access == "ask"
    assert len(errors) == 2


def test_the_time_limit_of_a_question_is_set_like_other_limits(tmp_path: Path) -> None:
    assert config.load(tmp_path, {}).permission_timeout is None
    write(tmp_path, 'permission_timeout = "5m"\n')
    assert config.load(tmp_path, {}).permission_timeout == 300.0
    assert config.load(tmp_path, {"DRAGOMAN_PERMISSION_TIMEOUT": "none"}).permission_timeout is None


def test_rules_are_passed_on_unchanged(tmp_path: Path) -> None:
    assert config.load(tmp_path, {}).policy == {}
    write(tmp_path, '[[policy]]\nanswer = "deny"\n')
    assert config.load(tmp_path, {}).policy == [{"answer": "deny"}]
    write(tmp_path, '[[policy.rules]]\nanswer = "deny"\n')
    assert config.load(tmp_path, {}).policy == {"rules": [{"answer": "deny"}]}


def test_guards_are_passed_on_unchanged(tmp_path: Path) -> None:
    assert config.load(tmp_path, {}).guards == {}
    write(tmp_path, '[guards]\nread = ["customers"]\n')
    assert config.load(tmp_path, {}).guards == {"read": ["customers"]}
    write(tmp_path, 'guards = "all"\n')
    with pytest.raises(ConfigError, match=r"expected a table, written as \[guards\]"):
        config.load(tmp_path, {})


def test_an_empty_variable_sets_nothing(tmp_path: Path) -> None:
    assert config.load(tmp_path, {"DRAGOMAN_AGENT": "", "DRAGOMAN_ACCESS": ""}).agent == "demo"


@pytest.mark.parametrize(
    ("alias", "access"), [("low", "read-only"), ("medium", "edit-inside"), ("high", "full"), ("ask", "ask")]
)
def test_access_has_aliases(tmp_path: Path, alias: str, access: str) -> None:
    assert config.load(tmp_path, {}, {"access": alias}).access == access


def test_a_later_layer_can_remove_a_limit(tmp_path: Path) -> None:
    write(tmp_path, 'deadline = "5m"\nidle_limit = "30s"\n')
    settings = config.load(tmp_path, {"DRAGOMAN_DEADLINE": "none"}, {"idle_limit": "off"})
    assert (settings.deadline, settings.idle_limit) == (None, None)


@pytest.mark.parametrize(("written", "size"), [("65536", 65536), ("1MiB", 2**20), ("2 GiB", 2**31), (70000, 70000)])
def test_sizes_are_bytes_or_texts_with_a_unit(tmp_path: Path, written: object, size: int) -> None:
    assert config.load(tmp_path, {}, {"line_limit": written}).line_limit == size


def test_agent_tables_are_passed_on_unchanged(tmp_path: Path) -> None:
    write(tmp_path, '[agents.mine]\ncommand = "x"\n[agents.claude.env]\nA = "1"\n')
    agents = config.load(tmp_path, {}).agents
    assert agents == {"mine": {"command": "x"}, "claude": {"env": {"A": "1"}}}


# Errors in the file


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('\nagnet = "x"', 2, 'there is no setting "agnet"; did you mean "agent"?'),
        ("agent = 1\n\nzzz = 2", 1, "agent is 1; expected the name of an agent, as `dragoman agents` lists them"),
        ("zzz = 2", 1, 'there is no setting "zzz"'),
        ("agent = '  '", 1, 'agent is "  "; expected the name of an agent'),
        ('\n\naccess = "readonly"', 3, 'access is "readonly"; expected read-only (low), ask, edit-inside (medium)'),
        ('access = "readonly"', 1, '(did you mean "read-only"?)'),
        ("access = [1]", 1, "access is an array; expected"),
        ("start_timeout = true", 1, "start_timeout is true; expected a duration: seconds, or a text"),
        ('start_timeout = "soon"', 1, 'start_timeout is "soon"; expected a duration'),
        ("start_timeout = 0", 1, "more than zero"),
        ("start_timeout = -1", 1, "start_timeout is -1; expected"),
        ("start_timeout = inf", 1, "start_timeout is inf; expected"),
        ("start_timeout = nan", 1, "start_timeout is nan; expected"),
        ("start_timeout = 1" + "0" * 400, 1, "expected a duration"),
        ("request_timeout = {}", 1, "request_timeout is a table; expected"),
        ("cancel_timeout = -0.5", 1, "cancel_timeout is -0.5; expected"),
        ("deadline = 0", 1, 'more than zero, or "none"'),
        ("deadline = 1979-05-27", 1, "deadline is a date or time; expected"),
        ("line_limit = 1000", 1, "of at least 64 KiB"),
        ('line_limit = "64MB"', 1, 'line_limit is "64MB"; expected a number of bytes'),
        ("line_limit = 65536.0", 1, "line_limit is 65536.0; expected"),
        ('# one\nagents = "claude"', 2, "agents is a string; expected tables, each written as [agents.NAME]"),
        ('[agents]\nx.command = "y"\nmine = "x"', 3, "agents.mine is a string; expected a table"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path, {})
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert message in str(caught.value)
    assert caught.value.where == f"{file}:{line}"


def test_an_unknown_setting_comes_with_the_list_of_known_ones(tmp_path: Path) -> None:
    write(tmp_path, "zzz = 1")
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path, {})
    assert all(name in caught.value.guidance for name in (*config.SETTINGS, "agents"))


def test_a_syntax_error_is_named_with_line_and_column(tmp_path: Path) -> None:
    file = write(tmp_path, 'agent = "x"\naccess = ask\n')
    with pytest.raises(ConfigError, match="this is not TOML: ") as caught:
        config.load(tmp_path, {})
    assert caught.value.where == f"{file}:2:10"


def test_a_file_that_cannot_be_read_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(ConfigError, match=r"config\.toml: the file cannot be read: Is a directory"):
        config.load(tmp_path, {})


# Errors elsewhere


def test_an_error_in_the_environment_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'^DRAGOMAN_START_TIMEOUT: start_timeout is "soon"; expected a duration'):
        config.load(tmp_path, {"DRAGOMAN_START_TIMEOUT": "soon"})


def test_a_misspelt_variable_is_refused_and_a_foreign_one_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^DRAGOMAN_ACESS: no such setting; did you mean DRAGOMAN_ACCESS\?"):
        config.load(tmp_path, {"DRAGOMAN_ACESS": "read-only"})
    config.load(tmp_path, {"DRAGOMAN_REAPER_MARK": "x", "DRAGOMAN_RECORDINGS": "y"})


def test_an_error_in_a_flag_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'^--request-timeout: request_timeout is "x"; expected a duration'):
        config.load(tmp_path, {}, {"request_timeout": "x"})
    with pytest.raises(ConfigError, match=r'^--dead-line: there is no setting "dead_line"; did you mean "deadline"'):
        config.load(tmp_path, {}, {"dead_line": "x"})


def test_bad_settings_are_the_callers_input(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        config.load(tmp_path, {}, {"access": 3})
    assert caught.value.category == "input"


# The home folder


def test_the_home_folder_can_be_chosen(tmp_path: Path) -> None:
    assert config.home_folder({"DRAGOMAN_HOME": str(tmp_path / "x"), "HOME": "/h"}) == tmp_path / "x"
    assert config.home_folder({"DRAGOMAN_HOME": "~/y", "HOME": "/h"}) == Path("/h/y")


def test_a_relative_home_folder_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'^DRAGOMAN_HOME: "somewhere" is not an absolute path'):
        config.home_folder({"DRAGOMAN_HOME": "somewhere"})


def test_the_home_folder_is_created_for_its_user_only(tmp_path: Path) -> None:
    folder = config.make_home(tmp_path / "a" / "b")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    os.chmod(folder, 0o755)
    assert config.make_home(folder) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755  # the user's own choice is left alone


def test_an_error_about_the_home_folder_names_the_variable_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="the home folder cannot be created") as caught:
        config.make_home(tmp_path / "file" / "home")
    assert "DRAGOMAN_HOME" in caught.value.guidance


# Durations


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (5, 5.0), (0, 0.0), (0.25, 0.25), ("90", 90.0), ("1.5", 1.5), ("90s", 90.0), ("5m", 300.0), ("1h30m", 5400.0),
        ("1h 30m", 5400.0), ("2d", 172800.0), ("250ms", 0.25), ("1.5h", 5400.0), ("1M30S", 90.0), (" 5m ", 300.0),
    ],
)  # fmt: skip
def test_durations_are_seconds_or_texts_with_units(written: object, seconds: float) -> None:
    assert config.parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    ["", " ", "s", "m5", "30m1h", "1h1h", "-5s", "-5", "5 parsecs", "1e3", "5,5s", "٣s", True, None, [], -1,
     float("nan"), float("inf"), 10**400, "9" * 400],
    ids=lambda value: str(value)[:10],
)  # fmt: skip
def test_a_value_that_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError):
        config.parse_duration(written)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_that_was_formatted_parses_to_itself(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert config.parse_duration(config.format_duration(seconds)) == seconds


@given(st.text())
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        assert config.parse_duration(text) >= 0
    except ValueError:
        pass


def test_durations_read_well() -> None:
    assert [config.format_duration(s) for s in (0, 0.25, 90, 5400, 90061.5)] == [
        "0s", "250ms", "1m30s", "1h30m", "1d1h1m1s500ms",
    ]  # fmt: skip


# -- skills and instructions


def test_folders_are_a_text_or_a_list_and_never_lead_upwards(tmp_path: Path) -> None:
    def folders(value: str) -> str:
        (tmp_path / "config.toml").write_text(f"skills_folders = {value}")
        return config.load(tmp_path, {}).skills_folders

    assert config.load(tmp_path, {}).skills_folders == "skills, .agents/skills"
    assert folders('"a,  b/c ,~/d"') == "a, b/c, ~/d"
    assert folders('["a", "/b"]') == "a, /b"
    assert folders('"none"') == folders('"off"') == folders("[]") == "none"
    for wrong in ('"../x"', '"a/../b"', "3", "[3]", '"."', '"a\\u0000"'):
        with pytest.raises(ConfigError, match="skills_folders"):
            folders(wrong)


def test_the_budget_and_the_instructions_are_bounded(tmp_path: Path) -> None:
    environ = {"DRAGOMAN_SKILLS_BUDGET": "16KiB", "DRAGOMAN_CUSTOM_INSTRUCTIONS": " Be brief. "}
    loaded = config.load(tmp_path, environ)
    assert (loaded.skills_budget, loaded.custom_instructions) == (16 * 1024, "Be brief.")
    assert config.load(tmp_path, {"DRAGOMAN_CUSTOM_INSTRUCTIONS": "none"}).custom_instructions is None
    for name, value in (("SKILLS_BUDGET", "0"), ("SKILLS_BUDGET", "2MiB"), ("CUSTOM_INSTRUCTIONS", "x" * 20_000)):
        with pytest.raises(ConfigError, match=name):
            config.load(tmp_path, {f"DRAGOMAN_{name}": value})


def test_the_states_of_skills_come_from_the_settings_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"skills": {"/w/skills/a.md": "always"}}')
    assert config.load(tmp_path, {}).skill_states == {"/w/skills/a.md": "always"}
    (tmp_path / "settings.json").write_text('{"skills": {"/w/skills/a.md": "sometimes"}}')
    with pytest.raises(ConfigError, match="not what Dragoman writes"):
        config.load(tmp_path, {})
