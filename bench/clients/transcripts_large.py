"""`transcripts_large`: one long transcript, made here and imported; the peak memory of all processes.

python -m bench.clients.transcripts_large MEGABYTES
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from bench.clients.memory import peak, peak_of_helpers
from bench.clients.report import report
from dragoman.journal.sqlite import SqliteJournal
from dragoman.translate.discover import Transcript
from dragoman.translate.ingest.importer import Importer

SESSION = "11111111-2222-3333-4444-555555555555"
BEGAN = 1_750_000_000.0
CALLS = 10  # of each run
USAGE = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 5}


class Talk:
    """An endless transcript of a conversation with Claude Code, the same each time."""

    def __init__(self) -> None:
        self._chance = random.Random(1)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._words = ["".join(self._chance.choices(letters, k=self._chance.randint(2, 10))) for _ in range(5000)]
        self._parent: str | None = None
        self._number = count()

    def records(self) -> Iterator[dict[str, Any]]:
        while True:
            yield self._record("user", {"role": "user", "content": self._text(30)})
            for _ in range(CALLS):
                yield from self._call()
            yield self._assistant_record({"type": "text", "text": self._text(100)}, "end_turn")

    def _call(self) -> Iterator[dict[str, Any]]:
        call_id = f"toolu_{next(self._number)}"
        options = {"command": f"grep {self._text(6)}", "description": self._text(5)}
        yield self._assistant_record({"type": "text", "text": self._text(40)}, None)
        yield self._assistant_record({"type": "tool_use", "id": call_id, "name": "Bash", "input": options}, "tool_use")
        output = self._text(600)
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": False}
        tool_result = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        yield self._record("user", {"role": "user", "content": [result]}, toolUseResult=tool_result)

    def _assistant_record(self, block: dict[str, Any], stopped: str | None) -> dict[str, Any]:
        message = {"id": f"msg_{next(self._number)}", "role": "assistant", "model": "claude-opus-4", "content": [block]}
        return self._record("assistant", {**message, "stop_reason": stopped, "usage": USAGE})

    def _record(self, type_: str, message: dict[str, Any], **more: Any) -> dict[str, Any]:
        number = next(self._number)
        uuid = str(UUID(int=number))
        record = {
            "parentUuid": self._parent,
            "sessionId": SESSION,
            "cwd": "/home/ada/proj",
            "version": "2.1.0",
            "type": type_,
            "message": message,
            "uuid": uuid,
            "timestamp": datetime.fromtimestamp(BEGAN + number, UTC).isoformat(),
            **more,
        }
        self._parent = uuid
        return record

    def _text(self, words: int) -> str:
        return " ".join(self._chance.choices(self._words, k=words))


def write(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for record in Talk().records():
            file.write(msgspec.json.encode(record) + b"\n")
            if file.tell() >= size:
                return


async def main(size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{SESSION}.jsonl")
        write(path, size)
        os.utime(path, (BEGAN, BEGAN))  # at rest
        began = time.perf_counter()
        async with await SqliteJournal.open(Path(folder, "journal.db")) as journal:
            (done,) = await Importer(journal).import_all([Transcript("claude", path, size, BEGAN)])
        if done.skipped or not done.frames:
            raise SystemExit(f"it was left out: {done.skipped}")
        seconds = time.perf_counter() - began
        report(seconds=seconds, peak=peak() + peak_of_helpers(), frames=done.frames)


if __name__ == "__main__":
    asyncio.run(main(int(float(sys.argv[1]) * 1e6)))
