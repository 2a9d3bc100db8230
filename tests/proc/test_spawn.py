from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from pathlib import Path

import pytest

from dragoman.errors import CommandNotExecutable, CommandNotFound, ExitedAtStart, InputError, StartError
from dragoman.proc.process import ProcessLink
from dragoman.proc.spawn import spawn, start_failure

from .conftest import TIMEOUT_S, Agents, needs_proc


async def start(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> ProcessLink:
    return await spawn(command, cwd=cwd, env=dict(os.environ) if env is None else env, name="test", install="get it")


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


async def all_of(link: ProcessLink) -> bytes:
    got = b""
    async with asyncio.timeout(TIMEOUT_S):
        while data := await link.read():
            got += data
    return got


async def test_bytes_go_both_ways(agents: Agents) -> None:
    link = await agents.start("while data := os.read(0, 65536): os.write(1, data.upper())")
    link.write(b"hello ")
    assert await link.read() == b"HELLO "
    link.write(b"world")
    link.close()
    assert await all_of(link) == b"WORLD"
    assert await link.wait() == 0
    assert link.exit_code == 0


async def test_the_agent_runs_in_its_folder_with_exactly_its_environment(tmp_path: Path, agents: Agents) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    code = "import os; print(os.getcwd(), os.environ.pop('PWD'), os.environ.pop('DRAGOMAN_REAP'), dict(os.environ))"
    link = await start(
        sys.executable, "-I", "-S", "-c", code, cwd=tmp_path / "link", env={"A": "ä", "LC_ALL": "C.UTF-8"}
    )
    agents.links.append(link)
    expected = f"{folder} {tmp_path / 'link'} {link.marker} {{'A': 'ä', 'LC_ALL': 'C.UTF-8'}}\n"
    assert (await all_of(link)).decode() == expected


async def test_the_agent_leads_a_session_of_its_own(agents: Agents) -> None:
    link = await agents.start("print(os.getpid() == os.getsid(0) == os.getpgid(0))")
    assert await all_of(link) == b"True\n"


@needs_proc
async def test_the_agent_inherits_no_descriptor_but_its_three(agents: Agents) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        link = await agents.start("print(sorted(int(n) for n in os.listdir('/proc/self/fd')))")
        # The fourth is the listing itself.
        assert await all_of(link) == b"[0, 1, 2, 3]\n"
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_program_that_is_nowhere_is_not_found_and_the_error_says_how_to_get_it() -> None:
    with pytest.raises(CommandNotFound, match="no-such-agent --acp") as caught:
        await start("no-such-agent", "--acp", env={"PATH": "/nowhere"})
    assert caught.value.guidance == "Install it: get it"


async def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(CommandNotFound, match=str(tmp_path / "bin" / "agent")):
        await start("./bin/agent", cwd=tmp_path)


async def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    path = script(tmp_path / "agent", "#!/no/such/interpreter\n")
    with pytest.raises(CommandNotFound, match="#!/no/such/interpreter"):
        await start(str(path))


@pytest.mark.parametrize("exists", [True, False])
async def test_a_missing_folder_is_not_a_missing_program(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "gone"
    with pytest.raises(InputError, match=f"{folder} does not exist"):
        await start(sys.executable if exists else "no-such-agent", cwd=folder)


async def test_a_file_is_no_folder_to_work_in(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        await start(sys.executable, cwd=script(tmp_path / "file", ""))


async def test_a_file_without_the_right_may_not_be_run(tmp_path: Path) -> None:
    with pytest.raises(CommandNotExecutable, match="cannot be run"):
        await start(str(script(tmp_path / "agent", "#!/bin/sh\n", 0o644)))


async def test_a_folder_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(CommandNotExecutable, match="is a folder"):
        await start(str(tmp_path))


async def test_a_file_of_an_unknown_format_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(CommandNotExecutable, match="#!"):
        await start(str(script(tmp_path / "agent", "no interpreter named\n")))


async def test_too_long_an_argument_is_explained() -> None:
    with pytest.raises(StartError, match="more arguments or environment"):
        await start(sys.executable, "x" * 10_000_000)


@pytest.mark.parametrize(
    ("command", "env"),
    [
        ((), {}),
        (("",), {}),
        (("agent\0",), {}),
        (("/bin/true", "lone \ud800"), {}),
        (("/bin/true",), {"A=B": "c"}),
        (("/bin/true",), {"A": "nul \0"}),
    ],
)
async def test_what_cannot_be_passed_on_is_the_callers_mistake(command: tuple[str, ...], env: dict[str, str]) -> None:
    with pytest.raises(InputError):
        await start(*command, env=env)


@needs_proc
async def test_a_failed_start_leaks_no_descriptor(tmp_path: Path) -> None:
    await failing(tmp_path)
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        await failing(tmp_path)
    assert os.listdir("/proc/self/fd") == before


async def failing(folder: Path) -> None:
    for command, cwd in ((("no-such-agent",), None), (("/bin/true",), folder / "gone"), (("a\0b",), None)):
        with pytest.raises((StartError, InputError)):
            await start(*command, cwd=cwd)


async def test_many_open_files_are_named_as_the_cause() -> None:
    resource = pytest.importorskip("resource")
    (await (await start("/bin/true")).end())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 3, hard))
    try:
        with pytest.raises(StartError, match="too many open files"):
            await start("/bin/true")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def failed_start(agents: Agents, body: str) -> StartError:
    link = await agents.start(body)
    async with asyncio.timeout(TIMEOUT_S):
        await link.wait()
    return start_failure(link, "get it")


async def test_exit_127_is_a_program_not_found(agents: Agents) -> None:
    error = await failed_start(agents, "print('env: node: No such file', file=sys.stderr); sys.exit(127)")
    assert isinstance(error, CommandNotFound)
    assert "env: node: No such file" in str(error)
    assert error.guidance == "Install it: get it"
    assert error.exit_code == 127


async def test_exit_126_is_a_program_not_executable(agents: Agents) -> None:
    error = await failed_start(agents, "sys.exit(126)")
    assert isinstance(error, CommandNotExecutable)
    assert "stderr is empty" in str(error)


async def test_another_exit_shows_command_code_and_last_lines(agents: Agents) -> None:
    error = await failed_start(agents, "print('first\\nlast', file=sys.stderr); sys.exit(3)")
    assert isinstance(error, ExitedAtStart)
    assert sys.executable in str(error)
    assert "exit code 3" in str(error)
    assert "first\nlast" in str(error)
    assert error.stderr == "first\nlast"
    assert error.exit_code == 3


async def test_a_death_by_signal_names_the_signal(agents: Agents) -> None:
    error = await failed_start(agents, "os.kill(os.getpid(), signal.SIGSEGV)")
    assert isinstance(error, ExitedAtStart)
    assert "SIGSEGV" in str(error)


async def test_an_end_without_a_complaint_is_a_failed_start_too(agents: Agents) -> None:
    error = await failed_start(agents, "pass")
    assert isinstance(error, ExitedAtStart)
    assert "exit code 0" in str(error)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="needs a pipe that holds more than one read takes")
async def test_all_that_it_printed_to_stderr_before_its_end_is_in_the_error(agents: Agents) -> None:
    link = await agents.start("""
import fcntl
fcntl.fcntl(2, fcntl.F_SETPIPE_SZ, 1024 * 1024)
os.write(2, b"line\\n" * 100_000 + b"the cause")
os._exit(1)
""")
    wait_for_death(link.pid)  # the loop hears of the exit and of the first bytes at the same time
    async with asyncio.timeout(TIMEOUT_S):
        await link.wait()
    assert start_failure(link).stderr.endswith("line\nthe cause")


def wait_for_death(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
