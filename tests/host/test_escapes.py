"""Boundaries (G7): by no path, link, race or encoding is anything outside the workspace read or written.

Each attack goes through a real host with `access="full"`: no rule stands in its way, only the workspace does. What an
agent gets back never has the secret in it, and what is outside is afterwards as it was before, to the inode.
"""

# ruff: noqa: ASYNC240 (a few bytes on a local disk, looked at by a test)

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from attempts import Attempts
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace
from dragoman.workspace.sandbox import Sandbox
from dragoman.workspace.sandbox_policy import Machine, SandboxPolicy
from workspace.sandbox_support import make_repository

from .conftest import TIMEOUT_S, Agent, Build

SECRET = "the secret of the canary"
INSIDE = "what is inside"
WRITTEN = "what the agent wrote"

State: TypeAlias = dict[str, tuple[int, int, int, bytes | None]]


@pytest.fixture
def agent(agent_with: Build, workspace: Workspace) -> Agent:
    (workspace.cwd / "file.txt").write_text(INSIDE)
    return agent_with(access="full")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "below").mkdir(parents=True)
    (folder / "secret.txt").write_text(SECRET)
    (folder / "below" / "secret.txt").write_text(SECRET)
    return folder


def state_of(folder: Path) -> State:
    """Everything in a folder, by name: inode, mode, time of change, and content."""
    state: State = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        state[str(path)] = (status.st_ino, status.st_mode, status.st_mtime_ns, content)
    return state


async def answers(agent: Agent, path: str) -> list[str]:
    """Read and write a path; return all that the agent gets back, as text."""
    given: list[str] = []
    for method, more in (
        ("fs/read_text_file", {}),
        ("fs/read_text_file", {"line": 1, "limit": 1}),
        ("fs/write_text_file", {"content": WRITTEN}),
        ("fs/read_text_file", {}),
    ):
        try:
            given.append(str(await agent.ask(method, path=path, **more)))
        except RpcRefusal as refusal:
            given.append(msgspec.json.encode(refusal.error).decode())
    return given


async def refused(agent: Agent, path: str) -> list[str]:
    """Return the refusals of a read and of a write; neither may have an effect."""
    return [
        (await agent.refused("fs/read_text_file", path=path)).message,
        (await agent.refused("fs/write_text_file", path=path, content=WRITTEN)).message,
    ]


# -- ways that lead out


def arrange(inside: Path, outside: Path) -> None:
    """Create links of all kinds in the workspace."""
    links: dict[str, object] = {
        "file-link": outside / "secret.txt",
        "folder-link": outside,
        "link-to-link": "file-link",
        "relative-link": "../outside/secret.txt",
        "relative-folder": "../outside",
        "parent": "..",
        "root": "/",
        "self": inside,
        "dangling": outside / "not-there-yet.txt",
        "dangling-folder": outside / "no" / "folder",
        "winding": "sub/../../outside/secret.txt",
        "winding-by-link": "folder-link/below/../secret.txt",
        "up-from-link": "sub-link/../outside/secret.txt",
        "up-from-nothing": "missing/../../outside/secret.txt",
        "up-from-file": "file.txt/../../outside/secret.txt",
        "past-the-root": "../" * 60 + str(outside)[1:] + "/secret.txt",
        "proc": f"/proc/self/root{outside}/secret.txt",
        "fd": "/proc/self/fd",
    }
    (inside / "sub").mkdir()
    (inside / "sub-link").symlink_to(inside.parent / "repo")
    for name, target in links.items():
        (inside / name).symlink_to(str(target))
    (inside / "chain-0").symlink_to(outside / "secret.txt")
    for number in range(1, 30):
        (inside / f"chain-{number}").symlink_to(f"chain-{number - 1}")


@pytest.mark.attempts("file escapes")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        ".",
        "..",
        "secret.txt",
        "../outside/secret.txt",
        "{outside}/secret.txt",
        "{outside}/new.txt",
        "{outside}/new/folder/new.txt",
        "/{outside}/secret.txt",
        "//{outside}/secret.txt",
        "{outside}//secret.txt",
        "{outside}/./secret.txt",
        "{outside}/secret.txt/",
        "{inside}/../outside/secret.txt",
        "{inside}/missing/../../outside/secret.txt",
        "{inside}/./../outside/secret.txt",
        "{inside}/sub/../../outside/secret.txt",
        "{inside}/..",
        "{inside}/../repo/../outside/secret.txt",
        "{inside}/../repository/secret.txt",
        "{inside}sitory/secret.txt",
        "{inside}/file-link",
        "{inside}/file-link/",
        "{inside}/file-link/.",
        "{inside}/folder-link/secret.txt",
        "{inside}/folder-link/below/secret.txt",
        "{inside}/folder-link/new.txt",
        "{inside}/folder-link/new/new.txt",
        "{inside}/folder-link",
        "{inside}/link-to-link",
        "{inside}/relative-link",
        "{inside}/relative-folder/secret.txt",
        "{inside}/parent/outside/secret.txt",
        "{inside}/parent/../outside/secret.txt",
        "{inside}/parent/new.txt",
        "{inside}/root{outside}/secret.txt",
        "{inside}/root/etc/passwd",
        "{inside}/self/parent/outside/secret.txt",
        "{inside}/self/self/self/folder-link/secret.txt",
        "{inside}/dangling",
        "{inside}/dangling/new.txt",
        "{inside}/dangling-folder/new.txt",
        "{inside}/winding",
        "{inside}/winding-by-link",
        "{inside}/up-from-link",
        "{inside}/up-from-nothing",
        "{inside}/up-from-file",
        "{inside}/past-the-root",
        "{inside}/chain-29",
        "{inside}/proc",
        "{inside}/fd/0",
        "/proc/self/root{outside}/secret.txt",
        "/proc/self/root{inside}/folder-link/secret.txt",
        "/proc/self/cwd/secret.txt",
        "/proc/thread-self/root{outside}/secret.txt",
        "/proc/1/root{outside}/secret.txt",
        "/proc/self/environ",
        "/proc/self/mem",
        "/dev/stdin",
        "/dev/fd/0",
        "/dev/null",
        "file://{outside}/secret.txt",
        "file:{outside}/secret.txt",
        "file://localhost{outside}/secret.txt",
        "FILE://{inside}/file.txt",
        "~/secret.txt",
        "~root/secret.txt",
        "$HOME/secret.txt",
        "\\{outside}\\secret.txt",
        "C:{outside}/secret.txt",
        "{outside}/secret.txt\0",
        "{outside}/secret.txt\0.txt",
        "{inside}/\0/../../outside/secret.txt",
        "{inside}/file.txt\0/../../../outside/secret.txt",
        "\0{outside}/secret.txt",
        " {outside}/secret.txt",
        "\n{outside}/secret.txt",
    ],
)
async def test_no_way_leads_out(
    agent: Agent, workspace: Workspace, outside: Path, tmp_path: Path, path: str, attempts: Attempts
) -> None:
    inside = workspace.cwd
    arrange(inside, outside)
    before = state_of(tmp_path)
    async with asyncio.timeout(TIMEOUT_S):
        messages = await refused(agent, path.format(inside=inside, outside=outside))
    attempts.add(len(messages))
    for message in messages:
        assert message.startswith("path: ")
        assert SECRET not in message
    assert state_of(tmp_path) == before  # inside, too, a refusal leaves nothing behind


@pytest.mark.parametrize(
    "path",
    [
        "{inside}/~/secret.txt",
        "{inside}/%2e%2e/outside/secret.txt",
        "{inside}/..%2foutside/secret.txt",
        "{inside}/.../outside/secret.txt",
        "{inside}/.. /outside/secret.txt",
        "{inside}/..\\outside\\secret.txt",
        "{inside}/\u2024\u2024/outside/secret.txt",
        "{inside}/\uff0e\uff0e/outside/secret.txt",
        "{inside}/..\u2215outside\u2215secret.txt",
        "{inside}/\u202e..\u202c/secret.txt",
        "{inside}/file:/{outside}/secret.txt",
        "{inside}{outside}/secret.txt",
        "{inside}/\n..\n/secret.txt",
    ],
)
async def test_a_name_that_only_looks_like_a_way_out_is_a_name(
    agent: Agent, workspace: Workspace, outside: Path, path: str
) -> None:
    given = path.format(inside=workspace.cwd, outside=outside)
    before = state_of(outside)
    missing, _, _, written = await answers(agent, given)
    assert "not found" in missing
    assert WRITTEN in written
    assert state_of(outside) == before
    assert Path(given).read_text() == WRITTEN


@pytest.mark.attempts("file escapes")
@pytest.mark.parametrize("path", ["FILE-LINK", "Folder-Link/secret.txt", "folder-link/SECRET.TXT", "SUB/../x"])
async def test_another_case_leads_nowhere_else(
    agent: Agent, workspace: Workspace, outside: Path, tmp_path: Path, path: str
) -> None:
    arrange(workspace.cwd, outside)
    before = state_of(outside)
    for given in (f"{workspace.cwd}/{path}", f"{str(workspace.cwd).swapcase()}/{path}"):
        assert SECRET not in "".join(await answers(agent, given))
    assert state_of(outside) == before


@pytest.mark.attempts("file escapes")
@pytest.mark.parametrize("path", [".GIT/config", ".git/config", "sub/.Git/hooks/x", "git-link/config"])
async def test_the_rules_see_the_place_that_is_written(
    agent_with: Build, workspace: Workspace, outside: Path, path: str
) -> None:
    (workspace.cwd / ".git").mkdir()
    (workspace.cwd / "git-link").symlink_to(".git")
    before = state_of(workspace.cwd)
    agent = agent_with(access="edit-inside")  # nobody is there to be asked
    await agent.refused("fs/write_text_file", path=f"{workspace.cwd}/{path}", content=WRITTEN)
    assert state_of(workspace.cwd) == before


@pytest.mark.attempts("file escapes")
async def test_rings_and_endless_chains_of_links_end(agent: Agent, workspace: Workspace, outside: Path) -> None:
    inside = workspace.cwd
    (inside / "a").symlink_to("b")
    (inside / "b").symlink_to("a")
    (inside / "itself").symlink_to("itself")
    (inside / "deeper").symlink_to("deeper/deeper")
    (inside / "chain-0").symlink_to("file.txt")
    for number in range(1, 60):
        (inside / f"chain-{number}").symlink_to(f"chain-{number - 1}")
    # Each of them is followed twice by the next: without a limit that is a way of a billion steps.
    (inside / "bomb-0").symlink_to(".")
    for number in range(1, 30):
        (inside / f"bomb-{number}").symlink_to(f"bomb-{number - 1}/bomb-{number - 1}")
    (inside / "zigzag").symlink_to("/".join(["sub", ".."] * 500))
    (inside / "zigzags").symlink_to("/".join(["zigzag"] * 30))
    (inside / "sub").mkdir()
    before = state_of(inside)
    async with asyncio.timeout(TIMEOUT_S):
        for name in ("a", "a/x", "itself", "itself/x", "deeper", "chain-59", "bomb-29/file.txt", "zigzags/file.txt"):
            for message in await refused(agent, f"{inside}/{name}"):
                assert "path: " in message
                assert name in message
        assert (await agent.ask("fs/read_text_file", path=f"{inside}/chain-30"))["content"] == INSIDE
        assert (await agent.ask("fs/read_text_file", path=f"{inside}/zigzag/file.txt"))["content"] == INSIDE
    assert state_of(inside) == before


@pytest.mark.attempts("file escapes")
@pytest.mark.parametrize("name", ["x" * 256, "x" * 5000, "x" * 256 + "/y", "new/" + "x" * 256, "a/" * 2500 + "x"])
async def test_what_is_too_long_is_refused_in_words(agent: Agent, workspace: Workspace, name: str) -> None:
    before = state_of(workspace.cwd)
    read, written = await refused(agent, f"{workspace.cwd}/{name}")
    assert "path: " in written
    assert "too long" in written or "the limit is" in written
    assert len(read) < 5500
    after = state_of(workspace.cwd)
    assert {path: state[3] for path, state in after.items()} == {path: state[3] for path, state in before.items()}


@pytest.mark.attempts("file escapes")
async def test_names_that_are_not_utf8_lead_nowhere(agent: Agent, workspace: Workspace, outside: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    (workspace.cwd / odd).write_text(INSIDE)
    (workspace.cwd / "to-odd").symlink_to(odd)
    (outside / odd).write_text(SECRET)
    (workspace.cwd / "out").symlink_to(outside)
    before = state_of(outside)
    for name in (odd, "to-odd", "to-odd/x", f"out/{odd}", f"new/{odd}", "\ud800", "out/\ud800"):
        for method in ("fs/read_text_file", "fs/write_text_file"):
            # Halves of surrogate pairs are no text; some JSON writers send them all the same.
            params = json.dumps({"sessionId": "a1", "path": f"{workspace.cwd}/{name}", "content": WRITTEN}).encode()
            request = msgspec.structs.replace(agent.request(method, {}), params=msgspec.Raw(params))
            try:
                answer = str(await agent.host.serve(request))
            except RpcRefusal as refusal:
                answer = refusal.error.message
            msgspec.json.encode(answer)  # it can be told
            assert SECRET not in answer
    for message in await refused(agent, f"{workspace.cwd}/to-odd"):
        assert "a name that is not UTF-8" in message
    assert state_of(outside) == before
    assert (workspace.cwd / odd).read_text() == INSIDE


@pytest.mark.attempts("file escapes")
async def test_a_hard_links_other_name_is_never_written(agent: Agent, workspace: Workspace, outside: Path) -> None:
    os.link(outside / "secret.txt", workspace.cwd / "hard.txt")
    before = (outside / "secret.txt").stat().st_ino, (outside / "secret.txt").read_text()
    await agent.ask("fs/write_text_file", path=f"{workspace.cwd}/hard.txt", content=WRITTEN)
    assert ((outside / "secret.txt").stat().st_ino, (outside / "secret.txt").read_text()) == before
    assert (workspace.cwd / "hard.txt").read_text() == WRITTEN


async def test_a_link_to_another_folder_of_the_workspace_is_inside(
    agent_with: Build, workspace: Workspace, outside: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "file.txt").write_text(INSIDE)
    (more / "out").symlink_to(outside)
    (workspace.cwd / "more").symlink_to("../more")
    agent = Agent(Workspace(workspace.cwd, [more]), access="full")
    before = state_of(outside)
    assert (await agent.ask("fs/read_text_file", path=f"{workspace.cwd}/more/file.txt"))["content"] == INSIDE
    await agent.ask("fs/write_text_file", path=f"{workspace.cwd}/more/new/file.txt", content=WRITTEN)
    assert (more / "new" / "file.txt").read_text() == WRITTEN
    await refused(agent, f"{workspace.cwd}/more/out/secret.txt")
    await refused(agent_with(access="full"), f"{workspace.cwd}/more/file.txt")  # without it, it is outside
    assert state_of(outside) == before


@pytest.mark.attempts("file escapes")
async def test_another_disk_is_inside_only_as_a_folder_of_the_workspace(workspace: Workspace, tmp_path: Path) -> None:
    disk = Path("/dev/shm")
    if not os.access(disk, os.W_OK) or disk.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second disk to write to")
    folder = disk / f"dragoman-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "file.txt").write_text(SECRET)
        (workspace.cwd / "disk").symlink_to(folder)
        path = f"{workspace.cwd}/disk/file.txt"
        assert SECRET not in "".join(await refused(Agent(workspace, access="full"), path))
        both = Agent(Workspace(workspace.cwd, [folder]), access="full")
        await both.ask("fs/write_text_file", path=path, content=WRITTEN)
        assert (folder / "file.txt").read_text() == WRITTEN
    finally:
        (folder / "file.txt").unlink()
        folder.rmdir()


@pytest.mark.attempts("file escapes")
async def test_the_workspace_folder_is_not_created_again(agent: Agent, workspace: Workspace, outside: Path) -> None:
    workspace.cwd.rename(workspace.cwd.parent / "moved")
    before = state_of(workspace.cwd.parent)
    await refused(agent, f"{workspace.cwd}/file.txt")
    await refused(agent, str(workspace.cwd))
    assert state_of(workspace.cwd.parent) == before


@pytest.mark.attempts("file escapes")
async def test_a_link_in_the_place_of_the_workspace_is_not_the_workspace(
    agent: Agent, workspace: Workspace, outside: Path
) -> None:
    workspace.cwd.rename(workspace.cwd.parent / "moved")
    workspace.cwd.symlink_to(outside)
    before = state_of(outside)
    for name in ("secret.txt", "new.txt", "below/secret.txt"):
        assert SECRET not in "".join(await refused(agent, f"{workspace.cwd}/{name}"))
    assert state_of(outside) == before


@pytest.mark.attempts("file escapes")
async def test_a_refusal_does_not_tell_what_is_outside(agent: Agent, workspace: Workspace, outside: Path) -> None:
    (outside / "link").symlink_to("a-name-that-nobody-is-to-know")
    (workspace.cwd / "out").symlink_to(outside)
    there = await refused(agent, f"{workspace.cwd}/out/secret.txt")
    for name in ("missing.txt", "missing/folder", "secret.txt/below", "link", "link/below", "below"):
        given = await refused(agent, f"{workspace.cwd}/out/{name}")
        assert [message.replace(name, "secret.txt") for message in given] == there


# -- races

Swap: TypeAlias = Callable[[Path, Path], Iterator[None]]


def swap_file(inside: Path, outside: Path) -> Iterator[None]:
    """`race/secret.txt` is now a file inside, now a link to the one outside."""
    target, file, link = inside / "race" / "secret.txt", inside / "file-to-be", inside / "link-to-be"
    while True:
        link.symlink_to(outside / "secret.txt")
        os.replace(link, target)
        yield
        file.write_text(INSIDE)
        os.replace(file, target)
        yield


def swap_folder(inside: Path, outside: Path) -> Iterator[None]:
    """`race` is now a folder inside, now a link to the one outside."""
    folder, moved = inside / "race", inside / "kept"
    while True:
        os.rename(folder, moved)
        put(folder, lambda: os.symlink(outside, folder))
        yield
        os.unlink(folder)
        put(folder, lambda: os.rename(moved, folder))
        yield


def put(folder: Path, act: Callable[[], None]) -> None:
    """Act when the host has just created the missing folder."""
    while True:
        try:
            return act()
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def racing(swaps: Iterator[None]) -> Iterator[None]:
    """Run a thread that swaps as fast as it can."""
    end = threading.Event()
    problems: list[BaseException] = []

    def swap() -> None:
        try:
            while not end.is_set():
                next(swaps)
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    assert problems == []


async def race_for(tries: int, attempt: Callable[[int], Awaitable[object]], attempts: Attempts) -> None:
    """So often, and on until it was both done and refused: else it was no race."""
    done = refusals = 0
    while done + refusals < tries or not (done and refusals):
        try:
            answer = str(await attempt(done + refusals))
            done += 1
        except RpcRefusal as refusal:
            answer = refusal.error.message
            refusals += 1
        attempts.add()
        assert SECRET not in answer


CALLS = ("open", "readlink", "stat", "mkdir", "replace", "fstat")


class Steps:
    """The system calls by which a file is looked for, opened and replaced; before some of them it is swapped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        self._at: dict[int, Callable[[], object]] = {}
        self._swapping = False
        for name in CALLS:
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))

    def begin(self, at: dict[int, Callable[[], object]]) -> None:
        self.taken, self._at = 0, at

    def _watched(self, call: Callable[..., object]) -> Callable[..., object]:
        def watched(*args: object, **more: object) -> object:
            if not self._swapping:
                self.taken += 1
                if self.taken in self._at:
                    self._swapping = True
                    self._at[self.taken]()
                    self._swapping = False
            return call(*args, **more)

        return watched


@pytest.mark.attempts("file races")
@pytest.mark.parametrize(
    ("method", "swap", "name"),
    [
        ("fs/read_text_file", swap_file, "secret.txt"),
        ("fs/read_text_file", swap_folder, "secret.txt"),
        ("fs/write_text_file", swap_file, "secret.txt"),
        ("fs/write_text_file", swap_folder, "secret.txt"),
        ("fs/write_text_file", swap_folder, "new/new.txt"),
    ],
)
async def test_a_link_that_is_swapped_in_before_any_of_our_steps_gains_nothing(
    agent_with: Build,
    workspace: Workspace,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    swap: Swap,
    name: str,
    attempts: Attempts,
) -> None:
    """Before each step in turn; to stay, or only until one of the next steps."""
    agent = agent_with(access="full")
    before = state_of(outside)
    race = workspace.cwd / "race"
    steps = Steps(monkeypatch)
    done = refusals = 0
    for stays in (1, 2, 3, 1_000):
        for first in itertools.count(1):
            shutil.rmtree(race, ignore_errors=True)
            race.mkdir()
            (race / "secret.txt").write_text(INSIDE)
            swaps = swap(workspace.cwd, outside)
            steps.begin({first: swaps.__next__, first + stays: swaps.__next__})
            try:
                answer = str(await agent.ask(method, path=f"{race}/{name}", content=WRITTEN))
                done += 1
            except RpcRefusal as refusal:
                answer = refusal.error.message
                refusals += 1
            attempts.add()
            taken = steps.taken
            steps.begin({})
            assert SECRET not in answer
            assert state_of(outside) == before
            if race.is_symlink():
                race.unlink()
                shutil.rmtree(workspace.cwd / "kept")
            if taken < first:  # it was all done before
                break
    assert done > 0
    assert refusals > 0


@pytest.mark.attempts("file races")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("tries", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("swap", [swap_file, swap_folder])
@pytest.mark.parametrize("method", ["fs/read_text_file", "fs/write_text_file"])
async def test_a_link_that_is_swapped_in_while_we_look_gains_nothing(
    agent: Agent,
    workspace: Workspace,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Swap,
    method: str,
    tries: int,
    attempts: Attempts,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of them would be a test of the disk
    race = workspace.cwd / "race"
    race.mkdir()
    (race / "secret.txt").write_text(INSIDE)
    more: dict[str, Any] = {"content": WRITTEN} if method == "fs/write_text_file" else {}
    names = ["secret.txt", "new/new.txt"] if more else ["secret.txt"]  # to replace, and to make with its folder
    before = state_of(outside)

    def attempt(number: int) -> Awaitable[object]:
        return agent.ask(method, path=f"{race}/{names[number % len(names)]}", **more)

    with racing(swap(workspace.cwd, outside)):
        await race_for(tries, attempt, attempts)
    assert state_of(outside) == before


@pytest.mark.attempts("file races")
async def test_a_link_that_is_swapped_in_to_what_the_rules_protect_gains_nothing(
    agent_with: Build,
    workspace: Workspace,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    attempts: Attempts,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    hooks, race = workspace.cwd / ".git" / "hooks", workspace.cwd / "race"
    for folder in (hooks, race):
        folder.mkdir(parents=True)
        (folder / "secret.txt").write_text(SECRET)
    before = state_of(hooks)
    agent = agent_with(access="edit-inside")  # writes in `race` are allowed, those in `.git` asked: nobody is there
    with racing(swap_folder(workspace.cwd, hooks)):

        def attempt(_: int) -> Awaitable[object]:
            return agent.ask("fs/write_text_file", path=f"{race}/secret.txt", content=WRITTEN)

        await race_for(1_000, attempt, attempts)
    assert state_of(hooks) == before


@pytest.mark.parametrize("name", ["hooks/pre-commit", "config", "info/attributes"])
async def test_a_write_for_an_agent_in_a_sandbox_reaches_no_more_than_its_own(tmp_path: Path, name: str) -> None:
    """We are outside of the sandbox: git's hooks and settings, which it cannot change there, we must not change."""
    folder = tmp_path / "project"
    make_repository(folder)
    policy = SandboxPolicy(mechanism="landlock", folders=(folder,))
    sandbox = await Sandbox.start(policy, {}, machine=Machine(landlock_version=6, has_seccomp=True))
    sandbox.wrap(["/bin/true"], {"HOME": str(tmp_path / "home")})
    agent = Agent(Workspace(folder), access="full", sandbox=sandbox)
    before = {path: path.read_bytes() for path in (folder / ".git").rglob("*") if path.is_file()}
    error = await agent.refused("fs/write_text_file", path=str(folder / ".git" / name), content="planted")
    await agent.ask("fs/write_text_file", path=str(folder / "file.txt"), content="new")
    await sandbox.close()
    assert "sandbox" in error.message
    assert {path: path.read_bytes() for path in (folder / ".git").rglob("*") if path.is_file()} == before
    assert (folder / "file.txt").read_text() == "new"
