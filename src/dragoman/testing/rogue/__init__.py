"""The rogue agent: a real process that speaks just enough ACP and misbehaves in one named way.

For tests of anything that drives agents: start `python -m dragoman.testing.rogue BEHAVIOUR` in place of an agent. It
uses only the standard library, so that it starts fast. `--list` and docs/rogue-agent.md describe each behaviour, and
what a good client does.

    agent.py      the well-behaved half: reads, writes, answers the handshake, opens sessions; behaviours by name
    lines.py      lines that are not JSON, and floods
    rpc.py        wrong JSON-RPC: ids, answers, requests; `initialize`, `session/new`, `session/list`
    updates.py    updates of wrong kinds, shapes and times; forged notes
    prompts.py    prompts answered wrongly or not at all, reactions to a cancel, permission requests, questions
    process.py    pipes, signals, children, and its exit in every state

    from dragoman.testing.rogue import command
    AgentSpec(command=command("two_objects_on_a_line"))
"""

from __future__ import annotations

import sys


def command(behaviour: str, *, count: int | None = None) -> list[str]:
    """Return the command that starts it. `count` is the number of repetitions, for behaviours that repeat something."""
    words = [sys.executable, "-P", "-m", "dragoman.testing.rogue", behaviour]
    return words if count is None else [*words, "--count", str(count)]
