"""Changes of real agents are recorded before and after their runs, compared, taken back, and brought back."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.hub.hub import Hub

from .acts import all_events, allow
from .conftest import Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def test_what_an_agent_changes_by_a_command_is_compared_and_rewound(stage: Stage, tmp_path: Path) -> None:
    (stage.folder / "mine.txt").write_bytes(b"mine\r\n")
    async with Hub(tmp_path / "dragoman") as hub, stage.runtime(journal_client=hub.journal_client) as runtime:
        session = await runtime.open_session(stage.config(allow, checkpoints=True))
        command = stage.agent.run("echo made > made.txt; echo changed > mine.txt")
        first = session.run(f"[[say:Doing.]]{command}[[say:It is done.]]")
        await all_events(first)
        diff = await session.diff(first)
        assert [(file.path, file.status) for file in diff.files] == [("made.txt", "added"), ("mine.txt", "modified")]
        second = session.run("[[say:Nothing else.]]")
        await all_events(second)
        assert (await session.diff(second)).files == ()
        await session.rewind(await session.plan_rewind(first, before=True))
        assert (stage.folder / "mine.txt").read_bytes() == b"mine\r\n"
        assert not (stage.folder / "made.txt").exists()
        await session.rewind(await session.plan_rewind(undo=True))
        assert (stage.folder / "mine.txt").read_text() == "changed\n"
        assert (stage.folder / "made.txt").read_text() == "made\n"
