"""Properties of the Claude Code translator: damaged transcripts give the same frames, or at least valid ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.translate.claude.translator import ClaudeTranslator
from dragoman.translate.translator import Frame
from translate.claude_talk import SESSION, Transcript, translated
from translate.harm import check_frames, fed, with_other_values


def _everything() -> list[bytes]:
    """A transcript with all that is known of them."""
    talk = Transcript()
    talk.bare("summary", summary="Of another conversation", leafUuid="elsewhere")
    talk.bare("permission-mode", permissionMode="default")
    talk.user("Go", permissionMode="default")
    talk.say({"type": "thinking", "thinking": "hm", "signature": "x"}, stop="tool_use")
    talk.text("I will.", stop="tool_use")
    talk.call("Bash", {"command": "ls", "description": "List"})
    talk.result("a\nb", {"stdout": "a\nb", "stderr": "", "interrupted": False, "isImage": False})
    talk.call("Edit", {"file_path": "/home/ada/proj/a", "old_string": "x", "new_string": "y"}, "toolu_2")
    hunk = {"oldStart": 1, "newStart": 1, "lines": [" a", "-x", "+y", "\\ No newline at end of file"]}
    talk.result("ok", {"filePath": "/home/ada/proj/a", "structuredPatch": [hunk]}, "toolu_2")
    talk.call("TodoWrite", {"todos": [{"content": "A", "status": "in_progress", "activeForm": "Doing A"}]}, "toolu_3")
    talk.result("ok", {"oldTodos": [], "newTodos": []}, "toolu_3")
    talk.call("TaskCreate", {"subject": "B"}, "toolu_4")
    talk.result("ok", {"task": {"id": "1", "subject": "B"}}, "toolu_4")
    talk.call("Task", {"description": "Look", "prompt": "Look!"}, "toolu_5")
    side: dict[str, Any] = {"isSidechain": True}
    root = talk.user("Look!", parentUuid=None, **side)
    talk.text("Seen.", id="msg_s", parentUuid=root, **side)
    talk.result([{"type": "text", "text": "Seen."}], {"status": "completed", "agentId": "a1"}, "toolu_5")
    talk.add("progress", data={"type": "bash_progress"}, parentToolUseID="toolu_1")
    talk.add("attachment", attachment={"type": "queued_command", "prompt": "Quick", "commandMode": "prompt"})
    talk.text("Done.", id="msg_2")
    talk.add("system", subtype="turn_duration", durationMs=1)
    talk.user("<command-name>/cost</command-name>")
    talk.user("<local-command-stdout>two dollars</local-command-stdout>")
    talk.add("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    talk.user("This session is being continued", isCompactSummary=True)
    talk.user([{"type": "text", "text": "More"}])
    talk.call("Bash", {"command": "sleep 9"}, "toolu_6", id="msg_3")
    talk.user([{"type": "text", "text": "[Request interrupted by user]"}])
    talk.user("Again")
    talk.text("API Error", model="<synthetic>", isApiErrorMessage=True)
    talk.bare("ai-title", aiTitle="Going")
    talk.bare("cost-state", totalCostUSD=0.1)
    talk.bare("weather", sky="blue")
    return talk.lines


LINES = _everything()
DATA = b"".join(line + b"\n" for line in LINES)


def _fed(pieces: Sequence[bytes]) -> list[Frame]:
    return fed(ClaudeTranslator(PurePath(f"{SESSION}.jsonl")), pieces)


@given(st.lists(st.integers(0, len(DATA)), max_size=20))
@settings(max_examples=60)
def test_any_split_into_appends_gives_the_same_frames(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(DATA)]
    pieces = [DATA[begin:end] for begin, end in pairwise(places)]
    assert _fed(pieces) == _fed([DATA])


@given(st.integers(0, len(LINES)))
def test_the_frames_of_the_first_lines_are_a_prefix_of_all_frames(count: int) -> None:
    whole = translated(LINES, finish=False)
    first = translated(LINES[:count], finish=False)
    assert whole[: len(first)] == first


@given(st.integers(0, len(LINES)))
def test_finishing_takes_nothing_back(count: int) -> None:
    talk = translated(LINES[:count], finish=False)
    assert translated(LINES[:count])[: len(talk)] == talk


@given(st.integers(0, len(DATA)))
@settings(max_examples=100)
def test_a_file_truncated_anywhere_gives_whole_frames_and_no_open_run(place: int) -> None:
    _check_frames(DATA[:place].split(b"\n"))


@given(st.data())
@settings(max_examples=100)
def test_repeated_and_reordered_lines_are_harmless(data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(0, 8))):
        place = data.draw(st.integers(0, len(lines) - 1))
        if data.draw(st.booleans()):
            lines.insert(data.draw(st.integers(0, len(lines))), lines[place])
        else:
            # As far as real files have it: a line or two.
            lines.insert(min(place + data.draw(st.integers(1, 2)), len(lines)), lines.pop(place))
    _check_frames(lines)


@given(st.data())
@settings(max_examples=200)
def test_values_of_any_type_are_harmless(data: st.DataObject) -> None:
    _check_frames(with_other_values(data, LINES))


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_bytes_of_any_kind_do_no_harm(noise: list[bytes]) -> None:
    lines = [piece for part in noise for piece in part.split(b"\n")]
    _check_frames([*lines, *LINES[:6], *lines])


def _check_frames(lines: Sequence[bytes]) -> None:
    check_frames(translated([line for line in lines if line]))
