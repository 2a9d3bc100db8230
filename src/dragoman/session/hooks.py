"""What a session can do with the help of parts that stand above it. `dragoman/__init__.py` binds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

run_for_output: Callable[..., Any] | None = None
"""`(session, prompt, output_type, **settings)`: a run whose end is a validated value."""
