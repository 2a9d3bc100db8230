"""Settings of a session: one declaration, copied and checked in one place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec
import pytest

import dragoman
from dragoman.cli.plan import RunOptions
from dragoman.config import load
from dragoman.errors import InputError
from dragoman.evaluation.evaluate import EvaluateOptions, ModelConfig
from dragoman.protocol.requests import Isolation, SessionOpen, SessionSettings, SettingOptions
from dragoman.session.handle import SessionHandle, config_of_handle
from dragoman.session.options import (
    AGENT_SETTINGS,
    LocalOptions,
    SessionConfig,
    SessionOptions,
    StoredSettings,
    session_config,
    settings_in,
)
from dragoman.session.spec import Limits
from dragoman.wire.vocabulary import McpServer, McpServerStdio
from dragoman.workspace import Workspace

NAMES = SessionSettings.__struct_fields__

SAMPLES: dict[Any, Any] = {
    str | None: "value",
    bool | None: True,
    bool | Literal["hosts"] | None: "hosts",
    bool | str | None: "landlock",
    dict[str, str | bool]: {"verbose": True},
    tuple[str, ...] | None: ("value",),
    bool | Isolation | None: Isolation(worktree=False),
}


def types_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


VALUES: dict[str, Any] = {name: SAMPLES[kind] for name, kind in types_of(SessionSettings).items()}


def test_the_three_declarations_name_the_same_settings() -> None:
    assert set(get_type_hints(SettingOptions)) == set(NAMES)
    request = types_of(SessionOpen)
    assert {name: request[name] for name in NAMES} == types_of(SessionSettings)
    for keywords in (SessionOptions, LocalOptions, EvaluateOptions):
        assert set(NAMES) <= keywords.__optional_keys__


@pytest.mark.parametrize("made_from", [SessionConfig, SessionHandle, ModelConfig, RunOptions])
def test_everything_that_has_settings_has_them_all(made_from: type[msgspec.Struct]) -> None:
    fields = types_of(made_from)
    assert {name: fields[name] for name in NAMES} == types_of(SessionSettings)


def test_settings_are_the_same_whatever_they_are_read_from(tmp_path: Path) -> None:
    config = session_config({**VALUES, "cwd": tmp_path, "access": "full"}, load(tmp_path))  # type: ignore[typeddict-item]
    request = SessionOpen(cwd=str(tmp_path), access="full", **VALUES)
    handle = SessionHandle(session_id="s", agent_session_id="a", cwd=str(tmp_path), access="full", **VALUES)
    expected = {**VALUES, "access": "full"}
    assert settings_in(request) == settings_in(RunOptions(access="full", **VALUES)) == expected
    assert settings_in(config) == settings_in(handle) == {**expected, "mcp_servers": ()}


def test_a_setting_that_is_none_is_left_out() -> None:
    assert settings_in({"model": None, "mode": "plan", "cwd": "."}) == {"mode": "plan"}


def test_a_resumed_session_leaves_to_the_agent_what_the_agent_stores(tmp_path: Path) -> None:
    handle = SessionHandle(session_id="s", agent_session_id="a", cwd=str(tmp_path), access="full", **VALUES)
    config = config_of_handle(handle)
    for name in StoredSettings.__struct_fields__:
        default = getattr(SessionConfig(workspace=Workspace(tmp_path)), name)
        assert getattr(config, name) == (default if name in AGENT_SETTINGS else getattr(handle, name))


WRONG = [
    ({"model": 3}, "model is 3; expected str | None"),
    ({"network": "yes"}, "network is 'yes'; expected bool | 'hosts' | None"),
    ({"options": {"verbose": 3}}, "options is {'verbose': 3}; expected dict[str, str | bool]"),
    ({"options": ["verbose"]}, "options is ['verbose']; expected dict[str, str | bool]"),
    ({"system_prompt": b"Be brief."}, "system_prompt is b'Be brief.'; expected str | None"),
    ({"skills": "review"}, "skills is 'review'; expected a list of names"),
    ({"skills": [3]}, "skills is [3]; expected a list of names"),
    ({"custom_instructions": 3}, "custom_instructions is 3; expected str | None"),
    ({"access": 3}, "access is 3; expected one of: read-only"),
    ({"access": "all"}, "access is 'all'; expected one of: read-only"),
    ({"rules": 3}, "rules is 3; expected a list of PolicyRule"),
    ({"mcp_servers": 3}, "mcp_servers must be a list of McpServerStdio"),
    ({"mcp_servers": ["server"]}, "an MCP server is an McpServerStdio, McpServerHttp or McpServerSse, not 'server'"),
    ({"on_event": 3}, "on_event is 3; expected a function"),
]


@pytest.mark.parametrize(("keywords", "message"), WRONG)
def test_a_wrong_type_is_an_error_that_names_the_setting(
    tmp_path: Path, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        SessionConfig(**{"workspace": Workspace(tmp_path), **keywords})


@pytest.mark.parametrize(("keywords", "message"), WRONG)
def test_the_error_is_raised_by_the_call_and_before_an_agent_starts(
    tmp_path: Path, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        dragoman.open_session("demo", cwd=tmp_path, **keywords)


def test_a_client_checks_the_settings_before_it_sends_them() -> None:
    client = dragoman.Client("http://127.0.0.1:1", "token")
    with pytest.raises(InputError, match=re.escape("model is 3; expected str | None")):
        client.open_session("demo", model=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("workspace", [3, None, ["a"]])
def test_a_workspace_that_is_none_is_an_error(workspace: Any) -> None:
    with pytest.raises(InputError, match="cwd: "):
        SessionConfig(workspace=workspace)


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_a_limit_is_a_number_of_seconds(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is 'x'; expected float"):
        Limits(**{name: "x"})  # type: ignore[arg-type]
    assert getattr(Limits(**{name: 5}), name) == 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": 3}, "name is 3; expected str"),
        ({"terminals": "yes"}, "terminals is 'yes'; expected bool"),
        ({"command": "agent --acp"}, "AgentSpec.command must be a list of strings"),
        ({"env": ["KEY=secret"]}, "env is of the type list; expected a dict of variables"),
    ],
)
def test_a_field_of_an_agent_of_the_wrong_type_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as failed:
        dragoman.AgentSpec(**{"command": ["agent"], **fields})
    assert "secret" not in str(failed.value)


def test_a_url_of_the_wrong_type_is_named() -> None:
    with pytest.raises(InputError, match=re.escape("url is 3; expected str | None")):
        dragoman.AgentSpec(url=3)  # type: ignore[arg-type]


def test_a_retry_policy_of_the_wrong_type_is_named() -> None:
    with pytest.raises(InputError, match="attempts is 'x'; expected int"):
        dragoman.RetryPolicy(attempts="x")  # type: ignore[arg-type]


def test_options_may_be_any_mapping(tmp_path: Path) -> None:
    class Options(Mapping[str, str]):
        def __getitem__(self, name: str) -> str:
            return {"effort": "high"}[name]

        def __iter__(self) -> Any:
            return iter(["effort"])

        def __len__(self) -> int:
            return 1

    assert settings_in({"options": Options()}) == {"options": {"effort": "high"}}


def test_a_server_of_the_general_type_becomes_one_of_its_kind(tmp_path: Path) -> None:
    config = SessionConfig(
        workspace=Workspace(tmp_path),
        mcp_servers=[McpServer(name="files", command="serve", args=[], env=[])],  # type: ignore[arg-type]
    )
    assert [type(server) for server in config.mcp_servers] == [McpServerStdio]
