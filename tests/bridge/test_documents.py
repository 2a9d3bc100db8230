"""docs/api.md does what it says: its commands, typed into a shell one after the other."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from bridge.serve_process import TIMEOUT_S, served

API = Path(__file__).resolve().parents[2] / "docs" / "api.md"
COMMANDS = "\n".join(re.findall(r"^```sh\n(.*?)^```$", API.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


@pytest.mark.skipif(shutil.which("curl") is None, reason="the document's commands are for curl")
async def test_every_command_of_the_api_document_works(tmp_path: Path) -> None:
    async with served(tmp_path / "home") as server, await server.program() as program:
        token = program.headers["authorization"].removeprefix("Bearer ")
        env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "URL": await server.url(), "TOKEN": token, "HOME": str(tmp_path)}
        script = f"shopt -s expand_aliases\nset -e\n{COMMANDS}"
        shell = await asyncio.create_subprocess_exec(
            "bash", "-c", script, env=env, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(TIMEOUT_S):
            out, err = await shell.communicate()
    assert (shell.returncode, err.decode()) == (0, ""), out.decode()
    assert '"status":"success"' in out.decode()
    assert "event: run\n" in out.decode()
    opened = re.findall(r'{"session_id":"([^"]+)","state"', out.decode())
    assert len(opened[-2:]) == 2
    assert opened[-1] == opened[-2]
