"""The built packages: every file of `src/dragoman` is in them, data files included."""

from __future__ import annotations

import os
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
