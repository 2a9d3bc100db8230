"""The texts of a Codex thread: prompts, messages, thoughts, and messages between agents, each reported once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from dragoman.translate import frames
from dragoman.translate.codex import prompts, records
from dragoman.translate.codex.records import RecordRef
from dragoman.translate.codex.session_state import Runs
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


class EchoFilter:
    """Matches the two records of one text, an event and an item, in either order and without a common id.

    Items are reported as they come; events only if their item never comes.
    """

    def __init__(self) -> None:
        self._events: list[tuple[RecordRef, str]] = []  # that wait for their item
        self._items: list[set[str]] = []  # whose event has not come, in the spellings it may have
        self._late: set[str] = set()  # events that were told when the turn was over; their items may follow

    def item(self, *spellings: str) -> bool:
        """Return True if the item is new. An event may have all of its text (the first spelling), the text without
        hidden parts, or only a part of it."""
        expected = {text.strip() for text in spellings if text.strip()}
        count_before = len(self._events)
        for text in expected:
            index = next((at for at, (_, event) in enumerate(self._events) if event.strip() == text), None)
            if index is not None:
                del self._events[index]
        if len(self._events) < count_before:
            return True
        if spellings[0].strip() in self._late:
            return False
        self._items.append(expected)
        return True

    def event(self, ref: RecordRef, text: str) -> None:
        self._late.clear()
        echo = next((item for item in self._items if text.strip() in item), None)
        if echo is not None:
            self._items.remove(echo)
        elif text.strip():
            self._events.append((ref, text))

    def take_unmatched(self) -> Sequence[tuple[RecordRef, str]]:
        """End the turn; returns the events whose items did not come."""
        take_unmatched, self._events, self._items = self._events, [], []
        self._late = {text.strip() for _, text in take_unmatched}
        return take_unmatched


# What a model writes for the program, and the program does not show: which memories it used.
_HIDDEN: Final = re.compile(r"<oai-mem-citation>.*?(?:</oai-mem-citation>|\Z)", re.DOTALL)
# The id of what each review ends with, in versions that tell this message by one record with an id.
_REVIEW_MESSAGE_ID: Final = "review_rollout_assistant"
# What else is told of a talk with voices: when it was, and where its words are shown.
_VOICE_KINDS: Final = frozenset({"realtime_session_started", "realtime_session_closed", "bem_item_promoted"})
# What events and items put differently in one prompt: where its pictures were, and the space around that.
_PROMPT_NOISE: Final = re.compile(r"\[Image #\d+\]|\s")
# A plan within a message. An item of its own tells it too, and events leave it out.
_PLAN: Final = re.compile(
    r"^[ \t]*<proposed_plan>[ \t]*\n(.*?)(?:^[ \t]*</proposed_plan>[ \t]*$\n?|\Z)", re.DOTALL | re.MULTILINE
)


class Messages:
    """The messages of one thread; frames go to `out`."""

    def __init__(self, session_id: str, runs: Runs, out: list[Frame], scratch: Scratch) -> None:
        self._session_id = session_id
        self._runs = runs
        self._out = out
        self.spoken = EchoFilter()
        self.thought = EchoFilter()
        self.reviewing: str | None = None  # the last prompt of a review, where there is one
        self._last_thought = ""  # that an event told
        self.history = False  # what is told now is of a time before this thread
        self._seen_ids = SpillingSet(scratch)  # of messages and thoughts
        self._has_prompt_events = False  # by events, as nearly all files do
        self._possible_prompt: tuple[RecordRef, tuple[ContentBlock, ...]] | None = None  # what may be a prompt
        self._assumed_prompt: tuple[ContentBlock, ...] | None = None  # what was taken for one

    # -- the model's

    def message(self, ref: RecordRef, message_id: str | None, parts: Sequence[str], phase: str | None) -> None:
        text = whole = _HIDDEN.sub("", "".join(parts))
        around = ""
        if "<proposed_plan>" in whole:
            text, around = _PLAN.sub(r"\1", whole), _PLAN.sub("", whole)
        message_id = None if message_id == _REVIEW_MESSAGE_ID else message_id
        if not text or not self._is_new(message_id):
            return
        self.progress(ref, words=True)
        if self.spoken.item(whole, around, *parts):
            self._emit_message(ref, message_id, text, phase)

    def reasoning(
        self, ref: RecordRef, message_id: str | None, summary: Sequence[str], thoughts: Sequence[str]
    ) -> None:
        """The parts of a summary, or of the thought itself. Most have none to read: they are encrypted."""
        if not (summary or thoughts) or not self._is_new(message_id):
            return
        self.progress(ref, words=False)
        if summary:
            for thought in thoughts:
                self.thought.item(thought)  # events tell it beside its summary
        for index, thought in enumerate(summary or thoughts):
            if self.thought.item(thought):
                self._emit_thought(ref, message_id, thought if index == 0 else f"\n\n{thought}")

    def thought_event(self, ref: RecordRef, text: str) -> None:
        """Within a review, the thread repeats what the reviewer thought."""
        if self.reviewing is None or text != self._last_thought:
            self.thought.event(ref, text)
        self._last_thought = text

    def progress(self, ref: RecordRef, *, words: bool) -> None:
        """The model did something."""
        self.flush_assumed_prompt()
        self._runs.progress(ref, words=words)

    def end_review(self) -> None:
        """Report the thoughts of a review before its result. In most versions only events have them."""
        self.reviewing = None
        self._flush_thoughts()

    def end_turn(self) -> None:
        """Report the messages that came as events only."""
        self._flush_thoughts()
        for ref, text in self.spoken.take_unmatched():
            self._emit_message(ref, None, text)

    def _flush_thoughts(self) -> None:
        for ref, text in self.thought.take_unmatched():
            self._emit_thought(ref, None, text)

    def _emit_message(self, ref: RecordRef, message_id: str | None, text: str, phase: str | None = None) -> None:
        message_id = message_id or f"{self._session_id}:{ref.position}"
        content = TextContent(text=text)
        self._emit(ref, AgentMessageChunk(content=content, message_id=message_id, meta=ref.meta(phase=phase)))

    def _emit_thought(self, ref: RecordRef, message_id: str | None, text: str) -> None:
        message_id = message_id or f"{self._session_id}:{ref.position}"
        self._emit(ref, AgentThoughtChunk(content=TextContent(text=text), message_id=message_id, meta=ref.meta()))

    def _is_new(self, message_id: str | None) -> bool:
        """Newer files tell a message by two records with one id. Some models give none, or an empty one."""
        return not message_id or self._seen_ids.add(message_id)

    # -- the user's

    def prompt(self, ref: RecordRef, blocks: Sequence[ContentBlock]) -> None:
        """Add a prompt of an event, which holds nothing else."""
        self._has_prompt_events = True
        self._possible_prompt = None
        assumed_prompt, self._assumed_prompt = self._assumed_prompt, None
        if assumed_prompt is None or _comparable_text(assumed_prompt) != _comparable_text(blocks):
            self._before_prompt()
            self._prompt(ref, blocks)

    def flat_user_item(self, ref: RecordRef, item: records.Payload) -> None:
        """Add an item in the user's role, in a file without prompt events."""
        if blocks := prompts.user_item_content(item, ()):
            self._before_prompt()
            self._prompt(ref, blocks)

    def user_item(self, ref: RecordRef, item: records.Payload) -> None:
        """Add an item in the user's role. An event may report it as a prompt in a moment."""
        kinds = prompts.item_kinds(item)
        if self._has_prompt_events and not kinds:
            return
        if blocks := prompts.user_item_content(item, kinds):
            if self._possible_prompt is None:
                self._before_prompt()
                self._assumed_prompt = None
            self._possible_prompt = (ref, (*(self._possible_prompt[1] if self._possible_prompt else ()), *blocks))

    def flush_assumed_prompt(self) -> None:
        """Report a text in the user's role as a prompt if no event did: this file has no such events, or not for it."""
        if self._possible_prompt is not None:
            (ref, self._assumed_prompt), self._possible_prompt = self._possible_prompt, None
            self._prompt(ref, self._assumed_prompt)

    def _before_prompt(self) -> None:
        """Close what came before: events from here on belong to the answer."""
        if not self._runs.in_turn:
            self.end_turn()

    def _prompt(self, ref: RecordRef, blocks: Sequence[ContentBlock]) -> None:
        words: list[ContentBlock] = []
        context: str | None = None
        for block in blocks:
            if isinstance(block, TextContent):
                text, around = prompts.split_user_text(block.text)
                context = around or context
                if text:
                    words.append(TextContent(text=text))
            else:
                words.append(block)
        if self.reviewing is not None:
            # A review's prompt is told by the thread and by the reviewer.
            echo = "".join(block.text for block in words if isinstance(block, TextContent))
            if echo == self.reviewing:
                return
            self.reviewing = echo
        if words:
            self._runs.prompt(ref, words, ref.meta(context=context), history=self.history)

    def voice_item(self, ref: RecordRef, item: records.Payload) -> bool:
        """Add an item of a voice conversation; returns False for an unknown kind."""
        if item.type == "transcript_segment":
            if item.text and self._is_new(item.id):
                content, message_id = TextContent(text=item.text), item.id or f"{self._session_id}:{ref.position}"
                chunk = AgentMessageChunk if item.role == "assistant" else UserMessageChunk
                self._emit(ref, chunk(content=content, message_id=message_id, meta=ref.meta()))
            return True
        return item.type in _VOICE_KINDS

    # -- other agents'

    def agent_message(self, ref: RecordRef, item: records.Payload) -> None:
        """Add a message of another agent. It is a prompt if nothing else started the run."""
        text = "\n".join(filter(None, map(_message_text, records.parts(item.content))))
        if not text or not self._is_new(item.id):
            return
        if self._runs.in_turn and not self._runs.is_running:
            meta = ref.meta(author=item.author)
            self._runs.prompt(ref, (TextContent(text=text),), meta, history=self.history)
        else:
            title = f"Message from {item.author or 'an agent'} to {item.recipient or 'an agent'}"
            self._emit(ref, Notice(severity="info", title=title, description=text, meta=ref.meta()))

    def _emit(self, ref: RecordRef, update: SessionUpdate) -> None:
        self._out.append(frames.update(self._session_id, ref.at, update))


def _comparable_text(blocks: Iterable[ContentBlock]) -> str:
    """The words of a prompt, by which an event and an item of it are known to be of one."""
    return _PROMPT_NOISE.sub("", "".join(block.text for block in blocks if isinstance(block, TextContent)))


def _message_text(part: records.Part) -> str:
    """Some letters have plain words where encrypted ones could be."""
    return part.text or ("" if records.is_encrypted(part.encrypted_content) else part.encrypted_content)
