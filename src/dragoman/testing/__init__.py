"""The public test kit: what Dragoman's own tests stand on, for the tests of programs that use it.

memory       an agent that lives in this process, behind the same link as a real one
scripted     an agent whose behaviour a test writes as one async function; in memory, or as a process
stage        a session on a scripted agent, in one line
demo         the demo agent, in memory or as a process
tee          recordings of real conversations, made between a client and an agent or around a runtime's link
recordings   an agent that is recorded once and played from then on
scrub        recordings without what is nobody's business
leaks        proof that a test left no task, descriptor or process
conformance  what every runtime, session and run must do, as checks that any implementation can be run through

    from dragoman.testing import session_of

    async def answer(turn):
        await turn.say(f"You said: {turn.text}")

    async with session_of(answer) as session:
        assert (await session.run("Hi")).text == "You said: Hi"
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.testing.demo import demo_in_memory as demo_in_memory
    from dragoman.testing.demo import demo_spec as demo_spec
    from dragoman.testing.leaks import nothing_left as nothing_left
    from dragoman.testing.memory import MemoryLink as MemoryLink
    from dragoman.testing.memory import in_memory as in_memory
    from dragoman.testing.memory import memory_runtime as memory_runtime
    from dragoman.testing.recordings import recorded as recorded
    from dragoman.testing.scripted import ScriptedAgent as ScriptedAgent
    from dragoman.testing.scripted import Turn as Turn
    from dragoman.testing.scripted import command_of as command_of
    from dragoman.testing.side import AgentExit as AgentExit
    from dragoman.testing.side import AgentSide as AgentSide
    from dragoman.testing.stage import play as play
    from dragoman.testing.stage import runtime_of as runtime_of
    from dragoman.testing.stage import session_of as session_of

# Loaded when first used: a scripted agent that runs as a process needs the least of it, and starts sooner.
_HOMES = {
    "AgentExit": "side",
    "AgentSide": "side",
    "MemoryLink": "memory",
    "ScriptedAgent": "scripted",
    "Turn": "scripted",
    "command_of": "scripted",
    "demo_in_memory": "demo",
    "demo_spec": "demo",
    "in_memory": "memory",
    "memory_runtime": "memory",
    "nothing_left": "leaks",
    "play": "stage",
    "recorded": "recordings",
    "runtime_of": "stage",
    "session_of": "stage",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dragoman.testing' has no attribute {name!r}")
    return getattr(import_module(f"dragoman.testing.{_HOMES[name]}"), name)
