"""Recordings of real agents: each plays to a client that sends the recorded lines, with the same frames and fold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from agents_unit.replay_recordings import Line, connections, every_recording
from dragoman.agents.replay.playback import PlaybackOptions
from dragoman.agents.replay.player import Player
from dragoman.agents.replay.recording import read_recording
from dragoman.record.routing import fold_recording
from support.tape import rows_of


def played(player: Player, lines: list[Line]) -> list[bytes]:
    """Return the frames that the player sends to a client that sends the recorded lines, one by one."""
    received = player.step(0.0)
    for line in lines:
        if line.dir == "out":
            player.receive(line.bytes)
            received += player.step(0.0)
    return received


def session_of(frame: dict[str, Any]) -> str:
    """Return the session of a frame: only within a session are frames played in the recorded order."""
    return str((frame.get("params") or {}).get("sessionId", ""))


def by_session(frames: list[bytes]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for frame in map(msgspec.json.decode, frames):
        found.setdefault(session_of(frame), []).append(frame)
    return found


@every_recording
def test_all_that_the_agent_said_is_said_again_in_the_same_order(case: Path) -> None:
    recording = read_recording(case.read_bytes().splitlines())
    for number, lines in enumerate(connections(case), start=1):
        received = played(Player(recording, PlaybackOptions(strict=True), connection=number), lines)
        recorded = [line.bytes for line in lines if line.dir == "in"]
        assert by_session(received) == by_session(recorded)
        assert sorted(map(bytes.rstrip, received)) == sorted(recorded), "not a byte is another"


@every_recording
def test_what_is_played_folds_to_the_same_rows(case: Path) -> None:
    recording = read_recording(case.read_bytes().splitlines())
    for number, lines in enumerate(connections(case), start=1):
        player = Player(recording, PlaybackOptions(strict=True), connection=number)
        again: list[bytes] = []
        for line in lines:
            if line.dir == "out":
                again.append(msgspec.json.encode({"dir": "out", "frame": line.frame}))
                player.receive(line.bytes)
                again += [
                    msgspec.json.encode({"dir": "in", "frame": msgspec.Raw(received.rstrip())})
                    for received in player.step(0.0)
                ]
        original = [msgspec.json.encode({"dir": line.dir, "frame": line.frame}) for line in lines]
        assert summary(again) == summary(original)


def summary(lines: list[bytes]) -> dict[str, Any]:
    """Of each session what does not hang on positions: those differ where two sides spoke at the same time."""
    return {
        name: {
            "messages": [(each.kind, each.text, each.replayed) for each in fold.messages],
            "tool calls": [(each.tool_call_id, each.title, each.status) for each in fold.tool_calls],
            "runs": [(run.status, run.reason) for run in fold.runs.values()],
            "settings": rows_of(fold)["settings"],
        }
        for name, fold in fold_recording(lines).items()
    }
