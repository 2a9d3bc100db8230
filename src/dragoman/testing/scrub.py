"""Recordings without what is nobody's business: secrets, and where things lie on the machine they were made on.

Pure. What is secret becomes `[secret]`: the values in `env` and `headers` of MCP servers, what looks like a key of a
known kind, and what the caller names. Folders get other names: the workspace of each session is `/workspace`, and
others as the caller says. A recording that was scrubbed still plays: folders are exchanged again for those of the
client, and any text is right where a prompt had a secret.

Not promised: that nothing is left. A key of a kind that nobody knows, or one that an agent spells out letter by letter,
is not found; look at a recording before you publish it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from dragoman.agents.replay.comparison import SECRET
from dragoman.agents.replay.recording import OPENING_METHODS
from dragoman.agents.replay.substitution import folder_pattern, json_text, substitute
from dragoman.wire.messages import DECODE_ERRORS

WORKSPACE: Final = "/workspace"
HOME: Final = "/home/user"

# Shorter ones are no secrets, and would be found in every other word.
LEAST_SECRET: Final = 8

# Keys of kinds that agents are used with: model providers, code hosts, clouds; tokens that say what they are.
_KEYS: Final = re.compile(
    rb"\b(?:sk|pk|rk)-[\w-]{16,}"
    rb"|\bsk_(?:live|test)_\w{16,}"
    rb"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    rb"|\bAIza[\w-]{30,}|\bAKIA[0-9A-Z]{16}\b|\bxox[abprs]-[\w-]{10,}|\bhf_\w{20,}|\bxai-\w{20,}|\bnpm_\w{30,}"
    rb"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
    rb"|(?i:(?<=bearer ))[\w.~+/=-]{16,}"
)

_NAMES: Final = re.compile(r"key|token|secret|password|passwd|credential", re.IGNORECASE)


class _Value(msgspec.Struct, frozen=True):
    value: str = ""


class _Server(msgspec.Struct, frozen=True):
    env: tuple[_Value, ...] = ()
    headers: tuple[_Value, ...] = ()


class _Params(msgspec.Struct, frozen=True):
    cwd: str = ""
    mcpServers: tuple[msgspec.Raw, ...] = ()  # noqa: N815 (the wire's name)


class _Frame(msgspec.Struct, frozen=True):
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Line(msgspec.Struct, frozen=True):
    frame: _Frame = _Frame()


def secrets_in(environment: Mapping[str, str | None]) -> list[str]:
    """Values of variables whose names say that they are secret."""
    return [value for name, value in environment.items() if value and _NAMES.search(name)]


def scrub(
    lines: Iterable[bytes], *, places: Mapping[str, str] | None = None, secrets: Collection[str] = ()
) -> list[bytes]:
    """The recording's lines, scrubbed. `places`: folders, and what they are to be called."""
    lines = list(lines)
    openings = [params for line in lines if (params := _opening(line)) is not None]
    given = [value for params in openings for value in _given(params)]
    folders: dict[str, str] = {}
    for params in openings:
        number = len(folders) + 1
        folders.setdefault(params.cwd, WORKSPACE if number == 1 else f"{WORKSPACE}-{number}")
    # The longest first: a workspace lies in a home, and a key may begin as another.
    renamed = sorted({**(places or {}), **folders}.items(), key=lambda pair: -len(pair[0]))
    hidden = sorted({each for each in (*given, *secrets) if len(each) >= LEAST_SECRET}, key=len, reverse=True)
    return [_scrubbed(line, renamed, hidden) for line in lines]


def _scrubbed(line: bytes, places: Iterable[tuple[str, str]], secrets: Iterable[str]) -> bytes:
    for secret in secrets:
        line = line.replace(json_text(secret), SECRET.encode())
    line = _KEYS.sub(SECRET.encode(), line)
    if _opening(line) is not None:
        line = _without_values(line)
    for was, now in places:
        if (pattern := folder_pattern(was, now)) is not None:
            line = substitute(pattern, json_text(now), line)
        # As some agents name the files that they keep of a folder.
        if len(was) > len("/a/b"):
            line = line.replace(json_text(was.replace("/", "-")), json_text(now.replace("/", "-")))
    return line


def _opening(line: bytes) -> _Params | None:
    """Decode the params by which a client opened a session."""
    try:
        frame = msgspec.json.decode(line, type=_Line).frame
        return msgspec.json.decode(frame.params, type=_Params) if frame.method in OPENING_METHODS else None
    except DECODE_ERRORS:
        return None


def _given(params: _Params) -> Iterable[str]:
    for server in params.mcpServers:
        try:
            read = msgspec.json.decode(server, type=_Server)
        except DECODE_ERRORS:
            continue
        yield from (each.value for each in (*read.env, *read.headers))


def _without_values(line: bytes) -> bytes:
    """Each value in `env` and `headers` of a server, however short."""
    read = msgspec.json.decode(line)
    for server in read["frame"]["params"].get("mcpServers") or ():
        for each in (*(server.get("env") or ()), *(server.get("headers") or ())):
            each["value"] = SECRET
    end = b"\n" if line.endswith(b"\n") else b""
    return msgspec.json.encode(read) + end
