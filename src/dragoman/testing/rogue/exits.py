"""Exits in every state: with exit code 0, 1 or 127, or by a signal.

The names are `exits_STATE_with_CODE` and `exits_STATE_by_sigkill`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial

from dragoman.testing.rogue.agent import Agent, write_all
from dragoman.testing.rogue.asking import ALLOW, REJECT, permission
from dragoman.testing.rogue.registry import register


def _at_start(agent: Agent) -> None:
    pass


def _in_initialize(agent: Agent) -> None:
    agent.until("initialize")


def _after_initialize(agent: Agent) -> None:
    agent.answer(agent.until("initialize"), agent.handshake())


def _in_session_new(agent: Agent) -> None:
    agent.until("session/new")


def _while_idle(agent: Agent) -> None:
    agent.answer(agent.until("session/new"), {"sessionId": agent.new_session()})


def _in_prompt(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")


def _in_permission(agent: Agent) -> None:
    _in_prompt(agent)
    agent.send(permission(agent, [ALLOW, REJECT]))


def _in_cancel(agent: Agent) -> None:
    _in_prompt(agent)
    agent.until("session/cancel")
    agent.say(" more")


def _after_the_turn(agent: Agent) -> None:
    _in_prompt(agent)
    agent.end_turn()


LAST_WORDS = b"rogue: leaving now\n"

STATES: dict[str, tuple[str, Callable[[Agent], None], str]] = {
    "at_start": ("before it has read anything", _at_start, "says how it ended, with its last words on stderr"),
    "in_initialize": ("instead of answering `initialize`", _in_initialize, "the same"),
    "after_initialize": ("right after `initialize`", _after_initialize, "fails what is asked of it next"),
    "in_session_new": ("instead of answering `session/new`", _in_session_new, "fails the request"),
    "while_idle": ("between two turns", _while_idle, "tells the session, and fails what is asked of it next"),
    "in_prompt": ("in the middle of a turn", _in_prompt, "keeps the words so far; the run ends as interrupted"),
    "in_permission": (
        "while its permission request is pending",
        _in_permission,
        "the same, and withdraws the question",
    ),
    "in_cancel": ("when it is cancelled", _in_cancel, "keeps every word; the run ends as cancelled"),
    "after_the_turn": ("right after its turn", _after_the_turn, "the run went well; fails what is asked next"),
}
CODES = (0, 1, 127)


def _leave_by_signal(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.pause()


def _register(name: str, does: str, good: str, reach: Callable[[Agent], None], leave: Callable[[], None]) -> None:
    def play(agent: Agent) -> None:
        reach(agent)
        write_all(2, LAST_WORDS)
        leave()

    register(name, does, good, play)


for _state, (_when, _reach, _good) in STATES.items():
    for _code in CODES:
        _register(
            f"exits_{_state}_with_{_code}",
            f"ends {_when}, with exit code {_code}",
            _good,
            _reach,
            partial(os._exit, _code),
        )
    _register(
        f"exits_{_state}_by_sigkill",
        f"ends {_when}, by SIGKILL",
        _good,
        _reach,
        partial(_leave_by_signal, signal.SIGKILL),
    )
