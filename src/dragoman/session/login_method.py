"""`LoginMethod`: the ways to log in that an agent offers (`authMethods`), each with what it takes. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.session.capabilities import Capabilities
from dragoman.session.spec import AgentSpec
from dragoman.wire import vocabulary as acp

TERMINAL_AUTH: Final = "terminal-auth"
"""The key in `_meta` under which agents describe terminal methods; older than the protocol's own field."""

Kind: TypeAlias = Literal["agent", "terminal", "variables", "unknown"]


class Variable(msgspec.Struct, frozen=True):
    name: str
    label: str = ""
    optional: bool = False


class LoginMethod(msgspec.Struct, frozen=True, kw_only=True):
    """One way to log in, as the agent offers it.

    `args` follow the agent's own command line, unless `program` takes its place; `env` is set for it.
    """

    id: str
    name: str
    kind: Kind
    description: str = ""
    program: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    variables: tuple[Variable, ...] = ()
    link: str | None = None


class _WireVariable(msgspec.Struct, frozen=True):
    name: str
    label: str | None = None
    optional: bool | None = None


class _WireMethod(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a method that the vocabulary leaves out: `env_var` is in drafts of the protocol only."""

    id: str
    vars: tuple[_WireVariable, ...] = ()
    var_name: str | None = None
    link: str | None = None


class _WireProgram(msgspec.Struct, frozen=True):
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class _WireAnswer(msgspec.Struct, frozen=True, rename="camel"):
    auth_methods: tuple[msgspec.Raw, ...] = ()


def methods_of(capabilities: Capabilities) -> tuple[LoginMethod, ...]:
    """Return the agent's ways to log in, in its own order."""
    more = _undeclared(capabilities.raw)
    return tuple(_method(method, more.get(method.id)) for method in capabilities.auth_methods)


def _method(offered: acp.AuthMethod, more: _WireMethod | None) -> LoginMethod:
    method = LoginMethod(
        id=offered.id, name=offered.name or offered.id, kind="agent", description=offered.description or ""
    )
    change = msgspec.structs.replace
    match offered.type:
        case "terminal":
            return change(method, kind="terminal", args=offered.args, env=offered.env)
        case "env_var":
            variables = tuple(Variable(v.name, v.label or "", bool(v.optional)) for v in more.vars) if more else ()
            if more and more.var_name and not variables:
                variables = (Variable(more.var_name),)
            return change(method, kind="variables", variables=variables, link=more.link if more else None)
        case None | "agent" if program := _program(offered.meta):
            return change(method, kind="terminal", program=program.command, args=program.args, env=program.env)
        case None | "agent":
            return method
        case _:
            return change(method, kind="unknown")


def _program(meta: Mapping[str, Any] | None) -> _WireProgram | None:
    try:
        return msgspec.convert((meta or {}).get(TERMINAL_AUTH), _WireProgram)
    except msgspec.ValidationError:
        return None


def _undeclared(raw: msgspec.Raw) -> dict[str, _WireMethod]:
    methods = {}
    try:
        for item in msgspec.json.decode(raw, type=_WireAnswer).auth_methods:
            try:
                method = msgspec.json.decode(item, type=_WireMethod)
                methods[method.id] = method
            except msgspec.MsgspecError:
                continue
    except msgspec.MsgspecError:
        pass
    return methods


def choose(name: str, methods: tuple[LoginMethod, ...], method_id: str | None) -> LoginMethod:
    """Return the method of that id; without one, the only one. `InputError` lists them."""
    ids = ", ".join(method.id for method in methods)
    if not methods:
        raise InputError(f"{name} offers no way to log in", guidance="Look into its own documentation.")
    if method_id is None:
        if len(methods) == 1:
            return methods[0]
        raise InputError(f"{name} offers {len(methods)} ways to log in: {ids}", guidance="Choose one of them by id.")
    for method in methods:
        if method.id == method_id:
            return method
    raise InputError(f"{name} has no way to log in with the id {method_id!r}", guidance=f"It offers: {ids}")


def missing_variables(method: LoginMethod, env: Mapping[str, str]) -> list[str]:
    return [variable.name for variable in method.variables if not variable.optional and not env.get(variable.name)]


def login_line(spec: AgentSpec) -> str:
    """Return the command that logs in to this agent."""
    if spec.preset is not None:
        return f"dragoman login {shlex.quote(spec.preset)}"
    if spec.url is not None:
        return f"dragoman login {shlex.quote(spec.url.partition('?')[0])}"  # a query may hold a token
    return f"dragoman login --agent-command {shlex.quote(shlex.join(spec.command))}"
