"""Handlers of `agent.*`: list, add, change, remove, test and log in to agents."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

import msgspec

from dragoman.agents.preset import Keys, built_in, load_preset
from dragoman.bridge.auth import Caller
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.services import Services, handles
from dragoman.config import PageSettings, load
from dragoman.errors import AuthenticationRequired, DragomanError
from dragoman.protocol import requests, results
from dragoman.session.capabilities import LoginMethod
from dragoman.session.login import Login
from dragoman.session.spec import spec_of_preset
from dragoman.settings import change_settings, page_settings

_AGENT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


async def _agents(services: Services) -> results.KnownAgents:
    return results.KnownAgents(agents=await services.agents.items())


@handles(requests.AgentList)
async def list_agents(services: Services, request: requests.AgentList, caller: Caller) -> results.KnownAgents:
    services.agents.invalidate()
    return await _agents(services)


@handles(requests.AgentAdd)
async def add_agent(services: Services, request: requests.AgentAdd, caller: Caller) -> results.KnownAgents:
    config = await asyncio.to_thread(load, services.config.home)
    if request.agent in config.agents or request.agent in built_in():
        raise Refusal("conflict", f"there is already an agent {request.agent!r}", field="agent")
    table: dict[str, Any] = {"command": request.command, "args": list(request.args)}
    if request.name:
        table["name"] = request.name
    if request.env:
        table["env"] = dict(request.env)
    await _write(services, request, table)
    return await _agents(services)


@handles(requests.AgentEdit)
async def edit_agent(services: Services, request: requests.AgentEdit, caller: Caller) -> results.KnownAgents:
    config = await asyncio.to_thread(load, services.config.home)
    load_preset(request.agent, config)
    table: dict[str, Any] = {}
    for field in ("name", "command"):
        if (value := getattr(request, field)) is not None:
            table[field] = value
    if request.args is not None:
        table["args"] = list(request.args)
    if request.env is not None:
        table["env"] = dict(request.env)
    await _write(services, request, table)
    if request.default:
        await asyncio.to_thread(
            change_settings,
            services.config.home,
            lambda page: msgspec.structs.replace(page, settings={**page.settings, "agent": request.agent}),
        )
        services.agents.invalidate()
    return await _agents(services)


async def _write(services: Services, request: requests.AgentAdd | requests.AgentEdit, table: dict[str, Any]) -> None:
    agent, key_name, key = request.agent, request.key_name, request.key
    if not _AGENT_ID.fullmatch(agent):
        raise Refusal(
            "invalid", f"{agent!r} cannot be the id of an agent: letters, digits, '.', '_' and '-'", field="agent"
        )
    if key is not None and not (key_name and _VARIABLE.fullmatch(key_name)):
        raise Refusal("invalid", "a key needs the name of the variable that the agent reads it from", field="key_name")
    env = table.get("env", {})
    if any("\0" in text for text in (table.get("command", ""), *table.get("args", ()), *env, *env.values(), key or "")):
        raise Refusal(
            "invalid", "command, arguments and variables of a program cannot contain a NUL character", field="command"
        )
    home = services.config.home

    def with_agent(page: PageSettings) -> PageSettings:
        merged = {**page.agents.get(agent, {}), **table}
        return msgspec.structs.replace(page, agents={**page.agents, agent: merged})

    def write() -> None:
        if table:
            try:
                change_settings(home, with_agent, lambda config: load_preset(agent, config))
            except DragomanError as error:
                raise Refusal("invalid", str(error), guidance=error.guidance, field="command") from None
        if key is not None and key_name is not None:
            Keys(home).set(agent, key_name, key) if key else Keys(home).forget(agent)

    await asyncio.to_thread(write)
    services.agents.invalidate()


@handles(requests.AgentRemove)
async def remove_agent(services: Services, request: requests.AgentRemove, caller: Caller) -> results.KnownAgents:
    home = services.config.home

    def without_agent(page: PageSettings) -> PageSettings:
        return msgspec.structs.replace(
            page, agents={name: table for name, table in page.agents.items() if name != request.agent}
        )

    def write() -> None:
        if request.agent not in page_settings(home).read().agents and not Keys(home).names(request.agent):
            raise Refusal(
                "not_found",
                f"the agent {request.agent!r} was not added or changed here",
                guidance="Agents in config.toml are changed in that file.",
                field="agent",
            )
        change_settings(home, without_agent)
        Keys(home).forget(request.agent)

    await asyncio.to_thread(write)
    services.agents.invalidate()
    return await _agents(services)


@handles(requests.AgentTest)
async def test_agent(services: Services, request: requests.AgentTest, caller: Caller) -> results.AgentTestResult:
    """Start the agent up to an open session: an agent that needs a login says so only then."""
    config = await asyncio.to_thread(load, services.config.home)
    login = Login(spec_of_preset(load_preset(request.agent, config)))
    try:
        async with login:
            methods = tuple(map(_method, login.methods))
            name, version = login.capabilities.agent_name, login.capabilities.agent_version
        await login.verify()
    except AuthenticationRequired as error:
        return results.AgentTestResult(
            ok=False, message=str(error), guidance=error.guidance, methods=tuple(map(_method, login.methods))
        )
    except DragomanError as error:
        return results.AgentTestResult(
            ok=False, message=str(error), guidance=error.guidance, stderr=getattr(error, "stderr", "")
        )
    return results.AgentTestResult(
        ok=True, name=name, version=version, methods=methods, message="The agent starts and opens a session."
    )


def _method(method: LoginMethod) -> results.LoginMethod:
    command = " ".join((method.program, *method.args)) if method.program is not None else None
    return results.LoginMethod(
        id=method.id, name=method.name, description=method.description, kind=method.kind, command=command
    )


@handles(requests.AgentLogin)
async def log_in(services: Services, request: requests.AgentLogin, caller: Caller) -> results.LoginResult:
    config = await asyncio.to_thread(load, services.config.home)
    async with Login(spec_of_preset(load_preset(request.agent, config))) as login:
        methods = tuple(map(_method, login.methods))
        if request.method_id is None:
            return results.LoginResult(methods=methods)
        method = next((method for method in login.methods if method.id == request.method_id), None)
        if method is None:
            raise Refusal("invalid", f"{request.agent} has no login method {request.method_id!r}", field="method_id")
        if method.kind == "terminal":
            return results.LoginResult(
                methods=methods,
                message=f"Log in on a terminal of the server: dragoman login {request.agent} --method {method.id}",
            )
        await login.carry_out(method)
    await login.verify()
    return results.LoginResult(methods=methods, done=True, message="Logged in.")
