"""`dragoman sessions`: list, show, search, resume, export and delete stored sessions."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from dragoman.cli.command import State, how_long_ago, when
from dragoman.cli.options import filter_sessions, parse_time
from dragoman.cli.text import columns
from dragoman.errors import InputError
from dragoman.hub.identity import this_process
from dragoman.journal.protocols import Process
from dragoman.journal.rows import Session
from dragoman.journal.sessions import find_session, short_ids
from dragoman.journal.sqlite import SqliteJournal
from dragoman.record import notes
from dragoman.translate.frames import INTERRUPTED
from journal.talk import ALLOW, Talk

from .conftest import Cli, without_looks
from .stored_home import NOON, edit_journal, shown, write_session

COMMANDS = ((), ("list",), ("show",), ("search",), ("rename",), ("resume",), ("export",), ("delete",))
PERMISSION = {"sessionId": "a", "toolCall": {"toolCallId": "t", "title": "Edit"}, "options": ALLOW}
EVIL = "\x1b]0;owned\x07\x1b[31mred\r\x9b2Jwhole\u202e"


def listed(cli: Cli, *arguments: str) -> list[dict[str, Any]]:
    done = cli("sessions", "list", "--json", *arguments)
    assert (done.code, done.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_teaches_by_example(cli: Cli, command: tuple[str, ...]) -> None:
    done = cli("sessions", *command, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Examples:\n    dragoman sessions " in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_the_help_loads_no_more_than_it_needs(cli: Cli) -> None:
    script = (
        "import sys; from dragoman.__main__ import main; sys.argv[1:] = ['sessions', '--help']; code = main()\n"
        "sys.exit(code or [name for name in ('asyncio', 'msgspec', 'sqlite3') if name in sys.modules] or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=cli.env, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -- nothing yet


def test_without_sessions_a_first_step_is_shown_and_no_file_is_created(cli: Cli) -> None:
    done = cli("sessions", "list")
    assert (done.code, done.out) == (0, "")
    assert 'Try: dragoman run "hello"' in done.err
    assert str(cli.home / "journal.db") in done.err
    assert cli("sessions", "list", "--json").out == "[]\n"
    for command in (("show",), ("export", "-"), ("resume", "-", "hello"), ("delete", "--yes", "-")):
        done = cli("sessions", *command)
        assert (done.code, done.out) == (2, "")
        assert "there are no sessions yet" in done.err
    assert not (cli.home / "journal.db").exists()


# -- the list


def test_a_session_is_listed_with_its_id_agent_state_and_title(cli: Cli) -> None:
    assert cli("run", "hello").code == 0
    [session] = listed(cli)
    assert (session["agent"], session["workspace"], session["state"]) == ("demo", str(cli.workspace), "idle")
    assert (session["prompt"], session["runs"], session["last_run"]) == ("hello", 1, "success")
    assert (session["cost"]["amount"], session["cost"]["currency"]) == (0, "USD")
    done = cli("sessions", "list")
    head, line = done.out.splitlines()
    assert head.split("  ")[0] == "id"
    assert line.startswith(session["id"][:6] + "  ")
    assert all(text in line for text in ("demo", "idle", "0.00 USD", str(cli.workspace)))
    assert line.endswith("  hello")


def test_the_list_can_be_filtered_and_counts_the_sessions_it_leaves_out(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "s1", "one", agent="claude", cwd="/w/a", at=NOON)
        await write_session(journal, "s2", "two", agent="codex", cwd="/w/a", at=NOON + 86_400)
        await write_session(journal, "s3", "three", agent="codex", cwd="/w/b", at=NOON + 2 * 86_400)

    edit_journal(cli, work)
    ids = [session["id"] for session in listed(cli)]
    assert ids == ["s3", "s2", "s1"]  # the latest first
    assert [session["id"] for session in listed(cli, "--agent", "codex", "--workspace", "/w/a")] == ["s2"]
    since = datetime.fromtimestamp(NOON + 86_400).astimezone().date().isoformat()
    assert [session["id"] for session in listed(cli, "--since", since)] == ["s3", "s2"]
    done = cli("sessions", "list", "-n", "1")
    assert len(done.out.splitlines()) == 2
    assert "2 older sessions are not shown" in done.err
    assert "No session matches" in cli("sessions", "list", "--agent", "nobody").err


def test_a_cost_that_was_not_reported_is_no_zero(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "s1")

    edit_journal(cli, work)
    assert listed(cli)[0]["cost"] is None
    assert "—" in cli("sessions", "list").out
    assert "0.00" not in cli("sessions", "list").out


def test_a_run_is_running_while_its_owner_lives_and_otherwise_interrupted(cli: Cli) -> None:
    dead = Process(id="dead", host=socket.gethostname(), pid=2**22 + 1, started="1", heartbeat=NOON)
    living = this_process()

    async def work(journal: SqliteJournal) -> None:
        for name, owner in (("of-the-dead", dead), ("of-the-living", living), ("of-nobody", None)):
            epoch = None
            if owner is not None:
                await journal.heartbeat(owner)
                epoch = await journal.claim(name, owner.id, is_alive=lambda _: True)
            talk = await Talk.begin(journal, name, epoch=epoch)
            talk.prompt("work")
            talk.say("on it")
            await talk.commit()

    edit_journal(cli, work)
    states = {session["id"]: session["state"] for session in listed(cli)}
    assert states == {"of-the-dead": "interrupted", "of-the-living": "running", "of-nobody": "interrupted"}
    looks = shown(cli, 120, "sessions", "list")
    assert "\x1b[32mrunning" in looks  # green
    assert "\x1b[31m" not in looks  # nothing red: it is over
    assert cli("sessions", "show", "of-the-dead").out.endswith("on it\n\ninterrupted\n")
    assert cli("sessions", "show", "of-the-living").out.endswith("on it\n\nrunning\n")
    done = cli("sessions", "delete", "--yes", "of-the-living")
    assert (done.code, "open in another process" in done.err) == (2, True)
    assert len(listed(cli)) == 3


def test_a_state_has_one_word_here_and_on_the_page(cli: Cli) -> None:
    living = this_process()

    async def work(journal: SqliteJournal) -> None:
        await journal.heartbeat(living)
        epoch = await journal.claim("waits", living.id, is_alive=lambda _: True)
        talk = await Talk.begin(journal, "waits", epoch=epoch)
        talk.prompt("work")
        talk.frame("in", {"id": "p1", "method": "session/request_permission", "params": PERMISSION}, "agent")
        await talk.commit()
        failed = await Talk.begin(journal, "failed")
        failed.frame("in", {"id": failed.prompt("work"), "error": {"code": -32603, "message": "broken"}}, "agent")
        await failed.commit()

    edit_journal(cli, work)
    states = {session["id"]: session["state"] for session in listed(cli)}
    assert states == {"waits": "needs you", "failed": "failed"}
    labels = (Path(__file__).parents[2] / "web/src/ui/state.ts").read_text()
    for word in get_args(State):
        assert re.search(rf'^  \w+: "{word}",$', labels, re.MULTILINE), word


@pytest.mark.parametrize(
    "arguments", [("--model", "gpt"), ("--mode", "nope"), ("--option", "foo=1"), ("--option", "word_by_word=maybe")]
)
def test_a_start_that_failed_leaves_no_session_behind(cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli("run", *arguments, "hello").code == 2
    assert listed(cli) == []
    assert cli("run", "hello").code == 0
    assert len(listed(cli)) == 1
    assert cli("journal", "verify").code == 0


def test_a_session_is_renamed(cli: Cli) -> None:
    cli("run", "hello")
    done = cli("sessions", "rename", "-", "My ", " own   title")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith(": My own title\n")
    assert listed(cli)[0]["title"] == "My own title"
    assert cli("sessions", "rename", "-").code == 0
    assert listed(cli)[0]["title"] == "hello"
    assert cli("sessions", "rename", "-", "x" * 201).code == 2


def test_a_resumed_session_shows_where_the_agent_was_started_again(cli: Cli) -> None:
    cli("run", "hello")
    cli("sessions", "resume", "-", "plan")
    out = cli("sessions", "show").out
    assert out.count("The agent was started again and ") == 1
    assert out.index("The agent was started again") < out.index("› plan")
    assert cli("journal", "verify").code == 0


@pytest.mark.parametrize("width", [40, 60, 90, 130])
def test_no_line_is_wider_than_the_terminal(cli: Cli, width: int) -> None:
    async def work(journal: SqliteJournal) -> None:
        for number, text in enumerate(("a long request " * 20, "長い依頼" * 40, "x" * 300)):
            await write_session(journal, f"session-{number}-with-a-long-id", text, text, cwd=f"/home/me/{'deep/' * 12}")

    edit_journal(cli, work)
    for command in (("list",), ("search", "long"), ("search", "依頼"), ("search", "xxx")):
        text = without_looks(shown(cli, width, "sessions", *command))
        assert "session-" in text
        assert max(columns(line) for line in text.splitlines()) <= width, command


# -- which session is meant


def sessions(*ids: str) -> list[Session]:
    return [
        Session(id=session_id, agent_session_id=f"agent-{session_id}", title=f"title of {session_id}")
        for session_id in ids
    ]


def test_the_beginning_of_an_id_is_enough() -> None:
    every = sessions("abcdef12", "abcdefff", "12345678")
    assert find_session(every, "1").id == "12345678"
    assert find_session(every, "abcdef1").id == "abcdef12"
    assert find_session(every, "-").id == "abcdef12"
    assert find_session(every, "agent-1").id == "12345678"
    with pytest.raises(InputError, match=r"2 sessions .*abcdef1 \(title of abcdef12\), abcdeff \(title"):
        find_session(every, "ab")
    for wrong in ("zz", ""):
        with pytest.raises(InputError, match="no session has an id"):
            find_session(every, wrong)


def test_the_latest_is_no_sub_agent() -> None:
    sessions = [Session(id="sub", parent="main"), Session(id="main"), Session(id="older")]
    assert find_session(sessions, "-").id == "main"


def test_a_whole_id_that_begins_another_is_that_one() -> None:
    assert find_session(sessions("abcdef12", "abcdef"), "abcdef").id == "abcdef"


def test_a_short_id_is_unambiguous() -> None:
    every = sessions("abcdef12", "abcdefff", "abcdefgh1", "12345678", "abc")
    short = short_ids(every)
    assert short["12345678"] == "123456"
    assert short["abc"] == "abc"
    assert all(find_session(every, beginning).id == id_ for id_, beginning in short.items())


NOW = datetime.fromisoformat("2026-11-15T12:00").astimezone()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-11-01", "2026-11-01T00:00"),
        ("2026-11-01T10:30", "2026-11-01T10:30"),
        ("today", "2026-11-15T00:00"),
        ("Yesterday", "2026-11-14T00:00"),
        ("90m", "2026-11-15T10:30"),
        ("7d", "2026-11-08T12:00"),
    ],
)
def test_a_time_is_a_day_a_moment_or_a_duration_before_now(text: str, meant: str) -> None:
    assert parse_time(text, "--since", NOW) == datetime.fromisoformat(meant).astimezone().timestamp()


def test_until_a_day_includes_the_whole_day() -> None:
    end = datetime.fromisoformat("2026-11-02").astimezone().timestamp()
    assert parse_time("2026-11-01", "--until", NOW, end=True) == end


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "2026-02-30", "", "-", "-3d"])
def test_an_invalid_time_is_answered_with_examples(text: str) -> None:
    with pytest.raises(InputError, match="is not a time"):
        parse_time(text, "--since", NOW)


def test_a_folder_may_be_named_by_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    here = Session(id="a", cwd=str(tmp_path.resolve() / "real"))
    elsewhere = Session(id="b", cwd=str(tmp_path / "other"))
    assert filter_sessions([here, elsewhere], workspace=str(tmp_path / "link")) == [here]


# -- a conversation, shown again


def test_a_conversation_is_shown_as_it_was(cli: Cli) -> None:
    process = cli.start("run", "--access", "full", "tour", stderr=subprocess.STDOUT)
    live = process.communicate(timeout=40)[0].decode()
    assert process.returncode == 0
    again = cli("sessions", "show")
    assert (again.code, again.err) == (0, "")
    # A tool call that has ended needs no line for its beginning; diffs are only for terminals.
    begun = [line for line in live.splitlines() if not line.startswith(("● ", "$ "))]
    shown_events = [line for line in again.out.splitlines() if not re.match(r"    [+ -] |    … ", line)]
    assert shown_events[:6] == ["tour", shown_events[1], shown_events[2], "", shown_events[4], "› tour"]
    assert [line for line in shown_events[6:] if line] == [line for line in begun if line]


def test_a_terminal_gets_thoughts_and_colours_and_a_pipe_plain_text(cli: Cli) -> None:
    assert cli("run", "think").code == 0
    on_terminal, piped = shown(cli, 80, "sessions", "show"), cli("sessions", "show").out
    assert "\x1b[" in on_terminal
    assert "\x1b" not in piped
    assert "written beforehand" in without_looks(on_terminal)
    assert "written beforehand" not in piped
    assert "written beforehand" in cli("sessions", "show", "--thoughts").out
    assert "written beforehand" not in shown(cli, 80, "sessions", "show", "--no-thoughts")


def test_the_last_runs_can_be_shown_alone(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        talk = await write_session(journal, "s1", "first", "one")
        talk.turn("second", "two")
        talk.turn("third", "three")
        await talk.commit()

    edit_journal(cli, work)
    for last, expected in ((1, ["third"]), (2, ["second", "third"]), (9, ["first", "second", "third"])):
        out = cli("sessions", "show", "s1", "--last", str(last)).out
        assert re.findall(r"^› (\w+)$", out, re.M) == expected


def test_a_persons_answers_are_shown(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        talk = await Talk.begin(journal, "s1", time=NOON)
        run = talk.prompt("edit it")
        for number, (option, decision) in enumerate((("allow", "allow"), ("reject", "deny")), start=70):
            talk.tool(f"t{number}", title=f"Edit file {number}")
            call = {"toolCallId": f"t{number}", "title": f"Edit file {number}"}
            params = {"sessionId": "a", "toolCall": call, "options": ALLOW}
            talk.frame("in", {"id": number, "method": "session/request_permission", "params": params}, "agent")
            if decision == "deny":
                talk.note(notes.PermissionGuarded(number, "write .git/config, which always needs your approval"))
            talk.note(notes.Decision(number, "person", "", decision, option))  # type: ignore[arg-type]
            answer = {"outcome": {"outcome": "selected", "optionId": option}}
            talk.frame("out", {"id": number, "result": answer}, "client")
        form = {"type": "object", "properties": {"colour": {"type": "string"}}}
        request = {"sessionId": "a", "mode": "form", "message": "Which colour?", "requestedSchema": form}
        talk.frame("in", {"id": 90, "method": "elicitation/create", "params": request}, "agent")
        talk.note(notes.Decision(90, "person", "", None))
        talk.frame("out", {"id": 90, "result": {"action": "accept", "content": {"colour": "blue"}}}, "client")
        talk.end(run)
        await talk.commit()

    edit_journal(cli, work)
    out = cli("sessions", "show").out
    assert "\n✓ allowed by you: Edit file 70\n" in out
    assert "\n✗ denied by you: Edit file 71\n  ! write .git/config, which always needs your approval\n" in out
    assert "\n? Which colour?\n  colour: blue\n" in out


def test_an_interrupted_run_is_shown_as_interrupted(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        talk = await Talk.begin(journal, "s1", time=NOON)
        talk.prompt("work")
        talk.say("half a sen")
        talk.note(notes.RunInterrupted("run-of-1", "interrupted", "the process that ran it ended before it did"))
        await talk.commit()

    edit_journal(cli, work)
    assert cli("sessions", "show").out.endswith(
        "half a sen\n\ninterrupted: the process that ran it ended before it did\n"
    )
    assert listed(cli)[0]["state"] == "interrupted"
    events = cli("sessions", "show", "--json").events()
    assert [(event["type"], event.get("status")) for event in events[-2:]] == [
        ("error", None),
        ("run.completed", "error"),
    ]


def test_a_run_without_an_end_in_its_transcript_is_shown_in_one_line(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        talk = await Talk.begin(journal, "s1", time=NOON)
        request = talk.prompt("work")
        talk.say("half a sen")
        usage = {"totalTokens": 7, "inputTokens": 5, "outputTokens": 2}
        error = {**msgspec.to_builtins(INTERRUPTED), "data": {**INTERRUPTED.data, "usage": usage}}
        talk.frame("in", {"id": request, "error": error}, "import")
        await talk.commit()

    edit_journal(cli, work)
    line = "The transcript ends before this run does · tokens: 5 in, 2 out"
    assert cli("sessions", "show").out.endswith(f"half a sen\n\ninterrupted: {line}\n")
    assert f"\n*interrupted: {line}*\n" in cli("sessions", "export", "-", "--format", "markdown").out


def test_events_are_those_of_the_run_and_the_prompts(cli: Cli) -> None:
    live = cli("run", "--access", "full", "--json", "edit notes.md").events()
    again = cli("sessions", "show", "--json").events()
    prompts = [event for event in again if event["type"] == "prompt"]
    assert [(prompt["text"], prompt["run_id"]) for prompt in prompts] == [("edit notes.md", live[-1]["run_id"])]

    def comparable(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        # Which events come between runs depends on when the listener started.
        return [
            (event["type"], event.get("text"), event.get("title"), event.get("status"), event["run_id"])
            for event in events
            if event["run_id"] and event["type"] != "prompt"
        ]

    assert comparable(again) == comparable(live)


def test_nothing_in_a_stored_session_acts_on_a_terminal(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        talk = await Talk.begin(journal, "s1", agent=f"demo{EVIL}", cwd=f"/w/{EVIL}", time=NOON)
        run = talk.prompt(f"prompt {EVIL}")
        talk.update("session_info_update", title=f"title {EVIL}")
        talk.update("agent_thought_chunk", content={"type": "text", "text": f"thought {EVIL}"})
        talk.say(f"words {EVIL}")
        talk.tool("t1", title=f"tool {EVIL}", status="completed")
        talk.end(run)
        await talk.commit()

    edit_journal(cli, work)
    for command in (
        ("list",),
        ("show", "--thoughts"),
        ("show", "--json"),
        ("search", "whole"),
        ("search", "words", "--json"),
        ("export", "-", "--format", "markdown"),
        ("export", "-", "--format", "json"),
        ("export", "-"),
    ):
        looks = shown(cli, 80, "sessions", *command)
        rest = re.sub(r"\x1b\[[0-9;]*m", "", looks).replace("\n", "")
        assert "whole" in rest
        assert not re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", rest), command
        if command[0] != "export" and "--json" not in command:
            piped = cli("sessions", *command).out
            assert not re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", piped), command


def test_a_reader_that_stops_early_ends_it_quietly(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "s1", "hello", "word " * 100_000)

    edit_journal(cli, work)
    for command in (("show",), ("export", "-"), ("list", "--json")):
        process = cli.start("sessions", *command)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(40) == 141


# -- search


def test_words_are_found_highlighted_and_can_be_opened(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "feed01", "why the timeout", "The socket's Timeout is too short.", agent="claude")
        await write_session(journal, "feed02", "hello", "nothing of the kind", agent="codex")

    edit_journal(cli, work)
    done = cli("sessions", "search", "timeout")
    assert done.code == 0
    assert "feed01" in done.out
    assert "feed02" not in done.out
    assert "The socket's Timeout is too short." in done.out
    assert "dragoman sessions show feed01" in done.err
    assert "\x1b[33m\x1b[1mTimeout\x1b[0m is too short." in shown(cli, 80, "sessions", "search", "timeout")
    hits = json.loads(cli("sessions", "search", "--json", "timeout", "socket").out)
    assert [(hit["session"], hit["kind"], hit["agent"]) for hit in hits] == [("feed01", "assistant", "claude")]
    [(begin, end), *_] = sorted(hits[0]["marks"])
    assert hits[0]["snippet"][begin:end].lower() in ("socket", "timeout")
    for filters in (["--agent", "codex"], ["--kind", "tool"], ["--until", "2020-01-01"], ["--workspace", "/else"]):
        assert json.loads(cli("sessions", "search", "--json", "timeout", *filters).out) == []
    done = cli("sessions", "search", "absent")
    assert (done.code, done.out) == (0, "")
    assert "No matches" in done.err


def test_hits_are_grouped_by_session(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        for name in ("feed01", "feed02"):
            talk = await Talk.begin(journal, name, time=NOON)
            request = talk.prompt("mend the parser")
            talk.say("The parser is mended.")
            diff = {"type": "diff", "path": "/w/parser.py", "newText": "new"}
            talk.tool("t1", title="parser.py", kind="edit", status="completed", content=[diff])
            talk.end(request)
            await talk.commit()

    edit_journal(cli, work)
    out = cli("sessions", "search", "parser").out
    assert out.count("feed01") == out.count("feed02") == 1
    first, second = out.split("\n\n")
    for group in (first, second):
        heading, *hits = group.splitlines()
        assert heading.endswith("mend the parser")
        assert sorted(hit.split()[0] for hit in hits) == ["assistant", "tool", "user"]


def test_words_quoted_in_the_shell_are_a_phrase(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "s1", "hello", "connection was refused")
        await write_session(journal, "s2", "hello", "connection refused")

    edit_journal(cli, work)
    hits = json.loads(cli("sessions", "search", "--json", "connection refused").out)
    assert [hit["session"] for hit in hits] == ["s2"]
    assert len(json.loads(cli("sessions", "search", "--json", "connection", "refused").out)) == 2


def test_a_match_is_visible_on_a_narrow_terminal_too(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "s1", "hello", f"{'before ' * 20}needle{' after' * 20}")

    edit_journal(cli, work)
    assert "needle" in without_looks(shown(cli, 40, "sessions", "search", "needle"))


def test_a_search_says_when_it_cut_its_answer(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        for number in range(3):
            await write_session(journal, f"s{number}", "hello", "a needle")

    edit_journal(cli, work)
    for options in ([], ["--json"]):
        done = cli("sessions", "search", "needle", "-n", "2", *options)
        assert "There are more than these 2 matches: -n 0 shows all." in done.err
        for all_of_them in ("3", "0"):
            assert "more than" not in cli("sessions", "search", "needle", "-n", all_of_them, *options).err
    assert len(json.loads(cli("sessions", "search", "needle", "-n", "0", "--json").out)) == 3


def test_an_empty_search_is_bad_input(cli: Cli) -> None:
    assert cli("sessions", "search").code == 2
    assert cli("sessions", "search", " ").code == 2


# -- writing out


def test_the_suffix_of_the_file_decides_the_format(cli: Cli) -> None:
    assert cli("run", "--access", "full", "edit notes.md").code == 0
    for name in ("talk.md", "talk.json", "talk.jsonl", "talk"):
        done = cli("sessions", "export", "-", "-o", name)
        assert (done.code, done.out) == (0, "")
        assert stat.S_IMODE((cli.workspace / name).stat().st_mode) == 0o600
    text = (cli.workspace / "talk.md").read_text()
    assert text.startswith("# edit notes.md\n\n- agent: demo\n")
    assert "\n> edit notes.md\n" in text
    assert "\n- **edit** Create notes.md (completed)\n\n```diff\n--- /dev/null\n" in text
    rows = json.loads((cli.workspace / "talk.json").read_text())
    assert [run["status"] for run in rows["runs"]] == ["success"]
    assert rows["messages"][0]["text"] == "edit notes.md"
    lines = (cli.workspace / "talk.jsonl").read_bytes()
    assert json.loads(lines.splitlines()[0]) == {"dir": "journal", "format": 1}
    assert (cli.workspace / "talk").read_bytes() == lines
    assert cli("sessions", "export", "-").raw_out == lines
    assert sorted(os.listdir(cli.workspace)) == ["notes.md", "talk", "talk.json", "talk.jsonl", "talk.md"]


def test_an_export_that_cannot_be_written_leaves_nothing_behind(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "s1")

    edit_journal(cli, work)
    for wrong in ("no/such/folder/x.md", ".", "/dev/null"):
        done = cli("sessions", "export", "s1", "-o", wrong)
        assert done.code == 2
        assert "-o" in done.err
    assert os.listdir(cli.workspace) == []


def test_a_fence_inside_a_code_block_does_not_end_it(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        talk = await Talk.begin(journal, "s1", time=NOON)
        run = talk.prompt("```\nfenced\n```")
        output = [{"type": "content", "content": {"type": "text", "text": "has ```` here"}}]
        talk.tool("t1", title="write", status="completed", content=output)
        talk.end(run)
        await talk.commit()

    edit_journal(cli, work)
    out = cli("sessions", "export", "s1", "--format", "markdown").out
    assert "\n> ```\n> fenced\n> ```\n" in out
    assert "\n`````text\nhas ```` here\n`````\n" in out


# -- going on, and the end


def test_a_resumed_session_gets_another_run(cli: Cli) -> None:
    assert cli("run", "hello").code == 0
    before = listed(cli)[0]
    done = cli("sessions", "resume", before["id"][:6], "plan")
    assert done.code == 0, done.err
    after = listed(cli)
    assert [(session["id"], session["runs"]) for session in after] == [(before["id"], 2)]
    assert re.findall(r"^› (\w+)$", cli("sessions", "show").out, re.M) == ["hello", "plan"]


def test_without_a_terminal_a_session_is_resumed_only_with_a_prompt(cli: Cli) -> None:
    assert cli("run", "hello").code == 0
    done = cli("sessions", "resume", "-")
    assert (done.code, "needs a terminal" in done.err) == (2, True)


def test_a_deleted_session_is_gone_from_the_files(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "keep01", "hello", "what stays")
        await write_session(journal, "gone02", "hello", "quokkasecret")

    edit_journal(cli, work)
    done = cli("sessions", "delete", "gone")
    assert (done.code, "--yes" in done.err) == (2, True)  # there is no terminal to ask on
    done = cli("sessions", "delete", "--yes", "gone")
    assert (done.code, done.out) == (0, "Deleted 1 session.\n")
    assert [session["id"] for session in listed(cli)] == ["keep01"]
    assert json.loads(cli("sessions", "search", "--json", "quokka").out) == []
    for file in cli.home.iterdir():
        assert b"quokka" not in file.read_bytes()
    assert cli("sessions", "delete", "--yes", "gone").code == 2


def test_on_a_terminal_deletion_needs_confirmation(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "feed01", "the first")
        await write_session(journal, "feed02", "the second")

    edit_journal(cli, work)
    text = shown(cli, 80, "sessions", "delete", "feed01", "feed02", typed=b"n\n")
    assert "the first" in text
    assert "the second" in text
    assert "Delete these 2 sessions permanently? [y/N]" in text
    assert "Nothing was deleted." in text
    assert len(listed(cli)) == 2
    assert "Deleted 1 session" in shown(cli, 80, "sessions", "delete", "feed01", typed=b"y\n")
    assert [session["id"] for session in listed(cli)] == ["feed02"]


def test_a_history_that_the_agent_replays_differently_is_shown_as_a_line(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        talk = await write_session(journal, "s1", "hello")
        request = talk.prompt("go on")
        talk.note(notes.HistoryDiffers((notes.Difference("prompt", recorded="hello"),), 1))
        talk.say("Gladly.")
        talk.end(request)
        await talk.commit()

    edit_journal(cli, work)
    assert '! the agent\'s history differs: it leaves out "hello"\n' in cli("sessions", "show").out
    shown_events = [json.loads(line) for line in cli("sessions", "show", "--json").out.splitlines()]
    [event] = [event for event in shown_events if event["type"] == "history.differs"]
    assert event["differences"] == [{"subject": "prompt", "recorded": "hello"}]


# -- the list on a terminal


def test_at_80_columns_the_list_is_a_table_with_state_and_relative_time(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "feed01", "Explain the parser " * 8, at=time.time() - 9000)

    edit_journal(cli, work)
    heading, row = without_looks(shown(cli, 80, "sessions", "list")).splitlines()
    assert heading.split() == ["id", "last", "used", "agent", "state", "title"]
    assert row.split()[1:6] == ["2", "h", "ago", "demo", "idle"]
    assert row.endswith("…")
    assert "Explain the parser" in row
    narrow = without_looks(shown(cli, 40, "sessions", "list")).splitlines()
    assert (len(narrow), narrow[0].endswith("  2 h ago  idle")) == (3, True)


def test_in_a_pipe_the_list_is_whole_and_has_absolute_times(cli: Cli) -> None:
    async def work(journal: SqliteJournal) -> None:
        await write_session(journal, "feed01", "Explain the parser " * 8, cwd=f"/home/me/{'deep/' * 12}")

    edit_journal(cli, work)
    heading, row = cli("sessions", "list").out.splitlines()
    assert heading.split() == ["id", "last", "used", "agent", "state", "cost", "workspace", "title"]
    assert when(NOON) in row
    assert row.endswith(("Explain the parser " * 8).strip())
    assert "deep/" * 12 in f"{row} "


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3, "just now"), (61, "1 min ago"), (7199, "1 h ago"), (86_400, "1 d ago"), (6 * 86_400, "6 d ago")],
)
def test_times_are_relative(seconds: int, words: str) -> None:
    assert how_long_ago(NOON - seconds, NOON) == words


def test_after_a_week_the_day_is_shown() -> None:
    assert how_long_ago(NOON - 8 * 86_400, NOON) == when(NOON - 8 * 86_400).split()[0]


def test_a_time_that_no_transcript_has_is_unknown() -> None:
    assert how_long_ago(0.0, NOON) == when(0.0) == "unknown"
