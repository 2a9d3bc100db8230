"""A pattern of an agent's, tried on what a person wrote.

Promised: an answer within `LIMIT` seconds, whatever the pattern. Some take longer than anyone lives, and Python cannot
stop one that it has begun: so it is tried in a process of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Verdict: TypeAlias = Literal["matches", "differs", "unreadable", "unknown"]

LIMIT: Final = 2.0
"""Seconds. An honest pattern takes no time; the process itself takes 20 ms, and more on a busy machine."""

_VERDICTS: Final[dict[int, Verdict]] = {10: "matches", 11: "differs", 12: "unreadable"}

# Codes that Python itself does not end with. ASCII: in the pattern's own language \d and \w know no other letters.
_PROGRAM: Final = """
import re, sys
pattern, _, text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass").partition("\\0")
try:
    found = re.search(pattern, text, re.ASCII)
except (re.error, RecursionError, OverflowError):
    sys.exit(12)
sys.exit(10 if found else 11)
"""

# Named groups are the one common thing that the two languages write differently.
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z_])")


@lru_cache(maxsize=256)  # what is accepted is looked at more than once
def judge(pattern: str, text: str) -> Verdict:
    """Whether the pattern is found in the text. `unknown`: it takes too long. Blocks for as long as it takes."""
    if "\0" in pattern:
        return "unreadable"
    given = f"{_NAMED_GROUP.sub('(?P<', pattern)}\0{text}".encode("utf-8", "surrogatepass")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            input=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError):
        return "unknown"
    return _VERDICTS.get(done.returncode, "unknown")
