"""Which of an agent's tool calls are calls of our own tools. Pure but for the name of our server, made once.

The name has a random part: nothing else is called so. But the model is told it, and may write it into whatever it
writes: a command, an argument, and a title that the agent makes of these. So it counts only where the agent's program
says which tool is meant, each in its own way; what the arguments are called, and what is in them, does not matter then.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Final

from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.effects import mcp_tool
from dragoman.host.policy.globs import mcp_found
from dragoman.record import events

# One a process, and not one an evaluation: models remember prompts that begin alike, and tools are their beginning.
SERVER: Final = f"dragoman-{secrets.token_hex(4)}"

# What agents write over a call: Kimi, goose, OpenCode, and others that are likely.
_TITLES: Final = ("mcp__{server}__{tool}", "{server}: {tool}", "{server}_{tool}", "{server}.{tool}", "{server}/{tool}")
# After this goose says in a title what the call is about.
_ABOUT: Final = " · "


def is_own(request: PermissionRequest, server: str, tools: Iterable[str]) -> bool:
    """Narrowly: whether the agent's program says that a tool of this server is meant. All on it are ours."""
    if request.origin != "agent" or request.diffs:
        return False
    certain = mcp_tool(request)  # of Codex, too
    if certain is not None:
        return certain[0] == server
    if request.name:
        return request.name.startswith((f"mcp__{server}__", f"{server}__"))
    if request.kind not in ("other", ""):
        return False
    call_id = request.tool_call_id or ""
    if "__" in call_id or call_id.startswith("mcp_"):
        # Gemini begins its ids with the tool's name, and asks without the input; its titles may be an argument. Other
        # agents take ids from the model.
        return request.raw_input is None and call_id.startswith(f"mcp_{server}_")
    # Where all there is is a title, what the model wrote must not have the name in it: the title may be made of that.
    titles = {_spaced(way.format(server=server, tool=tool)) for tool in tools for way in _TITLES}
    return _spaced(request.title) in titles and server not in repr(request.raw_input)


def tells_of(call: events.ToolCall, server: str, tool: str) -> bool:
    """Widely: whether a call that the agent reports is one of this tool. To count by; nothing is allowed by it."""
    words = (call.name or "", call.title.partition(_ABOUT)[0])
    return call.tool_call_id.startswith(f"mcp_{server}_{tool}__") or mcp_found(
        f"{server}/{tool}", *(text.removeprefix("mcp.") for text in words)
    )


def _spaced(text: str) -> str:
    """Goose writes `look up` for `look_up`."""
    return re.sub(r"[\s_]+", " ", text)
