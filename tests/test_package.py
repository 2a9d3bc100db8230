"""The built packages: every file of `src/dragoman` is in them, data files included."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dragoman"
BUILT_PAGE = PACKAGE / "bridge" / "page"  # built by Node, and left out here


def package_files() -> set[str]:
    return {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not path.is_relative_to(BUILT_PAGE)
    }


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built without the page."""
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "DRAGOMAN_PAGE": "none"},
        check=True,
        capture_output=True,
    )
    return folder


def test_the_wheel_has_every_file_of_the_package(packages: Path) -> None:
    [wheel] = packages.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert package_files() - names == set()


def test_the_sdist_has_every_file_of_the_package(packages: Path) -> None:
    [sdist] = packages.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/src/")[2] for name in archive.getnames()}
    assert package_files() - names == set()


@pytest.mark.parametrize(
    "name",
    [
        "agents/demo/demo.toml",
        "agents/demo/sun.png",
        "agents/demo/beep.wav",
        "agents/presets/claude.toml",
        "bridge/pages/index.html",
        "host/shell/programs.toml",
        "py.typed",
    ],
)
def test_data_that_the_program_reads_is_in_the_wheel(packages: Path, name: str) -> None:
    [wheel] = packages.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.getinfo(f"dragoman/{name}").file_size == (PACKAGE / name).stat().st_size


def build(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Build the wheel of a checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "DRAGOMAN_PAGE"} | variables
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_node_the_build_fails_unless_it_is_asked_for(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "src/dragoman").mkdir(parents=True)
    (checkout / "web").mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for name in ("__init__.py", "_version.py"):
        shutil.copy(PACKAGE / name, checkout / "src/dragoman")
    no_node = {"PATH": str(tmp_path)}
    failed = build(checkout, **no_node)
    assert failed.returncode != 0
    assert "Node 20.19 or later" in failed.stderr
    assert "DRAGOMAN_PAGE=none" in failed.stderr
    assert build(checkout, DRAGOMAN_PAGE="none", **no_node).returncode == 0
    page = checkout / "src/dragoman/bridge/page"
    page.mkdir(parents=True)
    (page / "index.html").write_text("the page")
    assert build(checkout, **no_node).returncode == 0
    [wheel] = (checkout / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "dragoman/bridge/page/index.html" in archive.namelist()
