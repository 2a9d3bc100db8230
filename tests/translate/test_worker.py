"""The worker process: what it reads is what the importer reads, and it leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dragoman.journal import maintenance
from dragoman.journal.protocols import TranscriptPosition
from dragoman.journal.sqlite import MemoryJournal
from dragoman.translate import transcript_file
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.ingest import file_import, importer, worker
from dragoman.translate.ingest.dedup import ImportPolicy
from dragoman.translate.ingest.file_import import Commit, FileState
from dragoman.translate.ingest.importer import Importer, ImportWorker
from dragoman.translate.ingest.worker import Answer, FileDone, FileFailed, ReadJob
from dragoman.translate.ingest.worker_process import start_worker
from translate import codex_talk
from translate.claude_talk import SESSION, Transcript

TIMEOUT_S = 30.0
_AT_REST = FileState(inode=0, size=10**9, modified=0.0, age=1e9)


def _claude(prompts: int = 1) -> Transcript:
    transcript = Transcript()
    for number in range(prompts):
        transcript.user(f"Prompt {number}")
        transcript.text(f"Answer {number}", id=f"msg_{number}")
    return transcript


def _sub_agents() -> Transcript:
    transcript = Transcript()
    transcript.user("Ask the others")
    for number in range(5):
        transcript.call("Task", {"prompt": f"You are {number}"}, f"toolu_{number}")
        first = transcript.user(f"You are {number}", isSidechain=True, parentUuid=None)
        transcript.text("Done.", id=f"msg_{number}", stop=None, isSidechain=True, parentUuid=first)
        transcript.result("Well done", {"content": []}, f"toolu_{number}")
    return transcript


def _codex() -> codex_talk.Transcript:
    transcript = codex_talk.Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.call("shell", {"command": ["ls"]})
    return transcript


def _write(folder: Path, transcript: Transcript | codex_talk.Transcript) -> Path:
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in transcript.lines))
    return path


def _job(path: Path, provider: str = "claude") -> ReadJob:
    state = FileState(inode=0, size=path.stat().st_size, modified=0.0, age=0.0)
    position = TranscriptPosition(
        connection_id="c", provider=provider, path=str(path), session_id="", frames=0, offset=0
    )
    return ReadJob(os.fsencode(path), position, state, ImportPolicy({}, frozenset()))


def _answers(job: ReadJob) -> list[Answer]:
    return list(worker.answer(job))


# -- what it answers


@pytest.mark.parametrize("is_long", [False, True])
def test_a_file_with_a_long_line_is_left_to_the_importer(is_long: bool, tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Go" * (transcript_file.LONG_LINE_BYTES if is_long else 1))
    answers = _answers(_job(_write(tmp_path, transcript)))
    assert [type(answer) for answer in answers] == ([FileFailed] if is_long else [Commit, FileDone])


def test_jobs_are_answered_in_their_order_until_there_are_no_more(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        (folder := tmp_path / str(number)).mkdir()
        paths.append(_write(folder, _claude(2)))
    jobs, answers = io.BytesIO(b"".join(pickle.dumps(_job(path)) for path in paths)), io.BytesIO()
    worker.serve(jobs, answers)
    answers.seek(0)
    assert pickle.load(answers) is None  # the process has started
    for path in paths:
        assert isinstance(pickle.load(answers), Commit)
        assert pickle.load(answers).position.path == str(path)
    assert not answers.read()


def test_each_commit_is_answered_before_the_next_one_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of the end of a file, which may be many: each sub-agent has one."""
    monkeypatch.setattr(file_import, "_MAX_COMMIT_ENTRIES", 3)
    made: list[Commit] = []
    add = worker._CollectedCommits.add

    async def spy(self: worker._CollectedCommits, commit: Commit, on_committed: Callable[[str], None]) -> None:
        made.append(commit)
        await add(self, commit, on_committed)

    monkeypatch.setattr(worker._CollectedCommits, "add", spy)
    job = msgspec.structs.replace(_job(_write(tmp_path, _sub_agents())), end=_AT_REST)
    answered = 0
    for answer in worker.answer(job):
        answered += isinstance(answer, Commit)
        assert len(made) == answered
    assert answered > 5


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_the_state_of_a_file_is_freed_without_a_search_for_cycles(provider: str, tmp_path: Path) -> None:
    """The worker hardly ever searches for them, and reads all the files that there are."""
    path = _write(tmp_path, _sub_agents() if provider == "claude" else _codex())
    _answers(_job(path, provider))
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        assert FileDone in map(type, _answers(_job(path, provider)))
        gc.collect()
        assert not [value for value in gc.garbage if type(value).__module__.startswith("dragoman")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


# -- the process


@pytest.mark.parametrize("min_bytes", [0, 2**62])
async def test_files_are_imported_though_the_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, min_bytes: int
) -> None:
    """The same holds for files of the worker and for files that are read here while it starts."""
    killed = start_worker()
    killed.kill()
    monkeypatch.setattr(importer, "_MIN_WORKER_FILE_BYTES", min_bytes)
    path = _write(tmp_path, _claude())
    async with MemoryJournal() as journal, asyncio.timeout(TIMEOUT_S):
        (report,) = await Importer(journal).import_all([Found("claude", path, 0, 0.0)], process=killed)
        assert len(report.new) == 1
        assert not await maintenance.verify(journal)
    assert killed.returncode is not None


def test_the_process_ends_when_its_stdin_is_closed() -> None:
    """Stdin closes when the importer ends, however it ends."""
    process = start_worker()
    with process:  # closes its pipes, and waits
        pass
    assert process.returncode == 0


async def test_leaving_the_worker_ends_the_process_though_it_has_jobs_left(tmp_path: Path) -> None:
    process = start_worker()
    async with asyncio.timeout(TIMEOUT_S):
        async with ImportWorker(process) as client:
            for _ in range(50):
                client.add(_job(_write(tmp_path, _claude(20))))
            assert isinstance(await client.next_answer(), Commit)
    assert process.returncode is not None


def _ended_with(answers: bytes) -> subprocess.Popen[bytes]:
    """A process that has written these answers and ended: all of them are in the pipe."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.stdout.buffer.write({answers!r})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.wait(TIMEOUT_S)
    return process


async def test_leaving_the_worker_does_not_wait_for_answers_that_are_left_in_the_pipe() -> None:
    answers = pickle.dumps(FileFailed()) * (importer._MAX_ANSWERS_AHEAD + 10)
    process = _ended_with(pickle.dumps(None) + answers)
    async with asyncio.timeout(TIMEOUT_S), ImportWorker(process) as client:
        assert await client.next_answer() == FileFailed()
    assert not client._reader.is_alive()


async def test_no_more_answers_wait_in_memory_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "_MAX_ANSWERS_AHEAD", 2)
    path = _write(tmp_path, _claude())
    async with asyncio.timeout(TIMEOUT_S), ImportWorker(start_worker()) as client:
        for _ in range(20):
            client.add(_job(path))
        for _ in range(20):
            assert isinstance(await client.next_answer(), Commit)
            assert isinstance(await client.next_answer(), FileDone)
            assert client._answers.qsize() <= 2


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import pickle
            from dragoman.translate.ingest.worker_process import start_worker
            print("once", flush=True)
            with start_worker() as process:
                assert pickle.load(process.stdout) is None
            """
        )
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.stdout, done.returncode) == ("once\n", 0)


def _modules_after(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    return set(done.stdout.split())


def test_the_command_starts_the_worker_before_it_loads_what_an_import_needs() -> None:
    loaded = _modules_after("import dragoman.cli.import_")
    assert "dragoman.translate.ingest.worker_process" in loaded
    assert not loaded & {"asyncio", "sqlite3", "dragoman.journal.entry", "dragoman.translate.ingest.importer"}


def test_the_worker_loads_neither_an_event_loop_nor_a_session_nor_the_settings() -> None:
    loaded = _modules_after("import dragoman.translate.ingest.worker, dragoman.translate.claude.translator")
    assert "dragoman.translate.ingest.file_import" in loaded
    assert not loaded & {"asyncio", "dragoman.session.handle", "dragoman.host", "dragoman.config"}
