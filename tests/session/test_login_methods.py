"""The ways to log in that agents offer, read as what has to be done for each."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.session.capabilities import (
    LoginMethod,
    Variable,
    capabilities_of,
    choose,
    login_line,
    methods_of,
    missing_variables,
)
from dragoman.session.spec import AgentSpec
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp


def offered(*methods: Any) -> tuple[LoginMethod, ...]:
    raw = msgspec.Raw(msgspec.json.encode({"protocolVersion": 1, "authMethods": methods}))
    return methods_of(capabilities_of(lenient.decode(raw, acp.InitializeResponse), raw))


def test_without_a_type_the_agent_does_it_itself() -> None:
    plain = LoginMethod(id="google", name="Log in with Google", kind="agent", description="in the browser")
    method = {"id": "google", "name": "Log in with Google", "description": "in the browser"}
    assert offered(method, {**method, "type": "agent"}) == (plain, plain)


def test_a_terminal_method_is_the_agents_own_command_with_more_arguments() -> None:
    (method,) = offered(
        # As kimi 2.1.0 offers it: the protocol's own way counts, where there are two.
        {
            "id": "login",
            "type": "terminal",
            "name": "Login",
            "args": ["--login"],
            "env": {"HOME_OF": "/x"},
            "_meta": {"terminal-auth": {"command": "/opt/kimi", "args": ["login"]}},
        }
    )
    assert (method.kind, method.program, method.args, method.env) == (
        "terminal",
        None,
        ("--login",),
        {"HOME_OF": "/x"},
    )


def test_a_terminal_method_of_the_old_way_names_its_program() -> None:
    # As opencode 1.18.33 offers it.
    program = {"command": "opencode", "args": ["auth", "login"], "label": "OpenCode Login"}
    (method,) = offered({"id": "opencode-login", "name": "Login", "_meta": {"terminal-auth": program}})
    assert (method.kind, method.program, method.args) == ("terminal", "opencode", ("auth", "login"))


@pytest.mark.parametrize("meta", [None, {}, {"terminal-auth": True}, {"terminal-auth": {"args": []}}])
def test_a_program_that_cannot_be_read_is_none(meta: Any) -> None:
    assert offered({"id": "a", "name": "A", "_meta": meta})[0].kind == "agent"


def test_a_key_from_the_environment_names_its_variables() -> None:
    keys = [{"name": "A_KEY", "label": "Key", "secret": True}, {"name": "A_URL", "optional": True}]
    new, old = offered(
        {"id": "a", "name": "A", "type": "env_var", "vars": keys, "link": "https://example.org/keys"},
        {"id": "b", "name": "B", "type": "env_var", "varName": "B_KEY"},
    )
    assert new.kind == old.kind == "variables"
    assert new.variables == (Variable("A_KEY", "Key"), Variable("A_URL", optional=True))
    assert new.link == "https://example.org/keys"
    assert old.variables == (Variable("B_KEY"),)
    assert missing_variables(new, {}) == ["A_KEY"]
    assert missing_variables(new, {"A_KEY": ""}) == ["A_KEY"]
    assert missing_variables(new, {"A_KEY": "x"}) == []


def test_a_method_of_an_unknown_kind_is_not_taken_for_another() -> None:
    assert offered({"id": "a", "name": "A", "type": "_face"})[0].kind == "unknown"


def test_bad_methods_cost_only_themselves() -> None:
    assert [method.id for method in offered(None, "login", {"id": 3}, {"id": "good", "name": "Good"})] == ["good"]


def test_the_method_is_chosen_by_id_or_is_the_only_one() -> None:
    one, two = offered({"id": "one", "name": "One"}, {"id": "two", "name": "Two"})
    assert choose("demo", (one, two), "two") is two
    assert choose("demo", (one,), None) is one
    for methods, method_id, message in [
        ((one, two), None, "offers 2 ways to log in: one, two"),
        ((one, two), "three", "no way to log in with the id 'three'"),
        ((), None, "offers no way to log in"),
    ]:
        with pytest.raises(InputError, match=message):
            choose("demo", methods, method_id)


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (AgentSpec(command=["x"], preset="claude"), "dragoman login claude"),
        (AgentSpec(command=["my agent", "--acp"]), """dragoman login --agent-command "'my agent' --acp" """.strip()),
        (AgentSpec(url="wss://example.org/acp?key=secret"), "dragoman login wss://example.org/acp"),
    ],
)
def test_every_agent_has_a_login_command_to_type(spec: AgentSpec, line: str) -> None:
    assert shlex.split(login_line(spec)) == shlex.split(line)
    assert "secret" not in login_line(spec)
