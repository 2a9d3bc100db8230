"""A history that the agent tells again, beside the one that is kept: what differs.

Pure. Agents do not tell a history as it happened: they join messages, leave out thoughts, number tool calls anew, give
them other titles, put words of their own around prompts, tell nothing of runs that failed or of what they said about an
error, and some tell tool calls as text. None of that is a difference. These are:

* a prompt whose run went well, and which the agent does not tell;
* words of the agent's that the journal does not have, as when the session was continued elsewhere;
* tool calls in a turn that had none, or none in one that had some.

Where a run did not end well, what the agent makes of it, and of its neighbours, is its own matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from dragoman.record import rows
from dragoman.record.fold import SessionFold
from dragoman.record.notes import Difference, HistoryDiffers
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Unknown

# Differences that are listed, and characters of each: enough to see what is meant, whatever an agent forgot.
_LISTED: Final = 10
_SHOWN: Final = 120

# Of a prompt, without its spaces: by its beginning it is known, and what is cut from a long one does not matter.
_TELLING: Final = 200


class _Turn:
    """A prompt, and what came of it."""

    def __init__(self, run_id: str | None = None, *, certain: bool = False) -> None:
        self.run_id = run_id
        self.certain = certain  # the agent has to tell it as it was
        self.tainted = False  # it, or a neighbour, is not certain
        self.prompt: list[str] = []
        self.answers: list[list[str]] = []
        self.calls: dict[str, str] = {}  # by the agent's id: the title

    @cached_property
    def prompt_words(self) -> str:
        return _words("".join(self.prompt))

    @cached_property
    def answer_words(self) -> list[str]:
        return [_words("".join(answer)) for answer in self.answers]

    @cached_property
    def all_words(self) -> str:
        return "".join(self.answer_words)


def _words(text: str) -> str:
    """Without spaces and line breaks, with which agents are free."""
    return "".join(text.split())


class Retold:
    """`hear` what is told again, in order; then ask how it differs."""

    def __init__(self) -> None:
        self.turns: list[_Turn] = []
        self._last: tuple[type, str | None] | None = None  # what was heard last: its type, and the message's id

    def hear(self, update: acp.SessionUpdate | Unknown) -> None:
        match update:
            case acp.UserMessageChunk(content=content):
                if not self.turns or self._last is None or self._last[0] is not acp.UserMessageChunk:
                    self.turns.append(_Turn())
                if isinstance(content, acp.TextContent):
                    self.turns[-1].prompt.append(content.text)
                self._last = (acp.UserMessageChunk, None)
            case acp.AgentMessageChunk(content=acp.TextContent(text=text), message_id=message_id):
                answers = self._turn().answers
                said = (acp.AgentMessageChunk, message_id)
                if self._last == said:
                    answers[-1].append(text)
                else:
                    answers.append([text])
                self._last = said
            case acp.ToolCall() | acp.SessionToolCallUpdate():
                self._turn().calls.setdefault(update.tool_call_id, update.title or "")
                self._last = (acp.ToolCall, None)
            case _:
                pass

    def _turn(self) -> _Turn:
        if not self.turns:
            self.turns.append(_Turn())
        return self.turns[-1]

    def differs_from(self, fold: SessionFold) -> HistoryDiffers | None:
        """`fold` is what was known before; None where nothing is to be said."""
        found = list(_differences(_kept_turns(fold), self.turns))
        return HistoryDiffers(tuple(found[:_LISTED]), len(found)) if found else None


def _kept_turns(fold: SessionFold) -> list[_Turn]:
    turns: list[_Turn] = []
    by_run: dict[str, _Turn] = {}
    for message in fold.messages:
        if message.kind == "user":
            turn = _Turn(message.run_id, certain=_is_certain(message, fold))
            turn.prompt.append(message.text)
            turns.append(turn)
            if message.run_id is not None:
                by_run[message.run_id] = turn
        elif message.kind == "assistant":
            if not turns:
                turns.append(_Turn())
            by_run.get(message.run_id or "", turns[-1]).answers.append([message.text])
    for call in fold.tool_calls:
        if call.run_id in by_run:
            by_run[call.run_id].calls[call.tool_call_id] = call.title
    for number, turn in enumerate(turns):
        turn.tainted = not all(near.certain for near in turns[max(number - 1, 0) : number + 2])
    return turns


def _is_certain(prompt: rows.Message, fold: SessionFold) -> bool:
    """What has attachments, is a command of the agent's own, or is kept without a secret may be told in other words."""
    run = fold.runs.get(prompt.run_id or "")
    words = prompt.text.strip()
    plain = not prompt.blocks and words[:1] not in ("", "/") and "[secret:" not in words
    return plain and run is not None and run.status == "success"


def _differences(kept: Sequence[_Turn], told: Sequence[_Turn]) -> Iterator[Difference]:
    if not any(turn.certain for turn in kept):
        return
    owners: dict[int, list[_Turn]] = {}  # by the number of the turn, as it is told, in which their prompts stand
    number = begin = 0
    for turn in kept:
        if turn.certain:
            prompt = turn.prompt_words[:_TELLING]
            place = _find(prompt, told, number, begin)
            if place is None:
                yield Difference("prompt", here=_beginning("".join(turn.prompt)), run_id=turn.run_id)
            else:
                number, begin = place[0], place[1] + len(prompt)
                owners.setdefault(number, []).append(turn)
    everything = _Everything(kept)
    told_calls = {call for turn in told for call in turn.calls}
    starts = sorted(owners)
    for start, end in zip([0, *starts], [*starts, len(told)], strict=True):
        whose = owners.get(start, [])
        if start < end and not any(turn.tainted for turn in whose or kept[:1]):
            yield from _in_turn(whose, told[start:end], everything, told_calls)


def _find(prompt: str, told: Sequence[_Turn], number: int, begin: int) -> tuple[int, int] | None:
    """The next place of a prompt: of several that were told as one, each has its own."""
    for later in range(number, len(told)):
        place = told[later].prompt_words.find(prompt, begin if later == number else 0)
        if place >= 0:
            return later, place
    return None


class _Everything:
    """All that is kept; looked through only for what is not where it belongs."""

    def __init__(self, kept: Sequence[_Turn]) -> None:
        self._kept = kept

    @cached_property
    def words(self) -> str:
        return "".join(turn.all_words for turn in self._kept)

    @cached_property
    def calls(self) -> set[str]:
        return {call for turn in self._kept for call in turn.calls}


def _in_turn(
    kept: Sequence[_Turn], told: Sequence[_Turn], everything: _Everything, told_calls: set[str]
) -> Iterator[Difference]:
    run_id = kept[-1].run_id if kept else None
    calls = {call: title for turn in kept for call, title in turn.calls.items()}
    retold = {call: title for turn in told for call, title in turn.calls.items()}
    unknown = [
        "".join(answer)
        for turn in told
        for answer, words in zip(turn.answers, turn.answer_words, strict=True)
        if words and not _is_known(words, kept, everything)
    ]
    if len(retold) >= len(calls):
        here = _beginning(" ".join("".join(answer) for turn in kept for answer in turn.answers))
        for answer in unknown:
            yield Difference("answer", here=here, told=_beginning(answer), run_id=run_id)
    elif not unknown and not retold and told_calls and not told_calls.intersection(calls):
        # Words that are not known would be the calls, told as text.
        yield Difference("tool_calls", here=_beginning(", ".join(calls.values())), run_id=run_id)
    if retold and not calls and not everything.calls.intersection(retold):
        yield Difference("tool_calls", told=_beginning(", ".join(retold.values())), run_id=run_id)


def _is_known(words: str, kept: Sequence[_Turn], everything: _Everything) -> bool:
    if any(words in turn.all_words for turn in kept):
        return True
    rest = words
    for known in (known for turn in kept for known in turn.answer_words if known):
        rest = rest.replace(known, "", 1)  # told as one, without what stood between
    return not rest or words in everything.words


def _beginning(text: str) -> str:
    text = " ".join(text[: _SHOWN * 4].split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
