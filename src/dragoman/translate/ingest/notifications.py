"""`Notices`: what the system tells of changes below a folder, as it happens.

A notice is a path and no more: whoever gets it looks for himself. Notices of the same path are one until they are read,
so that what waits is bounded by the files that there are. Some may be missing, as when a system's queue overflows or
when a folder was just made: who wants all changes looks by himself from time to time.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

# Milliseconds. The sooner it looks the sooner someone sees what was written; at these, half a tenth of a second of
# processor time goes by in an idle minute. What is written without a pause is told after the longer time.
_STEP: Final = 50
_LONGEST: Final = 200


class Unnoticed(Exception):
    """The system tells nothing of this folder: why."""


class Notices:
    """Made by `open`. For one reader, in the loop that opened it."""

    def __init__(self, folder: str, *, deep: bool) -> None:
        self._folder = folder
        self._real = os.path.realpath(folder)  # as some systems name it
        self._deep = deep
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._some = asyncio.Event()
        self._paths: dict[str, None] = {}
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._watch, name="dragoman watch", daemon=True)

    @classmethod
    async def open(cls, folder: str, *, deep: bool) -> Notices:
        """From when it returns, changes are noticed: also below the folder, if `deep`. Raises `Unnoticed`."""
        notices = cls(folder, deep=deep)
        notices._thread.start()
        try:
            await asyncio.shield(notices._ready)
        except BaseException:
            await notices.close()
            raise
        return notices

    async def read(self) -> list[str]:
        """Paths of files and folders that are new, were changed or are gone; waits for one. Raises `Unnoticed`."""
        await self._some.wait()
        if self._problem is not None:
            raise Unnoticed(self._problem)
        self._some.clear()
        paths = list(self._paths)
        self._paths.clear()
        return paths

    async def check(self, folder: str) -> None:
        """For a folder that was made since. Raises `Unnoticed` where no more can be watched: nobody else says so."""
        await asyncio.to_thread(_try, folder)

    async def close(self) -> None:
        self._stop.set()
        await asyncio.to_thread(self._thread.join)

    def _watch(self) -> None:
        try:
            with _notify(self._folder, deep=self._deep) as notify:
                self._tell(self._set_ready)
                while not self._stop.is_set():
                    told = notify.watch(_LONGEST, _STEP, 0, self._stop)
                    if isinstance(told, set):
                        self._tell(self._heard, [path for _, path in told])
        except Exception as problem:  # of a library in another language: whatever it is, the files can be looked at
            self._tell(self._failed, _reason(problem))

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *arguments)
        except RuntimeError:
            self._stop.set()  # its loop has ended without us

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _heard(self, paths: list[str]) -> None:
        for path in paths:
            inside = path.startswith(self._real) and self._real != self._folder
            self._paths[self._folder + path[len(self._real) :] if inside else path] = None
        self._some.set()

    def _failed(self, problem: str) -> None:
        self._problem = problem
        self._some.set()
        if not self._ready.done():
            self._ready.set_exception(Unnoticed(problem))
            self._ready.exception()  # also where nobody waits any more


def _notify(folder: str, *, deep: bool) -> RustNotify:
    from watchfiles._rust_notify import RustNotify  # its documented way in, for who has a thread of his own

    return RustNotify(
        [folder],
        debug=False,
        force_polling=False,
        poll_delay_ms=0,
        recursive=deep,
        ignore_permission_denied=False,  # else it also passes over in silence that there are no more watches to be had
    )


def _try(folder: str) -> None:
    try:
        _notify(folder, deep=False).close()
    except FileNotFoundError:
        pass  # gone already
    except Exception as problem:  # as above
        raise Unnoticed(_reason(problem)) from problem


def _reason(problem: Exception) -> str:
    """Without what the library adds for its own people."""
    return str(problem).partition(" about [")[0] or type(problem).__name__
