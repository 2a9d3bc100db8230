"""Real agents propose commit messages: beside the session, without tools, in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config import load
from dragoman.hub.commit_message import ask_for_message
from dragoman.session.client import LocalClient
from dragoman.workspace.commit_diff import describe_changes
from dragoman.workspace.git_actions import commit
from workspace.repositories import Clone

from .conftest import Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def test_an_agent_proposes_the_message_of_a_commit(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    clone = Clone(tmp_path / "repository")
    clone.write("a.txt", "[[say:Add retries]]\n")  # which the scripted model follows
    changes = describe_changes(clone.repository)
    message = await ask_for_message(LocalClient(config=load()), stage.spec, changes)
    assert message == "Add retries"
    assert commit(clone.repository, message).subject == "Add retries"
    assert clone.git("status", "--porcelain") == ""
