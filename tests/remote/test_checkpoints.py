"""Checkpoints of sessions on a server: lists, differences and rewinds, and who may have them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from dragoman.errors import CheckpointError, ServerRefused
from remote.real_server import RealServer


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CHECKPOINTS", "on")


async def test_a_remote_session_is_compared_and_rewound(server: RealServer, folder: Path) -> None:
    async with server.client("admin") as client, client.open_session("demo", cwd=str(folder), access="full") as session:
        await session.run("edit")
        diff = await session.diff()
        assert [(file.path, file.status, file.is_claimed) for file in diff.files] == [("README.md", "added", True)]
        plan = await session.plan_rewind(1, before=True)
        assert [change.action for change in plan.changes] == ["delete"]
        done = await session.rewind(plan)
        assert done.is_done
        assert not (folder / "README.md").exists()
        with pytest.raises(CheckpointError, match="changed since"):
            await session.rewind(plan)
        await session.rewind(await session.plan_rewind(undo=True))
        assert (folder / "README.md").exists()
        moments = [checkpoint.moment for checkpoint in await session.checkpoints()]
        assert moments == ["opened", "before", "after", "rewind", "rewind"]


async def test_only_an_admin_may_rewind_and_see_files_that_rules_guard(server: RealServer, folder: Path) -> None:
    settings = server.home / "config.toml"
    settings.write_text(f'{settings.read_text()}\n[[policy]]\nanswer = "deny"\nkind = "read"\npath = "**/README.md"\n')
    async with server.client("admin") as admin, admin.open_session("demo", cwd=str(folder), access="full") as session:
        await session.run("edit")
        assert (await session.diff()).files[0].hunks
        async with server.client("prompt") as client:
            other = await client.session(session.id)
            diff = await other.diff()
            assert diff.files[0].hunks == ()
            assert diff.files[0].hidden_reason is not None
            # A link in its place has another target, and the recorded lines are still those of the file.
            (folder / "free.txt").touch()
            (folder / "README.md").unlink()
            (folder / "README.md").symlink_to("free.txt")
            assert (await other.diff()).files[0].hunks == ()
            with pytest.raises(ServerRefused, match="admin"):
                await other.plan_rewind(1, before=True)
            await other.leave()
        async with httpx.AsyncClient(base_url=server.url) as http:
            headers = {"Authorization": f"Bearer {server.token('view')}"}
            listed = await http.get(f"/v1/sessions/{session.id}/checkpoints", headers=headers)
            assert [item["moment"] for item in listed.json()["checkpoints"]] == ["opened", "before", "after"]
            assert (await http.get(f"/v1/sessions/{session.id}/diff", headers=headers)).status_code == 403


async def test_http_has_the_same(server: RealServer, folder: Path) -> None:
    async with server.client("admin") as client, client.open_session("demo", cwd=str(folder), access="full") as session:
        await session.run("edit")
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        headers = {"Authorization": f"Bearer {server.token('admin')}"}
        path = f"/v1/sessions/{session.id}"
        diff = (await http.get(f"{path}/diff", params={"run": "1"}, headers=headers)).json()
        assert [file["path"] for file in diff["files"]] == ["README.md"]
        plan = (await http.post(f"{path}/rewind", json={"run": "1", "before": True}, headers=headers)).json()
        assert not plan["is_done"]
        body = {"run": "1", "before": True, "plan": plan["id"]}
        assert (await http.post(f"{path}/rewind", json=body, headers=headers)).json()["is_done"]
        assert not (folder / "README.md").exists()
        refused = await http.post(f"{path}/rewind", json=body, headers=headers)
        assert refused.status_code == 409
