"""Build the page into the package.

The sdist contains the built page, so that installing from it or from a wheel needs only Python. Without Node and
without a built page the build fails, unless it is asked for a package without the page.

`DRAGOMAN_PAGE` changes that:

none    build the package without the page
built   take the page as it is, and build it no more
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
        wanted = os.environ.get("DRAGOMAN_PAGE", "")
        if wanted == "none":
            return
        root = Path(self.root)
        npm = shutil.which("npm")
        if wanted != "built" and (root / "web").is_dir() and npm is not None:
            build_page(root / "web", npm)
        elif not (root / PAGE / "index.html").exists():
            raise RuntimeError(
                "the page is not built, and building it needs Node 20.19 or later (npm), which was not found. Install "
                "Node, or set DRAGOMAN_PAGE=none to build the package without the page"
            )
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
