"""Prompts and attachments as the blocks that the agent takes."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.session.capabilities import Capabilities
from dragoman.session.prompt import (
    AudioAttachment,
    FileAttachment,
    ImageAttachment,
    Input,
    LinkAttachment,
    TextAttachment,
    assemble,
)
from dragoman.testing.memory import session_of
from dragoman.testing.scripted import ScriptedAgent

PLAIN = Capabilities(protocol_version=1)
RICH = Capabilities(protocol_version=1, image=True, audio=True, embedded_context=True)
PNG = b"\x89PNG\r\n"


def blocks(given: Input, capabilities: Capabilities = RICH) -> Any:
    """Return the content blocks of a prompt as they are on the wire."""
    return msgspec.json.decode(msgspec.json.encode(assemble(given, capabilities)))


def test_text_stays_text_and_the_order_is_preserved(tmp_path: Path) -> None:
    assert blocks(["one", LinkAttachment("https://example.org/a/page.html"), "two"], PLAIN) == [
        {"type": "text", "text": "one"},
        {"type": "resource_link", "uri": "https://example.org/a/page.html", "name": "page.html"},
        {"type": "text", "text": "two"},
    ]


def test_an_image_is_a_file_or_bytes_with_their_type(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(PNG)
    data = base64.b64encode(PNG).decode()
    assert blocks(ImageAttachment(tmp_path / "x.png")) == [{"type": "image", "data": data, "mimeType": "image/png"}]
    assert blocks(ImageAttachment(PNG, "image/webp")) == [{"type": "image", "data": data, "mimeType": "image/webp"}]
    assert blocks(ImageAttachment(str(tmp_path / "x.png"), "image/x-own"))[0]["mimeType"] == "image/x-own"


def test_audio_is_a_file_or_bytes_with_their_type(tmp_path: Path) -> None:
    (tmp_path / "x.mp3").write_bytes(b"sound")
    assert blocks(AudioAttachment(tmp_path / "x.mp3"))[0] == {
        "type": "audio",
        "data": base64.b64encode(b"sound").decode(),
        "mimeType": "audio/mpeg",
    }


def test_a_file_is_an_embedded_resource_where_the_agent_takes_one(tmp_path: Path) -> None:
    path = tmp_path / "a b.py"
    path.write_text("print('é')\n")
    [block] = blocks(FileAttachment(path))
    assert block["type"] == "resource"
    assert block["resource"]["uri"] == path.as_uri()
    assert "%20" in block["resource"]["uri"]
    assert block["resource"]["text"] == "print('é')\n"
    assert block["resource"]["mimeType"] == "text/x-python"


def test_a_file_is_text_in_a_fence_that_it_cannot_close_where_the_agent_takes_none(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text("````sh\nls\n````")
    assert blocks(FileAttachment(path), PLAIN) == [
        {"type": "text", "text": f"{path}:\n`````\n````sh\nls\n````\n`````"},
    ]
    assert blocks(TextAttachment("stdin", "no ticks"), PLAIN)[0]["text"] == "stdin:\n```\nno ticks\n```"


def test_an_attachment_is_a_resource_under_its_name() -> None:
    [block] = blocks(TextAttachment("notes", "text", "text/markdown"))
    assert block["resource"] == {"uri": "attachment:notes", "text": "text", "mimeType": "text/markdown"}


def test_a_link_is_named_by_the_end_of_its_address_or_by_the_caller() -> None:
    assert blocks(LinkAttachment("file:///a/b/"))[0]["name"] == "b"
    assert blocks(LinkAttachment("x:", "mine"))[0]["name"] == "mine"


@pytest.mark.parametrize("empty", ["", "  \n", [], ["", " "], ()])
def test_an_empty_prompt_is_refused(empty: Any) -> None:
    with pytest.raises(InputError, match="empty"):
        assemble(empty, RICH)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (FileAttachment("/no/such/file"), "cannot read /no/such/file"),
        (ImageAttachment(PNG), "mime_type"),
        (ImageAttachment("/no/such/x.png"), "cannot read"),
        (ImageAttachment("notes.txt"), "notes.txt is not an image"),
        (AudioAttachment("x.png"), "x.png is not audio"),
        (7, "a prompt is made of"),
        ([None], "a prompt is made of"),
    ],
)
def test_a_value_that_cannot_be_part_of_a_prompt_is_named(part: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        assemble(part if isinstance(part, list) else [part], RICH)


def test_a_file_that_is_no_text_is_refused_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"ab\xff")
    with pytest.raises(InputError, match=r"not UTF-8 text .* at byte 2"):
        assemble(FileAttachment(path), RICH)


async def test_a_refused_attachment_is_not_sent() -> None:
    agent = ScriptedAgent()
    async with session_of(agent) as session:
        with pytest.raises(InputError):
            session.run(["go", FileAttachment("/no/such/file")])
        assert not agent.all_heard("session/prompt")
        assert not session.fold.messages
        assert (await session.run("go")).status == "success"


async def test_a_system_prompt_goes_with_the_first_prompt_where_the_agent_takes_none() -> None:
    agent = ScriptedAgent()
    async with session_of(agent, system_prompt="Be brief.") as session:
        await session.run("one")
        await session.run("two")
        sent = [[block["text"] for block in request.params["prompt"]] for request in agent.all_heard("session/prompt")]
        assert sent == [["Be brief.", "one"], ["two"]]
        assert [message.text for message in session.fold.messages if message.kind == "user"] == ["one", "two"]


async def test_a_system_prompt_goes_with_the_session_where_the_agent_takes_one() -> None:
    agent = ScriptedAgent(capabilities={"sessionCapabilities": {"systemPrompt": {}}})
    async with session_of(agent, system_prompt="Be brief.") as session:
        await session.run("one")
        [new] = agent.all_heard("session/new")
        assert new.params["systemPrompt"] == {"mode": "append", "content": [{"type": "text", "text": "Be brief."}]}
        [prompt] = agent.all_heard("session/prompt")
        assert [block["text"] for block in prompt.params["prompt"]] == ["one"]


def test_a_path_that_is_no_regular_file_is_never_opened(tmp_path: Path) -> None:
    # Opening a pipe waits for its writer, and /dev/zero has no end.
    os.mkfifo(pipe := tmp_path / "pipe.png")
    for part in (FileAttachment(pipe), FileAttachment("/dev/zero"), ImageAttachment(pipe)):
        with pytest.raises(InputError, match="is no regular file"):
            assemble(part, RICH)
