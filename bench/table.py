"""Figures, the bars they are held against, and the table that shows both: ratios first, absolute values second."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Unit = Literal["s", "B"]
Verdict = Literal["met", "missed", "not measured", ""]

NOT_AVAILABLE = "not available"

WIDTH = 120  # of prose, as in the rest of the project; tables are as wide as they are


@dataclass(frozen=True)
class Figure:
    """The measurement of one contender; `reason` says why there is none."""

    name: str
    samples: Sequence[float]
    unit: Unit = "s"
    reason: str = ""

    @property
    def median(self) -> float | None:
        return median(self.samples) if self.samples else None

    def __str__(self) -> str:
        if self.median is None:
            return f"{self.name}: {NOT_AVAILABLE}"
        text = f"{self.name}: {quantity(self.median, self.unit)}"
        if len(self.samples) > 1:
            text += f" ({quantity(min(self.samples), self.unit)} to {quantity(max(self.samples), self.unit)})"
        return text


@dataclass(frozen=True)
class Row:
    """One comparison. `speed` asks how many times as fast ours is, `cost` how many times as much it takes."""

    what: str
    ratio_of: Literal["speed", "cost"]
    ours: Figure
    other: Figure
    bar: float | None = None
    aim: float | None = None

    @property
    def ratio(self) -> float | None:
        ours, other = self.ours.median, self.other.median
        if ours is None or other is None or not ours or not other:
            return None
        return other / ours if self.ratio_of == "speed" else ours / other

    @property
    def verdict(self) -> Verdict:
        if self.bar is None:
            return ""
        if self.ratio is None:
            return "not measured"
        met = self.ratio >= self.bar if self.ratio_of == "speed" else self.ratio <= self.bar
        return "met" if met else "missed"

    @property
    def bar_text(self) -> str:
        if self.bar is None:
            return "–"
        text = f"at {'least' if self.ratio_of == 'speed' else 'most'} {self.bar:g}×"
        return f"{text}, aim {self.aim:g}×" if self.aim else text

    @property
    def ratio_text(self) -> str:
        if self.ratio is None:
            return "–"
        shown = f"{self.ratio:.1f}" if self.ratio >= 10 else f"{self.ratio:.2f}"
        return f"{shown}× {'as fast' if self.ratio_of == 'speed' else 'the cost'}"

    def cells(self) -> list[str]:
        return [self.what, self.ratio_text, self.bar_text, self.verdict, str(self.ours), str(self.other)]


@dataclass(frozen=True)
class Case:
    """One benchmark: how it was measured, its figures, and notes."""

    name: str
    title: str
    how: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    def reasons(self) -> list[str]:
        """List why contenders are missing, each reason once."""
        figures = [figure for row in self.rows for figure in (row.ours, row.other)]
        return list(dict.fromkeys(f"{figure.name}: {figure.reason}" for figure in figures if figure.reason))


def quantity(value: float, unit: Unit) -> str:
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


HEADINGS = ["what", "ratio", "bar", "", "ours", "against"]


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table, with aligned columns, so that it is readable on a terminal too."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    padded = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    rule = "-|-".join("-" * width for width in widths)
    return "\n".join([f"| {padded[0]} |", f"|-{rule}-|", *(f"| {line} |" for line in padded[1:])])


def section(case: Case) -> str:
    """Return a case as Markdown."""
    parts = [f"## {case.title}", textwrap.fill(case.how, WIDTH, break_on_hyphens=False), table(case.rows)]
    notes = [*case.notes, *(f"Not available: {reason}" for reason in case.reasons())]
    if notes:
        parts.append(
            "\n".join(
                textwrap.fill(f"- {note}", WIDTH, subsequent_indent="  ", break_on_hyphens=False) for note in notes
            )
        )
    return "\n\n".join(parts)


def summary(cases: Sequence[Case]) -> str:
    """List the bars that are met, missed or not measured, one per line."""
    rows = [(case, row) for case in cases for row in case.rows if row.verdict]
    lines = [
        f"{sum(row.verdict == verdict for _, row in rows)} {verdict}" for verdict in ("met", "missed", "not measured")
    ]
    text = [f"Bars: {', '.join(lines)}."]
    text += [
        f"- {row.verdict}: {row.what} ({case.name}): {row.ratio_text}, bar {row.bar_text}"
        for case, row in rows
        if row.verdict != "met"
    ]
    return "\n".join(text)
