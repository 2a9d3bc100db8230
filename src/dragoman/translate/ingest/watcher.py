"""`Watcher`: brings what agents write in other terminals into the journal while they write it.

Folders are watched by the system's notifications, and also searched from time to time: notifications get lost when a
queue overflows or folders are made faster than they can be watched. Without notifications, as on a network file system,
the folders are polled. The `Importer` imports each record once: a watcher that was killed and started again continues
where it was.

A provider is watched when the user has agreed (`WatchConsent`); until then not even the names of its files are read.
`[watch]` in `config.toml` sets `on`, `off` or `ask` for each provider; the default is `ask`. The user's consent is
stored in `watch.json` in the home folder, because `config.toml` belongs to the user. It counts while the setting is
`ask`.

To see what comes in, subscribe to the journal.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.clock import SYSTEM_CLOCK, Clock, timeout
from dragoman.config import Config
from dragoman.document import show
from dragoman.errors import InputError
from dragoman.fileio import LockedJsonFile
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import Journal
from dragoman.translate.discover import Transcript
from dragoman.translate.ingest.dedup import SESSION_OPEN
from dragoman.translate.ingest.folder_watch import (
    DEFAULT_INTERVALS,
    FolderWatch,
    Method,
    WatchedFolder,
    WatchIntervals,
    provider_folders,
    stamp_of,
)
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.report import AT_REST_S
from dragoman.translate.translator import PROVIDERS, get_provider

Mode: TypeAlias = Literal["off", "ask", "on"]

FILE_NAME: Final = "watch.json"

_MODES: Final[tuple[Mode, ...]] = ("off", "ask", "on")


class _Consent(msgspec.Struct, frozen=True):
    agreed: list[str] = []


class WatchConsent:
    """The modes of all providers, by the settings and by what the user agreed to."""

    def __init__(self, config: Config) -> None:
        """Read the settings. Raises `ConfigError` if they name an unknown provider or mode."""
        self._config = config
        self._file = LockedJsonFile(config.home / FILE_NAME, _Consent())
        self._settings = _read_settings(config)

    def mode(self, provider: str) -> Mode:
        setting = self._settings.get(provider, "ask")
        return "on" if setting == "ask" and provider in self._file.read().agreed else setting

    def grant(self, provider: str) -> None:
        """Store that the user agrees. Raises `InputError` if the setting is `off` or there is no such provider."""
        get_provider(provider)
        if self._settings.get(provider) == "off":
            raise InputError(
                f"watching {provider} is off ({self._config.key_path('watch', provider).where})",
                guidance=f'Set it to "ask" or "on" there: [watch] {provider} = "on"',
            )
        self._file.change(
            lambda consent: consent if provider in consent.agreed else _Consent([*consent.agreed, provider])
        )


def _read_settings(config: Config) -> dict[str, Mode]:
    modes: dict[str, Mode] = {}
    for provider, value in config.watch.items():
        location = config.key_path("watch", provider)
        if provider not in PROVIDERS:
            raise location.unknown(provider, PROVIDERS)
        mode = next((mode for mode in _MODES if value == mode), None)
        if mode is None:
            raise location.wrong(f"watch.{provider}", show(value), "off, ask or on")
        modes[provider] = mode
    return modes


# Bytes of growing files that the importer remembers: several times this in memory, and more than agents write to at
# once, except for somebody's longest session.
_MAX_GROWING_BYTES: Final = 32 * 1024 * 1024
# A file that nobody has written to for so long is forgotten, and read from its beginning when somebody does.
_GROWING_FILE_S: Final = 600.0
# Files from a look through a folder that are imported together, so that they share a commit.
_MAX_FILES_TOGETHER: Final = 16


class WatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a provider, or of the files that the user named (`provider` is empty)."""

    provider: str
    mode: Mode
    folders: Sequence[str] = ()
    method: Method | None = None  # None if nothing is watched
    files: int = 0
    waiting: int = 0  # files that have something new
    error: str | None = None  # the latest one, as long as it lasts


class Watcher:
    """Use it as a context manager, or call `start` and `close`.

    No failure of a file or of the journal ends it: `status` has the error, and the watcher tries again.
    """

    def __init__(
        self,
        journal: Journal,
        consent: WatchConsent | None = None,
        *,
        folders: Sequence[WatchedFolder] = (),
        providers: Sequence[str] = PROVIDERS,
        environment: Mapping[str, str] = os.environ,
        home: Path | None = None,
        clock: Clock = SYSTEM_CLOCK,
        intervals: WatchIntervals = DEFAULT_INTERVALS,
    ) -> None:
        """Watch the `providers` that the user has agreed to, and the `folders` that the user named in any case.

        `home` is the user's home folder, where agents keep their files. Without `consent`, only `folders` are watched.
        """
        self._consent = consent
        self._providers = providers if consent is not None else ()
        self._environment = environment
        self._home = home or Path.home()
        self._clock = clock
        self._intervals = intervals
        self._importer = Importer(journal, clock=clock.time, max_growing_bytes=_MAX_GROWING_BYTES)
        self._named_folders = folders
        self._watches: list[FolderWatch] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._errors: dict[str, tuple[str, str]] = {}  # by provider: the path of the file, and its error
        self._recent: dict[str, FolderWatch] = {}  # paths of files that were written to just now
        self._older: dict[str, FolderWatch] = {}  # paths of files that a look through their folder brought
        self._importing: dict[str, FolderWatch] = {}
        self._has_files = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._status_changed = asyncio.Event()  # replaced by a new one at each change

    async def __aenter__(self) -> Watcher:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Return at once; the files that exist are imported from now on, the oldest first."""
        self._tasks.append(asyncio.create_task(self._import_files(), name="dragoman watch: files"))
        self._watch(self._named_folders)
        for provider in self._providers:
            if self._mode(provider) == "on":
                self._watch(provider_folders(provider, self._environment, self._home))

    async def close(self) -> None:
        """Stop watching. What was imported is committed. Closing twice is fine."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for watch in self._watches:
            watch.first_look_done.set()  # there will be none: end every wait for it

    async def allow(self, provider: str) -> None:
        """Store that the user agrees, and watch this provider from now on. Returns when its files are known."""
        if self._consent is None:
            raise InputError("only named files are watched here", guidance="Give the watcher a WatchConsent.")
        self._consent.grant(provider)
        if self._tasks and not self._watches_of(provider):
            self._watch(provider_folders(provider, self._environment, self._home))
            for watch in self._watches_of(provider):
                await watch.first_look_done.wait()

    def status(self) -> list[WatchStatus]:
        return [self._status(provider) for provider in [*([""] if self._named_folders else []), *self._providers]]

    async def status_changed(self) -> None:
        """Return at the next change of `status`; it may return without one. Compare before waiting again."""
        await self._status_changed.wait()

    async def settled(self) -> None:
        """Return when every folder was looked through and all new files are in the journal."""
        for watch in self._watches:
            await watch.first_look_done.wait()
            await watch.nothing_settling.wait()
        await self._is_idle.wait()

    def _on_change(self) -> None:
        self._status_changed.set()
        self._status_changed = asyncio.Event()

    def _mode(self, provider: str) -> Mode:
        return self._consent.mode(provider) if self._consent is not None else "off"

    def _watch(self, folders: Sequence[WatchedFolder]) -> None:
        for folder in folders:
            watch = FolderWatch(folder, self._intervals, self._clock, self._on_file, self._on_change)
            self._watches.append(watch)
            self._tasks.append(asyncio.create_task(watch.run(), name=f"dragoman watch: {folder.path}"))

    def _status(self, provider: str) -> WatchStatus:
        watches = self._watches_of(provider)
        methods = [watch.method for watch in watches]
        queues = (self._importing, self._recent, self._older)
        queued = sum(watch in watches for queue in queues for watch in queue.values())
        return WatchStatus(
            provider=provider,
            mode=self._mode(provider) if provider else "on",
            folders=[watch.folder.path for watch in watches],
            method=min(methods, key=("polling", "native", "absent").index, default=None),
            files=sum(len(watch.files) for watch in watches),
            waiting=queued + sum(len(watch.settling) for watch in watches),
            error=next(
                (watch.error for watch in watches if watch.error),
                self._errors.get(provider, ("", None))[1],
            ),
        )

    def _watches_of(self, provider: str) -> list[FolderWatch]:
        return [watch for watch in self._watches if self._provider_of(watch) == provider]

    def _provider_of(self, watch: FolderWatch) -> str:
        return "" if watch.folder in self._named_folders else watch.folder.provider

    # -- importing

    def _on_file(self, watch: FolderWatch, path: str, *, is_recent: bool) -> None:
        self._is_idle.clear()
        if is_recent:
            self._older.pop(path, None)
            self._recent[path] = watch
        elif path not in self._recent:
            self._older[path] = watch
        self._has_files.set()
        self._on_change()

    async def _import_files(self) -> None:
        while True:
            queue = self._recent or self._older
            if not queue:
                self._importer.forget_growing_files(self._clock.time() - _GROWING_FILE_S)
                self._has_files.clear()
                self._is_idle.set()
                with suppress(TimeoutError):
                    async with timeout(self._clock, _GROWING_FILE_S):
                        await self._has_files.wait()
                continue
            paths = list(islice(queue, 1 if queue is self._recent else _MAX_FILES_TOGETHER))
            self._importing = {path: queue.pop(path) for path in paths}
            results = await asyncio.gather(*(self._import(watch, path) for path, watch in self._importing.items()))
            self._importing = {}
            self._on_change()
            if not all(results):
                await self._clock.sleep(self._intervals.retry_s)

    async def _import(self, watch: FolderWatch, path: str) -> bool:
        """Return False if the journal could not be written: the file is imported later."""
        stamp = stamp_of(path)
        if stamp is None:
            watch.files.pop(path, None)
            self._clear_error(watch, path)
            return True
        watch.files[path] = (stamp, self._clock.time() - stamp[2] > AT_REST_S)
        try:
            report = await self._importer.import_file(Transcript(watch.folder.provider, Path(path), stamp[1], stamp[2]))
        except JournalError as error:
            self._errors[self._provider_of(watch)] = path, str(error)
            self._older[path] = watch
            return False
        if report.passing:
            watch.files[path] = None
        is_error = report.passing or report.failed or path.endswith(".zst")
        if report.skipped not in (None, SESSION_OPEN) and is_error:
            self._errors[self._provider_of(watch)] = path, f"{report.path}: {report.skipped}"
        else:
            self._clear_error(watch, path)
        return True

    def _clear_error(self, watch: FolderWatch, path: str) -> None:
        provider = self._provider_of(watch)
        if provider in self._errors and self._errors[provider][0] == path:
            del self._errors[provider]
