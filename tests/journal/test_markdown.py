"""A session as Markdown: it is complete, and no content breaks the structure of the page."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.journal.markdown import session_markdown
from dragoman.journal.rows import Session, SessionRows, StoredMessage
from dragoman.journal.sqlite import MemoryJournal
from dragoman.record import rows
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import RpcError

from .talk import ALLOW, Talk

NOON = 1_794_744_000.0


async def exported(talk: Talk, journal: MemoryJournal) -> str:
    await talk.commit()
    return "".join(session_markdown(await journal.rows(talk.session)))


def written(**tables: Any) -> str:
    return "".join(session_markdown(SessionRows(**tables)))


def message(position: int, kind: rows.MessageKind, text: str, run_id: str | None = "r1") -> StoredMessage:
    return StoredMessage(
        id=f"message-{position}",
        kind=kind,
        run_id=run_id,
        message_id=None,
        time=NOON,
        replayed=False,
        text=text,
        ended=True,
    )


def tool_call(position: int, **fields: Any) -> rows.ToolCall:
    return rows.ToolCall(
        **{
            "id": f"tool-{position}",
            "tool_call_id": "t",
            "run_id": "r1",
            "time": NOON,
            "replayed": False,
            "title": "a tool",
            "status": "completed",
            **fields,
        }
    )


def terminal(position: int, **fields: Any) -> rows.Terminal:
    return rows.Terminal(
        **{"id": f"terminal-{position}", "request_id": 1, "run_id": "r1", "time": NOON, "command": "make", **fields}
    )


def test_a_line_below_a_prompt_says_what_went_with_it() -> None:
    context = rows.PromptContext(
        listed=2,
        skills=(rows.SentSkill("re*view", "/w/skills/review/SKILL.md", 10),),
        omitted=(rows.OmittedSkill("large", "it does not fit"),),
        template="/w/prompts/fix.md",
        has_custom_instructions=True,
    )
    run = rows.Run(id="r1", time=NOON, position=1, context=context)
    other = rows.Run(id="r2", time=NOON, position=3)
    messages = [message(1, "user", "/fix it"), message(2, "assistant", "Done."), message(3, "user", "more", "r2")]
    text = written(runs=[run, other], messages=messages)
    line = (
        "*with skills in full: re\\*view · 2 skills listed · template: /w/prompts/fix.md · custom instructions"
        " · not sent: large (it does not fit)*"
    )
    assert f"> /fix it\n\n{line}\n\nDone.\n" in text
    assert text.count("*with") == 1


async def test_the_conversation_is_in_its_order_under_the_title_and_the_facts() -> None:
    async with MemoryJournal() as journal:
        talk = await Talk.begin(journal, time=NOON, agent="demo", cwd="/w")
        talk.update("session_info_update", title="On *stars*")
        run = talk.prompt("first\n\nof two lines")
        talk.update("agent_thought_chunk", content={"type": "text", "text": "well,\nlet me see"})
        talk.say("An **answer**.")
        talk.tool("t1", title="Read notes", kind="read", status="completed")
        talk.say("The rest.")
        talk.end(run)
        talk.turn("second", "again")
        text = await exported(talk, journal)
    assert text.startswith("# On \\*stars\\*\n\n- agent: demo\n- workspace: /w\n- began: 20")
    parts = [
        "> first\n>\n> of two lines",
        "> *thought:* well,\n> let me see",
        "An **answer**.",
        "- **read** Read notes (completed)",
        "The rest.",
        "*completed in ",
        "> second",
        "again",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert text.endswith("*\n")


def test_command_output_and_results_of_tools_are_included() -> None:
    text = written(
        tool_calls=[
            tool_call(1, kind="execute", title="make", output="built\n", exit_code=2),
            tool_call(2, content=(acp.Content(content=acp.TextContent(text="found it")),)),
            tool_call(3, raw_output={"lines": 3}),
            tool_call(4, raw_output="plain"),
        ]
    )
    assert "- **execute** make (completed, exit code 2)\n\n```text\nbuilt\n```\n" in text
    assert "```text\nfound it\n```" in text
    assert '```json\n{\n  "lines": 3\n}\n```' in text
    assert "```text\nplain\n```" in text


def test_output_that_was_truncated_says_so() -> None:
    assert "```text\n[…]\nthe end\n```" in written(terminals=[terminal(1, output="the end\n", truncated=True)])


def test_a_terminal_is_shown_with_its_tool_call_only() -> None:
    text = written(
        tool_calls=[tool_call(1, kind="execute", title="Build", content=(acp.Terminal(terminal_id="x"),))],
        terminals=[
            terminal(2, terminal_id="x", args=("all", "a b"), status="exited", exit_code=0, output="ok"),
            terminal(3, terminal_id="y", command="ls", status="denied"),
        ],
    )
    assert text.count("make all 'a b' (exited, exit code 0)") == 1
    assert text.index("Build") < text.index("make all") < text.index("- **command** ls (denied)")
    assert "```text\nok\n```" in text


def test_changes_of_files_are_diffs_and_the_same_change_is_shown_once() -> None:
    diff = acp.Diff(path="/w/a.txt", old_text="one\ntwo\n", new_text="one\n2\n")
    new = acp.Diff(path="/w/b.txt", new_text="new\n")
    call = {"request_id": 1, "run_id": "r1", "time": NOON, "operation": "write", "status": "done"}
    text = written(
        tool_calls=[tool_call(1, content=(diff,))],
        file_calls=[
            rows.FileCall(id="file-2", path="/w/a.txt", diff=diff, **call),  # type: ignore[arg-type]
            rows.FileCall(id="file-3", path="/w/b.txt", diff=new, **call),  # type: ignore[arg-type]
        ],
    )
    assert text.count("```diff\n--- /w/a.txt\n+++ /w/a.txt\n one\n-two\n+2\n```") == 1
    assert "- **write** /w/a.txt (done)" in text
    assert "```diff\n--- /dev/null\n+++ /w/b.txt\n+new\n```" in text


async def test_decisions_answers_and_plans_are_included() -> None:
    async with MemoryJournal() as journal:
        talk = await Talk.begin(journal)
        run = talk.prompt("go")
        params = {"sessionId": "a", "toolCall": {"toolCallId": "t1", "title": "rm -r x"}, "options": ALLOW}
        talk.frame("in", {"id": "p1", "method": "session/request_permission", "params": params}, "agent")
        selected = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        talk.frame("out", {"id": "p1", "result": selected}, "client")
        entries = [
            {"content": "look", "priority": "high", "status": "completed"},
            {"content": "leap", "priority": "high", "status": "pending"},
        ]
        talk.update("plan", entries=entries)
        talk.end(run)
        text = await exported(talk, journal)
    assert "## Plan\n\n- [x] look\n- [ ] leap\n" in text
    permission = rows.Permission(
        id="permission-1", request_id=1, run_id=None, time=NOON, options=(), title="rm -r x", decision="allow",
        decided_by="person",
    )  # fmt: skip
    assert "- **permission** rm -r x (allowed by you)" in written(permissions=[permission])
    question = rows.Question(
        id="question-1", request_id=1, run_id=None, time=NOON, mode="form", message="Which?", action="accept",
        content={"name": "a_b"},
    )  # fmt: skip
    assert "- **question** Which? (accept)\n  - name: a\\_b" in written(questions=[question])


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (rows.Run(id="r1", time=10.0, ended_time=12.5, status="success", stop_reason="end_turn"), "completed in 2.5 s"),
        (rows.Run(id="r1", time=10.0, status="success", stop_reason="max_tokens"), r"max\_tokens"),
        (rows.Run(id="r1", time=10.0, ended_time=99.0, status="interrupted", reason="Gone."), "interrupted: Gone"),
        (rows.Run(id="r1", time=10.0, status="cancelled"), "cancelled"),
        (rows.Run(id="r1", time=10.0, status="error", error=RpcError(code=1, message="no")), "failed: no"),
    ],
)
def test_the_end_of_a_run_is_stated(run: rows.Run, line: str) -> None:
    assert f"\n*{line}*\n" in written(runs=[run])


def test_the_time_of_a_run_is_without_the_time_for_answers() -> None:
    run = rows.Run(id="r1", time=10.0, ended_time=40.0, status="success", stop_reason="end_turn")
    answer = rows.Permission(
        id="permission-1", request_id=1, run_id="r1", time=12.0, options=(), decided_by="person", resolved_time=38.0
    )
    by_a_rule = msgspec.structs.replace(answer, id="permission-2", time=10.0, decided_by="rule")
    assert "completed in 4.0 s" in written(runs=[run], permissions=[answer, by_a_rule])


def test_figures_that_the_agent_reported_are_stated_and_no_others() -> None:
    usage = rows.Usage(input_tokens=5, output_tokens=2, cost=acp.Cost(amount=0.5, currency="USD"))
    assert "*cancelled · tokens: 5 in, 2 out · 0.5 USD*" in written(
        runs=[rows.Run(id="r1", time=0.0, status="cancelled", usage=usage)]
    )


def test_an_active_run_has_no_end() -> None:
    assert "*" not in written(runs=[rows.Run(id="r1", time=0.0)])


def test_attachments_are_named() -> None:
    image = acp.ImageContent(data="A" * 400, mime_type="image/png")
    row = StoredMessage(
        id="m-1", kind="user", run_id=None, message_id=None, time=NOON, replayed=False, text="see", blocks=(image,)
    )
    assert "\nwith image/png (300 bytes)\n" in written(messages=[row])


def test_a_block_that_an_answer_leaves_open_is_closed() -> None:
    text = written(messages=[message(1, "assistant", "look:\n````py\n```\nx"), message(2, "user", "next")])
    assert "\n````py\n```\nx\n````\n" in text


def test_a_closed_block_stays_as_it_is() -> None:
    assert "\n```py\nx\n```\n\n## " in written(
        messages=[message(1, "assistant", "```py\nx\n```"), message(2, "user", "")]
    )


@given(st.text(max_size=80), st.text(alphabet="`~ \nab", max_size=60))
def test_nothing_acts_on_a_terminal_or_ends_the_block_that_it_is_in(title: str, output: str) -> None:
    text = written(
        sessions=[Session(id="s1", title=title, cwd=title)],
        messages=[message(1, "user", title)],
        tool_calls=[tool_call(2, title=title, output=output)],
        notices=[rows.Notice(id="n-3", run_id=None, time=0.0, kind="notice", title="the end")],
    )
    assert not any((ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160 for char in text)
    if output.strip():
        # The first fence is the output's own, and is followed by a closing one of its length before the next row.
        fence = text[text.index("\n```") + 1 : text.index("text\n", text.index("\n```"))]
        assert set(fence) == {"`"}
        inner, _, rest = text[text.index(f"{fence}text\n") + len(fence) + 5 :].partition(f"\n{fence}\n")
        assert fence not in inner
        assert rest.endswith("\n- **notice** the end (info)\n")
