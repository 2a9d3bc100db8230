"""Whatever a client says, it is answered by a result or by an error that says what is wrong; never by a defect of ours,
and nobody else is harmed."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from attempts import Attempts
from bridge.client_messages import CONTROLS, damaged, whole
from bridge.socket_client import TIMEOUT_S, JsonObject, RealServer, SocketClient, real_server
from dragoman.bridge import socket as bridge_socket
from dragoman.config import SETTINGS
from dragoman.protocol import requests
from dragoman.protocol.messages import Scope


class Stage:
    """A server with a session, and a socket for each scope, in a loop of its own."""

    def __init__(self, runner: asyncio.Runner, server: RealServer, folder: Path) -> None:
        self._runner = runner
        self.server = server
        self.folder = folder
        self.talks: dict[Scope, SocketClient] = {}
        self.known: dict[str, tuple[str, ...]] = {}

    async def begin(self) -> None:
        for scope in ("admin", "prompt", "view"):
            url = f"http://127.0.0.1:{self.server.port}"
            self.talks[scope] = await SocketClient.connected(url, self.server.token(scope))

    def ready(self) -> dict[str, tuple[str, ...]]:
        """A session is there and open, whatever was done before; what is known of it, by the names of fields."""
        (session_id,) = self.known.get("session_id", ("",))
        owned = self.server.bridge.hub.owned_sessions.get(session_id)
        if owned is None or owned.connection != "connected":
            self._runner.run(self._opened(self.talks["admin"]))
        return self.known

    async def _opened(self, talk: SocketClient) -> None:
        for name in (*SETTINGS, "agent"):
            await talk.call("settings.set", name=name, value=None)
        session_id = (await talk.call("session.open", agent="demo", cwd=str(self.folder)))["session_id"]
        view = await talk.follow(session_id)
        await talk.call("session.prompt", session_id=session_id, text="stream 2")
        await talk.wait_for(view, lambda view: view.settled)
        talk.views.clear()
        self.known = {
            "session_id": (session_id,),
            "id": (session_id, f"{session_id}/t1"),
            "cwd": (str(self.folder),),
            "path": ("a.txt",),
            "agent": ("demo",),
            "after": (view.cursor or "",),
            "row_id": (view.rows("messages")[0]["id"],),
            "name": tuple(SETTINGS),
        }

    def sent(self, scope: Scope, data: str | bytes, *, answered: bool = True) -> list[JsonObject]:
        """Send data and a ping; return all messages until the server has answered both, or only the ping."""
        return self._runner.run(self._messages_sent(self.talks[scope], data, answered=answered))

    async def _messages_sent(self, talk: SocketClient, data: str | bytes, *, answered: bool) -> list[JsonObject]:
        talk.received = []
        await talk.connection.send(data)
        if answered:
            await talk.until(lambda sent: sent["type"] in ("result", "error"))
        await talk.send(type="ping")
        await talk.until(lambda sent: sent["type"] == "pong")
        return talk.received

    async def end(self) -> None:
        for talk in self.talks.values():
            await talk.connection.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("fuzz")
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\ntwo\n")
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(bridge_socket, "MAX_BURST", 10**9)
        patch.setattr(bridge_socket, "MAX_MESSAGES_PER_SECOND", 10**9)
        patch.setenv("HOME", str(folder))  # transcripts of other agents are looked for there
        serving = real_server(folder / "home")
        server = runner.run(serving.__aenter__())
        stage = Stage(runner, server, workspace)
        runner.run(stage.begin())
        yield stage
        runner.run(stage.end())
        runner.run(serving.__aexit__(None, None, None))


def written(message: object) -> str:
    # Unlike ours, it writes lone surrogates, and whatever else is no JSON.
    return json.dumps(message)


def checked(heard: list[JsonObject], message: object) -> None:
    for sent in heard:
        problem = sent.get("error") or sent
        assert problem.get("kind") != "internal", (message, sent)


FUZZ = settings(
    max_examples=int(os.environ.get("DRAGOMAN_FUZZ", "15")),  # of each control
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.attempts("socket")
@FUZZ
@given(data=st.data(), scope=st.sampled_from(("admin", "prompt", "view")))
@pytest.mark.parametrize("kind", CONTROLS, ids=lambda kind: str(kind.__struct_config__.tag))
def test_well_formed_messages_never_cause_an_internal_error(
    stage: Stage,
    caplog: pytest.LogCaptureFixture,
    attempts: Attempts,
    kind: type[requests.FromClient],
    scope: Scope,
    data: st.DataObject,
) -> None:
    attempts.add()
    message = data.draw(whole(kind, stage.ready()))
    with caplog.at_level(logging.ERROR):
        heard = stage.sent(scope, written(message), answered=issubclass(kind, requests.Request))
    checked(heard, message)
    assert not caplog.records, message
    assert sum(sent["type"] in ("result", "error") for sent in heard) <= 1


@pytest.mark.attempts("socket")
@FUZZ
@given(data=st.data(), scope=st.sampled_from(("admin", "prompt", "view")))
def test_almost_well_formed_messages_are_answered(
    stage: Stage, caplog: pytest.LogCaptureFixture, attempts: Attempts, scope: Scope, data: st.DataObject
) -> None:
    attempts.add()
    message = data.draw(damaged(stage.ready()))
    with caplog.at_level(logging.ERROR):
        answered = message.get("type") not in ("ping", "subscribe", "unsubscribe")
        checked(stage.sent(scope, written(message), answered=answered), message)
    assert not caplog.records, message


@pytest.mark.attempts("socket")
@FUZZ
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200)))
def test_bytes_that_are_no_message_are_answered(stage: Stage, attempts: Attempts, data: str | bytes) -> None:
    attempts.add()
    # Updates of streams that an earlier test subscribed to may come first.
    [error] = [message["error"] for message in stage.sent("admin", data) if message["type"] == "error"]
    assert error["kind"] == "invalid"


@pytest.mark.attempts("socket")
@pytest.mark.parametrize("depth", [10, 100, *range(880, 1010, 5), 10_000, 1_000_000])
def test_deeply_nested_messages_are_answered(stage: Stage, attempts: Attempts, depth: int) -> None:
    content: Any = '{"a":' * depth + "1" + "}" * depth
    (session_id,) = stage.ready()["session_id"]
    sent = f'"id":"x","command_id":"deep-{depth}","session_id":"{session_id}"'
    for message in (
        f'{{"type":"question.answer",{sent},"question_id":"q","action":"accept","content":{content}}}',
        f'{{"type":"ping","more":{content}}}',
        f'{{"type":"subscribe","stream":{content}}}',
    ):
        attempts.add()
        heard = stage.sent("admin", message)
        checked(heard, depth)
        assert any(sent["type"] == "error" for sent in heard)


@pytest.mark.attempts("socket")
async def test_a_message_that_is_too_large_costs_that_socket_at_most(tmp_path: Path) -> None:
    async with asyncio.timeout(2 * TIMEOUT_S), real_server(tmp_path / "home") as server, server.client() as other:
        async with server.client() as talk:
            await talk.receive()
            await talk.connection.send('{"type":"ping","more":"' + "x" * (40 * 1024 * 1024) + '"}')
            assert (await talk.receive())["error"]["kind"] == "too_large"
            await talk.send(type="ping")
            assert (await talk.receive())["type"] == "pong"
        talk = await SocketClient.connected(f"http://127.0.0.1:{server.port}", server.token())
        try:
            await talk.receive()
            await talk.connection.send("x" * (100 * 1024 * 1024))
        except ConnectionClosed:
            pass
        await talk.connection.wait_closed()
        assert talk.connection.close_code in (1006, 1009)
        await other.call("session.list")
