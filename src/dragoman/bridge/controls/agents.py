"""`agent.*`: which agents there are here, the user's own, their keys, and whether they start."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.agents.find import Finding, survey
from dragoman.agents.keys import Keys
from dragoman.agents.preset import built_in, load_preset, load_presets
from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.controls.settings import change_settings, page_settings
from dragoman.bridge.payload import AgentItem
from dragoman.bridge.refusal import Refusal
from dragoman.config import Config, PageSettings, load
from dragoman.errors import AuthenticationRequired, DragomanError
from dragoman.session.login import Login
from dragoman.session.login_method import LoginMethod
from dragoman.session.spec import spec_of_preset

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Agents:
    """What a survey found, kept until something changes. `number` grows with each change."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._items: tuple[AgentItem, ...] | None = None
        self._looking = asyncio.Lock()
        self._events: set[asyncio.Event] = set()
        self.number = 0

    async def listed(self) -> tuple[AgentItem, ...]:
        async with self._looking:
            if self._items is None:
                self._items = await self._survey()
            return self._items

    async def _survey(self) -> tuple[AgentItem, ...]:
        config = await asyncio.to_thread(load, self._home)
        findings = await survey(load_presets(config), environ=dict(os.environ))
        keys = Keys(config.home)
        return tuple(_item(finding, config, keys) for finding in findings)

    def changed(self) -> None:
        """It is looked at anew when someone asks."""
        self._items = None
        self.number += 1
        for event in self._events:
            event.set()

    async def wait(self, number: int) -> None:
        event = asyncio.Event()
        self._events.add(event)
        try:
            while self.number <= number:
                event.clear()
                await event.wait()
        finally:
            self._events.discard(event)


def _item(finding: Finding, config: Config, keys: Keys) -> AgentItem:
    preset = finding.preset
    command, *args = preset.command_lines[0]
    names = keys.names(preset.id)
    return AgentItem(
        id=preset.id,
        name=preset.name or preset.id,
        description=preset.description,
        state=finding.state,
        version=finding.version,
        path=str(finding.path) if finding.path else None,
        command=command,
        args=tuple(args),
        env=tuple(name for name in preset.env if name not in names),
        has_key=bool(names),
        own=preset.id in config.agents,
        default=preset.id == config.agent,
        problem=finding.problem or None,
        hint=finding.hint or None,
        install=preset.install or None,
        note=preset.note or None,
        website=preset.website or None,
    )


async def list_agents(bridge: Bridge, said: asked.AgentList, caller: Caller) -> answers.Agents:
    bridge.agents.changed()
    return answers.Agents(agents=await bridge.agents.listed())


async def add(bridge: Bridge, said: asked.AgentAdd, caller: Caller) -> answers.Agents:
    config = await asyncio.to_thread(load, bridge.config.home)
    if said.agent in config.agents or said.agent in built_in():
        raise Refusal("conflict", f"there is an agent {said.agent!r} already", field="agent")
    table: dict[str, Any] = {"command": said.command, "args": list(said.args)}
    if said.name:
        table["name"] = said.name
    if said.env:
        table["env"] = dict(said.env)
    await _put(bridge, said.agent, table, said.key_name, said.key)
    return answers.Agents(agents=await bridge.agents.listed())


async def edit(bridge: Bridge, said: asked.AgentEdit, caller: Caller) -> answers.Agents:
    config = await asyncio.to_thread(load, bridge.config.home)
    load_preset(said.agent, config)
    table: dict[str, Any] = {}
    for field in ("name", "command"):
        if (value := getattr(said, field)) is not None:
            table[field] = value
    if said.args is not None:
        table["args"] = list(said.args)
    if said.env is not None:
        table["env"] = dict(said.env)
    await _put(bridge, said.agent, table, said.key_name, said.key)
    if said.default:
        await asyncio.to_thread(
            change_settings,
            bridge.config.home,
            lambda known: msgspec.structs.replace(known, settings={**known.settings, "agent": said.agent}),
        )
        bridge.agents.changed()
    return answers.Agents(agents=await bridge.agents.listed())


async def _put(bridge: Bridge, agent: str, table: dict[str, Any], key_name: str | None, key: str | None) -> None:
    if not _ID.fullmatch(agent):
        raise Refusal(
            "invalid", f"{agent!r} cannot be the id of an agent: letters, digits, '.', '_' and '-'", field="agent"
        )
    if key is not None and not (key_name and _VARIABLE.fullmatch(key_name)):
        raise Refusal("invalid", "a key needs the name of the variable that the agent takes it in", field="key_name")
    env = table.get("env", {})
    if any("\0" in text for text in (table.get("command", ""), *table.get("args", ()), *env, *env.values(), key or "")):
        raise Refusal(
            "invalid", "no program can be given a NUL, in its command, arguments or variables", field="command"
        )
    home = bridge.config.home

    def with_it(known: PageSettings) -> PageSettings:
        merged = {**known.agents.get(agent, {}), **table}
        return msgspec.structs.replace(known, agents={**known.agents, agent: merged})

    def write() -> None:
        if table:
            try:
                change_settings(home, with_it, lambda config: load_preset(agent, config))
            except DragomanError as problem:
                raise Refusal("invalid", str(problem), guidance=problem.guidance, field="command") from None
        if key is not None and key_name is not None:
            Keys(home).set(agent, key_name, key) if key else Keys(home).forget(agent)

    await asyncio.to_thread(write)
    bridge.agents.changed()


async def remove(bridge: Bridge, said: asked.AgentRemove, caller: Caller) -> answers.Agents:
    home = bridge.config.home

    def without(known: PageSettings) -> PageSettings:
        return msgspec.structs.replace(
            known, agents={name: table for name, table in known.agents.items() if name != said.agent}
        )

    def write() -> None:
        if said.agent not in page_settings(home).read().agents and not Keys(home).names(said.agent):
            raise Refusal(
                "not_found",
                f"nothing of the agent {said.agent!r} was set here",
                guidance="What stands in config.toml is changed there.",
                field="agent",
            )
        change_settings(home, without)
        Keys(home).forget(said.agent)

    await asyncio.to_thread(write)
    bridge.agents.changed()
    return answers.Agents(agents=await bridge.agents.listed())


async def test(bridge: Bridge, said: asked.AgentTest, caller: Caller) -> answers.Tested:
    """Up to an open session: an agent that needs a login says so only then."""
    config = await asyncio.to_thread(load, bridge.config.home)
    spec = spec_of_preset(load_preset(said.agent, config))
    login = Login(spec)
    try:
        async with login:
            methods = tuple(map(_method, login.methods))
            offered = login.capabilities
            name, version = offered.agent_name, offered.agent_version
        await login.verify()
    except AuthenticationRequired as problem:
        return answers.Tested(
            ok=False, message=str(problem), guidance=problem.guidance, methods=tuple(map(_method, login.methods))
        )
    except DragomanError as problem:
        return answers.Tested(
            ok=False, message=str(problem), guidance=problem.guidance, stderr=getattr(problem, "stderr", "")
        )
    return answers.Tested(
        ok=True, name=name, version=version, methods=methods, message="it starts, and opens a session"
    )


def _method(method: LoginMethod) -> answers.LoginMethod:
    command = " ".join((method.program, *method.args)) if method.program is not None else None
    return answers.LoginMethod(
        id=method.id, name=method.name, description=method.description, kind=method.kind, command=command
    )


async def login(bridge: Bridge, said: asked.AgentLogin, caller: Caller) -> answers.Login:
    config = await asyncio.to_thread(load, bridge.config.home)
    spec = spec_of_preset(load_preset(said.agent, config))
    async with Login(spec) as dialog:
        methods = tuple(map(_method, dialog.methods))
        if said.method_id is None:
            return answers.Login(methods=methods)
        method = next((one for one in dialog.methods if one.id == said.method_id), None)
        if method is None:
            raise Refusal("invalid", f"{said.agent} has no way to log in called {said.method_id!r}", field="method_id")
        if method.kind == "terminal":
            return answers.Login(
                methods=methods,
                message=f"This is done on a terminal of the machine: dragoman login {said.agent} --method {method.id}",
            )
        await dialog.carry_out(method)
    await dialog.verify()
    return answers.Login(methods=methods, done=True, message="logged in")
