"""The public test kit: for tests of programs that use Dragoman. Dragoman's own tests use it too.

scripted     an agent whose behaviour a test writes as one async function; in memory, or as a process
memory       an agent in this process, behind the same link as a real one; a session on it in one line
demo         the demo agent, in memory or as a process
rogue        an agent that misbehaves in one named way (docs/rogue-agent.md)
model        a scripted model server for real agents (docs/model-server.md)
tee          recordings of real conversations, made between a client and an agent or around a runtime's link
recordings   an agent that is recorded once and played from then on; recordings without secrets
clock        a clock that a test moves
leaks        a check that a test left no task, descriptor or process
conformance  checks that every runtime, session and run must pass, for any implementation

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
    from dragoman.testing.memory import play as play
    from dragoman.testing.memory import runtime_of as runtime_of
    from dragoman.testing.memory import session_of as session_of
    from dragoman.testing.recordings import recorded as recorded
    from dragoman.testing.scripted import AgentExit as AgentExit
    from dragoman.testing.scripted import AgentSide as AgentSide
    from dragoman.testing.scripted import ScriptedAgent as ScriptedAgent
    from dragoman.testing.scripted import Turn as Turn
    from dragoman.testing.scripted import command_of as command_of

# Loaded when first used: a scripted agent that runs as a process needs little of it, and starts sooner.
_MODULES = {
    "AgentExit": "scripted",
    "AgentSide": "scripted",
    "MemoryLink": "memory",
    "ScriptedAgent": "scripted",
    "Turn": "scripted",
    "command_of": "scripted",
    "demo_in_memory": "demo",
    "demo_spec": "demo",
    "in_memory": "memory",
    "memory_runtime": "memory",
    "nothing_left": "leaks",
    "play": "memory",
    "recorded": "recordings",
    "runtime_of": "memory",
    "session_of": "memory",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'dragoman.testing' has no attribute {name!r}")
    return getattr(import_module(f"dragoman.testing.{_MODULES[name]}"), name)
