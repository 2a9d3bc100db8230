"""The words of a Codex thread: prompts, messages, thoughts, and what agents write to each other. Each is told once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from dragoman.translate import frames
from dragoman.translate.codex import prompts, records
from dragoman.translate.codex.echoes import Echoes
from dragoman.translate.codex.runs import Runs
from dragoman.translate.codex.where import Where
from dragoman.translate.scratch import Scratch, SpillingSet
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ContentBlock,
    Notice,
    SessionUpdate,
    TextContent,
    UserMessageChunk,
)

# What a model writes for the program, and the program does not show: which memories it used.
_HIDDEN: Final = re.compile(r"<oai-mem-citation>.*?(?:</oai-mem-citation>|\Z)", re.DOTALL)
# The id of what each review ends with, in versions that tell this message by one record with an id.
_OF_REVIEWS: Final = "review_rollout_assistant"
# What else is told of a talk with voices: when it was, and where its words are shown.
_OF_VOICES: Final = frozenset({"realtime_session_started", "realtime_session_closed", "bem_item_promoted"})
# What events and items put differently in one prompt: where its pictures were, and the space around that.
_BETWEEN: Final = re.compile(r"\[Image #\d+\]|\s")
# A plan within a message. An item of its own tells it too, and events leave it out.
_PLAN: Final = re.compile(
    r"^[ \t]*<proposed_plan>[ \t]*\n(.*?)(?:^[ \t]*</proposed_plan>[ \t]*$\n?|\Z)", re.DOTALL | re.MULTILINE
)


class Words:
    """What is to be told goes to `out`."""

    def __init__(self, session_id: str, runs: Runs, out: list[Frame], scratch: Scratch) -> None:
        self._session_id = session_id
        self._runs = runs
        self._out = out
        self.spoken = Echoes()
        self.thought = Echoes()
        self.reviewing: str | None = None  # the last prompt of a review, where there is one
        self._last_thought = ""  # that an event told
        self.history = False  # what is told now is of a time before this thread
        self._seen_ids = SpillingSet(scratch)  # of messages and thoughts
        self._tells_prompts = False  # by events, as nearly all files do
        self._unasked: tuple[Where, tuple[ContentBlock, ...]] | None = None  # what may be a prompt
        self._assumed: tuple[ContentBlock, ...] | None = None  # what was taken for one

    # -- the model's

    def message(self, where: Where, message_id: str | None, parts: Sequence[str], phase: str | None) -> None:
        text = whole = _HIDDEN.sub("", "".join(parts))
        around = ""
        if "<proposed_plan>" in whole:
            text, around = _PLAN.sub(r"\1", whole), _PLAN.sub("", whole)
        message_id = None if message_id == _OF_REVIEWS else message_id
        if not text or not self._is_new(message_id):
            return
        self.heard(where, words=True)
        if self.spoken.item(whole, around, *parts):
            self._say(where, message_id, text, phase)

    def reasoning(self, where: Where, message_id: str | None, summary: Sequence[str], thoughts: Sequence[str]) -> None:
        """The parts of a summary, or of the thought itself. Most have none to read: they are encrypted."""
        if not (summary or thoughts) or not self._is_new(message_id):
            return
        self.heard(where, words=False)
        if summary:
            for thought in thoughts:
                self.thought.item(thought)  # events tell it beside its summary
        for index, thought in enumerate(summary or thoughts):
            if self.thought.item(thought):
                self._think(where, message_id, thought if index == 0 else f"\n\n{thought}")

    def thought_event(self, where: Where, text: str) -> None:
        """Within a review, the thread repeats what the reviewer thought."""
        if self.reviewing is None or text != self._last_thought:
            self.thought.event(where, text)
        self._last_thought = text

    def heard(self, where: Where, *, words: bool) -> None:
        """The model brought something."""
        self.asked()
        self._runs.heard(where, words=words)

    def review_over(self) -> None:
        """What was thought in it is told before what came of it. Events alone tell that, in most versions."""
        self.reviewing = None
        self._thoughts_left()

    def turn_over(self) -> None:
        """What events alone told is told now; nobody else will."""
        self._thoughts_left()
        for where, text in self.spoken.left():
            self._say(where, None, text)

    def _thoughts_left(self) -> None:
        for where, text in self.thought.left():
            self._think(where, None, text)

    def _say(self, where: Where, message_id: str | None, text: str, phase: str | None = None) -> None:
        message_id = message_id or f"{self._session_id}:{where.position}"
        content = TextContent(text=text)
        self._tell(where, AgentMessageChunk(content=content, message_id=message_id, meta=where.meta(phase=phase)))

    def _think(self, where: Where, message_id: str | None, text: str) -> None:
        message_id = message_id or f"{self._session_id}:{where.position}"
        self._tell(where, AgentThoughtChunk(content=TextContent(text=text), message_id=message_id, meta=where.meta()))

    def _is_new(self, message_id: str | None) -> bool:
        """Newer files tell a message by two records with one id. Some models give none, or an empty one."""
        return not message_id or self._seen_ids.add(message_id)

    # -- the user's

    def prompt(self, where: Where, blocks: Sequence[ContentBlock]) -> None:
        """Told by an event, which has nothing but prompts."""
        self._tells_prompts = True
        self._unasked = None
        assumed, self._assumed = self._assumed, None
        if assumed is None or _bare(assumed) != _bare(blocks):
            self._before_prompt()
            self._prompt(where, blocks)

    def flat_user(self, where: Where, item: records.Payload) -> None:
        """The user's place in a file that tells nothing else of the user."""
        if blocks := prompts.in_users_place(item, ()):
            self._before_prompt()
            self._prompt(where, blocks)

    def in_users_place(self, where: Where, item: records.Payload) -> None:
        """Words that an event may tell as a prompt in a moment."""
        kinds = prompts.detect_provider(item)
        if self._tells_prompts and not kinds:
            return
        if blocks := prompts.in_users_place(item, kinds):
            if self._unasked is None:
                self._before_prompt()
                self._assumed = None
            self._unasked = (where, (*(self._unasked[1] if self._unasked else ()), *blocks))

    def asked(self) -> None:
        """Words in the user's place that no event told are a prompt: this file has no such events, or not for it."""
        if self._unasked is not None:
            (where, self._assumed), self._unasked = self._unasked, None
            self._prompt(where, self._assumed)

    def _before_prompt(self) -> None:
        """What events tell from now on is the answer."""
        if not self._runs.in_turn:
            self.turn_over()

    def _prompt(self, where: Where, blocks: Sequence[ContentBlock]) -> None:
        words: list[ContentBlock] = []
        context: str | None = None
        for block in blocks:
            if isinstance(block, TextContent):
                text, around = prompts.own_words(block.text)
                context = around or context
                if text:
                    words.append(TextContent(text=text))
            else:
                words.append(block)
        if self.reviewing is not None:
            # A review's prompt is told by the thread and by the reviewer.
            told = "".join(block.text for block in words if isinstance(block, TextContent))
            if told == self.reviewing:
                return
            self.reviewing = told
        if words:
            self._runs.prompted(where, words, where.meta(context=context), history=self.history)

    def aloud(self, where: Where, item: records.Payload) -> bool:
        """What was said with voices. Whether the kind is known; most are of no use but to the program."""
        if item.type == "transcript_segment":
            if item.text and self._is_new(item.id):
                content, message_id = TextContent(text=item.text), item.id or f"{self._session_id}:{where.position}"
                chunk = AgentMessageChunk if item.role == "assistant" else UserMessageChunk
                self._tell(where, chunk(content=content, message_id=message_id, meta=where.meta()))
            return True
        return item.type in _OF_VOICES

    # -- other agents'

    def letter(self, where: Where, item: records.Payload) -> None:
        """What one agent says to another: to this one it is a prompt where nobody else asked."""
        text = "\n".join(filter(None, map(_in_letter, records.parts(item.content))))
        if not text or not self._is_new(item.id):
            return
        if self._runs.in_turn and not self._runs.going_on:
            meta = where.meta(author=item.author)
            self._runs.prompted(where, (TextContent(text=text),), meta, history=self.history)
        else:
            title = f"Message from {item.author or 'an agent'} to {item.recipient or 'an agent'}"
            self._tell(where, Notice(severity="info", title=title, description=text, meta=where.meta()))

    def _tell(self, where: Where, update: SessionUpdate) -> None:
        self._out.append(frames.update(self._session_id, where.at, update))


def _bare(blocks: Iterable[ContentBlock]) -> str:
    """The words of a prompt, by which an event and an item of it are known to be of one."""
    return _BETWEEN.sub("", "".join(block.text for block in blocks if isinstance(block, TextContent)))


def _in_letter(part: records.Part) -> str:
    """Some letters have plain words where encrypted ones could be."""
    return part.text or ("" if records.is_encrypted(part.encrypted_content) else part.encrypted_content)
