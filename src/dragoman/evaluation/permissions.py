"""What an agent may do in an evaluation: the caller's own tools always, the rest by `access`; nobody is asked.

What only looks like a tool of ours is judged like anything else: by `access` and the rules, and where these leave it
open by the caller's `on_permission`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from dragoman.evaluation.identity import is_own
from dragoman.host.callback import call
from dragoman.host.permission import OnPermission, PermissionRequest, Reply
from dragoman.host.policy.rules import Rule


class Permissions:
    """The session's `on_permission`, and its rules. `server` is the name of our tool server, `tools` those on it;
    `on_permission` is the caller's, for the rest."""

    def __init__(
        self,
        server: str,
        tools: Iterable[str],
        *,
        allowed_paths: Sequence[str | Path] | None = None,
        cwd: Path = Path(),
        on_permission: OnPermission | None = None,
    ) -> None:
        self._server = server
        self._tools = tuple(tools)
        self._paths = None if allowed_paths is None else patterns_of(allowed_paths, cwd)
        self._on_permission = on_permission

    @property
    def session_rules(self) -> tuple[Rule, ...]:
        # Above what access allows, and below the run's rules, which name the places where it may.
        return () if self._paths is None else (Rule("deny", "it is not under allowed_paths", kind="write"),)

    @property
    def run_rules(self) -> tuple[Rule, ...]:
        if not self._paths:
            return ()
        return (Rule("allow", "it is under allowed_paths", kind=("read", "write"), path=self._paths),)

    def is_own(self, request: PermissionRequest) -> bool:
        """These are allowed before any rule is looked at."""
        return bool(self._tools) and is_own(request, self._server, self._tools)

    async def __call__(self, request: PermissionRequest) -> Reply:
        if self._on_permission is None:
            return request.reject()
        reply = await call(self._on_permission, request)  # whatever it is, the session checks it
        return cast(Reply, reply)


def patterns_of(paths: Sequence[str | Path], cwd: Path) -> tuple[str, ...]:
    """Each path, and with it all below it. Absolute and without links: `src` shall not be any `src`, however deep."""
    places = (os.path.realpath(os.path.join(cwd, Path(path).expanduser())) for path in paths)
    return tuple(re.sub(r"([*?\[])", r"[\1]", place) for place in places)
