"""Tools by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.errors import InputError
from dragoman.evaluation.tool import load_tools

MODULE = """
import dragoman.evaluation.tool

def plain(a: int) -> int:
    "Plain."
    return a

@dragoman.evaluation.tool.tool
def marked() -> None:
    "Marked."

several = [plain, marked]
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tools_by_name.py").write_text(MODULE)
    (tmp_path / "broken_by_name.py").write_text("raise RuntimeError('at once')")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return tmp_path


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("tools_by_name:plain", ["plain"]),
        ("tools_by_name:several", ["plain", "marked"]),
        ("tools_by_name", ["marked"]),
        ("tools_by_name.py:plain", ["plain"]),
        ("tools_by_name.py", ["marked"]),
    ],
)
def test_functions_are_found_by_module_and_name(folder: Path, where: str, names: list[str]) -> None:
    assert [each.name for each in load_tools(where, folder=folder)] == names


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("tools_by_name:none", "has no 'none'"),
        ("tools_by_name:number", "expected a function"),
        ("no_such_module:x", "cannot be loaded"),
        ("broken_by_name:x", "RuntimeError: at once"),
        ("none.py:x", "there is no file"),
        ("json", "defines no tool"),
    ],
)
def test_a_tool_that_cannot_be_loaded_is_an_input_error(folder: Path, where: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_tools(where, folder=folder)
