"""`evaluate` for programs that are not async. Its background loop stays: nothing here counts descriptors."""

from __future__ import annotations

from pathlib import Path

from dragoman.evaluation.evaluate import evaluate_sync


def test_programs_that_are_not_async_can_evaluate_too(tmp_path: Path) -> None:
    response = evaluate_sync("demo", 'say {"sku": "A-1", "count": 3}', cwd=tmp_path, env={"DRAGOMAN_DEMO_PACE": "0"})
    assert response.stats.rounds == 1
    assert "A-1" in response.text
