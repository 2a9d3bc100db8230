"""`million`: one very long session: compare the cost of its end with that of its beginning, and its memory."""

from __future__ import annotations

import shlex
import sys
from statistics import median

from bench.measure import Contender, Outcome, Sample, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row

TIME_BAR = 1.2

# Keeping the texts is the session's task, and a plain list of them is the plainest way to do it. Half as much again
# leaves room for the message being joined at its end; anything stored beside the text (events, lines, frames: each is
# larger than a chunk's text) would be several times the list.
MEMORY_BAR = 1.5


def run(settings: Settings, peers: Peers) -> Case:
    arguments = ["--agent", shlex.join(settings.agent()), "--cwd", str(settings.workspace)]
    arguments += ["--count", str(settings.million)]
    tools = ["--tool-every", str(settings.tool_every)]

    def ours(*more: str) -> Sample:
        return python_client(sys.executable, "million_ours", *arguments, *more)

    contenders = [
        Contender("a list", lambda: python_client(sys.executable, "million_kept", *arguments)),
        Contender("dragoman", ours),
        Contender("dragoman (tool calls)", lambda: ours(*tools)),
    ]
    # Fewer repetitions than elsewhere: each run is long, and holds its own comparison.
    outcomes = interleaved("million", contenders, max(1, settings.repetitions * 3 // 5), settings.say)
    plain_list, plain, mixed = outcomes["a list"], outcomes["dragoman"], outcomes["dragoman (tool calls)"]
    return Case(
        "million",
        f"One session of {settings.million:,} updates",
        "The same raw agent, one prompt, `async for event in run` in a program that itself stores nothing. "
        "Each tenth is timed. Memory is the growth of the process at its peak (resident), compared with a process that "
        "only puts the same texts into a list. "
        f"The second variant has a finished tool call after every {settings.tool_every:,} chunks.",
        [
            _ends("chunks: the last tenth against the first", "part_seconds", plain, bar=TIME_BAR),
            _ends("the same in CPU time", "part_cpu_seconds", plain),
            _ends("with tool calls: the last tenth against the first", "part_seconds", mixed, bar=TIME_BAR),
            _ends("the same in CPU time", "part_cpu_seconds", mixed),
            _memory("chunks: memory against a list of the texts", plain, plain_list),
            _memory("with tool calls: memory against a list of the texts", mixed, plain_list),
        ],
        [note for outcome in (plain, mixed) for note in _note(outcome, settings.million)],
    )


def _ends(what: str, values: str, outcome: Outcome, bar: float | None = None) -> Row:
    first = [sample.numbers(values)[0] for sample in outcome.samples]
    last = [sample.numbers(values)[-1] for sample in outcome.samples]
    name = outcome.name
    return Row(
        what,
        "cost",
        Figure(f"{name}, last", last, reason=outcome.reason),
        Figure(f"{name}, first", first, reason=outcome.reason),
        bar=bar,
    )


def _memory(what: str, ours: Outcome, plain_list: Outcome) -> Row:
    return Row(
        what,
        "cost",
        Figure(ours.name, ours.each("growth"), "B", ours.reason),
        Figure(plain_list.name, plain_list.each("growth"), "B", plain_list.reason),
        bar=MEMORY_BAR,
    )


def _note(outcome: Outcome, count: int) -> list[str]:
    if not outcome.samples:
        return []
    seconds = median(sum(sample.numbers("part_seconds")) for sample in outcome.samples)
    text = outcome.samples[0].number("text_bytes")
    growth = median(outcome.each("growth"))
    return [
        f"{outcome.name}: {count / seconds:,.0f} updates a second over the whole run; "
        f"{text / 2**20:.1f} MiB of text, {growth / count:,.0f} bytes of memory a chunk."
    ]
