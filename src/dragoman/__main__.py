"""The console entry point.

`--version` is answered before anything is loaded: scripts ask it often, and it shall cost little more than the
interpreter's own start.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line and returns its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from dragoman._version import __version__

        # No flush of our own: where nobody reads it any more, there is nobody to tell.
        sys.stdout.write(f"dragoman {__version__}\n")
        return 0
    from dragoman.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
