"""Prompts: the user's own words and images, without what Codex and editors put around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dragoman.translate.codex import records
from dragoman.translate.codex.records import local
from dragoman.wire.vocabulary import AudioContent, ContentBlock, ImageContent, ResourceLink, TextContent

# What stands in the user's place in the model's history, and was not said by the user.
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
# The same, as events of old versions call it.
INJECTED_KINDS: Final = frozenset({"environment_context", "user_instructions"})
# Editors put what is open in them before the words, and say where these begin.
_WRAPPED: Final = ("# Context from my IDE setup:", "# Files mentioned by the user:")
_REQUEST: Final = re.compile(r"^## My request(?: for Codex)?:[ \t]*\n?", re.MULTILINE)
_FOLDER: Final = re.compile(r"<cwd>([^<]*)</cwd>|^Current working directory: (.+)$", re.DOTALL | re.MULTILINE)
# What stands before and after a picture for the model's sake.
_LABEL: Final = re.compile(r"</?image\b[^>]*>\s*")
# The user's answers to questions that the model had asked in passing.
_REPLY: Final = "<send_user_message_question_reply>"
_DATA: Final = re.compile(r"data:([^;,]*)[^,]*;base64,", re.IGNORECASE)


def is_injected(text: str) -> bool:
    return text.lstrip().lower().startswith(_INJECTED)


class _Kinds(msgspec.Struct, frozen=True, gc=False):
    """Since about 0.148: `user.text`, `agents_md.instructions`, `unknown`."""

    content_item_kinds: tuple[str, ...] = ()


class _Reply(msgspec.Struct, frozen=True, gc=False):
    answer: str = ""
    question: str = ""


def item_kinds(item: records.Payload) -> Sequence[str]:
    """The kinds of the parts of an item in the user's role, in files that have them."""
    body = records.read(item.passthrough, _Kinds, _Kinds()).content_item_kinds
    return () if set(body) <= {"unknown"} else body


def user_item_content(item: records.Payload, kinds: Sequence[str]) -> tuple[ContentBlock, ...]:
    """The user's own content of an item; a guess if the file has no kinds."""
    pieces = records.parts(item.content)
    if kinds:
        pieces = [piece for piece, kind in zip(pieces, kinds, strict=False) if _is_users(kind)]
    text = "".join(piece.text for piece in pieces)
    if is_injected(text) and not (kinds and text.startswith(_REPLY)):
        return ()
    return of_parts(piece for piece in pieces if not _LABEL.fullmatch(piece.text))


def _is_users(kind: str) -> bool:
    """Return True for the user's own text; reminders of a goal are not."""
    return kind.startswith("user.") and kind != "user.goal"


def split_user_text(text: str) -> tuple[str, str | None]:
    """The user's words, and what an editor put before them, or the questions that they answer."""
    around: str | None = None
    if text.startswith(_WRAPPED) and (match := _REQUEST.search(text)):
        text, around = text[match.end() :].strip("\n"), text[: match.start()].rstrip()
    if text.startswith(_REPLY):
        body = text.removeprefix(_REPLY).strip().removesuffix(_REPLY.replace("<", "</"))
        if replies := records.read(body.encode("utf-8", "replace"), list[_Reply], []):
            return "\n".join(reply.answer for reply in replies), "\n".join(reply.question for reply in replies)
    return text, around


def agent_message_in(text: str) -> records.Payload | None:
    """The message of one agent to another that is stored as JSON in the model's role, if the text is one."""
    if not text.startswith('{"author":'):
        return None
    letter = records.read(text.encode("utf-8", "replace"), records.Payload, None)
    return letter if letter is not None and letter.recipient else None


def folder_in(text: str) -> str | None:
    """The working folder that an `<environment_context>` tells; old files tell it nowhere else."""
    match = _FOLDER.search(text)
    return (match[1] or match[2]).strip() if match else None


def of_message(text: str, images: msgspec.Raw, local_images: msgspec.Raw) -> tuple[ContentBlock, ...]:
    """A prompt of words and lists of images."""
    blocks: list[ContentBlock] = [TextContent(text=text)] if text else []
    blocks += [image(address) for address in records.texts(images)]
    blocks += [_file(path) for path in records.texts(local_images)]
    return tuple(blocks)


def of_parts(parts: Iterable[records.Part]) -> tuple[ContentBlock, ...]:
    """A prompt of pieces, in their order."""
    blocks: list[ContentBlock] = []
    for part in parts:
        if address := part.image_url or part.image_address:
            blocks.append(image(address))
        elif part.text:
            blocks.append(TextContent(text=part.text))
        elif address := part.audio_url or part.audio_address:
            blocks.append(_audio(address))
        elif part.path:
            blocks.append(_file(part.path, part.name))
    return tuple(blocks)


def image(address: str) -> ContentBlock:
    """An image by its address, which has the data in it or tells where to find it."""
    match = _DATA.match(address)
    if match is not None:
        return ImageContent(data=address[match.end() :], mime_type=match[1] or "image/png")
    return ResourceLink(name=address.rpartition("/")[2] or "image", uri=address)


def _audio(address: str) -> ContentBlock:
    match = _DATA.match(address)
    if match is not None:
        return AudioContent(data=address[match.end() :], mime_type=match[1] or "audio/wav")
    return ResourceLink(name=address.rpartition("/")[2] or "audio", uri=address)


def _file(path: str, name: str = "") -> ResourceLink:
    path = local(path)
    uri = f"file://{path}" if path.startswith("/") else path
    return ResourceLink(name=name or re.split(r"[/\\]", path)[-1], uri=uri)
