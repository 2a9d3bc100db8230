"""Counting attempts: by marker and fixture, in worker processes, into the table of docs/security.md."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import attempts as attempts_module

ROOT = Path(__file__).parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "generate_security_table.py"))

TESTS = """
import pytest

pytestmark = pytest.mark.attempts("http")

def test_one(): pass

def test_many(attempts):
    attempts.add(5)
    attempts.detail("things", 2)
    attempts.add_inherent("x", "because")

def test_that_fails(attempts):
    attempts.add(3)
    assert False

def test_that_is_skipped():
    pytest.skip("no browser")
"""


@pytest.mark.slow
def run(folder: Path, text: str, *options: str) -> tuple[str, list[dict[str, Any]]]:
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_x.py").write_text(text)
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT / 'tests'}\nmarkers = attempts(area): x\n")
    env = {**os.environ, "DRAGOMAN_TORTURE": str(folder / "results"), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    file = folder / "results" / attempts_module.RESULTS_NAME
    return done.stdout + done.stderr, [
        json.loads(line) for line in file.read_text().splitlines()
    ] if file.exists() else []


def test_each_test_writes_what_it_tried_and_a_skipped_one_writes_nothing(tmp_path: Path) -> None:
    _, records = run(tmp_path, TESTS, "-n", "2")
    found = {record["test"].rpartition("::")[2]: (record["attempts"], record["failed"]) for record in records}
    assert found == {"test_one": (1, False), "test_many": (5, False), "test_that_fails": (3, True)}
    [many] = [record for record in records if record["attempts"] == 5]
    assert (many["area"], many["details"], many["inherent"]) == ("http", {"things": 2}, {"because": ["x"]})


def test_an_unknown_area_is_an_error() -> None:
    def collected(area: str) -> Any:
        marker = pytest.mark.attempts(area).mark
        return SimpleNamespace(nodeid="test_x.py::test_one", iter_markers=lambda name: [marker])

    plugin = attempts_module.AttemptsPlugin(None)
    plugin.pytest_collection_modifyitems([collected("http")])
    with pytest.raises(pytest.UsageError, match=r"tests/attempts\.toml has no area 'nothing'"):
        plugin.pytest_collection_modifyitems([collected("http"), collected("nothing")])


def record(area: str, attempts: int, **more: Any) -> dict[str, Any]:
    return {
        "test": "t",
        "area": area,
        "attempts": attempts,
        "failed": False,
        "inherent": {},
        "details": {},
        "notes": [],
    } | more


def test_the_table_sums_the_tests_of_an_area_and_shows_what_was_not_measured() -> None:
    areas = [
        {"id": "a", "title": "First", "success": "it runs"},
        {"id": "b", "title": "Second", "success": "it leaks"},
        {"id": "c", "title": "Third", "success": "it ends"},
    ]
    records = [
        record("a", 1200, details={"lines executed": 3}, inherent={"No reader can know.": ["npm test"]}),
        record("a", 1, details={"lines executed": 4}, notes=["Shells: bash."]),
        record("b", 7, failed=True),
    ]
    text = SCRIPT["table"](areas, records, "2026-01-02")
    assert text.splitlines()[4:7] == [
        "| First | 1,201 | 1 (see below) | it runs; 7 lines executed. Shells: bash. |",
        "| Second | 7 | **1 tests failed** | it leaks |",
        "| Third | not measured | | it ends |",
    ]
    assert text.splitlines()[-1] == "- No reader can know. For example `npm test`."


def test_of_a_test_that_ran_twice_the_last_result_counts(tmp_path: Path) -> None:
    lines = [record("a", 1, test="x", failed=True), record("a", 2, test="y"), record("a", 5, test="x")]
    (tmp_path / "attempts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert sorted(entry["attempts"] for entry in SCRIPT["read_results"](tmp_path)) == [2, 5]


def test_each_area_has_a_test() -> None:
    """Each id of the list is in some test, so that no row can lose its tests unseen."""
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    rules = [f"attack lines, {name}" for name in ("access alone", "narrow rules", "wide rules", "careless rules")]
    for area in attempts_module.areas():
        assert area in rules or f'attempts("{area}")' in sources, area
