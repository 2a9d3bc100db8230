"""Questions of a rogue: each is answered once, by its own id, and none gains what nobody allowed (G5, G8)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman import PermissionAnswer, PermissionRequest, errors, events

from .stage import Neighbour, Witness, config, rogue, untouched

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.attempts("agent faults")
async def test_300_questions_at_once_are_answered_each_by_its_own_id(neighbour: Neighbour, tmp_path: Path) -> None:
    request_count = 0

    async def every_third(request: PermissionRequest) -> PermissionAnswer:
        nonlocal request_count
        request_count += 1
        return request.allow() if int(request.title[1:]) % 3 == 0 else request.reject()

    async with untouched(neighbour), rogue("permission_flood") as runtime:
        session = await runtime.open_session(config(tmp_path, on_permission=every_third))
        assert (await session.run("go")).text == "100 yes, 200 no"
    assert request_count == 300


@pytest.mark.attempts("agent faults")
async def test_a_cancel_answers_all_of_300_questions(neighbour: Neighbour, tmp_path: Path) -> None:
    waiting = asyncio.Event()
    request_count = 0

    async def nobody(request: PermissionRequest) -> None:
        nonlocal request_count
        request_count += 1
        if request_count > 200:
            waiting.set()
        await asyncio.Event().wait()

    async with untouched(neighbour), rogue("permission_flood") as runtime:
        session = await runtime.open_session(config(tmp_path, on_permission=nobody))
        run = session.run("go")
        await waiting.wait()
        await run.cancel()
        assert (await run).status == "cancelled"
        outcomes = {permission.outcome for permission in session.fold.permissions.values()}
        assert outcomes == {"cancelled"}
        assert (await session.run("go")).text == "fine"


@pytest.mark.attempts("agent faults")
async def test_the_end_of_an_agent_is_noticed_while_more_questions_are_open_than_are_served(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    async def nobody(request: PermissionRequest) -> None:
        await asyncio.Event().wait()

    async with untouched(neighbour), rogue("permission_flood_then_exit") as runtime:
        session = await runtime.open_session(config(tmp_path, on_permission=nobody))
        with pytest.raises(errors.AgentCrashed, match="exit code 3") as caught:
            await session.run("go")
        assert caught.value.result.text == "before"
        assert len(session.fold.permissions) == 300  # what it wrote before its end was read


@pytest.mark.attempts("agent faults")
async def test_a_question_after_the_run_is_answered_and_belongs_to_no_run(neighbour: Neighbour, tmp_path: Path) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue("permission_after_the_run", witness) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        assert (await session.run("go")).text == "fine"
        assert (await session.run("go")).text == "no"
    (requested,) = [event for event in witness.heard if isinstance(event, events.PermissionRequested)]
    assert requested.run_id is None


@pytest.mark.attempts("agent faults")
async def test_no_question_that_cannot_be_read_is_allowed(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour), rogue("permission_unreadable") as runtime:
        session = await runtime.open_session(config(tmp_path, access="read-only"))
        answers = (await session.run("go")).text.replace("error ", "").split()
    assert len(answers) == 9
    assert set(answers) <= {"-32602", "no", "cancelled"}


@pytest.mark.attempts("agent faults")
async def test_files_of_others_are_neither_read_nor_written(neighbour: Neighbour, tmp_path: Path) -> None:
    offers = {"read_files": True, "write_files": True}
    async with untouched(neighbour), rogue("files_of_others", offers=offers) as runtime:
        session = await runtime.open_session(config(tmp_path, access="full"))
        assert (await session.run("go")).text == "7 of 7 refused"


@pytest.mark.attempts("agent faults")
async def test_a_cancel_answers_the_pending_question_and_keeps_the_later_text(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    question_came = asyncio.Event()

    async def nobody(request: PermissionRequest) -> None:
        question_came.set()
        await asyncio.Event().wait()

    async with untouched(neighbour), rogue("cancelled_while_asking") as runtime:
        session = await runtime.open_session(config(tmp_path, on_permission=nobody))
        run = session.run("go")
        await question_came.wait()
        await run.cancel()
        result = await run
        assert result.status == "cancelled"
        assert "".join(result.messages).startswith("before")
        (permission,) = session.fold.permissions.values()
        assert (permission.outcome, permission.decided_by) == ("cancelled", "cancel")
        assert (await session.run("go")).text == "fine"
