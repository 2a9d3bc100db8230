"""The rogue agent: a real process that speaks just enough ACP and misbehaves in one named way.

For the tests of anything that drives agents: start `python -m dragoman.testing.rogue BEHAVIOUR` where an agent is
expected, and see what your client makes of it. Nothing but the standard library, so that it starts in no time. What
each behaviour does, and what a good client makes of it, is listed by `--list` and in docs/rogue-agent.md.

    registry.py   behaviours by name
    agent.py      the polite half: hears, speaks, shakes hands, opens sessions, and answers what nobody told it to spoil
    lines.py      what is no line of JSON: garbage, halves, giants, broken text
    rpc.py        JSON-RPC bent: ids, answers, requests
    handshake.py  `initialize`, `session/new`, `session/list`
    updates.py    updates of wrong kinds, shapes and times; forged notes
    asking.py     permission requests and other questions
    turns.py      how a prompt is, or is not, answered; cancel
    process.py    pipes, signals, children
    exits.py      its end in every state
    floods.py     more than anybody can take

    from dragoman.testing.rogue import command
    AgentSpec(command=command("two_objects_on_a_line"))
"""

from __future__ import annotations

import sys


def command(behaviour: str, *, count: int | None = None) -> list[str]:
    """The command that starts it. `count` is how many, for behaviours that do something many times."""
    found = [sys.executable, "-P", "-m", "dragoman.testing.rogue", behaviour]
    return found if count is None else [*found, "--count", str(count)]
