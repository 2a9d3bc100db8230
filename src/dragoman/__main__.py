"""The console entry point.

`--version` is answered before anything is loaded: scripts ask it often, and it shall cost little more than the
interpreter's own start.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> int:
    """Runs the command line and returns its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        return _version()
    from dragoman.cli.main import run

    try:
        return run(sys.argv[1:])
    finally:
        gc.freeze()  # what is left goes with the process: to look for cycles in it would take longer than many commands


def _version() -> int:
    from dragoman._version import __version__

    try:
        os.write(1, f"dragoman {__version__}\n".encode())
    except OSError as problem:  # closed, full, or its reader is gone
        return 141 if isinstance(problem, BrokenPipeError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
