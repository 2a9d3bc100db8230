"""The texts of a Codex thread: prompts, messages, thoughts, and messages between agents, each reported once.

A prompt is the user's own text and attachments, without the context that Codex and editors add to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dragoman.translate.codex import records
from dragoman.translate.codex.records import RecordRef, content_blocks
from dragoman.translate.codex.session_state import Runs
from dragoman.translate.frames import SessionFrames
from dragoman.translate.scratch import Scratch, SpillingSet
from dragoman.wire.vocabulary import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ContentBlock,
    Notice,
    TextContent,
    UserMessageChunk,
)

# Beginnings of texts in the user's role that Codex put there.
_INJECTED: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<user_action>",
    "<skill>",
    "<recommended_plugins>",
    "<hook_prompt",
    "<codex_internal_context",
    "<send_user_message_question_reply>",
    "<permissions",
    "<user_shell_command>",
    "<goal_context>",
    "<external_",
    "<app-context>",
    "# agents.md",
)
# The kinds of such texts in events of old versions.
INJECTED_KINDS: Final = frozenset({"environment_context", "user_instructions"})
# Editors put a description of open files before the user's text, and mark where that begins.
_WRAPPED: Final = ("# Context from my IDE setup:", "# Files mentioned by the user:")
_REQUEST: Final = re.compile(r"^## My request(?: for Codex)?:[ \t]*\n?", re.MULTILINE)
_FOLDER: Final = re.compile(r"<cwd>([^<]*)</cwd>|^Current working directory: (.+)$", re.DOTALL | re.MULTILINE)
# Marks before and after an image, for the model.
_LABEL: Final = re.compile(r"</?image\b[^>]*>\s*")
# The user's answers to questions that the model asked during a run.
_REPLY: Final = "<send_user_message_question_reply>"


def is_injected(text: str) -> bool:
    return text.lstrip().lower().startswith(_INJECTED)


class _Kinds(msgspec.Struct, frozen=True, gc=False):
    """The kinds of content, since about 0.148: `user.text`, `agents_md.instructions`, `unknown`."""

    content_item_kinds: tuple[str, ...] = ()


class _Reply(msgspec.Struct, frozen=True, gc=False):
    answer: str = ""
    question: str = ""


def item_kinds(item: records.Payload) -> Sequence[str]:
    """Return the kinds of the parts of an item in the user's role; none in files without them."""
    kinds = records.read(item.passthrough, _Kinds, _Kinds()).content_item_kinds
    return () if set(kinds) <= {"unknown"} else kinds


def user_item_content(item: records.Payload, kinds: Sequence[str]) -> tuple[ContentBlock, ...]:
    """Return the user's own content of an item; a guess if the file has no kinds."""
    pieces = records.parts(item.content)
    if kinds:
        pieces = [piece for piece, kind in zip(pieces, kinds, strict=False) if _is_users(kind)]
    text = "".join(piece.text for piece in pieces)
    if is_injected(text) and not (kinds and text.startswith(_REPLY)):
        return ()
    return content_blocks(piece for piece in pieces if not _LABEL.fullmatch(piece.text))


def _is_users(kind: str) -> bool:
    """Return True for the user's own text; reminders of a goal are not."""
    return kind.startswith("user.") and kind != "user.goal"


def split_user_text(text: str) -> tuple[str, str | None]:
    """Split a text into the user's own and its context: what an editor put before it, or the questions it answers."""
    around: str | None = None
    if text.startswith(_WRAPPED) and (match := _REQUEST.search(text)):
        text, around = text[match.end() :].strip("\n"), text[: match.start()].rstrip()
    if text.startswith(_REPLY):
        body = text.removeprefix(_REPLY).strip().removesuffix(_REPLY.replace("<", "</"))
        if replies := records.read(body.encode("utf-8", "replace"), list[_Reply], []):
            return "\n".join(reply.answer for reply in replies), "\n".join(reply.question for reply in replies)
    return text, around


def agent_message_in(text: str) -> records.Payload | None:
    """Return the message of one agent to another, which is stored as JSON in the model's role; None for other text."""
    if not text.startswith('{"author":'):
        return None
    message = records.read(text.encode("utf-8", "replace"), records.Payload, None)
    return message if message is not None and message.recipient else None


def folder_in(text: str) -> str | None:
    """Return the working folder in an `<environment_context>`; old files have it nowhere else."""
    match = _FOLDER.search(text)
    return (match[1] or match[2]).strip() if match else None


class EchoFilter:
    """Matches the two records of one text, an event and an item, in either order and without a common id.

    Items are reported as they come; events only if their item never comes.
    """

    def __init__(self) -> None:
        self._events: list[tuple[RecordRef, str]] = []  # whose item has not come
        self._items: list[set[str]] = []  # whose event has not come: the spellings that it may have
        self._late: set[str] = set()  # texts that were reported at the end of the turn; their items may follow

    def item(self, *spellings: str) -> bool:
        """Return True if the item is new. Its event may have the whole text (the first spelling), the text without
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
        """End the turn; return the events whose items did not come."""
        unmatched, self._events, self._items = self._events, [], []
        self._late = {text.strip() for _, text in unmatched}
        return unmatched


# The phase of the last message of a turn; those before it are commentary.
_FINAL_ANSWER: Final = "final_answer"
# Names the memories that the model used; Codex does not show it.
_HIDDEN: Final = re.compile(r"<oai-mem-citation>.*?(?:</oai-mem-citation>|\Z)", re.DOTALL)
# The id of the last message of every review, in versions that give it an id.
_REVIEW_MESSAGE_ID: Final = "review_rollout_assistant"
# Records of a voice conversation without text.
_VOICE_KINDS: Final = frozenset({"realtime_session_started", "realtime_session_closed", "bem_item_promoted"})
# The difference between the event and the item of one prompt: marks of images, and white space.
_PROMPT_NOISE: Final = re.compile(r"\[Image #\d+\]|\s")
# A plan within a message. It also has an item of its own, and events leave it out.
_PLAN: Final = re.compile(
    r"^[ \t]*<proposed_plan>[ \t]*\n(.*?)(?:^[ \t]*</proposed_plan>[ \t]*$\n?|\Z)", re.DOTALL | re.MULTILINE
)


class Messages:
    """The messages of one thread."""

    def __init__(self, frames: SessionFrames, runs: Runs, scratch: Scratch) -> None:
        self._frames = frames
        self._runs = runs
        self.message_echoes = EchoFilter()
        self.thought_echoes = EchoFilter()
        self.reviewing: str | None = None  # the last prompt of the active review; None outside of one
        self._last_thought = ""  # of an event
        self.history = False  # the records are from before this thread
        self._seen_ids = SpillingSet(scratch)  # of messages and thoughts
        self._has_prompt_events = False  # as nearly all files have
        self._possible_prompt: tuple[RecordRef, tuple[ContentBlock, ...]] | None = None  # no event has confirmed it
        self._assumed_prompt: tuple[ContentBlock, ...] | None = None  # reported without an event

    # -- the model's

    def message(self, ref: RecordRef, message_id: str | None, parts: Sequence[str], phase: str | None) -> None:
        text = whole = _HIDDEN.sub("", "".join(parts))
        around = ""
        if "<proposed_plan>" in whole:
            text, around = _PLAN.sub(r"\1", whole), _PLAN.sub("", whole)
        message_id = None if message_id == _REVIEW_MESSAGE_ID else message_id
        if not text or not self._is_new(message_id):
            return
        self.progress(ref, is_text=True, is_final_answer=phase == _FINAL_ANSWER)
        if self.message_echoes.item(whole, around, *parts):
            self._emit_message(ref, message_id, text, phase)

    def reasoning(
        self, ref: RecordRef, message_id: str | None, summary: Sequence[str], thoughts: Sequence[str]
    ) -> None:
        """Add a thought: its summary, or its own text. Most are encrypted, and have neither."""
        if not (summary or thoughts) or not self._is_new(message_id):
            return
        self.progress(ref, is_text=False)
        if summary:
            for thought in thoughts:
                self.thought_echoes.item(thought)  # events have it as well as its summary
        for index, thought in enumerate(summary or thoughts):
            if self.thought_echoes.item(thought):
                self._emit_thought(ref, message_id, thought if index == 0 else f"\n\n{thought}")

    def thought_event(self, ref: RecordRef, text: str) -> None:
        """Add the thought of an event. Within a review, the thread repeats the thoughts of the reviewer."""
        if self.reviewing is None or text != self._last_thought:
            self.thought_echoes.event(ref, text)
        self._last_thought = text

    def progress(self, ref: RecordRef, *, is_text: bool, is_final_answer: bool = False) -> None:
        """Take note that the model produced something."""
        self.flush_assumed_prompt()
        self._runs.progress(ref, is_text=is_text, is_final_answer=is_final_answer)

    def end_review(self) -> None:
        """Report the thoughts of a review before its result. In most versions only events have them."""
        self.reviewing = None
        self._flush_thoughts()

    def end_turn(self) -> None:
        """Report the messages that came as events only."""
        self._flush_thoughts()
        for ref, text in self.message_echoes.take_unmatched():
            self._emit_message(ref, None, text)

    def _flush_thoughts(self) -> None:
        for ref, text in self.thought_echoes.take_unmatched():
            self._emit_thought(ref, None, text)

    def _emit_message(self, ref: RecordRef, message_id: str | None, text: str, phase: str | None = None) -> None:
        message_id = message_id or f"{self._frames.session_id}:{ref.offset}"
        content = TextContent(text=text)
        self._frames.update(
            ref.at, AgentMessageChunk(content=content, message_id=message_id, meta=ref.meta(phase=phase))
        )

    def _emit_thought(self, ref: RecordRef, message_id: str | None, text: str) -> None:
        message_id = message_id or f"{self._frames.session_id}:{ref.offset}"
        self._frames.update(
            ref.at, AgentThoughtChunk(content=TextContent(text=text), message_id=message_id, meta=ref.meta())
        )

    def _is_new(self, message_id: str | None) -> bool:
        """Return False for the second of two records of one message. Messages of some models have no id."""
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
        if blocks := user_item_content(item, ()):
            self._before_prompt()
            self._prompt(ref, blocks)

    def user_item(self, ref: RecordRef, item: records.Payload) -> None:
        """Add an item in the user's role. An event may report it as a prompt in a moment."""
        kinds = item_kinds(item)
        if self._has_prompt_events and not kinds:
            return
        if blocks := user_item_content(item, kinds):
            if self._possible_prompt is None:
                self._before_prompt()
                self._assumed_prompt = None
            self._possible_prompt = (ref, (*(self._possible_prompt[1] if self._possible_prompt else ()), *blocks))

    def flush_assumed_prompt(self) -> None:
        """Report a text in the user's role as a prompt if no event did: not every file has an event for it."""
        if self._possible_prompt is not None:
            (ref, self._assumed_prompt), self._possible_prompt = self._possible_prompt, None
            self._prompt(ref, self._assumed_prompt)

    def _before_prompt(self) -> None:
        """End the turn before a prompt: events from here on belong to the answer."""
        if not self._runs.in_turn:
            self.end_turn()

    def _prompt(self, ref: RecordRef, blocks: Sequence[ContentBlock]) -> None:
        content: list[ContentBlock] = []
        context: str | None = None
        for block in blocks:
            if isinstance(block, TextContent):
                text, around = split_user_text(block.text)
                context = around or context
                if text:
                    content.append(TextContent(text=text))
            else:
                content.append(block)
        if self.reviewing is not None:
            # Both the thread and the reviewer have the prompt of a review.
            echo = "".join(block.text for block in content if isinstance(block, TextContent))
            if echo == self.reviewing:
                return
            self.reviewing = echo
        if content:
            self._runs.prompt(ref, content, ref.meta(context=context), history=self.history)

    def voice_item(self, ref: RecordRef, item: records.Payload) -> bool:
        """Add an item of a voice conversation; return False for an unknown kind."""
        if item.type == "transcript_segment":
            if item.text and self._is_new(item.id):
                content, message_id = (
                    TextContent(text=item.text),
                    item.id or f"{self._frames.session_id}:{ref.offset}",
                )
                chunk = AgentMessageChunk if item.role == "assistant" else UserMessageChunk
                self._frames.update(ref.at, chunk(content=content, message_id=message_id, meta=ref.meta()))
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
            self._frames.update(ref.at, Notice(severity="info", title=title, description=text, meta=ref.meta()))


def _comparable_text(blocks: Iterable[ContentBlock]) -> str:
    """Return the text of a prompt, in the form in which its event and its item are compared."""
    return _PROMPT_NOISE.sub("", "".join(block.text for block in blocks if isinstance(block, TextContent)))


def _message_text(part: records.Part) -> str:
    """Return the text of a message between agents; some have plain text in `encrypted_content`."""
    return part.text or ("" if records.is_encrypted(part.encrypted_content) else part.encrypted_content)
