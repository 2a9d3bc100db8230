"""`WorktreeStore`: the records of the worktrees of one user, as files in our home folder.

A record is one JSON file for each worktree, in a folder for each repository, and is replaced as a whole. A lock for
each repository excludes processes that create, change or remove worktrees of it from each other. Dropped worktrees have
their records in a folder of their own, until they expire. Of one that the user keeps, an empty file is left, by which
`prune` knows that the folder is the user's.

Blocking: call it in a thread.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from dragoman.config import Config
from dragoman.errors import ConfigError, InputError, WorktreeError
from dragoman.fileio import PRIVATE
from dragoman.proc._reaper_main import start_time
from dragoman.protocol.worktrees import WorktreeInfo, WorktreeState
from dragoman.workspace.shadow import list_names, write_durably

FOLDER_NAME: Final = "worktrees"
DROPPED: Final = "dropped"
KEPT_FOLDER: Final = "kept"

# A name is a part of a path and of a branch.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")
_PREFIX: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,47}/?)*")
MAX_SLUG_WORDS: Final = 5
MAX_SLUG_CHARACTERS: Final = 32

LOCK_POLL_S: Final = 0.05
LOCK_TIMEOUT_S: Final = 120.0

DROP_AGE_S: Final = 30 * 86_400.0


class WorktreeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`home` is our own folder, `folder` the one for worktrees. `setups` are setup commands by repository."""

    home: Path
    folder: Path
    branch_prefix: str = "dragoman/"
    setup: str = ""
    setups: dict[Path, str] = {}
    setup_timeout_s: float = 600.0
    copied_bytes: int = 256 * 1024 * 1024  # of ignored files, in all
    max_file_bytes: int = 64 * 1024 * 1024
    drop_age_s: float = DROP_AGE_S


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[worktrees]` in `config.toml`."""

    folder: str | None = None
    branch_prefix: str = "dragoman/"
    setup: str = ""
    setup_timeout: float = 600.0  # seconds
    copied_bytes: int = 256 * 1024 * 1024
    setups: dict[str, str] = {}  # setup commands by the folder of the repository, in place of `setup`


def worktree_settings(config: Config) -> WorktreeSettings:
    """Return the settings of `[worktrees]` in `config.toml`. Raises `ConfigError`."""
    where = config.key_path("worktrees").where
    try:
        table = msgspec.convert(config.worktrees, _Table)
    except msgspec.ValidationError as error:
        raise ConfigError(f"worktrees: {error}", where=where, guidance="Correct it: dragoman config edit") from None
    # Beside our home folder, not in it: that has keys and rules, and is closed to agents.
    folder = config.home.with_name(f"{config.home.name}-worktrees")
    if table.folder is not None:
        folder = Path(os.path.expanduser(table.folder))
    setups = {Path(os.path.expanduser(path)): setup for path, setup in table.setups.items()}
    for path in (folder, *setups):
        if not path.is_absolute():
            raise ConfigError(f'worktrees: "{path}" is not an absolute path', where=where)
    if not _PREFIX.fullmatch(table.branch_prefix) or ".." in table.branch_prefix:
        raise ConfigError(
            f"worktrees: {table.branch_prefix!r} cannot be the beginning of a branch's name",
            where=where,
            guidance='Such as branch_prefix = "dragoman/"',
        )
    return WorktreeSettings(
        home=config.home,
        folder=folder,
        branch_prefix=table.branch_prefix,
        setup=table.setup,
        setups={Path(os.path.realpath(path)): setup for path, setup in setups.items()},
        setup_timeout_s=table.setup_timeout,
        copied_bytes=table.copied_bytes,
        max_file_bytes=config.checkpoint_file_limit,
    )


class MergeOperation(msgspec.Struct, frozen=True):
    """A merge that was begun: the branch goes from `old` to `new`, in the work tree `folder` too, if there is one."""

    target: str  # the full name of the ref
    old: str
    new: str
    folder: str | None = None
    git_dir: str | None = None
    operation: str = ""  # the id of the rewind that writes the files of the folder


class SavedContent(msgspec.Struct, frozen=True):
    """The content of a dropped worktree: a tree and a ref in its shadow repository, and a bundle of its commits."""

    at: float
    tree: str
    ref: str
    head: str
    bundle: str | None = None  # name of the file beside the record; None where there were no commits


class WorktreeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One worktree. `git_dir` is the repository, `linked_dir` its folder for this work tree."""

    key: str
    name: str
    state: WorktreeState
    git_dir: str
    linked_dir: str = ""
    checkout: str
    folder: str
    branch: str
    base_ref: str | None
    base_commit: str
    base_tree: str | None = None  # the files as they were, in the shadow repository of the worktree
    applied_trees: tuple[str, ...] = ()  # the same when they were applied, the last one last
    applied_operations: tuple[str, ...] = ()
    session_ids: tuple[str, ...] = ()
    created_at: float
    changed_at: float
    pid: int = 0  # of the process that creates it
    pid_started: int = 0
    merge: MergeOperation | None = None
    saved: SavedContent | None = None

    @property
    def id(self) -> str:
        return f"{self.key}:{self.name}"

    @property
    def is_abandoned(self) -> bool:
        """True where the process that was creating it is gone."""
        return self.state == "creating" and start_time(self.pid) != self.pid_started

    @property
    def has_folder(self) -> bool:
        """True where the folder is there; a link in its place is another one."""
        return os.path.isdir(self.folder) and not os.path.islink(self.folder)

    def info(self, drop_age_s: float) -> WorktreeInfo:
        return WorktreeInfo(
            id=self.id,
            name=self.name,
            state=self.state,
            checkout=self.checkout,
            folder=self.folder,
            branch=self.branch,
            base_ref=self.base_ref,
            base_commit=self.base_commit,
            session_ids=self.session_ids,
            created_at=self.created_at,
            changed_at=self.changed_at,
            is_missing=self.state != "dropped" and not self.has_folder,
            expires_at=None if self.saved is None else self.saved.at + drop_age_s,
        )


def repository_key(git_dir: Path) -> str:
    """Return the name of a repository's folder of records, and of the folder of its worktrees."""
    name = git_dir.parent.name if git_dir.name == ".git" else git_dir.name.removesuffix(".git")
    return f"{_slug(name) or 'repository'}-{hashlib.sha256(os.fsencode(git_dir)).hexdigest()[:8]}"


def check_name(name: str) -> str:
    """Return the name of a worktree. `InputError` where it cannot be a part of a branch's name."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock")):
        raise InputError(
            f"{name!r} cannot be the name of a worktree",
            guidance="Use up to 48 letters, digits, dots, hyphens and underscores, such as add-retries.",
        )
    return name


def name_from_prompt(prompt: str) -> str:
    """Return a name for a worktree from the first words of a prompt; a plain one where it has none in ASCII."""
    first_line = next((line for line in prompt.splitlines() if line.strip()), "")
    words = _slug(first_line).split("-")[:MAX_SLUG_WORDS]
    return "-".join(words)[:MAX_SLUG_CHARACTERS].strip("-") or "work"


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text[:200]).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


class WorktreeStore:
    """`clock` returns the time in seconds since 1970."""

    def __init__(self, settings: WorktreeSettings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.now = clock
        self._root = settings.home / FOLDER_NAME

    @contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Exclude other processes from the worktrees of a repository. Raises `WorktreeError` if one takes too long."""
        folder = self._root / key
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise WorktreeError(
                            "another process has been busy with worktrees of this repository for too long"
                        ) from None
                    time.sleep(LOCK_POLL_S)
            yield
        finally:
            os.close(descriptor)

    def records(self, *, dropped: bool = False) -> list[WorktreeRecord]:
        """Return all records, the oldest first; with `dropped`, those of dropped worktrees."""
        found = []
        for key in list_names(self._root):
            folder = self._root / key / DROPPED if dropped else self._root / key
            for name in list_names(folder):
                if name.endswith(".json") and (record := _read(folder / name)) is not None:
                    found.append(record)
        return sorted(found, key=lambda record: record.created_at)

    def read(self, key: str, name: str) -> WorktreeRecord | None:
        return _read(self._path(key, name))

    def write(self, record: WorktreeRecord) -> None:
        path = self._dropped_path(record) if record.state == "dropped" else self._path(record.key, record.name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if record.state == "creating":  # in the place of one that was kept, and removed by the user
            self._kept_path(record.key, record.name).unlink(missing_ok=True)
        write_durably(path, msgspec.json.encode(record))

    def save(self, record: WorktreeRecord, **values: object) -> WorktreeRecord:
        """Write a record with other values, and return it."""
        changed = msgspec.structs.replace(record, changed_at=self.now(), **values)
        self.write(changed)
        return changed

    def add_session(self, record: WorktreeRecord, session_id: str) -> WorktreeRecord:
        """Note that a session works in a worktree."""
        if session_id in record.session_ids:
            return record
        return self.save(record, session_ids=(*record.session_ids, session_id))

    def remove(self, record: WorktreeRecord) -> None:
        """Remove a record, and the bundle of a dropped one."""
        if record.state != "dropped":
            self._path(record.key, record.name).unlink(missing_ok=True)
            return
        if (bundle := self.bundle_path(record)) is not None:
            bundle.unlink(missing_ok=True)
        self._dropped_path(record).unlink(missing_ok=True)

    def mark_kept(self, record: WorktreeRecord) -> None:
        """Note that the folder of a worktree is the user's from now on."""
        path = self._kept_path(record.key, record.name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(path, b"")

    def is_kept(self, key: str, name: str) -> bool:
        return self._kept_path(key, name).exists()

    def bundle_path(self, record: WorktreeRecord) -> Path | None:
        """Return the file with the commits of a dropped worktree."""
        if record.saved is None or record.saved.bundle is None:
            return None
        return self.dropped_folder(record.key) / record.saved.bundle

    def dropped_folder(self, key: str) -> Path:
        folder = self._root / key / DROPPED
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def find(self, name: str, near: Path | None = None, *, dropped: bool = False) -> WorktreeRecord:
        """Return a worktree by its id or name; of several, that of the repository whose checkout or worktree `near` is
        in. Raises `InputError`."""
        found = [record for record in self.records(dropped=dropped) if name in (record.id, record.name)]
        if len(found) > 1 and near is not None:
            inside = [record for record in found if near.is_relative_to(record.checkout) or is_in(record, near)]
            found = inside or found
        if dropped and found:
            return max(found, key=lambda record: record.saved.at if record.saved is not None else 0.0)
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(record.id for record in found)
            raise InputError(f"there are several worktrees {name}: {ids}", guidance="Name one by its whole id.")
        if not dropped and any(name in (each.id, each.name) for each in self.records(dropped=True)):
            raise InputError(
                f"the worktree {name} was dropped", guidance=f"To get it back: dragoman worktree recover {name}"
            )
        raise InputError(
            f"there is no {'dropped ' if dropped else ''}worktree {name!r}", guidance="See: dragoman worktree list"
        )

    def _path(self, key: str, name: str) -> Path:
        return self._root / key / f"{name}.json"

    def _kept_path(self, key: str, name: str) -> Path:
        return self._root / key / KEPT_FOLDER / name

    def _dropped_path(self, record: WorktreeRecord) -> Path:
        assert record.saved is not None
        return self.dropped_folder(record.key) / f"{record.name}-{int(record.saved.at * 1000)}.json"


def is_in(record: WorktreeRecord, folder: Path) -> bool:
    return folder.is_relative_to(record.folder)


def _read(path: Path) -> WorktreeRecord | None:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=WorktreeRecord)
    return None
