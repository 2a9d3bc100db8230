"""Counts of attacks that the tests try, for the table in docs/security.md.

A test that is marked `attempts("area")` is one attempt, or as many as it adds by the fixture `attempts`. An attempt
that succeeds fails its test, unless the test calls it inherent and says why. With the variable DRAGOMAN_TORTURE, a
folder, each test adds a line of JSON to `attempts.jsonl` there, from which scripts/generate_security_table.py makes the
table; the areas are in tests/attempts.toml.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest

AREAS_FILE = Path(__file__).with_suffix(".toml")
RESULTS_NAME = "attempts.jsonl"


class Attempts:
    """The attempts of one test."""

    def __init__(self) -> None:
        self.count = 0
        self.inherent: dict[str, list[str]] = {}
        self.details: dict[str, int] = {}
        self.notes: list[str] = []

    def add(self, count: int = 1) -> None:
        self.count += count

    def add_inherent(self, attempt: str, reason: str) -> None:
        """Report an attempt that succeeded, as it has to; it is in the count of `add` as well."""
        self.inherent.setdefault(reason, []).append(attempt)

    def detail(self, name: str, count: int) -> None:
        """Add a figure that the table shows beside the attempts; figures of the same name are summed."""
        self.details[name] = self.details.get(name, 0) + count

    def note(self, sentence: str) -> None:
        """Add a sentence to the remarks; the same sentence of several tests is shown once."""
        self.notes.append(sentence)


def areas() -> dict[str, dict[str, str]]:
    with AREAS_FILE.open("rb") as file:
        return {area.pop("id"): area for area in tomllib.load(file)["areas"]}


@pytest.fixture
def attempts(request: pytest.FixtureRequest) -> Attempts:
    """The counter of a test that is marked with an area."""
    assert request.node.get_closest_marker("attempts"), "a test that counts attempts needs the marker attempts(area)"
    request.node.attempts = Attempts()
    counter: Attempts = request.node.attempts
    return counter


class AttemptsPlugin:
    """Checks the areas of all tests, and writes the counts of those that ran."""

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder).absolute() if folder else None
        self._areas = areas()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for marker in item.iter_markers("attempts"):
                if marker.args[0] not in self._areas:
                    raise pytest.UsageError(f"{item.nodeid}: tests/attempts.toml has no area {marker.args[0]!r}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        marker = item.get_closest_marker("attempts")
        if self._folder and marker and (report.when == "call" or (report.when == "setup" and report.failed)):
            self._write(item, marker.args[0], report)
        return report

    def _write(self, item: pytest.Item, area: str, report: pytest.TestReport) -> None:
        if self._folder is None or report.skipped:
            return
        counted: Attempts = getattr(item, "attempts", Attempts())
        record = {
            "test": item.nodeid,
            "area": area,
            "attempts": counted.count or 1,
            "failed": report.failed,
            "inherent": counted.inherent,
            "details": counted.details,
            "notes": counted.notes,
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        # One write to the end of the file: several workers add their lines at once.
        file = os.open(self._folder / RESULTS_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, (json.dumps(record) + "\n").encode())
        finally:
            os.close(file)
