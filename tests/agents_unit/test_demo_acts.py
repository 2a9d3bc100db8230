"""Actions of the demo agent in the workspace: after permission only, through the client or by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.agents.demo.workspace_scenes import OUTPUT_LIMIT_BYTES, argv_of, edited
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.vocabulary import (
    ClientCapabilities,
    Content,
    Diff,
    FileSystemCapabilities,
    RequestPermissionRequest,
    SessionToolCallUpdate,
    Terminal,
    TextContent,
    ToolCall,
)

from .demo_client import FILES, NOTHING, SIGN, TERMINAL, Client, demo, lifeline, names

BY_CLIENT_AND_BY_ITSELF = pytest.mark.parametrize("capabilities", [FILES, NOTHING], ids=["client", "itself"])
IN_TERMINAL_AND_BY_ITSELF = pytest.mark.parametrize("capabilities", [TERMINAL, NOTHING], ids=["terminal", "itself"])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def shown(client: Client) -> str:
    """Return the text of the last content of a tool call."""
    for update in reversed(client.of(SessionToolCallUpdate)):
        for content in update.content or ():
            if isinstance(content, Content) and isinstance(content.content, TextContent):
                return content.content.text
    return ""


# -- files


@BY_CLIENT_AND_BY_ITSELF
async def test_an_edit_is_shown_as_a_diff_asked_for_and_done(
    home: Path, work: Path, capabilities: ClientCapabilities
) -> None:
    readme = work / "README.md"
    readme.write_text("# Hello")
    async with demo(home, capabilities) as client:
        await client.new(work)
        assert (await client.prompt("please edit the README")).stop_reason == "end_turn"
        after = "# Hello\nThis line was added by the Dragoman demo agent.\n"
        assert readme.read_text() == after
        (call,) = client.of(ToolCall)
        assert (call.title, call.kind, call.status) == ("Edit README.md", "edit", "pending")
        assert call.content == (Diff(path=str(readme), old_text="# Hello", new_text=after),)
        assert [(location.path, location.line) for location in call.locations] == [(str(readme), 2)]
        assert client.statuses() == ["pending", "in_progress", "completed"]
        (request,) = [params for _, params in client.requests if isinstance(params, RequestPermissionRequest)]
        assert request.tool_call.tool_call_id == call.tool_call_id
        assert request.tool_call.content == call.content
        assert [option.kind for option in request.options] == [
            *("allow_once", "allow_always", "reject_once", "reject_always")
        ]
        assert ("fs/write_text_file" in client.requested_methods()) is (capabilities is FILES)
        assert "I added a line to README.md." in client.text


@BY_CLIENT_AND_BY_ITSELF
async def test_a_missing_file_is_created(home: Path, work: Path, capabilities: ClientCapabilities) -> None:
    async with demo(home, capabilities) as client:
        await client.new(work)
        await client.prompt("edit README")
        assert (work / "README.md").read_text() == "# README\n\nThis file was created by the Dragoman demo agent.\n"
        (content,) = client.of(ToolCall)[0].content
        assert isinstance(content, Diff)
        assert content.old_text is None
        await client.prompt('edit "my notes": buy milk')
        assert (work / "my notes").read_text() == "buy milk\n"


def test_a_line_is_appended_where_it_can_be_found() -> None:
    assert edited("a.txt", "one\ntwo", "three") == ("one\ntwo\nthree\n", 3)
    assert edited("a.txt", "", "one") == ("one\n", 1)
    assert edited("a.txt", None, "") == ("This file was created by the Dragoman demo agent.\n", 1)


@BY_CLIENT_AND_BY_ITSELF
@pytest.mark.parametrize("option", ["reject-once", "reject-always", "an-option-nobody-offered"])
async def test_a_refused_edit_changes_nothing_and_the_turn_goes_on(
    home: Path, work: Path, capabilities: ClientCapabilities, option: str
) -> None:
    async with demo(home, capabilities) as client:
        client.permissions = [option]
        await client.new(work)
        assert (await client.prompt("edit README")).stop_reason == "end_turn"
        assert names(work) == []
        assert client.statuses() == ["pending", "failed"]
        assert "You said no, so I leave it." in client.text


async def test_a_permission_answered_cancelled_ends_the_turn_as_cancelled(home: Path, work: Path) -> None:
    async with demo(home, FILES) as client:
        client.permissions = ["cancelled"]
        await client.new(work)
        assert (await client.prompt("edit README")).stop_reason == "cancelled"
        assert names(work) == []
        assert client.statuses() == ["pending", "failed"]


async def test_a_client_that_cannot_ask_has_not_given_permission(home: Path, work: Path) -> None:
    async with demo(home) as client:
        client.answers["session/request_permission"] = RpcRefusal(-32601, "what is that?")
        await client.new(work)
        assert (await client.prompt("edit README")).stop_reason == "end_turn"
        assert names(work) == []
        assert "could not ask you for permission" in client.text


async def test_always_is_remembered_for_that_kind_of_tool_in_that_session(home: Path, work: Path) -> None:
    async with demo(home) as client:
        await client.new(work)
        client.permissions = ["allow-always"]
        await client.prompt("edit a.txt")
        await client.prompt("edit a.txt")
        assert client.requested_methods() == ["session/request_permission"]
        assert len((work / "a.txt").read_text().splitlines()) == 2
        client.permissions = ["reject-always"]
        await client.prompt("run ls")
        await client.prompt("run ls")
        assert len(client.requests) == 2
        assert "You said “always reject”" in client.text
        await client.new(work)
        await client.prompt("edit a.txt")
        assert len(client.requests) == 3


async def test_in_ask_mode_an_earlier_always_allow_does_not_count(home: Path, work: Path) -> None:
    async with demo(home) as client:
        await client.new(work)
        client.permissions = ["allow-always"]
        await client.prompt("edit a.txt")
        await client.prompt("mode ask")
        await client.prompt("edit a.txt")
        assert len(client.requests) == 2


async def test_in_plan_mode_nothing_is_changed_and_nobody_asked(home: Path, work: Path) -> None:
    async with demo(home) as client:
        await client.new(work)
        await client.prompt("mode plan")
        await client.prompt("edit a.txt")
        await client.prompt("run touch b.txt")
        assert client.requests == []
        assert names(work) == []
        assert "I am in plan mode" in client.text


async def test_a_permission_can_be_asked_for_its_own_sake(home: Path, work: Path) -> None:
    async with demo(home) as client:
        await client.new(work)
        await client.prompt("permission")
        assert client.requested_methods() == ["session/request_permission"]
        assert "as promised" in client.text


@BY_CLIENT_AND_BY_ITSELF
async def test_a_file_is_read_without_asking(home: Path, work: Path, capabilities: ClientCapabilities) -> None:
    (work / "a.txt").write_text("one\ntwo\n")
    async with demo(home, capabilities) as client:
        await client.new(work)
        await client.prompt("read a.txt")
        assert "a.txt has 2 lines:\n\n```\none\ntwo\n```" in client.text
        assert client.statuses() == ["pending", "in_progress", "completed"]
        assert set(client.requested_methods()) == ({"fs/read_text_file"} if capabilities is FILES else set())
        await client.prompt("read b.txt")
        assert "There is no file b.txt" in client.text


async def test_reading_and_writing_are_offered_apart(home: Path, work: Path) -> None:
    for fs, method in (
        (FileSystemCapabilities(read_text_file=True), "fs/read_text_file"),
        (FileSystemCapabilities(write_text_file=True), "fs/write_text_file"),
    ):
        async with demo(home, ClientCapabilities(fs=fs)) as client:
            await client.new(work)
            await client.prompt("edit a.txt: line")
            assert set(client.requested_methods()) == {method, "session/request_permission"}
    assert (work / "a.txt").read_text() == "line\nline\n"


async def test_what_the_client_fails_to_write_is_told(home: Path, work: Path) -> None:
    async with demo(home, FILES) as client:
        client.answers["fs/write_text_file"] = RpcRefusal(-32603, "disk full")
        await client.new(work)
        assert (await client.prompt("edit a.txt")).stop_reason == "end_turn"
        assert "disk full" in client.text
        assert client.statuses()[-1] == "failed"


async def test_a_file_that_the_client_cannot_read_is_not_taken_for_missing(home: Path, work: Path) -> None:
    (work / "a.txt").write_text("precious")
    async with demo(home, FILES) as client:
        client.answers["fs/read_text_file"] = RpcRefusal(-32603, "busy")
        await client.new(work)
        await client.prompt("edit a.txt")
        assert (work / "a.txt").read_text() == "precious"
        assert "The client could not read" in client.text


@pytest.mark.parametrize("request_", ["edit ../out.txt", "read ../out.txt", "delete ../out.txt", "edit link/x"])
async def test_by_itself_it_touches_nothing_outside_of_the_workspace(home: Path, work: Path, request_: str) -> None:
    outside = work.parent / "out.txt"
    outside.write_text("secret")
    (work / "link").symlink_to(work.parent)
    async with demo(home) as client:
        await client.new(work)
        await client.prompt(request_)
        assert "outside of this session's workspace" in client.text
        assert client.requests == []
        assert outside.read_text() == "secret"
        assert not (work.parent / "x").exists()


async def test_additional_folders_belong_to_the_workspace(home: Path, work: Path) -> None:
    other = work.parent / "other"
    other.mkdir()
    async with demo(home) as client:
        await client.new(work, additionalDirectories=[str(other)])
        await client.prompt(f"edit {other}/a.txt: hello")
        assert (other / "a.txt").read_text() == "hello\n"


async def test_a_file_that_is_no_text_is_left_alone(home: Path, work: Path) -> None:
    (work / "a.bin").write_bytes(b"\xff\x00")
    async with demo(home) as client:
        await client.new(work)
        await client.prompt("edit a.bin")
        assert "is no text file" in client.text


async def test_a_file_is_deleted_only_with_permission(home: Path, work: Path) -> None:
    (work / "a.txt").write_text("x")
    async with demo(home) as client:
        await client.new(work)
        client.permissions = ["reject-once"]
        await client.prompt("delete a.txt")
        assert (work / "a.txt").exists()
        await client.prompt("delete a.txt")
        assert not (work / "a.txt").exists()
        await client.prompt("delete a.txt")
        assert "There is no file a.txt" in client.text
        assert client.of(ToolCall)[0].kind == "delete"


# -- commands


@IN_TERMINAL_AND_BY_ITSELF
async def test_a_command_is_run_with_permission_and_its_output_shown(
    home: Path, work: Path, capabilities: ClientCapabilities
) -> None:
    (work / "found.txt").write_text("")
    async with demo(home, capabilities) as client:
        await client.new(work)
        assert (await client.prompt("run ls")).stop_reason == "end_turn"
        assert "`ls` ended with exit code 0." in client.text
        assert "```\nfound.txt\n```" in client.text
        assert client.statuses() == ["pending", "in_progress", "completed"]
        end = client.of(SessionToolCallUpdate)[-1]
        assert end.raw_output == {"exitCode": 0, "signal": None, "output": "found.txt\n", "truncated": False}
        if capabilities is TERMINAL:
            assert client.requested_methods()[1:] == [
                *("terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release")
            ]
            progress = client.of(SessionToolCallUpdate)[0]
            assert progress.content == (Terminal(terminal_id="terminal-0"),)
            assert end.content is None  # the terminal stays on display
        else:
            assert shown(client) == "found.txt\n"


@IN_TERMINAL_AND_BY_ITSELF
async def test_a_failing_command_is_told_with_its_exit_code(
    home: Path, work: Path, capabilities: ClientCapabilities
) -> None:
    async with demo(home, capabilities) as client:
        await client.new(work)
        await client.prompt("run echo oh no >&2; exit 7")
        assert "ended with exit code 7." in client.text
        assert "oh no" in client.text


@IN_TERMINAL_AND_BY_ITSELF
async def test_a_program_that_is_not_there_is_told(home: Path, work: Path, capabilities: ClientCapabilities) -> None:
    async with demo(home, capabilities) as client:
        await client.new(work)
        assert (await client.prompt("run no-such-program-here")).stop_reason == "end_turn"
        assert "That did not work." in client.text
        assert client.statuses()[-1] == "failed"


async def test_a_refused_command_is_not_run(home: Path, work: Path) -> None:
    async with demo(home) as client:
        client.permissions = ["reject-once"]
        await client.new(work)
        await client.prompt("run touch a.txt")
        assert names(work) == []


async def test_a_command_ended_by_a_signal_is_told_so(home: Path, work: Path) -> None:
    async with demo(home) as client:
        await client.new(work)
        await client.prompt("run kill -TERM $$")
        assert "was ended by SIGTERM" in client.text


async def test_of_much_output_the_end_is_kept(home: Path, work: Path) -> None:
    async with demo(home) as client:
        await client.new(work)
        await client.prompt("run seq 1 100000")
        output = shown(client)
        assert len(output) == OUTPUT_LIMIT_BYTES
        assert output.endswith("99999\n100000\n")
        assert "lines above" in client.text
        raw = client.of(SessionToolCallUpdate)[-1].raw_output
        assert raw["truncated"] is True


async def test_what_a_command_leaves_running_ends_with_it(home: Path, work: Path) -> None:
    async with demo(home) as client, lifeline(work / "pipe") as line:
        await client.new(work)
        await client.prompt(f"run exec 3>pipe; {SIGN}; sleep 1000 & exit 0")
        assert "exit code 0" in client.text
        await line.wait_open()
        await line.released()


def test_plain_words_are_run_as_they_are_and_the_rest_by_the_shell() -> None:
    assert argv_of("ls -la src") == ["ls", "-la", "src"]
    assert argv_of("ls | wc -l") == ["sh", "-c", "ls | wc -l"]
    assert argv_of("echo 'a b") == ["sh", "-c", "echo 'a b"]
    assert argv_of("A=1 env") == ["sh", "-c", "A=1 env"]
