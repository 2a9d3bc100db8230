"""Growing files: only the added lines are read, and the journal is the same as after reading the whole file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from dragoman.journal import maintenance
from dragoman.journal.sqlite import MemoryJournal
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.ingest.file_import import FileImport
from dragoman.translate.ingest.importer import GrowingFiles, Importer
from journal.talk import all_entries
from translate import codex_talk
from translate.claude_talk import SESSION
from translate.test_claude_properties import DATA as CLAUDE
from translate.test_codex_properties import TRANSCRIPTS
from translate.watched import OURS, append, frame_keys, imported, lines, talk

FILES_OF = {"claude": [CLAUDE], "codex": [lines(one) for one in TRANSCRIPTS.values()]}
NAMES = {"claude": f"{SESSION}.jsonl", "codex": codex_talk.NAME}


async def _grown(provider: str, pieces: Sequence[bytes], path: Path) -> list[tuple[str | None, str, bytes]]:
    """The file is read after each piece that is added to it."""
    async with MemoryJournal() as journal:
        importer = Importer(journal, max_growing_bytes=1 << 20)
        for piece in pieces:
            append(path, piece)
            await importer.import_file(Found(provider, path, 0, 0.0))
        assert not await maintenance.verify(journal)
        return frame_keys(await all_entries(journal))


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["claude", "codex"])
@settings(deadline=None)
@drawn(st.data())
def test_any_split_of_a_file_into_appends_gives_the_same_journal(provider: str, data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(FILES_OF[provider]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    with TemporaryDirectory() as folder:
        path = Path(folder, NAMES[provider])
        grown = asyncio.run(_grown(provider, pieces, path))
        assert grown == asyncio.run(imported(path, provider=provider))


async def _taken(importer: Importer, path: Path) -> None:
    await importer.import_file(Found("claude", path, 0, 0.0))


async def test_objects_that_are_glued_together_are_read_as_one_line(tmp_path: Path) -> None:
    """Another writer lost the race for the newline, so that what looked like a whole line was half of one."""
    path = tmp_path / NAMES["claude"]
    odd = [b'{"type":"weather","sky":"blue"}', b'{"type":"weather","sky":"grey"}']
    pieces = [lines(talk("One")), odd[0], odd[1], b"\n", lines(talk("One", "Two")[4:])]
    grown = await _grown("claude", pieces, path)
    assert grown == await imported(path, provider="claude")


async def test_a_file_that_was_asked_for_long_ago_is_at_hand_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_from_start: list[Path] = []
    read = FileImport.read

    async def spy(self: FileImport[Any], path: Path, *more: object) -> None:
        read_from_start.append(path)
        await read(self, path, *more)  # type: ignore[arg-type]  # handed on as they are

    monkeypatch.setattr(FileImport, "read", spy)
    path = tmp_path / NAMES["claude"]
    whole = talk("One", "Two", "Three")
    now = [1e9]
    async with MemoryJournal() as journal:
        importer = Importer(journal, clock=lambda: now[0], max_growing_bytes=1 << 20)
        for number, later in enumerate([0.0, 10.0, 1000.0]):
            now[0] += later
            append(path, lines(whole[number * 4 : number * 4 + 4]))
            importer.forget_growing_files(now[0] - 100.0)
            await _taken(importer, path)
        assert len(read_from_start) == 2
        assert frame_keys(await all_entries(journal, OURS)) == await imported(path)


def test_the_files_that_were_used_last_stay_and_the_very_last_one_always() -> None:
    class SessionDedup:
        def __init__(self, offset: int) -> None:
            self.position = self
            self.offset = offset

    files = GrowingFiles(100)
    known = {name: SessionDedup(size) for name, size in [("a", 40), ("b", 50), ("c", 30), ("d", 1000)]}

    def put(name: str) -> None:
        files.put("claude", name, known[name], 0.0)  # type: ignore[arg-type]  # all that is asked of it

    def names_left() -> list[str]:
        return [name for name in known if files.pop("claude", name) is not None]

    for name in "abc":
        put(name)
    assert names_left() == ["b", "c"]
    for name in "abd":
        put(name)
    assert names_left() == ["d"]
    nothing = GrowingFiles(0)
    nothing.put("claude", "a", known["a"], 0.0)  # type: ignore[arg-type]
    assert nothing.pop("claude", "a") is None
