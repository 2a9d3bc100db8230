"""Run contenders alternately, each in a fresh process, and collect the figures of each run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# No single run takes longer than this on any machine worth measuring on; a hang must end with a message.
CLIENT_TIMEOUT_SECONDS = 300


class Unavailable(Exception):
    """A contender cannot run here, or did not do what it should: the table says so and goes on without it."""


@dataclass(frozen=True)
class Sample:
    """The figures of one run of one contender, by name."""

    values: Mapping[str, float | Sequence[float]]

    def number(self, name: str) -> float:
        value = self.values[name]
        assert isinstance(value, int | float), name
        return value

    def numbers(self, name: str) -> Sequence[float]:
        value = self.values[name]
        assert not isinstance(value, int | float), name
        return value


@dataclass(frozen=True)
class Contender:
    name: str
    measure: Callable[[], Sample]


@dataclass(frozen=True)
class Outcome:
    """All runs of one contender; `reason` says why there are none."""

    name: str
    samples: Sequence[Sample] = ()
    reason: str = ""

    def each(self, name: str) -> list[float]:
        return [sample.number(name) for sample in self.samples]


@dataclass(frozen=True)
class Settings:
    """Sizes and repetitions; `say` prints progress."""

    workspace: Path
    repetitions: int = 5
    short_repetitions: int = 21  # for what takes milliseconds: there the noise is larger, and repeating is cheap
    opens: int = 11
    chunks: int = 50_000
    million: int = 1_000_000
    tool_every: int = 1_000
    ticks: int = 1_000
    watched: int = 10_000
    checkpoint_files: int = 50_000
    say: Callable[[str], None] = field(default=lambda line: print(line, file=sys.stderr, flush=True))

    def agent(self, *, prepare: int = 0) -> list[str]:
        """Return the raw agent's command line."""
        command = [sys.executable, str(ROOT / "bench" / "raw_agent.py")]
        return [*command, "--prepare", str(prepare)] if prepare else command


def interleaved(
    case: str, contenders: Sequence[Contender], repetitions: int, say: Callable[[str], None], *, warm_up: bool = False
) -> dict[str, Outcome]:
    """Run A, B, C, A, B, C, …: whatever slows the machine for a while then slows all of them.

    With `warm_up` a first round is thrown away: it fills the disk cache and writes the compiled modules.
    """
    samples: dict[str, list[Sample]] = {contender.name: [] for contender in contenders}
    reasons: dict[str, str] = {}
    say(f"{case}: {repetitions} × {', '.join(samples)}")
    for repetition in range(-1 if warm_up else 0, repetitions):
        for contender in contenders:
            if contender.name in reasons:
                continue
            try:
                sample = contender.measure()
            except Unavailable as error:
                say(f"{case}: {contender.name} is not available: {error}")
                reasons[contender.name] = str(error)
                continue
            if repetition >= 0:
                samples[contender.name].append(sample)
    return {
        contender.name: Outcome(contender.name, reason=reasons[contender.name])
        if contender.name in reasons
        else Outcome(contender.name, samples[contender.name])
        for contender in contenders
    }


def client(command: Sequence[str]) -> Sample:
    """Run a measuring program and read the one line of JSON that it prints."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_SECONDS, check=False
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"no result within {CLIENT_TIMEOUT_SECONDS} s") from error
    if done.returncode:
        raise Unavailable(last_line(done.stderr) or f"it ended with exit code {done.returncode}")
    return Sample(json.loads(done.stdout))


def python_client(python: Path | str, module: str, *arguments: str) -> Sample:
    """`client` for a module of `bench.clients`, on the interpreter that has what it measures."""
    return client([str(python), "-m", f"bench.clients.{module}", *arguments])


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""
