"""The identity of this process, by which another one can tell whether it still lives."""

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
HEARTBEAT_S: Final = 10.0

# Seconds without a sign after which a process on another machine counts as dead: a few missed ones, and some delay.
DEAD_AFTER_S: Final = 60.0


def this_process() -> Process:
    """Return a new identity: two hubs of one process are two."""
    return Process(
        id=uuid.uuid4().hex,
        host=socket.gethostname(),
        pid=os.getpid(),
        started=str(start_time(os.getpid())),
        heartbeat=time.time(),
    )


def with_heartbeat(process: Process) -> Process:
    """Return the process with a new sign of life."""
    return msgspec.structs.replace(process, heartbeat=time.time())


def is_alive(process: Process) -> bool:
    """Return whether a process lives.

    On this machine by its pid and start time, since pids are used again; elsewhere by its last sign of life.
    """
    if process.host != socket.gethostname():
        return time.time() - process.heartbeat < DEAD_AFTER_S
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, as another user's
    return process.started in ("0", str(start_time(process.pid)))
