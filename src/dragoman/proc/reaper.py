"""The reaper: one helper per Dragoman process that ends its agents, however that process ends.

Promised: starting the helper costs the caller one `Popen` and no wait. If it cannot be started, everything else works,
and the next spawn tries again. It shares no descriptor with agents, and a forked process gets its own.

The helper waits as a shell, which starts in a millisecond and needs little memory; it runs `_reaper_main.py` only when
there is a process to end.
"""

from __future__ import annotations

import atexit
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from dragoman.proc._reaper_main import MARKER, start_time

PROGRAM = Path(__file__).with_name("_reaper_main.py")

SHELL = "/bin/sh"
"""The path on all POSIX systems, whatever PATH says."""

WAIT_SCRIPT = r"""
trap '' INT TERM HUP
groups=
while read -r word group start; do
    others=
    for entry in $groups; do
        case $entry in "$group":*) ;; *) others="$others $entry" ;; esac
    done
    groups=$others
    case $word in add) groups="$groups $group:$start" ;; esac
done
"$1" -I -S "$2" "$3" $groups && exit
for entry in $groups; do kill -9 "-${entry%%:*}"; done
"""
"""The script for `sh -c`, with the interpreter, PROGRAM and the prefix as arguments. Its stdin is a pipe with the lines
`add GROUP START` and `remove GROUP`; the end of the pipe means that the Dragoman process has ended. The last line is
for an interpreter that was removed meanwhile, or is not known (an embedded one does not know its program)."""


class Reaper:
    """The reaper of this process. Its methods may be called from any thread, and never raise."""

    def __init__(self) -> None:
        self.prefix = os.urandom(8).hex()
        self._numbers = itertools.count(1)
        self._groups: dict[int, int] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    @property
    def pid(self) -> int | None:
        """The pid of the helper, if it was started."""
        return self._process.pid if self._process is not None else None

    def mark(self, env: Mapping[str, str]) -> tuple[dict[str, str], str]:
        """Return the environment with a new marker, and the marker."""
        marker = f"{self.prefix}.{next(self._numbers)}"
        return {**env, MARKER: marker}, marker

    def ensure(self) -> None:
        """Start the helper, if it does not run. Call this before starting a process."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self._disconnect()
            self._start()
            for group, start in self._groups.items():
                self._send(f"add {group} {start}")

    def add(self, group: int) -> None:
        """Add a group, led by a child of this process, to those that the helper ends."""
        with self._lock:
            start = self._groups[group] = start_time(group)
            self._send(f"add {group} {start}")

    def remove(self, group: int) -> None:
        with self._lock:
            if self._groups.pop(group, None) is not None:
                self._send(f"remove {group}")

    def detach(self) -> None:
        """Close the pipe to the helper, at the exit of this process or in a fork of it, without waiting."""
        self._disconnect()
        self._groups.clear()

    def _start(self) -> None:
        try:
            read_end, write_end = os.pipe()
        except OSError:
            return
        os.set_blocking(write_end, False)
        try:
            self._process = subprocess.Popen(
                [SHELL, "-c", WAIT_SCRIPT, "dragoman-reaper", sys.executable, str(PROGRAM), self.prefix],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Without the marker of a Dragoman that started this one: the helper has to survive that one's reaper.
                env={name: value for name, value in os.environ.items() if name != MARKER},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            os.close(write_end)
        else:
            self._pipe = write_end
        finally:
            os.close(read_end)

    def _send(self, line: str) -> None:
        if self._pipe < 0:
            return
        try:
            os.write(self._pipe, f"{line}\n".encode())
        except OSError:
            pass  # the helper has ended (`ensure` sees that) or its pipe is full (the marker will find the group)

    def _disconnect(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._process is not None:
            # It outlives this process by design, or has ended, or is the parent's child: there is nothing to wait for.
            self._process.returncode = self._process.returncode or 0
            self._process = None


_reaper: Reaper | None = None
_creating = threading.Lock()


def reaper() -> Reaper:
    """Return the reaper of this process, created at the first call; `ensure()` starts its helper."""
    global _reaper
    with _creating:
        if _reaper is None:
            _reaper = Reaper()
        return _reaper


def _at_exit() -> None:
    if _reaper is not None:
        _reaper.detach()


def _after_fork() -> None:
    """Close the inherited pipe in a forked process, which has agents of its own."""
    global _reaper, _creating
    if _reaper is not None:
        _reaper.detach()
    _reaper = None
    _creating = threading.Lock()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
