"""Starting the worker process of an import (`worker`).

Both processes have much to load. This module needs none of it, so that `dragoman import` can start the worker first and
both load at once.

A pool of `concurrent.futures` takes longer to start, answers only when it is asked, runs the program's main module
again, and outlives an owner that is killed (docs/adr/0016-import-in-bounded-memory.md).
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

# Bytes of transcripts from which on a second process is worth its start.
MIN_BYTES_FOR_WORKER: Final = 8 * 1024 * 1024

# Bytes on their way from the worker. With the usual 64 KiB both processes would wait for each other.
_PIPE_BYTES: Final = 1024 * 1024


def is_worker_worthwhile(sizes: Iterable[int]) -> bool:
    total = 0
    return (os.cpu_count() or 1) > 1 and any((total := total + size) >= MIN_BYTES_FOR_WORKER for size in sizes)


def sizes_below(paths: Iterable[str]) -> Iterator[int]:
    """Yield the sizes of these files, and of all files in these folders. Errors are left to the import."""
    for path in paths:
        inside = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        for file in inside if os.path.isdir(path) else [path]:
            with suppress(OSError):
                yield os.stat(file).st_size


def start_worker() -> subprocess.Popen[bytes]:
    """Start the process. It ends when its stdin is closed, and so with this process."""
    process = subprocess.Popen(
        # -P: a module in the current folder, where anyone may have put one, must not be loaded instead of ours.
        [sys.executable, "-P", "-c", "from dragoman.translate.ingest.worker import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a failure happens again in this process, and is reported then
        bufsize=_PIPE_BYTES,
        start_new_session=True,  # Ctrl-C is for this process
    )
    assert process.stdout is not None
    if sys.platform == "linux":
        with suppress(OSError):  # a user may have only so many pages of pipes
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return process
