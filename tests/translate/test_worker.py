"""The worker process: what it reads is what the importer reads, and it leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dragoman.journal import maintenance
from dragoman.journal.memory import MemoryJournal
from dragoman.journal.protocols import Position
from dragoman.translate import transcript_file
from dragoman.translate.discover import Transcript as Found
from dragoman.translate.ingest import importer, worker
from dragoman.translate.ingest.commits import Commit
from dragoman.translate.ingest.dedup import ImportPolicy
from dragoman.translate.ingest.file_import import FileState
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.worker import Answer, FileDone, FileFailed, ImportWorker, ReadJob
from translate import codex_talk
from translate.claude_talk import SESSION, Transcript

LIMIT_S = 30.0


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
    position = Position(connection_id="c", provider=provider, path=str(path), session_id="", frames=0, offset=0)
    return ReadJob(os.fsencode(path), position, state, ImportPolicy({}, frozenset()))


def _answers(job: ReadJob) -> list[Answer]:
    return [answer for answer in worker._read(job) if answer is not None]


# -- what it answers


@pytest.mark.parametrize("is_long", [False, True])
def test_a_file_with_a_long_line_is_left_to_the_importer(is_long: bool, tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Go" * (transcript_file.LONG_LINE_BYTES if is_long else 1))
    answers = _answers(_job(_write(tmp_path, transcript)))
    assert [type(answer) for answer in answers] == ([FileFailed] if is_long else [Commit, FileDone])


def test_a_batch_ends_when_enough_was_read_though_nothing_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_BATCH_PAUSES", 2)
    transcript = Transcript()
    for _ in range(3000):
        transcript.add("file-history-snapshot", snapshot="x" * 100)
    batches = [worker._next_batch([_job(_write(tmp_path, transcript))])]
    while not batches[-1]:
        batches.append(worker._next_batch(()))
    assert len(batches) > 3
    assert [type(answer) for batch in batches for answer in batch] == [Commit, FileDone]
    assert worker._next_batch(()) == []


def test_answers_of_several_files_come_in_their_order_in_whatever_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_BATCH_BYTES", 1)
    paths = []
    for number in range(3):
        (folder := tmp_path / str(number)).mkdir()
        paths.append(_write(folder, _claude(2)))
    answers = worker._next_batch([_job(path) for path in paths])
    while sum(isinstance(answer, FileDone) for answer in answers) < 3:
        batch = worker._next_batch(())
        assert batch
        answers += batch
    done = [answer.position.path for answer in answers if isinstance(answer, FileDone)]
    assert done == [str(path) for path in paths]


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


def _worker_processes() -> list[multiprocessing.process.BaseProcess]:
    return multiprocessing.active_children()


@pytest.mark.parametrize("min_bytes", [0, 2**62])
async def test_files_are_imported_though_the_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, min_bytes: int
) -> None:
    """Whether it was given them, or they were read here while it was starting."""
    killed = ImportWorker()
    for process in _worker_processes():
        process.kill()
    monkeypatch.setattr(importer, "_MIN_WORKER_FILE_BYTES", min_bytes)
    path = _write(tmp_path, _claude())
    async with MemoryJournal() as journal, asyncio.timeout(LIMIT_S):
        (report,) = await Importer(journal).import_all([Found("claude", path, 0, 0.0)], worker=killed)
        assert len(report.new) == 1
        assert not await maintenance.verify(journal)
    assert not _worker_processes()


def test_the_process_ends_when_the_worker_is_closed() -> None:
    started = ImportWorker()
    assert len(_worker_processes()) == 1
    started.close()
    started.close()
    assert not _worker_processes()


def test_starting_a_worker_leaves_the_program_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    before = sys.modules["__main__"], dict(os.environ), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    ImportWorker().close()
    assert (sys.modules["__main__"], dict(os.environ), signal.pthread_sigmask(signal.SIG_BLOCK, [])) == before


def _script(tmp_path: Path, text: str) -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = """
        from dragoman.translate.ingest.worker import ImportWorker, _next_batch
        print("once", flush=True)
        worker = ImportWorker()
        worker._pool.submit(_next_batch, ()).result()
        worker.close()
        """
    with _script(tmp_path, script) as process:
        output, _ = process.communicate(timeout=LIMIT_S)
    assert (output, process.returncode) == ("once\n", 0)


def test_the_process_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    script = """
        import multiprocessing, time
        from dragoman.translate.ingest.worker import ImportWorker, _next_batch
        worker = ImportWorker()
        worker._pool.submit(_next_batch, ()).result()
        print(multiprocessing.active_children()[0].pid, flush=True)
        time.sleep(1000)
        """
    with _script(tmp_path, script) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        descriptor = os.pidfd_open(pid)
        process.kill()
        exited = multiprocessing.connection.wait([descriptor], timeout=LIMIT_S)
        os.close(descriptor)
    assert exited == [descriptor]
