"""Scratch space: keys are exact, objects come back as they were, and so do the sub-agents of a transcript."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.journal import maintenance
from dragoman.journal.sqlite import MemoryJournal
from dragoman.translate import scratch
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.ingest import file_import
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.report import AT_REST_S
from dragoman.translate.scratch import ObjectStore, Scratch, SpillingMap, SpillingSet, digest
from translate import codex_talk
from translate.claude_talk import SESSION, Transcript


class Thing:
    def __init__(self, name: str, shared: list[str]) -> None:
        self.name = name
        self.shared = shared


def test_objects_that_were_evicted_come_back_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "MAX_OBJECTS_IN_MEMORY", 4)
    shared: list[str] = []
    store: ObjectStore[Thing] = ObjectStore(Scratch(), shared)
    for number in range(10):
        store.add(f"n{number}", Thing(f"first {number}", shared))
        store.evict(busy=["n0"])
    assert "n0" in store.loaded
    assert len(store.loaded) <= 4
    assert len(store) == 10
    assert [one.name for one in store.values()] == [f"first {number}" for number in range(10)]
    found = store.get("n3")
    assert found is not None
    assert found is store.get("n3")
    assert found.shared is shared
    found.name = "second"
    for number in range(10, 20):
        store.add(f"n{number}", Thing("", shared))
        store.evict()
    assert "n3" not in store.loaded
    again = store.get("n3")
    assert again is not None
    assert again.name == "second"
    assert "n3" in store
    assert store.get("n20") is None


_steps = st.one_of(
    st.tuples(st.just("get"), st.integers(0, 9)),
    st.tuples(st.just("add"), st.just(0)),
    st.tuples(st.just("rest"), st.integers(0, 9)),
)


@given(st.lists(_steps, max_size=40), st.lists(_steps, max_size=10))
def test_objects_come_back_unchanged_in_any_order(
    before: list[tuple[str, int]], meanwhile: list[tuple[str, int]]
) -> None:
    store: ObjectStore[list[int]] = ObjectStore(Scratch())
    expected: list[list[int]] = []

    def step(what: str, number: int) -> None:
        name = str(number)
        match what:
            case "add":
                store.add(str(len(expected)), [])
                expected.append([])
            case "rest":
                busy = name in store.loaded
                store.evict(busy=[name])
                assert (name in store.loaded) == busy
            case _ if number < len(expected):
                found = store.get(name)
                assert found == expected[number]
                expected[number].append(len(expected[number]))
                found.append(len(found))
            case _:
                assert store.get(name) is None
                assert name not in store

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "MAX_OBJECTS_IN_MEMORY", 2)
        for one in before:
            step(*one)
        assert [*store.values()] == expected
        assert len(store) == len(expected)
        values, seen = store.values(), len(expected)
        first = next(values, None)
        for one in meanwhile:
            step(*one)
        assert len([first, *values]) == max(seen, 1)
        assert [*store.values()] == expected
        for number in range(len(expected)):
            store.get(str(number))
        assert store.is_all_loaded


def test_a_full_disk_is_reported_with_the_remedy() -> None:
    full = Scratch()
    full.execute("PRAGMA max_page_count = 10")
    objects: SpillingMap[bytes] = SpillingMap(full, max_entries=0)
    with pytest.raises(OSError, match=r"no room for temporary files .*TMPDIR") as caught:
        objects.put("large", b"x" * 1_000_000)
    assert caught.value.errno == errno.ENOSPC


def test_an_object_too_deeply_nested_to_evict_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "MAX_OBJECTS_IN_MEMORY", 2)
    store: ObjectStore[object] = ObjectStore(Scratch())
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for number, one in enumerate([deep, "a", "b", "c"]):
        store.add(str(number), one)
        store.evict()
    assert store.get("0") is deep
    assert [*store.values()][1:] == ["a", "b", "c"]


# -- maps and sets


spilling_or_not = pytest.mark.parametrize("max_entries", [10_000, 5, 0])


@spilling_or_not
@given(texts=st.lists(st.text(max_size=3), max_size=300))
def test_a_set_has_the_keys_that_were_added_and_no_others(max_entries: int, texts: list[str]) -> None:
    keys, spilling = set[str](), SpillingSet(Scratch(), max_entries=max_entries)
    for text in texts:
        assert spilling.add(text) == (text not in keys)
        keys.add(text)
    assert all(text in spilling for text in keys)
    assert not any(f"{text}, and more" in spilling for text in keys)


@spilling_or_not
@given(pairs=st.lists(st.tuples(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1)), max_size=300))
def test_a_map_has_the_last_value_of_each_key(max_entries: int, pairs: list[tuple[str, int]]) -> None:
    expected, spilling = dict[str, int](), SpillingMap[int](Scratch(), max_entries=max_entries)
    for text, number in pairs:
        assert spilling.get(text) == expected.get(text)
        expected[text] = number
        spilling.put(text, number)
    assert {text: spilling.get(text) for text in expected} == expected


def test_a_map_that_outgrows_memory_still_has_all_entries() -> None:
    spilling: SpillingMap[int] = SpillingMap(Scratch())
    for number in range(20_000):
        spilling.put(f"text {number}", number)
    assert [spilling.get(f"text {number}") for number in range(20_000)] == [*range(20_000)]
    assert spilling.get("text 20000") is None


@spilling_or_not
def test_texts_and_bytes_come_back_as_they_were(max_entries: int) -> None:
    values = ["a", "", "b", "\u00e4\n\0", "\ud800", "sab", "x" * 5000]
    texts: SpillingMap[str] = SpillingMap(space := Scratch(), max_entries=max_entries)
    data: SpillingMap[bytes] = SpillingMap(space, max_entries=max_entries)
    for value in values:
        texts.put(value, value)
        data.put(value, value.encode("utf-8", "surrogatepass"))
    assert [texts.get(value) for value in values] == values
    assert [data.get(value) for value in values] == [value.encode("utf-8", "surrogatepass") for value in values]


def test_long_values_leave_memory_however_few_they_are() -> None:
    texts: SpillingMap[str] = SpillingMap(Scratch())
    for number in range(3):
        texts.put(str(number), "x" * 600_000)
    assert not texts._in_memory
    assert [len(texts.get(str(number)) or "") for number in range(3)] == [600_000] * 3


class SameHash(str):
    """Texts that all have one hash: a table of hashes takes them for one record."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 0


@spilling_or_not
def test_keys_with_equal_hashes_are_all_stored(max_entries: int) -> None:
    keys = [SameHash(f"record {number}") for number in range(20)]
    assert len({hash(key) for key in keys}) == 1
    spilling = SpillingSet(Scratch(), max_entries=max_entries)
    assert all(spilling.add(key) for key in keys)
    assert not any(spilling.add(key) for key in keys)


def test_long_keys_that_differ_at_their_end_are_distinct() -> None:
    spilling = SpillingSet(Scratch())
    lines = [b"x" * 100_000 + bytes([last]) for last in range(10)]
    assert all(spilling.add(line) for line in lines)
    assert not any(spilling.add(line) for line in lines)
    assert digest(b"ab", b"c") != digest(b"a", b"bc")


def test_two_records_whose_uuids_have_one_hash_are_both_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two texts can be named that Python hashes alike in every process, so the keys are replaced by such."""
    add = SpillingSet.add

    def add_with_same_hash(self: SpillingSet, key: str | bytes) -> bool:
        assert isinstance(key, str)
        return add(self, SameHash(key))

    transcript = Transcript()
    for number in range(5):
        transcript.user(f"Prompt {number}")
    monkeypatch.setattr(SpillingSet, "add", add_with_same_hash)
    frames = transcript.frames()
    assert sum(frame.kind == "session/prompt" and frame.direction == "out" for frame in frames) == 5


# -- sub-agents


def _sides(count: int) -> Transcript:
    """Sub-agents in the session's own file, several at once; some have a late message."""
    transcript, chance = Transcript(), Random(1)
    transcript.user("Ask the others")
    under_way: list[tuple[int, str]] = []
    over: list[str] = []
    for number in range(count):
        transcript.call("Task", {"prompt": f"You are {number}", "description": f"The {number}."}, f"toolu_{number}")
        under_way.append((number, transcript.user(f"You are {number}", isSidechain=True, parentUuid=None)))
        if len(under_way) > 3:
            one, last = under_way.pop(chance.randrange(4))
            call_id = f"toolu_of_{one % 3}"  # the same id in several of them
            last = transcript.call("Bash", {"command": "ls"}, call_id, isSidechain=True, parentUuid=last)
            last = transcript.result("a.py", None, call_id, isSidechain=True, parentUuid=last)
            over.append(transcript.text("Done.", id=f"msg_{one}", stop=None, isSidechain=True, parentUuid=last))
            if one % 4:
                transcript.result("Well done", {"content": []}, f"toolu_{one}")
        if over and number % 3 == 0:
            last = over.pop(chance.randrange(len(over)))
            transcript.text("And more.", id=f"late_{number}", stop=None, isSidechain=True, parentUuid=last)
    return transcript


def test_evicted_sub_agents_continue_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = _sides(40)
    frames = transcript.frames()
    monkeypatch.setattr(scratch, "MAX_OBJECTS_IN_MEMORY", 2)
    assert transcript.frames() == frames


async def test_the_rows_of_sub_agents_that_were_evicted_are_those_that_their_frames_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "MAX_OBJECTS_IN_MEMORY", 2)
    monkeypatch.setattr(file_import, "_MAX_COMMIT_ENTRIES", 7)
    path = _written(tmp_path, _sides(40))
    async with MemoryJournal() as journal:
        importer = Importer(journal, clock=lambda: path.stat().st_mtime + 2 * AT_REST_S)
        done = await importer.import_file(_found(path))
        assert (len(done.new), done.skipped) == (41, None)
        assert done.frames == len(_sides(40).frames()) + 41  # each session is opened with a note
        assert not await maintenance.verify(journal)
        assert not (await Importer(journal).import_file(_found(path))).frames


async def test_a_growing_file_with_evicted_sub_agents_is_read_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "MAX_OBJECTS_IN_MEMORY", 2)
    monkeypatch.setattr(file_import, "_MAX_COMMIT_ENTRIES", 7)
    whole = _sides(40)
    lines, whole.lines = whole.lines, whole.lines[:60]
    path = _written(tmp_path, whole)
    async with MemoryJournal() as journal:
        importer = Importer(journal, max_growing_bytes=1 << 20)
        first = await importer.import_file(_found(path))
        whole.lines = lines
        second = await importer.import_file(_found(_written(tmp_path, whole)))
        assert not {*first.new} & {*second.new}
        assert len(first.new) + len(second.new) == 41
        assert not await maintenance.verify(journal)


async def test_a_file_with_many_sub_agents_needs_few_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_import, "_MAX_COMMIT_ENTRIES", 7)
    path = _written(tmp_path, _sides(200))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with MemoryJournal() as journal:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 50, hard))
        try:
            done = await Importer(journal, clock=lambda: path.stat().st_mtime + 2 * AT_REST_S).import_file(_found(path))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (len(done.new), done.skipped) == (201, None)


def _written(folder: Path, transcript: Transcript | codex_talk.Transcript) -> Path:
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in transcript.lines))
    return path


def _found(path: Path) -> Found:
    return Found("claude", path, path.stat().st_size, path.stat().st_mtime)
