"""A recorded session, told as an agent tells what happened before: for a client that loads it.

Pure, and only for sessions whose recording has no `session/load` of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dragoman.agents.replay.script import OPENINGS, PROMPT, Step, Track
from dragoman.wire.messages import DECODE_ERRORS


class _Prompt(msgspec.Struct, frozen=True):
    prompt: tuple[msgspec.Raw, ...] = ()


class _Asked(msgspec.Struct, frozen=True):
    params: _Prompt = _Prompt()


class _Answer(msgspec.Struct, frozen=True):
    result: dict[str, msgspec.Raw]


def history(track: Track) -> Iterator[bytes]:
    """All updates of the turns, as recorded, each turn with the words of the user first."""
    for stretch in track.stretches:
        if stretch.lead.method != PROMPT:
            continue
        for step in stretch.steps:
            if step.method == PROMPT and step.kind == "request":
                yield from _words(track.session_ids[0], step)
            elif step.method == "session/update":
                yield step.frame


def settings(track: Track) -> Mapping[str, msgspec.Raw]:
    """What the agent said of the session when it was opened: modes, options; the id is the client's already."""
    for stretch in track.stretches:
        if stretch.lead.method in OPENINGS:
            for step in stretch.steps:
                if step.kind == "answer" and step.id == stretch.lead.id and step.by == "agent":
                    try:
                        result = msgspec.json.decode(step.frame, type=_Answer).result
                    except DECODE_ERRORS:
                        continue  # it was refused then
                    return {name: value for name, value in result.items() if name != "sessionId"}
    return {}


def _words(session_id: str, step: Step) -> Iterator[bytes]:
    try:
        blocks = msgspec.json.decode(step.frame, type=_Asked).params.prompt
    except DECODE_ERRORS:
        return
    for block in blocks:
        update = {"sessionUpdate": "user_message_chunk", "content": block}
        params = {"sessionId": session_id, "update": update}
        yield msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params})
