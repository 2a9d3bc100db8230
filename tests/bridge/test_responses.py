"""The files of the page, also while it is rebuilt under a running server; and results with long texts."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest
from starlette.responses import StreamingResponse

from bridge.stub_server import stub_server
from dragoman.bridge.responses import MAX_ENCODED_CHARS, encode_in_parts, run_response
from dragoman.journal.scheduler import scheduler_of_loop
from dragoman.protocol.results import RunResult

BROWSER = {"accept": "text/html"}


def build(folder: Path, words: str) -> Path:
    """Write a page beside the old one and replace it, as the build does. Assets are named by their content."""
    beside = folder.with_name("beside")
    (beside / "assets").mkdir(parents=True)
    (beside / "index.html").write_text(words)
    (beside / f"{words}.svg").write_text(words)
    (beside / f"assets/page-{words:x>8}.js").write_text(words)
    if folder.exists():
        shutil.rmtree(folder)
    return beside.rename(folder)


async def test_a_page_that_is_built_while_the_server_runs_is_served(tmp_path: Path) -> None:
    async with stub_server(tmp_path / "home", tmp_path / "page") as server, server.stranger() as stranger:
        assert (await stranger.get("/")).status_code == 302
        build(tmp_path / "page", "one")
        assert (await stranger.get("/")).text == "one"
        assert (await stranger.get("/sessions/s1", headers=BROWSER)).text == "one"


async def test_a_rebuilt_page_is_served(tmp_path: Path) -> None:
    page = build(tmp_path / "page", "one")
    async with stub_server(tmp_path / "home", page) as server, server.stranger() as stranger:
        assert (await stranger.get("/")).text == "one"
        build(page, "two")
        assert (await stranger.get("/")).text == "two"
        assert (await stranger.get("/assets/page-xxxxxtwo.js")).text == "two"
        # A browser that has the old one open asks for the rest of it.
        assert (await stranger.get("/assets/page-xxxxxone.js")).text == "one"
        assert (await stranger.get("/one.svg")).status_code == 404


async def test_while_a_page_is_built_the_one_before_is_served(tmp_path: Path) -> None:
    page = build(tmp_path / "page", "one")
    async with stub_server(tmp_path / "home", page) as server, server.stranger() as stranger:
        assert (await stranger.get("/")).text == "one"
        shutil.rmtree(page)
        assert (await stranger.get("/")).text == "one"
        assert (await stranger.get("/assets/page-xxxxxone.js")).text == "one"


def result(text: str) -> RunResult:
    return RunResult(
        session_id='"text":""',
        run_id="r",
        status="success",
        stop_reason="end_turn",
        reason=None,
        text=text,
        usage=None,
        cursor="c",
    )


@pytest.mark.parametrize("length", [0, 1, MAX_ENCODED_CHARS, MAX_ENCODED_CHARS + 1, 3 * MAX_ENCODED_CHARS])
def test_the_text_of_a_run_is_encoded_in_bounded_parts(length: int) -> None:
    text = ('a"\\\n€😀' * (length // 6 + 1))[:length]
    parts = list(encode_in_parts(result(text)))
    assert b"".join(parts) == msgspec.json.encode(result(text))
    assert max(map(len, parts)) < MAX_ENCODED_CHARS * 4
    assert isinstance(run_response(result(text), 200), StreamingResponse) == (length > MAX_ENCODED_CHARS)


async def test_a_long_text_waits_for_commits_between_its_parts() -> None:
    response = run_response(result("a" * (3 * MAX_ENCODED_CHARS)), 200)
    assert isinstance(response, StreamingResponse)
    parts: list[object] = []

    async def read() -> None:
        async for part in response.body_iterator:
            parts.append(part)

    with scheduler_of_loop().committing(1):
        reading = asyncio.create_task(read())
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(parts) == 1
    await reading
    assert len(parts) == 5
