"""Shared by all measured programs: their arguments, the check of the received chunks, the line that they print."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

# Prompted before the measured one, in every client alike: what is built on first use (validators,
# compiled code, caches) is paid here. The measured run is a session's second prompt.
WARM_UP_CHUNKS = 2_000

# `word 00000042 `: the position of the number in a chunk's text.
NUMBER = slice(5, 13)


@dataclass(frozen=True)
class Arguments:
    agent: tuple[str, ...]
    cwd: str
    count: int
    tool_every: int


def arguments() -> Arguments:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", required=True, type=shlex.split, help="the agent's command line")
    parser.add_argument("--cwd", required=True, help="the session's workspace")
    parser.add_argument("--count", type=int, default=1, help="how many chunks, or how many opens")
    parser.add_argument("--tool-every", type=int, default=0, help="a tool call after every so many chunks")
    options = parser.parse_args()
    return Arguments(tuple(options.agent), options.cwd, options.count, options.tool_every)


def check_order(texts: Sequence[str], count: int) -> int:
    """Count the chunks that came after one that the agent wrote later; raise if one is missing or duplicated."""
    numbers = [int(text[NUMBER]) for text in texts]
    if sorted(numbers) != list(range(count)):
        raise SystemExit(f"saw {len(numbers)} chunks, {len(set(numbers))} of them different; the agent sent {count}")
    late, newest = 0, -1
    for number in numbers:
        late += number < newest
        newest = max(newest, number)
    return late


def report(**figures: float | int | list[float] | list[int]) -> None:
    print(json.dumps(figures), flush=True)
