"""The sandbox as data: `SandboxPolicy`, what is wanted; `Machine`, what there is; and what is confined.

Light to import, because every agent's spec may have a policy.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from dragoman.errors import SandboxUnavailable
from dragoman.protocol.models import SandboxMechanism, SandboxReport

Mechanism: TypeAlias = SandboxMechanism
MECHANISMS: Final[tuple[Mechanism, ...]] = ("bubblewrap", "landlock", "seatbelt")

# The lowest version that keeps files from being truncated, which is as bad as writing them.
MIN_LANDLOCK_VERSION: Final = 3


def loopback_port(url: str) -> int | None:
    """Return the port of a URL on this machine; None of another one."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "ws": 80}.get(parts.scheme, 443)
    except ValueError:
        return None
    return port if parts.hostname in ("localhost", "127.0.0.1", "::1") else None


class CommandWrapper(Protocol):
    """A sandbox: it changes the command line and the environment with which a program is started.

    `write_refusal` returns why a file cannot be written inside, or None: what the agent asks us to write, we write
    outside of it.
    """

    def wrap(self, command: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]: ...

    def write_refusal(self, path: Path) -> str | None: ...


class SandboxNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of an agent in a sandbox, from its preset.

    `state`: its own files; one that ends with `/` is a folder, and created. `hosts`: of its model, `$NAME` for the
    address in a variable. `env`: variables that it gets in a sandbox only, where the user has not set them; those with
    `{tmp}`, the temporary folder, always.
    """

    state: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    env: dict[str, str] = {}


class SandboxPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The confinement that a session wants, as data. Paths may begin with `~`, the HOME of the agent.

    `folders` are those of the workspace. `state`, `hosts` and `env` are as in `SandboxNeeds`; the hosts are reachable
    although the network is off, but for the `refused_hosts` that their patterns match. `programs` are files of the
    agent's command line, whose folders can be read. `hidden` is our own home folder. `users_home` is the user's, where
    the agent has a HOME of its own: tools are looked for there, and secrets hidden.
    """

    mechanism: Mechanism | Literal["auto"] = "auto"
    folders: tuple[Path, ...]
    state: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool = True
    hosts: tuple[str, ...] = ()
    refused_hosts: tuple[str, ...] = ()
    env: dict[str, str] = {}
    programs: tuple[str, ...] = ()
    hidden: Path | None = None
    users_home: Path | None = None


def describe_sandbox(report: SandboxReport) -> str:
    """Return one line about a sandbox: the mechanism, and the state of the network."""
    network = {"open": "network open", "off": "network off", "hosts": f"network: only {', '.join(report.hosts)}"}
    return f"{report.mechanism} {report.version}".strip() + f", {network[report.network]}"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The mechanisms of a machine, found by trial."""

    bwrap: Path | None = None
    bwrap_version: str = ""
    bwrap_problem: str = ""
    landlock_version: int = 0
    has_seccomp: bool = False
    has_namespaces: bool = False  # of a user and a network, without root
    seatbelt: Path | None = None

    def problem(self, mechanism: Mechanism) -> str:
        """Return why a mechanism cannot be used here; empty where it can."""
        match mechanism:
            case "bubblewrap":
                return self.bwrap_problem
            case "landlock" if not sys.platform.startswith("linux"):
                return "only Linux has Landlock"
            case "landlock" if self.landlock_version == 0:
                return "this kernel has no Landlock, or it is turned off"
            case "landlock" if self.landlock_version < MIN_LANDLOCK_VERSION:
                return f"this kernel's Landlock has version {self.landlock_version}, which lets files be truncated"
            case "landlock" if not self.has_seccomp:
                return f"seccomp filters cannot be used here ({platform.machine()})"
            case "landlock":
                return ""
            case "seatbelt":
                return "" if self.seatbelt else "only macOS has sandbox-exec"

    @property
    def usable(self) -> tuple[Mechanism, ...]:
        return tuple(mechanism for mechanism in MECHANISMS if not self.problem(mechanism))


def choose_mechanism(wanted: Mechanism | Literal["auto"], machine: Machine) -> Mechanism:
    """Return the mechanism to use; `SandboxUnavailable` says why there is none."""
    if wanted != "auto":
        if problem := machine.problem(wanted):
            others = f" Usable here: {', '.join(machine.usable)}." if machine.usable else ""
            raise SandboxUnavailable(
                f"a sandbox by {wanted} was asked for, and cannot be had: {problem}",
                guidance=f"Run without it only if you trust the agent.{others}",
            )
        return wanted
    if machine.usable:
        return machine.usable[0]
    own = ("seatbelt",) if sys.platform == "darwin" else ("bubblewrap", "landlock")
    problems = "; ".join(machine.problem(mechanism) for mechanism in MECHANISMS if mechanism in own)
    raise SandboxUnavailable(
        f"a sandbox was asked for, and cannot be had here: {problems}",
        guidance="Install bubblewrap (bwrap), or run Dragoman in a container and without --sandbox.",
    )


_OTHER_PROCESSES: Final = "memory, environment and files of other processes"
_KERNEL: Final = "the kernel's keyrings, and programs that change the user"
_CONFINED: Final = (
    "writing elsewhere than in the workspace, the agent's own state and a temporary folder",
    "reading other files of the home folder, such as keys and other agents' logins",
    "devices",
    f"{_OTHER_PROCESSES}, and signals to them",
    "sockets of other programs, such as D-Bus, Docker and ssh-agent",
    _KERNEL,
)


def report_of(
    machine: Machine,
    mechanism: Mechanism,
    *,
    network: bool = True,
    hosts: Sequence[str] = (),
    writable: Sequence[str] = (),
    replaceable: Sequence[str] = (),
    is_ours_writable: bool = False,
) -> SandboxReport:
    """Return what a mechanism confines on a machine, and what it does not.

    `replaceable` are symbolic links to hooks or settings of git. `is_ours_writable`: our program is in the workspace.
    """
    gaps: list[str] = []
    version = ""
    confined = list(_CONFINED)
    match mechanism:
        case "bubblewrap":
            version = machine.bwrap_version
            if network and machine.landlock_version < 6:
                gaps.append("abstract sockets of other programs, such as those of X11 (needs Landlock 6)")
            if not machine.has_seccomp:
                confined.remove(_KERNEL)
                gaps.append("the kernel's keyrings (needs seccomp)")
        case "landlock":
            version = str(machine.landlock_version)
            gaps += [
                "mode, owner and times of files elsewhere (chmod)",
                "existence and size of files elsewhere (stat)",
                "names, command lines and priorities of other processes",
            ]
            if machine.landlock_version < 6:
                confined[3] = _OTHER_PROCESSES
                gaps.append("signals to your other processes (needs Landlock 6)")
            if machine.landlock_version < 5:
                gaps.append("ioctl on devices that were opened before (needs Landlock 5)")
            if not machine.has_namespaces:
                confined.append("shared memory and new terminals, which cannot be used at all")
            if not network and not machine.has_namespaces:
                gaps.append("TCP to other machines at the port numbers of Dragoman's proxy and of a model on this one")
        case "seatbelt":
            gaps.append("nothing of this was tested: Seatbelt is built by its documentation")
    if mechanism == "landlock" and not machine.has_namespaces:
        gaps.append("hooks and settings of git, whose programs your git runs (needs user namespaces)")
    else:
        confined.append("hooks and settings of git, whose programs your git would run")
        gaps.append(
            "programs that your git runs in other repositories inside the workspace, by a .git/commondir, or after you "
            "changed its settings meanwhile"
        )
        gaps += [
            f"{path}, a symbolic link that the agent can replace, and that your git follows" for path in replaceable
        ]
    if is_ours_writable:
        gaps.append("Dragoman itself, which is installed in the workspace, where the agent can change it")
    if network:
        gaps.append("the network, services on this machine included")
    else:
        confined.append(
            "the network, but for the hosts of the agent's model (with --network hosts, also of your rules)"
        )
    gaps.append("keys in the environment that it inherits")
    gaps.append("what you run later of the files that it wrote")
    return SandboxReport(
        mechanism=mechanism,
        version=version,
        network="open" if network else "hosts" if hosts else "off",
        hosts=tuple(hosts) if not network else (),
        writable=tuple(writable),
        confined=tuple(confined),
        not_confined=tuple(gaps),
    )
