"""Control sequences in everything that an agent sends: none reaches a terminal, by any command that shows a session."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from attempts import Attempts

from . import escaping_agent
from .conftest import On

AGENT = f"{sys.executable} {Path(escaping_agent.__file__)}"

# Our own colours, and the sequences by which a line that changes is written again, are of this form.
OWN = re.compile(r"\x1b\[[0-9;?]*[A-HJKhlm]")
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
ATTACKING = [
    sequence.encode()
    for sequence in escaping_agent.SEQUENCES.values()
    if sequence != escaping_agent.SEQUENCES["colour"]  # red is a colour of ours, too
]
# An agent that wants to mislead by its own words needs no such characters.
PROSE = re.compile("\u202e(message|thought)\u2066")
PROSE_REASON = (
    "Messages and thoughts keep the characters that turn the direction of writing, which some languages need; "
    "commands, titles, paths and questions do not."
)


def check(shown: str, attempts: Attempts) -> None:
    """Fail where a sequence of the agent is in what a terminal was sent."""
    for sequence in ATTACKING:
        assert sequence not in shown.encode()
    assert "colour\x1b[31m." not in shown
    assert CONTROLS.findall(OWN.sub("", shown)) == [], shown
    assert DIRECTIONS.findall(PROSE.sub("", shown)) == [], shown
    attempts.add(len(escaping_agent.SEQUENCES) * len(escaping_agent.PLACES))
    for place in sorted(set(PROSE.findall(shown))):
        attempts.add_inherent(f"U+202E in a {place}", PROSE_REASON)


@pytest.mark.attempts("terminal escapes")
@pytest.mark.timeout(120)
def test_no_control_sequence_of_an_agent_reaches_the_terminal(on_terminal: On, attempts: Attempts) -> None:
    run = on_terminal("run", "--access", "ask", "--agent-command", AGENT, "go on")
    shown = run.until(b"Your answer (1-")
    run.type(b"1\r")
    check(shown.decode() + run.rest(), attempts)
    assert run.code() == 0
    quiet = on_terminal("run", "-q", "--access", "full", "--agent-command", AGENT, "go on")
    check(quiet.rest(), attempts)
    assert quiet.code() == 0
    listing = on_terminal("sessions", "list").rest()
    assert "Title" in listing
    check(listing, attempts)
    for arguments in (("show",), ("show", "--json"), ("search", "escaping")):
        command = on_terminal("sessions", *arguments)
        output = command.rest()
        assert command.code() == 0, output
        assert "colour" in output
        check(output, attempts)
