"""Real conversations fold without loss. The recordings are not part of the repository: `DRAGOMAN_RECORDINGS` names
their folder, which holds `AGENT/CASE.jsonl`."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from dragoman.record import rows
from dragoman.record.fold import SessionFold
from dragoman.record.routing import ConnectionReader, fold_recording
from dragoman.wire.messages import Noise, Oversized, Unknown, Update
from support.tape import rows_of

FOLDER = Path(os.environ.get("DRAGOMAN_RECORDINGS") or Path(__file__).resolve().parents[3] / "shared" / "recordings")
CASES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.jsonl"))
ABSENT = pytest.mark.skip(reason=f"no recordings in {FOLDER}")


def lines_of(case: str) -> list[bytes]:
    path = FOLDER / case
    if not path.exists():
        pytest.skip(f"no recording {path}")
    return path.read_bytes().splitlines()


def outcomes(case: str) -> list[list[str]]:
    """Return the outcomes of the runs of each session."""
    folds = fold_recording(lines_of(case))
    return [[run.reason or run.status for run in fold.runs.values()] for fold in folds.values() if fold.runs]


every_case = pytest.mark.parametrize("case", CASES or [pytest.param("none", marks=ABSENT)])


@every_case
def test_every_frame_of_a_recording_is_understood(case: str) -> None:
    reader = ConnectionReader()
    for line in lines_of(case):
        recorded = msgspec.json.decode(line)
        if recorded["dir"] not in ("in", "out"):
            continue
        for routed in reader.read(recorded["dir"], msgspec.json.encode(recorded["frame"])):
            assert not isinstance(routed.message, Noise | Oversized), routed.message
            if isinstance(routed.message, Update):
                assert not isinstance(routed.message.update, Unknown), routed.message.line


@every_case
def test_a_recording_folds_to_the_same_rows_each_time(case: str) -> None:
    once, twice = fold_recording(lines_of(case)), fold_recording(lines_of(case))
    assert {key: rows_of(fold) for key, fold in once.items()} == {key: rows_of(fold) for key, fold in twice.items()}


@every_case
def test_the_rows_of_a_recording_hold_together(case: str) -> None:
    for fold in fold_recording(lines_of(case)).values():
        _check(fold)


def _check(fold: SessionFold) -> None:
    for message in fold.messages:
        assert message.run_id is None or message.run_id in fold.runs
        assert message.text or message.blocks or message.kind == "user"
    for call in fold.tool_calls:
        assert call.run_id is None or call.run_id in fold.runs
        assert call.finished == (call.ended_time is not None)
    for run in fold.runs.values():
        assert (run.status == "running") == (run.ended_time is None)
        assert run.usage is None or isinstance(run.usage, rows.Usage)
    for permission in fold.permissions.values():
        assert permission.options
        assert any(call.tool_call_id == permission.tool_call_id for call in fold.tool_calls)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("claude/cancel_stream.jsonl", [["cancelled", "success"]]),
        ("codex/cancel_stream.jsonl", [["cancelled", "success"]]),
        ("gemini/cancel_stream.jsonl", [["cancelled", "success"]]),
        ("opencode/cancel_stream.jsonl", [["cancelled", "success"]]),
        ("kimi/cancel_stream.jsonl", [["cancelled", "success"]]),
        # goose 1.34.0 ends a cancelled turn with `end_turn`
        ("goose/cancel_stream.jsonl", [["cancelled", "success"]]),
        # codex-acp 2.6.0 ends the turn when permission is refused
        ("codex/perm_reject.jsonl", [["cancelled"]]),
    ],
)
def test_runs_of_real_agents_have_their_outcomes(case: str, expected: list[list[str]]) -> None:
    assert outcomes(case) == expected


def test_kimis_answer_to_a_models_error_is_a_silent_failure() -> None:
    """kimi-code 2.1.0 ends with a bare `end_turn`."""
    assert outcomes("kimi/httperr.jsonl")[0][0] == "silent"


def test_geminis_tool_calls_are_first_seen_in_the_permission_request() -> None:
    """gemini-cli 0.61.0 sends no `tool_call` when it asks."""
    [fold] = (fold for fold in fold_recording(lines_of("gemini/perm_shell.jsonl")).values() if fold.runs)
    [permission] = fold.permissions.values()
    [call] = fold.tool_calls
    assert call.tool_call_id == permission.tool_call_id
    assert permission.outcome == "selected"
    assert call.title


@pytest.mark.parametrize("case", ["gemini/load2.jsonl", "opencode/resume.jsonl"])
def test_the_history_of_a_loaded_session_is_marked_as_replay(case: str) -> None:
    """gemini-cli 0.61.0 replays most of it after the answer to `session/load`."""
    [fold] = (fold for fold in fold_recording(lines_of(case)).values() if any(m.replayed for m in fold.messages))
    assert {message.kind for message in fold.messages if message.replayed} >= {"user", "assistant"}
    assert not [message for message in fold.messages if message.replayed and message.run_id]


def test_a_fork_is_another_session() -> None:
    """claude-agent-acp 0.99.0: `session/fork` names the old session, and its answer the new one."""
    first, fork = fold_recording(lines_of("claude/resume.jsonl")).values()
    assert (len(first.runs), len(fork.runs)) == (1, 0)
    assert fork.settings
