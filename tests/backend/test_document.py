"""The document's examples run and print what is shown."""

from __future__ import annotations

from pathlib import Path

from docs import examples

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "backend-adapter.md"


def test_every_example_of_the_document_runs_and_prints_what_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shown = list(examples.examples(DOCUMENT))
    assert shown
    ids: dict[str, str] = {}
    for example in shown:
        printed = examples.run(example, folder, examples.newcomer(tmp_path), ids)
        assert example.expected is not None
        assert examples.matches(example.expected, printed, ids), f"{example.where} printed:\n{printed}"
