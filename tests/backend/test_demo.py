"""The demo agent as a backend: its real process, driven by messages alone."""

from __future__ import annotations

from pathlib import Path

from dragoman.backend import (
    BackendAdapter,
    UnifiedMessage,
    configuration_change,
    interrupt,
    permission_response,
    user_message,
)
from dragoman.session.options import SessionConfig
from dragoman.session.spec import Limits
from dragoman.testing.demo import demo_spec
from dragoman.workspace import Workspace

from .conftest import connected, text_of, until, until_message


async def test_a_session_begins_with_the_agent_then_with_its_own_id(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        first, second = [await anext(session.messages) for _ in range(2)]
        assert (first.type, second.type) == ("session_init", "session_init")
        assert first.metadata["agentCapabilities"]["loadSession"] is True
        assert second.metadata["sessionId"].startswith("demo-")
        assert second.metadata["modes"]["currentModeId"] == "code"


async def test_a_prompt_streams_and_ends_with_its_result(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        prompt = user_message("stream 50")
        await session.send(prompt)
        messages = await until(session, "result")
        assert text_of(messages) == "".join(f"chunk {number}\n" for number in range(1, 51))
        assert messages[-1].metadata["stopReason"] == "end_turn"
        assert messages[-1].metadata["in_reply_to"] == prompt.id
        assert session.status() == "idle"


async def test_a_file_is_edited_when_the_front_end_allows_it(demo: BackendAdapter, folder: Path) -> None:
    (folder / "notes.txt").write_text("one\n")
    async with connected(demo, folder) as session:
        await session.send(user_message("edit notes.txt: two"))
        request = (await until(session, "permission_request"))[-1]
        assert request.metadata["toolCall"]["title"] == "Edit notes.txt"
        assert (folder / "notes.txt").read_text() == "one\n"
        assert session.status() == "waiting"
        await session.send(permission_response(request, "allow"))
        messages = await until(session, "result")
        assert (folder / "notes.txt").read_text() == "one\ntwo\n"
        # Allowed with the diff shown: what the agent then asks us to write is not asked again.
        assert "permission_request" not in [message.type for message in messages]
        [summary] = [message for message in messages if message.type == "tool_use_summary"]
        assert summary.content[0]["type"] == "diff"
        assert "is_error" not in summary.metadata


async def test_a_file_is_unchanged_when_the_front_end_denies_the_edit(demo: BackendAdapter, folder: Path) -> None:
    (folder / "notes.txt").write_text("one\n")
    async with connected(demo, folder) as session:
        await session.send(user_message("edit notes.txt: two"))
        request = (await until(session, "permission_request"))[-1]
        await session.send(permission_response(request, "deny"))
        messages = await until(session, "result")
        assert (folder / "notes.txt").read_text() == "one\n"
        # Refused, not cancelled: the turn goes on to its own end.
        assert messages[-1].metadata["stopReason"] == "end_turn"
        assert "You said no" in text_of(messages)
        [summary] = [message for message in messages if message.type == "tool_use_summary"]
        assert summary.metadata["is_error"] is True


async def test_a_command_runs_in_a_terminal_of_dragoman(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        await session.send(user_message("run echo it works"))
        request = (await until(session, "permission_request"))[-1]
        await session.send(permission_response(request, "allow", option_id="allow-once"))
        messages = await until(session, "result")
        assert "it works" in text_of(messages)


async def test_an_interrupt_ends_the_run_and_the_next_prompt_is_answered(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        await session.send(user_message("slow 1000"))
        await until(session, "stream_event")
        await session.send(interrupt())
        messages = await until(session, "result")
        assert messages[-1].metadata["stopReason"] == "cancelled"
        await session.send(user_message("hello"))
        assert (await until(session, "result"))[-1].metadata["stopReason"] == "end_turn"


async def test_an_interrupt_withdraws_the_pending_permission_request(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        await session.send(user_message("permission"))
        request = (await until(session, "permission_request"))[-1]
        await session.send(interrupt())
        late = permission_response(request, "allow")
        await session.send(late)
        messages = await until(session, "result")
        if not any(message.type == "error" for message in messages):
            messages = await until(session, "error")
        [error] = [message for message in messages if message.type == "error"]
        assert error.metadata["in_reply_to"] == late.id


async def test_model_and_mode_are_changed_in_the_order_they_were_sent(demo: BackendAdapter, folder: Path) -> None:
    (folder / "notes.txt").write_text("one\n")
    async with connected(demo, folder) as session:
        await session.send(configuration_change(model="demo-large"))
        await session.send(configuration_change(mode="plan"))
        await session.send(user_message("edit notes.txt: two"))
        messages = await until(session, "result")
        # The prompt was already heard in plan mode, and by the larger of the models.
        assert "I am in plan mode" in text_of(messages)
        usage = [message for message in messages if message.metadata.get("sessionUpdate") == "usage_update"]
        assert usage[-1].metadata["size"] == 200_000
        switched = [message for message in messages if message.metadata.get("method") == "session/set_config_option"]
        assert [message.type for message in switched] == ["unknown", "unknown"]


async def test_a_mode_that_the_agent_changes_is_a_change_of_configuration(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        await session.send(user_message("mode plan"))
        messages = await until(session, "configuration_change")
        assert messages[-1].metadata["modeId"] == "plan"
        await until(session, "result")


async def test_an_unknown_model_or_mode_is_an_error_to_the_sender(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        change = configuration_change(model="gpt-9")
        await session.send(change)
        error = (await until(session, "error"))[-1]
        assert error.metadata["in_reply_to"] == change.id
        assert "demo-small" in error.metadata["message"]


async def test_an_advertised_slash_command_can_be_sent(demo: BackendAdapter, folder: Path) -> None:
    def commands(message: UnifiedMessage) -> bool:
        return message.metadata.get("sessionUpdate") == "available_commands_update"

    async with connected(demo, folder) as session:
        offered = (await until_message(session, commands))[-1]
        assert offered.type == "unknown"
        assert "plan" in [command["name"] for command in offered.metadata["availableCommands"]]
        await session.send(user_message("/plan"))
        messages = await until(session, "result")
        plans = [message for message in messages if message.type == "status_change"]
        assert plans[-1].metadata["entries"][0]["status"] == "completed"


async def test_a_crash_ends_the_prompt_then_reports_the_error_then_ends_the_messages(
    demo: BackendAdapter, folder: Path
) -> None:
    async with connected(demo, folder) as session:
        prompts = [user_message("crash"), user_message("never heard")]
        for prompt in prompts:
            await session.send(prompt)
        messages = [message async for message in session.messages]
        assert text_of(messages) == "My process ends in the middle of this"
        *_, first, second, error = messages
        for result, prompt in zip((first, second), prompts, strict=True):
            assert (result.type, result.metadata["in_reply_to"]) == ("result", prompt.id)
            assert (result.metadata["status"], result.metadata["is_error"]) == ("interrupted", True)
        assert (error.type, error.metadata["kind"]) == ("error", "AgentCrashed")
        assert error.metadata["exit_code"] == 3
        assert "crashing as asked" in error.metadata["stderr"]
        assert "crashing as asked" in session.stderr
        assert session.status() == "error"


async def test_noise_on_stdout_is_passed_on_and_harms_nothing(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        await session.send(user_message("noise"))
        messages = await until(session, "result")
        lines = [message.metadata["line"] for message in messages if "noise" in message.metadata]
        assert "this line is not JSON" in lines
        assert "your client took no harm" in text_of(messages)


async def test_a_silent_agent_is_reported_beside_its_result(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        prompt = user_message("silent")
        await session.send(prompt)
        await until(session, "result")
        error = (await until(session, "error"))[-1]
        assert (error.metadata["kind"], error.metadata["in_reply_to"]) == ("SilentFailure", prompt.id)


async def test_an_agent_that_hangs_is_ended_by_an_interrupt(folder: Path, tmp_path: Path) -> None:
    quick = BackendAdapter(demo_spec(tmp_path / "demo"), limits=Limits(cancel_timeout=0.05, close_timeout=0.05))
    async with connected(quick, folder) as session:
        await session.send(user_message("hang"))
        await until(session, "stream_event")
        await session.send(interrupt())
        *_, result, error = [message async for message in session.messages]
        # By the agent's last words, or without them.
        assert "cancelled" in (result.metadata["stopReason"], result.metadata.get("status"))
        assert result.type == "result"
        assert "did not stop" in error.metadata["message"]


async def test_a_snapshot_is_continued_by_another_process(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        await session.send(user_message("title A good name"))
        await until(session, "result")
        handle = session.snapshot()
    async with connected(demo, folder, resume=handle) as session:
        messages = [await anext(session.messages) for _ in range(2)]
        assert [message.type for message in messages] == ["session_init", "session_init"]
        assert messages[1].metadata["sessionId"] == handle.agent_session_id
        await session.send(user_message("hello"))
        await until(session, "result")


async def test_access_decides_without_the_front_end_where_it_can(demo: BackendAdapter, folder: Path) -> None:
    (folder / "notes.txt").write_text("one\n")
    config = SessionConfig(workspace=Workspace(folder), access="edit-inside")
    async with connected(demo, config) as session:
        await session.send(user_message("edit notes.txt: two"))
        messages = await until(session, "result")
        assert (folder / "notes.txt").read_text() == "one\ntwo\n"
        [request] = [message for message in messages if message.type == "permission_request"]
        # It is shown, as everything from the agent is; but it is decided, and an answer changes nothing.
        late = permission_response(request, "deny")
        await session.send(late)
        assert (await until(session, "error"))[-1].metadata["in_reply_to"] == late.id
