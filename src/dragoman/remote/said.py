"""What a program says, as it crosses to the server: words, and what goes with them. Files are read here."""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from dragoman.errors import InputError
from dragoman.hub.commands import Attachment, AudioAttachment, ImageAttachment, TextAttachment
from dragoman.session.capabilities import Capabilities
from dragoman.session.prompt import Attachment as NamedText
from dragoman.session.prompt import File, Input, assemble, parts_of
from dragoman.wire import vocabulary as acp

Said: TypeAlias = tuple[str, tuple[Attachment, ...]]


def said_of(given: Input, capabilities: Capabilities) -> Said:
    """The texts of a prompt, with a blank line between them, then the rest in its order."""
    words: list[str] = []
    attachments: list[Attachment] = []
    # The server puts texts into the agent's words, as the agent takes them.
    taken = replace(capabilities, embedded_context=True)
    for part, block in zip(parts_of(given), assemble(given, taken), strict=True):
        match block:
            case acp.TextContent(text=text):
                words.append(text)
            case acp.ImageContent(mime_type=mime_type, data=data):
                attachments.append(ImageAttachment(mime_type=mime_type, data=data))
            case acp.AudioContent(mime_type=mime_type, data=data):
                attachments.append(AudioAttachment(mime_type=mime_type, data=data))
            case acp.EmbeddedResource(resource=acp.TextResourceContents(text=text, uri=uri)):
                named = isinstance(part, NamedText | File)
                name = part.name if isinstance(part, NamedText) else str(part.path) if isinstance(part, File) else uri
                attachments.append(TextAttachment(name=name, text=text, uri=None if named else uri))
            case _:
                raise InputError(
                    f"a {type(part).__name__} cannot go to a session on a server",
                    guidance="Say it in words, or pass a File, an Attachment, an Image or Audio.",
                )
    return "\n\n".join(words), tuple(attachments)
