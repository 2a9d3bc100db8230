"""Sizes, times, tokens and costs as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.cli.text import one_line
from dragoman.config import format_duration
from dragoman.record import rows


def size(count: int) -> str:
    for unit, scale in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"


def duration(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 60 else format_duration(round(seconds))


def usage_parts(usage: rows.Usage) -> Sequence[str]:
    """The figures that were reported, and no others."""
    parts = []
    tokens = [(usage.input_tokens, "in"), (usage.output_tokens, "out")]
    if known := [f"{_short(count)} {word}" for count, word in tokens if count is not None]:
        parts.append(f"tokens: {', '.join(known)}")
    elif usage.total_tokens is not None:
        parts.append(f"tokens: {_short(usage.total_tokens)}")
    if context := context_part(usage):
        parts.append(f"context: {context}")
    if cost := cost_part(usage):
        parts.append(cost)
    return parts


def context_part(usage: rows.Usage) -> str:
    """The context's fill; empty where it was not reported."""
    if usage.context_used is None:
        return ""
    return _short(usage.context_used) + (f" of {_short(usage.context_size)}" if usage.context_size is not None else "")


def cost_part(usage: rows.Usage) -> str:
    """The cost; empty where it was not reported."""
    if usage.cost is None:
        return ""
    amount = f"{usage.cost.amount:.2f}" if usage.cost.amount >= 1 or not usage.cost.amount else None
    return f"{amount or f'{usage.cost.amount:.4f}'} {one_line(usage.cost.currency, 8)}"


def _short(count: int) -> str:
    for unit, scale in (("M", 1_000_000), ("k", 1_000)):
        if count >= 10 * scale:
            return f"{count / scale:.0f}{unit}"
        if count >= scale:
            return f"{count / scale:.1f}".removesuffix(".0") + unit
    return str(count)
