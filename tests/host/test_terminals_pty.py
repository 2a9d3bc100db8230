"""`Terminals`: commands on a real terminal, what is shown of them, and the odd things that commands do."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.terminal.output import Chunk
from dragoman.host.terminal.terminal import ReadThrottle
from dragoman.host.terminal.terminals import terminal_options
from dragoman.record.notes import TerminalExited
from dragoman.testing.leaks import nothing_left
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace

from .conftest import TIMEOUT_S, Agent, Build, Commands, Make
from .running import PIPES, Lifeline, create, everything, output, ran, until, wait

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@pytest.fixture
def agent(agent_with: Build) -> Agent:
    return agent_with(access="full")


@pytest.fixture
def lifeline(tmp_path: Path) -> Lifeline:
    return Lifeline(tmp_path / "lifeline")


@contextmanager
def fifo(path: Path) -> Iterator[Callable[[], object]]:
    """Create a named pipe; a command that reads a line from it waits until the returned function is called."""
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)  # to write only would wait for the reader
    try:
        yield lambda: os.write(descriptor, b"go\n")
    finally:
        os.close(descriptor)


# -- a terminal or pipes

ASK = "for n in 0 1 2; do test -t $n && echo $n; done; true"


async def test_a_command_has_a_terminal_but_nothing_to_read(agent: Agent) -> None:
    assert (await ran(agent, ASK))["output"] == "1\n2\n"


async def test_the_agent_can_ask_for_pipes(agent: Agent, make: Make) -> None:
    assert (await ran(agent, ASK, _meta=PIPES))["output"] == ""
    commands = make(pty=False)
    assert not (await commands.start(ASK)).has_pty
    assert (await commands.start(ASK, meta={"dragoman": {"pty": True}})).has_pty


@pytest.mark.parametrize(
    "meta", [None, {}, {"dragoman": None}, {"dragoman": []}, {"dragoman": {"pty": "no"}}, {"x": 1}]
)
def test_what_is_no_wish_is_passed_over(meta: dict[str, object] | None) -> None:
    assert terminal_options(meta) == terminal_options({})


async def test_where_there_are_no_terminals_a_command_runs_on_pipes(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> tuple[int, int]:
        raise OSError(errno.ENOSPC, "out of pty devices")

    monkeypatch.setattr(os, "openpty", none)
    terminal = await commands.start("echo runs")
    await terminal.wait()
    assert await terminal.output() == ("runs\n", False)


async def test_its_size_is_the_usual_or_the_wished(agent: Agent, make: Make) -> None:
    size = "stty size </dev/tty"
    assert (await ran(agent, size))["output"] == "24 80\n"
    wish = {"dragoman": {"columns": 132, "rows": 50}}
    assert (await ran(agent, size, _meta=wish))["output"] == "50 132\n"
    terminal = await make(columns=100, rows=30).start(size)
    await terminal.wait()
    assert (await terminal.output())[0] == "30 100\n"


async def test_a_command_gets_the_type_and_size_of_its_own_terminal(agent_with: Build) -> None:
    environ = {"PATH": os.environ["PATH"], "TERM": "dumb", "COLUMNS": "7", "LINES": "7", "PAGER": "less"}
    agent = agent_with(access="full", environ=environ)
    ask = 'echo "$TERM,$COLUMNS,$LINES,$PAGER,$GIT_PAGER,$GIT_TERMINAL_PROMPT,$GIT_EDITOR"'
    assert (await ran(agent, ask))["output"] == "xterm-256color,,,cat,cat,0,true\n"
    given = [{"name": name, "value": "x"} for name in ("TERM", "COLUMNS", "LINES", "PAGER", "GIT_EDITOR")]
    assert (await ran(agent, ask, env=given))["output"] == "x,x,x,x,cat,0,x\n"
    assert (await ran(agent, ask, _meta=PIPES))["output"] == "dumb,7,7,less,,,\n"


async def test_a_terminal_can_be_typed_on_and_resized(commands: Commands) -> None:
    script = (
        "trap 'echo stopped; exit 5' INT; stty size </dev/tty; read line </dev/tty; echo got $line; read x </dev/tty"
    )
    terminal = await commands.start(script)
    await until(terminal, b"24 80")
    terminal.resize(90, 20)
    await terminal.write(b"hello\n")
    await until(terminal, b"got hello")
    await terminal.write(b"\x03")
    async with asyncio.timeout(TIMEOUT_S):
        assert (await terminal.wait()).exit_code == 5
    assert (await terminal.output())[0].splitlines()[:3] == ["24 80", "hello", "got hello"]


# -- what is seen of it


async def test_a_person_sees_the_colours_and_the_agent_the_words(commands: Commands) -> None:
    terminal = await commands.start(r"printf '\033[31mred\033[0m\n10%%\r20%%\n'")
    await terminal.wait()
    assert await terminal.output() == ("red\n20%\n", False)
    assert await everything(terminal) == [Chunk(0, b"\x1b[31mred\x1b[0m\r\n10%\r20%\r\n")]


async def test_pipes_give_what_was_written(agent: Agent) -> None:
    assert (await ran(agent, r"printf 'a\r\n\033[1mb'", _meta=PIPES))["output"] == "a\r\n\x1b[1mb"


async def test_any_number_may_follow_from_any_offset_until_the_end(commands: Commands, tmp_path: Path) -> None:
    with fifo(tmp_path / "go") as go:
        terminal = await commands.start("echo one; read x <go; echo two")
        await until(terminal, b"one")
        followers = [asyncio.create_task(everything(terminal, after)) for after in (0, 0, 3, 5)]
        go()
        seen = [b"".join(chunk.data for chunk in await follower) for follower in followers]
    assert seen == [b"one\r\ntwo\r\n"] * 2 + [b"\r\ntwo\r\n", b"two\r\n"]


async def test_half_a_character_is_not_shown_before_its_rest(commands: Commands, tmp_path: Path) -> None:
    with fifo(tmp_path / "go") as go:
        terminal = await commands.start(r"printf 'a\303'; read x <go; printf '\244b'")
        await until(terminal, b"\xc3")
        assert await terminal.output() == ("a", False)
        go()
        await terminal.wait()
    assert await terminal.output() == ("aäb", False)


@pytest.mark.parametrize("meta", [None, PIPES])
async def test_output_that_is_no_text_comes_as_text(commands: Commands, meta: dict[str, Any] | None) -> None:
    terminal = await commands.start(
        sys.executable, "-c", "import os\nfor n in range(99): os.write(1, os.urandom(999))", meta=meta
    )
    await terminal.wait()
    text, _ = await terminal.output()
    assert text.encode().decode() == text
    if meta:
        assert terminal.total_bytes == 99 * 999


# -- how it ends


async def test_the_exit_is_reported_once_with_the_end_of_the_output(make: Make) -> None:
    heard: list[TerminalExited] = []
    commands = make(on_exit=lambda terminal: heard.append(terminal.summary(9)))
    terminal = await commands.start("sh", "-c", "echo first; echo; echo last; exit 3")
    assert terminal.summary().exit_code is None
    await terminal.wait()
    await commands.release(terminal)
    assert heard == [
        TerminalExited(
            terminal.id,
            exit_code=3,
            output="st\n\nlast\n",
            output_bytes=len(b"first\r\n\r\nlast\r\n"),
            truncated=True,
        )
    ]
    assert terminal.summary().output == "first\n\nlast\n"


async def test_every_exit_is_reported_before_close_returns(make: Make) -> None:
    heard: list[str | None] = []
    commands = make(on_exit=lambda terminal: heard.append(terminal.summary().signal))
    for _ in range(3):
        await commands.start("exec sleep 1000")
    async with asyncio.timeout(TIMEOUT_S):
        await commands.terminals.close()
    assert heard == ["SIGTERM"] * 3


async def test_what_stays_in_the_background_holds_nobody_up_and_is_still_heard(
    agent: Agent, workspace: Workspace, lifeline: Lifeline
) -> None:
    with fifo(workspace.cwd / "go") as go:
        script = (
            f'(exec 9>"{lifeline.path}"; echo child >&9; read x <go; echo late; echo said >&9; read x <go) & exit 4'
        )
        terminal = await create(agent, script)
        listening = asyncio.create_task(lifeline.listen(2))
        assert await wait(agent, terminal) == {"exitCode": 4}
        assert (await output(agent, terminal))["output"] == ""
        go()
        reader = await listening
        followed = agent.host.terminal(terminal)
        assert followed is not None
        await until(followed, b"late\r\n")
        assert await output(agent, terminal) == {"output": "late\n", "truncated": False, "exitStatus": {"exitCode": 4}}
        await agent.ask("terminal/release", terminalId=terminal)
        await reader.read()
    lifeline.transport.close()


async def test_the_output_is_complete_when_the_exit_is_reported_even_if_read_slowly(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read = asyncio.Event()

    async def held_up(turns: ReadThrottle, size: int) -> None:
        await may_read.wait()

    monkeypatch.setattr(ReadThrottle, "after_read", held_up)
    monkeypatch.setattr("dragoman.host.terminal.terminal.LATE_OUTPUT_GRACE_S", 0.0)
    terminal = await commands.start("head -c 6000 /dev/zero; sleep 1000 & exit 0")
    waiting = asyncio.create_task(terminal.wait())
    async with asyncio.timeout(TIMEOUT_S):
        await terminal._process.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waiting.done()
        may_read.set()
        assert (await waiting).exit_code == 0
    assert terminal.total_bytes == 6000


@pytest.mark.parametrize("meta", [{}, PIPES])
async def test_a_flood_from_the_background_holds_nobody_up(agent: Agent, meta: dict[str, Any]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        terminal = await create(agent, "echo mine; yes & exit 6", _meta=meta, outputByteLimit=1000)
        assert await wait(agent, terminal) == {"exitCode": 6}
        assert len((await output(agent, terminal))["output"]) <= 1000
        await agent.ask("terminal/kill", terminalId=terminal)


async def test_a_command_that_ignores_every_polite_signal_is_ended(agent: Agent, lifeline: Lifeline) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        script = f"trap '' TERM HUP INT; exec 9>'{lifeline.path}'; echo ready >&9; while :; do sleep 1000; done"
        terminal = await create(agent, script)
        reader = await lifeline.listen(1)
        await agent.ask("terminal/release", terminalId=terminal)
        await reader.read()
    lifeline.transport.close()


async def test_a_daemon_that_left_group_session_and_terminal_is_ended(agent: Agent, lifeline: Lifeline) -> None:
    daemon = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
line = os.open(sys.argv[1], os.O_WRONLY)
for fd in (0, 1, 2): os.close(fd)
os.write(line, b"daemon\\n")
time.sleep(1000)
"""
    async with asyncio.timeout(TIMEOUT_S):
        terminal = await create(agent, sys.executable, "-c", daemon, str(lifeline.path))
        reader = await lifeline.listen(1)
        assert await wait(agent, terminal) == {"exitCode": 0}
        await agent.host.close()
        await reader.read()
    lifeline.transport.close()


async def test_one_that_nobody_can_find_holds_up_no_release(commands: Commands) -> None:
    """A process that left its group and its environment, and has the terminal open."""
    hide = """
import os
if child := os.fork():
    print(child, flush=True)
else:
    os.setsid()
    os.execve("/bin/sleep", ["sleep", "1000"], {})
"""
    terminal = await commands.start(sys.executable, "-c", hide)
    child = int(await until(terminal, b"\n"))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            assert (await terminal.wait()).exit_code == 0
            await commands.release(terminal)
        assert await everything(terminal) == [Chunk(0, b"%d\r\n" % child)]
    finally:
        os.kill(child, signal.SIGKILL)


async def test_a_withdrawn_wait_is_not_the_commands_end(commands: Commands) -> None:
    terminal = await commands.start("exec sleep 1000")
    waits = [asyncio.create_task(terminal.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    waits[0].cancel()
    await asyncio.wait({waits[0]})
    assert terminal.exit_status is None
    async with asyncio.timeout(TIMEOUT_S):
        await terminal.end()
        assert (await waits[1]).signal == "SIGTERM"


# -- what cannot be started


async def test_more_arguments_than_the_system_passes_on_are_refused(agent: Agent) -> None:
    error = await agent.refused("terminal/create", command="echo", args=["x" * 3_000_000])
    assert error.code == -32602
    assert error.message.startswith("command: 'echo' has more or longer arguments")


async def test_a_folder_that_has_gone_meanwhile_is_named(agent_with: Build, workspace: Workspace) -> None:
    folder = workspace.cwd / "sub"
    folder.mkdir()

    def remove(_: object) -> bool:
        folder.rmdir()
        return True

    error = await agent_with(on_permission=remove).refused("terminal/create", command="pwd", cwd=str(folder))
    assert error.code == -32602
    assert f"{folder} does not exist" in error.message


async def test_a_program_that_the_system_cannot_run_says_so_in_its_output(agent: Agent, workspace: Workspace) -> None:
    script = workspace.cwd / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    terminal = await create(agent, "./script")
    assert (await wait(agent, terminal))["exitCode"] in (126, 127)
    assert "script" in (await output(agent, terminal))["output"]


@needs_proc
async def test_what_is_refused_leaves_nothing(agent: Agent) -> None:
    async with nothing_left():
        await agent.refused("terminal/create", command="echo", args=["x" * 3_000_000])


async def test_nothing_starts_once_the_session_closes(commands: Commands) -> None:
    await commands.start("exec sleep 1000")
    closing = asyncio.create_task(commands.terminals.close())
    await asyncio.sleep(0)
    with pytest.raises(RpcRefusal, match="closed"):
        await commands.start("true")
    async with asyncio.timeout(TIMEOUT_S):
        await closing
