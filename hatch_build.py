"""Build the page into the package, if Node is installed.

The sdist contains the built page, so that installing from it or from a wheel needs only Python.
`DRAGOMAN_PAGE=none` builds the package without the page.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/dragoman/bridge/page"

# Not `npm ci`: it refuses a lock file without the native packages of other systems than the one it was written on.
# The versions in the lock file are used all the same.
NPM_COMMANDS = (["install", "--no-save", "--ignore-scripts"], ["run", "build"])


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # `make page` builds it in place
        root = Path(self.root)
        index = root / PAGE / "index.html"
        npm = shutil.which("npm")
        if os.environ.get("DRAGOMAN_PAGE") == "none":
            return
        if (root / "web").is_dir() and npm is not None:
            build_page(root / "web", npm)
        elif not index.exists():
            self.app.display_warning("built without the page, which needs Node 20.19 or later (npm)")
            return
        # The built page is not in the repository, so it must be listed here.
        build_data["artifacts"].append(f"/{PAGE}/**")


def build_page(web: Path, npm: str) -> None:
    for command in NPM_COMMANDS:
        try:
            subprocess.run([npm, *command], cwd=web, check=True)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(
                f"the page was not built: `npm {' '.join(command)}` in {web} exited with {error.returncode}; "
                "DRAGOMAN_PAGE=none builds the package without it"
            ) from error
