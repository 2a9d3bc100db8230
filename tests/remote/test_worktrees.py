"""Worktrees on a server: sessions in them, what becomes of them, and who may do that."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from dragoman.errors import ServerRefused, WorktreeError
from dragoman.protocol.worktrees import WorktreeChoice
from remote.real_server import RealServer
from workspace.folder_state import run_git
from workspace.worktree_stage import make_repository


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CHECKPOINTS", "on")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


async def test_a_remote_session_works_in_a_worktree_which_is_applied_merged_and_dropped(
    server: RealServer, repository: Path
) -> None:
    async with server.client("admin") as client:
        async with client.open_session("demo", cwd=str(repository), access="full", worktree="mine") as session:
            assert session.worktree == "mine"
            await session.run("edit")
            (item,) = await client.sessions()
            assert item.worktree == "mine"
        assert not (repository / "README.md").exists()
        (info,) = await client.worktrees.list_worktrees()
        found = await client.worktrees.find(info.id)
        assert [file.path for file in (await found.changes()).files] == ["README.md"]
        plan = await found.apply()
        assert (await found.apply(plan)).is_done
        assert (repository / "README.md").exists()
        with pytest.raises(WorktreeError, match="changed since"):
            await found.apply(plan)
        await found.apply(await found.apply(undo=True))
        merged = await found.merge(commit="Add a README")
        assert (merged.kind, merged.is_done) == ("fast-forward", True)
        await found.drop()
        assert (await client.worktrees.list_worktrees(dropped=True))[0].name == "mine"
        assert (await client.worktrees.recover("mine")).info.state == "ready"
        assert await client.worktrees.prune() == ()
        await found.keep()
        assert await client.worktrees.list_worktrees() == ()


async def test_only_an_admin_may_change_anything(server: RealServer, repository: Path) -> None:
    async with server.client("admin") as admin, admin.open_session("demo", cwd=str(repository)) as first:
        await first.run("hello")
        async with server.client("prompt") as client:
            async with client.open_session("demo", cwd=str(repository), worktree="theirs") as session:
                await session.run("hello")
                assert [info.name for info in await client.worktrees.list_worktrees()] == ["theirs"]
                found = await client.worktrees.find("theirs")
                for request in (found.apply(), found.merge(commit="x"), found.drop(force=True), found.keep()):
                    with pytest.raises(ServerRefused, match="admin"):
                        await request
                with pytest.raises(ServerRefused, match="admin"):
                    await client.worktrees.recover("theirs")
                with pytest.raises(ServerRefused, match="admin"):
                    await client.worktrees.prune(remove=True)
            setup = WorktreeChoice(setup="touch /tmp/owned")
            with pytest.raises(ServerRefused, match="setup command"):
                await client.open_session("demo", cwd=str(repository), worktree=setup)
        async with server.client("view") as viewer:
            with pytest.raises(ServerRefused, match="prompt"):
                await viewer.worktrees.list_worktrees()
    assert run_git(repository, "log", "--format=%s").split() == ["first"]


async def test_worktrees_of_other_folders_are_not_shown_without_admin(server: RealServer, repository: Path) -> None:
    (server.home / "config.toml").write_text("")  # no folder is allowed
    async with (
        server.client("admin") as admin,
        admin.open_session("demo", cwd=str(repository / "sub"), worktree="hidden") as session,
        server.client("prompt") as client,
    ):
        await session.run("hello")
        assert await client.worktrees.list_worktrees() == ()
        with pytest.raises(ServerRefused, match="nobody with the scope admin"):
            await client.worktrees.find("hidden")


async def test_http_has_the_same(server: RealServer, repository: Path) -> None:
    headers = {"Authorization": f"Bearer {server.token('admin')}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
        body = {"agent": "demo", "cwd": str(repository), "access": "full", "worktree": {"name": "mine"}}
        opened = await http.post("/v1/sessions", json=body)
        assert opened.status_code == 201, opened.text
        await http.post(f"/v1/sessions/{opened.json()['session_id']}/close", json={})
        (info,) = (await http.get("/v1/worktrees")).json()["worktrees"]
        (Path(info["folder"]) / "new.txt").write_text("new\n")
        shown = (await http.get(f"/v1/worktrees/{info['id']}")).json()
        assert [file["path"] for file in shown["files"]] == ["new.txt"]
        plan = (await http.post("/v1/worktrees/mine/apply", json={})).json()
        done = await http.post("/v1/worktrees/mine/apply", json={"plan": plan["id"]})
        assert done.json()["is_done"]
        assert (repository / "new.txt").exists()
        (repository / "new.txt").unlink()
        merged = await http.post("/v1/worktrees/mine/merge", json={"commit": "new"})
        assert merged.json()["kind"] == "fast-forward"
        assert (await http.post("/v1/worktrees/mine/drop", json={})).json()["state"] == "dropped"
        assert (await http.get("/v1/worktrees/mine")).status_code in (400, 404, 422)
        assert (await http.post("/v1/worktrees/mine/recover", json={})).json()["state"] == "ready"
        assert (await http.post("/v1/worktrees/prune", json={})).json() == {"leftovers": []}
