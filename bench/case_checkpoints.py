"""`checkpoints`: recording, comparing and rewinding a workspace, beside the same work of git."""

from __future__ import annotations

import sys

from bench.measure import Contender, Settings, interleaved, python_client
from bench.peers import Peers
from bench.table import Case, Figure, Row


def run(settings: Settings, peers: Peers) -> Case:
    count = settings.checkpoint_files

    def measure_all() -> Contender:
        arguments = (str(settings.workspace), str(count))
        return Contender("all", lambda: python_client(sys.executable, "checkpoints", *arguments))

    # One program measures both sides in turns: each run of it writes all the files.
    outcome = interleaved("checkpoints", [measure_all()], min(settings.repetitions, 3), settings.say)["all"]

    def row(what: str, ours: str, name: str, other: str, bar: float | None = None) -> Row:
        return Row(
            what,
            "cost",
            Figure("Dragoman", outcome.each(ours), reason=outcome.reason),
            Figure(name, outcome.each(other), reason=outcome.reason),
            bar,
        )

    return Case(
        "checkpoints",
        "Checkpoints of a workspace",
        f"A git repository of {count:,} files in folders of 50, each of 10 to 200 lines. A checkpoint is taken before "
        "and after each run, and the prompt waits for the first of them. 1,000 files are changed, compared with their "
        "lines, and brought back.",
        [
            row("checkpoint of an unchanged folder", "next", "`git status`", "status", bar=1.5),
            row("the same of a folder with 20 files", "small", "`git status`", "small_status"),
            row("checkpoint after 1,000 changes", "after_change", "`git status`", "status_after_change"),
            row("first checkpoint", "first", "`git add --all`", "add"),
            row("the difference, with all lines", "diff", "`git diff`", "git_diff"),
            row("rewind of 1,000 files, with its checkpoint", "rewind", "`git checkout`", "checkout"),
        ],
        [
            "The first checkpoint of a folder copies all of its files into a repository of our own, while the agent "
            "starts."
        ],
    )
