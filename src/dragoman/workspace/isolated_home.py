"""`IsolatedHome`: the HOME and the temporary folder of an isolated agent, with a copy of its login.

In `root` each has a folder of its own (0700): `home/` is the HOME, `uses/` has a file for each process that uses it,
locked while that process lives. What a killed process leaves is found by `find_unused`, at the next start of a hub and
of an isolated agent.

Promised: a HOME has nothing in it but copies of the files that the preset names as the login, readable for the user
alone. A login that the agent renews (many tokens can be renewed only once) comes back to the user's own file, and one
that is renewed elsewhere comes to the agent, within `SYNC_INTERVAL_S`. Of two that were renewed at the same time the
later one counts. A login that the user changed is never overwritten. No symbolic link is followed that an agent could
have planted, neither in a HOME nor at the end of the path of a login.

Not promised: that the agent cannot read the user's files by their full paths. Only a sandbox keeps it from that.

Blocking, but for what is `async`: call it in a thread.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from dragoman.clock import Clock
from dragoman.config import make_home
from dragoman.errors import DragomanError, InputError
from dragoman.fileio import PRIVATE, LockedJsonFile, atomic_write
from dragoman.protocol.models import IsolationReport
from dragoman.workspace.isolation import (
    IsolationNeeds,
    IsolationPlan,
    isolated_environment,
    new_isolated_name,
    path_in_home,
    real_path,
)

# Seconds between two looks at the files of a login. Agents renew a token some minutes before it expires.
SYNC_INTERVAL_S: Final = 5.0

# Bytes. Logins are a few kilobytes; whatever is larger is not one.
MAX_LOGIN_BYTES: Final = 1024 * 1024

_REMOVED: Final = ".removed-"
_TEMPORARY: Final = "dragoman-"
_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Login(msgspec.Struct, frozen=True):
    """One file of a login: the user's own, and the digest of what it and the copy had in common last."""

    source: str
    digest: str | None = None


class _Home(msgspec.Struct, frozen=True):
    """The record of one HOME. `logins` are by their paths in it."""

    keep: bool = False
    logins: dict[str, _Login] = {}


class _Use(msgspec.Struct, frozen=True):
    """One process that uses a HOME, and the temporary folder of its agent."""

    temporary: str | None = None


class _Renewed(msgspec.Struct, frozen=True):
    """Digests of the logins that isolated agents renewed last, by the path of the user's file."""

    digests: dict[str, str] = {}


class IsolatedHome:
    """Made by `open`. `environment` is the whole environment of the agent, `report` names what it got."""

    def __init__(
        self, plan: IsolationPlan, needs: IsolationNeeds, environ: Mapping[str, str], given: Collection[str]
    ) -> None:
        self._plan = plan
        self._needs = needs
        self._environ = environ
        self._users_home = Path(environ.get("HOME") or Path.home())
        self._folder = plan.root / plan.name
        self._use_file: Path | None = None
        self._lock: int | None = None
        wants = plan.isolation
        self.temporary = new_temporary_folder() if wants.temporary_folder else None
        self.home = plan.home
        self.environment = isolated_environment(
            environ, wants, needs, given=given, home=self.home, temporary=self.temporary
        )
        self._logins = {
            str(path_in_home(text, needs)): _Login(str(real_path(text, needs, environ, self._users_home)))
            for text in (needs.login if wants.home else ())
        }
        self._problems: list[str] = []
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls, plan: IsolationPlan, needs: IsolationNeeds, environ: Mapping[str, str], given: Collection[str] = ()
    ) -> IsolatedHome:
        """Create the folders, and copy the login; or take those of a session that goes on.

        `environ` is the environment that the agent would have without isolation: the login is found by it. `given` are
        the variables that the caller set for the agent. Raises `InputError` where the folders are gone, or cannot be
        made.
        """
        isolated = cls(plan, needs, environ, given)
        try:
            isolated._enter()
            isolated._make_folders()
            isolated._problems += isolated._copy_settings()
            isolated.sync_logins()
        except OSError as error:
            isolated.leave()
            raise InputError(f"the agent cannot be isolated: {error}") from None
        except BaseException:
            isolated.leave()
            raise
        return isolated

    def _make_folders(self) -> None:
        """Make the folders that variables name: Codex refuses to start where its own is missing."""
        for default in self._needs.variables.values() if self.home is not None else ():
            assert self.home is not None
            with _folder_inside(self.home, Path(default.removeprefix("~").removeprefix("/")) / "file", make=True):
                pass

    @classmethod
    async def make(
        cls,
        plan: IsolationPlan,
        needs: IsolationNeeds,
        environ: Mapping[str, str],
        given: Collection[str] = (),
        *,
        clock: Clock,
    ) -> IsolatedHome:
        """Open it in a thread, and keep the login in step from then on. What was made is removed if this is cancelled.

        What killed processes left is removed first.
        """
        opening = asyncio.ensure_future(asyncio.to_thread(cls._open_after_others, plan, needs, environ, given))
        try:
            isolated = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])
            if opening.exception() is None:
                await asyncio.to_thread(opening.result().leave)
            raise
        if isolated._logins:
            isolated._watching = asyncio.get_running_loop().create_task(isolated._watch(clock), name="dragoman logins")
        return isolated

    @classmethod
    def _open_after_others(
        cls, plan: IsolationPlan, needs: IsolationNeeds, environ: Mapping[str, str], given: Collection[str]
    ) -> IsolatedHome:
        find_unused(plan.root)
        return cls.open(plan, needs, environ, given)

    def _enter(self) -> None:
        plan = self._plan
        make_home(plan.root.parent)
        with _locked(plan.root):
            if plan.is_known and not self._folder.is_dir():
                raise InputError(
                    "the isolated home of this session was removed, and with it what its agent remembers",
                    guidance="Continue it with an agent that remembers nothing (how='new'), or open a new session.",
                )
            for folder in (self._folder, self._folder / "uses", *([self.home] if self.home is not None else ())):
                folder.mkdir(mode=0o700, exist_ok=True)
            _record(self._folder).change(
                lambda known: _Home(known.keep if plan.is_known else plan.keep, {**self._logins, **known.logins})
            )
            # With the name of a folder that is made after it, so that it is found after a kill.
            self._use_file = self._folder / "uses" / f"{new_isolated_name()}.json"
            use = _Use(str(self.temporary) if self.temporary is not None else None)
            self._lock = os.open(self._use_file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.write(self._lock, msgspec.json.encode(use))
        if self.temporary is not None:
            self.temporary.mkdir(mode=0o700)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of its own, which a sandbox must let it write."""
        return tuple(str(folder) for folder in (self.home, self.temporary) if folder is not None)

    @property
    def report(self) -> IsolationReport:
        return IsolationReport(
            home=str(self.home) if self.home is not None else None,
            temporary_folder=str(self.temporary) if self.temporary is not None else None,
            variables=tuple(sorted(self.environment)),
            login=tuple(name for name, login in _record(self._folder).read().logins.items() if login.digest),
            problems=tuple(self._problems),
        )

    async def _watch(self, clock: Clock) -> None:
        while True:
            await clock.sleep(SYNC_INTERVAL_S)
            await asyncio.to_thread(self.sync_logins)

    async def close(self) -> None:
        """Take the login back, and remove the folders, unless a session needs them. The agent must have ended."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self.sync_logins()
        self.leave()

    def sync_logins(self) -> None:
        """Bring the user's login and the agent's copy into step; what could not be done is in the report."""
        if self._logins:
            problems = sync_logins(self._folder)
            self._problems += [problem for problem in problems if problem not in self._problems]

    def leave(self) -> None:
        """Remove the temporary folder, and the home if nothing needs it any more."""
        if self.temporary is not None:
            _remove(self.temporary)
        if self._lock is None or self._use_file is None:
            return
        with _locked(self._plan.root):
            self._use_file.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None
            is_needed = _is_used(self._folder) or _record(self._folder).read().keep
            removed = None if is_needed else _set_aside(self._folder)
        if removed is not None:
            _remove(removed)

    # -- settings without which the login is of no use

    def _copy_settings(self) -> list[str]:
        """Copy single keys of the agent's settings, where it has none yet; return what could not be copied, and why."""
        problems = []
        for text, keys in self._needs.settings.items() if self.home is not None else ():
            assert self.home is not None
            source = real_path(text, self._needs, self._environ, self._users_home)
            name = path_in_home(text, self._needs)
            try:
                content = _read_file(source)
                selected = select_keys(source.name, content, keys) if content is not None else b""
                if selected and _read_inside(self.home, name) is None:
                    _write_inside(self.home, name, selected)
            except (OSError, ValueError) as error:
                problems.append(f"{source} was not read: {error}")
        return problems


def select_keys(file: str, content: bytes, keys: Collection[str]) -> bytes:
    """Return a settings file with these keys alone; empty where it has none. Raises `ValueError` where it is invalid.

    Of JSON, `a.b` is the key `b` in the object `a`; of YAML, only simple values of the outermost level can be selected.
    """
    if not file.endswith(".json"):
        lines = [line for line in content.splitlines() if line.partition(b":")[0].decode() in keys]
        return b"".join(line + b"\n" for line in lines if line.partition(b":")[2].strip())
    try:
        settings = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    selected: dict[str, object] = {}
    for key in keys:
        *tables, last = key.split(".")
        value, target = settings, selected
        for table in tables:
            value = value.get(table) if isinstance(value, dict) else None
            target = target.setdefault(table, {})  # type: ignore[assignment]  # a table of ours
        if isinstance(value, dict) and last in value:
            target[last] = value[last]
    pruned = {key: value for key, value in selected.items() if value != {}}
    return msgspec.json.encode(pruned) if pruned else b""


# -- the login


def sync_logins(folder: Path) -> list[str]:
    """Bring the user's logins and the copies in an isolated home into step; return what could not be done, and why."""
    problems: list[str] = []
    try:
        with _locked(folder.parent, "logins"):
            record = _record(folder)
            logins = record.read().logins
            synced = {}
            for name, login in logins.items():
                try:
                    synced[name] = _Login(login.source, _sync(folder, Path(name), login))
                except OSError as error:
                    problems.append(f"the login {login.source} was not copied: {error.strerror}")
            if changed := {name: login for name, login in synced.items() if login != logins[name]}:
                record.change(lambda home: _Home(home.keep, {**home.logins, **changed}))
    except (OSError, DragomanError) as error:  # a full disk, say: the next look may succeed
        problems.append(f"the login was not copied: {error}")
    return problems


def _sync(folder: Path, name: Path, login: _Login) -> str | None:
    """Bring one file into step; return the digest of what both have in common now."""
    source, home = Path(login.source), folder / "home"
    users, copy = _read_file(source), _read_inside(home, name)
    users_digest, copy_digest = _digest(users), _digest(copy)
    if users_digest == copy_digest or users is None:
        # Without a login of the user's, one that the agent made is its own.
        return users_digest or login.digest
    if copy is None or copy_digest is None or copy_digest == login.digest:
        _write_inside(home, name, users)
        return users_digest
    if not _is_whole(name, copy):
        return login.digest  # the agent is writing it
    renewed = LockedJsonFile(folder.parent / "renewed.json", _Renewed())
    if users_digest != login.digest:
        # Both were changed. Only where the other change was an isolated agent's too, the later one counts.
        if renewed.read().digests.get(str(source)) != users_digest:
            return login.digest
        if os.stat(source).st_mtime_ns > _modified_ns(home, name):
            _write_inside(home, name, users)
            return users_digest
    atomic_write(source, copy, mode=stat.S_IMODE(os.stat(source).st_mode))
    renewed.change(lambda known: _Renewed({**known.digests, str(source): copy_digest}))
    return copy_digest


def _digest(content: bytes | None) -> str | None:
    return hashlib.sha256(content).hexdigest() if content is not None else None


def _is_whole(name: Path, content: bytes) -> bool:
    """Return False for half of a file, which an agent that does not write atomically leaves for a moment."""
    if name.suffix != ".json":
        return bool(content)
    try:
        return isinstance(msgspec.json.decode(content), dict)
    except msgspec.DecodeError:
        return False


# -- files, without following symbolic links


def _read_file(path: Path, dir_fd: int | None = None) -> bytes | None:
    """Return the content of a small regular file; None where there is none. Raises `OSError`, also for a link."""
    try:
        descriptor = os.open(path, _OPEN_FILE, dir_fd=dir_fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, "it is a symbolic link") from None
        raise
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = file.read(MAX_LOGIN_BYTES + 1)
    if len(content) > MAX_LOGIN_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_LOGIN_BYTES} bytes")
    return content


@contextmanager
def _folder_inside(home: Path, name: Path, *, make: bool = False) -> Iterator[int]:
    """Open the folder of a file in an isolated home. Raises `OSError` where a symbolic link is on the way."""
    descriptor = os.open(home, _OPEN_FOLDER)
    try:
        for part in name.parent.parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=descriptor)
            inner = os.open(part, _OPEN_FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _read_inside(home: Path, name: Path) -> bytes | None:
    try:
        with _folder_inside(home, name) as folder:
            return _read_file(Path(name.name), folder)
    except FileNotFoundError:
        return None


def _write_inside(home: Path, name: Path, content: bytes) -> None:
    with _folder_inside(home, name, make=True) as folder:
        atomic_write(name.name, content, dir_fd=folder)


def _modified_ns(home: Path, name: Path) -> int:
    with _folder_inside(home, name) as folder:
        return os.stat(name.name, dir_fd=folder, follow_symlinks=False).st_mtime_ns


# -- removing


def new_temporary_folder() -> Path:
    """Return an unguessable path for a temporary folder, which does not exist yet."""
    return Path(tempfile.gettempdir()) / f"{_TEMPORARY}{new_isolated_name()}"


def find_unused(root: Path) -> list[str]:
    """Remove what killed processes left; return the names of homes that nobody uses, and that sessions may need.

    Remove those that no session of the journal needs, by `remove_homes`. A session that is opened meanwhile is not
    among them.
    """
    if not root.is_dir():
        return []
    folders = [folder for folder in root.iterdir() if folder.is_dir() and not folder.name.startswith(_REMOVED)]
    removed = [folder for folder in root.iterdir() if folder.name.startswith(_REMOVED)]
    unused = []
    for folder in folders:
        if _uses(folder) and not _is_used(folder):
            sync_logins(folder)  # an agent may have renewed it before it was killed
    with _locked(root):
        for folder in folders:
            removed += _forget_dead_uses(folder)
            if _is_used(folder) or not folder.is_dir():
                continue
            if _record(folder).read().keep:
                unused.append(folder.name)
            else:
                removed.append(_set_aside(folder))
    for folder in removed:
        _remove(folder)
    return unused


def remove_homes(root: Path, names: Collection[str]) -> None:
    """Remove isolated homes, except those that are in use."""
    with _locked(root):
        unused = [root / name for name in names if (root / name).is_dir() and not _is_used(root / name)]
        removed = [_set_aside(folder) for folder in unused]
    for folder in removed:
        _remove(folder)


def _uses(folder: Path) -> list[Path]:
    try:
        return list((folder / "uses").iterdir())
    except FileNotFoundError:
        return []


def _is_used(folder: Path) -> bool:
    return any(_is_locked(use) for use in _uses(folder))


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _forget_dead_uses(folder: Path) -> list[Path]:
    """Remove the records of processes that have died; return their temporary folders."""
    temporary_folders = []
    for use in _uses(folder):
        if _is_locked(use):
            continue
        with suppress(msgspec.MsgspecError, OSError):
            recorded = msgspec.json.decode(use.read_bytes(), type=_Use).temporary
            if recorded is not None and Path(recorded).name.startswith(_TEMPORARY):
                temporary_folders.append(Path(recorded))
        use.unlink(missing_ok=True)
    return temporary_folders


def _set_aside(folder: Path) -> Path:
    """Give the folder a name under which nobody finds it; removing it may then take its time."""
    aside = folder.with_name(f"{_REMOVED}{new_isolated_name()}")
    folder.rename(aside)
    return aside


def _remove(folder: Path) -> None:
    """Remove a folder and everything in it, also what was made read-only. What cannot be removed stays."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            with suppress(OSError):
                inner = os.path.join(path, name)
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _record(folder: Path) -> LockedJsonFile[_Home]:
    return LockedJsonFile(folder / "record.json", _Home())


@contextmanager
def _locked(root: Path, name: str = "homes") -> Iterator[None]:
    """Keep other processes from making and removing homes; or, with the name `logins`, from changing logins."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(root / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
