"""Which process this is, so that another can tell whether it still lives."""

from __future__ import annotations

import os
import socket
import time
import uuid
from typing import Final

import msgspec

from dragoman.journal.protocols import Process
from dragoman.proc._reaper_main import start_time

# Seconds between two signs of life. Only processes on other machines are judged by them.
HEARTBEAT: Final = 10.0

# Seconds without a sign after which a process on another machine counts as dead: a few missed ones, and some delay.
SILENCE: Final = 60.0


def this_process() -> Process:
    """A new identity: two hubs of one process are two."""
    return Process(
        id=uuid.uuid4().hex,
        host=socket.gethostname(),
        pid=os.getpid(),
        started=str(start_time(os.getpid())),
        heartbeat=time.time(),
    )


def living(process: Process) -> Process:
    """The same, with a sign of life."""
    return msgspec.structs.replace(process, heartbeat=time.time())


def alive(process: Process) -> bool:
    """On this machine by its number and its start; numbers are used again. Elsewhere by its last sign of life."""
    if process.host != socket.gethostname():
        return time.time() - process.heartbeat < SILENCE
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's, and there
    return process.started in ("0", str(start_time(process.pid)))
