"""`FolderNotifications`: changes below a folder, as the operating system reports them.

A notification is a path and no more; the reader looks at the file. Notifications of one path are one until they are
read, so that what waits is bounded by the number of files.

Not promised: that every change is reported. A queue of the system may overflow, and a folder may be filled before it is
watched. A reader that must not miss a change looks through the folder from time to time.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

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
