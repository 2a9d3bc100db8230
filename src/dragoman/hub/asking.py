"""Answers of a person who is elsewhere, to what a session asks: permissions and questions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.errors import InputError
from dragoman.host.permission import Answer, Reply
from dragoman.hub import commands

if TYPE_CHECKING:
    from dragoman.session.session import Session

# Which kind of option is taken first for an answer; with `always` the other way round.
_KINDS: Final = {"allow": ("allow_once", "allow_always"), "reject": ("reject_once", "reject_always")}


def reply_to(session: Session, said: commands.AnswerPermission) -> Reply:
    """The answer that is meant. `InputError` where there is no such question, or no option that says it."""
    row = session.fold.permissions.get(said.permission_id)
    if row is None:
        raise InputError(f"session {session.id} was never asked {said.permission_id!r}")
    if said.option_id is not None:
        option = next((one for one in row.options if one.option_id == said.option_id), None)
        if option is None:
            raise InputError(f"there is no option {said.option_id!r}", guidance="Choose one of the agent's options.")
        always = said.remember and (said.always or option.kind.endswith("_always"))
        return Answer("selected", option.option_id, allowed=option.kind.startswith("allow"), always=always)
    if said.answer is None:
        raise InputError("an answer is needed: option_id, or answer")
    if said.answer == "cancel":
        return None
    kinds = _KINDS[said.answer]
    for kind in reversed(kinds) if said.always else kinds:
        for option in row.options:
            if option.kind == kind:
                return Answer("selected", option.option_id, allowed=said.answer == "allow", always=said.always)
    if said.answer == "reject":
        return Answer("cancelled", always=said.always)
    raise InputError("the agent offers no option that allows it", guidance="Choose one of its options, or refuse.")


async def answer_question(session: Session, command: commands.AnswerQuestion) -> bool:
    """Answer a question of the agent's. False where it has its answer, or was withdrawn.

    `InputError` says what does not fit, and the question stays open.
    """
    question = session.question(command.question_id)
    if question is None:
        return False
    if command.action == "accept":
        # In a thread: trying a pattern of the agent's may take its time.
        answer = await asyncio.to_thread(question.accept, command.content)
    else:
        answer = question.decline() if command.action == "decline" else question.cancel()
    return session.answer_question(command.question_id, msgspec.structs.replace(answer, by=command.by))
