"""A watcher that is killed, at any moment and again and again, while agents write: each record comes in once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.journal import maintenance
from dragoman.journal.sqlite import SqliteJournal
from dragoman.translate.ingest.dedup import imported_session_id
from journal.talk import all_entries
from translate.claude_talk import SESSION
from translate.watched import TIMEOUT_S, append, frame_keys, imported, lines, talk, transcript_in

pytestmark = pytest.mark.slow

KILLS = 8
SESSIONS = [f"{SESSION[:-1]}{number}" for number in range(3)]


def _started(home: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "translate.watch_process", str(home / "journal.db"), str(home)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _written(home: Path, chance: random.Random) -> Iterator[None]:
    """Write all sessions in turn, in pieces that may end within a line."""
    waiting = {session: lines(talk(*map(str, range(12)), session=session)) for session in SESSIONS}
    while left := [session for session in SESSIONS if waiting[session]]:
        session = chance.choice(left)
        size = chance.randint(1, 1500)
        append(transcript_in(home, session), waiting[session][:size])
        waiting[session] = waiting[session][size:]
        yield


@pytest.mark.parametrize("seed", [1, 2])
async def test_killed_at_any_moment_it_brings_each_record_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    pieces = _written(tmp_path, chance)
    for _ in range(KILLS):
        with _started(tmp_path) as process:
            assert process.stdout is not None
            for _ in range(chance.randint(1, 12)):
                next(pieces, None)  # it has something to do until it is killed
                process.stdout.readline()
            process.kill()
    for _ in pieces:
        pass
    written = {str(path): path.stat().st_size for path in transcript_in(tmp_path).parent.iterdir()}
    with _started(tmp_path) as process:
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        for session in SESSIONS:
            entries = frame_keys(await all_entries(journal, imported_session_id("claude", session)))
            assert entries == await imported(transcript_in(tmp_path, session))
        assert {position.path: position.offset for position in await journal.transcript_positions()} == written
        assert not await maintenance.verify(journal)
