"""Messages of the server contain no camelCase, no native records and no secrets."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.socket_client import TIMEOUT_S, JsonObject, SocketClient, View, real_server
from dragoman.bridge import socket as bridge_socket
from dragoman.journal.transfer import import_lines
from dragoman.wire.vocabulary import EnvVariable, McpServerStdio


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test asks more in a second than a page would."""
    monkeypatch.setattr(bridge_socket, "MAX_BURST", 10**6)


FOLDER = Path(os.environ.get("DRAGOMAN_RECORDINGS") or Path(__file__).resolve().parents[3] / "shared" / "recordings")
RECORDINGS = sorted(FOLDER.glob("*/*.jsonl"))

# What is carried as the agent wrote it: its own words, JSON Schemas, answers to these, and the names of currencies.
VERBATIM = {"raw_input", "raw_output", "meta", "schema", "content", "cost"}
SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def keys(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Each key of ours, and where it stands. The `content` of a tool call is ours, that of an answer is not."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, at
            ours = isinstance(inner, list) or (isinstance(inner, dict) and "type" in inner)
            if key not in VERBATIM or (key == "content" and ours):
                yield from keys(inner, f"{at}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, f"{at}[]")


def check_names(heard: list[JsonObject]) -> None:
    for message in heard:
        for key, at in keys(message):
            assert SNAKE.fullmatch(key), (key, at, message.get("type"))


async def answered(talk: SocketClient, view: View) -> None:
    """Allow every permission and answer every question until the session is idle."""
    done: set[str] = set()
    while not view.settled:
        for row in view.rows("permissions"):
            if row["outcome"] == "pending" and row["id"] not in done:
                done.add(row["id"])
                fields = {"session_id": view.session_id, "permission_id": row["id"]}
                await talk.call("policy.preview", **fields)
                await talk.call("permission.answer", answer="allow", **fields)
        for row in view.rows("questions"):
            if row["action"] == "pending" and row["id"] not in done:
                done.add(row["id"])
                await talk.call("question.answer", session_id=view.session_id, question_id=row["id"], action="decline")
        if not view.settled:
            await talk.receive()


async def looked_at(talk: SocketClient, session_id: str) -> None:
    """All that can be asked about a session."""
    await talk.call("session.history", session_id=session_id, before=10**9)
    await talk.call("session.export", session_id=session_id, format="markdown")
    await talk.call("session.export", session_id=session_id, format="jsonl")
    view = await talk.follow(session_id, limit=5000)
    for table, rows in view.tables.items():
        for row_id in list(rows)[:3]:
            if table != "plans":
                await talk.call("session.row", session_id=session_id, table=table, row_id=row_id)
    await talk.send(type="unsubscribe", stream="session", id=session_id)
    talk.views.remove(view)


async def frames_of(talk: SocketClient, session_id: str) -> list[JsonObject]:
    """Return the frames of a session, as a client gets them that subscribes with `frames`."""
    talk.views = [view for view in talk.views if view.session_id != session_id]
    await talk.send(type="subscribe", stream="session", id=session_id, frames=True)
    found: list[JsonObject] = (await talk.until(lambda message: "frames" in message))["frames"]
    return found


async def asked_all(talk: SocketClient) -> None:
    for stream in ("sessions", "permissions", "agents"):
        await talk.send(type="subscribe", stream=stream)
        await talk.until(lambda message, stream=stream: message.get("stream") == stream)  # type: ignore[misc]
    for control in ("session.list", "agent.list", "token.list", "policy.list", "settings.get", "workspace.recent"):
        await talk.call(control)
    await talk.call("usage", by="model")
    await talk.call("search", text="demo")


async def test_every_key_of_a_tour_is_in_snake_case(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("hello\n")
    async with asyncio.timeout(2 * TIMEOUT_S), real_server(tmp_path / "home") as server, server.client() as talk:
        opened = await talk.call("session.open", agent="demo", cwd=str(tmp_path))
        session_id = opened["session_id"]
        view = await talk.follow(session_id)
        for text in ("tour", "tools", "ask me", "image", "link", "run echo hello", "error"):
            runs = len(view.rows("runs"))
            await talk.call("session.prompt", session_id=session_id, text=text)
            await talk.wait_for(view, lambda view, runs=runs: len(view.rows("runs")) > runs)  # type: ignore[misc]
            await answered(talk, view)
        await looked_at(talk, session_id)
        await asked_all(talk)
        await frames_of(talk, session_id)
        await talk.call_refused("session.prompt", session_id="absent", text="x")
        check_names(talk.received)
        assert view.rows("tool_calls")
        assert view.rows("terminals")
        assert view.rows("questions")


@pytest.mark.skipif(not RECORDINGS, reason=f"no recordings in {FOLDER}: set DRAGOMAN_RECORDINGS to their folder")
async def test_every_key_of_real_agents_sessions_is_in_snake_case(tmp_path: Path) -> None:
    numbers = itertools.count(1)
    async with asyncio.timeout(4 * TIMEOUT_S), real_server(tmp_path / "home") as server, server.client() as talk:
        journal = server.bridge.hub.journal
        sessions: list[str] = []
        for recording in RECORDINGS[:: max(1, len(RECORDINGS) // 40)]:
            lines = recording.read_bytes().splitlines()
            made = import_lines(journal, lines, new_id=lambda: f"imported-{next(numbers)}", agent=recording.parent.name)
            sessions.extend((await made).sessions)
        assert sessions
        for session_id in sessions:
            await looked_at(talk, session_id)
        check_names(talk.received)


NATIVE = "planted-native-record-5f2c"


def recording(session_id: str = "a") -> list[bytes]:
    """A session that was imported, with records of an agent's own format that nobody could translate."""

    def frame(direction: str, **fields: object) -> bytes:
        return msgspec.json.encode({"dir": direction, "ts": 1.0, "frame": {"jsonrpc": "2.0", **fields}})

    def update(**fields: object) -> bytes:
        return frame("in", method="session/update", params={"sessionId": session_id, "update": fields})

    return [
        frame("out", id=1, method="session/new", params={"cwd": "/", "mcpServers": []}),
        frame("in", id=1, result={"sessionId": session_id}),
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "hello"}),
        frame("in", method="_native/claude", params={"sessionId": session_id, "type": NATIVE, "record": {"x": NATIVE}}),
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": " again"}),
    ]


@pytest.mark.attempts("secrets")
async def test_native_records_are_for_the_journal_alone(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), real_server(tmp_path / "home") as server, server.client() as talk:
        journal = server.bridge.hub.journal
        (session_id,) = (await import_lines(journal, recording(), new_id=lambda: "imported-1", agent="claude")).sessions
        page = await journal.read(session_id)
        assert any(NATIVE.encode() in entry.frame for entry in page.entries)  # it is kept
        await looked_at(talk, session_id)
        await asked_all(talk)
        assert (await talk.call("search", text=NATIVE))["hits"] == []
        reported = await frames_of(talk, session_id)
        assert len(reported) == len(page.entries)  # it is counted, so that cursors have no gap
        assert NATIVE not in msgspec.json.encode(talk.received).decode()


KEY, TOKEN_NAME, ENV = "planted-key-9d31a7", "planted token", "planted-env-7b22"


@pytest.mark.attempts("secrets")
async def test_planted_secrets_are_in_the_secrets_file_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    caplog.set_level(logging.DEBUG)
    demo = {"command": "{python}", "args": ["-m", "dragoman.agents.demo"], "key_name": "DEMO_API_KEY"}
    async with asyncio.timeout(TIMEOUT_S), real_server(home) as server, server.client() as talk:
        await talk.call("agent.add", agent="mine", key=KEY, command_id="add", **demo)
        await talk.call("agent.edit", agent="mine", key=KEY + "2", key_name="DEMO_API_KEY", command_id="edit")
        made = await talk.call("token.create", name=TOKEN_NAME, scope="view")
        token = made["token"]
        talk.received = [message for message in talk.received if token not in msgspec.json.encode(message).decode()]
        await talk.call("agent.test", agent="mine")
        for fields in ({"agent": "mine", "command": "no-such-program-x"}, {"agent": "mine", "args": ["\0"]}):
            await talk.request("agent.edit", **fields)
        await talk.call("agent.edit", agent="mine", **{k: v for k, v in demo.items() if k != "key_name"})
        session_id = (await talk.call("session.open", agent="mine", cwd=str(tmp_path)))["session_id"]
        view = await talk.follow(session_id)
        await talk.call("session.prompt", session_id=session_id, text="mcp")
        await talk.wait_for(view, lambda view: view.settled)
        await looked_at(talk, session_id)
        await asked_all(talk)
        # A workspace may have our home folder inside.
        for path in ("home/secrets", str(home / "secrets"), "home/../home/secrets", "home/settings.json"):
            assert (await talk.call_refused("files.read", session_id=session_id, path=path))["kind"] == "invalid"
            attached = [{"type": "file", "path": path}]
            fields = {"session_id": session_id, "text": "look", "attachments": attached}
            assert (await talk.call_refused("session.prompt", **fields))["kind"] == "invalid"
        # One that a program opened, with a server of its own.
        servers = [McpServerStdio(name="db", command="true", args=(), env=(EnvVariable(name="PASSWORD", value=ENV),))]
        async with server.bridge.hub.open_session("demo", cwd=tmp_path, mcp_servers=servers) as other:
            await other.run("hello")
            await looked_at(talk, other.id)
            await frames_of(talk, other.id)
        heard = msgspec.json.encode(talk.received).decode()
        for secret in (KEY, ENV, token):
            assert secret not in heard
            assert secret not in caplog.text
    for secret in (KEY, ENV, token):
        holding = [path.name for path in home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert holding == (["secrets"] if secret == KEY else [])
    assert (home / "secrets").stat().st_mode & 0o777 == 0o600
