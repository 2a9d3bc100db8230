"""Diagnostics: lines that belong to no session: stderr, noise and strays of an agent, the making of a worktree."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

logger = logging.getLogger(__name__)

# Enough to see what happened; a flood of noise must not fill our memory.
MAX_RECENT_ENTRIES = 500
MAX_LINE_CHARACTERS = 2000

DiagnosticKind = Literal["stderr", "noise", "oversized", "stray", "sandbox", "worktree", "isolation"]


class Diagnostic(msgspec.Struct, frozen=True):
    time: float
    kind: DiagnosticKind
    text: str


class Diagnostics:
    """The last entries and the number of all; each is handed to `on_diagnostic`."""

    def __init__(self, on_diagnostic: Callable[[Diagnostic], None] | None = None) -> None:
        self.recent: deque[Diagnostic] = deque(maxlen=MAX_RECENT_ENTRIES)
        self.count = 0
        self._on_diagnostic = on_diagnostic

    def add(self, time: float, kind: DiagnosticKind, text: str) -> None:
        entry = Diagnostic(time, kind, text[:MAX_LINE_CHARACTERS])
        self.recent.append(entry)
        self.count += 1
        if self._on_diagnostic is not None:
            try:
                self._on_diagnostic(entry)
            except Exception:
                # A defect of the program's is no reason to stop reading the agent.
                logger.exception("on_diagnostic failed")
