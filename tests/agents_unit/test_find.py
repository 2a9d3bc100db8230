from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.agents import find
from dragoman.agents.find import Finding, choose, survey, version_in
from dragoman.agents.preset import Preset
from dragoman.clock import SYSTEM_CLOCK, Clock
from dragoman.testing.clock import ManualClock

# Enough for a shell script to start on a busy machine; no test waits for it to pass.
TIMEOUT_S = 30.0


class Programs:
    """A folder of small shell scripts, as the only folder on PATH beside the system's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)}

    def add(self, name: str, body: str, mode: int = 0o755) -> Path:
        file = self.folder / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(mode)
        return file

    def find(self, command: str, env: Mapping[str, str]) -> Path | None:
        # Only in our folder: agents of the machine that runs the tests must not matter.
        found = shutil.which(command, path=str(self.folder) if "/" not in command else None)
        return Path(found) if found else None


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


def preset(id: str, **fields: object) -> Preset:
    values: dict[str, object] = {
        "command": id, "version": ("{command}", "--version"), "install": f"install {id}", **fields,
    }  # fmt: skip
    return Preset(id=id, **values)  # type: ignore[arg-type]  # each test names the fields it is about


async def look(programs: Programs, *presets: Preset, clock: Clock = SYSTEM_CLOCK) -> list[Finding]:
    async with asyncio.timeout(TIMEOUT_S):
        return await survey(
            {p.id: p for p in presets}, environ=programs.environ, find=programs.find, timeout_s=TIMEOUT_S, clock=clock
        )


async def test_an_installed_agent_is_found_with_path_and_version(programs: Programs) -> None:
    file = programs.add("good", 'test "$1" = --version && echo "good agent v1.2.3-beta.1 (abc)"')
    (finding,) = await look(programs, preset("good"))
    assert (finding.state, finding.path, finding.version) == ("installed", file, "1.2.3-beta.1")
    assert (finding.problem, finding.hint) == ("", "")


async def test_a_missing_agent_comes_with_its_install_line(programs: Programs) -> None:
    (finding,) = await look(programs, preset("absent", alternatives=(("npx", "absent"),)))
    assert (finding.state, finding.path, finding.version) == ("missing", None, None)
    assert finding.problem == "neither absent nor npx was found"
    assert finding.hint == "Install it: install absent"


async def test_a_users_own_agent_that_is_missing_points_to_its_table(programs: Programs) -> None:
    (finding,) = await look(programs, preset("mine", install=""))
    assert finding.hint == "Check the command of [agents.mine]."


async def test_what_would_be_downloaded_is_found_but_never_run(programs: Programs, tmp_path: Path) -> None:
    npx = programs.add("npx", f"touch {tmp_path}/ran; echo 9.9.9")
    (finding,) = await look(programs, preset("adapter", alternatives=(("npx", "-y", "adapter"),)))
    assert (finding.state, finding.path, finding.version) == ("downloads", npx, None)
    assert finding.hint == "npx fetches it at its first start. Install it: install adapter"
    assert not (tmp_path / "ran").exists()


async def test_an_installed_program_is_preferred_to_a_download(programs: Programs) -> None:
    programs.add("npx", "echo 9.9.9")
    file = programs.add("adapter", "echo 1.0.0")
    adapter = preset("adapter", args=("acp",), alternatives=(("npx", "-y", "adapter"),))
    choice = choose(adapter, programs.environ, programs.find)
    assert choice is not None
    assert (choice.line, choice.path, choice.downloads) == (("adapter", "acp"), file, False)


async def test_a_hanging_program_costs_only_its_own_version_and_is_ended(programs: Programs, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    # A child of its own, and both ignore SIGTERM.
    programs.add("hangs", f"trap '' TERM; sleep 600 & echo $! $$ > {pids}; wait; wait; wait")
    programs.add("good", "echo 1.0.0")
    clock = ManualClock()
    looking = asyncio.create_task(look(programs, preset("hangs"), clock=clock))
    started = (await asyncio.to_thread(pids.read_text)).split()
    (good,) = await look(programs, preset("good"))
    clock.advance(TIMEOUT_S)
    (hangs,) = await looking
    assert hangs.version is None
    assert hangs.problem == "`hangs --version` did not end within 30s"
    assert hangs.state == "installed"
    assert good.version == "1.0.0"
    assert len(started) == 2
    assert [pid for pid in started if running(int(pid))] == []


async def test_a_survey_that_is_cancelled_leaves_no_process(programs: Programs, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    programs.add("hangs", f"trap '' TERM; sleep 600 & echo $! $$ > {pids}; wait; wait; wait")
    task = asyncio.create_task(look(programs, preset("hangs")))
    async with asyncio.timeout(TIMEOUT_S):
        started = [int(pid) for pid in (await asyncio.to_thread(pids.read_text)).split()]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(started) == 2
    assert [pid for pid in started if running(pid)] == []


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        if not Path("/proc/self").exists():
            return True
        # A dead process that its new parent has not yet taken note of is not running.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def test_a_version_that_was_printed_before_hanging_is_reported(programs: Programs, tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    os.mkfifo(printed)
    programs.add("tells", f"echo 2.0.1; echo > {printed}; exec sleep 600")
    clock = ManualClock()
    looking = asyncio.create_task(look(programs, preset("tells"), clock=clock))
    await asyncio.to_thread(printed.read_text)
    clock.advance(TIMEOUT_S)
    (finding,) = await looking
    assert finding.version == "2.0.1"
    assert "did not end within 30s" in finding.problem


async def test_a_child_that_keeps_stdout_open_does_not_hold_us_up(programs: Programs) -> None:
    programs.add("forks", "sleep 600 & echo 3.1.4")
    (finding,) = await look(programs, preset("forks"))
    assert (finding.version, finding.problem) == ("3.1.4", "")


async def test_a_failing_program_says_why_in_its_own_words(programs: Programs) -> None:
    programs.add("fails", "echo 1.2.3; echo 'first' >&2; echo 'needs Node 22' >&2; exit 3")
    (finding,) = await look(programs, preset("fails"))
    assert (finding.state, finding.version) == ("installed", None)
    assert finding.problem == "`fails --version` ended with exit code 3: needs Node 22"


async def test_a_file_that_cannot_be_executed_is_a_problem_and_not_a_crash(programs: Programs) -> None:
    file = programs.folder / "broken"
    file.write_bytes(b"\x7fELF nonsense")
    file.chmod(0o755)
    programs.add("good", "echo 1.0.0")
    broken, good = await look(programs, preset("broken"), preset("good"))
    assert broken.version is None
    assert "broken" in broken.problem
    assert good.version == "1.0.0"


@pytest.mark.parametrize("body", ["echo hello", "printf '\\377\\376\\000'", "true", "echo version 5"])
async def test_junk_is_no_version(programs: Programs, body: str) -> None:
    programs.add("junk", body)
    (finding,) = await look(programs, preset("junk"))
    assert (finding.state, finding.version) == ("installed", None)
    assert finding.problem == "`junk --version` printed no version"


async def test_a_flood_of_output_after_the_version_does_no_harm(programs: Programs) -> None:
    programs.add("floods", "echo 1.0.0; head -c 5000000 /dev/zero")
    (finding,) = await look(programs, preset("floods"))
    assert finding.version == "1.0.0"


async def test_a_program_that_reads_stdin_meets_its_end(programs: Programs) -> None:
    programs.add("reads", "cat; echo 4.5.6")
    (finding,) = await look(programs, preset("reads"))
    assert finding.version == "4.5.6"


async def test_programs_are_not_run_in_the_users_folder(programs: Programs) -> None:
    programs.add("where", 'test "$(pwd)" = / && echo 1.0.0')
    (finding,) = await look(programs, preset("where"))
    assert (finding.version, finding.problem) == ("1.0.0", "")


async def test_a_script_outside_of_path_finds_the_interpreter_beside_it(programs: Programs) -> None:
    programs.add("my-node", 'echo "6.0.0"')
    script = programs.folder / "script"
    script.write_text("#!/usr/bin/env my-node\n")
    script.chmod(0o755)
    programs.environ["PATH"] = "/usr/bin:/bin"
    (finding,) = await look(programs, preset("script"))
    assert (finding.version, finding.problem) == ("6.0.0", "")


async def test_an_agent_without_what_it_needs_is_missing(programs: Programs) -> None:
    file = programs.add("pi-acp", "echo never asked")
    pi = preset("pi", command="pi-acp", needs=("pi",), version=("pi", "--version"))
    (without,) = await look(programs, pi)
    assert (without.state, without.path, without.version) == ("missing", file, None)
    assert without.problem == "it needs pi, not found here"
    programs.add("pi", "echo 0.87.1")
    (complete,) = await look(programs, pi)
    assert (complete.state, complete.version, complete.problem) == ("installed", "0.87.1", "")


async def test_a_program_that_is_not_to_be_asked_is_not_run(programs: Programs, tmp_path: Path) -> None:
    programs.add("quiet", f"touch {tmp_path}/ran")
    (finding,) = await look(programs, preset("quiet", version=()))
    assert (finding.state, finding.version, finding.problem) == ("installed", None, "")
    assert not (tmp_path / "ran").exists()


async def test_the_presets_own_variables_reach_its_program(programs: Programs) -> None:
    programs.add("env", 'echo "$MINE"')
    (finding,) = await look(programs, preset("env", env={"MINE": "7.7.7"}))
    assert finding.version == "7.7.7"


async def test_no_more_programs_run_at_a_time_than_the_limit(programs: Programs, tmp_path: Path) -> None:
    # Each takes a name of its own while it runs and tells how many it saw.
    body = (
        f"mkdir {tmp_path}/on-$$; ls -d {tmp_path}/on-* | wc -l > {tmp_path}/seen-$$; rmdir {tmp_path}/on-$$; echo 1.0"
    )
    names = [f"agent{number}" for number in range(12)]
    for name in names:
        programs.add(name, body)
    findings = await look(programs, *(preset(name) for name in names))
    assert [finding.preset.id for finding in findings] == names
    assert all(finding.version == "1.0" for finding in findings)
    seen = [int((tmp_path / name).read_text()) for name in os.listdir(tmp_path) if name.startswith("seen-")]
    assert len(seen) == len(names)
    assert max(seen) <= find.MAX_CONCURRENT_CHECKS


@pytest.mark.parametrize(
    ("output", "version"),
    [
        (b"0.61.0\n", "0.61.0"),
        (b" 1.34.0\n", "1.34.0"),
        (b"v24.1.0", "24.1.0"),
        (b"@scope/codex-acp 2.6.0", "2.6.0"),
        (b"GitHub Copilot CLI 1.0.102.\nCommit: abc", "1.0.102"),
        (b"\x1b[1m2.0\x1b[0m", "2.0"),
        (b"1.2.3-rc.1+build.5 done", "1.2.3-rc.1+build.5"),
        (b"running python3.11 from /opt/x-1.0/bin\nversion: 4.2", "4.2"),
        (b"nothing", None),
        (b"", None),
    ],
)
def test_a_version_is_recognised_among_other_words(output: bytes, version: str | None) -> None:
    assert version_in(output) == version
