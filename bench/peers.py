"""The peers: the official SDKs at pinned versions, installed by the bench into a cache folder and reused.

Nothing is installed into the project's own environment. `$DRAGOMAN_TEST_CACHE` names the cache folder,
`.cache/` in the checkout by default.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

from bench.measure import ROOT, Unavailable, last_line

PYTHON_SDK = ("agent-client-protocol", "0.12.1")
CLAUDE_CODE_LOG = ("claude-code-log", "1.7.0")
TS_SDK = ("@agentclientprotocol/sdk", "2.4.0")

# A first install downloads a few megabytes; a network that takes longer than this is as good as none.
INSTALL_TIMEOUT_SECONDS = 300

# Prints the versions of the named packages in the interpreter that runs it, and of that interpreter.
ASK_VERSIONS = """
import json, platform, sys
from importlib.metadata import version
print(json.dumps({"python": platform.python_version(), **{name: version(name) for name in sys.argv[1:]}}))
"""


def cache_folder() -> Path:
    return Path(os.environ.get("DRAGOMAN_TEST_CACHE") or ROOT / ".cache").resolve() / "bench"


@dataclass(frozen=True)
class Peers:
    """The peers. Each is installed when it is first needed; if that fails, `Unavailable` is raised."""

    folder: Path
    say: Callable[[str], None]

    @cached_property
    def python(self) -> Path:
        """Return an interpreter of our own version that can `import acp`."""
        return self._environment("py", *PYTHON_SDK)

    @cached_property
    def claude_code_log(self) -> Path:
        """Return the path of the program `claude-code-log`, in an environment of its own."""
        return self._environment("claude-code-log", *CLAUDE_CODE_LOG).with_name("claude-code-log")

    def _environment(self, folder: str, name: str, version: str) -> Path:
        """Return the interpreter of an environment that has this package."""
        home = self.folder / folder
        python = home / "bin" / "python"
        if self._python_versions(python, name) != {"python": _our_python(), name: version}:
            self.say(f"installing {name} {version} (Python) into {_shown(home)}")
            _install([sys.executable, "-m", "venv", "--clear", str(home)])
            _install([str(python), "-m", "pip", "install", "--quiet", f"{name}=={version}"])
        return python

    @cached_property
    def node(self) -> Path:
        """Return a folder in which Node finds the TypeScript SDK."""
        name, version = TS_SDK
        home = self.folder / "node"
        if not shutil.which("node") or not shutil.which("npm"):
            raise Unavailable("Node and npm are needed for it; install them and run the bench again")
        if self._node_version(name) != version:
            self.say(f"installing {name} {version} (Node) into {_shown(home)}")
            home.mkdir(parents=True, exist_ok=True)
            _install(
                ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(home), f"{name}@{version}"]
            )
        return home

    def versions(self) -> dict[str, str]:
        """Return the installed versions of the peers and their dependencies."""
        found = self._python_versions(self.folder / "py" / "bin" / "python", PYTHON_SDK[0], "pydantic")
        found |= self._python_versions(self.folder / "claude-code-log" / "bin" / "python", CLAUDE_CODE_LOG[0])
        found.pop("python", None)
        if node := shutil.which("node"):
            found["Node"] = (
                subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip().lstrip("v")
            )
        for name in (TS_SDK[0], "zod"):
            if version := self._node_version(name):
                found[name] = version
        return found

    def _python_versions(self, python: Path, *names: str) -> dict[str, str]:
        if not python.exists():
            return {}
        done = subprocess.run([str(python), "-c", ASK_VERSIONS, *names], capture_output=True, text=True)
        answer: dict[str, str] = {} if done.returncode else json.loads(done.stdout)
        return answer

    def _node_version(self, name: str) -> str:
        manifest = self.folder / "node" / "node_modules" / name / "package.json"
        return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else ""


def our_versions() -> dict[str, str]:
    found = {"Python": _our_python()}
    for name in ("dragoman", "msgspec"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _our_python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _install(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"installing it took over {INSTALL_TIMEOUT_SECONDS} s") from error
    if done.returncode:
        raise Unavailable(f"installing it failed: {last_line(done.stderr) or last_line(done.stdout)}")


def _shown(path: Path) -> str:
    """Return the path relative to the checkout if it is inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
