"""Real transcripts of Claude Code, against counts that another program made of them.

They are other people's words, and not part of the project: `DRAGOMAN_CORPUS` names the folder that has them. What is
counted differently here, and why, stands in claude_differences.toml.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest

from dragoman.translate.claude.tools import AGENT_TOOLS, PLAN_TOOLS
from dragoman.translate.translator import Frame, get_provider
from translate.claude_talk import folds

FOLDER = Path(os.environ.get("DRAGOMAN_CORPUS") or "corpus")
DIFFERENCES = Path(__file__).with_name("claude_differences.toml")

FIELDS = (
    "user_prompts", "sidechain_prompts", "slash_commands", "queued_prompts", "user_images", "text_blocks", "text_chars",
    "thinking_nonempty", "tool_calls", "tool_results", "tool_failed", "plan_tool_calls", "subagent_launches",
    "edit_results_with_patch", "patch_hunks", "output_tokens_dedup", "last_context_used", "malformed_lines", "title",
)  # fmt: skip


def _oracle() -> dict[str, dict[str, Any]]:
    path = FOLDER / "oracle.json"
    if not path.exists():
        return {}
    known: dict[str, dict[str, Any]] = msgspec.json.decode(path.read_bytes())
    return {name: counts for name, counts in known.items() if "assistant_message_ids" in counts}


ORACLE = _oracle()
pytestmark = pytest.mark.skipif(not ORACLE, reason="no transcripts: DRAGOMAN_CORPUS names the folder that has them")


def translate(name: str) -> tuple[Sequence[Frame], Counter[str]]:
    translator = get_provider("claude").translator(PurePath(name))
    frames: list[Frame] = []
    position = 0
    for line in (FOLDER / name).read_bytes().split(b"\n"):
        if line:
            frames.extend(translator.feed(line, position))
        position += len(line) + 1
    return [*frames, *translator.finish()], translator.unknown


class Counts(Counter[str]):
    """Count in frames what the other program counted in records."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        super().__init__()
        self.title: str | None = None
        self._side: set[str] = set()  # sessions of sub-agents
        for frame in frames:
            texts = msgspec.json.decode(frame.line)
            match frame.kind, frame.direction:
                case "session/new", "out":
                    if "claudeCode" in texts["params"]["_meta"]:
                        self._side.add(frame.session_id)
                case "session/prompt", "out":
                    self._prompts(frame.session_id, texts["params"])
                case "session/prompt", "in":
                    ended = texts.get("result") or texts["error"]["data"]
                    self["output_tokens_dedup"] += (ended.get("usage") or {}).get("outputTokens", 0)
                case kind, _ if kind.startswith(("session/", "_")):
                    pass
                case kind, _:
                    self._texts(frame.session_id, kind, texts["params"]["update"])

    def _prompts(self, session_id: str, params: dict[str, Any]) -> None:
        if not params["prompt"]:
            return
        if params["_meta"]["native"].get("command"):
            self["slash_commands"] += 1
        else:
            self["sidechain_prompts" if session_id in self._side else "user_prompts"] += 1
        self["user_images"] += sum(block["type"] == "image" for block in params["prompt"])

    def _texts(self, session_id: str, kind: str, update: dict[str, Any]) -> None:
        native = update.get("_meta", {}).get("native", {})
        match kind:
            case "agent_message_chunk" if "local" not in native:
                self["text_blocks"] += 1
                self["text_chars"] += len(update["content"]["text"])
            case "agent_thought_chunk":
                self["thinking_nonempty"] += 1
            case "user_message_chunk" if not {"local", "attachment"} & native.keys():
                self["slash_commands" if native.get("command") else "queued_prompts"] += 1
            case "tool_call":
                self["tool_calls"] += 1
                self["plan_tool_calls"] += update["name"] in PLAN_TOOLS
                self["subagent_launches"] += update["name"] in AGENT_TOOLS
            case "plan":
                self.update(["tool_calls", "tool_results", "plan_tool_calls"])
            case "tool_call_update" if "rawOutput" in update:
                self["tool_results"] += 1
                self["tool_failed"] += update["status"] == "failed"
                diffs = [item for item in update.get("content", ()) if item["type"] == "diff"]
                self["edit_results_with_patch"] += bool(diffs)
                self["patch_hunks"] += len(diffs)
            case "usage_update" if session_id not in self._side:
                self["last_context_used"] = update["used"]
            case "session_info_update" if session_id not in self._side:
                self.title = update["title"]
            case _:
                pass


def _explained() -> dict[tuple[str, str], str]:
    known = tomllib.loads(DIFFERENCES.read_text())
    return {(name, field): reason for reason, fields in known.items() for field, files in fields.items()
            if field != "because" for name in files}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ORACLE))
def test_a_real_transcript_has_the_counts_of_the_other_program(name: str) -> None:
    frames, unknown = translate(name)
    folds(frames)  # every frame reads as what it is meant to be
    counts = Counts(frames)
    mine = {**counts, "malformed_lines": unknown["unreadable"], "title": counts.title}
    differing = {field for field in FIELDS if (mine.get(field) or 0) != (ORACLE[name].get(field) or 0)}
    explained = {field for file, field in _explained() if file == name}
    found = {field: (mine.get(field), ORACLE[name].get(field)) for field in differing ^ explained}
    assert not found, f"{name}: what is here, and what the other program counted: {found}"


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
