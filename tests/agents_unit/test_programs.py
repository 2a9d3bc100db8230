"""Tests of real agents do not depend on what else the machine has."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from support.programs import path_without


def test_a_program_is_hidden_and_its_neighbours_are_found(tmp_path: Path) -> None:
    for folder, name in (("one", "bwrap"), ("one", "ls"), ("two", "cat")):
        program = tmp_path / folder / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    path = os.pathsep.join(str(tmp_path / name) for name in ("one", "two", "missing"))
    assert shutil.which("bwrap", path=path) is not None
    hidden = path_without(("bwrap",), tmp_path / "links", path)
    assert shutil.which("bwrap", path=hidden) is None
    assert shutil.which("ls", path=hidden) is not None
    assert shutil.which("cat", path=hidden) == str(tmp_path / "two/cat")
    assert path_without(("bwrap",), tmp_path / "links", path) == hidden  # a second time, over the same links
