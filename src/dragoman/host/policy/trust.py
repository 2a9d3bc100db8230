"""A workspace's own rules: `.dragoman/policy.toml`, which counts only while it is the file that the user trusted.

Whoever can write to a folder could otherwise allow an agent anything in it: a repository that was cloned, or the agent
itself. What is trusted is the content, by its SHA-256, per workspace, kept in the home folder. The bytes that are
checked are the bytes that are read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.document import KeyPath, parse_document
from dragoman.errors import ConfigError, InputError
from dragoman.fileio import LockedJsonFile, folder_key
from dragoman.host.policy.rules import Rule, read_table

POLICY_FILE: Final = ".dragoman/policy.toml"
TRUST_FILE: Final = "trusted.json"
# Rules are lines that people write: a file of this size is none of theirs.
SIZE_LIMIT: Final = 1024 * 1024

State: TypeAlias = Literal["absent", "trusted", "untrusted", "changed"]


class WorkspacePolicy(msgspec.Struct, frozen=True):
    """The file as it was found. `rules` are those that count; `notice` tells a person why they do not."""

    path: Path
    state: State
    rules: tuple[Rule, ...] = ()
    sha256: str | None = None

    @property
    def notice(self) -> str | None:
        why = {"untrusted": "it was never trusted", "changed": "it was changed since it was trusted"}.get(self.state)
        if why is None:
            return None
        return f"{self.path} does not count: {why}. Read it, then: dragoman policy trust {self.path.parent.parent}"


class _Trusted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """SHA-256 by the real path of the workspace's folder."""

    workspaces: dict[str, str] = {}


def workspace_policy(home: Path, folder: Path) -> WorkspacePolicy:
    """The rules of the workspace with this folder as its `cwd`. `ConfigError` where a trusted file cannot be used."""
    path = _real(folder) / POLICY_FILE
    data = _read(path)
    if data is None:
        return WorkspacePolicy(path, "absent")
    digest = hashlib.sha256(data).hexdigest()
    known = _kept(home).read().workspaces.get(folder_key(folder))
    if known != digest:
        return WorkspacePolicy(path, "untrusted" if known is None else "changed", sha256=digest)
    return WorkspacePolicy(path, "trusted", _rules(path, data), digest)


def trust(home: Path, folder: Path) -> WorkspacePolicy:
    """From now on the file counts, as it is now. `InputError` where there is none, or where it cannot be used."""
    path = _real(folder) / POLICY_FILE
    data = _read(path)
    if data is None:
        raise InputError(
            f"there is no {path} to trust", guidance="Name the workspace's folder: dragoman policy trust DIR"
        )
    rules = _rules(path, data)
    digest = hashlib.sha256(data).hexdigest()
    key = folder_key(folder)
    _kept(home).change(lambda kept: _Trusted({**kept.workspaces, key: digest}))
    return WorkspacePolicy(path, "trusted", rules, digest)


def untrust(home: Path, folder: Path) -> bool:
    """The file no longer counts. Whether it was trusted before."""
    key = folder_key(folder)
    was = False

    def without(kept: _Trusted) -> _Trusted:
        nonlocal was
        was = key in kept.workspaces
        return _Trusted({name: digest for name, digest in kept.workspaces.items() if name != key})

    _kept(home).change(without)
    return was


def _kept(home: Path) -> LockedJsonFile[_Trusted]:
    return LockedJsonFile(home / TRUST_FILE, _Trusted())


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _rules(path: Path, data: bytes) -> tuple[Rule, ...]:
    document = parse_document(str(path), data)
    return read_table(KeyPath(document), document.table)


def _read(path: Path) -> bytes | None:
    try:
        # Without waiting: a named pipe put in its place would hold us for ever.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise ConfigError("this is no regular file", where=str(path))
            data = file.read(SIZE_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}", where=str(path)) from None
    if len(data) > SIZE_LIMIT:
        raise ConfigError(f"the file is larger than {SIZE_LIMIT} bytes", where=str(path))
    return data
