"""`@path` in a prompt: the file goes along with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dragoman.session.capabilities import Capabilities
from dragoman.session.prompt import FileAttachment, LinkAttachment, Part

# What is sent whole: most source files. A larger one is named, and the agent reads of it what it needs.
MOST = 256 * 1024

# An @ inside a word is none: that is how addresses are written.
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
# What may follow a path in a sentence, and is no part of it where the path exists without it.
_PUNCTUATION = ".,;:!?)]}'\""


class Mention(msgspec.Struct, frozen=True):
    name: str  # as it was typed
    path: Path


def mentions(text: str, cwd: Path) -> tuple[Mention, ...]:
    """The files and folders that a prompt names, each once. What names nothing is just a word."""
    return tuple({mention.path: mention for mention in _found(text, cwd)}.values())


def prompt_parts(text: str, found: tuple[Mention, ...], capabilities: Capabilities) -> tuple[Part, ...]:
    """The prompt as it was typed, and behind it what it names: whole, or as a link."""
    return (text, *(_part(mention, capabilities) for mention in found))


def _found(text: str, cwd: Path) -> Iterator[Mention]:
    for match in _MENTION.finditer(text):
        name = match[1] or match[2]
        for candidate in (name, name.rstrip(_PUNCTUATION)):
            if candidate and (path := _existing(candidate, cwd)) is not None:
                yield Mention(candidate, path)
                break


def _existing(name: str, cwd: Path) -> Path | None:
    try:
        path = cwd / Path(name).expanduser()
        return path.resolve() if path.is_file() or path.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long, no such user, a NUL
        return None


def _part(mention: Mention, capabilities: Capabilities) -> Part:
    if capabilities.embedded_context and _is_short_text(mention.path):
        return FileAttachment(mention.path)
    return LinkAttachment(mention.path.as_uri(), mention.name)


def _is_short_text(path: Path) -> bool:
    try:
        if not path.is_file() or path.stat().st_size > MOST:
            return False
        path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return True
