"""The demo agent's methods: handshake, login, sessions that are saved, loaded, listed, forked and deleted."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import AuthenticationRequired, RequestFailed
from dragoman.wire.vocabulary import (
    METHODS,
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ForkSessionResponse,
    ListSessionsResponse,
    ResumeSessionResponse,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigOptionsCapabilities,
    SessionConfigSelect,
    SessionInfoUpdate,
    SessionUpdate,
    SetSessionConfigOptionResponse,
    TextContent,
    UsageUpdate,
    UserMessageChunk,
)

from .demo_client import TERMINAL, TIMEOUT_S, Client, demo, names

SWITCHES = ClientCapabilities(
    session=ClientSessionCapabilities(
        config_options=SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities())
    )
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def refused(client: Client, method: str, params: object) -> RequestFailed:
    with pytest.raises(RequestFailed) as refusal:
        await client.connection.request(method, params, timeout=TIMEOUT_S)
    return refusal.value


# -- handshake and login


async def test_it_introduces_itself_with_what_it_can_do_and_no_more(home: Path) -> None:
    async with demo(home, initialize=False) as client:
        response = await client.initialize()
        assert response.protocol_version == 1
        assert response.agent_info is not None
        assert response.agent_info.name == "dragoman-demo"
        can = response.agent_capabilities
        assert can.load_session
        assert (can.prompt_capabilities.image, can.prompt_capabilities.audio) == (True, True)
        assert can.prompt_capabilities.embedded_context
        # It connects to no MCP server, so it does not offer to.
        assert not can.mcp_capabilities.http
        assert not can.mcp_capabilities.sse
        assert can.auth.logout is not None
        assert [method.id for method in response.auth_methods] == ["demo-login"]


async def test_a_newer_client_is_answered_with_the_version_that_it_speaks(home: Path) -> None:
    async with demo(home, initialize=False) as client:
        raw = await client.connection.request("initialize", {"protocolVersion": 99}, timeout=TIMEOUT_S)
        assert msgspec.json.decode(raw)["protocolVersion"] == 1


async def test_before_initialize_nothing_else_is_answered(home: Path) -> None:
    async with demo(home, initialize=False) as client:
        assert (await refused(client, "session/list", {})).code == -32600


@pytest.mark.parametrize("method", ["session/nonsense", "session/set_model", "_extension", "fs/read_text_file"])
async def test_an_unknown_method_is_refused_and_an_unknown_notification_ignored(home: Path, method: str) -> None:
    async with demo(home) as client:
        client.connection.notify("_something", {"a": 1})
        refusal = await refused(client, method, {})
        assert refusal.code == -32601
        assert method in str(refusal)


def test_every_stable_method_of_an_agent_is_served() -> None:
    from dragoman.agents.demo.agent import DemoAgent

    agent = DemoAgent(None, None)  # type: ignore[arg-type]  # only its table is looked at
    stable = {m.name for m in METHODS.values() if m.stable and m.side == "agent" and m.kind == "request"}
    assert stable <= set(agent._methods)


async def test_where_login_is_required_nothing_opens_before_it_and_after_logout(home: Path, work: Path) -> None:
    async with demo(home, login_required=True) as client:
        for method in ("session/new", "session/load", "session/resume", "session/list"):
            params = {"cwd": str(work), "mcpServers": [], "sessionId": "demo-0000000000000000"}
            refusal = await refused(client, method, params)
            assert isinstance(refusal, AuthenticationRequired)
            assert refusal.data["authMethods"][0]["id"] == "demo-login"
        assert (await refused(client, "authenticate", {"methodId": "nonsense"})).code == -32602
        await client.connection.request("authenticate", {"methodId": "demo-login"}, timeout=TIMEOUT_S)
        await client.new(work)
        await client.prompt("hello")
        await client.connection.request("logout", None, timeout=TIMEOUT_S)
        with pytest.raises(AuthenticationRequired):
            await client.prompt("hello")


# -- bad input


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("session/new", {"mcpServers": []}, "cwd"),
        ("session/new", {"cwd": "/w"}, "mcpServers"),
        ("session/new", {"cwd": 5, "mcpServers": []}, "cwd"),
        ("session/new", {"cwd": "relative/path", "mcpServers": []}, "cwd"),
        ("session/new", {"cwd": "/w", "mcpServers": [], "additionalDirectories": ["/a", "b"]}, r"Directories\[1\]"),
        ("session/load", {"cwd": "w", "mcpServers": [], "sessionId": "x"}, "cwd"),
        ("session/prompt", {"sessionId": "x"}, "prompt"),
        ("session/prompt", [], "object"),
        ("session/list", {"cwd": "relative"}, "cwd"),
        ("session/list", {"cursor": "nonsense"}, "cursor"),
        ("authenticate", None, "methodId"),
    ],
)
async def test_what_is_wrong_with_a_request_is_named(home: Path, method: str, params: object, named: str) -> None:
    async with demo(home) as client:
        refusal = await refused(client, method, params)
        assert refusal.code == -32602
        with pytest.raises(RequestFailed, match=named):
            raise refusal


@pytest.mark.parametrize(
    "method",
    [
        *("session/prompt", "session/load", "session/resume", "session/fork", "session/close"),
        *("session/set_mode", "session/set_config_option"),
    ],
)
@pytest.mark.parametrize("session_id", ["demo-0000000000000000", "../../etc/passwd", ""])
async def test_an_unknown_session_is_not_found(home: Path, work: Path, method: str, session_id: str) -> None:
    async with demo(home) as client:
        params = {
            "sessionId": session_id,
            "cwd": str(work),
            "mcpServers": [],
            "prompt": [],
            "modeId": "ask",
            "configId": "mode",
            "value": "ask",
        }
        refusal = await refused(client, method, params)
        assert refusal.code == -32002


async def test_a_saved_session_must_be_opened_before_it_is_prompted(home: Path, work: Path) -> None:
    async with demo(home) as client:
        session_id = (await client.new(work)).session_id
    async with demo(home) as client:
        client.session_id = session_id
        with pytest.raises(RequestFailed, match="load or resume"):
            await client.prompt("hello")


async def test_a_second_prompt_on_a_busy_session_is_refused_and_the_first_goes_on(home: Path, work: Path) -> None:
    async with demo(home) as client:
        await client.new(work)
        first = client.start("sleep 1000")
        with pytest.raises(RequestFailed, match="busy") as refusal:
            await client.prompt("hello")
        assert refusal.value.code == -32600
        params = {"sessionId": client.session_id, "cwd": str(work), "mcpServers": []}
        assert (await refused(client, "session/load", params)).code == -32600
        client.cancel()
        assert (await client.finish(first)).stop_reason == "cancelled"


async def test_two_sessions_work_at_the_same_time(home: Path, work: Path) -> None:
    async with demo(home) as client:
        ids = []
        calls = []
        for _ in range(2):
            ids.append((await client.new(work)).session_id)
            calls.append(client.start("stream 2000"))
        for call in calls:
            assert (await client.finish(call)).stop_reason == "end_turn"
        for session_id in ids:
            own = [u for i, u in client.updates if i == session_id and isinstance(u, AgentMessageChunk)]
            assert len(own) == 2000


# -- load, resume, fork


def merged(updates: list[SessionUpdate]) -> list[object]:
    """Join the chunks of each message, as a load must replay them."""
    conversation: list[Any] = []
    for update in updates:
        if isinstance(update, AgentMessageChunk | AgentThoughtChunk) and isinstance(update.content, TextContent):
            key = (type(update), update.message_id)
            if conversation and conversation[-1][0] == key:
                conversation[-1] = (key, conversation[-1][1] + update.content.text)
            else:
                conversation.append((key, update.content.text))
        elif not isinstance(
            update,
            AvailableCommandsUpdate | SessionInfoUpdate | UsageUpdate | CurrentModeUpdate | ConfigOptionUpdate,
        ):
            conversation.append((update, ""))
    return conversation


async def test_a_load_in_another_process_tells_everything_that_was_said_before_it_answers(
    home: Path, work: Path
) -> None:
    async with demo(home, TERMINAL) as client:
        session_id = (await client.new(work)).session_id
        for prompt in ("think", "plan", "edit a.txt", "run ls", "image", "link", "stream 1000", "tools", "mode plan"):
            await client.prompt(prompt)
        live_updates = merged([update for _, update in client.updates])
        used = client.of(UsageUpdate)[-1].used
    async with demo(home) as client:
        response = await client.load(session_id, work)
        replayed_updates = [update for _, update in client.updates]
        prompts = [
            u.content.text
            for u in replayed_updates
            if isinstance(u, UserMessageChunk) and isinstance(u.content, TextContent)
        ]
        assert prompts == [
            "think",
            "plan",
            "edit a.txt",
            "run ls",
            "image",
            "link",
            "stream 1000",
            "tools",
            "mode plan",
        ]
        assert (
            merged([update for update in replayed_updates if not isinstance(update, UserMessageChunk)]) == live_updates
        )
        assert response.modes is not None
        assert response.modes.current_mode_id == "plan"
        assert client.of(UsageUpdate)[-1].used == used
        assert client.of(SessionInfoUpdate)[-1].title == "think"
        assert client.of(AvailableCommandsUpdate)
        # And the conversation goes on, with ids of its own.
        old = {u.message_id for u in client.of(AgentMessageChunk)}
        client.updates.clear()
        await client.prompt("hello")
        assert not old & {u.message_id for u in client.of(AgentMessageChunk)}


async def test_what_was_said_before_a_cancel_or_an_error_is_part_of_the_history(home: Path, work: Path) -> None:
    async with demo(home) as client:
        session_id = (await client.new(work)).session_id
        call = client.start("sleep 1000")
        await client.until(lambda: client.text.endswith("s."))
        client.cancel()
        await client.finish(call)
        with pytest.raises(RequestFailed):
            await client.prompt("error")
        await client.load(session_id, work)
        assert [u.content for u in client.of(UserMessageChunk)] == [
            TextContent(text="sleep 1000"),
            TextContent(text="error"),
        ]
        assert client.text.count("I sleep for 1000 s.") == 2  # live, and replayed


async def test_a_load_of_a_large_history_does_not_wait_for_ever(home: Path, work: Path) -> None:
    async with demo(home) as client:
        session_id = (await client.new(work)).session_id
        for _ in range(40):
            await client.prompt("tools")
        client.updates.clear()
        await client.load(session_id, work)
        assert len(client.updates) > 1000


async def test_a_resume_tells_nothing_and_goes_on(home: Path, work: Path) -> None:
    async with demo(home) as client:
        session_id = (await client.new(work)).session_id
        await client.prompt("model large")
    async with demo(home) as client:
        client.session_id = session_id
        params = {"sessionId": session_id, "cwd": str(work)}
        response = await client.request("session/resume", params, ResumeSessionResponse)
        assert response.config_options is not None
        assert values(response.config_options)["model"] == "demo-large"
        await client.until(lambda: client.of(AvailableCommandsUpdate))
        assert client.kinds() == ["available_commands_update"]
        await client.prompt("usage")
        assert "of 200,000 words" in client.text


async def test_a_fork_knows_what_was_said_and_goes_its_own_way(home: Path, work: Path) -> None:
    async with demo(home) as client:
        source = (await client.new(work)).session_id
        await client.prompt("hello")
        fork = await client.request("session/fork", {"sessionId": source, "cwd": str(work)}, ForkSessionResponse)
        assert fork.session_id != source
        client.session_id = fork.session_id
        await client.prompt("plan")
        client.updates.clear()
        await client.load(source, work)
        assert len(client.of(UserMessageChunk)) == 1
        client.updates.clear()
        await client.load(fork.session_id, work)
        assert len(client.of(UserMessageChunk)) == 2


async def test_where_sessions_cannot_be_saved_it_says_so_and_talks_on(tmp_path: Path, work: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    stderr = io.StringIO()
    async with demo(tmp_path / "file", stderr=stderr) as client:
        await client.new(work)
        assert (await client.prompt("hello")).stop_reason == "end_turn"
        assert f"{client.session_id} could not be saved" in stderr.getvalue()
        assert (await listed(client)).sessions == ()


# -- list, close, delete


async def listed(client: Client, **params: str) -> ListSessionsResponse:
    return await client.request("session/list", params, ListSessionsResponse)


async def test_a_list_is_read_page_by_page(home: Path, work: Path) -> None:
    async with demo(home, page_size=2) as client:
        ids = {(await client.new(work, additionalDirectories=[str(home)])).session_id for _ in range(5)}
        await client.prompt("hello there")
        await client.new(home)
        seen: list[str] = []
        page = await listed(client, cwd=str(work))
        seen += [info.session_id for info in page.sessions]
        while page.next_cursor is not None:
            assert len(page.sessions) == 2
            page = await listed(client, cwd=str(work), cursor=page.next_cursor)
            seen += [info.session_id for info in page.sessions]
        assert len(seen) == 5
        assert set(seen) == ids
        everything = await listed(client)
        assert everything.next_cursor is not None


async def test_a_list_tells_title_folder_and_time(home: Path, work: Path) -> None:
    async with demo(home) as client:
        await client.new(work, additionalDirectories=[str(home)])
        await client.prompt("hello there")
        (info,) = (await listed(client)).sessions
        assert (info.session_id, info.title, info.cwd) == (client.session_id, "hello there", str(work))
        assert info.additional_directories == (str(home),)
        assert info.updated_at == "2027-01-15T08:00:00.000Z"


async def test_a_closed_session_ends_its_turn_and_can_be_opened_again(home: Path, work: Path) -> None:
    async with demo(home) as client:
        session_id = (await client.new(work)).session_id
        call = client.start("sleep 1000")
        await client.until(lambda: client.text)
        await client.connection.request("session/close", {"sessionId": session_id}, timeout=TIMEOUT_S)
        assert (await client.finish(call)).stop_reason == "cancelled"
        with pytest.raises(RequestFailed, match="not open"):
            await client.prompt("hello")
        await client.load(session_id, work)
        await client.prompt("hello")


async def test_a_deleted_session_does_not_come_back(home: Path, work: Path) -> None:
    async with demo(home) as client:
        session_id = (await client.new(work)).session_id
        call = client.start("sleep 1000")
        await client.until(lambda: client.text)
        await client.connection.request("session/delete", {"sessionId": session_id}, timeout=TIMEOUT_S)
        assert (await client.finish(call)).stop_reason == "cancelled"
        assert (await listed(client)).sessions == ()
        assert await refused(client, "session/load", {"sessionId": session_id, "cwd": str(work), "mcpServers": []})
        assert names(home) == []
        # Gone is gone: asking again is no error.
        await client.connection.request("session/delete", {"sessionId": session_id}, timeout=TIMEOUT_S)


# -- modes and options


def values(options: tuple[SessionConfigOption, ...]) -> dict[str, object]:
    return {
        option.id: option.current_value
        for option in options
        if isinstance(option, SessionConfigSelect | SessionConfigBoolean)
    }


async def test_a_new_session_shows_its_modes_and_options(home: Path, work: Path) -> None:
    async with demo(home) as client:
        response = await client.new(work)
        assert response.modes is not None
        assert response.modes.current_mode_id == "code"
        assert [mode.id for mode in response.modes.available_modes] == ["ask", "code", "plan"]
        assert response.config_options is not None
        assert values(response.config_options) == {"mode": "code", "model": "demo-small", "thought_level": "off"}
        assert [option.category for option in response.config_options] == ["mode", "model", "thought_level"]


async def test_a_switch_is_offered_only_to_a_client_that_shows_switches(home: Path, work: Path) -> None:
    async with demo(home, SWITCHES) as client:
        options = (await client.new(work)).config_options
        assert options is not None
        assert values(options)["word_by_word"] is True


async def test_setting_an_option_answers_with_all_of_them(home: Path, work: Path) -> None:
    async with demo(home, SWITCHES) as client:
        await client.new(work)
        for option, value in (("model", "demo-large"), ("thought_level", "high"), ("word_by_word", False)):
            params = {"sessionId": client.session_id, "configId": option, "value": value}
            response = await client.request("session/set_config_option", params, SetSessionConfigOptionResponse)
            assert values(response.config_options)[option] == value
        options = (await client.load(client.session_id, work)).config_options
        assert options is not None
        assert values(options) == {
            "mode": "code",
            "model": "demo-large",
            "thought_level": "high",
            "word_by_word": False,
        }


async def test_mode_and_mode_option_are_one(home: Path, work: Path) -> None:
    async with demo(home) as client:
        session_id = (await client.new(work)).session_id
        params = {"sessionId": session_id, "modeId": "plan"}
        await client.connection.request("session/set_mode", params, timeout=TIMEOUT_S)
        assert values(client.of(ConfigOptionUpdate)[-1].config_options)["mode"] == "plan"
        option = {"sessionId": session_id, "configId": "mode", "value": "ask"}
        await client.connection.request("session/set_config_option", option, timeout=TIMEOUT_S)
        assert client.of(CurrentModeUpdate)[-1].current_mode_id == "ask"
        response = await client.load(session_id, work)
        assert response.modes is not None
        assert response.modes.current_mode_id == "ask"


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"configId": "nonsense", "value": "x"}, "configId"),
        ({"configId": "model", "value": "gpt"}, "value"),
        ({"configId": "model", "value": True}, "value"),
        ({"configId": "mode", "value": "nonsense"}, "value"),
        ({"configId": "word_by_word", "value": "yes"}, "value"),
        ({"configId": "model"}, "value"),
    ],
)
async def test_a_wrong_option_or_value_is_named(home: Path, work: Path, params: dict[str, object], named: str) -> None:
    async with demo(home) as client:
        await client.new(work)
        refusal = await refused(client, "session/set_config_option", {"sessionId": client.session_id, **params})
        assert refusal.code == -32602
        assert named in str(refusal)


async def test_a_wrong_mode_is_named(home: Path, work: Path) -> None:
    async with demo(home) as client:
        await client.new(work)
        refusal = await refused(client, "session/set_mode", {"sessionId": client.session_id, "modeId": "yolo"})
        assert refusal.code == -32602
        assert "modeId: there is no mode 'yolo'" in str(refusal)
