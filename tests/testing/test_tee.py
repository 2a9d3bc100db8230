"""A tee passes all bytes on unchanged, and records them."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from dragoman import AgentRuntime, AgentSpec, SessionConfig, Workspace
from dragoman.record.routing import fold_recording
from dragoman.testing import demo_in_memory, demo_spec, in_memory
from dragoman.testing.tee import USAGE, Tee, main, recorded

TIMEOUT_S = 20.0


def taped(*passed: tuple[str, bytes]) -> list[bytes]:
    lines: list[bytes] = []
    tee = Tee(lines.append, clock=lambda: 1.5)
    for direction, data in passed:
        tee.passed("in" if direction == "in" else "out", data)
    return lines


async def spoken(runtime: AgentRuntime, folder: Path) -> str:
    async with asyncio.timeout(TIMEOUT_S), runtime:
        session = await runtime.open_session(SessionConfig(workspace=Workspace(folder)))
        return (await session.run("hello")).text


def said_in(lines: list[bytes]) -> str:
    [fold] = fold_recording(lines).values()
    return "\n\n".join(message.text for message in fold.messages if message.kind == "assistant")


def test_frames_are_written_down_byte_by_byte() -> None:
    odd = b'{"id" : 1.0,  "method":"\\u0041"}'
    assert taped(("out", odd + b"\n")) == [b'{"dir":"out","ts":1.5,"frame":' + odd + b"}\n"]


def test_a_frame_in_pieces_is_one_frame_and_two_in_a_piece_are_two() -> None:
    lines = taped(("in", b'{"a"'), ("out", b'{"b":1}\n'), ("in", b':1}\n{"c":1}\n{"d":'), ("in", b"1}"), ("in", b""))
    records = [msgspec.json.decode(line) for line in lines]
    assert [(each["dir"], *each["frame"]) for each in records] == [("out", "b"), ("in", "a"), ("in", "c"), ("in", "d")]


@pytest.mark.parametrize("line", [b"hello", b"{", b"[1]", b"null", b'{"a":1} x', b'{"a":"\xff"}', b'{"a":1,\r"b":2}'])
def test_what_is_no_frame_is_noise(line: bytes) -> None:
    [records] = taped(("in", line + b"\n"))
    assert records.count(b"\n") == 1
    assert msgspec.json.decode(records) == {"dir": "noise", "ts": 1.5, "line": line.decode(errors="backslashreplace")}


def test_empty_lines_are_nothing() -> None:
    assert taped(("in", b"\n \r\n")) == []


async def test_a_runtimes_link_is_recorded_and_the_recording_folds_to_what_was_said(tmp_path: Path) -> None:
    lines: list[bytes] = []
    launch = recorded(lines.append, in_memory(demo_in_memory(tmp_path)))
    text = await spoken(AgentRuntime(AgentSpec(command=["demo"]), launch=launch), tmp_path)
    assert text
    assert said_in(lines) == text


async def test_the_program_stands_between_a_client_and_an_agent_unseen(tmp_path: Path) -> None:
    recording = tmp_path / "recording.jsonl"
    demo = demo_spec(tmp_path / "demo")
    between = [sys.executable, "-m", "dragoman.testing.tee", str(recording), "--", *demo.command]
    spec = msgspec.structs.replace(demo, command=between)
    lines: list[bytes] = []
    text = await spoken(AgentRuntime(spec, launch=recorded(lines.append)), tmp_path)
    assert said_in(lines) == text
    frames = [msgspec.json.decode(line)["frame"] for line in lines]
    inside = [msgspec.json.decode(line)["frame"] for line in recording.read_bytes().splitlines()]
    assert sorted(map(str, inside)) == sorted(map(str, frames))


async def tee(recording: Path, *command: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman.testing.tee", str(recording), "--", *command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_the_program_ends_as_the_command_ends(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        process = await tee(tmp_path / "r", "sh", "-c", "echo '{}'; echo oops >&2; echo no frame; exit 3")
        assert await process.communicate() == (b"{}\nno frame\n", b"oops\n")
        assert process.returncode == 3
    dirs = [msgspec.json.decode(line)["dir"] for line in (tmp_path / "r").read_bytes().splitlines()]
    assert dirs == ["in", "noise"]


async def test_the_end_of_its_stdin_is_the_end_of_the_commands(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        process = await tee(tmp_path / "r", "cat")
        assert (await process.communicate(b'{"a": 1}\n'))[0] == b'{"a": 1}\n'
        assert process.returncode == 0
    dirs = [msgspec.json.decode(line)["dir"] for line in (tmp_path / "r").read_bytes().splitlines()]
    assert dirs == ["out", "in"]


async def test_a_signal_reaches_the_command(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        process = await tee(tmp_path / "r", "sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do read x; done")
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        assert process.returncode == 7


async def test_a_command_that_is_not_there_is_said(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        process = await tee(tmp_path / "r", "no-such-command-here")
        assert b"no-such-command-here" in (await process.communicate())[1]
        assert process.returncode == 127


@pytest.mark.parametrize("arguments", [[], ["file"], ["file", "--"], ["file", "cat", "x"]])
def test_wrong_arguments_are_answered_with_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert USAGE in capsys.readouterr().err
