"""Real transcripts of Codex, against counts that another program made of them.

They are other people's words, and not part of the project: `DRAGOMAN_CORPUS` names the folder that has them. What is
counted differently here, and why, stands in codex_differences.toml.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest

from dragoman.translate.codex import records
from dragoman.translate.translator import Frame, get_provider
from translate.claude_talk import folds

FOLDER = Path(os.environ.get("DRAGOMAN_CORPUS") or "corpus")
DIFFERENCES = Path(__file__).with_name("codex_differences.toml")

FIELDS = (
    "user_prompts",
    "agent_messages",
    "thought_items_nonempty",
    "tool_calls",
    "tool_exit_nonzero",
    "plan_tool_calls",
    "apply_patch_calls",
    "patch_files",
    "web_search_calls",
    "compactions",
    "turn_aborted",
    "task_complete",
    "last_context_used",
    "context_window",
    "total_tokens",
    "malformed_lines",
    "title",
)


def _oracle() -> dict[str, dict[str, Any]]:
    path = FOLDER / "oracle.json"
    if not path.exists():
        return {}
    known: dict[str, dict[str, Any]] = msgspec.json.decode(path.read_bytes())
    return {name: counts for name, counts in known.items() if "agent_message_events" in counts}


ORACLE = _oracle()
pytestmark = pytest.mark.skipif(not ORACLE, reason="no transcripts: DRAGOMAN_CORPUS names the folder that has them")


def lines_of(name: str) -> Iterator[tuple[int, bytes]]:
    position = 0
    for line in (FOLDER / name).read_bytes().split(b"\n"):
        if line:
            yield position, line
        position += len(line) + 1


def translate(name: str) -> tuple[Sequence[Frame], Counter[str]]:
    translator = get_provider("codex").translator(PurePath(name))
    frames = [frame for position, line in lines_of(name) for frame in translator.feed(line, position)]
    return [*frames, *translator.finish()], translator.unknown


class Counts(Counter[str]):
    """Count in frames what the other program counted in records."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        super().__init__()
        self.named: str | None = None  # the last title
        self._messages: set[tuple[str, str]] = set()
        self._native: set[str] = set()  # ids of calls, also of those that are no tool calls here
        self._calls: dict[str, dict[str, Any]] = {}
        self._plans = 0
        for frame in frames:
            texts = msgspec.json.decode(frame.line)
            match frame.kind, frame.direction:
                case "session/prompt", "out":
                    self["user_prompts"] += bool(texts["params"]["prompt"])
                case "session/prompt", "in":
                    self._answered(texts)
                case kind, _ if kind.startswith(("session/", "_")):
                    pass
                case kind, _:
                    self._texts(kind, texts["params"]["update"])
        self._count()

    def _answered(self, texts: dict[str, Any]) -> None:
        ended = texts.get("result") or texts["error"]["data"]
        self["total_tokens"] += (ended.get("usage") or {}).get("totalTokens", 0)
        self["turn_aborted"] += ended.get("stopReason") == "cancelled"
        self["task_complete"] += ended.get("stopReason") == "end_turn" or "codexErrorInfo" in ended

    def _texts(self, kind: str, update: dict[str, Any]) -> None:
        match kind:
            case "user_message_chunk":
                self["user_prompts"] += 1
            case "agent_message_chunk" | "agent_thought_chunk":
                self._messages.add((kind, update["messageId"]))
            case "tool_call" | "tool_call_update":
                self._calls.setdefault(update["toolCallId"], {}).update(update)
                self._native |= {update["toolCallId"], update.get("_meta", {}).get("native", {}).get("callId")}
            case "plan":
                self._native.add(update["_meta"]["native"]["callId"])
                self._plans += 1
            case "compaction_update":
                self["compactions"] += 1
            case "usage_update":
                self["last_context_used"], self["context_window"] = update["used"], update["size"]
            case "session_info_update":
                self.named = update["title"]
            case _:
                pass

    def _count(self) -> None:
        self["agent_messages"] = sum(kind == "agent_message_chunk" for kind, _ in self._messages)
        self["thought_items_nonempty"] = sum(kind == "agent_thought_chunk" for kind, _ in self._messages)
        names = Counter(call.get("name") for call in self._calls.values())
        self["web_search_calls"] = names["web_search"]
        self["tool_calls"] = len(self._native - {None}) - names["web_search"]
        self["plan_tool_calls"] = self._plans + names["update_plan"]
        self["apply_patch_calls"] = names["apply_patch"]
        for call in self._calls.values():
            output = call.get("rawOutput")
            self["tool_exit_nonzero"] += isinstance(output, dict) and output.get("exit_code") not in (None, 0)
            if call["kind"] == "edit" and call["status"] == "completed":
                self["patch_files"] += len({item["path"] for item in call["content"] if item["type"] == "diff"})


def _explained(name: str) -> dict[str, int]:
    """The counts of a file that are known to be others than the oracle's."""
    known = tomllib.loads(DIFFERENCES.read_text())
    return {
        field: files[name]
        for fields in known.values()
        for field, files in fields.items()
        if field != "because" and name in files
    }


@pytest.mark.parametrize("name", sorted(ORACLE))
def test_a_real_transcript_has_the_counts_of_the_other_program(name: str) -> None:
    frames, unknown = translate(name)
    folds(frames)  # every frame reads as what it is meant to be
    counts = Counts(frames)
    oracle = ORACLE[name]
    # Names are counted there, and first prompts stand for them here; files without turns have no ends to count.
    skipped = {field for field in ("title", "task_complete", "patch_files") if not oracle.get(field)}
    mine = {**counts, "malformed_lines": unknown["unreadable"], "title": counts.named}
    right = {**oracle, **(explained := _explained(name))}
    found = {field for field in FIELDS if (mine.get(field) or 0) != (right.get(field) or 0)} - skipped
    found |= {field for field, count in explained.items() if count == (oracle.get(field) or 0)}
    wrong = {field: (mine.get(field), right.get(field)) for field in found}
    assert not wrong, f"{name}: what is here, and what it should be: {wrong}"


def test_the_corpus_has_no_unknown_kinds() -> None:
    unknown: Counter[str] = Counter()
    for name in ORACLE:
        unknown += translate(name)[1]
    assert not unknown


@pytest.mark.parametrize("name", sorted(ORACLE))
def test_no_run_of_a_real_transcript_is_left_open(name: str) -> None:
    for session_id, fold in folds(translate(name)[0]).items():
        running = [run.id for run in fold.runs.values() if run.status == "running"]
        assert not running, session_id


def _prompts(name: str) -> list[str]:
    translated = (records.decode(line).payload for _, line in lines_of(name))
    return [payload.message for payload in translated if payload is not None and payload.type == "user_message"]


@pytest.mark.parametrize("name", sorted(name for name, counts in ORACLE.items() if counts["forked_from"]))
def test_a_sub_agent_has_all_prompts_but_those_of_its_parent(name: str) -> None:
    [parent] = [other for other in ORACLE if ORACLE[name]["forked_from"] in other]
    parent_prompts = set(_prompts(parent))
    own = [prompt for prompt in _prompts(name) if prompt not in parent_prompts]
    (fold,) = folds(translate(name)[0]).values()
    assert [message.text for message in fold.messages if message.kind == "user"] == own


def test_each_real_transcript_gives_the_same_frames_when_it_is_read_again() -> None:
    for name in sorted(ORACLE)[::5]:
        assert translate(name)[0] == translate(name)[0]
