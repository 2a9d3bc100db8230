"""Replayed histories, in the forms that the named versions of agents send."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from dragoman.record import notes
from dragoman.record.fold import SessionFold
from dragoman.record.notes import Difference
from dragoman.record.replay_comparison import ReplayComparison
from dragoman.record.routing import ConnectionReader, RoutedMessage
from dragoman.wire import vocabulary as acp
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import Request, Update
from support.tape import Tape


def recorded_session(*runs: tuple[str, list[str]], stop_reason: str = "end_turn") -> Tape:
    """Record runs, each a prompt and its outputs: `=title` is a tool call, the others are messages."""
    tape = Tape()
    for number, (prompt, outputs) in enumerate(runs):
        add_run(tape, prompt, outputs, f"call-{number}", stop_reason)
    return tape


def add_run(tape: Tape, prompt: str, outputs: list[str], call: str, stop_reason: str = "end_turn") -> None:
    request = tape.prompt(prompt)
    for number, output in enumerate(outputs):
        if output.startswith("="):
            tape.tool(f"{call}-{number}", title=output[1:], status="completed")
        else:
            tape.say(output)
    tape.end(request, stop_reason)


def replay(*outputs: str) -> ReplayComparison:
    """Replay outputs: `>` is the user, `?` a thought, `=id title` a tool call, the others are messages."""
    tape, comparison = Tape(), ReplayComparison()
    for output in outputs:
        match output[:1]:
            case ">":
                tape.user(output[1:])
            case "?":
                tape.think(output[1:])
            case "=":
                call, _, title = output[1:].partition(" ")
                tape.tool(call, title=title, status="completed")
            case _:
                tape.say(output)
    for _, message in tape.frames:
        assert isinstance(message, Update)
        comparison.add(message.update)
    return comparison


def differences(fold: SessionFold, comparison: ReplayComparison) -> list[Difference]:
    differs = comparison.compare_with(fold)
    assert differs is None or differs.count == len(differs.differences)
    return list(differs.differences) if differs else []


TALK = (("hello", ["Good ", "day."]), ("write it", ["Doing.", "=write a.txt", "It is done."]), ("bye", ["Bye."]))


@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param(
            [">hello", "Good day.", ">write it", "Doing.", "=call-1-1 write a.txt", "It is done.", ">bye", "Bye."],
            id="as it was: opencode 1.18, claude-agent-acp 0.99",
        ),
        pytest.param(
            [">hello", "?Hm.", "Good", "\n\nday.", ">write it", "Doing.It is done.", "=x write", ">bye", "Bye.\n"],
            id="messages joined and cut, spaces, ids and titles of its own: kimi 2.1, goose 1.34, qwen 0.24",
        ),
        pytest.param(
            [
                ">You are an agent. It is Sunday.",
                ">hello",
                "Good day.",
                ">write it",
                "Doing.[Function Call: write_file]",
                ">[Function Response: write_file]",
                "It is done.",
                ">bye",
                "Bye.",
            ],
            id="tool calls as text, words around prompts: gemini 0.61",
        ),
        pytest.param(
            [">hello", "Good day.", ">write it", "=x write", ">bye", "Bye."],
            id="without what was said beside a tool call",
        ),
    ],
)
def test_a_history_replayed_in_an_agents_own_way_is_the_same(outputs: list[str]) -> None:
    assert differences(recorded_session(*TALK).fold, replay(*outputs)) == []


def test_a_prompt_that_is_left_out_is_a_difference() -> None:
    tape = recorded_session(*TALK)
    expected = differences(tape.fold, replay(">write it", "Doing.", "=call-1-1 w", "It is done.", ">bye", "Bye."))
    assert expected == [Difference("prompt", recorded="hello", run_id=next(iter(tape.fold.runs)))]


def test_a_recorded_answer_without_its_prompt_is_no_difference() -> None:
    expected = differences(recorded_session(*TALK[::2]).fold, replay(">in other words", "Good day.", ">bye", "Bye."))
    assert [(difference.subject, difference.recorded) for difference in expected] == [("prompt", "hello")]


def test_messages_joined_without_a_separator_are_recognised() -> None:
    """Copilot 1.0 leaves out its remarks in this way."""
    tape = recorded_session(
        ("write it", ["Doing.", "=write a.txt", "Info: as you like", "=write b.txt", "It is done."])
    )
    assert differences(tape.fold, replay(">write it", "Doing.It is done.", "=x a", "=y b")) == []


def test_tool_calls_may_be_replayed_as_calls_in_one_run_and_as_text_in_another() -> None:
    """Gemini 0.61 replays in this way."""
    tape = recorded_session(("one", ["=read a", "Read."]), ("two", ["=run b", "Ran."]), ("three", ["Yes."]))
    outputs = [">one", "=x read", "Read.", ">two", "[Function Call: run]", ">[Function Response: run]", "Ran."]
    assert differences(tape.fold, replay(*outputs, ">three", "Yes.")) == []


def test_an_agent_that_replays_nothing_has_forgotten_everything() -> None:
    assert [difference.recorded for difference in differences(recorded_session(*TALK).fold, replay())] == [
        "hello",
        "write it",
        "bye",
    ]


@pytest.mark.parametrize("last", ["bye", "write it"], ids=["after words", "after a tool call"])
def test_an_unrecorded_message_is_a_difference(last: str) -> None:
    runs = [run for run in TALK if last == "bye" or run[0] != "bye"]
    tape = recorded_session(*runs)
    outputs = [">hello", "Good day.", ">write it", "Doing.", "=call-1-1 w", "It is done.", ">bye", "Bye."]
    expected = differences(
        tape.fold, replay(*outputs[: 8 if last == "bye" else 6], ">and now?", "Now we are elsewhere.")
    )
    assert [(difference.subject, difference.replayed) for difference in expected] == [
        ("answer", "Now we are elsewhere.")
    ]


def test_an_answer_that_is_another_one_is_a_difference() -> None:
    expected = differences(recorded_session(("hello", ["Good day."])).fold, replay(">hello", "Go away."))
    assert [(difference.subject, difference.recorded, difference.replayed) for difference in expected] == [
        ("answer", "Good day.", "Go away.")
    ]


def test_added_and_missing_tool_calls_are_differences() -> None:
    tape = recorded_session(("one", ["=read a", "Read."]), ("two", ["Nothing to do."]))
    expected = differences(tape.fold, replay(">one", "Read.", ">two", "=other rm -r b", "Nothing to do."))
    assert [(difference.subject, difference.recorded, difference.replayed) for difference in expected] == [
        ("tool_calls", "read a", ""),
        ("tool_calls", "", "rm -r b"),
    ]


@pytest.mark.parametrize("stop_reason", ["cancelled", "max_tokens"])
@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param([], id="left out: gemini 0.61"),
        pytest.param([">try", "Trying har"], id="with more than was heard"),
        pytest.param([">try", "_Cancelled by user._"], id="in other words: nanocoder 1.30"),
        pytest.param([">try"], id="without an answer: copilot 1.0"),
        pytest.param([">try", "Trying", ">[Request interrupted by user]"], id="with a remark: claude-agent-acp 0.99"),
    ],
)
def test_differences_in_a_failed_run_are_ignored(stop_reason: str, outputs: list[str]) -> None:
    tape = recorded_session(("hello", ["Good day."]))
    add_run(tape, "try", ["Trying"], "cut", stop_reason)
    add_run(tape, "try", ["Tried."], "again")
    add_run(tape, "bye", ["Bye."], "last")
    assert differences(tape.fold, replay(">hello", "Good day.", *outputs, ">try", "Tried.", ">bye", "Bye.")) == []
    assert differences(tape.fold, replay(">hello", "Good day.", *outputs, ">try", "Tried.")) != []


def test_prompts_that_are_replayed_as_one_are_each_found() -> None:
    """Copilot 1.0, kimi 2.1 and others do so where a run brought nothing."""
    tape = recorded_session(("one", ["Error: 400"]), ("two", ["Two."]))
    assert differences(tape.fold, replay(">one", ">two", "Two.")) == []


@pytest.mark.parametrize("prompt", ["/init", "  /compact now", "", "use [secret:KEY]"])
def test_commands_of_the_agent_and_prompts_with_secrets_may_be_replayed_differently(prompt: str) -> None:
    tape = recorded_session(("hello", ["Hi."]), (prompt, ["Done."]), ("bye", ["Bye."]))
    outputs = [">hello", "Hi.", "><command-name>x</command-name>", "Did it.", ">bye", "Bye."]
    assert differences(tape.fold, replay(*outputs)) == []


def test_a_long_prompt_is_known_by_its_beginning_and_shown_by_it() -> None:
    prompt = "words " * 1000
    tape = recorded_session((prompt, ["Read."]))
    assert differences(tape.fold, replay(f">{prompt[:3000]} [3000 more]", "Read.")) == []
    [expected] = differences(tape.fold, replay())
    assert len(expected.recorded) <= 120
    assert prompt.startswith(expected.recorded.removesuffix("…"))


def test_of_many_differences_a_few_are_listed_and_all_are_counted() -> None:
    differs = replay().compare_with(recorded_session(*((f"prompt {number}", ["Yes."]) for number in range(30))).fold)
    assert differs is not None
    assert (differs.count, len(differs.differences)) == (30, 10)


# -- recordings of real agents

OWN = Path(__file__).parents[1] / "agents" / "recordings"
FOLDER = Path(os.environ.get("DRAGOMAN_RECORDINGS") or Path(__file__).resolve().parents[3] / "shared" / "recordings")
RECORDINGS = sorted([*OWN.glob("*/*.jsonl"), *FOLDER.glob("*/*.jsonl")])


def messages_in(path: Path) -> Iterator[tuple[Literal["in", "out"], RoutedMessage]]:
    reader = ConnectionReader()
    for line in path.read_bytes().splitlines():
        recorded = msgspec.json.decode(line)
        direction: Literal["in", "out"] = "in" if recorded["dir"] == "in" else "out"
        if recorded["dir"] in ("in", "out"):
            for routed in reader.read(direction, msgspec.json.encode(recorded["frame"])):
                yield direction, routed


def as_user(request: Request) -> list[acp.SessionUpdate]:
    params = decode_or_none(request.params, acp.PromptRequest)
    return [acp.UserMessageChunk(content=block) for block in (params.prompt if params is not None else ())]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recording_replayed_unchanged_has_no_difference(path: Path) -> None:
    folds: dict[str, SessionFold] = {}
    again: dict[str, ReplayComparison] = {}
    for position, (direction, routed) in enumerate(messages_in(path)):
        if routed.session_id is None:
            continue
        folds.setdefault(routed.session_id, SessionFold()).apply(position, float(position), direction, routed.message)
        comparison = again.setdefault(routed.session_id, ReplayComparison())
        if isinstance(routed.message, Update):
            comparison.add(routed.message.update)
        elif isinstance(routed.message, Request) and routed.message.method == "session/prompt":
            for chunk in as_user(routed.message):
                comparison.add(chunk)
    for session_id, fold in folds.items():
        assert differences(fold, again[session_id]) == []


@pytest.mark.parametrize(
    ("case", "expected"),
    [("replay-after-load", []), ("load-within-minute", [("prompt", "[[say:The word is azure.]]")])],
)
def test_the_history_that_gemini_replays_after_a_load(case: str, expected: list[tuple[str, str]]) -> None:
    fold, comparison = SessionFold(), ReplayComparison()
    loading = False
    for position, (direction, routed) in enumerate(messages_in(OWN / "gemini" / f"{case}.jsonl")):
        loading = loading or (isinstance(routed.message, Request) and routed.message.method == "session/load")
        if loading and isinstance(routed.message, Update):
            comparison.add(routed.message.update)
        elif not loading and routed.session_id is not None:
            fold.apply(position, float(position), direction, routed.message)
    assert [(difference.subject, difference.recorded) for difference in differences(fold, comparison)] == expected


def test_only_the_host_says_that_a_history_differs() -> None:
    tape = recorded_session(*TALK)
    note = notes.HistoryDiffers((Difference("prompt", recorded="hello"),), 1)
    tape.notify("_dragoman/history_differs", **msgspec.to_builtins(note))
    assert tape.fold.differs is None
    tape.note(note)
    assert tape.fold.differs == note
