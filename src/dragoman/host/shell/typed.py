"""A command line as a person would type it: what is only handed to a shell, as `sh -c '…'`, is the line itself.

Agents show a line and then run it by a shell: to whoever answers, these are one and the same.
"""

from __future__ import annotations

import shlex
from typing import Final

# By the names that lead to the system's own: `./sh` or `/tmp/bash` is another program.
_SHELLS: Final = frozenset(f"{folder}{name}" for folder in ("", "/bin/", "/usr/bin/") for name in ("sh", "bash"))


def typed(line: str) -> str:
    """The line that a shell is given, where that is all it is given; otherwise the line as it stands."""
    try:
        words = shlex.split(line)
    except ValueError:  # no shell would read it
        return line
    match words:
        # Quoted in the one way that leaves nothing for an outer shell to do: in "…" it would expand what is inside.
        case [shell, "-c" | "-lc", inner] if inner.strip() and shell in _SHELLS and shlex.join(words) == line:
            return inner
        case _:
            return line
