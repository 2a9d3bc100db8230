"""`skill.list` and `skill.set` on a real server, and prompts with skills through it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from bridge.socket_client import TIMEOUT_S, RealServer, SocketClient, View, real_server
from dragoman.config import make_home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "skills/review").mkdir(parents=True)
    (folder / "skills/review/SKILL.md").write_text("---\nname: review\ndescription: Reviews code\n---\nREVIEW\n")
    (folder / "skills/broken").mkdir()
    (folder / "skills/broken/SKILL.md").write_text("nothing")
    (folder / "prompts").mkdir()
    (folder / "prompts/greet.md").write_text("Say hello to $1.")
    return folder


@pytest.fixture
async def server(tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RealServer]:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    home = make_home(tmp_path / "home")
    (home / "config.toml").write_text(f'folders = ["{work}"]\n')
    async with real_server(home) as server:
        yield server


def states(result: dict[str, Any]) -> dict[str, str]:
    return {skill["name"]: skill["problem"] or skill["state"] for skill in result["skills"]}


async def opened(client: SocketClient, folder: Path, **fields: object) -> str:
    return str((await client.call("session.open", agent="demo", cwd=str(folder), **fields))["session_id"])


def has_ended(count: int) -> Callable[[View], bool]:
    """Return a condition: there are so many runs, and all have ended."""
    return lambda view: len(view.rows("runs")) == count and view.settled


async def test_skills_and_templates_of_a_folder_and_of_a_session_are_listed(server: RealServer, work: Path) -> None:
    async with server.client("prompt") as client:
        result = await client.call("skill.list", cwd=str(work))
        assert states(result) == {"broken": "it has no description", "review": "listed"}
        review = next(skill for skill in result["skills"] if skill["name"] == "review")
        assert (review["path"], review["place"]) == (str(work / "skills/review/SKILL.md"), "workspace")
        assert [(each["name"], each["problem"]) for each in result["templates"]] == [("greet", "")]
        assert result["budget"] == 32 * 1024
        session_id = await opened(client, work)
        assert await client.call("skill.list", session_id=session_id) == result
        assert (await client.call_refused("skill.list"))["kind"] == "invalid"
        assert (await client.call_refused("skill.list", session_id="none"))["kind"] == "not_found"
    url = f"http://127.0.0.1:{server.port}/v1/skills"
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {server.token('prompt')}"}) as http:
        answer = await http.get(url, params={"cwd": str(work)}, timeout=TIMEOUT_S)
        assert (answer.status_code, answer.json()) == (200, result)


async def test_a_state_is_set_by_an_admin_and_counts_from_the_next_prompt_on(server: RealServer, work: Path) -> None:
    async with server.client("admin") as client:
        session_id = await opened(client, work)
        view = await client.follow(session_id)
        for count, state in enumerate(("always", "off", None), 1):
            result = await client.call("skill.set", cwd=str(work), name="review", state=state)
            assert states(result)["review"] == (state or "listed")
            await client.call("session.prompt", session_id=session_id, text="hello")
            await client.wait_for(view, has_ended(count))
        contexts = [run["context"] for run in view.rows("runs")]
        assert [[skill["name"] for skill in context["skills"]] if context else None for context in contexts] == [
            ["review"],
            None,
            [],
        ]
        assert {row["text"] for row in view.rows("messages") if row["kind"] == "user"} == {"hello"}
        refused = await client.call_refused("skill.set", cwd=str(work), name="reviw", state="off")
        assert (refused["kind"], refused["field"]) == ("not_found", "name")
        assert "did you mean 'review'?" in refused["message"]


async def test_a_prompt_and_a_session_name_skills(server: RealServer, work: Path) -> None:
    async with server.client("prompt") as client:
        session_id = await opened(client, work, skills=[])
        view = await client.follow(session_id)
        await client.call("session.prompt", session_id=session_id, text="hello")
        await client.wait_for(view, has_ended(1))
        await client.call("session.prompt", session_id=session_id, text="hello", skills=["review"])
        await client.wait_for(view, has_ended(2))
        none, named = (run["context"] for run in view.rows("runs"))
        assert none is None
        assert ([skill["name"] for skill in named["skills"]], named["listed"]) == (["review"], 0)
        idle_id = await opened(client, work)
        refused = await client.call_refused("session.prompt", session_id=idle_id, text="hello", skills=["broken"])
        assert (refused["kind"], "cannot be used" in refused["message"]) == ("invalid", True)
        refused = await client.call_refused("session.open", agent="demo", cwd=str(work), skills=["nothing"])
        assert (refused["kind"], "there is no skill" in refused["message"]) == ("invalid", True)


@pytest.mark.attempts("scopes")
async def test_skills_need_their_scopes(server: RealServer, work: Path, tmp_path: Path) -> None:
    (tmp_path / "user/skills").mkdir(parents=True)
    async with server.client("view") as client:
        assert (await client.call_refused("skill.list", cwd=str(work)))["kind"] == "forbidden"
    async with server.client("prompt") as client:
        for folder in (tmp_path / "user", tmp_path / "missing", tmp_path / "home"):
            assert (await client.call_refused("skill.list", cwd=str(folder)))["kind"] == "forbidden"
        refused = await client.call_refused("skill.set", cwd=str(work), name="review", state="always")
        assert refused["kind"] == "forbidden"
    assert not (tmp_path / "home/settings.json").exists()
