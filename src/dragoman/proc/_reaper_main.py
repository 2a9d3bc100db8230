"""The reaper's own program: its dragoman is gone, and it ends what that left behind.

Run as `python -I -S _reaper_main.py PREFIX GROUP:START ...` by the shell that waited (reaper.py). It ends these groups
and every process whose environment carries a marker that begins with PREFIX, because children may have left the group.

It runs on its own, so it imports nothing but the standard library, and little of that. What it knows of the process
table is used by `process.py` too.
"""

from __future__ import annotations

import os
import signal
import sys
import time

MARKER = "DRAGOMAN_REAP"
"""The environment variable that every process we start carries, `PREFIX.N`, and hands down to its children."""

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL. Nobody waits for us, but the machine's shutdown may: it allows a few seconds."""

LOOK_AGAIN = 0.02
"""Seconds between two looks at the process table; there is no notice of a group becoming empty."""

CLEAN_LOOKS = 3
"""Looks in a row that must find nothing: a process that was between fork and exec at the first has no marker yet."""

MOST_LOOKS = 500
"""After ten seconds of SIGKILL, what is left cannot be killed."""


def start_time(pid: int) -> int:
    """When the process began, in the kernel's ticks: with its number an identity. 0 where the platform does not say."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def group_alive(group: int) -> bool:
    """Whether the group has a member that has not ended.

    Ended ones that wait for their new parent to reap them do not count, where the platform tells: some containers'
    first process never does.
    """
    if not signal_group(group, 0):
        return False
    if not _has_proc():
        return True
    wanted = str(group).encode()
    return any(fields and fields[2] == wanted and fields[0] not in (b"Z", b"X") for fields in map(_stat, _numbers()))


def signal_group(group: int, number: int) -> bool:
    """Signal a group; False if there was nobody to signal (macOS says EPERM for a group of zombies)."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def marked(value: str, *, prefix: bool = False) -> list[int]:
    """The processes whose environment has our marker with this value, or beginning with it."""
    needle = f"{MARKER}={value}".encode() + (b"" if prefix else b"\0")
    if _has_proc():
        return [pid for pid in _numbers() if _has(pid, needle)]
    return _marked_by_ps(f"{MARKER}={value}", prefix=prefix) if sys.platform == "darwin" else []


def signal_marked(value: str, number: int, *, prefix: bool = False) -> int:
    """Signal these processes; returns how many there were."""
    needle = f"{MARKER}={value}".encode() + (b"" if prefix else b"\0")
    found = marked(value, prefix=prefix)
    for pid in found:
        _signal_if(pid, needle, number)
    return len(found)


def _has_proc() -> bool:
    return os.path.isdir("/proc/self")


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the third on (state, parent, group, …); none if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            stat = file.read()
    except OSError:
        return []
    # The second field is the command in parentheses, and may itself contain spaces and parentheses.
    return stat[stat.rfind(b")") + 2 :].split()


def _has(pid: int, needle: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            environment = file.readall()
    except OSError:  # ended meanwhile, or not ours to look at
        return False
    return environment is not None and (environment.startswith(needle) or b"\0" + needle in environment)


def _signal_if(pid: int, needle: bytes, number: int) -> None:
    """Signal the process, but only if it is still the one that was found: numbers are used again."""
    try:
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):
            fd = os.pidfd_open(pid)
            try:
                if _has(pid, needle):
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)
            return
    except ProcessLookupError:
        return
    except OSError:
        pass  # no such call here: the plain way
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _marked_by_ps(needle: str, *, prefix: bool) -> list[int]:
    """macOS shows the environment of one's own processes in `ps -E`, behind the command; not of protected programs."""
    import subprocess

    try:
        listing = subprocess.run(
            ["/bin/ps", "-axEww", "-o", "pid=,command="], capture_output=True, timeout=5, check=False
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = []
    for line in listing.splitlines():
        number, _, words = line.strip().partition(" ")
        if any(word.startswith(needle) if prefix else word == needle for word in words.split(" ")):
            found.append(int(number))
    return found


def end_all(groups: dict[int, int], prefix: str) -> None:
    """SIGTERM, a grace, SIGKILL, to the groups and to all that carry the marker, until nothing is left."""
    begun = time.monotonic()
    number = signal.SIGTERM
    told: set[int] = set()
    clean = looks = 0
    while clean < CLEAN_LOOKS and looks < MOST_LOOKS:
        if time.monotonic() - begun > GRACE:
            number = signal.SIGKILL
            looks += 1
            told.clear()  # SIGTERM is said once, SIGKILL at every look
        left = 0
        for group, start in groups.items():
            if _still_ours(group, start) and group_alive(group):
                left += 1
                if group not in told:
                    signal_group(group, number)
                    told.add(group)
        for pid in marked(prefix, prefix=True):
            left += 1
            if pid not in told:
                _signal_if(pid, f"{MARKER}={prefix}".encode(), number)
                told.add(pid)
        clean = 0 if left else clean + 1
        time.sleep(LOOK_AGAIN)


def _still_ours(group: int, start: int) -> bool:
    """Whether the group's number still means what we were told. Its leader may be gone, but not be another process."""
    now = start_time(group)
    return start == 0 or now in (0, start)


def main() -> None:
    prefix, *groups = sys.argv[1:]
    end_all({int(group): int(start) for group, _, start in (one.partition(":") for one in groups)}, prefix + ".")


if __name__ == "__main__":
    main()
