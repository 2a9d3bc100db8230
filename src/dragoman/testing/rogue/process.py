"""Pipes, signals, children: harm that a process can do to its parent; and its exit in every state.

Exits are with exit code 0, 1 or 127, or by a signal: `exits_STATE_with_CODE` and `exits_STATE_by_sigkill`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from dragoman.testing.rogue.agent import Agent, behaviour, register, write_all
from dragoman.testing.rogue.prompts import ALLOW, REJECT, permission

# Children outlive any test that does not end them.
CHILD_LIFETIME_S = 600

ENDS = "ends the child too"


def _live_on() -> NoReturn:
    while True:
        time.sleep(CHILD_LIFETIME_S)


@behaviour("closes its stdin after the handshake, and keeps running", "gives up after its time limit")
def closes_stdin(agent: Agent) -> None:
    request = agent.wait_for("session/new")
    os.close(0)
    agent.answer(request, {"sessionId": agent.new_session()})
    _live_on()


@behaviour(
    "stops reading its stdin after the handshake",
    "is not blocked by its own prompt; ends the agent after its time limit",
)
def stops_reading(agent: Agent) -> None:
    agent.answer(agent.wait_for("session/new"), {"sessionId": agent.new_session()})
    _live_on()


@behaviour("closes its stdout in the middle of a run, and keeps running", "treats the agent as ended, and ends it")
def closes_stdout(agent: Agent) -> None:
    agent.begin_run("before")
    os.close(1)
    _live_on()


@behaviour("closes its stderr", "is not affected")
def closes_stderr(agent: Agent) -> None:
    os.close(2)
    agent.wait_for("session/prompt")
    agent.finish_run("fine")


@behaviour("10 MB of lines on its stderr in the middle of a run", "drains it, and keeps the last lines")
def much_stderr(agent: Agent) -> None:
    agent.begin_run("before ")
    lines = b"".join(b"line %06d %s\n" % (number, b"x" * 87) for number in range(1000))
    for _ in range(agent.repetitions(100)):
        write_all(2, lines)
    write_all(2, b"the last line\n")
    agent.finish_run("after")


@behaviour("10 MB on its stderr without a newline", "drains it, and keeps the beginning of the line")
def endless_stderr_line(agent: Agent) -> None:
    agent.begin_run("before ")
    for _ in range(agent.repetitions(100)):
        write_all(2, b"x" * 100_000)
    agent.finish_run("after")


@behaviour("terminal control sequences and invalid text on its stderr", "removes them before it shows the text")
def wild_stderr(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    write_all(2, b"\x1b[2J\x1b]0;owned\x07\xff\xfe\0 50 %\r100 %\r\n\x1b[31mred\x1b[0m\n\x9b31m\n")
    agent.finish_run("fine")


def _ends_on(agent: Agent, number: signal.Signals, code: int, *ignored: signal.Signals) -> NoReturn:
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)
    signal.signal(number, lambda *_: os._exit(code))
    agent.begin_run("before")
    _live_on()


@behaviour("ignores a cancel, and exits on SIGINT with exit code 42", "interrupts it after the grace")
def ends_on_sigint(agent: Agent) -> None:
    _ends_on(agent, signal.SIGINT, 42)


@behaviour("ignores a cancel and SIGINT, and exits on SIGTERM with exit code 43", "terminates it after that")
def ends_on_sigterm(agent: Agent) -> None:
    _ends_on(agent, signal.SIGTERM, 43, signal.SIGINT)


@behaviour("ignores SIGINT, SIGTERM, SIGHUP, a cancel and the end of its stdin", "kills it")
def ignores_signals(agent: Agent) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    agent.begin_run("before")
    _live_on()


@behaviour("stops itself by SIGSTOP in the middle of a run", "kills it after its time limit")
def stops_itself(agent: Agent) -> None:
    agent.begin_run("before")
    os.kill(os.getpid(), signal.SIGSTOP)


def _child(*, new_session: bool = False, stdout: bool = False, stubborn: bool = False, nameless: bool = False) -> int:
    """Start a child that would live for long; return its process id when it is ready.

    `stdout`: it holds our stdout open (as its stderr); `nameless`: its environment is empty.
    """
    program = f"import signal, time; print(end='.', flush=True); time.sleep({CHILD_LIFETIME_S})"
    if stubborn:
        program = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n" + program
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=1 if stdout else subprocess.DEVNULL,
        start_new_session=new_session,
        env={} if nameless else None,
    )
    os.close(writing)
    os.read(reading, 1)
    child.returncode = 0  # nobody waits for it
    return child.pid


def _leaves(agent: Agent, **kind: bool) -> NoReturn:
    agent.wait_for("session/prompt")
    agent.say(str(_child(**kind)))
    sys.exit(0)


@behaviour("exits in the middle of a run, and leaves a child in its group", ENDS)
def leaves_child(agent: Agent) -> None:
    _leaves(agent)


@behaviour("the same, with a child whose environment is empty", ENDS)
def leaves_nameless_child(agent: Agent) -> None:
    _leaves(agent, nameless=True)


@behaviour("the same, with a child in its own session (setsid)", ENDS)
def leaves_child_in_own_session(agent: Agent) -> None:
    _leaves(agent, new_session=True)


@behaviour("the same, with a child that holds its stdout open", "does not wait for the child; " + ENDS)
def leaves_child_with_stdout(agent: Agent) -> None:
    _leaves(agent, stdout=True)


@behaviour("the same, with a child in its own session that holds its stdout and ignores signals", "kills the child too")
def leaves_stubborn_child(agent: Agent) -> None:
    _leaves(agent, new_session=True, stdout=True, stubborn=True)


@behaviour(
    "has children in and outside its group, names all their processes, and continues normally",
    "ends them with the agent",
)
def keeps_children(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    pids = (os.getpid(), _child(nameless=True), _child(new_session=True, stdout=True, stubborn=True))
    agent.say(" ".join(map(str, pids)))
    agent.end_run()


def _at_start(agent: Agent) -> None:
    pass


def _in_initialize(agent: Agent) -> None:
    agent.wait_for("initialize")


def _after_initialize(agent: Agent) -> None:
    agent.answer(agent.wait_for("initialize"), agent.handshake())


def _in_session_new(agent: Agent) -> None:
    agent.wait_for("session/new")


def _while_idle(agent: Agent) -> None:
    agent.answer(agent.wait_for("session/new"), {"sessionId": agent.new_session()})


def _in_prompt(agent: Agent) -> None:
    agent.begin_run("before")


def _in_permission(agent: Agent) -> None:
    _in_prompt(agent)
    agent.send(permission(agent, [ALLOW, REJECT]))


def _in_cancel(agent: Agent) -> None:
    _in_prompt(agent)
    agent.wait_for("session/cancel")
    agent.say(" more")


def _after_the_run(agent: Agent) -> None:
    _in_prompt(agent)
    agent.end_run()


LAST_WORDS = b"rogue: leaving now\n"

STATES: dict[str, tuple[str, Callable[[Agent], None], str]] = {
    "at_start": ("before it has read anything", _at_start, "reports how it exited, with its last line of stderr"),
    "in_initialize": ("instead of answering `initialize`", _in_initialize, "the same"),
    "after_initialize": ("right after `initialize`", _after_initialize, "fails the next request"),
    "in_session_new": ("instead of answering `session/new`", _in_session_new, "fails the request"),
    "while_idle": ("between two runs", _while_idle, "reports an error in the session, and fails the next request"),
    "in_prompt": ("in the middle of a run", _in_prompt, "keeps the text so far; the run is interrupted"),
    "in_permission": (
        "while its permission request is pending",
        _in_permission,
        "the same, and withdraws the permission request",
    ),
    "in_cancel": ("when it is cancelled", _in_cancel, "loses no text; the run is cancelled"),
    "after_the_run": ("right after its run", _after_the_run, "the run succeeds; fails the next request"),
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
            f"exits {_when}, with exit code {_code}",
            _good,
            _reach,
            partial(os._exit, _code),
        )
    _register(
        f"exits_{_state}_by_sigkill",
        f"exits {_when}, by SIGKILL",
        _good,
        _reach,
        partial(_leave_by_signal, signal.SIGKILL),
    )
