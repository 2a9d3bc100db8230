"""The console entry point.

`--version` is answered before anything is loaded: scripts call it often, and it should cost little more than the start
of the interpreter.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        return _version()
    from dragoman.cli.main import run

    try:
        return run(sys.argv[1:])
    finally:
        gc.freeze()  # a last search for cycles would take longer than many commands


def _version() -> int:
    from dragoman._version import __version__

    try:
        os.write(1, f"dragoman {__version__}\n".encode())
    except OSError as error:  # closed, full, or its reader is gone
        return 141 if isinstance(error, BrokenPipeError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
