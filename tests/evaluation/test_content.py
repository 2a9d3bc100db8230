"""Results of tools as content for the agent."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dragoman import ImageAttachment
from dragoman.evaluation.content import Content, Picture, Text, Unfit, content_of
from dragoman.evaluation.types import shape_of

PNG = b"\x89PNG\r\n\x1a\n and more"
WEBP = b"RIFF\0\0\0\0WEBP and more"


@dataclass
class Point:
    x: int


class Drawing:
    """An image with the interface of Pillow."""

    mode = "RGB"

    def save(self, file: io.BytesIO, format: str) -> None:
        file.write(PNG + format.encode())


def shown(result: Any) -> tuple[Any, ...]:
    return content_of(result, None).blocks


def test_a_text_is_shown_as_it_is_and_other_values_as_json() -> None:
    assert shown("as it is") == (Text("as it is"),)
    assert shown(None) == (Text("done"),)
    assert shown([1, "a"]) == (Text('[1,"a"]'),)
    assert shown(Point(1)) == (Text('{"x":1}'),)
    assert content_of({"a": 1}, None).structured == {"a": 1}
    assert content_of([1], None).structured is None


@pytest.mark.parametrize(
    ("given", "data", "kind"),
    [
        (PNG, PNG, "image/png"),
        (WEBP, WEBP, "image/webp"),
        (ImageAttachment(PNG), PNG, "image/png"),
        (ImageAttachment(b"?", "image/x"), b"?", "image/x"),
        (Drawing(), PNG + b"PNG", "image/png"),
    ],
)
def test_a_value_that_is_an_image_is_sent_as_an_image(given: Any, data: bytes, kind: str) -> None:
    assert shown(given) == (Picture(base64.b64encode(data).decode(), kind),)
    assert content_of(given, None).value == {"image": kind}


def test_an_image_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "drawing.svg").write_text("<svg/>")
    [picture] = shown(ImageAttachment(tmp_path / "drawing.svg"))
    assert picture == Picture(base64.b64encode(b"<svg/>").decode(), "image/svg+xml")


def test_images_and_texts_may_be_mixed() -> None:
    assert [type(block) for block in shown(["a", PNG, 5])] == [Text, Picture, Text]


def test_bytes_that_are_no_image_are_shown_in_base64() -> None:
    assert shown(b"abc") == (Text("YWJj"),)


def test_an_image_of_an_unknown_kind_is_no_guess() -> None:
    with pytest.raises(Unfit, match="mime_type"):
        shown(ImageAttachment(b"?"))


def test_a_result_that_breaks_its_promise_is_an_error_that_says_where() -> None:
    with pytest.raises(Unfit, match=r"not a Point: x: expected integer, got \"one\""):
        content_of({"x": "one"}, shape_of(Point))


def test_the_limit_counts_what_the_agent_gets() -> None:
    assert content_of("ä" * 5, None, 10).text == "ä" * 5
    with pytest.raises(Unfit, match="11 bytes"):
        content_of("ä" * 5 + "b", None, 10)
    with pytest.raises(Unfit, match="bytes"):
        content_of(PNG, None, len(PNG))


def test_text_has_all_messages_of_the_agent() -> None:
    assert Content(blocks=(Text("a"), Picture("", ""), Text("b"))).text == "a\nb"
