"""Session ids, lists of sessions, and updates that come at another time than a turn's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from dragoman import SessionConfig, Workspace, errors, events
from dragoman.record import notes
from dragoman.record.fold import SessionFold
from dragoman.wire.messages import Notification, Request

from .stage import Neighbour, Witness, config, rogue, untouched

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.attempts("agent faults")
async def test_a_session_id_given_twice_opens_no_second_session_and_leaves_the_first_alone(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    async with untouched(neighbour), rogue("session_id_repeated") as runtime:
        first = await runtime.open_session(config(tmp_path))
        with pytest.raises(errors.InvalidFrame, match="the-one"):
            await runtime.open_session(config(tmp_path))
        assert (await first.run("go")).text == "fine"


@pytest.mark.attempts("agent faults")
async def test_an_empty_session_id_leaves_no_session_behind(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour), rogue("session_id_empty") as runtime:
        with pytest.raises(errors.InvalidFrame):
            await runtime.open_session(config(tmp_path))
        assert not runtime.busy
        assert (await (await runtime.open_session(config(tmp_path))).run("go")).text == "fine"


@pytest.mark.attempts("agent faults")
async def test_a_list_without_end_can_be_left(neighbour: Neighbour) -> None:
    async with untouched(neighbour), rogue("endless_list") as runtime:
        listed = []
        listing = runtime.list_sessions()
        async for info in listing:
            listed.append(info.session_id)
            if len(listed) == 100:
                break
        assert isinstance(listing, AsyncGenerator)
        await listing.aclose()
        assert listed == [f"session {number}" for number in range(100)]


@pytest.mark.attempts("agent faults")
async def test_a_cursor_that_comes_again_ends_the_list(neighbour: Neighbour) -> None:
    async with untouched(neighbour), rogue("repeated_cursor") as runtime:
        assert len([info async for info in runtime.list_sessions()]) == 2


@pytest.mark.attempts("agent faults")
async def test_a_list_of_nothing_but_empty_pages_ends(neighbour: Neighbour) -> None:
    async with untouched(neighbour), rogue("endless_empty_list") as runtime:
        assert [info async for info in runtime.list_sessions()] == []


@pytest.mark.attempts("agent faults")
async def test_updates_before_session_new_is_answered_are_kept_for_the_session(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue("early_updates", witness) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        assert [command.name for command in session.fold.commands] == ["early"]
        assert [message.text for message in session.fold.messages] == ["early words"]
        assert (await session.run("go")).text == "fine"
    assert not witness.diagnostics


@pytest.mark.attempts("agent faults")
async def test_text_after_the_run_belongs_to_the_session_and_to_no_run(neighbour: Neighbour, tmp_path: Path) -> None:
    witness = Witness()
    late = asyncio.Event()

    def on_event(event: events.Event) -> None:
        witness.on_event(event)
        if isinstance(event, events.AssistantDelta) and event.text == "late words":
            late.set()

    async with untouched(neighbour), rogue("late_updates", witness) as runtime:
        session = await runtime.open_session(SessionConfig(workspace=Workspace(tmp_path), on_event=on_event))
        assert (await session.run("go")).text == "before after"
        await late.wait()
        assert (await session.run("go")).text == "fine"
        assert [(m.text, m.run_id is None) for m in session.fold.messages if m.kind == "assistant"] == [
            ("before after", False),
            ("late words", True),
            ("fine", False),
        ]


@pytest.mark.attempts("agent faults")
async def test_tool_calls_with_empty_ids_are_all_shown(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour), rogue("empty_tool_ids") as runtime:
        result = await (await runtime.open_session(config(tmp_path))).run("go")
    assert [(call.title, call.status) for call in result.tool_calls] == [("one", "completed"), ("two", "completed")]
    assert result.messages == ("before ", "after")


@pytest.mark.attempts("agent faults")
async def test_a_tool_call_id_that_comes_again_in_the_next_run_is_another_tool_call(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    async with untouched(neighbour), rogue("repeated_tool_ids") as runtime:
        session = await runtime.open_session(config(tmp_path))
        titles = [[call.title for call in (await session.run("go")).tool_calls] for _ in range(2)]
    assert titles == [["number 0"], ["number 1"]]


@pytest.mark.attempts("agent faults")
async def test_an_update_of_a_tool_call_that_was_never_begun_is_its_first_sight(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue("orphan_tool_updates", witness) as runtime:
        await (await runtime.open_session(config(tmp_path, witness))).run("go")
    event_types = [event.type for event in witness.heard if isinstance(event, events.ToolCall | events.ToolResult)]
    assert event_types == ["tool.call", "tool.result"]


@pytest.mark.attempts("agent faults")
async def test_a_note_of_the_host_counts_from_no_other_origin() -> None:
    fold = SessionFold()
    prompt = Request(1, "session/prompt", msgspec.Raw(b'{"sessionId":"s","prompt":[]}'), b"")
    fold.apply(1, 0.0, "host", notes.write(notes.Prompt("run", ())))
    fold.apply(2, 0.0, "out", prompt)
    forged = notes.write(notes.RunInterrupted("run", "cancelled", "forged"))
    fold.apply(3, 0.0, "in", Notification(forged.method, forged.params, forged.line))
    seen = [fold.runs["run"].status]
    fold.apply(4, 0.0, "host", forged)
    seen.append(fold.runs["run"].status)
    assert seen == ["running", "cancelled"]
