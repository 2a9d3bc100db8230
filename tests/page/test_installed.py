"""The wheel, installed where there is neither Node nor a checkout: its demo agent answers and its page opens."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from page.person import Person
from page.server import PAGE, Server

ROOT = PAGE.parents[4]

# Parts of the page that come from others, by the names of their packages.
BUNDLED = ("react", "react-dom", "marked", "katex", "diff", "@xterm/headless", "highlight.js")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PAGE.exists():
        pytest.skip("the page is not built: `make page`")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "DRAGOMAN_PAGE": "built"},
        check=True,
        capture_output=True,
        timeout=60,
    )
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment with the wheel and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    pip = [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True, timeout=300)
    return folder / "bin"


def test_the_wheel_has_the_licences_of_what_the_page_is_made_of(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        licences = archive.read("dragoman/bridge/page/licences.txt").decode()
    headings = {line.split(" ")[0] for line in licences.splitlines() if line.endswith((", MIT", ", BSD-3-Clause"))}
    assert set(BUNDLED) - headings == set()
    assert licences.count("Permission is hereby granted") > len(BUNDLED) // 2


@pytest.mark.timeout(400)
def test_the_wheel_alone_runs_the_demo_agent(environment: Path, tmp_path: Path) -> None:
    variables = {"PATH": str(environment), "HOME": str(tmp_path), "DRAGOMAN_DEMO_PACE": "0"}
    command = [str(environment / "dragoman"), "run", "hello"]
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "demo agent" in done.stdout


@pytest.mark.timeout(400)
def test_the_wheel_alone_shows_the_page(environment: Path, browser: Browser, tmp_path: Path) -> None:
    server = Server(tmp_path, python=str(environment / "python"), path=str(environment))
    server.start()
    try:
        person = Person.at(browser, server, width=1360, height=850)
        person.start_session()
        person.say("hello")
        person.sees("I am Dragoman's demo agent")
        person.leave()
    finally:
        server.stop()
