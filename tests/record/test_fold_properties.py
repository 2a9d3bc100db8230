"""Properties of the fold: it accepts any messages in any order, and gives the same rows each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.record import facts, notes
from dragoman.wire.vocabulary import PermissionOption, TextContent
from support.tape import Tape, rows_of

Step = Callable[[Tape], object]

# Few names, so that they meet: ids repeat, are empty, come late and never come.
ids = st.sampled_from(["", "a", "b"])
words = st.text(max_size=3)
statuses = st.sampled_from(["pending", "in_progress", "completed", "failed", "no such status", None, 7])
request_ids: st.SearchStrategy[int | str] = st.sampled_from([0, 1, 2, 3, "p", "q"])
cuts: st.SearchStrategy[Literal["cancelled", "error", "interrupted"]] = st.sampled_from(
    ["cancelled", "error", "interrupted"]
)

blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": words}),
    st.just({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
    st.just({"type": "resource_link", "uri": "file:///x", "name": "x"}),
    st.just({"type": "never heard of"}),
    st.none(),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
tool_fields = st.fixed_dictionaries(
    {},
    optional={
        "status": statuses,
        "title": words,
        "kind": st.sampled_from(["edit", "execute", "what"]),
        "rawInput": json_values,
        "rawOutput": json_values,
        "content": st.lists(
            st.sampled_from(
                [
                    {"type": "diff", "path": "/x", "newText": "n"},
                    {"type": "terminal", "terminalId": "t"},
                    {"type": "odd"},
                ]
            ),
            max_size=2,
        ),
        "locations": st.lists(st.just({"path": "/x"}), max_size=2),
        "_meta": st.sampled_from([{"claudeCode": {"parentToolUseId": "a"}}, {"x": None}, None]),
    },
)
setting = {
    "type": "select",
    "id": "mode",
    "name": "Mode",
    "category": "mode",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "do", "name": "Do"}],
}


modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "do", "name": "Do"}]}


def _steps() -> st.SearchStrategy[Step]:
    def update(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
        return st.fixed_dictionaries(fields).map(lambda chosen: lambda tape: tape.update(kind, **chosen))

    chunks = [
        update(kind, content=blocks, messageId=st.sampled_from([None, "m", "n"]))
        for kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
    ]
    tools: list[st.SearchStrategy[Step]] = [
        st.tuples(ids, tool_fields).map(lambda c: lambda tape: tape.tool(c[0], **c[1])),
        st.tuples(ids, tool_fields).map(lambda c: lambda tape: tape.tool_update(c[0], **c[1])),
        st.tuples(request_ids, ids, tool_fields).map(lambda c: lambda tape: tape.permission(c[0], c[1], **c[2])),
        st.tuples(request_ids, st.sampled_from(["allow", "reject", "odd", None])).map(
            lambda c: lambda tape: tape.decide(*c)
        ),
    ]
    others = [
        update("plan", entries=st.just([{"content": "c", "priority": "high", "status": "pending"}])),
        update("plan_update", plan=st.just({"type": "markdown", "planId": "p", "content": "x"})),
        update("plan_removed", planId=st.just("p")),
        update("usage_update", used=st.integers(0, 5), size=st.integers(0, 5)),
        update("current_mode_update", currentModeId=words),
        update("config_option_update", configOptions=st.lists(st.just(setting), max_size=1)),
        update("session_info_update", title=st.none() | words),
        update("available_commands_update", availableCommands=st.just([{"name": "x", "description": "y"}])),
        update("subagent_update", sessionId=ids, title=words),
        update("notice", message=words),
        update("of another time", anything=json_values),
    ]
    ours: list[st.SearchStrategy[Step]] = [
        words.map(lambda text: lambda tape: tape.prompt(text)),
        st.just(lambda tape: tape.cancel()),
        st.sampled_from(["session/load", "session/resume", "session/set_mode", "session/set_config_option"]).map(
            lambda method: lambda tape: tape.ask(method, modeId="do", configId="mode", value="do", cwd="/")
        ),
    ]
    openings: list[st.SearchStrategy[Step]] = [
        # A session is opened, continued, started again or forked, by an agent that has settings, none, or says nothing.
        st.tuples(
            st.sampled_from(["session/new", "session/load", "session/resume", "session/fork"]),
            st.sampled_from([None, {}, {"configOptions": []}, {"configOptions": [setting]}, {"modes": modes}]),
        ).map(lambda c: lambda tape: tape.answer(tape.ask(c[0], cwd="/"), c[1])),
    ]
    answers: list[st.SearchStrategy[Step]] = [
        st.tuples(request_ids, st.sampled_from(["end_turn", "cancelled", "refusal", "odd"])).map(
            lambda c: lambda tape: tape.end(*c)
        ),
        st.tuples(request_ids, json_values).map(lambda c: lambda tape: tape.answer(*c)),
        st.tuples(request_ids, st.sampled_from([-32800, -32603, 1])).map(lambda c: lambda tape: tape.refuse(*c)),
    ]
    paths = st.sampled_from(["/ws/a", "/ws/b"])
    terminal_ids = st.sampled_from(["t", "u"])
    requests: list[st.SearchStrategy[Step]] = [
        st.tuples(request_ids, paths, st.none() | st.integers(-1, 3)).map(
            lambda c: lambda tape: tape.request(c[0], "fs/read_text_file", path=c[1], line=c[2])
        ),
        st.tuples(request_ids, paths | st.none(), words).map(
            lambda c: lambda tape: tape.request(c[0], "fs/write_text_file", path=c[1], content=c[2])
        ),
        st.tuples(request_ids, words).map(
            lambda c: (
                lambda tape: tape.request(c[0], "terminal/create", command=c[1], env=[{"name": "N", "value": "v"}])
            )
        ),
        st.tuples(
            request_ids, st.sampled_from(["output", "wait_for_exit", "kill", "release"]), terminal_ids | st.none()
        ).map(lambda c: lambda tape: tape.request(c[0], f"terminal/{c[1]}", terminalId=c[2])),
        st.tuples(request_ids, st.sampled_from(["form", "url", "odd", None])).map(
            lambda c: (
                lambda tape: tape.request(
                    c[0],
                    "elicitation/create",
                    mode=c[1],
                    message="?",
                    requestedSchema={},
                    url="https://example.org",
                    elicitationId="e",
                )
            )
        ),
        st.just(lambda tape: tape.notify("elicitation/complete", elicitationId="e")),
        st.just(lambda tape: tape.reconnect()),
        st.tuples(request_ids, json_values).map(lambda c: lambda tape: tape.reply(*c)),
        st.tuples(
            request_ids,
            st.sampled_from(
                [
                    {"content": "text"},
                    {"terminalId": "t"},
                    {"terminalId": "u"},
                    {"exitCode": 0},
                    {"output": "o", "truncated": False, "exitStatus": {"signal": "SIGINT"}},
                    {"action": "accept", "content": {"a": 1}},
                    {"action": "decline"},
                    {},
                ]
            ),
        ).map(lambda c: lambda tape: tape.reply(*c)),
        st.tuples(request_ids, st.sampled_from([-32001, -32800, 1])).map(lambda c: lambda tape: tape.deny(*c)),
    ]
    decisions: st.SearchStrategy[Literal["allow", "deny", "cancelled"] | None] = st.sampled_from(
        ["allow", "deny", "cancelled", None]
    )
    option = PermissionOption(option_id="allow", name="Allow", kind="allow_once")
    host: list[st.SearchStrategy[Step]] = [
        st.tuples(request_ids, decisions, st.sampled_from(["allow", "odd", None])).map(
            lambda c: lambda tape: tape.note(notes.Decision(c[0], "rule", "why", c[1], c[2], rule="r"))
        ),
        st.tuples(request_ids, st.sampled_from(["files", "terminals"])).map(
            lambda c: lambda tape: tape.note(notes.PermissionRequested(c[0], c[1], "May it?", "edit", (option,)))
        ),
        st.tuples(request_ids, paths, st.none() | words, st.none() | st.integers(0, 3)).map(
            lambda c: lambda tape: tape.note(notes.file_note(c[0], c[1], c[2], old_size=c[3]))
        ),
        st.tuples(terminal_ids, st.none() | st.integers(0, 3), words).map(
            lambda c: lambda tape: tape.note(notes.TerminalExited(c[0], c[1], None, c[2], len(c[2])))
        ),
        st.tuples(request_ids, words).map(lambda c: lambda tape: tape.note(notes.Decision(c[0], "who", c[1]))),
        cuts.map(
            lambda status: (
                lambda tape: tape.note(notes.RunInterrupted(next(iter(tape.fold.runs), "none"), status, "cut"))
            )
        ),
        # The host gives each run an id of its own.
        st.just(lambda tape: tape.note(notes.Prompt(f"run-{len(tape.frames)}", (TextContent(text="x"),)))),
    ]
    return st.one_of(*chunks, *tools, *others, *ours, *openings, *answers, *requests, *host)


@settings(max_examples=300, deadline=None)
@given(st.lists(_steps(), max_size=30))
def test_no_order_of_frames_raises_and_all_of_them_fold_alike_again(steps: list[Step]) -> None:
    tape = Tape()
    for step in steps:
        step(tape)
    assert rows_of(tape.played_again()) == rows_of(tape.fold)


@settings(max_examples=300, deadline=None)
@given(st.lists(_steps(), max_size=30))
def test_applying_the_facts_gives_the_rows(steps: list[Step]) -> None:
    tape = Tape()
    for step in steps:
        step(tape)
    texts: dict[str, str] = {}
    for fact in tape.facts:
        if isinstance(fact, facts.TextAdded):
            texts[fact.message.id] = texts.get(fact.message.id, "") + fact.text
    for message in tape.fold.messages:
        if message.id in texts:
            assert message.text == texts[message.id]
    seen = Counter(fact.tool_call.id for fact in tape.facts if isinstance(fact, facts.ToolCallSeen))
    ended = Counter(fact.tool_call.id for fact in tape.facts if isinstance(fact, facts.ToolCallEnded))
    assert set(seen) == {call.id for call in tape.fold.tool_calls}
    assert set(seen.values()) <= {1}
    assert set(ended.values()) <= {1}
    closed = Counter(fact.run.id for fact in tape.facts if isinstance(fact, facts.RunEnded))
    assert set(closed.values()) <= {1}
    resolved = Counter(fact.permission.id for fact in tape.facts if isinstance(fact, facts.PermissionResolved))
    assert set(resolved.values()) <= {1}
    answered = Counter(fact.file_call.id for fact in tape.facts if isinstance(fact, facts.FileCallEnded))
    assert set(answered.values()) <= {1}
    exited = Counter(fact.terminal.id for fact in tape.facts if isinstance(fact, facts.TerminalExited))
    assert set(exited.values()) <= {1}


@settings(max_examples=300, deadline=None)
@given(st.lists(_steps(), max_size=30))
def test_the_rows_of_all_facts_are_all_rows_of_the_host(steps: list[Step]) -> None:
    tape = Tape()
    for step in steps:
        step(tape)
    contents: dict[str, object] = {}
    for fact in tape.facts:
        match fact:
            case facts.PermissionRequested(row) | facts.PermissionResolved(row):
                contents[row.id] = row
            case facts.FileCallChanged(row) | facts.FileCallEnded(row):
                contents[row.id] = row
            case facts.TerminalChanged(row) | facts.TerminalStarted(row):
                contents[row.id] = row
            case facts.TerminalRefused(row) | facts.TerminalExited(row):
                contents[row.id] = row
            case facts.QuestionAsked(row) | facts.QuestionAnswered(row) | facts.QuestionCompleted(row):
                contents[row.id] = row
            case _:
                pass
    fold = tape.fold
    assert contents == {**fold.permissions, **fold.files, **fold.terminals, **fold.questions}
    # What is held beyond the rows is of requests that are under way.
    assert set(fold._requests._decisions) <= set(fold._requests._pending)
