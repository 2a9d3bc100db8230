"""Our side of the reaper: one helper per dragoman process that ends our agents when we cannot any more (G6).

Promised: starting it costs the caller one `Popen` and no wait; without it everything works but the promise itself, and
at the next spawn it is tried again. It shares no descriptor with agents, and a fork of ours gets its own.

The helper waits as a shell, because that starts in a millisecond and costs little memory; only when there is
something to end does it become `_reaper_main.py`.
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
"""Where POSIX systems have it, whatever PATH says."""

WAIT = r"""
trap '' INT TERM HUP
groups=
while read -r word group start; do
    kept=
    for one in $groups; do
        case $one in "$group":*) ;; *) kept="$kept $one" ;; esac
    done
    groups=$kept
    case $word in add) groups="$groups $group:$start" ;; esac
done
"$1" -I -S "$2" "$3" $groups && exit
for one in $groups; do kill -9 "-${one%%:*}"; done
"""
"""Given to `sh -c` with our interpreter, PROGRAM and the prefix. Its stdin is a pipe with the lines `add GROUP START`
and `remove GROUP`; the pipe's end means that we have ended, however we did. The last line is for the day when our
interpreter is not there any more, or was never known (an embedded one does not know its program)."""


class Reaper:
    """The reaper of this process. Methods may be called from any thread, and none of them raises."""

    def __init__(self) -> None:
        self.prefix = os.urandom(8).hex()
        self._numbers = itertools.count(1)
        self._groups: dict[int, int] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    @property
    def pid(self) -> int | None:
        """The helper's process, if it was started."""
        return self._process.pid if self._process is not None else None

    def mark(self, env: Mapping[str, str]) -> tuple[dict[str, str], str]:
        """The environment with a marker of its own, and that marker."""
        marker = f"{self.prefix}.{next(self._numbers)}"
        return {**env, MARKER: marker}, marker

    def ensure(self) -> None:
        """Start the helper, if it does not run. To be called before a process is started."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self._forget()
            self._start()
            for group, start in self._groups.items():
                self._tell(f"add {group} {start}")

    def add(self, group: int) -> None:
        """From now on this group, led by a child of ours, ends with us."""
        with self._lock:
            start = self._groups[group] = start_time(group)
            self._tell(f"add {group} {start}")

    def remove(self, group: int) -> None:
        with self._lock:
            if self._groups.pop(group, None) is not None:
                self._tell(f"remove {group}")

    def let_go(self) -> None:
        """This process ends, or is a fork of the one that has the helper: it does what is left, and we do not wait."""
        self._forget()
        self._groups.clear()

    def _start(self) -> None:
        try:
            reading, writing = os.pipe()
        except OSError:
            return
        os.set_blocking(writing, False)
        try:
            self._process = subprocess.Popen(
                [SHELL, "-c", WAIT, "dragoman-reaper", sys.executable, str(PROGRAM), self.prefix],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # The marker of a dragoman that started us must not be on it: it has to survive that one's sweep.
                env={name: value for name, value in os.environ.items() if name != MARKER},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            os.close(writing)
        else:
            self._pipe = writing
        finally:
            os.close(reading)

    def _tell(self, line: str) -> None:
        if self._pipe < 0:
            return
        try:
            os.write(self._pipe, f"{line}\n".encode())
        except OSError:
            pass  # it died (`ensure` sees that) or its pipe is full (the sweep by marker will find the group)

    def _forget(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._process is not None:
            # It outlives us by design, or is dead, or is our parent's child: in no case is there anything to wait for.
            self._process.returncode = self._process.returncode or 0
            self._process = None


_reaper: Reaper | None = None
_creating = threading.Lock()


def reaper() -> Reaper:
    """The reaper of this process, created at the first call; its helper is started by `ensure()`."""
    global _reaper
    with _creating:
        if _reaper is None:
            _reaper = Reaper()
        return _reaper


def _at_exit() -> None:
    if _reaper is not None:
        _reaper.let_go()


def _in_a_fork() -> None:
    """A fork must not keep the pipe open, and has agents of its own."""
    global _reaper, _creating
    if _reaper is not None:
        _reaper.let_go()
    _reaper = None
    _creating = threading.Lock()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_a_fork)
