from __future__ import annotations

import json
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from dragoman import config
from dragoman.agents import preset as presets
from dragoman.agents.preset import Auth, Fs, Preset, Quirk
from dragoman.config import Config
from dragoman.document import Document, KeyPath
from dragoman.errors import ConfigError, InputError

RECORDINGS = Path(__file__).parents[1] / "agents" / "recordings"

NAMES = (
    "claude",
    "cline",
    "codex",
    "copilot",
    "demo",
    "gemini",
    "goose",
    "kimi",
    "nanocoder",
    "opencode",
    "pi",
    "qwen",
)


def settings(home: Path, text: str = "") -> Config:
    (home / "config.toml").write_text(text)
    return config.load(home, {})


@pytest.fixture
def built_in(tmp_path: Path) -> dict[str, Preset]:
    return presets.load_presets(settings(tmp_path))


# The built-in ones


def test_the_built_in_presets_are_all_there(built_in: dict[str, Preset]) -> None:
    assert tuple(built_in) == NAMES


@pytest.mark.parametrize("id", NAMES)
def test_each_preset_tells_people_what_it_is_and_how_to_get_it(built_in: dict[str, Preset], id: str) -> None:
    preset = built_in[id]
    assert preset.id == id
    assert preset.name
    assert preset.description.endswith(".")
    assert preset.website.startswith("https://")
    assert preset.install
    assert "\n" not in preset.install + preset.note + preset.description
    if id != "demo":
        assert preset.version
        assert preset.env_prefix


@pytest.mark.parametrize("id", NAMES)
def test_the_values_in_which_an_agent_asks_are_values_that_it_has(built_in: dict[str, Preset], id: str) -> None:
    if id in ("demo", "cline"):  # ours; and one that opens no session without a login
        return
    recorded = "".join(file.read_text() for file in sorted((RECORDINGS / id).glob("*.jsonl")))
    for values in built_in[id].asks_in.values():
        assert [value for value in values if f'"{value}"' not in recorded] == []
    assert built_in[id].asks_in["mode"]
    for unasked in ("bypassPermissions", "acceptEdits", "agent-full-access", "yolo", "auto", "autoEdit", "auto-edit"):
        assert unasked not in built_in[id].asks_in["mode"]


@pytest.mark.parametrize("id", NAMES)
def test_each_quirk_is_named_with_the_versions_it_was_seen_in(built_in: dict[str, Preset], id: str) -> None:
    ids = [quirk.id for quirk in built_in[id].quirks]
    assert len(ids) == len(set(ids))
    for quirk in built_in[id].quirks:
        assert quirk.versions
        assert all(version[0].isdigit() for version in quirk.versions)
        assert quirk.note.endswith(".")


@pytest.mark.parametrize(
    ("id", "line"),
    [
        ("claude", ("claude-agent-acp",)),
        ("codex", ("codex-acp",)),
        ("opencode", ("opencode", "acp")),
        ("gemini", ("gemini", "--acp")),
        ("goose", ("goose", "acp", "--with-builtin", "developer")),
        ("qwen", ("qwen", "--acp")),
        ("copilot", ("copilot", "--acp")),
        ("kimi", ("kimi", "acp")),
        ("pi", ("pi-acp",)),
        ("nanocoder", ("nanocoder", "--acp")),
        ("cline", ("cline", "--acp")),
        ("demo", (sys.executable, "-P", "-m", "dragoman.agents.demo")),
    ],
)
def test_each_preset_starts_its_agent_in_protocol_mode(
    built_in: dict[str, Preset], id: str, line: tuple[str, ...]
) -> None:
    assert built_in[id].command_lines[0] == line


@pytest.mark.parametrize(("id", "package"), [("claude", "claude-agent-acp"), ("codex", "codex-acp"), ("pi", "pi-acp")])
def test_adapters_fall_back_to_npx_and_the_rest_do_not(built_in: dict[str, Preset], id: str, package: str) -> None:
    (alternative,) = built_in[id].alternatives
    assert alternative[:2] == ("npx", "-y")
    assert alternative[2].endswith(package)
    assert sum(bool(preset.alternatives) for preset in built_in.values()) == 3


def test_every_agent_is_offered_files_and_terminals_but_what_breaks_it(built_in: dict[str, Preset]) -> None:
    # Gemini CLI cannot create a file where reading is offered: its quirk read-error-breaks-create.
    assert {id: preset.fs for id, preset in built_in.items() if preset.fs != Fs(read=True, write=True)} == {
        "gemini": Fs(read=False, write=True)
    }
    assert all(preset.terminal for preset in built_in.values())


def test_a_preset_logs_in_first_only_where_its_key_is_set(built_in: dict[str, Preset]) -> None:
    gemini = built_in["gemini"]
    assert gemini.auth_method({"GEMINI_API_KEY": "x"}) == "gemini-api-key"
    assert gemini.auth_method({"GEMINI_API_KEY": ""}) is None
    assert gemini.auth_method({}) is None
    assert built_in["claude"].auth_method({"GEMINI_API_KEY": "x"}) is None


def test_a_key_given_in_the_preset_counts_as_set(tmp_path: Path) -> None:
    config = settings(tmp_path, '[agents.gemini.env]\nGEMINI_API_KEY = "x"')
    assert presets.load_preset("gemini", config).auth_method({}) == "gemini-api-key"


def test_a_preset_knows_the_variables_that_are_its_own(tmp_path: Path, built_in: dict[str, Preset]) -> None:
    assert built_in["claude"].owns("ANTHROPIC_API_KEY")
    assert built_in["codex"].owns("CODEX_CONFIG")
    assert not built_in["claude"].owns("OPENAI_API_KEY")
    assert not built_in["demo"].owns("PATH")
    config = settings(tmp_path, '[agents.demo.env]\nMINE = "x"')
    assert presets.load_preset("demo", config).owns("MINE")


# The user's own


def test_a_table_changes_the_fields_it_names_and_leaves_the_others(tmp_path: Path, built_in: dict[str, Preset]) -> None:
    text = '[agents.gemini]\nargs = ["--acp", "--model", "x"]\nfs.write = true\nenv.A = "1"\nterminal = true\n'
    changed = presets.load_presets(settings(tmp_path, text))["gemini"]
    original = built_in["gemini"]
    assert changed.args == ("--acp", "--model", "x")
    assert changed.fs == Fs(read=False, write=True)
    assert changed.env == {"A": "1"}
    assert changed.terminal
    for field in ("id", "name", "command", "install", "auth", "quirks", "website", "version", "env_prefix"):
        assert getattr(changed, field) == getattr(original, field)


def test_variables_are_changed_one_by_one() -> None:
    base = Preset(id="x", command="x", env={"A": "1", "B": "2"})
    place = KeyPath(Document("x.toml"))
    assert presets.read_preset("x", {"env": {"B": "3", "C": "4"}}, place, base).env == {"A": "1", "B": "3", "C": "4"}


def test_who_names_a_program_gets_that_one_and_not_a_download(tmp_path: Path) -> None:
    changed = presets.load_preset("claude", settings(tmp_path, '[agents.claude]\ncommand = "/opt/x"'))
    assert changed.command_lines == (("/opt/x",),)
    text = '[agents.claude]\ncommand = "/opt/x"\nalternatives = [["y", "z"]]'
    assert presets.load_preset("claude", settings(tmp_path, text)).command_lines == (("/opt/x",), ("y", "z"))


def test_a_table_of_another_name_adds_an_agent_after_the_built_in_ones(tmp_path: Path) -> None:
    text = """
    [agents.mine]
    command = "my-agent"
    args = ["--acp", '{"json": "{python}"}']
    env_prefix = "MY_"
    auth = [{ env = "MY_KEY", method = "key" }]
    [[agents.mine.quirks]]
    id = "odd"
    versions = ["1.0"]
    note = "Is odd."
    """
    found = presets.load_presets(settings(tmp_path, text))
    assert tuple(found) == (*NAMES, "mine")
    assert found["mine"] == Preset(
        id="mine",
        name="mine",
        command="my-agent",
        args=("--acp", '{"json": "{python}"}'),
        env_prefix=("MY_",),
        auth=(Auth("MY_KEY", "key"),),
        quirks=(Quirk("odd", ("1.0",), "Is odd."),),
    )


def test_python_stands_for_our_interpreter_as_a_whole_word(tmp_path: Path) -> None:
    text = '[agents.x]\ncommand = "{python}"\nargs = ["{python}", "a{python}"]\nalternatives = [["env", "{python}"]]'
    preset = presets.load_preset("x", settings(tmp_path, text))
    assert preset.command_lines == ((sys.executable, sys.executable, "a{python}"), ("env", sys.executable))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[agents.mine]\nargs = ["x"]', 1, 'the agent "mine" has no command'),
        ('[agents.claude]\n\ncomand = "x"', 3, 'there is no setting "comand"; did you mean "command"?'),
        ("[agents.claude]\ncommand = ['x', 'y']", 2, "agents.claude.command is an array; expected a string"),
        ("[agents.claude]\ncommand = ' '", 2, "command is empty; expected the name or path of a program"),
        ("[agents.claude]\nargs = '--acp'", 2, "agents.claude.args is a string; expected an array of strings"),
        ("[agents.claude]\nargs = [\n'a',\n5]", 4, "agents.claude.args[1] is an integer; expected a string"),
        ("[agents.claude]\nenv = ['A=1']", 2, "agents.claude.env is an array; expected a table"),
        ("[agents.claude.env]\nA = 'x'\nPORT = 8080", 3, "agents.claude.env.PORT is an integer; expected a string"),
        ("[agents.claude.env]\n'A=B' = 'x'", 2, '"A=B" cannot be the name of a variable'),
        ("[agents.claude]\nenv_prefix = ['']", 2, "env_prefix is empty; expected the beginning"),
        ("[agents.claude]\nenv_prefix = 3", 2, "agents.claude.env_prefix is an integer; expected an array of strings"),
        ("[agents.claude]\nfs = true", 2, "agents.claude.fs is a boolean; expected a table with read and write"),
        ("[agents.claude]\nfs.red = true", 2, 'there is no setting "red"; did you mean "read"?'),
        ("[agents.claude]\nfs.read = 1", 2, "agents.claude.fs.read is an integer; expected true or false"),
        ("[agents.claude]\nterminal = 'no'", 2, "agents.claude.terminal is a string; expected true or false"),
        ("[agents.claude]\nalternatives = ['npx x']", 2, "alternatives[0] is a string; expected an array of strings"),
        ("[agents.claude]\nalternatives = [[]]", 2, "alternatives[0] is an array; expected a command line, with"),
        ("[agents.claude]\nasks_in = ['plan']", 2, "agents.claude.asks_in is an array; expected a table"),
        ("[agents.claude]\nasks_in.mode = 'plan'", 2, "agents.claude.asks_in.mode is a string; expected an array of"),
        ("[[agents.claude.auth]]\nenv = 'X'", 1, "method missing here"),
        ("[agents.claude]\nauth = 'X'", 2, "auth is a string; expected an array of tables with env and method"),
        ("[[agents.claude.quirks]]\n[[agents.claude.quirks]]", 1, "id and versions and note missing here"),
        ("[agents.claude]\nquirks = [{ id = 'x', versions = '1', note = '' }]", 2, "quirks[0].versions is a string"),
        ("[agents.claude]\ntool_names = { tilte = ['{server}'] }", 2, 'did you mean "title"?'),
        ("[agents.claude]\ntool_names = { title = ['{tool}'] }", 2, "title is without {server}; expected a form"),
        ("[agents.claude]\ntool_kinds = { x = 'write' }", 2, "tool_kinds.x is a string; expected one of read, edit"),
        ("[agents.'my agent']\ncommand = 'x'", 1, '"my agent" cannot be the name of an agent'),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        presets.load_presets(settings(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path}/config.toml:{line}: ")
    assert message in str(caught.value)


def test_errors_never_show_what_may_be_a_secret(tmp_path: Path) -> None:
    for text in ("env.KEY = ['s3cret']", "args = [['s3cret']]", "args = 's3cret'", "command = ['s3cret']"):
        with pytest.raises(ConfigError) as caught:
            presets.load_presets(settings(tmp_path, f"[agents.claude]\n{text}"))
        assert "s3cret" not in str(caught.value) + caught.value.guidance


def test_a_broken_table_does_not_stop_another_agent(tmp_path: Path) -> None:
    config = settings(tmp_path, "[agents.broken]\nx = 1\n")
    assert presets.load_preset("claude", config).id == "claude"
    with pytest.raises(ConfigError):
        presets.load_preset("broken", config)


# Names


def test_an_unknown_name_is_answered_with_the_nearest_one(tmp_path: Path, built_in: dict[str, Preset]) -> None:
    with pytest.raises(InputError, match=r'there is no agent "cluade"; did you mean "claude"\?') as caught:
        presets.get("cluade", built_in)
    assert "dragoman agents" in caught.value.guidance
    assert "[agents.cluade]" in caught.value.guidance
    with pytest.raises(InputError, match=r'there is no agent "zzz"$'):
        presets.get("zzz", built_in)
    with pytest.raises(InputError, match=r'did you mean "mine"\?'):
        presets.load_preset("mien", settings(tmp_path, '[agents.mine]\ncommand = "x"'))


def test_names_are_found_in_any_case(tmp_path: Path, built_in: dict[str, Preset]) -> None:
    assert presets.get("Claude", built_in).id == "claude"
    assert presets.load_preset("OpenCode", settings(tmp_path)).id == "opencode"


# Agents from editors


SERVERS = {
    "My Agent": {"command": "my-agent", "args": ["--acp"], "env": {"A": "1"}, "default_mode": "ask"},
    "plain": {"command": "/opt/plain"},
    "theirs": {"type": "registry"},
}


@pytest.mark.parametrize("wrap", [True, False])
def test_agents_are_imported_from_an_editors_settings(wrap: bool) -> None:
    text = json.dumps({"agent_servers": SERVERS, "theme": "dark"} if wrap else SERVERS)
    assert presets.import_agent_servers(text) == {
        "my-agent": Preset(id="my-agent", name="My Agent", command="my-agent", args=("--acp",), env={"A": "1"}),
        "plain": Preset(id="plain", name="plain", command="/opt/plain"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "^acp.json: this is not JSON"),
        ("[]", "^acp.json: the whole is an array; expected a table"),
        ('{"x": null}', "^acp.json: x is null; expected a table"),
        ('{"x": {}}', '^acp.json: the agent "x" has no command'),
        ('{"x": {"command": "y", "args": "z"}}', "^acp.json: x.args is a string; expected an array of strings"),
        ('{"x": {"command": "y", "env": {"A": 1}}}', "^acp.json: x.env.A is an integer; expected a string"),
        ('{"A b": {"command": "y"}, "a-B": {"command": "y"}}', 'would both be the agent "a-b"'),
        ('{"!": {"command": "y"}}', 'cannot be the name of an agent'),
    ],
)  # fmt: skip
def test_what_an_editor_would_not_write_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        presets.import_agent_servers(text, "acp.json")


# The schema


def test_the_documented_schema_is_the_one_that_is_read() -> None:
    example = (presets.__doc__ or "").split("said:\n\n", 1)[1].split("\n\nChanging", 1)[0]
    table = tomllib.loads("\n".join(line.removeprefix("    ") for line in example.splitlines()))
    preset = presets.read_preset("example", table, KeyPath(Document("docs")))
    assert set(table) == set(Preset.__struct_fields__) - {"id"}
    assert preset.version == ("{command}", "--version")


def test_presets_are_found_as_package_data() -> None:
    folder = resources.files("dragoman.agents") / "presets"
    assert sorted(file.name for file in folder.iterdir()) == [f"{name}.toml" for name in NAMES]
