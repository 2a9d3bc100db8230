"""How the process that reads transcripts apart is begun.

It has about as much to load as whoever begins it. So that both can load at once, nothing of the rest is needed here.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

# Bytes of transcripts from which on a process of its own pays: what it reads in the time that it takes to load.
WORTH: Final = 8 * 1024 * 1024

# Bytes on their way from it: with the usual 64 kB the two would have to take turns.
_PIPE: Final = 1024 * 1024


def begin() -> subprocess.Popen[bytes]:
    """It ends when its stdin is closed, and so with whoever began it."""
    process = subprocess.Popen(
        # -P: a module that stands in the folder where the user is must not be loaded in place of one of ours.
        [sys.executable, "-P", "-m", "dragoman.translate.ingest.apart_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what goes wrong there goes wrong here once more, and is told
        bufsize=0,
        start_new_session=True,  # Ctrl-C is for whoever began it
    )
    assert process.stdout is not None
    if sys.platform == "linux":
        with suppress(OSError):  # a user has so many such pages, and no more
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
    return process


def pays(sizes: Iterable[int]) -> bool:
    total = 0
    return (os.cpu_count() or 1) > 1 and any((total := total + size) >= WORTH for size in sizes)


def sizes_below(paths: Iterable[str]) -> Iterator[int]:
    """Of these files, and of those in these folders, whatever they are. Who opens them says what is wrong with them."""
    for path in paths:
        inside = (os.path.join(place, name) for place, _, names in os.walk(path) for name in names)
        for one in inside if os.path.isdir(path) else [path]:
            try:
                yield os.stat(one).st_size
            except OSError:
                pass
