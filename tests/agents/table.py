"""The results of each real agent in these tests, as data: `docs/agents.md` shows it as a table.

    {AGENT: {CASE: ""}}         it does
    {AGENT: {CASE: "reason"}}   it does not, and why

A case is a test's name, with its parameter where it has one. A run of some tests changes only what it ran; a test that
failed says nothing of the agent, and changes nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

FILE = Path(__file__).parents[2] / "docs" / "agents.json"

_NODE = re.compile(r"tests/agents/\w+\.py::test_(?P<case>\w+)\[(?P<agent>[a-z]+)(?:-(?P<parameter>[^\]]+))?\]$")


class Table:
    """A plugin that collects the outcomes, and writes them at the end."""

    def __init__(self) -> None:
        self._outcomes: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = _NODE.search(report.nodeid)
        if found is None or "test_quirks" in report.nodeid:
            return
        case = found["case"] + (f" {found['parameter']}" if found["parameter"] else "")
        outcomes = self._outcomes.setdefault(found["agent"], {})
        if report.failed:
            outcomes[case] = "failed"
        elif report.skipped and isinstance(report.longrepr, tuple):
            outcomes[case] = str(report.longrepr[2]).removeprefix("Skipped: ")
        elif report.when == "call":
            outcomes[case] = ""

    def pytest_sessionfinish(self) -> None:
        known: dict[str, dict[str, str]] = msgspec.json.decode(FILE.read_bytes()) if FILE.exists() else {}
        for agent, outcomes in self._outcomes.items():
            passed_or_skipped = {case: outcome for case, outcome in outcomes.items() if outcome != "failed"}
            known[agent] = known.get(agent, {}) | passed_or_skipped
        FILE.write_bytes(msgspec.json.format(msgspec.json.encode(known, order="sorted"), indent=1) + b"\n")
