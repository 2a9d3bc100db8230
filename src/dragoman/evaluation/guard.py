"""Guards: checks of a result that seems complete. One that objects sends the agent back with its reason.

A guard is a function, plain or async, of the response so far. It returns None or True where all is well; a text is the
reason why not, for the agent to read; False objects without one. An exception of a guard's is the caller's: it is
raised, and ends the evaluation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from dragoman.errors import InputError
from dragoman.host.callback import call

Objection: TypeAlias = str | bool | None
# Of the response so far (`PromptResponse`), with whatever output the caller has asked for.
Guard: TypeAlias = Callable[[Any], Objection | Awaitable[Objection]]


async def objections(guards: Sequence[Guard], response: Any) -> tuple[str, ...]:
    """The reasons of those that object, in their order."""
    reasons: list[str] = []
    for guard in guards:
        # A plain one gets a thread: it may run a test suite, and the agent's connection must go on meanwhile.
        verdict = await call(guard, response)
        name = getattr(guard, "__name__", "a guard")
        match verdict:
            case None | True:
                continue
            case False:
                reasons.append(f"the check {name} did not pass")
            case str():
                reasons.append(verdict)
            case _:
                raise InputError(f"the guard {name} returned {verdict!r}; expected None, True, False or a reason")
    return tuple(reasons)


def objection_prompt(reasons: Sequence[str], *, wants_output: bool) -> str:
    """What the agent is sent back with."""
    said = "\n".join(f"- {reason}" for reason in reasons)
    then = " Then hand over the result again, as before." if wants_output else ""
    return f"This is not done yet:\n{said}\nGo on until it is.{then}"
