"""`bridge`: from the agent's pipe, through the journal, to a client on the socket."""

from __future__ import annotations

import shlex
import sys

from bench.measure import ROOT, Contender, Settings, interleaved, python_client
from bench.peers import PYTHON_SDK, Peers
from bench.table import Case, Figure, Row

BAR, AIM = 2, 4
FOLLOWERS = 100


def run(settings: Settings, peers: Peers) -> Case:
    count = settings.chunks
    agent = shlex.join(settings.agent(prepare=count))
    burst = ["--agent", agent, "--cwd", str(settings.workspace), "--count", str(count)]
    ticking = shlex.join([sys.executable, str(ROOT / "bench" / "ticking_agent.py")])
    ticks = ["--ticks", "--agent", ticking, "--cwd", str(settings.workspace)]
    delays = ["--agent", ticking, "--cwd", str(settings.workspace), "--count", "2000", "--pace", "1"]
    many = f"{FOLLOWERS} followers"
    contenders = [
        Contender("Python SDK", lambda: python_client(peers.python, "chunks_python_sdk", *burst)),
        Contender("dragoman serve", lambda: python_client(sys.executable, "bridge", *burst)),
        Contender(many, lambda: python_client(sys.executable, "bridge", *burst, "--tool-every", str(FOLLOWERS))),
        Contender("ticks", lambda: python_client(sys.executable, "bridge", *ticks)),
        Contender("local", lambda: python_client(sys.executable, "delay_ours", *delays)),
    ]
    found = interleaved("bridge", contenders, settings.repetitions, settings.say)
    ours, sdk, ticked, local = found["dragoman serve"], found["Python SDK"], found["ticks"], found["local"]
    notes = []
    if ticked.samples and local.samples:
        added = _median(ticked.each("p50")) - _median(local.each("p50"))
        notes.append(
            f"At a thousand updates a second the socket's client sees one {_median(ticked.each('p50')) * 1000:.1f} ms "
            f"after the agent wrote it (p99 {_median(ticked.each('p99')) * 1000:.1f} ms); a program that drives the "
            f"agent itself, without a journal, {_median(local.each('p50')) * 1000:.1f} ms: "
            f"the server adds {added * 1000:.1f} ms."
        )
        notes.append(
            f"An idle session takes {_median(ticked.each('idle_session')) / 1024:.0f} KB of memory in the server."
        )
    return Case(
        "bridge",
        f"{count:,} message chunks, from the agent's pipe through the journal to a client on the socket",
        "The agent, the chunks and the Python SDK are those of `chunks`; the SDK only dispatches. With Dragoman the "
        "agent, the server and the client are three processes: each frame is folded, committed with its rows, sent "
        "over the WebSocket and decoded by the client.",
        [
            Row(
                f"against the Python SDK ({PYTHON_SDK[1]}), which stores and sends nothing",
                "speed",
                Figure(ours.name, ours.each("seconds"), "s", ours.reason),
                Figure(sdk.name, sdk.each("seconds"), "s", sdk.reason),
                bar=BAR,
                aim=AIM,
            ),
            Row(
                f"{FOLLOWERS} followers of the session against one",
                "cost",
                Figure(many, found[many].each("seconds"), "s", found[many].reason),
                Figure(ours.name, ours.each("seconds"), "s", ours.reason),
            ),
        ],
        notes,
    )


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
