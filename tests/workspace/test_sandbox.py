"""A sandbox: what works inside, how it is refused, its proxy, its paths and its end. Attacks are in their own file."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from dragoman.errors import InputError, SandboxUnavailable, StartError
from dragoman.host.terminal.terminal import start as start_terminal
from dragoman.proc._reaper_main import group_alive
from dragoman.proc.pty import Pty
from dragoman.proc.spawn import spawn
from dragoman.workspace.sandbox import Sandbox, seatbelt_profile
from dragoman.workspace.sandbox_git import git_paths
from dragoman.workspace.sandbox_network import HostPattern, SandboxProxy, _is_near, parse_host
from dragoman.workspace.sandbox_paths import AllowedPaths, allowed_paths, split_around
from dragoman.workspace.sandbox_policy import Machine, choose_mechanism, loopback_port, report_of
from workspace.sandbox_support import MECHANISMS, git, machine_with, make_repository, policy, run_in

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has these mechanisms")
TIMEOUT_S = 50.0
INSTALLED_IN = Path(os.path.realpath(sys.prefix)).parent


class Place:
    """A home folder with a key and a tool, and a workspace."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        for name, text in {".ssh/id": "the secret", ".nvm/tool": "a tool", ".agent/login": "mine"}.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)
        self.env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "SSH_AUTH_SOCK": "/run/agent"}

    @asynccontextmanager
    async def sandbox(
        self, mechanism: str, *, network: bool = True, on_refused: Callable[[str], None] | None = None, **more: object
    ) -> AsyncIterator[Sandbox]:
        wanted = policy(self.workspace, mechanism, self.home, network=network, **more)
        sandbox = await Sandbox.start(wanted, self.env, machine=machine_with(mechanism), on_refused=on_refused)
        try:
            yield sandbox
        finally:
            await sandbox.close()

    async def shell(self, sandbox: Sandbox, line: str) -> str:
        """Return the output of a line for the shell, of both streams."""
        async with asyncio.timeout(TIMEOUT_S):
            _, out, err = await run_in(sandbox, ["/bin/sh", "-c", line], self.env, self.workspace)
        return out + err


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# -- inside


@linux
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_command_works_in_its_workspace_with_tools_and_a_temporary_folder(mechanism: str, place: Place) -> None:
    async with place.sandbox(mechanism, state=("~/.agent/", "~/.new/")) as sandbox:
        out = await place.shell(
            sandbox,
            "pwd; echo made > made.txt; cat ~/.nvm/tool; echo; echo new > ~/.agent/login; echo new > ~/.new/file;"
            " echo x > $TMPDIR/x && cat $TMPDIR/x; ls /usr/bin/env; echo y > /dev/null; echo key=$SSH_AUTH_SOCK;"
            " mkdir a && mv made.txt a/ && mv a b && git init -q . && git status --short; umask; ulimit -c",
        )
        temporary = sandbox.temporary
    expected = [str(place.workspace), "a tool", "x", "/usr/bin/env", "key=", "?? b/"]
    assert [line for line in out.splitlines() if line in expected] == expected, out
    assert (place.workspace / "b/made.txt").read_text() == "made\n"
    assert (place.home / ".agent/login").read_text() == "new\n"
    assert (place.home / ".new/file").read_text() == "new\n"
    assert not temporary.exists()


@linux
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("has_pty", [True, False], ids=["terminal", "pipes"])
async def test_a_terminal_of_the_agent_is_inside_as_well(mechanism: str, has_pty: bool, place: Place) -> None:
    line = (
        f"cat {place.home}/.ssh/id; echo x > {place.home}/planted; echo inside; test -t 1 && echo tty;"
        " test -t 1 && echo named > /dev/stderr"
    )
    async with place.sandbox(mechanism, network=False) as sandbox:
        terminal = await start_terminal(
            "terminal",
            ["/bin/sh", "-c", line],
            cwd=place.workspace,
            env=place.env,
            limit=100_000,
            pty=Pty() if has_pty else None,
            rows=24,
            sandbox=sandbox,
        )
        async with asyncio.timeout(TIMEOUT_S):
            await terminal.wait()
        text, _ = await terminal.output()
        await terminal.end()
    assert "the secret" not in text
    assert not (place.home / "planted").exists()
    assert "inside" in text
    if has_pty:
        assert "tty" in text
        assert mechanism == "bubblewrap" or "named" in text  # there, a terminal from outside has no name


@linux
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_an_interrupt_reaches_the_command_and_not_the_sandbox_around_it(mechanism: str, place: Place) -> None:
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, lambda *_: os.write(1, b'interrupted'))\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    async with place.sandbox(mechanism, network=False) as sandbox:
        command, env = sandbox.wrap([sys.executable, "-I", "-c", program], place.env)
        link = await spawn(command, cwd=place.workspace, env=env, name="program")
        async with asyncio.timeout(TIMEOUT_S):
            output = b""
            while b"ready" not in output:
                output += await link.read()
            link.interrupt()
            while b"interrupted" not in output:
                chunk = await link.read()
                assert chunk, link.stderr.text()
                output += chunk
            link.close()  # the end of its stdin ends it, by itself
            assert await link.wait() == 0
        await link.end()
        assert not group_alive(link.pid)


@linux
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_command_that_hangs_is_ended_with_all_that_it_started(mechanism: str, place: Place) -> None:
    async with place.sandbox(mechanism, network=False) as sandbox:
        command, env = sandbox.wrap(["/bin/sh", "-c", "trap '' TERM; setsid sleep 1000 & echo up; wait"], place.env)
        link = await spawn(command, cwd=place.workspace, env=env, name="program")
        async with asyncio.timeout(TIMEOUT_S):
            assert await link.read() == b"up\n"
            await link.end(grace=0)
    from dragoman.proc._reaper_main import marked_processes

    assert marked_processes(link.marker) == []


@linux
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_program_that_is_not_there_is_reported_as_outside(mechanism: str, place: Place) -> None:
    async with place.sandbox(mechanism) as sandbox:
        code, _, err = await run_in(sandbox, ["/usr/bin/no-such-program"], place.env, place.workspace)
    assert code == 127
    assert "no-such-program" in err


@linux
def test_a_sandbox_that_cannot_be_set_up_runs_nothing(tmp_path: Path) -> None:
    plan = {
        "network": {"socket_path": str(tmp_path / "nothing"), "proxy_port": 3128, "ports": []},
        "namespaces": {"network": True},
    }
    from dragoman.workspace import _sandbox_main

    command = [sys.executable, "-I", "-S", _sandbox_main.__file__, json.dumps(plan), "/bin/touch", str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == _sandbox_main.EXIT_CODE
    assert b"cannot be set up" in done.stderr
    assert not (tmp_path / "x").exists()


# -- refused


def test_a_sandbox_that_was_asked_for_and_cannot_be_had_is_refused_with_the_reason() -> None:
    machine = Machine(bwrap_problem="bubblewrap (bwrap) is not installed")
    with pytest.raises(SandboxUnavailable, match=r"bwrap\) is not installed; this kernel has no Landlock"):
        choose_mechanism("auto", machine)
    with pytest.raises(SandboxUnavailable, match="by bubblewrap was asked for, and cannot be had"):
        choose_mechanism("bubblewrap", machine)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (Machine(landlock_version=2, has_seccomp=True), "lets files be truncated"),
        (Machine(landlock_version=7, has_seccomp=False), "seccomp"),
        (Machine(landlock_version=0, has_seccomp=True), "no Landlock"),
    ],
)
def test_a_landlock_that_confines_too_little_is_not_used(machine: Machine, reason: str) -> None:
    if not sys.platform.startswith("linux"):
        reason = "only Linux"
    assert reason in machine.problem("landlock")
    assert "landlock" not in machine.usable


async def test_the_network_is_not_turned_off_where_nothing_can(place: Place) -> None:
    machine = Machine(landlock_version=3, has_seccomp=True, has_namespaces=False, bwrap_problem="none")
    wanted = policy(place.workspace, "landlock", place.home, network=False)
    if sys.platform.startswith("linux"):
        with pytest.raises(SandboxUnavailable, match="network cannot be turned off"):
            await Sandbox.start(wanted, place.env, machine=machine)


@pytest.mark.parametrize("folder", ["", ".ssh", ".."])
def test_a_workspace_with_secrets_in_it_is_refused(folder: str, place: Place, tmp_path: Path) -> None:
    wanted = policy((place.home / folder).resolve(), "landlock", place.home, network=True)
    with pytest.raises(InputError, match="could not be hidden"):
        allowed_paths(wanted, place.env, tmp_path)


# -- reports


def test_a_report_never_claims_what_the_machine_lacks() -> None:
    old = Machine(landlock_version=3, has_seccomp=True, has_namespaces=True)
    new = Machine(landlock_version=7, has_seccomp=True, has_namespaces=False)
    assert any("signals" in gap for gap in report_of(old, "landlock").not_confined)
    assert not any("signals" in item for item in report_of(old, "landlock").confined)
    assert not any("signals" in gap for gap in report_of(new, "landlock").not_confined)
    assert any("port numbers" in gap for gap in report_of(new, "landlock", network=False).not_confined)
    assert not any("port numbers" in gap for gap in report_of(old, "landlock", network=False).not_confined)
    assert any("the network" in gap for gap in report_of(new, "bubblewrap").not_confined)
    assert not any("the network" in gap for gap in report_of(new, "bubblewrap", network=False).not_confined)
    assert any("abstract" in gap for gap in report_of(old, "bubblewrap").not_confined)
    assert any("tested" in gap for gap in report_of(Machine(), "seatbelt").not_confined)


async def test_a_report_says_that_dragoman_itself_can_be_changed(tmp_path: Path) -> None:
    machine = Machine(landlock_version=6, has_seccomp=True)
    for folder, is_told in ((INSTALLED_IN, True), (tmp_path, False)):
        sandbox = await Sandbox.start(policy(folder, "landlock", tmp_path, network=True), {}, machine=machine)
        report = sandbox.report()
        await sandbox.close()
        assert any(gap.startswith("Dragoman itself") for gap in report.not_confined) == is_told


def test_a_seatbelt_profile_denies_by_default_and_allows_only_the_proxy() -> None:
    allowed = AllowedPaths(
        home=Path("/Users/ada"),
        read=(Path("/usr"),),
        write=(Path('/Users/ada/a "b"'),),
        hidden=(Path("/usr/x"),),
    )
    profile = seatbelt_profile(allowed, 4000, [5000])
    assert profile.startswith("(version 1)\n(deny default)")
    assert '(allow file-read* file-write* (subpath "/Users/ada/a \\"b\\""))' in profile
    assert '(deny file-read* (subpath "/usr/x"))' in profile
    assert "(allow network*)" not in profile
    assert '(remote ip "localhost:4000")' in profile
    assert "(allow network*)" in seatbelt_profile(allowed, None, [])


# -- paths


def test_a_folder_is_taken_apart_around_what_is_hidden(tmp_path: Path) -> None:
    for name in ("a/secret", "a/b", "c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "a/secret")
    whole, listed = split_around(tmp_path, [tmp_path / "a/secret"])
    assert whole == [tmp_path / "a/b", tmp_path / "c"]
    assert listed == [tmp_path, tmp_path / "a"]
    assert split_around(tmp_path / "a", []) == ([tmp_path / "a"], [])


def test_tools_in_the_home_folder_are_found_also_where_it_lies_in_a_folder_of_the_system(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.workspace import sandbox_paths

    lists = sandbox_paths.sandbox_lists()
    import msgspec

    changed = msgspec.structs.replace(lists, system=(*lists.system, str(tmp_path)))
    monkeypatch.setattr(sandbox_paths, "sandbox_lists", lambda: changed)
    (tmp_path / "temporary").mkdir()
    wanted = policy(place.workspace, "landlock", place.home, network=True)
    allowed = allowed_paths(wanted, place.env, tmp_path / "temporary")
    assert place.home in allowed.hidden
    assert place.home / ".nvm" in allowed.read
    assert place.home not in split_around(tmp_path, allowed.hidden)[0]


def test_a_program_on_the_path_does_not_bring_the_home_folder_with_it(place: Place, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place.home)
    env = {**place.env, "PATH": f"{place.home}:{place.home.parent}:{tmp_path}/link:/usr/bin"}
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    allowed = allowed_paths(policy(place.workspace, "landlock", place.home, network=True), env, temporary)
    assert not any(place.home.is_relative_to(path) for path in (*allowed.read, *allowed.write))


@pytest.mark.parametrize("gitdir", ["victim/worktrees/x", "workspace/fake", "workspace"])
def test_a_planted_git_file_opens_no_other_folder(gitdir: str, place: Place, tmp_path: Path) -> None:
    """The agent has written `.git` in an earlier session; it cannot make a repository elsewhere."""
    victim, fake = tmp_path / "victim", tmp_path / gitdir
    fake.mkdir(parents=True, exist_ok=True)
    (fake / "commondir").write_text(str(victim))
    (fake / "gitdir").write_text(str(place.workspace / ".git"))
    (place.workspace / ".git").write_text(f"gitdir: {fake}\n")
    victim.mkdir(exist_ok=True)
    if "victim" not in gitdir:
        for name in ("objects", "refs"):
            (victim / name).mkdir()
        (victim / "HEAD").write_text("ref: refs/heads/main\n")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    allowed = allowed_paths(policy(place.workspace, "landlock", place.home, network=True), place.env, temporary)
    assert not any(victim.is_relative_to(path) for path in (*allowed.read, *allowed.write))
    assert not any(path.is_relative_to(victim) for path in (*allowed.read, *allowed.write))


@pytest.mark.parametrize("target", [".ssh", ".ssh/id", "other"])
def test_a_link_that_an_earlier_command_made_opens_nothing(target: str, place: Place, tmp_path: Path) -> None:
    """Commands inside can replace paths that the user named, folders on PATH and the agent's state."""
    (place.home / "other").mkdir()
    outside = place.home / target
    (place.workspace / ".venv/bin").mkdir(parents=True)
    (place.home / "shortcut").symlink_to(place.workspace / "data")
    for name in ("settings", "data", ".venv/lib", ".venv/include", "agent"):
        (place.workspace / name).symlink_to(outside)
    (place.home / ".agent/inner").symlink_to(outside)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    wanted = policy(
        place.workspace,
        "landlock",
        place.home,
        network=True,
        state=("~/.agent/inner", "~/.agent/"),
        write=(f"{place.workspace}/settings",),
        read=(f"{place.workspace}/data", "~/shortcut"),
        programs=(f"{place.workspace}/agent",),
    )
    env = {**place.env, "PATH": f"{place.workspace}/.venv/bin:/usr/bin"}
    allowed = allowed_paths(wanted, env, temporary)
    assert place.home / ".agent" in allowed.write
    assert place.workspace / ".venv/bin" in allowed.read
    for path in (*allowed.read, *allowed.write):
        assert not outside.is_relative_to(path) or outside in allowed.hidden
        assert not path.is_relative_to(outside)


def test_a_repository_that_the_agent_made_in_its_state_opens_nothing(place: Place, tmp_path: Path) -> None:
    repository = place.home / ".agent/repository"
    tree = repository / "worktrees/x"
    for folder in (tree, repository / "refs"):
        folder.mkdir(parents=True)
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    (repository / "objects").symlink_to(place.home / ".ssh")
    (tree / "commondir").write_text("../..\n")
    (tree / "gitdir").write_text(f"{place.workspace}/.git\n")
    (place.workspace / ".git").write_text(f"gitdir: {tree}\n")
    assert repository / "objects" not in git_paths([place.workspace]).write
    wanted = policy(place.workspace, "landlock", place.home, network=True, state=("~/.agent/",))
    (tmp_path / "temporary").mkdir()
    allowed = allowed_paths(wanted, place.env, tmp_path / "temporary")
    assert not any((place.home / ".ssh").is_relative_to(path) for path in (*allowed.read, *allowed.write))


@linux
@pytest.mark.parametrize("name", [".git", ".git/config"])
def test_a_fifo_among_the_files_of_git_does_not_keep_a_sandbox_from_starting(name: str, place: Place) -> None:
    if name != ".git":
        make_repository(place.workspace)
        (place.workspace / name).unlink()
    os.mkfifo(place.workspace / name)
    program = f"from dragoman.workspace.sandbox_git import *; git_paths([Path({str(place.workspace)!r})])"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=TIMEOUT_S)


@linux
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_variables_of_a_command_have_no_effect_before_it_is_confined(mechanism: str, place: Place) -> None:
    """The agent chooses the variables of its terminals: a library that it has preloaded would run outside."""
    env = {**place.env, "LD_PRELOAD": "/nonexistent/planted.so", "SHLVL": "7", "DRAGOMAN_INSIDE_NAME": "value"}
    command = ["/bin/sh", "-c", 'echo "$LD_PRELOAD $SHLVL $DRAGOMAN_INSIDE_NAME $PWD"']
    run_bare = partial(subprocess.run, command, env=env, cwd=place.workspace, capture_output=True, text=True)
    bare = await asyncio.to_thread(run_bare, check=True)
    async with place.sandbox(mechanism, network=False) as sandbox, asyncio.timeout(TIMEOUT_S):
        _, out, err = await run_in(sandbox, command, env, place.workspace)
    assert err.count("planted.so") == bare.stderr.count("planted.so")  # the loader's complaint, from the command alone
    assert out == bare.stdout


def test_a_program_in_the_home_folder_does_not_open_what_lies_beside_it(place: Place, tmp_path: Path) -> None:
    for name in (".local/bin", ".local/share/agent"):
        (place.home / name).mkdir(parents=True)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {**place.env, "PATH": f"{place.home}/.local/bin"}
    allowed = allowed_paths(policy(place.workspace, "landlock", place.home, network=True), env, temporary)
    assert place.home / ".local/bin" in allowed.read
    assert not any((place.home / ".local/share/agent").is_relative_to(path) for path in allowed.read)


def test_tools_of_the_user_open_no_logins_to_an_agent_with_a_home_of_its_own(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".local/bin", ".local/share/agent", ".cargo/bin"):
        (place.home / name).mkdir(parents=True)
    temporary, own = tmp_path / "temporary", tmp_path / "own"
    temporary.mkdir()
    own.mkdir()
    monkeypatch.setenv("HOME", str(place.home))
    env = {"HOME": str(own), "PATH": f"{place.home}/.local/bin:{place.home}/.cargo/bin:{place.home}"}
    allowed = allowed_paths(policy(place.workspace, "landlock", own, network=True), env, temporary)
    assert {place.home / ".local/bin", place.home / ".cargo/bin"} <= set(allowed.read)
    closed = [place.home, place.home / ".local/share/agent", place.home / ".cargo", place.home / ".ssh"]
    assert not [path for path in closed if any(path.is_relative_to(folder) for folder in allowed.read)]
    with pytest.raises(InputError, match="cannot be the workspace"):
        allowed_paths(policy(place.home, "landlock", own, network=True), env, temporary)


# -- git

GIT = "git -c user.name=Ada -c user.email=ada@example.com"


@linux
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_git_works_inside_and_its_hooks_and_settings_stay(mechanism: str, place: Place) -> None:
    make_repository(place.workspace)
    gitdir = place.workspace / ".git"
    for name in ("hooks", "info"):  # git works without them, and they must not appear
        shutil.rmtree(gitdir / name)
    settings = (gitdir / "config").read_bytes()
    async with place.sandbox(mechanism) as sandbox:
        out = await place.shell(
            sandbox,
            f"set -e; echo two >> file.txt; {GIT} commit -qam Second; git switch -qc side; echo new > new.txt;"
            f" git add .; {GIT} commit -qm Third; git switch -q main; {GIT} merge -q --no-ff -m Merged side;"
            f" git branch -d side; {GIT} rebase -q main; echo three >> file.txt; {GIT} stash -q; git stash pop -q;"
            " git gc -q; git status -sb",
        )
        if mechanism != "landlock without namespaces":
            await place.shell(sandbox, "mkdir .git/hooks/x .git/info/x; git config a.b c; mv .git/config x; mv .git x")
    assert "## main\n M file.txt\n" in out, out
    assert git(place.workspace, "log", "--format=%s", "--first-parent").split() == ["Merged", "Second", "First"]
    assert (gitdir / "config").read_bytes() == settings
    assert list((gitdir / "hooks").iterdir()) == []
    assert not (gitdir / "info/x").exists()


@linux
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_git_works_in_a_linked_work_tree_below_our_home(mechanism: str, place: Place, tmp_path: Path) -> None:
    repository, tree = tmp_path / "repository", place.home / ".dragoman/worktrees/tree"
    make_repository(repository)
    git(repository, "worktree", "add", "-q", "-b", "side", str(tree))
    (place.home / ".dragoman/journal").write_text("the secret")
    before = {name: (repository / ".git" / name).read_bytes() for name in ("config", "HEAD", "index")}
    place.workspace = tree
    async with place.sandbox(mechanism, network=False) as sandbox:
        out = await place.shell(
            sandbox,
            f"echo two >> file.txt; {GIT} commit -qam Second; git tag mine; git log --format=%s; git status -sb;"
            f" cat ~/.dragoman/journal; git config a.b c; echo x > {repository}/.git/hooks/post-commit;"
            f" echo x > {repository}/file.txt; echo x > {repository}/.git/HEAD",
        )
    assert out.startswith("Second\nFirst\n## side\n"), out
    assert "the secret" not in out
    assert git(repository, "log", "--format=%s", "side", "--").split() == ["Second", "First"]
    assert git(repository, "tag").split() == ["mine"]
    assert {name: (repository / ".git" / name).read_bytes() for name in before} == before
    assert not (repository / ".git/hooks/post-commit").exists()
    assert (repository / "file.txt").read_text() == "one\n"


def test_hooks_and_settings_of_submodules_and_work_trees_are_fixed(tmp_path: Path) -> None:
    make_repository(tmp_path)
    gitdir = tmp_path / ".git"
    make_repository(gitdir / "modules/libs/one", "--bare")
    git(tmp_path, "worktree", "add", "-q", str(tmp_path.parent / f"{tmp_path.name}-tree"))
    git(tmp_path, "config", "extensions.worktreeConfig", "true")
    work_tree = gitdir / f"worktrees/{tmp_path.name}-tree"
    fixed = git_paths([tmp_path]).fixed
    module = gitdir / "modules/libs/one"
    assert {gitdir / "config", gitdir / "hooks", gitdir / "config.worktree"} <= set(fixed)
    assert {module / "config", module / "hooks"} <= set(fixed)
    assert {work_tree / "commondir", work_tree / "gitdir", work_tree / "config.worktree"} <= set(fixed)
    assert all(path.exists() for path in fixed)
    assert git(tmp_path, "status", "--short") == ""


def test_a_link_to_hooks_is_reported_because_it_can_be_replaced(place: Place, tmp_path: Path) -> None:
    make_repository(place.workspace)
    hooks = place.workspace / ".git/hooks"
    shutil.rmtree(hooks)
    hooks.symlink_to("../hooks")
    (tmp_path / "temporary").mkdir()
    wanted = policy(place.workspace, "bubblewrap", place.home, network=True)
    allowed = allowed_paths(wanted, place.env, tmp_path / "temporary")
    assert allowed.replaceable == (hooks,)
    gaps = report_of(Machine(has_namespaces=True), "bubblewrap", replaceable=[str(hooks)]).not_confined
    assert any(str(hooks) in gap for gap in gaps)


def test_a_user_can_open_the_settings_of_git(place: Place, tmp_path: Path) -> None:
    make_repository(place.workspace)
    (tmp_path / "temporary").mkdir()
    settings = place.workspace / ".git/config"
    for opened, is_fixed in ((str(settings), False), (str(place.workspace), True), (str(place.workspace.parent), True)):
        wanted = policy(place.workspace, "bubblewrap", place.home, network=True, write=(opened,))
        allowed = allowed_paths(wanted, place.env, tmp_path / "temporary")
        assert (settings in allowed.fixed) == is_fixed
        assert place.workspace / ".git" in allowed.pinned
        assert (place.workspace in allowed.pinned) == (opened == str(place.workspace.parent))


# -- the network


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api.example.com", HostPattern("api.example.com")),
        ("https://API.example.com/v1", HostPattern("api.example.com", 443)),
        ("http://127.0.0.1:8080/v1", HostPattern("127.0.0.1", 8080)),
        ("http://user:key@example.com", HostPattern("example.com", 80)),
        ("[::1]:80", HostPattern("::1", 80)),
        ("*.example.com", HostPattern("*.example.com")),
        ("", None),
        ("not a host", None),
    ],
)
def test_hosts_are_read_from_names_and_addresses(text: str, expected: HostPattern | None) -> None:
    assert parse_host(text) == expected


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://127.0.0.1:80/x", 80), ("https://localhost", 443), ("http://example.com", None), ("http://[", None)],
)
def test_the_port_of_a_loopback_address_is_found(url: str, port: int | None) -> None:
    assert loopback_port(url) == port


def test_a_host_is_reached_at_the_ports_of_the_web_or_at_its_own() -> None:
    proxy = SandboxProxy([HostPattern("*.example.com"), HostPattern("127.0.0.1", 11434)])
    assert proxy.allows("api.example.com", 443)
    assert not proxy.allows("api.example.com", 22)
    assert not proxy.allows("example.com.evil.test", 443)
    assert proxy.allows("127.0.0.1", 11434)
    assert not proxy.allows("127.0.0.1", 443)
    assert proxy.open_ports == {11434}


@asynccontextmanager
async def web_server() -> AsyncIterator[int]:
    """Serve a page, and return the request's line and headers in it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nserved\n" % (7 + len(head)) + head)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


FETCH = """
import os, sys, urllib.request
os.environ.pop("no_proxy"), os.environ.pop("NO_PROXY")
proxies = {} if sys.argv[2] == "directly" else {"http": os.environ["HTTP_PROXY"]}
opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
try:
    print(opener.open(sys.argv[1], timeout=30).read().decode())
except Exception as error:
    print("refused:", getattr(error, "code", type(error).__name__), error, getattr(error, "read", bytes)())
"""


def test_a_host_that_a_rule_denies_is_not_reached_by_a_pattern_that_matches_it() -> None:
    allowed = [HostPattern("*.example.com"), HostPattern("api.model.test")]
    refused = [HostPattern("secret.example.com"), HostPattern("*.corp.example.com"), HostPattern("*.model.test")]
    proxy = SandboxProxy(allowed, refused=refused)
    assert proxy.allows("www.example.com", 443)
    assert proxy.allows("api.model.test", 443)
    assert not any(proxy.allows(host, 443) for host in ("secret.example.com", "a.corp.example.com", "b.model.test"))


@linux
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_with_the_network_off_only_allowed_hosts_are_reached(mechanism: str, place: Place) -> None:
    refused: list[str] = []

    async def fetch(sandbox: Sandbox, url: str, how: str) -> str:
        async with asyncio.timeout(TIMEOUT_S):
            command = [sys.executable, "-I", "-S", "-c", FETCH, url, how]
            return (await run_in(sandbox, command, place.env, place.workspace))[1]

    async with web_server() as model, web_server() as other:
        hosts = (f"http://127.0.0.1:{model}",)
        async with place.sandbox(mechanism, network=False, hosts=hosts, on_refused=refused.append) as sandbox:
            assert "served" in await fetch(sandbox, f"http://127.0.0.1:{model}/v1", "directly")
            through = await fetch(sandbox, f"http://127.0.0.1:{model}/v1", "through the proxy")
            assert "GET /v1 HTTP/1.1" in through
            assert "refused: " in await fetch(sandbox, f"http://127.0.0.1:{other}/", "directly")
            assert "refused: 403" in await fetch(sandbox, f"http://127.0.0.1:{other}/", "through the proxy")
            assert sandbox.report().hosts == (f"127.0.0.1:{model}",)
    assert refused == [f"127.0.0.1:{other}"]


@linux
@pytest.mark.parametrize("mechanism", ["bubblewrap", "landlock"])
async def test_a_port_that_is_opened_later_is_reached_by_commands_that_run_already(
    mechanism: str, place: Place
) -> None:
    program = "import socket, sys\nprint('up', flush=True)\nport = int(sys.stdin.readline())\n" + (
        "with socket.create_connection(('127.0.0.1', port), 30) as c:\n"
        "    c.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')\n    print(c.recv(100)[:15].decode(), flush=True)\n"
    )
    async with place.sandbox(mechanism, network=False) as sandbox, web_server() as port:
        command, env = sandbox.wrap([sys.executable, "-I", "-S", "-c", program], place.env)
        link = await spawn(command, cwd=place.workspace, env=env, name="program")
        async with asyncio.timeout(TIMEOUT_S):
            assert await link.read() == b"up\n"
            await sandbox.open_port(port)
            link.write(f"{port}\n".encode())
            assert await link.read() == b"HTTP/1.1 200 OK\n"
        await link.end()


async def test_a_port_cannot_be_opened_later_without_a_namespace() -> None:
    proxy = SandboxProxy([])
    await proxy.listen_on_port()
    with pytest.raises(StartError, match="cannot reach port 4000"):
        await proxy.open_port(4000)
    await proxy.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "::1", "169.254.169.254", "0.0.0.0"])
async def test_a_name_that_leads_to_this_machine_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(host: str, port: int, **more: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    proxy = SandboxProxy([HostPattern("*.example.com")])
    port = await proxy.listen_on_port()
    reader, writer = await asyncio.open_connection(
        sock=await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port))
    )
    writer.write(b"CONNECT evil.example.com:443 HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    await proxy.close()
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"leads to this machine" in answer


def test_every_address_of_this_machine_is_near() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it chooses the address that leads outside
        except OSError:
            pytest.skip("this machine has no address but loopback")
        own = probe.getsockname()[0]
    assert _is_near(own)
    assert not _is_near("192.0.2.1")


async def test_a_request_names_the_host_that_was_allowed() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        proxy = SandboxProxy([HostPattern("127.0.0.1", port)])
        reader, writer = await asyncio.open_connection("127.0.0.1", await proxy.listen_on_port())
        target = f"http://127.0.0.1:{port}/x"
        writer.write(f"GET {target} HTTP/1.1\r\nhost: internal.example\r\nX-A: 1\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        await proxy.close()
    assert answer.startswith(b"HTTP/1.1 204")
    assert heads[0].split(b"\r\n")[:2] == [b"GET /x HTTP/1.1", f"Host: 127.0.0.1:{port}".encode()]
    assert b"internal.example" not in heads[0]


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1", b"nonsense", b"GET ftp://x/ HTTP/1.1"])
async def test_the_proxy_survives_what_is_no_request_for_a_proxy(line: bytes) -> None:
    proxy = SandboxProxy([HostPattern("example.com")])
    port = await proxy.listen_on_port()
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(line + b"\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    await proxy.close()
