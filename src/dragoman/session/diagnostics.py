"""What is worth knowing of an agent and belongs to no session: stderr, noise on stdout, strays."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

logger = logging.getLogger(__name__)

# Enough to see what happened; a flood of noise must not become ours to keep.
KEPT = 500
LINE_KEPT = 2000

DiagnosticKind = Literal["stderr", "noise", "oversized", "stray"]


class Diagnostic(msgspec.Struct, frozen=True):
    time: float
    kind: DiagnosticKind
    text: str


class Diagnostics:
    """The last entries, a count of all, and whoever listens."""

    def __init__(self, listener: Callable[[Diagnostic], None] | None = None) -> None:
        self.recent: deque[Diagnostic] = deque(maxlen=KEPT)
        self.count = 0
        self._listener = listener

    def add(self, time: float, kind: DiagnosticKind, text: str) -> None:
        entry = Diagnostic(time, kind, text[:LINE_KEPT])
        self.recent.append(entry)
        self.count += 1
        if self._listener is not None:
            try:
                self._listener(entry)
            except Exception:
                # A listener's defect is no reason to stop hearing the agent.
                logger.exception("on_diagnostic failed")
