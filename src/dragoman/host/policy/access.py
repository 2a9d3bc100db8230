"""The four presets of access, as rules. Data.

A request is judged by all of its effects: its kind is only a claim of the agent, so a `read` with a command in it is a
command, and one with a diff is a write. The strictest verdict on any effect is the verdict on the request.

                          read-only   ask     edit-inside   full
    think                 allow       ask     allow         allow
    read, inside          allow       ask     allow         allow
    read, outside         deny        ask     ask           allow
    read, no path known   ask         ask     ask           allow     (also of a file that holds secrets)
    write, inside         deny        ask     allow         allow
    write, anywhere else  deny        ask     ask           allow     (also of a file that other programs run)
    run a command         deny        ask     ask           allow
    fetch                 deny        ask     ask           allow     network=True allows, False denies, in every column
    search, no path       ask         ask     ask           allow     the same with web_search
    anything else         deny        ask     ask           allow

What no rule matches is asked. `network` does not look into commands: only a sandbox limits what a command does.
"""

from __future__ import annotations

from typing import Final

from dragoman.config import ACCESS, ACCESS_ALIASES, Access, read_access
from dragoman.errors import InputError
from dragoman.host.policy.rules import PolicyRule

# The source of rules that follow from a setting, which is their reason.
BUILT_IN: Final = "built in"

_READ_ONLY, _ASK, _EDIT_INSIDE, _FULL = (f"access is {access}" for access in ACCESS)

PRESETS: Final[dict[Access, tuple[PolicyRule, ...]]] = {
    "read-only": (
        PolicyRule("allow", _READ_ONLY, kind="think", source=BUILT_IN),
        PolicyRule("allow", _READ_ONLY, kind="read", where="inside", source=BUILT_IN),
        PolicyRule("deny", _READ_ONLY, kind="read", where="outside", source=BUILT_IN),
        PolicyRule("deny", _READ_ONLY, kind=("write", "run", "fetch", "mcp", "other"), source=BUILT_IN),
    ),
    "ask": (PolicyRule("ask", _ASK, source=BUILT_IN),),
    "edit-inside": (
        PolicyRule("allow", _EDIT_INSIDE, kind="think", source=BUILT_IN),
        PolicyRule("allow", _EDIT_INSIDE, kind=("read", "write"), where="inside", source=BUILT_IN),
    ),
    "full": (PolicyRule("allow", _FULL, source=BUILT_IN),),
}


def parse_access(text: str) -> Access:
    """Return the access with this name or alias."""
    try:
        return read_access(text.strip().lower() if isinstance(text, str) else text)
    except ValueError:
        alias = {name: f"{name} (or {short})" for short, name in ACCESS_ALIASES.items()}
        choices = ", ".join(alias.get(name, name) for name in ACCESS)
        raise InputError(f"access is {text!r}; expected one of: {choices}") from None
