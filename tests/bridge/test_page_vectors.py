"""The page's test vectors are up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_vectors_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("page_vectors", ROOT / "scripts/generate_page_vectors.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert (ROOT / "web/src/store/vectors.json").read_bytes() == generator.generate(), "run `make types`"
