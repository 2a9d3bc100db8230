"""`python -m dragoman.testing.rogue BEHAVIOUR`: the rogue agent on stdin and stdout."""

from __future__ import annotations

import argparse
import sys

from dragoman.testing.rogue.agent import Agent, behaviours, table


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dragoman.testing.rogue",
        description="An agent that speaks just enough ACP on stdin and stdout, and misbehaves in one named way.",
    )
    parser.add_argument("behaviour", nargs="?", help="name of the behaviour; --list names them all")
    parser.add_argument("--count", type=int, help="number of repetitions, for behaviours that repeat something")
    parser.add_argument("--list", action="store_true", help="list the behaviours, one per line, and exit")
    parser.add_argument("--table", action="store_true", help="list them as Markdown, with what a good client does")
    options = parser.parse_args(arguments)
    by_name = behaviours()
    if options.table:
        print(table(), end="")
        return 0
    if options.list:
        for each in by_name.values():
            print(f"{each.name:36} {each.does}")
        return 0
    if options.behaviour not in by_name:
        parser.error(f"there is no behaviour {options.behaviour!r}; --list names them all")
    agent = Agent(options.count)
    try:
        by_name[options.behaviour].play(agent)
        agent.serve()
    except BrokenPipeError:
        pass  # the client has closed the pipe
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
