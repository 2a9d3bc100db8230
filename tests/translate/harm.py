"""Damage to a transcript, and checks that hold for the frames of any transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from dragoman.translate.translator import Frame, Translator
from dragoman.wire.framing import LineFramer
from translate.claude_talk import folds

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1e9, 1e9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def fed(translator: Translator, pieces: Sequence[bytes]) -> list[Frame]:
    """Feed a translator with a file that grows piece by piece: only whole lines count."""
    framer = LineFramer()
    frames: list[Frame] = []
    position = 0
    for piece in pieces:
        for line in framer.feed(piece):
            assert isinstance(line, bytes)
            frames.extend(translator.feed(line, position))
            position += len(line) + 1
    return frames


def with_other_values(data: st.DataObject, lines: Sequence[bytes]) -> list[bytes]:
    """A few of the values in them are any others."""
    changed = list(lines)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed) - 1))
        record = msgspec.json.decode(changed[place])
        _replace_something(data, record)
        changed[place] = msgspec.json.encode(record)
    return changed


def _replace_something(data: st.DataObject, value: Any) -> None:
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        inner = value[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            value = inner
            continue
        value[key] = data.draw(VALUES)
        return


def check_frames(frames: Sequence[Frame]) -> None:
    """Check that each frame can be decoded, that no run is left open, and that no id is used twice."""
    for fold in folds(frames).values():
        assert all(run.status != "running" for run in fold.runs.values())
    prompts = [frame.line for frame in frames if frame.kind == "session/prompt" and frame.direction == "out"]
    ids = [msgspec.json.decode(line)["id"] for line in prompts]
    assert len(ids) == len(set(ids))
