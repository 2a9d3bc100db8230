"""`ReplayComparison`: compare the history that an agent replays on `session/load` with the journal.

Pure. Agents do not replay a history as it happened: they join messages, leave out thoughts, give tool calls new ids and
titles, add text around prompts, leave out failed runs and error messages, and some replay tool calls as text. None of
that is a difference. These are:

* a prompt of a successful run that the agent does not replay;
* messages of the agent that the journal does not have, as when the session was continued elsewhere;
* tool calls in an exchange that had none, or none in one that had some.

A run that did not succeed, and its neighbours, are not compared.
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

# The number of differences that are listed, and the characters of each: enough to recognize them.
_MAX_DIFFERENCES: Final = 10
_MAX_SHOWN_CHARACTERS: Final = 120

# Characters of a prompt, without white space, by which it is found in the replay; agents truncate long prompts.
_PROMPT_KEY_CHARACTERS: Final = 200


class _Exchange:
    """A prompt, and the answers and tool calls that followed it."""

    def __init__(self, run_id: str | None = None, *, is_certain: bool = False) -> None:
        self.run_id = run_id
        self.is_certain = is_certain  # the agent must replay it unchanged
        self.is_tainted = False  # this one, or a neighbour, is not certain
        self.prompt: list[str] = []
        self.answers: list[list[str]] = []
        self.calls: dict[str, str] = {}  # by the agent's id: the title

    @cached_property
    def squeezed_prompt(self) -> str:
        return _squeeze("".join(self.prompt))

    @cached_property
    def squeezed_answers(self) -> list[str]:
        return [_squeeze("".join(answer)) for answer in self.answers]

    @cached_property
    def squeezed_text(self) -> str:
        return "".join(self.squeezed_answers)


def _squeeze(text: str) -> str:
    """Remove white space, which agents change freely."""
    return "".join(text.split())


class ReplayComparison:
    """Collects the replayed updates by `add`, in order; `compare_with` then returns the differences."""

    def __init__(self) -> None:
        self.exchanges: list[_Exchange] = []
        self._last: tuple[type, str | None] | None = None  # the type and message id of the last update

    def add(self, update: acp.SessionUpdate | Unknown) -> None:
        match update:
            case acp.UserMessageChunk(content=content):
                if not self.exchanges or self._last is None or self._last[0] is not acp.UserMessageChunk:
                    self.exchanges.append(_Exchange())
                if isinstance(content, acp.TextContent):
                    self.exchanges[-1].prompt.append(content.text)
                self._last = (acp.UserMessageChunk, None)
            case acp.AgentMessageChunk(content=acp.TextContent(text=text), message_id=message_id):
                answers = self._current_exchange().answers
                current = (acp.AgentMessageChunk, message_id)
                if self._last == current:
                    answers[-1].append(text)
                else:
                    answers.append([text])
                self._last = current
            case acp.ToolCall() | acp.SessionToolCallUpdate():
                self._current_exchange().calls.setdefault(update.tool_call_id, update.title or "")
                self._last = (acp.ToolCall, None)
            case _:
                pass

    def _current_exchange(self) -> _Exchange:
        if not self.exchanges:
            self.exchanges.append(_Exchange())
        return self.exchanges[-1]

    def compare_with(self, fold: SessionFold) -> HistoryDiffers | None:
        """Return the differences from `fold`, the state before the replay; None where there are none."""
        differences = list(_differences(_recorded_exchanges(fold), self.exchanges))
        return HistoryDiffers(tuple(differences[:_MAX_DIFFERENCES]), len(differences)) if differences else None


def _recorded_exchanges(fold: SessionFold) -> list[_Exchange]:
    exchanges: list[_Exchange] = []
    by_run: dict[str, _Exchange] = {}
    for message in fold.messages:
        if message.kind == "user":
            exchange = _Exchange(message.run_id, is_certain=_is_certain(message, fold))
            exchange.prompt.append(message.text)
            exchanges.append(exchange)
            if message.run_id is not None:
                by_run[message.run_id] = exchange
        elif message.kind == "assistant":
            if not exchanges:
                exchanges.append(_Exchange())
            by_run.get(message.run_id or "", exchanges[-1]).answers.append([message.text])
    for call in fold.tool_calls:
        if call.run_id in by_run:
            by_run[call.run_id].calls[call.tool_call_id] = call.title
    for index, exchange in enumerate(exchanges):
        exchange.is_tainted = not all(near.is_certain for near in exchanges[max(index - 1, 0) : index + 2])
    return exchanges


def _is_certain(prompt: rows.Message, fold: SessionFold) -> bool:
    """Return True for a prompt that the agent must replay unchanged.

    Prompts with attachments, commands of the agent, and prompts that are recorded without a secret may change.
    """
    run = fold.runs.get(prompt.run_id or "")
    text = prompt.text.strip()
    plain = not prompt.blocks and text[:1] not in ("", "/") and "[secret:" not in text
    return plain and run is not None and run.status == "success"


def _differences(recorded: Sequence[_Exchange], replayed: Sequence[_Exchange]) -> Iterator[Difference]:
    if not any(exchange.is_certain for exchange in recorded):
        return
    owners: dict[int, list[_Exchange]] = {}  # by the index of the replayed exchange that has their prompts
    index = offset = 0
    for exchange in recorded:
        if exchange.is_certain:
            prompt = exchange.squeezed_prompt[:_PROMPT_KEY_CHARACTERS]
            position = _find(prompt, replayed, index, offset)
            if position is None:
                yield Difference("prompt", recorded=_shorten("".join(exchange.prompt)), run_id=exchange.run_id)
            else:
                index, offset = position[0], position[1] + len(prompt)
                owners.setdefault(index, []).append(exchange)
    recorded_text = _RecordedText(recorded)
    all_replayed_calls = {call for exchange in replayed for call in exchange.calls}
    starts = sorted(owners)
    for start, end in zip([0, *starts], [*starts, len(replayed)], strict=True):
        owners_here = owners.get(start, [])
        if start < end and not any(exchange.is_tainted for exchange in owners_here or recorded[:1]):
            yield from _compare_exchanges(owners_here, replayed[start:end], recorded_text, all_replayed_calls)


def _find(prompt: str, replayed: Sequence[_Exchange], index: int, offset: int) -> tuple[int, int] | None:
    """Return the index and offset of the next occurrence of a prompt; several may be replayed as one."""
    for later in range(index, len(replayed)):
        position = replayed[later].squeezed_prompt.find(prompt, offset if later == index else 0)
        if position >= 0:
            return later, position
    return None


class _RecordedText:
    """All recorded text; searched only for text that is not in its own exchange."""

    def __init__(self, recorded: Sequence[_Exchange]) -> None:
        self._recorded = recorded

    @cached_property
    def text(self) -> str:
        return "".join(exchange.squeezed_text for exchange in self._recorded)

    @cached_property
    def calls(self) -> set[str]:
        return {call for exchange in self._recorded for call in exchange.calls}


def _compare_exchanges(
    recorded: Sequence[_Exchange],
    replayed: Sequence[_Exchange],
    recorded_text: _RecordedText,
    all_replayed_calls: set[str],
) -> Iterator[Difference]:
    run_id = recorded[-1].run_id if recorded else None
    calls = {call: title for exchange in recorded for call, title in exchange.calls.items()}
    replayed_calls = {call: title for exchange in replayed for call, title in exchange.calls.items()}
    unknown_answers = [
        "".join(answer)
        for exchange in replayed
        for answer, text in zip(exchange.answers, exchange.squeezed_answers, strict=True)
        if text and not _is_known(text, recorded, recorded_text)
    ]
    if len(replayed_calls) >= len(calls):
        recorded_answers = _shorten(" ".join("".join(answer) for exchange in recorded for answer in exchange.answers))
        for answer in unknown_answers:
            yield Difference("answer", recorded=recorded_answers, replayed=_shorten(answer), run_id=run_id)
    elif (
        not unknown_answers and not replayed_calls and all_replayed_calls and not all_replayed_calls.intersection(calls)
    ):
        # Unknown text would be the calls, replayed as text.
        yield Difference("tool_calls", recorded=_shorten(", ".join(calls.values())), run_id=run_id)
    if replayed_calls and not calls and not recorded_text.calls.intersection(replayed_calls):
        yield Difference("tool_calls", replayed=_shorten(", ".join(replayed_calls.values())), run_id=run_id)


def _is_known(text: str, recorded: Sequence[_Exchange], recorded_text: _RecordedText) -> bool:
    if any(text in exchange.squeezed_text for exchange in recorded):
        return True
    remaining = text
    for answer in (answer for exchange in recorded for answer in exchange.squeezed_answers if answer):
        remaining = remaining.replace(answer, "", 1)  # replayed as one message, without what was between them
    return not remaining or text in recorded_text.text


def _shorten(text: str) -> str:
    text = " ".join(text[: _MAX_SHOWN_CHARACTERS * 4].split())
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[: _MAX_SHOWN_CHARACTERS - 1]}…"
