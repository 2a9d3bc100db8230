"""What is put aside comes back as it was: bytes, objects, and the sub-agents of a transcript."""

from __future__ import annotations

import gc
import io
import os
import pickle
import resource
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.journal import upkeep
from dragoman.journal.memory import MemoryJournal
from dragoman.journal.store import Position
from dragoman.translate import aside
from dragoman.translate import transcript_file as reading
from dragoman.translate.aside import Aside, Shelf
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.ingest import apart_process
from dragoman.translate.ingest import file_import as intake
from dragoman.translate.ingest.apart_messages import LENGTH, Answer, Asked, Done, Failed
from dragoman.translate.ingest.commit import Commit
from dragoman.translate.ingest.import_policy import Admission
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.report import REST
from dragoman.translate.transcript_file import has_long_line
from translate import codex_talk
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


_steps = st.one_of(
    st.tuples(st.just("get"), st.integers(0, 9)),
    st.tuples(st.just("add"), st.just(0)),
    st.tuples(st.just("rest"), st.integers(0, 9)),
)


@given(st.lists(_steps, max_size=40), st.lists(_steps, max_size=10))
def test_objects_are_as_they_were_left_whoever_asks_in_whatever_order(
    before: list[tuple[str, int]], meanwhile: list[tuple[str, int]]
) -> None:
    shelf: Shelf[list[int]] = Shelf(Aside(), None)
    told: list[list[int]] = []

    def step(what: str, number: int) -> None:
        name = str(number)
        match what:
            case "add":
                shelf.add(str(len(told)), [])
                told.append([])
            case "rest":
                busy = name in shelf.at_hand
                shelf.rest(busy=[name])
                assert (name in shelf.at_hand) == busy
            case _ if number < len(told):
                found = shelf.get(name)
                assert found == told[number]
                told[number].append(len(told[number]))
                found.append(len(found))
            case _:
                assert shelf.get(name) is None
                assert name not in shelf

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aside, "_FEW", 2)
        for one in before:
            step(*one)
        assert [*shelf.values()] == told
        assert len(shelf) == len(told)
        values, seen = shelf.values(), len(told)
        first = next(values, None)
        for one in meanwhile:
            step(*one)
        assert len([first, *values]) == max(seen, 1)
        assert [*shelf.values()] == told
        for number in range(len(told)):
            shelf.get(str(number))
        assert shelf.is_at_hand


def test_where_there_is_no_room_it_is_told_at_once_and_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "gettempdir", lambda: "/the/folder")
    monkeypatch.setattr(aside, "TemporaryFile", lambda: open("/dev/full", "r+b"))  # noqa: SIM115
    with pytest.raises(OSError, match="No space left on device in /the/folder"):
        Aside().put(b"x")


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


def _codex_talk() -> codex_talk.Transcript:
    told = codex_talk.Transcript()
    told.started()
    told.prompt("Go")
    told.call("shell", {"command": ["ls"]})
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


async def test_a_file_that_grows_is_read_anew_where_some_of_its_sub_agents_were_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "_FEW", 2)
    monkeypatch.setattr(intake, "_ENTRIES", 7)
    whole = _sides(40)
    lines, whole.lines = whole.lines, whole.lines[:60]
    path = _written(tmp_path, whole)
    async with MemoryJournal() as journal:
        importer = Importer(journal, at_hand=1 << 20)
        first = await importer.take(_found(path))
        whole.lines = lines
        second = await importer.take(_found(_written(tmp_path, whole)))
        assert not {*first.new} & {*second.new}
        assert len(first.new) + len(second.new) == 41
        assert not await upkeep.verify(journal)


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


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_what_is_known_of_a_file_goes_with_it_though_nobody_looks_for_cycles(provider: str, tmp_path: Path) -> None:
    """The process apart hardly ever looks for them, and reads all the files that there are."""
    told = _sides(5) if provider == "claude" else _codex_talk()
    path = _written(tmp_path, told)
    _answered(path, provider)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        assert Done in map(type, _answered(path, provider))
        gc.collect()
        assert not [one for one in gc.garbage if type(one).__module__.startswith("dragoman")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


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
    assert has_long_line(path, path.stat().st_size) == is_long


def test_a_long_line_that_came_since_the_file_was_looked_at_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONG", 100)
    monkeypatch.setattr(reading, "_BUFFER", 64)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"x\n" * 100 + b"y" * 250)
    assert [has_long_line(path, until) for until in (100, 200, 450)] == [False, False, True]


def test_a_python_without_ctypes_reads_long_lines_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    reading._give_back.cache_clear()
    line = b"x" * (reading.LONG + 1)
    assert [one.text for one in reading.whole_lines(io.BytesIO(line + b"\n"))] == [line]
    reading._give_back.cache_clear()


@pytest.mark.parametrize("is_long", [False, True])
def test_a_file_with_a_long_line_is_left_to_whoever_commits_it(is_long: bool, tmp_path: Path) -> None:
    told = Transcript()
    told.user("Go" * (reading.LONG if is_long else 1))
    path = _written(tmp_path, told)
    assert [type(one) for one in _answered(path, "claude")] == ([Failed] if is_long else [Commit, Done])


def _answered(path: Path, provider: str) -> list[Answer]:
    """By the process that reads apart."""
    seen = intake.Seen(inode=0, size=path.stat().st_size, modified=0.0, age=0.0)
    position = Position(connection_id="c", provider=provider, path=str(path), session_id="", frames=0, offset=0)
    out = io.BytesIO()
    asked = Asked(os.fsencode(path), position, seen, None)
    apart_process._answer(asked, Admission({}, frozenset()), apart_process._Sender(out))
    data = out.getvalue()
    answers: list[Answer] = []
    while data:
        (length,) = LENGTH.unpack(data[: LENGTH.size])
        answers.append(pickle.loads(data[LENGTH.size : LENGTH.size + length]))
        data = data[LENGTH.size + length :]
    return answers


def _written(folder: Path, told: Transcript | codex_talk.Transcript) -> Path:
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in told.lines))
    return path


def _found(path: Path) -> Found:
    return Found("claude", path, path.stat().st_size, path.stat().st_mtime)
