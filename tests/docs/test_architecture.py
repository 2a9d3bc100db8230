"""docs/architecture.md names files, functions and tests that exist, and lists every package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "dragoman"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

FILE = r"[\w./-]+\.(?:py|tsx?|toml|md)"
FILES = sorted(set(re.findall(rf"`({FILE})`", TEXT)))

# `file.py`: `Class.method`, `function`
REFERENCES = [
    (path, name)
    for path, names in re.findall(rf"`({FILE})`: ((?:`[\w.]+`(?:, )?)+)", TEXT)
    for name in re.findall(r"`([\w.]+)`", names)
]
FOLDERS = sorted(set(re.findall(r"`((?:[a-z_]+/)+)`", TEXT)))


def locate(name: str) -> Path:
    """Return the path of a file or folder that the page names: below src/dragoman, or below the checkout."""
    return SOURCE / name if (SOURCE / name).exists() else ROOT / name


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_every_file_and_folder_exists(name: str) -> None:
    assert locate(name).exists() or name == "config.toml"


@pytest.mark.parametrize(("path", "name"), REFERENCES)
def test_every_function_and_class_is_defined_in_its_file(path: str, name: str) -> None:
    code = locate(path).read_text(encoding="utf-8")
    definition = r"\b(?:def|class|const|let|function|interface|type) {0}\b|^\s*(?:readonly )?{0}(?::| =|<|\()"
    for part in name.split("."):
        assert re.search(definition.format(re.escape(part)), code, re.MULTILINE), f"{path} does not define {part}"


def test_every_package_is_described() -> None:
    packages = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    assert packages <= set(re.findall(r"^\| `(\w+/)` \|", TEXT, re.MULTILINE))


@pytest.mark.parametrize("package", sorted(SOURCE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_every_module_that_the_docstring_of_a_package_lists_exists(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    listed = re.findall(r"^((?:[a-z_]+/?, )*[a-z_]+/?) {2,}\S", docstring, re.MULTILINE)
    names = {name.rstrip("/") for names in listed for name in names.split(", ")}
    modules = {path.stem for path in package.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert names <= modules


def test_every_guarantee_names_a_test() -> None:
    rows = re.findall(r"^\| (G\d+) \| .* \| ([^|]+) \|$", TEXT, re.MULTILINE)
    assert [name for name, _ in rows] == [f"G{number}" for number in range(1, 18)]
    assert all("`tests/" in proof for _, proof in rows)
