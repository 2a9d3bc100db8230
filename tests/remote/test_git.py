"""Git actions of sessions on a server: by the client, by HTTP, for programs that are not async; and who may."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from dragoman.errors import GitActionError, InputError, ScopeMissing, ServerRefused
from dragoman.remote.client import SyncClient
from remote.real_server import RealServer
from workspace.repositories import Clone, git


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "repository").mkdir()
    return Clone(tmp_path / "repository")


async def test_a_remote_session_commits_and_pushes(server: RealServer, clone: Clone) -> None:
    async with server.client("admin") as client, client.open_session("demo", cwd=str(clone.root)) as session:
        clone.write("a.txt", "changed\n")
        clone.write("new", "new\n")
        state = await session.git.state()
        assert [(file.path, file.is_untracked) for file in state.files] == [("a.txt", False), ("new", True)]
        made = await session.git.commit("Change a", paths=["a.txt"])
        assert clone.git("log", "-1", "--format=%H %s") == f"{made.commit} Change a"
        assert (await session.git.push()).commit == made.commit
        assert git(clone.bare, "rev-parse", "main") == made.commit
        clone.hook("pre-commit", "echo not like this; exit 1")
        with pytest.raises(GitActionError, match="hook pre-commit") as refused:
            await session.git.commit("planted")
        assert "--trust-repository" in refused.value.guidance
        with pytest.raises(GitActionError, match="nothing was committed") as caught:
            await session.git.commit("trusted", trust_repository=True)
        assert "not like this" in caught.value.stderr
        with pytest.raises(InputError, match="no remote 'x'"):
            await session.git.push("x")
        with pytest.raises(GitActionError, match="neither on GitHub nor on GitLab"):
            await session.git.open_pull_request("Title")
        assert (await session.git.propose_message()).message


async def test_only_an_admin_acts_and_others_read(server: RealServer, clone: Clone) -> None:
    clone.write("a.txt", "changed\n")
    async with server.client("admin") as admin, admin.open_session("demo", cwd=str(clone.root)) as session:
        async with server.client("prompt") as client:
            other = await client.session(session.id)
            assert (await other.git.state()).file_count == 1
            for action in (
                other.git.commit("no"),
                other.git.push(),
                other.git.open_pull_request("no"),
                other.git.propose_message(),
            ):
                with pytest.raises((ScopeMissing, ServerRefused), match="admin"):
                    await action
            await other.leave()
        async with httpx.AsyncClient(base_url=server.url) as http:
            headers = {"Authorization": f"Bearer {server.token('view')}"}
            assert (await http.get(f"/v1/sessions/{session.id}/git", headers=headers)).status_code == 403
    assert clone.git("rev-list", "--count", "HEAD") == "1"


async def test_a_repository_above_the_folders_of_a_client_is_not_shown(
    server: RealServer, clone: Clone, tmp_path: Path
) -> None:
    clone.write("sub/file", "x\n")
    clone.write("secret name", "x\n")
    settings = server.home / "config.toml"
    settings.write_text(settings.read_text().replace(str(tmp_path), str(clone.root / "sub")))
    async with server.client("prompt") as client, client.open_session("demo", cwd=str(clone.root / "sub")) as session:
        with pytest.raises((ScopeMissing, ServerRefused), match="admin"):
            await session.git.state()


async def test_http_has_the_same(server: RealServer, clone: Clone) -> None:
    clone.write("a.txt", "changed\n")
    async with server.client("admin") as client, client.open_session("demo", cwd=str(clone.root)) as session:
        await session.run("hello")
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        headers = {"Authorization": f"Bearer {server.token('admin')}", "Idempotency-Key": "once"}
        path = f"/v1/sessions/{session.id}/git"
        assert (await http.get(path, headers=headers)).json()["files"][0]["path"] == "a.txt"
        body = {"message": "By HTTP"}
        made = (await http.post(f"{path}/commit", json=body, headers=headers)).json()
        assert (await http.post(f"{path}/commit", json=body, headers=headers)).json() == made
        assert clone.git("rev-list", "--count", "HEAD") == "2"
        headers = {"Authorization": headers["Authorization"]}
        nothing = await http.post(f"{path}/commit", json=body, headers=headers)
        assert (nothing.status_code, nothing.json()["error"]["error"]) == (409, "GitActionError")
        assert (await http.post(f"{path}/push", json={}, headers=headers)).json()["commit"] == made["commit"]
        assert (await http.post(f"{path}/commit", json={}, headers=headers)).status_code == 400
        missing = await http.get("/v1/sessions/missing/git", headers=headers)
        assert missing.status_code == 404


async def test_programs_that_are_not_async_have_the_same(server: RealServer, clone: Clone) -> None:
    def work() -> str:
        with (
            SyncClient(server.url, server.token("admin")) as client,
            client.open_session("demo", cwd=str(clone.root)) as session,
        ):
            clone.write("a.txt", "changed\n")
            assert session.git.state().file_count == 1
            assert session.git.propose_message().message
            made = session.git.commit("Not async")
            assert session.git.push().commit == made.commit
            with pytest.raises(GitActionError):
                session.git.open_pull_request("Title")
            return made.commit

    assert await asyncio.to_thread(work) == clone.git("rev-parse", "HEAD")
