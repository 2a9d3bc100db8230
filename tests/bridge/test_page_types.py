"""The page's types are those of the bridge."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_page_types", ROOT / "scripts/generate_page_types.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_types_are_up_to_date(generator: ModuleType) -> None:
    assert (ROOT / "web/src/protocol.ts").read_text() == generator.generate(), "run `make types`"


def test_clients_may_omit_defaults_and_the_server_omits_nothing(generator: ModuleType) -> None:
    text = generator.generate()
    assert "  limit?: number;" in _interface(text, "Subscribe")
    assert "  uri: string | null;" in _interface(text, "ImageBlock")
    assert "  name?: string;" in _interface(text, "AttachedImage")


def test_every_request_has_a_result(generator: ModuleType) -> None:
    text = generator.generate()
    assert '  "session.open": SessionOpened;' in _interface(text, "ResultOf")
    assert "  result: unknown;" in _interface(text, "ResultMessage")


def _interface(text: str, name: str) -> list[str]:
    start = next(line for line in text.splitlines() if line.startswith(f"export interface {name} "))
    return text.split(start, 1)[1].split("\n}", 1)[0].splitlines()
