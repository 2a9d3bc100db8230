"""`dragoman config`: show, set and edit settings, however invalid they are."""

from __future__ import annotations

import json
import stat

import pytest

from .conftest import Cli


def test_all_settings_are_listed_with_their_sources(cli: Cli) -> None:
    cli.configure('deadline = "90m"\n')
    done = cli("config", env={"DRAGOMAN_ACCESS": "full"})
    assert (done.code, done.err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines()}
    assert rows["setting"] == ["value", "set", "by"]
    assert rows["deadline"][0] == "1h30m"
    assert rows["deadline"][1].endswith("config.toml:1")
    assert rows["access"] == ["full", "DRAGOMAN_ACCESS"]
    assert rows["line_limit"] == ["64MiB", "default"]
    assert rows["idle_limit"] == ["none", "default"]


def test_a_setting_is_set_read_and_removed(cli: Cli) -> None:
    done = cli("config", "set", "access", "low")
    assert (done.code, done.out) == (0, "access = read-only\n")
    done = cli("config", "get", "access")
    assert (done.code, done.out) == (0, "read-only\n")
    assert "settings.json" in done.err
    record = json.loads(cli("config", "get", "--json", "access").out)
    assert record["value"] == "read-only"
    assert stat.S_IMODE((cli.home / "settings.json").stat().st_mode) == 0o600
    done = cli("config", "unset", "access")
    assert (done.code, done.out) == (0, "access = ask\n")
    assert "This is the default." in done.err
    done = cli("config", "unset", "access")
    assert (done.code, "access is not set in" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("set", "acces", "ask"), 'there is no setting "acces"; did you mean "access"?'),
        (("get", "colour"), 'there is no setting "colour"'),
        (("set", "access", "fulll"), 'did you mean "full"?'),
        (("set", "deadline", "soon"), "expected a duration"),
        (("set", "agent", "claud"), 'there is no agent "claud"; did you mean "claude"?'),
    ],
)
def test_a_wrong_name_or_value_is_refused_and_nothing_is_changed(
    cli: Cli, arguments: tuple[str, ...], message: str
) -> None:
    done = cli("config", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("dragoman: ")
    assert message in " ".join(done.err.split())
    assert not (cli.home / "settings.json").exists()


def test_another_bad_setting_does_not_stand_in_the_way(cli: Cli) -> None:
    cli.configure('access = "everything"\n[agents.demo]\ncommand = "x"\n')
    (cli.home / "settings.json").write_text('{"settings": {"deadline": "soon", "colour": "red"}}')
    assert "access is" in cli("config").err
    assert cli("config", "set", "deadline", "5m").code == 0
    assert cli("config", "unset", "colour").code == 0
    assert cli("config", "set", "access", "ask").out == "access = ask\n"
    assert cli("config", "get", "deadline").out == "5m\n"


def test_a_variable_that_overrides_the_setting_is_named(cli: Cli) -> None:
    done = cli("config", "set", "access", "full", env={"DRAGOMAN_ACCESS": "ask"})
    assert done.code == 0
    assert "It has no effect here: DRAGOMAN_ACCESS sets access to ask." in done.err
    assert done.out == f"access = full, in {cli.home / 'settings.json'}\n"


def test_edit_opens_the_file_and_checks_it(cli: Cli) -> None:
    path = cli.home / "config.toml"
    path.unlink()
    done = cli("config", "edit", env={"EDITOR": "true", "VISUAL": ""})
    assert (done.code, "is valid" in done.err) == (0, True)
    assert "# agent = " in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    script = cli.workspace.parent / "editor.sh"
    script.write_text("echo 'acces = 3' > $1")
    done = cli("config", "edit", env={"EDITOR": f"sh {script}"})
    assert (done.code, "config.toml:1" in done.err) == (2, True)
    done = cli("config", "edit", env={"EDITOR": "no-such-editor"})
    assert (done.code, "cannot be started" in done.err) == (2, True)
    done = cli("config", "edit", env={"EDITOR": "false"})
    assert (done.code, "exit code 1" in done.err) == (2, True)


def test_path_prints_where_the_file_is(cli: Cli) -> None:
    assert cli("config", "path").out == f"{cli.home / 'config.toml'}\n"
