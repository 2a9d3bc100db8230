"""Isolated evaluations: each attempt has a workspace of its own, sees no other, and leaves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import Isolation, PromptResponse, evaluate
from dragoman.errors import InputError
from dragoman.evaluation.response import NO_RETRY, RetryPolicy
from dragoman.host.permission import PermissionRequest, Reply
from dragoman.testing import command_of
from dragoman.testing.memory import memory_runtime
from dragoman.testing.scripted import ScriptedAgent
from workspace.sandbox_support import machine_with

pytestmark = pytest.mark.usefixtures("leaves_nothing")

AGENT = command_of(f"{Path(__file__).parents[1] / 'session' / 'isolated_agent.py'}:script")
MEETING = command_of(f"{Path(__file__).with_name('meeting_agent.py')}:script")


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have homes and temporary folders made below the test's folder; return that of the homes."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "dragoman"))
    return tmp_path / "dragoman" / "isolated"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "README.md").write_text("read me")
    for command in ("init -q", "add -A", "-c user.name=A -c user.email=a@b commit -qm first"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


def assert_nothing_left(tmp_path: Path, homes: Path) -> None:
    assert not list((tmp_path / "tmp").iterdir())
    assert not [path for path in homes.iterdir() if path.is_dir()]


async def test_concurrent_evaluations_on_one_repository_do_not_see_each_other(
    repository: Path, tmp_path: Path, homes: Path
) -> None:
    # Each writes the same file, asks, and tells what it finds when all others have written theirs too.
    texts = ["first", "second", "third"]
    all_have_written = asyncio.Barrier(len(texts))

    async def wait_for_others(request: PermissionRequest) -> Reply:
        await all_have_written.wait()
        return request.allow()

    async def one(text: str) -> PromptResponse[Any]:
        options: Any = {"cwd": repository, "access": "ask", "isolation": True, "retry": NO_RETRY}
        response: PromptResponse[Any] = await evaluate(MEETING, text, on_permission=wait_for_others, **options)
        return response

    responses = await asyncio.gather(*(one(text) for text in texts))
    for text, response in zip(texts, responses, strict=True):
        own = {"files": ["README.md", "result.txt"], "result": text, "temporary": [text], "home": [text]}
        assert json.loads(response.text) == own
    assert sorted(os.listdir(repository)) == [".git", "README.md"]
    assert len({response.stats.cwd for response in responses}) == 3
    assert_nothing_left(tmp_path, homes)


async def test_guards_see_the_files_of_the_attempt(repository: Path, tmp_path: Path, homes: Path) -> None:
    seen = []

    def check(response: PromptResponse[Any]) -> None:
        seen.append((Path(response.stats.cwd or "") / "result.txt").read_text())

    await evaluate(AGENT, "write result.txt made", cwd=repository, access="full", isolation=True, guards=check)
    assert seen == ["made"]
    assert not (repository / "result.txt").exists()
    assert_nothing_left(tmp_path, homes)


async def test_a_second_attempt_finds_nothing_of_the_first(repository: Path, tmp_path: Path, homes: Path) -> None:
    retry = RetryPolicy(attempts=2, backoff=0.0, categories=("agent",))
    response = await evaluate(
        AGENT, f"crash-once {tmp_path / 'crashed'}", cwd=repository, access="full", isolation=True, retry=retry
    )
    assert (response.stats.attempts, response.text) == (2, "[false, false]")
    assert_nothing_left(tmp_path, homes)


async def test_allowed_paths_are_those_of_the_copy(repository: Path, tmp_path: Path) -> None:
    (repository / "out").mkdir()
    options: Any = {"cwd": repository, "isolation": True, "allowed_paths": [repository / "out"], "retry": NO_RETRY}
    demo = await evaluate("demo", "edit README", **options)
    assert demo.stats.refused >= 1
    options["allowed_paths"] = ["README.md"]
    demo = await evaluate("demo", "edit README", **options)
    assert demo.stats.refused == 0
    assert (repository / "README.md").read_text() == "read me"


async def test_a_folder_without_git_is_copied_too(tmp_path: Path, homes: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "there.txt").write_text("there")
    response = await evaluate(AGENT, "files", cwd=folder, isolation=True)
    assert json.loads(response.text) == ["there.txt"]
    await evaluate(AGENT, "write there.txt changed", cwd=folder, access="full", isolation=True)
    assert (folder / "there.txt").read_text() == "there"
    assert_nothing_left(tmp_path, homes)


async def test_without_a_worktree_the_folder_itself_is_used(tmp_path: Path, homes: Path) -> None:
    isolation = Isolation(worktree=False)
    await evaluate(AGENT, "write made.txt here", cwd=tmp_path, access="full", isolation=isolation)
    assert (tmp_path / "made.txt").read_text() == "here"
    (tmp_path / "made.txt").unlink()
    assert_nothing_left(tmp_path, homes)


async def test_a_running_agent_cannot_be_isolated(tmp_path: Path) -> None:
    async with memory_runtime(ScriptedAgent().main) as runtime:
        with pytest.raises(InputError, match="runs already"):
            await evaluate(runtime, "hello", cwd=tmp_path, isolation=True)


async def test_an_adapter_isolates_every_prompt(repository: Path, tmp_path: Path, homes: Path) -> None:
    adapter = dragoman.AcpAdapter(
        dragoman.ModelConfig(agent=AGENT), dragoman.AdapterConfig(cwd=repository, access="full", isolation=True)
    )
    await adapter.evaluate("write result.txt made")
    assert json.loads((await adapter.evaluate("files")).text) == ["README.md"]
    assert_nothing_left(tmp_path, homes)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has these mechanisms")
@pytest.mark.parametrize("mechanism", ["bubblewrap", "landlock", "landlock without namespaces"])
async def test_a_copy_can_be_used_in_a_sandbox_with_its_history(
    mechanism: str, repository: Path, tmp_path: Path, homes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_with(mechanism)
    monkeypatch.setattr("dragoman.workspace.sandbox.this_machine", lambda: machine)
    homes.parent.mkdir()
    (homes.parent / "config.toml").write_text(f"sandbox_read = [{json.dumps(str(Path(__file__).parents[1]))}]")
    prompt = f"command git log --format=%s; git commit -qm second --allow-empty; cat {repository}/README.md || echo no"
    options: Any = {"cwd": repository, "access": "full", "isolation": True, "sandbox": mechanism.split()[0]}
    response = await evaluate(AGENT, prompt, **options)
    lines = response.text.split()
    assert lines[0] == "first"
    assert lines[-1] == "no"  # the original cannot be read
    assert_nothing_left(tmp_path, homes)
