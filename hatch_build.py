"""Builds the page into the package, where Node is there to do it.

The sdist carries it built, so that nothing but Python is needed to install from it, or from a wheel.
`DRAGOMAN_PAGE=none` builds without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/dragoman/bridge/page"

# Not `npm ci`: it refuses a lock file that lacks the native parts of systems other than the one it was written on.
# What the lock file has is taken from it all the same.
STEPS = (["install", "--no-save", "--ignore-scripts"], ["run", "build"])


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # `make page` builds it in place
        root = Path(self.root)
        built = root / PAGE / "index.html"
        npm = shutil.which("npm")
        if os.environ.get("DRAGOMAN_PAGE") == "none":
            return
        if (root / "web").is_dir() and npm is not None:
            build(root / "web", npm)
        elif not built.exists():
            self.app.display_warning("built without the page: that needs Node 20.19 or later (npm)")
            return
        # It is no part of the repository, so it must be named.
        build_data["artifacts"].append(f"/{PAGE}/**")


def build(web: Path, npm: str) -> None:
    for step in STEPS:
        try:
            subprocess.run([npm, *step], cwd=web, check=True)
        except subprocess.CalledProcessError as problem:
            raise RuntimeError(
                f"the page was not built: `npm {' '.join(step)}` in {web} ended with {problem.returncode}; "
                "DRAGOMAN_PAGE=none builds the package without it"
            ) from problem
