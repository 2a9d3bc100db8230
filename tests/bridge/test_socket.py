"""The socket of a real bridge, with the demo agent behind it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.socket_client import TIMEOUT_S, RealServer, SocketClient, View, real_server
from dragoman.bridge import rows as bridge_rows
from dragoman.bridge.broadcast import SessionBroadcast
from dragoman.bridge.broadcaster import Broadcaster
from dragoman.bridge.rows import newest_rows
from dragoman.bridge.socket import MAX_BURST
from dragoman.journal.maintenance import rebuild
from journal import talk as journal_talk


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
async def server(home: Path) -> AsyncIterator[RealServer]:
    async with real_server(home) as server:
        yield server


async def opened(talk: SocketClient, folder: Path, **fields: object) -> str:
    result = await talk.call("session.open", agent="demo", cwd=str(folder), **fields)
    return str(result["session_id"])


async def journal_view(server: RealServer, session_id: str) -> dict[str, object]:
    """The rows of the journal, as a client has them at the end."""
    rows, _, _ = newest_rows(await server.bridge.hub.journal.rows(session_id), 10**6)
    made = msgspec.json.decode(msgspec.json.encode(rows))
    return {table: {row["id"]: row for row in found} for table, found in made.items()}


def held_rows(view: View) -> dict[str, object]:
    return {table: dict(rows) for table, rows in view.tables.items()}


async def test_a_session_is_opened_prompted_and_followed(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        hello = await talk.receive()
        assert (hello["type"], hello["protocol"], hello["scope"]) == ("hello", 1, "admin")
        session_id = await opened(talk, tmp_path)
        view = await talk.follow(session_id)
        assert (view.state["connection"], view.state["status"]) == ("connected", "idle")
        prompted = await talk.call("session.prompt", session_id=session_id, text="hello")
        assert prompted["how"] == "started"
        await talk.wait_for(view, lambda view: view.settled)
        assert view.texts("user") == ["hello"]
        assert "demo agent" in "".join(view.texts())
        assert {table: rows for table, rows in held_rows(view).items() if rows} == {
            table: rows for table, rows in (await journal_view(server, session_id)).items() if rows
        }


async def test_an_invalid_message_is_answered_and_the_socket_stays_open(server: RealServer) -> None:
    async with server.client() as talk:
        await talk.receive()
        for text, kind in (
            ("no json", "invalid"),
            ("[]", "invalid"),
            ('{"type": "dance", "id": "x"}', "invalid"),
            ('{"type": "session.prompt", "id": "x"}', "invalid"),
            ('{"type": "session.prompt", "id": "x", "session_id": "y", "text": "z", "more": 1}', "invalid"),
            ('{"type": "session.prompt", "id": "x", "session_id": 1, "text": "z"}', "invalid"),
            ("[" * 100_000, "invalid"),
        ):
            await talk.connection.send(text)
            answer = await talk.receive()
            assert (answer["type"], answer["error"]["kind"]) == ("error", kind), text[:80]
        await talk.connection.send(b"\xff\xfe")
        assert (await talk.receive())["error"]["kind"] == "invalid"
        answer = await talk.call_refused("session.prompt", session_id="absent", text="hello")
        assert (answer["kind"], answer["field"]) == ("not_found", "session_id")
        await talk.send(type="ping")
        assert (await talk.receive())["type"] == "pong"


async def test_a_wrong_field_is_named(server: RealServer) -> None:
    async with server.client() as talk:
        await talk.send(type="session.prompt", id="x", session_id=1, text="z")
        answer = await talk.until(lambda message: message["type"] == "error")
        assert (answer["id"], answer["error"]["field"]) == ("x", "session_id")


async def test_a_client_that_sends_too_fast_is_refused(server: RealServer) -> None:
    async with server.client() as talk:
        await talk.receive()
        for _ in range(MAX_BURST + 50):
            await talk.send(type="ping")
        kinds = [(await talk.receive())["type"] for _ in range(MAX_BURST + 50)]
        assert kinds.count("error") > 0
        assert kinds.count("pong") >= MAX_BURST
        last = next(message for message in talk.received if message["type"] == "error")
        assert last["error"]["kind"] == "too_fast"
        assert last["error"]["retry_after"] > 0


@pytest.mark.parametrize(
    ("scope", "control", "fields"),
    [
        ("view", "session.open", {"cwd": "/"}),
        ("view", "session.prompt", {"session_id": "s", "text": "x"}),
        ("view", "permission.answer", {"session_id": "s", "permission_id": "p"}),
        ("view", "terminal.input", {"session_id": "s", "terminal_id": "t", "data": ""}),
        ("prompt", "session.delete", {"session_id": "s"}),
        ("prompt", "token.create", {"name": "more", "scope": "admin"}),
        ("prompt", "token.list", {}),
        ("prompt", "agent.add", {"agent": "x", "command": "sh"}),
        ("prompt", "settings.set", {"name": "access", "value": "full"}),
        ("prompt", "policy.add", {"cwd": "/", "answer": "allow"}),
        ("prompt", "workspace.trust", {"cwd": "/"}),
        ("prompt", "files.list", {"cwd": "/"}),
        ("prompt", "session.open", {"cwd": "/", "access": "full"}),
    ],
)
async def test_a_scope_is_not_escaped(server: RealServer, scope: str, control: str, fields: dict[str, object]) -> None:
    async with server.client(scope) as talk:  # type: ignore[arg-type]  # one of the scopes
        assert (await talk.call_refused(control, **fields))["kind"] == "forbidden"


async def test_a_revoked_token_does_nothing_more(server: RealServer) -> None:
    secret, token = server.bridge.tokens.create("soon gone", "admin")
    async with server.client(token=secret) as talk:
        await talk.call("token.list")
        server.bridge.tokens.revoke(token.id)
        assert (await talk.call_refused("token.list"))["kind"] == "unauthorized"


async def test_a_permission_is_seen_by_all_and_answered_by_the_first(server: RealServer, tmp_path: Path) -> None:
    (tmp_path / "README").write_text("old\n")
    async with server.client() as one, server.client() as other:
        session_id = await opened(one, tmp_path)
        await other.send(type="subscribe", stream="permissions")
        await other.until(lambda message: message["type"] == "snapshot")
        await one.call("session.prompt", session_id=session_id, text="edit README")
        request = await other.until(lambda message: message["type"] == "update" and bool(message["pending"]))
        permission = request["pending"][0]["permission"]
        assert permission["content"][0]["type"] == "diff"
        preview = await other.call("policy.preview", session_id=session_id, permission_id=permission["id"])
        assert preview["rules"]
        answer = {"session_id": session_id, "permission_id": permission["id"], "answer": "allow"}
        answers = [await other.call("permission.answer", **answer), await one.call("permission.answer", **answer)]
        assert [answer["accepted"] for answer in answers] == [True, False]
        view = await one.follow(session_id)
        await one.wait_for(view, lambda view: view.settled)
        (row,) = view.rows("permissions")
        assert (row["outcome"], row["decided_by"]) == ("selected", "person")
        assert (tmp_path / "README").read_text() != "old\n"


async def test_a_question_about_a_guarded_file_says_why_live_and_when_rebuilt(
    server: RealServer, tmp_path: Path
) -> None:
    async with server.client() as client:
        session_id = await opened(client, tmp_path, access="edit-inside")
        view = await client.follow(session_id)
        await client.call("session.prompt", session_id=session_id, text="edit .mcp.json")
        await client.wait_for(view, lambda view: any(row["asked_because"] for row in view.rows("permissions")))
        (row,) = view.rows("permissions")
        assert (row["outcome"], row["origin"]) == ("pending", "agent")
        assert ".mcp.json, which always needs your approval: an agent takes settings" in row["asked_because"]
        answer = {"session_id": session_id, "permission_id": row["id"], "answer": "reject"}
        await client.call("permission.answer", **answer)
        await client.wait_for(view, lambda view: view.settled)
    journal = server.bridge.hub.journal
    assert (await journal.rows(session_id)).permissions[0].asked_because == row["asked_because"]
    assert await rebuild(journal, [session_id]) == 1
    assert (await journal.rows(session_id)).permissions[0].asked_because == row["asked_because"]


async def test_always_can_be_narrowed_to_the_file(server: RealServer, home: Path, tmp_path: Path) -> None:
    async with server.client() as client:
        session_id = await opened(client, tmp_path)
        view = await client.follow(session_id)
        await client.call("session.prompt", session_id=session_id, text="edit README")
        await client.wait_for(view, lambda view: bool(view.rows("permissions")))
        permission = {"session_id": session_id, "permission_id": view.rows("permissions")[0]["id"]}
        preview = await client.call("policy.preview", **permission)
        assert preview["rules"] == [f"allow kind edit, path {tmp_path}/**"]
        assert preview["only_files"] == [f"allow kind edit, path {tmp_path}/README.md"]
        assert (await client.call("policy.preview", answer="reject", **permission))["only_files"] == []
        await client.call("permission.answer", answer="allow", always=True, only_files=True, **permission)
        await client.wait_for(view, lambda view: view.settled)
        (row,) = view.rows("permissions")
        chosen = next(option for option in row["options"] if option["option_id"] == row["option_id"])
        assert chosen["kind"] == "allow_once"  # the agent would remember more
        listed = await client.call("policy.list", cwd=str(tmp_path))
        assert [rule["text"] for rule in listed["rules"] if rule["layer"] == "remembered"] == preview["only_files"]


async def test_an_answer_that_does_not_fit_the_form_is_refused_field_by_field(
    server: RealServer, tmp_path: Path
) -> None:
    async with server.client() as client:
        session_id = await opened(client, tmp_path)
        view = await client.follow(session_id)
        await client.call("session.prompt", session_id=session_id, text="ask me")
        await client.wait_for(view, lambda view: bool(view.rows("questions")))
        (row,) = view.rows("questions")
        answer = {"session_id": session_id, "question_id": row["id"], "action": "accept"}
        refused = await client.call_refused("question.answer", content={"files": "many", "shoe": 1}, **answer)
        assert (refused["kind"], refused["field"]) == ("invalid", "content")
        assert refused["fields"] == {
            "colour": "is required",
            "files": "is 'many'; expected a whole number",
            "shoe": "is not a field of this form",
        }
        assert await client.call("question.answer", content={"colour": "red", "files": 3}, **answer) == {
            "accepted": True
        }
        await client.wait_for(view, lambda view: view.settled)
        (row,) = view.rows("questions")
        assert row["content"] == {"colour": "red", "files": 3}


async def test_a_request_just_before_the_socket_closes_is_carried_out(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
    async with server.client() as leaving:
        await leaving.receive()
        await leaving.send(type="session.rename", id="x", session_id=session_id, title="JsonObject in passing")
    async with server.client() as talk:
        await talk.send(type="subscribe", stream="sessions")

        def renamed(message: dict[str, Any]) -> bool:
            items = (*message.get("sessions", ()), *message.get("changed", ()))
            return any(item["title"] == "JsonObject in passing" for item in items)

        await talk.until(renamed)


async def test_always_is_remembered_and_can_be_revoked(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        view = await talk.follow(session_id)
        await talk.call("session.prompt", session_id=session_id, text="edit a.txt")
        await talk.wait_for(view, lambda view: bool(view.rows("permissions")))
        (permission,) = view.rows("permissions")
        fields = {"session_id": session_id, "permission_id": permission["id"], "answer": "allow", "always": True}
        await talk.call("permission.answer", **fields)
        rules = (await talk.call("policy.list", cwd=str(tmp_path)))["rules"]
        remembered = [rule for rule in rules if rule["layer"] == "remembered"]
        assert len(remembered) == 1
        left = await talk.call("policy.revoke", ids=[remembered[0]["id"]])
        assert not [rule for rule in left["rules"] if rule["layer"] == "remembered"]


async def test_answering_always_needs_the_scope_admin(server: RealServer, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with server.client() as admin, server.client("prompt") as talk:
        session_id = await opened(admin, folder)
        view = await talk.follow(session_id)
        await talk.call("session.prompt", session_id=session_id, text="edit a.txt")
        await talk.wait_for(view, lambda view: bool(view.rows("permissions")))
        (permission,) = view.rows("permissions")
        fields = {"session_id": session_id, "permission_id": permission["id"]}
        refused = await talk.call_refused("permission.answer", **fields, answer="allow", always=True)
        assert refused["kind"] == "forbidden"
        options = {option["kind"]: option["option_id"] for option in permission["options"]}
        refused = await talk.call_refused("permission.answer", **fields, option_id=options["allow_always"])
        assert refused["kind"] == "forbidden"  # the agent itself would remember it
        await talk.call("permission.answer", **fields, option_id=options["reject_always"])
        await talk.wait_for(view, lambda view: view.settled)
        (row,) = view.rows("permissions")
        assert (row["option_id"], row["remembered"]) == (options["reject_always"], [])
        rules = (await talk.call("policy.list", cwd=str(folder)))["rules"]
        assert not [rule for rule in rules if rule["layer"] == "remembered"]


async def test_after_unsubscribing_nothing_is_sent(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        await talk.follow(session_id)
        await talk.send(type="unsubscribe", stream="session", id=session_id)
        await talk.call("session.prompt", session_id=session_id, text="hello")
        talk.received.clear()
        await talk.call("session.rename", session_id=session_id, title="Another")
        assert [message["type"] for message in talk.received] == ["result"]


async def test_a_client_that_reads_nothing_has_one_message_made_for_it(
    server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_rows, "MAX_ROW_CHARS", 2**20)  # a message fills the system's buffers
    message, made = "x" * 2**20, set()
    begin = Broadcaster._snapshot

    async def counted(
        self: Broadcaster, broadcast: SessionBroadcast, after: str | None, limit: int
    ) -> tuple[int, int, bytes]:
        if limit == 7:
            made.add(broadcast.session_id)
        return await begin(self, broadcast, after, limit)

    monkeypatch.setattr(Broadcaster, "_snapshot", counted)
    sessions = [f"s{number}" for number in range(30)]
    for session_id in sessions:
        reported = await journal_talk.Talk.begin(server.bridge.hub.journal, session_id)
        reported.say(message)
        await reported.commit()
    port = socket.socket()
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    url = f"http://127.0.0.1:{server.port}"
    lazy = await SocketClient.connected(url, server.token(), sock=port, compression=None)
    for session_id in sessions:
        await lazy.send(type="subscribe", stream="session", id=session_id, limit=7)
    lazy.connection.transport.pause_reading()
    async with server.client() as talk:
        for session_id in sessions:  # a later client is served
            assert (await talk.follow(session_id)).texts() == [message]
    assert made
    assert len(made) < len(sessions) // 2  # what the system's own buffers took, and one
    lazy.connection.transport.abort()


async def test_a_terminal_is_followed_while_it_runs(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        view = await talk.follow(session_id)
        await talk.call("session.prompt", session_id=session_id, text="run echo one; read line </dev/tty; echo $line")
        await talk.wait_for(view, lambda view: bool(view.rows("permissions")))
        await talk.call(
            "permission.answer",
            session_id=session_id,
            permission_id=view.rows("permissions")[0]["id"],
            answer="allow",
        )
        await talk.wait_for(view, lambda view: any(row["status"] == "running" for row in view.rows("terminals")))
        terminal_id = view.rows("terminals")[0]["terminal_id"]
        await talk.send(type="subscribe", stream="terminal", id=f"{session_id}/{terminal_id}")
        first = await talk.until(lambda message: message.get("stream") == "terminal")
        assert first["type"] == "snapshot"
        await talk.call("terminal.resize", session_id=session_id, terminal_id=terminal_id, columns=100, rows=30)
        await talk.call("terminal.input", session_id=session_id, terminal_id=terminal_id, data="dHdvCg==")
        await talk.until(lambda message: message.get("stream") == "terminal" and message["ended"])
        await talk.wait_for(view, lambda view: view.settled)
        assert "two" in (view.rows("terminals")[0]["output"] or "")


async def test_a_crash_is_reported_with_possible_actions(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        view = await talk.follow(session_id)
        await talk.send(type="session.prompt", id="x", session_id=session_id, text="crash")
        await talk.wait_for(view, lambda view: view.state.get("connection") == "disconnected")
        assert view.state["status"] == "error"
        assert "restart" in view.state["failure"]["actions"]
        await talk.wait_for(view, lambda view: view.settled)
        assert view.rows("runs")[0]["status"] == "interrupted"
        again = await talk.call("session.restart", session_id=session_id, reload=True)
        assert again["state"]["connection"] == "connected"
        await talk.call("session.prompt", session_id=session_id, text="hello")


async def test_renaming_forking_closing_and_deleting(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        session_id = await opened(talk, tmp_path)
        await talk.call("session.rename", session_id=session_id, title="  My   title ")
        fork = await talk.call("session.fork", session_id=session_id, command_id="fork-1")
        assert (await talk.call("session.fork", session_id=session_id, command_id="fork-1")) == fork
        await talk.call("session.close", session_id=session_id)
        await talk.call("session.rename", session_id=session_id, title="Closed")
        listed = {item["id"]: item for item in (await talk.call("session.list"))["sessions"]}
        assert listed[session_id]["title"] == "Closed"
        assert listed[session_id]["connection"] == "none"
        assert listed[fork["session_id"]]["connection"] == "connected"
        assert listed[fork["session_id"]]["forked_from"] == session_id
        assert listed[fork["session_id"]]["title"] == "My title (fork)"
        view = await talk.follow(session_id)
        await talk.call("session.delete", session_id=session_id)
        assert session_id not in {item["id"] for item in (await talk.call("session.list"))["sessions"]}
        await talk.wait_for(view, lambda view: view.ended)


async def test_opening_twice_by_one_command_opens_once(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as talk:
        first = await opened(talk, tmp_path, command_id="open-1")
        assert await opened(talk, tmp_path, command_id="open-1") == first
        assert len((await talk.call("session.list"))["sessions"]) == 1


async def test_a_command_whose_empty_session_was_removed_opens_another(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with real_server(home) as server, server.client() as talk:
            removed = await opened(talk, tmp_path, command_id="open-1")
        async with real_server(home) as server, server.client() as talk:
            assert (await talk.call("session.list"))["sessions"] == []
            again = await opened(talk, tmp_path, command_id="open-1")
            assert again != removed
            assert await opened(talk, tmp_path, command_id="open-1") == again


async def test_an_empty_session_that_is_looked_at_survives_a_restart(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with real_server(home) as server, server.client() as talk:
            session_id = await opened(talk, tmp_path)
            view = await talk.follow(session_id)
        async with real_server(home) as server, server.client() as talk:
            view = await talk.follow(session_id, after=view.cursor)
            await talk.call("session.resume", session_id=session_id)
            await talk.call("session.prompt", session_id=session_id, text="hello")
            await talk.wait_for(view, lambda view: view.settled and len(view.rows("runs")) == 1)


async def test_files_are_those_of_the_workspace(server: RealServer, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "parse.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "secret").write_text("not for you")
    (folder / "link").symlink_to(tmp_path / "secret")
    async with server.client() as talk:
        session_id = await opened(talk, folder)
        listed = await talk.call("files.list", session_id=session_id, query="prs")
        assert listed["paths"] == ["src/parse.py"]
        text = await talk.call("files.read", session_id=session_id, path="src/parse.py", line=2, limit=1)
        assert (text["text"], text["line"], text["truncated"]) == ("two\n", 2, True)
        for path in ("../secret", str(tmp_path / "secret"), "link", "/etc/passwd", "src/../../secret", "a\0b"):
            assert (await talk.call_refused("files.read", session_id=session_id, path=path))["kind"] == "invalid"


async def test_a_restart_of_the_bridge_leaves_the_truth(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with real_server(home) as server, server.client() as talk:
            session_id = await opened(talk, tmp_path)
            await talk.call("session.prompt", session_id=session_id, text="stream 3")
            view = await talk.follow(session_id)
            await talk.wait_for(view, lambda view: view.settled)
            known = held_rows(view)
        async with real_server(home) as server, server.client() as talk:
            view = await talk.follow(session_id, after=view.cursor)
            assert view.state["connection"] == "none"
            assert view.state["can_resume"]
            assert (view.resumed, view.snapshots) == (0, 1)  # it was closed meanwhile: one frame more
            assert {key: rows for key, rows in held_rows(view).items() if rows} == {
                key: rows for key, rows in known.items() if rows
            }
            await talk.call("session.resume", session_id=session_id)
            await talk.call("session.prompt", session_id=session_id, text="stream 2")
            await talk.wait_for(view, lambda view: view.settled and len(view.rows("runs")) == 2)
