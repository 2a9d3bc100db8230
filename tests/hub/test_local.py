"""Sessions that a program opens by name: typed keywords, stored in the journal unless that is turned off."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

import dragoman
from dragoman.hub.hub import Hub
from dragoman.hub.local import open_session, resume_session, run, run_sync
from dragoman.testing.leaks import nothing_left
from dragoman.testing.memory import TIMEOUT_S


async def stored_texts(home: Path) -> list[str]:
    """Return the prompts of all sessions in the journal, the latest session first."""
    async with Hub(home) as hub:
        return [str(session.title) for session in await hub.sessions()]


async def test_a_session_of_a_program_is_stored(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left():
        async with open_session("demo", cwd=tmp_path) as session:
            await session.run("hello")
        assert await stored_texts(home) == ["hello"]


async def test_a_run_of_a_program_is_stored(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        result = await run("demo", "plan", cwd=tmp_path)
        assert "Here is a plan" in result.text
        assert await stored_texts(home) == ["plan"]


async def test_an_evaluation_is_stored(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        response = await dragoman.evaluate("demo", "hello", cwd=tmp_path)
        assert response.text.startswith("Hello!")
        assert await stored_texts(home) == ["hello"]


def test_a_blocking_run_is_stored(home: Path, tmp_path: Path) -> None:
    run_sync("demo", "hello", cwd=tmp_path)
    assert asyncio.run(stored_texts(home)) == ["hello"]


async def test_the_keyword_turns_the_journal_off(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        await run("demo", "hello", cwd=tmp_path, journal=False)
        await dragoman.evaluate("demo", "hello", cwd=tmp_path, journal=False)
    assert not (home / "journal.db").exists()


async def test_the_setting_turns_the_journal_off_and_the_keyword_on_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_JOURNAL", "off")
    async with asyncio.timeout(TIMEOUT_S):
        await run("demo", "hello", cwd=tmp_path)
        assert not (home / "journal.db").exists()
        await run("demo", "plan", cwd=tmp_path, journal=True)
        assert await stored_texts(home) == ["plan"]


async def test_sessions_at_the_same_time_share_one_hub_until_the_last_one_ends(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left():
        async with open_session("demo", cwd=tmp_path) as first:
            async with open_session("demo", cwd=tmp_path) as second:
                await asyncio.gather(first.run("hello"), second.run("plan"))
            await first.run("usage")
        assert sorted(await stored_texts(home)) == ["hello", "plan"]


async def test_a_session_that_cannot_be_set_up_leaves_no_entry(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left():
        with pytest.raises(dragoman.errors.InputError):
            await run("demo", "hello", cwd=tmp_path, model="gpt")
        with pytest.raises(dragoman.errors.InputError):
            async with open_session("demo", cwd=tmp_path, options={"colour": "red"}):
                pass
        assert await stored_texts(home) == []


async def test_a_session_that_cannot_be_opened_leaves_nothing_open(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left():
        with pytest.raises(dragoman.errors.CommandNotFound):
            await open_session(["no-such-program"], cwd=tmp_path)


async def test_a_resumed_session_goes_on_in_the_same_record(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left():
        async with open_session("demo", cwd=tmp_path) as session:
            await session.run("hello")
            handle = session.snapshot()
        async with resume_session(handle) as resumed:
            assert resumed.id == session.id
            await resumed.run("plan")
        async with Hub(home) as hub:
            [row] = await hub.sessions()
            messages = (await hub.journal.rows(row.id)).messages
    assert [message.text for message in messages if message.kind == "user"] == ["hello", "plan"]


async def test_a_misspelled_keyword_is_named() -> None:
    calls: list[Any] = [
        partial(open_session, "demo"),
        partial(run, "demo", "x"),
        partial(dragoman.evaluate, "demo", "x"),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'acces'"):
            await call(acces="full")


async def test_an_agent_that_remembers_nothing_gets_the_settings_of_the_snapshot(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with open_session("demo", cwd=tmp_path, model="demo-large", mode="plan") as session:
            handle = session.snapshot()
        async with resume_session(handle, how="new") as resumed:
            assert (resumed.snapshot().model, resumed.snapshot().mode) == ("demo-large", "plan")


async def test_an_unknown_way_to_resume_is_an_error(home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with open_session("demo", cwd=tmp_path) as session:
            handle = session.snapshot()
        with pytest.raises(dragoman.errors.InputError, match="expected 'resume', 'load' or 'new'"):
            await resume_session(handle, how="again")  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["resume", "new"])
async def test_a_handle_from_before_a_switch_does_not_undo_it(
    home: Path, tmp_path: Path, how: Literal["resume", "new"]
) -> None:
    # As after a kill: the handle in the journal is that of the opening, and the journal has every switch since.
    async with asyncio.timeout(TIMEOUT_S):
        async with open_session("demo", cwd=tmp_path) as session:
            at_opening = session.snapshot()
            await session.set_mode("plan")
        async with resume_session(at_opening, how=how) as resumed:
            assert resumed.snapshot().mode == "plan"
