"""`Sandbox`: the kernel keeps an agent, and every command that it starts, to a few folders, and from the network.

A `SandboxPolicy` says what is wanted; `Sandbox.start` chooses a mechanism for it, or refuses with the reason; `wrap`
returns the command line that starts a command inside. The mechanisms:

bubblewrap  namespaces, made by the program `bwrap`: all that is not bound does not exist inside
landlock    Landlock and seccomp, by system calls (`_sandbox_main.py`); with the network off also a user namespace
seatbelt    `sandbox-exec` of macOS, with a generated profile; not tested

Promised: a command of `wrap` writes only to the workspace, the sandbox's temporary folder, the agent's state and the
folders that the user added, but not to the hooks and settings of git there. It reads these, the system and the tools
that `sandbox.toml` lists, and nothing else. What a mechanism cannot confine on this machine is in
`report.not_confined`. A sandbox that cannot be had is an error, never less of it.

Not promised: what happens later with files that the agent wrote to the workspace, such as build scripts.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from dragoman.errors import SandboxUnavailable
from dragoman.protocol.models import SandboxReport
from dragoman.workspace import _sandbox_main
from dragoman.workspace.sandbox_network import HostPattern, SandboxProxy, parse_host
from dragoman.workspace.sandbox_paths import AllowedPaths, allowed_paths, sandbox_lists, split_around
from dragoman.workspace.sandbox_policy import (
    Machine,
    Mechanism,
    SandboxPolicy,
    choose_mechanism,
    report_of,
)

# Seconds for a trial of a mechanism; it takes some 10 ms.
TRIAL_TIMEOUT_S: Final = 10.0

# The port of the forwarder inside a network namespace, where nothing else listens.
FORWARDER_PORT: Final = 3128

# Characters of a folder that has a socket in it: the kernel takes 107 for the socket.
MAX_FOLDER_CHARS: Final = 90

# Inside bubblewrap, the sandbox's own temporary folder has this name.
_TMP: Final = Path("/tmp")  # noqa: S108

_LAUNCHER: Final = Path(_sandbox_main.__file__)
_SHELL_IGNORING_SIGNALS: Final = ("/bin/sh", "-c", 'trap "" INT TERM; exec "$@"', "sh")


# -- what this machine offers


@cache
def this_machine() -> Machine:
    """Try the mechanisms, once in a process. Blocks for some 30 ms."""
    if sys.platform == "darwin":
        found = shutil.which("sandbox-exec")
        return Machine(seatbelt=Path(found) if found else None, bwrap_problem="only Linux has bubblewrap")
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER)]
    machine = Machine(
        landlock_version=_sandbox_main.landlock_version(),
        has_seccomp=platform.machine() in _sandbox_main.AUDIT_ARCH and _sandbox_main.has_seccomp(),
        has_namespaces=not _trial([*launcher, json.dumps({"namespaces": {"network": True}}), _true()]),
    )
    return try_bubblewrap(machine, shutil.which("bwrap"))


def try_bubblewrap(machine: Machine, program: str | None) -> Machine:
    """Return the machine with this bubblewrap, as far as it works."""
    if program is None or not os.path.isabs(program):  # one in the current folder may be planted
        return msgspec.structs.replace(machine, bwrap_problem="bubblewrap (bwrap) is not installed")
    problem = _trial([program, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", _true()])
    words = _output([program, "--version"]).split()
    version = words[-1] if words and words[-1][:1].isdigit() else ""
    return msgspec.structs.replace(machine, bwrap=Path(program), bwrap_version=version, bwrap_problem=problem)


def _true() -> str:
    return shutil.which("true") or "/bin/true"


def _trial(command: Sequence[str]) -> str:
    """Run a command; return its complaint, or an empty text where it succeeds."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{Path(command[0]).name} does not run here: {error}"
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"{Path(command[0]).name} does not work here: {lines[-1] if lines else f'exit code {done.returncode}'}"


def _output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=TRIAL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


# -- the sandbox


class Sandbox:
    """Made by `start`; `close` removes its temporary folder, after the last command in it has ended."""

    def __init__(self, policy: SandboxPolicy, machine: Machine, mechanism: Mechanism, temporary: Path) -> None:
        self.policy = policy
        self.temporary = temporary
        self._machine = machine
        self._mechanism = mechanism
        self._has_namespace = mechanism == "bubblewrap" or (mechanism == "landlock" and machine.has_namespaces)
        self._hosts: tuple[HostPattern, ...] = ()
        self._proxy: SandboxProxy | None = None
        self._proxy_port = FORWARDER_PORT
        self._allowed: AllowedPaths | None = None
        self._landlock_files: dict[str, list[str]] = {}

    @classmethod
    async def start(
        cls,
        policy: SandboxPolicy,
        env: Mapping[str, str],
        *,
        machine: Machine | None = None,
        on_refused: Callable[[str], None] | None = None,
    ) -> Sandbox:
        """Prepare a sandbox for an agent with this environment. `SandboxUnavailable` where it cannot be had.

        `on_refused` is called with each `host:port` that was refused.
        """
        if machine is None:
            machine = await asyncio.to_thread(this_machine)
        mechanism = choose_mechanism(policy.mechanism, machine)
        if (
            not policy.network
            and mechanism == "landlock"
            and not machine.has_namespaces
            and machine.landlock_version < 4
        ):
            raise SandboxUnavailable(
                f"the network cannot be turned off here: Landlock {machine.landlock_version} does not know TCP, "
                "and this user cannot make namespaces",
                guidance="Install bubblewrap, or leave the network on.",
            )
        sandbox = cls(policy, machine, mechanism, _temporary_folder())
        try:
            if not policy.network:
                await sandbox._start_proxy(env, on_refused)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    async def _start_proxy(self, env: Mapping[str, str], on_refused: Callable[[str], None] | None) -> None:
        # `$NAME` is the address in that variable.
        texts = [env.get(text[1:], "") if text.startswith("$") else text for text in self.policy.hosts]
        self._hosts = tuple(host for text in texts if (host := parse_host(text)) is not None)
        refused = [host for text in self.policy.refused_hosts if (host := parse_host(text)) is not None]
        self._proxy = SandboxProxy(self._hosts, on_refused, refused)
        if self._has_namespace:
            await self._proxy.listen_on_socket(self._socket)
        else:
            self._proxy_port = await self._proxy.listen_on_port()

    @property
    def _socket(self) -> Path:
        return self.temporary / "proxy"

    async def close(self) -> None:
        if self._proxy is not None:
            await self._proxy.close()
        await asyncio.to_thread(shutil.rmtree, self.temporary, ignore_errors=True)

    async def open_port(self, port: int) -> None:
        """Let commands inside reach a port of this machine's loopback, where the network is off."""
        if self._proxy is not None:
            await self._proxy.open_port(port)

    @property
    def is_used(self) -> bool:
        """True once a command was wrapped."""
        return self._allowed is not None

    def contains(self, folders: Iterable[Path]) -> bool:
        """Return whether all these folders can be written inside."""
        return all(any(folder.is_relative_to(each) for each in self.policy.folders) for folder in folders)

    def write_refusal(self, path: Path) -> str | None:
        """Return why a file of the workspace cannot be written inside; None where it can. The path has no links."""
        fixed = (*self._allowed.fixed, *self._allowed.replaceable) if self._allowed is not None else ()
        if any(path.is_relative_to(each) for each in fixed):
            return f"{path} cannot be written in a sandbox: your git would run what it says"
        return None

    # -- commands

    def wrap(self, command: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return the command line that starts `command` inside, and its environment. The program's path is absolute.

        The first call, for the agent, finds the paths: it blocks for some milliseconds, and creates state folders.
        """
        if self._allowed is None:
            allowed = allowed_paths(self.policy, env, self.temporary / "tmp", command[0])
            self._landlock_files = _landlock_files(allowed, has_own_devices=self._has_namespace)
            self._allowed = allowed
        environment = self._environment(env)
        match self._mechanism:
            case "bubblewrap":
                line = [*_SHELL_IGNORING_SIGNALS, *self._bwrap(self._allowed), *self._launcher(), *command]
                return line, _for_launcher(environment)
            case "landlock":
                return [*self._launcher(), *command], _for_launcher(environment)
            case "seatbelt":
                profile = seatbelt_profile(self._allowed, self._outer_port(), self._open_ports())
                return [str(self._machine.seatbelt), "-p", profile, *command], environment

    @property
    def _inner_temporary(self) -> str:
        return str(_TMP) if self._mechanism == "bubblewrap" else str(self.temporary / "tmp")

    def _environment(self, env: Mapping[str, str]) -> dict[str, str]:
        lists = sandbox_lists()
        unset = {*lists.unset["names"], "XDG_RUNTIME_DIR"}
        environment = {name: value for name, value in env.items() if name not in unset}
        for name, value in {**lists.env, **self.policy.env}.items():
            if "{tmp}" in value or not environment.get(name):
                environment[name] = value.replace("{tmp}", self._inner_temporary)
        if self._proxy is not None:
            proxy = f"http://127.0.0.1:{self._proxy_port}"
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
                environment[name] = environment[name.lower()] = proxy
            # Ports of loopback that are open are reached directly.
            environment["NO_PROXY"] = environment["no_proxy"] = "localhost,127.0.0.1,::1"
            environment["NODE_USE_ENV_PROXY"] = "1"  # Node's own fetch asks for proxies only then
        return environment

    def _launcher(self) -> list[str]:
        plan = self._bwrap_plan() if self._mechanism == "bubblewrap" else self._landlock_plan()
        return [sys.executable, "-I", "-S", str(_LAUNCHER), json.dumps(plan)]

    def _bwrap_plan(self) -> dict[str, object]:
        """Return what the launcher adds inside: it keeps from abstract sockets of the network that it may share."""
        return {
            "landlock": {} if self._machine.landlock_version >= 6 else None,
            "seccomp": {"sockets": "local"} if self._machine.has_seccomp else None,
            "network": self._network_plan(),
        }

    def _landlock_plan(self) -> dict[str, object]:
        outer_port = self._outer_port()
        ports = None if outer_port is None else [outer_port, *self._open_ports()]
        return {
            "namespaces": self._namespaces_plan() if self._has_namespace else None,
            "network": self._network_plan(),
            "landlock": {"files": self._landlock_files, "tcp_ports": ports},
            "seccomp": {
                "sockets": "tcp" if ports is not None else "internet",
                "is_sharing_denied": not self._has_namespace,
                "are_others_denied": True,
            },
        }

    def _namespaces_plan(self) -> dict[str, object]:
        pinned, fixed = ((), ()) if self._allowed is None else (self._allowed.pinned, self._allowed.fixed)
        return {
            "network": self._proxy is not None,
            "pinned": [str(path) for path in pinned],
            "fixed": [str(path) for path in fixed],
        }

    def _network_plan(self) -> dict[str, object] | None:
        if self._proxy is None or not self._has_namespace:
            return None
        return {"socket_path": str(self._socket), "proxy_port": self._proxy_port, "ports": self._open_ports()}

    def _outer_port(self) -> int | None:
        """Return the port of the proxy on this machine's own loopback; None with the network on, or a namespace."""
        return self._proxy_port if self._proxy is not None and not self._has_namespace else None

    def _open_ports(self) -> list[int]:
        return sorted(self._proxy.open_ports) if self._proxy is not None else []

    def _bwrap(self, allowed: AllowedPaths) -> list[str]:
        """Return bubblewrap's own command line."""
        options = [str(self._machine.bwrap), "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"]
        options += ["--unshare-cgroup-try", *(["--unshare-net"] if self._proxy is not None else [])]
        own = self.temporary / "tmp"
        mounts = {path: ["--ro-bind", str(path), str(path)] for path in allowed.read}
        mounts |= {path: _hide(path) for path in allowed.hidden}
        mounts |= {path: ["--bind", str(path), str(path)] for path in allowed.write if path != own}
        # A mount cannot be renamed or removed. Those that are gone by now were removed outside.
        mounts |= {path: ["--bind-try", str(path), str(path)] for path in allowed.pinned}
        mounts |= {path: ["--ro-bind-try", str(path), str(path)] for path in allowed.fixed}
        mounts |= {Path("/proc"): ["--proc", "/proc"], Path("/dev"): ["--dev", "/dev"]}
        # Root could write there: bubblewrap leaves to the rights of files what it does not expect of other users.
        kernel = [Path("/proc") / name for name in ("sys", "sysrq-trigger", "fs", "irq", "bus", "acpi", "scsi")]
        mounts |= {path: ["--ro-bind", str(path), str(path)] for path in kernel if path.exists()}
        mounts[_TMP] = ["--bind", str(own), str(_TMP)]
        if self._proxy is not None:
            mounts[self._socket] = ["--bind", str(self._socket), str(self._socket)]
        # The outer ones first: a mount covers all that was at its place before.
        for path in sorted(mounts, key=lambda path: len(path.parts)):
            options += mounts[path]
        bound = mounts.keys()
        for link in allowed.links:
            if not any(link.is_relative_to(path) for path in bound):
                options += ["--symlink", os.readlink(link), str(link)]
        return [*options, "--dir", str(allowed.home), "--remount-ro", "/", "--"]

    # -- what it confines

    def report(self) -> SandboxReport:
        return report_of(
            self._machine,
            self._mechanism,
            network=self.policy.network,
            hosts=tuple(map(str, self._hosts)),
            writable=(*map(str, self.policy.folders), *self.policy.state, *self.policy.write),
            replaceable=tuple(map(str, self._allowed.replaceable)) if self._allowed is not None else (),
            is_ours_writable=any(self.contains([path.resolve()]) for path in (Path(sys.prefix), _LAUNCHER)),
        )


def _for_launcher(env: Mapping[str, str]) -> dict[str, str]:
    """Rename the variables for the way to the launcher, which gives the command their own names.

    The agent chooses those of its terminals. The programs that run before the command is confined must not heed them:
    `LD_PRELOAD` would have them run the agent's code outside of the sandbox.
    """
    return {f"{_sandbox_main.VARIABLE_PREFIX}{name}": value for name, value in env.items()}


def _hide(path: Path) -> list[str]:
    return ["--perms", "0555", "--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]


def _temporary_folder() -> Path:
    """Make a folder for one sandbox: what commands may write to is in it, beside the socket of the proxy."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="dragoman-")))
    if len(str(folder)) > MAX_FOLDER_CHARS:
        folder.rmdir()
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="dragoman-", dir=_TMP)))
    (folder / "tmp").mkdir()
    return folder


def _landlock_files(allowed: AllowedPaths, *, has_own_devices: bool) -> dict[str, list[str]]:
    """Return the paths for Landlock by right. `has_own_devices`: terminals and shared memory are the sandbox's own."""
    whole: list[Path] = []
    listed: list[Path] = []
    for folder in allowed.read:
        paths, folders = split_around(folder, allowed.hidden)
        whole += paths
        listed += folders
    return {
        "read": [str(path) for path in whole],
        "list": [str(path) for path in listed],
        "write": [*map(str, allowed.write), *(["/dev/shm"] if has_own_devices else [])],  # noqa: S108
        "device": [device for device in sandbox_lists().devices if os.path.exists(device)],
        "devices": ["/dev/pts"] if has_own_devices else [],
    }


def seatbelt_profile(allowed: AllowedPaths, proxy_port: int | None, ports: Sequence[int]) -> str:
    """Return a profile for `sandbox-exec` of macOS. It follows the published rules, and was not tested."""

    def paths(action: str, each: Iterable[Path]) -> list[str]:
        return [f"({action} (subpath {_quote(path)}))" for path in each]

    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow file-read-metadata)",
        "(allow pseudo-tty)",
        '(allow file-read* file-write* file-ioctl (regex #"^/dev/(null|zero|random|urandom|tty|ptmx|dtracehelper)$"))',
        '(allow file-read* file-write* file-ioctl (regex #"^/dev/ttys[0-9]+$"))',
        '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
        *paths("allow file-read*", allowed.read),
        *paths("deny file-read*", allowed.hidden),
        *paths("allow file-read* file-write*", allowed.write),
        *paths("deny file-write*", allowed.fixed),
        *(f"(deny file-write-unlink (literal {_quote(path)}))" for path in allowed.pinned),
    ]
    if proxy_port is None:
        lines += ["(allow network*)", "(allow system-socket)"]
        lines += ['(allow mach-lookup (global-name "com.apple.mDNSResponder"))']
    else:
        lines += [f'(allow network-outbound (remote ip "localhost:{port}"))' for port in (proxy_port, *ports)]
    return "\n".join(lines)


def _quote(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
