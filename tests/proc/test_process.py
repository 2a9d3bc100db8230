from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from dragoman.proc._reaper_main import marked_processes
from dragoman.proc.link import AgentLink
from dragoman.proc.pipes import HIGH_WATER_BYTES
from dragoman.proc.process import ProcessLink
from dragoman.proc.reaper import reaper
from dragoman.testing.clock import ManualClock

from .conftest import TIMEOUT_S, Agents, Lifeline, needs_proc


class Lines:
    """A listener on stderr that one can wait on."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, line: str) -> None:
        self.lines.put_nowait(line)

    async def next(self) -> str:
        async with asyncio.timeout(TIMEOUT_S):
            return await self.lines.get()


@pytest.fixture(params=["pidfd", "waitid in a thread", "waitpid in a thread"])
def way_of_waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with each way to watch for an exit, for platforms that lack one."""
    if request.param != "pidfd":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    if request.param == "waitpid in a thread":
        monkeypatch.delattr(os, "waitid", raising=False)
    return str(request.param)


# Exit codes and death


@pytest.mark.usefixtures("way_of_waiting")
@pytest.mark.parametrize(
    ("body", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGKILL)", -9), ("pass", 0)]
)
async def test_the_exit_code_is_that_of_subprocess(agents: Agents, body: str, code: int) -> None:
    link = await agents.start(body)
    async with asyncio.timeout(TIMEOUT_S):
        assert await link.wait() == code
        assert await link.end() == code
    assert link.exit_code == code


@pytest.mark.usefixtures("way_of_waiting")
async def test_death_while_idle_is_noticed_though_a_grandchild_holds_the_pipes(agents: Agents) -> None:
    link = await agents.start(
        "live('agent'); child('live(\"grandchild\"); print(\"here\", flush=True); rest()'); rest()"
    )
    await agents.hear(2)
    assert await link.read() == b"here\n"
    reading = asyncio.ensure_future(link.read())
    os.kill(link.pid, signal.SIGKILL)
    async with asyncio.timeout(TIMEOUT_S):
        assert await link.wait() == -signal.SIGKILL
        # The grandchild never closes stdout, but reading ends all the same.
        assert await reading == b""
        assert await link.read() == b""
        await link.end()
    await agents.silence()


async def test_what_the_agent_wrote_before_its_death_is_read_after_it(agents: Agents) -> None:
    link = await agents.start("child('live(\"grandchild\"); rest()'); os.write(1, b'x' * 60000); os._exit(3)")
    async with asyncio.timeout(TIMEOUT_S):
        assert await link.wait() == 3
        await agents.hear(1)
        await link.end()
        assert len(await link.read()) == 60000
        assert await link.read() == b""


async def test_all_waiters_return_and_a_cancelled_one_disturbs_no_other(agents: Agents) -> None:
    link = await agents.start("until_stdin_ends(); sys.exit(5)")
    waiting = [asyncio.ensure_future(link.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    link.close()
    async with asyncio.timeout(TIMEOUT_S):
        assert await waiting[0] == 5
        assert await waiting[2] == 5


# Pressure


async def test_an_agent_that_is_not_read_waits(agents: Agents) -> None:
    stderr_lines = Lines()
    body = """
import select
os.set_blocking(1, False)
os.write(1, b"x")
os.read(0, 1)
sent = 0
while True:
    try:
        sent += os.write(1, b"x" * 4096)
    except BlockingIOError:
        print("full", sent, file=sys.stderr, flush=True)
        select.select([], [1], [])
        print("room", file=sys.stderr, flush=True)
        break
"""
    link = await agents.start(body, on_stderr=stderr_lines)
    assert await link.read() == b"x"
    link.write(b"!")
    word, sent = (await stderr_lines.next()).split()
    assert word == "full"
    assert int(sent) <= 1024 * 1024
    assert stderr_lines.lines.empty()
    got = 0
    while data := await link.read():
        got += len(data)
    assert got == int(sent)
    assert await stderr_lines.next() == "room"


async def test_drain_holds_back_while_the_agent_does_not_read_and_returns_when_it_dies(agents: Agents) -> None:
    link = await agents.start("live('agent'); rest()")
    await agents.hear(1)
    link.write(b"x" * (HIGH_WATER_BYTES * 4))
    draining = asyncio.ensure_future(link.drain())
    done, _ = await asyncio.wait({draining}, timeout=0)
    assert not done
    link.kill()
    async with asyncio.timeout(TIMEOUT_S):
        await draining
    link.write(b"nobody is there")
    await link.drain()


async def test_drain_returns_when_the_agent_dies_though_a_grandchild_holds_its_stdin(agents: Agents) -> None:
    link = await agents.start("live('agent'); child('live(\"grandchild\"); rest()'); rest()")
    await agents.hear(2)
    link.write(b"x" * (HIGH_WATER_BYTES * 4))
    os.kill(link.pid, signal.SIGKILL)
    async with asyncio.timeout(TIMEOUT_S):
        await link.drain()


async def test_a_large_message_arrives_whole_at_a_slow_reader(agents: Agents) -> None:
    link = await agents.start("""
import hashlib
digest = hashlib.sha256()
while data := os.read(0, 1000):
    digest.update(data)
print(digest.hexdigest())
""")
    data = os.urandom(3_000_000)
    link.write(data)
    await link.drain()
    link.close()
    async with asyncio.timeout(TIMEOUT_S):
        assert (await link.read()).decode().strip() == hashlib.sha256(data).hexdigest()


async def test_ten_megabytes_of_stderr_never_block_the_agent_and_are_not_stored(agents: Agents) -> None:
    link = await agents.start("""
for number in range(100):
    os.write(2, (b"%d " % number) * 10 + b"y" * 100_000 + b"\\n")
    os.write(2, b"short\\n" * 1000)
print("through")
""")
    async with asyncio.timeout(TIMEOUT_S):
        assert await link.read() == b"through\n"
        await link.wait()
    assert link.stderr.total_bytes > 10_000_000
    assert len(link.stderr.text(lines=10**9)) < 200_000
    assert link.stderr.text(lines=2) == "short\nshort"


async def test_stderr_lines_are_reported_live(agents: Agents) -> None:
    stderr_lines = Lines()
    link = await agents.start(
        """
print("downloading", file=sys.stderr, flush=True)
os.read(0, 1)
print("ready", end="", file=sys.stderr, flush=True)
until_stdin_ends()
""",
        on_stderr=stderr_lines,
    )
    assert await stderr_lines.next() == "downloading"
    assert link.exit_code is None
    link.write(b"!")
    await link.end()
    assert await stderr_lines.next() == "ready"


# The end


@pytest.mark.usefixtures("way_of_waiting")
async def test_a_polite_agent_ends_by_itself_when_its_stdin_ends(agents: Agents) -> None:
    link = await agents.start("live('agent'); until_stdin_ends(); sys.exit(4)")
    await agents.hear(1)
    assert await link.end(grace=TIMEOUT_S) == 4
    await agents.silence()


@pytest.mark.usefixtures("way_of_waiting")
async def test_an_agent_that_ignores_the_end_of_stdin_gets_sigterm(agents: Agents) -> None:
    link = await agents.start("""
signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
live("agent")
rest()
""")
    link.clock = clock = ManualClock()
    await agents.hear(1)
    ending = asyncio.create_task(link.end(grace=1.0))
    await clock.wait_for_timers()
    clock.advance(1.0)  # and no further: SIGKILL would follow
    assert await ending == 15
    await agents.silence()


@pytest.mark.usefixtures("way_of_waiting")
async def test_an_agent_that_ignores_sigterm_is_killed(agents: Agents) -> None:
    link = await agents.start("stubborn(); live('agent'); rest()")
    await agents.hear(1)
    assert await link.end(grace=0.05) == -signal.SIGKILL
    await agents.silence()


@pytest.mark.usefixtures("way_of_waiting")
async def test_grandchildren_end_with_a_polite_agent(agents: Agents) -> None:
    link = await agents.start("""
child('live("polite"); rest()')
child('stubborn(); live("stubborn"); rest()')
live("agent")
until_stdin_ends()
""")
    assert await agents.hear(3) == ["agent", "polite", "stubborn"]
    assert await link.end(grace=TIMEOUT_S) == 0
    await agents.silence()


async def test_grandchildren_get_the_time_to_end_well(agents: Agents, tmp_path: Path) -> None:
    done = tmp_path / "saved"
    link = await agents.start(f"""
child('''
def save(*_):
    open({str(done)!r}, "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, save)
live("saver")
rest()
''')
live("agent")
until_stdin_ends()
""")
    link.clock = ManualClock()  # on which the grace of the saver never passes
    await agents.hear(2)
    await link.end(grace=TIMEOUT_S)
    await agents.silence()
    assert done.exists()


@needs_proc
async def test_grandchildren_that_left_the_group_end_too(agents: Agents) -> None:
    link = await agents.start("""
child('stubborn(); live("setsid"); rest()', start_new_session=True)
child('child("stubborn(); live(\\'daemon\\'); rest()", start_new_session=True)', start_new_session=True).wait()
live("agent")
until_stdin_ends()
""")
    assert await agents.hear(3) == ["agent", "daemon", "setsid"]
    assert await link.end(grace=TIMEOUT_S) == 0
    await agents.silence()
    assert marked_processes(link.marker) == []


async def test_the_end_of_one_agent_spares_the_others(agents: Agents) -> None:
    others = [await agents.start("live('other'); until_stdin_ends()") for _ in range(12)]
    first = await agents.start("stubborn(); live('first'); rest()")
    await agents.hear(13)
    await first.end(grace=0)
    for other in others:
        assert other.exit_code is None
        assert await other.end(grace=TIMEOUT_S) == 0


async def test_ending_again_or_at_once_by_several_is_one_end(agents: Agents) -> None:
    link = await agents.start("live('agent'); until_stdin_ends(); sys.exit(2)")
    await agents.hear(1)
    assert await asyncio.gather(*(link.end(grace=TIMEOUT_S) for _ in range(5))) == [2] * 5
    assert await link.end() == 2


async def test_a_cancelled_caller_does_not_stop_the_end(agents: Agents) -> None:
    link = await agents.start("stubborn(); live('agent'); rest()")
    await agents.hear(1)
    ending = asyncio.ensure_future(link.end(grace=0.05))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await agents.silence()
    assert await link.end() == -signal.SIGKILL


async def test_kill_shortens_an_end_that_waits(agents: Agents) -> None:
    link = await agents.start("stubborn(); live('agent'); rest()")
    await agents.hear(1)
    ending = asyncio.ensure_future(link.end(grace=10 * TIMEOUT_S))
    await asyncio.sleep(0)
    link.kill()
    async with asyncio.timeout(TIMEOUT_S):
        assert await ending == -signal.SIGKILL


async def test_an_interrupt_reaches_the_whole_group(agents: Agents) -> None:
    link = await agents.start("""
child('signal.signal(signal.SIGINT, signal.SIG_DFL); live("grandchild"); rest()')
signal.signal(signal.SIGINT, signal.SIG_DFL)
live("agent")
rest()
""")
    await agents.hear(2)
    link.interrupt()
    async with asyncio.timeout(TIMEOUT_S):
        assert await link.wait() == -signal.SIGINT
    await agents.silence()
    link.interrupt()
    link.kill()


async def test_what_was_written_before_the_end_is_read_after_it(agents: Agents) -> None:
    link = await agents.start("live('agent'); until_stdin_ends(); os.write(1, b'last words')")
    await agents.hear(1)
    await link.end(grace=TIMEOUT_S)
    assert await link.read() == b"last words"
    assert await link.read() == b""


@needs_proc
async def test_cycles_of_spawn_and_end_leak_no_descriptor_and_no_group(agents: Agents) -> None:
    await (await agents.start("until_stdin_ends()")).end(grace=TIMEOUT_S)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        link = await agents.start("until_stdin_ends()")
        link.write(b"x")
        await link.end(grace=TIMEOUT_S)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not reaper()._groups.keys() & {link.pid for link in agents.links}


# The loop ends


def test_a_loop_that_closes_right_after_the_end_leaves_nothing(tmp_path: Path, lifeline: Lifeline) -> None:
    agents = Agents(tmp_path, lifeline)

    async def main() -> None:
        link = await agents.start("live('agent'); until_stdin_ends()")
        await agents.hear(1)
        await link.end(grace=TIMEOUT_S)

    asyncio.run(main(), debug=True)
    agents.links.clear()
    gc.collect()  # warnings are errors here: a leak would show


def test_a_loop_that_is_torn_down_in_the_middle_of_an_end_leaves_no_process(tmp_path: Path, lifeline: Lifeline) -> None:
    agents = Agents(tmp_path, lifeline)

    async def main() -> asyncio.Task[int]:
        link = await agents.start("""
child('stubborn(); live("setsid"); rest()', start_new_session=True)
child('stubborn(); live("grandchild"); rest()')
stubborn()
live("agent")
rest()
""")
        await agents.hear(3)
        ending = asyncio.create_task(link.end(grace=10 * TIMEOUT_S))
        await asyncio.sleep(0)
        return ending

    ending = asyncio.run(main())
    assert ending.cancelled()
    lifeline.silence()
    assert agents.links[0].exit_code == -signal.SIGKILL
    del ending
    agents.links.clear()
    gc.collect()


def test_a_link_that_was_forgotten_is_ended_with_a_warning(tmp_path: Path, lifeline: Lifeline) -> None:
    agents = Agents(tmp_path, lifeline)

    async def main() -> None:
        await agents.start("stubborn(); live('agent'); rest()")
        await agents.hear(1)

    asyncio.run(main())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agents.links.clear()
        gc.collect()
    assert [w.category for w in caught] == [ResourceWarning]
    assert "never ended" in str(caught[0].message)
    lifeline.silence()


def test_a_link_that_is_forgotten_until_the_interpreter_ends_makes_no_noise() -> None:
    code = """
import asyncio, os
from dragoman.proc.spawn import spawn

async def main():
    global link
    link = await spawn(["/bin/cat"], cwd=None, env=dict(os.environ), name="test")

asyncio.run(main())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert (result.stdout, result.stderr) == ("", "")


def conforms(link: ProcessLink) -> AgentLink:
    """For the type checker: a process's link is an agent's link."""
    return link
