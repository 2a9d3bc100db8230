"""Programs of the machine that tests must not depend on."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

# Agents that find one of these use it, and behave differently with it. Codex takes Debian's bubblewrap for its own
# sandbox, in which its commands then fail.
HIDDEN_PROGRAMS = ("bwrap",)


def path_without(programs: Collection[str], folder: Path, path: str) -> str:
    """Return a PATH on which these programs are not found. `folder` gets links to what is beside them."""
    shown: list[str] = []
    for number, entry in enumerate(path.split(os.pathsep)):
        original = Path(entry)
        if not any((original / name).exists() for name in programs):
            shown.append(entry)
            continue
        links = folder / f"{number}"
        links.mkdir(parents=True, exist_ok=True)
        for program in original.iterdir():
            link = links / program.name
            if program.name not in programs and not link.is_symlink():
                link.symlink_to(program)
        shown.append(str(links))
    return os.pathsep.join(shown)
