"""A workspace's own rules: `.dragoman/policy.toml`, which counts only while its content is what the user trusted.

Otherwise anyone who can write to the folder, a cloned repository or the agent itself, could allow an agent everything
in it. The home folder stores the SHA-256 of the trusted content for each workspace. The bytes that are checked are the
bytes that are read.
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
from dragoman.host.policy.rules import PolicyRule, read_table

POLICY_FILE: Final = ".dragoman/policy.toml"
TRUST_FILE: Final = "trusted.json"
# People write rules by hand: nobody writes a file of this size.
MAX_POLICY_BYTES: Final = 1024 * 1024

State: TypeAlias = Literal["absent", "trusted", "untrusted", "changed"]


class WorkspacePolicy(msgspec.Struct, frozen=True):
    """The state of the file. `rules` are the rules that count; `notice` tells a person why none of them do."""

    path: Path
    state: State
    rules: tuple[PolicyRule, ...] = ()
    sha256: str | None = None

    @property
    def notice(self) -> str | None:
        why = {"untrusted": "you have not trusted it", "changed": "it has changed since you trusted it"}.get(self.state)
        if why is None:
            return None
        return f"{self.path} is ignored: {why}. Read it, then run: dragoman policy trust {self.path.parent.parent}"


class _Trusted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The SHA-256 of trusted files, by the resolved path of the workspace's folder."""

    workspaces: dict[str, str] = {}


def workspace_policy(home: Path, folder: Path) -> WorkspacePolicy:
    """Read the rules of the workspace in this folder. `ConfigError` where a trusted file cannot be used."""
    path = _real(folder) / POLICY_FILE
    data = _read(path)
    if data is None:
        return WorkspacePolicy(path, "absent")
    digest = hashlib.sha256(data).hexdigest()
    trusted = _trust_file(home).read().workspaces.get(folder_key(folder))
    if trusted != digest:
        return WorkspacePolicy(path, "untrusted" if trusted is None else "changed", sha256=digest)
    return WorkspacePolicy(path, "trusted", _rules(path, data), digest)


def trust(home: Path, folder: Path) -> WorkspacePolicy:
    """Trust the file with its current content. `InputError` where there is none, `ConfigError` where it is invalid."""
    path = _real(folder) / POLICY_FILE
    data = _read(path)
    if data is None:
        raise InputError(
            f"there is no {path} to trust", guidance="Name the workspace's folder: dragoman policy trust DIR"
        )
    rules = _rules(path, data)
    digest = hashlib.sha256(data).hexdigest()
    key = folder_key(folder)
    _trust_file(home).change(lambda trusted: _Trusted({**trusted.workspaces, key: digest}))
    return WorkspacePolicy(path, "trusted", rules, digest)


def untrust(home: Path, folder: Path) -> bool:
    """Stop trusting the file. Returns True if it was trusted."""
    key = folder_key(folder)
    was_trusted = False

    def without_folder(trusted: _Trusted) -> _Trusted:
        nonlocal was_trusted
        was_trusted = key in trusted.workspaces
        return _Trusted({name: digest for name, digest in trusted.workspaces.items() if name != key})

    _trust_file(home).change(without_folder)
    return was_trusted


def _trust_file(home: Path) -> LockedJsonFile[_Trusted]:
    return LockedJsonFile(home / TRUST_FILE, _Trusted())


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _rules(path: Path, data: bytes) -> tuple[PolicyRule, ...]:
    document = parse_document(str(path), data)
    return read_table(KeyPath(document), document.table)


def _read(path: Path) -> bytes | None:
    try:
        # Non-blocking: a named pipe in its place would block us forever.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError("this is not a regular file", where=str(path))
            data = file.read(MAX_POLICY_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}", where=str(path)) from None
    if len(data) > MAX_POLICY_BYTES:
        raise ConfigError(f"the file is larger than {MAX_POLICY_BYTES} bytes", where=str(path))
    return data
