"""`python -m bench`: run the cases, print the table, write docs/performance.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench import (
    case_bridge,
    case_checkpoints,
    case_chunks,
    case_evaluate,
    case_flood,
    case_import,
    case_import_transcripts,
    case_journal,
    case_million,
    case_open,
    case_policy,
    case_sandbox,
    case_terminal,
    case_tools,
    case_version,
    case_watch_idle,
)
from bench.measure import ROOT, Settings
from bench.peers import Peers, cache_folder, our_versions
from bench.table import WIDTH, Case, section, summary

CASES: dict[str, Callable[[Settings, Peers], Case]] = {
    "chunks": case_chunks.run,
    "million": case_million.run,
    "version": case_version.run,
    "import": case_import.run,
    "open": case_open.run,
    "sandbox": case_sandbox.run,
    "terminal": case_terminal.run,
    "policy": case_policy.run,
    "journal": case_journal.run,
    "bridge": case_bridge.run,
    "flood": case_flood.run,
    "tools": case_tools.run,
    "evaluate": case_evaluate.run,
    "transcripts": case_import_transcripts.run,
    "watch-idle": case_watch_idle.run,
    "checkpoints": case_checkpoints.run,
}

PAGE = ROOT / "docs" / "performance.md"

PREFACE = """\
# Performance

`make bench` measures these figures and writes this page. All contenders run side by side in one run, in turns, each in
its own processes. Figures are medians, with the smallest and the largest in brackets. Ratios carry over from one
machine to another, absolute values do not.

A *bar* is a limit that a ratio has to keep, so that a change that makes Dragoman slower is noticed: "at least 3×" means
that Dragoman has to be at least three times as fast as the other contender, "at most 2×" that it may cost at most twice
as much. An *aim* is what we would like to reach. Rows without a bar are for information.
"""


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse(argv)
    # An installed package has its modules compiled, as the peers have here; ours must be able to.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # They are a case of their own; elsewhere they would record what the cases write.
    os.environ["DRAGOMAN_CHECKPOINTS"] = "off"
    names = options.only or list(CASES)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as workspace:
        settings = _settings(Path(workspace), options.repetitions, options.quick)
        peers = Peers(cache_folder(), settings.say)
        _warn_of_load(settings.say)
        cases = [CASES[name](settings, peers) for name in names]
        facts = _facts(peers)

    if options.json:
        print(json.dumps(_as_json(facts, cases), indent=2))
    else:
        print("\n\n".join([_machine(facts), *(section(case) for case in cases), summary(cases)]), flush=True)
    measured = not any(case.reasons() for case in cases)
    if measured and names == list(CASES) and not options.quick:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(_page(facts, cases), encoding="utf-8")
        settings.say(f"{PAGE.relative_to(ROOT)} is written")
    else:
        settings.say(f"{PAGE.relative_to(ROOT)} is left as it is: only a whole run that measured everything writes it")
    return 0 if measured else 1


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Dragoman side by side with the official SDKs. The exit code is 0 whether bars are met or "
        "missed, and 1 when something could not be measured.",
    )
    parser.add_argument("--only", type=_names, metavar="CASE,…", help=f"only these cases: {', '.join(CASES)}")
    parser.add_argument("--repetitions", type=_positive, default=5, help="rounds of the long cases (default: 5)")
    parser.add_argument("--quick", action="store_true", help="small numbers: does it run at all?")
    parser.add_argument("--json", action="store_true", help="print every sample as JSON instead of the table")
    return parser.parse_args(argv)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in CASES]:
        raise argparse.ArgumentTypeError(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    return [name for name in CASES if name in names]


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _settings(workspace: Path, repetitions: int, quick: bool) -> Settings:
    settings = Settings(workspace=workspace, repetitions=repetitions, short_repetitions=repetitions * 4 + 1)
    if quick:
        small = replace(settings, repetitions=1, short_repetitions=3, opens=3)
        return replace(small, chunks=5_000, million=50_000, ticks=200, watched=200, checkpoint_files=2_000)
    return settings


def _warn_of_load(say: Callable[[str], None]) -> None:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 4:
        say(f"this machine is busy (load {load:.1f} on {cores} cores): expect noise, look at the ratios")


def _facts(peers: Peers) -> dict[str, str]:
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        **our_versions(),
        **peers.versions(),
    }


def _page(facts: dict[str, str], cases: Sequence[Case]) -> str:
    parts = [PREFACE.rstrip(), _machine(facts), summary(cases), *(section(case) for case in cases)]
    return "\n\n".join(parts) + "\n"


def _machine(facts: dict[str, str]) -> str:
    machine, *versions = (value if name == "machine" else f"{name} {value}" for name, value in facts.items())
    return textwrap.fill(f"Measured on {machine}; {', '.join(versions)}.", WIDTH, break_on_hyphens=False)


def _as_json(facts: dict[str, str], cases: Sequence[Case]) -> object:
    return {
        "facts": facts,
        "cases": [
            {
                "case": case.name,
                "rows": [
                    {
                        "what": row.what,
                        "ratio": row.ratio,
                        "ratio_of": row.ratio_of,
                        "bar": row.bar,
                        "verdict": row.verdict or None,
                        **{
                            side: {
                                "name": figure.name,
                                "unit": figure.unit,
                                "median": figure.median,
                                "samples": list(figure.samples),
                                "reason": figure.reason or None,
                            }
                            for side, figure in (("ours", row.ours), ("against", row.other))
                        },
                    }
                    for row in case.rows
                ],
                "notes": list(case.notes),
            }
            for case in cases
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
