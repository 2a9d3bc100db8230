"""The reaper's own program: its Dragoman process has ended, and it ends the processes that are left.

The shell in `reaper.py` runs it as `python -I -S _reaper_main.py PREFIX GROUP:START ...`. It ends these groups, and
every process whose environment has a marker that begins with PREFIX, because children may have left the group.

It runs alone, so it imports nothing but the standard library, and little of that. `process.py` uses its functions for
the process table too.
"""

from __future__ import annotations

import os
import signal
import sys
import time

MARKER = "DRAGOMAN_REAP"
"""The environment variable, `PREFIX.N`, of every process that Dragoman starts; children inherit it."""

KILL_GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL. Only a shutdown of the machine may wait for it, and allows a few seconds."""

POLL_INTERVAL_S = 0.02
"""Seconds between two reads of the process table; the kernel does not notify of an empty group."""

CLEAN_POLLS = 3
"""Reads in a row that must find nothing: a process between fork and exec has no marker yet."""

MAX_KILL_POLLS = 500
"""Reads after SIGKILL; a process that is left after ten seconds cannot be killed."""


def start_time(pid: int) -> int:
    """Return the start time in kernel ticks, which with the pid identifies a process; 0 where it is not available."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def group_alive(group: int) -> bool:
    """Return True if the group has a member that has not ended.

    Zombies do not count, where the platform shows them: the first process of some containers never reaps.
    """
    if not signal_group(group, 0):
        return False
    if not _has_proc():
        return True
    group_field = str(group).encode()
    return any(
        fields and fields[2] == group_field and fields[0] not in (b"Z", b"X") for fields in map(_stat, _process_ids())
    )


def signal_group(group: int, signal_number: int) -> bool:
    """Signal a group; return False if it has no process (macOS says EPERM for a group of zombies)."""
    try:
        os.killpg(group, signal_number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def marked_processes(value: str, *, prefix: bool = False) -> list[int]:
    """Return the processes whose environment has the marker with this value, or with this prefix."""
    needle = f"{MARKER}={value}".encode() + (b"" if prefix else b"\0")
    if _has_proc():
        return [pid for pid in _process_ids() if _has_marker(pid, needle)]
    return _marked_processes_by_ps(f"{MARKER}={value}", prefix=prefix) if sys.platform == "darwin" else []


def signal_marked(value: str, signal_number: int, *, prefix: bool = False) -> int:
    """Signal the marked processes; return their number."""
    needle = f"{MARKER}={value}".encode() + (b"" if prefix else b"\0")
    processes = marked_processes(value, prefix=prefix)
    for pid in processes:
        _signal_if_marked(pid, needle, signal_number)
    return len(processes)


def _has_proc() -> bool:
    return os.path.isdir("/proc/self")


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the third on (state, parent, group, …); [] for no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            stat = file.read()
    except OSError:
        return []
    # The second field is the command in parentheses, and may itself contain spaces and parentheses.
    return stat[stat.rfind(b")") + 2 :].split()


def _has_marker(pid: int, needle: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            environment = file.readall()
    except OSError:  # ended meanwhile, or not readable for this user
        return False
    return environment is not None and (environment.startswith(needle) or b"\0" + needle in environment)


def _signal_if_marked(pid: int, needle: bytes, signal_number: int) -> None:
    """Signal the process, but only if it still has the marker: pids are used again."""
    try:
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):
            fd = os.pidfd_open(pid)
            try:
                if _has_marker(pid, needle):
                    signal.pidfd_send_signal(fd, signal_number)
            finally:
                os.close(fd)
            return
    except ProcessLookupError:
        return
    except OSError:
        pass  # not available here: use kill
    try:
        os.kill(pid, signal_number)
    except (ProcessLookupError, PermissionError):
        pass


def _marked_processes_by_ps(needle: str, *, prefix: bool) -> list[int]:
    """Read `ps -E` on macOS, which shows the environment of the user's own processes, except protected programs."""
    import subprocess

    try:
        listing = subprocess.run(
            ["/bin/ps", "-axEww", "-o", "pid=,command="], capture_output=True, timeout=5, check=False
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return []
    processes = []
    for line in listing.splitlines():
        pid, _, words = line.strip().partition(" ")
        if any(word.startswith(needle) if prefix else word == needle for word in words.split(" ")):
            processes.append(int(pid))
    return processes


def end_all(groups: dict[int, int], prefix: str) -> None:
    """End the groups and all marked processes by SIGTERM, then SIGKILL, until none is left."""
    started = time.monotonic()
    signal_number = signal.SIGTERM
    signalled: set[int] = set()
    clean_polls = polls = 0
    while clean_polls < CLEAN_POLLS and polls < MAX_KILL_POLLS:
        if time.monotonic() - started > KILL_GRACE_S:
            signal_number = signal.SIGKILL
            polls += 1
            signalled.clear()  # SIGTERM is sent once, SIGKILL at every poll
        alive_count = 0
        for group, start in groups.items():
            if _is_same_group(group, start) and group_alive(group):
                alive_count += 1
                if group not in signalled:
                    signal_group(group, signal_number)
                    signalled.add(group)
        for pid in marked_processes(prefix, prefix=True):
            alive_count += 1
            if pid not in signalled:
                _signal_if_marked(pid, f"{MARKER}={prefix}".encode(), signal_number)
                signalled.add(pid)
        clean_polls = 0 if alive_count else clean_polls + 1
        time.sleep(POLL_INTERVAL_S)


def _is_same_group(group: int, start: int) -> bool:
    """Return True if the group still has its leader, or the leader has ended; not if the pid was used again."""
    now = start_time(group)
    return start == 0 or now in (0, start)


def main() -> None:
    prefix, *groups = sys.argv[1:]
    end_all(
        {int(group): int(start) for group, _, start in (argument.partition(":") for argument in groups)}, prefix + "."
    )


if __name__ == "__main__":
    main()
