"""Texts and updates of the demo agent for each plain request."""

from __future__ import annotations

import binascii
import io
from pathlib import Path

import pytest

from dragoman.agents.demo.requests import REQUESTS_BY_NAME
from dragoman.agents.demo.scenes import SCENES
from dragoman.errors import AuthenticationRequired, RequestFailed
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.vocabulary import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AudioContent,
    AvailableCommandsUpdate,
    BlobResourceContents,
    ClientCapabilities,
    ClientSessionCapabilities,
    CompactionCapabilities,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationCapabilities,
    ElicitationDeclineAction,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    EmbeddedResource,
    EnvVariable,
    FileSystemCapabilities,
    HttpHeader,
    ImageContent,
    McpServerHttp,
    McpServerStdio,
    Notice,
    NoticeCapabilities,
    Plan,
    ResourceLink,
    SessionConfigSelect,
    SessionInfoUpdate,
    SessionToolCallUpdate,
    TextResourceContents,
    ToolCall,
    UsageUpdate,
)

from .demo_client import FILES, TIMEOUT_S, Client, demo, names

FORMS = ClientCapabilities(elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()))
PAGES = ClientCapabilities(elicitation=ElicitationCapabilities(url=ElicitationUrlCapabilities()))
NOTICES = ClientCapabilities(session=ClientSessionCapabilities(notices=NoticeCapabilities()))
COMPACTION = ClientCapabilities(session=ClientSessionCapabilities(compaction=CompactionCapabilities()))
ALL = ClientCapabilities(
    fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    session=ClientSessionCapabilities(notices=NoticeCapabilities(), compaction=CompactionCapabilities()),
    elicitation=FORMS.elicitation,
)


def test_every_request_has_its_scene() -> None:
    assert set(SCENES) == {*REQUESTS_BY_NAME, "chat", "hello", "unknown"}


async def test_hello_is_answered_word_by_word_in_one_message(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        response = await client.prompt("hello")
        chunks = client.of(AgentMessageChunk)
        assert client.text.startswith("Hello! I am Dragoman's demo agent.")
        assert len(chunks) > 20
        assert len({chunk.message_id for chunk in chunks}) == 1
        assert response.stop_reason == "end_turn"


async def test_what_is_not_understood_is_repeated_with_what_can_be_asked(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("Fix the failing test")
        assert "“Fix the failing test” (4 words)" in client.text
        assert "`help`" in client.text


async def test_an_empty_prompt_is_answered(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        assert (await client.prompt("")).stop_reason == "end_turn"
        assert client.text.startswith("You said nothing.")


async def test_the_first_prompt_names_the_session(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("hello\nand more")
        await client.prompt("plan")
        assert [update.title for update in client.of(SessionInfoUpdate)] == ["hello"]


async def test_slash_commands_are_told_after_the_session_is_known_and_can_be_used(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.until(lambda: client.of(AvailableCommandsUpdate))
        commands = client.of(AvailableCommandsUpdate)[0].available_commands
        assert {"help", "plan", "tour", "edit"} <= {command.name for command in commands}
        assert not {"crash", "hang"} & {command.name for command in commands}
        await client.prompt("/plan")
        assert client.of(Plan)
        await client.prompt("/nonsense")
        assert "There is no command `/nonsense`" in client.text


async def test_help_lists_every_request(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("help")
        assert all(f"`{ask.words[0]}" in client.text for ask in REQUESTS_BY_NAME.values())


async def test_a_plan_advances_to_its_end(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("plan")
        plans = [[entry.status for entry in plan.entries] for plan in client.of(Plan)]
        assert plans[0] == ["in_progress", "pending", "pending", "pending"]
        assert plans[-1] == ["completed"] * 4
        assert len(plans) == 5


async def test_thoughts_come_before_the_answer_as_a_message_of_their_own(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        response = await client.prompt("think")
        kinds = [kind for kind in client.kinds() if kind.endswith("_chunk")]
        assert kinds == sorted(kinds, reverse=True)  # all thoughts first
        assert not {c.message_id for c in client.of(AgentThoughtChunk)} & {
            c.message_id for c in client.of(AgentMessageChunk)
        }
        assert response.usage is not None
        assert response.usage.thought_tokens == len(client.thoughts.split())


async def test_the_thought_level_makes_it_think_before_anything(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        for level, paragraphs in (("low", 1), ("high", 2)):
            client.updates.clear()
            params = {"sessionId": client.session_id, "configId": "thought_level", "value": level}
            await client.connection.request("session/set_config_option", params, timeout=TIMEOUT_S)
            await client.prompt("hello")
            assert len(client.thoughts.split("\n\n")) == paragraphs


async def test_tool_calls_of_every_kind_are_shown_from_pending_to_their_end(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("tools")
        calls = client.of(ToolCall)
        assert {call.kind for call in calls} == {
            *("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
        }
        ends = [update for update in client.of(SessionToolCallUpdate) if update.status in ("completed", "failed")]
        assert [end.tool_call_id for end in ends] == [call.tool_call_id for call in calls]
        assert [end.status for end in ends].count("failed") == 1


async def test_an_image_is_a_png_and_a_sound_a_wav(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("show me a picture")
        await client.prompt("beep")
        blocks = [chunk.content for chunk in client.of(AgentMessageChunk)]
        (picture,) = [block for block in blocks if isinstance(block, ImageContent)]
        (sound,) = [block for block in blocks if isinstance(block, AudioContent)]
        assert picture.mime_type == "image/png"
        assert binascii.a2b_base64(picture.data).startswith(b"\x89PNG\r\n\x1a\n")
        assert binascii.a2b_base64(sound.data)[:4] == b"RIFF"


async def test_a_link_and_an_embedded_file_are_shown(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("link")
        blocks = [chunk.content for chunk in client.of(AgentMessageChunk)]
        assert [block.uri for block in blocks if isinstance(block, ResourceLink)] == [tmp_path.as_uri()]
        assert any(isinstance(block, EmbeddedResource) for block in blocks)


async def test_attachments_are_acknowledged_with_kind_and_size(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt(
            "hello",
            ImageContent(data="QUJD", mime_type="image/png"),
            AudioContent(data="QUJD", mime_type="audio/wav"),
            ResourceLink(uri="file:///a.txt", name="a"),
            EmbeddedResource(resource=TextResourceContents(uri="file:///b.txt", text="four")),
            EmbeddedResource(resource=BlobResourceContents(uri="file:///c.bin", blob="QUJD")),
        )
        assert client.text.startswith(
            "You attached an image (image/png, 3 bytes), a sound (audio/wav, 3 bytes), a link to file:///a.txt, "
            "the file file:///b.txt (4 characters), the file file:///c.bin (3 bytes).\n\nHello!"
        )


async def test_usage_counts_words_and_says_so(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        response = await client.prompt("hello you")
        words = len(client.text.split())
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens) == (2, words)
        assert response.usage.total_tokens == 2 + words
        assert [update.used for update in client.of(UsageUpdate)] == [2 + words]
        client.updates.clear()
        await client.prompt("usage")
        assert "I count words" in client.text
        assert f"used {2 + words} of 8,000 words" in client.text
        assert client.of(UsageUpdate)[0].used == 2 + words


async def test_mcp_servers_are_listed_without_their_secrets(tmp_path: Path) -> None:
    servers = (
        McpServerStdio(
            name="tools", command="/bin/tools", args=("s3cret",), env=(EnvVariable(name="K", value="s3cret"),)
        ),
        McpServerHttp(name="web", url="https://h/mcp?key=s3cret", headers=(HttpHeader(name="A", value="s3cret"),)),
    )
    async with demo(tmp_path) as client:
        await client.new(tmp_path, mcp_servers=servers)
        await client.prompt("mcp")
        assert "I do not connect to them" in client.text
        assert "- `tools`: stdio, /bin/tools\n- `web`: http, https://h/mcp" in client.text
        assert "s3cret" not in client.text


async def test_without_mcp_servers_it_says_that_there_are_none(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("mcp")
        assert "named no MCP servers" in client.text


async def test_a_notice_is_sent_only_to_a_client_that_shows_them(tmp_path: Path) -> None:
    for capabilities, count in ((NOTICES, 1), (ClientCapabilities(), 0)):
        async with demo(tmp_path, capabilities) as client:
            await client.new(tmp_path)
            await client.prompt("notice")
            assert len(client.of(Notice)) == count
            assert ("does not show notices" in client.text) is (count == 0)


async def test_a_compaction_is_told_only_to_a_client_that_shows_them(tmp_path: Path) -> None:
    async with demo(tmp_path, COMPACTION) as client:
        await client.new(tmp_path)
        await client.prompt("compact")
        assert [update.status for update in client.of(CompactionUpdate)] == ["in_progress", "completed"]
        assert client.of(CompactionSummaryChunk)
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("compact")
        assert not client.of(CompactionUpdate)
        assert "does not show compactions" in client.text


async def test_a_title_can_be_given(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("title My Title")
        assert client.of(SessionInfoUpdate)[-1].title == "My Title"


async def test_the_mode_is_switched_for_readers_of_modes_and_of_options(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("mode plan")
        assert client.of(CurrentModeUpdate)[-1].current_mode_id == "plan"
        option = client.of(ConfigOptionUpdate)[-1].config_options[0]
        assert isinstance(option, SessionConfigSelect)
        assert (option.id, option.current_value) == ("mode", "plan")
        await client.prompt("mode nonsense")
        assert "I have no mode “nonsense”" in client.text


async def test_the_model_is_switched_and_heard(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("model large")
        option = client.of(ConfigOptionUpdate)[-1].config_options[1]
        assert isinstance(option, SessionConfigSelect)
        assert (option.id, option.current_value) == ("model", "demo-large")
        await client.prompt("hello")
        assert "This is Demo Large speaking" in client.text
        assert client.of(UsageUpdate)[-1].size == 200_000
        await client.prompt("model")
        assert "The model is now `demo-small`" in client.text
        await client.prompt("model nonsense")
        assert "I have no model “nonsense”" in client.text


# -- questions


async def test_a_question_is_asked_with_a_form_and_its_answer_repeated(tmp_path: Path) -> None:
    async with demo(tmp_path, FORMS) as client:
        await client.new(tmp_path)
        client.answers["elicitation/create"] = ElicitationAcceptAction(
            content={"colour": "red", "files": 3, "happy": True, "languages": ("Rust",)}
        )
        await client.prompt("ask me")
        assert client.requested_methods() == ["elicitation/create"]
        assert "- colour: red\n- files: 3\n- happy: True" in client.text


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (ElicitationDeclineAction(), "You would rather not answer"),
        (ElicitationCancelAction(), "You closed the question"),
        ({"action": "_later"}, "You closed the question"),
        (RpcRefusal(-32603, "no screen"), "The client could not ask you"),
        ({"nonsense": 1}, "The client could not ask you"),
    ],
)
async def test_a_question_may_stay_unanswered(tmp_path: Path, answer: object, reply: str) -> None:
    async with demo(tmp_path, FORMS) as client:
        await client.new(tmp_path)
        client.answers["elicitation/create"] = answer
        assert (await client.prompt("ask me")).stop_reason == "end_turn"
        assert reply in client.text


async def test_a_client_without_forms_is_asked_in_text_and_may_answer_in_the_next_prompt(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("ask me")
        assert "This client does not offer questions with forms" in client.text
        assert client.requests == []
        await client.prompt("red")
        assert "you answered: red" in client.text


async def test_a_page_is_offered_and_its_end_told(tmp_path: Path) -> None:
    async with demo(tmp_path, PAGES) as client:
        await client.new(tmp_path)
        client.answers["elicitation/create"] = ElicitationAcceptAction()
        await client.prompt("open page")
        assert [notification.method for notification in client.notifications] == ["elicitation/complete"]
        client.answers["elicitation/create"] = ElicitationDeclineAction()
        await client.prompt("open page")
        assert len(client.notifications) == 1
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("open page")
        assert "does not open pages" in client.text


# -- much, long, and wrong


async def test_a_stream_has_the_chunks_that_were_asked_for(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("stream 5000")
        assert [chunk.content.text for chunk in client.of(AgentMessageChunk)] == [  # type: ignore[union-attr]  # all text
            f"chunk {number}\n" for number in range(1, 5001)
        ]


async def test_a_flood_comes_whole_and_in_order(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.prompt("flood 20k")
        assert client.text == "".join(f"drop {number}\n" for number in range(1, 20_001))


async def test_slow_and_sleep_take_their_time(tmp_path: Path) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with demo(tmp_path, sleep=sleep) as client:
        await client.new(tmp_path)
        await client.prompt("slow 3")
        await client.prompt("sleep 2.5")
        assert pauses == [0.5, 0.5, 0.5, 2.5]
        assert client.text.startswith("word 1\nword 2\nword 3\n")
        assert client.text.endswith("I am awake again.")


@pytest.mark.parametrize(
    ("prompt", "reason"), [("refuse", "refusal"), ("max tokens", "max_tokens"), ("max turns", "max_turn_requests")]
)
async def test_a_stop_reason_can_be_had(tmp_path: Path, prompt: str, reason: str) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        assert (await client.prompt(prompt)).stop_reason == reason
        assert client.text


async def test_silent_ends_without_an_update_or_usage(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        await client.until(lambda: client.updates)  # the commands
        response = await client.prompt("silent")
        assert (response.stop_reason, response.usage) == ("end_turn", None)
        assert client.kinds() == ["available_commands_update"]


async def test_an_error_is_a_json_rpc_error_and_the_session_goes_on(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        with pytest.raises(RequestFailed) as failure:
            await client.prompt("error")
        assert failure.value.code == -32603
        assert (await client.prompt("hello")).stop_reason == "end_turn"


async def test_login_is_wanted_until_it_was_given(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        with pytest.raises(AuthenticationRequired) as refusal:
            await client.prompt("login")
        assert refusal.value.data["authMethods"][0]["id"] == "demo-login"
        await client.connection.request("authenticate", {"methodId": "demo-login"}, timeout=TIMEOUT_S)
        await client.prompt("login")
        assert "You are logged in" in client.text


async def test_noise_comes_between_good_messages(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        assert (await client.prompt("noise")).stop_reason == "end_turn"
        assert b"this line is not JSON" in client.noise
        assert len(client.noise) >= 6
        assert "your client took no harm" in client.text


async def test_stderr_gets_as_many_lines_as_asked(tmp_path: Path) -> None:
    stderr = io.StringIO()
    async with demo(tmp_path, stderr=stderr) as client:
        await client.new(tmp_path)
        await client.prompt("stderr 7")
        assert len(stderr.getvalue().splitlines()) == 7


# -- the tour


async def tour(client: Client, cwd: Path) -> None:
    client.answers["elicitation/create"] = ElicitationAcceptAction(content={"colour": "red"})
    await client.new(cwd)
    assert (await client.prompt("tour")).stop_reason == "end_turn"
    assert [entry.status for entry in client.of(Plan)[-1].entries] == ["completed"] * 7
    assert client.text.endswith("also the ways in which I can misbehave.")


async def test_the_tour_shows_every_kind_of_update_to_a_client_that_offers_all(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with demo(tmp_path / "home", ALL) as client:
        await tour(client, work)
        assert set(client.kinds()) == {
            *("session_info_update", "available_commands_update", "agent_message_chunk", "agent_thought_chunk"),
            *("plan", "tool_call", "tool_call_update", "current_mode_update", "config_option_update", "usage_update"),
            *("notice", "compaction_update", "compaction_summary_chunk"),
        }
        assert set(client.requested_methods()) == {
            *("session/request_permission", "fs/read_text_file", "fs/write_text_file", "elicitation/create"),
            *("terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"),
        }
        assert "demo agent" in (work / "dragoman-tour.md").read_text()


async def test_the_tour_works_with_a_client_that_offers_nothing_and_refuses_everything(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with demo(tmp_path / "home") as client:
        client.permissions = ["reject-once"] * 9
        await tour(client, work)
        assert set(client.requested_methods()) == {"session/request_permission"}
        assert names(work) == []


async def test_word_by_word_can_be_switched_off(tmp_path: Path) -> None:
    async with demo(tmp_path, FILES) as client:
        await client.new(tmp_path)
        params = {"sessionId": client.session_id, "configId": "word_by_word", "type": "boolean", "value": False}
        await client.connection.request("session/set_config_option", params, timeout=TIMEOUT_S)
        await client.prompt("hello")
        assert len(client.of(AgentMessageChunk)) == 2  # a paragraph each
