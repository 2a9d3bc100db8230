"""A client that means ill, with whatever scope its token has: it gets no further than that, and harms nobody else."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.websockets import WebSocket

from attempts import Attempts
from bridge.socket_client import TIMEOUT_S, RealServer, SocketClient, real_server
from dragoman.bridge import socket as bridge_socket
from dragoman.bridge.socket import MAX_SUBSCRIPTIONS
from dragoman.config import SETTINGS_FILE, load
from dragoman.protocol.messages import PermissionsSnapshot
from dragoman.testing.leaks import nothing_left


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RealServer]:
    async with real_server(tmp_path / "home") as server:
        yield server


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test asks more in a second than is allowed."""
    monkeypatch.setattr(bridge_socket, "MAX_BURST", 10**6)


async def opened(talk: SocketClient, folder: Path, **fields: object) -> str:
    return str((await talk.call("session.open", agent="demo", cwd=str(folder), **fields))["session_id"])


# -- what others did


@pytest.mark.attempts("socket")
async def test_a_command_id_reveals_its_result_to_no_other_client(server: RealServer) -> None:
    another = server.bridge.tokens.create("another", "admin")[0]
    async with server.client("admin") as one, server.client(token=another) as other:
        fields = {"name": "mine", "scope": "admin", "command_id": "c1"}
        made = await one.call("token.create", **fields)
        assert (await one.call("token.create", **fields)) == made
        assert (await other.call_refused("token.create", **fields))["kind"] == "conflict"


@pytest.mark.attempts("socket")
async def test_a_token_that_is_asked_for_again_after_a_restart_is_made_once(tmp_path: Path) -> None:
    fields = {"name": "mine", "scope": "view", "command_id": "c1"}
    async with real_server(tmp_path / "home") as server:
        admin = server.token()
        async with server.client(token=admin) as talk:
            first = await talk.call("token.create", **fields)
    async with real_server(tmp_path / "home") as server, server.client(token=admin) as talk:
        second = await talk.call("token.create", **fields)
        assert [one["name"] for one in (await talk.call("token.list"))["tokens"]] == ["a admin", "mine"]
        tokens = server.bridge.tokens
        assert tokens.find(first["token"]) is None  # the second request did not return it
        assert tokens.find(second["token"]) is not None


@pytest.mark.attempts("scopes")
async def test_a_command_id_opens_no_door_that_the_scope_leaves_shut(server: RealServer, tmp_path: Path) -> None:
    async with server.client("admin") as admin, server.client("view") as viewer:
        session_id = await opened(admin, tmp_path)
        for control, fields in (
            ("files.list", {"cwd": str(tmp_path), "command_id": "c1"}),
            ("session.export", {"session_id": session_id, "format": "jsonl", "command_id": "c2"}),
        ):
            await admin.call(control, **fields)
            assert (await viewer.call_refused(control, **fields))["kind"] == "forbidden"


async def test_a_long_request_is_recognised_by_its_digest(server: RealServer) -> None:
    async with server.client() as talk:
        fields = {"session_id": "absent", "queued_id": "q", "text": "x" * 10**6}
        await talk.call_refused("queue.edit", command_id="c1", **fields)
        await talk.call("token.create", name="one", command_id="c2")
        (known,) = server.bridge._executions.values()  # what was refused may be tried again, and is not known at all
        assert len(known.digest) == 32


@pytest.mark.attempts("socket")
async def test_two_opens_by_one_command_at_once_open_once(server: RealServer, tmp_path: Path) -> None:
    token = server.token()
    async with server.client(token=token) as one, server.client(token=token) as other:
        answers = await asyncio.gather(*(opened(talk, tmp_path, command_id="open") for talk in (one, other)))
        assert len(set(answers)) == 1
        assert len(server.bridge.hub.owned_sessions) == 1
        assert (await one.call_refused("session.open", agent="demo", cwd="/", command_id="open"))["kind"] == "conflict"


@pytest.mark.attempts("scopes")
async def test_an_agent_at_an_address_needs_an_admin(server: RealServer, tmp_path: Path) -> None:
    async with server.client("prompt") as talk:
        fields = {"agent": "ws://127.0.0.1:1/", "cwd": str(tmp_path)}
        assert (await talk.call_refused("session.open", **fields))["kind"] == "forbidden"


@pytest.mark.attempts("scopes")
async def test_a_viewer_learns_nothing_of_folders_that_no_session_has(server: RealServer, tmp_path: Path) -> None:
    async with server.client("admin") as admin, server.client("view") as viewer:
        for folder in ("/etc", "/no-such-folder"):
            assert (await viewer.call_refused("policy.list", cwd=folder))["kind"] == "forbidden"
        await opened(admin, tmp_path)
        await viewer.call("policy.list", cwd=str(tmp_path))


@pytest.mark.attempts("socket")
async def test_a_command_id_is_short(server: RealServer) -> None:
    async with server.client() as talk:
        answer = await talk.call_refused("token.create", name="one", command_id="x" * 201)
        assert (answer["kind"], answer["field"]) == ("invalid", "command_id")


# -- what would stop the server


@pytest.mark.attempts("socket")
@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("line_limit", 10**30),
        ("line_limit", 2**64),
        ("line_limit", 2**63),
        ("line_limit", "9" * 30),
        ("line_limit", "9" * 5000),
        ("line_limit", 1e300),
        ("line_limit", True),
        ("deadline", 1e308),
        ("deadline", "9" * 400 + "d"),
        ("deadline", 10**400),
        ("start_timeout", -1),
        ("start_timeout", 0),
        ("agent", "\0"),
        ("agent", " "),
        ("agent", "a" * 10**6),
        ("access", "FULL"),
        ("journal", 3),
        ("home", "/"),
        ("agents", "x"),
    ],
)
async def test_no_setting_stops_the_server(server: RealServer, tmp_path: Path, name: str, value: Any) -> None:
    async with server.client() as talk:
        before = _settings(tmp_path)
        await talk.connection.send(json.dumps({"type": "settings.set", "id": "x", "name": name, "value": value}))
        answer = await talk.until(lambda message: message["type"] in ("result", "error"))
        if answer["type"] == "error":
            assert answer["error"]["kind"] == "invalid"
            assert _settings(tmp_path) == before
        load(tmp_path / "home")
        await talk.call("settings.get")
        await talk.call("settings.set", name="agent", value="demo")
        await talk.call("settings.set", name="line_limit", value=None)
        await opened(talk, tmp_path)


@pytest.mark.attempts("socket")
async def test_an_agent_that_does_not_exist_cannot_become_the_default(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        error = await talk.call_refused("settings.set", name="agent", value="bogus")
        assert (error["kind"], error["message"]) == ("invalid", 'there is no agent "bogus"')
        settings = {item["name"]: item for item in (await talk.call("settings.get"))["settings"]}
        assert (settings["agent"]["value"], "claude" in settings["agent"]["choices"]) == ("demo", True)


def _settings(folder: Path) -> bytes | None:
    path = folder / "home" / SETTINGS_FILE
    return path.read_bytes() if path.exists() else None


@pytest.mark.attempts("socket")
@pytest.mark.usefixtures("unhurried")
async def test_no_agent_that_is_added_stops_the_server(server: RealServer, tmp_path: Path, attempts: Attempts) -> None:
    async with server.client() as talk:
        for fields in (
            {"agent": "../../etc", "command": "sh"},
            {"agent": "a b", "command": "sh"},
            {"agent": "x" * 1000, "command": "sh"},
            {"agent": "demo", "command": "sh"},
            {"agent": "one", "command": ""},
            {"agent": "one", "command": "sh\0"},
            {"agent": "one", "command": "sh", "args": ["a\0b"]},
            {"agent": "one", "command": "sh", "env": {"": "x"}},
            {"agent": "one", "command": "sh", "env": {"A=B": "x"}},
            {"agent": "one", "command": "sh", "env": {"A": "x\0y"}},
            {"agent": "one", "command": "sh", "key": "k"},
            {"agent": "one", "command": "sh", "key": "k", "key_name": "A=B"},
            {"agent": "one", "command": "sh", "key": "k\0", "key_name": "A"},
        ):
            attempts.add()
            assert (await talk.call_refused("agent.add", **fields))["kind"] in ("invalid", "conflict"), fields
        assert not (tmp_path / "home" / "secrets").exists()
        load(tmp_path / "home")
        await talk.call("agent.add", agent="one", command="no-such-program")
        problem = await talk.call_refused("session.open", agent="one", cwd=str(tmp_path))
        assert problem["kind"] == "agent"
        await talk.call("agent.remove", agent="one")
        await opened(talk, tmp_path)


@pytest.mark.attempts("socket")
async def test_no_rule_that_is_added_stops_the_server(server: RealServer, tmp_path: Path, attempts: Attempts) -> None:
    async with server.client() as talk:
        for about in (
            {"answer": "allow"},
            {"source": "elsewhere"},
            {"path": "[" * 500},
            {"path": "**/" * 500 + "x"},
            {"path": "\0"},
            {"command": "(a+)+" * 50},
            {"line": "x" * 10**5},
            {"kind": "dance"},
            {"nothing": "x"},
            {"mcp": ["/", "a/b/c", ""]},
        ):
            attempts.add()
            await talk.request("policy.add", cwd=str(tmp_path), answer="deny", about=about)
        listed = await talk.call("policy.list", cwd=str(tmp_path))
        assert all(rule["answer"] == "deny" for rule in listed["rules"] if rule["layer"] == "remembered")
        session_id = await opened(talk, tmp_path)
        view = await talk.follow(session_id)
        await talk.call("session.prompt", session_id=session_id, text="run echo hello")
        await talk.wait_for(view, lambda view: view.settled or bool(view.rows("permissions")))


@pytest.mark.attempts("socket")
@pytest.mark.usefixtures("unhurried")
async def test_searches_of_any_kind_are_answered(server: RealServer, tmp_path: Path, attempts: Attempts) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        view = await talk.follow(session_id)
        await talk.call("session.prompt", session_id=session_id, text="stream 3")
        await talk.wait_for(view, lambda view: view.settled)
        for text in ('"', '""', "a" * 10**6, "a " * 500, "* OR NEAR(", "\0", "%_", "x\x1b[2J", "é" * 1000, "-", "'--"):
            attempts.add()
            await talk.request("search", text=text, limit=10**30)
        assert (await talk.call("search", text="stream"))["hits"]


@pytest.mark.usefixtures("unhurried")
async def test_a_search_says_whether_there_are_more_matches(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        view = await talk.follow(session_id)
        for number in range(2):
            await talk.call("session.prompt", session_id=session_id, text=f"hello walrus {number}")
        await talk.wait_for(view, lambda view: view.settled and len(view.rows("runs")) == 2)
        found = await talk.call("search", text="walrus", kinds=["user"], limit=1)
        assert (len(found["hits"]), found["is_cut"]) == (1, True)
        found = await talk.call("search", text="walrus", kinds=["user"], limit=2)
        assert (len(found["hits"]), found["is_cut"]) == (2, False)


# -- sessions


@pytest.mark.attempts("socket")
@pytest.mark.usefixtures("unhurried")
async def test_no_id_is_more_than_an_id(server: RealServer, tmp_path: Path, attempts: Attempts) -> None:
    (tmp_path / "secret").write_text("x")
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        for odd in (
            "'",
            '"; --',
            "a\nb",
            "../x",
            f"{session_id}/../x",
            "x" * 10**6,
            "\0",
            "*",
            "%",
            session_id[:6],
            "-",
        ):
            for control, fields in (
                ("session.prompt", {"text": "x"}),
                ("session.delete", {}),
                ("session.export", {}),
                ("files.read", {"path": "secret"}),
                ("terminal.kill", {"terminal_id": "t"}),
                ("session.rename", {"title": "x"}),
                ("session.restart", {}),
            ):
                attempts.add()
                assert (await talk.call_refused(control, session_id=odd, **fields))["kind"] == "not_found", (
                    control,
                    odd,
                )
            await talk.send(type="subscribe", stream="session", id=odd)
            await talk.until(lambda message: message["type"] in ("ended", "error"))
        exported = await talk.call("session.export", session_id=session_id)
        assert exported["file_name"] == f"{session_id}.md"


@pytest.mark.attempts("socket")
async def test_a_title_has_nothing_in_it_that_cannot_be_seen(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        await talk.call("session.rename", session_id=session_id, title="a\x1b]0;owned\x07\0\u202eb\n c" + "x" * 500)
        (item,) = (await talk.call("session.list"))["sessions"]
        assert item["title"].isprintable()
        assert item["title"].startswith("a ]0;owned b c")
        assert len(item["title"]) == 200


@pytest.mark.attempts("socket")
async def test_a_session_is_closed_while_it_is_being_opened(server: RealServer, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), server.client() as talk, server.client() as other:
        session_id = await opened(talk, tmp_path)
        await talk.call("session.rename", session_id=session_id, title="kept without a prompt")
        await talk.call("session.close", session_id=session_id)
        await talk.call("agent.edit", agent="demo", command="sleep", args=["1000"])
        await talk.send(type="session.restart", id="r", session_id=session_id)
        await other.send(type="subscribe", stream="sessions")
        await other.until(
            lambda message: any(
                item["connection"] == "starting" for item in (*message.get("changed", ()), *message.get("sessions", ()))
            )
        )
        await other.call("session.close", session_id=session_id)
        answer = await talk.until(lambda message: message.get("id") == "r")
        assert (answer["type"], answer["error"]["kind"]) == ("error", "conflict")
        assert session_id not in server.bridge.hub.owned_sessions


@pytest.mark.attempts("socket")
async def test_typing_into_an_ended_terminal_is_refused(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        view = await talk.follow(session_id)
        await talk.call("session.prompt", session_id=session_id, text="run echo one")
        await talk.wait_for(view, lambda view: bool(view.rows("permissions")))
        permission_id = view.rows("permissions")[0]["id"]
        fields = {"session_id": session_id, "permission_id": permission_id, "answer": "allow"}
        await talk.call("permission.answer", **fields)
        await talk.wait_for(view, lambda view: view.settled)
        terminal = {"session_id": session_id, "terminal_id": view.rows("terminals")[0]["terminal_id"]}
        data = base64.b64encode(b"x" * 10**5).decode()
        for control, more in (
            ("terminal.input", {"data": data}),
            ("terminal.input", {"data": "\u2028"}),
            ("terminal.resize", {"columns": 80, "rows": 24}),
            ("terminal.resize", {"columns": 10**30, "rows": -1}),
            ("terminal.kill", {}),
        ):
            answer = await talk.request(control, **terminal, **more)
            assert answer["type"] == "result" or answer["error"]["kind"] != "internal", answer


@pytest.mark.attempts("socket")
async def test_a_queue_has_an_end(server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.hub.owned_session.MAX_QUEUED_PROMPTS", 3)
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        await talk.call("session.prompt", session_id=session_id, text="sleep 1000")
        for _ in range(3):
            await talk.call("session.prompt", session_id=session_id, text="hello")
        for when in ("queue", "now", "refuse"):
            problem = await talk.call_refused("session.prompt", session_id=session_id, text="hello", when=when)
            assert problem["kind"] == "conflict"
        await talk.call("session.cancel", session_id=session_id)


@pytest.mark.attempts("socket")
async def test_a_stopping_server_cancels_its_requests(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(TIMEOUT_S),
        nothing_left(),
        real_server(tmp_path / "home") as server,
        server.client() as talk,
    ):
        await talk.call("agent.add", agent="silent", command="sleep", args=["1000"])
        await talk.send(type="session.open", id="x", agent="silent", cwd=str(tmp_path))
        await talk.send(type="agent.test", id="y", agent="silent")
        await talk.send(type="ping")
        await talk.until(lambda message: message["type"] == "pong")


# -- streams


@pytest.mark.attempts("socket")
async def test_a_revoked_token_hears_nothing_more(server: RealServer, tmp_path: Path) -> None:
    secret, token = server.bridge.tokens.create("soon gone", "view")
    async with asyncio.timeout(TIMEOUT_S), server.client() as admin, server.client(token=secret) as viewer:
        session_id = await opened(admin, tmp_path)
        for fields in ({"stream": "session", "id": session_id}, {"stream": "sessions"}):
            await viewer.send(type="subscribe", **fields)
            await viewer.until(lambda message: message["type"] == "snapshot")
        await admin.call("token.revoke", token_id=token.id)
        await viewer.call_refused("session.list")  # all messages from before the revocation have arrived by now
        # The agent may have become ready meanwhile: a stream with such a change has ended already.
        ended = [message for message in viewer.received if message["type"] == "ended"]
        viewer.received.clear()
        await admin.call("session.prompt", session_id=session_id, text="stream 3")
        while len(ended) < 2:
            ended.append(await viewer.receive())
        assert [message["type"] for message in ended] == ["ended", "ended"]
        assert all("revoked" in message["reason"] for message in ended)
        await viewer.call_refused("session.list")
        assert [message["type"] for message in viewer.received if message not in ended] == ["error"]


@pytest.mark.attempts("socket")
async def test_messages_that_wait_for_the_socket_are_dropped_when_the_token_is_revoked(
    server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, token = server.bridge.tokens.create("soon gone", "view")
    is_sending, may_send, snapshot_built = asyncio.Event(), asyncio.Event(), asyncio.Event()
    send_text, pending = WebSocket.send_text, server.bridge.pending

    async def slow_send_text(websocket: WebSocket, data: str) -> None:
        is_sending.set()
        await may_send.wait()
        await send_text(websocket, data)

    def observed_pending() -> PermissionsSnapshot:
        snapshot_built.set()
        return pending()

    async with asyncio.timeout(TIMEOUT_S), server.client(token=secret) as viewer:
        await viewer.call("session.list")
        monkeypatch.setattr(WebSocket, "send_text", slow_send_text)
        monkeypatch.setattr(server.bridge, "pending", observed_pending)
        await viewer.send(type="session.list", id="being sent")
        await is_sending.wait()
        await viewer.send(type="session.list", id="waits")
        await viewer.send(type="subscribe", stream="permissions")
        await snapshot_built.wait()
        server.bridge.tokens.revoke(token.id)
        may_send.set()
        viewer.received.clear()
        await viewer.until(lambda message: message["type"] == "ended" and "revoked" in message["reason"])
        await viewer.call_refused("session.list")
    types = {message.get("id"): message["type"] for message in viewer.received if message["type"] != "ended"}
    assert types.pop("being sent") == "result"
    assert types.pop("waits") == "error"
    assert set(types.values()) == {"error"}


async def test_a_token_that_revokes_itself_is_answered(server: RealServer) -> None:
    secret, token = server.bridge.tokens.create("soon gone", "admin")
    async with asyncio.timeout(TIMEOUT_S), server.client(token=secret) as client:
        left = await client.call("token.revoke", token_id=token.id)
        assert token.id not in [item["id"] for item in left["tokens"]]
        assert (await client.call_refused("token.list"))["kind"] == "unauthorized"


@pytest.mark.attempts("socket")
@pytest.mark.usefixtures("unhurried")
async def test_streams_that_have_ended_do_not_count(server: RealServer) -> None:
    async with asyncio.timeout(TIMEOUT_S), server.client() as talk:
        for number in range(2 * MAX_SUBSCRIPTIONS):
            await talk.send(type="subscribe", stream="session", id=f"absent-{number}")
            await talk.until(lambda message: message["type"] == "ended")
        await talk.send(type="subscribe", stream="sessions")
        await talk.until(lambda message: message["type"] == "snapshot")
        assert not server.bridge.broadcaster._broadcasts  # what never was there is not remembered either


@pytest.mark.attempts("socket")
@pytest.mark.usefixtures("unhurried")
async def test_cursors_of_any_kind_are_answered(server: RealServer, tmp_path: Path, attempts: Attempts) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        name = server.bridge.hub.journal.name
        for digits in ("9" * 5000, "9" * 30, "9" * 18, "-1", "1.5", "٣", "", "0x1"):
            for after, frames in ((f"r{name}.{digits}", False), (f"{name}.{digits}", True)):
                attempts.add()
                await talk.send(type="subscribe", stream="session", id=session_id, after=after, frames=frames)
                message = await talk.until(lambda message: message["type"] in ("snapshot", "update", "ended"))
                assert message.get("kind") != "internal", (after, message)


@pytest.mark.attempts("socket")
@pytest.mark.usefixtures("unhurried")
async def test_floods_leave_nothing_behind_and_disturb_no_other_client(tmp_path: Path, attempts: Attempts) -> None:
    async with (
        asyncio.timeout(2 * TIMEOUT_S),
        nothing_left(),
        real_server(tmp_path / "home") as server,
        server.client() as calm,
    ):
        session_id = await opened(calm, tmp_path)
        view = await calm.follow(session_id)
        talks = [await SocketClient.connected(f"http://127.0.0.1:{server.port}", server.token()) for _ in range(30)]
        for talk in talks:  # each says a lot, hears nothing of it, and is gone
            for number in range(100):
                await talk.send(type="subscribe", stream="session", id=session_id, limit=10**9)
                await talk.send(type="session.list", id=f"l{number}", limit=10**9)
                await talk.send(type="search", id=f"s{number}", text="demo")
            talk.connection.transport.abort()
            attempts.add()
        await calm.call("session.prompt", session_id=session_id, text="stream 5")
        await calm.wait_for(view, lambda view: view.settled)
        assert view.texts()
