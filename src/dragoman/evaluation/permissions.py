"""What an agent may do in an evaluation: the caller's own tools always, the rest by `access`; nobody is asked.

Agents write the name of an MCP tool in many ways, and only one of them (`mcp__server__tool`) is certain enough for a
rule that allows. So a rule of the run allows that one, and a rule of the session brings every other way before
`Permissions.answer`, which looks whether it is a tool of ours and nothing beside. So it is with an argument that the
policy takes for an address: of a tool of ours it is what the caller named so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from dragoman.evaluation.problems import Schema
from dragoman.host.callback import call
from dragoman.host.permission import OnPermission, PermissionRequest, Reply
from dragoman.host.policy.globs import mcp_found
from dragoman.host.policy.rules import Rule

# How agents write a tool of a server, where a rule has to say it in full (`mcp_found` lists who does which).
_WAYS: Final = (
    "mcp__{server}__{tool}",
    "{server}__{tool}",
    "{server}_{tool}",
    "{server}: {tool}",
    "{server}.{tool}",
    "{server}/{tool}",
    "{tool} ({server} MCP Server)",
)
# Keys in which the policy sees an address. In `command` it sees a command, and that stays one: what is allowed here by
# its text would then be allowed to run.
_ADDRESS: Final = re.compile("url", re.IGNORECASE)

_OWN: Final = "a tool of the program that evaluates"
_ALLOWED_PATHS: Final = "it is not under allowed_paths"


class Permissions:
    """`server` is the name of our tool server, `tools` those on it, with the schemas of their arguments;
    `on_permission` is the caller's, for the rest."""

    def __init__(
        self,
        server: str,
        tools: Mapping[str, Schema],
        *,
        allowed_paths: Sequence[str | Path] | None = None,
        cwd: Path = Path(),
        on_permission: OnPermission | None = None,
    ) -> None:
        self._server = server
        self._tools = {tool: frozenset(schema.get("properties", ())) for tool, schema in tools.items()}
        self._own = tuple(f"{server}/{tool}" for tool in tools)
        self._paths = None if allowed_paths is None else patterns_of(allowed_paths, cwd)
        self._on_permission = on_permission

    @property
    def session_rules(self) -> tuple[Rule, ...]:
        # Codex calls them commands, which no rule about MCP is about, under a title that is certain.
        codex = tuple(f"mcp.{own.replace('/', '.')}" for own in self._own)
        # Nor is one about an address, which may be an argument.
        titles = tuple(way.format(server=self._server, tool=tool) for tool in self._tools for way in _WAYS)
        rules = (
            Rule("ask", _OWN, mcp=self._own),
            Rule("ask", _OWN, tool=codex),
            Rule("ask", _OWN, tool=titles, kind="fetch"),
        )
        own = rules if self._own else ()
        # Above what access allows, and below the run's rules, which name the places where it may.
        return own if self._paths is None else (*own, Rule("deny", _ALLOWED_PATHS, kind="write"))

    @property
    def run_rules(self) -> tuple[Rule, ...]:
        own = (Rule("allow", _OWN, mcp=self._own),) if self._own else ()
        if not self._paths:
            return own
        return (*own, Rule("allow", "it is under allowed_paths", kind=("read", "write"), path=self._paths))

    async def answer(self, request: PermissionRequest) -> Reply:
        """As `on_permission` of the session."""
        if self.is_own(request):
            return request.allow()
        if self._on_permission is None:
            return request.reject()
        reply = await call(self._on_permission, request)  # whatever it is, the session checks it
        return cast(Reply, reply)

    def is_own(self, request: PermissionRequest) -> bool:
        """One of our tools, and neither a command, nor a file, nor an address beside it."""
        if request.origin != "agent" or request.command is not None or request.diffs or request.paths:
            return False
        if request.kind == "execute":
            given = request.raw_input if isinstance(request.raw_input, dict) else {}
            return given.get("server") == self._server and given.get("tool") in self._tools
        return request.kind in ("other", "") and any(
            is_named(self._server, tool, request.name, request.title) and _only(request.raw_input, arguments)
            for tool, arguments in self._tools.items()
        )


def _only(given: object, arguments: frozenset[str]) -> bool:
    """Whether what looks like an address is an argument of the tool."""
    addresses = {key for key in given if _ADDRESS.search(key)} if isinstance(given, dict) else set()
    return addresses <= arguments


def is_named(server: str, tool: str, *texts: str | None) -> bool:
    """Whether a tool's name or title is that of this one, in any way that agents write it."""
    words = [text.removeprefix("mcp.") for text in texts if text]
    return mcp_found(f"{server}/{tool}", *words)


def patterns_of(paths: Sequence[str | Path], cwd: Path) -> tuple[str, ...]:
    """Each path, and with it all below it. Absolute and without links: `src` shall not be any `src`, however deep."""
    places = (os.path.realpath(os.path.join(cwd, Path(path).expanduser())) for path in paths)
    return tuple(re.sub(r"([*?\[])", r"[\1]", place) for place in places)
