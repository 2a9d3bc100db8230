"""A program's own function, called in the middle of our work."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


def call(session_id: str, callback: Callable[..., None], *arguments: object) -> None:
    try:
        callback(*arguments)
    except Exception:
        # A defect of the program's is no reason to lose the agent, and what it says next.
        logger.exception("a callback of session %s failed", session_id)
