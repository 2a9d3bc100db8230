"""Sessions with agents: runtimes, sessions, runs, prompts and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

run_for_output: Callable[..., Any] | None = None
"""`(session, prompt, output_type, **settings)` begins a run whose end is a validated value. `dragoman/__init__.py`
binds it: the package that validates stands above this one."""
