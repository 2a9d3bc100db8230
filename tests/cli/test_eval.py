"""`dragoman eval`: tasks on several agents, their outcomes, and what a kill leaves."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.cli.eval import outcome_line, print_table
from dragoman.cli.text import columns
from dragoman.evaluation.fleet import Outcome, compare

from .conftest import TIMEOUT_S, Cli, On, read_until, without_looks

ECHO: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def write_tasks(cli: Cli, *tasks: dict[str, Any]) -> Path:
    path = cli.workspace / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    return path


def outcomes(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def asking(number: int, expected: int | None = None, **more: Any) -> dict[str, Any]:
    """Make a task for the demo agent, which repeats the prompt: the JSON in it is its output."""
    task = {"id": f"t{number}", "prompt": f'{{"n": {number}}}', **more}
    return task if expected is None else {**task, "expected": {"n": expected}}


def test_tasks_are_compared_over_agents(cli: Cli) -> None:
    write_tasks(cli, asking(1, 1), asking(2, 3), {"id": "bad", "prompt": "error"})
    (cli.workspace / "out.json").write_text(json.dumps(ECHO))
    done = cli(
        "eval",
        "-a",
        "demo",
        "--agent-command",
        cli.demo,
        "tasks.jsonl",
        "--schema",
        "out.json",
        "-j",
        "3",
        "--attempts",
        "1",
        "--max-rounds",
        "1",
    )
    assert done.code == 1, done.err
    head, *rows = done.out.splitlines()
    assert head.split() == ["agent", "ok", "wrong", "errors", "rounds", "calls", "tokens", "cost", "time"]
    assert len(rows) == 2
    assert all("1/3" in row for row in rows)
    by_task = {(each["agent"], each["task"]): each for each in outcomes(cli.workspace / "tasks.results.jsonl")}
    assert len(by_task) == 6
    assert [by_task["demo", task]["status"] for task in ("t1", "t2", "bad")] == ["ok", "wrong", "error"]
    assert by_task["demo", "t1"]["output"] == {"n": 1}
    assert by_task["demo", "bad"]["kind"] == "OutputInvalid"
    assert "[6/6]" in done.err


def test_success_is_exit_code_0_and_a_text_is_output_enough(cli: Cli) -> None:
    write_tasks(cli, {"prompt": "hello"})
    done = cli("eval", "-a", "demo", "tasks.jsonl", "-q", "--json")
    assert (done.code, done.err.count("agent")) == (0, 1)  # the table; stdout is for the outcomes
    (line,) = done.out.splitlines()
    assert json.loads(line)["task"] == "1"
    assert json.loads(line)["text"]


def test_finished_tasks_are_skipped_and_one_with_a_truncated_line_is_run_again(cli: Cli) -> None:
    tasks = [asking(1), asking(2), asking(3)]
    write_tasks(cli, *tasks)
    assert cli("eval", "-a", "demo", "tasks.jsonl").code == 0
    file = cli.workspace / "tasks.results.jsonl"
    whole = file.read_bytes()
    first, second, third = whole.splitlines(keepends=True)
    marked = first.replace(b'"status":"ok"', b'"status":"ok","text":"kept"', 1)
    file.write_bytes(marked + second + third[: len(third) // 2])
    write_tasks(cli, tasks[0], {**tasks[1], "prompt": "another"}, tasks[2])
    done = cli("eval", "-a", "demo", "tasks.jsonl")
    assert done.code == 0, done.err
    assert "2 to do, 1 already done" in done.err
    assert file.read_bytes().startswith(marked + second)
    assert sorted(each["task"] for each in outcomes(file)) == ["t1", "t2", "t2", "t3"]
    assert "3/3" in done.out


def test_errors_are_run_again_on_request(cli: Cli) -> None:
    write_tasks(cli, {"prompt": "error"}, {"prompt": "hello"})
    assert cli("eval", "-a", "demo", "tasks.jsonl", "--attempts", "1").code == 1
    second = cli("eval", "-a", "demo", "tasks.jsonl")
    assert "nothing to do: all 2 are done" in second.err
    assert "1 ended with an error; use --redo-errors to run them again" in second.err
    again = cli("eval", "-a", "demo", "tasks.jsonl", "--attempts", "1", "--redo-errors")
    assert "1 to do, 1 already done" in again.err
    assert len(outcomes(cli.workspace / "tasks.results.jsonl")) == 3
    assert "1/2" in again.out


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_kill_keeps_finished_tasks_and_leaves_no_process(cli: Cli, number: signal.Signals) -> None:
    agent = cli.holding()
    lifeline = os.open(cli.lifeline, os.O_RDONLY | os.O_NONBLOCK)
    write_tasks(cli, {"id": "quick", "prompt": "hello"}, {"id": "slow", "prompt": "sleep 1000"})
    process = cli.start("eval", "--agent-command", agent, "tasks.jsonl", "--json", "-j", "1")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"\n")
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    os.set_blocking(lifeline, True)
    cli.wait_until_all_are_gone(lifeline)
    assert [each["task"] for each in outcomes(cli.workspace / "tasks.results.jsonl")] == ["quick"]
    if number != signal.SIGKILL:  # which cannot be handled
        assert process.stderr is not None
        assert b"dragoman: 1 left to do; run the same command again to continue" in process.stderr.read()
    write_tasks(cli, {"id": "quick", "prompt": "hello"}, {"id": "slow", "prompt": "hello again"})
    done = cli("eval", "--agent-command", agent, "tasks.jsonl")
    os.close(lifeline)
    assert "1 to do, 1 already done" in done.err
    assert (done.code, done.out.split().count("2/2")) == (0, 1)


@pytest.mark.slow
def test_after_repeated_kills_each_task_is_done_once(cli: Cli) -> None:
    write_tasks(cli, *(asking(number, number) for number in range(8)))
    (cli.workspace / "out.json").write_text(json.dumps(ECHO))
    command = ("eval", "-a", "demo", "tasks.jsonl", "--schema", "out.json", "--json", "-j", "3")
    for _ in range(2):
        process = cli.start(*command)
        assert process.stdout is not None
        for _ in range(2):
            read_until(process.stdout.fileno(), b"\n")
        process.kill()
        assert process.wait(TIMEOUT_S) == -signal.SIGKILL
    done = cli(*command)
    assert done.code == 0, done.err
    found = outcomes(cli.workspace / "tasks.results.jsonl")
    assert sorted((each["task"], each["output"]["n"]) for each in found) == [(f"t{n}", n) for n in range(8)]
    assert len(done.out.splitlines()) <= 4  # tasks with an outcome were skipped


def test_two_evaluations_of_one_file_at_once_are_refused(cli: Cli) -> None:
    write_tasks(cli, {"id": "quick", "prompt": "hello"}, {"id": "slow", "prompt": "sleep 1000"})
    process = cli.start("eval", "-a", "demo", "tasks.jsonl", "--json")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"\n")
    second = cli("eval", "-a", "demo", "tasks.jsonl")
    assert second.code == 2
    assert "another dragoman eval is writing" in second.err
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 130


def test_on_a_terminal_the_progress_is_shown(cli: Cli, on_terminal: On) -> None:
    write_tasks(cli, asking(1), {"id": "bad", "prompt": "error"})
    terminal = on_terminal("eval", "-a", "demo", "tasks.jsonl", "--attempts", "1")
    output = without_looks(terminal.rest())
    assert terminal.code() == 1
    assert "2/2" in output
    assert "error bad" in output
    assert "1 ok 1 error" in output


def test_a_wrong_output_is_shown_beside_the_expected_one(cli: Cli) -> None:
    write_tasks(cli, asking(1, 2), {"prompt": '{"value": null}', "schema": {"type": "null"}, "expected": None})
    (cli.workspace / "out.json").write_text(json.dumps(ECHO))
    done = cli("eval", "-a", "demo", "tasks.jsonl", "--schema", "out.json")
    assert re.search(r'wrong t1 \([0-9.]+ s\): {"n":1}, expected {"n":2}\n', done.err)
    wrong, null = outcomes(cli.workspace / "tasks.results.jsonl")
    assert (wrong["status"], wrong["expected"]) == ("wrong", {"n": 2})
    assert (null["status"], null.get("output")) == ("ok", None)


@pytest.mark.parametrize("width", [80, 120, 500])
def test_a_wrong_line_shows_both_outputs_however_long_they_are(width: int) -> None:
    got, expected = {"got": "a" * 1000}, {"right": "b" * 1000}
    outcome = Outcome(task="t1", agent="demo", digest="", status="wrong", output=got, expected=expected)
    line = outcome_line(outcome, width=width)
    assert columns(line) <= width
    assert re.match(r'wrong demo t1 \([0-9.]+ s\): {"got":"a+…, expected {"right":"b+…$', line)
    # A short output leaves its room to the other one.
    short = outcome_line(msgspec.structs.replace(outcome, output=1), width=width)
    assert columns(short) == width
    assert ": 1, expected {" in short
    right = outcome_line(msgspec.structs.replace(outcome, expected=2), width=width)
    assert columns(right) == width
    assert right.endswith("…, expected 2")


def test_a_long_task_id_leaves_room_for_the_expected_output() -> None:
    outcome = Outcome(task="t" * 300, agent="demo", digest="", status="wrong", text="long text " * 50, expected="right")
    assert outcome_line(outcome, width=160).endswith(', expected "right"')


def test_on_a_terminal_a_long_wrong_output_does_not_hide_the_expected_one(cli: Cli, on_terminal: On) -> None:
    write_tasks(cli, {"id": "t1", "prompt": "long " * 200, "expected": "right"})
    terminal = on_terminal("eval", "-a", "demo", "tasks.jsonl")
    output = without_looks(terminal.rest())
    assert terminal.code() == 1
    assert re.search(r'wrong t1 \([0-9.]+ s\):.*…,\s+expected\s+"right"', output, re.DOTALL)


def test_a_long_command_line_leaves_every_figure_in_the_table(cli: Cli, on_terminal: On) -> None:
    write_tasks(cli, asking(1))
    terminal = on_terminal("eval", "--agent-command", f"{cli.demo} {'x' * 100}", "tasks.jsonl", "--attempts", "1")
    output = without_looks(terminal.rest())
    terminal.code()
    assert re.search(r"agent +ok +wrong +errors +rounds +calls +tokens +cost +time", output)


def test_functions_are_found_by_name(cli: Cli) -> None:
    module = 'print("no outcome")\n\n\ndef lookup(sku: str) -> int:\n    "How many."\n    return 3\n'
    (cli.workspace / "catalogue.py").write_text(module)
    write_tasks(cli, {"prompt": "mcp"})
    for where in ("catalogue:lookup", "catalogue.py:lookup"):
        done = cli("eval", "-a", "demo", "tasks.jsonl", "--tools", where, "--json", "--out", where.replace(":", "-"))
        assert done.code == 0, done.err
        assert "dragoman" in json.loads(done.out)["text"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "none.jsonl"),
        (["tasks.jsonl", "-a", "nobody"], "nobody"),
        (["tasks.jsonl", "--tools", "catalogue:none"], "catalogue cannot be loaded"),
        (["tasks.jsonl", "--budget", "coins=3"], "coins"),
        (["tasks.jsonl", "--budget", "tokens=-3"], "more than 0"),
        (["tasks.jsonl", "--deadline", "soon"], "deadline"),
        (["tasks.jsonl", "--access", "all"], "access"),
        (["tasks.jsonl", "--cwd", "nowhere"], "nowhere does not exist"),
        (["tasks.jsonl", "--tools", "shop:lookup", "--tools", "shop:lookup"], "two tools"),
        (["tasks.jsonl", "--out", "/dev/zero"], "/dev/zero is not a regular file"),
        (["tasks.jsonl", "--schema", "tasks.jsonl"], "--schema"),
        (["bad.jsonl"], "bad.jsonl:2"),
        (["twice.jsonl"], "twice.jsonl:2: there is another task"),
    ],
)
def test_bad_input_is_found_before_any_agent_is_started(cli: Cli, arguments: list[str], message: str) -> None:
    write_tasks(cli, {"prompt": "hello"}, {"prompt": "hello"})
    (cli.workspace / "shop.py").write_text("def lookup(sku: str) -> int: ...\n")
    (cli.workspace / "bad.jsonl").write_text('{"prompt": "a"}\n{"promt": "b"}\n')
    (cli.workspace / "twice.jsonl").write_text('{"prompt": "a", "id": "x"}\n{"prompt": "b", "id": "x"}\n')
    done = cli("eval", *arguments)
    assert done.code == 2, done.err
    assert message in done.err
    assert not list(cli.workspace.glob("*.results.jsonl"))


class NarrowTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_comparison_keeps_every_figure_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal = NarrowTerminal()
    outcome = Outcome(task="t1", agent="demo", digest="d", status="ok", rounds=1, seconds=0.5)
    print_table(compare([outcome], ["demo"]), terminal)
    assert terminal.getvalue().splitlines() == [
        "demo",
        "  ok 1/1, wrong 0, errors 0,",
        "  rounds 1.0, calls 0, tokens —,",
        "  cost —, time 0.5 s",
    ]
