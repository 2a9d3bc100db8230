"""An approval that showed the content is not asked for again when the agent has us carry it out."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.host.permission import PermissionRequest
from dragoman.workspace import Workspace

from .conftest import Agent, Build


class Person:
    """Allows everything, and remembers what was asked."""

    def __init__(self) -> None:
        self.origins: list[str] = []

    def __call__(self, request: PermissionRequest) -> bool:
        self.origins.append(request.origin)
        return True


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
def agent(agent_with: Build, person: Person) -> Agent:
    return agent_with(on_permission=person)


def edit(workspace: Workspace, text: str = "new") -> dict[str, Any]:
    diff = {"type": "diff", "path": str(workspace.cwd / "a.txt"), "oldText": "", "newText": text}
    return {"kind": "edit", "content": [diff]}


async def write(agent: Agent, text: str = "new", name: str = "a.txt") -> None:
    await agent.ask("fs/write_text_file", path=str(agent.workspace.cwd / name), content=text)


async def test_the_write_that_was_shown_is_asked_once(agent: Agent, workspace: Workspace, person: Person) -> None:
    # opencode and gemini ask so, and then write through us.
    await agent.permission(**edit(workspace))
    await write(agent)
    assert person.origins == ["agent"]
    assert agent.decisions[1] == (2, "callback", "it was allowed when the agent asked for it")


async def test_an_approval_is_used_up(agent: Agent, workspace: Workspace, person: Person) -> None:
    await agent.permission(**edit(workspace))
    await write(agent)
    (workspace.cwd / "a.txt").write_text("")  # as it was
    await write(agent)
    assert person.origins == ["agent", "files"]


@pytest.mark.parametrize(("text", "name"), [("other", "a.txt"), ("new", "b.txt")])
async def test_another_text_or_another_file_is_asked(
    agent: Agent, workspace: Workspace, person: Person, text: str, name: str
) -> None:
    await agent.permission(**edit(workspace))
    await write(agent, text, name)
    assert person.origins == ["agent", "files"]


async def test_a_write_whose_old_text_was_not_the_files_is_asked(
    agent: Agent, workspace: Workspace, person: Person
) -> None:
    # Shown was the difference to a text that is nowhere: nearly all of what would be written was not seen.
    (workspace.cwd / "a.txt").write_text("mine\n")
    diff = {"type": "diff", "path": str(workspace.cwd / "a.txt"), "oldText": "evil\n", "newText": "evil\n# hello\n"}
    await agent.permission(kind="edit", content=[diff])
    await write(agent, "evil\n# hello\n")
    assert person.origins == ["agent", "files"]


@pytest.mark.parametrize("old_text", ["one\r\ntwo\r\n", "one\ntwo\n"])
async def test_line_ends_of_the_old_text_make_no_difference(
    agent: Agent, workspace: Workspace, person: Person, old_text: str
) -> None:
    (workspace.cwd / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    call = edit(workspace, "one\nthree\n")
    call["content"][0]["oldText"] = old_text
    await agent.permission(**call)
    await write(agent, "one\nthree\n")
    assert (workspace.cwd / "a.txt").read_bytes() == b"one\r\nthree\r\n"
    assert person.origins == ["agent"]


async def test_an_id_that_also_refuses_approves_nothing(agent_with: Build, workspace: Workspace) -> None:
    origins: list[str] = []

    def person(request: PermissionRequest) -> str:
        origins.append(request.origin)
        return "x" if request.origin == "agent" else "reject"

    agent = agent_with(on_permission=person)
    options = [
        {"optionId": "x", "name": "Reject", "kind": "reject_once"},
        {"optionId": "x", "name": "Allow", "kind": "allow_once"},
    ]
    await agent.permission(*options, **edit(workspace))
    await agent.refused("fs/write_text_file", path=str(workspace.cwd / "a.txt"), content="new")
    assert origins == ["agent", "files"]


async def test_an_approval_ends_with_its_run(agent: Agent, workspace: Workspace, person: Person) -> None:
    for end in (agent.host.run_ended, agent.host.cancel_pending):
        (workspace.cwd / "a.txt").write_text("")
        await agent.permission(**edit(workspace))
        end()
        await write(agent)
    assert person.origins == ["agent", "files"] * 2


async def test_a_refusal_approves_nothing(agent_with: Build, workspace: Workspace) -> None:
    agent = agent_with(on_permission=lambda _: False)
    await agent.permission(**edit(workspace))
    assert (await agent.refused("fs/write_text_file", path=str(workspace.cwd / "a.txt"), content="new")).code == -32001


async def test_a_bare_title_approves_nothing(agent: Agent, workspace: Workspace, person: Person) -> None:
    await agent.permission(kind="edit", locations=[{"path": str(workspace.cwd / "a.txt")}])
    await write(agent)
    assert person.origins == ["agent", "files"]


async def test_the_command_that_was_shown_is_asked_once(agent: Agent, person: Person) -> None:
    # goose asks so, and then runs it through us.
    await agent.permission(kind="other", rawInput={"command": "echo a && echo b"})
    await agent.ask("terminal/create", command="echo a && echo b")
    assert person.origins == ["agent"]
    await agent.ask("terminal/create", command="echo a && echo b")
    assert person.origins == ["agent", "terminals"]


@pytest.mark.parametrize(("shell", "asked_again"), [("sh", False), ("/bin/bash", False), ("./sh", True)])
async def test_a_line_that_is_handed_to_a_shell_is_the_same_line(
    agent: Agent, workspace: Workspace, person: Person, shell: str, asked_again: bool
) -> None:
    (workspace.cwd / "sh").symlink_to("/bin/sh")
    await agent.permission(kind="execute", rawInput={"command": "echo a | cat"})
    await agent.ask("terminal/create", command=shell, args=["-c", "echo a | cat"])
    assert person.origins == ["agent", *(["terminals"] if asked_again else [])]


async def test_a_command_as_words_is_the_same_command(agent: Agent, person: Person) -> None:
    await agent.permission(kind="execute", rawInput={"command": ["echo", "a b"]})
    await agent.ask("terminal/create", command="echo", args=["a b"])
    assert person.origins == ["agent"]


async def test_a_command_with_variables_or_elsewhere_is_another(
    agent: Agent, workspace: Workspace, person: Person
) -> None:
    (workspace.cwd / "sub").mkdir()
    await agent.permission(kind="execute", rawInput={"command": "echo"})
    await agent.ask("terminal/create", command="echo", env=[{"name": "PATH", "value": "/bin:/usr/bin"}])
    await agent.ask("terminal/create", command="echo", cwd=str(workspace.cwd / "sub"))
    assert person.origins == ["agent", "terminals", "terminals"]


async def test_a_command_is_never_covered_by_a_write(agent: Agent, workspace: Workspace, person: Person) -> None:
    await agent.permission(**edit(workspace), rawInput={"command": "echo"})
    await write(agent)
    assert person.origins == ["agent", "files"]
