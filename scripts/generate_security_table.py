"""Write the table of docs/security.md from what `make torture` has counted (tests/attempts.py).

    python scripts/generate_security_table.py [FOLDER]

FOLDER (.cache/torture) has `attempts.jsonl`, with one line for each test; of a test that ran more than once, the last
one counts. An area without any is shown as not measured. The exit code is 1 if a test failed.
"""

from __future__ import annotations

import json
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "security.md"
AREAS = ROOT / "tests" / "attempts.toml"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
NOT_MEASURED = "not measured"
MAX_EXAMPLES = 3
"""Attempts that a reason names as examples."""


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Return the last result of each test."""
    lines = (folder / "attempts.jsonl").read_text().splitlines()
    return list({(record := json.loads(line))["test"]: record for line in lines}.values())


def row(title: str, success: str, records: list[dict[str, Any]]) -> str:
    """Return one line of the table."""
    if not records:
        return f"| {title} | {NOT_MEASURED} | | {success} |"
    failed = sum(record["failed"] for record in records)
    inherent = sum(len(names) for record in records for names in record["inherent"].values())
    succeeded = f"**{failed} tests failed**" if failed else f"{inherent:,}" + (" (see below)" if inherent else "")
    details: dict[str, int] = {}
    for record in records:
        for name, count in record["details"].items():
            details[name] = details.get(name, 0) + count
    notes = [f"{count:,} {name}." for name, count in details.items()]
    notes += dict.fromkeys(note for record in records for note in record["notes"])
    remark = "; ".join(filter(None, [success, " ".join(notes)]))
    return f"| {title} | {sum(record['attempts'] for record in records):,} | {succeeded} | {remark} |"


def reasons(records: list[dict[str, Any]]) -> list[str]:
    """Return the attempts that succeed and have to, by their reasons, as lines of a list."""
    by_reason: dict[str, list[str]] = {}
    for record in records:
        for reason, names in record["inherent"].items():
            by_reason.setdefault(reason, []).extend(name for name in names if name not in by_reason.get(reason, ()))
    return [f"- {reason} For example {_examples(names)}." for reason, names in by_reason.items()]


def _examples(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:MAX_EXAMPLES])


def table(areas: list[dict[str, str]], records: list[dict[str, Any]], day: str) -> str:
    """Return the text between the markers of the page."""
    rows = [
        row(area["title"], area["success"], [record for record in records if record["area"] == area["id"]])
        for area in areas
    ]
    lines = [f"Measured on {day}.", "", "| area | attempts | succeeded | counts as success; more figures |"]
    lines += ["| --- | --- | --- | --- |", *rows]
    if inherent := reasons(records):
        lines += ["", "These attempts succeed, for the reasons given:", "", *inherent]
    return "\n".join(lines)


def replace_table(page: str, text: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE} has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".cache" / "torture"
    records = read_results(folder)
    areas = tomllib.loads(AREAS.read_text())["areas"]
    PAGE.write_text(replace_table(PAGE.read_text(), table(areas, records, f"{datetime.now(UTC):%Y-%m-%d}")))
    for record in records:
        if record["failed"]:
            print(f"failed: {record['test']} ({record['area']})", file=sys.stderr)
    return int(any(record["failed"] for record in records))


if __name__ == "__main__":
    sys.exit(main())
