"""`python -m dragoman.testing.rogue BEHAVIOUR`: the rogue agent on stdin and stdout."""

from __future__ import annotations

import argparse
import sys

from dragoman.testing.rogue.agent import Agent
from dragoman.testing.rogue.registry import behaviours, table


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dragoman.testing.rogue",
        description="An agent that speaks just enough ACP on stdin and stdout, and misbehaves in one named way.",
    )
    parser.add_argument("behaviour", nargs="?", help="what it does; --list names them all")
    parser.add_argument("--count", type=int, help="how many times, for behaviours that do something many times")
    parser.add_argument("--list", action="store_true", help="list the behaviours, one a line, and end")
    parser.add_argument("--table", action="store_true", help="the same as Markdown, with what a good client does")
    given = parser.parse_args(arguments)
    known = behaviours()
    if given.table:
        print(table(), end="")
        return 0
    if given.list:
        for each in known.values():
            print(f"{each.name:36} {each.does}")
        return 0
    if given.behaviour not in known:
        parser.error(f"there is no behaviour {given.behaviour!r}; --list names them all")
    agent = Agent(given.count)
    try:
        known[given.behaviour].play(agent)
        agent.serve()
    except BrokenPipeError:
        pass  # the client has had enough of us
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
