"""A user's machine to attack from inside a sandbox, and the mechanisms that can be had here."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.install import cache_folder
from dragoman.workspace.sandbox import Sandbox, this_machine, try_bubblewrap
from dragoman.workspace.sandbox_policy import Machine, SandboxPolicy

ATTACKER = Path(__file__).with_name("sandbox_attacker.py")

SECRET = "the-secret-of-the-user-41b2"

VICTIM = """
import ctypes, os, signal, sys
file = open("id_ed25519", "rb")
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER: where the kernel asks, all may trace
buffer = ctypes.create_string_buffer(b"in memory", 16)
print(file.fileno(), ctypes.addressof(buffer), flush=True)
sys.stdin.read()
"""


def find_bwrap() -> str | None:
    """Return bubblewrap: the system's, or the one that the tests' Codex brings with it."""
    if found := shutil.which("bwrap"):
        return found
    pattern = "codex/node_modules/@openai/codex-linux-*/vendor/*/codex-resources/bwrap"
    return next((str(path) for path in (cache_folder() / "agents").glob(pattern)), None)


def machine_with(mechanism: str) -> Machine:
    """Return this machine as a mechanism needs it; skip the test where it cannot be had."""
    machine = this_machine()
    match mechanism:
        case "bubblewrap":
            machine = try_bubblewrap(machine, find_bwrap())
        case "landlock without namespaces":
            machine = msgspec.structs.replace(machine, has_namespaces=False)
        case "landlock" if not machine.has_namespaces:
            pytest.skip("this user cannot make namespaces")
    if problem := machine.problem("bubblewrap" if mechanism == "bubblewrap" else "landlock"):
        pytest.skip(problem)
    return machine


MECHANISMS = ("bubblewrap", "landlock", "landlock without namespaces")


def policy(folder: Path, mechanism: str, home: Path, *, network: bool, **more: Any) -> SandboxPolicy:
    return SandboxPolicy(
        mechanism="bubblewrap" if mechanism == "bubblewrap" else "landlock",
        folders=(folder,),
        network=network,
        hidden=home / ".dragoman",
        **more,
    )


async def run_in(sandbox: Sandbox, command: list[str], env: dict[str, str], cwd: Path) -> tuple[int, str, str]:
    """Run a command in a sandbox to its end; return its exit code, stdout and stderr."""
    line, environment = sandbox.wrap(command, env)
    process = await asyncio.create_subprocess_exec(
        *line,
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def git(folder: Path, *words: str) -> str:
    """Run git without the settings of this machine's user."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    user = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    done = subprocess.run(["git", *user, *words], cwd=folder, env=env, capture_output=True, check=True, text=True)
    return done.stdout


def make_repository(folder: Path, *options: str) -> None:
    """Make a repository; one with files gets a commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main", *options)
    if not options:
        (folder / "file.txt").write_text("one\n")
        git(folder, "add", "file.txt")
        git(folder, "commit", "-q", "-m", "First")


class Target:
    """A home folder with secrets, and services, processes and memory of its user. `facts` are for the attacker."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.home = folder / "user"
        self.outside = folder / "outside"
        self.workspace = folder / "workspace"
        self.repository = folder / "repository"
        self.tree = self.home / ".dragoman/worktrees/tree"  # a linked work tree of it, as a session has one
        self._stack = stack
        files = {
            self.home / ".ssh/id_ed25519": SECRET,
            self.home / ".codex/auth.json": SECRET,
            self.home / ".aws/credentials": SECRET,
            self.home / ".cargo/credentials.toml": SECRET,
            self.home / ".cargo/bin/tool": "a tool",
            self.home / ".dragoman/secrets": SECRET,
            self.home / ".dragoman/config.toml": "",
            self.home / ".bashrc": "# mine\n",
            self.outside / ".env": SECRET,
            **{self.outside / f"{name}.txt": "mine" for name in ("victim", "truncated", "deleted", "renamed")},
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.workspace.mkdir()
        self.facts: dict[str, Any] = {
            "secret": SECRET,
            "home": str(self.home),
            "outside": str(self.outside),
            "workspace": str(self.workspace),
            "tree": str(self.tree),
            "repository": str(self.repository / ".git"),
            "dragoman_home": str(self.home / ".dragoman"),
            "tcp": self._serve(socket.AF_INET, ("127.0.0.1", 0))[1],
            "tcp6": self._serve_ipv6(),
            "udp": self._serve_datagrams(socket.AF_INET, ("127.0.0.1", 0))[1],
            "unix": self._serve(socket.AF_UNIX, str(self.home / "agent.socket")),
            "bus": self._serve(socket.AF_UNIX, str(self.home / "bus")),
            "abstract": f"dragoman-test-{os.getpid()}",
            "segment": self._segment(),
            "key": self._key(),
            "shm": self._shared_memory(),
            "terminal": self._terminal(),
            "device": self._device(),
            "namespaces": this_machine().has_namespaces,
            "setuid": str(self.workspace / "id") if os.geteuid() == 0 else "",
            **self._victim(),
        }
        self._serve(socket.AF_UNIX, "\0" + self.facts["abstract"])
        self._serve_datagrams(socket.AF_UNIX, "\0" + self.facts["abstract"] + "-datagrams")

    @property
    def env(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "TARGET": json.dumps(self.facts),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.facts['bus']}",
        }

    def command(self, *attacks: str) -> list[str]:
        return [sys.executable, "-I", "-S", str(self.workspace / ATTACKER.name), *attacks]

    def reset(self) -> None:
        """Make the workspace, and the files that attacks remove, new again."""
        for folder in (self.workspace, self.repository, self.tree):
            shutil.rmtree(folder, ignore_errors=True)
        make_repository(self.workspace)
        make_repository(self.workspace / ".git/modules/libs/one", "--bare")
        make_repository(self.repository)
        git(self.repository, "worktree", "add", "-q", str(self.tree))
        shutil.copy(ATTACKER, self.workspace)
        self._make_setuid_program()
        for name in ("truncated", "deleted", "renamed"):
            (self.outside / f"{name}.txt").write_text("mine")
        for name in ("planted", "carrier", "folder", "raced.txt", "renamed-2.txt"):
            path = self.outside / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (self.home / "planted").unlink(missing_ok=True)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Connect to the port that an attack listens on, once it has written its number to the workspace."""
        is_over = threading.Event()

        def connect() -> None:
            while not is_over.wait(0.02):
                try:
                    port = int((self.workspace / "port").read_text())
                except OSError:
                    continue  # not yet
                try:
                    with socket.create_connection(("127.0.0.1", port), 5) as connection:
                        connection.sendall(SECRET.encode())
                except OSError:
                    (self.workspace / "refused").touch()
                return

        thread = threading.Thread(target=connect)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    # -- what can be attacked

    def _serve(self, family: int, address: Any) -> Any:
        listener = self._stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listener.bind(address)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(SECRET.encode())
                except OSError:
                    return

        self._thread(serve, listener)
        return listener.getsockname()

    def _serve_ipv6(self) -> int:
        try:
            port: int = self._serve(socket.AF_INET6, ("::1", 0))[1]
        except OSError:
            return 0
        return port

    def _serve_datagrams(self, family: int, address: Any) -> Any:
        connection = self._stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        connection.bind(address)

        def serve() -> None:
            while True:
                try:
                    _, sender = connection.recvfrom(100)
                    if sender:
                        connection.sendto(SECRET.encode(), sender)
                except OSError:
                    return

        self._thread(serve, connection)
        return connection.getsockname()

    def _thread(self, serve: Any, connection: socket.socket) -> None:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()

        def stop() -> None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # wakes it

        self._stack.callback(stop)

    def _victim(self) -> dict[str, int]:
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", VICTIM, "victim"],
                cwd=self.home / ".ssh",
                env={"SECRET": SECRET},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        self._stack.callback(process.kill)
        assert process.stdout is not None
        descriptor, address = map(int, process.stdout.readline().split())
        return {"pid": process.pid, "fd": descriptor, "address": address}

    def _segment(self) -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        segment: int = libc.shmget(0, 4096, 0o1600)
        assert segment >= 0
        self._stack.callback(libc.shmctl, segment, 0, None)
        libc.shmat.restype = ctypes.c_void_p
        address = libc.shmat(segment, None, 0)
        ctypes.memmove(address, SECRET.encode(), len(SECRET))
        libc.shmdt(ctypes.c_void_p(address))
        return segment

    def _key(self) -> str:
        """Put a key into the user's keyring; empty where the kernel has none."""
        libc = ctypes.CDLL(None, use_errno=True)
        add, keyctl = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
        name, user_keyring, revoke = f"dragoman-test-{os.getpid()}", -4, 3
        key = libc.syscall(add, b"user", name.encode(), SECRET.encode(), len(SECRET), user_keyring)
        if key < 0:
            return ""
        all_rights_of_the_user = 0x003F_0000 | 0x3F00_0000
        libc.syscall(keyctl, 5, key, all_rights_of_the_user)
        self._stack.callback(libc.syscall, keyctl, revoke, key)
        return name

    def _shared_memory(self) -> str:
        path = Path(f"/dev/shm/dragoman-test-{os.getpid()}")
        path.write_text(SECRET)
        self._stack.callback(path.unlink, missing_ok=True)
        return str(path)

    def _terminal(self) -> str:
        master, slave = os.openpty()
        for descriptor in (master, slave):
            self._stack.callback(os.close, descriptor)
        return os.ttyname(slave)

    def _device(self) -> tuple[int, int] | None:
        """Return the numbers of the kernel's log, which only root reads; None where it cannot be opened here."""
        try:
            with open("/dev/kmsg", "rb"):
                return os.major(os.stat("/dev/kmsg").st_rdev), os.minor(os.stat("/dev/kmsg").st_rdev)
        except OSError:
            return None

    def _make_setuid_program(self) -> None:
        """Copy `id` to the workspace, owned by another user, with the set-user-id bit; only root can."""
        if os.geteuid() == 0:
            program = self.workspace / "id"
            shutil.copy(shutil.which("id") or "/usr/bin/id", program)
            os.chown(program, 65534, 65534)
            program.chmod(0o4755)


def attack_outside(target: Target) -> dict[str, str]:
    """Run all attacks without a sandbox."""
    target.reset()
    with target.answering():
        done = subprocess.run(
            target.command(), cwd=target.workspace, env=target.env, capture_output=True, check=True, timeout=300
        )
    outcome: dict[str, str] = json.loads(done.stdout)
    return outcome


def outcome_of(output: str) -> dict[str, str]:
    """Read what the attacker printed."""
    outcome: dict[str, str] = json.loads(output)
    return outcome
