"""`FolderWatch`: watches one folder and reports the files that may have something new. It opens none of them.

Looking through a folder reads names, sizes and times only. The folder may appear later, go away, and come back as
another one.

`FolderNotifications` are the changes below a folder as the operating system reports them. A notification is a path and
no more. Notifications of one path are one until they are read, so that what waits is bounded by the number of files.
Not promised: that every change is reported. A queue of the system may overflow, and a folder may be filled before it is
watched, so `FolderWatch` also looks through the folder from time to time.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from shlex import quote
from stat import S_ISREG
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import msgspec

from dragoman.clock import Clock, timeout
from dragoman.errors import InputError
from dragoman.translate.discover import may_be_transcript
from dragoman.translate.ingest.report import AT_REST_S
from dragoman.translate.records import text_path
from dragoman.translate.translator import get_provider

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify


# Changes are reported when nothing has changed for the shorter time, or after the longer one. Shorter times would show
# changes sooner; with these, an idle minute takes 50 ms of processor time.
_QUIET_MS: Final = 50
_MAX_DELAY_MS: Final = 200


class NotificationsUnavailable(Exception):
    """The system does not report changes of this folder, and says why."""


class FolderNotifications:
    """Made by `open`. For one reader, in the event loop that opened it."""

    def __init__(self, folder: str, *, is_recursive: bool) -> None:
        self._folder = folder
        self._real = os.path.realpath(folder)  # as macOS names it
        self._is_recursive = is_recursive
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._has_paths = asyncio.Event()
        self._paths: dict[str, None] = {}
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._watch, name="dragoman watch", daemon=True)

    @classmethod
    async def open(cls, folder: str, *, is_recursive: bool) -> FolderNotifications:
        """Return when changes are being reported: also those below the folder, if `is_recursive`.

        Raises `NotificationsUnavailable`.
        """
        notifications = cls(folder, is_recursive=is_recursive)
        notifications._thread.start()
        try:
            await asyncio.shield(notifications._ready)
        except BaseException:
            await notifications.close()
            raise
        return notifications

    async def read(self) -> list[str]:
        """Wait for changes; returns the paths of files and folders that are new, changed or gone.

        Raises `NotificationsUnavailable` if the system stops reporting.
        """
        await self._has_paths.wait()
        if self._failure is not None:
            raise NotificationsUnavailable(self._failure)
        self._has_paths.clear()
        paths = list(self._paths)
        self._paths.clear()
        return paths

    async def check(self, folder: str) -> None:
        """Raise `NotificationsUnavailable` if this new folder cannot be watched: the library would not say so."""
        await asyncio.to_thread(_try_to_watch, folder)

    async def close(self) -> None:
        self._stop.set()
        await asyncio.to_thread(self._thread.join)

    def _watch(self) -> None:
        try:
            with _notify(self._folder, is_recursive=self._is_recursive) as notify:
                self._call_in_loop(self._set_ready)
                while not self._stop.is_set():
                    changes = notify.watch(_MAX_DELAY_MS, _QUIET_MS, 0, self._stop)
                    if isinstance(changes, set):
                        self._call_in_loop(self._on_changes, [path for _, path in changes])
        except Exception as error:  # of a library in another language: whatever it is, polling still works
            self._call_in_loop(self._on_failure, _reason(error))

    def _call_in_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            self._stop.set()  # the event loop has ended

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _on_changes(self, paths: list[str]) -> None:
        for path in paths:
            inside = path.startswith(self._real) and self._real != self._folder
            self._paths[self._folder + path[len(self._real) :] if inside else path] = None
        self._has_paths.set()

    def _on_failure(self, reason: str) -> None:
        self._failure = reason
        self._has_paths.set()
        if not self._ready.done():
            self._ready.set_exception(NotificationsUnavailable(reason))
            self._ready.exception()  # marks it as retrieved: nobody may be waiting any more


def _notify(folder: str, *, is_recursive: bool) -> RustNotify:
    from watchfiles._rust_notify import RustNotify  # documented for callers with a thread of their own

    return RustNotify(
        [folder],
        debug=False,
        force_polling=False,
        poll_delay_ms=0,
        recursive=is_recursive,
        ignore_permission_denied=False,  # else it also ignores that the system has no watches left
    )


def _try_to_watch(folder: str) -> None:
    try:
        _notify(folder, is_recursive=False).close()
    except FileNotFoundError:
        pass  # gone already
    except Exception as error:  # as above
        raise NotificationsUnavailable(_reason(error)) from error


def _reason(error: Exception) -> str:
    """The message without the debugging details that the library appends."""
    return str(error).partition(" about [")[0] or type(error).__name__


Method: TypeAlias = Literal["native", "polling", "absent"]
"""The way to notice changes: the system reports them, or the folder is polled; `absent` if there is no folder yet."""

FileStamp: TypeAlias = tuple[int, int, float]
"""Inode, size and time of change of a file. They change when it is written to, truncated or replaced."""

# If looking through a folder takes long, it is done less often: no more than this part of the time goes into it.
_MAX_LOOKING_SHARE: Final = 0.02

# File systems on which other machines may write, which the system does not report. Those in user space are called
# `fuse`, whatever they are.
_REMOTE_FILE_SYSTEMS: Final = (
    *("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre"),
    *("fuse", "drvfs", "vboxsf", "virtiofs"),
)

_MOUNTS: Final = Path("/proc/self/mountinfo")  # on Linux only


class WatchedFolder(msgspec.Struct, frozen=True):
    """A folder with all that is below it; or, with a `name`, only this file in it."""

    provider: str  # empty if it is detected for each file
    path: str
    name: str = ""

    def matches(self, path: str) -> bool:
        """Return True if a file below the folder may be a transcript, by its name."""
        if self.name:
            return path == os.path.join(self.path, self.name)
        return get_provider(self.provider).reads(Path(path)) if self.provider else may_be_transcript(Path(path))

    def find(
        self, below: str | None = None, on_error: Callable[[OSError], object] | None = None
    ) -> dict[str, FileStamp]:
        """Return the transcripts that are there now, or those in the folder `below`. `on_error` is called for each
        folder that cannot be read."""
        if self.name:
            path = os.path.join(self.path, self.name)
            stamp = stamp_of(path)
            return {} if stamp is None else {path: stamp}
        stamps: dict[str, FileStamp] = {}
        for folder, _, names in os.walk(below or self.path, onerror=on_error):
            for name in names:
                path = os.path.join(folder, name)
                if self.matches(path) and (stamp := stamp_of(path)) is not None:
                    stamps[path] = stamp
        return stamps


def provider_folders(provider: str, environment: Mapping[str, str], home: Path) -> list[WatchedFolder]:
    """Return the folders where an agent keeps its transcripts on this machine. They need not exist yet."""
    return [WatchedFolder(provider, str(path)) for path in get_provider(provider).folders(environment, home)]


def folders_at(paths: Sequence[Path], provider: str | None = None) -> list[WatchedFolder]:
    """Return what to watch for files and folders that the user names; with a provider, only its transcripts."""
    folders = []
    for path in paths:
        absolute = path.absolute()
        if absolute.is_dir():
            folders.append(WatchedFolder(provider or "", str(absolute)))
        elif absolute.exists():
            file = Path(os.path.realpath(absolute))  # may be a symlink
            folders.append(WatchedFolder(provider or "", str(file.parent), file.name))
        else:
            raise InputError(f"there is no file {path}", guidance="Name a transcript, or a folder that has some.")
    return folders


def stamp_of(path: str) -> FileStamp | None:
    """Return None if the file is gone, or no regular file: opening a pipe may block for ever."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return (stat.st_ino, stat.st_size, stat.st_mtime) if S_ISREG(stat.st_mode) else None


class WatchIntervals(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of looking through a folder, and whether the system's notifications are used."""

    # Between two looks through a folder with notifications: for changes that were not reported, and for files that have
    # come to rest.
    look_s: float = 60.0
    # The same without notifications. Somebody who follows an agent's work hardly notices the delay.
    poll_s: float = 1.0
    # Between two looks for a folder that does not exist.
    absent_s: float = 2.0
    # From when a file was first seen until it is read. An agent that Dragoman starts may write the beginning of its
    # transcript before it reports the session's id: after this time we know that the session is our own.
    settle_s: float = 1.0
    # After the journal could not be written.
    retry_s: float = 5.0
    use_notifications: bool = True


DEFAULT_INTERVALS: Final = WatchIntervals()


class OnFile(Protocol):
    def __call__(self, watch: FolderWatch, path: str, *, is_recent: bool) -> None:
        """Take note that this file may have something new; `is_recent`: it was written to just now."""


class FolderWatch:
    """Start `run` as a task. `files` has each file as it was when it was last read, and whether it was at rest then;
    None if it has to be read again. The reader of the files maintains it. `on_change` is called after every change of
    `method`, `error`, `files` or `settling` that is made here, and sometimes without one."""

    def __init__(
        self,
        folder: WatchedFolder,
        intervals: WatchIntervals,
        clock: Clock,
        on_file: OnFile,
        on_change: Callable[[], None],
    ) -> None:
        self.folder = folder
        self.files: dict[str, tuple[FileStamp, bool] | None] = {}
        self.method: Method = "absent"
        self.first_look_done = asyncio.Event()
        self.settling: set[str] = set()  # new files that are not read yet
        self.nothing_settling = asyncio.Event()
        self.nothing_settling.set()
        self._intervals = intervals
        self._clock = clock
        self._on_file = on_file
        self._on_change = on_change
        self._unreadable: str | None = None  # the folders that could not be read
        self._not_notified: str | None = None  # why there are no notifications, once that was tried
        self._is_first_look = True

    @property
    def error(self) -> str | None:
        """The problem of the folder, as long as it lasts."""
        return self._unreadable or self._not_notified

    async def run(self) -> None:
        while True:
            identity = _identity(self.folder.path)
            if identity is None:
                self.method = "absent"
                self._unreadable = _describe_unreadable(_unreadable_parent(self.folder.path))
                self.files.clear()
                self._is_first_look = False
                self.first_look_done.set()
                self._on_change()
                await self._clock.sleep(self._intervals.absent_s)
                continue
            notifications = await self._open_notifications()
            self.method = "polling" if notifications is None else "native"
            self._on_change()
            try:
                await self._follow(notifications, identity)
            except NotificationsUnavailable as error:
                self._not_notified = self._polling_reason(error)
                self._on_change()
            finally:
                if notifications is not None:
                    await notifications.close()

    async def _open_notifications(self) -> FolderNotifications | None:
        """Return the notifications of the folder; None if it has to be polled."""
        if not self._intervals.use_notifications or self._not_notified is not None or is_remote(self.folder.path):
            return None
        try:
            return await FolderNotifications.open(self.folder.path, is_recursive=not self.folder.name)
        except NotificationsUnavailable as error:
            if _identity(self.folder.path) is not None:  # else it went away just now
                self._not_notified = self._polling_reason(error)
            return None

    def _polling_reason(self, error: NotificationsUnavailable) -> str:
        return f"{self.folder.path} is polled, because the system does not report its changes: {error}"

    async def _follow(self, notifications: FolderNotifications | None, identity: tuple[int, int]) -> None:
        """Return when the folder itself is gone or replaced; or when all of it can be read again, and so may be
        watched."""
        while _identity(self.folder.path) == identity:
            unreadable, look_s = self._unreadable, await self._look()
            if unreadable is not None and self._unreadable is None:
                self._not_notified = None
                return
            interval_s = self._intervals.look_s if notifications and not self._unreadable else self._intervals.poll_s
            interval_s = max(interval_s, look_s / _MAX_LOOKING_SHARE)
            if notifications is None:
                await self._poll(interval_s)
                continue
            try:
                async with timeout(self._clock, interval_s):
                    while await self._handle_notifications(notifications):
                        pass
                    return
            except TimeoutError:
                pass  # the next look finds what was being handled

    async def _poll(self, interval_s: float) -> None:
        """Wait for the next look through the folder; look at files that are not at rest more often than that."""
        end = self._clock.monotonic() + interval_s
        while (left := end - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(self._intervals.poll_s, left))
            now = self._clock.time()
            active = {path: entry[0] for path, entry in self.files.items() if entry and now - entry[0][2] <= AT_REST_S}
            for path, stamp in (await asyncio.to_thread(_stamps, active)).items():
                if stamp != active[path]:
                    self._report(path, is_recent=True)

    async def _handle_notifications(self, notifications: FolderNotifications) -> bool:
        """Return False if something happened to the folder itself."""
        paths = await notifications.read()
        for path in paths:
            if self.folder.matches(path):
                self._report(path, is_recent=True)
            elif not self.folder.name and await asyncio.to_thread(os.path.isdir, path):
                # Files may have been made in it before it was watched, or it is not watched at all.
                for inside in await asyncio.to_thread(self.folder.find, path):
                    self._report(inside, is_recent=True)
                await notifications.check(path)
        return self.folder.path not in paths

    async def _look(self) -> float:
        """Report all files that have something new; returns the seconds that looking took."""
        began = self._clock.monotonic()
        errors: list[OSError] = []
        stamps = await asyncio.to_thread(self.folder.find, None, errors.append)
        look_s = self._clock.monotonic() - began
        self._unreadable = _describe_unreadable(errors)
        for gone in self.files.keys() - stamps.keys():
            del self.files[gone]
        now = self._clock.time()
        for path, stamp in sorted(stamps.items(), key=lambda item: item[1][2]):
            if self.files.get(path) != (stamp, now - stamp[2] > AT_REST_S):
                self._report(path, is_recent=not self._is_first_look or now - stamp[2] < self._intervals.settle_s)
        self._is_first_look = False
        self.first_look_done.set()
        self._on_change()
        return look_s

    def _report(self, path: str, *, is_recent: bool) -> None:
        if path in self.settling:
            return
        if path in self.files or not is_recent or not self._intervals.settle_s:
            self._on_file(self, path, is_recent=is_recent)
        else:
            self.settling.add(path)
            self.nothing_settling.clear()
            self._on_change()
            self._clock.call_later(self._intervals.settle_s, lambda: self._on_settled(path))

    def _on_settled(self, path: str) -> None:
        self.settling.discard(path)
        self._on_file(self, path, is_recent=True)
        if not self.settling:
            self.nothing_settling.set()
        self._on_change()


def _stamps(paths: Iterable[str]) -> dict[str, FileStamp | None]:
    return {path: stamp_of(path) for path in paths}


def _identity(folder: str) -> tuple[int, int] | None:
    """Numbers that differ between a folder and another one in its place; None if there is none."""
    try:
        stat = os.stat(folder)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _unreadable_parent(folder: str) -> Sequence[OSError]:
    """Return the error of the first parent that may not be read, which hides whether the folder exists."""
    for outer, inner in pairwise([*map(str, reversed(Path(folder).parents)), folder]):
        try:
            os.stat(inner)
        except PermissionError as error:
            return [PermissionError(error.errno, error.strerror, outer)]
        except OSError:
            break
    return []


def _describe_unreadable(errors: Sequence[OSError]) -> str | None:
    """Say in one line which folders cannot be read, and what to do."""
    lasting = [error for error in errors if not isinstance(error, FileNotFoundError)]  # those went away just now
    if not lasting:
        return None
    first, others = lasting[0], len(lasting) - 1
    folder = str(text_path(first.filename))
    message = f"{folder}{f' and {others:,} more' if others else ''} cannot be read: {first.strerror or first}"
    if isinstance(first, PermissionError):
        message += f". If it is yours, this helps: chmod u+rx {quote(folder)}"
    return message


def is_remote(folder: str, read_mounts: Callable[[], str] = lambda: _MOUNTS.read_text("utf-8", "replace")) -> bool:
    """Return True if another machine may write to the folder; False if that is not known."""
    try:
        lines = read_mounts().splitlines()
    except OSError:
        return False
    path = os.path.realpath(folder)
    nearest, file_system = -1, ""
    for line in lines:
        # "36 35 98:0 /root /mount/point options - ext4 /dev/sda1 options", with spaces in names written as \040
        before, _, after = line.partition(" - ")
        if len(fields := before.split(" ")) < 5 or not after:
            continue
        point = fields[4].replace("\\040", " ").rstrip("/")
        if (path == point or path.startswith(f"{point}/")) and len(point) >= nearest:
            nearest, file_system = len(point), after.split(" ")[0]
    return file_system.startswith(_REMOTE_FILE_SYSTEMS)
