"""The official SDKs at pinned versions, installed into a cache folder and kept there.

Nothing is installed into the project's own environment. `$DRAGOMAN_TEST_CACHE` names the cache, `.cache/` in the
checkout by default.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PYTHON_PACKAGES = {"agent-client-protocol": "0.12.1", "uvicorn": "0.54.0", "websockets": "17.4", "httpx": "0.28.1"}
NODE_PACKAGES = {"@agentclientprotocol/sdk": "2.4.0", "ws": "8.22.2"}

# A first install downloads some megabytes; a network that takes longer than this is as good as none.
INSTALL_SECONDS = 300


class CannotInstall(Exception):
    pass


def folder() -> Path:
    return Path(os.environ.get("DRAGOMAN_TEST_CACHE") or ROOT / ".cache").resolve() / "interop"


def python_sdk(announce: Callable[[str], None]) -> Path:
    """An interpreter of our own version that has the Python SDK and a server to run it in."""
    home = folder() / "py"
    python = home / "bin" / "python"
    expected = {"python": list(sys.version_info[:3]), **PYTHON_PACKAGES}
    with _cached(home, expected) as missing:
        if missing:
            announce(f"installing the Python SDK {PYTHON_PACKAGES['agent-client-protocol']} into {_shown(home)}")
            _run([sys.executable, "-m", "venv", "--clear", str(home)])
            packages = [f"{name}=={version}" for name, version in PYTHON_PACKAGES.items()]
            _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
    return python


def node_sdk(announce: Callable[[str], None]) -> Path:
    """A folder in which Node finds the TypeScript SDK."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise CannotInstall("Node and npm are not installed")
    home = folder() / "node"
    with _cached(home, NODE_PACKAGES) as missing:
        if missing:
            announce(f"installing the TypeScript SDK {NODE_PACKAGES['@agentclientprotocol/sdk']} into {_shown(home)}")
            home.mkdir(parents=True, exist_ok=True)
            packages = [f"{name}@{version}" for name, version in NODE_PACKAGES.items()]
            _run(["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(home), *packages])
    return home


@contextmanager
def _cached(home: Path, expected: object) -> Iterator[bool]:
    """Yield True if the package must be installed; lock out other processes, and record the version on success."""
    home.parent.mkdir(parents=True, exist_ok=True)
    note = home.parent / f"{home.name}.json"
    with (home.parent / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = not home.exists() or not note.exists() or json.loads(note.read_text()) != expected
        if missing:
            note.unlink(missing_ok=True)
        yield missing
        note.write_text(json.dumps(expected))


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"{command[0]} took over {INSTALL_SECONDS} s") from None
    if done.returncode:
        raise CannotInstall((done.stderr or done.stdout).strip()[-500:])


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
