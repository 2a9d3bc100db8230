"""`import dragoman` costs next to nothing, and everything is there when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dragoman


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has after this."""
    program = f"{code}\nimport sys\nprint(' '.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=30)
    return set(ran.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_by("import dragoman; dragoman.__version__")
    assert not loaded & {"click", "rich", "asyncio", "msgspec", "json", "logging", "subprocess"}
    assert {name for name in loaded if name.startswith("dragoman")} == {"dragoman", "dragoman._version"}


def test_a_session_needs_neither_the_command_line_nor_a_terminal_library() -> None:
    loaded = loaded_by("import dragoman; dragoman.open_session; dragoman.run_sync; dragoman.AgentRuntime")
    assert {"asyncio", "msgspec"} <= loaded
    assert not loaded & {"click", "rich", "dragoman.cli", "dragoman.testing", "dragoman.agents.demo.agent"}


@pytest.mark.parametrize("name", dragoman.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(dragoman, name) is not None
    assert name in dir(dragoman)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        dragoman.no_such_name  # noqa: B018
