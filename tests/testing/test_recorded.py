"""`recorded`: once with the agent, then without it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from dragoman import AgentRuntime, AgentSpec, SessionConfig, Workspace
from dragoman.errors import InputError, RequestFailed
from dragoman.session.spec import Launch
from dragoman.testing import demo_in_memory, demo_spec, in_memory, recorded
from dragoman.testing.recordings import VARIABLE, Recorder, Replayer, scrub, secrets_in

TIMEOUT_S = 20.0
NOWHERE = AgentSpec(command=["no-such-agent-here"])


async def answers(launch: Launch, folder: Path, *prompts: str, spec: AgentSpec = NOWHERE, decision: bool = True) -> str:
    os.makedirs(folder, exist_ok=True)

    async def decide(_: object) -> bool:
        return decision

    async with asyncio.timeout(TIMEOUT_S), AgentRuntime(spec, launch=launch) as runtime:
        session = await runtime.open_session(SessionConfig(workspace=Workspace(folder), on_permission=decide))
        return "\n".join([(await session.run(prompt)).text for prompt in prompts])


def text_of(path: Path) -> str:
    return path.read_text()


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return tmp_path / "recordings" / "talk.jsonl"


def demo(tmp_path: Path) -> Launch:
    return in_memory(demo_in_memory(tmp_path / "demo"))


async def test_the_first_time_the_agent_is_recorded_and_then_it_is_not_needed(recording: Path, tmp_path: Path) -> None:
    spec = demo_spec(tmp_path / "demo")
    first = recorded(recording)
    assert isinstance(first, Recorder)
    text = await answers(first, tmp_path / "then", "hello", "edit notes.txt", spec=spec)
    assert (tmp_path / "then" / "notes.txt").exists()
    again = recorded(recording)
    assert isinstance(again, Replayer)
    assert await answers(again, tmp_path / "now", "hello", "edit notes.txt") == text
    assert (tmp_path / "now" / "notes.txt").read_text() == (tmp_path / "then" / "notes.txt").read_text()


async def test_a_different_prompt_fails_with_the_difference(recording: Path, tmp_path: Path) -> None:
    await answers(recorded(recording, launch=demo(tmp_path)), tmp_path / "w", "hello")
    with pytest.raises(RequestFailed, match=r"(?s)-hello\n\+help"):
        await answers(recorded(recording), tmp_path / "w", "help")


async def test_a_different_decision_fails_where_it_is_strict_and_not_by_order(recording: Path, tmp_path: Path) -> None:
    text = await answers(recorded(recording, launch=demo(tmp_path)), tmp_path / "w", "edit notes.txt")
    with pytest.raises(RequestFailed, match="session/request_permission is not the recorded one"):
        await answers(recorded(recording), tmp_path / "x", "edit notes.txt", decision=False)
    assert await answers(recorded(recording, strict=False), tmp_path / "x", "anything", decision=False) == text


async def test_each_start_of_the_agent_is_a_connection_of_its_own(recording: Path, tmp_path: Path) -> None:
    launch = recorded(recording, launch=demo(tmp_path))
    texts = [await answers(launch, tmp_path / "w", prompt) for prompt in ("hello", "think")]
    launch = recorded(recording)
    assert [await answers(launch, tmp_path / "w", prompt) for prompt in ("hello", "think")] == texts
    with pytest.raises(InputError, match="2 connections, and the agent is started once more"):
        await answers(launch, tmp_path / "w", "hello")


async def test_it_is_recorded_anew_when_asked_for(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await answers(recorded(recording, launch=demo(tmp_path)), tmp_path / "w", "hello")
    monkeypatch.setenv(VARIABLE, "always")
    await answers(recorded(recording, launch=demo(tmp_path)), tmp_path / "w", "think")
    monkeypatch.setenv(VARIABLE, "never")
    assert await answers(recorded(recording), tmp_path / "w", "think")


def test_where_nothing_may_be_recorded_a_missing_recording_is_an_error(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "never")
    with pytest.raises(InputError, match="there is no recording") as raised:
        recorded(recording)
    assert VARIABLE in raised.value.guidance
    monkeypatch.setenv(VARIABLE, "perhaps")
    with pytest.raises(InputError, match="missing, always, never"):
        recorded(recording)


async def test_an_agent_that_could_not_be_started_leaves_no_recording(recording: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no-such-agent-here"):
        await answers(recorded(recording), tmp_path / "w", "hello")
    assert files_in(tmp_path) == ["w"]


# -- scrubbed


async def test_a_scrubbed_recording_has_no_trace_of_the_machine_and_still_plays(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EXAMPLE_API_KEY", "hush-hush-hush")
    folder = tmp_path / "w"
    prompts = (f"edit {folder}/notes.txt", "say hush-hush-hush")
    text = await answers(recorded(recording, launch=demo(tmp_path), scrub=True), folder, *prompts)
    stored = text_of(recording)
    assert str(tmp_path) not in stored
    assert "hush-hush" not in stored
    assert "/workspace/notes.txt" in stored
    elsewhere = tmp_path / "elsewhere"
    again = await answers(recorded(recording), elsewhere, f"edit {elsewhere}/notes.txt", "say another-word-now")
    assert again.splitlines()[0] == text.splitlines()[0]


def opening(**server: object) -> bytes:
    params = {"cwd": "/home/ada/work", "mcpServers": [{"name": "a", **server}]}
    frame = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}
    return msgspec.json.encode({"dir": "out", "ts": 1.5, "frame": frame}) + b"\n"


def said_by_agent(text: str) -> bytes:
    return msgspec.json.encode({"dir": "in", "ts": 2.5, "frame": {"method": "x", "params": {"text": text}}}) + b"\n"


def scrubbed_text(text: str, **options: object) -> str:
    [*_, line] = scrub([opening(), said_by_agent(text)], **options)  # type: ignore[arg-type]  # as named below
    return str(msgspec.json.decode(line)["frame"]["params"]["text"])


def test_values_for_servers_are_secret_wherever_they_are_said() -> None:
    servers = [opening(env=[{"name": "K", "value": "7"}, {"name": "L", "value": 'lo"ng\\value'}])]
    servers.append(opening(headers=[{"name": "Authorization", "value": "Basic abcdefgh"}]))
    lines = scrub([*servers, said_by_agent('it is lo"ng\\value and Basic abcdefgh, 7 times')])
    env = msgspec.json.decode(lines[0])["frame"]["params"]["mcpServers"][0]["env"]
    assert [each["value"] for each in env] == ["[secret]", "[secret]"]
    assert all(line.endswith(b"\n") for line in lines)
    assert msgspec.json.decode(lines[2])["frame"]["params"]["text"] == "it is [secret] and [secret], 7 times"


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-" + "a1B2" * 8,
        "sk-proj-abcdefghijklmnopqrst",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghijklmnop",
        "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3.SflKxwRJSMeKKF2QT4",
    ],
)
def test_keys_of_known_kinds_are_found(key: str) -> None:
    assert scrubbed_text(f"the key is {key}!") == "the key is [secret]!"


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("Authorization: Bearer abcdefghijklmnop.q", "Authorization: Bearer [secret]"),
        ("a task-oriented-approach-to-things", "a task-oriented-approach-to-things"),
        ("see /home/ada/work/a and /home/ada/.rc", "see /workspace/a and /home/user/.rc"),
        ("not /home/adam or /home/ada2/x", "not /home/adam or /home/ada2/x"),
        ("~/.agent/projects/-home-ada-work/1", "~/.agent/projects/-workspace/1"),
        ("the end of /home/ada.", "the end of /home/user."),
        ("pass word: pass", "pass word: pass"),
        ("long-enough-word", "[secret]"),
    ],
)
def test_what_is_scrubbed_and_what_is_not(text: str, scrubbed: str) -> None:
    options = {"folders": {"/home/ada": "/home/user"}, "secrets": ["pass", "long-enough-word"]}
    assert scrubbed_text(text, **options) == scrubbed


def test_variables_are_secret_by_their_names() -> None:
    assert secrets_in({"MY_TOKEN": "a", "PATH": "b", "api_key": "c", "X_SECRET": None, "PASSWORD": ""}) == ["a", "c"]
