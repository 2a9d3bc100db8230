"""What is put aside comes back as it was: bytes, objects, and the sub-agents of a transcript."""

from __future__ import annotations

import io
import os
import pickle
import resource
from pathlib import Path
from random import Random

import pytest

from dragoman.journal import upkeep
from dragoman.journal.memory import MemoryJournal
from dragoman.journal.store import Position
from dragoman.translate import apart_process, aside, intake, reading
from dragoman.translate.admission import Admission
from dragoman.translate.apart_messages import LENGTH, Answer, Asked, Done, Failed
from dragoman.translate.aside import Aside, Shelf
from dragoman.translate.commit import Commit
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.imported import REST
from dragoman.translate.importer import Importer
from dragoman.translate.reading import has_long_line
from translate.claude_talk import SESSION, Transcript


class Thing:
    def __init__(self, name: str, shared: list[str]) -> None:
        self.name = name
        self.shared = shared


def test_objects_that_were_put_aside_come_back_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "_FEW", 4)
    shared: list[str] = []
    shelf: Shelf[Thing] = Shelf(Aside(), shared)
    for number in range(10):
        shelf.add(f"n{number}", Thing(f"first {number}", shared))
        shelf.rest(busy=["n0"])
    assert "n0" in shelf.at_hand
    assert len(shelf.at_hand) <= 4
    assert len(shelf) == 10
    assert [one.name for one in shelf.values()] == [f"first {number}" for number in range(10)]
    found = shelf.get("n3")
    assert found is not None
    assert found is shelf.get("n3")
    assert found.shared is shared
    found.name = "second"
    for number in range(10, 20):
        shelf.add(f"n{number}", Thing("", shared))
        shelf.rest()
    assert "n3" not in shelf.at_hand
    again = shelf.get("n3")
    assert again is not None
    assert again.name == "second"
    assert "n3" in shelf
    assert shelf.get("n20") is None


def test_what_is_nested_too_deeply_to_be_put_aside_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "_FEW", 2)
    shelf: Shelf[object] = Shelf(Aside(), None)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for number, one in enumerate([deep, "a", "b", "c"]):
        shelf.add(str(number), one)
        shelf.rest()
    assert shelf.get("0") is deep
    assert [*shelf.values()][1:] == ["a", "b", "c"]


def _sides(count: int) -> Transcript:
    """Sub-agents in the session's own file, several at once; some say a word when they were long over."""
    told, chance = Transcript(), Random(1)
    told.user("Ask the others")
    under_way: list[tuple[int, str]] = []
    over: list[str] = []
    for number in range(count):
        told.call("Task", {"prompt": f"You are {number}", "description": f"The {number}."}, f"toolu_{number}")
        under_way.append((number, told.user(f"You are {number}", isSidechain=True, parentUuid=None)))
        if len(under_way) > 3:
            one, last = under_way.pop(chance.randrange(4))
            call_id = f"toolu_of_{one % 3}"  # the same id in several of them
            last = told.call("Bash", {"command": "ls"}, call_id, isSidechain=True, parentUuid=last)
            last = told.result("a.py", None, call_id, isSidechain=True, parentUuid=last)
            over.append(told.text("Done.", id=f"msg_{one}", stop=None, isSidechain=True, parentUuid=last))
            if one % 4:
                told.result("Well done", {"content": []}, f"toolu_{one}")
        if over and number % 3 == 0:
            last = over.pop(chance.randrange(len(over)))
            told.text("And more.", id=f"late_{number}", stop=None, isSidechain=True, parentUuid=last)
    return told


def test_sub_agents_that_were_put_aside_go_on_as_if_they_had_not_been(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _sides(40)
    frames = told.frames()
    monkeypatch.setattr(aside, "_FEW", 2)
    assert told.frames() == frames


async def test_the_rows_of_sub_agents_that_were_put_aside_are_those_that_their_frames_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "_FEW", 2)
    monkeypatch.setattr(intake, "_ENTRIES", 7)
    path = _written(tmp_path, _sides(40))
    async with MemoryJournal() as journal:
        importer = Importer(journal, clock=lambda: path.stat().st_mtime + 2 * REST)
        done = await importer.take(_found(path))
        assert (len(done.new), done.skipped) == (41, None)
        assert done.frames == len(_sides(40).frames()) + 41  # each session is opened with a note
        assert not await upkeep.verify(journal)
        assert not (await Importer(journal).take(_found(path))).frames


async def test_a_file_with_many_sub_agents_needs_few_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_ENTRIES", 7)
    path = _written(tmp_path, _sides(200))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with MemoryJournal() as journal:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 50, hard))
        try:
            done = await Importer(journal, clock=lambda: path.stat().st_mtime + 2 * REST).take(_found(path))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (len(done.new), done.skipped) == (201, None)


# -- long lines


@pytest.mark.parametrize(("length", "is_long"), [(99, False), (100, False), (101, True), (250, True)])
@pytest.mark.parametrize("before", [0, 1, 63, 64, 99])
@pytest.mark.parametrize("end", [b"\n", b"", b"\nx\n"])
def test_a_long_line_is_found_wherever_it_stands(
    length: int, is_long: bool, before: int, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONG", 100)
    monkeypatch.setattr(reading, "_BUFFER", 64)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"x" * before + b"\n" + b"y" * length + end)
    assert has_long_line(path) == is_long


@pytest.mark.parametrize("is_long", [False, True])
def test_a_file_with_a_long_line_is_left_to_whoever_commits_it(is_long: bool, tmp_path: Path) -> None:
    told = Transcript()
    told.user("Go" * (reading.LONG if is_long else 1))
    path = _written(tmp_path, told)
    seen = intake.Seen(inode=0, size=path.stat().st_size, modified=0.0, age=0.0)
    position = Position(connection_id="c", provider="claude", path=str(path), session_id="", frames=0, offset=0)
    out = io.BytesIO()
    asked = Asked(os.fsencode(path), position, seen, None)
    apart_process._answer(asked, Admission({}, frozenset()), apart_process._Sender(out))
    assert [type(one) for one in _answers(out.getvalue())] == ([Failed] if is_long else [Commit, Done])


def _answers(data: bytes) -> list[Answer]:
    answers: list[Answer] = []
    while data:
        (length,) = LENGTH.unpack(data[: LENGTH.size])
        answers.append(pickle.loads(data[LENGTH.size : LENGTH.size + length]))
        data = data[LENGTH.size + length :]
    return answers


def _written(folder: Path, told: Transcript) -> Path:
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in told.lines))
    return path


def _found(path: Path) -> Found:
    return Found("claude", path, path.stat().st_size, path.stat().st_mtime)
