"""Current and peak memory of this process in bytes, read from the system without tracing."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def resident() -> int:
    """Return the resident memory in bytes; the peak, if the system does not report the current value."""
    return _field("VmRSS") or peak()


def peak() -> int:
    """Return the peak of the resident memory in bytes.

    On Linux from `VmHWM`: `ru_maxrss` starts there with the size of the parent, which is not ours to count.
    """
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _field("VmHWM") or (largest if sys.platform == "darwin" else largest * 1024)


def peak_of_helpers() -> int:
    """The same of the largest process that this one has begun and seen the end of; more than was its own, where it was
    begun by a large parent."""
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def _field(name: str) -> int:
    if not STATUS.exists():
        return 0
    for line in STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0
